"""Routes by the dates of facts, found for questions that say when, or ask for it, and give no program.

    who was president of Poland in 2009     between($1, "head of state", "2009", "2009")
    who did Marika marry in 1968            tail_entities($1, "spouse"); filter($2, "start(^spouse in $1)", "=", "1968")
    when did Gary and Lucille get divorced  greatest($1, "end(spouse in $2)")
    the first award of Edwin Hubble         earliest($1, "award received")

A chain of relations leads from Poland to all its presidents, whatever the year: who learns from such routes learns to
leave out the year. Here every relation around a topic is tried with the dates that the question has, and what answers
best is taken. That may fit by accident, so among equals the call that uses more of the topics wins, then the relation
nearest to the question's words, then the call that these words ask for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from kgwalk.demos.route import Route, RouteBuilder
from kgwalk.kg.names import split_words
from kgwalk.types import Call
from kgwalk.walk.ranking import scores
from kgwalk.walk.values import values_in

MOST_RELATIONS = 40  # around a topic, in each direction, that are tried
TIME = "time"  # the `answer_kind` of a question that asks when
_YEAR = re.compile(r"-?\d{3,4}(?:-\d\d){0,2}")
_LOOSE_DATE = re.compile(r"\b(\d{3,4})-\d{1,2}-\d{1,2}\b")  # 1968-1-1 or 2001-0-0, which mean the year
_END = re.compile(
    r"\b(?:end(?:ed|s)?|stop(?:ped)?|until|till|left|leave|divorced?|finish(?:ed)?|cease[ds]?|resign(?:ed)?|over)\b"
)
_START = re.compile(
    r"\b(?:start(?:ed)?|beg[iau]n|since|becom(?:e|ing)|became|join(?:ed)?|marr(?:y|ied)|first|founded)\b"
)
_FIRST = re.compile(r"\b(?:first|earliest|original|oldest)\b")
_LAST = re.compile(r"\b(?:last|latest|final|current|recent|newest)\b")


class _Candidate(NamedTuple):
    """Calls that may answer, by a relation; `fits` says how well their words fit the question: 1, 0 or -1."""

    calls: tuple[Call, ...]  # each takes the sets of the topics, and -1 for what the call before it made
    relation: str
    topics: int  # how many topics it uses
    fits: int


def route_from_dates(builder: RouteBuilder) -> Route | None:
    """The best route that uses dates; None where the graph has none, or the question speaks of none."""
    store = getattr(builder.graph, "store", None)
    if not builder.full or store is None or not store.timed:
        return None
    found: list[tuple[float, int, float, int, int]] = []  # F1, topics, nearness, fit, the set
    for one in _candidates(builder):
        number = _made(builder, one.calls)
        if number is not None and (score := builder.score(number)) > 0:
            near = float(scores(builder.question.question, [split_words(one.relation)])[0])
            found.append((score, one.topics, near, one.fits, number))
    if not found:
        return None
    return builder.route(max(found, key=lambda one: (*one[:4], -one[4]))[4])


def _made(builder: RouteBuilder, calls: tuple[Call, ...]) -> int | None:
    number: int | None = None
    for call in calls:
        number = builder.make(call.tool, *(number if arg == -1 and number else arg for arg in call.args))
        if number is None:
            return None
    return number


def dates_in(text: str) -> list[str]:
    """The years and days that a question names.

    >>> dates_in("the spouse whose start time is 1968-1-1, before May 2001")
    ['1968', '2001-05']
    """
    return [value for value in values_in(_LOOSE_DATE.sub(r"\1", text)) if _YEAR.fullmatch(value)]


def _candidates(builder: RouteBuilder) -> Iterator[_Candidate]:
    text = builder.question.question.casefold()
    asks_when = builder.question.extra.get("answer_kind") == TIME
    dates = dates_in(text)
    ends = _END.search(text) is not None
    for topic in range(1, len(builder.topics) + 1):
        for relation, path, back in _relations(builder, builder.topics[topic - 1]):
            if asks_when:
                yield from _times(builder, topic, relation, path, text)
                continue
            for date in dates:
                yield _Candidate((Call("between", (topic, path, date, date)),), relation, 1, 1)
                hop = Call("tail_entities", (topic, path))
                for edge, fits in (("start", int(not ends)), ("end", int(ends))):
                    chosen = Call("filter", (-1, f"{edge}({back} in ${topic})", "=", date))
                    yield _Candidate((hop, chosen), relation, 1, fits - 1)
            if _FIRST.search(text):
                yield _Candidate((Call("earliest", (topic, path)),), relation, 1, 1)
            if _LAST.search(text):
                yield _Candidate((Call("latest", (topic, path)),), relation, 1, 1)


def _times(builder: RouteBuilder, topic: int, relation: str, path: str, text: str) -> Iterator[_Candidate]:
    """When facts began, ended and held: of all of a relation's, and of those to another topic."""
    ends, starts = _END.search(text) is not None, _START.search(text) is not None
    others = [number for number in range(1, len(builder.topics) + 1) if number != topic]
    for other in [*others, None]:
        inside = f"{path} in ${other}" if other else path
        used = 2 if other else 1
        whole = Call("when", (topic, path, other) if other else (topic, path))
        end, start = Call("greatest", (topic, f"end({inside})")), Call("least", (topic, f"start({inside})"))
        yield _Candidate((end,), relation, used, (ends and not starts) - (starts and not ends))
        yield _Candidate((start,), relation, used, (starts and not ends) - (ends and not starts))
        yield _Candidate((whole,), relation, used, int(not ends and not starts))


def _relations(builder: RouteBuilder, topic: str) -> Iterator[tuple[str, str, str]]:
    """The relations around a topic, as a call has them (backwards with `^`), and the way back."""
    for out in (True, False):
        for relation in list(builder.graph.relations(topic, out=out))[:MOST_RELATIONS]:
            yield (relation, relation, f"^{relation}") if out else (relation, f"^{relation}", relation)
