"""What the ranker reads of candidates: texts to embed, and arrays of their places among these texts.

A row is one fact that leads to a candidate: (question, relation, direction, candidate). The candidate has neighbours
of its own, over which equation 1 attends; of a hub, some of each relation. There are only names and numbers here:
vectors and the network are in walk/ranker.py, labels in training.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import log1p

import numpy as np
import numpy.typing as npt

from kgwalk.kg.graph import Graph
from kgwalk.kg.names import normalise, split_words
from kgwalk.walk.facts import DirectedRelation, directed_relations
from kgwalk.walk.ranking import Candidate

I64 = npt.NDArray[np.int64]
F32 = npt.NDArray[np.float32]

# The numbers of a row, beside its texts.
NUMBERS = ("out", "degree", "beside", "source_named", "named")
MOST_WAYS = 64  # relations of a candidate that are looked at: a hub of Freebase has hundreds
MOST_BESIDE = 20  # candidates of one relation that are counted: a search reads no more of it


@dataclass(frozen=True)
class Near:
    """How many neighbours of a candidate are looked at: `most` in all, `each` of one relation and direction."""

    most: int = 12
    each: int = 3


@dataclass(frozen=True, slots=True)
class Entity:
    """A candidate's surroundings: (relation, neighbour) as places of texts, and how many facts it has."""

    name: int
    near_relation: tuple[int, ...]
    near_name: tuple[int, ...]
    degree: int


@dataclass(frozen=True)
class LabelledRows:
    """The rows of some expansions. Q questions, C candidates of one question each, R rows, N neighbours, K numbers."""

    question_Q: I64  # the question's text
    rest_Q: I64  # the same without the name of where the walk stands, if it is named: what is asked about it
    question_of_C: I64
    name_C: I64  # the candidate's text
    near_relation_CN: I64
    near_name_CN: I64  # -1 where there are fewer than N
    candidate_of_R: I64
    relation_R: I64
    numbers_RK: F32

    def __len__(self) -> int:
        return len(self.candidate_of_R)

    def only(self, kept: I64) -> LabelledRows:
        """These rows, and the candidates that they belong to."""
        candidates, places = np.unique(self.candidate_of_R[kept], return_inverse=True)
        return LabelledRows(
            question_Q=self.question_Q,
            rest_Q=self.rest_Q,
            question_of_C=self.question_of_C[candidates],
            name_C=self.name_C[candidates],
            near_relation_CN=self.near_relation_CN[candidates],
            near_name_CN=self.near_name_CN[candidates],
            candidate_of_R=places.astype(np.int64),
            relation_R=self.relation_R[kept],
            numbers_RK=self.numbers_RK[kept],
        )


class Texts:
    """Texts with their places, in the order in which they came: each is embedded once."""

    def __init__(self) -> None:
        self.all: list[str] = []
        self._place: dict[str, int] = {}

    def place(self, text: str) -> int:
        found = self._place.setdefault(text, len(self.all))
        if found == len(self.all):
            self.all.append(text)
        return found


