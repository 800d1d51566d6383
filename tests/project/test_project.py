"""The project keeps its own rules: layers, names, light imports, generated documents, links that lead somewhere."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

import kgwalk
from conftest import failed_if_skipped

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "kgwalk"


def _make() -> Any:
    """docs/reference/make.py, which is a script and no part of the package."""
    spec = importlib.util.spec_from_file_location("make", ROOT / "docs" / "reference" / "make.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


LAYERS = _make().LAYERS


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
    if parts in (("__init__",), ("__main__",)):
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
    heavy = ["pyarrow", "fastapi", "torch", "pandas", "pyoxigraph", "mcp", "langchain_core", "llama_index"]
    assert _loaded("kgwalk.serve.run, kgwalk.kg.store", heavy) == "[]\n"
    assert _loaded("kgwalk.cli.main, kgwalk.cli.mcp, kgwalk.serve.mcp.server", heavy) == "[]\n"


def test_every_package_is_a_layer() -> None:
    found = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert found - {"__init__", "__main__"} == set(LAYERS)


def test_a_name_is_used_once() -> None:
    """Two public classes of one name would be two meanings of one word."""
    places = defaultdict(list)
    for path in SOURCE.rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path.relative_to(SOURCE)))
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def test_the_readme_is_short_and_its_packages_are_the_packages() -> None:
    text = (ROOT / "README.md").read_text()
    assert text == _make().readme(), "run `make reference`"
    assert len(text.splitlines()) <= 150
    assert len(text.encode()) <= 9 * 1024


def test_the_tree_is_the_tree() -> None:
    made = _make().architecture()
    assert (ROOT / "docs" / "architecture.md").read_text() == made, "run `make reference`"
    tree = made.split("<!-- tree -->")[1]
    for path in [*SOURCE.rglob("*.py"), *(ROOT / "examples").glob("*.*")]:
        if path.name != "__init__.py":  # its comment stands beside the folder
            assert f"{path.name} " in tree
    assert all(line.strip().partition("  ")[2].strip() for line in tree.split("```")[1].splitlines() if line.strip())


def test_the_version_is_written_once_more_only() -> None:
    """In pyproject.toml, for installers, as in the package; and the changelog begins with it."""
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == kgwalk.__version__
    versions = re.findall(r"^## \[([0-9.]+)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert versions[0] == kgwalk.__version__


PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "deploy").glob("*.md")),
    *sorted(SOURCE.rglob("*.md")),
]
LINK = re.compile(r"\[([^\]\n]*)\]\(([^)#\s]*)(#[^)\s]*)?\)")


@pytest.mark.parametrize("path", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_between_documents_lead_somewhere(path: Path) -> None:
    """To a file, to a heading of it; a label that is a file's name is the name of the file it leads to."""
    text = path.read_text()
    for label, target, heading in LINK.findall(text):
        if "://" in target:
            continue
        to = path.parent / target if target else path
        assert to.exists(), f"{path.name} links to {target}"
        if heading and to.suffix == ".md":
            assert heading[1:] in _anchors(to), f"{path.name} links to {target}{heading}"
        if re.fullmatch(r"[\w./-]+(\.\w+|/)", label) and "/" in target:
            assert label.rstrip("/").split("/")[-1] == to.resolve().name, f"{path.name} calls {target} {label}"


@pytest.mark.parametrize("path", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_files_that_documents_name_exist(path: Path) -> None:
    """Spans such as `src/kgwalk/kg/store.py`, `tests/kg`, `walk/sets.py:TOOLS`; from the repository or the package."""
    if path.name == "CHANGELOG.md":
        return  # it names what has gone
    for span in re.findall(r"`([\w./*-]+/[\w./*-]+)(?::[\w.]+)?`", path.read_text()):
        if span.endswith(".py") or span.split("/")[0] in ("src", "tests", "benchmarks", "examples", "scripts", "docs"):
            roots = (ROOT, SOURCE, path.parent)
            own = path.name == "add-a-protocol.md" and span.startswith("go/")  # the guide's own files
            assert own or any(next(root.glob(span), None) for root in roots), f"{path.name} names {span}"


def _anchors(path: Path) -> set[str]:
    """The headings of a page as GitHub links to them."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", path.read_text(), flags=re.M | re.S), re.MULTILINE)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in plain}


def test_the_command_reference_is_the_help() -> None:
    assert (ROOT / "docs" / "reference" / "commands.md").read_text() == _make().reference(), "run `make reference`"


def test_the_house_is_of_a_size_to_live_in() -> None:
    """What `make house` prints: modules that hold one idea whole, none of them a heap."""
    run = [sys.executable, str(ROOT / "scripts" / "house.py"), "--json"]
    found = json.loads(subprocess.run(run, capture_output=True, text=True, check=True).stdout)
    assert found["modules"] <= 367
    assert 180 <= found["median"] <= 300
    assert found["over_600"] == []
    assert found["packages"] <= 14
    assert found["duplicate_classes"] == {}
    assert found["readme_lines"] <= 150
    assert found["readme_bytes"] <= 9 * 1024


def test_where_nothing_may_be_skipped_a_skip_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """`make test-clients` and its like, with CI=true: what their tests need was installed for them."""
    report = pytest.CollectReport("test_mcp.py", "skipped", ("test_mcp.py", 19, "Skipped: needs the MCP SDK"), [])
    monkeypatch.delenv("NO_SKIPS", raising=False)
    assert failed_if_skipped(report).skipped
    monkeypatch.setenv("NO_SKIPS", "1")
    assert failed_if_skipped(report).failed
    assert str(report.longrepr).endswith("Skipped: needs the MCP SDK")


@pytest.mark.skipif(not (ROOT / ".ci" / "run").exists(), reason="the source archive has no .ci")
def test_what_ci_runs_in_environments_of_their_own_may_not_be_skipped() -> None:
    [listed] = re.findall(r"^for suite in (.*);", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    recipes = re.split(r"^(?=[\w-]+:)", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    asked = {recipe.partition(":")[0] for recipe in recipes if re.search(r"\$\(ALONE\).* -m pytest", recipe)}
    assert {"test-clients", "test-deploy", "docs"} <= set(listed.split()) <= asked
