"""Servers as processes of their own, for measuring: kgwalk's over a store, and the same HTTP over plain lists.

`python -m kgwalk.bench.servers FILE` serves lists of triples read from a TSV or RoG file, as the published KG-R1
server keeps them. Everything but the graph is kgwalk's own, so the difference is the graph's.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson

from kgwalk.bench.scan import ScanGraph
from kgwalk.types import KgwalkError, UnknownQuestion

STARTS_WITHIN = 600  # seconds; a list server reads its whole file first


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
    """Run a server that says `... serves at URL ...` on stderr when it is ready; stop it at the end."""
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


def store_server(path: Path) -> contextlib.AbstractContextManager[Running]:
    return start(["-m", "kgwalk.cli.main", "serve", "--graph", f"g={path}", "--port", "0", "--no-warm"])


def scan_server(path: Path) -> contextlib.AbstractContextManager[Running]:
    return start(["-m", "kgwalk.bench.servers", str(path)])


class ListGraphs(ScanGraph):
    """The lists of the published server: one for each question, or one for all."""

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
    from kgwalk.serve.run import run_server
    from kgwalk.serve.settings import ServeSettings

    run_server(ServeSettings(port=0, time_limit=60), graphs={"g": ListGraphs(path)})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
