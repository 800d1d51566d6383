"""A dataset: a folder of questions in splits, and the graph they are asked over.

    load_dataset("metaqa").questions("test")

docs/guides/datasets.md has the folder format. Folders are only read: the graph of one is built into a store in the
cache, once, and opened from there ever after. Training and evaluation ask for a `Data`, which a dataset is, and so is
a mixture of several (`mixture`).
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from kgwalk.config.cache import cache_folder
from kgwalk.config.recipe import unknown
from kgwalk.config.run_folder import row_of
from kgwalk.data.bundled import BUNDLED, world_folder
from kgwalk.data.folder import FolderLayout, layout_of, read_questions
from kgwalk.kg.cached import cached_store
from kgwalk.kg.files import is_store, naming_read_errors
from kgwalk.kg.graph import Graph
from kgwalk.kg.sources.reading import detect_format
from kgwalk.kg.store import StoredGraph, open_graph
from kgwalk.types import KgwalkError, Progress, Question, silent

log = logging.getLogger(__name__)

GRAPH_ID = "graph_id"  # in the `extra` of a question that shares its facts with others: their id in graphs.jsonl


class Data(Protocol):
    """What training and evaluation need: questions in splits, and a graph for each."""

    @property
    def name(self) -> str: ...
    def splits(self) -> list[str]: ...
    def questions(self, split: str) -> list[Question]: ...
    def graph_for(self, question: Question) -> Graph: ...
    def prepare(self, progress: Progress) -> None:
        """Build the graphs that are not built yet."""

    def place(self) -> Any:
        """What a run's settings record: the folder, or the folders with what is taken of each."""


@dataclass(frozen=True)
class Dataset:
    """One opened dataset; open it with `load_dataset`."""

    name: str
    path: Path

    def splits(self) -> list[str]:
        return list(self._layout.splits)

    def questions(self, split: str) -> list[Question]:
        """The questions of a split. Their own facts, if they have any, are reached by `graph_for`."""
        if split not in self._layout.splits:
            there_are = f"there are {', '.join(self.splits())}" if self.splits() else "it has no questions"
            raise KgwalkError(f"no split {split!r} of {self.name}; {there_are}")
        return list(read_questions(self._layout.splits[split], with_graph=False))

    def has_graph(self) -> bool:
        return self._layout.store is not None or bool(self._sources())

    def graph(self, progress: Progress = silent) -> StoredGraph:
        """The whole graph; the first time on a machine it is built, which `progress` follows."""
        return self._stored(progress)

    def prepare(self, progress: Progress) -> None:
        self._stored(progress)

    def hold(self) -> None:
        """Open the graph so that no change of its files reaches it (`private`, see `open_graph`)."""
        self._opened["graph"] = open_graph(self._layout.store or self._build(silent), private=True)

    def place(self) -> str:
        return str(self.path.resolve())

    def graph_for(self, question: Question) -> Graph:
        """The question's own subgraph where it has one, else the whole graph. Several questions may share a subgraph.

        Where the only facts are those of single questions, a question without any has an empty graph.
        """
        whole = self._stored(silent)
        sets = whole.question_sets
        if sets is None:
            return whole
        own = str(question.extra.get(GRAPH_ID, question.id))
        if own in sets:
            return whole.question(own)
        return whole if self._layout.kg or self._layout.store else whole.subgraph(np.empty(0, np.int64))

    def without(self, splits: Collection[str]) -> Dataset:
        """The same dataset without these splits: for files so broken that not even their facts can be looked for."""
        other = Dataset(self.name, self.path)
        kept = {name: path for name, path in self._layout.splits.items() if name not in splits}
        other.__dict__["_layout"] = replace(self._layout, splits=kept)
        return other

    @cached_property
    def _layout(self) -> FolderLayout:
        return layout_of(self.path)

    def _stored(self, progress: Progress) -> StoredGraph:
        opened: dict[str, StoredGraph] = self._opened
        if "graph" not in opened:
            opened["graph"] = open_graph(self._layout.store or self._build(progress))
        return opened["graph"]

    @cached_property
    def _opened(self) -> dict[str, StoredGraph]:
        return {}

    def _sources(self) -> list[Path]:
        """The files that facts come from; a split is one of them if its first question has a graph of its own."""
        layout = self._layout
        files = [path for path in (layout.kg, layout.graphs) if path is not None]
        return files + [path for path in layout.splits.values() if detect_format(path) == "rog"]

    def _build(self, progress: Progress) -> Path:
        sources = self._sources()
        if not sources:
            raise KgwalkError(
                f"{self.path} has no graph: put kg.tsv.gz (head, relation, tail) or a store graph.kg there, "
                "or facts into the questions (`graph`)"
            )
        return cached_store(sources, self._layout.names, progress)


