"""The subgraph of each question, as a list of triple numbers over one shared store.

Arrays: a name table of question ids, `list` (bounds), `out` (positions among the outgoing edges, which are the triple
numbers) and `in` (positions among the incoming edges), both ascending within a question. They are in the store's own
folder, for a source with a graph for each question, or in a folder of their own that `kgwalk kg subgraphs` writes and
that records which store it belongs to. `StoredGraph.question` opens one as a view.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kgwalk.kg.csr import I64, Edges
from kgwalk.kg.files import Folder, FolderWriter, forged
from kgwalk.kg.names import U32, NameTable
from kgwalk.types import StoreError, UnknownQuestion

KIND, VERSION = "kgwalk question subgraphs", 1


class BothEdges(NamedTuple):
    """The edges of a store in both directions."""

    out: Edges
    in_: Edges
    triple_of: U32  # the triple number of each incoming edge


class QuestionSets:
    """The opened lists. `sets["WebQTest-7"]` is (out positions, in positions) of that question's triples."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self.names = NameTable(folder, "question")
        self._out, self._in = (
            folder.array("question.out", "<u4"),
            folder.array("question.in", "<u4", len(folder["question.out"])),
        )
        self._bounds = folder.array("question.list", "<u8", len(self.names) + 1)
        if self._bounds[len(self.names)] != len(self._out):
            raise forged(folder.path, "the questions do not end where their facts do")

    @classmethod
    def open(cls, path: Path, store_digest: str, *, private: bool = False) -> QuestionSets:
        folder = Folder(path, kind=KIND, version=VERSION, private=private)
        if folder.header.get("store") != store_digest:
            raise StoreError(
                f"{path} was made for another graph, or for this one before it was built again; "
                "make it again with `kgwalk kg subgraphs`"
            )
        return cls(folder)

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, question: str) -> bool:
        return self.names.number(question) is not None

    def __iter__(self) -> Iterator[str]:
        return (self.names[number] for number in range(len(self.names)))

    def __getitem__(self, question: str) -> tuple[U32, U32]:
        number = self.names.number(question)
        if number is None:
            raise UnknownQuestion(question)
        low, high = int(self._bounds[number]), int(self._bounds[number + 1])
        return self._out[low:high], self._in[low:high]

    def sizes(self) -> npt.NDArray[np.uint64]:
        return np.diff(np.asarray(self._bounds))


class QuestionWriter:
    """Writes the lists, one question at a time."""

    def __init__(self, out: FolderWriter) -> None:
        self._bounds = out.array("question.list", np.uint64)
        self._bounds.append(np.zeros(1, np.uint64))
        self._out = out.array("question.out", np.uint32)
        self._in = out.array("question.in", np.uint32)

    def append(self, triples: U32 | I64, in_positions: U32 | I64) -> None:
        """The triples of the next question, ascending, and their positions among the incoming edges in any order."""
        self._out.append(triples)
        self._in.append(np.sort(in_positions))
        self._bounds.append(np.array([self._out.items], np.uint64))


def in_positions(edges: BothEdges, triples: I64) -> I64:
    """The position of each triple among the incoming edges.

    The incoming edges of one (tail, relation) ascend in their triple number, so a binary search finds it.
    """
    out, in_, triple_of = edges
    _, relation = out.owners(triples)
    tail = out.other_array[triples].astype(np.int64)
    group = in_.groups_of(tail, relation)
    low = in_.start_array[group].astype(np.int64)
    high = in_.start_array[group + 1].astype(np.int64)
    while (open_ := low < high).any():
        middle = (low + high) // 2
        less = open_ & (triple_of[np.minimum(middle, len(triple_of) - 1)] < triples)
        low = np.where(less, middle + 1, low)
        high = np.where(open_ & ~less, middle, high)
    return low


def write_in_positions(path: Path, triple_of: U32, at_once: int) -> U32:
    """The position of every triple among the incoming edges, in a file, mapped.

    A build writes the lists of all questions, and asks for each triple in turn: one item is then read, where
    `in_positions` searches. Holds `at_once` positions in memory, and reads `triple_of` once for each so many.
    """
    with open(path, "wb") as file:
        for low in range(0, len(triple_of), at_once):
            positions = np.empty(min(at_once, len(triple_of) - low), np.uint32)
            for start in range(0, len(triple_of), at_once):
                triples = triple_of[start : start + at_once]
                here = np.flatnonzero((triples >= low) & (triples < low + len(positions)))
                positions[triples[here] - low] = here + start
            file.write(positions.tobytes())
    return np.memmap(path, np.uint32, "r") if len(triple_of) else np.empty(0, np.uint32)


def grouped(blocks: Iterable[npt.NDArray[np.uint32]], questions: int) -> Iterator[U32]:
    """Rows (question, triple) in ascending order as one array of triples for each question, also for those without."""
    held: list[U32] = []
    current = 0
    for rows in blocks:
        cuts = np.flatnonzero(np.r_[True, rows[1:, 0] != rows[:-1, 0]])
        for start, stop in zip(cuts.tolist(), [*cuts[1:].tolist(), len(rows)], strict=True):
            while current < rows[start, 0]:
                yield np.concatenate(held) if held else np.empty(0, np.uint32)
                held, current = [], current + 1
            held.append(rows[start:stop, 1])
    for _ in range(current, questions):
        yield np.concatenate(held) if held else np.empty(0, np.uint32)
        held = []
