"""What deploy/ installs and starts: the lock's part for servers, the unit's command, the image's files and steps.

`make test-deploy` goes through the Dockerfile's steps below a folder of its own, without a network once the wheels are
there, and starts what they installed as the image and as the unit would. Without it those tests are skipped.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import sleep
from typing import Any

import httpx
import pytest
from typer.main import get_command

from kgwalk.cli.main import make_app

ROOT = Path(__file__).parents[2]
UNIT = (ROOT / "deploy" / "kgwalk.service").read_text()
DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text()
INSTALL = (ROOT / "deploy" / "install.sh").read_text()
SERVED = ("serve", "cpu")
apart = pytest.mark.skipif("DEPLOY" not in os.environ, reason="installs all of kgwalk once more: make test-deploy")


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
    [given] = [json.loads(rest) for word, rest in instructions() if word == "CMD"]
    for words in (command, given):
        assert {word for word in words if word.startswith("--")} <= options
    # a server that was told to stop waits for the questions under way
    assert int(value("TimeoutStopSec")) > 125


def test_the_image_is_built_from_files_that_it_is_given() -> None:
    assert all((ROOT / name).exists() for name in sent())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {project["readme"], *project["license-files"], "pyproject.toml", "src", "requirements"} <= set(sent())


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's instructions in their order: the word, and the rest of the line."""
    text = re.sub(r"^#.*\n", "", DOCKERFILE, flags=re.MULTILINE).replace("\\\n", " ")
    return [
        (word, " ".join(rest.split())) for word, _, rest in (line.partition(" ") for line in text.splitlines() if line)
    ]


@dataclass
class Image:
    """What the Dockerfile's steps make below `root`, a folder that stands for an image's `/`.

    An instruction, or a program in a RUN, that is not written down here fails the test: what the image does and what is
    tested cannot drift apart. Left out are what needs root, and pip's removal from the base.
    """

    root: Path
    environment: dict[str, str] = field(default_factory=dict)
    users: set[str] = field(default_factory=set)
    pythons: set[str] = field(default_factory=set)
    cwd: str = "/"
    told: dict[str, Any] = field(default_factory=dict)

    def here(self, text: str) -> str:
        """Absolute paths of the image as paths below `root`: /opt/kgwalk/bin as ROOT/opt/kgwalk/bin."""
        return re.sub(r"(?<![\w/])(?=/(src|opt|var|graphs)\b)", str(self.root), text)

    def build(self) -> None:
        for word, rest in instructions():
            if word == "FROM":
                self.pythons.add(rest.split()[0])
            elif word == "COPY":
                self.copy(*rest.split())
            elif word == "RUN":
                for step in rest.split(" && "):
                    self.run(shlex.split(step))
            elif word == "ENV":
                pairs = (pair.partition("=") for pair in shlex.split(rest))
                self.environment |= {name: value for name, _, value in pairs}
            elif word == "WORKDIR":
                self.cwd = self.here(rest)
            elif word == "HEALTHCHECK":
                self.told[word] = json.loads(rest.partition(" CMD ")[2])
            elif word in ("ENTRYPOINT", "CMD"):
                self.told[word] = json.loads(rest)
            elif word in ("USER", "VOLUME", "EXPOSE"):
                self.told[word] = rest
            else:
                raise AssertionError(f"deploy/Dockerfile has {word}, and no test says what it does")

    def copy(self, source: str, *to: str) -> None:
        if source == "--from=build":  # the stages share this root, and an environment cannot be moved
            assert to[0] == to[1]
            return
        assert source == "."
        for name in sent():
            target = Path(self.here(*to)) / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(ROOT / name, target)

    def run(self, words: list[str]) -> None:
        if words[0] in ("groupadd", "useradd"):
            self.users.add(words[words.index("--uid" if words[0] == "useradd" else "--gid") + 1])
        elif words[0] == "install":
            paths = [self.here(word) for word in words if word.startswith("/")]
            subprocess.run(["install", "--directory", *paths], check=True)
        elif words[0] == "sh":
            subprocess.run([self.here(word) for word in words], env=offline(self.root), cwd=self.root, check=True)
        else:
            assert words[:2] == ["pip", "uninstall"], f"deploy/Dockerfile runs {words}, and no test says what it does"

    def process(self, **more: str) -> dict[str, str]:
        """The environment of what runs in the image, as the user whom it names."""
        paths = {name: self.here(value.replace("$PATH", "/usr/bin:/bin")) for name, value in self.environment.items()}
        return {"HOME": self.here("/var/cache/kgwalk"), "OMP_NUM_THREADS": "1"} | paths | more


def sent() -> list[str]:
    """What .dockerignore lets into the build."""
    return re.findall(r"^!(.*)$", (ROOT / "deploy" / "Dockerfile.dockerignore").read_text(), re.MULTILINE)


def offline(root: Path) -> dict[str, str]:
    """An environment in which pip takes the wheels of a folder beside `root`, which is filled when the pins change."""
    wheels = root.parent / "wheels"
    builds = re.findall(r"\(([\w|-]+)\)==/ ", INSTALL)[0].split("|")
    torch = [name for name in ("torch-cpu.txt", "torch.txt") if pins(name)]
    wanted = "\n".join([*(pins("lock.txt")[name] for name in builds), *pins("serve.txt").values()])
    stamp = "\n".join([wanted, *((ROOT / "requirements" / name).read_text() for name in torch)])
    download = [sys.executable, "-m", "pip", "download", "--quiet", "--dest", str(wheels), "--no-deps"]
    hashed = [*download, "--require-hashes", "-r"]
    if not (wheels / "stamp").exists() or (wheels / "stamp").read_text() != stamp:
        shutil.rmtree(wheels, ignore_errors=True)
        wheels.mkdir(parents=True)
        (wheels / "wanted.txt").write_text(wanted)
        subprocess.run([*hashed, str(wheels / "wanted.txt")], check=True)
        subprocess.run([*download, "pip>=23.1"], check=True)
        # the small build of torch where pip's settings offer it, as install.sh does
        tried = (subprocess.run([*hashed, str(ROOT / "requirements" / name)]).returncode for name in torch)
        assert 0 in tried
        (wheels / "stamp").write_text(stamp)
    without = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    python = str(Path(sys.base_prefix) / "bin" / "python3")
    return without | {
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(wheels),
        "PIP_CONFIG_FILE": os.devnull,
        "PYTHON": python,
    }