def load_dataset(name: str | Path) -> Dataset:
    """A dataset by its folder, or by name: `world`, which comes with kgwalk, or one that `kgwalk data get` fetched."""
    if name in BUNDLED:
        return Dataset(str(name), world_folder())
    folder = Path(name).expanduser()
    with naming_read_errors(folder):
        is_folder = folder.is_dir()
    if is_folder:
        return _checked(Dataset(folder.resolve().name, folder))
    fetched = fetched_folder(str(name))
    if isinstance(name, str) and fetched.is_dir():
        return _checked(Dataset(name, fetched))
    if folder.exists():
        raise KgwalkError(f"{folder} is a file; a dataset is a folder, made for example by `kgwalk data convert`")
    if len(folder.parts) == 1:
        error = unknown("dataset", str(name), known_names())
        raise KgwalkError(f"{error}\n  A dataset is a folder, or a name that `kgwalk data get` fetched.")
    raise KgwalkError(f"{folder} does not exist; a dataset is a folder with train.jsonl, test.jsonl, ... and a kg.tsv")


def known_names() -> list[str]:
    """The datasets that need no path."""
    folder = datasets_folder()
    fetched = [path.name for path in folder.iterdir() if path.is_dir()] if folder.is_dir() else []
    return sorted({*BUNDLED, *(name for name in fetched if not name.startswith("."))})


def datasets_folder() -> Path:
    """Where `kgwalk data get` puts datasets."""
    return cache_folder() / "datasets"


def fetched_folder(name: str) -> Path:
    """The folder of one of them; the hub's owner/name is owner--name."""
    return datasets_folder() / name.replace("/", "--")


def _checked(dataset: Dataset) -> Dataset:
    """The dataset, if its folder has questions or a graph; else an error that says what it is instead."""
    if is_store(dataset.path):
        raise KgwalkError(
            f"{dataset.path} is a graph's store, without questions; "
            f"`kgwalk questions make {dataset.path} -o DIR` makes a dataset of it"
        )
    with naming_read_errors(dataset.path):
        layout = dataset._layout
    if not (layout.splits or layout.store or layout.kg or layout.graphs):
        raise KgwalkError(
            f"{dataset.path} is no dataset: it has neither questions (train.jsonl, test.jsonl.gz, ...) nor a graph "
            "(kg.tsv.gz, graph.kg); `kgwalk data convert` makes one of a public dataset's own files"
        )
    return dataset


# The store of a dataset, in the cache


# What a dataset holds, in counts


def summary(splits: dict[str, list[Question]]) -> dict[str, Any]:
    """For each split: the number of questions, answers a question, and counts by hops, type and kind of answer."""
    return {name: _split(questions) for name, questions in splits.items()}


def _split(questions: list[Question]) -> dict[str, Any]:
    answers = sum(len(question.answers) for question in questions)
    return {
        "questions": len(questions),
        "answers_a_question": round(answers / max(1, len(questions)), 2),
        "unanswered": sum(not question.answers for question in questions),
        "with_gold_path": sum(bool(question.gold_paths) for question in questions),
        "hops": dict(sorted(_counts(question.hops for question in questions).items())),
        "type": _counts(question.type for question in questions),
        "answer_kind": _counts(question.extra.get("answer_kind") for question in questions),
    }


def _counts(values: Any) -> dict[str, int]:
    """How often each value occurs, the most frequent first; {} where it is known of no question."""
    counts = Counter("unknown" if value is None else str(value) for value in values)
    return {} if set(counts) <= {"unknown"} else dict(counts.most_common())


def graph_facts(dataset: Dataset, progress: Progress) -> dict[str, Any] | None:
    """The size of the graph; None where the dataset has none."""
    if not dataset.has_graph():
        return None
    graph = dataset.graph(progress)
    info = graph.info()
    facts = {key: info[key] for key in ("path", "triples", "entities", "relations", "timed", "questions")}
    return facts | {"skipped": graph.store.folder.header["skipped"]}


def question_facts(question: Question, split: str) -> dict[str, Any]:
    """A question as a row that says its split."""
    return {"split": split, **row_of(question)}
