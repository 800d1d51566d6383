"""A Virtuoso server of its own for tests and benchmarks: a folder, two loopback ports, a graph for each data set.

`make test-virtuoso` runs the tests of SPARQL graphs against it; Debian and Ubuntu have it as virtuoso-opensource.
"""

from __future__ import annotations

import atexit
import itertools
import shutil
import socket
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path

import httpx

PROGRAMS = ("virtuoso-t", "isql-vt")
_INI = """
[Database]
DatabaseFile = {folder}/virtuoso.db
ErrorLogFile = {folder}/virtuoso.log
LockFile = {folder}/virtuoso.lck
TransactionFile = {folder}/virtuoso.trx
xa_persistent_file = {folder}/virtuoso.pxa
[TempDatabase]
DatabaseFile = {folder}/temp.db
TransactionFile = {folder}/temp.trx
[Parameters]
ServerPort = 127.0.0.1:{sql}
NumberOfBuffers = 4000
MaxDirtyBuffers = 2000
DirsAllowed = {folder}
[HTTPServer]
ServerPort = 127.0.0.1:{http}
ServerThreads = 16
[SPARQL]
ResultSetMaxRows = 10000
"""


def absent() -> str:
    """What is missing, in words; "" if the server can be started."""
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    return f"Virtuoso is not installed ({' and '.join(missing)} not found): apt install virtuoso-opensource" * bool(
        missing
    )


class Virtuoso:
    """A running server. It is stopped, and its folder removed, when the program ends."""

    def __init__(self) -> None:
        if problem := absent():
            raise RuntimeError(problem)
        self._folder = Path(tempfile.mkdtemp(prefix="kgwalk-virtuoso-"))
        self._sql, http = _free_port(), _free_port()
        ini = self._folder / "virtuoso.ini"
        ini.write_text(_INI.format(folder=self._folder, sql=self._sql, http=http))
        self._process = subprocess.Popen(
            ["virtuoso-t", "+configfile", str(ini), "+foreground", "+wait"],
            cwd=self._folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        atexit.register(self.stop)
        self.url = f"http://127.0.0.1:{http}/sparql"
        self._graphs = itertools.count(1)
        self._client = httpx.Client(timeout=30)
        self._wait()

    def _wait(self) -> None:
        until = time.monotonic() + 60
        while time.monotonic() < until and self._process.poll() is None:
            try:
                if self._client.get(self.url, params={"query": "ASK {}"}).is_success:
                    return
            except httpx.TransportError:
                time.sleep(0.1)
        raise RuntimeError(f"Virtuoso did not start:\n{(self._folder / 'virtuoso.log').read_text()[-2000:]}")

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        self._client.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def load(self, turtle: bytes) -> str:
        """Load a data set as a graph of its own; returns the graph's IRI."""
        number = next(self._graphs)
        file, graph = self._folder / f"{number}.ttl", f"urn:test:{number}"
        file.write_bytes(turtle)
        command = f"DB.DBA.TTLP_MT(file_to_string_output('{file}'), '', '{graph}', 0); checkpoint;"
        run = ["isql-vt", f"127.0.0.1:{self._sql}", "dba", "dba", f"exec={command}"]
        done = subprocess.run(run, capture_output=True, text=True, check=False)
        if done.returncode or "Error" in done.stdout + done.stderr:
            raise RuntimeError(done.stdout + done.stderr)
        return graph

    def query(self, query: str, graph: str, headers: dict[str, str]) -> httpx.Response:
        return self._client.post(self.url, data={"query": query, "default-graph-uri": graph}, headers=headers)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@cache
def running() -> Virtuoso:
    """The one server of this process."""
    return Virtuoso()
