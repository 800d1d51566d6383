"""Writes what can be read off the code, so that it cannot go stale: tests compare.

commands.md comes from the command line's own help; the packages in README.md and docs/architecture.md, and the file
tree in the latter, from the first line of each docstring.

Run: make reference
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from kgwalk.cli.main import make_app

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SOURCE = ROOT / "src" / "kgwalk"
README = ROOT / "README.md"
ARCHITECTURE = ROOT / "docs" / "architecture.md"
# Packages from left to right; each imports only from those before it.
LAYERS = ("types", "config", "kg", "llm", "data", "walk", "score", "demos", "systems", "questions")
LAYERS += ("evaluation", "training", "serve", "bench", "cli")
PACKAGES = re.compile(r"(?<=<!-- packages -->\n).*?(?=<!-- end of packages -->)", re.DOTALL)
TREE = re.compile(r"(?<=<!-- tree -->\n```\n).*?(?=```)", re.DOTALL)
NOT_PYTHON = {"demo.sh": "what `make demo` runs", "films.tsv": "66 facts about films, for trying things out"}


def reference() -> str:
    """The whole page."""
    root = typer.main.get_command(make_app())
    lines = ["# Commands", "", "Made from `--help` by `make reference`; every command has `--help` itself."]
    lines += [
        "They exit with 0 if all went well, 1 if something failed (`ask`: or has no answer), 2 if used wrongly.",
        "",
    ]
    for name, command in _commands(root, "kgwalk"):
        lines += [f"## {name}", "", *_about(name, command), ""]
    return "\n".join(lines).rstrip() + "\n"


def readme() -> str:
    """The README with the packages as they are now."""
    return PACKAGES.sub(lambda found: _packages(), README.read_text(), count=1)


def architecture() -> str:
    """docs/architecture.md with the packages and the tree as they are now."""
    tree = "".join(f"{line}\n" for folder in ("src/kgwalk", "examples") for line in _tree(ROOT / folder, 0, folder))
    text = PACKAGES.sub(lambda found: _packages(links=True), ARCHITECTURE.read_text(), count=1)
    return TREE.sub(lambda found: tree, text, count=1)


def _packages(*, links: bool = False) -> str:
    """A table, a package a line, in the order in which they import; links lead from the folder docs."""
    lines = ["| package | what lives there |", "|---|---|"]
    for name in LAYERS:
        path = SOURCE / name if (SOURCE / name).is_dir() else SOURCE / f"{name}.py"
        about = _first_line(path / "__init__.py" if path.is_dir() else path)
        shown = f"[{name}](../src/kgwalk/{path.name})" if links else f"`{name}`"
        lines.append(f"| {shown} | {about} |")
    return "\n".join(lines) + "\n"


def _tree(folder: Path, depth: int, name: str) -> Iterator[str]:
    opening = folder / "__init__.py"
    yield _line(depth, f"{name}/", _first_line(opening) if opening.exists() else "to try and to read")
    files = sorted(p for p in folder.iterdir() if p.is_file() and p.suffix in (".py", ".sh", ".tsv"))
    for path in files:
        if path != opening:
            yield _line(depth + 1, path.name, NOT_PYTHON.get(path.name) or _first_line(path))
    for inner in sorted(p for p in folder.iterdir() if p.is_dir() and (p / "__init__.py").exists()):
        yield from _tree(inner, depth + 1, inner.name)


def _line(depth: int, name: str, comment: str) -> str:
    return f"{'  ' * depth}{name}".ljust(26) + f"  {comment}"


def _first_line(path: Path) -> str:
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    return text.split("\n")[0].rstrip(".")


def _commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    inner = getattr(command, "commands", None)
    if inner is None:
        yield name, command
        return
    for sub, entry in inner.items():
        yield from _commands(entry, f"{name} {sub}")


def _about(name: str, command: Any) -> Iterator[str]:
    options = [param for param in command.params if param.param_type_name == "option" and param.name != "help"]
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    yield f"`{' '.join([name, *map(_argument, arguments), '[OPTIONS]'])}`"
    yield ""
    yield (command.help or "").strip()
    yield ""
    yield "| argument or option | default | meaning |"
    yield "|---|---|---|"
    for param in arguments:
        yield f"| `{_argument(param)}` | | {param.help} |"
    for param in options:
        yield f"| `{_option(param)}` | {_default(param)} | {param.help} |"
    if command.epilog:
        yield ""
        yield command.epilog


def _argument(param: Any) -> str:
    shown = param.metavar or param.name.upper()
    return shown if param.required else f"[{shown}]"


def _option(param: Any) -> str:
    names = ", ".join([*param.opts, *param.secondary_opts])
    return f"{names} {param.metavar}" if param.metavar else names


def _default(param: Any) -> str:
    value = getattr(param.default, "value", param.default)
    return "" if param.required or value in (None, False, ()) else f"`{value}`"


if __name__ == "__main__":
    (HERE / "commands.md").write_text(reference())
    README.write_text(readme())
    ARCHITECTURE.write_text(architecture())
