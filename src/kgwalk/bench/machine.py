"""What the machine is and can do: its device, its rates, its memory, and the goals that hold on it."""

from __future__ import annotations

import gc
import resource
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from kgwalk.bench.rows import Figure

COPIED = {"cuda": 1 << 30, "cpu": 1 << 26}  # bytes: far more than any cache holds
SIDE = {"cuda": 8192, "cpu": 512}  # of the square matrices
AT_ONCE = 8  # copies or products in one measurement: starting the first must not count


@dataclass(frozen=True, slots=True)
class Machine:
    """`device` as torch names it; `dtype` is what the engine computes in on it."""

    device: str

    @classmethod
    def of(cls, asked: str) -> Machine:
        """`auto` is the GPU if there is one. A name that does not exist is an error only when a model is put there."""
        return cls(("cuda" if torch.cuda.is_available() else "cpu") if asked == "auto" else asked)

    @property
    def kind(self) -> str:
        return self.device.partition(":")[0]

    @property
    def on_gpu(self) -> bool:
        return self.kind == "cuda"

    @property
    def dtype(self) -> str:
        return "bfloat16" if self.on_gpu else "float32"

    @property
    def name(self) -> str:
        return torch.cuda.get_device_name(self.device) if self.on_gpu else "processor"

    def sync(self) -> None:
        """Waits until the device has done its work."""
        if self.on_gpu:
            torch.cuda.synchronize(self.device)

    def seconds(self, run: Callable[[], Any], rounds: int, before: Callable[[], Any] = lambda: None) -> list[float]:
        """How long each round took; `before` runs first and is not counted."""
        found = []
        for _ in range(rounds):
            before()
            self.sync()
            begun = time.perf_counter()
            run()
            self.sync()
            found.append(time.perf_counter() - begun)
        return found

    def median(self, run: Callable[[], Any], rounds: int, before: Callable[[], Any] = lambda: None) -> float:
        return statistics.median(self.seconds(run, rounds, before))

    def bandwidth(self) -> float:
        """Bytes that a copy reads and writes in a second, at best."""
        source = torch.zeros(COPIED.get(self.kind, COPIED["cpu"]), dtype=torch.uint8, device=self.device)
        target = torch.empty_like(source)

        def copy() -> None:
            for _ in range(AT_ONCE):
                target.copy_(source)

        copy()
        return 2 * AT_ONCE * source.numel() / min(self.seconds(copy, 3))

    def rate(self) -> float:
        """Operations a second of a matrix product in the machine's dtype, at best."""
        side = SIDE.get(self.kind, SIDE["cpu"])
        left = torch.randn(side, side, device=self.device).to(getattr(torch, self.dtype))
        out = torch.empty_like(left)

        def multiply() -> None:
            for _ in range(AT_ONCE):
                torch.mm(left, left, out=out)

        multiply()
        return AT_ONCE * 2 * side**3 / min(self.seconds(multiply, 3))

    # Memory, in MB

    def free(self) -> None:
        """Frees memory that is no longer used, and starts counting the most from here."""
        gc.collect()
        if self.on_gpu:
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats(self.device)

    def held(self) -> dict[str, float]:
        """Memory in use now, by host and GPU."""
        held = {"host": host_memory()}
        if self.on_gpu:
            held["GPU"] = torch.cuda.memory_reserved(self.device) / 1e6
        return held

    def most(self) -> dict[str, float]:
        """The most memory that was in use: on the host since the process began, on a GPU since `free`."""
        most = {"host": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6}
        if self.on_gpu:
            most["GPU"] = torch.cuda.max_memory_reserved(self.device) / 1e6
        return most

    def most_rows(self, label: str) -> list[Figure]:
        return [Figure(f"{label}: {name} memory, most", value, "MB") for name, value in self.most().items()]


def host_memory() -> float:
    """Resident memory of this process; where the kernel does not say, the most it ever was."""
    status = Path("/proc/self/statm")
    if status.exists():
        return int(status.read_text().split()[1]) * resource.getpagesize() / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def growth_rows(
    label: str, early: dict[str, float], late: dict[str, float], goal: tuple[str, float] | None = None
) -> list[Figure]:
    """How many times as much memory is in use late as early."""
    return [Figure(f"{label}: {name} memory, growth", late[name] / early[name], "x", None, goal) for name in early]


# Goals, by the name of the figure. They are for one H200 and SmolLM2-135M; elsewhere a figure has none.

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


def with_goals(rows: Iterable[Figure], machine: Machine, config: Any) -> list[Figure]:
    """The rows with their goals, on the machine and model that goals are for; goals that they have already stay."""
    config = config.get_text_config()
    if CARD not in machine.name or (config.num_hidden_layers, config.hidden_size) != SIZE:
        return list(rows)
    return [replace(row, goal=row.goal or GOALS.get(row.name)) for row in rows]
