"""An embedder whose vectors a reader can work out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


class Letters:
    """An embedder that can be checked by hand: the count of each letter, scaled to length 1."""

    name = "letters"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        self.asked += texts
        counts_N26 = np.array([[t.lower().count(chr(97 + i)) for i in range(26)] for t in texts], np.float32)
        counts_N26 = counts_N26.reshape(-1, 26)  # also of no texts
        unit_N26: npt.NDArray[np.float32] = counts_N26 / np.maximum(
            np.linalg.norm(counts_N26, axis=1, keepdims=True), 1e-9
        )
        return unit_N26
