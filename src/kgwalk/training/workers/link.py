"""One worker process and this side's end of the socket to it: started, written to, read from, ended.

The process is a new Python, not a fork: one that has used a GPU cannot be forked. It sees no GPU, has one thread for
mathematics, and finds what this one can import. Knows nothing of messages but their frames.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from kgwalk.training.workers.frames import Frames
from kgwalk.types import KgwalkError

READ = 1 << 20  # bytes at once
ROOM = 1 << 22  # bytes that may wait in the socket: a bundle of requests is 50 kB
STDERR = 2  # its number: standard output is for results
PATIENCE = 5.0  # seconds for a worker to exit by itself


class Link:
    """`number` of `count`: as people call it. Its standard output is this process's standard error."""

    def __init__(self, number: int, count: int) -> None:
        self._name = f"worker {number} of {count}"
        self._frames = Frames()
        self._end, other = socket.socketpair()
        with other:
            for end in (self._end, other):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, ROOM)
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "kgwalk.training.workers.process", str(other.fileno())],
                pass_fds=[other.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=STDERR,
                env=os.environ | _environment(),
            )

    def __str__(self) -> str:
        return f"{self._name} (process {self.pid})"

    @property
    def pid(self) -> int:
        return self._process.pid

    def fileno(self) -> int:
        return self._end.fileno()

    def send(self, data: bytes) -> None:
        """Waits until all is in the socket; a worker always reads."""
        try:
            self._end.sendall(data)
        except OSError as error:
            raise self._died() from error

    def received(self) -> list[Any]:
        """The messages that have come; call it when there is something to read."""
        try:
            data = self._end.recv(READ)
        except OSError as error:
            raise self._died() from error
        if not data:
            raise self._died()
        return self._frames.feed(data)

    def processor_seconds(self) -> float:
        """Used by the process so far; 0 where the system does not tell."""
        try:
            fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")  # user and system time, in ticks

    def hang_up(self) -> None:
        """The worker exits when it finds its socket closed."""
        self._end.close()

    def wait(self) -> None:
        """Until it has exited; one that does not is killed."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(PATIENCE)
            return
        self._process.kill()
        self._process.wait()

    def _died(self) -> KgwalkError:
        try:
            code = self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            return KgwalkError(f"{self} closed its connection and runs on; it was ended, and the walk with it")
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with status {code}"
        hint = " (memory may have run out)" if code == -signal.SIGKILL else ""
        return KgwalkError(f"{self} {how}{hint} before its walks were done; grpo.rollout_workers=0 walks without any")


def _environment() -> dict[str, str]:
    paths = [path or os.getcwd() for path in sys.path]
    return {
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)),
        "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "CUDA_VISIBLE_DEVICES": "",
    }
