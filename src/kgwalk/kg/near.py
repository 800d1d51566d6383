"""The nearest of a few names to a text: relations, or the entities of a small subgraph.

Compares with every name given; for all the names of a graph there is `find.Finder`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kgwalk.kg.find import LEAST_SCORE, similarity
from kgwalk.kg.normalise import normalise
from kgwalk.types import Found


def find_among(text: str, names: Sequence[str], k: int) -> list[Found]:
    """The k names nearest to the text, best first; among equals, in the order given. None is better than a far one."""
    query = normalise(text)
    plain = [normalise(name) for name in names]
    score_N = similarity(query, plain) if query else np.zeros(len(names))
    exact = [2.0 if name == text else 1.0 if same == query else 0.0 for name, same in zip(names, plain, strict=True)]
    order = np.lexsort((np.arange(len(names)), -score_N, -np.array(exact)))[:k]
    found = [_found(names[at], exact[at], float(score_N[at])) for at in order.tolist()]
    return [one for one in found if one.score >= LEAST_SCORE]


def _found(name: str, exact: float, score: float) -> Found:
    how = {2.0: "exact", 1.0: "normalised"}.get(exact, "fuzzy")
    return Found(name, score if how == "fuzzy" else 1.0, how)
