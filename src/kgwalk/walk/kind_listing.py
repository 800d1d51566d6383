"""The kinds of a graph as a prompt lists them: what a walk can start from where the question names no kind.

    suppliers (country, delivery_days), customers (client_since, country), products (price, shelf_life)

"Who have we been buying from the longest" means suppliers, "what spoils first" products. No rule about words finds that
in every question (of 9,294 questions in `benchmarks/lessons`, rules and word vectors find all starts of 0.82), and a
model that reads the kinds with the relations of each can tell: it asks for `all("suppliers")`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from kgwalk.kg.graph import Graph
from kgwalk.kg.store import Store, StoredGraph
from kgwalk.types import UnknownName
from kgwalk.walk.kinds import EVERYTHING, OF_TYPE, Kind, ends_of, kinds_of, names_class
from kgwalk.walk.look_ahead import relations_at, spread
from kgwalk.walk.name_lookup import NAMES, last_words
from kgwalk.walk.tagged_text import escape_name

RELATIONS = 48  # relations of all kinds together: a graph with many kinds shows fewer of each
EACH, LEAST = 8, 3  # relations of a kind, at most; and how many are worth showing
LOOKED_AT = 8  # things of a kind that are asked for theirs
FIRST = 64  # things that these are chosen from
CLASSED = 0.3  # the share of things that have a class, at least


@dataclass(frozen=True, slots=True)
class ListedKind:
    """A kind, and relations that its things have: those first that few other kinds have."""

    kind: Kind
    relations: tuple[str, ...] = ()

    def __str__(self) -> str:
        relations = ", ".join(map(escape_name, self.relations))
        return escape_name(self.kind.name) + (f" ({relations})" if relations else "")


def listed_kinds(graph: Graph, most: int, called: Callable[[str], str] = str) -> Sequence[ListedKind]:
    """At most so many kinds: the classes of a graph, those with most things first. A graph that has none lists all its
    things and what its relations lead to, if these are few enough. `called` is how a walk calls a relation.

    Of a graph elsewhere there are the classes that it tells, without their relations: more would read all of it.
    """
    if not most:
        return ()
    if not isinstance(graph, StoredGraph):
        known = list(dict.fromkeys(kinds_of(graph).values()))
        classes = [ListedKind(kind) for kind in known if kind.how == OF_TYPE]
        return classes[:most] or _without_classes(known, most) if known else ()
    whole = type(graph) is StoredGraph
    kept = _LISTED.setdefault(graph.store if whole else graph, {})
    key = most, called is str
    if key not in kept:
        kept[key] = _list(graph, most, called)
    return kept[key]


_LISTED: WeakKeyDictionary[Store | StoredGraph, dict[tuple[int, bool], Sequence[ListedKind]]] = WeakKeyDictionary()


def _list(graph: StoredGraph, most: int, called: Callable[[str], str]) -> Sequence[ListedKind]:
    known = list(dict.fromkeys(kinds_of(graph).values()))
    typed = [kind for kind in known if kind.how == OF_TYPE]
    classes = [kind for kind in typed if names_class(graph, kind.relation)] or typed
    if classes and not _classed(classes, graph):
        return []
    if not classes:
        return _without_classes(known, most)
    classes = classes[:most]
    each = min(EACH, RELATIONS // len(classes))
    if each < LEAST:
        return [ListedKind(kind) for kind in classes]
    having = [_relations(kind, graph) for kind in classes]
    shared = Counter(relation for found in having for relation in found)
    listed = []
    for kind, found in zip(classes, having, strict=True):
        ranked = sorted(found, key=lambda relation: (shared[relation], -found[relation], relation))
        listed.append(ListedKind(kind, tuple(called(relation) for relation in ranked[:each])))
    return listed


def _without_classes(known: Sequence[Kind], most: int) -> list[ListedKind]:
    return [ListedKind(kind) for kind in (EVERYTHING, *known)] if len(known) < most else []


def _classed(classes: Sequence[Kind], graph: StoredGraph) -> bool:
    """Whether a good part of what the graph says something of has a class: elsewhere a few stray ones say little."""
    numbers = {graph.store.relation_number(kind.relation) for kind in classes}
    if type(graph) is StoredGraph:
        all_heads = int(np.count_nonzero(np.diff(graph.store.out.groups_array)))
        return CLASSED * all_heads <= sum(len(ends_of(graph.store, one, True)) for one in numbers if one is not None)
    heads_E, relations_E, _ = graph.facts_by_number()
    of_class = np.unique(heads_E[np.isin(relations_E, [one for one in numbers if one is not None])])
    return CLASSED * len(np.unique(heads_E)) <= len(of_class)


def _relations(kind: Kind, graph: StoredGraph) -> Counter[str]:
    """How many of some things of a class have each relation, without those that only name or class them."""
    try:
        first: Iterable[str] = graph.neighbors(kind.value, kind.relation, out=False, limit=FIRST).names
    except UnknownName:
        first = ()
    found = Counter(one for name in spread(list(first), LOOKED_AT) for one in relations_at(graph, name, True))
    naming = [one for one in found if last_words(one) in NAMES or names_class(graph, one)]
    return found - Counter({one: found[one] for one in naming})
