"""What deploy/ installs and starts: the lock's part for servers, the unit's command, the image's files.

`make test-deploy` installs the wheel into an environment of its own and starts it as the unit would; without it the
last test has nothing to start.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
import subprocess
import tomllib
from pathlib import Path
from time import sleep

import httpx
import pytest
from typer.main import get_command

from kgwalk.cli.main import make_app

ROOT = Path(__file__).parents[2]
UNIT = (ROOT / "deploy" / "kgwalk.service").read_text()
DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text()
SERVED = ("serve", "cpu")


def value(name: str) -> str:
    """A setting of the unit that stands there once."""
    [found] = re.findall(rf"^{name}=(.*)$", UNIT, re.MULTILINE)
    return str(found)


def started(folder: Path) -> tuple[list[str], dict[str, str]]:
    """The unit's command and environment, its specifiers taken as folders of `folder`."""
    environment: dict[str, str] = {}
    for line in re.findall(r"^Environment=(.*)$", UNIT, re.MULTILINE):
        for word in shlex.split(line):
            name, _, set_to = word.partition("=")
            environment[name] = set_to.replace("%C", str(folder / "cache")).replace("%S", str(folder / "state"))
    command: list[str] = []
    for word in shlex.split(value("ExecStart")):
        command += environment[word[1:]].split() if word.startswith("$") else [word]
    return command, environment


def pins(name: str) -> dict[str, str]:
    text = (ROOT / "requirements" / name).read_text()
    entries = [entry for entry in re.split(r"^(?=\S)", text, flags=re.MULTILINE) if "==" in entry]
    return {entry.partition("==")[0]: re.sub(r"\s*#.*", "", entry).strip() for entry in entries}


def test_what_a_server_installs_is_of_the_lock_and_whole() -> None:
    served, locked = pins("serve.txt"), pins("lock.txt")
    assert served.items() <= locked.items()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *(line for name in (*SERVED, "local") for line in extras[name])]
    names = {re.match(r"[\w.-]+", line)[0] for line in wanted} - {"kgwalk", "torch"}  # type: ignore[index]
    assert names <= set(served)
    assert not {"pytest", "mypy", "hatchling", "pip"} & set(served)


def test_the_unit_and_the_image_give_options_that_there_are() -> None:
    serve = get_command(make_app("serve")).commands["serve"]  # type: ignore[attr-defined]
    options = {name for param in serve.params for name in param.opts}
    command, _ = started(Path("/var"))
    assert command[:2] == ["/opt/kgwalk/bin/kgwalk", "serve"]
    [given] = re.findall(r"^CMD (\[.*\])$", DOCKERFILE, re.MULTILINE)
    for words in (command, json.loads(given)):
        assert {word for word in words if word.startswith("--")} <= options
    # a server that was told to stop waits for the questions under way
    assert int(value("TimeoutStopSec")) > 125


def test_the_image_is_built_from_files_that_it_is_given() -> None:
    sent = re.findall(r"^!(.*)$", (ROOT / "deploy" / "Dockerfile.dockerignore").read_text(), re.MULTILINE)
    assert all((ROOT / name).exists() for name in sent)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {project["readme"], *project["license-files"], "pyproject.toml", "src", "requirements"} <= set(sent)


@pytest.mark.skipif("DEPLOYED" not in os.environ, reason="needs kgwalk installed from its wheel: make test-deploy")
def test_the_wheel_serves_as_the_unit_starts_it(tmp_path: Path) -> None:
    prefix = Path(os.environ["DEPLOYED"]).absolute()
    command, own = started(tmp_path)
    for name in ("cache", "state"):
        (tmp_path / name / "kgwalk").mkdir(parents=True)
    environment = {"PATH": "/usr/bin:/bin", "HOME": "/", "OMP_NUM_THREADS": "1", **own}  # of a user without a home
    kgwalk = prefix / "bin" / "kgwalk"
    looked = subprocess.run([kgwalk, "doctor", "--json"], capture_output=True, text=True, env=environment, cwd=tmp_path)
    told = {check["name"]: check for check in json.loads(looked.stdout)["checks"]}
    assert looked.returncode == 0
    assert str(prefix) in told["kgwalk"]["said"]  # the wheel's, not the checkout's
    assert [told[name]["state"] for name in ("base", "extra serve", "extra cpu", "world", "smollm2-135m")] == ["ok"] * 5
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    with (
        (tmp_path / "log").open("w") as log,
        subprocess.Popen(
            [kgwalk, *command[1:], "--port", port],
            env=environment,
            cwd=tmp_path / "state" / "kgwalk",
            stderr=log,
            umask=0o077,
        ) as server,
    ):
        try:
            transport = httpx.HTTPTransport(retries=8)  # each pause is twice as long as the one before
            url = f"http://127.0.0.1:{port}"
            with httpx.Client(base_url=url, transport=transport, timeout=180, trust_env=False) as client:
                health = client.get("/health").json()
                assert (health["status"], health["graphs"]) == ("ok", 1)
                assert "<title>" in client.get("/").text
                for _ in range(600):  # the model is made ready in the cache, which takes minutes on a busy machine
                    if client.get("/health").json()["model"] == "open":
                        break
                    sleep(0.5)
                asked = client.post("/v1/ask", json={"question": "what is the capital of France?"})
                assert asked.json()["answers"] == ["Paris"]
        finally:
            server.terminate()
        assert server.wait(60) == 0
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert [line["outcome"] for line in lines if "outcome" in line] == ["answered"]
    assert sorted(one.name for one in tmp_path.iterdir()) == ["cache", "log", "state"]
    assert list((tmp_path / "state" / "kgwalk").iterdir()) == []
