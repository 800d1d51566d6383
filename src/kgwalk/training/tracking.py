"""Where the numbers of a run go: `metrics.jsonl` always, and TensorBoard, Weights & Biases or Trackio if asked.

Knows no stage of training by name.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

from kgwalk.config.recipe import unknown
from kgwalk.runs.rows import Rows, read_rows
from kgwalk.types import KgwalkError

METRICS = "metrics.jsonl"
SINKS = ("none", "tensorboard", "wandb", "trackio")


class Tracking:
    """Numbers by step. Opening it again for a step drops what was written after that step: it will come anew."""

    def __init__(self, folder: Path, stage: str, *, report_to: str = "tensorboard", after: int = 0) -> None:
        check_tracker(report_to)
        self.folder, self.stage = folder, stage
        path = folder / METRICS
        keep_rows(path, lambda row: row.get("stage") != stage or row["step"] <= after)
        self._rows = Rows(path)
        self._sink = _sink(report_to, folder, stage, after)

    def log(self, step: int, values: dict[str, float]) -> None:
        self._rows.add({"stage": self.stage, "step": step, **values})
        if self._sink is not None:
            self._sink.log({f"{self.stage}/{name}": value for name, value in values.items()}, step=step)

    def close(self) -> None:
        self._rows.close()
        if self._sink is not None:
            self._sink.finish()


def check_tracker(name: str) -> None:
    """That there is such a tracker here. TensorBoard may be missing: it is the default, and metrics.jsonl has all."""
    if name not in SINKS:
        raise unknown("tracker", name, SINKS)
    if name not in ("none", "tensorboard") and importlib.util.find_spec(name) is None:
        raise KgwalkError(f"--report-to {name} needs the package {name}: pip install {name}")


def keep_rows(path: Path, kept_if: Callable[[dict[str, Any]], bool]) -> None:
    """Drop the other rows of a file: steps that are taken again will write them again."""
    rows = list(read_rows(path))
    kept = [row for row in rows if kept_if(row)]
    if len(kept) == len(rows):
        return
    beside = path.with_name(f".{path.name}.partial")
    beside.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in kept))
    os.replace(beside, path)


class _TensorBoard:
    def __init__(self, folder: Path, after: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer: Any = SummaryWriter(str(folder), purge_step=after + 1)  # type: ignore[no-untyped-call,unused-ignore]

    def log(self, values: dict[str, float], step: int) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def finish(self) -> None:
        self._writer.close()


def _sink(name: str, folder: Path, stage: str, after: int) -> Any:
    """An object with log(values, step) and finish(); None if there is none."""
    if name == "none" or importlib.util.find_spec(name) is None:
        return None
    if name == "tensorboard":
        return _TensorBoard(folder / "tensorboard", after)
    # the two have the same interface
    return importlib.import_module(name).init(project="kgwalk", name=f"{folder.resolve().parent.name}-{stage}")
