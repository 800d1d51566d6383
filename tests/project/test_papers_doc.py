"""docs/papers.md names files and recipe values that exist; the example of docs/concepts/credit.md is as it says."""

from __future__ import annotations

import ast
import doctest
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

from kgwalk.config.recipe import load_recipe, names

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "kgwalk"
SPANS = re.findall(r"`([^`\n]+)`", (ROOT / "docs" / "papers.md").read_text("utf-8"))
PLACE = re.compile(r"([\w/]+\.py):([\w.]+)")
VALUE = re.compile(rf"({'|'.join(names())})\.(\w+)\.(\w+)(?: = (.+))?")
PLACES = sorted({found.groups() for span in SPANS if (found := PLACE.fullmatch(span))})
VALUES = sorted({span for span in SPANS if VALUE.fullmatch(span)})


@cache
def _defined(path: Path) -> set[str]:
    """Functions, classes, constants of a module; of classes `Class.method` and `Class.field` too."""
    return set(_names(ast.parse(path.read_text("utf-8")).body, ""))


def _names(body: list[ast.stmt], before: str) -> list[str]:
    found: list[str] = []
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.append(before + node.name)
        elif isinstance(node, ast.ClassDef):
            found += [before + node.name, *_names(node.body, f"{before}{node.name}.")]
        elif isinstance(node, ast.Assign):
            found += [before + target.id for target in node.targets if isinstance(target, ast.Name)]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.append(before + node.target.id)
    return found


def test_the_page_is_read() -> None:
    assert len(PLACES) > 60
    assert len(VALUES) > 100


@pytest.mark.parametrize(("file", "name"), PLACES)
def test_every_name_is_in_its_file(file: str, name: str) -> None:
    assert name in _defined(SOURCE / file), f"{file} has no {name}"


@pytest.mark.parametrize("span", VALUES)
def test_every_value_is_the_recipes(span: str) -> None:
    found = VALUE.fullmatch(span)
    assert found is not None
    recipe, section, key, value = found.groups()
    inside = load_recipe(recipe).section(section)
    assert key in inside, f"the recipe {recipe} has no {section}.{key}"
    if value is not None:
        assert inside[key] == tomllib.loads(f"value = {value}")["value"]


@pytest.mark.parametrize("name", ["eog", "graph-rft", "kg-hopper", "kg-r1", "kg-reasoner"])
def test_every_value_that_a_paper_gives_is_on_the_page(name: str) -> None:
    """A value of [grpo] or [sft] whose comment names a place in the paper is told of here as well."""
    text = (SOURCE / "systems" / name.replace("-", "_") / "recipe.toml").read_text("utf-8")
    told = {span.partition(" = ")[0] for span in VALUES}
    for section in ("sft", "grpo"):
        part = text.partition(f"\n[{section}]")[2].partition("\n[")[0]
        for key in re.findall(r"^(\w+) = .*# .*(?:appendi|section|Table|equation)", part, re.MULTILINE):
            assert f"{name}.{section}.{key}" in told, f"{name}.{section}.{key}"


def test_the_worked_example_of_credit() -> None:
    text = (ROOT / "docs" / "concepts" / "credit.md").read_text("utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) > 5
    example = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, "credit.md", "credit.md", 0)
    assert doctest.DocTestRunner(verbose=False).run(example).failed == 0


def test_every_page_is_linked() -> None:
    folder = ROOT / "docs"
    links = set(re.findall(r"\]\(([^)#]+\.md)\)", (folder / "README.md").read_text("utf-8")))
    pages = {str(path.relative_to(folder)) for path in folder.rglob("*.md")} - {"README.md"}
    assert pages <= links
