"""How much of what a question needs stands in Explore-on-Graph's prompt: gold facts, answers; by room and selection.

Run: python benchmarks/subgraph.py DATA [--sets metaqa,webqsp-fbpool] [--split dev] [--limit N] [--hops 2,3] [--json]

DATA holds a folder a set. For each selection (`protocol.select`), reach in hops and room in tokens (four bytes each):
`facts`, the mean share of the gold paths' facts that stand in the prompt; `answers`, the mean share of answers that do;
`any`, the share of questions of which any answer does.
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

from kgwalk.data.dataset import Dataset, load_dataset
from kgwalk.score.exploration import gold_facts
from kgwalk.systems.eog.protocol import Eog
from kgwalk.types import Question, Triple
from kgwalk.walk.environment import environment_for
from kgwalk.walk.subgraph import SELECT, choose, scored_facts, write_row

SETS = "metaqa,webqsp-fbpool"
ROOMS = (500, 1000, 2000, 3000, 6000)


def tokens(text: str) -> int:
    return -(-len(text.encode()) // 4)


def shares(question: Question, facts: Sequence[Triple]) -> tuple[float, float, float]:
    told = {fact._replace(time="") for fact in facts}
    names = {name for fact in told for name in (fact.head, fact.tail)}
    gold, answers = gold_facts(question), set(question.answers)
    found = len(answers & names) / max(1, len(answers))
    return len(gold & told) / max(1, len(gold)), found, float(found > 0)


def measure(dataset: Dataset, questions: Sequence[Question], select: str, hops: int) -> list[dict[str, Any]]:
    rows = {room: [0.0, 0.0, 0.0] for room in ROOMS}
    seconds = 0.0
    for question in questions:
        graph = dataset.graph_for(question)
        embedder = environment_for(graph, Eog()).embed
        if embedder is not None:
            embedder.embed([question.question])  # remembered: the model's time is not the selection's
        started = time.process_time()
        reached = scored_facts(
            graph, question.topic_entities, question.question, select=select, embedder=embedder, hops=hops
        )
        seconds += time.process_time() - started
        cost = {one.fact: tokens(write_row(one.fact) + ",\n") for one in reached}
        for room, sums in rows.items():
            chosen = choose(reached, room - 1, cost.__getitem__)
            found = shares(question, [one.fact.triple for one in chosen])
            rows[room] = [one + more for one, more in zip(sums, found, strict=True)]
    total = len(questions)
    return [
        {
            "select": select,
            "hops": hops,
            "tokens": room,
            **dict(zip(("facts", "answers", "any"), (one / total for one in sums), strict=True)),
            "ms": 1000 * seconds / total,
        }
        for room, sums in rows.items()
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("data", type=Path, help="the folder that holds a folder a set")
    parser.add_argument("--sets", default=SETS, help="names separated by commas; %(default)s")
    parser.add_argument("--split", default="dev")
    parser.add_argument("--limit", type=int, default=300, help="a sample of so many questions a set; %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="of the sample; %(default)s")
    parser.add_argument("--hops", default="2,3", help="reaches separated by commas; %(default)s")
    parser.add_argument("--json", action="store_true", help="one object on stdout")
    given = parser.parse_args()
    results = []
    if not given.json:
        print(f"{'set':15} {'select':10} {'hops':>4} {'tokens':>6} {'facts':>6} {'answers':>7} {'any':>6} {'ms':>6}")
    for name in given.sets.split(","):
        dataset = load_dataset(given.data / name)
        questions = dataset.questions(given.split)
        if given.limit < len(questions):
            questions = random.Random(given.seed).sample(questions, given.limit)
        for hops in map(int, given.hops.split(",")):
            for select in SELECT:
                for row in measure(dataset, questions, select, hops):
                    results.append({"name": name, "questions": len(questions), **row})
                    if not given.json:
                        print_row(results[-1])
    if given.json:
        print(json.dumps({"rows": results}))
    return 0


def print_row(row: dict[str, Any]) -> None:
    what = f"{row['name']:15} {row['select']:10} {row['hops']:4} {row['tokens']:6}"
    print(f"{what} {row['facts']:6.3f} {row['answers']:7.3f} {row['any']:6.3f} {row['ms']:6.1f}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
