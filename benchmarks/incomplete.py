"""F1 and use of the web by how much of the graph is hidden: the shape of Graph-RFT's Figures 3 and 4.

Run: python benchmarks/incomplete.py [--data world] [--split test] [--levels 0 0.2 0.4 0.6] [--web CORPUS]
         [--run LABEL=FOLDER ...] [--plot FILE] [--json]

The oracle walks each question's own relations, at each level once with a web and once over the graph alone: with a web
that knows what was hidden it stays at the top, alone it falls (Figure 4). Without --web the web is a corpus written
from the dataset's whole graph.

--run adds evaluations that were made before, such as of two graph-rft models, trained with and without the penalty, at
each level (Figure 3); the level is read from the folder. One label may have several folders:

    for drop in 0.2 0.4 0.6; do
        kgwalk eval graph-rft --data DIR --adapter A --graph-drop $drop --web CORPUS -o runs/with-$drop
    done
    python benchmarks/incomplete.py --run with=runs/with-0.2 --run with=runs/with-0.4 --run with=runs/with-0.6
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from kgwalk.config.run_folder import open_run
from kgwalk.data.dataset import Dataset, load_dataset
from kgwalk.evaluation.evaluate import evaluate
from kgwalk.evaluation.report import METRICS, check_finished
from kgwalk.kg.store import StoredGraph
from kgwalk.types import KgwalkError
from kgwalk.walk.web.graph_corpus import write_corpus
from kgwalk.walk.web.search import WebSearch, open_web

LEVELS = [0.0, 0.2, 0.4, 0.6]
NUMBERS = ("f1", "hits_at_1", "web_used", "web_calls", "web_failed")
Line = dict[str, Any]


def oracle_lines(data: str, split: str, levels: list[float], web: WebSearch | None) -> list[Line]:
    """Both oracles at each level."""
    found = []
    for label, given in (("oracle with web", web), ("oracle, graph only", None)):
        for level in levels:
            report = evaluate("oracle", data, split, values=[f"world.drop={level}"], web=given)
            found.append(line(label, level, report))
    return found


def line(label: str, level: float, report: dict[str, Any]) -> Line:
    groups = report["by"].get("graph", {})
    return {
        "label": label,
        "drop": level,
        "n": report["n"],
        **{name: report["metrics"][name] for name in NUMBERS},
        # without a table `graph` nothing was hidden
        "incomplete": groups.get("incomplete", {}).get("n", 0),
        "web_used_complete": groups.get("complete", {} if groups else report["metrics"]).get("web_used"),
        "web_used_incomplete": groups.get("incomplete", {}).get("web_used"),
    }


def run_line(text: str) -> Line:
    """An evaluation's folder as a line."""
    label, found, path = text.partition("=")
    if not found:
        raise KgwalkError(f"{text!r} is not LABEL=FOLDER, such as with-penalty=runs/eval-graph-rft")
    folder = open_run(Path(path))
    check_finished(folder)
    level = folder.about["settings"].get("world", {}).get("drop", 0.0)
    return line(label, level, folder.read(METRICS))


def corpus_of(dataset: Dataset, folder: Path) -> Path:
    graph = dataset.graph()
    if not isinstance(graph, StoredGraph):
        raise KgwalkError("only a store can be written as a corpus; give one with --web")
    write_corpus(graph, folder / "corpus.jsonl")
    return folder / "corpus.jsonl"


def table(lines: list[Line]) -> str:
    """Shares of questions, but for `calls`: web searches a question."""
    columns = ("", "drop", "questions", "incomplete", "F1", "Hits@1", "used the web", "of complete", "of incomplete")
    rows = [f"| {' | '.join((*columns, 'calls', 'failed'))} |", "|---" * 11 + "|"]
    for one in lines:
        shares = [one["f1"], one["hits_at_1"], one["web_used"], one["web_used_complete"], one["web_used_incomplete"]]
        numbers = ["" if value is None else f"{value:.3f}" for value in (*shares, one["web_calls"], one["web_failed"])]
        rows.append(f"| {one['label']} | {one['drop']:g} | {one['n']} | {one['incomplete']} | {' | '.join(numbers)} |")
    return "\n".join(rows)


def plot(lines: list[Line], file: Path) -> None:
    """F1 and web use by level, side by side; a curve a label."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for place, (name, words) in zip(axes, (("f1", "F1"), ("web_used", "share that used the web")), strict=True):
        for label in dict.fromkeys(one["label"] for one in lines):
            points = sorted((one["drop"], one[name]) for one in lines if one["label"] == label)
            place.plot(*zip(*points, strict=True), marker="o", label=label)
        place.set(xlabel="share of crucial facts hidden", ylabel=words, ylim=(0, 1.02))
        place.grid(alpha=0.3)
    axes[0].legend(frameon=False)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="world")
    parser.add_argument("--split", default="test")
    parser.add_argument("--levels", type=float, nargs="+", default=LEVELS)
    parser.add_argument("--web", help="a corpus or provider; else a corpus is written from the graph")
    parser.add_argument("--run", action="append", default=[], metavar="LABEL=FOLDER", help="an evaluation's folder")
    parser.add_argument("--plot", type=Path, help="draw both curves into this file")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    own = [run_line(text) for text in given.run]
    with tempfile.TemporaryDirectory(prefix="kgwalk-incomplete-") as made:
        corpus = given.web or str(corpus_of(load_dataset(given.data), Path(made)))
        # what is written here is indexed here, and gone afterwards
        web = open_web(corpus, cache=None if given.web else Path(made))
        lines = oracle_lines(given.data, given.split, given.levels, web) + own
    if given.plot is not None:
        plot(lines, given.plot)
    print(json.dumps({"lines": lines}, indent=2) if given.json else table(lines))


if __name__ == "__main__":
    main()
