"""Folds the updates of a store into a new build of it, which takes the store's place in one step.

    compact("films.kg")

The facts, names, dates and questions as they are now go through the build as from a source, so that the result is the
store that a build of all facts gives: the best connected entities first, no room for what is gone. The journal stays
with the old folder. So at every moment there is the old store with its updates or the new one without.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kgwalk.kg.build import BuildReport, build_blocks
from kgwalk.kg.bulk_names import arrow_names, write_table
from kgwalk.kg.export import told_apart
from kgwalk.kg.fact_sources import verify_sources
from kgwalk.kg.files import HEADER, FolderWriter
from kgwalk.kg.names import ALIASES
from kgwalk.kg.sources.source import Block, Labels, TripleBlock
from kgwalk.kg.store import JOURNAL, SUBGRAPHS, Store, StoredGraph, open_graph
from kgwalk.types import KgwalkError, Progress, silent

_BLOCK = 1 << 17  # facts, or names, handled at once


@dataclass
class CompactReport:
    """What was folded in; stands in `kg compact --json`."""

    added: int
    removed: int
    aliases: int
    batches: int
    store: BuildReport
    subgraphs: bool  # whether question subgraphs beside the store went with the old one


def compact(target: str | Path, *, memory: int = 1 << 30, progress: Progress = silent) -> CompactReport | None:
    """Build the store at `target` anew with its updates; None if it has none."""
    target = Path(target).resolve()  # a link stays one, and has the same lock
    if not (target / JOURNAL).exists():
        open_graph(target)  # says what is wrong, if it is no store
        return None
    folding = _Folding(target, progress)
    report = build_blocks(folding.blocks, target, memory=memory, more=folding.more, progress=progress)
    return CompactReport(**folding.changes, store=report, subgraphs=folding.subgraphs)


class _Folding:
    """What is read from the store with its updates, once no other process may write it."""

    def __init__(self, target: Path, progress: Progress) -> None:
        self._target, self._progress = target, progress
        self.changes: dict[str, int] = {}
        self.subgraphs = False

    def blocks(self) -> Iterator[Block]:
        graph = self._graph = open_graph(self._target)
        self.changes = graph.store.changes
        self.subgraphs = (self._target / SUBGRAPHS).exists()
        if not len(graph):
            raise KgwalkError(
                f"{self._target} has no fact left, and a store holds at least one; add facts with "
                f"`kgwalk kg update {self._target} FACTS`"
            )
        if graph.store.entity_id is not None:
            yield from _labels(graph)
        facts, total = _Facts(graph.store), len(graph)
        questions = graph.question_sets if "question.out" in graph.store.folder else None
        for start in range(0, total, _BLOCK):
            triples = np.arange(start, min(start + _BLOCK, total))
            yield facts.block(triples, None if questions is None else "")
            self._progress(f"reading {self._target.name}", start + len(triples), total)
        # A source that came with a graph for each question: its facts once more, with the question's id.
        for question in [] if questions is None else questions:
            assert questions is not None
            of_question, _ = graph.store.current(*questions[question])
            if len(of_question):
                yield facts.block(np.asarray(of_question).astype(np.int64), question)

    def more(self, out: FolderWriter, report: BuildReport) -> None:
        """The aliases, and files that others keep in the folder, but vectors of names, which are of the old store."""
        store = self._graph.store
        if store.aliases:
            keys = store.entity_id or store.entity
            write_table(out, ALIASES, list(store.aliases))
            write_table(out, f"{ALIASES}_of", keys.several(list(store.aliases.values())))
        report.sources = verify_sources(self._target)
        report.tables = self._graph.store.folder.header.get("tables", [])
        for file in self._target.iterdir():
            ours = file.name in (HEADER, JOURNAL) or file.suffix in (".bin", ".npy") or file.name.startswith(".")
            if file.is_file() and not ours:
                shutil.copy2(file, out.folder / file.name)


class _Facts:
    """Blocks of facts by their keys, as a reader yields them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._entity = arrow_names(store.entity_id or store.entity)
        self._relation = arrow_names(store.relation_id or store.relation)
        self._date = arrow_names(store.date) if store.timed else None

    def block(self, triples: npt.NDArray[np.int64], question: str | None) -> TripleBlock:
        store = self._store
        heads, relations = store.out.owners(triples)
        return TripleBlock(
            _taken(self._entity, heads),
            _taken(self._relation, relations),
            _taken(self._entity, store.out.other_array[triples]),
            None if self._date is None else _taken(self._date, store.date_of_array[triples]),
            None if question is None else pa.repeat(pa.scalar(question), len(triples)),
        )


def _taken(names: pa.LargeStringArray, numbers: npt.NDArray[np.integer]) -> pa.StringArray:
    return names.take(pa.array(numbers)).cast(pa.string())


def _labels(graph: StoredGraph) -> Iterator[Labels]:
    """The names of the entities and relations as the source had them, before homonyms were told apart."""
    store = graph.store
    assert store.entity_id is not None
    assert store.relation_id is not None
    tables = (
        ("entity", store.entity, store.entity_id, graph.live_entities()),
        ("relation", store.relation, store.relation_id, graph.live_relations()),
    )
    for prefix, names, ids, numbers in tables:
        told = told_apart(store, prefix)
        for start in range(0, len(numbers), _BLOCK):
            some = list(numbers[start : start + _BLOCK])
            labels = [
                _without(name, told.get(key, 0))
                for name, key in zip(names.several(some), ids.several(some), strict=True)
            ]
            yield Labels(_strings(ids.several(some)), _strings(labels), 0)
    if store.given_names:
        given = [(store.entity_id[number], name) for name, number in store.given_names if number not in store.gone]
        yield Labels(_strings([key for key, _ in given]), _strings([name for _, name in given]), 1)


def _without(name: str, suffix: int) -> str:
    return name.encode()[: len(name.encode()) - suffix].decode() if suffix else name


def _strings(values: Sequence[str]) -> pa.StringArray:
    return pa.array(values, pa.string())
