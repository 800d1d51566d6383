"""Sampling by NumPy, for engines that run a model without torch: the rules and draws of the engine `local`.

Shape: V tokens of the vocabulary.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kgwalk.llm.automaton import TokenArray


def sample(
    logits_V: NDArray[np.floating], temperature: float, top_p: float, draw: float, allowed: TokenArray | None = None
) -> tuple[int, float]:
    """A token, one of those `allowed` if given, and its log-probability among them at temperature 1 without top_p.

    Temperature 0 takes the likeliest token. Otherwise the tokens are laid end to end on [0, 1), each as long as it is
    likely, and the draw points to one: in the vocabulary's order, or with top_p in that of likelihood.

    With probabilities 0.5, 0.1 and 0.4 a draw of 0.55 points into [0.5, 0.6), the second token's part:

    >>> number, logprob = sample(np.log(np.array([0.5, 0.1, 0.4])), 1.0, 1.0, 0.55)
    >>> number, round(float(np.exp(logprob)), 6)
    (1, 0.1)

    Where only the first two are allowed, their probabilities are 5/6 and 1/6:

    >>> number, logprob = sample(np.log(np.array([0.5, 0.1, 0.4])), 1.0, 1.0, 0.55, np.array([0, 1], np.int32))
    >>> number, round(float(np.exp(logprob)), 6)
    (0, 0.833333)
    """
    numbers_V = (logits_V if allowed is None else logits_V[allowed]).astype(np.float64)
    top = float(numbers_V.max())
    sampled = int(numbers_V.argmax()) if temperature == 0 else _by_draw((numbers_V - top) / temperature, top_p, draw)
    logprob = float(numbers_V[sampled]) - top - float(np.log(np.exp(numbers_V - top).sum()))
    return sampled if allowed is None else int(allowed[sampled]), logprob


def _by_draw(scaled_V: NDArray[np.float64], top_p: float, draw: float) -> int:
    lengths_V = np.exp(scaled_V)
    if top_p >= 1:
        return _invert_cdf(lengths_V, draw)
    order = np.argsort(-lengths_V, kind="stable")
    likely = lengths_V[order] / lengths_V.sum()
    before = np.cumsum(likely) - likely  # the fewest likeliest tokens that have top_p together; there is always one
    return int(order[_invert_cdf(np.where(before < top_p, likely, 0.0), draw)])


def _invert_cdf(lengths_V: NDArray[np.float64], draw: float) -> int:
    ends = np.cumsum(lengths_V)
    return min(int(np.searchsorted(ends, draw * ends[-1], side="right")), len(ends) - 1)
