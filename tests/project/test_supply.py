"""What is shipped and installed: locks, licences, known bad versions, archives, keys; scripts/audit.py by examples."""

from __future__ import annotations

import ast
import importlib.metadata
import json
import sys
import tarfile
import zipfile
from email.message import Message
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("packaging.licenses")

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from script_modules import script

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "kgwalk"
HASH = "sha256:" + "0" * 64


audit = script("audit")


def pins(*lines: str) -> Any:
    return audit.read_lock("\n".join(lines), "lock.txt")


def test_a_lock_is_read_with_its_markers_and_hashes() -> None:
    hashes = f"\\\n    --hash={HASH} \\\n    --hash={HASH[:-1]}1"
    text = f"uvloop==0.23.0 ; sys_platform != 'win32' {hashes}\n    # via kgwalk\n"
    [pin] = audit.read_lock(text)
    assert (pin.name, str(pin.version), len(pin.hashes)) == ("uvloop", "0.23.0", 2)
    assert str(pin.requirement.marker) == 'sys_platform != "win32"'
    with pytest.raises(ValueError, match=r"numpy>=2\.0 pins no version"):
        audit.read_lock("numpy>=2.0")


@pytest.mark.parametrize(
    ("wanted", "line", "wrong"),
    [
        ("numpy>=2,<3", f"numpy==2.4.6 --hash={HASH}", []),
        ("numpy>=2,<3", "numpy==2.4.6", ["lock.txt: numpy==2.4.6 has no hash"]),
        ("numpy>=2,<3", "numpy==2.4.6 --hash=md5:00", ["numpy==2.4.6 has a hash that is no SHA-256"]),
        (
            "numpy>=2,<3",
            f"numpy==3.0 --hash={HASH}",
            ["lock.txt has numpy==3.0, and pyproject.toml asks for numpy<3,>=2"],
        ),
        ("rich>=13", f"numpy==2.4.6 --hash={HASH}", ["rich>=13 is in no lock"]),
    ],
)
def test_what_is_asked_for_is_pinned_within_bounds_with_a_hash(wanted: str, line: str, wrong: list[str]) -> None:
    found = list(audit.check_lock([Requirement(wanted)], pins(line)))
    assert len(found) == len(wrong)
    assert all(part in whole for part, whole in zip(wrong, found, strict=True))


@pytest.mark.parametrize(
    ("expression", "allowed"),
    [
        ("MIT", True),
        ("GPL-3.0-only", False),
        ("MPL-2.0 AND (Apache-2.0 OR MIT)", True),
        ("GPL-3.0-only OR MIT", True),
        ("MIT AND GPL-3.0-only", False),
        ("Apache-2.0 WITH LLVM-exception", False),
    ],
)
def test_a_licence_is_allowed_by_its_parts(expression: str, allowed: bool) -> None:
    assert audit.licence_allowed(expression, ["MIT", "Apache-2.0", "MPL-2.0"]) is allowed


def test_a_licence_is_read_from_metadata() -> None:
    def read(**fields: str) -> str | None:
        message = Message()
        for key, value in fields.items():
            message[key.replace("_", "-")] = value
        found: str | None = audit.licence("one", message, {"stated": "ISC"})
        return found

    assert read(License_Expression="MIT OR Apache-2.0") == "MIT OR Apache-2.0"
    assert read(License="Apache 2.0") == "Apache-2.0"
    assert read(License="as you like", Classifier="License :: OSI Approved :: MIT License") == "MIT"
    assert read(License="as you like") is None
    assert audit.licence("stated", Message(), {"stated": "ISC"}) == "ISC"


INSTALLED = {canonicalize_name(one.name): one for one in importlib.metadata.distributions()}


def _needed() -> list[str]:
    """The installed packages that the base install and the extras bring, and what these need in turn."""
    waiting = [one.name for lines in audit.requirements().values() for one in lines]
    found: set[str] = set()
    while waiting:
        name = canonicalize_name(waiting.pop())
        if name in INSTALLED and name not in found:
            found.add(name)
            for line in INSTALLED[name].requires or []:
                needed = Requirement(line)
                if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                    waiting.append(needed.name)
    return sorted(found)


