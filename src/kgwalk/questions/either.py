"""How two sets are said of which either will do: always with a word that marks it, or, either, as well as, together.

"A and B" is never said for it: that could be what both have. Knows noun phrases; the rest is the speaker's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kgwalk.questions.english.kinds import is_person
from kgwalk.questions.english.phrases import Phrase
from kgwalk.questions.joins import asked_together, pair_of, together
from kgwalk.types import Call

if TYPE_CHECKING:
    from kgwalk.questions.speaker import Speaker


def either_phrase(speaker: Speaker, call: Call) -> Phrase | None:
    joined = together(speaker, call, "{} or {}") if speaker.chance.random() < 0.6 else None
    if joined is not None:
        return joined
    pair = pair_of(speaker, call)
    if pair is None:
        return None
    one, two = pair
    return Phrase(f"{one.text} or {two.text}", one.many, one.kind, hops=max(one.hops, two.hops))


def either_question(speaker: Speaker, call: Call) -> str | None:
    if speaker.chance.random() < 0.5:
        link = speaker.choose([(1, "{} or {}"), (1, "either {} or {}"), (0.4, "{} or else {}")])
        text = asked_together(speaker, call, link or "{} or {}")
        if text is not None:
            return text
    pair = pair_of(speaker, call)
    if pair is None:
        return None
    one, two = pair
    what = "Who" if is_person(one.kind) else "What"
    be = "are" if one.many else "is"
    return speaker.choose(
        [
            (1.5, f"{what} {be} {one.text} or {two.text}?"),
            (1, f"Name {one.text} as well as {two.text}."),
            (1, f"Give me {one.text} together with {two.text}."),
            (1, f"{what} {be} either {one.text} or {two.text}?"),
            (0.7, f"List all that are {one.text} or {two.text}.") if one.many and two.many else (0, ""),
        ]
    )
