"""How a set is said that another is taken from: all but some, the others of their kind, "the same director as".

Knows noun phrases and the ways that made them; the rest of the sentence is the speaker's.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kgwalk.questions.english.fitting import fits
from kgwalk.questions.english.inflect import a
from kgwalk.questions.english.kinds import VAGUE, is_person, several
from kgwalk.questions.english.phrases import Phrase, as_many, fill, is_many, parts
from kgwalk.questions.joins import asked_together, hop_of, pair_of, predicate, relative_of
from kgwalk.questions.plan import HOPS
from kgwalk.tools.facts import Way
from kgwalk.types import Call

if TYPE_CHECKING:
    from kgwalk.questions.speaker import Speaker


def without_phrase(speaker: Speaker, call: Call) -> Phrase | None:
    same = same_as(speaker, call)
    if same is not None and (speaker.chance.random() < 0.6 or _topic(speaker, call) is None):
        return same
    pair = pair_of(speaker, call)
    if pair is None:
        return None
    one, two = pair
    if two.simple:
        # what follows "other than X" would be said of X, so "the other films" wherever X is named in the phrase
        many = as_many(one)
        other = _other(many.text)
        if other is not None and two.text in other:
            return Phrase(other, True, one.kind, hops=one.hops)
        return Phrase(f"{one.text} other than {two.text}", one.many, one.kind, hops=one.hops)
    said = speaker.choose(
        [
            (1, f"{one.text} {relative_of(one)} {'are' if one.many else 'is'} not {predicate(one, two)}"),
            (1, f"{one.text} except {two.text}"),
        ]
    )
    return Phrase(said or one.text, one.many, one.kind, hops=max(one.hops, two.hops))


def without_question(speaker: Speaker, call: Call) -> str | None:
    if _topic(speaker, call) is not None:
        return _others(speaker, call)
    if speaker.chance.random() < 0.5:
        text = asked_together(speaker, call, "{} but not {}")
        if text is not None:
            return text
    pair = pair_of(speaker, call)
    if pair is None:
        return None
    one, two = (as_many(side) if side.many else side for side in pair)
    are = "are" if one.many else "is"
    framed = speaker.frame(one)
    options = [
        (1.5, f"Which of {one.text} are not {predicate(one, two)}?") if one.many else (0, ""),
        (1, _added(framed or "", f", leaving out {two.text}")),
        (0.7, f"Except for {two.text}, {_lower(framed or '')}"),
    ]
    without = Phrase(f"{one.text} {relative_of(one)} {are} not {predicate(one, two)}", one.many, one.kind)
    return speaker.choose([*options, (1.5, speaker.frame(without) or "")])


def _topic(speaker: Speaker, call: Call) -> Phrase | None:
    """The phrase of what is taken away, if that is a topic."""
    number = speaker.sources(call)[1]
    return speaker.phrase(number) if speaker.plan.made_by(number) is None else None


def _others(speaker: Speaker, call: Call) -> str | None:
    """A chain that comes back over its start: the other films of its director."""
    from kgwalk.questions.speaker import ASKS  # the speaker's table names this module

    same, topic = same_as(speaker, call), _topic(speaker, call)
    assert topic is not None
    if same is not None and speaker.chance.random() < 0.6:
        return _same_question(speaker, same)
    number = speaker.sources(call)[0]
    made = speaker.plan.made_by(number)
    one = speaker.phrase(number)
    if made is None or one is None:
        return None
    question = None
    if made.tool in HOPS and made.tool != "between":
        inner = speaker.phrase(speaker.sources(made)[0])
        questions = speaker.said(Way(str(made.args[1]), made.tool != "head_entities")).at(speaker.level)[0]
        if inner is not None:
            template = speaker.choose([(1.0, text) for text in questions if fits(text, inner)])
            question = None if template is None else fill(template, inner)
    else:
        question = ASKS[made.tool](speaker, made)
    options = []
    if question is not None:
        options += [
            (1.5, f"Apart from {topic.text}, {_lower(question)}"),
            (1, f"Other than {topic.text}, {_lower(question)}"),
            (1, _added(question, f", besides {topic.text}")),
            (0.6, _added(question, f", not counting {topic.text}")),
        ]
    other = _other(one.text)
    if other is not None:
        options.append((1.5, speaker.frame(Phrase(other, True, one.kind)) or ""))
    return speaker.choose([(weight, text) for weight, text in options if topic.text in text])


def same_as(speaker: Speaker, call: Call) -> Phrase | None:
    """ "the films with the same director as X", where a relation is followed there and back."""
    topic, back = _topic(speaker, call), hop_of(speaker, speaker.sources(call)[0])
    there = None if back is None else hop_of(speaker, back[1])
    if topic is None or back is None or there is None:
        return None
    (way, source), (returned, _) = there, back
    if source != speaker.sources(call)[1] or way.relation != returned.relation or way.out == returned.out:
        return None
    bare = speaker.said(way).at(speaker.level)[2]
    if not bare:
        return None
    noun = speaker.chance.choice(bare)
    said = speaker.said(returned)
    kinds = several(said.kind) if said.kind not in VAGUE else "others"
    text = speaker.choose(
        [
            (2, f"the {kinds} with the same {noun} as {topic.text}"),
            (1, f"the {kinds} that have the same {noun} as {topic.text}"),
            (1, f"the {kinds} sharing {noun if is_many(f'the {noun}') else a(noun)} with {topic.text}"),
            (1, f"the other {kinds if kinds != 'others' else 'ones'} with {topic.text}'s {noun}"),
        ]
    )
    return Phrase(text or "", True, said.kind, hops=2)


def _same_question(speaker: Speaker, same: Phrase) -> str | None:
    found = parts(same.text)
    options = [(2.0, speaker.frame(same) or "")]
    if found is not None and " with the same " in same.text:
        head, shared = same.text.removeprefix("the ").split(" with the same ", 1)
        head = "others" if head == "others" else head
        which = "Which others" if head == "others" else f"Which {head}"
        options += [(2, f"{which} have the same {shared}?"), (1, f"What {head} have the same {shared}?")]
        options.append((1, f"{'Who' if is_person(same.kind) else 'What'} else has the same {shared}?"))
    return speaker.choose(options)


def _other(text: str) -> str | None:
    """ "the films of X" as "the other films of X"; only a plural can have others."""
    opened = re.match(r"(?:the ones|those) (?=that |who |which |whom |with |in )", text)
    if opened:
        return f"the others {text[opened.end() :]}"
    if not is_many(text) or not text.startswith("the ") or text.startswith("the ones"):
        return None
    return f"the other {text[4:]}"


def _added(question: str, more: str) -> str:
    """More at the end of a question, before its stop."""
    stop = "." if question.endswith(".") else "?"
    return f"{question.rstrip('?. ')}{more}{stop}"


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]
