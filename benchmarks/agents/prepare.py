"""Everything that needs no GPU: graphs built, worlds and questions made, demonstrations written."""

from __future__ import annotations

import gzip
import json
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.agents.experiments import (
    ABLATED,
    ABLATED_DEMOS,
    ABLATED_MADE,
    BUNDLED,
    COMPARED,
    FRESH,
    FRESH_WORLDS,
    HIERARCHY,
    KG_R1_WITHOUT,
    LEARNT,
    MADE,
    PAPERS,
    SETS,
)

LONGER = {"train": 4000, "dev": 300, "test": 1000}  # questions of two and three hops


def prepare(data: Path, work: Path, *, worlds: int, scale: float) -> None:
    """`data` has a folder for each set, and for each graph without questions. What is there is kept."""
    (work / "data").mkdir(parents=True, exist_ok=True)
    for name in (*SETS, *LEARNT):
        _dataset(data / name, work / "data" / name)
    _make_worlds(work, "worlds", worlds, seed=0)
    _make_worlds(work, FRESH_WORLDS, worlds // 8, seed=1)
    for name, (source, count) in MADE.items():
        graph = source if source == BUNDLED else str(data / source)
        wanted = ["--count", str(round(count * scale)), "--noise", "0.03", "--quiet"]
        _kgwalk(work / "data" / name, "questions", "make", graph, *wanted)
    _kgwalk(
        work / "data" / FRESH,
        "questions",
        "make",
        str(data / "cwq-fbpool"),
        "--seed",
        "1",
        "--count",
        "5000",
        "--quiet",
    )
    for name in (*SETS, *LEARNT, BUNDLED, *MADE, "worlds"):
        folder = name if name == BUNDLED else str(work / "data" / name)
        most = {"metaqa": 10_000, "worlds": 48_000}.get(name, 1_000_000)
        _demos(work, "kgwalk", folder, name, round(most * scale))
    _longer(work / "data" / "metaqa", work / "data" / "metaqa-23")
    for recipe in (*PAPERS, "kgwalk"):
        for name, count in COMPARED.items():
            _demos(work, recipe, str(work / "data" / name), f"{recipe}/{name}", round(count * scale))
    flat = KG_R1_WITHOUT[HIERARCHY]
    for name, values in {"kg-r1": (), f"kg-r1-without-{HIERARCHY}": flat, "eog": ()}.items():
        recipe = "eog" if name == "eog" else "kg-r1"
        for source, count in {ABLATED: COMPARED[ABLATED], ABLATED_MADE: ABLATED_DEMOS}.items():
            folder = str(work / "data" / source)
            _demos(work, recipe, folder, f"{name}/{source}", round(count * scale), *values)


def _dataset(source: Path, target: Path) -> None:
    """A set's questions, and its graph built: the folder needs nothing else. Sets of one graph have it twice."""
    if target.exists():
        return
    beside = _beside(target)
    for file in source.glob("*.jsonl.gz"):
        shutil.copy(file, beside)
    _kgwalk(beside / "graph.kg", "kg", "build", str(source / "kg.tsv.gz"), "--on-error", "skip")
    beside.rename(target)


def _beside(target: Path) -> Path:
    """An empty folder to fill, that becomes the target when it is whole."""
    beside = target.with_name(f".{target.name}")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir()
    return beside


def _longer(source: Path, target: Path) -> None:
    """Those questions of a set that take two hops or three: a seeded sample, over the same graph."""
    if target.exists():
        return
    beside = _beside(target)
    (beside / "graph.kg").symlink_to(Path("..") / source.name / "graph.kg")
    for split, count in LONGER.items():
        with gzip.open(source / f"{split}.jsonl.gz", "rt") as file:
            lines = [line for line in file if json.loads(line)["hops"] in (2, 3)]
        with gzip.open(beside / f"{split}.jsonl.gz", "wt") as file:
            file.writelines(random.Random(0).sample(lines, min(count, len(lines))))
    beside.rename(target)


def _make_worlds(work: Path, name: str, worlds: int, seed: int) -> None:
    """Without the phrasings that the sets' test questions have."""
    left_out = [word for name in SETS for word in ("--without-phrasings", str(work / "data" / name))]
    options = ["--worlds", str(worlds), "--per-world", "50", "--dated", "0.1", *left_out, "--quiet"]
    _kgwalk(work / "data" / name, "questions", "worlds", "--seed", str(seed), *options)


def _demos(work: Path, recipe: str, folder: str, name: str, most: int, *values: str) -> None:
    file = work / "demos" / f"{name}.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    others = [word for value in values for word in ("--set", value)]
    _kgwalk(file, "demos", recipe, "--data", folder, "--limit", str(most), "--tokenizer", "smollm2-135m", *others)


def _kgwalk(target: Path, *command: str) -> None:
    """A command that writes `target`, unless it is there."""
    if target.exists():
        return
    began = time.monotonic()
    subprocess.run([sys.executable, "-m", "kgwalk.cli.main", *command, "--output", str(target)], check=True)
    print(f"{target}: {time.monotonic() - began:.0f} s", file=sys.stderr)
