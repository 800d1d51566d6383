"""`kgwalk data check`: whether a dataset can be trusted.

A dataset is read, scored, looked up in its graph and walked to:

    check(load_dataset("metaqa")).ok

What is wrong is listed, never raised: a folder may be broken in many places, and all of them are wanted at once. Each
question is checked by itself (its fields, its score, its names in the graph, its gold paths), then how many hops lead
to its nearest answer. The kinds of findings, and questions that occur twice, are in findings.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain

import numpy as np
import numpy.typing as npt

from kgwalk.data.dataset import Dataset
from kgwalk.data.folder import FolderLayout, layout_of
from kgwalk.evaluation.findings import DataReport, Finding, QuestionLine, quoted, read_lines, repeats, unreadable
from kgwalk.kg.csr import I64
from kgwalk.kg.graph import Graph
from kgwalk.kg.store import StoredGraph
from kgwalk.questions.schema import NUMBER, YEAR, literal_kind
from kgwalk.score.answers import accuracy, f1, gold_of
from kgwalk.types import KgwalkError, Progress, Question, Triple, silent

COMPUTED_KINDS = ("boolean", "number")  # of `answer_kind`: worked out, so a node of that name is something else
NODE_KINDS = (None, "unknown", "entity")  # of `answer_kind`: the answers should be nodes
NO_ANSWER = "none"  # of `answer_kind`: the graph does not say
HOPS = 4  # within which an answer should lie where a question does not say
FARTHEST = 64  # hops after which the search ends
_STEP = 1024  # questions from one report of progress to the next
_WORD = 64
_U64 = npt.NDArray[np.uint64]


def check(dataset: Dataset, split: str | None = None, progress: Progress = silent) -> DataReport:
    """All findings in a dataset, or in one split of it; the other splits are then read only for leaks."""
    checked = DataReport()
    try:
        layout = layout_of(dataset.path)
    except (KgwalkError, OSError) as error:
        checked.findings.append(unreadable(error, dataset.path))
        return checked
    if split is not None and split not in layout.splits:
        there_are = ", ".join(layout.splits) or "none"
        raise KgwalkError(f"no split {split!r} of {dataset.name}; there are: {there_are}")
    if not layout.splits:
        text = "put questions there, in train.jsonl, dev.jsonl or test.jsonl, plain, .gz or .zst"
        texts = any(dataset.path.glob("passages.jsonl*"))
        kind = "graph_only" if dataset.has_graph() else "texts_only" if texts else "no_splits"
        checked.findings.append(Finding(kind, text, dataset.path))
        if kind == "texts_only":
            return checked
    asked, broken = _read(layout, split, checked, progress)
    dataset = dataset.without(broken) if broken else dataset  # otherwise no name could be looked up
    whole = _graph(dataset, checked, progress)
    wanted = [split] if split is not None else list(layout.splits)
    checked.questions = {name: len(asked[name]) for name in wanted}
    _questions(dataset, whole, [one for name in wanted for one in asked[name]], checked, progress)
    checked.findings += repeats(asked, split)
    return checked


def _read(
    layout: FolderLayout, split: str | None, checked: DataReport, progress: Progress
) -> tuple[dict[str, list[QuestionLine]], set[str]]:
    """The questions by split, and the splits that could not be read to the end."""
    asked: dict[str, list[QuestionLine]] = {name: [] for name in layout.splits}
    broken: set[str] = set()
    for name, path in layout.splits.items():
        for line in read_lines(path, name, progress):
            if isinstance(line, QuestionLine):
                asked[name].append(line)
                continue
            if line.kind == "unreadable_file":
                broken.add(name)
            if split in (None, name):
                checked.findings.append(line)
    return asked, broken


def _graph(dataset: Dataset, checked: DataReport, progress: Progress) -> StoredGraph | None:
    """The graph, every byte of it compared with its checksum."""
    try:
        graph = _stored(dataset.graph(progress))
        for folder in graph.folders():
            read = 0
            for _, size in folder.verify():
                read += size
                progress("reading the graph", read, folder.size())
    except (KgwalkError, OSError) as error:
        checked.findings.append(unreadable(error, dataset.path, kind="graph"))
        return None
    header = graph.store.folder.header
    if header["skipped"]:
        first = next(iter(header["first_skipped"]), "")
        checked.findings.append(Finding("facts_left_out", f"{header['skipped']:,}; the first: {first}", dataset.path))
    return graph


def _questions(
    dataset: Dataset, graph: StoredGraph | None, asked: Sequence[QuestionLine], checked: DataReport, progress: Progress
) -> None:
    """Check each question by itself, then count the hops to the answers of all that share the whole graph."""
    whole = None if graph is None else CheckedGraph(graph)
    walks: list[tuple[QuestionLine, list[int], list[int]]] = []
    for at, one in enumerate(asked):
        if at % _STEP == 0:
            progress("checking questions", at, len(asked))
        located = None if whole is None else _checked_graph(dataset, one, whole).locate(one.question)
        checked.findings += chain(fields(one), score(one, located))
        if located is None or whole is None:
            continue
        checked.findings += _names(one, located, whole)
        starts, ends = located.starts, located.ends
        if starts and ends and located.checked_graph is whole:
            walks.append((one, starts, ends))
        elif starts and ends:
            _reached([one], distances(located.checked_graph.graph, [starts], [ends], _most([one])), checked)
    progress("checking questions", len(asked), len(asked))
    if graph is not None and walks:
        walked, starts_Q, ends_Q = zip(*walks, strict=True)
        walking = partial(progress, "walking to the answers")
        _reached(walked, distances(graph, starts_Q, ends_Q, _most(walked), walking), checked)
    for split, counts in checked.reach.items():
        checked.reach[split] = Counter(dict(sorted(counts.items(), key=lambda one: (len(one[0]), one[0]))))


def _checked_graph(dataset: Dataset, asked: QuestionLine, whole: CheckedGraph) -> CheckedGraph:
    graph = _stored(dataset.graph_for(asked.question))
    return whole if graph is whole.graph else CheckedGraph(graph)


def _stored(graph: Graph) -> StoredGraph:
    if not isinstance(graph, StoredGraph):
        raise KgwalkError(f"only a graph in a store can be checked, not a {type(graph).__name__}")
    return graph


def _names(asked: QuestionLine, located: Located, whole: CheckedGraph) -> Iterator[Finding]:
    yield from topics(asked, located)
    yield from answers(asked, located, whole)
    yield from paths(asked, located)


def _most(asked: Sequence[QuestionLine]) -> int:
    return max(FARTHEST, *(one.question.hops or 0 for one in asked))


def _reached(asked: Sequence[QuestionLine], found: Sequence[int | None], checked: DataReport) -> None:
    """Count the hops to the nearest answers, with a finding where they are too many."""
    for one, hops in zip(asked, found, strict=True):
        checked.reach.setdefault(one.split, Counter())["none" if hops is None else str(hops)] += 1
        question = one.question
        if hops is None:
            text = f"from {quoted(question.topic_entities)} to {quoted(question.answers)}"
            checked.findings.append(one.finding("answers_unreached", text))
        elif hops > (HOPS if question.hops is None else question.hops):
            said = "`hops` is not given" if question.hops is None else f"`hops` is {question.hops}"
            checked.findings.append(one.finding("answers_far", f"the nearest is {hops} hops away; {said}"))


# One question


def fields(asked: QuestionLine) -> Iterator[Finding]:
    """Findings about what every question must have."""
    question = asked.question
    if not question.question.strip():
        yield asked.finding("no_text", "`question` is blank")
    if not _any_name(question.topic_entities) and question.needs_topic:
        yield asked.finding("no_topics", "`topic_entities` is empty")
    if not _any_name(question.answers) and question.extra.get("answer_kind") != NO_ANSWER:
        yield asked.finding("no_answers", "`answers` is empty")
    if unused := [name for name in question.aliases if name not in question.answers]:
        yield asked.finding("aliases_unused", f"`aliases` has {quoted(unused)}")


def score(asked: QuestionLine, located: Located | None) -> Iterator[Finding]:
    """The gold answers, given as the answer, must score F1 = 1, also under the names that a walk shows them by."""
    question = asked.question
    if not _any_name(question.answers):
        return
    gold = gold_of(question)
    if question.extra.get("answer_kind") == "boolean" and not accuracy(question.answers, gold):
        yield asked.finding("gold_truth", f"`answer_kind` is 'boolean', and the answer {quoted(question.answers)}")
    graph = None if located is None else located.checked_graph.graph
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


def topics(asked: QuestionLine, located: Located) -> Iterator[Finding]:
    question = asked.question
    missing = _missing(question.topic_entities, located.topics)
    if missing:
        kind = "some_topics_missing" if located.starts else "topics_missing"
        yield asked.finding(kind, f"not in the graph: {quoted(missing)}")
    if both := [answer for answer in question.answers if answer in question.topic_entities]:
        yield asked.finding("answer_is_topic", quoted(both))


def answers(asked: QuestionLine, located: Located, whole: CheckedGraph) -> Iterator[Finding]:
    """Whether the answers are nodes of the question's own facts; if none is, where they are."""
    question = asked.question
    kind = question.extra.get("answer_kind")
    missing = _missing(question.answers, located.answers)
    if not missing or not _any_name(question.answers):
        return
    if located.ends:
        yield asked.finding("some_answers_missing", f"not in the graph: {quoted(missing)}")
    elif kind not in COMPUTED_KINDS and (times := [name for name in missing if name in located.checked_graph.times]):
        yield asked.finding("answers_are_times", f"times of facts: {quoted(times)}")
    elif kind not in NODE_KINDS:
        yield asked.finding("answers_are_values", f"{quoted(missing)}: `answer_kind` is {kind!r}")
    elif whole.locate(question).ends or not whole.times.isdisjoint(missing):
        yield asked.finding("answers_elsewhere", f"not among the question's own facts: {quoted(missing)}")
    else:
        yield asked.finding("answers_missing", f"not in the graph: {quoted(missing)}{_hint(missing)}")


