"""What this project sets itself, by the name of the figure. Knows which machine and model the goals are for.

They are for one H200 and SmolLM2-135M; elsewhere a figure has no goal.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from kgwalk.bench.machine import Machine
from kgwalk.bench.rows import Row

GOALS: dict[str, tuple[str, float]] = {
    "decode, batch 1,024, context 512": (">=", 100_000),
    "decode, batch 1,024, context 512: times generate": (">=", 40),
    "decode, batch 1,024, context 512: share of the roofline": (">=", 0.4),
    "kgwalk on metaqa: episodes": (">=", 1000),
    "kgwalk on metaqa: device, idle": ("<=", 0.25),
    "kgwalk on cwq-fbpool: episodes": (">=", 400),
    "kgwalk on cwq-fbpool: device, idle": ("<=", 0.25),
    "kg-r1 on metaqa: episodes": (">=", 150),
    "kg-r1 on metaqa: device, idle": ("<=", 0.25),
    "kgwalk on metaqa, 1,024 episodes: step": ("<=", 3),
    "kgwalk on cwq-fbpool, 1,024 episodes: step": ("<=", 6),
}
CARD = "H200"
SIZE = (30, 576)  # layers and width of SmolLM2-135M


def with_goals(rows: Iterable[Row], machine: Machine, config: Any) -> list[Row]:
    """The rows, those among them that have a goal with it; goals that they brought along stay."""
    config = config.get_text_config()
    if CARD not in machine.name or (config.num_hidden_layers, config.hidden_size) != SIZE:
        return list(rows)
    return [replace(row, goal=row.goal or GOALS.get(row.name)) for row in rows]
