"""A picture of a graph: its kinds of thing, and which relations join them, with counts.

    picture = draw(graph)
    picture.kinds[0].name, picture.joins[0]           "city", Join("city", "country", "country", 4324)

What kind a thing is says a relation of types (`is_a`), where there is one. All others are told apart by the relations
that leave them (their characteristic set), and things that nothing leaves by the relations that lead to them; sets that
are nearly the same are one kind. It is called as `walk.kinds` calls what a relation leads to, else after its most
mentioned member. Members and facts of a relation are exact; between which kinds they are is looked up for at most
SAMPLED facts of each relation. Everything is NumPy over the store's arrays, so it takes seconds for ten million facts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from kgwalk.kg.csr import I64, Edges
from kgwalk.kg.store import Store, StoredGraph
from kgwalk.questions.schema import LITERALS, literal_kind
from kgwalk.walk.kinds import HEADS, TAILS, class_name, is_type, kinds_of, names_class
from kgwalk.walk.name_lookup import last_words

SAMPLED = 300  # facts of a relation that are looked at
MOST_DRAWN = 400  # relations whose facts are looked at, the most used first
MOST_CLASSES = 300  # of a relation of types, the largest first
MOST_SETS = 4_000  # characteristic sets that are compared, those of most facts first
MOST_KINDS = 1_000  # told apart by their relations
INSIDE = 0.75  # the share of a set's relations that a kind has, from which on its things are of this kind
ALIKE = 0.5  # relations in common over all relations, from which on two sets are one kind
SMALL = 0.05  # of a larger kind's members: a kind so small that has relations of the larger one alone is part of it
NAMED = 0.4  # the share of a kind's members that a relation must lead to, to give the kind its name
SURELY = 0.75  # from which share on the shortest such name is taken
OWN = 0.9  # heads and tails a fact, from which on tails are values of their heads' own (codes) if nothing leaves them
ENOUGH = 10  # heads, at least, to say so
FEW = 0.02  # the share of a relation's facts below which a join is left out
FEW_GUESSED = 0.1  # the same, where no relation of types says what these things are: a film may be called as a genre is
VALUED = 0.5  # the share of values from which on a relation leads to values
EXAMPLES = 5
SOUGHT = 50  # members among which examples are sought
PREPOSITIONS = (" at", " in", " on", " to", " from", " with", " for")  # at the end of a verb: works at

VALUE, UNKNOWN = -2, -1  # in the place of a kind's number


@dataclass(frozen=True, slots=True)
class ValueRelation:
    """A relation from a kind to values; `looks` is what most of them look like."""

    relation: str
    looks: str
    facts: int


@dataclass(slots=True)
class PicturedKind:
    number: int
    name: str
    members: int
    examples: list[str]
    values: list[ValueRelation] = field(default_factory=list)
    facts: int = 0  # at either end of which one of its members stands
    has_name: bool = True  # False: it is called after a member


@dataclass(frozen=True, slots=True)
class Join:
    head: str
    relation: str
    tail: str
    facts: int


@dataclass(frozen=True, slots=True)
class RelationCounts:
    relation: str
    facts: int
    heads: int
    tails: int


@dataclass(frozen=True, slots=True)
class GraphPicture:
    """Kinds by their facts, joins and relations by theirs, most first. `looked_at` facts, if not all, are a sample."""

    kinds: list[PicturedKind]
    joins: list[Join]
    relations: list[RelationCounts]
    facts: int
    looked_at: int
    kind_E: npt.NDArray[np.int32] = field(compare=False, repr=False)  # each entity's kind, by its `number`

    def members(self, kind: str) -> I64 | None:
        """The entities of a kind, the most mentioned first; None if there is no such kind."""
        number = next((one.number for one in self.kinds if one.name == kind), None)
        return None if number is None else np.flatnonzero(self.kind_E == number)

    def kind_of(self, entity: int) -> str | None:
        """The name of an entity's kind, if it is one that is drawn and has a name of its own."""
        return next((one.name for one in self.kinds if one.number == self.kind_E[entity] and one.has_name), None)

    @property
    def sampled(self) -> bool:
        return self.looked_at < self.facts


