"""The store: one graph on disk, opened in milliseconds, every byte checked before it is used.

Names in, names out; underneath are numbers and edges in both directions (`csr`). A view (`views`) is the same graph
with some edges left out: a subclass that answers a few questions differently, without copying anything. `build` writes
the folder.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, lru_cache, wraps
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec, TypeVar, overload
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt

from kgwalk.kg.csr import I64, Edges
from kgwalk.kg.files import Folder, damaged
from kgwalk.kg.find import Finder
from kgwalk.kg.graph import Graph, find_among
from kgwalk.kg.names import ALIASES, OTHER_NAMES, U32, NameTable, ShortNames
from kgwalk.kg.question_sets import QuestionSets
from kgwalk.types import Found, Neighbors, StoreError, Triple, UnknownEntity, UnknownQuestion, UnknownRelation

if TYPE_CHECKING:
    from kgwalk.kg.views import FilteredView


KIND, VERSION = "kgwalk graph", 1
JOURNAL = "updates.jsonl"  # what was changed since the store was built, inside its folder
REPLACED_MEANWHILE = 5  # times that a store is opened again, if its folder was replaced while it was opened
SUBGRAPHS = "subgraphs"  # the folder of question subgraphs inside a store's own


class Store:
    """The opened arrays of one folder, shared by the graph and all views over it."""

    # Of a store with updates (`updated`): what it has lost, by number, and its journal's size.
    gone: frozenset[int] = frozenset()
    gone_relations: frozenset[int] = frozenset()
    journal_bytes = 0

    def __init__(self, path: Path, *, private: bool = False) -> None:
        self.folder = Folder(path, kind=KIND, version=VERSION, private=private)
        self.entity = NameTable(self.folder, "entity")
        self.relation = NameTable(self.folder, "relation")
        # Relations are few and read again and again, so their names are kept once decoded.
        self.relation_name = lru_cache(maxsize=1 << 16)(self.relation.__getitem__)
        labelled = "entity_id.heap" in self.folder
        self.entity_id = NameTable(self.folder, "entity_id") if labelled else None
        self.relation_id = NameTable(self.folder, "relation_id") if labelled else None
        self.out = Edges.of(self.folder, "out", len(self.entity))
        facts = len(self.out.other)
        self.in_ = Edges.of(self.folder, "in", len(self.entity))
        self.triple_of_array: U32 = self.folder.array("in.triple", "<u4", facts)
        self.triple_of = self.triple_of_array.data
        self.timed = "date.of" in self.folder
        if self.timed:
            self.date = NameTable(self.folder, "date")
            self.date_of_array: U32 = self.folder.array("date.of", "<u4", facts)
            self.date_of = self.date_of_array.data
            self.date_first: npt.NDArray[np.int32] = np.asarray(self.folder.array("date.first", "<i4", len(self.date)))
            self.date_last: npt.NDArray[np.int32] = np.asarray(self.folder.array("date.last", "<i4", len(self.date)))
        self.finder = Finder(
            self.entity.__getitem__,
            self.folder.array("find.hash", "<u8", len(self.entity)),
            self.folder.array("find.ids", "<u4", len(self.entity)),
            self.folder.array("find.signatures", "<u8", 2 * len(self.entity)).reshape(-1, 2),
        )
        self.aliases = self._read_aliases()

    def _read_aliases(self) -> dict[str, int]:
        """Further names that updates gave to entities, with their entity; each works wherever a name does."""
        if f"{ALIASES}.heap" not in self.folder:
            return {}
        names, keys = NameTable(self.folder, ALIASES), NameTable(self.folder, f"{ALIASES}_of")
        table = self.entity_id or self.entity
        found = ((names[at], table.number(keys[at])) for at in range(len(names)))
        return {name: number for name, number in found if number is not None}

    @property
    def changes(self) -> dict[str, int]:
        """How many facts were added and removed, and names given, since the store was built, in how many batches."""
        return {"batches": 0, "added": 0, "removed": 0, "aliases": 0}

    def live_entities(self) -> Sequence[int]:
        """The numbers of the entities that have a fact, most mentioned first."""
        every = range(len(self.entity))
        return [number for number in every if number not in self.gone] if self.gone else every

    def live_relations(self) -> Sequence[int]:
        every = range(len(self.relation))
        return [number for number in every if number not in self.gone_relations] if self.gone_relations else every

    @property
    def built(self) -> Store:
        """The store as it was built, without updates."""
        return self

    def current(self, out: U32, in_: U32) -> tuple[U32, U32]:
        """Where these edges of the store as built are now, in both directions, without those that are gone."""
        return out, in_

    @cached_property
    def short_names(self) -> ShortNames:
        """The short names of its relations."""
        return ShortNames(self.relation_name(number) for number in range(len(self.relation)))

    @cached_property
    def other_names(self) -> list[tuple[str, int]]:
        """Names beside the one shown, with their entity: labels in other languages that sources give, and aliases."""
        return [*self.given_names, *self.aliases.items()]

    @cached_property
    def given_names(self) -> list[tuple[str, int]]:
        if f"{OTHER_NAMES}.of" not in self.folder:
            return []
        names = NameTable(self.folder, OTHER_NAMES)
        entities = self.folder.array(f"{OTHER_NAMES}.of", "<u4", len(names)).tolist()
        return list(zip(names.several(range(len(names))), entities, strict=True))

    @property
    def digest(self) -> str:
        """A digest of the store's triples; question subgraphs record it to know their store again."""
        arrays = self.folder.header["arrays"]
        return "-".join(arrays[name]["xxh3"] for name in ("entity.heap", "relation.heap", "out.other"))

    def entity_number(self, name: str) -> int | None:
        if self.aliases and (alias := self.aliases.get(name)) is not None:
            return alias  # before the name of what was merged into another
        number = self.entity.number(name)
        return number if number is not None or self.entity_id is None else self.entity_id.number(name)

    def relation_number(self, name: str) -> int | None:
        number = self.relation.number(name)
        return number if number is not None or self.relation_id is None else self.relation_id.number(name)


