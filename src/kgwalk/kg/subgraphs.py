"""Makes a subgraph for each question: breadth first around its topics, over the shared store.

It is stored as a list of triple numbers (`question_sets`); `kgwalk kg subgraphs` calls this.

KG-R1's appendix B.2 also grows around the gold answers. That puts the answer within reach by construction, so it
happens only where `Seeds.answers` are given, and the folder's header records it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np
import numpy.typing as npt

from kgwalk.kg.bulk_names import write_table
from kgwalk.kg.csr import I64, Edges
from kgwalk.kg.files import FolderWriter, naming_disk_errors
from kgwalk.kg.question_sets import KIND, VERSION, BothEdges, QuestionWriter, in_positions
from kgwalk.kg.store import SUBGRAPHS, StoredGraph
from kgwalk.types import InputError


@dataclass
class SubgraphReport:
    """What was written; stands in the folder's header."""

    questions: int = 0
    triples: int = 0  # over all questions
    largest: int = 0
    truncated: int = 0  # questions that met `max_triples`
    empty: int = 0  # questions none of whose seeds is in the graph
    unknown: list[str] = field(default_factory=list)  # the first ten names that are not in the graph


@dataclass(frozen=True)
class Seeds:
    """Where a question's subgraph starts."""

    question: str
    topics: Sequence[str]
    answers: Sequence[str] = ()


def around(graph: StoredGraph, seeds: I64, hops: int, *, hub: int, max_triples: int) -> tuple[I64, bool]:
    """The triples within `hops` of the seeds, ascending, and whether `max_triples` cut them short.

    Edges are followed both ways. Of one entity's edges with one relation, at most `hub` are followed, the most
    connected neighbours first; so a hub keeps all its relations.
    """
    store = graph.store
    seen: I64 = np.unique(seeds)
    frontier = seen
    kept = np.empty(0, np.int64)
    for _ in range(hops):
        out_places = _edges_of(store.out, frontier, hub)
        in_places = _edges_of(store.in_, frontier, hub)
        triples = np.concatenate([out_places, store.triple_of_array[in_places].astype(np.int64)])
        # first come, first kept: the best connected entities first, outgoing edges before incoming ones
        fresh = triples[~np.isin(triples, kept)]
        _, first = np.unique(fresh, return_index=True)
        fresh = fresh[np.sort(first)]
        room = max_triples - len(kept)
        kept = np.concatenate([kept, fresh[:room]])
        if len(fresh) > room:
            return np.sort(kept), True
        reached = np.concatenate([store.out.other_array[out_places], store.in_.other_array[in_places]])
        frontier = np.setdiff1d(reached.astype(np.int64), seen)
        seen = np.union1d(seen, frontier)
    return np.sort(kept), False


def _edges_of(edges: Edges, entities: I64, hub: int) -> I64:
    """The positions of the edges of these entities, at most `hub` of each group."""
    groups = _ranges(edges.groups_array[entities].astype(np.int64), edges.groups_array[entities + 1].astype(np.int64))
    starts = edges.start_array[groups].astype(np.int64)
    return _ranges(starts, np.minimum(edges.start_array[groups + 1].astype(np.int64), starts + hub))


def _ranges(starts: I64, stops: I64) -> I64:
    """start .. stop of each pair, one after the other.

    >>> _ranges(np.array([3, 7]), np.array([5, 10])).tolist()
    [3, 4, 7, 8, 9]
    """
    sizes = stops - starts
    before = np.cumsum(sizes) - sizes
    places: I64 = np.arange(int(sizes.sum())) + np.repeat(starts - before, sizes)
    return places


def write_subgraphs(
    graph: StoredGraph,
    questions: Iterable[Seeds],
    *,
    hops: int = 2,
    hub: int = 200,
    max_triples: int = 50_000,
    replace: bool = False,
    progress: Callable[[int], None] = lambda done: None,
) -> SubgraphReport:
    """Store a subgraph for each question inside the graph's own folder, where `graph.question` finds it."""
    if hops < 1 or hub < 1 or max_triples < 1:
        raise ValueError("hops, hub and max_triples are at least 1")
    store = graph.store
    if "question.out" in store.folder:
        raise InputError(f"{store.folder.path} came with a graph for each question, and keeps those")
    if store.built is not store:
        raise InputError(
            f"{store.folder.path} has updates, and subgraphs are lists of facts of a store as it was built",
            hint=f"fold them in first: kgwalk kg compact {store.folder.path}",
        )
    target = store.folder.path / SUBGRAPHS
    report = SubgraphReport()
    names: dict[str, None] = {}
    with_answers = False
    with (
        FolderWriter(target, kind=KIND, version=VERSION, replace=replace) as out,
        naming_disk_errors(f"while writing {target}"),
    ):
        writer, edges = QuestionWriter(out), BothEdges(store.out, store.in_, store.triple_of_array)
        for seeds in questions:
            if seeds.question in names:
                raise InputError(f"question id {seeds.question!r} occurs twice; ids must be distinct")
            names[seeds.question] = None
            with_answers |= bool(seeds.answers)
            numbers = _known(graph, [*seeds.topics, *seeds.answers], report)
            triples, cut = around(graph, numbers, hops, hub=hub, max_triples=max_triples)
            writer.append(triples, in_positions(edges, triples))
            _count(report, triples, cut)
            progress(report.questions)
        if not names:
            raise InputError("no questions: there is nothing to make a subgraph for")
        write_table(out, "question", list(names))
        around_what = ["topics", "answers"] if with_answers else ["topics"]
        settings = {"hops": hops, "hub": hub, "max_triples": max_triples, "around": around_what}
        out.finish({"store": store.digest, **settings, **asdict(report)})
    return report


def _known(graph: StoredGraph, names: Sequence[str], report: SubgraphReport) -> npt.NDArray[np.int64]:
    """The numbers of the names that are in the graph; the first ten others go into the report."""
    numbers = []
    for name in names:
        number = graph.store.entity_number(name)
        if number is not None:
            numbers.append(number)
        elif name not in report.unknown and len(report.unknown) < 10:
            report.unknown.append(name)
    return np.array(numbers, np.int64)


def _count(report: SubgraphReport, triples: I64, cut: bool) -> None:
    report.questions += 1
    report.triples += len(triples)
    report.largest = max(report.largest, len(triples))
    report.truncated += cut
    report.empty += not len(triples)
