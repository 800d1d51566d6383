"""Names with escape sequences, line breaks and bidi marks, through every command that prints names and in logs.

Each command is a process of its own, its output a pipe; a few run once more on a terminal. A failure is a raw control
or format character in what was printed, or a line that a name forged. `--json` and exports are data: not looked at.
"""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import tempfile
import time
import unicodedata
import urllib.parse
import urllib.request
from contextlib import suppress
from pathlib import Path

from benchmarks.attack import Result

FORGED = "forged: a line"
# Writes to the clipboard, clears the screen, moves the cursor up, rings; forges a line; turns the order of letters; C1.
EVIL = f"Evil\x1b]52;c;cHduZWQ=\x07\x1b[2J\x1b[1A\r\n{FORGED}\u202e\u200b\x9b31m\x7f"
MARKUP = "[red]x[/red] [link=http://127.0.0.1/]y[/link] :smile:"
RELATION = f"made\x1b[31m_by\n{FORGED}"
FACTS = [
    ("Big", "directed_by", EVIL),
    ("Big", RELATION, MARKUP),
    (EVIL, "born_in", "Bronx"),
    (EVIL, RELATION, EVIL + "2"),
    (MARKUP, "directed_by", EVIL),
]
KEPT = frozenset("\n\u200c\u200d")
DRAWN_LINE = re.compile(r"^[\u2500-\u257f][\u2500-\u257f ]*")  # the left of a table's row


def attack(seconds: float, seed: int) -> Result:
    """Every command once, in the order in which one needs what another made."""
    result, until = Result(), time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _write(folder)
        done = 0
        for arguments, on_terminal in _commands():
            if time.monotonic() > until:
                break
            done += 1
            printed = _printed(arguments, folder)
            result.check(*_judged(" ".join(arguments), printed))
            if on_terminal and time.monotonic() < until:
                shown = _on_terminal(arguments, folder)
                # rich colours there: only what is the name's own is looked for
                raw = [
                    part for part in ("\x1b]52", "\x1b[2J", "\x1b[1A", "\x9b", "\u202e", f"\n{FORGED}") if part in shown
                ]
                result.check(not raw, f"{' '.join(arguments)!r} on a terminal prints {raw}")
        if time.monotonic() < until:
            log, hostile = _server_log(folder)
            result.check(*_judged("serve", log))
            result.check(hostile, f"the server's log does not tell of the hostile requests: {log[-300:]!r}")
    result.figures = {"commands": f"{done} of {len(_commands())}"}
    return result


def _commands() -> list[tuple[list[str], bool]]:
    return [
        (["kg", "build", "facts.jsonl", "-o", "graph.kg"], False),
        (["kg", "build", "broken.tsv", "-o", "broken.kg"], False),
        (["kg", "build", "broken.tsv", "-o", "broken.kg", "--on-error", "skip"], False),
        (["kg", "info", "graph.kg"], True),
        (["kg", "relations", "graph.kg"], True),
        (["kg", "query", "graph.kg", "Big"], True),
        (["kg", "query", "graph.kg", EVIL, RELATION], True),
        (["kg", "query", "graph.kg", "Big", f"no{RELATION}"], False),
        (["kg", "query", "graph.kg", f"{EVIL} not"], True),
        (["kg", "query", "graph.kg", f"--{EVIL}"], False),
        (["kg", "find", "graph.kg", "Evil"], True),
        (["kg", "find", "graph.kg", "\x1b[2J\u202e"], False),
        (["data", "show", "data"], False),
        (["data", "check", "data"], False),
        (["questions", "make", "graph.kg", "-o", "made", "--count", "4"], False),
        (["demos", "kgwalk", "--data", "data", "--split", "test", "-o", "demos.jsonl"], False),
        (["eval", "oracle", "--data", "data", "-o", "first"], False),
        (["eval", "random-walk", "--data", "data", "-o", "second"], False),
        (["compare", "first", "second"], False),
        (["kg", "propose", "first", "-o", "proposed.jsonl"], False),
        (["web", "search", "Evil", "--web", "corpus.jsonl"], False),
        (["ask", "who directed Big?", "--graph", "graph.kg", "--engine", "cpu"], False),
        (["ask", f"where was {EVIL} born?", "--graph", "graph.kg", "--topic", f"{EVIL}?!"], False),
    ]


