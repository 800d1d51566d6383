"""A schema: what a graph's relations are like, found in one pass over its facts.

    survey(graph).relations["directed_by"].fan_out
    literal_kind("1999-05-01")                       # "date": what a name looks like
    Inverses(graph).of("children")                   # {"parents"}

Counts are exact; the kinds of names at either end come from a sample.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from kgwalk.config.recipe import unknown
from kgwalk.kg.csr import I64
from kgwalk.kg.store import StoredGraph

# What a name looks like


LONGEST_NAME = 80  # characters; a longer one is a text, not a name
REMEMBERED = 200  # characters; longer names are not cached
NUMBER, YEAR, DATE, LINK, ID, TEXT, NAME = "number", "year", "date", "link", "id", "text", "name"
LITERALS = (NUMBER, YEAR, DATE, LINK, TEXT)  # values, as opposed to entities

_DATE = re.compile(r"[+-]?\d{3,6}-\d\d(?:-\d\d(?:[T ][\d:.,]*(?:Z|[+-]\d\d:?\d\d)?)?)?")
_YEAR = re.compile(r"[12]\d{3}")
_NUMBER = re.compile(r"[+-]?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+)?(?:[eE][+-]?\d+)?%?")
_LINK = re.compile(r"(?:\w+://|www\.|mailto:)\S+")
# Freebase's ids and mediators, Wikidata's, blank nodes, digests
_ID = re.compile(r"/?[mg][./][0-9a-z_]{3,}|cvt\.\S+|[QPL]\d{2,}|_:\S+|(?=.*\d)[0-9a-f]{8,}(?:-[0-9a-f]+)*|\W*")

_WITH_ID = re.compile(r"[(\[]/?(?:[mg][./][0-9a-z_]{3,}|Q\d+)[)\]]$")


def literal_kind(name: str) -> str:
    """The kind of a name by its looks: number, year, date, link, id, text (long), or a plain name.

    >>> [literal_kind(name) for name in ("Paris", "1999", "1999-05-01", "67,391", "m.0abc1", "https://a.b/c")]
    ['name', 'year', 'date', 'number', 'id', 'link']
    """
    return _kind(name) if len(name) <= REMEMBERED else _kind.__wrapped__(name)


@lru_cache(maxsize=1 << 15)
def _kind(name: str) -> str:
    text = name.strip()
    if len(text) > LONGEST_NAME or "\n" in text:
        return LINK if _LINK.fullmatch(text) else TEXT
    if any(sign.isdigit() for sign in text[:2]) or text[:1] in "+-.":
        for kind, pattern in ((DATE, _DATE), (YEAR, _YEAR), (NUMBER, _NUMBER)):
            if text and pattern.fullmatch(text) and any(map(str.isdigit, text)):
                return kind
    for kind, pattern in ((LINK, _LINK), (ID, _ID)):
        if pattern.fullmatch(text):
            return kind
    return NAME


def askable(name: str) -> bool:
    """Whether a question can name it: it has letters, and is no value, no id, and has no id added to it.

    >>> askable("Drama"), askable("Drama (/m/07s9rl0)"), askable("19")
    (True, False, False)
    """
    return literal_kind(name) == NAME and any(map(str.isalpha, name)) and not _WITH_ID.search(name)


# Relations

SAMPLED = 60  # facts of each relation whose names are looked at
ENOUGH = 20  # sampled tails, at least, before they are taken for codes
SHORT = 4  # characters of a code that needs no other sign of one
MANY_VALUES = 0.5  # the share of values among the tails from which on a walk does not go on
_LEADING = re.compile(r"\+\d|0\d+$")  # +44, 007
MOSTLY = 0.8  # the share from which on something holds for nearly all


@dataclass(frozen=True, slots=True)
class Relation:
    """One relation. Shares are of the sampled facts; `sample_heads[i]` and `sample_tails[i]` are of one fact."""

    name: str
    facts: int
    heads: int  # distinct
    tails: int
    head_kinds: dict[str, float]  # shares by `literal_kind`
    tail_kinds: dict[str, float]
    sample_heads: tuple[str, ...]
    sample_tails: tuple[str, ...]

    @property
    def fan_out(self) -> float:
        """Facts a head, on average."""
        return self.facts / self.heads

    @property
    def fan_in(self) -> float:
        """Facts a tail, on average."""
        return self.facts / self.tails

    @property
    def numbers(self) -> float:
        """The share of tails that are numbers; those that could be years count unless nearly all look like years."""
        return self.tail_kinds.get(NUMBER, 0.0) + (0.0 if self._years else self.tail_kinds.get(YEAR, 0.0))

    @property
    def dates(self) -> float:
        """The share of tails that are dates or years."""
        return self.tail_kinds.get(DATE, 0.0) + (self.tail_kinds.get(YEAR, 0.0) if self._years else 0.0)

    @property
    def literals(self) -> float:
        """The share of tails that are values of any kind: numbers, dates, links, long texts."""
        return sum(self.tail_kinds.get(kind, 0.0) for kind in LITERALS)

    @property
    def valued(self) -> bool:
        """Whether nearly all tails are numbers, or dates."""
        return self.numbers >= MOSTLY or self.dates >= MOSTLY

    @property
    def codes(self) -> bool:
        """Whether the tails only identify their heads: each different, and short, equally long, or with leading zeros.

        Codes of different relations are often equal by chance: the state VA and the Vatican's VA.
        """
        if self._years or self.dates >= MOSTLY:
            return False
        leading = self.numbers >= MOSTLY and any(_LEADING.match(value) for value in self.sample_tails)
        each = self.tails >= MOSTLY * self.facts and len(self.sample_tails) >= ENOUGH
        as_long = len({len(value) for value in self.sample_tails}) == 1 and all(map(str.isalnum, self.sample_tails))
        short = max(map(len, self.sample_tails)) <= SHORT and self.numbers < MOSTLY
        return leading or (each and (as_long or short))

    @property
    def to_things(self) -> bool:
        """Whether the tails are entities, from which a walk can go on, and not values or codes."""
        return self.literals < MANY_VALUES and not self.codes

    @property
    def comparable(self) -> bool:
        """Whether it makes sense to ask for the largest value."""
        return self.valued and not self.codes

    @property
    def _years(self) -> bool:
        return self.tail_kinds.get(YEAR, 0.0) > 10 * self.tail_kinds.get(NUMBER, 0.0)


@dataclass(frozen=True, slots=True)
class Schema:
    """All relations of a graph, by name in alphabetical order."""

    relations: dict[str, Relation]
    facts: int
    entities: int
    timed: bool

    def __getitem__(self, relation: str) -> Relation:
        if relation not in self.relations:
            raise unknown("relation", relation, self.relations)
        return self.relations[relation]


def survey(graph: StoredGraph) -> Schema:
    """The schema of a graph or a view."""
    store = graph.store
    heads_E, relations_E, tails_E = graph.facts_by_number()
    order = np.argsort(relations_E, kind="stable")
    present, first, facts = np.unique(relations_E[order], return_index=True, return_counts=True)
    entities = len(store.entity)
    head_counts = _distinct(relations_E, heads_E, entities, len(store.relation))
    tail_counts = _distinct(relations_E, tails_E, entities, len(store.relation))
    found: dict[str, Relation] = {}
    for number, start, count in zip(present.tolist(), first.tolist(), facts.tolist(), strict=True):
        places = order[start + np.unique(np.linspace(0, count - 1, min(count, SAMPLED)).astype(np.int64))]
        heads, tails = store.entity.several(heads_E[places].tolist()), store.entity.several(tails_E[places].tolist())
        name = store.relation_name(number)
        ends = (_kinds(heads), _kinds(tails), tuple(heads), tuple(tails))
        found[name] = Relation(name, count, int(head_counts[number]), int(tail_counts[number]), *ends)
    return Schema(found, len(heads_E), len(graph.live_entities()), store.timed)


def _distinct(relations_E: I64, ends_E: I64, entities: int, relations: int) -> I64:
    """For each relation, how many distinct entities stand at one end."""
    pairs = np.unique(relations_E * entities + ends_E)
    return np.bincount(pairs // entities, minlength=relations)


def _kinds(names: Sequence[str]) -> dict[str, float]:
    counts = Counter(map(literal_kind, names))
    return {kind: count / len(names) for kind, count in counts.most_common()}


# Values behind nodes, and types


TYPE_WORDS = frozenset({"type", "rdf type", "a", "is a", "isa", "instance of", "instanceof"})
TELLS_NOTHING = TYPE_WORDS | {"label", "name", "same as", "comment", "description"}
TRUTHS = frozenset({"true", "false", "yes", "no"})
_AMOUNT = re.compile(r"(?:amount|value|quantity|magnitude|number|figure|val)$", re.IGNORECASE)
_UNIT = re.compile(r"(?:unit|units|currency|unit ?code)$", re.IGNORECASE)
NODES_LOOKED_AT = 10


@dataclass(frozen=True, slots=True)
class ValueNode:
    """The relations of a node that only holds a value: a price with an amount and a currency."""

    amount: str
    unit: str | None


def value_nodes(graph: StoredGraph, schema: Schema) -> dict[str, ValueNode]:
    """The relations that lead to nodes which only hold a value, each with the relations from there."""
    found = {relation.name: _value_node(graph, schema, relation) for relation in schema.relations.values()}
    return {name: node for name, node in found.items() if node is not None}


def _value_node(graph: StoredGraph, schema: Schema, relation: Relation) -> ValueNode | None:
    if relation.tails < 0.9 * relation.facts or not relation.to_things:
        return None
    sample = relation.sample_tails[:NODES_LOOKED_AT]
    leaving = Counter(name for tail in sample for name in graph.relations(tail))
    told = {name: count for name, count in leaving.items() if plain_name(name) not in TELLS_NOTHING}
    amounts = [name for name in told if _AMOUNT.search(plain_name(name)) and told[name] == len(sample)]
    units = [name for name in told if _UNIT.search(plain_name(name))]
    if len(amounts) != 1 or not schema[amounts[0]].valued or set(told) - {*amounts, *units}:
        return None
    return ValueNode(amounts[0], units[0] if units else None)


def types_of(graph: StoredGraph, schema: Schema) -> dict[str, str]:
    """The type of each sampled entity that has one, in lower case: what its kind is called."""
    typing = [relation for relation in schema.relations.values() if plain_name(relation.name) in TYPE_WORDS]
    names = {name for one in schema.relations.values() for name in (*one.sample_heads, *one.sample_tails)}
    found: dict[str, str] = {}
    for relation in typing:
        for name in sorted(names - found.keys()):
            types = graph.neighbors(name, relation.name, limit=2).names
            if len(types) == 1:  # of several, which one people mean is not known
                found[name] = spaced(re.split(r"[/#:]", types[0])[-1]).strip().lower()
    return found


def plain_name(relation: str) -> str:
    """The words of a relation's name after the last dot, slash, hash or colon.

    >>> plain_name("http://example.org/hasValue"), plain_name("rdf:type"), plain_name("numeric_value")
    ('has value', 'type', 'numeric value')
    """
    return spaced(re.split(r"[./#:]", relation.rstrip("./#:"))[-1]).strip().lower()


def spaced(name: str) -> str:
    """A name in camelCase or snake_case with blanks between its words."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name).replace("_", " ")


