"""How right an answer is, by the kind of answer that was asked for; and the scores of many, by kind, shape and graph.

    >>> score(["12 bikes"], asked("number", ["12"])), score(["yes, it is"], asked("yes/no", ["yes"]))
    (1.0, 1.0)

An answer is a list: names, or rows of a table, each a list of cells. An agent that has no word for a kind of answer is
scored by what it says: yes or no in its own words, a number with or without its unit, the cells of a table one by one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from benchmarks.users.graphs import Cells, Starts, UserQuestion

from kgwalk.kg.times import parse_time
from kgwalk.score.answers import FALSE, TRUE, Gold, forms
from kgwalk.score.answers import f1 as names_f1

CLOSE = 0.005  # of a number that is not whole: answers within half a percent are right
_NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?(?:[eE][-+]?\d+)?")
_WITH_ID = re.compile(r"(.+) \([^()]+\)")
_WORD = re.compile(r"[a-z]+")


def asked(kind: str, answers: list[Cells], **more: Any) -> UserQuestion:
    """A question of a kind with these answers: for examples and tests."""
    return UserQuestion("q", "?", "one hop", kind, answers, Starts(), **more)


def score(answers: Sequence[Cells], question: UserQuestion) -> float:
    """F1 of an answer: 1 if it is right, 0 if it is wrong, between where it is partly so."""
    return _SCORES[question.answer_kind](answers, question)


def _of_set(answers: Sequence[Cells], question: UserQuestion) -> float:
    """Each thing counts once, by whichever of its names. The order is not looked at: see `in_order`.

    >>> score(["iron", "Au", "Lead"], asked("set", ["Iron", "Gold"], aliases={"Gold": ["Au"]}))
    0.8
    >>> score(["Singapore (95)"], asked("set", ["Singapore"]))  # a graph's name for one of two
    1.0
    """
    gold = _gold(question)
    return names_f1(_without_ids(answers, gold), gold)


def _of_truth(answers: Sequence[Cells], question: UserQuestion) -> float:
    """The answer's words say yes or no, and not both. Names that say neither are no answer.

    >>> [score(said, asked("yes/no", ["no"])) for said in (["No."], ["false"], ["yes"], ["yes", "no"], ["Iron"], [])]
    [1.0, 1.0, 0.0, 0.0, 0.0, 0.0]
    """
    said = {truth for text in _flat(answers) if (truth := _truth(text)) is not None}
    return float(said == {question.answers[0] == "yes"})


def _truth(text: str) -> bool | None:
    first = _WORD.search(text.lower())
    word = first[0] if first else ""
    return True if word in TRUE else False if word in FALSE else None


def _of_number(answers: Sequence[Cells], question: UserQuestion) -> float:
    """The number is among what was answered; each other answer takes from it, as in a set.

    >>> number = asked("number", ["2856.67"])
    >>> [round(score(said, number), 3) for said in (["2,856.67 EUR"], ["2857"], ["2900"], ["2856.67", "3490"])]
    [1.0, 1.0, 0.0, 0.667]
    >>> score(["12"], asked("number", ["12"])), score(["12.01"], asked("number", ["12"]))
    (1.0, 0.0)
    """
    texts = list(dict.fromkeys(_flat(answers)))
    gold = float(str(question.answers[0]))
    close = 0.0 if gold == int(gold) else CLOSE * abs(gold)
    right = any(abs(float(number.replace(",", "")) - gold) <= close for text in texts for number in _first(text))
    return 2 * right / (len(texts) + 1) if texts else 0.0


def _first(text: str) -> list[str]:
    found = _NUMBER.search(text)
    return [found[0]] if found else []


def _of_date(answers: Sequence[Cells], question: UserQuestion) -> float:
    """The date as far as the right answer has it: a day is right where a year is asked for, not the other way round.

    >>> june = asked("date", ["2017-06"])
    >>> [score(said, june) for said in (["2017-06-20"], ["2017-06"], ["2017"], ["2017-06", "2018"])]
    [1.0, 1.0, 0.0, 0.6666666666666666]
    """
    texts = list(dict.fromkeys(_flat(answers)))
    right = any(_within(text, str(question.answers[0])) for text in texts)
    return 2 * right / (len(texts) + 1) if texts else 0.0


def _within(text: str, whole: str) -> bool:
    try:
        (first, last), (since, until) = parse_time(text), parse_time(whole)
    except ValueError:
        return False
    return since <= first and last <= until


def _of_table(answers: Sequence[Cells], question: UserQuestion) -> float:
    """Rows against rows, whatever the order of the columns; where names were answered, cells against cells.

    >>> table = asked("table", [["Ann", "1"], ["Bob", "2"]])
    >>> score([["1", "ann"], ["Bob", "3"]], table), score(["Ann", "Bob"], table)
    (0.5, 0.6666666666666666)
    """
    if not any(isinstance(answer, list) for answer in answers):
        cells = dict.fromkeys(cell for row in question.answers for cell in row if cell)
        return names_f1(_flat(answers), Gold(tuple((cell,) for cell in cells)))
    said = {frozenset(forms(cell).key for cell in ([row] if isinstance(row, str) else row)) for row in answers}
    right = {frozenset(forms(cell).key for cell in row) for row in question.answers}
    return 2 * len(said & right) / (len(said) + len(right))


def _of_none(answers: Sequence[Cells], question: UserQuestion) -> float:
    """The graph does not say: nothing is right but to answer nothing."""
    return float(not answers)


_SCORES: dict[str, Callable[[Sequence[Cells], UserQuestion], float]] = {
    "set": _of_set,
    "yes/no": _of_truth,
    "number": _of_number,
    "date": _of_date,
    "table": _of_table,
    "none": _of_none,
}


def in_order(answers: Sequence[Cells], question: UserQuestion) -> bool:
    """Whether the answers are all right and in the order that was asked for."""
    gold = _gold(question)
    return [gold.entity_of(name) for name in _without_ids(answers, gold)] == list(range(len(gold)))


def _gold(question: UserQuestion) -> Gold:
    names = [name for name in question.answers if isinstance(name, str)]
    return Gold(tuple((name, *question.aliases.get(name, ())) for name in names))


def _without_ids(answers: Iterable[Cells], gold: Gold) -> list[str]:
    """The names, without the id that a graph puts behind one that two things have, where that makes it a right one."""
    named = []
    for name in _flat(answers):
        found = _WITH_ID.fullmatch(name) if gold.entity_of(name) is None else None
        named.append(found[1] if found and gold.entity_of(found[1]) is not None else name)
    return named


def _flat(answers: Iterable[Cells]) -> list[str]:
    return [cell for answer in answers for cell in ([answer] if isinstance(answer, str) else answer)]


# The scores of many


@dataclass(frozen=True)
class Scored:
    """One question with what was answered, and how right that is."""

    graph: str
    company: bool
    question: UserQuestion
    answers: list[Cells]
    f1: float
    found: bool  # all things it should start from were found in its text


@dataclass
class Figures:
    """The mean F1 of some questions, with an interval by graph where there are several graphs."""

    n: int
    f1: float
    interval: list[float] = field(default_factory=list)


def report(scored: Sequence[Scored], *, secret: bool = False) -> dict[str, Any]:
    """The figures of one set of graphs. A `secret` set is told in total and by shape alone."""
    unanswerable = [one for one in scored if one.question.answer_kind == "none"]
    others = [one for one in scored if one.question.answer_kind != "none"]
    ordered = [one for one in scored if one.question.ordered]
    told: dict[str, Any] = {
        "total": asdict(figures(scored)),
        "by_shape": _by(scored, lambda one: one.question.shape),
        "company": asdict(figures([one for one in scored if one.company])),
        "refused_rightly": _share([not one.answers for one in unanswerable]),
        "refused_wrongly": _share([not one.answers for one in others]),
        "in_order": _share([in_order(one.answers, one.question) for one in ordered]),
        "starts_found": _share([one.found for one in scored if one.question.starts.entities]),
    }
    if not secret:
        told["by_answer_kind"] = _by(scored, lambda one: one.question.answer_kind)
        told["by_graph"] = _by(scored, lambda one: one.graph)
        told["questions"] = [
            {
                "graph": one.graph,
                **{name: getattr(one.question, name) for name in ("id", "question", "shape", "answer_kind")},
                "gold": one.question.answers,
                "answers": one.answers,
                "f1": one.f1,
                "found": one.found,
            }
            for one in scored
        ]
    return told


def figures(scored: Sequence[Scored]) -> Figures:
    if not scored:
        return Figures(0, 0.0)
    by_graph: dict[str, list[float]] = {}
    for one in scored:
        by_graph.setdefault(one.graph, []).append(one.f1)
    interval = cluster_interval(list(by_graph.values())) if len(by_graph) > 1 else []
    return Figures(len(scored), float(np.mean([one.f1 for one in scored])), list(interval))


def cluster_interval(
    clusters: Sequence[Sequence[float]], *, confidence: float = 0.95, draws: int = 10_000, seed: int = 0
) -> tuple[float, float]:
    """The percentile interval of the mean where whole clusters are drawn, since the questions of one graph are alike.

    Two graphs, one all right and one all wrong: half of the draws have both, a quarter each the same one twice.

    >>> cluster_interval([[1.0, 1.0], [0.0, 0.0]])
    (0.0, 1.0)
    """
    sum_C = np.array([sum(values) for values in clusters])
    size_C = np.array([len(values) for values in clusters])
    drawn_RC = np.random.default_rng(seed).integers(0, len(clusters), (draws, len(clusters)))
    mean_R = sum_C[drawn_RC].sum(axis=1) / size_C[drawn_RC].sum(axis=1)
    tail = (1 - confidence) / 2
    low, high = np.quantile(mean_R, [tail, 1 - tail])
    return float(low), float(high)


def _by(scored: Sequence[Scored], key: Callable[[Scored], str]) -> dict[str, Any]:
    groups: dict[str, list[Scored]] = {}
    for one in scored:
        groups.setdefault(key(one), []).append(one)
    return {name: asdict(figures(groups[name])) for name in sorted(groups)}


def _share(values: Sequence[bool]) -> float | None:
    return float(np.mean(values)) if values else None
