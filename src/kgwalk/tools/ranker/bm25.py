"""Candidates ranked by the words they share with the question: Okapi BM25, exact, over one expansion.

A candidate's document is the words of the relations that lead to it and its name; the collection is the candidates of
the expansion, so a word that all of them have weighs little. Knows nothing of meaning: "directed" is not "director".
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from kgwalk.kg.graph import Graph
from kgwalk.kg.normalise import normalise
from kgwalk.llm.embed import words
from kgwalk.tools.rank import Candidate


@dataclass(frozen=True, slots=True)
class Bm25Ranker:
    """A `Ranker`. k1 and b have their usual values; the idf is ln(1 + (n - df + 0.5) / (df + 0.5)), never negative."""

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
    relations = dict.fromkeys(words(fact.relation) for fact in one.facts)
    return " ".join([*relations, words(one.name)])


def _words(text: str) -> list[str]:
    return normalise(words(text)).split()
