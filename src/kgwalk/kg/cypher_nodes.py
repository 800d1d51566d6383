"""The names of nodes of a property graph, and the way back from a name to its node.

    names = NodeNames(engine, schema)
    names.show(cards)               what the nodes are called; one query for all that are new
    names.nodes(["Tom Hanks"])      the nodes of names; one query for all that are new

A node is called by the property that names its label's nodes: `Apollo 13`. Where that is a number or a date, or there
is only a key, by the label and that: `Order 10248`; a node without any by its id: `Crew #4:7a:12`. Where several nodes
would be called the same, each has its label behind it, or its key, or its id, whichever tells it apart: `Paris (City)`.
A bare name that several have means the one with most relationships.

A `card` is what a query returns of a node to name it: `card("m")` are its columns, `Card` what they hold.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from kgwalk.kg.cypher_schema import CypherEngine, CypherSchema, Row, quoted, readings, sendable, texts
from kgwalk.kg.graph import LruCache, batches, find_among
from kgwalk.kg.names import normalise
from kgwalk.kg.sources.tables import is_value
from kgwalk.types import KgwalkError

BATCH = 5000  # names or nodes in one query
MANY, SPARE = 1000, 20  # so many names are looked for by a look at all nodes, if those are not 20 times as many
MOST_NAMES = 20_000_000  # of nodes that are held while a whole graph is read
LONGEST_ASKED = 500  # characters: a longer text is no name that anyone asks for
LEAST_HALVED = 6  # letters of a word whose halves are looked for too: a typo leaves one of them right
MOST_WORDS = 8  # of a text that names are searched by
CANDIDATES = 200  # nodes whose names share letters with a text, that are ranked

_BEHIND = re.compile(r"(?s)(.+) \((.+)\)")
_ID = re.compile(r" #([\w:-]+)$")


class Node(NamedTuple):
    id: Any
    labels: tuple[str, ...]


class Card(NamedTuple):
    """What a query says of a node: who it is, and what it may be called by."""

    id: Any
    labels: tuple[str, ...]
    values: tuple[Any, ...]  # of NodeNames.columns

    @property
    def node(self) -> Node:
        return Node(self.id, self.labels)


Lookups = dict[tuple[str, str], set[str]]  # by label and property, the texts that are looked for


class NodeNames:
    """Names nodes and finds them again; what was shown or asked for is kept, up to `cache` names."""

    def __init__(self, engine: CypherEngine, schema: CypherSchema, *, cache: int) -> None:
        self._engine, self._schema = engine, schema
        self.columns = sorted({name for label in schema.labels for name in schema.named_by(label)})
        self._names: LruCache[Any, str] = LruCache(cache)
        self._nodes: LruCache[str, tuple[Node | None]] = LruCache(cache)
        self._every: dict[Any, str] | None = None  # while a whole graph is read

    # Cards

    def card(self, variable: str, label: str | None = None) -> list[str]:
        """The columns of a query that say which node a variable is, and what it may be called by; `label` is one that
        the query gives it.
        """
        known = None if label is None or not self._engine.strict else self._schema.labels[label]
        named = [f"{variable}.{quoted(name)}" if known is None or name in known else "null" for name in self.columns]
        return [self._engine.node_id(variable), self._engine.labels_of(variable), *named]

    def _returned(self, label: str | None = None) -> str:
        """The card of `n`, its columns called alike in every part of a UNION."""
        return f"RETURN {', '.join(f'{column} AS c{at}' for at, column in enumerate(self.card('n', label)))}"

    @property
    def width(self) -> int:
        return 2 + len(self.columns)

    def read(self, row: Row) -> Card:
        return Card(row[0], tuple(sorted(row[1])), tuple(row[2 : self.width]))

    def _base(self, card: Card) -> str:
        """What a node is called where nothing else is called so."""
        visible = [label for label in card.labels if label in self._schema.labels]
        visible.sort(key=lambda label: label.startswith("_"))
        values = dict(zip(self.columns, card.values, strict=True))
        for label in visible:
            for name in self._schema.named_by(label):
                for text in texts(values[name])[:1]:
                    return text if name == self._schema.naming[label] and not is_value(text) else f"{label} {text}"
        return f"{visible[0] if visible else 'node'} {_id_text(card.id)}"

    # From nodes to names

    def show(self, cards: Sequence[Card]) -> list[str]:
        """The names of nodes, in order."""
        if self._every is not None:
            # a node that others made since has the name that it would have alone
            return [self._every.get(card.id) or self._base(card) for card in cards]
        shown = {card.id: self._names.get(card.id) for card in cards}
        unknown = {card.id: card for card in cards if shown[card.id] is None}
        if unknown:
            bases = {self._base(card) for card in unknown.values()}
            for card in unknown.values():
                if self._base(card).endswith(f" {_id_text(card.id)}"):  # an id is of one node only
                    bases.discard(self._base(card))
                    self._keep(card, self._base(card))
                    shown[card.id] = self._base(card)
            shown |= {card.id: name for card, name in self._told_apart(self._grouped(bases))}
        # a node whose name was changed by others since its query has the name that it had
        return [shown.get(card.id) or self._base(card) for card in cards]

    def _grouped(self, bases: Iterable[str]) -> dict[str, list[Card]]:
        """All nodes that would be called so, by what they would be called."""
        found: dict[str, dict[Any, Card]] = {base: {} for base in bases if sendable(base)}
        for card in self._all_cards() if self._are_most(len(found)) else self._cards_of(list(found)):
            if (base := self._base(card)) in found:
                found[base][card.id] = card
        return {base: list(cards.values()) for base, cards in found.items()}

    def _are_most(self, names: int) -> bool:
        """Whether so many names are looked for that all nodes are read more quickly."""
        return names >= MANY and names * SPARE >= self._schema.nodes

    def _cards_of(self, bases: Sequence[str]) -> Iterator[Card]:
        for some in batches(bases, BATCH):
            yield from self._cards(*self._lookups(some))

    def _all_cards(self) -> Iterator[Card]:
        return map(self.read, self._engine.stream(f"MATCH (n) RETURN {', '.join(self.card('n'))}"))

    def _lookups(self, bases: Iterable[str]) -> tuple[Lookups, set[str]]:
        """Where nodes of these names would be found: texts by label and property; and ids."""
        lookups: Lookups = {}
        ids: set[str] = set()
        for base in bases:
            for label, properties in self._schema.labels.items():
                naming = self._schema.naming.get(label)
                if naming is not None and not is_value(base) and "text" in properties[naming].sorts:
                    lookups.setdefault((label, naming), set()).add(base)
                if base.startswith(f"{label} "):
                    rest = base[len(label) + 1 :]
                    for name in self._schema.named_by(label):
                        lookups.setdefault((label, name), set()).add(rest)
            if (said := _ID.search(base)) is not None:
                ids |= {said[1], f"#{said[1]}"}
        return lookups, ids

    def _cards(self, lookups: Lookups, ids: Iterable[str] = ()) -> Iterator[Card]:
        parts, given = list[str](), dict[str, list[Any]]()
        for at, ((label, name), wanted) in enumerate(lookups.items()):
            sorts = self._schema.labels[label][name].sorts
            given[f"v{at}"] = [value for text in sorted(wanted) for value in readings(text, sorts)]
            parts.append(f"MATCH (n:{quoted(label)}) WHERE n.{quoted(name)} IN $v{at} {self._returned(label)}")
        if known := self._engine.ids(ids):
            given["ids"] = known
            parts.append(f"MATCH (n) WHERE {self._engine.node_id('n')} IN $ids {self._returned()}")
        for row in self._engine.union(parts, **given):
            yield self.read(row)

    def _told_apart(
        self, groups: dict[str, list[Card]], called: Container[str] | None = None
    ) -> list[tuple[Card, str]]:
        """The names of nodes, given all that would be called the same; `called` are names that nodes really have."""
        named: list[tuple[Card, str]] = []
        several: list[tuple[Card, str]] = []
        for base, group in groups.items():
            if len(group) == 1:
                named.append((group[0], base))
                continue
            ways = [[self._behind(card, base, way) for card in group] for way in range(3)]
            for at, card in enumerate(group):
                several.append((card, next(way[at] for way in ways if way[at] and way.count(way[at]) == 1)))
        if several and called is None:
            called = {base for base, cards in self._grouped(name for _, name in several).items() if cards}
        for card, name in several:
            named.append((card, f"{self._base(card)} ({_id_text(card.id)})" if name in (called or ()) else name))
        for card, name in named:
            self._keep(card, name)
        return named

    def _behind(self, card: Card, base: str, way: int) -> str:
        """A name with the label behind it, the key, or the id, which no other node has."""
        values = dict(zip(self.columns, card.values, strict=True))
        if way == 0:
            kinds = [label for label in card.labels if not label.startswith("_")]
            return f"{base} ({kinds[0]})" if kinds else ""
        if way == 1:
            keys = [text for label in card.labels for text in texts(values.get(self._schema.keys.get(label, "")))]
            return f"{base} ({keys[0]})" if keys else ""
        return f"{base} ({_id_text(card.id)})"

    def _keep(self, card: Card, name: str) -> None:
        self._names.put(card.id, name)
        self._nodes.put(name, (card.node,))

    # From names to nodes

    def nodes(self, names: Iterable[str]) -> dict[str, Node]:
        """The nodes of these names; a name that none has is left out."""
        found = {name: self._nodes.get(name) for name in names if sendable(name) and len(name) <= LONGEST_ASKED}
        unknown = [name for name, node in found.items() if node is None]
        bases = {name: behind[1] for name in unknown if (behind := _BEHIND.fullmatch(name)) is not None}
        if unknown:
            groups = self._grouped([*unknown, *bases.values()])
            for card, name in self._told_apart(groups):
                if name in found:
                    found[name] = (card.node,)
            for name in unknown:
                if found[name] is None and (group := groups.get(name)):
                    found[name] = (self._best_connected(group).node,)
                self._nodes.put(name, found[name] or (None,))
        return {name: node[0] for name, node in found.items() if node is not None and node[0] is not None}

    def _best_connected(self, group: Sequence[Card]) -> Card:
        if len(group) == 1:
            return group[0]
        id_ = self._engine.node_id("n")
        query = f"MATCH (n)-[r]-() WHERE {id_} IN $ids RETURN {id_}, count(r)"
        degrees = {row[0]: int(row[1]) for row in self._engine.rows(query, ids=[card.id for card in group])}
        return min(group, key=lambda card: (-degrees.get(card.id, 0), str(card.id)))

    def near(self, text: str, most: int = 3) -> list[str]:
        """Names that were shown and are spelt much like this one."""
        return [found.name for found in find_among(text, self._nodes.recent(1000), most) if found.name != text]

    def search(self, text: str) -> list[str]:
        """Names that share words with a text, or half a word: where nothing indexes them, a scan of all names."""
        words = dict.fromkeys([*re.findall(r"[^\W_]+", text.lower()), *normalise(text).split()])
        chosen = sorted(words, key=len, reverse=True)[:MOST_WORDS]
        halves = [half for word in chosen if len(word) >= LEAST_HALVED for half in _halves(word)]
        parts = []
        for label, name in self._schema.naming.items():
            if "text" in self._schema.labels[label][name].sorts:
                said = self._engine.lower(f"n.{quoted(name)}")
                parts.append(
                    f"MATCH (n:{quoted(label)}) WHERE any(w IN $words WHERE {said} CONTAINS w) "
                    f"UNWIND $words AS w WITH n, w WHERE {said} CONTAINS w WITH n, count(w) AS hits "
                    f"ORDER BY hits DESC, size({said}) LIMIT {CANDIDATES} {self._returned(label)}"
                )
        if not parts or not chosen or not sendable(text):
            return []
        cards = [self.read(row) for row in self._engine.union(parts, words=[*chosen, *halves])]
        return list(dict.fromkeys(self.show(cards)))

    # All nodes at once

    def hold_all(self) -> None:
        """Name every node now, from one query: for reading a whole graph. `let_go` gives the memory back."""
        groups: dict[str, list[Card]] = {}
        for count, card in enumerate(self._all_cards()):
            if count >= MOST_NAMES:
                raise KgwalkError(f"{self._engine.shown} has more than {MOST_NAMES:,} nodes; export it as CSV or RDF")
            groups.setdefault(self._base(card), []).append(card)
        self._every = {card.id: name for card, name in self._told_apart(groups, groups)}

    def let_go(self) -> None:
        self._every = None


def _id_text(id_: object) -> str:
    """An id as it stands in a name: `#4:7a:12`; ArcadeDB's begin so."""
    return f"#{str(id_).removeprefix('#')}"


def _halves(word: str) -> list[str]:
    return [word[: len(word) // 2], word[len(word) // 2 :]]
