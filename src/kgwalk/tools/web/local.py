"""A corpus on this machine as a web: documents in files, indexed once into the cache, found by their words.

Opening looks at the files again: what was added, changed or removed is indexed, and nothing else. One process at a time
changes an index while others wait; a killed one leaves the index as it was, or as it can be made again. Knows nothing
of providers.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import xxhash

from kgwalk.config.cache import CACHE_VARIABLE, cache_folder, one_at_a_time
from kgwalk.tools.web.catalogue import Catalogue, Passage
from kgwalk.tools.web.documents import source_files
from kgwalk.tools.web.refresh import Progress, index_folder, open_catalogue, refresh
from kgwalk.tools.web.word_index import WordIndex
from kgwalk.types import Document, StoreError

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
        progress: Progress = lambda what, done, total: None,
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
            with one_at_a_time(self.folder):
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
