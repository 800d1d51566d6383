"""The Python examples of the documents, run as they stand."""

from __future__ import annotations

import doctest
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

import kgwalk
from kgwalk.kg.store import open_graph
from kgwalk.kg.subgraphs import Seeds, write_subgraphs

ROOT = Path(__file__).parents[2]
EVENTS = """\
Barack Obama\tborn_in\tHonolulu
Barack Obama\tvisited\tJapan\t2014-04
Barack Obama\tvisited\tJapan\t2016-05-25
Barack Obama\tvisited\tKenya\t2015-07
Donald Trump\tholds\tPresident\t2017-01-20..2021-01-20
"""


@pytest.mark.parametrize("page", ["concepts/views.md", "reference/python.md"])
def test_examples(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("films.tsv").write_bytes((ROOT / "examples" / "films.tsv").read_bytes())
    Path("events.tsv").write_text(EVENTS)
    for name in ("films", "events"):
        kgwalk.build_graph([f"{name}.tsv"], f"{name}.kg")
    write_subgraphs(open_graph("films.kg"), [Seeds("q1", ["Big"])], hops=1)
    known: dict[str, Any] = {"kgwalk": kgwalk, "Path": Path, "graph": kgwalk.load_graph(Path("films.kg"))}
    text = (ROOT / "docs" / page).read_text()
    blocks = [block for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if ">>>" in block]
    assert blocks
    runner = doctest.DocTestRunner(verbose=False)
    for block in blocks:
        example = doctest.DocTestParser().get_doctest(block, known, page, page, 0)
        assert runner.run(example, clear_globs=False).failed == 0
        known.update(example.globs)


def test_the_demo_prints_commands_that_can_be_pasted() -> None:
    """README's transcript has the commands of the demo, quoted as a shell needs them."""
    script = (ROOT / "examples" / "demo.sh").read_text()
    found = re.search(r"^run\(\) \{\n.*?^\}\n", script, re.DOTALL | re.MULTILINE)
    assert found
    commands = [line for line in script.splitlines() if line.startswith("run kg ")]
    stub = "kgwalk() { :; }\n" + found.group() + "\n".join(commands)
    printed = subprocess.run(["sh", "-c", stub], capture_output=True, text=True, check=True).stdout.split("\n\n")
    shown = [line.strip().removeprefix("$ kgwalk ") for line in printed]
    assert [shlex.split(line) for line in shown] == [shlex.split(line)[1:] for line in commands]
    block = (ROOT / "README.md").read_text().split("<!-- demo -->")[1].split("```")[1]
    assert re.findall(r"^\$ kgwalk (kg .*)$", block, re.MULTILINE) == shown
