"""A property graph behind the Graph protocol, asked in Cypher: Neo4j and its kin (`bolt`), Ladybug.

    with open_bolt("bolt://127.0.0.1:7687") as graph:
        graph.neighbors("Tom Hanks", "ACTED_IN")

What becomes what is in `cypher_schema`, how nodes are called in `cypher_nodes`. A value and a node of one name are one
entity, as in a table of names. Nothing is written to the database, and no text of a caller stands in a query: names are
parameters, and a relation must be in the schema before it is written, in backticks.

A set of names is asked for at once (`cypher_facts`): `fetch_names`, `fetch_relations`, `fetch_neighbors` and
`fetch_some` take as many queries for a thousand as for one, and keep the answers for the calls that follow. It does not
notice changes while it is open.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kgwalk.kg.cypher_facts import CypherFacts, Facts
from kgwalk.kg.cypher_nodes import BATCH, Card
from kgwalk.kg.cypher_schema import CypherEngine, quoted, texts
from kgwalk.kg.find import LEAST_SCORE
from kgwalk.kg.graph import RelationEnds, TimeWindow, batches, find_among
from kgwalk.kg.sparql_names import rank
from kgwalk.kg.times import parse_window
from kgwalk.types import Found, InputError, Neighbors, Triple, UnknownEntity


class CypherGraph(CypherFacts):
    """The Graph protocol over a property graph. Closing it closes the engine.

    names: properties that name nodes, where another was found: `fullName`, or `Person.fullName` of one label.
    values: whether it is looked up which relations lead to a value. That scans what no index covers; without, only the
        relations by which a value was met are known, and a value that was not met is no entity.
    cache: how many names and facts of earlier answers are kept.
    """

    def __repr__(self) -> str:
        return f"CypherGraph({self._engine.shown!r})"

    @property
    def queries(self) -> int:
        """How many queries the database was sent."""
        return self._engine.asked

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
        parts: list[Facts] = []
        id_, some = self._engine.node_id("n"), dict[Any, list[str]]()
        if relation in self._types:
            dates = self.schema.types[relation]
            parts.append(Facts(f"MATCH (n)-[r:{quoted(relation)}]->(m)", id_, some, dates=dates))
        if relation in self._properties:
            value = f"n.{quoted(relation)}"
            parts.append(Facts(f"MATCH (n) WHERE {value} IS NOT NULL", id_, some, value=value))
        if relation == self.schema.is_a:
            parts.append(Facts("MATCH (n)", id_, some, value=self._engine.labels_of("n")))
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

    def _tails(self, part: Facts, relation: str, head: Card, value: Any) -> list[str]:
        if part.value == self._engine.labels_of("n"):
            return sorted(self._kinds.intersection(value))
        return texts(value) if self.schema.tells(head.labels, relation) else []


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
