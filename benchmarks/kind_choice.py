"""Fit and measure the choice of a kind that a question only implies: `python -m benchmarks.kind_choice [--write]`.

Questions of the users' graphs that start from one class are asked without its name ("which countries are the largest":
"which are the largest"), and with other words for it. The weights of `kgwalk.walk.kind_choice` are fitted by softmax
regression, once for each graph on the questions of all others, and measured on its own. `--write` keeps the weights
fitted on all of them. Two fresh graphs, of which only totals are read, have no part in it.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from benchmarks.users.graphs import UserGraph, UserQuestion, dev, fresh, practice
from benchmarks.users.run import build

from kgwalk.kg.names import normalise
from kgwalk.kg.store import StoredGraph, open_graph
from kgwalk.walk.kind_choice import FEATURES, WEIGHTS, features, profiles
from kgwalk.walk.kinds import OF_TYPE, kind_named, kinds_in
from kgwalk.walk.name_lookup import last_words
from kgwalk.walk.question_words import Text, same_kind, singular_name

UNREAD = ("wines", "buses")
FEWEST_KINDS = 3
OTHER_WORDS = 3  # for a kind, of one question
PULL = 0.02  # of the weights towards zero
STEPS, RATE = 300, 0.2
F64 = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Example:
    """A question with the features of each kind, and the places of those that are meant."""

    graph: str
    text: str
    features_KF: F64
    gold: list[int]
    kinds: list[str]
    weight: float


def examples(graph: UserGraph, opened: StoredGraph) -> Iterator[Example]:
    known = profiles(opened)
    if len(known) < FEWEST_KINDS:
        return
    for question in graph.questions:
        if question.starts.entities or len(question.starts.kinds) != 1:
            continue
        [name] = question.starts.kinds
        meant = [kind_named(one, opened) for one in (name, *question.starts.instead.get(name, ()))]
        gold = [at for at, one in enumerate(known) if one.kind in meant]
        if gold:
            texts = list(_without_its_kind(question, opened, [known[at].kind.name for at in gold]))
            for text in texts:
                rows = features(Text(text), known)
                yield Example(graph.name, text, rows, gold, [one.kind.name for one in known], 1 / len(texts))


def _without_its_kind(question: UserQuestion, graph: StoredGraph, gold: Sequence[str]) -> Iterator[str]:
    """The question without the word for its kind, and with other words; as it is where it has none."""
    text = question.question
    found = [one for one in kinds_in(text, graph) if one.kind.how == OF_TYPE]
    if not found:
        yield text
    if len(found) != 1 or found[0].kind.name not in gold:
        return
    start, end = found[0].start, found[0].end
    yield text[:start] + text[end:]
    for word in same_kind(singular_name(normalise(last_words(found[0].kind.name))))[:OTHER_WORDS]:
        if not kinds_in(word, graph):
            yield text[:start] + word + text[end:]


def fit(rows: Sequence[Example]) -> F64:
    """Softmax regression: Adam on the mean log-likelihood of the kinds that are meant, with a pull towards zero."""
    weights, first, second = (np.zeros(len(FEATURES)) for _ in range(3))
    for step in range(1, STEPS + 1):
        slope = PULL * weights
        for row in rows:
            likely = _likely(row, weights)
            wanted = np.zeros_like(likely)
            wanted[row.gold] = likely[row.gold] / likely[row.gold].sum()
            slope = slope + 10 * row.weight * row.features_KF.T @ (likely - wanted) / len(rows)
        first, second = 0.9 * first + 0.1 * slope, 0.99 * second + 0.01 * slope**2
        rate = RATE if step < 0.7 * STEPS else RATE / 5
        weights = weights - rate * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.99**step)) + 1e-8)
    return weights


def _likely(row: Example, weights: F64) -> F64:
    scores = row.features_KF @ weights
    likely: F64 = np.exp(scores - scores.max())
    return likely / likely.sum()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kind_choice", description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"keep the weights of all graphs in {WEIGHTS.name}")
    parser.add_argument("--show", action="store_true", help="print the questions whose kind is not the first")
    given = parser.parse_args()
    rows: list[Example] = []
    with tempfile.TemporaryDirectory() as made:
        for graph in (*dev(), *practice(), *(one for one in fresh() if one.name not in UNREAD)):
            build(graph, Path(made) / graph.name)
            rows += examples(graph, open_graph(Path(made) / graph.name))
    first = second = 0.0
    for graph_name in sorted({row.graph for row in rows}):
        weights = fit([row for row in rows if row.graph != graph_name])
        for row in (row for row in rows if row.graph == graph_name):
            order = np.argsort(-_likely(row, weights)).tolist()
            first += row.weight * (order[0] in row.gold)
            second += row.weight * (not set(order[:2]).isdisjoint(row.gold))
            if given.show and order[0] not in row.gold:
                print(f"  {graph_name}: {row.text} | {row.kinds[row.gold[0]]}, not {row.kinds[order[0]]}")
    total = sum(row.weight for row in rows)
    print(f"{len(rows)} texts of {total:.0f} questions; with their graph left out, the kind is first in", end=" ")
    print(f"{first / total:.3f}, among the first two in {second / total:.3f}")
    weights = fit(rows)
    kept = {name: round(float(weight), 3) for name, weight in zip(FEATURES, weights, strict=True)}
    print(json.dumps(kept))
    if given.write:
        WEIGHTS.write_text(
            json.dumps({"fitted by": "python -m benchmarks.kind_choice --write", "weights": kept}, indent=1) + "\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
