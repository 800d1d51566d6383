"""Which concepts make up a world: some that lead on from each other, and near ones that are easily confused.

    Stock(load_bank()).choose(20, ["film", "place"], chance)

A film's director, writer and producer stand together on purpose: only the words of a question tell them apart.
Knows concepts and kinds; labels and facts come after.
"""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from kgwalk.data.bank.concepts import Concept
from kgwalk.questions.worlds.kinds import fitting, wider
from kgwalk.questions.worlds.labels import label_key
from kgwalk.questions.worlds.values import LITERALS
from kgwalk.types import KgwalkError

# How a world grows: a concept near to one that is there, one that leads on, a value, or for a concept that says where
# something happens another that says where that is.
_MOVES = {"near": 0.39, "on": 0.37, "value": 0.16, "where": 0.08}
_MOST_BETWEEN = 9  # concepts between the same two kinds
_HOME, _WANTED = 8.0, 8.0  # weights of the world's own domains, and of wanted concepts
_PLACES = 4.0  # of concepts that say where something happens: two in a row are asked as one
_LIKE = 3.0  # of concepts between things of one kind: which way one is walked, only the words of a question tell
# What most graphs say of people and things, and people ask by: "the youngest", "the largest", "the first".
_ORDINARY = (
    *("person-birthdate", "person-deathdate", "person-height", "film-release-year", "book-year", "music-album-year"),
    *("business-company-founded-year", "business-company-employees", "workplace-employee-hired", "product-price"),
    *("building-completed", "building-height", "place-city-population", "place-area", "place-mountain-height"),
    *("place-river-length", "sport-player-goals"),
)
_ORDINARY_WEIGHT = 20.0
_GENERIC = "generic"  # the domain of relations between things of any kind, which would be everywhere otherwise
_GENERIC_SHARE = 0.06
_MOVES_EACH = 15  # tries to place a concept, for each that is wanted
_STARTS, _ENOUGH = 4, 0.7  # a world that finds too few concepts, as a share of those wanted, starts again elsewhere


@dataclass(frozen=True, slots=True)
class Placed:
    """A concept in a world, between two kinds of that world."""

    concept: Concept
    head: str
    tail: str

    @property
    def literal(self) -> bool:
        return self.tail in LITERALS


@dataclass(frozen=True, slots=True)
class _Entry:
    concept: Concept
    forward: frozenset[str]  # what is asked of the head, in one spelling
    backward: frozenset[str]
    keys: frozenset[str]  # of its labels
    inverse_keys: frozenset[str]


class Stock:
    """Concepts that worlds are drawn from, found by their kinds. It counts `uses`: what was rare comes up more."""

    def __init__(self, concepts: Sequence[Concept]) -> None:
        if not any(concept.tail not in LITERALS for concept in concepts):
            raise KgwalkError("no concept is left to make worlds of; give more domains, or leave fewer labels out")
        self.entries = {concept.id: _entry(concept) for concept in concepts}
        self.domains = sorted({concept.domain for concept in concepts})
        self.uses: Counter[str] = Counter()  # worlds that a concept was in, by its id
        self._by_head: dict[str, list[Concept]] = defaultdict(list)
        self._by_tail: dict[str, list[Concept]] = defaultdict(list)
        for concept in concepts:
            self._by_head[concept.head].append(concept)
            self._by_tail[concept.tail].append(concept)

    def choose(
        self, count: int, domains: Collection[str], chance: random.Random, wanted: Collection[str] = ()
    ) -> list[Placed]:
        """Up to `count` concepts around these domains; those of the `wanted` ids are taken more often."""
        best: list[Placed] = []
        for _ in range(_STARTS):
            found = self._grown(count, frozenset(domains), frozenset(wanted), chance)
            best = max(best, found, key=len)
            if len(best) >= _ENOUGH * count:
                break
        self.uses.update(one.concept.id for one in best)
        return best

    def _grown(
        self, count: int, domains: frozenset[str], wanted: frozenset[str], chance: random.Random
    ) -> list[Placed]:
        growing = _Growing(self, domains, wanted, chance, generic=math.ceil(_GENERIC_SHARE * count))
        growing.start()
        for _ in range(_MOVES_EACH * count):
            if len(growing.placed) >= count:
                break
            growing.step()
        return growing.placed

    def of_kind(self, kind: str, *, head: bool) -> list[Concept]:
        """The concepts that things of this kind may be heads of, or tails."""
        index = self._by_head if head else self._by_tail
        return [concept for one in wider(kind) for concept in index[one]]