def relation_counts(store: Store) -> list[RelationCounts]:
    """Every relation with its facts, heads and tails; exact, the most used first."""
    return _Counts(store).relations()


class _Counts:
    """The counts of every relation, read from the groups of edges."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.out, self.in_ = _Groups(store.out), _Groups(store.in_)
        number = len(store.relation)
        self.facts_R = np.bincount(self.out.relation_G, self.out.size_G, number).astype(np.int64)
        self.heads_R = np.bincount(self.out.relation_G, minlength=number)
        self.tails_R = np.bincount(self.in_.relation_G, minlength=number)

    @cached_property
    def most_used(self) -> list[int]:
        found: list[int] = np.argsort(-self.facts_R, kind="stable").tolist()
        return [number for number in found if self.facts_R[number]]

    def relations(self) -> list[RelationCounts]:
        name = self.store.relation_name
        columns = self.facts_R.tolist(), self.heads_R.tolist(), self.tails_R.tolist()
        return [RelationCounts(name(number), *(column[number] for column in columns)) for number in self.most_used]


class _Groups:
    """One direction's groups of edges: each is all edges of an entity by one relation."""

    def __init__(self, edges: Edges) -> None:
        self.relation_G = np.asarray(edges.relation_array)
        self.start_G = np.asarray(edges.start_array).astype(np.int64)
        self.size_G = np.diff(self.start_G)
        self.first_E = np.asarray(edges.groups_array).astype(np.int64)
        self.other = edges.other_array

    @cached_property
    def owner_G(self) -> npt.NDArray[np.uint32]:
        counts_E = np.diff(self.first_E)
        return np.repeat(np.arange(len(counts_E), dtype=np.uint32), counts_E)

    @cached_property
    def by_relation_G(self) -> I64:
        return np.argsort(self.relation_G, kind="stable")

    @cached_property
    def bounds_R(self) -> I64:
        counts = np.bincount(self.relation_G, minlength=int(self.relation_G.max(initial=0)) + 1)
        return np.concatenate([[0], np.cumsum(counts)])

    def of_relation(self, relation: int) -> I64:
        return self.by_relation_G[self.bounds_R[relation] : self.bounds_R[relation + 1]]

    def sets_E(self, left_out: Iterable[int]) -> npt.NDArray[np.uint64]:
        """A number for the set of relations of each entity: equal for equal sets, 0 for none of them."""
        drawn = np.random.default_rng(7).integers(1, 1 << 62, int(self.relation_G.max(initial=0)) + 1, np.uint64)
        drawn[[number for number in left_out if number < len(drawn)]] = 0
        total = np.zeros(len(self.relation_G) + 1, np.uint64)
        np.cumsum(drawn[self.relation_G], out=total[1:])  # wraps around, and the difference wraps back
        sets: npt.NDArray[np.uint64] = total[self.first_E[1:]] - total[self.first_E[:-1]]
        return sets


def draw(graph: StoredGraph) -> GraphPicture:
    """The picture of a whole store."""
    return _Drawing(graph).picture()


