"""Which step of a path can come next: after `^item`, which leads to deliveries, only what deliveries have facts of.

    hops = next_hops(graph, str)             of a graph of moderate size, else None
    hops.starts(graph, ["Roof Membrane"])    what can be the first step from there
    hops.table.after[hop]                    what can follow a step

A small model writes paths whose steps do not fit together: `^item/^eingang`, where nothing that `^item` leads to is at
the end of `eingang`. Such a path leads nowhere in the whole graph, so the grammar of a turn leaves it out, and what the
model finds likeliest next is taken. A path that leads nowhere from *this* set stays: that a customer has no order is an
answer. So the first step is any that a thing of the same class has, or, of what has no class, any of a thing that
shares a step with it.

A hop is a number: 2r forwards over relation r, 2r + 1 backwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from kgwalk.kg.csr import I64
from kgwalk.kg.graph import Graph
from kgwalk.kg.store import Store, StoredGraph
from kgwalk.kg.views import FilteredView
from kgwalk.llm.grammar import LONGEST
from kgwalk.walk.kinds import is_type, names_class
from kgwalk.walk.look_ahead import spread
from kgwalk.walk.paths import is_simple
from kgwalk.walk.shortest_path_texts import ShortestPathTexts
from kgwalk.walk.values import value_of

MOST_FACTS = 2_000_000  # of graphs that are looked through; a step of others may be any
MOST_HOPS = 8_000
MOST_TOGETHER = 30_000_000  # two hops of one entity, all entities together: bounds the time to some seconds
LOOKED_AT = 24  # things that a hop leads to, to see whether they are numbers or dates
MOST_STARTS = 250  # hops from one set: a grammar of thousands takes seconds to make, and rules out little
MEMBERS = 200  # of a set whose hops are looked at
NEVER = 1 << 20  # steps
MOST_HELD = 5  # hops that leave a node which only holds a value

Hops = tuple[int, ...]  # ascending
ANY: Hops = (-1,)  # any of the graph


@dataclass(frozen=True)
class HopTable:
    """What the grammar of a turn needs to know of a graph. `names` are its relations as a walk shows them.

    `measured` hops lead to numbers or dates; after others it takes so many steps more (`to_measured`).
    """

    names: tuple[str, ...]
    simple: tuple[bool, ...]  # of relations: whether a path can have it beside others
    after: tuple[Hops, ...]
    measured: tuple[bool, ...]
    to_measured: tuple[int, ...]
    dated: tuple[bool, ...]  # of relations: whether a fact has a date

    def fewest_bytes(self, here: Hops, measured: bool) -> int:
        """The fewest bytes of a path that begins with one of these hops; of one that ends at a number or date."""
        key = here, measured
        if key not in self._known:
            bytes_of = self.to_measured_bytes if measured else self.step_bytes
            self._known[key] = min((bytes_of[hop] for hop in here if self.simple[hop // 2]), default=NEVER)
        return self._known[key]

    def odd_among(self, here: Hops) -> Hops:
        """Those of some hops that a path cannot have beside others."""
        return tuple(hop for hop in here if hop in self._odd) if self._odd else ()

    @cached_property
    def _odd(self) -> frozenset[int]:
        return frozenset(hop for hop in range(2 * len(self.names)) if not self.simple[hop // 2])

    @cached_property
    def texts(self) -> ShortestPathTexts:
        """The shortest texts of paths."""
        return ShortestPathTexts(self)

    @cached_property
    def _known(self) -> dict[tuple[Hops, bool], int]:
        return {}

    @cached_property
    def step_bytes(self) -> list[int]:
        """Of each hop, as a path writes it."""
        return [len(name.encode("utf-8", "surrogatepass")) + back for name in self.names for back in (0, 1)]

    @cached_property
    def to_measured_bytes(self) -> list[int]:
        """Of the shortest path from each hop to a number or date, itself included; the slash before each other step."""
        found = [count if end else NEVER for count, end in zip(self.step_bytes, self.measured, strict=True)]
        while True:
            least = [
                own
                if end
                else min(own + 1 + min((found[one] for one in after if self.simple[one // 2]), default=NEVER), NEVER)
                for own, end, after in zip(self.step_bytes, self.measured, self.after, strict=True)
            ]
            if least == found:
                return found
            found = least

    def __hash__(self) -> int:
        return self._hash

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.names, self.after)))

    def __reduce__(self) -> tuple[Any, ...]:
        """Without its hash: another process has other hashes of texts, and would not find what it knows already."""
        return HopTable, (self.names, self.simple, self.after, self.measured, self.to_measured, self.dated)

    _hash = 0


class NextHops:
    """The hops of a graph, and its entities by them."""

    def __init__(
        self, graph: StoredGraph, shown: Callable[[str], str], facts: NumberedFacts, pairs: tuple[I64, I64]
    ) -> None:
        """`pairs` has each entity with each of its hops, by entity. The graph is not kept: it would never be freed."""
        self._entity_P, self._hop_P = pairs
        self._classes = {
            number: self._of_classes(*(ends[facts.relation_E == number] for ends in (facts.head_E, facts.tail_E)))
            for number, name in enumerate(facts.relations)
            if names_class(graph, name)
        }
        self.table = self._table(graph, tuple(map(shown, facts.relations)), facts)
        self._together = [self.table.after[hop ^ 1] for hop in range(2 * len(facts.relations))]

    def starts(self, graph: StoredGraph, members: Sequence[str]) -> Hops:
        """The hops that can be first from a set; ANY where there are very many, as around a country in Freebase, or
        where not all members are looked at and no class says what the others have.
        """
        found: set[int] = set()
        for name in spread(members, MEMBERS):
            number = graph.store.entity_number(name)
            if number is None:
                continue
            low, high = np.searchsorted(self._entity_P, [number, number + 1])
            own = self._hop_P[low:high].tolist()
            classes = [of_class for hop in own if hop % 2 == 0 for of_class in self._class_hops(hop // 2, number)]
            if not classes and len(members) > MEMBERS:
                return ANY
            found.update(own, *(classes or (self._together[hop] for hop in own if hop // 2 not in self._classes)))
        return tuple(sorted(found)) if len(found) <= MOST_STARTS else ANY

    def _class_hops(self, relation: int, entity: int) -> list[Hops]:
        if relation not in self._classes:
            return []
        of_entity, hops_of = self._classes[relation]
        return [hops_of[one] for one in of_entity.get(entity, ())]

    def _of_classes(self, heads: I64, classes: I64) -> tuple[dict[int, list[int]], dict[int, Hops]]:
        """The classes of each entity, and the hops that a thing of each class has."""
        of_entity: dict[int, list[int]] = {}
        for head, one in zip(heads.tolist(), classes.tolist(), strict=True):
            of_entity.setdefault(head, []).append(one)
        order = np.argsort(classes, kind="stable")
        each, bounds = np.unique(classes[order], return_index=True)
        things = np.split(heads[order], bounds[1:])
        return of_entity, {one: self._hops_of(np.unique(some)) for one, some in zip(each.tolist(), things, strict=True)}

    def _hops_of(self, entities: I64) -> Hops:
        """All hops of some entities."""
        low = np.searchsorted(self._entity_P, entities)
        high = np.searchsorted(self._entity_P, entities + 1)
        places = np.repeat(high - np.cumsum(high - low), high - low) + np.arange(int((high - low).sum()))
        return tuple(np.unique(self._hop_P[places]).tolist())

    def _table(self, graph: StoredGraph, names: tuple[str, ...], facts: NumberedFacts) -> HopTable:
        hops = range(2 * len(names))
        order = np.argsort(self._hop_P, kind="stable")
        having = np.split(self._entity_P[order], np.searchsorted(self._hop_P[order], hops[1:]))
        after = tuple(self._hops_of(having[hop ^ 1]) for hop in hops)
        ends = list(facts.ends(graph))
        numbers = [number for number, _ in ends]
        typed = [is_type(name) for name in facts.relations]
        measured = tuple(
            number or (alone and _holds(typed, hop, after[hop], numbers)) for hop, (number, alone) in enumerate(ends)
        )
        away = [0 if yes else NEVER for yes in measured]
        while (nearer := [min(away[hop], 1 + min(away[one] for one in after[hop])) for hop in hops]) != away:
            away = nearer
        return HopTable(names, tuple(map(_in_paths, names)), after, measured, tuple(away), facts.dated(graph))


class NumberedFacts(NamedTuple):
    """All facts of a graph: heads and tails by their numbers, relations by their places in `relations`."""

    head_E: I64
    relation_E: I64
    tail_E: I64
    relations: list[str]

    @classmethod
    def of(cls, graph: StoredGraph) -> NumberedFacts:
        heads, numbers, tails = graph.facts_by_number()
        live, relations = np.unique(numbers, return_inverse=True)
        return cls(heads, relations, tails, graph.store.relation.several(live.tolist()))

    def pairs(self) -> tuple[I64, I64]:
        """Each entity with each of its hops, once, by entity."""
        hops = max(1, 2 * len(self.relations))
        forwards, backwards = self.head_E * hops + 2 * self.relation_E, self.tail_E * hops + 2 * self.relation_E + 1
        entities, numbers = np.divmod(np.unique(np.concatenate([forwards, backwards])), hops)
        return entities, numbers

    def ends(self, graph: StoredGraph) -> Iterator[tuple[bool, bool]]:
        """Of each hop whether it leads to a number or date, and whether only one fact leads to each thing."""
        order = np.argsort(self.relation_E, kind="stable")
        bounds = np.searchsorted(self.relation_E[order], range(1, len(self.relations)))
        for facts in np.split(order, bounds) if self.relations else []:
            for ends in (self.tail_E[facts], self.head_E[facts]):
                own = np.unique(ends)
                some = own if len(own) <= LOOKED_AT else own[np.arange(LOOKED_AT) * len(own) // LOOKED_AT]
                names = graph.store.entity.several(some.tolist())
                yield any(value_of(name) is not None for name in names), len(own) == len(ends)

    def dated(self, graph: StoredGraph) -> tuple[bool, ...]:
        """Of each relation whether a fact of it has a date."""
        store = graph.store
        if not store.timed:
            return (False,) * len(self.relations)
        facts = np.flatnonzero(np.asarray(store.date_of_array))
        dated = set(store.relation.several(np.unique(store.out.owners(facts)[1]).tolist()))
        return tuple(name in dated for name in self.relations)


def _holds(typed: Sequence[bool], hop: int, after: Hops, numbers: Sequence[bool]) -> bool:
    """Whether what a hop leads to may be a node that only holds a value: an amount with its currency. `typed` says of
    each relation whether its values are kinds.
    """
    if hop % 2 or [one for one in after if one % 2] != [hop ^ 1]:
        return False
    leaving = [one for one in after if one % 2 == 0 and not typed[one // 2]]
    return len(leaving) <= MOST_HELD and any(numbers[one] for one in leaving)


def _in_paths(name: str) -> bool:
    return is_simple(name) and len(name.encode("utf-8", "surrogatepass")) <= LONGEST


_KNOWN: WeakKeyDictionary[Store | StoredGraph, dict[Any, NextHops | None]] = WeakKeyDictionary()


def next_hops(graph: Graph, shown: Callable[[str], str], key: object = None) -> NextHops | None:
    """Of a graph that can be looked through here; worked out once for each way (`key`) to show its relations.

    A view that hides a few facts, or those of other times, has the hops of its store.
    """
    if not isinstance(graph, StoredGraph):
        return None
    own = isinstance(graph, FilteredView) and graph.is_subgraph
    known = _KNOWN.setdefault(graph if own else graph.store, {})
    if key not in known:
        known[key] = _looked_through(graph if own else StoredGraph(graph.store), shown)
    return known[key]


def _looked_through(graph: StoredGraph, shown: Callable[[str], str]) -> NextHops | None:
    """None of a graph that is too large for it."""
    if type(graph) is StoredGraph and len(graph.store.out.other) > MOST_FACTS:
        return None
    if 2 * len(graph.live_relations()) > MOST_HOPS:
        return None
    facts = NumberedFacts.of(graph)
    if len(facts.head_E) > MOST_FACTS:
        return None
    pairs = facts.pairs()
    together = np.unique(pairs[0], return_counts=True)[1].astype(np.float64) ** 2
    return NextHops(graph, shown, facts, pairs) if together.sum() <= MOST_TOGETHER else None