@dataclass
class _Growing:
    stock: Stock
    domains: frozenset[str]
    wanted: frozenset[str]
    chance: random.Random
    generic: int  # how many relations of anything may still come
    placed: list[Placed] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)  # that are no literals

    def start(self) -> None:
        every = [entry.concept for entry in self.stock.entries.values() if entry.concept.tail not in LITERALS]
        home = [concept for concept in every if concept.domain in self.domains]
        self._place(self._drawn(home or every))

    def step(self) -> None:
        (move,) = self.chance.choices(list(_MOVES), list(_MOVES.values()))
        near = self.chance.choice(self.placed)
        kind = self.chance.choice(self.kinds)
        if move == "near":
            options = self.stock.of_kind(near.head, head=True)
            options = [one for one in options if near.tail in fitting(one.tail, [near.tail])]
            options = [one for one in options if one.head != one.tail or near.head == near.tail]
        elif move == "where":
            places = [one.tail for one in self.placed if one.concept.where]
            kind = self.chance.choice(places) if places else kind
            options = [one for one in self.stock.of_kind(kind, head=True) if one.where]
        elif move == "value":
            options = [one for one in self.stock.of_kind(kind, head=True) if one.tail in LITERALS]
        else:
            head = self.chance.random() < 0.5
            options = [one for one in self.stock.of_kind(kind, head=head) if one.tail not in LITERALS]
        there = {one.concept.id for one in self.placed}
        anything = _GENERIC in self.domains or self.generic > 0
        options = [one for one in options if one.id not in there and (anything or one.domain != _GENERIC)]
        if options:
            self._place(self._drawn(options), near if move == "near" else None, kind)

    def _drawn(self, options: Sequence[Concept]) -> Concept:
        weights = [
            (_HOME if one.domain in self.domains else 1.0)
            * (_WANTED if one.id in self.wanted else 1.0)
            * (_PLACES if one.where else 1.0)
            * (_LIKE if one.head == one.tail else 1.0)
            * (_ORDINARY_WEIGHT if one.id in _ORDINARY else 1.0)
            / (1 + self.stock.uses[one.id]) ** 1.5
            for one in options
        ]
        return self.chance.choices(options, weights)[0]

    def _place(self, concept: Concept, near: Placed | None = None, kind: str = "") -> None:
        if near is not None:
            head, tail = near.head, near.tail
        else:
            first = [kind] if kind and kind in fitting(concept.head, [kind]) else self.kinds
            head = self.chance.choice(fitting(concept.head, first))
            last = [kind] if kind and kind in fitting(concept.tail, [kind]) and head != kind else self.kinds
            same = concept.head == concept.tail
            tail = head if same else self.chance.choice(fitting(concept.tail, last))
        placed = Placed(concept, head, tail)
        if self._clashes(placed):
            return
        self.placed.append(placed)
        self.generic -= concept.domain == _GENERIC
        self.kinds += [one for one in dict.fromkeys((head, tail)) if one not in (*self.kinds, *LITERALS)]

    def _clashes(self, new: Placed) -> bool:
        """Whether a question about the same kind would be asked in the same words, or the two kinds have enough."""
        entry = self.stock.entries[new.concept.id]
        between = 0
        for old in self.placed:
            other = self.stock.entries[old.concept.id]
            between += (old.head, old.tail) == (new.head, new.tail)
            if (old.head == new.head and entry.forward & other.forward) or (
                old.tail == new.tail and entry.backward & other.backward
            ):
                return True
            crossed = (old.head == new.tail and entry.backward & other.forward) or (
                old.tail == new.head and entry.forward & other.backward
            )
            if crossed:
                return True
        return between >= _MOST_BETWEEN


def _entry(concept: Concept) -> _Entry:
    return _Entry(
        concept,
        frozenset(map(_plain, concept.forward + concept.forward_nouns)),
        frozenset(map(_plain, concept.backward + concept.backward_nouns)),
        frozenset(map(label_key, concept.labels)),
        frozenset(map(label_key, concept.inverse_labels)),
    )


def _plain(text: str) -> str:
    return text.lower().rstrip("?!. ")
