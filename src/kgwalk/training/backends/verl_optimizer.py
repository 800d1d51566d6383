"""The native trainer's AdamW, as verl builds optimisers: `optim.optimizer_impl` names this module.

verl gives all weights the same decay; natively biases and the weights of norms have none (KG-R1, appendix D.4).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch


def AdamW(
    parameters: Iterable[torch.nn.Parameter], *, weight_decay: float, betas: Iterable[float], **options: Any
) -> torch.optim.AdamW:
    """One group with decay, of matrices, and one without, of all else.

    >>> layer = torch.nn.Linear(2, 3)
    >>> [(group["weight_decay"], len(group["params"])) for group in
    ...     AdamW(layer.parameters(), weight_decay=0.5, betas=(0.9, 0.95), lr=1e-3).param_groups]
    [(0.5, 1), (0.0, 1)]
    """
    learning = [parameter for parameter in parameters if parameter.requires_grad]
    decayed = [parameter for parameter in learning if parameter.ndim >= 2]
    others = [parameter for parameter in learning if parameter.ndim < 2]
    groups = [{"params": decayed, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]
    first, second = betas
    return torch.optim.AdamW([group for group in groups if group["params"]], betas=(first, second), **options)
