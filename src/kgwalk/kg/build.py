"""Builds a store from files of triples: read, number the names, sort the triples both ways, write.

    build(["films.tsv", "people.nt.gz"], "films.kg")

`_Build.run` is the order of the steps. Names are numbered and triples sorted by `external_memory`; `entity_names`
writes the names, `csr` the triples. Memory follows the `memory` setting and not the size of the input: what does not
fit waits in files inside the unfinished store. The result depends on the triples, not on their order.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kgwalk import __version__
from kgwalk.kg.bulk_names import write_table
from kgwalk.kg.csr import CsrWriter
from kgwalk.kg.entity_names import EntityWriter, Homonyms, write_relations
from kgwalk.kg.external_memory import (
    FewNames,
    Interner,
    NumberSpool,
    RowSorter,
    SpoolPool,
    alphabetical,
    differs_from_last,
)
from kgwalk.kg.fact_sources import add_sources, beside
from kgwalk.kg.files import FolderWriter, naming_disk_errors
from kgwalk.kg.names import ALIASES, U32, name_hash
from kgwalk.kg.question_sets import QuestionWriter, grouped, write_in_positions
from kgwalk.kg.sources.reading import holds_tables, read, read_labels, stage
from kgwalk.kg.sources.source import Block, Labels, Options, ReadCounts, TripleBlock
from kgwalk.kg.sources.table_keys import find_keys
from kgwalk.kg.sources.tables import FoundTable, Tables
from kgwalk.kg.store import KIND, VERSION, shown_address
from kgwalk.kg.times import parse_time
from kgwalk.types import InputError, Progress, silent

MOST_TRIPLES = (1 << 32) - 1
LEAST_LINE_BYTES = 4 << 20  # a line of so many bytes is read whatever the memory setting


@dataclass
class BuildReport:
    """What a build read and wrote; stands in the store's header and in `kg build --json`."""

    triples: int = 0
    entities: int = 0
    relations: int = 0
    dates: int = 0
    questions: int = 0
    rows: int = 0
    duplicates: int = 0
    skipped: int = 0
    labelled: bool = False
    notes: list[str] = field(default_factory=list)
    first_skipped: list[str] = field(default_factory=list)
    tables: list[FoundTable] = field(default_factory=list)  # their keys, and where their columns lead
    sources: int = 0  # sentences that facts were read in, from files beside the sources


def build(
    sources: Sequence[str | Path],
    target: str | Path,
    *,
    options: Options | None = None,
    labels: str | Path | None = None,
    memory: int = 1 << 30,
    replace: bool = False,
    progress: Progress = silent,
) -> BuildReport:
    """Build a store at `target` from files of triples; it appears there whole, or not at all.

    `labels` is a TSV file of ids and names, which go before the names that the sources give; `memory` is in bytes.
    """
    target = Path(target)
    with (
        FolderWriter(target, kind=KIND, version=VERSION, replace=replace) as out,
        naming_disk_errors(f"while building {target}"),
    ):
        scratch = out.folder / "scratch"
        scratch.mkdir()
        report = _Build(out, scratch, memory, progress).run(sources, labels, options or Options())
        shutil.rmtree(scratch)
        out.finish({"kgwalk": __version__, **asdict(report)})
    return report


def build_blocks(
    blocks: Callable[[], Iterable[Block]],
    target: str | Path,
    *,
    memory: int = 1 << 30,
    more: Callable[[FolderWriter, BuildReport], None] = lambda out, report: None,
    progress: Progress = silent,
) -> BuildReport:
    """Build a store in place of the one at `target` from blocks as readers yield them.

    `blocks` is called once no other process may write there. `more` writes further files into the new folder.
    """
    target = Path(target)
    with (
        FolderWriter(target, kind=KIND, version=VERSION, replace=True) as out,
        naming_disk_errors(f"while building {target}"),
    ):
        scratch = out.folder / "scratch"
        scratch.mkdir()
        task = _Build(out, scratch, memory, progress)
        for block in blocks():
            task._add(block)
        report = task.write([target])
        shutil.rmtree(scratch)
        more(out, report)
        out.finish({"kgwalk": __version__, **asdict(report)})
    return report


