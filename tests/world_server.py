"""A server as people start it: a process of its own, the bundled graph, the agent that comes with kgwalk.

with world_server(cache) as url: ...
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest


def environment() -> dict[str, str]:
    """This process's, with the agent that comes with kgwalk, which conftest.py hides from all other tests."""
    return {name: value for name, value in os.environ.items() if name not in ("KGWALK_AGENT", "KGWALK_API_KEY")}


@contextmanager
def world_server(cache: Path) -> Iterator[str]:
    """Its URL, once the model is open. Where no agent can run, the test is skipped and says why."""
    settings = environment() | {"KGWALK_CACHE": str(cache)}
    command = [sys.executable, "-m", "kgwalk", "serve", "--data", "world", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=settings) as server:
        try:
            assert server.stderr is not None
            told = []
            for line in server.stderr:
                told.append(line)
                if "serves at" in line:
                    break
            url = next(word for word in told[-1].split() if word.startswith("http"))
            if httpx.get(f"{url}/health", trust_env=False).json()["model"] is None:
                pytest.skip("".join(["no agent can run here: ", *told[:-1]]))
            assert told[0] == "agent: the one that comes with kgwalk\n"
            for _ in range(600):
                if httpx.get(f"{url}/health", trust_env=False).json()["model"] == "open":
                    break
                time.sleep(0.1)
            yield url
        finally:
            server.terminate()
            server.wait(20)