class Encoder:
    """Makes the rows of expansions of one graph; what it has seen of an entity it keeps."""

    def __init__(self, graph: Graph, near: Near, texts: Texts) -> None:
        self.graph, self.near, self.texts = graph, near, texts
        self._entity: dict[str, Entity] = {}

    def rows(self, question: str, candidates: Sequence[Candidate]) -> LabelledRows:
        """The rows of one expansion: for each candidate, one for each of its facts, in their order."""
        known = [self._around(one.name) for one in candidates]
        plain = f" {normalise(question)} "
        beside: dict[DirectedRelation, int] = {}
        for _, way, _ in _leading(candidates):
            beside[way] = beside.get(way, 0) + 1
        relation: list[int] = []
        numbers: list[tuple[float, ...]] = []
        for at, way, source in _leading(candidates):
            relation.append(self.texts.place(split_words(way.relation)))
            few = (log1p(known[at].degree) / 5, log1p(min(beside[way], MOST_BESIDE)) / 5)  # of the order of 1
            numbers.append((way.out, *few, _names(plain, source), _names(plain, candidates[at].name)))
        return LabelledRows(
            question_Q=np.array([self.texts.place(split_words(question))], np.int64),
            rest_Q=np.array([self.texts.place(without_source(question, candidates))], np.int64),
            question_of_C=np.zeros(len(candidates), np.int64),
            name_C=np.array([one.name for one in known], np.int64),
            near_relation_CN=_padded([one.near_relation for one in known], self.near.most, 0),
            near_name_CN=_padded([one.near_name for one in known], self.near.most, -1),
            candidate_of_R=np.array([at for at, _, _ in _leading(candidates)], np.int64),
            relation_R=np.array(relation, np.int64),
            numbers_RK=np.array(numbers, np.float32).reshape(-1, len(NUMBERS)),
        )

    def _around(self, name: str) -> Entity:
        if name not in self._entity:
            self._entity[name] = self._look(name)
        return self._entity[name]

    def _look(self, name: str) -> Entity:
        """The first `each` neighbours of each relation in turn, as far as `most` reaches."""
        found: list[list[tuple[str, str]]] = []
        degree = 0
        for way in directed_relations(self.graph, name)[:MOST_WAYS] if name in self.graph else []:
            there = self.graph.neighbors(name, way.relation, out=way.out, limit=self.near.each)
            degree += there.total
            found.append([(way.relation, other) for other in there])
        # first of every relation, then second of every relation: all kinds are seen before any is seen again
        turns = [pairs[turn] for turn in range(self.near.each) for pairs in found if turn < len(pairs)]
        kept = turns[: self.near.most]
        return Entity(
            self.texts.place(split_words(name)),
            tuple(self.texts.place(split_words(relation)) for relation, _ in kept),
            tuple(self.texts.place(split_words(other)) for _, other in kept),
            degree,
        )


def joined(parts: Sequence[LabelledRows]) -> LabelledRows:
    """Rows of several expansions as one batch; texts keep their places."""
    questions = np.cumsum([0, *(len(part.question_Q) for part in parts)])
    candidates = np.cumsum([0, *(len(part.name_C) for part in parts)])
    return LabelledRows(
        question_Q=np.concatenate([part.question_Q for part in parts]),
        rest_Q=np.concatenate([part.rest_Q for part in parts]),
        question_of_C=np.concatenate([part.question_of_C + questions[at] for at, part in enumerate(parts)]),
        name_C=np.concatenate([part.name_C for part in parts]),
        near_relation_CN=np.concatenate([part.near_relation_CN for part in parts]),
        near_name_CN=np.concatenate([part.near_name_CN for part in parts]),
        candidate_of_R=np.concatenate([part.candidate_of_R + candidates[at] for at, part in enumerate(parts)]),
        relation_R=np.concatenate([part.relation_R for part in parts]),
        numbers_RK=np.concatenate([part.numbers_RK for part in parts]),
    )


def _leading(candidates: Sequence[Candidate]) -> Iterable[tuple[int, DirectedRelation, str]]:
    """For each fact: the place of its candidate, the way that leads there, and where it leads from."""
    for at, one in enumerate(candidates):
        for head, relation, tail, _ in one.facts:
            out = tail == one.name
            yield at, DirectedRelation(relation, out), head if out else tail


def _names(question: str, name: str) -> float:
    """Whether the question, with a space around it, has the name in it, as whole words."""
    plain = normalise(name)
    return float(bool(plain) and f" {plain} " in question)


def without_source(question: str, candidates: Sequence[Candidate]) -> str:
    """The question without the name of where its candidates lead from: "who directed Big?" at Big is "who directed"."""
    source = next((source for _, _, source in _leading(candidates)), "")
    plain, name = f" {normalise(question)} ", normalise(source)
    if not name or f" {name} " not in plain:
        return split_words(question)
    return " ".join(plain.replace(f" {name} ", " ").split())


def _padded(lists: Sequence[Sequence[int]], width: int, fill: int) -> I64:
    table = np.full((len(lists), width), fill, np.int64)
    for at, one in enumerate(lists):
        table[at, : len(one)] = one
    return table
