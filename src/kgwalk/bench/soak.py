"""`kgwalk bench soak`: many clients at once, good and bad items mixed: all answers right, nothing grows.

The right answers come from plain dictionaries made of the triples, not from the store.
"""

from __future__ import annotations

import json
import random
import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from kgwalk.bench import servers
from kgwalk.bench.rows import Figure
from kgwalk.bench.servers import Load, ask, store_server
from kgwalk.kg.build import build
from kgwalk.types import KgwalkError

# What clients send by mistake; none of these may affect its neighbours in a batch.
BAD: list[Any] = [
    None,
    7,
    "get_tail_relations",
    [],
    {},
    {"action": "get_tail_relations"},
    {"action": "drop_graph", "entity": "entity 1"},
    {"action": "get_tail_entities", "entity": "entity 1"},
    {"action": "get_tail_relations", "entity": "entity 1", "relation": "domain.type_1.relation_1"},
    {"action": "get_tail_relations", "entity": "</information>\n\x00\ud83d"},
    {"action": "get_tail_relations", "entity": 5},
    {"action": "get_tail_relations", "entity": "entity 1", "question": "no such question"},
    {"action": "get_tail_relations", "entity": "entity 1", "graph": "no such graph"},
    {"action": "get_tail_relations", "entity": "entity 1", "limit": -1},
    {"action": "get_tail_relations", "entity": "entity 1", "start": "not a date"},
    {"action": "get_tail_relations", "entity": "x" * 10_000},
    {"action": "get_tail_relations", "entity": "entity 1", "colour": "red"},
]


@dataclass
class SoakCounts:
    good: int = 0
    bad: int = 0
    wrong: int = 0


def soak(folder: Path, *, seconds: float, clients: int = 64, triples: int = 200_000) -> list[Figure]:
    """Builds a random graph in the folder, serves it, and asks for so many seconds."""
    source, store = folder / "soak.tsv", folder / "soak.kg"
    servers.write_tsv(source, triples, triples // 20, 200)
    build([source], store)
    answers = _answers(source)
    batches = _batches(answers, 400, random.Random(1))
    checked = SoakCounts()
    with store_server(store) as server:
        memory = _Watch(server.rss)
        load = ask(
            server.url,
            [body for body, _ in batches],
            clients=clients,
            seconds=seconds,
            check=lambda at, reply: _check(reply, batches[at][1], checked),
        )
        early, late = memory.stop()
    failed = sum(count for status, count in load.statuses.items() if status >= 500)
    return _rows(load, checked, failed, early, late)


def _rows(load: Load, checked: SoakCounts, failed: int, early: float, late: float) -> list[Figure]:
    return [
        Figure("requests", load.requests, "requests"),
        Figure("items a second", (checked.good + checked.bad) / load.seconds, "items/s"),
        Figure("good items", checked.good, "items"),
        Figure("bad items among them", checked.bad, "items"),
        Figure("wrong answers", checked.wrong, "items", None, ("<=", 0)),
        Figure("answers with status 5xx", failed, "requests", None, ("<=", 0)),
        Figure(
            "answers with another status than 200",
            load.requests - load.statuses.get(200, 0),
            "requests",
            None,
            ("<=", 0),
        ),
        Figure("latency, p50", load.percentile(0.5) * 1000, "ms"),
        Figure("latency, p99", load.percentile(0.99) * 1000, "ms"),
        Figure("server's memory after a fifth of the time", early, "MB"),
        Figure("server's memory at the end", late, "MB"),
        Figure("growth", late / early, "x", None, ("<=", 1.05)),
    ]


RightAnswers = dict[tuple[str, str, str | None], set[str]]


def _answers(source: Path) -> RightAnswers:
    """For each (action, entity, relation), what it finds."""
    answers: RightAnswers = defaultdict(set)
    for line in source.read_text().splitlines():
        head, relation, tail = line.split("\t")
        answers["get_tail_relations", head, None].add(relation)
        answers["get_head_relations", tail, None].add(relation)
        answers["get_tail_entities", head, relation].add(tail)
        answers["get_head_entities", tail, relation].add(head)
    return answers


def _batches(answers: RightAnswers, count: int, rng: random.Random) -> list[tuple[bytes, list[set[str] | None]]]:
    """Request bodies, each with what its items should find; None for a bad one."""
    asked = list(answers)
    batches = []
    for _ in range(count):
        items: list[Any] = []
        expected: list[set[str] | None] = []
        for _ in range(rng.randint(1, 32)):
            if rng.random() < 0.25:
                items.append(rng.choice(BAD))
                expected.append(None)
            else:
                action, entity, relation = key = rng.choice(asked)
                items.append({"action": action, "entity": entity} | ({"relation": relation} if relation else {}))
                expected.append(answers[key])
        batches.append((_dumps({"actions": items}), expected))
    return batches


def _dumps(value: Any) -> bytes:
    # The standard library writes half a surrogate pair as an escape, as careless clients do; orjson refuses to.
    return json.dumps(value).encode()


def _check(reply: bytes, expected: list[set[str] | None], checked: SoakCounts) -> None:
    results = orjson.loads(reply)["results"]
    if len(results) != len(expected):
        raise KgwalkError(f"{len(expected)} items were sent and {len(results)} results came back")
    for result, wanted in zip(results, expected, strict=True):
        if wanted is None:
            checked.bad += 1
            checked.wrong += result["ok"] is not False
        else:
            checked.good += 1
            checked.wrong += not (result["ok"] and set(result["items"]) == wanted and result["total"] == len(wanted))


class _Watch:
    """Reads the server's memory every 0.1 s, from a thread."""

    def __init__(self, read: Callable[[], float]) -> None:
        self._read, self._seen = read, [read()]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(0.1):
            self._seen.append(self._read())

    def stop(self) -> tuple[float, float]:
        """The memory after a fifth of the time, and at the end."""
        self._stop.set()
        self._thread.join()
        return self._seen[len(self._seen) // 5], self._seen[-1]
