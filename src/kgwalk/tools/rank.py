"""Which of some texts come nearest to a query: by meaning where there is an embedder, else by their words and letters.

Also the `Ranker` of candidate entities (KG-Reasoner, section 4.2.2): here by text; the paper's trained network stands
behind the same interface in `ranker/learned`. Without an embedder "born in" is far from "place_of_birth".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from kgwalk.kg.find import similarity
from kgwalk.kg.graph import Graph
from kgwalk.kg.normalise import normalise
from kgwalk.llm.embed import Embedder, words
from kgwalk.types import Triple

F64 = npt.NDArray[np.float64]


def scores(query: str, texts: Sequence[str], embedder: Embedder | None = None) -> F64:
    """How near each text is to the query; more is nearer. Names written as one word are read as their words."""
    if not texts:
        return np.empty(0)
    spoken = [words(text) for text in texts]
    if embedder is not None:
        query_D, texts_ND = embedder.embed([words(query)])[0], embedder.embed(spoken)
        # What differs by less depends on how the texts were batched.
        return np.asarray(texts_ND @ query_D, np.float64).round(5)
    plain = normalise(words(query))
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
        texts = [f"{words(fact.relation)} {one.name}" for one in candidates for fact in one.facts]
        each = iter(scores(question, texts, self.embedder).tolist())
        return [max((next(each) for _ in one.facts), default=0.0) for one in candidates]