# Inverse relations


COMPARED = 500  # facts of a relation, at most, that are looked up in others
# The share of the facts of each relation that the other has turned round, at least. PathQuestion's graph, which lacks
# many facts, has 0.31 of `parents` in `children` and 0.28 the other way.
MUTUAL = 0.25
# The smaller of the two shares over the larger, at least: every `captain` of a club `plays_for` it, not vice versa.
EVEN = 0.6


class Inverses:
    """Which relations of a graph say the same from the other end: `children` and `parents`, or a symmetric one itself.

    Someone who asks for the children of X means `children`, if X has it, and not who has X as a parent; where facts are
    missing the two give different answers. So a plan goes backwards only where no such relation goes forwards. Found by
    the facts alone, in one pass, not by names.
    """

    def __init__(self, graph: StoredGraph) -> None:
        store = graph.store
        heads_E, relations_E, tails_E = graph.facts_by_number()
        entities = max(1, len(store.entity))
        by_pair = np.argsort(heads_E * entities + tails_E, kind="stable")
        pairs_E, relation_of_pair_E = (heads_E * entities + tails_E)[by_pair], relations_E[by_pair]
        by_relation = np.argsort(relations_E, kind="stable")
        present, first, counts = np.unique(relations_E[by_relation], return_index=True, return_counts=True)
        share: dict[int, dict[int, float]] = {}  # the share of a relation's facts that another has turned round
        for number, start, count in zip(present.tolist(), first.tolist(), counts.tolist(), strict=True):
            facts = by_relation[start : start + count : max(1, count // COMPARED)]
            turned = tails_E[facts] * entities + heads_E[facts]
            low, high = np.searchsorted(pairs_E, turned), np.searchsorted(pairs_E, turned, "right")
            found = Counter(
                other
                for begin, end in zip(low.tolist(), high.tolist(), strict=True)
                for other in set(relation_of_pair_E[begin:end].tolist())
            )
            share[number] = {other: times / len(facts) for other, times in found.items()}
        self._of: dict[str, frozenset[str]] = {}
        for number, others in share.items():
            mutual = [other for other, much in others.items() if _mutual(much, share[other].get(number, 0.0))]
            if mutual:
                self._of[store.relation_name(number)] = frozenset(map(store.relation_name, mutual))

    def of(self, relation: str) -> frozenset[str]:
        """The relations that say the same from the other end; a symmetric one is its own."""
        return self._of.get(relation, frozenset())

    def said_forwards(self, relation: str, leaving: Collection[str]) -> bool:
        """Whether one of the `leaving` relations says forwards what this one says backwards."""
        return not self.of(relation).isdisjoint(leaving)


def _mutual(one: float, two: float) -> bool:
    """Whether two relations are inverses, by the share of each one's facts that the other has turned round.

    >>> _mutual(0.31, 0.28), _mutual(1.0, 0.33), _mutual(0.1, 0.1)
    (True, False, False)
    """
    return min(one, two) >= MUTUAL and min(one, two) >= EVEN * max(one, two)