def _hint(missing: Sequence[str]) -> str:
    """Advice for answers that look like numbers: the question may lack its `answer_kind`."""
    if not all(literal_kind(name) in (NUMBER, YEAR) for name in missing):
        return ""
    return '; for an answer that is counted or worked out, give the question `"answer_kind": "number"`'


def paths(asked: QuestionLine, located: Located) -> Iterator[Finding]:
    """The facts of gold paths must be in the graph and lead from a topic to an answer; one finding of each kind."""
    question, found = asked.question, dict[str, str]()
    if not question.gold_paths:
        return
    starts: set[str | int] = {*question.topic_entities, *located.starts}
    ends: set[str | int] = {*question.answers, *located.ends}
    ends.update(*question.aliases.values())
    for path in question.gold_paths:
        if missing := [fact for fact in path if not located.checked_graph.has(fact)]:
            found.setdefault("path_facts_missing", f"not in the graph: {_written(missing[0])}")
        if (problem := _walk(path, starts, ends, located.checked_graph)) is not None:
            found.setdefault(*problem)
    for kind, text in found.items():
        yield asked.finding(kind, text)


def _walk(
    path: list[Triple], starts: set[str | int], ends: set[str | int], checked_graph: CheckedGraph
) -> tuple[str, str] | None:
    """Walk a path from the topics, along or against each fact; returns the kind of finding and its text, or None.

    Nodes are compared by number, so that an entity's id and its name are the same.
    """
    at = starts
    for step, fact in enumerate(path):
        head, tail = _node(fact.head, checked_graph), _node(fact.tail, checked_graph)
        at = {far for near, far in ((head, tail), (tail, head)) if near in at}
        if not at:
            before = "which is not at a topic" if step == 0 else f"which does not join {_written(path[step - 1])}"
            return "path_gap" if step else "path_start", f"{_written(fact)}, {before}"
    if not at.isdisjoint(ends) or (path and not moments(path[-1].time).isdisjoint(ends)):
        return None
    return "path_end", _written(path[-1]) if path else "an empty path"


