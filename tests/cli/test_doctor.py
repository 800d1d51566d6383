"""`kgwalk doctor` in processes of its own: as it is here, without torch, with a base package gone or too old."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kgwalk
from commands import ENVIRONMENT
from conftest import FILMS
from kgwalk.bench.servers import ScanGraph
from kgwalk.serve.app import create_app
from kgwalk.serve.run import in_background
from kgwalk.serve.settings import ServeSettings

ROOT = Path(__file__).parents[2]
SOURCE = Path(kgwalk.__file__).parents[1]
PACKAGES = Path(sysconfig.get_path("purelib"))


class Told:
    """What the doctor said, by name."""

    def __init__(self, done: subprocess.CompletedProcess[str]) -> None:
        self.status, self.text = done.returncode, done.stdout
        self.whole: dict[str, Any] = json.loads(done.stdout)
        self.by_name = {check["name"]: check for check in self.whole["checks"]}

    def __getitem__(self, name: str) -> tuple[str, str, str | None]:
        check = self.by_name[name]
        return check["state"], check["said"], check["mend"]


def doctor(
    folder: Path, *arguments: str, packages: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """In a folder, with an empty cache; with `packages`, Python sees these and no others."""
    path = os.pathsep.join(map(str, [SOURCE] if packages is None else [SOURCE, packages]))
    alone = [] if packages is None else ["-S"]  # without the site-packages of this Python
    return subprocess.run(
        [sys.executable, *alone, "-m", "kgwalk", "doctor", *arguments],
        cwd=folder,
        env={**ENVIRONMENT, "PYTHONPATH": path, "KGWALK_CACHE": str(folder / "cache"), **environment},
        capture_output=True,
        text=True,
        timeout=180,  # a busy machine is no failure
    )


def told(folder: Path, *arguments: str, packages: Path | None = None, **environment: str) -> Told:
    return Told(doctor(folder, "--json", *arguments, packages=packages, **environment))


@pytest.fixture
def packages_without(tmp_path: Path) -> Callable[..., Path]:
    """A folder of links to the installed packages, some left out, and kgwalk's own metadata as pip would write it."""

    def make(*names: str) -> Path:
        folder = tmp_path / "packages"
        folder.mkdir()
        for one in PACKAGES.iterdir():
            if one.name.partition(".")[0].partition("-")[0].lower() not in (*names, "kgwalk", "_editable_impl_kgwalk"):
                (folder / one.name).symlink_to(one)
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        lines = [f"Requires-Dist: {line}" for line in project["dependencies"]]
        lines += [f"Requires-Dist: {line}; extra == 'local'" for line in project["optional-dependencies"]["local"]]
        (folder / "kgwalk-0.dist-info").mkdir()
        about = ["Metadata-Version: 2.1", "Name: kgwalk", f"Version: {kgwalk.__version__}", "Requires-Python: >=3.11"]
        (folder / "kgwalk-0.dist-info" / "METADATA").write_text("\n".join([*about, *lines, ""]))
        return folder

    return make


def test_what_is_here_is_in_order(tmp_path: Path) -> None:
    found = told(tmp_path)
    assert (found.status, found.whole["ok"], found.whole["version"]) == (0, True, kgwalk.__version__)
    state, said, mend = found["world"]
    assert (state, mend) == ("ok", None)
    assert "France -> capital: Paris" in said
    assert {check["state"] for check in found.whole["checks"]} <= {"ok", "absent", "warning"}
    assert found["folder"][1].startswith(f"{tmp_path / 'cache'}, 0 bytes; ")
    page = doctor(tmp_path).stdout.splitlines()
    assert page[0] == "installed"
    assert page[-1] == "in order: what kgwalk needs is there"


def test_looking_imports_neither_torch_nor_pyarrow(tmp_path: Path) -> None:
    code = "import sys; sys.argv = ['kgwalk', 'doctor']\nfrom kgwalk.cli.main import main\ntry: main()\n"
    code += (
        "except SystemExit: print([one for one in ('torch', 'transformers', 'pyarrow', 'rich') if one in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_without_torch_the_base_is_in_order_and_an_extra_is_named(
    tmp_path: Path, packages_without: Callable[..., Path]
) -> None:
    found = told(tmp_path, "--full", packages=packages_without("torch", "torchgen", "functorch", "openvino"))
    assert (found.status, found.whole["ok"]) == (0, True)
    assert found["extra local"] == (
        "absent",
        "questions by a model on torch, GPUs: no torch",
        "pip install 'kgwalk[local]'",
    )
    assert found["engines"][:2] == ("absent", "api")
    assert found["torch"] == ("absent", "not installed", "pip install 'kgwalk[local]'")
    assert found["agent"][0] == "absent"
    assert found["agent"][1].startswith("nothing here runs a model: pip install 'kgwalk[cpu]' for a processor")