@pytest.fixture(scope="module")
def image() -> Image:
    made = Image(Path(os.environ["DEPLOY"]).absolute())
    shutil.rmtree(made.root, ignore_errors=True)
    made.root.mkdir(parents=True)
    made.build()
    return made


def free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return str(free.getsockname()[1])


@contextmanager
def serving(command: list[str], log: Path, **options: Any) -> Iterator[httpx.Client]:
    """A server that is up and, at the end, told to stop; it has to end well."""
    port = free_port()
    with log.open("w") as opened, subprocess.Popen([*command, "--port", port], stderr=opened, **options) as server:
        try:
            transport = httpx.HTTPTransport(retries=8)  # each pause is twice as long as the one before
            url = f"http://127.0.0.1:{port}"
            with httpx.Client(base_url=url, transport=transport, timeout=180, trust_env=False) as client:
                health = client.get("/health").json()
                assert (health["status"], health["graphs"]) == ("ok", 1)
                for _ in range(600):  # the model is made ready in the cache, which takes minutes on a busy machine
                    if client.get("/health").json()["model"] == "open":
                        break
                    sleep(0.5)
                yield client
        finally:
            server.terminate()
        assert server.wait(60) == 0


def test_every_instruction_of_the_image_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[list[str]] = []
    monkeypatch.setattr(Image, "run", lambda self, words: steps.append(words))
    image = Image(tmp_path)
    image.build()
    assert [words[:2] for words in steps if words[0] == "sh"] == [["sh", "/src/deploy/install.sh"]]
    [user] = [words for words in steps if words[0] == "useradd"]
    assert image.told["USER"].split(":") == [user[user.index("--uid") + 1]] * 2
    serve = get_command(make_app("serve")).commands["serve"]  # type: ignore[attr-defined]
    [port] = [str(param.default) for param in serve.params if param.name == "port"]
    assert image.told["EXPOSE"] == port
    assert f":{port}/health" in image.told["HEALTHCHECK"][-1]
    # one Python, for which the small build of torch is
    [python] = image.pythons
    tag = "cp" + re.findall(r"^python:(\d+\.\d+)-", python)[0].replace(".", "")
    assert f"-{tag}-" in (ROOT / "requirements" / "torch-cpu.txt").read_text()
    assert (tmp_path / "src" / "src" / "kgwalk" / "py.typed").exists()


@apart
def test_the_image_serves_what_its_steps_installed(image: Image, tmp_path: Path) -> None:
    prefix = image.root / "opt" / "kgwalk"
    assert not list(prefix.glob("bin/pip*"))
    installed = {path.name.partition("-")[0].lower() for path in prefix.glob("lib/*/site-packages/*.dist-info")}
    assert not {"pytest", "mypy", "hatchling", "pip"} & installed
    kgwalk, *options = [*image.told["ENTRYPOINT"], *image.told["CMD"]]
    command = [shutil.which(kgwalk, path=image.process()["PATH"]) or kgwalk, *options]
    # for others than this machine, and without a key: it says so and ends
    refused = subprocess.run(command, env=image.process(), cwd=image.cwd, capture_output=True, text=True, timeout=60)
    assert refused.returncode == 1
    assert "KGWALK_API_KEY" in refused.stderr
    inside = image.process(KGWALK_API_KEY="secret")
    with serving(command, tmp_path / "log", env=inside, cwd=image.cwd) as client:
        [port] = re.findall(r"\d+$", str(client.base_url).rstrip("/"))
        looks = [word.replace(f":{image.told['EXPOSE']}/", f":{port}/") for word in image.told["HEALTHCHECK"]]
        python = shutil.which(looks[0], path=inside["PATH"])
        assert python == str(prefix / "bin" / "python")
        assert subprocess.run([python, *looks[1:]], env=inside).returncode == 0
        question = {"question": "what is the capital of France?"}
        assert client.post("/v1/ask", json=question).status_code == 401
        asked = client.post("/v1/ask", json=question, headers={"Authorization": "Bearer secret"})
        assert asked.json()["answers"] == ["Paris"]
    assert subprocess.run([python, *looks[1:]], env=inside, capture_output=True).returncode == 1
    assert "secret" not in (tmp_path / "log").read_text()
    assert list(Path(image.cwd).iterdir()) == []  # graphs are read there, nothing is written


@apart
def test_the_wheel_serves_as_the_unit_starts_it(image: Image, tmp_path: Path) -> None:
    prefix = image.root / "opt" / "kgwalk"
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
    work = tmp_path / "state" / "kgwalk"
    with serving([str(kgwalk), *command[1:]], tmp_path / "log", env=environment, cwd=work, umask=0o077) as client:
        assert "<title>" in client.get("/").text
        asked = client.post("/v1/ask", json={"question": "what is the capital of France?"})
        assert asked.json()["answers"] == ["Paris"]
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert [line["outcome"] for line in lines if "outcome" in line] == ["answered"]
    assert sorted(one.name for one in tmp_path.iterdir()) == ["cache", "log", "state"]
    assert list(work.iterdir()) == []
