"""Which kind a question is about that names none: a small model over what the graph says of each kind.

    "anything over two hours?"      films, which have a running time
    "who started before 2000"       drivers: people, with a date of employment

Each class of the graph gets a score, the weighted sum of its `FEATURES`; the largest is meant. The weights are those of
a softmax regression, fitted by `benchmarks/kind_choice.py` on questions whose kind was taken out of their text, and
measured with one graph left out at a time.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from kgwalk.kg.store import Store, StoredGraph
from kgwalk.walk.kinds import OF_TYPE, SAMPLED, Kind, class_name, kinds_of
from kgwalk.walk.name_lookup import is_naming, last_words
from kgwalk.walk.question_words import FUNCTION_WORDS, OVER_ALL, SAME_PROPERTY, SAY_PEOPLE, WHO, Text, is_common, stem
from kgwalk.walk.values import value_of, values_in
from kgwalk.walk.word_vectors import WIDTH, noun_share, vector

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
WEIGHTS = Path(__file__).parent / "kind_choice.json"
FEATURES = (
    "head",  # how near the question's first noun is to the kind's name
    "name",  # how near any of its words is
    "relations",  # how near its words are to the kind's relations, added up
    "nearest relation",
    "date",  # it has a date, and so has the kind
    "number",
    "people",  # it asks who, and the kind is one of people
    "size",  # the kind's share of all things
    "pointed at",  # how many relations of other kinds lead to it
    "keys",  # the share of its relations that lead to other things: large of a table that only joins others
    "same words",  # of the question and the kind's relations
    "narrow",  # its things are of a larger kind as well
    "breadth",  # how many relations it has
)
# A question says something of a kind if one of these is as large
LEAST_SAID = {"name": 0.3, "nearest relation": 0.6, "date": 1.0, "number": 1.0, "people": 0.01, "same words": 1.0}
SOME = 5  # members that are looked at
MOST_MEMBERS = 20_000  # of each kind, whose kind is known when a relation leads to them
NEAR_NAME, NEAR_RELATION = 0.2, 0.4  # what is farther tells nothing
_YEAR = re.compile(r"(?:1[5-9]|20)\d\d(?:-.*)?")
_SAYS_WHEN = re.compile(
    r"(?:january|february|march|april|june|july|august|september|october|november|december"
    r"|year|date|day|recent|oldest|newest|latest|earliest|young(?:est)?)"
)
_TYPES = ("type", "is a", "kind", "rdf type")


class KindProfile(NamedTuple):
    """What is read of a kind once."""

    kind: Kind
    name_D: F32 | None
    relations_RD: F32
    stems: frozenset[str]
    dates: bool
    numbers: bool
    people: float  # how likely "who" is one of it
    size: float
    pointed_at: int
    keys: float
    narrow: bool
    breadth: int


class ChosenKind(NamedTuple):
    """A kind, how likely it is meant, and whether the question says anything of it at all: "hello" does not."""

    kind: Kind
    probability: float
    said: bool


def choose_kind(text: Text, graph: StoredGraph) -> list[ChosenKind]:
    """The classes of a graph, the likeliest first."""
    known = profiles(graph)
    if not known:
        return []
    features_KF = features(text, known)
    scores_K = features_KF @ weights()
    likely_K = np.exp(scores_K - scores_K.max())
    likely_K /= likely_K.sum()
    telling_KS = features_KF[:, [FEATURES.index(name) for name in LEAST_SAID]]
    said_K = np.any(np.greater_equal(telling_KS, np.array(list(LEAST_SAID.values()))), axis=1)
    order = np.argsort(-likely_K, kind="stable")
    return [ChosenKind(known[at].kind, float(likely_K[at]), bool(said_K[at])) for at in order]


@cache
def weights() -> F64:
    kept = json.loads(WEIGHTS.read_text(encoding="utf-8"))["weights"]
    return np.array([kept[name] for name in FEATURES])


def features(text: Text, known: Sequence[KindProfile]) -> F64:
    """A row for each kind, as `FEATURES` has them."""
    words = [
        word.plain
        for at, word in enumerate(text.words)
        if not text.function[at] and not text.digits[at] and len(word.plain) > 2 and word.plain not in OVER_ALL
    ]
    meant = [(word, row) for word in words if (row := vector(word)) is not None]
    telling = [row for word, row in meant if not is_common(word)]
    head = next((row for word, row in meant if noun_share(word) >= 0.5 and not is_common(word)), None)
    values = values_in(text.question)
    dated = any(map(_YEAR.fullmatch, values)) or any(_SAYS_WHEN.fullmatch(word.plain) for word in text.words)
    who = any(word.plain in SAY_PEOPLE or word.plain == "whos" for word in text.words)
    stems = spoken_stems(text)
    rows = []
    for one in known:
        near = [float((one.relations_RD @ row).max(initial=0.0)) for _, row in meant]
        rows.append(
            [
                _near([] if head is None else [head], one.name_D),
                _near(telling, one.name_D),
                sum(max(0.0, score - NEAR_RELATION) for score in near),
                max([0.0, *near]),
                dated and one.dates,
                bool(values) and not dated and one.numbers,
                who * one.people,
                math.sqrt(one.size),
                math.log1p(one.pointed_at),
                one.keys,
                min(3, len(stems & one.stems)),
                one.narrow,
                math.log1p(one.breadth),
            ]
        )
    return np.array(rows, float)


def _near(words: Iterable[F32], name: F32 | None) -> float:
    return 0.0 if name is None else max([0.0, *(float(word @ name) - NEAR_NAME for word in words)])


def spoken_stems(text: Text) -> set[str]:
    """The stems of a question's words, and of words for the same property: "earns" speaks of a salary."""
    words = [word.plain for word in text.words if word.plain not in FUNCTION_WORDS]
    stems = {stem(word) for word in words}
    return stems | {stem(other) for row in SAME_PROPERTY if not stems.isdisjoint(map(stem, row)) for other in row}


