"""`kgwalk` commands as processes of their own that start at once: forks of one process that has imported torch.

To import torch and transformers takes longer than most of what these tests run. A fork is a real process: it can be
killed, it has signals and limits, and nothing that it computes stays behind.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any


class Command:
    """One `kgwalk` under way; `error` is what it has written to stderr so far."""

    def __init__(self, forks: Forks, pid: int, files: Path) -> None:
        self._forks, self.pid, self._files = forks, pid, files
        self._status: int | None = None

    def wait(self) -> int:
        """Its exit code; -9 if it was killed."""
        if self._status is None:
            self._status = int(self._forks.ask({"wait": self.pid})["status"])
        return self._status

    def kill(self, number: int = signal.SIGKILL) -> int:
        os.kill(self.pid, number)
        return self.wait()

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def running(self) -> bool:
        state = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state != "Z"

    def until(self, something: Callable[[], object], seconds: float = 60) -> bool:
        """Wait for something to be the case; False if the command ended before."""
        end = time.monotonic() + seconds
        while not something():
            if not self.running():
                return bool(something())
            assert time.monotonic() < end, f"it did not come: {self.error}"
            time.sleep(0.0005)
        return True

    @property
    def error(self) -> str:
        return self._files.with_suffix(".err").read_text()

    @property
    def output(self) -> str:
        return self._files.with_suffix(".out").read_text()


class Forks:
    """`folder` gets what commands print, and is the cache folder of all of them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._count = folder, 0
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"OMP_NUM_THREADS": "1", "KGWALK_CACHE": str(folder / "cache"), "COLUMNS": "200"},
        )

    def __enter__(self) -> Forks:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: object, trace: TracebackType | None) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def start(self, *arguments: object, most_bytes: int | None = None, **environment: str) -> Command:
        """`most_bytes` is the longest file that the command may write, as on a disk that is full."""
        self._count += 1
        files = self.folder / f"command-{self._count}"
        for ending in (".out", ".err"):
            files.with_suffix(ending).touch()
        answer = self.ask(
            {
                "arguments": [str(one) for one in arguments],
                "files": str(files),
                "most_bytes": most_bytes,
                "environment": environment,
            }
        )
        return Command(self, answer["pid"], files)

    def run(self, *arguments: object, code: int = 0, **options: Any) -> Command:
        command = self.start(*arguments, **options)
        assert command.wait() == code, f"{command.error}\n{command.output}"
        return command

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer


def serve() -> None:
    for name in ("kgwalk.training.pipeline", "kgwalk.cli.train", "peft", "torch.utils.tensorboard"):
        importlib.import_module(name)
    for name in ("AutoModelForCausalLM", "AutoTokenizer", "LlamaForCausalLM"):  # transformers imports on demand
        getattr(importlib.import_module("transformers"), name)

    for line in sys.stdin:
        request = json.loads(line)
        if "wait" in request:
            _, status = os.waitpid(request["wait"], 0)
            answer = {"status": os.waitstatus_to_exitcode(status)}
        else:
            pid = os.fork()
            if pid == 0:
                _child(request)
            answer = {"pid": pid}
        print(json.dumps(answer), flush=True)


def _child(request: dict[str, Any]) -> None:
    import resource

    from kgwalk.cli.main import main

    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, ending in ((1, ".out"), (2, ".err")):
        os.dup2(os.open(request["files"] + ending, os.O_WRONLY), number)
    os.environ.update(request["environment"])
    if request["most_bytes"] is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (request["most_bytes"], request["most_bytes"]))
    sys.argv = ["kgwalk", *request["arguments"]]
    code: Any = 0
    try:
        main()
    except SystemExit as end:
        code = end.code
    except BaseException:  # noqa: BLE001 - as the interpreter does it
        sys.excepthook(*sys.exc_info())
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 0 if code is None else 1)


if __name__ == "__main__":
    serve()