def _node(name: str, checked_graph: CheckedGraph) -> str | int:
    number = checked_graph.number(name)
    return name if number is None else number


def _written(fact: Triple) -> str:
    return f"({', '.join(map(repr, fact if fact.time else fact[:3]))})"


def _missing(names: Sequence[str], numbers: Sequence[int | None]) -> list[str]:
    return [name for name, number in zip(names, numbers, strict=True) if number is None]


def _any_name(names: Sequence[str]) -> bool:
    return any(name.strip() for name in names)


# The graph as a check asks about it


class CheckedGraph:
    """The facts that a question is walked over, as a check asks about them: is this name, this time, this fact there?

    It is the whole graph or a question's own part of it. Answers are remembered.
    """

    def __init__(self, graph: StoredGraph) -> None:
        self.graph = graph
        self._numbers: dict[str, int | None] = {}
        self._facts: dict[Triple, bool] = {}

    def number(self, name: str) -> int | None:
        """The entity of this name or id; None where it has no fact here."""
        if name not in self._numbers:
            self._numbers[name] = self.graph.store.entity_number(name) if name in self.graph else None
        return self._numbers[name]

    def has(self, fact: Triple) -> bool:
        """Whether the fact is here, at its time if it has one."""
        if fact not in self._facts:
            found = self.graph._matching(*fact[:3])
            self._facts[fact] = any(fact.time in ("", self._time(triple)) for triple in found)
        return self._facts[fact]

    def _time(self, triple: int) -> str:
        store = self.graph.store
        return store.date[store.date_of[triple]] if store.timed else ""

    @cached_property
    def times(self) -> set[str]:
        """The times of facts here, as an answer may give them (`moments`)."""
        store = self.graph.store
        if not store.timed:
            return set()
        triples = np.asarray(self.graph._positions(0, len(store.out.other), True), np.int64)
        dates = store.date.several(np.unique(store.date_of_array[triples]).tolist())
        return {moment for date in dates for moment in moments(date)}

    def locate(self, question: Question) -> Located:
        topics = [self.number(topic) for topic in question.topic_entities]
        if question.extra.get("answer_kind") in COMPUTED_KINDS and not question.gold_paths:
            return Located(self, topics, [None] * len(question.answers))
        aliases = question.aliases
        return Located(self, topics, [self._any([name, *aliases.get(name, ())]) for name in question.answers])

    def _any(self, names: Sequence[str]) -> int | None:
        return next((number for number in map(self.number, names) if number is not None), None)