def _write(folder: Path) -> None:
    lines = "".join(f"{json.dumps(fact)}\n" for fact in FACTS)
    (folder / "facts.jsonl").write_text(lines)
    (folder / "broken.tsv").write_text(f"Big\tdirected_by\tPenny\nBig\tno tail \x1b[2J\u202e {MARKUP}\n")
    (folder / "data").mkdir()
    (folder / "data" / "kg.jsonl").write_text(lines)
    questions = [
        ("q\x1b[2J\n1", "Who directed Big?", "Big", [EVIL], [[list(FACTS[0])]]),
        ("q2", f"Where was {EVIL} born?", EVIL, ["Bronx"], [[list(FACTS[2])]]),
        ("q3", f"What has {MARKUP}?", "not there\x1b[2J", ["nothing\u202e"], None),
    ]
    rows = [
        {"id": id_, "question": text, "topic_entities": [topic], "answers": answers, "gold_paths": paths}
        for id_, text, topic, answers, paths in questions
    ]
    (folder / "data" / "test.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    document = {"title": f"Evil {EVIL}", "text": f"Evil is {EVIL} and {MARKUP}.", "source": EVIL}
    (folder / "corpus.jsonl").write_text(f"{json.dumps(document)}\n")


def _environment() -> dict[str, str]:
    return {**os.environ, "COLUMNS": "400", "OMP_NUM_THREADS": "1"}


def _printed(arguments: list[str], folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "kgwalk", *arguments], cwd=folder, env=_environment(), capture_output=True, check=False
    )
    return (done.stdout + done.stderr).decode(errors="replace")


def _on_terminal(arguments: list[str], folder: Path) -> str:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "kgwalk", *arguments], cwd=folder, env=_environment(), stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    read = b""
    with suppress(OSError):  # Linux says so when the other end is closed
        while part := os.read(ours, 1 << 16):
            read += part
    os.close(ours)
    process.wait()
    return read.decode(errors="replace").replace("\r\n", "\n")


def _judged(what: str, printed: str) -> tuple[bool, str]:
    raw = {
        character
        for character in printed
        if character not in KEPT and unicodedata.category(character) in ("Cc", "Cf", "Zl", "Zp")
    }
    forged = [line for line in printed.split("\n") if DRAWN_LINE.sub("", line).startswith(FORGED)]
    broken = "Traceback" in printed
    marked = "http://127.0.0.1/" in printed and "[link=http" not in printed
    right = not raw and not forged and not broken and not marked and bool(printed.strip())
    return right, f"{what!r} prints {sorted(map(ascii, raw))} {forged[:1]} {printed[-400:]!r}"


def _server_log(folder: Path) -> tuple[str, bool]:
    """What a server wrote to stderr when it was asked for hostile names, and whether the requests are in it."""
    log = folder / "log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "kgwalk", "serve", "--graph", "graph.kg", "--port", "0", "--access-log"],
            cwd=folder,
            env=_environment(),
            stderr=file,
            stdout=file,
        )
        try:
            url, until = None, time.monotonic() + 60
            while url is None and process.poll() is None and time.monotonic() < until:
                time.sleep(0.1)
                url = re.search(r"serves at (http://\S+)", log.read_text(errors="replace"))
            if url is not None:
                for path in (f"/{urllib.parse.quote(EVIL)}", f"/v1/graphs/x?name={urllib.parse.quote(EVIL)}"):
                    with suppress(OSError):
                        urllib.request.urlopen(url[1] + path, timeout=10).close()
        finally:
            process.terminate()
            process.wait()
    text = log.read_text(errors="replace")
    return text, "Evil" in text
