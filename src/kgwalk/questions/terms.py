"""How the times of facts are said, and those of nameless nodes: "Who governed X in 2009?", "the first governor of X".

Such a node is a term of office: it has a start and an end, or a date; the hop that leaves it says what it is about, and
the time follows. Knows the steps that chose by times, and words; no graph.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kgwalk.questions.english.phrases import Phrase
from kgwalk.questions.plan import CHOICES, HOPS
from kgwalk.tools.facts import Way
from kgwalk.types import Call

if TYPE_CHECKING:
    from kgwalk.questions.speaker import Speaker

FIRST, LAST = ("first", "earliest"), ("last", "latest", "most recent")
_ADVERBS = {"earliest": "first", "latest": "last", "most recent": "most recently"}
# What is said before a year, by what the date is and how it is compared.
_SINCE = {
    ("date", "<"): ("before",),
    ("date", ">"): ("after",),
    ("date", "<="): ("in or before", "up to"),
    ("date", ">="): ("in or after", "since"),
    ("start", "<"): ("starting before", "beginning before"),
    ("start", ">"): ("starting after", "beginning after"),
    ("start", "<="): ("starting in or before", "beginning no later than"),
    ("start", ">="): ("starting in or after", "beginning no earlier than"),
    ("end", "<"): ("until some time before", "ending before"),
    ("end", ">"): ("until some time after", "ending after"),
    ("end", "<="): ("ending in or before", "until no later than"),
    ("end", ">="): ("ending in or after", "until no earlier than"),
}


def window(speaker: Speaker, start: str, end: str) -> str:
    """ "in 2012", "between 2012-01 and 2012-05", "since 2012"."""
    if start and end:
        if start == end:
            mark = speaker.mark(start)
            day = start.count("-") == 2 and not start.startswith("-")
            return (
                speaker.choose([(3, f"on {mark}")]) or ""
                if day
                else f"{speaker.choose([(4, 'in'), (1, 'during')])} {mark}"
            )
        one, two = speaker.mark(start), speaker.mark(end)
        return speaker.choose([(1, f"between {one} and {two}"), (1, f"from {one} to {two}")]) or ""
    mark = speaker.mark(start or end)
    return f"since {mark}" if start else f"until {mark}"


def chosen_from(speaker: Speaker, number: int) -> tuple[int, list[Call]] | None:
    """If a set is one of nodes chosen by their times: the set that the nodes were reached from, and the choices."""
    choices: list[Call] = []
    while (call := speaker.plan.made_by(number)) is not None and call.tool in CHOICES:
        choices.append(call)
        number = speaker.sources(call)[0]
    if not choices or call is None or call.tool not in HOPS:
        return None
    if not speaker.said(Way(str(call.args[1]), call.tool != "head_entities")).silent:
        return None
    return speaker.sources(call)[0], choices[::-1]


def term(speaker: Speaker, choices: list[Call]) -> str | None:
    """The time: "in 2009", "before 1990", "first"; None where there are no words for it."""
    ats = [next(iter(speaker.lexicon.value_words(str(call.args[1]))), "") for call in choices]
    if [call.tool for call in choices] == ["filter", "filter"]:
        return _during(speaker, choices, ats)
    if len(choices) > 1:
        return None
    (call,), (at,) = choices, ats
    if call.tool == "filter":
        words = _SINCE.get((at, str(call.args[2])))
        return None if words is None else f"{speaker.chance.choice(words)} {speaker.mark(str(call.args[3]))}"
    if at == "end":
        return None  # who ended first may have begun last
    return speaker.chance.choice(FIRST if call.tool == "argmin" else LAST)


def _during(speaker: Speaker, choices: list[Call], ats: list[str]) -> str | None:
    """At least a year, and below another: ended no earlier and begun before the next is "in" it."""
    (_, first, low_by, low), (_, second, high_by, high) = (call.args for call in choices)
    if (low_by, high_by) != (">=", "<") or not str(low).isdigit() or not str(high).isdigit():
        return None
    year, last = int(low), int(high) - 1
    if year == last and ats in (["end", "start"], ["date", "date"]):
        return f"{speaker.choose([(4, 'in'), (1, 'during')])} {speaker.mark(str(year))}"
    if first == second and ats == ["date", "date"]:
        return f"between {speaker.mark(str(year))} and {speaker.mark(str(last))}"
    return None


def with_term(question: str, when: str, *, front: bool) -> str:
    """The time at the end of a question, or before it; what is first or last is said at the end.

    >>> with_term("Who governed X?", "in 2009", front=True), with_term("Who governed X?", "most recent", front=True)
    ('In 2009, who governed X?', 'Who governed X most recently?')
    """
    if when in FIRST + LAST:
        when, front = _ADVERBS.get(when, when), False
    if front:
        return f"{when[:1].upper()}{when[1:]}, {question[:1].lower()}{question[1:]}"
    stop = question[-1:] if question[-1:] in "?." else ""
    return f"{question.removesuffix(stop).rstrip()} {when}{stop}"


def phrase_with_term(phrase: Phrase, when: str) -> Phrase | None:
    """ "the governor of X in 2009", "the first governor of X"."""
    text = f"{phrase.text} {when}"
    if when in FIRST + LAST:
        if not phrase.text.startswith("the "):
            return None
        text = f"the {when} {phrase.text.removeprefix('the ')}"
    return Phrase(text, phrase.many, phrase.kind, hops=phrase.hops)