P = ParamSpec("P")
T = TypeVar("T")
G = TypeVar("G", bound="StoredGraph")


def naming_damage(method: Callable[Concatenate[G, P], T]) -> Callable[Concatenate[G, P], T]:
    """The method with an IndexError, which means that the store's arrays contradict each other, as a StoreError."""

    @wraps(method)
    def checked(self: G, /, *args: P.args, **options: P.kwargs) -> T:
        try:
            return method(self, *args, **options)
        except IndexError as error:
            raise damaged(self.store.folder.path) from error

    return checked


class StoredGraph:
    """A graph in a store folder. Open one with `open_graph(path)`."""

    _where = "the graph"

    def __init__(self, store: Store) -> None:
        self.store = store
        self._entities = store.entity
        self._edges = (store.in_, store.out)  # indexed by `out`
        self._question_sets: QuestionSets | bool | None = False  # False: not looked for yet

    # The questions that a view answers differently. Positions are indices into one direction's edges.

    def _relation_numbers(self, edges: Edges, entity: int, out: bool) -> list[int]:
        """The relations of an entity that have an edge, ascending."""
        return edges.relations(entity)

    def _positions(self, low: int, high: int, out: bool) -> Sequence[int]:
        """The edges among the positions low .. high."""
        return range(low, high)

    def _has_relation(self, relation: int) -> bool:
        return relation not in self.store.gone_relations  # every other relation of a store has a triple

    def _is_live(self, entity: int) -> bool:
        return entity not in self.store.gone  # every other entity of a store has a triple

    # Names

    def _known(self, name: str) -> int:
        number = self.store.entity_number(name)
        if number is None or not self._is_live(number):
            raise UnknownEntity(name, where=self._where)
        return number

    def _known_relation(self, name: str) -> int:
        number = self.store.relation_number(name)
        if number is None or not self._has_relation(number):
            raise UnknownRelation(name, where=self._where)
        return number

    @naming_damage
    def __contains__(self, entity: object) -> bool:
        number = self.store.entity_number(entity) if isinstance(entity, str) else None
        return number is not None and self._is_live(number)

    @naming_damage
    def has_relation(self, relation: str) -> bool:
        number = self.store.relation_number(relation)
        return number is not None and self._has_relation(number)

    @naming_damage
    def id_of(self, entity: str) -> str | None:
        """The source's own id of an entity (an IRI, say); None where the source had only names."""
        ids = self.store.entity_id
        return None if ids is None else ids[self._known(entity)]

    @naming_damage
    def is_live(self, number: int) -> bool:
        """Whether the entity of this number has a fact here."""
        return self._is_live(number)

    # Walking

    @naming_damage
    def relations(self, entity: str, *, out: bool = True) -> list[str]:
        number = self._known(entity)
        numbers = self._relation_numbers(self._edges[out], number, out)
        return list(map(self.store.relation_name, numbers))  # numbered in alphabetical order

    @naming_damage
    def neighbors(
        self, entity: str, relation: str, *, out: bool = True, limit: int | None = None, offset: int = 0
    ) -> Neighbors:
        """As every graph has it; here also a later page, without a look at those before the `offset`."""
        number = self._known(entity)
        edges = self._edges[out]
        wanted = self.store.relation_number(relation)
        bounds = None if wanted is None else edges.bounds(number, wanted)
        positions = () if bounds is None else self._positions(*bounds, out)
        if not positions:  # only now it matters whether the relation is in the graph at all
            self._known_relation(relation)
            return Neighbors([], 0, [] if self.store.timed else None)
        if self.store.timed:
            return self._dated(edges, positions, limit, out, offset)
        kept = positions[offset : None if limit is None else offset + limit]
        if isinstance(kept, range):
            others = edges.other[kept.start : kept.stop].tolist()
        else:
            others = [edges.other[p] for p in kept]
        return Neighbors(self._entities.several(others), len(positions))

    def _dated(self, edges: Edges, positions: Sequence[int], limit: int | None, out: bool, offset: int) -> Neighbors:
        """Neighbours with their dates. One may have several; its edges stand together."""
        store = self.store
        places = np.asarray(positions, np.int64)
        others = edges.other_array[places]
        firsts = np.flatnonzero(np.r_[True, others[1:] != others[:-1]]) if len(places) else places
        shown = firsts[offset : None if limit is None else offset + limit]
        after = firsts[offset + len(shown)] if offset + len(shown) < len(firsts) else len(places)
        bounds = [*shown.tolist(), int(after)] if len(shown) else [0]
        some = places[bounds[0] : bounds[-1]]
        dates = [store.date[store.date_of[t]] for t in (some if out else store.triple_of_array[some]).tolist()]
        begin = bounds[0]
        times = [[date for date in dates[low - begin : high - begin] if date] for low, high in pairwise(bounds)]
        return Neighbors(self._entities.several(others[shown].tolist()), len(firsts), times)

    def match(
        self,
        head: str | None = None,
        relation: str | None = None,
        tail: str | None = None,
        *,
        limit: int | None = None,
    ) -> Iterator[Triple]:
        """Facts that fit the pattern, where None fits anything, ordered by the numbers of head, relation and tail.

        A name that is not in the graph fits nothing.
        """
        found = self._matching(head, relation, tail)
        left = -1 if limit is None else max(0, limit)  # counting down from -1 never reaches 0
        while left and (triple := self._next(found)) is not None:
            yield triple
            left -= 1

    @naming_damage
    def _next(self, numbers: Iterator[int]) -> Triple | None:
        number = next(numbers, None)
        return None if number is None else self._triple(number)

    def _matching(self, head: str | None, relation: str | None, tail: str | None) -> Iterator[int]:
        """The numbers of the triples that fit."""
        numbers = [
            None if head is None else self.store.entity_number(head),
            None if relation is None else self.store.relation_number(relation),
            None if tail is None else self.store.entity_number(tail),
        ]
        if any(n is None and name is not None for n, name in zip(numbers, (head, relation, tail), strict=True)):
            return
        h, r, t = numbers
        if h is None and t is None:
            yield from self._scan(r)
            return
        out = h is not None
        edges = self._edges[out]
        entity = h if h is not None else t
        assert entity is not None
        if r is None:
            groups: Sequence[int] = range(edges.groups[entity], edges.groups[entity + 1])
        else:
            group = edges.group(entity, r)
            groups = [] if group is None else [group]
        for group in groups:
            for position in self._positions(edges.start[group], edges.start[group + 1], out):
                if t is None or not out or edges.other[position] == t:
                    yield position if out else self.store.triple_of[position]

    def _scan(self, relation: int | None) -> Iterator[int]:
        """All triples, or all with a relation: group by group, since only a group says its relation."""
        edges = self.store.out
        for start in range(0, len(edges.relation_array), 1 << 20):
            block = edges.relation_array[start : start + (1 << 20)]
            groups = range(len(block)) if relation is None else np.flatnonzero(block == relation).tolist()
            for group in groups:
                yield from self._positions(edges.start[start + group], edges.start[start + group + 1], True)

    def _triple(self, number: int) -> Triple:
        store = self.store
        (head,), (relation,) = store.out.owners(np.array([number]))
        date = store.date[store.date_of[number]] if store.timed else ""
        return Triple(
            store.entity[int(head)],
            store.relation[int(relation)],
            store.entity[store.out.other[number]],
            date,
        )

    @naming_damage
    def triples(self, numbers: I64) -> list[Triple]:
        """The triples of these numbers."""
        store = self.store
        heads, relations = store.out.owners(numbers)
        tails = store.out.other_array[numbers]
        dates = store.date_of_array[numbers].tolist() if store.timed else None
        return [
            Triple(h, r, t, store.date[dates[at]] if dates else "")
            for at, (h, r, t) in enumerate(
                zip(
                    store.entity.several(heads.tolist()),
                    store.relation.several(relations.tolist()),
                    store.entity.several(tails.tolist()),
                    strict=True,
                )
            )
        ]

    @naming_damage
    def find(self, text: str, k: int = 5) -> list[Found]:
        store = self.store
        exact = store.entity_number(text)
        exact = None if exact in store.gone else exact
        rest = store.finder.find(text, k + (exact is not None))
        ranked = [(exact, 1.0, "exact")] if exact is not None else []
        ranked += [entry for entry in rest if entry[0] != exact]
        ids = store.entity_id
        return [
            Found(store.entity[number], score, how, None if ids is None else ids[number])
            for number, score, how in ranked[:k]
        ]

    @naming_damage
    def find_relation(self, text: str, k: int = 5) -> list[Found]:
        return find_among(text, self.store.relation.several(self.live_relations()), k)

    @naming_damage
    def live_entities(self) -> Sequence[int]:
        """The numbers of the entities that have a fact, most mentioned first."""
        return self.store.live_entities()

    @naming_damage
    def facts_by_number(self) -> tuple[I64, I64, I64]:
        """The heads, relations and tails of all facts, as three arrays: for counting over the whole graph."""
        edges = self.store.out
        facts_E = np.asarray(self._positions(0, len(edges.other), True), np.int64)
        return *edges.owners(facts_E), edges.other_array[facts_E].astype(np.int64)

    @naming_damage
    def live_relations(self) -> Sequence[int]:
        return self.store.live_relations()

    # Views and counts

    @naming_damage
    def subgraph(self, triples: U32 | I64 | Sequence[int]) -> FilteredView:
        """The view that has only these triples (by number)."""
        from kgwalk.kg.views import subgraph

        return subgraph(self, np.asarray(triples, np.int64))

    @naming_damage
    def between(self, start: str | None, end: str | None, *, undated: bool = True) -> FilteredView:
        """The view of facts that hold at some time from `start` to `end`, with or without those that have no date."""
        from kgwalk.kg.views import between

        return between(self, start, end, undated=undated)

    @naming_damage
    def question(self, question: str) -> FilteredView:
        """The view of one question's own subgraph, which is stored with the graph."""
        from kgwalk.kg.views import of_positions

        sets = self.question_sets
        if sets is None:
            raise UnknownQuestion(question)
        return of_positions(self, *self.store.current(*sets[question]))

    @property
    def question_sets(self) -> QuestionSets | None:
        if self._question_sets is False:
            folder = self.store.folder
            if "question.out" in folder:
                self._question_sets = QuestionSets(folder)
            elif (folder.path / SUBGRAPHS).exists():
                self._question_sets = QuestionSets.open(
                    folder.path / SUBGRAPHS, self.store.built.digest, private=folder.private
                )
            else:
                self._question_sets = None
        assert not isinstance(self._question_sets, bool)
        return self._question_sets

    def folders(self) -> list[Folder]:
        """The folders that hold the graph: the store's own, and that of question subgraphs beside it."""
        sets = self.question_sets
        beside = [] if sets is None or sets.folder is self.store.folder else [sets.folder]
        return [self.store.folder, *beside]

    @naming_damage
    def __len__(self) -> int:
        """How many facts there are."""
        return len(self._positions(0, len(self.store.out.other), True))

    def info(self) -> dict[str, Any]:
        store = self.store
        sets = self.question_sets
        return {
            "path": str(store.folder.path),
            "triples": len(store.out.other),
            "entities": len(store.entity) - len(store.gone),
            "relations": len(store.relation) - len(store.gone_relations),
            "timed": store.timed,
            "labelled": store.entity_id is not None,
            "questions": 0 if sets is None else len(sets),
            "bytes": store.folder.size() + store.journal_bytes,
            "updates": store.changes,
            "digest": store.digest,
        }


