"""Rankers of candidate entities on several question sets: trained, timed, compared (docs/guides/ranking.md).

Run: OMP_NUM_THREADS=1 python benchmarks/ranker.py DATA [--sets metaqa,pq-3h,webqsp-fbpool] [--split dev]
         [--limit 300] [--train-limit 3000] [--epochs 6] [--paper] [--visited-last] [--output runs/rankers] [--json]

DATA holds a folder a set, with kg.tsv.gz and {train,dev,test}.jsonl.gz. A ranker that is there already in the folder
--output is not trained again. `--paper` adds the network with the inputs of the paper's equations alone.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kgwalk.data.dataset import load_dataset
from kgwalk.evaluation.ranking import ExpansionChoice, Trimmed, Unranked, compare_rankers
from kgwalk.kg.store import StoredGraph
from kgwalk.llm.embeddings import CachedEmbedder, MiniLM
from kgwalk.training.ranker import train_ranker
from kgwalk.training.settings import RankSettings
from kgwalk.walk.ranker import open_ranker, read_card
from kgwalk.walk.ranking import RANKER_CARD, Bm25Ranker, Ranker, TextRanker

SETS = "metaqa,pq-3h,webqsp-fbpool"


def measure(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """One set: its rankers trained as far as they are not there, then all compared."""
    dataset = load_dataset(options.data / name)
    graph = dataset.graph()
    assert isinstance(graph, StoredGraph)
    embedder = CachedEmbedder(MiniLM(), graph.store)
    plain = TextRanker(embedder)
    rankers: dict[str, Ranker] = {"no ranking": Unranked(), "BM25": Bm25Ranker()}
    rankers |= {"MiniLM": plain, "MiniLM, trimmed": Trimmed(plain)}
    seconds: dict[str, Any] = {}
    for inputs in ("joined", "paper") if options.paper else ("joined",):
        folder = options.output / f"{name}-{inputs}"
        if not (folder / RANKER_CARD).exists():
            train_ranker(
                dataset,
                folder,
                embedder,
                RankSettings(questions=options.train_limit, epochs=options.epochs, inputs=inputs),
            )
        label = "ranker" if inputs == "joined" else "ranker, paper's inputs"
        rankers[label] = open_ranker(folder, embedder)
        seconds[label] = read_card(folder)["seconds"]
    asked = ExpansionChoice(options.split, options.limit, visited_last=options.visited_last)
    return compare_rankers(dataset, rankers, asked) | {"seconds": seconds}


def lines(report: dict[str, Any]) -> Iterator[str]:
    """A set's part of the table, as Markdown."""
    yield (
        f"{report['data']}, {report['split']}: {report['n']} expansions of {report['questions']} questions, "
        f"{report['candidates']:.1f} candidates, {report['gold']:.2f} gold"
    )
    yield "| ranker | recall@1 | recall@5 | recall@10 | hit@5 | ms |"
    yield "|---|---|---|---|---|---|"
    for row in report["rows"]:
        figures = [row[key] for key in ("recall@1", "recall@5", "recall@10", "hit@5")]
        yield f"| {row['name']} | " + " | ".join(f"{value:.3f}" for value in figures) + f" | {row['ms']:.1f} |"
    for label, spent in report["seconds"].items():
        yield f"{label}: trained in {spent['all']} s, {spent['processor']} s of the processor"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--sets", default=SETS)
    parser.add_argument("--split", default="dev")
    parser.add_argument("--limit", type=int, default=300)
    parser.add_argument("--train-limit", type=int, default=3000)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--paper", action="store_true")
    parser.add_argument("--visited-last", action="store_true")
    parser.add_argument("--output", type=Path, default=Path("runs/rankers"))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    reports = []
    for name in options.sets.split(","):
        reports.append(measure(name, options))
        print("\n".join(lines(reports[-1])), file=sys.stderr if options.json else sys.stdout, flush=True)
    if options.json:
        print(json.dumps({"sets": reports}, indent=2))


if __name__ == "__main__":
    main()
