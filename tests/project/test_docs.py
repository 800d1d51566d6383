"""The examples of the documents, run as they stand; the files that docs/architecture.md names exist."""

from __future__ import annotations

import doctest
import re
import shlex
import subprocess
import sys
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


@pytest.mark.parametrize("page", ["concepts/views.md", "guides/build-a-graph.md", "reference/python.md"])
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
    """The transcript of docs/guides/demo.md has the commands of the demo, quoted as a shell needs them."""
    script = (ROOT / "examples" / "demo.sh").read_text()
    found = re.search(r"^run\(\) \{\n.*?^\}\n", script, re.DOTALL | re.MULTILINE)
    assert found
    commands = [line for line in script.splitlines() if line.startswith("run kg ")]
    stub = "kgwalk() { :; }\n" + found.group() + "\n".join(commands)
    printed = subprocess.run(["sh", "-c", stub], capture_output=True, text=True, check=True).stdout.split("\n\n")
    shown = [line.strip().removeprefix("$ kgwalk ") for line in printed]
    assert [shlex.split(line) for line in shown] == [shlex.split(line)[1:] for line in commands]
    block = (ROOT / "docs" / "guides" / "demo.md").read_text().split("<!-- demo -->")[1].split("```")[1]
    assert re.findall(r"^\$ kgwalk (kg .*)$", block, re.MULTILINE) == shown
    questions = re.findall(r'^asks \d "(.*?)" "(.*?)"', script, re.MULTILINE)
    assert re.findall(r'^\$ kgwalk ask "(.*)"$', block, re.MULTILINE) == [question for _, question in questions]
    assert {line for line, _ in questions} <= set(block.splitlines())


@pytest.mark.parametrize(
    ("code", "said", "succeeds"),
    [
        (1, "the graph does not say", True),
        (1, "no answer (turns)", False),  # the same exit code, another answer
        (1, "error: the graph does not say it", False),  # a part of a line is not enough
        (0, "the graph does not say", False),
    ],
)
def test_the_demo_succeeds_only_with_the_answer_that_it_expects(
    code: int, said: str, succeeds: bool, tmp_path: Path
) -> None:
    """`kgwalk ask` exits with 1 where the graph does not say, and also where it failed: the demo tells them apart."""
    script = (ROOT / "examples" / "demo.sh").read_text()
    functions = re.findall(r"^(?:run|asks)\(\) \{.*?^\}\n", script, re.DOTALL | re.MULTILINE)
    stub = f"set -eu\nkgwalk() {{ echo '{said}'; return {code}; }}\n" + "".join(functions)
    asked = stub + 'asks 1 "the graph does not say" "who knows?"\necho on\n'
    done = subprocess.run(["sh", "-c", asked], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (done.returncode == 0) is succeeds
    assert done.stdout.endswith("on\n") is succeeds
    assert said in done.stdout
    assert bool(done.stderr) is not succeeds


def test_the_folder_of_the_guide_is_a_system(tmp_path: Path) -> None:
    """docs/guides/add-a-protocol.md: its four files make demonstrations; each names a relation and ends with `done`."""
    text = (ROOT / "docs" / "guides" / "add-a-protocol.md").read_text()
    files = dict(re.findall(r"^`(go/[\w.]+)`.*?^```\w*\n(.*?)^```", text, re.DOTALL | re.MULTILINE))
    assert list(files) == [f"go/{name}" for name in ("recipe.toml", "protocol.py", "demos.py", "rewards.py")]
    (tmp_path / "go").mkdir()
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    # In a process of its own: a system that is added stays.
    code = """
from kgwalk.config.recipe import load_recipe
from kgwalk.data.dataset import load_dataset
from kgwalk.demos.filter import DemoSettings
from kgwalk.demos.make import make_demos
from kgwalk.score.rewards import RewardFunction
from kgwalk.training.settings import check_recipe
from kgwalk.walk.policy import protocol_of
recipe = load_recipe("./go")
check_recipe(recipe, ["demos", "sft", "grpo"])
print(recipe.name, protocol_of(recipe).turns, RewardFunction.of(recipe).judges)
world = load_dataset("world")
demos, _ = make_demos(world.questions("train"), world.graph_for, protocol_of(recipe), settings=DemoSettings(limit=2))
print([demo.turns[-1] for demo in demos])
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "go 4 set()\n['done\\n', 'done\\n']\n"


NAMED = re.compile(r"(?<![\w./-])((?:[\w.*-]+/)*[\w*-]+\.(?:py|toml|md)|(?:[\w-]+/)+)(?::(\w+))?(?![\w/])")


def test_what_the_architecture_names_exists() -> None:
    """Files and folders, from the repository or from src/kgwalk; after a colon, names that the file defines."""
    text = (ROOT / "docs" / "architecture.md").read_text().split("<!-- tree -->")[0]
    text = re.sub(r"\]\([^)]*\)", "]", text).replace("path/to/folder", "")  # links have a test of their own
    found = {match.groups() for match in NAMED.finditer(text)}
    assert len(found) > 60
    for path, name in found:
        places = [place for root in (ROOT, ROOT / "src" / "kgwalk") for place in root.glob(path)]
        assert places or path in ("rewards.py",), f"there is no {path}"
        if name:
            assert re.search(rf"^(class |def )?{name}\b", places[0].read_text(), re.MULTILINE), f"{path} has no {name}"