def open_graph(path: str | Path, *, private: bool = False) -> StoredGraph:
    """Open a store folder with its updates; StoreError if it is missing, truncated, corrupted or of another version.

    With `private`, all of it is opened now and nothing of it mapped: whatever happens to its files from then on, the
    graph answers as before or raises StoreError. It takes the memory of the store, up to 256 MB of blocks of a larger
    one.
    """
    graph = StoredGraph(_open_store(Path(path), private))
    if private:
        _ = graph.question_sets  # which are opened when they are asked for, from another folder
    return graph


def _open_store(path: Path, private: bool) -> Store:
    """The store of a folder and its journal, both of the same folder: another may take its place meanwhile."""
    for left in range(REPLACED_MEANWHILE, -1, -1):
        folder = _identity(path)
        try:
            store = with_updates(Store(path, private=private))
        except StoreError:
            if not left or _identity(path) == folder:
                raise
            continue
        if not left or _identity(path) == folder:
            return store
    raise AssertionError("the last try returns or raises")


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def with_updates(store: Store) -> Store:
    """A store as built, with what the journal in its folder says now; itself if that is nothing."""
    if not (store.folder.path / JOURNAL).exists():  # as most have none, no more is imported
        return store
    from kgwalk.kg.updated import updated

    return updated(store)


