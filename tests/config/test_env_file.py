"""What the command line takes from a `.env`: a few variables, none that is set, no address for one's own key."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kgwalk.config.runtime import MOST_BYTES, NAMES, assignments, choose, take_env_file


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("NEO4J_URI=bolt://h:7687", "bolt://h:7687"),
        ("  export NEO4J_URI = bolt://h  # the test server", "bolt://h"),
        ('NEO4J_URI="a # b"', "a # b"),
        ("NEO4J_URI='a b' # c", "a b"),
        ("NEO4J_URI=a#b", "a#b"),
        ("NEO4J_URI=#a", ""),
        ("NEO4J_URI=" + 60_000 * " " + '"', None),  # at once
        ("NEO4J_URI=$HOME/`id`", "$HOME/`id`"),  # nothing is expanded
        ("NEO4J_URI=", ""),
        ("#NEO4J_URI=a", None),
        ('NEO4J_URI="open', None),
        ("NEO4J_URI", None),
    ],
)
def test_a_line_is_an_assignment_or_left_alone(line: str, value: str | None) -> None:
    assert assignments(f"first\n{line}\n").get("NEO4J_URI") == value


def test_what_is_set_stays_and_other_names_are_nothing_to_kgwalk() -> None:
    told = {"PATH": "/evil", "LD_PRELOAD": "x.so", "PYTHONPATH": ".", "HTTPS_PROXY": "http://evil", "HF_TOKEN": "b"}
    assert choose(told, {"HF_TOKEN": "a"}) == ({}, [])
    assert choose(told, {}) == ({"HF_TOKEN": "b"}, [])
    # empty is set as well
    assert choose(told, {"HF_TOKEN": ""}) == ({}, [])


def test_no_folder_that_is_trusted_and_no_agent_comes_from_a_file() -> None:
    """An agent's card may name a system, which is code; what is in the caches is opened without being asked for."""
    kept_out = {"KGWALK_AGENT", "KGWALK_CACHE", "KGWALK_ENV_FILE", "KGWALK_LOG_QUESTIONS", "HF_HOME", "HF_ENDPOINT"}
    assert not NAMES & kept_out
    assert choose(dict.fromkeys(kept_out, "x"), {}) == ({}, [])


@pytest.mark.parametrize(
    ("address", "secret"),
    [
        ("OPENAI_BASE_URL", "OPENAI_API_KEY"),
        ("NEO4J_URI", "NEO4J_PASSWORD"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_HEADERS"),
    ],
)
def test_ones_own_key_does_not_go_to_an_address_of_the_file(address: str, secret: str) -> None:
    file = {address: "http://there", secret: "theirs"}
    assert choose(file, {secret: "mine"}) == ({}, [address])
    assert choose(file, {}) == (file, [])
    # the key of the file goes where one's own address says
    assert choose(file, {address: "http://here"}) == ({secret: "theirs"}, [])


def test_what_was_taken_is_told_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    environment = {"OPENAI_API_KEY": "mine"}
    assert take_env_file(environment) == []
    Path(".env").write_text("OPENAI_BASE_URL=http://there\nHF_TOKEN=hf_1\nOPENAI_API_KEY=theirs\n")
    assert take_env_file(environment) == [
        "note: from .env: HF_TOKEN",
        "note: .env: OPENAI_BASE_URL is not taken: your OPENAI_API_KEY would be sent there; set both in one place",
    ]
    assert environment == {"OPENAI_API_KEY": "mine", "HF_TOKEN": "hf_1"}
    assert take_env_file({"KGWALK_ENV_FILE": "none"}) == []
    Path("other").write_text("NEO4J_DATABASE=films")
    assert take_env_file({"KGWALK_ENV_FILE": "other"}) == ["note: from other: NEO4J_DATABASE"]


@pytest.mark.parametrize("content", [b"HF_TOKEN=a\0", b"HF_TOKEN=a\n" + b"#" * MOST_BYTES])
def test_what_is_no_file_of_variables_is_left_alone(content: bytes, tmp_path: Path) -> None:
    (tmp_path / ".env").write_bytes(content)
    environment = {"KGWALK_ENV_FILE": str(tmp_path / ".env")}
    assert ["is no file of variables" in note for note in take_env_file(environment)] == [True]
    assert "HF_TOKEN" not in environment
    os.mkfifo(tmp_path / "pipe")  # reading it would wait for ever
    assert take_env_file({"KGWALK_ENV_FILE": str(tmp_path / "pipe")}) == []


def test_the_command_line_reads_it_and_the_doctor_says_so(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("OPENAI_API_KEY=sk-secret\nKGWALK_GPU_SHARE=0.4\nPYTHONSTARTUP=x.py\n")
    environment = {name: value for name, value in os.environ.items() if name != "KGWALK_ENV_FILE"}
    environment = {name: value for name, value in environment.items() if not name.startswith("OPENAI_")}
    run = [sys.executable, "-m", "kgwalk", "doctor"]
    done = subprocess.run(run, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.stderr == "note: from .env: KGWALK_GPU_SHARE, OPENAI_API_KEY\n"
    assert "KGWALK_GPU_SHARE     0.4, from .env\n" in done.stdout
    assert "OPENAI_API_KEY       set (not shown), from .env\n" in done.stdout
    assert "sk-secret" not in done.stdout + done.stderr
    assert "PYTHONSTARTUP" not in done.stdout
