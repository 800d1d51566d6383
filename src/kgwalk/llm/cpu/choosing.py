"""Which token comes next, without torch: the local engine's rules on NumPy arrays, with the same draws.

Knows nothing of requests or models. Shape: V tokens of the vocabulary.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]


def choose(logits_V: Floats, temperature: float, top_p: float, draw: float) -> tuple[int, float]:
    """A token, and its log-probability at temperature 1 without top_p.

    Temperature 0 takes the likeliest token. Else the tokens are laid end to end on [0, 1), each as long as it is
    likely, and the draw points to one: in the vocabulary's order, or with top_p in that of likelihood.

    With probabilities 0.5, 0.1 and 0.4 a draw of 0.55 points into [0.5, 0.6), the second token's part:

    >>> number, logprob = choose(np.log(np.array([0.5, 0.1, 0.4])), 1.0, 1.0, 0.55)
    >>> number, round(float(np.exp(logprob)), 6)
    (1, 0.1)
    """
    numbers_V = logits_V.astype(np.float64)
    top = float(numbers_V.max())
    chosen = int(numbers_V.argmax()) if temperature == 0 else _pointed((numbers_V - top) / temperature, top_p, draw)
    logprob = float(numbers_V[chosen]) - top - float(np.log(np.exp(numbers_V - top).sum()))
    return chosen, logprob


def _pointed(scaled_V: NDArray[np.float64], top_p: float, draw: float) -> int:
    lengths_V = np.exp(scaled_V)
    if top_p >= 1:
        return _point(lengths_V, draw)
    order = np.argsort(-lengths_V, kind="stable")
    likely = lengths_V[order] / lengths_V.sum()
    before = np.cumsum(likely) - likely  # the fewest likeliest tokens that have top_p together; there is always one
    return int(order[_point(np.where(before < top_p, likely, 0.0), draw)])


def _point(lengths_V: NDArray[np.float64], draw: float) -> int:
    ends = np.cumsum(lengths_V)
    return min(int(np.searchsorted(ends, draw * ends[-1], side="right")), len(ends) - 1)
