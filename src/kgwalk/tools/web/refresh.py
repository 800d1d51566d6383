"""A corpus's index brought up to its files: the documents that are new are added, those that are gone removed.

A file is read again if its size or date changed; then each of its documents is known by what it says, so one that only
moved to another line stays. Two things are kept, the catalogue and the index of words; the catalogue says whether the
index is whole, and an index that is not is made again from it. Knows nothing of queries.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import xxhash

from kgwalk.tools.web.catalogue import Catalogue, Known
from kgwalk.tools.web.documents import Entry, SourceFile, entries
from kgwalk.tools.web.passages import passages
from kgwalk.tools.web.word_index import WordIndex, Writer
from kgwalk.types import InputError

# Removed passages count in the index's word statistics until it is written anew: at once where that takes a moment,
# else when a tenth of it is gone.
ANEW_BELOW = 20_000
ANEW_SHARE = 0.1
# A file that changed this little before it was read may have changed after that with the same date.
UNSURE = 2_000_000_000  # nanoseconds
Progress = Callable[[str, int, int | None], None]


@dataclass(slots=True)
class Changes:
    """What was found: `documents` and `passages` there are now, and of the documents what became of them."""

    documents: int = 0
    passages: int = 0
    added: int = 0
    removed: int = 0
    kept: int = 0
    empty: int = 0  # without text, in the files that were read: left out
    anew: bool = False  # the whole index was written


def open_catalogue(folder: Path) -> Catalogue:
    return Catalogue(folder / "catalogue.sqlite")


def index_folder(folder: Path, number: int) -> Path:
    return folder / f"words-{number}"


def refresh(folder: Path, files: list[SourceFile], *, again: bool, progress: Progress) -> Changes:
    """Brings catalogue and index up to the files. For one process at a time."""
    catalogue = open_catalogue(folder)
    try:
        whole = catalogue.index_state()[1]
        if not whole:  # a process was killed while it wrote
            _write_anew(folder, catalogue)
        known = catalogue.files()
        names = {file.name for file in files}
        stale = [file for file in files if again or not _unchanged(file, known.get(file.name))]
        gone = [known[name].id for name in sorted(known) if name not in names]
        changes = Changes(anew=not whole)
        if stale or gone:
            _change(folder, catalogue, stale, gone, changes, progress)
        _, changes.documents, changes.passages = catalogue.counts()
        changes.kept = changes.documents - changes.added
        return changes
    finally:
        catalogue.close()


def _unchanged(file: SourceFile, known: Known | None) -> bool:
    if known is None or (known.size, known.changed) != (file.size, file.changed):
        return False
    return known.changed < known.read - UNSURE


def _change(
    folder: Path, catalogue: Catalogue, stale: list[SourceFile], gone: list[int], changes: Changes, progress: Progress
) -> None:
    number, _ = catalogue.index_state()
    index = WordIndex(index_folder(folder, number))
    catalogue.set_index_state(number, whole=False)
    try:
        with catalogue.change():
            with index.writer() as writer:
                update = _Update(catalogue, writer, changes, progress)
                for file in gone:
                    update.drop(file)
                for source in stale:
                    update.read(source)
            catalogue.set_index_state(number, whole=True)
    except InputError:  # a file that cannot be read: nothing was changed, in either
        catalogue.set_index_state(number, whole=True)
        raise
    dead = update.removed_passages
    if dead and (len(index) < ANEW_BELOW or dead > ANEW_SHARE * len(index)):
        _write_anew(folder, catalogue)
        changes.anew = True


@dataclass
class _Update:
    """One pass over the files that changed."""

    catalogue: Catalogue
    writer: Writer
    changes: Changes
    progress: Progress
    removed_passages: int = 0
    _seen: int = field(default=0, init=False)

    def read(self, source: SourceFile) -> None:
        now = time.time_ns()
        file = self.catalogue.put_file(source, now)
        before = self.catalogue.documents_of(file)
        for entry in entries(source):
            self._seen += 1
            if self._seen % 1000 == 0:
                self.progress("indexing documents", self._seen, None)
            digest = xxhash.xxh3_128_digest(
                "\0".join((entry.title, entry.text, entry.source)).encode("utf-8", "replace")
            )
            if same := before.get(digest):
                document, place = same.pop(0)
                if place != entry.place:
                    self.catalogue.move_document(document, entry.place)
            else:
                self._add(file, entry, digest)
        for rest in before.values():
            for document, _ in rest:
                self._remove(document)
        self.progress("indexing documents", self._seen, None)

    def drop(self, file: int) -> None:
        for documents in self.catalogue.documents_of(file).values():
            for document, _ in documents:
                self._remove(document)
        self.catalogue.remove_file(file)

    def _add(self, file: int, entry: Entry, digest: bytes) -> None:
        texts = passages(entry.text)
        if not texts:
            self.changes.empty += 1
            return
        self.changes.added += 1
        title, source = (text.encode("utf-8", "replace").decode() for text in (entry.title, entry.source))
        for number, text in self.catalogue.add_document(file, entry.place, digest, title, source, texts):
            self.writer.add(number, indexed(title, text))

    def _remove(self, document: int) -> None:
        numbers = self.catalogue.remove_document(document)
        self.writer.remove(numbers)
        self.removed_passages += len(numbers)
        self.changes.removed += 1


def indexed(title: str, text: str) -> str:
    """What is indexed of a passage: its title counts twice, since whoever searches for a name wants its own page."""
    return f"{title}\n{title}\n{text}"


def _write_anew(folder: Path, catalogue: Catalogue) -> None:
    """The index of words from the catalogue, in a folder of its own: others may be reading the old one."""
    number = catalogue.index_state()[0] + 1
    place = index_folder(folder, number)
    shutil.rmtree(place, ignore_errors=True)
    with WordIndex(place).writer() as writer:
        for passage, title, text in catalogue.every_passage():
            writer.add(passage, indexed(title, text))
    catalogue.set_index_state(number, whole=True)
    for old in folder.glob("words-*"):
        if old != place:
            shutil.rmtree(old, ignore_errors=True)