@pytest.mark.parametrize("name", _needed())
def test_every_installed_dependency_has_a_licence_that_is_allowed(name: str) -> None:
    rules = audit.policy()["licences"]
    found = audit.licence(name, INSTALLED[name].metadata, rules["stated"])
    allowed = rules["allowed"] + rules["only_with_torch_for_gpus"]
    assert found is not None, f"{name} names no licence; read it, and put it into requirements/audit.toml"
    assert audit.licence_allowed(found, allowed), f"{name} is under {found}"


def test_known_bad_versions_are_found_in_the_lock_and_in_the_bounds() -> None:
    known = [{"package": "h11", "bad": "<0.16.0", "id": "CVE-2025-43859", "what": "request smuggling"}]
    wanted = [Requirement("h11>=0.14"), Requirement("h11>=0.16,<1")]
    found = list(audit.check_advisories(pins(f"h11==0.15.0 --hash={HASH}"), wanted, known))
    assert found == [
        "lock.txt has h11==0.15.0; CVE-2025-43859: request smuggling",
        "pyproject.toml allows h11 0.14; CVE-2025-43859: request smuggling",
    ]
    assert list(audit.check_advisories(pins(f"h11==0.16.0 --hash={HASH}"), wanted[1:], known)) == []


def test_keys_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "ROOT", tmp_path)
    (tmp_path / "a.txt").write_text("nothing\n" + "AKIA" + "ABCDEFGHIJKLMNOP" + "\n" + "hf_" + "a" * 34 + "\n")
    (tmp_path / "b.txt").write_text("sk-short and a hash " + "0" * 64)
    assert list(audit.check_secrets([tmp_path / "a.txt", tmp_path / "b.txt"])) == [
        "a.txt:2 has what looks like a key of AWS",
        "a.txt:3 has what looks like a token of the Hugging Face hub",
    ]


KEYS = {  # in two parts, so that none stands in this file
    "a private key": [("-----BEGIN ", f"{kind}PRIVATE KEY") for kind in ("", "RSA ", "OPENSSH ")],
    "a key of AWS": [("AKIA", "A1" * 8), ("ASIA", "B2" * 8)],
    "a token of GitHub": [*((f"gh{one}_", "a" * 36) for one in "pousr"), ("github_pat_", "a" * 60)],
    "a token of GitLab": [("glpat-", "a" * 20)],
    "a token of the Hugging Face hub": [("hf_", "a" * 30)],
    "a key of OpenAI or Anthropic": [("sk-", "a" * 32), ("sk-proj-", "a" * 32), ("sk-ant-", "a" * 32)],
    "a token of PyPI": [("pypi-AgEI", "a" * 50)],
    "a token of Slack": [(f"xox{one}-", "a" * 20) for one in "abprs"],
    "a key of Google": [("AIza", "a" * 35)],
}


@pytest.mark.parametrize("kind", audit.SECRETS)
def test_a_key_of_every_kind_is_found(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "ROOT", tmp_path)
    for parts in KEYS[kind]:
        (tmp_path / "a.txt").write_text(f"key = {''.join(parts)}\n")
        assert list(audit.check_secrets([tmp_path / "a.txt"])) == [f"a.txt:1 has what looks like {kind}"]


def test_the_wheel_is_compared_with_the_list_both_ways() -> None:
    found = list(audit.check_wheel(["kgwalk/a.py", "kgwalk/data/world.tsv.gz"], ["kgwalk/*.py", "kgwalk/py.typed"]))
    assert [line.split(",")[0] for line in found] == [
        "the wheel holds kgwalk/data/world.tsv.gz",
        "the wheel holds no kgwalk/py.typed",
    ]


