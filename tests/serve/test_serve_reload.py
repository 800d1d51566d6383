"""A server answers from the graphs it opened, whatever becomes of their files, until it is told to open them again."""

from __future__ import annotations

import json
import os
import re
import shutil
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

from conftest import FILMS
from kgwalk.kg import blocks, files
from kgwalk.kg.build import build
from kgwalk.serve.app import create_app
from kgwalk.serve.run import in_background
from kgwalk.serve.settings import ServeSettings
from kgwalk.types import StoreError

ASKED = {"op": "neighbors", "entity": "Big", "relation": "directed_by"}


def made(folder: Path, director: str, name: str = "films.kg") -> Path:
    """A store of FILMS in which this person directed Big; it replaces the one that is there."""
    facts = [(h, r, director if (h, r) == ("Big", "directed_by") else t) for h, r, t in FILMS]
    (folder / "facts.tsv").write_text("".join("\t".join(fact) + "\n" for fact in facts))
    build([folder / "facts.tsv"], folder / name, replace=True)
    return folder / name


class Server:
    """A server in a process of its own; what it says is kept in `said`."""

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self.process, self.url, self.said = process, url, [""]
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append(line)

    def director(self) -> str:
        with httpx.Client(base_url=self.url, trust_env=False, timeout=20) as client:
            (found,) = client.post("/kg/query", json=[ASKED]).json()["results"]
        return str(found["value"]["names"][0])

    def workers(self, number: int) -> list[psutil.Process]:
        for _ in range(200):
            children = psutil.Process(self.process.pid).children()
            if len(children) == number:
                return children
            time.sleep(0.05)
        raise AssertionError(f"{number} workers did not start")

    def kill_workers(self, number: int = 2) -> None:
        before = self.workers(number)
        for worker in before:
            worker.kill()
        psutil.wait_procs(before, 10)
        self.workers(number)

    def until(self, words: str) -> None:
        """Wait until it has said this."""
        for _ in range(200):
            if any(re.search(words, line) for line in self.said):
                return
            time.sleep(0.05)
        raise AssertionError(f"{words!r} is not in {self.said}")


@contextmanager
def serving(store: Path, **settings: object) -> Iterator[Server]:
    text = json.dumps({"graphs": {"films": str(store)}, "port": 0, **settings})
    command = [sys.executable, "-m", "kgwalk.serve.run", text]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            assert process.stderr is not None
            found = re.search(r"http://\S+:\d+", process.stderr.readline())
            assert found is not None, process.stderr.read()
            yield Server(process, found[0])
        finally:
            process.terminate()
            try:
                assert process.wait(20) == 0
            finally:
                process.kill()


def test_a_worker_that_replaces_a_dead_one_has_the_same_graph(tmp_path: Path) -> None:
    store = made(tmp_path, "Penny Marshall")
    with serving(store, workers=2) as server:
        made(tmp_path, "Agnès Varda")
        server.kill_workers()
        assert {server.director() for _ in range(30)} == {"Penny Marshall"}
        server.process.send_signal(signal.SIGHUP)
        server.until("the graphs were opened again: films")
        while server.director() == "Penny Marshall":  # until the last of them has been told
            time.sleep(0.05)
        assert {server.director() for _ in range(30)} == {"Agnès Varda"}
        server.kill_workers()
        assert {server.director() for _ in range(10)} == {"Agnès Varda"}


def test_a_store_that_vanished_does_not_end_the_server(tmp_path: Path) -> None:
    store = made(tmp_path, "Penny Marshall")
    with serving(store, workers=2) as server:
        shutil.rmtree(store)
        server.kill_workers()
        assert server.director() == "Penny Marshall"
        server.process.send_signal(signal.SIGHUP)
        server.until(r"those of before are served: .*films\.kg does not exist; build it")
        assert server.director() == "Penny Marshall"
        made(tmp_path, "Agnès Varda")
        server.process.send_signal(signal.SIGHUP)
        server.until("the graphs were opened again: films")
        server.workers(2)


def test_one_process_opens_its_graphs_again(tmp_path: Path) -> None:
    store = made(tmp_path, "Penny Marshall")
    with serving(store) as server:
        made(tmp_path, "Agnès Varda")
        assert server.director() == "Penny Marshall"
        server.process.send_signal(signal.SIGHUP)
        server.until("the graphs were opened again: films")
        assert server.director() == "Agnès Varda"
        (store / "out.other.bin").write_bytes(b"\xff" * 28)
        server.process.send_signal(signal.SIGHUP)
        server.until(r"those of before are served: .*out\.other\.bin is corrupted")
        assert server.director() == "Agnès Varda"


@pytest.mark.parametrize("workers", [1, 2])
def test_with_reload_it_sees_a_new_store_by_itself(tmp_path: Path, workers: int) -> None:
    with serving(made(tmp_path, "Penny Marshall"), workers=workers, reload=True) as server:
        assert server.director() == "Penny Marshall"
        made(tmp_path, "Agnès Varda")
        server.until("the graphs were opened again: films")
        for _ in range(100):
            if server.director() == "Agnès Varda":
                break
            time.sleep(0.05)
        assert {server.director() for _ in range(10)} == {"Agnès Varda"}


def test_a_store_cut_short_harms_no_other_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small store is in memory and answers on; of a large one, read by block, an item fails and names its graph."""
    stores = {name: str(made(tmp_path, "Penny Marshall", f"{name}.kg")) for name in ("small", "other")}
    with monkeypatch.context() as patch:
        for module in (blocks, files):
            patch.setattr(module, "BLOCK_BYTES", 64)
        patch.setattr(files, "WHOLE_BYTES", 0)
        patch.setattr(files, "SMALL_BYTES", 0)
        large = str(made(tmp_path, "Penny Marshall", "large.kg"))
        with in_background(create_app(ServeSettings(graphs={"large": large}))) as first:
            _cut(large)
            (failed,) = httpx.post(f"{first}/kg/query", json=[ASKED], trust_env=False).json()["results"]
            assert failed["error"]["kind"] == "graph_failed"
            assert failed["error"]["message"].startswith('the graph "large" could not answer')
            assert httpx.get(f"{first}/health", trust_env=False).status_code == 200
    with in_background(create_app(ServeSettings(graphs=stores))) as url:
        _cut(stores["small"])
        asked = [{**ASKED, "graph": name} for name in stores]
        answers = httpx.post(f"{url}/kg/query", json=asked, trust_env=False).json()["results"]
        assert [one["value"]["names"] for one in answers] == [["Penny Marshall"]] * 2


def _cut(store: str) -> None:
    for file in Path(store).glob("*.bin"):
        os.truncate(file, 0)


def test_the_start_reads_all_unless_told_not_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (blocks, files):
        monkeypatch.setattr(module, "BLOCK_BYTES", 64)
    monkeypatch.setattr(files, "WHOLE_BYTES", 0)
    monkeypatch.setattr(files, "SMALL_BYTES", 0)
    store = made(tmp_path, "Penny Marshall")
    heap = (store / "relation.heap.bin").read_bytes()
    (store / "relation.heap.bin").write_bytes(bytes([heap[0] ^ 1]) + heap[1:])
    with pytest.raises(StoreError, match=r"relation\.heap\.bin is corrupted"):
        create_app(ServeSettings(graphs={"films": str(store)}))
    with in_background(create_app(ServeSettings(graphs={"films": str(store)}, verify=False))) as url:
        (failed,) = httpx.post(f"{url}/kg/query", json=[ASKED], trust_env=False).json()["results"]
        assert failed["error"]["kind"] == "graph_failed"
