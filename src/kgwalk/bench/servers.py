"""Graph servers for measuring: kgwalk's and a list scan's, a client that loads them, random graphs.

`python -m kgwalk.bench.servers FILE` serves lists of triples read from a TSV or RoG file, as the published KG-R1
server keeps them. Everything but the graph is kgwalk's own, so the difference is the graph's.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import orjson

from kgwalk.kg.names import normalise
from kgwalk.types import Found, KgwalkError, Neighbors, Triple, UnknownEntity, UnknownQuestion, UnknownRelation


class ScanGraph:
    """A graph as a plain list of (head, relation, tail[, time]) tuples, which every question reads from end to end.

    This is how the published KG-R1 server keeps its graphs, so it is the baseline of `kgwalk bench kg`; and since it
    can hardly be wrong, property tests compare every other graph with it. A repeated fact counts once. One difference
    from a store: neighbours come in the order of their names, not most connected first. Compare them as sets, or
    without a limit.
    """

    def __init__(self, triples: Iterable[tuple[str, ...]]) -> None:
        self.triples = list(dict.fromkeys(Triple(*fact) for fact in triples))
        self._dated = any(fact.time for fact in self.triples)

    def __contains__(self, entity: object) -> bool:
        return any(entity == fact.head or entity == fact.tail for fact in self.triples)

    def has_relation(self, relation: str) -> bool:
        return any(relation == fact.relation for fact in self.triples)

    def relations(self, entity: str, *, out: bool = True) -> list[str]:
        self._check(entity)
        return sorted({fact.relation for fact in self.triples if entity == (fact.head if out else fact.tail)})

    def neighbors(self, entity: str, relation: str, *, out: bool = True, limit: int | None = None) -> Neighbors:
        self._check(entity, relation)
        dates: dict[str, set[str]] = {}
        for fact in self.triples:
            near, far = (fact.head, fact.tail) if out else (fact.tail, fact.head)
            if near == entity and fact.relation == relation:
                dates.setdefault(far, set()).update([fact.time] if fact.time else [])
        names = sorted(dates)[:limit]
        return Neighbors(names, len(dates), [sorted(dates[name]) for name in names] if self._dated else None)

    def match(
        self,
        head: str | None = None,
        relation: str | None = None,
        tail: str | None = None,
        *,
        limit: int | None = None,
    ) -> Iterator[Triple]:
        """Facts in the order they were given. A name that is not in the graph fits nothing."""
        return islice((fact for fact in self.triples if _fits(fact, head, relation, tail)), limit)

    def find(self, text: str, k: int = 5) -> list[Found]:
        return _nearest(text, {name for fact in self.triples for name in (fact.head, fact.tail)}, k)

    def find_relation(self, text: str, k: int = 5) -> list[Found]:
        return _nearest(text, {fact.relation for fact in self.triples}, k)

    def _check(self, entity: str, relation: str | None = None) -> None:
        if entity not in self:
            raise UnknownEntity(entity)
        if relation is not None and not self.has_relation(relation):
            raise UnknownRelation(relation)


def _fits(fact: Triple, head: str | None, relation: str | None, tail: str | None) -> bool:
    return head in (None, fact.head) and relation in (None, fact.relation) and tail in (None, fact.tail)


def _nearest(text: str, names: set[str], k: int) -> list[Found]:
    found = [_compare(text, name) for name in names]
    order = {"exact": 0, "normalised": 1, "fuzzy": 2}
    return sorted((one for one in found if one.score > 0), key=lambda one: (order[one.how], -one.score, one.name))[:k]


def _compare(text: str, name: str) -> Found:
    if name == text:
        return Found(name, 1.0, "exact")
    left, right = normalise(text), normalise(name)
    if left == right:
        return Found(name, 1.0, "normalised")
    return Found(name, SequenceMatcher(None, left, right, autojunk=False).ratio(), "fuzzy")


# Servers, each a process of its own


@dataclass(frozen=True, slots=True)
class Running:
    url: str
    ready_seconds: float  # from the start of the process to the first answer it could give
    pid: int

    def rss(self) -> float:
        """Resident memory in MB, as the kernel counts it."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024 / 1e6
        raise KgwalkError(f"the kernel does not say how much memory process {self.pid} uses")