class _Drawing:
    def __init__(self, graph: StoredGraph) -> None:
        self.graph, self.store = graph, graph.store
        self.counts = _Counts(self.store)
        names = [(number, self.store.relation_name(number)) for number in self.store.live_relations()]
        classes = [number for number, name in names if names_class(graph, name)]
        self.types = classes or [number for number, name in names if is_type(name)]
        drawn = [number for number in self.counts.most_used if number not in self.types][:MOST_DRAWN]
        self.samples = {number: self._sample(number) for number in drawn}
        self.looks = {number: self._looks(number, tails) for number, (_, tails) in self.samples.items()}
        self.kinds: list[PicturedKind] = []
        self.classes = 0  # how many of them are values of a relation of types; they come first
        self.kind_E = np.full(len(self.store.entity), UNKNOWN, np.int32)

    def picture(self) -> GraphPicture:
        self._take_classes()
        self._take_sets(self.counts.out, self.kind_E == UNKNOWN)
        valued = {number for number, (share, _) in self.looks.items() if share >= VALUED}
        self._take_sets(self.counts.in_, self.kind_E == UNKNOWN, valued)
        self._count_members()
        self._name()
        joins = self._join()
        looked_at = sum(len(heads) for heads, _ in self.samples.values()) + int(self.counts.facts_R[self.types].sum())
        order = sorted(self.kinds, key=lambda kind: (-kind.facts, kind.name))
        facts = int(self.counts.facts_R.sum())
        kept = [one for one in order if one.facts]
        return GraphPicture(kept, joins, self.counts.relations(), facts, looked_at, self.kind_E)

    def _sample(self, relation: int) -> tuple[I64, I64]:
        """Heads and tails of facts of a relation, evenly over all of them."""
        groups = self.counts.out
        of_it = groups.of_relation(relation)
        ends = np.cumsum(groups.size_G[of_it])
        wanted = np.unique(np.linspace(0, ends[-1] - 1, min(int(ends[-1]), SAMPLED)).astype(np.int64))
        at = np.searchsorted(ends, wanted, "right")
        chosen = of_it[at]
        positions = groups.start_G[chosen] + wanted - (ends[at] - groups.size_G[chosen])
        return groups.owner_G[chosen].astype(np.int64), groups.other[positions].astype(np.int64)

    def _looks(self, relation: int, tails: I64) -> tuple[float, str]:
        """The share of values among the tails, and what most of them look like."""
        counts = Counter(map(literal_kind, self.store.entity.several(tails.tolist())))
        share = sum(counts[kind] for kind in LITERALS) / max(1, len(tails))
        heads, facts = int(self.counts.heads_R[relation]), int(self.counts.facts_R[relation])
        if heads >= ENOUGH and min(heads, int(self.counts.tails_R[relation])) >= OWN * facts:
            first = self.counts.out.first_E
            share = max(share, float(np.mean(first[tails] == first[tails + 1])))
        return share, counts.most_common(1)[0][0] if counts else ""

    # What kind each thing is

    def _take_classes(self) -> None:
        """By the relations of types; of several classes the smallest, which says most."""
        groups = self.counts.in_
        found = [group for relation in self.types for group in groups.of_relation(relation).tolist()]
        found.sort(key=lambda group: -int(groups.size_G[group]))
        self.classes = len(found[:MOST_CLASSES])
        for group in found[:MOST_CLASSES]:
            members = groups.other[groups.start_G[group] : groups.start_G[group + 1]]
            self.kind_E[members] = len(self.kinds)
            self.kinds.append(
                PicturedKind(len(self.kinds), class_name(self.store.entity[int(groups.owner_G[group])]), 0, [])
            )

    def _take_sets(self, groups: _Groups, wanted_E: npt.NDArray[np.bool_], valued: Iterable[int] = ()) -> None:
        """The things that are wanted, by their relations in one direction. What has only `valued` ones is a value."""
        set_E = groups.sets_E(self.types)
        entities = np.flatnonzero(wanted_E & (set_E != 0))
        if not len(entities):
            return
        _, first, inverse, counts = np.unique(
            set_E[entities], return_index=True, return_inverse=True, return_counts=True
        )
        # Those of most facts first: how often a set occurs, times its relations.
        order = np.argsort(-counts * np.diff(groups.first_E)[entities[first]], kind="stable")[:MOST_SETS].tolist()
        kind_of_set = np.full(len(first), UNKNOWN, np.int32)
        alike = _AlikeSets()
        base = len(self.kinds)
        for at in order:
            relations = self._relations_at(groups, int(entities[first[at]]))
            if relations <= set(valued):
                kind_of_set[at] = VALUE
            elif (place := alike.add(relations, int(counts[at]))) is not None:
                kind_of_set[at] = base + place
        self.kinds += [PicturedKind(base + place, "", 0, []) for place in range(len(alike.core))]
        part_of = np.arange(len(self.kinds), dtype=np.int32)
        part_of[base:] = base + np.array(alike.parts(), np.int32)
        kind_of_set = np.where(kind_of_set >= 0, part_of[kind_of_set], kind_of_set)
        self.kind_E[entities] = kind_of_set[inverse.reshape(-1)]

    def _relations_at(self, groups: _Groups, entity: int) -> frozenset[int]:
        low, high = groups.first_E[entity], groups.first_E[entity + 1]
        return frozenset(groups.relation_G[low:high].tolist()) - frozenset(self.types)

    def _count_members(self) -> None:
        """How many each kind has, and the first of them, which are the most mentioned."""
        order = np.argsort(self.kind_E, kind="stable")
        bounds = np.searchsorted(self.kind_E[order], np.arange(len(self.kinds) + 1))
        for number, kind in enumerate(self.kinds):
            low, high = int(bounds[number]), int(bounds[number + 1])
            kind.members = high - low
            first = order[low : min(high, low + SOUGHT)]
            # a film called 2012 is mentioned most, as a year: those of which most is said are better examples
            said = self.counts.out.first_E[first + 1] - self.counts.out.first_E[first]
            first = first[np.argsort(-said, kind="stable")]
            kind.examples = self.store.entity.several(first[:EXAMPLES].tolist())

    def _name(self) -> None:
        """Names for kinds that have none, each once."""
        called = {(kind.how, kind.relation): kind.name for kind in reversed(kinds_of(self.graph).values())}
        names: dict[int, list[tuple[float, str]]] = {}
        for relation, (heads, tails) in self.samples.items():
            whole = self.store.relation_name(relation)
            for how, ends, distinct in (
                (HEADS, heads, self.counts.heads_R[relation]),
                (TAILS, tails, self.counts.tails_R[relation]),
            ):
                name = _noun(called.get((how, whole)) or (last_words(whole) if how == TAILS else ""), whole)
                for number, share in _shares(self.kind_E[ends]) if name else ():
                    covered = share * float(distinct) / max(1, self.kinds[number].members)
                    if number >= 0 and covered >= NAMED:
                        names.setdefault(number, []).append((covered, name))
        taken: set[str] = set()
        for number, kind in enumerate(self.kinds):
            if not kind.name:
                kind.name = _best_name(names.get(number, ()))
                kind.has_name = kind.name != ""
                kind.name = kind.name or f"like {(kind.examples or ['nothing'])[0]}"
            if kind.name in taken and kind.examples:
                kind.name = f"{kind.name}, like {kind.examples[0]}"
            taken.add(kind.name)

    # What joins them

    def _join(self) -> list[Join]:
        found: list[Join] = []
        for relation, (heads, tails) in self.samples.items():
            name, facts = self.store.relation_name(relation), int(self.counts.facts_R[relation])
            share_of_values, looks = self.looks[relation]
            kind_of_tail = self.kind_E[tails]
            if share_of_values >= VALUED:  # also where something is called 1984, unless its class is known
                known = (kind_of_tail >= 0) & (kind_of_tail < self.classes)
                kind_of_tail = np.where(known, kind_of_tail, VALUE)
            others = heads != tails  # a row of a table has its own name as a fact
            pairs = Counter(zip(self.kind_E[heads[others]].tolist(), kind_of_tail[others].tolist(), strict=True))
            for (head, tail), times in pairs.most_common():
                number = round(facts * times / len(heads))
                guessed = tail >= 0 and not max(head, tail) < self.classes
                if head < 0 or times < (FEW_GUESSED if guessed else FEW) * len(heads):
                    continue
                self.kinds[head].facts += number
                if tail == VALUE:
                    self.kinds[head].values.append(ValueRelation(name, looks, number))
                elif tail >= 0:
                    self.kinds[tail].facts += number
                    found.append(Join(self.kinds[head].name, name, self.kinds[tail].name, number))
        for kind in self.kinds:
            kind.values.sort(key=lambda value: -value.facts)
        return sorted(found, key=lambda join: -join.facts)


