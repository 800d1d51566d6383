"""Episodes into padded tensors, a microbatch at a time, cut so that each fits a budget of tokens.

Sequences of like length go together, so that little is padding. Which go together changes nothing that is learned: the
losses of microbatches add up to that of the batch (`loss`). Knows nothing of models or of what the numbers mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch

from kgwalk.types import Flat, KgwalkError


@dataclass(frozen=True)
class Batch:
    """B sequences padded on the right to T tokens; entry [b, t] belongs to token t of sequence b."""

    ids_BT: torch.Tensor
    attention_BT: torch.Tensor  # 1 on tokens, 0 on padding
    position_BT: torch.Tensor  # 0, 1, 2, ... from the first token on
    mask_BT: torch.Tensor  # True on the tokens the model wrote
    old_logprobs_BT: torch.Tensor  # of those, as the engine that drew them reported; else 0
    advantages_BT: torch.Tensor  # of those; else 0

    def to(self, device: torch.device | str) -> Batch:
        return Batch(*(getattr(self, part.name).to(device, non_blocking=True) for part in fields(self)))


def microbatches(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Indices of sequences that go together: in each list, the longest length times the count is within `budget`.

    Every index is in one list. The longest come first, so that memory that is too small shows at once; a sequence
    longer than the budget is alone.

    >>> microbatches([5, 3, 9, 2, 3], 10)
    [[2], [0, 1], [4, 3]]
    """
    if budget < 1:
        raise KgwalkError(f"the budget of a microbatch is at least 1 token; it is {budget}")
    batches: list[list[int]] = []
    longest = 0
    for index in sorted(range(len(lengths)), key=lambda index: (-lengths[index], index)):
        if batches and longest * (len(batches[-1]) + 1) <= budget:
            batches[-1].append(index)
        else:
            batches.append([index])
            longest = lengths[index]
    return batches


def padded_tokens(lengths: Sequence[int], batches: Sequence[Sequence[int]]) -> int:
    """Tokens that are computed, padding among them.

    >>> padded_tokens([5, 3, 9, 2, 3], [[2], [0, 1], [4, 3]])  # 9 + 2*5 + 2*3; without padding 22
    25
    """
    return sum(len(batch) * max(lengths[index] for index in batch) for batch in batches)


def collate(flats: Sequence[Flat], advantages: Sequence[Sequence[float]] | None, pad_id: int) -> Batch:
    """The sequences side by side. `advantages` has a number for each token (`token_advantages`); None: all 0, for SFT.

    >>> short = Flat([5, 6], [0, 1], [0.0, -0.5], [-1, 0])
    >>> long = Flat([5, 7, 8], [0, 1, 0], [0.0, -2.0, 0.0], [-1, 0, -1])
    >>> batch = collate([short, long], [[0.0, 1.5], [0.0, -1.0, 0.0]], pad_id=9)
    >>> batch.ids_BT
    tensor([[5, 6, 9],
            [5, 7, 8]])
    >>> batch.mask_BT
    tensor([[False,  True, False],
            [False,  True, False]])
    >>> batch.advantages_BT
    tensor([[ 0.0000,  1.5000,  0.0000],
            [ 0.0000, -1.0000,  0.0000]])
    """
    if not flats:
        raise KgwalkError("a microbatch needs at least one sequence")
    rows = [[0.0] * len(flat.ids) for flat in flats] if advantages is None else advantages
    for number, (flat, row) in enumerate(zip(flats, rows, strict=True)):
        parts: dict[str, Sequence[float]] = {
            "ids": flat.ids,
            "mask": flat.mask,
            "logprobs": flat.logprobs,
            "advantages": row,
        }
        if len({len(part) for part in parts.values()}) > 1:
            counts = ", ".join(f"{len(part)} {name}" for name, part in parts.items())
            raise KgwalkError(f"sequence {number} has {counts}; each token needs one of each")
    T = max(len(flat.ids) for flat in flats)
    lengths_B = torch.tensor([len(flat.ids) for flat in flats])
    position_T = torch.arange(T)
    return Batch(
        ids_BT=_padded([flat.ids for flat in flats], T, pad_id, torch.long),
        attention_BT=(position_T < lengths_B[:, None]).long(),
        position_BT=position_T.expand(len(flats), T),
        mask_BT=_padded([flat.mask for flat in flats], T, 0, torch.bool),
        old_logprobs_BT=_padded([flat.logprobs for flat in flats], T, 0.0, torch.float32),
        advantages_BT=_padded(rows, T, 0.0, torch.float32),
    )


def _padded(rows: Sequence[Sequence[float]], length: int, fill: float, dtype: torch.dtype) -> torch.Tensor:
    out = torch.full((len(rows), length), fill, dtype=dtype)
    for at, row in enumerate(rows):
        out[at, : len(row)] = torch.tensor(row, dtype=dtype)
    return out
