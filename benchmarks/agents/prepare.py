"""Everything that needs no GPU: graphs built, worlds and questions made, demonstrations written."""

from __future__ import annotations

import gzip
import json
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.agents.experiments import (
    ABLATED_DEMOS,
    ABLATED_MADE,
    BUNDLED,
    COMPARED,
    EXPERIMENTS,
    FRESH,
    FRESH_WORLDS,
    KG_R1_WITHOUT,
    LEARNT,
    MADE,
    SETS,
    VALIDATED,
    checked,
    plain,
)

WORLDS = "worlds"
LONG, LONG_OF = "metaqa-23", "metaqa"
LONGER = {"train": 4000, "dev": 300, "test": 1000}  # questions of two and three hops


def prepare(data: Path, work: Path, *, worlds: int, scale: float, names: Sequence[str] = ()) -> None:
    """`data` has a folder for each set, and for each graph without questions. What is there is kept. With `names` only
    what these experiments need, and those that they start from.
    """
    wanted = needed(names or EXPERIMENTS)
    (work / "data").mkdir(parents=True, exist_ok=True)
    for name in (name for name in (*SETS, *LEARNT) if name in wanted.data):
        _dataset(data / name, work / "data" / name)
    if LONG in wanted.data:
        _longer(work / "data" / LONG_OF, work / "data" / LONG)
    for name, (count, seed) in {WORLDS: (worlds, 0), FRESH_WORLDS: (worlds // 8, 1)}.items():
        if name in wanted.data:
            _make_worlds(work, name, count, seed)
    for name, (source, count) in MADE.items():
        if name in wanted.data:
            graph = source if source == BUNDLED else str(data / source)
            _make(work, name, graph, "--count", str(round(count * scale)), "--noise", "0.03")
    if FRESH in wanted.data:
        _make(work, FRESH, str(data / "cwq-fbpool"), "--seed", "1", "--count", "5000")
    for name in sorted(wanted.demos):
        recipe, source, values = demonstrated(name)
        folder = source if source == BUNDLED else str(work / "data" / source)
        _demos(work, recipe, folder, name, round(most_of(name) * scale), *values)


@dataclass(frozen=True)
class Needed:
    """Names of questions, and of demonstrations."""

    data: frozenset[str]
    demos: frozenset[str]


def needed(names: Iterable[str]) -> Needed:
    """By experiments and all that they start from; demonstrations are made from questions, long ones are a part.

    >>> found = needed(["eog-on-metaqa-23"])
    >>> sorted(found.data), sorted(found.demos)
    (['metaqa', 'metaqa-23'], ['eog/metaqa-23'])
    """
    data: set[str] = set()
    demos: set[str] = set()
    for name in started(names):
        experiment = EXPERIMENTS[name]
        demos |= experiment.demos.keys()
        data |= {plain(one) for one in (*experiment.data, *experiment.tests)}
        data |= set(map(plain, VALIDATED)) if experiment.demos and not experiment.data else set()
        data |= {experiment.fitted} if experiment.fitted else set()
    data |= {demonstrated(name)[1] for name in demos}
    data |= {LONG_OF} if LONG in data else set()
    data |= set(SETS) if data & {WORLDS, FRESH_WORLDS} else set()  # whose phrasings worlds leave out
    return Needed(frozenset(data), frozenset(demos))


def started(names: Iterable[str]) -> list[str]:
    """With what they start from, and so on.

    >>> started(["kg-r1-runs"])
    ['kg-r1-runs', 'kg-r1-without-nothing-0', 'kg-r1-start']
    """
    found: list[str] = []
    for name in checked(list(names)):
        each: str | None = name
        while each is not None and each not in found:
            found.append(each)
            each = EXPERIMENTS[each].start
    return found


def demonstrated(name: str) -> tuple[str, str, tuple[str, ...]]:
    """Of a file of demonstrations: the recipe, the questions, values of the recipe.

    >>> demonstrated("metaqa"), demonstrated("eog/metaqa-23")
    (('kgwalk', 'metaqa', ()), ('eog', 'metaqa-23', ()))
    >>> demonstrated("kg-r1-without-flat-relations/cwq-fbpool")
    ('kg-r1', 'cwq-fbpool', ('protocol.relation_format="hierarchical"',))
    """
    whose, _, source = name.rpartition("/")
    recipe, _, part = whose.partition("-without-")
    return recipe or "kgwalk", source, KG_R1_WITHOUT[part] if part else ()


def most_of(name: str) -> int:
    """How many demonstrations a file has at most."""
    whose, _, source = name.rpartition("/")
    if not whose:
        return {"metaqa": 10_000, WORLDS: 48_000}.get(source, 1_000_000)
    return ABLATED_DEMOS if source == ABLATED_MADE else COMPARED[source]


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


def _make(work: Path, name: str, graph: str, *options: str) -> None:
    _kgwalk(work / "data" / name, "questions", "make", graph, *options, "--quiet")


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
