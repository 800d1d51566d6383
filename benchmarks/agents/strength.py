"""The papers' systems trained alone on one GPU until they stop improving: an adapter each, its tests and its curve.

A folder of adapters/ called SYSTEM-SET is one such training (benchmarks/agents/papers.sh makes it): the adapter, the
reports of `kgwalk eval` after SFT and after GRPO, and what GRPO wrote down, a row a step.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from benchmarks.agents.curves import F1, Curve, Panel, curve, drawn
from benchmarks.agents.markdown import amount, counted, difference, share, table
from benchmarks.agents.measured import Measured

from kgwalk.config.run_folder import read_json, read_rows

ADAPTERS = Path(__file__).parents[2] / "adapters"
AFTER_SFT, AFTER_GRPO, CURVE = "test-after-sft.json", "test-after-grpo.json", "grpo-curve.jsonl"
VALIDATED = "eval_f1"
OVER = 10  # steps: each asks other questions, so its reward says little
_NAME = re.compile(r"(?P<system>kg-r1|graph-rft|kg-reasoner|kg-hopper|eog|kgwalk)-(?P<set>.+)")


@dataclass(frozen=True)
class Trained:
    """One system on one set."""

    folder: Path
    system: str
    data: str

    @cached_property
    def sft(self) -> dict[str, Any]:
        return dict(read_json(self.folder / AFTER_SFT))

    @cached_property
    def grpo(self) -> dict[str, Any]:
        return dict(read_json(self.folder / AFTER_GRPO))

    @cached_property
    def steps(self) -> list[dict[str, Any]]:
        return list(read_rows(self.folder / CURVE))


def trained() -> list[Trained]:
    """All of adapters/ that have a curve, by name."""
    found = []
    for folder in sorted(ADAPTERS.iterdir()):
        name = _NAME.fullmatch(folder.name)
        if name is not None and (folder / CURVE).is_file():
            found.append(Trained(folder, name["system"], name["set"]))
    return found


def at_strength(measured: Measured) -> str | None:
    """Each system after SFT and after GRPO. The same whatever was measured: the reports lie beside the adapters."""
    rows = []
    for one in trained():
        before, after = (report["metrics"] for report in (one.sft, one.grpo))
        minutes = sum(row["seconds"] for row in one.steps) / 60
        rows.append(
            [
                one.system,
                one.data,
                counted([one.grpo["n"]]),
                share(before["f1"], one.sft["intervals"]["f1"]),
                share(after["f1"], one.grpo["intervals"]["f1"], best=True),
                difference(after["f1"], before["f1"]),
                *(share(after[key]) for key in ("hits_at_1", "retrieval_rate")),
                *(amount(after[key]) for key in ("generated_tokens", "turns")),
                f"{len(one.steps)}, {amount(minutes)}",
            ]
        )
    head = ["system", "questions", "n", "F1 after SFT", "then GRPO", "difference", "Hits@1", "retrieval rate"]
    return table([*head, "tokens written", "turns", "steps of GRPO, minutes"], rows)


def plots(folder: Path) -> list[Path]:
    """A figure a system: F1 on dev questions and the reward in training, by step."""
    made = []
    for one in trained():
        dev, reward = curve(one.steps, VALIDATED), curve(one.steps, "reward")
        panels = [_panel("dev", F1, dev), _panel(f"training (mean of {OVER} steps)", "reward", reward, OVER)]
        made.append(drawn(panels, folder / f"{one.folder.name}.png"))
    return made


def _panel(title: str, unit: str, points: Curve, over: int = 1) -> Panel:
    return Panel(title, unit, [points], over)
