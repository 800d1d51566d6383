"""The folder of a dataset: which file is what, how questions are read, how a folder is written.

    train.jsonl.gz  dev.jsonl.gz  test.jsonl.gz    questions, one a line; the keys are in config/run_folder.py
    kg.tsv.gz or graph.kg                          the graph, as facts or as a store
    graphs.jsonl.zst                               the facts of single questions
    names.tsv                                      names for the ids in kg

`DatasetWriter` writes into a folder beside the target and renames it at the end, so a dataset appears whole or not at
all. docs/guides/datasets.md describes the format for users.
"""

from __future__ import annotations

import gzip
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import orjson
import pyarrow as pa

from kgwalk.config.run_folder import kind, kind_of_list, question_of, row_of
from kgwalk.kg.files import HEADER, is_store, naming_disk_errors, naming_read_errors
from kgwalk.kg.sources.delimited import ESCAPED_MARK, escape, misread_first
from kgwalk.kg.sources.source import Options, ReadCounts, Source, line_blocks, open_stream, shown
from kgwalk.types import InputError, KgwalkError, Question, Triple

KG = "kg"  # kg.tsv.gz, kg.nt, ...: the facts
STORE = "graph.kg"  # the same as a built store
GRAPHS = "graphs"  # graphs.jsonl.zst: facts of single questions, {"id": ..., "graph": [[h, r, t], ...]}
NAMES = "names"  # names.tsv: names for the ids in kg
GRAPH = "graph"  # the key of a question's own facts
KG_SUFFIXES = (".tsv", ".csv", ".nt", ".ttl", ".nq", ".jsonl", ".ndjson")
_COMPRESSED = (".gz", ".zst")
_NOT_SPLITS = {KG, GRAPHS, "passages", "descriptions"}  # JSON lines that are no questions
_ORDER = ("train", "dev", "valid", "validation", "test")


@dataclass
class FolderLayout:
    """The files of one folder; `splits` in the order train, dev, test, then by name."""

    folder: Path
    splits: dict[str, Path] = field(default_factory=dict)
    store: Path | None = None
    kg: Path | None = None
    graphs: Path | None = None
    names: Path | None = None


def layout_of(folder: Path) -> FolderLayout:
    """Which file is what in a dataset folder, by name alone; the splits may be in a folder `questions` inside it."""
    found = FolderLayout(folder)
    inner = folder / "questions"
    files = [*_files(folder), *(_files(inner) if inner.is_dir() else [])]
    for file in files:
        name, suffix = stem_and_suffix(file)
        if name == KG and suffix in KG_SUFFIXES:
            found.kg = _only(found.kg, file)
        elif name == NAMES and suffix == ".tsv":
            found.names = _only(found.names, file)
        elif name == GRAPHS and suffix == ".jsonl":
            found.graphs = _only(found.graphs, file)
        elif suffix == ".jsonl" and name not in _NOT_SPLITS:
            found.splits[name] = _only(found.splits.get(name), file)
    found.splits = {name: found.splits[name] for name in in_order(found.splits)}
    stores = (folder / STORE, folder / f"{folder.name}.kg")
    found.store = next((path for path in stores if (path / HEADER).is_file()), None)
    return found


def in_order(splits: Iterable[str]) -> list[str]:
    """train, dev, test, then the others by name."""
    return sorted(splits, key=lambda split: (_ORDER.index(split) if split in _ORDER else len(_ORDER), split))


def is_split_name(name: str) -> bool:
    """Whether `name.jsonl.gz` would be read as a split of that name."""
    return re.fullmatch(r"\w[\w-]*", name) is not None and name not in _NOT_SPLITS


def stem_and_suffix(file: Path) -> tuple[str, str]:
    """The name without its suffixes, and the suffix without that of the compression.

    >>> stem_and_suffix(Path("a/kg.tsv.gz"))
    ('kg', '.tsv')
    """
    plain = file.with_suffix("") if file.suffix.lower() in _COMPRESSED else file
    return plain.stem, plain.suffix.lower()


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))


def _only(first: Path | None, second: Path) -> Path:
    if first is not None:
        raise InputError(
            f"{first.parent} has both {first.name} and {second.name}, which are the same part of a dataset",
            hint="remove one of the two",
        )
    return second


# Questions as JSON lines


