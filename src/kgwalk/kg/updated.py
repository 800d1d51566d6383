"""A store with its updates: facts added and removed since it was built, and names given, as a view over its arrays.

    updated(Store(Path("films.kg")))        with what its journal says, read now

`UpdatedStore` is a `Store` to all who ask it: names, edges, dates and the finder of names are those of the built store,
with what the journal (`journal`) adds and without what it takes away. So graphs, views, kinds and linking see the
graph as it is now. Opening one takes time and memory by the number of changes, not by the size of the store.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from kgwalk.kg.csr import I64
from kgwalk.kg.files import damaged
from kgwalk.kg.find import Finder, hashes, signatures
from kgwalk.kg.journal import JournalState, KeyedFact, read_journal
from kgwalk.kg.names import U32, NameTable, normalise
from kgwalk.kg.store import Store
from kgwalk.kg.times import parse_time
from kgwalk.kg.updated_edges import GoneEdge, NewEdge, RelationNumbers, UpdatedEdges

SCANNED = 1 << 20  # groups looked at together, to see whether a relation has a fact left


def updated(built: Store) -> Store:
    """The store with what the journal in its folder says now; itself if that is nothing."""
    state = read_journal(built.folder.path, built.digest)
    return UpdatedStore(built, state) if state.batches else built


class MoreNames(NameTable):
    """A table of names with others after it; or of these alone."""

    def __init__(self, base: NameTable | None, more: Sequence[str]) -> None:
        self._base, self._more = base, list(more)
        self._first = 0 if base is None else len(base)
        self._number = {name: self._first + at for at, name in enumerate(self._more)}

    def __len__(self) -> int:
        return self._first + len(self._more)

    def __getitem__(self, number: int) -> str:
        if self._base is not None and number < self._first:
            return self._base[number]
        return self._more[number - self._first]

    def several(self, numbers: Iterable[int]) -> list[str]:
        wanted = numbers if isinstance(numbers, list) else list(numbers)
        if self._base is not None and (not wanted or max(wanted) < self._first):
            return self._base.several(wanted)
        return [self[number] for number in wanted]

    def number(self, name: str) -> int | None:
        found = None if self._base is None else self._base.number(name)
        return self._number.get(name) if found is None else found

    @cached_property
    def heap(self) -> npt.NDArray[np.uint8]:
        more = np.frombuffer("".join(self._more).encode(), np.uint8)
        return more if self._base is None else np.concatenate([np.asarray(self._base.heap), more])

    @cached_property
    def offsets(self) -> npt.NDArray[np.uint64]:
        before = np.zeros(1, np.uint64) if self._base is None else np.asarray(self._base.offsets)
        more = np.cumsum([len(name.encode()) for name in self._more], dtype=np.uint64)
        return np.concatenate([before, before[-1] + more])


class UpdatedFinder:
    """Finds names of the built store and new ones, but none that is gone."""

    def __init__(self, base: Finder, names: NameTable, first: int, gone: frozenset[int]) -> None:
        """The names from number `first` on are new."""
        self._base, self._names, self._first, self._gone = base, names, first, gone
        plain = [normalise(name) for name in names.several(range(first, len(names)))]
        hashed = hashes(plain)
        order = np.argsort(hashed, kind="stable")
        self._new = Finder(lambda at: names[first + at], hashed[order], order.astype(np.uint32), signatures(plain))

    def equal(self, text: str) -> list[int]:
        stored = [number for number in self._base.equal(text) if number not in self._gone]
        return stored + [self._first + number for number in self._new.equal(text)]

    def find(self, text: str, k: int = 5) -> list[tuple[int, float, str]]:
        stored = self._stored(text, k)
        new = [(self._first + number, score, how) for number, score, how in self._new.find(text, k)]
        folded = text.casefold()

        def rank(entry: tuple[int, float, str]) -> tuple[bool, bool, float, int]:
            number, score, how = entry
            fuzzy = how == "fuzzy"
            return fuzzy, not fuzzy and self._names[number].casefold() != folded, -score, number

        return sorted(stored + new, key=rank)[:k] if new else stored

    def _stored(self, text: str, k: int) -> list[tuple[int, float, str]]:
        """The k of the built store that are not gone: more are asked for until there are so many, or no more."""
        asked = k
        while True:
            found = self._base.find(text, asked)
            left = [entry for entry in found if entry[0] not in self._gone]
            if len(left) >= k or len(found) < asked:
                return left[:k]
            asked *= 4


class UpdatedStore(Store):
    """A store with what its journal says."""

    def __init__(self, built: Store, state: JournalState) -> None:
        self._built, self._state = built, state
        self.folder, self.journal_bytes = built.folder, state.end
        added = list(state.changes.added)
        self._name_entities(added)
        relations = self._name_relations(added)
        self._date(added)
        new = [
            NewEdge(self._key(fact.head), self._relation(fact.relation), self._key(fact.tail), fact.time.encode(), at)
            for at, fact in enumerate(added)
        ]
        self._splice(new, [self._stored_at(fact) for fact in state.changes.removed], relations, added)
        self._lose()
        self.finder: Any = UpdatedFinder(built.finder, self.entity, len(built.entity), self.gone)
        given = ((name, self._keys.number(key)) for name, key in state.changes.aliases.items())
        aliases = {**built.aliases, **{name: number for name, number in given if number is not None}}
        self.aliases = {name: number for name, number in aliases.items() if number not in self.gone}

    # Names and dates

    def _name_entities(self, added: Sequence[KeyedFact]) -> None:
        built, names = self._built, self._state.changes.names
        stored = built.entity_id or built.entity
        keys = dict.fromkeys(key for fact in added for key in (fact.head, fact.tail))
        new = [key for key in keys if stored.number(key) is None]
        self.entity = MoreNames(built.entity, [names.get(key, key) for key in new])
        self.entity_id = None if built.entity_id is None else MoreNames(built.entity_id, new)
        self._keys = self.entity_id or self.entity

    def _name_relations(self, added: Sequence[KeyedFact]) -> RelationNumbers:
        """Number the relations in the order of their names; says which number a stored one has now."""
        built, names = self._built, self._state.changes.relation_names
        stored = built.relation_id or built.relation
        count = len(built.relation)
        new = [key for key in dict.fromkeys(fact.relation for fact in added) if stored.number(key) is None]
        self.relation, self.relation_id = built.relation, built.relation_id
        now: Sequence[int] = range(count)
        if new:
            shown = [*built.relation.several(range(count)), *(names.get(key, key) for key in new)]
            order = sorted(range(len(shown)), key=lambda at: shown[at].encode())
            self.relation = MoreNames(None, [shown[at] for at in order])
            if built.relation_id is not None:
                keys = [*built.relation_id.several(range(count)), *new]
                self.relation_id = MoreNames(None, [keys[at] for at in order])
            now = np.argsort(order)[:count].tolist()
        self.relation_name = lru_cache(maxsize=1 << 16)(self.relation.__getitem__)
        self._relation_keys = self.relation_id or self.relation
        return RelationNumbers(now, len(self.relation))

    def _date(self, added: Sequence[KeyedFact]) -> None:
        built = self._built
        self.timed = built.timed or any(fact.time for fact in added)
        if not self.timed:
            return
        stored = built.date if built.timed else MoreNames(None, [""])
        times = dict.fromkeys(fact.time for fact in added)
        new = [time for time in times if stored.number(time) is None]
        self.date = MoreNames(stored, new)
        first, last = (built.date_first, built.date_last) if built.timed else (np.array([1]), np.array([0]))
        spans = [parse_time(time) if time else (1, 0) for time in new]  # an undated fact: an empty span
        self.date_first = np.concatenate([first, [begin for begin, _ in spans]]).astype(np.int32)
        self.date_last = np.concatenate([last, [end for _, end in spans]]).astype(np.int32)

    def _key(self, key: str) -> int:
        number = self._keys.number(key)
        assert number is not None  # stored or new
        return number

    def _relation(self, key: str) -> int:
        number = self._relation_keys.number(key)
        assert number is not None
        return number

    # Edges

    def _time_at(self, triple: int) -> bytes:
        built = self._built
        return built.date[built.date_of[triple]].encode() if built.timed else b""

    def _stored_at(self, fact: KeyedFact) -> tuple[KeyedFact, int]:
        """A fact of the built store and its number there."""
        number = stored_number(self._built, fact)
        if number is None:
            raise damaged(self._built.folder.path)
        return fact, number

    def _splice(
        self,
        new: list[NewEdge],
        gone: list[tuple[KeyedFact, int]],
        relations: RelationNumbers,
        added: Sequence[KeyedFact],
    ) -> None:
        built, entities = self._built, len(self.entity)
        numbers = [(self._key(fact.head), self._relation(fact.relation), self._key(fact.tail)) for fact, _ in gone]
        triples = np.array([number for _, number in gone], np.int64)
        gone_out = [GoneEdge(h, r, at) for (h, r, _), at in zip(numbers, triples.tolist(), strict=True)]
        self.out = out = UpdatedEdges(built.out, entities, relations, new, gone_out, self._time_at)
        gone_in = [GoneEdge(t, r, self._stored_in(t, relations.stored(r), n)) for (_, r, t), (_, n) in
                   zip(numbers, gone, strict=True)]  # fmt: skip
        turned = [edge._replace(entity=edge.other, other=edge.entity) for edge in new]
        time_in = lambda position: self._time_at(built.triple_of[position])  # noqa: E731
        self.in_ = in_ = UpdatedEdges(built.in_, entities, relations, turned, gone_in, time_in)
        triples_in = [out.position_of[fact] for fact in in_.new_facts]
        self.triple_of_array: Any = in_.beside(built.triple_of_array, triples_in, out.layout.moved)
        self.triple_of = self.triple_of_array.data
        if self.timed:
            stored = built.date_of_array if built.timed else np.zeros(len(built.out.other), np.uint32)
            dates = [self.date.number(added[fact].time) or 0 for fact in out.new_facts]
            self.date_of_array: Any = out.beside(stored, dates)
            self.date_of = self.date_of_array.data
        self._candidate_relations = [*{r for _, r, _ in numbers}]
        self._candidates = {number for h, _, t in numbers for number in (h, t)}

    def _stored_in(self, tail: int, relation: int | None, triple: int) -> int:
        """The stored position of a triple among the incoming edges."""
        bounds = None if relation is None else self._built.in_.bounds(tail, relation)
        if bounds is not None:
            at = bisect_left(self._built.triple_of, triple, *bounds)
            if at < bounds[1] and self._built.triple_of[at] == triple:
                return at
        raise damaged(self._built.folder.path)

    def _lose(self) -> None:
        """See which entities and relations have no fact left."""
        empty = (
            number
            for number in self._candidates
            if all(low == high for low, high in (self.out.row(number), self.in_.row(number)))
        )
        self.gone = frozenset(empty)
        waiting = self._candidate_relations
        relations = self.out.relation_array
        for start in range(0, len(relations), SCANNED):
            if not waiting:
                break
            count_R = np.bincount(relations[start : start + SCANNED], minlength=len(self.relation))
            waiting = [relation for relation in waiting if not count_R[relation]]
        self.gone_relations = frozenset(waiting)

    @property
    def built(self) -> Store:
        return self._built

    @property
    def digest(self) -> str:
        return f"{self._built.digest}-{self._state.digest}"

    @property
    def changes(self) -> dict[str, int]:
        changes = self._state.changes
        return {
            "batches": self._state.batches,
            "added": len(changes.added),
            "removed": len(changes.removed),
            "aliases": len(changes.aliases),
        }

    @cached_property
    def given_names(self) -> list[tuple[str, int]]:
        return self._built.given_names

    def current(self, out: U32, in_: U32) -> tuple[U32, U32]:
        return _moved(self.out, out), _moved(self.in_, in_)


def _moved(edges: Any, positions: U32) -> U32:
    now: I64 = edges.layout.moved(np.asarray(positions).astype(np.int64))
    return now[now >= 0].astype(np.uint32)


def stored_number(store: Store, fact: KeyedFact) -> int | None:
    """The number of a fact in a store as built, by its keys; None if it is not there."""
    keys, relations = store.entity_id or store.entity, store.relation_id or store.relation
    head, relation, tail = keys.number(fact.head), relations.number(fact.relation), keys.number(fact.tail)
    if head is None or relation is None or tail is None:
        return None
    bounds = store.out.bounds(head, relation)
    if bounds is None:
        return None
    low = bisect_left(store.out.other, tail, *bounds)
    for at in range(low, bisect_right(store.out.other, tail, low, bounds[1])):
        if not store.timed or store.date[store.date_of[at]] == fact.time:
            return at if store.timed or not fact.time else None
    return None
