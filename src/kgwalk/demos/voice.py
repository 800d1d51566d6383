"""The words of a thought: what a walker says before it acts, as templates by occasion and style.

    Voice("plain", random.Random(0)).say("found", names="Big")     # "The graph says Big."

Styles: "none" says nothing, "terse" a few words, "plain" a sentence on what was found and one on what comes next,
"reflective" also says what the question needs and checks what was found. The template is drawn from the demo's own
random numbers. The markup around a thought is each protocol's own.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from kgwalk.config.recipe import unknown
from kgwalk.kg.names import split_words

STYLES = ("none", "terse", "plain", "reflective")
LISTED = 3  # names in a sentence; of more, only the first are given

# Templates by occasion and style. A style without templates for an occasion says nothing.
TEMPLATES: dict[str, dict[str, tuple[str, ...]]] = {
    # At the beginning, before anything was asked.
    "start": {
        "plain": (
            "The question is about {topics}.",
            "I begin with {topics}.",
            "{topics} is where I start.",
            "I am asked about {topics}.",
        ),
        "reflective": (
            "I need to find out: {question} I start from {topics}. {steps}",
            "The question starts from {topics}. {steps}",
            "Let me think about what is asked: {question} The entity to begin with is {topics}. {steps}",
            "{topics} is given. {steps}",
        ),
    },
    # Which relations does it have?
    "look": {
        "terse": ("Relations of {entity}?", "What does {entity} have?", "List relations of {entity}."),
        "plain": (
            "I look at which relations {entity} has.",
            "Which relations does {entity} have?",
            "First I list the relations of {entity}.",
            "Let me see what the graph knows about {entity}.",
        ),
        "reflective": (
            "I do not know what the relation is called here, so I list those of {entity}.",
            "To find the {words} I must know which relations {entity} has.",
            "Before I follow anything I check the relations of {entity}; one of them should be about {words}.",
        ),
    },
    # Follow a relation from head to tail.
    "forwards": {
        "terse": ("{relation} of {entity}.", "Follow {relation}.", "Next: {relation}."),
        "plain": (
            "I follow {relation} from {entity}.",
            "Now I need the {words} of {entity}.",
            "{relation} of {entity} should tell.",
            "I go on to the {words} of {entity}.",
        ),
        "reflective": (
            "What fits the question is {relation}, so I follow it from {entity}.",
            "The question needs the {words} of {entity}; {relation} gives that.",
            "I follow {relation} from {entity} and then check whether that is what was asked for.",
        ),
    },
    # Follow a relation from tail to head.
    "backwards": {
        "terse": ("{relation} to {entity}.", "{relation}, backwards.", "Who or what has {relation} {entity}?"),
        "plain": (
            "I follow {relation} backwards from {entity}.",
            "What has {entity} as its {words}?",
            "I look for what leads to {entity} by {relation}.",
            "{entity} stands at the end of {relation}, so I go backwards.",
        ),
        "reflective": (
            "The question wants what has {entity} as its {words}, so I follow {relation} backwards.",
            "{relation} leads to {entity}, not away from it; I go against its direction.",
            "What fits the question is {relation}, and {entity} is its tail, so I look for the heads.",
        ),
    },
    # What an observation gave.
    "found": {
        "plain": ("That gives {names}.", "I found {names}.", "So: {names}.", "The graph says {names}."),
        "reflective": (
            "That gives {names}, which fits what I was looking for.",
            "The graph lists {names}. That is what this step needed.",
            "I found {names}; good so far.",
        ),
    },
    # What the graph does not have is looked for in documents.
    "web": {
        "terse": ("Not in the graph; the web.", "Missing. Ask the web.", "The web: {words} of {entity}?"),
        "plain": (
            "The graph does not say this about {entity}, so I ask the web.",
            "There is no {words} for {entity} in the graph; I search the web.",
            "This is missing in the graph. Perhaps a document tells it.",
        ),
        "reflective": (
            "The graph says other things about {entity}, but not the {words} I need, so I ask the web.",
            "Nothing here gives the {words} of {entity}. I do not guess: documents may tell.",
        ),
    },
    # What documents gave.
    "read": {
        "plain": ("The documents name {names}.", "I read {names} there.", "According to the documents: {names}."),
        "reflective": (
            "The documents name {names}, which is the {words} that the graph lacks.",
            "In what was found I read {names}; that closes the gap.",
        ),
    },
    # The same for the next of several entities.
    "another": {
        "terse": ("Same for {entity}.", "Now {entity}.", "{entity} too."),
        "plain": ("The same for {entity}.", "Next, {entity}.", "I do the same for {entity}.", "Now {entity}."),
        "reflective": (
            "There are more to look at; the same for {entity}.",
            "To be complete I also need {entity}.",
            "{entity} is still missing, so I ask for it, too.",
        ),
    },
    "intersect": {
        "terse": ("In both: {names}.", "Common: {names}."),
        "plain": (
            "What is in both is {names}.",
            "Both have {names}.",
            "{names} meets both conditions.",
        ),
        "reflective": (
            "The question has two conditions, and only {names} meets both.",
            "Comparing the two lists, what they share is {names}.",
        ),
    },
    "union": {
        "terse": ("Together: {names}.", "All: {names}."),
        "plain": ("Together that is {names}.", "Put together: {names}."),
        "reflective": ("Either way counts, so I take both together: {names}.", "I put the results together: {names}."),
    },
    "minus": {
        "terse": ("Without the rest: {names}.", "Left: {names}."),
        "plain": ("What remains is {names}.", "Leaving the others out, {names} remains."),
        "reflective": (
            "What is to be left out is gone, and {names} remains.",
            "I take out what does not count; that leaves {names}.",
        ),
    },
    # In a language of sets: the call that combines them.
    "to intersect": {
        "terse": ("Which are in both?", "Common ones."),
        "plain": ("Now what both have in common.", "I keep what is in both sets."),
        "reflective": ("Both conditions must hold, so I keep what the two sets share.",),
    },
    "to union": {
        "terse": ("Both together.",),
        "plain": ("I put both sets together.", "Both count, so I unite them."),
        "reflective": ("Either way leads to an answer, so I put the two sets together.",),
    },
    "to minus": {
        "terse": ("Leave those out.", "Without those."),
        "plain": ("I leave out what does not count.", "Those must be left out."),
        "reflective": ("Some of these are not meant by the question, so I take them out.",),
    },
    "to all": {
        "terse": ("All of them.",),
        "plain": ("I begin with all of that kind.",),
        "reflective": ("The question names no thing to start from, so I take all of the kind that it is about.",),
    },
    "to count": {
        "terse": ("How many?", "Count."),
        "plain": ("Now I count them.", "The question asks how many, so I count."),
        "reflective": ("The question asks for a number, so I count the members.",),
    },
    "to between": {
        "terse": ("{words} at that time.",),
        "plain": ("Only the {words} of that time counts.",),
        "reflective": ("The question names a time, so I follow {relation} only by facts that held then.",),
    },
    "to argmax": {
        "terse": ("Largest {words}.", "Most {words}?"),
        "plain": ("Which has the largest {words}?", "I pick the one with the largest {words}."),
        "reflective": ("The question wants the one with the largest {words}, so I compare by {relation}.",),
    },
    "to argmin": {
        "terse": ("Smallest {words}.", "Least {words}?"),
        "plain": ("Which has the smallest {words}?", "I pick the one with the smallest {words}."),
        "reflective": ("The question wants the one with the smallest {words}, so I compare by {relation}.",),
    },
    "to filter": {
        "terse": ("{words} {bound}.", "Keep {words} {bound}."),
        "plain": ("I keep those with {words} {bound}.", "Only those with {words} {bound} count."),
        "reflective": ("The question sets a bound: {words} {bound}. I keep the members that meet it.",),
    },
    # The calls of the full language.
    "to top": {
        "terse": ("Largest {words} first.", "Top {k} by {words}."),
        "plain": ("I order them by {words}, the largest first.", "The {k} with the largest {words}."),
        "reflective": ("The question wants an order, so I take the {k} with the largest {words}.",),
    },
    "to bottom": {
        "terse": ("Smallest {words} first.", "Bottom {k} by {words}."),
        "plain": ("I order them by {words}, the smallest first.", "The {k} with the smallest {words}."),
        "reflective": ("The question wants an order, so I take the {k} with the smallest {words}.",),
    },
    "to nth": {
        "terse": ("That place in the order.",),
        "plain": ("Of these I take the one at the place that is asked for.",),
        "reflective": ("Only one place in this order is asked for, so I take that one.",),
    },
    "to sum": {
        "terse": ("Total {words}.",),
        "plain": ("I add up the {words}.", "Now the total {words}."),
        "reflective": ("The question asks for a total, so I add up the {words}.",),
    },
    "to average": {
        "terse": ("Average {words}.",),
        "plain": ("I take the average of the {words}.",),
        "reflective": ("The question asks for an average, so I take that of the {words}.",),
    },
    "to least": {
        "terse": ("Smallest {words}, as a value.",),
        "plain": ("The smallest {words} itself is asked for.",),
        "reflective": ("The question asks for the value itself: the smallest {words}.",),
    },
    "to greatest": {
        "terse": ("Largest {words}, as a value.",),
        "plain": ("The largest {words} itself is asked for.",),
        "reflective": ("The question asks for the value itself: the largest {words}.",),
    },
    "to subtract": {
        "terse": ("The difference.",),
        "plain": ("Now the difference of the two.",),
        "reflective": ("The question asks how far apart the two values are, so I subtract.",),
    },
    "to divide": {
        "terse": ("The ratio.",),
        "plain": ("I divide the first by the second.",),
        "reflective": ("The question asks how many times as much it is, so I divide.",),
    },
    "to only": {
        "terse": ("Only those: {words}.",),
        "plain": ("I keep those with no other {words}.",),
        "reflective": ("The question says only, so I keep the members with no other {words}.",),
    },
    "to none": {
        "terse": ("None of those: {words}.",),
        "plain": ("I keep those without any of these as {words}.",),
        "reflective": ("The question says none, so I keep the members with none of these as {words}.",),
    },
    "to every": {
        "terse": ("All of those: {words}.",),
        "plain": ("I keep those with all of these as {words}.",),
        "reflective": ("The question says all, so I keep the members with every one of these as {words}.",),
    },
    "to is_in": {
        "terse": ("Is it among them?",),
        "plain": ("Now I see whether it is among them.",),
        "reflective": ("The question is whether it is so: is it in that set?",),
    },
    "to overlap": {
        "terse": ("Any in common?",),
        "plain": ("Have the two anything in common?",),
        "reflective": ("The question is whether they share something, so I compare the two sets.",),
    },
    "to compare": {
        "terse": ("Is it so?",),
        "plain": ("Now I compare the values.",),
        "reflective": ("The question is whether it is so, so I compare the values.",),
    },
    "to table": {
        "terse": ("As rows.",),
        "plain": ("I list them with what is asked of each.",),
        "reflective": ("The question wants several things of each, so I make a table.",),
    },
    "to when": {
        "terse": ("When?",),
        "plain": ("I look up when that was.",),
        "reflective": ("The question asks for the time of the fact itself.",),
    },
    "to earliest": {
        "terse": ("First {words}.",),
        "plain": ("I follow {words} by its first fact.",),
        "reflective": ("The question asks for the first, so I follow {words} by the fact that begins first.",),
    },
    "to latest": {
        "terse": ("Last {words}.",),
        "plain": ("I follow {words} by its last fact.",),
        "reflective": ("The question asks for the last, so I follow {words} by the fact that begins last.",),
    },
    "to before": {
        "terse": ("{words} before that.",),
        "plain": ("Only the {words} before that counts.",),
        "reflective": ("The question sets a time, so I follow {words} only by facts from before it.",),
    },
    "to after": {
        "terse": ("{words} after that.",),
        "plain": ("Only the {words} after that counts.",),
        "reflective": ("The question sets a time, so I follow {words} only by facts from after it.",),
    },
    # The graph has no answer.
    "unknown": {
        "terse": ("Not in the graph.", "Nothing says that."),
        "plain": ("The graph does not say that.", "None of these relations tells it."),
        "reflective": ("I look through the relations, and none of them says what is asked. So there is no answer.",),
    },
    # Values that were looked up one by one.
    "value": {
        "terse": ("{words} of {entity}?", "{entity}: {words}?"),
        "plain": ("I need the {words} of {entity} to compare.", "What is the {words} of {entity}?"),
        "reflective": ("To compare them I need the {words} of each; {entity} is next.",),
    },
    "compared": {
        "terse": ("{values}: {names}.",),
        "plain": ("{values}. So it is {names}.", "Comparing {values}, I take {names}."),
        "reflective": ("The values are {values}. Comparing them, {names} is what the question asks for.",),
    },
    "counted": {
        "terse": ("{names}: {count}.",),
        "plain": ("{names}: that makes {count}.", "I count {names}: {count}."),
        "reflective": ("Counting one by one: {names}. That makes {count}.",),
    },
    # After a wrong turn.
    "error": {
        "terse": ("Nothing there.", "Empty.", "No such facts."),
        "plain": (
            "That was the wrong direction.",
            "There is nothing this way; I turn around.",
            "That query fails, so I correct it.",
        ),
        "reflective": (
            "The graph has no such facts: I mixed up the direction. I read the relations again.",
            "That did not work. The relation points the other way.",
        ),
    },
    "nothing": {
        "terse": ("None for {entity}.", "{entity} has none."),
        "plain": ("{entity} has none.", "There is nothing for {entity}."),
        "reflective": ("The graph has no such fact about {entity}, so I leave it out.",),
    },
    "wrong": {
        "terse": ("Not that.", "Wrong way.", "That is not it."),
        "plain": (
            "{names} is not what is asked for.",
            "That leads to {names}, which does not help.",
            "{names}: that is not the {words} I need.",
        ),
        "reflective": (
            "That gives {names}, but the question is about {words}. I go back.",
            "Wait: {names} does not answer anything here. I took the wrong relation.",
            "This does not help: I need the {words}, and this is {names}. Back to where I was.",
        ),
    },
    "stray": {
        "terse": ("Perhaps {entity}?", "Try {entity}."),
        "plain": ("Perhaps {entity} tells more.", "I look at {entity}.", "Maybe {entity} leads there."),
        "reflective": (
            "{entity} was shown as well and might matter, so I look at it.",
            "I am not sure which of these leads on; I try {entity}.",
        ),
    },
    "dead end": {
        "terse": ("Dead end.", "{entity} leads nowhere.", "Not {entity}."),
        "plain": (
            "{entity} leads nowhere.",
            "Nothing about {entity} helps here; I go back.",
            "{entity} was the wrong one.",
        ),
        "reflective": (
            "The facts about {entity} say nothing about the {words} I need, so this was a wrong turn.",
            "Looking at {entity} does not bring me closer to the answer. I should go back and choose again.",
        ),
    },
    # Before the answer.
    "answer": {
        "terse": ("Done.", "That is the answer.", "Answer found."),
        "plain": (
            "That answers the question.",
            "So the answer is {names}.",
            "The answer is {names}.",
            "That is what was asked for.",
        ),
        "reflective": (
            "Every step is backed by what was found, so the answer is {names}.",
            "That is what the question asks for: {names}.",
            "I have followed all the steps; {names} is the answer.",
        ),
    },
}


def spoken(relation: str) -> str:
    """A relation as words; of a dotted name the last part.

    >>> spoken("people.person.place_of_birth"), spoken("borders"), spoken("timeZone")
    ('place of birth', 'borders', 'time Zone')
    """
    last = relation.rstrip(".").rsplit(".", 1)[-1] if " " not in relation else relation
    return split_words(last) or relation


def listed(names: Sequence[str], most: int = LISTED) -> str:
    """Names as a part of a sentence.

    >>> listed(["Big"]), listed(["Big", "Cast Away"]), listed(["a", "b", "c", "d", "e"])
    ('Big', 'Big and Cast Away', 'a, b, c and 2 more')
    """
    if not names:
        return "nothing"
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most} more"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


@dataclass
class Voice:
    """Says things in one style."""

    style: str
    chance: random.Random

    def __post_init__(self) -> None:
        if self.style not in STYLES:
            raise unknown("style", self.style, STYLES)

    def say(self, occasion: str, **values: str) -> str:
        """A sentence for an occasion, or "" where the style has nothing to say."""
        wordings = TEMPLATES[occasion].get(self.style, ())
        return self.chance.choice(wordings).format_map(values).strip() if wordings else ""


def together(*sentences: str) -> str:
    """Sentences joined by blanks; empty ones leave no gap."""
    return " ".join(sentence for sentence in sentences if sentence)
