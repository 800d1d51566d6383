"""Names that hold escape sequences, line breaks or markup, printed by real processes: none reaches the terminal raw."""

from __future__ import annotations

import json
import logging
import os
import pty
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from commands import ENVIRONMENT
from conftest import store_of
from kgwalk.config.runtime import VisibleFormatter, visible, visible_message
from kgwalk.kg.store import open_graph

EVIL = "Evil\x1b]52;c;cHduZWQ=\x07\x1b[2J\r\nforged\u202e\u200b\x9b31m\x7f"
SHOWN = r"Evil\x1b]52;c;cHduZWQ=\x07\x1b[2J\r\nforged\u202e\u200b\x9b31m\x7f"
MARKUP = "[link=http://a]y[/link] :smile:"
FACTS = [("Big", "directed_by", EVIL), (EVIL, "made\x1b[31m_by\nforged", MARKUP)]

# A random model, which writes anything: to make the shipped one ready for this machine would take half a minute.
TINY = ("--model", "tiny-random", "--adapter", "none", "--engine", "local", "--set", "protocol.turns=2")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("evil")
    store_of(folder, FACTS)
    return folder


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kgwalk", *arguments]
    return subprocess.run(command, cwd=folder, env=ENVIRONMENT, capture_output=True, encoding="utf-8", check=False)


@pytest.mark.parametrize(
    "arguments",
    [
        ("kg", "info", "graph.kg"),
        ("kg", "relations", "graph.kg"),
        ("kg", "query", "graph.kg", "Big", "directed_by"),
        ("kg", "find", "graph.kg", "Evil"),
        ("kg", "query", "graph.kg", f"{EVIL}!"),
        ("kg", "query", "graph.kg", "Big", f"--{EVIL}"),
        ("ask", "Where is it?", "--graph", "graph.kg", "--topic", f"{EVIL}!", *TINY),
    ],
    ids=" ".join,
)
def test_what_would_steer_a_terminal_is_shown_escaped(arguments: tuple[str, ...], folder: Path) -> None:
    done = run(folder, *arguments)
    printed = done.stdout + done.stderr
    assert r"Evil\x1b]52;c;cHduZWQ" in printed
    assert not set(printed) & set("\x1b\x07\r\x9b\x7f\u202e\u200b")
    assert not any(line.startswith("forged") for line in printed.splitlines())


def test_a_name_is_escaped_in_the_same_way_everywhere(folder: Path) -> None:
    assert run(folder, "kg", "query", "graph.kg", "Big", "directed_by").stdout.splitlines()[1] == f"  {SHOWN}"
    assert SHOWN in run(folder, "kg", "info", "graph.kg").stdout


def test_markup_and_emoji_codes_are_text(folder: Path) -> None:
    for arguments in (("kg", "info"), ("kg", "relations"), ("kg", "find")):
        more = ("link y smile",) if arguments[1] == "find" else ()
        assert MARKUP in run(folder, *arguments, "graph.kg", *more).stdout


def test_on_a_terminal_too(folder: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "kgwalk", "kg", "query", "graph.kg", "Big", "directed_by"]
    with subprocess.Popen(command, cwd=folder, env={**ENVIRONMENT, "TERM": "xterm"}, stdout=theirs, stderr=theirs):
        os.close(theirs)
        printed = b""
        with suppress(OSError):  # the other end is closed
            while part := os.read(ours, 1 << 16):
                printed += part
    os.close(ours)
    assert SHOWN.encode() in printed
    assert b"\x1b]52" not in printed
    assert b"\x1b[2J" not in printed


def test_json_and_exports_are_data(folder: Path) -> None:
    answer = json.loads(run(folder, "kg", "query", "graph.kg", "Big", "directed_by", "--json").stdout)
    assert answer["out"]["names"] == [EVIL]
    exported = run(folder, "kg", "export", "graph.kg", "-o", "again.tsv")
    assert exported.returncode == 0, exported.stderr
    built = run(folder, "kg", "build", "again.tsv", "-o", "again.kg")
    assert built.returncode == 0, built.stderr
    assert open_graph(folder / "again.kg").neighbors("Big", "directed_by").names == [EVIL]


def test_a_line_of_a_broken_file_is_shown_escaped(folder: Path) -> None:
    (folder / "broken.tsv").write_text("a\tb\tc\nno tail \x1b[2J\u202e\n", encoding="utf-8")
    done = run(folder, "kg", "build", "broken.tsv", "-o", "broken.kg")
    assert done.returncode == 1
    assert r"\x1b[2J\u202e" in done.stderr
    assert "\x1b" not in done.stderr
    assert done.stderr.count("\n") > 1, "the advice stands on lines of its own"


# The functions


def test_scripts_keep_the_joiners_that_they_need() -> None:
    for name in ("می\u200cخواهم", "क्\u200dष", "👩\u200d💻", "Zoë", "東京", "a\\nb", "non\u00a0breaking"):
        assert visible(name) == name
    assert visible("a\u200bb\u00adc\u2066d\ufeffe") == r"a\u200bb\xadc\u2066d\ufeffe"
    assert visible("\U000e0041") == r"\U000e0041"


def test_a_message_keeps_its_own_lines_only() -> None:
    assert visible_message("bad\nerror: forged\n  do this") == "bad\\nerror: forged\n  do this"


def test_a_log_line_is_one_line_and_a_traceback_is_readable() -> None:
    formatter = VisibleFormatter("%(levelname)s %(message)s")
    record = logging.LogRecord("kgwalk", logging.ERROR, "f.py", 1, "a graph failed: %s", (EVIL,), None)
    assert formatter.format(record) == f"ERROR a graph failed: {SHOWN}"
    try:
        raise ValueError(EVIL)
    except ValueError:
        record.exc_info = sys.exc_info()
    text = formatter.format(record)
    assert not set(text) & set("\x1b\x07\r\x9b\x7f\u202e")
    assert text.splitlines()[1] == "Traceback (most recent call last):"


def test_warnings_of_a_command_are_escaped(folder: Path) -> None:
    """Nobody sets a handler in the command line: Python's own last one is used."""
    code = (
        "import sys, logging; from kgwalk.cli.main import main; sys.argv = ['kgwalk', '--version']\n"
        "try: main()\nexcept SystemExit: pass\n"
        f"logging.getLogger('kgwalk.web').warning('a web search failed: %s', {EVIL!r})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, encoding="utf-8", check=True
    )
    assert done.stderr == f"a web search failed: {SHOWN}\n"
