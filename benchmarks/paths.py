"""Search and verify against the gold paths of datasets that have them: is the gold chain found, and how much beside it?

Run: python benchmarks/paths.py DATA [--sets metaqa,pq-3h,webqsp-fbpool] [--split dev] [--limit N] [--hops 3] [--json]

DATA holds a folder a set (kg.tsv.gz, dev.jsonl.gz). The paths are found without the gold ones, as `kgwalk paths find`
does; then after each stage: the share of questions whose gold chain (topic, relations, directions) is among the chains
left, any of them and all of them; chains a question; and the share of chains that are not gold. A chain that is not
gold may still be right: "children" backwards is "parents" forwards, and shortest paths (webqsp-fbpool) are weak gold.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kgwalk.data.dataset import load_dataset
from kgwalk.training.paths import Candidates, SplitPaths
from kgwalk.types import Question
from kgwalk.walk.facts import chain_of

SETS = "metaqa,pq-3h,webqsp-fbpool"


def measure(questions: Sequence[Question], asked: Sequence[Candidates], stage: str) -> dict[str, Any]:
    """What is left after a stage, over the questions that have a gold chain."""
    any_, all_, chains, gold_left, counted = 0, 0, 0, 0, 0
    by_hops: dict[str, list[bool]] = {}
    for question, one in zip(questions, asked, strict=True):
        paths = (chain_of(path, question.topic_entities) for path in question.gold_paths or [])
        gold = {(chain.topic, chain.ways) for chain in paths if chain is not None}
        if not gold:
            continue
        left = {(chain.found.chain.topic, chain.found.chain.ways) for chain in one.left}
        counted += 1
        any_, all_ = any_ + bool(gold & left), all_ + (gold <= left)
        chains, gold_left = chains + len(left), gold_left + len(gold & left)
        by_hops.setdefault(str(question.hops), []).append(bool(gold & left))
    return {
        "stage": stage,
        "questions": counted,
        "gold_chain": any_ / counted,
        "all_gold_chains": all_ / counted,
        "chains_a_question": chains / counted,
        "not_gold": 1 - gold_left / max(1, chains),
        "gold_chain_by_hops": {hops: sum(found) / len(found) for hops, found in sorted(by_hops.items())},
    }


def run(folder: Path, split: str, limit: int | None, seed: int, hops: int, *, embed: bool) -> dict[str, Any]:
    dataset = load_dataset(folder)
    questions = dataset.questions(split)
    if limit is not None and limit < len(questions):
        questions = random.Random(seed).sample(questions, limit)
    dataset.graph()
    rows: list[dict[str, Any]] = []
    started = time.process_time()
    finding = SplitPaths.of(questions, dataset.graph_for, hops=hops, embed=embed)

    def note(stage: str) -> None:
        row = measure(questions, finding.asked, stage)
        rows.append(row | {"seconds": time.process_time() - started})

    finding.watch = note
    finding.progress = lambda what, done, total: _tell(folder.name, done, total)
    finding.search()
    finding.apply_rules()
    finding.agree()
    return {"name": folder.name, "split": split, "hops": hops, **finding.as_json(), "stages": rows}


def _tell(name: str, done: int, total: int) -> None:
    if done % 250 == 0 or done == total:
        print(f"{name} {done:,} of {total:,}", file=sys.stderr)


def print_table(results: Sequence[dict[str, Any]]) -> None:
    columns = ("gold chain", "all of them", "chains", "not gold", "CPU s")
    for result in results:
        head = f"{result['name']} {result['split']}, {result['stages'][0]['questions']:,} questions"
        print(f"{head:40} " + " ".join(f"{column:>11}" for column in columns))
        for row in result["stages"]:
            cells = (row["gold_chain"], row["all_gold_chains"], row["chains_a_question"], row["not_gold"])
            print(f"  {row['stage']:38} " + " ".join(f"{cell:11.3f}" for cell in cells) + f" {row['seconds']:11.1f}")
        by = ", ".join(f"{hops}: {share:.3f}" for hops, share in result["stages"][-1]["gold_chain_by_hops"].items())
        print(f"  at the end, by hops: {by}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("data", type=Path, help="the folder that holds a folder a set")
    parser.add_argument("--sets", default=SETS, help="names separated by commas; %(default)s")
    parser.add_argument("--split", default="dev")
    parser.add_argument("--limit", type=int, help="a sample of so many questions a set; all")
    parser.add_argument("--seed", type=int, default=0, help="of the sample; %(default)s")
    parser.add_argument("--hops", type=int, default=3, help="%(default)s")
    parser.add_argument("--words", action="store_true", help="go by words even where MiniLM is installed")
    parser.add_argument("--json", action="store_true", help="one object on stdout")
    given = parser.parse_args()
    results = [
        run(given.data / name, given.split, given.limit, given.seed, given.hops, embed=not given.words)
        for name in given.sets.split(",")
    ]
    print(json.dumps({"sets": results}, ensure_ascii=False)) if given.json else print_table(results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