# Opening a graph by its address

SPARQL = "sparql+"
SPARQL_SETTINGS = ("wikibase", "times", "lang", "label", "relation_label", "namespace", "timeout", "page")
SERVERS = ("http://", "https://")
BOLT = tuple(f"{scheme}{tls}://" for scheme in ("bolt", "neo4j") for tls in ("", "+s", "+ssc"))
LADYBUG = "ladybug:///"
DATABASES = ("sqlite:///", "duckdb:///")


class DatabaseAddress(NamedTuple):
    path: Path
    format: str
    keys: list[str]
    """Corrected keys of tables, as `kgwalk kg build --key` takes them."""


def database_at(address: str) -> DatabaseAddress:
    """The file of a database at an address, its format, and the keys behind a `?`.

    >>> database_at("duckdb:////data/shop.db").path.as_posix(), database_at("sqlite:///a?key=products=sku").keys
    ('/data/shop.db', ['products=sku'])
    """
    form, _, rest = address.partition(":///")
    path, _, query = rest.partition("?")
    keys = []
    for part in filter(None, query.split("&")):
        name, _, value = part.partition("=")
        if name != "key" or not value:
            raise StoreError(f"{address}: unknown setting {part!r}; as in {form}:///{path}?key=TABLE=COLUMN")
        keys.append(unquote(value))
    return DatabaseAddress(Path(path), form, keys)


