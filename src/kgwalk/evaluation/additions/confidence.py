"""How sure a proposed fact is: five features, each from 0 to 1, and their weights.

    confidence = 0.4 sentence + 0.3 fit + 0.2 agreed + 0.1 repeated - 0.3 taken, at least 0.01

The weights are set by hand so that each step can be told in words. A sentence that says it plainly, of things of the
right kinds, is worth proposing (0.7) and not yet worth adding without a look (0.8): for that the walk must have used
it (0.9) or a second document say it (0.8). Neither use nor repetition makes up for a wrong kind: 0.4 + 0.2 + 0.1 is
0.7. Knows nothing of where the features come from.
"""

from __future__ import annotations

from dataclasses import dataclass

WEIGHTS = {"sentence": 0.4, "fit": 0.3, "agreed": 0.2, "repeated": 0.1, "taken": -0.3}
LEAST = 0.01  # a confidence is above 0


@dataclass(frozen=True, slots=True)
class Features:
    """
    sentence: how plainly it says so: nearness of the names to the relation's words times the share of words there
    fit: whether both ends are of the kinds that the relation has in the graph (`Fit.of`)
    agreed: 1 if a walk searched for the other end later, or answered with it, or had it on an answer's path
    repeated: 1 if two independent documents say so
    taken: 1 if the relation has one value and the graph knows another
    """

    sentence: float
    fit: float
    agreed: float = 0.0
    repeated: float = 0.0
    taken: float = 0.0


def confidence(features: Features) -> float:
    """
    >>> confidence(Features(sentence=0.8, fit=1.0, agreed=1.0))
    0.82
    """
    total = sum(weight * getattr(features, name) for name, weight in WEIGHTS.items())
    return float(round(min(1.0, max(LEAST, total)), 4))
