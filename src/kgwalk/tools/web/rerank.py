"""A corpus whose best passages by words are put in order by meaning as well.

The first `among` passages by BM25 are ranked once by BM25 and once by the likeness of their vectors to the query's; a
passage gets 1 / (60 + rank) from each ranking, and the sum decides (reciprocal rank fusion, Cormack et al. 2009). Knows
nothing of how passages are found or embedded.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kgwalk.llm.embed import Embedder
from kgwalk.tools.web.local import LocalCorpus
from kgwalk.types import Document

AMONG = 20
DAMPING = 60  # the constant of the fusion, as its authors give it


class Reranked:
    """Another order of what a corpus finds. A query costs the vectors of `among` passages, unless they are kept."""

    def __init__(self, corpus: LocalCorpus, embedder: Embedder, *, among: int = AMONG) -> None:
        self.corpus, self.embedder, self.among = corpus, embedder, among

    def search(self, query: str, k: int = 3) -> list[Document]:
        found = [passage.document for passage, _ in self.corpus.ranked(query, max(k, self.among))]
        if len(found) < 2:
            return found[:k]
        texts = [f"{one.title}. {one.text}" for one in found]
        rows_ND = self.embedder.embed([query, *texts])
        likeness_N = rows_ND[1:] @ rows_ND[0]
        by_meaning = np.argsort(-likeness_N, kind="stable").tolist()
        return [found[at] for at in fused([range(len(found)), by_meaning])[:k]]


def fused(rankings: Sequence[Sequence[int]]) -> list[int]:
    """The items of several rankings in the order of their summed 1 / (60 + rank), ranks from 1.

    Item 0 has ranks 1 and 3, 1/61 + 1/63 = 0.03227; item 1 has 2 and 1, 0.03252; item 2 has 3 and 2, 0.03200.

    >>> fused([[0, 1, 2], [1, 2, 0]])
    [1, 0, 2]
    """
    scores: dict[int, float] = {}
    for ranking in rankings:
        for rank, item in enumerate(ranking, 1):
            scores[item] = scores.get(item, 0.0) + 1 / (DAMPING + rank)
    return sorted(scores, key=lambda item: -scores[item])
