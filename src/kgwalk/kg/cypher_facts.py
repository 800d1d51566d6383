"""The facts of a property graph, asked for sets of names at once: the queries under `CypherGraph`.

    facts.fetch_neighbors(["Tom Hanks", "Meg Ryan"], "ACTED_IN", out=True)

`Facts` is a part of such a query. What is fetched is kept for the calls that follow: the relations around each name,
and its neighbours, all of them or of a hub the first.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kgwalk.kg.cypher_nodes import BATCH, LONGEST_ASKED, Card, Node, NodeNames
from kgwalk.kg.cypher_schema import CypherEngine, CypherSchema, Dates, quoted, readings, sendable, texts
from kgwalk.kg.graph import ClosedAtEnd, LruCache, batches, find_among
from kgwalk.kg.names import name_hash
from kgwalk.types import Neighbors, UnknownRelation

FEW = (
    1000  # neighbours that are all read where fewer are asked for, and that are ordered by their facts; hubs have more
)
MOST_DATES = 3  # properties of a relationship that say when

Way = tuple[str, bool]  # a relation, and whether it leaves


@dataclass(frozen=True)
class Facts:
    """Facts of some names as a part of a query: `n` is the end that was given, `m` the other."""

    match: str  # `$given` is its parameter
    start: str  # what says which of the names it is
    named: Mapping[Any, Sequence[str]]  # several where a node was asked for by several names
    given: Sequence[Any] = ()
    value: str = ""  # the other end, where it is a value and not a node
    node: str = "m"
    label: str | None = None  # that the pattern gives to the node
    way: Way = ("", True)
    most: int | None = None  # facts that are read
    dates: Dates = field(default_factory=Dates)
    name_of: Callable[[Any], Any] = lambda start: start

    def of(self, starts: Collection[Any], most: int | None = None) -> Facts:
        """Those of some of the names alone, by what `start` gives for them."""
        given = [one for one in self.given if self.name_of(one) in starts]
        return replace(self, given=given, named={start: self.named[start] for start in starts}, most=most)

    def query(self, at: int, card: list[str]) -> str:
        ends = [self.value, *["null"] * (len(card) - 1)] if self.value else card
        dates = [f"r.{quoted(name)}" for name in self.dates.names()]
        columns = [str(at), self.start, *ends, *dates, *["null"] * (MOST_DATES - len(dates))]
        limit = "" if self.most is None else f" LIMIT {self.most}"
        said = f"RETURN {', '.join(f'{one} AS c{n}' for n, one in enumerate(columns))}{limit}"
        return f"{self._matched(at)} {said}"

    def counted(self, at: int) -> str:
        what = self.value or self.node  # each once, as in the answer
        return f"{self._matched(at)} RETURN {at} AS at, {self.start} AS start, count(DISTINCT {what}) AS n"

    def _matched(self, at: int) -> str:
        return self.match.replace("$given", f"$given{at}")


def _parameters(parts: Sequence[Facts]) -> dict[str, Any]:
    return {f"given{at}": part.given for at, part in enumerate(parts) if "$given" in part.match}


class CypherFacts(ClosedAtEnd):
    """The engine with the names that were shown and the facts that were fetched; `CypherGraph` says what the settings
    are.
    """

    def __init__(
        self, engine: CypherEngine, *, names: Sequence[str] = (), values: bool = True, cache: int = 500_000
    ) -> None:
        self._engine, self._scans = engine, values
        self.schema = CypherSchema(engine, names)
        self._nodes = NodeNames(engine, self.schema, cache=cache)
        self._types = set(self.schema.types)
        self._properties = self.schema.properties()
        self._kinds = set(self.schema.kinds)
        self._relations: LruCache[tuple[str, bool], list[str]] = LruCache(cache)
        self._neighbors: LruCache[tuple[str, str, bool], Neighbors] = LruCache(cache)
        self._some: LruCache[tuple[str, str, bool], Neighbors] = LruCache(
            cache
        )  # of hubs, the first of their neighbours
        self._degrees: LruCache[Any, int] = LruCache(cache)  # by a node's id, how many facts it has
        self._uses: LruCache[str, frozenset[str]] = LruCache(cache)  # by a value, the properties that have it
        self._met: LruCache[str, frozenset[str]] = LruCache(cache)  # the same, of those that were shown

    def close(self) -> None:
        self._engine.close()

    @property
    def timed(self) -> bool:
        """Whether facts have dates: some relationship has a property that says when."""
        return self.schema.timed

    def has_relation(self, relation: str) -> bool:
        is_a = relation == self.schema.is_a and bool(self._kinds)
        return is_a or relation in self._types or relation in self._properties

    # Many at once

    def fetch_names(self, names: Iterable[str]) -> None:
        """Look up whether these are entities."""
        self._known(names)

    def fetch_relations(self, names: Iterable[str], *, out: bool) -> None:
        """Make `relations` of these names ready."""
        missing = [name for name in dict.fromkeys(names) if self._relations.get((name, out)) is None]
        for some in batches(missing, BATCH):
            nodes = self._nodes.nodes(some)
            found: dict[str, set[str]] = {name: set() for name in some if name in nodes or name in self._kinds}
            if nodes:
                for name, relations in self._around_nodes(nodes, out):
                    found[name] |= relations
            if not out:
                for name, uses in self._value_uses(some).items():
                    found.setdefault(name, set()).update(uses)
                for name in self._kinds.intersection(some):
                    found[name].add(self.schema.is_a)
            else:
                values = [name for name in some if name not in found]
                found |= {name: set() for name in self._value_uses(values)}
            for name, relations in found.items():
                self._relations.put((name, out), sorted(relations), weight=len(relations))

    def fetch_neighbors(self, names: Iterable[str], relation: str, *, out: bool) -> None:
        """Make `neighbors` of these names along a relation ready; UnknownRelation if it is none."""
        self._check(relation)
        missing = [name for name in dict.fromkeys(names) if self._neighbors.get((name, relation, out)) is None]
        for some in batches(missing, BATCH):
            found = self._ask(some, relation, out)
            for name, listed in zip(found, self._listed(list(found.values())), strict=True):
                self._neighbors.put((name, relation, out), listed, weight=len(listed.names))

    def fetch_some(self, names: Iterable[str], ways: Iterable[Way], limit: int) -> None:
        """Make `neighbors` with this limit, of these names along each of these relations, ready: one query counts, one
        reads all neighbours of those that have few, and of each hub the first.
        """
        known = self._known(dict.fromkeys(names))
        nodes = {name: node for name, node in known.items() if node is not None}
        keys: list[tuple[str, str, bool]] = []
        asked: list[Facts] = []
        for relation, out in dict.fromkeys(ways):
            missing = [
                name for name in known if self.has_relation(relation) and not self._has(name, relation, out, limit)
            ]
            keys += [(name, relation, out) for name in missing]
            asked += self._facts_of(missing, {name: nodes[name] for name in missing if name in nodes}, relation, out)
        totals, parts = dict[tuple[str, str, bool], int](), list[Facts]()
        for part, counts in self._counted(asked):
            few = [start for start, count in counts.items() if count <= max(FEW, limit)]
            parts += [part.of(few)] if few else []
            for start in counts.keys() - few:
                parts.append(part.of([start], limit))
                for name in part.named[start]:
                    key = (name, *part.way)
                    totals[key] = totals.get(key, 0) + counts[start]
        found = {key: self._labels(nodes.get(key[0]), *key[1:]) for key in keys}
        for part, name, others, time in self._told(parts):
            for other in others:
                found[name, *part.way].setdefault(other, []).extend([time] if time else [])
        for key, listed in zip(found, self._listed(list(found.values())), strict=True):
            if key in totals:
                self._some.put(key, Neighbors(listed.names, totals[key], listed.times), weight=len(listed.names))
            else:
                self._neighbors.put(key, listed, weight=len(listed.names))

    def _has(self, name: str, relation: str, out: bool, limit: int) -> bool:
        """Whether so many neighbours of a name were fetched, or all."""
        key = (name, relation, out)
        some = self._some.get(key)
        return (some is not None and limit <= len(some.names)) or self._neighbors.get(key) is not None

    def _counted(self, parts: Sequence[Facts]) -> list[tuple[Facts, dict[Any, int]]]:
        """Of each part how many neighbours each of its names has, by what `start` gives for it."""
        counts: list[dict[Any, int]] = [{} for _ in parts]
        queries = [part.counted(at) for at, part in enumerate(parts)]
        for at, start, count in self._engine.union(queries, **_parameters(parts)):
            if count and (name := parts[at].name_of(start)) in parts[at].named:
                counts[at][name] = counts[at].get(name, 0) + count
        return list(zip(parts, counts, strict=True))

    # Whether a name is there

    def _check(self, relation: str) -> None:
        if not self.has_relation(relation):
            raise UnknownRelation(relation, [one.name for one in find_among(relation, self.schema.relations(), 3)])

    def _known(self, names: Iterable[str]) -> dict[str, Node | None]:
        """Those of the names that are entities: nodes, labels, values."""
        names = list(names)
        nodes = self._nodes.nodes(names)
        others = [name for name in names if name not in nodes and name not in self._kinds]
        return {
            **nodes,
            **dict.fromkeys(name for name in names if name in self._kinds and name not in nodes),
            **dict.fromkeys(self._value_uses(others)),
        }

    def _value_uses(self, names: Sequence[str]) -> dict[str, frozenset[str]]:
        """Those of the names that are values, each with the properties that have it."""
        met = {name: uses for name in names if (uses := self._met.get(name))}
        if not self._scans:
            return met
        asked = [name for name in dict.fromkeys(names) if len(name) <= LONGEST_ASKED and sendable(name)]
        found = {name: self._uses.get(name) for name in asked}
        unknown = [name for name, uses in found.items() if uses is None]
        new: dict[str, set[str]] = {name: set() for name in unknown}
        for some in batches(unknown, BATCH):
            properties = list(self._properties)
            parts, given = list[str](), dict[str, list[Any]]()
            for at, name in enumerate(properties):
                for pattern, value, _, _ in self._valued(name, some, given):
                    parts.append(
                        f"{pattern} RETURN DISTINCT {at} AS at, {value} AS v, {self._engine.labels_of('n')} AS labels"
                    )
            for at, value, labels in self._engine.union(parts, **given):
                for text in texts(value):
                    if text in new and self.schema.tells(labels, properties[at]):
                        new[text].add(properties[at])
        for name, having in new.items():
            found[name] = frozenset(having)
            self._uses.put(name, frozenset(having), weight=len(having))
        return {name: (found.get(name) or frozenset()) | met.get(name, frozenset())
                for name in dict.fromkeys(names) if found.get(name) or name in met}  # fmt: skip

    def _valued(
        self, name: str, wanted: Sequence[str], given: dict[str, list[Any]]
    ) -> Iterator[tuple[str, str, str, str]]:
        """Patterns of the nodes `n` that have one of these texts in a property, with its value there, the label, and
        the parameter, which is added to those that are given.
        """
        for label in self._properties.get(name, ()):
            seen = self.schema.labels[label][name]
            said = "v_" + "_".join(sorted(seen.sorts))
            if said not in given:
                given[said] = [value for text in wanted for value in readings(text, seen.sorts)]
            if not given[said]:
                continue
            at = f"n.{quoted(name)}"
            if seen.many:
                yield f"MATCH (n:{quoted(label)}) UNWIND {at} AS v WITH n, v WHERE v IN ${said}", "v", label, said
            else:
                yield f"MATCH (n:{quoted(label)}) WHERE {at} IN ${said}", at, label, said

    # Relations around nodes

    def _around_nodes(self, nodes: Mapping[str, Node], out: bool) -> Iterator[tuple[str, set[str]]]:
        by_id = _by_id(nodes)
        id_ = self._engine.node_id("n")
        arrow, keys = ("-[r]->", f", {self._engine.filled('n', self._properties)}") if out else ("<-[r]-", "")
        query = (
            f"UNWIND $ids AS i MATCH (n) WHERE {id_} = i OPTIONAL MATCH (n){arrow}() "
            f"RETURN i{keys}, collect(DISTINCT {self._engine.type_of('r')})"
        )
        for start, *properties, types in self._engine.rows(query, ids=list(by_id)):
            names = by_id[start]
            node = nodes[names[0]]
            found = self._types.intersection(types)
            for key in itertools.chain.from_iterable(properties):
                if key in self._properties and self.schema.tells(node.labels, key):
                    found.add(key)
            if out and self._kinds.intersection(node.labels):
                found.add(self.schema.is_a)
            yield from ((name, found) for name in names)

    # Neighbours

    def _ask(self, names: Sequence[str], relation: str, out: bool) -> dict[str, dict[str, list[str]]]:
        """Of each name that is an entity its neighbours, each with its dates."""
        nodes = self._nodes.nodes(names)
        found: dict[str, dict[str, list[str]]] = {name: {} for name in names if name in nodes or name in self._kinds}
        found |= {name: self._labels(node, relation, out) for name, node in nodes.items()}
        for _, name, others, time in self._told(self._facts_of(names, nodes, relation, out)):
            around = found.setdefault(name, {})
            for other in others:
                around.setdefault(other, []).extend([time] if time else [])
        unsure = [name for name in names if name not in found]
        return found | {name: {} for name in self._value_uses(unsure)}

    def _told(self, parts: Sequence[Facts]) -> Iterator[tuple[Facts, str, list[str], str]]:
        """What the facts lead to from each name, with their dates."""
        rows = self._rows(parts)
        shown = iter(self._nodes.show([card for _, _, card, _ in rows if isinstance(card, Card)]))
        for part, start, other, time in rows:
            values = [next(shown)] if isinstance(other, Card) else texts(other)
            if not isinstance(other, Card):
                for text in values:
                    self._met.put(text, (self._met.get(text) or frozenset()) | {part.way[0]})
            for owner in part.named.get(start, ()):
                yield part, owner, values, time

    def _rows(self, parts: Sequence[Facts]) -> list[tuple[Facts, Any, Card | Any, str]]:
        found: list[tuple[Facts, Any, Card | Any, str]] = []
        queries = [part.query(at, self._nodes.card(part.node, part.label)) for at, part in enumerate(parts)]
        for at, start, *ends in self._engine.union(queries, **_parameters(parts)):
            part = parts[at]
            dates = ends[self._nodes.width :]
            time = part.dates.text(dates[: len(part.dates.names())]) if part.dates.names() else ""
            other = ends[0] if part.value else self._nodes.read(ends)
            found.append((part, part.name_of(start), other, time))
        return found

    def _facts_of(self, names: Sequence[str], nodes: Mapping[str, Node], relation: str, out: bool) -> list[Facts]:
        """The facts of names, of which some are nodes, along a relation; not the labels of nodes, which are known."""
        found: list[Facts] = []
        id_ = self._engine.node_id("n")
        if nodes and relation in self._types:
            ends = ("-[r:", "]->") if out else ("<-[r:", "]-")
            match = f"UNWIND $given AS i MATCH (n){ends[0]}{quoted(relation)}{ends[1]}(m) WHERE {id_} = i"
            named = _by_id(nodes)
            found.append(Facts(match, "i", named, list(named), dates=self.schema.types[relation]))
        if relation in self._properties and out:
            named = _by_id({name: one for name, one in nodes.items() if self.schema.tells(one.labels, relation)})
            value = f"n.{quoted(relation)}"
            match = f"UNWIND $given AS i MATCH (n) WHERE {id_} = i AND {value} IS NOT NULL"
            found += [Facts(match, "i", named, list(named), value=value)] if named else []
        elif relation in self._properties:
            given: dict[str, list[Any]] = {}
            texts_ = {name: [name] for name in names if sendable(name)}
            for pattern, value, label, said in self._valued(relation, list(texts_), given):
                match = pattern.replace(f"${said}", "$given")
                found.append(Facts(match, value, texts_, given[said], node="n", label=label, name_of=_text))
        if relation == self.schema.is_a and not out:
            for at, label in enumerate(sorted(self._kinds.intersection(names))):
                found.append(Facts(f"MATCH (m:{quoted(label)})", f"'{at}'", {str(at): [label]}, label=label))
        return [replace(part, way=(relation, out)) for part in found]

    def _labels(self, node: Node | None, relation: str, out: bool) -> dict[str, list[str]]:
        """What a node's labels are neighbours of it by."""
        if node is None or relation != self.schema.is_a or not out:
            return {}
        return {label: [] for label in sorted(self._kinds.intersection(node.labels))}

    def _some_neighbors(self, entity: str, relation: str, out: bool, limit: int) -> Neighbors | None:
        """The neighbours of one entity: all where there are not many; of a hub some, and how many there are."""
        self._check(relation)
        self.fetch_some([entity], [(relation, out)], limit)
        return self._neighbors.get((entity, relation, out)) or self._some.get((entity, relation, out))

    def _listed(self, lists: Sequence[Mapping[str, list[str]]]) -> list[Neighbors]:
        """Names with their dates as neighbours, in the order that a store has: those first that have most facts, then
        by their hashes. Facts are counted where there are several nodes, but no more than FEW; others come by name.
        """
        several = dict.fromkeys(name for others in lists if 1 < len(others) <= FEW for name in others)
        degrees = self._degrees_of(several)

        def place(name: str) -> tuple[int, int]:
            return -degrees.get(name, 0), name_hash(name.encode())

        found = []
        for others in lists:
            names = sorted(others, key=place if len(others) <= FEW else None)
            times = [sorted(dict.fromkeys(others[name])) for name in names] if self.timed else None
            found.append(Neighbors(names, len(names), times))
        return found

    def _degrees_of(self, names: Iterable[str]) -> dict[str, int]:
        """How many facts the nodes of these names have."""
        nodes = self._nodes.nodes(names)
        known = {node.id: self._degrees.get(node.id) for node in nodes.values()}
        id_, filled = self._engine.node_id("n"), self._engine.filled("n", self._properties)
        for some in batches([one for one, degree in known.items() if degree is None], BATCH):
            query = f"MATCH (n) WHERE {id_} IN $ids OPTIONAL MATCH (n)-[r]-() RETURN {id_}, {filled}, count(r)"
            for node, properties, count in self._engine.rows(query, ids=some):
                known[node] = count + len(self._properties.keys() & set(properties))
                self._degrees.put(node, known[node] or 0)
        return {name: known[node.id] or 0 for name, node in nodes.items()}


def _by_id(nodes: Mapping[str, Node]) -> dict[Any, list[str]]:
    """The names of each node: Paris and Paris (City) may be one."""
    found: dict[Any, list[str]] = {}
    for name, node in nodes.items():
        found.setdefault(node.id, []).append(name)
    return found


def _text(value: Any) -> str:
    return next(iter(texts(value)), "")
