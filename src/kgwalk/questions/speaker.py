"""One plan put into words: every set of the plan as a noun phrase, and the last one as a question.

A hop's phrase nests the phrase of the set it starts from: "the films that the spouse of X acted in". Sets that are
combined are said in `joins`, sets that are chosen from by values in `measures`. A speaker writes marks in the place of
names, so that neither grammar nor noise touches them. Knows the plan and a lexicon; not the graph.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from kgwalk.questions import chains, counts, either, joins, measures, terms, without
from kgwalk.questions.english.fitting import fits
from kgwalk.questions.english.kinds import VALUES, is_person
from kgwalk.questions.english.phrases import HEADLESS, Phrase, fill, is_many, parts
from kgwalk.questions.lexicon import Lexicon, Sayings
from kgwalk.questions.plan import HOPS, Plan
from kgwalk.tools.facts import Way
from kgwalk.types import Call

# How often a chain of hops is said in nouns, by their number, beside 5 for a question around a phrase.
POSSESSIVE = (1.2, 3.5, 6.0)
FIRST_MARK = 0xE000  # private use characters: no template has them

Weighted = list[tuple[float, str]]


class Speaker:
    """`level`: 0 is plain, 1 natural, 2 free; see `words`."""

    def __init__(self, plan: Plan, lexicon: Lexicon, level: int, chance: random.Random) -> None:
        self.plan, self.lexicon, self.level, self.chance = plan, lexicon, level, chance
        self.marked: list[str] = list(plan.topics)
        self._phrases: dict[int, Phrase | None] = {}

    def mark(self, text: str) -> str:
        """A sign that stands for a value until the text is finished."""
        self.marked.append(text)
        return chr(FIRST_MARK + len(self.marked) - 1)

    def unmarked(self, text: str) -> str:
        """The text with names and values in their places."""
        last = FIRST_MARK + len(self.marked)
        return "".join(self.marked[ord(sign) - FIRST_MARK] if FIRST_MARK <= ord(sign) < last else sign for sign in text)

    def choose(self, options: Weighted) -> str | None:
        options = [(weight, text) for weight, text in options if weight > 0]
        if not options:
            return None
        return self.chance.choices([text for _, text in options], [weight for weight, _ in options])[0]

    def said(self, way: Way) -> Sayings:
        return self.lexicon.sayings(way)

    # Noun phrases

    def phrase(self, number: int) -> Phrase | None:
        """A set as a noun phrase, the same each time; None where there are no words for it."""
        if number not in self._phrases:
            call = self.plan.made_by(number)
            if call is None:
                mark = chr(FIRST_MARK + number - 1)
                self._phrases[number] = Phrase(mark, name=self.plan.topics[number - 1], short=True)
            else:
                self._phrases[number] = PHRASES[call.tool](self, call)
        return self._phrases[number]

    def sources(self, call: Call) -> list[int]:
        return [argument for argument in call.args if isinstance(argument, int)]

    def noun(self, way: Way, inner: Phrase, *, whole: bool = False) -> Phrase | None:
        """What is reached from a phrase by a relation. `whole`: with a head, so that more can be said of it."""
        said = self.said(way)
        _, nouns, bare = said.at(self.level)
        fitting = [text for text in nouns if fits(text, inner) and (not whole or parts(text))]
        options: Weighted = [(_weight(text, inner), text) for text in fitting]
        for noun in bare:
            share = 3.0 / len(bare) if self.level else 1.0
            options.append((share, f"the {noun} of {{}}"))
            if inner.short and not whole:
                options.append((share, f"{{}}'s {noun}"))
        template = self.choose(options)
        if template is None:
            return None
        text = fill(template, inner)
        if template.startswith("{}"):
            text = text[:1] + text[1:] if inner.simple else text[:1].lower() + text[1:]
        short = template.startswith("{}'s") and inner.short
        return Phrase(text, is_many(template), said.kind, short=short, hops=inner.hops + 1)

    # Questions

    def ask(self) -> str | None:
        """The plan's question, with marks for names."""
        call = self.plan.steps[-1] if self.plan.steps else None
        return None if call is None else ASKS[call.tool](self, call)

    def frame(self, phrase: Phrase) -> str | None:
        """A question for a noun phrase as it is: "Who are ...?", "Name ...", "...?"."""
        text, be = phrase.text, "are" if phrase.many else "is"
        first = text.split(" ")[0].lower()
        if first in HEADLESS:
            return self.choose([(1, f"Tell me {text}."), (1, f"Do you know {text}?"), (0.5, f"I want to know {text}.")])
        who = "Who" if is_person(phrase.kind) else "What"
        options: Weighted = [
            (3, f"{who} {be} {text}?"),
            (1.5, f"Name {text}."),
            (1, f"Tell me {text}."),
            (0.7, f"Find {text}."),
            (0.7, f"Can you tell me {who.lower()} {text} {be}?")
            if len(text.split()) < 6
            else (0.7, f"Give me {text}."),
            (0.5, f"I am looking for {text}."),
        ]
        if phrase.many:
            options += [(1, f"List {text}."), (0.5, f"Give me all of {text}.")]
        elif phrase.kind not in VALUES:
            options.append((0.7, f"What is the name of {text}?"))
        if self.level:
            options += [(1, f"{text}?"), (0.4, f"{_capital(text)} {be} {who.lower()}?")]
        return self.choose(options)


