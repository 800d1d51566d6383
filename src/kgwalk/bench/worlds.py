"""Made-up graphs for measuring: random triples of any number, and a graph per question.

The same seed gives the same file. Names look like names in their length only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import orjson

_BLOCK = 500_000


def entity(number: int) -> str:
    return f"entity {number}"


def random_triples(count: int, entities: int, relations: int, seed: int = 0) -> Iterator[list[tuple[str, str, str]]]:
    """Blocks of triples with heads, relations and tails drawn evenly."""
    rng = np.random.default_rng(seed)
    for start in range(0, count, _BLOCK):
        size = min(_BLOCK, count - start)
        heads, tails = (rng.integers(0, entities, size).tolist() for _ in range(2))
        kinds = rng.integers(0, relations, size).tolist()
        yield [
            (f"entity {h}", f"domain.type_{r % 17}.relation_{r}", f"entity {t}")
            for h, r, t in zip(heads, kinds, tails, strict=True)
        ]


def write_tsv(
    path: Path, count: int, entities: int, relations: int, progress: Callable[[int], None] = lambda done: None
) -> None:
    done = 0
    with open(path, "w", encoding="utf-8") as file:
        for block in random_triples(count, entities, relations):
            file.write("".join([f"{h}\t{r}\t{t}\n" for h, r, t in block]))
            done += len(block)
            progress(done)


def write_rog(path: Path, questions: int, triples: int, progress: Callable[[int], None] = lambda done: None) -> None:
    """A graph of so many triples for each question, drawn around 1,000 of 500,000 shared entities."""
    rng = np.random.default_rng(1)
    with open(path, "wb") as file:
        for question in range(questions):
            near = rng.choice(500_000, 1000, replace=False)
            heads, tails = (near[rng.integers(0, 1000, triples)].tolist() for _ in range(2))
            kinds = rng.integers(0, 300, triples).tolist()
            graph = [
                [f"entity {h}", f"domain.type_{r % 17}.relation_{r}", f"entity {t}"]
                for h, r, t in zip(heads, kinds, tails, strict=True)
            ]
            row = {
                "id": f"q{question}",
                "question": "",
                "q_entity": [graph[0][0]],
                "a_entity": [],
                "graph": graph,
            }
            file.write(orjson.dumps(row) + b"\n")
            progress(question + 1)
