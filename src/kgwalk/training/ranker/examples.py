"""Rows with labels: facts on a gold path are relevant, facts beside them are not.

Some rows say neither and are left out: another fact that leads to a gold candidate; and, unless told otherwise, a fact
of the same relation and direction as a gold one, since gold paths often name a few of many right entities.
Knows no vectors and no network.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kgwalk.tools.facts import Way
from kgwalk.tools.rank import Candidate
from kgwalk.tools.ranker.features import I64, Encoder, Rows
from kgwalk.training.ranker.expansions import Expansion, Place
from kgwalk.types import Triple

RELEVANT, IRRELEVANT, NEITHER = 1, 0, -1


@dataclass(frozen=True, slots=True)
class Example:
    """The rows of one expansion that teach something, and what they teach."""

    rows: Rows
    label_R: I64


def labels(place: Place, candidates: Sequence[Candidate], *, siblings: bool) -> I64:
    """A label for each row. `siblings`: facts of a gold fact's own relation and direction count as irrelevant.

    At Tom Hanks, where (Big, starred_actors, Tom Hanks) is gold: that row is 1; (Cast Away, starred_actors, Tom Hanks)
    is left out (-1), or 0 with `siblings`; (Tom Hanks, born_in, Concord) is 0.
    """
    gold, taken = place.gold, {_way(fact, place.entity) for fact in place.facts}
    found: list[int] = []
    for one in candidates:
        for fact in one.facts:
            if Triple(*fact[:3]) in place.facts:
                found.append(RELEVANT)
            elif one.name in gold or (not siblings and _way(fact, place.entity) in taken):
                found.append(NEITHER)
            else:
                found.append(IRRELEVANT)
    return np.array(found, np.int64)


def example(expansion: Expansion, encoder: Encoder, *, negatives: int, siblings: bool, seed: str) -> Example | None:
    """At most `negatives` irrelevant rows, drawn, and as many relevant ones; None where one of the two is missing."""
    label_R = labels(expansion.place, expansion.candidates, siblings=siblings)
    draw = random.Random(seed)
    kept: list[int] = []
    for wanted in (RELEVANT, IRRELEVANT):
        rows = np.flatnonzero(label_R == wanted).tolist()
        if not rows:
            return None
        kept += rows if len(rows) <= negatives else draw.sample(rows, negatives)
    chosen = np.array(sorted(kept), np.int64)
    every = encoder.rows(expansion.place.question.question, expansion.candidates)
    return Example(every.only(chosen), label_R[chosen])


def _way(fact: Triple, entity: str) -> Way:
    return Way(fact.relation, fact.head == entity)
