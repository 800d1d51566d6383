"""Does `kgwalk fit` pay on a processor? Users' graphs asked before and after a fit of some minutes.

    python -m benchmarks.users.fit --set fresh --graph hospital --graph wines --minutes 4

The questions are people's; the fit never sees them: it makes worked examples of the graph, and keeps them beside it
unless they make it worse on questions of its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from benchmarks.users.graphs import UserGraph, dev, fresh, practice
from benchmarks.users.run import Asked, run

SETS = {"dev": dev, "practice": practice, "fresh": fresh}


def gain(graph: UserGraph, who: Asked, minutes: float) -> dict[str, object]:
    """F1 of a graph's questions before and after, how many changed, and whether the fit kept its examples."""
    kept: list[bool] = []

    def fit(store: Path) -> None:
        command = [sys.executable, "-m", "kgwalk", "fit", str(store), "--minutes", str(minutes), "--no-train"]
        subprocess.run([*command, "-o", str(store.parent / "fit")], check=True, stdout=sys.stderr)
        kept.append(store.with_name(f"{store.name}.examples.jsonl").exists())

    before, after = ([one.f1 for one in run([graph], who, prepare=prepare)] for prepare in (None, fit))
    changed = [late - soon for soon, late in zip(before, after, strict=True)]
    return {
        "graph": graph.name,
        "questions": len(before),
        "before": round(float(np.mean(before)), 4),
        "after": round(float(np.mean(after)), 4),
        "better": sum(one > 0 for one in changed),
        "worse": sum(one < 0 for one in changed),
        "kept": kept[0],
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.users.fit", description=__doc__.splitlines()[0])
    parser.add_argument("--set", choices=SETS, default="fresh", help="whose graphs (default: %(default)s)")
    parser.add_argument("--graph", action="append", help="only the graph of this name; may be repeated")
    parser.add_argument("--minutes", type=float, default=4, help="of each fit (default: %(default)s)")
    parser.add_argument("--engine", default="cpu", help="as for `kgwalk ask` (default: %(default)s)")
    given = parser.parse_args(arguments)
    graphs = [graph for graph in SETS[given.set]() if not given.graph or graph.name in given.graph]
    if not graphs:
        parser.error(f"no such graph; there are {', '.join(graph.name for graph in SETS[given.set]())}")
    for graph in graphs:
        print(json.dumps(gain(graph, Asked(engine=given.engine), given.minutes)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