# What a graph says of its kinds

_PROFILES: WeakKeyDictionary[Store, list[KindProfile]] = WeakKeyDictionary()


def profiles(graph: StoredGraph) -> list[KindProfile]:
    """Of the first classes of a graph; read once a store."""
    if graph.store not in _PROFILES:
        kinds = list(islice((kind for kind in kinds_of(graph).values() if kind.how == OF_TYPE), SAMPLED))
        members = {kind: kind.members(graph) for kind in kinds}
        by_size = sorted(kinds, key=lambda kind: len(members[kind]))  # of two kinds of a thing, the larger one
        kind_of = {name: kind for kind in by_size for name in members[kind][:MOST_MEMBERS]}
        total = sum(map(len, members.values()))
        relations = {kind: _relations(members[kind], graph) for kind in kinds}
        pointed_at = dict.fromkeys(kinds, 0)
        for tails in (tails for found in relations.values() for tails in found.values()):
            if (leads_to := next((kind_of[name] for name in tails if name in kind_of), None)) is not None:
                pointed_at[leads_to] += 1
        _PROFILES[graph.store] = [
            _profile(kind, relations[kind], kind_of)._replace(
                size=len(members[kind]) / max(total, 1),
                pointed_at=pointed_at[kind],
                narrow=all(kind_of[name] != kind for name in members[kind][:SOME]),
            )
            for kind in kinds
        ]
    return _PROFILES[graph.store]


def _relations(members: Sequence[str], graph: StoredGraph) -> dict[str, list[str]]:
    """The relations of a kind that tell something, each with some of what it leads to."""
    names = dict.fromkeys(relation for member in members[:SOME] for relation in graph.relations(member))
    return {
        relation: [name for member in members[:SOME] for name in _neighbors(graph, member, relation)]
        for relation in names
        if last_words(relation) not in _TYPES and not is_naming(_OF_KEYS.sub("", last_words(relation)))
    }


def _neighbors(graph: StoredGraph, member: str, relation: str) -> Sequence[str]:
    return graph.neighbors(member, relation, limit=1).names if relation in graph.relations(member) else ()


_OF_KEYS = re.compile(r" (?:id|no|nr|code|number|key)$")


def _profile(kind: Kind, relations: dict[str, list[str]], things: Iterable[str]) -> KindProfile:
    """What the kind's name and relations tell; what other kinds tell of it is filled in later."""
    called = last_words(class_name(kind.name))
    words = [_OF_KEYS.sub("", last_words(name)) for name in relations]
    single = [word for name in words for word in name.split() if word not in FUNCTION_WORDS]
    rows = [row for word in dict.fromkeys([*words, *single]) if (row := vector(word)) is not None]
    dates = [any(map(_YEAR.fullmatch, tails)) for tails in relations.values()]
    numbers = [any(value_of(name) is not None for name in tails) for tails in relations.values()]
    keys = [not set(tails).isdisjoint(things) for tails in relations.values()]
    return KindProfile(
        kind,
        vector(called),
        np.array(rows, np.float32).reshape(-1, WIDTH),
        frozenset(stem(word) for name in [*words, called] for word in name.split()),
        any(dates),
        any(number and not date for number, date in zip(numbers, dates, strict=True)),
        max((_PEOPLE.get(stem(word), 0.0) for word in called.split()), default=0.0),
        0.0,
        0,
        sum(keys) / max(len(keys), 1),
        False,
        len(relations),
    )


# The likeliest first: an employee rather than a supplier
_PEOPLE = {stem(word): 1 - at / len(WHO) for at, word in reversed(list(enumerate(WHO)))}
