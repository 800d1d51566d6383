"""Where each slot's generation stands, on the device: its last token, how many are left, its draws, how it ends.

A step reads and writes all of it without asking the host. A row stops when it has no tokens left or when it chose one
that may complete a stop text; the host looks at the text and lets it go on, or not. Knows nothing of models.
Shapes: N slots, M draws of a generation, K kinds of ends, C rows at most, V tokens of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from kgwalk.llm.choosing import choose_rows

KINDS = 8  # of ends that are told apart on the device; for further ones every token may be an end


class Start(NamedTuple):
    """How a row goes on whose cache holds `at` tokens. `last` is the token after them, if there is one to compute."""

    slot: int
    last: int
    at: int
    most: int
    temperature: float
    top_p: float
    draws: Sequence[float]
    kind: int


class SlotState:
    """`stops` is filled by `kind_of`; the last slot is nobody's and always has nothing left."""

    def __init__(self, slots: int, draws: int, rows: int, steps: int, vocabulary: int, device: torch.device) -> None:
        def zeros(*shape: int, dtype: torch.dtype = torch.long) -> torch.Tensor:
            return torch.zeros(*shape, dtype=dtype, device=device)

        self.device = device
        self.last, self.at = zeros(slots + 1), zeros(slots + 1)
        self.left, self.used, self.kind = zeros(slots + 1), zeros(slots + 1), zeros(slots + 1)
        self.temperature, self.top_p = (
            zeros(slots + 1, dtype=torch.float32),
            torch.ones(slots + 1, dtype=torch.float32, device=device),
        )
        self.draws = zeros(slots + 1, draws, dtype=torch.float64)
        self.stops = zeros(KINDS + 1, vocabulary, dtype=torch.uint8)
        self.stops[KINDS] = 1
        self.ends_KV = np.zeros((KINDS + 1, vocabulary), np.bool_)  # the same, for the host
        self.ends_KV[KINDS] = True
        self.turn = zeros(1)
        self.out_ids = torch.full((steps, rows), -1, device=device)
        self.out_logprobs = zeros(steps, rows, dtype=torch.float32)

    def set_kind(self, kind: int, ends: Sequence[int]) -> None:
        """The tokens with which a generation of this kind may end."""
        self.ends_KV[kind, list(ends)] = True
        self.stops[kind].copy_(torch.from_numpy(self.ends_KV[kind]))

    def begin(self, starts: Sequence[Start]) -> None:
        """From here on the rows choose."""
        most = max((len(one.draws) for one in starts), default=0)
        parts = np.zeros((len(starts), 2 + most))
        parts[:, :2] = [(one.temperature, one.top_p) for one in starts]
        for row, one in zip(parts, starts, strict=True):
            row[2 : 2 + len(one.draws)] = one.draws
        whole = np.array([(one.slot, one.at, one.most, one.kind, one.last) for one in starts], np.int64)
        numbers, reals = self.put(torch.from_numpy(whole)), self.put(torch.from_numpy(parts))
        slots = numbers[:, 0]
        self.at[slots], self.left[slots], self.kind[slots] = numbers[:, 1], numbers[:, 2], numbers[:, 3]
        self.last[slots] = numbers[:, 4]
        self.used.index_fill_(0, slots, 0)  # `used[slots] = 0` would wait for the device
        self.temperature[slots], self.top_p[slots] = reals[:, 0].float(), reals[:, 1].float()
        if most:
            self.draws[slots, :most] = reals[:, 2:]

    def put(self, numbers: torch.Tensor) -> torch.Tensor:
        """On the device, without waiting for what it is at work on: from memory that is not pinned a copy would."""
        if self.device.type != "cuda":
            return numbers.to(self.device)
        return numbers.pin_memory().to(self.device, non_blocking=True)

    def leave(self, slots: Sequence[int], left: Sequence[int]) -> None:
        """Let rows go on with so many tokens, or none."""
        self.left[self.put(torch.tensor(slots))] = self.put(torch.tensor(left))

    def advance(
        self, logits_RV: torch.Tensor, slots_R: torch.Tensor, *, move: bool, sampled: bool, nucleus: bool
    ) -> None:
        """Choose a token for each row that has some left. `move`: the token before it has just been computed.

        `sampled` and `nucleus` say whether any row has a temperature, and whether any has a top_p.
        """
        draw_R = self.draws.gather(1, self.used[:, None].clamp(max=self.draws.shape[1] - 1))[slots_R, 0]
        ids_R, logprobs_R = choose_rows(
            logits_RV,
            self.temperature[slots_R] if sampled else None,
            self.top_p[slots_R] if nucleus else None,
            draw_R,
        )
        left_R = self.left[slots_R]
        live_R = left_R > 0
        self.out_ids[self.turn, : len(ids_R)] = torch.where(live_R, ids_R, -1)[None]
        self.out_logprobs[self.turn, : len(ids_R)] = logprobs_R[None]
        ends_R = self.stops[self.kind[slots_R], ids_R] != 0
        self.last[slots_R] = torch.where(live_R, ids_R, self.last[slots_R])
        self.left[slots_R] = torch.where(live_R & ~ends_R, left_R - 1, 0)
        self.used[slots_R] += live_R.long()
        if move:
            self.at[slots_R] += live_R.long()
