"""What is wrong with one question: its fields, its score, its names in the graph, its gold paths.

Knows one question and its graph at a time; evaluation/repeats.py compares questions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kgwalk.evaluation.findings import Finding, quoted
from kgwalk.evaluation.ground import COMPUTED_KINDS, Ground, Located, moments
from kgwalk.evaluation.question_lines import Asked
from kgwalk.questions.literals import NUMBER, YEAR, literal_kind
from kgwalk.score.answers import accuracy, f1
from kgwalk.score.gold import gold_of
from kgwalk.types import Triple

NODE_KINDS = (None, "unknown", "entity")  # of `answer_kind`: the answers should be nodes


def fields(asked: Asked) -> Iterator[Finding]:
    """What every question must have."""
    question = asked.question
    if not question.question.strip():
        yield asked.finding("no_text", "`question` is blank")
    if not _given(question.topic_entities):
        yield asked.finding("no_topics", "`topic_entities` is empty")
    if not _given(question.answers):
        yield asked.finding("no_answers", "`answers` is empty")
    if unused := [name for name in question.aliases if name not in question.answers]:
        yield asked.finding("aliases_unused", f"`aliases` has {quoted(unused)}")


def score(asked: Asked, located: Located | None) -> Iterator[Finding]:
    """The gold answers, given as an answer, must score F1 = 1; also by the names that a walk shows them under."""
    question = asked.question
    if not _given(question.answers):
        return
    gold = gold_of(question)
    if question.extra.get("answer_kind") == "boolean" and not accuracy(question.answers, gold):
        yield asked.finding("gold_truth", f"`answer_kind` is 'boolean', and the answer {quoted(question.answers)}")
    graph = None if located is None else located.ground.graph
    value = f1(question.answers, gold, graph)
    if value != 1:
        yield asked.finding("gold_f1", f"F1 = {value:.3f} for the answers {quoted(question.answers)}")
    elif located is not None and graph is not None and graph.store.entity_id is not None:
        # Entities have ids beside their names, and the answers may be the ids.
        both = zip(question.answers, located.answers, strict=True)
        shown = [answer if number is None else graph.store.entity[number] for answer, number in both]
        value = f1(shown, gold, graph)
        if value != 1:
            named = f"{quoted(shown)}, as the graph names {quoted(question.answers)}"
            yield asked.finding("gold_f1", f"F1 = {value:.3f} for {named}")


def topics(asked: Asked, located: Located) -> Iterator[Finding]:
    question = asked.question
    missing = _missing(question.topic_entities, located.topics)
    if missing:
        kind = "some_topics_missing" if located.starts else "topics_missing"
        yield asked.finding(kind, f"not in the graph: {quoted(missing)}")
    if both := [answer for answer in question.answers if answer in question.topic_entities]:
        yield asked.finding("answer_is_topic", quoted(both))


def answers(asked: Asked, located: Located, whole: Ground) -> Iterator[Finding]:
    """Whether the answers are nodes of the question's own facts; if none is, where they are."""
    question = asked.question
    kind = question.extra.get("answer_kind")
    missing = _missing(question.answers, located.answers)
    if not missing or not _given(question.answers):
        return
    if located.ends:
        yield asked.finding("some_answers_missing", f"not in the graph: {quoted(missing)}")
    elif kind not in COMPUTED_KINDS and (times := [name for name in missing if name in located.ground.times]):
        yield asked.finding("answers_are_times", f"times of facts: {quoted(times)}")
    elif kind not in NODE_KINDS:
        yield asked.finding("answers_are_values", f"{quoted(missing)}: `answer_kind` is {kind!r}")
    elif whole.locate(question).ends or not whole.times.isdisjoint(missing):
        yield asked.finding("answers_elsewhere", f"not among the question's own facts: {quoted(missing)}")
    else:
        yield asked.finding("answers_missing", f"not in the graph: {quoted(missing)}{_hint(missing)}")


def _hint(missing: Sequence[str]) -> str:
    """What answers that are no nodes may lack: the word that they are none."""
    if not all(literal_kind(name) in (NUMBER, YEAR) for name in missing):
        return ""
    return '; for an answer that is counted or worked out, give the question `"answer_kind": "number"`'


def paths(asked: Asked, located: Located) -> Iterator[Finding]:
    """Gold paths: their facts are in the graph, and lead from a topic to an answer. One finding of a kind."""
    question, found = asked.question, dict[str, str]()
    if not question.gold_paths:
        return
    starts: set[str | int] = {*question.topic_entities, *located.starts}
    ends: set[str | int] = {*question.answers, *located.ends}
    ends.update(*question.aliases.values())
    for path in question.gold_paths:
        if missing := [fact for fact in path if not located.ground.has(fact)]:
            found.setdefault("path_facts_missing", f"not in the graph: {_written(missing[0])}")
        if (problem := _walk(path, starts, ends, located.ground)) is not None:
            found.setdefault(*problem)
    for kind, text in found.items():
        yield asked.finding(kind, text)


def _walk(path: list[Triple], starts: set[str | int], ends: set[str | int], ground: Ground) -> tuple[str, str] | None:
    """Walks a path from the topics, along or against each fact; the kind of finding and its text, or None.

    Names that are nodes are walked as their numbers, so that an entity's id and its name are one.
    """
    at = starts
    for step, fact in enumerate(path):
        head, tail = _node(fact.head, ground), _node(fact.tail, ground)
        at = {far for near, far in ((head, tail), (tail, head)) if near in at}
        if not at:
            before = "which is not at a topic" if step == 0 else f"which does not join {_written(path[step - 1])}"
            return "path_gap" if step else "path_start", f"{_written(fact)}, {before}"
    if not at.isdisjoint(ends) or (path and not moments(path[-1].time).isdisjoint(ends)):
        return None
    return "path_end", _written(path[-1]) if path else "an empty path"


def _node(name: str, ground: Ground) -> str | int:
    number = ground.number(name)
    return name if number is None else number


def _written(fact: Triple) -> str:
    return f"({', '.join(map(repr, fact if fact.time else fact[:3]))})"


def _missing(names: Sequence[str], numbers: Sequence[int | None]) -> list[str]:
    return [name for name, number in zip(names, numbers, strict=True) if number is None]


def _given(names: Sequence[str]) -> bool:
    return any(name.strip() for name in names)