@contextlib.contextmanager
def start(arguments: Sequence[str]) -> Iterator[Running]:
    """Runs a server, which says `... serves at URL ...` on stderr when it is ready, and stops it at the end."""
    before = time.perf_counter()
    process = subprocess.Popen([sys.executable, *arguments], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if " serves at " in line:
                url = line.split(" serves at ")[1].split()[0]
                yield Running(url, time.perf_counter() - before, process.pid)
                return
        raise KgwalkError(f"the server ended with status {process.wait()} before it was ready")
    finally:
        process.terminate()
        process.wait(30)
        process.stderr.close()


def store_server(path: Path, workers: int = 1) -> contextlib.AbstractContextManager[Running]:
    several = ["--workers", str(workers)] if workers > 1 else []
    return start(["-m", "kgwalk.cli.main", "serve", "--graph", f"g={path}", "--port", "0", "--no-warm", *several])


def scan_server(path: Path) -> contextlib.AbstractContextManager[Running]:
    return start(["-m", "kgwalk.bench.servers", str(path)])


class ListGraphs(ScanGraph):
    """Lists read from a file: one for each question, or one for all."""

    def __init__(self, path: Path) -> None:
        self._questions: dict[str, ScanGraph] = {}
        triples: list[tuple[str, ...]] = []
        with open(path, "rb") as file:
            for line in file:
                if path.suffix == ".jsonl":
                    row = orjson.loads(line)
                    self._questions[row["id"]] = ScanGraph(map(tuple, row["graph"]))
                else:
                    triples.append(tuple(line.decode().rstrip("\n").split("\t")))
        super().__init__(triples)

    def question(self, question: str) -> ScanGraph:
        if question not in self._questions:
            raise UnknownQuestion(question)
        return self._questions[question]


def main(path: Path) -> None:
    """Serves a list scan over the file."""
    from kgwalk.serve.run import run_server
    from kgwalk.serve.settings import ServeSettings

    run_server(ServeSettings(port=0, time_limit=60), graphs={"g": ListGraphs(path)})


# The client


@dataclass(frozen=True, slots=True)
class Load:
    requests: int
    seconds: float
    latencies: list[float]  # seconds, ascending
    statuses: dict[int, int]

    @property
    def rate(self) -> float:
        return self.requests / self.seconds

    def percentile(self, share: float) -> float:
        return self.latencies[min(len(self.latencies) - 1, int(share * len(self.latencies)))]


class Connection:
    """One keep-alive connection over a plain socket. It speaks just enough HTTP/1.1 for our own server, so that the
    client is not what is measured.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str) -> None:
        self._reader, self._writer, self._host = reader, writer, host

    @classmethod
    async def open(cls, url: str) -> Connection:
        parts = urlsplit(url)
        assert parts.hostname is not None
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port, limit=1 << 26)
        return cls(reader, writer, parts.netloc)

    async def post(self, path: str, body: bytes) -> tuple[int, bytes]:
        headers = f"host: {self._host}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
        head = f"POST {path} HTTP/1.1\r\n{headers}\r\n\r\n"
        self._writer.write(head.encode() + body)
        answer = await self._reader.readuntil(b"\r\n\r\n")
        lowered = answer.lower()
        at = lowered.index(b"content-length:") + len(b"content-length:")
        length = int(lowered[at : lowered.index(b"\r\n", at)])
        reply = await self._reader.readexactly(length)
        if b"\r\nconnection: close\r\n" in lowered:
            await self.close()
            other = await Connection.open(f"http://{self._host}")
            self._reader, self._writer = other._reader, other._writer
        return int(answer[9:12]), reply

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


def ask(
    url: str,
    bodies: Sequence[bytes],
    *,
    clients: int,
    seconds: float,
    check: Callable[[int, bytes], None] | None = None,
) -> Load:
    """Posts the bodies in turn to /kg/actions, from so many connections, for so long, as fast as the server answers."""
    return asyncio.run(_ask(url, bodies, clients, seconds, check))


async def _ask(
    url: str,
    bodies: Sequence[bytes],
    clients: int,
    seconds: float,
    check: Callable[[int, bytes], None] | None,
) -> Load:
    latencies: list[float] = []
    statuses: dict[int, int] = {}
    connections = [await Connection.open(url) for _ in range(clients)]
    started = time.perf_counter()
    stop = started + seconds

    async def client(number: int) -> None:
        at = number * 7919 % len(bodies)  # each client begins at another body
        while (before := time.perf_counter()) < stop:
            status, reply = await connections[number].post("/kg/actions", bodies[at])
            latencies.append(time.perf_counter() - before)
            statuses[status] = statuses.get(status, 0) + 1
            if check is not None:
                check(at, reply)
            at = (at + 1) % len(bodies)

    await asyncio.gather(*(client(number) for number in range(clients)))
    took = time.perf_counter() - started
    for connection in connections:
        await connection.close()
    return Load(len(latencies), took, sorted(latencies), statuses)


def bodies(actions: Sequence[dict[str, Any]], batch: int) -> list[bytes]:
    """Request bodies of `batch` actions each."""
    return [
        orjson.dumps({"actions": list(actions[start : start + batch])})
        for start in range(0, len(actions) - batch + 1, batch)
    ]


# Random graphs: the same seed gives the same file. Names are like real ones in their length only.

_BLOCK = 500_000


def entity(number: int) -> str:
    return f"entity {number}"


def random_triples(count: int, entities: int, relations: int, seed: int = 0) -> Iterator[list[tuple[str, str, str]]]:
    """Blocks of triples with heads, relations and tails drawn uniformly."""
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


if __name__ == "__main__":
    main(Path(sys.argv[1]))