def read_questions(path: str | Path, *, with_graph: bool = True) -> Iterator[Question]:
    """The questions of a file of JSON lines, plain, .gz or .zst; a line that is no question is an InputError.

    `with_graph=False` leaves out the questions' own facts, which may be a thousand times the rest.
    """
    source = Source(str(path), Options(), ReadCounts())
    found = False
    with open_stream(source) as stream:
        for block in line_blocks(source, stream):
            for number, raw in enumerate(block.data.split(b"\n"), block.first):
                if raw.strip():
                    found = True
                    yield _question(source, number, raw, with_graph)
    if not found:
        raise source.error("no questions")


def _question(source: Source, number: int, raw: bytes, with_graph: bool) -> Question:
    try:
        row = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise source.error(f"not JSON: {error}", line=number, text=shown(raw)) from None
    if isinstance(row, dict) and not with_graph:
        row.pop(GRAPH, None)
    try:
        return question_of(with_answers(row) if isinstance(row, dict) else row, str(number))
    except ValueError as error:
        raise source.error(str(error), line=number, text=shown(raw)) from None


def with_answers(row: dict[str, Any]) -> dict[str, Any]:
    """The row with `answers` and `answer_kind`, where a table or `answerable` says what they are.

    >>> with_answers({"rows": [["Ann", "1"], ["Ann", "2"]]})
    {'rows': [['Ann', '1'], ['Ann', '2']], 'answers': ['Ann'], 'answer_kind': 'table'}
    >>> with_answers({"answerable": False})
    {'answerable': False, 'answers': [], 'answer_kind': 'none'}
    """
    if (rows := row.get("rows")) is not None:
        if not isinstance(rows, list) or not all(isinstance(one, list) and one for one in rows):
            raise ValueError(f"expected `rows`, a list of rows, got {kind_of_list(rows)}")
        if not all(isinstance(cell, str) for one in rows for cell in one):
            raise ValueError("expected `rows`, lists of texts; write numbers as text")
        columns = row.get("columns")
        # Made questions leave out the first column's name: it is that of the thing.
        widths = [len(columns), len(columns) + 1] if isinstance(columns, list) else []
        if columns is not None and any(len(one) not in widths for one in rows):
            raise ValueError("expected a name for each column in `columns`")
        return {
            **row,
            "answers": row.get("answers") or list(dict.fromkeys(one[0] for one in rows)),
            "answer_kind": "table",
        }
    answerable = row.get("answerable")
    if not (answerable is None or isinstance(answerable, bool)):
        raise ValueError(f"expected `answerable`, true or false, got {kind(answerable)}")
    if answerable is False:
        if row.get("answers"):
            raise ValueError("it is said not to be `answerable`, and has `answers`")
        return {**row, "answers": [], "answer_kind": "none"}
    return row


def line_of(row: dict[str, Any]) -> bytes:
    """A row as a line of JSON; KgwalkError for what JSON cannot hold."""
    try:
        return orjson.dumps(row) + b"\n"
    except (orjson.JSONEncodeError, RecursionError) as error:
        raise KgwalkError(f"question {row.get('id')!r} cannot be written as JSON: {error}") from error


# Writing