def is_elsewhere(address: str) -> bool:
    """Whether an address is that of a graph that is not a store on this machine."""
    return address.startswith((SPARQL, *SERVERS, *BOLT, LADYBUG))


def shown_address(address: str | Path) -> str:
    """An address for messages: without the name and password in it, or what a SPARQL endpoint is told behind the `?`,
    which may be a key. A path is itself.

    >>> shown_address("bolt://me:secret@host/films?values=no"), shown_address("http://me:secret@a,http://b#films")
    ('bolt://host/films?values=no', 'http://a,http://b#films')
    >>> shown_address("sparql+https://host/sparql?lang=de&key=secret")
    'sparql+https://host/sparql?lang=de&key=***'
    """
    text = str(address)
    # nothing after the host of a Bolt address has an @, but a password that nobody encoded may have a slash
    inside = r".*" if text.startswith(BOLT) else r"[^/?#]*"
    text = re.sub(rf"(?s)(?<=://){inside}@", "", text)
    if not text.startswith(SPARQL):
        return text
    return re.sub(rf"(?s)(?<=[?&])(?!({'|'.join(SPARQL_SETTINGS)})=)([^=&]*=)?[^&]+", r"\2***", text)


@overload
def load_graph(address: Path) -> StoredGraph: ...
@overload
def load_graph(address: str | Path) -> Graph: ...
def load_graph(address: str | Path) -> Graph:
    """Open a graph by its address.

    `films.kg` is a store folder, `http://host:8000` a kgwalk server (`http://host:8000#films` one of its graphs),
    `http://a:8000,http://b:8000#films` two servers of the same graph, `sparql+https://query.wikidata.org/sparql` a
    SPARQL endpoint (`kg.sparql`), `bolt://host:7687` or `neo4j://host/database` a property graph (`kg.bolt`) and
    `ladybug:///movies.lbug` one in a file (`kg.ladybug`), `sqlite:///shop.db` or
    `duckdb:///shop.duckdb` the tables of a database, read into a store in the cache (`kg.cached`);
    `sqlite:///shop.db?key=products=sku` corrects a key.
    """
    text = str(address)
    if text.startswith(SPARQL):
        from kgwalk.kg.sparql import open_sparql

        return open_sparql(text)
    if text.startswith(DATABASES):
        from kgwalk.kg.cached import database_store

        return open_graph(database_store(text))
    if text.startswith(LADYBUG):
        from kgwalk.kg.ladybug import open_ladybug

        return open_ladybug(text)
    if text.startswith(BOLT):
        from kgwalk.kg.bolt import open_bolt

        return open_bolt(text)
    if text.startswith(SERVERS):
        from kgwalk.kg.http import HttpGraph

        url, _, name = text.partition("#")
        return HttpGraph(url, name or None)
    return open_graph(address)
