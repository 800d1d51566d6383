"""Which texts come nearest to a query, and which candidate entities to a question.

Texts are ranked by meaning where there is an embedder, else by their words and letters: then "born in" is far from
"place_of_birth". Candidates have a `Ranker` (KG-Reasoner, section 4.2.2): by text (`TextRanker`), by shared words
(`Bm25Ranker`), or by the paper's trained network, which stands behind the same interface in walk/ranker.py. `Recalls`
measures a ranking.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from kgwalk.kg.find import similarity
from kgwalk.kg.graph import Graph
from kgwalk.kg.names import normalise, split_words
from kgwalk.llm.embeddings import Embedder
from kgwalk.types import Triple

F64 = npt.NDArray[np.float64]

# A trained ranker is a folder of these two files; what it reads of a candidate is one of INPUTS (walk/ranker.py).
RANKER_WEIGHTS, RANKER_CARD = "ranker.safetensors", "ranker.json"
INPUTS = ("joined", "paper", "code")


def scores(query: str, texts: Sequence[str], embedder: Embedder | None = None) -> F64:
    """How near each text is to the query; more is nearer. Names written as one word are read as their words."""
    if not texts:
        return np.empty(0)
    spoken = [split_words(text) for text in texts]
    if embedder is not None:
        query_D, texts_ND = embedder.embed([split_words(query)])[0], embedder.embed(spoken)
        # What differs by less depends on how the texts were batched.
        return np.asarray(texts_ND @ query_D, np.float64).round(5)
    plain = normalise(split_words(query))
    return similarity(plain, [normalise(text) for text in spoken]) if plain else np.zeros(len(texts))


def rank(query: str, texts: Sequence[str], embedder: Embedder | None = None) -> list[int]:
    """Places of the texts, the nearest to the query first; among equals, in the order given.

    >>> rank("works_written", ["book.author.works_written", "people.person.nationality", "written_works"])
    [2, 0, 1]
    """
    order: list[int] = np.argsort(-scores(query, texts, embedder), kind="stable").tolist()
    return order


@dataclass(frozen=True, slots=True)
class Candidate:
    """An entity where a walk may go next, and the facts that join it to where the walk stands."""

    name: str
    facts: tuple[Triple, ...]


@runtime_checkable
class Ranker(Protocol):
    def score(self, question: str, candidates: Sequence[Candidate], graph: Graph) -> Sequence[float]:
        """How relevant each candidate is to the question; more is better. The graph is there for its neighbours."""
        ...


@dataclass(frozen=True, slots=True)
class TextRanker:
    """Scores a candidate by its best fact: the relation's words and the candidate's name, beside the question."""

    embedder: Embedder | None = None

    def score(self, question: str, candidates: Sequence[Candidate], graph: Graph) -> Sequence[float]:
        texts = [f"{split_words(fact.relation)} {one.name}" for one in candidates for fact in one.facts]
        each = iter(scores(question, texts, self.embedder).tolist())
        return [max((next(each) for _ in one.facts), default=0.0) for one in candidates]


@dataclass(frozen=True, slots=True)
class Bm25Ranker:
    """Okapi BM25 over the candidates of one expansion: they are ranked by the words they share with the question.

    A candidate's document is the words of the relations that lead to it and its name, so a word that all candidates
    have weighs little. k1 and b have their usual values; the idf is ln(1 + (n - df + 0.5) / (df + 0.5)), which is never
    negative.
    """

    k1: float = 1.5
    b: float = 0.75

    def score(self, question: str, candidates: Sequence[Candidate], graph: Graph) -> Sequence[float]:
        documents = [Counter(_words(_text(one))) for one in candidates]
        return self.weigh(_words(question), documents)

    def weigh(self, query: Sequence[str], documents: Sequence[Counter[str]]) -> list[float]:
        """Documents "a b" and "c" with the query "a": n 2, df 1, idf ln 2 = 0.693; mean length 1.5.

        The first: 0.693 * 1 * 2.5 / (1 + 1.5 * (0.25 + 0.75 * 2 / 1.5)) = 0.603; the second: 0.
        """
        count = len(documents)
        mean = sum(document.total() for document in documents) / max(1, count) or 1.0
        scores = [0.0] * count
        for word in dict.fromkeys(query):
            having = [at for at, document in enumerate(documents) if word in document]
            idf = math.log(1 + (count - len(having) + 0.5) / (len(having) + 0.5))
            for at in having:
                often, length = documents[at][word], documents[at].total()
                scores[at] += idf * often * (self.k1 + 1) / (often + self.k1 * (1 - self.b + self.b * length / mean))
        return scores


def _text(one: Candidate) -> str:
    relations = dict.fromkeys(split_words(fact.relation) for fact in one.facts)
    return " ".join([*relations, split_words(one.name)])


def _words(text: str) -> list[str]:
    return normalise(split_words(text)).split()


# How good a ranking is


CUTS = (1, 5, 10)


def best_first(scores: Sequence[float]) -> list[int]:
    """Places by score, the highest first; among equals, in the order given.

    >>> best_first([0.1, 0.7, 0.7])
    [1, 2, 0]
    """
    order: list[int] = np.argsort(-np.asarray(scores, np.float64), kind="stable").tolist()
    return order


def recall_at(ranked: Sequence[str], gold: Collection[str], k: int) -> float:
    """The share of the gold names that stand among the first k. A gold name that is nowhere counts as missed.

    >>> recall_at(["a", "b", "c"], {"b", "c"}, 2), recall_at(["a", "b", "c"], {"c", "z"}, 3)
    (0.5, 0.5)
    """
    return sum(name in gold for name in ranked[:k]) / len(gold)


@dataclass
class Recalls:
    """Means over expansions: `recall` as above, and `hit`, whether any gold name is among the first k."""

    cuts: tuple[int, ...] = CUTS
    _rows: list[list[float]] = field(default_factory=list)

    def add(self, ranked: Sequence[str], gold: Collection[str]) -> None:
        shares = [recall_at(ranked, gold, k) for k in self.cuts]
        self._rows.append([*shares, *(float(share > 0) for share in shares)])

    def means(self) -> dict[str, float]:
        names = [f"{kind}@{k}" for kind in ("recall", "hit") for k in self.cuts]
        if not self._rows:
            return dict.fromkeys(names, 0.0)
        return dict(zip(names, np.mean(self._rows, axis=0).tolist(), strict=True))


def best_of(score_R: Iterable[float], candidate_of_R: Iterable[int], count: int) -> list[float]:
    """A candidate's score is that of its best row; -1, below any probability, where it has none.

    >>> best_of([0.2, 0.9, 0.4], [0, 0, 1], 3)
    [0.9, 0.4, -1.0]
    """
    best = [-1.0] * count
    for score, candidate in zip(score_R, candidate_of_R, strict=True):
        best[candidate] = max(best[candidate], score)
    return best
