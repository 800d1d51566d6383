"""Where facts were read: the sentences behind the facts of a store, so that an answer can quote its evidence.

    {"fact": ["Big", "director", "Penny Marshall"], "document": "films/big.md", "title": "Big", "url": "",
     "start": 0, "end": 47, "sentence": "Big is a 1988 film directed by Penny Marshall."}
    {"alias": "P. Marshall", "of": "Penny Marshall"}

A file `facts.sources.jsonl` of such lines beside `facts.tsv` is taken along when a store is built from the TSV, or
updated by it. In the store's folder it becomes `sources.sqlite`, which holds sources by the names of a fact. What a
later file says of a fact and a document takes the place of what was known of the two: the document was read again.
Updates leave the rest valid: a fact that was removed is not asked for, and one that a merge moved is found by the name
that it was read with. A store that is compacted takes it over. Aliases become further names of the store's entities.

Each row has a checksum of its own, so a changed byte is an error and never another quotation.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from itertools import islice, product
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson
import xxhash

from kgwalk.kg.names import NameTable
from kgwalk.kg.store import Store, StoredGraph
from kgwalk.types import InputError, StoreError, Triple

SUFFIX = ".sources.jsonl"  # of the file beside a TSV
SOURCES = "sources.sqlite"  # in the store's folder
MOST_SHOWN = 3  # sources of one fact that an answer shows
_FORM = 'a line is {"fact": [head, relation, tail], "document", "start", "end", "sentence"} or {"alias", "of"}'
_SCHEMA = """
CREATE {kind} TABLE IF NOT EXISTS {name} (
    head TEXT, relation TEXT, tail TEXT, document TEXT, title TEXT, url TEXT, start INTEGER, stop INTEGER,
    sentence TEXT, xxh3 TEXT, UNIQUE (head, relation, tail, document, start, stop)
)
"""
_OLD = """
DELETE FROM main.sources WHERE (head, relation, tail, document) IN (SELECT head, relation, tail, document FROM newer)
AND (head, relation, tail, document, start, stop, xxh3)
NOT IN (SELECT head, relation, tail, document, start, stop, xxh3 FROM newer)
"""  # of a document that was read again: its rows that are not as they were
_COLUMNS = "head, relation, tail, document, title, url, start, stop, sentence"


@dataclass(frozen=True, slots=True)
class FactSource:
    """A sentence that a fact was read in: characters `start` to `end` of the text of a document."""

    document: str  # a file, or a file and a line: `films.jsonl:12`
    start: int
    end: int
    sentence: str
    title: str = ""
    url: str = ""  # what the document itself says of where it comes from

    @property
    def place(self) -> str:
        """What to call the document when it is quoted."""
        return self.url or self.document


_FactNames = tuple[str, str, str]


def beside(source: str | Path) -> Path | None:
    """The file of sources that belongs to a file of facts, if there is one."""
    path = Path(source)
    if path.suffix.lower() != ".tsv":
        return None
    file = path.with_suffix(SUFFIX)
    return file if file.is_file() else None


def read_sources(path: Path) -> Iterator[tuple[_FactNames, FactSource] | tuple[str, str]]:
    """The lines of a file: facts with their sources, and aliases with their names; InputError at a wrong one."""
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            try:
                yield _row(orjson.loads(line))
            except (ValueError, KeyError, TypeError) as error:
                text = line[:200].decode("utf-8", "replace").rstrip()
                why = f"not a line of sources ({error})"
                raise InputError(why, path=str(path), line=number, text=text, hint=_FORM) from None


def _row(row: Any) -> tuple[_FactNames, FactSource] | tuple[str, str]:
    if "alias" in row:
        return _text(row, "alias"), _text(row, "of")
    head, relation, tail = row["fact"]
    start, end, sentence = row["start"], row["end"], _text(row, "sentence")
    if not all(isinstance(name, str) for name in (head, relation, tail)):
        raise ValueError("a name that is no text")
    if type(start) is not int or type(end) is not int or end - start != len(sentence) or start < 0:
        raise ValueError("`start` and `end` that do not fit the sentence")
    more = {key: _text(row, key) for key in ("title", "url") if row.get(key)}
    return (head, relation, tail), FactSource(_text(row, "document"), start, end, sentence, **more)


def _text(row: Any, key: str) -> str:
    value = row[key]
    if not isinstance(value, str):
        raise ValueError(f"`{key}` is no text")
    return value


# Into a store


def add_sources(folder: Path, files: Iterable[Path], is_name: Callable[[str], bool]) -> tuple[int, dict[str, str]]:
    """Put files of sources into a store's folder: how many sources are new, and the aliases that may be given.

    A fact and a document that the files name have the rows of the files alone, and none of an earlier reading. An alias
    is one only if its entity is there and nothing else has the name.
    """
    aliases: dict[str, str] = {}

    def rows() -> Iterator[tuple[Any, ...]]:
        for file in files:
            for first, second in read_sources(file):
                if isinstance(second, FactSource):
                    values = (*first, second.document, second.title, second.url, second.start, second.end)
                    yield (*values, second.sentence, _digest((*values, second.sentence)))
                elif isinstance(first, str) and is_name(second) and not is_name(first):
                    aliases.setdefault(first, second)

    path = folder / SOURCES
    with closing(sqlite3.connect(path, timeout=60)) as db, db:
        db.execute(_SCHEMA.format(kind="", name="sources"))
        db.execute(_SCHEMA.format(kind="TEMP", name="newer"))
        into = "sources" if db.execute("SELECT 1 FROM main.sources LIMIT 1").fetchone() is None else "newer"
        before, every = db.total_changes, rows()
        while some := list(islice(every, 10_000)):
            db.executemany(f"INSERT OR IGNORE INTO {into} VALUES ({', '.join('?' * 10)})", some)
        if into == "newer":
            db.execute(_OLD)
            before = db.total_changes
            db.execute("INSERT OR IGNORE INTO main.sources SELECT * FROM newer ORDER BY rowid")
        return db.total_changes - before, aliases


def carry_sources(store: Path, other: Path) -> None:
    """Give another store that has the same facts, and more, the sources of this one."""
    if (store / SOURCES).is_file():
        shutil.copy2(store / SOURCES, other / SOURCES)


def _digest(values: Sequence[Any]) -> str:
    return xxhash.xxh3_64_hexdigest(orjson.dumps(values))


# Out of a store


def sources_behind(
    evidence: Mapping[str, Iterable[Triple]], graph: object, most: int = MOST_SHOWN
) -> dict[Triple, list[FactSource]]:
    """The sources of the facts behind answers, in the order they were read, at most so many of each fact."""
    if not isinstance(graph, StoredGraph) or not (path := graph.store.folder.path / SOURCES).is_file():
        return {}
    known = _Spellings(graph.store)
    with _reading(path) as db:
        found = {fact: _of_fact(db, known, fact, most) for facts in evidence.values() for fact in facts}
    return {fact: sources for fact, sources in found.items() if sources}


def source_rows(
    evidence: Mapping[str, Iterable[Triple]], sources: Mapping[Triple, Sequence[FactSource]]
) -> list[dict[str, Any]]:
    """The sources of this evidence as `kgwalk ask --json` gives them."""
    facts = dict.fromkeys(fact for each in evidence.values() for fact in each)
    return [{"fact": [*fact[:3]], **asdict(one)} for fact in facts for one in sources.get(fact, ())]


def _of_fact(db: sqlite3.Connection, known: _Spellings, fact: Triple, most: int) -> list[FactSource]:
    keys = product(known.of_entity(fact.head), known.of_relation(fact.relation), known.of_entity(fact.tail))
    found: dict[FactSource, None] = {}
    for key in keys:
        query = f"SELECT {_COLUMNS}, xxh3 FROM sources WHERE (head, relation, tail) = (?, ?, ?) ORDER BY rowid LIMIT ?"
        found |= {_source(row): None for row in db.execute(query, (*key, most))}
        if len(found) >= most:
            break
    return list(found)[:most]


def _source(row: Sequence[Any]) -> FactSource:
    *values, digest = row
    if _digest(values) != digest:
        raise sqlite3.DatabaseError("a row that does not match its checksum")
    document, title, url, start, end, sentence = values[3:]
    return FactSource(document, start, end, sentence, title, url)


class _Spellings:
    """The names that a source may have for what a store shows by one: the source's own id, aliases, merged names."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._aliases: defaultdict[int, list[str]] = defaultdict(list)
        for name, number in store.aliases.items():
            self._aliases[number].append(name)

    def of_entity(self, name: str) -> list[str]:
        number = self._store.entity_number(name)
        more = [] if number is None else self._aliases[number]
        return _distinct(name, self._store.entity_id, number, more)

    def of_relation(self, name: str) -> list[str]:
        return _distinct(name, self._store.relation_id, self._store.relation_number(name), [])


def _distinct(name: str, ids: NameTable | None, number: int | None, more: Iterable[str]) -> list[str]:
    own = [] if ids is None or number is None else [ids[number]]
    return list(dict.fromkeys([name, *own, *more]))


def verify_sources(folder: Path) -> int:
    """Compare every row with its checksum; how many there are."""
    path = folder / SOURCES
    if not path.is_file():
        return 0
    with _reading(path) as db:
        return len([_source(row) for row in db.execute(f"SELECT {_COLUMNS}, xxh3 FROM sources")])


@contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    """The file, opened for reading alone: it may lie where nobody may write."""
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=60)) as db:
            yield db
    except sqlite3.Error as error:
        raise StoreError(
            f"the sources of facts in {path} are damaged ({error}); build the store again, or take that file away"
        ) from error