class _AlikeSets:
    """Sets of relations, of which those that are nearly the same are one kind. They are added with the largest first.

    >>> alike = _AlikeSets()
    >>> [alike.add(frozenset(one), 10) for one in ([1, 2, 3, 4], [1, 2], [1, 2, 3, 5, 6], [1, 7, 8], [5, 6])]
    [0, 0, 0, 1, 0]
    >>> [sorted(one) for one in alike.core]
    [[1, 2, 3, 4, 5, 6], [1, 7, 8]]
    """

    def __init__(self) -> None:
        self.core: list[set[int]] = []  # by kind, the relations that a further set is compared with
        self._every: list[set[int]] = []  # and all that things of this kind have
        self._sizes: list[int] = []
        self._with: dict[int, dict[int, None]] = {}  # by relation: the kinds that have it in their core

    def add(self, relations: frozenset[int], count: int) -> int | None:
        """The number of the kind that so many things with these relations are of; None where there are too many kinds.

        A set that a kind has most relations of is of this kind. One that has most relations in common with it too, and
        the kind is then compared by the relations of both.
        """
        near = sorted({kind for relation in relations for kind in self._with.get(relation, ())})
        for kind in near:
            both = len(self.core[kind] & relations)
            if both >= INSIDE * len(relations):
                break
            if both >= ALIKE * len(self.core[kind] | relations):
                self._have(kind, relations)
                break
        else:
            if len(self.core) >= MOST_KINDS:
                return None
            kind = len(self.core)
            self.core.append(set())
            self._every.append(set())
            self._sizes.append(0)
            self._have(kind, relations)
        self._every[kind] |= relations
        self._sizes[kind] += count
        return kind

    def _have(self, kind: int, relations: frozenset[int]) -> None:
        self.core[kind] |= relations
        for relation in relations:
            self._with.setdefault(relation, {})[kind] = None

    def parts(self) -> list[int]:
        """For each kind the one that it is a part of: itself, or a far larger one that has all its relations too."""
        holding: dict[int, list[int]] = {}
        for kind, relations in enumerate(self._every):
            for relation in relations:
                holding.setdefault(relation, []).append(kind)
        return [next(self._larger(kind, holding), kind) for kind in range(len(self.core))]

    def _larger(self, kind: int, holding: dict[int, list[int]]) -> Iterator[int]:
        mine = self.core[kind]
        for other in sorted({other for relation in mine for other in holding[relation]}):
            inside = len(mine & self._every[other]) >= INSIDE * len(mine)
            if inside and self._sizes[kind] <= SMALL * self._sizes[other]:
                yield other


def _noun(name: str, relation: str) -> str:
    """The name of a kind, or nothing where the relation is a verb with its preposition and so names neither end.

    >>> _noun("county", "county_of"), _noun("works", "works at"), _noun("located in", "located_in")
    ('county', '', '')
    """
    return "" if last_words(relation).endswith(PREPOSITIONS) else name


def _best_name(names: Iterable[tuple[float, str]]) -> str:
    """Of the names with the share of members that each covers, the shortest that surely fits, else what fits best.

    >>> _best_name([(1.0, "spans timezone"), (0.82, "timezone"), (0.5, "zone")])
    'timezone'
    """
    sure = [(-len(name.split()), covered, name) for covered, name in names if covered >= SURELY]
    return max(sure)[2] if sure else max(names, default=(0.0, ""))[1]


def _shares(kinds: npt.NDArray[np.int32]) -> Iterator[tuple[int, float]]:
    numbers, counts = np.unique(kinds, return_counts=True)
    yield from zip(numbers.tolist(), (counts / max(1, len(kinds))).tolist(), strict=True)
