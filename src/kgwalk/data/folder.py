"""Writes a dataset folder: splits of questions, a graph, graphs of single questions. Whole or not at all.

Everything goes into a folder beside the target that takes its name at the end. Knows the folder format, not where
questions come from.
"""

from __future__ import annotations

import gzip
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa

from kgwalk.data.layout import GRAPHS, KG, KG_SUFFIXES, NAMES, STORE, is_split_name, stem_and_suffix
from kgwalk.data.questions import line_of
from kgwalk.kg.files import is_store, naming_disk_errors, naming_read_errors
from kgwalk.kg.sources import ESCAPED_MARK, escape
from kgwalk.kg.sources.layout import TRIPLES
from kgwalk.runs.question_rows import row_of
from kgwalk.types import InputError, KgwalkError, Question, Triple

_HEADER_WORDS = {word for column in TRIPLES.words for word in column}


class DatasetWriter:
    """A folder being written; use as a context manager. Leaving by an exception leaves nothing behind."""

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
        """One question, after those of its split that came before."""
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
            # zstd: these run to gigabytes, and gzip would take minutes for each
            path = str(self.folder / f"{GRAPHS}.jsonl.zst")
            self._graphs = self._stack.enter_context(pa.CompressedOutputStream(pa.OSFile(path, "wb"), "zstd"))
        self._graphs.write(line_of({"id": question, "graph": lists}))

    def write_facts(self, facts: Callable[[], Iterable[Triple]]) -> int:
        """The graph as kg.tsv.gz; `facts` is called again where a name turns out to need escaping. How many."""
        path = self.folder / f"{KG}.tsv.gz"
        count = _write_facts(path, facts(), escaped=False)
        if count is None:
            count = _write_facts(path, facts(), escaped=True)
        assert count is not None
        return count

    def copy_graph(self, path: Path) -> None:
        """A graph file as it is, or a store folder."""
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
        """A file of another dataset folder, under its own name."""
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
    """KgwalkError where no dataset may be written: for those who work long before they write."""
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
    return gzip.GzipFile(path, "wb", compresslevel=6, mtime=0)  # no date inside: the same questions are the same file


def _write_facts(path: Path, facts: Iterable[Triple], *, escaped: bool) -> int | None:
    """How many were written; None where a plain file would read back otherwise."""
    count = 0
    with _gzip(path) as file:
        if escaped:
            file.write(f"{ESCAPED_MARK}\n".encode())
        for fact in facts:
            parts = list(fact if fact.time else fact[:3])
            if escaped:
                parts = [escape(part) for part in parts]
            elif any(sign in part for part in parts for sign in "\t\n\r") or (not count and _misread(fact)):
                return None
            file.write(("\t".join(parts) + "\n").encode())
            count += 1
    return count


def _misread(first: Triple) -> bool:
    """Whether a first row could be taken for a header or a mark."""
    words = [part.strip(' #"').casefold() for part in first[:3]]
    return all(word in _HEADER_WORDS for word in words) or first.head.startswith(("\ufeff", ESCAPED_MARK))


def _is_empty(folder: Path) -> bool:
    return folder.is_dir() and not any(folder.iterdir())


def _foreign(folder: Path) -> str | None:
    """The name of something that is no part of a dataset folder; None if all is."""
    for path in sorted(folder.iterdir()):
        name, suffix = stem_and_suffix(path)
        part = suffix == ".jsonl" or (name == KG and suffix in KG_SUFFIXES) or (name == NAMES and suffix == ".tsv")
        if not (part and path.is_file()) and path.name != STORE:
            return path.name
    return None
