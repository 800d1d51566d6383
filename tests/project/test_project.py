"""The project keeps its own rules: layers, exports, the README's file tree, documents that exist."""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import kgwalk

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "kgwalk"
LAYERS = [
    "types",
    "config",
    "kg",
    "llm",
    "data",
    "walk",
    "score",
    "demos",
    "systems",
    "questions",
    "evaluation",
    "training",
]
LAYERS += ["serve", "bench", "cli"]


def _layer(module: str) -> str:
    return module.split(".")[1] if module.count(".") else ""


def _imports(path: Path) -> list[str]:
    names = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute here"
            names += [
                f"{node.module}.{alias.name}" if node.module == "kgwalk" else str(node.module) for alias in node.names
            ]
    return [name for name in names if name.startswith("kgwalk.")]


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: str(p.relative_to(SOURCE)))
def test_layers_import_leftward_only(path: Path) -> None:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    if parts == ("__init__",):
        return  # the public door names every layer, and imports it when asked
    own = LAYERS.index(parts[0])
    for name in _imports(path):
        if name not in ("kgwalk.__version__",):
            assert LAYERS.index(_layer(name)) <= own, f"{'.'.join(parts)} imports {name}"


def test_the_public_names() -> None:
    assert len(kgwalk.__all__) <= 20
    for name in kgwalk.__all__:
        assert getattr(kgwalk, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = kgwalk.nonsense  # type: ignore[attr-defined]


def _loaded(imports: str, of: list[str]) -> str:
    code = f"import sys, {imports}; print([m for m in {of} if m in sys.modules])"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_importing_kgwalk_is_light() -> None:
    assert _loaded("kgwalk, kgwalk.types", ["numpy", "pyarrow", "torch", "fastapi"]) == "[]\n"


def test_a_server_starts_without_what_it_does_not_need() -> None:
    heavy = ["pyarrow", "fastapi", "torch", "pandas", "pyoxigraph"]
    assert _loaded("kgwalk.serve.run, kgwalk.kg.store", heavy) == "[]\n"
    assert _loaded("kgwalk.cli.main", heavy) == "[]\n"


def test_the_readme_tree_is_the_tree() -> None:
    made = _make().readme()
    assert (ROOT / "README.md").read_text() == made, "run `make reference`"
    tree = made.split("<!-- tree -->")[1]
    for path in [*SOURCE.rglob("*.py"), *(ROOT / "examples").glob("*.*")]:
        if path.name != "__init__.py":  # its comment stands beside the folder
            assert f"{path.name} " in tree
    assert all(line.strip().partition("  ")[2].strip() for line in tree.split("```")[1].splitlines() if line.strip())


@pytest.mark.parametrize(
    "path", [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))], ids=lambda p: str(p.relative_to(ROOT))
)
def test_links_between_documents_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", path.read_text()):
        if "://" not in target:
            assert (path.parent / target).exists(), f"{path.name} links to {target}"


def test_the_command_reference_is_the_help() -> None:
    assert (ROOT / "docs" / "reference" / "commands.md").read_text() == _make().reference(), "run `make reference`"


def _make() -> Any:
    """docs/reference/make.py, which is a script and no part of the package."""
    spec = importlib.util.spec_from_file_location("make", ROOT / "docs" / "reference" / "make.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
