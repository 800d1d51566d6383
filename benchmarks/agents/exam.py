"""One agent on the test splits of the public sets, with one start of its model: F1 and Hits@1 of each, tokens written.

    python -m benchmarks.agents.exam WORK/data runs/agent/adapter --model qwen2.5-coder-0.5b -o exam.json

DATA has a folder for each set, as `python -m benchmarks.agents prepare` makes it. Of metaqa's 26,835 questions a seeded
sample is asked; what a set's test split is a part of stands in docs/results.md.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kgwalk.data.mixture import load_data
from kgwalk.evaluation.evaluate import evaluate

SETS = {"metaqa": 536, "pq-3h": None, "wc2014": None, "webqsp-fbpool": None, "cwq-fbpool": None, "timequestions": None}
SHOWN = ("n", "f1", "hits_at_1", "generated_tokens")


def exam(data: Path, adapter: str, *, model: str | None, engine: str, split: str = "test") -> dict[str, dict[str, Any]]:
    """The figures of each set, by its name."""
    named = [str(data / name) if most is None else f"{data / name}:{most}" for name, most in SETS.items()]
    found = evaluate("kgwalk", load_data(named), split, engine=engine, model=model, adapter=adapter, progress=_tell)
    return {name: {key: round(one[key], 4) for key in SHOWN} for name, one in found["by"]["dataset"].items()}


def _tell(what: str, done: int, total: int | None, figures: Mapping[str, float] = {}, /) -> None:
    if total and done % 500 == 0:
        print(f"{what}: {done} of {total}", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="An agent on the test splits of the public sets.")
    parser.add_argument("data", type=Path, help="a folder with a folder for each set")
    parser.add_argument("adapter", help="the agent: an adapter's folder, or shipped")
    parser.add_argument("--model", help="a model's name or file (default: that of the agent)")
    parser.add_argument("--engine", default="local", help="as for `kgwalk eval` (default: %(default)s)")
    parser.add_argument("--split", default="test", help="whose questions (default: %(default)s)")
    parser.add_argument("-o", "--output", type=Path, help="a file for the figures (default: printed)")
    given = parser.parse_args()
    found = exam(given.data, given.adapter, model=given.model, engine=given.engine, split=given.split)
    text = json.dumps(found, indent=1)
    given.output.write_text(text + "\n") if given.output else print(text)


if __name__ == "__main__":
    main()