@dataclass(frozen=True, slots=True)
class Located:
    """The entities of a question's topics and answers, in order; None for one that is not in the graph.

    An answer is found by its name or by one of its aliases; one that is worked out (a count) is not looked for.
    """

    checked_graph: CheckedGraph
    topics: list[int | None]
    answers: list[int | None]

    @property
    def starts(self) -> list[int]:
        return [number for number in self.topics if number is not None]

    @property
    def ends(self) -> list[int]:
        return [number for number in self.answers if number is not None]


def moments(time: str) -> set[str]:
    """Both ends of a time, as far as given: the day, the month and the year.

    >>> sorted(moments("1990-05..1994"))
    ['1990', '1990-05', '1994']
    """
    ends = {end.strip() for end in time.split("..")} - {""}
    return ends | {end[:at] for end in ends for at, sign in enumerate(end) if sign == "-" and at}


# Hops between sets of entities, for many questions at once


def distances(
    graph: StoredGraph,
    starts: Sequence[Sequence[int]],
    ends: Sequence[Sequence[int]],
    most: int,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[int | None]:
    """For each question the fewest hops from any of its starts to any of its ends; None if more than `most`, or no way.

    A breadth-first search by bits: every entity has a word of 64 bits, one for each set of starts, and a hop makes an
    entity's word the OR of its own and its neighbours'. So one pass over the edges, which are walked both ways, moves
    64 searches one hop on. Questions with the same starts share a bit.

    Over a -> b <- c, d -> e: from a to c are 2 hops (there and against the arrow), from a to a 0, from a to e none.
    An entity without a fact in the graph, as in a view, is neither a start nor an end.
    """
    adjacency = _adjacency(graph)
    found_Q = np.full(len(starts), -1, np.int64)
    column_of: dict[tuple[int, ...], int] = {}
    column_Q = np.array([column_of.setdefault(tuple(sorted(one)), len(column_of)) for one in starts], np.int64)
    sets = [adjacency.places([one])[1] for one in column_of]
    question_P, end_P = adjacency.places(ends)  # P: pairs of a question and one of its ends, ordered by the column
    order_P = np.argsort(column_Q[question_P], kind="stable")
    question_P, end_P = question_P[order_P], end_P[order_P]
    columns_P = column_Q[question_P]
    for low in range(0, len(sets) if len(adjacency.nodes) else 0, _WORD):
        first, last = np.searchsorted(columns_P, (low, low + _WORD))
        bit_P = (columns_P[first:last] - low).astype(np.uint64)
        _search(adjacency, sets[low : low + _WORD], end_P[first:last], bit_P, question_P[first:last], most, found_Q)
        progress(min(low + _WORD, len(sets)), len(sets))
    return [None if hops < 0 else hops for hops in found_Q.tolist()]


@dataclass(frozen=True, slots=True)
class _Adjacency:
    """The neighbours of every entity that has a fact: those of `nodes[i]` begin at `neighbour[first[i]]`."""

    nodes: I64  # ascending entity numbers; a place in this array stands for the entity
    neighbour: I64  # places
    first: I64

    def places(self, lists: Sequence[Sequence[int]]) -> tuple[I64, I64]:
        """All entities of the lists as (which list, place), those without a fact left out."""
        lengths = np.fromiter(map(len, lists), np.int64, len(lists))
        entity = np.fromiter(chain.from_iterable(lists), np.int64, int(lengths.sum()))
        which = np.repeat(np.arange(len(lists)), lengths)
        if not len(self.nodes):
            return which[:0], entity[:0]
        place = np.minimum(np.searchsorted(self.nodes, entity), len(self.nodes) - 1)
        there = self.nodes[place] == entity
        return which[there], place[there]


def _adjacency(graph: StoredGraph) -> _Adjacency:
    head, _, tail = graph.facts_by_number()
    nodes, place = np.unique(np.concatenate([head, tail]), return_inverse=True)
    one, other = place[: len(head)].astype(np.uint64), place[len(head) :].astype(np.uint64)
    # A pair is one key: sorted by the entity, and several relations between two entities are one edge.
    size = np.uint64(max(1, len(nodes)))
    keys = np.unique(np.concatenate([one * size + other, other * size + one]))
    owner, neighbour = (keys // size).astype(np.int64), (keys % size).astype(np.int64)
    return _Adjacency(nodes, neighbour, np.searchsorted(owner, np.arange(len(nodes))))


def _search(
    adjacency: _Adjacency, sets: Sequence[I64], end_P: I64, bit_P: _U64, question_P: I64, most: int, found_Q: I64
) -> None:
    """64 searches. A pair is met when the search of its bit reaches its end; a question's first meeting counts."""
    reached_N = np.zeros(len(adjacency.nodes), np.uint64)
    for bit, places in enumerate(sets):
        reached_N[places] |= np.uint64(1 << bit)
    for hop in range(most + 1):
        met_P = (reached_N[end_P] >> bit_P) & np.uint64(1) == 1
        found_Q[question_P[met_P]] = hop
        open_P = found_Q[question_P] < 0
        end_P, bit_P, question_P = end_P[open_P], bit_P[open_P], question_P[open_P]
        if not len(end_P) or hop == most:
            return
        spread_N = reached_N | np.bitwise_or.reduceat(reached_N[adjacency.neighbour], adjacency.first)
        if np.array_equal(spread_N, reached_N):
            return
        reached_N = spread_N
