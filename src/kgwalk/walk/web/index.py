"""Passages found by their words: a tantivy index for BM25, and the catalogue of what a corpus holds.

Words are taken without case, accents and English endings; each CJK character is a word. The score of a passage is the
sum over the query's distinct words w of

    ln(1 + (N - n_w + 0.5) / (n_w + 0.5)) * f * (k1 + 1) / (f + k1 * (1 - b + b * L / mean L)),  k1 = 1.2, b = 0.75

with N passages, n_w that have the word, f times in this one of L words. The index has passages by number; what they say
is kept in the `Catalogue`, one SQLite file with the corpus's files, documents and passages. tantivy is imported when an
index is opened.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from kgwalk.config.cache import use_write_ahead_log
from kgwalk.types import Document, StoreError
from kgwalk.walk.web.documents import SourceFile, cited

MEMORY = 32 << 20  # bytes of words held before they go to disk; tantivy takes at least 15 MB
MOST_WORDS = 64  # of a query: a longer one is somebody's whole page
_ANALYZER = "kgwalk"
_CJK = re.compile("([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff])")


class WordIndex:
    """The index in a folder, made if it is not there. Threads may search one; one process at a time may write."""

    def __init__(self, folder: Path) -> None:
        self._tantivy = engine = _imported()
        builder = engine.SchemaBuilder()
        builder.add_unsigned_field("number", stored=True, indexed=True)
        builder.add_text_field("words", tokenizer_name=_ANALYZER, index_option="freq")
        self._schema = builder.build()
        filters = (engine.Filter.remove_long(64), engine.Filter.lowercase(), engine.Filter.ascii_fold())
        analyzer = engine.TextAnalyzerBuilder(engine.Tokenizer.simple())
        for one in (*filters, engine.Filter.stemmer("english")):
            analyzer = analyzer.filter(one)
        self._analyzer = analyzer.build()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._index = engine.Index(self._schema, path=str(folder))
        except (OSError, ValueError) as error:
            raise StoreError(f"the index {folder} cannot be opened: {error}; remove that folder") from error
        self._index.register_tokenizer(_ANALYZER, self._analyzer)
        self._index.config_reader("Manual")  # what another process writes is seen when the index is opened again
        self._searcher = self._index.searcher()

    def words(self, text: str) -> list[str]:
        """The distinct words of a text as they are indexed, in order."""
        return list(dict.fromkeys(self._analyzer.analyze(_spaced(text))))

    def search(self, query: str, k: int) -> list[tuple[int, float]]:
        """The k best passages and their scores; fewer where fewer have a word of the query."""
        engine = self._tantivy
        terms = [engine.Query.term_query(self._schema, "words", word) for word in self.words(query)[:MOST_WORDS]]
        if not terms or k < 1:
            return []
        wanted = engine.Query.boolean_query([(engine.Occur.Should, term) for term in terms])
        found = self._searcher.search(wanted, k, count=False).hits
        return [(int(self._searcher.doc(place)["number"][0]), float(score)) for score, place in found]

    def __len__(self) -> int:
        return int(self._searcher.num_docs)

    def writer(self) -> IndexWriter:
        return IndexWriter(self)


class IndexWriter:
    """Changes to an index, which are there when it is left without an error, and not at all otherwise."""

    def __init__(self, index: WordIndex) -> None:
        self._index = index
        self._engine = index._tantivy
        try:
            self._writer = index._index.writer(MEMORY, 1)
        except ValueError as error:
            raise StoreError(f"the index cannot be written: {error}") from error

    def add(self, number: int, text: str) -> None:
        document = self._engine.Document.from_dict({"number": number, "words": _spaced(text)}, self._index._schema)
        self._writer.add_document(document)

    def remove(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self._writer.delete_documents_by_term("number", number)

    def __enter__(self) -> IndexWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._writer.rollback()
            return
        try:
            self._writer.commit()
            self._writer.wait_merging_threads()
        except ValueError as failure:  # a full disk reaches us like this
            raise StoreError(f"the index cannot be written: {failure}") from failure
        self._index._index.reload()
        self._index._searcher = self._index._index.searcher()


def _spaced(text: str) -> str:
    return text if text.isascii() else _CJK.sub(r" \1 ", text)


def _imported() -> Any:
    try:
        import tantivy
    except ImportError as error:
        raise StoreError(f"a local corpus is searched with tantivy ({error}); pip install tantivy") from error
    return tantivy


# The catalogue


AT_ONCE = 500  # passages in one query; older SQLites take at most 999 values
WAIT = 60.0  # seconds for which a read waits for another process's write
SCHEMA = """
CREATE TABLE IF NOT EXISTS state (only INTEGER PRIMARY KEY CHECK (only = 1), folder INTEGER, whole INTEGER);
INSERT OR IGNORE INTO state VALUES (1, 0, 1);
CREATE TABLE IF NOT EXISTS files (
    id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE NOT NULL, size INTEGER, changed INTEGER, read INTEGER
);
CREATE TABLE IF NOT EXISTS documents (
    id INTEGER PRIMARY KEY AUTOINCREMENT, file INTEGER NOT NULL, place INTEGER NOT NULL, digest BLOB NOT NULL,
    title TEXT NOT NULL, source TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS documents_of_file ON documents (file);
CREATE TABLE IF NOT EXISTS passages (
    id INTEGER PRIMARY KEY AUTOINCREMENT, document INTEGER NOT NULL, text TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS passages_of_document ON passages (document);
"""


class Passage(NamedTuple):
    """A passage as it is found. `order` is its place in the corpus: file, line, number."""

    document: Document
    order: tuple[str, int, int]


class Known(NamedTuple):
    """A file as it was when it was read, at `read` nanoseconds since 1970."""

    id: int
    size: int
    changed: int
    read: int


class Catalogue:
    """What a corpus held when it was last read: its files, documents and passages, in the SQLite file at `path`.

    The index of words can be made again from it. A change is one transaction, so a process that is killed leaves the
    state before it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with self.errors():
            self._db = sqlite3.connect(path, timeout=WAIT, check_same_thread=False, isolation_level=None)
            try:
                use_write_ahead_log(self._db, WAIT)
                self._db.execute("PRAGMA synchronous = NORMAL")
                self._db.executescript(SCHEMA)
            except BaseException:
                self._db.close()
                raise

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StoreError(f"{self._path} cannot be used: {error}; remove its folder to index anew") from error

    @contextmanager
    def change(self) -> Iterator[None]:
        """All of it or nothing."""
        with self.errors():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                self._db.execute("ROLLBACK")
                raise

    # The index of words that belongs to it: the number of its folder, and whether it has all of the passages

    def index_state(self) -> tuple[int, bool]:
        with self.errors():
            folder, whole = self._db.execute("SELECT folder, whole FROM state").fetchone()
        return int(folder), bool(whole)

    def set_index_state(self, folder: int, whole: bool) -> None:
        with self.errors():
            self._db.execute("UPDATE state SET folder = ?, whole = ?", (folder, whole))

    # Files and documents

    def files(self) -> dict[str, Known]:
        with self.errors():
            rows = self._db.execute("SELECT name, id, size, changed, read FROM files").fetchall()
        return {name: Known(*rest) for name, *rest in rows}

    def put_file(self, file: SourceFile, read: int) -> int:
        """The number of the file, now as it is said to be."""
        row = (file.name, file.size, file.changed, read)
        self._db.execute(
            "INSERT INTO files (name, size, changed, read) VALUES (?, ?, ?, ?) ON CONFLICT (name) DO UPDATE "
            "SET size = excluded.size, changed = excluded.changed, read = excluded.read",
            row,
        )
        (number,) = self._db.execute("SELECT id FROM files WHERE name = ?", (file.name,)).fetchone()
        return int(number)

    def remove_file(self, file: int) -> None:
        """The file alone; its documents are removed as documents."""
        self._db.execute("DELETE FROM files WHERE id = ?", (file,))

    def documents_of(self, file: int) -> dict[bytes, list[tuple[int, int]]]:
        """Number and place of the documents of a file by their digests, in order."""
        found: dict[bytes, list[tuple[int, int]]] = {}
        rows = self._db.execute("SELECT digest, id, place FROM documents WHERE file = ? ORDER BY place", (file,))
        for digest, number, place in rows:
            found.setdefault(digest, []).append((number, place))
        return found

    def add_document(
        self, file: int, place: int, digest: bytes, title: str, source: str, texts: Iterable[str]
    ) -> Iterator[tuple[int, str]]:
        """Adds a document with its passages; gives the number and text of each passage."""
        row = (file, place, digest, title, source)
        added = self._db.execute(
            "INSERT INTO documents (file, place, digest, title, source) VALUES (?, ?, ?, ?, ?)", row
        )
        for text in texts:
            passage = self._db.execute("INSERT INTO passages (document, text) VALUES (?, ?)", (added.lastrowid, text))
            yield int(passage.lastrowid or 0), text

    def move_document(self, document: int, place: int) -> None:
        self._db.execute("UPDATE documents SET place = ? WHERE id = ?", (place, document))

    def remove_document(self, document: int) -> list[int]:
        """The numbers of the passages that are gone with it."""
        gone = self._db.execute("SELECT id FROM passages WHERE document = ?", (document,)).fetchall()
        self._db.execute("DELETE FROM passages WHERE document = ?", (document,))
        self._db.execute("DELETE FROM documents WHERE id = ?", (document,))
        return [number for (number,) in gone]

    # Passages

    def counts(self) -> tuple[int, int, int]:
        """Files, documents, passages."""
        with self.errors():
            tables = ("files", "documents", "passages")
            files, documents, texts = (
                self._db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables
            )
        return int(files), int(documents), int(texts)

    def every_passage(self) -> Iterator[tuple[int, str, str]]:
        """Number, title and text of all."""
        yield from self._db.execute(
            "SELECT p.id, d.title, p.text FROM passages p JOIN documents d ON d.id = p.document ORDER BY p.id"
        )

    def passages(self, numbers: Sequence[int]) -> dict[int, Passage]:
        """The passages of these numbers; one that is not there is left out."""
        found: dict[int, Passage] = {}
        for start in range(0, len(numbers), AT_ONCE):
            some = numbers[start : start + AT_ONCE]
            with self.errors():
                rows = self._db.execute(
                    "SELECT p.id, d.title, p.text, d.source, f.name, d.place FROM passages p JOIN documents d "
                    "ON d.id = p.document JOIN files f ON f.id = d.file "
                    f"WHERE p.id IN ({','.join('?' * len(some))})",
                    some,
                ).fetchall()
            for number, title, text, source, name, place in rows:
                found[number] = Passage(Document(title, text, cited(name, place, source)), (name, place, number))
        return found
