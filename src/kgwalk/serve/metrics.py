"""What the server counts, and the text in which Prometheus reads it.

With several workers each process writes its counts into files of a private folder, which run.py makes before they
start; whichever process is asked for the counts adds up the files of all.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Metric,
    generate_latest,
    values,
)
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from kgwalk.serve.asgi import HttpReply

if TYPE_CHECKING:
    from kgwalk.serve.agent import AskRecord

# prometheus_client looks at this variable when it is imported: with it, values live in files.
FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_ASK_SECONDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0)
_TURNS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
_TENTHS = tuple(tenth / 10 for tenth in range(1, 11))
_ITEMS = (0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


def count_in_files() -> None:
    """Let the counts made from now on live in files: a worker is a fork of a process that had no use for them."""
    values.ValueClass = values.get_value_class()  # type: ignore[no-untyped-call]


class ServerMetrics:
    """The counts of one application."""

    def __init__(self, graphs: int) -> None:
        # Its own registry: several apps can live in one process.
        self._registry = registry = CollectorRegistry()
        self._requests = Counter("kgwalk_requests", "Requests answered.", ["path", "status"], registry=registry)
        self._seconds = Histogram(
            "kgwalk_request_seconds",
            "Seconds from a request's first byte to its answer.",
            ["path"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._actions = Counter("kgwalk_actions", "Actions run.", ["action", "outcome"], registry=registry)
        self._queries = Counter("kgwalk_queries", "Queries run.", ["op", "outcome"], registry=registry)
        self._items = Histogram(
            "kgwalk_batch_items", "Items in a request.", ["path"], buckets=_ITEMS, registry=registry
        )
        self._refused = Counter(
            "kgwalk_refused", "Connections closed before a request had arrived.", ["status"], registry=registry
        )
        self._exceptions = Counter("kgwalk_exceptions", "Requests that met a bug of the server.", registry=registry)
        self._asks = Counter("kgwalk_asks", "Questions, by what became of them.", ["outcome"], registry=registry)
        self._ask_seconds = Histogram(
            "kgwalk_ask_seconds",
            "Seconds from a question to its answer, waiting included.",
            buckets=_ASK_SECONDS,
            registry=registry,
        )
        self._ask_turns = Histogram("kgwalk_ask_turns", "Turns of a question.", buckets=_TURNS, registry=registry)
        self._ask_tokens = Counter("kgwalk_ask_tokens", "Tokens of questions.", ["kind"], registry=registry)
        self._confidence = Histogram(
            "kgwalk_ask_confidence",
            "How sure answers were; a probability where `calibrated`.",
            ["calibrated"],
            buckets=_TENTHS,
            registry=registry,
        )
        self._graphs = Gauge("kgwalk_graphs", "Graphs served.", registry=registry, multiprocess_mode="max")
        self.graphs(graphs)

    def request(self, path: str, status: int, seconds: float) -> None:
        self._requests.labels(path, status).inc()
        self._seconds.labels(path).observe(seconds)

    def graphs(self, number: int) -> None:
        self._graphs.set(number)

    def refused(self, status: int) -> None:
        self._refused.labels(status).inc()

    def exception(self) -> None:
        self._exceptions.inc()

    def ask(self, record: AskRecord) -> None:
        """A question that was answered or refused; what was refused has no turns, and its seconds would mean little."""
        self._asks.labels(record.outcome).inc()
        if (asked := record.asked) is None:
            return
        self._ask_seconds.observe(record.seconds)
        self._ask_turns.observe(asked.turns)
        for kind in ("prompt", "generated"):
            self._ask_tokens.labels(kind).inc(asked.tokens[kind])
        if asked.confidence is not None:
            self._confidence.labels(str(asked.calibrated).lower()).observe(asked.confidence)

    def actions(self, outcomes: Mapping[tuple[str, str], int]) -> None:
        """Counts by (action, outcome), a whole batch at once."""
        self._batch("/kg/actions", self._actions, outcomes)

    def queries(self, outcomes: Mapping[tuple[str, str], int]) -> None:
        self._batch("/kg/query", self._queries, outcomes)

    def reply(self) -> HttpReply:
        folder = os.environ.get(FOLDER_VARIABLE)
        registry: Collector = self._registry if folder is None else _AllWorkers(Path(folder))
        return HttpReply(200, generate_latest(registry), CONTENT_TYPE_LATEST.encode())

    def _batch(self, path: str, counter: Counter, outcomes: Mapping[tuple[str, str], int]) -> None:
        for labels, times in outcomes.items():
            counter.labels(*labels).inc(times)
        self._items.labels(path).observe(sum(outcomes.values()))


class _AllWorkers(Collector):
    """The sum over the files of all workers, also of those that have ended."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def collect(self) -> Iterable[Metric]:
        # A file is made empty and gets its header after that. A worker that is there just now has not counted yet, and
        # one that was killed there never will; prometheus_client cannot read either.
        files = [str(file) for file in self._folder.glob("*.db") if file.stat().st_size > 0]
        found: Iterable[Metric] = MultiProcessCollector.merge(files)  # type: ignore[no-untyped-call]
        return found