def test_an_sbom_of_other_versions_is_stale() -> None:
    one = {"name": "numpy", "version": "2.4.5", "purl": "pkg:pypi/numpy@2.4.5", "licenses": [{"expression": "MIT"}]}
    found = list(
        audit.check_sbom(
            pins(f"numpy==2.4.6 --hash={HASH}", f"rich==15.0.0 --hash={HASH}"), json.dumps({"components": [one]})
        )
    )
    assert found[:2] == [
        "the SBOM lists numpy 2.4.5, which is not locked: run `make sbom`",
        "the SBOM lacks rich==15.0.0: run `make sbom`",
    ]
    assert [line.split(":")[0] for line in found[2:]] == [
        "the SBOM has no hash of the world graph as it is now",
        "the SBOM has no hash of the shipped agent as it is now",
        "the SBOM has no hash of the word vectors as it is now",
    ]


@pytest.mark.parametrize("check", ["lock", "licences", "advisories", "sbom", "secrets"])
def test_this_tree_passes(check: str) -> None:
    """`make audit` runs these too, and those that build the archives or look at what is installed."""
    assert list(audit.CHECKS[check]()) == []


def test_the_archives_hold_what_they_should(tmp_path: Path) -> None:
    """The source archive can run its own tests and benchmarks; the wheel has the package and its data."""
    pytest.importorskip("hatchling")
    with tarfile.open(audit.build("sdist", tmp_path / "sdist")) as archive:
        held = [name.partition("/")[2] for name in archive.getnames()]
    assert {"benchmarks/attack/__main__.py", "adapters/kg-r1-metaqa/README.md", "requirements/lock.txt"} <= set(held)
    assert list(audit.check_sdist(held)) == []
    with zipfile.ZipFile(audit.build("wheel", tmp_path / "wheel")) as archive:
        names = archive.namelist()
    assert list(audit.check_wheel(names, audit.policy()["wheel"]["files"])) == []
    assert not [name for name in names if name.endswith(".tsv.gz")]


def test_no_pickle_is_read_from_a_file_and_no_model_brings_code() -> None:
    """Every load of a model says so itself; pickles pass between a process and the workers it started, nowhere else."""
    for path in SOURCE.rglob("*.py"):
        text = path.read_text()
        if path.name != "messages.py":
            assert "import pickle" not in text, path
        for call in [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]:
            name = ast.unparse(call.func)
            given = {word.arg: ast.unparse(word.value) for word in call.keywords}
            assert name != "torch.load", path
            if name in ("np.load", "np.save"):
                assert given.get("allow_pickle") == "False", path
            if name.startswith("Auto") and name.endswith(".from_pretrained"):
                assert given.get("trust_remote_code") == "False", path
                if name.startswith("AutoModel"):
                    assert given.get("use_safetensors") == "True" or "gguf_file" in given, path
            if name == "AsyncEngineArgs":
                assert (given["load_format"], given["trust_remote_code"]) == ("'safetensors'", "False")


# What the card calls the sets that benchmarks/agents names; those of one source have one name.
ON_THE_CARD = {
    "worlds": "random worlds",
    "world": "the bundled graph and its questions",
    "metaqa": "MetaQA",
    "kg-fb15k237": "FB15k-237",
    "pq-2h": "PathQuestion",
    "pq-3h": "PathQuestion",
    "pql-3h": "PathQuestion-Large",
    "wc2014": "WorldCup2014",
    "webqsp-fbpool": "WebQSP, ComplexWebQuestions, GrailQA: the questions",
    "cwq-fbpool": "WebQSP, ComplexWebQuestions, GrailQA: the questions",
    "grailqa-fbpool": "WebQSP, ComplexWebQuestions, GrailQA: the questions",
    "timequestions": "TimeQuestions",
}


def test_the_card_lists_each_set_that_the_agent_learnt_from_with_its_licence() -> None:
    sys.path.insert(0, str(ROOT))  # benchmarks are no part of the package
    from benchmarks.agents.experiments import MADE, MIXED

    card = (SOURCE / "walk" / "shipped" / "MODEL_CARD.md").read_text().split("## Licences")[1]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in card.splitlines() if line[:1] == "|"]
    listed = {row[0]: row[-1] for row in rows[2:]}
    learnt = {MADE[name][0] if name in MADE else name for name in MIXED}
    assert learnt == set(ON_THE_CARD)
    assert set(ON_THE_CARD.values()) | {"the Freebase fragment: their facts", "lessons"} == set(listed)
    assert all(listed.values())