def test_a_base_package_that_is_gone_breaks_it_and_the_command_says_so(
    tmp_path: Path, packages_without: Callable[..., Path]
) -> None:
    found = told(tmp_path, packages=packages_without("rapidfuzz"))
    assert (found.status, found.whole["ok"]) == (1, False)
    assert found["base"] == ("broken", "rapidfuzz is missing", "pip install 'rapidfuzz>=3.9,<4'")
    broken = [check["name"] for check in found.whole["checks"] if check["state"] == "broken"]
    assert broken == ["base", "rapidfuzz"]  # nor can the graph be opened


def test_it_speaks_without_what_the_other_commands_print_with(
    tmp_path: Path, packages_without: Callable[..., Path]
) -> None:
    packages = packages_without("orjson", "numpy", "xxhash")
    done = doctor(tmp_path, packages=packages)
    assert (done.returncode, done.stderr) == (1, "")
    assert "numpy is missing, orjson is missing, xxhash is missing" in done.stdout
    assert done.stdout.splitlines()[-1].endswith("broken: see above")


def test_a_package_that_is_too_old(tmp_path: Path, packages_without: Callable[..., Path]) -> None:
    packages = packages_without("numpy")
    (packages / "numpy").symlink_to(PACKAGES / "numpy")
    (packages / "numpy.libs").symlink_to(PACKAGES / "numpy.libs")
    (packages / "numpy-1.26.4.dist-info").mkdir()
    (packages / "numpy-1.26.4.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: numpy\nVersion: 1.26.4\n"
    )
    found = told(tmp_path, packages=packages)
    assert found.status == 1
    assert found["base"] == ("broken", "numpy 1.26.4 (needs >=2.0,<3)", "pip install 'numpy>=2.0,<3'")
    assert found["world"][0] == "ok"  # the numpy that is there is new enough; its metadata is what lies


def test_secrets_are_not_shown_and_a_misspelt_setting_is(tmp_path: Path) -> None:
    secrets = {
        "OPENAI_API_KEY": "sk-1234",
        "KGWALK_API_KEY": "swordfish",
        "HTTPS_PROXY": "http://me:open-sesame@proxy:1",
    }
    secrets |= {
        "OTEL_EXPORTER_OTLP_HEADERS": "authorization=abracadabra",
        "OPENAI_BASE_URL": "http://localhost:1/v1?key=hocus",
    }
    found = told(tmp_path, KGWALK_CASHE="/tmp", **secrets)
    assert not [word for word in ("1234", "swordfish", "sesame", "abracadabra", "hocus") if word in found.text]
    assert found["OPENAI_API_KEY"] == ("ok", "set (not shown)", None)
    assert found["HTTPS_PROXY"][1] == "http://(not shown)@proxy:1"
    assert found["OPENAI_BASE_URL"][1] == "http://localhost:1/v1?(not shown)"
    assert found["KGWALK_CASHE"][0] == "warning"
    assert found["KGWALK_CASHE"][1].startswith("no setting of kgwalk; there are KGWALK_CACHE,")
    assert found.status == 0


def test_a_port_is_free_or_taken_and_by_whom(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        state, _, mend = told(tmp_path, "--port", port)[f"port {port}"]
        assert (state, mend) == ("warning", "kgwalk serve --port 0 takes a free one")
    with in_background(create_app(ServeSettings(), {"films": ScanGraph(FILMS)})) as url:
        port = url.rpartition(":")[2]
        said = f"in use: kgwalk {kgwalk.__version__} serves there, 1 graphs, model None"
        assert told(tmp_path, "--port", port)[f"port {port}"] == ("ok", said, None)
    assert told(tmp_path, "--port", port)[f"port {port}"] == ("ok", "free on 127.0.0.1", None)


def test_the_graphs_and_the_agents_of_a_folder(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kgwalk", "kg", "build", str(ROOT / "examples" / "films.tsv"), "-q", "-o"]
    for name in ("films.kg", "hurt.kg"):
        subprocess.run([*command, name], cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / "hurt.kg" / "kgwalk.json").write_text("{")
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "one").write_bytes(b"x" * 2048)
    found = told(tmp_path)
    assert found.status == 0
    assert found["films.kg"] == ("ok", f"66 facts in {tmp_path / 'films.kg'}", None)
    assert found["hurt.kg"][::2] == ("warning", "kgwalk kg verify hurt.kg")
    assert found["folder"][1].startswith(f"{tmp_path / 'cache'}, 2 KiB; ")
    assert told(tmp_path, KGWALK_AGENT=str(tmp_path / "films.kg")).by_name["failed"]["part"] == "adapters"
