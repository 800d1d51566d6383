"""A corpus on this machine as a web: files, indexed once into the cache, found by their words.

    LocalCorpus(Path("articles/")).search("capital of Norway")

Opening looks at the files again: what was added, changed or removed is indexed, and nothing else. A file is read again
if its size or date changed; then each of its documents is known by what it says, so one that only moved to another line
stays. One process at a time changes an index while others wait. Two things are kept, the catalogue and the index of
words. The catalogue says whether the index is whole: one that a killed process left unfinished is made again from it.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import xxhash

from kgwalk.config.cache import CACHE_VARIABLE, cache_folder, exclusive
from kgwalk.llm.embeddings import Embedder
from kgwalk.types import Document, InputError, Progress, StoreError, silent
from kgwalk.walk.web.documents import Entry, SourceFile, entries, passages, source_files
from kgwalk.walk.web.index import Catalogue, IndexWriter, Known, Passage, WordIndex

# Bringing an index up to its files


# Removed passages count in the index's word statistics until it is written anew: at once where that takes a moment,
# else when a tenth of it is gone.
ANEW_BELOW = 20_000
ANEW_SHARE = 0.1
# A file that changed this little before it was read may have changed after that with the same date.
UNSURE = 2_000_000_000  # nanoseconds


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
    writer: IndexWriter
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


FORMAT = 1  # of the cached index: another number, another folder
SPARE = 32  # passages looked at beyond those wanted, for those that score equally
MOST_EQUALS = 8192  # looked at, of passages that score equally


class LocalCorpus:
    """The corpus in a folder or JSONL file; `changes` says what was new. Threads and forked processes may share one."""

    def __init__(
        self,
        source: Path,
        *,
        cache: Path | None = None,
        again: bool = False,
        progress: Progress = silent,
    ) -> None:
        """`again` reads every file, also those whose size and date are as they were."""
        self.source = source
        self.folder = corpus_folder(source, cache)
        self._lock = threading.Lock()
        files = source_files(source)
        with self._alone():
            self.changes = refresh(self.folder, files, again=again, progress=progress)
            self._open()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """No other process changes the index meanwhile."""
        try:
            with exclusive(self.folder):
                self.folder.mkdir(exist_ok=True)
                yield
        except OSError as error:
            raise StoreError(
                f"the index of {self.source} cannot be kept in {self.folder}: {error.strerror}\n"
                f"  Set {CACHE_VARIABLE} to a folder that can be written to."
            ) from error

    def _open(self) -> None:
        self._process = os.getpid()
        self._catalogue: Catalogue = open_catalogue(self.folder)
        self._words = WordIndex(index_folder(self.folder, self._catalogue.index_state()[0]))

    def close(self) -> None:
        with self._lock:
            self._catalogue.close()

    def __len__(self) -> int:
        """How many passages there are."""
        with self._lock:
            return self._catalogue.counts()[2]

    def search(self, query: str, k: int = 3) -> list[Document]:
        return [passage.document for passage, _ in self.ranked(query, k)]

    def ranked(self, query: str, k: int) -> list[tuple[Passage, float]]:
        """The k best passages with their scores; those of the same score in the order of the corpus."""
        with self._lock:
            found = None if self._process != os.getpid() else self._look_up(query, k)
            if found is None:  # this process is a fork, or another one has changed the index since it was opened
                with self._alone():
                    self._open()
                found = self._look_up(query, k)
        if found is None:
            raise StoreError(f"the index {self.folder} does not fit its catalogue; remove that folder")
        found.sort(key=lambda one: (-one[1], one[0].order))
        return found[:k]

    def _look_up(self, query: str, k: int) -> list[tuple[Passage, float]] | None:
        """None if the index names a passage that the catalogue does not have."""
        hits = self._hits(query, k)
        passages = self._catalogue.passages([number for number, _ in hits])
        if len(passages) < len(hits):
            return None
        return [(passages[number], score) for number, score in hits]

    def _hits(self, query: str, k: int) -> list[tuple[int, float]]:
        """The k best passages and all that score as the last of them does: the index gives equals in any order."""
        if k < 1:
            return []
        limit = k + SPARE
        while True:
            # the last digits of a score depend on the order of summing
            hits = [(number, float(f"{score:.5g}")) for number, score in self._words.search(query, limit)]
            if len(hits) < limit or hits[-1][1] < hits[k - 1][1] or limit >= MOST_EQUALS:
                return [hit for hit in hits if hit[1] >= hits[min(k, len(hits)) - 1][1]]
            limit *= 4


def corpus_folder(source: Path, cache: Path | None = None) -> Path:
    """Where the index of a corpus is kept: named by where the corpus lies."""
    key = xxhash.xxh3_64_hexdigest(str(source.resolve()).encode("utf-8", "surrogateescape"))
    return (cache or cache_folder()) / "web" / f"{key}-{FORMAT}"


# Order by meaning


AMONG = 20
DAMPING = 60  # the constant of the fusion, as its authors give it


class Reranked:
    """A corpus whose best passages by words are put in order by meaning as well.

    The first `among` passages by BM25 are ranked once by BM25 and once by the likeness of their vectors to the query's;
    a passage gets 1 / (60 + rank) from each ranking, and the sum decides (reciprocal rank fusion, Cormack et al. 2009).
    A query costs the vectors of `among` passages, unless they are kept.
    """

    def __init__(self, corpus: LocalCorpus, embedder: Embedder, *, among: int = AMONG) -> None:
        self.corpus, self.embedder, self.among = corpus, embedder, among

    def search(self, query: str, k: int = 3) -> list[Document]:
        found = [passage.document for passage, _ in self.corpus.ranked(query, max(k, self.among))]
        if len(found) < 2:
            return found[:k]
        texts = [f"{one.title}. {one.text}" for one in found]
        rows_ND = self.embedder.embed([query, *texts])
        likeness_N = rows_ND[1:] @ rows_ND[0]
        by_meaning = np.argsort(-likeness_N, kind="stable").tolist()
        return [found[at] for at in fused([range(len(found)), by_meaning])[:k]]


def fused(rankings: Sequence[Sequence[int]]) -> list[int]:
    """The items of several rankings in the order of their summed 1 / (60 + rank), ranks from 1.

    Item 0 has ranks 1 and 3, 1/61 + 1/63 = 0.03227; item 1 has 2 and 1, 0.03252; item 2 has 3 and 2, 0.03200.

    >>> fused([[0, 1, 2], [1, 2, 0]])
    [1, 0, 2]
    """
    scores: dict[int, float] = {}
    for ranking in rankings:
        for rank, item in enumerate(ranking, 1):
            scores[item] = scores.get(item, 0.0) + 1 / (DAMPING + rank)
    return sorted(scores, key=lambda item: -scores[item])
