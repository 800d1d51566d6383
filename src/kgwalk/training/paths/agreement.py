"""The rule that needs all questions of a split: those that are worded alike should have chains in common.

    who directed films that Tom Hanks starred in     star backwards, director | star backwards, writer
    who directed films that Meg Ryan starred in      star backwards, director
    who directed films with Bill Paxton              star backwards, director | star backwards, star

A chain that fits one question by accident seldom fits the questions like it. Where most of the nearest questions (about
other topics) share a chain, the chains that few of them have go. Knows texts and chains, no graph.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from kgwalk.kg.normalise import normalise
from kgwalk.llm.embed import Embedder
from kgwalk.tools.facts import Way

LIKE = 0.7  # the least cosine of two questions that are worded alike
NEAREST = 10
LEAST = 3  # so many are needed
AGREED = 0.5  # of the nearest must have a chain before it can speak against others
SHARE = 0.5  # of the votes of the chain that has most
AT_ONCE = 512  # rows of a similarity matrix in memory

F32 = npt.NDArray[np.float32]
Ways = tuple[Way, ...]


def agreed(
    texts: Sequence[str], topics: Sequence[Sequence[str]], chains: Sequence[set[Ways]], embedder: Embedder | None
) -> list[set[Ways]]:
    """Of each question the chains that stay. `texts` are the questions without the names of their topics."""
    vectors_QD = _vectors(texts, embedder)
    kept: list[set[Ways]] = []
    for start in range(0, len(texts), AT_ONCE):
        like_BQ = vectors_QD[start : start + AT_ONCE] @ vectors_QD.T
        for row, like_Q in enumerate(like_BQ):
            at = start + row
            votes, voters = _votes(at, like_Q, topics, chains)
            kept.append(_stay(chains[at], votes, voters))
    return kept


def _votes(
    at: int, like_Q: F32, topics: Sequence[Sequence[str]], chains: Sequence[set[Ways]]
) -> tuple[Counter[Ways], int]:
    near = np.flatnonzero(like_Q >= LIKE)
    votes: Counter[Ways] = Counter()
    voters = 0
    for other in near[np.argsort(-like_Q[near], kind="stable")].tolist():
        if not chains[other] or set(topics[other]) & set(topics[at]):
            continue  # of the same topic, chains are alike for other reasons
        votes.update(chains[other])
        voters += 1
        if voters == NEAREST:
            break
    return votes, voters


def _stay(chains: set[Ways], votes: Counter[Ways], voters: int) -> set[Ways]:
    """
    >>> director, writer = (Way("director", True),), (Way("writer", True),)
    >>> _stay({director, writer}, Counter({director: 4, writer: 1}), 5) == {director}
    True
    >>> _stay({director, writer}, Counter({director: 2, writer: 0}), 5) == {director, writer}
    True
    """
    most = max((votes[one] for one in chains), default=0)
    if voters < LEAST or most < AGREED * voters:
        return set(chains)
    return {one for one in chains if votes[one] >= SHARE * most}


def _vectors(texts: Sequence[str], embedder: Embedder | None) -> F32:
    """A row of length 1 for each text: of its meaning, or of its words, where a rare word weighs more."""
    distinct = list(dict.fromkeys(texts))
    rows: F32 = embedder.embed(distinct) if embedder is not None else _worded(distinct)
    place = {text: at for at, text in enumerate(distinct)}
    return rows[[place[text] for text in texts]]


def _worded(texts: Sequence[str]) -> F32:
    bags = [set(_terms(text)) for text in texts]
    held = Counter(term for bag in bags for term in bag)
    place = {term: at for at, term in enumerate(held)}
    rows_QT = np.zeros((len(texts), max(1, len(place))), np.float32)
    for at, bag in enumerate(bags):
        for term in bag:
            rows_QT[at, place[term]] = math.log(len(texts) / held[term]) + 0.1  # also of one that all have
    unit_QT: F32 = rows_QT / np.maximum(np.linalg.norm(rows_QT, axis=1, keepdims=True), 1e-9)
    return unit_QT


def _terms(text: str) -> Iterable[str]:
    """Words, and pairs of neighbours: "directed by" is not "by directed".

    >>> list(_terms("Who wrote it"))
    ['who', 'wrote', 'it', 'who wrote', 'wrote it']
    """
    terms = normalise(text).split()
    return [*terms, *(f"{one} {two}" for one, two in pairwise(terms))]
