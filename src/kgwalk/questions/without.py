"""How a set is said that another is taken from: all but some, the others of their kind; there and back in `returns`.

Knows noun phrases and the ways that made them; the rest of the sentence is the speaker's.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kgwalk.questions import returns
from kgwalk.questions.english.phrases import Phrase, as_many, is_many
from kgwalk.questions.joins import asked_together, pair_of, predicate, relative_of
from kgwalk.types import Call

if TYPE_CHECKING:
    from kgwalk.questions.speaker import Speaker


def without_phrase(speaker: Speaker, call: Call) -> Phrase | None:
    same = returns.return_phrase(speaker, call)
    if same is not None and speaker.chance.random() < 0.6:
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
    """A chain that comes back over its start: the other films of its director.

    At times nobody says "other": an answer is never what was asked about.
    """
    from kgwalk.questions.speaker import first_said  # the speaker's table names this module

    return first_said(
        speaker,
        [
            (3.5, lambda: returns.return_question(speaker, call)),
            (2.5, lambda: returns.also_question(speaker, call)),
            (2, lambda: _apart(speaker, call)),
            (2, lambda: _unmarked(speaker, call)),
        ],
    )


def _unmarked(speaker: Speaker, call: Call) -> str | None:
    from kgwalk.questions.speaker import ASKS

    made = speaker.plan.made_by(speaker.sources(call)[0])
    return None if made is None else ASKS[made.tool](speaker, made)


def _apart(speaker: Speaker, call: Call) -> str | None:
    """ "Apart from X, which films did X's director make?"."""
    topic, question = _topic(speaker, call), _unmarked(speaker, call)
    one = speaker.phrase(speaker.sources(call)[0])
    if topic is None or one is None:
        return None
    options = []
    if question is not None and ". " not in question:
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
