"""How a count is said: how many, the number of.

Knows noun phrases and the ways that made them; the rest of the sentence is the speaker's.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kgwalk.questions.english.fitting import fits
from kgwalk.questions.english.inflect import UNCOUNTED, is_plural, plural
from kgwalk.questions.english.phrases import Phrase, as_many, fill, parts
from kgwalk.questions.plan import HOPS
from kgwalk.tools.facts import Way
from kgwalk.types import Call

if TYPE_CHECKING:
    from kgwalk.questions.speaker import Speaker


def count_phrase(speaker: Speaker, call: Call) -> Phrase | None:
    inner = speaker.phrase(speaker.sources(call)[0])
    return None if inner is None else Phrase(f"the number of {inner.text}", False, "number", hops=inner.hops)


def count_question(speaker: Speaker, call: Call) -> str | None:
    number = speaker.sources(call)[0]
    counted = speaker.phrase(number)
    made = speaker.plan.made_by(number)
    if counted is None:
        return None
    counted = as_many(counted)
    options: list[tuple[float, str]] = []
    found = parts(counted.text)
    if found is not None and found.rest and counted.many and found.head not in ("ones", "those", "all"):
        said = f"{found.head} {found.rest}"
        options += [(3, f"How many {said} are there?"), (0.7, f"Count the {said}.")]
        options += [(1, f"What is the number of {said}?"), (0.7, f"number of {said}?")]
    elif counted.many:
        options += [(1, f"How many are there of {counted.text}?"), (1, f"Count {counted.text}.")]
    if made is not None and made.tool in HOPS and made.tool != "between":
        options += _how_many(speaker, made)
    return speaker.choose(options)


def _how_many(speaker: Speaker, made: Call) -> list[tuple[float, str]]:
    """ "Which films did {} direct?" as "How many films did {} direct?"; "How many children does {} have?"."""
    inner = speaker.phrase(speaker.sources(made)[0])
    if inner is None:
        return []
    questions, _, bare = speaker.said(Way(str(made.args[1]), made.tool != "head_entities")).at(speaker.level)
    found: list[tuple[float, str]] = []
    for question in questions:
        # "what stands before {}" opens with a verb, so after "what" a helping verb must follow the noun
        opened = re.match(r"(?:which|what(?= \w+ (?:do|did|does|are|were|have|has|is|was)\b)) (\w+) ", question, re.I)
        if opened and is_plural(opened[1]) and opened[1] != "ones" and fits(question, inner):
            found.append((1.0, f"How many {fill(question, inner).split(' ', 1)[1]}"))
    for noun in bare:
        if noun.split(" ")[-1] not in UNCOUNTED:
            does = "do" if inner.many else "does"
            found.append((1.0, f"How many {plural(noun)} {does} {inner.text} have?"))
    return found
