"""Connections spread over workers: each gets its share, also one that replaces a dead worker."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil
import pytest

from conftest import FILMS, store_of
from kgwalk.serve import protocol
from kgwalk.serve.protocol import SPREAD_PAUSE, ConnectionCounts, WorkerShare

CLIENTS = 12
ASKED = {"queries": [{"op": "relations", "entity": "Tom Hanks", "out": False}]}
ANSWER = {"results": [{"ok": True, "value": ["starred_actors"]}]}


def test_who_has_two_more_than_another_gives_one_up(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(protocol, "monotonic", lambda: now[0])
    counts = ConnectionCounts(3)
    one, two = WorkerShare(counts, 0), WorkerShare(counts, 1)
    one.count(7)
    assert not one.gives_up_one()  # the others take no connections yet
    two.count(6)
    assert not one.gives_up_one()  # one more is no imbalance
    two.count(5)
    assert [one.gives_up_one() for _ in range(3)] == [True, False, False]  # then a pause
    now[0] += SPREAD_PAUSE
    assert one.gives_up_one()
    assert not two.gives_up_one()
    counts.gone(1)
    now[0] += SPREAD_PAUSE
    assert not one.gives_up_one()  # nobody is there to take one


class Clients:
    """Clients that each ask all the time over a connection of their own; `wrong` is what went wrong."""

    def __init__(self, url: str) -> None:
        self.wrong, self.cut_off, self._url, self._stop = list[object](), 0, url, False
        self._threads = [threading.Thread(target=self._run) for _ in range(CLIENTS)]
        for thread in self._threads:
            thread.start()

    def _run(self) -> None:
        with httpx.Client(base_url=self._url, trust_env=False, limits=httpx.Limits(max_connections=1)) as client:
            while not self._stop:
                try:
                    reply = client.post("/kg/query", json=ASKED)
                except httpx.TransportError:  # a worker was killed
                    self.cut_off += 1
                    continue
                if reply.json() != ANSWER:
                    self.wrong.append(reply.text)
                time.sleep(0.005)

    def stop(self) -> None:
        self._stop = True
        for thread in self._threads:
            thread.join()


@contextmanager
def two_workers(store: Path) -> Iterator[tuple[psutil.Process, str]]:
    settings = json.dumps({"graphs": {"films": str(store)}, "port": 0, "workers": 2})
    with subprocess.Popen([sys.executable, "-m", "kgwalk.serve.run", settings], stderr=subprocess.PIPE) as server:
        try:
            assert server.stderr is not None
            found = re.search(rb"http://\S+:\d+", server.stderr.readline())
            assert found is not None
            yield psutil.Process(server.pid), found[0].decode()
        finally:
            server.terminate()
            server.wait(15)


def connections(server: psutil.Process) -> list[int]:
    """How many connections each worker has; of none, where one has just died."""
    try:
        return [
            sum(one.status == psutil.CONN_ESTABLISHED for one in worker.net_connections("tcp"))
            for worker in server.children()
        ]
    except psutil.Error:
        return []


def spread(server: psutil.Process, seconds: float = 15) -> bool:
    """Whether both workers have the same number of connections within so long, give or take one."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        have = connections(server)
        if len(have) == 2 and sum(have) == CLIENTS and max(have) - min(have) <= 1:
            return True
        time.sleep(0.05)
    return False


def test_each_worker_gets_its_share_also_one_that_replaces_another(tmp_path: Path) -> None:
    store_of(tmp_path, FILMS)
    with two_workers(tmp_path / "graph.kg") as (server, url):
        clients = Clients(url)
        try:
            assert spread(server)
            assert clients.cut_off == 0  # who is asked to connect again loses nothing
            os.kill(server.children()[0].pid, signal.SIGKILL)
            assert spread(server)
        finally:
            clients.stop()
    assert clients.wrong == []
    assert clients.cut_off <= CLIENTS
