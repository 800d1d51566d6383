"""Where MCP's SDK is not installed, `kgwalk mcp` and /mcp say what to install, and the rest of the server goes on."""

from __future__ import annotations

import sys

import httpx
import pytest

from commands import Cli
from conftest import FILMS
from kgwalk.bench.servers import ScanGraph
from kgwalk.serve.app import create_app
from kgwalk.serve.run import in_background
from kgwalk.serve.settings import ServeSettings

ADVICE = "pip install 'kgwalk[mcp]'"


@pytest.fixture(autouse=True)
def absent(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*(one for one in sys.modules if one.split(".")[0] in ("mcp", "mcp_types")), "mcp", "mcp_types"]:
        monkeypatch.setitem(sys.modules, name, None)


def test_the_command(cli: Cli) -> None:
    done = cli("mcp", "--graph", "world", "--adapter", "none")
    assert (done.status, done.stdout) == (1, "")
    assert ADVICE in done.stderr


def test_the_path_of_a_server() -> None:
    app = create_app(ServeSettings(), {"films": ScanGraph(FILMS)})
    with in_background(app) as url, httpx.Client(base_url=url, trust_env=False) as client:
        reply = client.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "ping"})
        assert (reply.status_code, reply.json()["error"]["kind"]) == (503, "no_mcp")
        assert ADVICE in reply.json()["error"]["message"]
        assert client.get("/health").status_code == 200


def test_an_address_without_a_port(cli: Cli) -> None:
    done = cli("mcp", "--http", "localhost")
    assert done.status == 2
    assert "HOST:PORT" in done.stderr
