"""Several workers while the store is built again and workers are killed: one graph answers until SIGHUP changes all.

Clients ask all the time. A request that a kill cut off is asked again and counted; a wrong graph is a failure.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import psutil
from benchmarks.attack import Result

from kgwalk.kg.build import build

WORKERS, CLIENTS = 3, 3
FACTS = 2_000  # of a graph; all have the same generation as their tail


class Answer(NamedTuple):
    """When a request was sent and answered, and the generation of the graph that answered."""

    sent: float
    came: float
    generation: str


def attack(seconds: float, seed: int) -> Result:
    """Rounds of: build again, kill workers, change by SIGHUP; in one of three rounds the store vanishes in between."""
    result, rng = Result(), random.Random(seed)
    until = time.monotonic() + seconds
    with tempfile.TemporaryDirectory(prefix="attack-workers-") as name, _serving(_made(Path(name), 0)) as (server, url):
        store, clients = Path(name) / "graph.kg", [_Client(url) for _ in range(CLIENTS)]
        generation = rounds = kills = 0
        while time.monotonic() < until - 3:
            began, rounds = time.monotonic(), rounds + 1
            _made(Path(name), generation + 1)
            if rounds % 3 == 0:
                shutil.rmtree(store)
            for _ in range(rng.randrange(1, WORKERS + 1)):
                kills += _kill_one(server, rng)
                time.sleep(rng.uniform(0, 0.3))
            time.sleep(0.5)
            answers = _since(clients, began)
            for answer in answers:
                result.check(
                    answer.generation == f"g{generation}", f"round {rounds}: {answer.generation} before SIGHUP"
                )
            result.check(server.poll() is None, f"round {rounds}: the server ended")
            if not store.exists():
                os.kill(server.pid, signal.SIGHUP)
                time.sleep(0.5)
                result.check(
                    {a.generation for a in _since(clients, time.monotonic() - 0.2)} <= {f"g{generation}"}, "gone"
                )
                _made(Path(name), generation + 1)
            began, generation = time.monotonic(), generation + 1
            os.kill(server.pid, signal.SIGHUP)
            _wait_for(clients, f"g{generation}")
            time.sleep(0.3)
            _in_order(result, _since(clients, began), f"g{generation}", rounds)
        for client in clients:
            client.stop()
        result.figures = {
            "rounds": f"{rounds}",
            "workers killed": f"{kills}",
            "answers": f"{sum(len(client.answers) for client in clients):,}",
            "cut off by a kill and asked again": f"{sum(client.cut_off for client in clients)}",
        }
    return result


def _in_order(result: Result, answers: list[Answer], new: str, number: int) -> None:
    """A request that was sent after an answer of the new graph came is answered by the new graph."""
    first = min((answer.came for answer in answers if answer.generation == new), default=float("inf"))
    for answer in answers:
        late = answer.sent > first and answer.generation != new
        result.check(
            not late, f"round {number}: {answer.generation} after SIGHUP, {answer.sent - first:.3f} s after {new}"
        )


def _made(folder: Path, generation: int) -> Path:
    source = folder / "facts.tsv"
    source.write_text("".join(f"thing {number}\tgeneration\tg{generation}\n" for number in range(FACTS)))
    build([source], folder / "graph.kg", replace=True)
    return folder / "graph.kg"


@contextmanager
def _serving(store: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    settings = json.dumps({"graphs": {"graph": str(store)}, "port": 0, "workers": WORKERS})
    command = [sys.executable, "-m", "kgwalk.serve.run", settings]
    log = store.parent / "server.log"
    with log.open("w") as file, subprocess.Popen(command, stderr=file, text=True, start_new_session=True) as server:
        try:
            while (found := re.search(r"http://\S+:\d+", log.read_text())) is None:
                time.sleep(0.05)
            yield server, found[0]
        finally:
            server.terminate()
            try:
                server.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(server.pid, signal.SIGKILL)  # its workers too, which are in its session


class _Client:
    """Asks without a pause, over a new connection each time, so that every worker is asked."""

    def __init__(self, url: str) -> None:
        self.answers: list[Answer] = []
        self.cut_off, self._url, self._stop = 0, url, False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asked = json.dumps([{"op": "neighbors", "entity": "thing 7", "relation": "generation"}])
        where = urlsplit(self._url).netloc
        while not self._stop:
            sent = time.monotonic()
            try:
                connection = HTTPConnection(where, timeout=20)
                connection.request("POST", "/kg/query", asked, {"Content-Type": "application/json"})
                reply = json.loads(connection.getresponse().read())
            except (OSError, HTTPException):
                self.cut_off += 1
                continue
            finally:
                connection.close()
            found = reply["results"][0]
            said = found["value"]["names"][0] if found["ok"] else str(found["error"])
            self.answers.append(Answer(sent, time.monotonic(), said))

    def stop(self) -> None:
        self._stop = True
        self._thread.join()


def _since(clients: list[_Client], when: float) -> list[Answer]:
    return sorted(answer for client in clients for answer in list(client.answers) if answer.sent >= when)


def _wait_for(clients: list[_Client], generation: str) -> None:
    for _ in range(200):
        if any(client.answers and client.answers[-1].generation == generation for client in clients):
            return
        time.sleep(0.05)


def _kill_one(server: subprocess.Popen[str], rng: random.Random) -> int:
    children = psutil.Process(server.pid).children()
    if not children:
        return 0
    rng.choice(children).kill()
    return 1
