"""A property graph behind the Graph protocol, asked in Cypher: Neo4j and its kin (`bolt`), Ladybug.

    with open_bolt("bolt://127.0.0.1:7687") as graph:
        graph.neighbors("Tom Hanks", "ACTED_IN")

What becomes what is in `cypher_schema`, how nodes are called in `cypher_nodes`. A value and a node of one name are one
entity, as in a table of names. Nothing is written to the database, and no text of a caller stands in a query: names are
parameters, and a relation must be in the schema before it is written, in backticks.

A set of names is asked for at once: `fetch_names`, `fetch_relations` and `fetch_neighbors` take as many queries for a
thousand as for one, and keep the answers for the calls that follow. It does not notice changes while it is open.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kgwalk.kg.cypher_nodes import BATCH, LONGEST_ASKED, Card, Node, NodeNames
from kgwalk.kg.cypher_schema import CypherEngine, CypherSchema, Dates, quoted, readings, sendable, texts
from kgwalk.kg.find import LEAST_SCORE
from kgwalk.kg.graph import ClosedAtEnd, LruCache, RelationEnds, TimeWindow, batches, find_among
from kgwalk.kg.names import name_hash
from kgwalk.kg.sparql_names import rank
from kgwalk.kg.times import parse_window
from kgwalk.types import Found, InputError, Neighbors, Triple, UnknownEntity, UnknownRelation

FEW = (
    1000  # neighbours that are all read where fewer are asked for, and that are ordered by their facts; hubs have more
)
MOST_DATES = 3  # properties of a relationship that say when

Way = tuple[str, bool]  # a relation, and whether it leaves


@dataclass(frozen=True)
class _Facts:
    """Facts of some names as a part of a query: `n` is the end that was given, `m` the other."""

    match: str  # `$given` is its parameter
    start: str  # what says which of the names it is
    named: Mapping[Any, str]
    given: Sequence[Any] = ()
    value: str = ""  # the other end, where it is a value and not a node
    node: str = "m"
    label: str | None = None  # that the pattern gives to the node
    way: Way = ("", True)
    most: int | None = None  # facts that are read
    dates: Dates = field(default_factory=Dates)
    name_of: Callable[[Any], Any] = lambda start: start

    def of(self, starts: Collection[Any], most: int | None = None) -> _Facts:
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


def _parameters(parts: Sequence[_Facts]) -> dict[str, Any]:
    return {f"given{at}": part.given for at, part in enumerate(parts) if "$given" in part.match}


class CypherGraph(ClosedAtEnd):
    """The Graph protocol over a property graph. Closing it closes the engine.

    names: properties that name nodes, where another was found: `fullName`, or `Person.fullName` of one label.
    values: whether it is looked up which relations lead to a value. That scans what no index covers; without, only the
        relations by which a value was met are known, and a value that was not met is no entity.
    cache: how many names and facts of earlier answers are kept.
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

    def __repr__(self) -> str:
        return f"CypherGraph({self._engine.shown!r})"

    @property
    def queries(self) -> int:
        """How many queries the database was sent."""
        return self._engine.asked

    @property
    def timed(self) -> bool:
        """Whether facts have dates: some relationship has a property that says when."""
        return self.schema.timed

    def classes(self) -> tuple[str, list[str]]:
        """The relation that leads from a thing to its class, and all classes: the labels."""
        return self.schema.is_a, sorted(self._kinds)

    def info(self) -> dict[str, Any]:
        """How the database is read: labels, what names their nodes, relationships and their dates; and counts."""
        [[edges]] = self._engine.rows("MATCH ()-[r]->() RETURN count(r)")
        relations = len(self.schema.relations())
        counts = {"nodes": self.schema.nodes, "relationships": edges, "relations": relations}
        return {"address": self._engine.shown, **counts, "timed": self.timed, **self.schema.note()}

    def relation_ends(self, most: int, looked_at: int, shown: int) -> list[RelationEnds]:
        """Of each relation a look at so many facts, and some of its ends, in two queries; nothing where there are more
        relations than `most`.
        """
        relations = [name for name in self.schema.relations() if name != self.schema.is_a]
        if not relations or len(relations) > most:
            return []
        ways = {
            name: [
                *([(f"MATCH (n)-[r:{quoted(name)}]->(m)", "")] if name in self._types else []),
                *(
                    (f"MATCH (n:{quoted(label)}) WHERE n.{quoted(name)} IS NOT NULL", f"n.{quoted(name)}")
                    for label in self._properties.get(name, ())
                ),
            ]
            for name in relations
        }
        parts = [(at, match, value) for at, name in enumerate(relations) for match, value in ways[name]]
        nothing, counts = ["null"] * self._nodes.width, Counter[tuple[int, str]]()
        counted, some = list[str](), list[str]()
        for at, match, value in parts:
            # of a value its node is `n`: some databases refuse a variable that is not there
            with_ = f"{match} WITH n, {value} AS v" if value else f"{match} WITH n, m"
            tail = "v" if value else "m"
            counted.append(
                f"{with_} LIMIT {looked_at} "
                f"RETURN {at} AS at, count(DISTINCT n) AS heads, count(DISTINCT {tail}) AS tails"
            )
            ending = [*nothing, "v"] if value else [*self._nodes.card("m"), "null"]
            columns = [str(at), *self._nodes.card("n"), *ending]
            said = ", ".join(f"{one} AS c{number}" for number, one in enumerate(columns))
            some.append(f"{with_} LIMIT {shown} RETURN {said}")
        for at, heads, tails in self._engine.union(counted):
            counts[at, "heads"] += heads
            counts[at, "tails"] += tails
        ends: dict[int, tuple[dict[str, None], dict[str, None]]] = {at: ({}, {}) for at in range(len(relations))}
        rows = self._engine.union(some)
        width = self._nodes.width
        heads_ = self._nodes.show([self._nodes.read(row[1:]) for row in rows])
        nodes = iter(
            self._nodes.show([self._nodes.read(row[1 + width :]) for row in rows if row[1 + width] is not None])
        )
        for row, head in zip(rows, heads_, strict=True):
            ends[row[0]][0][head] = None
            ends[row[0]][1].update(dict.fromkeys(texts(row[-1]) if row[1 + width] is None else [next(nodes)]))
        return [
            RelationEnds(name, counts[at, "heads"], counts[at, "tails"], list(ends[at][0]), list(ends[at][1]))
            for at, name in enumerate(relations)
        ]

    # The Graph protocol

    def __contains__(self, entity: object) -> bool:
        return isinstance(entity, str) and entity in self._known([entity])

    def has_relation(self, relation: str) -> bool:
        is_a = relation == self.schema.is_a and bool(self._kinds)
        return is_a or relation in self._types or relation in self._properties

    def relations(self, entity: str, *, out: bool = True) -> list[str]:
        self.fetch_relations([entity], out=out)
        found = self._relations.get((entity, out))
        if found is None:
            raise UnknownEntity(entity, self._nodes.near(entity))
        return list(found)

    def neighbors(self, entity: str, relation: str, *, out: bool = True, limit: int | None = None) -> Neighbors:
        """As in the protocol, those first that have most facts; of a hub some `limit` of its neighbours."""
        found = self._neighbors.get((entity, relation, out))
        some = self._some.get((entity, relation, out)) if found is None and limit is not None else None
        if some is not None and limit is not None and limit <= len(some.names):
            found = some
        elif found is None and limit is not None:
            found = self._some_neighbors(entity, relation, out, limit)
        elif found is None:
            self.fetch_neighbors([entity], relation, out=out)
            found = self._neighbors.get((entity, relation, out))
        if found is None:
            raise UnknownEntity(entity, self._nodes.near(entity))
        times = None if found.times is None else found.times[:limit]
        return Neighbors(found.names[:limit], found.total, times)

    def match(
        self,
        head: str | None = None,
        relation: str | None = None,
        tail: str | None = None,
        *,
        limit: int | None = None,
    ) -> Iterator[Triple]:
        """As in the protocol. All facts of a relation, or of the graph, are streamed, relation by relation."""
        if head is not None or tail is not None:
            found = self._around(head, relation, tail)
        elif relation is not None:
            found = self._all_of(relation) if self.has_relation(relation) else iter(())
        else:
            found = self._everything()
        return itertools.islice(found, limit)

    def find(self, text: str, k: int = 5) -> list[Found]:
        """As in the protocol: the node of the name, then names that share words or half a word with the text."""
        named = self._nodes.nodes([text])
        others = [*(self._nodes.search(text) if len(named) < k else ()), *sorted(self._kinds)]
        candidates = {name: name for name in others if name != text}
        ranked = rank(text, candidates, k)
        found = [Found(name, score, how) for name, score, how in ranked if score >= LEAST_SCORE]
        exact = [Found(text, 1.0, "exact")] if named or text in self._kinds else []
        return [*exact, *found][:k]

    def find_relation(self, text: str, k: int = 5) -> list[Found]:
        return find_among(text, self.schema.relations(), k)

    def between(self, start: str | None, end: str | None, *, undated: bool = True) -> TimeWindow:
        """The view of facts that hold at some time from `start` to `end`, with or without those that have no date."""
        return TimeWindow(self, *parse_window(start, end), undated=undated)

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
        asked: list[_Facts] = []
        for relation, out in dict.fromkeys(ways):
            missing = [
                name for name in known if self.has_relation(relation) and not self._has(name, relation, out, limit)
            ]
            keys += [(name, relation, out) for name in missing]
            asked += self._facts_of(missing, {name: nodes[name] for name in missing if name in nodes}, relation, out)
        totals, parts = dict[tuple[str, str, bool], int](), list[_Facts]()
        for part, counts in self._counted(asked):
            few = [start for start, count in counts.items() if count <= max(FEW, limit)]
            parts += [part.of(few)] if few else []
            for start in counts.keys() - few:
                parts.append(part.of([start], limit))
                key = (part.named[start], *part.way)
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

    def _counted(self, parts: Sequence[_Facts]) -> list[tuple[_Facts, dict[Any, int]]]:
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
            raise UnknownRelation(relation, [one.name for one in self.find_relation(relation, 3)])

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
        by_id = {node.id: (name, node) for name, node in nodes.items()}
        id_ = self._engine.node_id("n")
        arrow, keys = ("-[r]->", f", {self._engine.filled('n', self._properties)}") if out else ("<-[r]-", "")
        query = (
            f"UNWIND $ids AS i MATCH (n) WHERE {id_} = i OPTIONAL MATCH (n){arrow}() "
            f"RETURN i{keys}, collect(DISTINCT {self._engine.type_of('r')})"
        )
        for start, *properties, types in self._engine.rows(query, ids=list(by_id)):
            name, node = by_id[start]
            found = self._types.intersection(types)
            for key in itertools.chain.from_iterable(properties):
                if key in self._properties and self.schema.tells(node.labels, key):
                    found.add(key)
            if out and self._kinds.intersection(node.labels):
                found.add(self.schema.is_a)
            yield name, found

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

    def _told(self, parts: Sequence[_Facts]) -> Iterator[tuple[_Facts, str, list[str], str]]:
        """What the facts lead to from each name, with their dates."""
        rows = self._rows(parts)
        shown = iter(self._nodes.show([card for _, _, card, _ in rows if isinstance(card, Card)]))
        for part, start, other, time in rows:
            values = [next(shown)] if isinstance(other, Card) else texts(other)
            if not isinstance(other, Card):
                for text in values:
                    self._met.put(text, (self._met.get(text) or frozenset()) | {part.way[0]})
            if (owner := part.named.get(start)) is not None:
                yield part, owner, values, time

    def _rows(self, parts: Sequence[_Facts]) -> list[tuple[_Facts, Any, Card | Any, str]]:
        found: list[tuple[_Facts, Any, Card | Any, str]] = []
        queries = [part.query(at, self._nodes.card(part.node, part.label)) for at, part in enumerate(parts)]
        for at, start, *ends in self._engine.union(queries, **_parameters(parts)):
            part = parts[at]
            dates = ends[self._nodes.width :]
            time = part.dates.text(dates[: len(part.dates.names())]) if part.dates.names() else ""
            other = ends[0] if part.value else self._nodes.read(ends)
            found.append((part, part.name_of(start), other, time))
        return found

    def _facts_of(self, names: Sequence[str], nodes: Mapping[str, Node], relation: str, out: bool) -> list[_Facts]:
        """The facts of names, of which some are nodes, along a relation; not the labels of nodes, which are known."""
        found: list[_Facts] = []
        id_ = self._engine.node_id("n")
        if nodes and relation in self._types:
            ends = ("-[r:", "]->") if out else ("<-[r:", "]-")
            match = f"UNWIND $given AS i MATCH (n){ends[0]}{quoted(relation)}{ends[1]}(m) WHERE {id_} = i"
            named = {node.id: name for name, node in nodes.items()}
            found.append(_Facts(match, "i", named, list(named), dates=self.schema.types[relation]))
        if relation in self._properties and out:
            named = {node.id: name for name, node in nodes.items() if self.schema.tells(node.labels, relation)}
            value = f"n.{quoted(relation)}"
            match = f"UNWIND $given AS i MATCH (n) WHERE {id_} = i AND {value} IS NOT NULL"
            found += [_Facts(match, "i", named, list(named), value=value)] if named else []
        elif relation in self._properties:
            given: dict[str, list[Any]] = {}
            texts_ = {name: name for name in names if sendable(name)}
            for pattern, value, label, said in self._valued(relation, list(texts_), given):
                match = pattern.replace(f"${said}", "$given")
                found.append(_Facts(match, value, texts_, given[said], node="n", label=label, name_of=_text))
        if relation == self.schema.is_a and not out:
            for at, label in enumerate(sorted(self._kinds.intersection(names))):
                found.append(_Facts(f"MATCH (m:{quoted(label)})", f"'{at}'", {str(at): label}, label=label))
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

    # Facts

    def _around(self, head: str | None, relation: str | None, tail: str | None) -> Iterator[Triple]:
        out = head is not None
        entity = head if head is not None else tail
        assert entity is not None
        if relation is not None and not self.has_relation(relation):
            return
        try:
            relations = self.relations(entity, out=out) if relation is None else [relation]
            for one in relations:
                found = self.neighbors(entity, one, out=out)
                times = found.times or [[] for _ in found.names]
                for other, dates in zip(found.names, times, strict=True):
                    if out and tail is not None and other != tail:
                        continue
                    for time in dates or [""]:
                        yield Triple(entity, one, other, time) if out else Triple(other, one, entity, time)
        except UnknownEntity:
            return

    def _everything(self) -> Iterator[Triple]:
        self._nodes.hold_all()
        try:
            for relation in self.schema.relations():
                yield from self._all_of(relation)
        finally:
            self._nodes.let_go()

    def _all_of(self, relation: str) -> Iterator[Triple]:
        """Every fact of a relation, streamed; a fact that comes again at once is left out."""
        parts: list[_Facts] = []
        id_, some = self._engine.node_id("n"), dict[Any, str]()
        if relation in self._types:
            dates = self.schema.types[relation]
            parts.append(_Facts(f"MATCH (n)-[r:{quoted(relation)}]->(m)", id_, some, dates=dates))
        if relation in self._properties:
            value = f"n.{quoted(relation)}"
            parts.append(_Facts(f"MATCH (n) WHERE {value} IS NOT NULL", id_, some, value=value))
        if relation == self.schema.is_a:
            parts.append(_Facts("MATCH (n)", id_, some, value=self._engine.labels_of("n")))
        width = self._nodes.width
        for part in parts:
            ends = [part.value] if part.value else self._nodes.card("m")
            columns = [*self._nodes.card("n"), *ends, *(f"r.{quoted(name)}" for name in part.dates.names())]
            query = f"{part.match} RETURN {', '.join(f'{one} AS c{at}' for at, one in enumerate(columns))}"
            for rows in batches(self._engine.stream(query), BATCH):
                heads = [self._nodes.read(row) for row in rows]
                tails = [] if part.value else [self._nodes.read(row[width:]) for row in rows]
                shown = self._nodes.show([*heads, *tails])
                seen: set[Triple] = set()
                for at, row in enumerate(rows):
                    if part.value:
                        others, time = self._tails(part, relation, heads[at], row[width]), ""
                    else:
                        others, time = [shown[len(rows) + at]], part.dates.text(row[2 * width :])
                    for other in others:
                        fact = Triple(shown[at], relation, other, time)
                        if fact not in seen:
                            seen.add(fact)
                            yield fact

    def _tails(self, part: _Facts, relation: str, head: Card, value: Any) -> list[str]:
        if part.value == self._engine.labels_of("n"):
            return sorted(self._kinds.intersection(value))
        return texts(value) if self.schema.tells(head.labels, relation) else []


def _text(value: Any) -> str:
    return next(iter(texts(value)), "")


def graph_over(engine: CypherEngine, said: Mapping[str, Sequence[str]]) -> CypherGraph:
    """The graph of an engine with the settings behind the `?` of its address; an engine without a graph is closed."""
    try:
        values = said.get("values", ["yes"])[-1]
        if values not in ("yes", "no"):
            raise InputError(f"values={values}: expected yes or no", text=engine.shown)
        return CypherGraph(engine, names=said.get("name", ()), values=values == "yes")
    except BaseException:
        engine.close()
        raise