class DatasetWriter:
    """A folder being written; use as a context manager. An exception inside the `with` leaves nothing behind."""

    def __init__(self, target: Path, *, replace: bool = False) -> None:
        self.target, self._stack = target, ExitStack()
        self._splits: dict[str, gzip.GzipFile] = {}
        self._graphs: Any = None
        check_target(target, replace=replace)

    def __enter__(self) -> DatasetWriter:
        with naming_disk_errors(f"cannot write {self.target}"):
            parent = self.target.absolute().parent
            parent.mkdir(parents=True, exist_ok=True)
            self.folder = Path(tempfile.mkdtemp(prefix=f".{self.target.name}.", suffix=".partial", dir=parent))
        return self

    def add(self, split: str, question: Question) -> None:
        """Append one question to its split."""
        if split not in self._splits:
            if not is_split_name(split):
                raise KgwalkError(f"{split!r} cannot name a split; choose a word such as train, dev or test")
            self._splits[split] = self._stack.enter_context(_gzip(self.folder / f"{split}.jsonl.gz"))
        self._splits[split].write(line_of(row_of(question)))

    def add_graph(self, question: str, facts: Iterable[Triple]) -> None:
        """The facts that belong to one question, by its id."""
        lists = [list(fact if fact.time else fact[:3]) for fact in facts]
        if not lists:
            return
        if self._graphs is None:
            # zstd, since these files run to gigabytes, for which gzip would take minutes
            path = str(self.folder / f"{GRAPHS}.jsonl.zst")
            self._graphs = self._stack.enter_context(pa.CompressedOutputStream(pa.OSFile(path, "wb"), "zstd"))
        self._graphs.write(line_of({"id": question, "graph": lists}))

    def write_facts(self, facts: Callable[[], Iterable[Triple]]) -> int:
        """Write the graph as kg.tsv.gz; returns how many facts it has.

        `facts` is called a second time if a name turns out to need escaping.
        """
        path = self.folder / f"{KG}.tsv.gz"
        count = _write_plain(path, facts())
        return _write_escaped(path, facts()) if count is None else count

    def copy_graph(self, path: Path) -> None:
        """Copy a graph, which is a file of facts or a store folder."""
        if is_store(path):
            shutil.copytree(path, self.folder / STORE)
            return
        if not path.is_file():
            raise InputError("expected a file of facts or a store folder", path=str(path))
        _, suffix = stem_and_suffix(path)
        if suffix == ".txt":
            suffix = ".tsv"
        if suffix not in KG_SUFFIXES:
            raise InputError(f"unknown kind of graph; known are {' '.join(KG_SUFFIXES)}", path=str(path))
        compression = path.suffix if path.suffix in (".gz", ".zst") else ""
        shutil.copyfile(path, self.folder / f"{KG}{suffix}{compression}")

    def copy_part(self, path: Path) -> None:
        """Copy a file of another dataset folder, under its own name."""
        shutil.copyfile(path, self.folder / path.name)

    def finish(self) -> None:
        """Give the folder its name."""
        self._stack.close()
        with naming_disk_errors(f"cannot write {self.target}"):
            os.chmod(self.folder, 0o755)  # mkdtemp's folders are for their owner only
            if self.target.exists() and not _is_empty(self.target):
                aside = self.folder.with_name(f"{self.folder.name}-replaced")
                os.rename(self.target, aside)
                os.rename(self.folder, self.target)
                shutil.rmtree(aside)
            else:
                os.rename(self.folder, self.target)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def check_target(target: Path, *, replace: bool = False) -> None:
    """KgwalkError if no dataset may be written there; worth asking before a long computation."""
    with naming_read_errors(target):
        if not target.exists() or _is_empty(target):
            return
        if not target.is_dir():
            raise KgwalkError(f"{target} is a file, and a dataset is a folder; choose another name")
        if is_store(target):
            raise KgwalkError(f"{target} is a graph's store, so it will not be replaced; choose another name")
        if not replace:
            raise KgwalkError(f"{target} exists; choose another name, or replace it with --force")
        if odd := _foreign(target):
            raise KgwalkError(f"{target} holds {odd}, which is no part of a dataset, so it will not be replaced")


def _gzip(path: Path) -> gzip.GzipFile:
    return gzip.GzipFile(path, "wb", compresslevel=6, mtime=0)  # no date inside: equal questions give equal files


def _write_plain(path: Path, facts: Iterable[Triple]) -> int | None:
    """Write facts as plain TSV; returns how many, or None as soon as one would be read back differently."""
    count = 0
    with _gzip(path) as file:
        for fact in facts:
            parts = fact if fact.time else fact[:3]
            if any(sign in part for part in parts for sign in "\t\n\r") or (not count and misread_first(fact)):
                return None
            file.write(("\t".join(parts) + "\n").encode())
            count += 1
    return count


def _write_escaped(path: Path, facts: Iterable[Triple]) -> int:
    count = 0
    with _gzip(path) as file:
        file.write(f"{ESCAPED_MARK}\n".encode())
        for fact in facts:
            parts = fact if fact.time else fact[:3]
            file.write(("\t".join(map(escape, parts)) + "\n").encode())
            count += 1
    return count


def _is_empty(folder: Path) -> bool:
    return folder.is_dir() and not any(folder.iterdir())


def _foreign(folder: Path) -> str | None:
    """The name of something in the folder that is no part of a dataset; None if there is nothing of the kind."""
    for path in sorted(folder.iterdir()):
        name, suffix = stem_and_suffix(path)
        part = suffix == ".jsonl" or (name == KG and suffix in KG_SUFFIXES) or (name == NAMES and suffix == ".tsv")
        if not (part and path.is_file()) and path.name != STORE:
            return path.name
    return None
