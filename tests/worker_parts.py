"""Parts of walks that a worker process can import, without torch: graphs and a protocol that fail in their own ways."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kgwalk.kg.graph import Graph
from kgwalk.kg.store import open_graph
from kgwalk.systems.kgwalk.protocol import Kgwalk
from kgwalk.types import Question, RemoteError
from kgwalk.walk.protocol import Environment, Task, Walk


class Away:
    """A graph that does not answer."""

    def __contains__(self, entity: object) -> bool:
        raise RemoteError("the graph is away")


def away(question: Question) -> Graph:
    return Away()  # type: ignore[return-value]


@dataclass(frozen=True)
class Opened:
    """The graph of a folder, for every question."""

    path: Path

    def __call__(self, question: Question) -> Graph:
        return open_graph(self.path)


class Refuses:
    """Something that cannot be made anew where it is unpacked."""

    def __call__(self, question: Question) -> Graph:
        raise AssertionError("not called")

    def __reduce__(self) -> tuple[Any, ...]:
        return _refuse, ()


def _refuse() -> None:
    raise OSError("no such device")


@dataclass(frozen=True)
class Buggy(Kgwalk):
    def begin(self, task: Task, environment: Environment, count: Callable[[str], int]) -> Walk:  # type: ignore[override]
        raise ZeroDivisionError("our own bug")
