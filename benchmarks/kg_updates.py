"""What updates cost: writing them, opening a store that has some, and reading what they did not touch.

Run: python -m benchmarks.kg_updates [--triples 1000000] [--changes 1000] [--rounds 7] [--json]

A store of made-up triples gets one update, four fifths of it new facts (some of new entities, some of a new relation)
and one fifth removed ones. Reads are timed on the store as built and on the same store with the update, in turns, over
the same entities, none of which the update touched; the ratio is that of the medians. Then the update is folded in.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kgwalk.kg.build import build
from kgwalk.kg.compact import compact
from kgwalk.kg.journal import KeyedFact as Fact
from kgwalk.kg.store import StoredGraph, open_graph
from kgwalk.kg.update import update_facts


def made_up(folder: Path, triples: int, draw: random.Random) -> Path:
    """A fifth as many entities as triples, some far better connected than others, and 40 relations."""
    entities = triples // 5

    def entity() -> str:
        return f"Entity {int(draw.random() ** 2 * entities)}"

    with open(folder / "facts.tsv", "w") as file:
        for _ in range(triples):
            file.write(f"{entity()}\trelation {draw.randrange(40)}\t{entity()}\n")
    build([folder / "facts.tsv"], folder / "built.kg")
    return folder / "built.kg"


def an_update(graph: StoredGraph, changes: int, draw: random.Random) -> tuple[list[Fact], list[Fact]]:
    names, facts = graph.store.entity, len(graph)

    def entity() -> str:
        return names[draw.randrange(len(names))]

    added = [
        Fact(
            entity() if draw.random() < 0.8 else f"New {at}",
            draw.choice(["relation 1", "relation 7", "a new relation"]),
            entity(),
        )
        for at in range(changes * 4 // 5)
    ]
    removed = [Fact(*graph._triple(draw.randrange(facts))) for _ in range(changes - len(added))]
    return added, removed


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def reads(built: StoredGraph, touched: set[str], draw: random.Random) -> dict[str, Callable[[StoredGraph], object]]:
    """What is asked of both, by name."""
    drawn = built.store.entity.several(draw.sample(range(len(built.store.entity)), 6000))
    names = [name for name in drawn if name not in touched][:5000]
    hops = [
        (name, relation, out)
        for name in names
        for out in (True, False)
        for relation in built.relations(name, out=out)[:2]
    ]
    return {
        "neighbors": lambda graph: [graph.neighbors(name, relation, out=out) for name, relation, out in hops],
        "relations": lambda graph: [graph.relations(name) for name in names],
        "match": lambda graph: [list(graph.match(name, limit=20)) for name in names[:500]],
        "find": lambda graph: [graph.find(f"{name}x") for name in names[:30]],
    }


def measure(triples: int, changes: int, rounds: int) -> list[dict[str, Any]]:
    draw = random.Random(0)
    with tempfile.TemporaryDirectory() as scratch:
        store = made_up(Path(scratch), triples, draw)
        copy = shutil.copytree(store, Path(scratch) / "updated.kg")
        built = open_graph(store)
        added, removed = an_update(built, changes, draw)
        rows = [{"name": "update", "value": timed(lambda: update_facts(copy, added, removed)), "unit": "s"}]
        opening = statistics.median(timed(lambda: open_graph(copy)) for _ in range(rounds))
        rows.append({"name": "open with updates", "value": opening, "unit": "s"})
        updated = open_graph(copy)
        touched = {end for fact in (*added, *removed) for end in (fact.head, fact.tail)}
        for name, ask in reads(built, touched, draw).items():
            pairs = [(timed(lambda: ask(built)), timed(lambda: ask(updated))) for _ in range(rounds)]  # noqa: B023
            before, now = (statistics.median(column) for column in zip(*pairs, strict=True))
            rows.append({"name": name, "value": now, "unit": "s", "baseline": before, "ratio": now / before})
        rows.append({"name": "compact", "value": timed(lambda: compact(copy)), "unit": "s"})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--triples", type=int, default=1_000_000)
    parser.add_argument("--changes", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = measure(options.triples, options.changes, options.rounds)
    if options.json:
        print(json.dumps({"rows": rows}))
        return
    for row in rows:
        ratio = f"  {row['ratio']:.2f} times the store as built ({row['baseline']:.3f} s)" if "ratio" in row else ""
        print(f"{row['name']:<20}{row['value']:8.3f} s{ratio}")


if __name__ == "__main__":
    main()