def _weight(noun: str, inner: Phrase) -> float:
    """Definite and plural phrases nest well; "a film by {}" less, nor such as go on after a long phrase."""
    first = noun.split(" ")[0].lower()
    if first in HEADLESS:
        return 0.0
    if noun.endswith("{} has"):
        return 0.3
    if first == "all":
        return 0.2
    if not inner.simple and not noun.endswith("{}"):
        return 0.3
    return 0.25 if first in ("a", "an", "another", "whoever", "whatever", "anyone", "something", "somebody") else 1.0


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


# Hops


def way_of(call: Call) -> Way:
    return Way(str(call.args[1]), call.tool != "head_entities")


def source_of(speaker: Speaker, call: Call) -> tuple[Phrase, str] | None:
    """What a hop starts from, and the time that is said with it, or ""; None where there are no words for either."""
    number, when = speaker.sources(call)[0], ""
    found = terms.chosen_from(speaker, number)
    if found is not None:
        number = found[0]
        when = terms.term(speaker, found[1]) or ""
        if not when:
            return None
    elif call.tool == "between":
        when = terms.window(speaker, str(call.args[2]), str(call.args[3]))
    inner = speaker.phrase(number)
    return None if inner is None else (inner, when)


def hop_phrase(speaker: Speaker, call: Call) -> Phrase | None:
    if speaker.said(way_of(call)).silent:
        return speaker.phrase(speaker.sources(call)[0])
    found = source_of(speaker, call)
    made = None if found is None else speaker.noun(way_of(call), found[0])
    if found is None or made is None or not found[1]:
        return made
    return terms.phrase_with_term(made, found[1])


def hop_question(speaker: Speaker, call: Call) -> str | None:
    found = source_of(speaker, call)
    if found is None:
        return None
    inner, when = found
    way = way_of(call)
    questions, _, _ = speaker.said(way).at(speaker.level)
    ways: list[tuple[float, Callable[[], str | None]]] = [
        (5, lambda: _asked(speaker, questions, inner)),
        (2, lambda: _framed(speaker, way, inner)),
    ]
    chain = None if when else chains.chain_of(speaker, call)
    if chain is not None:
        nouns = chains.bare_of(speaker, chain)
        if nouns:
            weight = POSSESSIVE[min(len(nouns), len(POSSESSIVE)) - 1]
            ways.append((weight, lambda: chains.possessive(speaker, chain, nouns)))
            ways.append((0.6 * speaker.level, lambda: chains.keywords(speaker, chain, nouns)))
        ways.append((8.0 * (len(chain.ways) > 1), lambda: chains.implied(speaker, chain)))
    if speaker.level > 1 and len(inner.text) > 1 and not when:  # a name is one sign
        ways.append((0.8, lambda: chains.stepwise(speaker, questions, inner)))
    text = first_said(speaker, ways)
    if text is None or not when:
        return text
    return terms.with_term(text, when, front=speaker.level > 0 and speaker.chance.random() < 0.3)


def _framed(speaker: Speaker, way: Way, inner: Phrase) -> str | None:
    """A hop as a noun phrase; without its dates, which follow."""
    made = speaker.noun(way, inner)
    return None if made is None else speaker.frame(made)


def first_said(speaker: Speaker, ways: Sequence[tuple[float, Callable[[], str | None]]]) -> str | None:
    """The text of one of these ways, drawn by weight; of another where the drawn one has no words."""
    left = [(weight, way) for weight, way in ways if weight > 0]
    while left:
        at = speaker.chance.choices(range(len(left)), [weight for weight, _ in left])[0]
        text = left.pop(at)[1]()
        if text is not None:
            return text
    return None


def _asked(speaker: Speaker, questions: Sequence[str], inner: Phrase) -> str | None:
    template = speaker.choose([(1.0, text) for text in questions if fits(text, inner)])
    return None if template is None else fill(template, inner)


PHRASES: dict[str, Callable[[Speaker, Call], Phrase | None]] = {
    **dict.fromkeys(HOPS, hop_phrase),
    "intersect": joins.both_phrase,
    "union": either.either_phrase,
    "minus": without.without_phrase,
    "count": counts.count_phrase,
    "argmax": measures.extreme_phrase,
    "argmin": measures.extreme_phrase,
    "filter": measures.compared_phrase,
}
ASKS: dict[str, Callable[[Speaker, Call], str | None]] = {
    **dict.fromkeys(HOPS, hop_question),
    "intersect": joins.both_question,
    "union": either.either_question,
    "minus": without.without_question,
    "count": counts.count_question,
    "argmax": measures.extreme_question,
    "argmin": measures.extreme_question,
    "filter": measures.compared_question,
}