class _Build:
    """The steps of one build and what passes between them."""

    def __init__(self, out: FolderWriter, scratch: Path, memory: int, progress: Progress) -> None:
        self.out, self.scratch, self.progress = out, scratch, progress
        # Shares of the memory setting, by how many copies of its data each step was measured to hold.
        self.block_bytes = min(64 << 20, max(64 << 10, memory // 40))
        self.line_bytes = max(LEAST_LINE_BYTES, memory // 16)
        self.sort_rows = max(10_000, memory // 200)
        self.entities = Interner(scratch, budget=memory // 8)
        self.relations = FewNames("relations")
        self.dates = FewNames("dates")
        self.questions = FewNames("questions")
        self.waiting_pool = SpoolPool(memory // 8)
        self.waiting = NumberSpool(self.waiting_pool, scratch / "triples", np.uint32)
        self.block_rows: list[int] = []
        self.timed = self.questioned = False
        self.report = BuildReport()

    def run(self, sources: Sequence[str | Path], labels: str | Path | None, options: Options) -> BuildReport:
        options.block_bytes, options.line_bytes = self.block_bytes, self.line_bytes
        self._read(sources, labels, options)
        report = self.write(sources)
        self._keep_sources([file for source in sources if (file := beside(source)) is not None])
        return report

    def write(self, sources: Sequence[str | Path]) -> BuildReport:
        """Write the store, once all blocks of the sources were added."""
        if not self.block_rows:
            what = f"{len(sources)} sources hold" if len(sources) > 1 else f"{shown_address(sources[0])} holds"
            raise InputError(
                f"no triples: {what} names of things only",
                hint="give the file of facts too; names alone can also be a TSV file of id and label, for --labels",
            )
        relation_keys = self.relations.keys
        writer = EntityWriter(self.out, self.scratch, self.sort_rows, self.progress)
        homonyms = writer.write(self.entities, relation_keys)
        self.relation_number, both_relations = write_relations(self.out, relation_keys, self.entities)
        if homonyms.both or both_relations:
            self.report.notes.append(_of_two_kinds(homonyms.both, both_relations))
        self.report.notes += _told_apart(homonyms)
        date_names, self.date_number = _in_order(self.dates)
        question_names, self.question_number = _in_order(self.questions)
        if self.timed:
            self._write_dates(date_names)
        self._write_triples(question_names)
        self.report.entities, self.report.relations = self.entities.total, len(relation_keys)
        self.report.dates = len(date_names) - ("" in date_names)
        self.report.questions = len(question_names) - ("" in question_names)
        self.report.labelled = self.entities.labelled
        return self.report

    def _read(self, sources: Sequence[str | Path], labels: str | Path | None, options: Options) -> None:
        report = self.report
        tallies: list[ReadCounts] = []
        with ExitStack() as until_told:
            tables: Tables | None = None  # most sources are none: then nothing is set up for them
            for source in sources:
                tallies.append(tally := ReadCounts())
                progress = partial(self._read_some, source, tally)
                if holds_tables(source, options):
                    tables = tables or until_told.enter_context(closing(Tables(self.scratch)))
                    stage(source, options, tally, tables)
                    progress()
                    continue
                for block in read(source, options, tally):
                    self._add(block)
                    progress()
            if options.keys:  # of no table, each is refused by name
                tables = tables or until_told.enter_context(closing(Tables(self.scratch)))
            if tables is not None:
                find_keys(tables, options.keys)
                for block in tables.blocks(options.block_bytes):
                    self._add(block)
                report.tables = tables.found()
        for tally in tallies:
            report.rows += tally.rows
            report.skipped += tally.skipped
            report.notes += tally.notes
            report.first_skipped += tally.first_skipped[: options.messages - len(report.first_skipped)]
        if labels is not None:
            tally = ReadCounts()
            for block in read_labels(labels, options, tally):
                self.entities.add_labels(block.key, block.label, 0)
            report.skipped += tally.skipped

    def _read_some(self, source: str | Path, tally: ReadCounts) -> None:
        self.progress(f"reading {Path(shown_address(source)).name}", tally.bytes_read, tally.bytes_total)

    def _add(self, block: Block) -> None:
        if isinstance(block, Labels):
            self.entities.add_labels(block.key, block.label, block.rank + 1)  # rank 0 is the labels file
        else:
            self._add_rows(block)

    def _add_rows(self, rows: TripleBlock) -> None:
        count = len(rows.head)
        head, tail = self.entities.add([rows.head, rows.tail])
        relation = self.relations.add(rows.relation)
        none = pa.repeat(pa.scalar(""), count)
        self.timed |= rows.time is not None
        self.questioned |= rows.question is not None
        time = self.dates.add(none if rows.time is None else rows.time)
        question = self.questions.add(none if rows.question is None else rows.question)
        self.waiting.append(np.concatenate([head, relation, tail, time, question]))
        self.block_rows.append(count)
        self.waiting_pool.relieve()

    def _keep_sources(self, files: Sequence[Path]) -> None:
        """Where the facts were read, with the further names that were found for entities."""
        if not files:
            return
        tables = ["entity.hash"] + ["entity_id.hash"] * self.report.labelled
        hashes = np.sort(np.concatenate([self.out[table] for table in tables]))

        def is_name(text: str) -> bool:
            hashed = np.uint64(name_hash(text.encode("utf-8", "replace")))
            at = np.searchsorted(hashes, hashed)
            return bool(at < len(hashes) and hashes[at] == hashed)

        self.report.sources, aliases = add_sources(self.out.folder, files, is_name)
        if aliases:
            write_table(self.out, ALIASES, list(aliases))
            write_table(self.out, f"{ALIASES}_of", list(aliases.values()))

    def _write_dates(self, names: list[str]) -> None:
        write_table(self.out, "date", names)
        spans = [parse_time(name) if name else (1, 0) for name in names]  # an undated fact: an empty span
        self.out.write("date.first", np.array([first for first, _ in spans], np.int32))
        self.out.write("date.last", np.array([last for _, last in spans], np.int32))

    def _numbered(self) -> Iterator[npt.NDArray[np.uint32]]:
        """The rows read, block by block, with final numbers: (n, 5) head relation tail date question."""
        start = 0
        for block, count in enumerate(self.block_rows):
            head, relation, tail, time, question = self.waiting.read(start, start + 5 * count).reshape(5, count)
            number = self.entities.numbers(block)
            yield np.stack(
                [
                    number[head],
                    self.relation_number[relation],
                    number[tail],
                    self.date_number[time],
                    self.question_number[question],
                ],
                axis=1,
            )
            start += 5 * count

    def _write_triples(self, question_names: list[str]) -> None:
        forward = self._forward_rows()
        backward = RowSorter(self.scratch, "backward", columns=4, keys=3, limit=self.sort_rows)
        members = RowSorter(self.scratch, "members", columns=2, limit=self.sort_rows)
        self._write_out(forward, backward, members)
        self._write_in(backward)
        if self.questioned:
            self._write_questions(question_names, members)

    def _forward_rows(self) -> RowSorter:
        """All rows, to be sorted by head, relation, tail, then date and question where there are any."""
        columns = [0, 1, 2] + [3] * self.timed + [4] * self.questioned
        rows = sum(self.block_rows)
        forward = RowSorter(self.scratch, "forward", columns=len(columns), limit=self.sort_rows)
        done = 0
        for block in self._numbered():
            forward.add(block[:, columns])
            done += len(block)
            self.progress("sorting", done, 3 * rows)
        self.waiting.remove()
        return forward

    def _write_out(self, forward: RowSorter, backward: RowSorter, members: RowSorter) -> None:
        """Number the triples and write the outgoing edges; `backward` and `members` take what the next steps sort.

        `backward` gets (tail, relation, triple, head), `members` gets (question, triple).
        """
        rows = sum(self.block_rows)
        out_edges = CsrWriter(self.out, "out", self.entities.total, len(self.relation_number))
        dates = self.out.array("date.of", np.uint32) if self.timed else None
        width = 3 + self.timed
        total = 0
        for numbered in _with_numbers(forward.sorted(), width):
            fresh = numbered.fresh
            triples = numbered.rows[fresh]
            out_edges.append(triples[:, 0], triples[:, 1], triples[:, 2])
            if dates is not None:
                dates.append(triples[:, 3])
            ids = numbered.ids[fresh]
            backward.add(np.stack([triples[:, 2], triples[:, 1], ids, triples[:, 0]], axis=1))
            if self.questioned:
                members.add(np.stack([numbered.rows[:, width], numbered.ids], axis=1))
            total = numbered.total
            self.progress("sorting", rows + total, 3 * rows)
        out_edges.finish()
        self.report.triples, self.report.duplicates = total, rows - total

    def _write_in(self, backward: RowSorter) -> None:
        """Write the incoming edges, and the triple that each of them is."""
        rows = sum(self.block_rows)
        in_edges = CsrWriter(self.out, "in", self.entities.total, len(self.relation_number))
        ids_file = self.out.array("in.triple", np.uint32)
        done = 0
        for rows_in in backward.sorted():
            in_edges.append(rows_in[:, 0], rows_in[:, 1], rows_in[:, 3])
            ids_file.append(rows_in[:, 2])
            done += len(rows_in)
            self.progress("sorting", 2 * rows + done, 3 * rows)
        in_edges.finish()

    def _write_questions(self, names: list[str], members: RowSorter) -> None:
        blank = names[:1] == [""]  # rows of another source, which belong to no question
        write_table(self.out, "question", names[blank:])
        in_position = write_in_positions(self.scratch / "in-positions", self.out["in.triple"], self.sort_rows)
        writer = QuestionWriter(self.out)
        lists = grouped(members.sorted(), len(names))
        for triples in itertools.islice(lists, int(blank), None):
            writer.append(triples, in_position[triples])


def _of_two_kinds(entities: Sequence[str], relations: Sequence[str]) -> str:
    """The note on names that mean both something with an id (from RDF, say) and something without (from a TSV)."""
    kinds = (("entity name", entities), ("relation name", relations))
    found = " and ".join(f"{_counted(names, what)} ({_listed(names)})" for what, names in kinds if names)
    return (
        f"shared by one that has an id and one that goes by its name alone: {found}. These are not merged: what is "
        "said of one is not found at the other. If they are meant to be the same, write them alike in all sources: a "
        "source that has ids can be built by itself, written with `kgwalk kg export` as TSV, and built with the others"
    )


def _told_apart(homonyms: Homonyms) -> Iterator[str]:
    """The notes on names that got an id or a type."""
    for names, what, why in (
        (homonyms.things, "name", "several things are called the same, and each has its id in its name"),
        (
            homonyms.literals,
            "text",
            "something else is called the same, and the text has its type or language after it",
        ),
    ):
        if names:
            yield f"{_counted(names, what)} told apart ({_listed(names)}): {why}"


def _counted(names: Sequence[str], what: str) -> str:
    return f"{len(names):,} {what}{'' if len(names) == 1 else 's'}"


def _listed(names: Sequence[str]) -> str:
    return ", ".join([*names[:3], *["..."] * (len(names) > 3)])


def _in_order(few: FewNames) -> tuple[list[str], U32]:
    """The names in alphabetical order, and the final number of each provisional one."""
    keys = few.keys
    order, numbers = alphabetical(keys)
    return [keys[at] for at in order], numbers


@dataclass(frozen=True)
class _Numbered:
    rows: npt.NDArray[np.uint32]
    ids: U32  # the triple's number, for each row
    fresh: npt.NDArray[np.bool_]  # the first row of each triple
    total: int  # triples so far


def _with_numbers(blocks: Iterable[npt.NDArray[np.uint32]], width: int) -> Iterator[_Numbered]:
    """Number the triples of sorted rows: rows that agree in the first `width` columns are one triple."""
    last: npt.NDArray[np.uint32] | None = None
    total = 0
    for rows in blocks:
        keys = rows[:, :width]
        fresh = np.empty(len(rows), np.bool_)
        fresh[0] = last is None or bool(np.any(keys[0] != last))
        fresh[1:] = differs_from_last(keys)
        ids = total - 1 + np.cumsum(fresh)
        total = int(ids[-1]) + 1
        if total > MOST_TRIPLES:
            raise InputError(f"more than {MOST_TRIPLES:,} triples; a store holds no more")
        last = keys[-1].copy()
        yield _Numbered(rows, ids.astype(np.uint32), fresh, total)
