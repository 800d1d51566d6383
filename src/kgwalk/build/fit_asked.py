"""What a fit was asked for, resolved, and the names of what it writes.

Knows nothing of how it is carried out.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kgwalk.config.recipe import Recipe
from kgwalk.kg.store import StoredGraph
from kgwalk.training.loop import Progress

MINUTES = {"cpu": 40.0, "cuda": 8.0}
QUESTIONS = {"cpu": 1500, "cuda": 8000}  # to learn from, at most, unless told
PLAN, REPORT, ASKED, TRAINED, BEFORE, AFTER = "plan.json", "fit.json", "questions", "train", "before", "after"


@dataclass(frozen=True, kw_only=True)
class Fit:
    """What was asked for, resolved. `start` is an adapter to go on from."""

    graph: StoredGraph
    name: str
    recipe: Recipe
    path: Path
    minutes: float
    count: int
    seed: int
    start: Path | None
    device: str
    engine: str
    smoke: bool
    values: tuple[str, ...]  # of the recipe, anew: they are in it, and count for more than the plan's
    progress: Progress

    @property
    def store(self) -> Path:
        return Path(self.graph.store.folder.path).resolve()

    def settings(self) -> dict[str, Any]:
        """What decides what is computed; how fast it is computed decides, too, and is kept in plan.json."""
        return {
            "graph": str(self.store),
            "digest": self.graph.store.digest,
            "recipe": self.recipe.name,
            "sections": self.recipe.resolved(),
            "minutes": self.minutes,
            "count": self.count,
            "seed": self.seed,
            "start": None if self.start is None else str(self.start.resolve()),
            "smoke": self.smoke,
        }


def kind_of(device: str) -> str:
    """Of a device: cpu or cuda."""
    if device == "auto":
        import torch

        return "cuda" if torch.cuda.is_available() else "cpu"
    return "cuda" if device.startswith("cuda") else "cpu"
