"""A schema: what a graph's relations are like, surveyed in one pass over its arrays.

    survey(graph).relations["directed_by"].fan_out

Counts are exact; what kinds of names stand at either end is told from a sample. Knows nothing of questions or words.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kgwalk.config.recipe import unknown
from kgwalk.kg.csr import I64
from kgwalk.kg.store import StoredGraph
from kgwalk.questions.literals import DATE, LITERALS, NUMBER, YEAR, literal_kind

SAMPLED = 60  # facts of each relation whose names are looked at
ENOUGH = 20  # tails that look alike, before they are taken for codes
SHORT = 4  # characters
MANY_VALUES = 0.5  # the share of values among the tails from which on a relation leads to values
_LEADING = re.compile(r"\+\d|0\d+$")  # +44, 007
MOSTLY = 0.8  # the share of tails that are values from which on a relation has values


@dataclass(frozen=True, slots=True)
class Relation:
    """One relation. Shares are of the sampled facts; `sample_heads[i]` and `sample_tails[i]` are of one fact."""

    name: str
    facts: int
    heads: int  # distinct
    tails: int
    head_kinds: dict[str, float]  # shares by literals.literal_kind
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
        """The share of tails that are numbers; four digits count as a number unless nearly all are like a year."""
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
        """Whether the tails only tell things apart: a different one for each, short or with leading zeros or a sign.

        Codes of different relations are often the same text by chance: the state VA and the Vatican's VA.
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
        """Whether the tails are things, from which a walk can go on, and not values or codes."""
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
    """One pass over the facts of a graph or a view."""
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
