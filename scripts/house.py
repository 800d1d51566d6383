"""How big the house is: modules, their sizes, names used twice, and the files that three commands run through.

    python scripts/house.py            # the counts, in a second
    python scripts/house.py --trace    # also runs `ask`, one GRPO step and `kg build`, and counts the files they enter
    python scripts/house.py --json     # one object on stdout

A file counts as entered when a function of it is called; what runs only because a module is imported does not count.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PACKAGE = Path(os.environ.get("HOUSE_PACKAGE", ROOT / "src" / "kgwalk"))  # another checkout's, to compare

# Runs a command line in this process and notes the files whose functions are called; `inside` narrows that to what
# happens while one function (file:name) is on the stack.
TRACER = '''
import json, sys, threading
package, out, inside = sys.argv[1:4]
sys.argv = ["kgwalk", *sys.argv[4:]]
files, depth = set(), [0]
where, _, name = inside.rpartition(":")

def imported(frame):
    """Whether it runs only because a module of the package is imported."""
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_code.co_filename.startswith(package):
            return True
        frame = frame.f_back
    return False

def note(frame, event, arg):
    code = frame.f_code
    path = code.co_filename
    if not path.startswith(package):
        return
    if where and path.endswith(where) and code.co_name == name:
        depth[0] += (event == "call") - (event == "return")
    if event == "call" and (depth[0] or not where) and code.co_flags & 1:  # a function, no body of a class or module
        if path not in files and not imported(frame):
            files.add(path)

from kgwalk.cli.main import main
threading.setprofile(note)
sys.setprofile(note)
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
finally:
    sys.setprofile(None)
    open(out, "w").write(json.dumps(sorted(files)))
'''


def counts() -> dict[str, Any]:
    """What can be counted without running anything."""
    sizes: dict[str, int] = {}
    packages: set[str] = set()
    only_docstring = 0
    classes: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text("utf-8")
        name = str(path.relative_to(PACKAGE))
        tree = ast.parse(text)
        if path.name == "__init__.py" and path.parent.parent == PACKAGE:
            packages.add(path.parent.name)
        if path.name == "__init__.py" and len(tree.body) <= 1:
            only_docstring += 1
            continue
        sizes[name] = len(text.splitlines())
        for node in tree.body:
            for public in public_names(node):
                classes[public].append(name)
    readme = (PACKAGE.parents[1] / "README.md").read_text("utf-8")
    largest = max(sizes, key=lambda name: sizes[name])
    return {
        "modules": len(sizes),
        "package_files": only_docstring,  # an __init__.py that holds its docstring alone
        "lines": sum(sizes.values()),
        "median": statistics.median(sizes.values()),
        "largest": [largest, sizes[largest]],
        "over_600": sorted(name for name, lines in sizes.items() if lines > 600),
        "packages": len(packages),
        "duplicate_classes": {name: where for name, where in sorted(classes.items()) if len(where) > 1},
        "readme_lines": len(readme.splitlines()),
        "readme_bytes": len(readme.encode()),
    }


def public_names(node: ast.stmt) -> list[str]:
    """The public classes and type aliases that a statement defines: names in CamelCase."""
    if isinstance(node, ast.ClassDef):
        names = [node.name]
    elif isinstance(node, ast.Assign):
        names = [target.id for target in node.targets if isinstance(target, ast.Name)]
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        names = [node.target.id]
    else:
        return []
    return [name for name in names if len(name) > 1 and name[0].isupper() and not name.isupper() and "_" not in name]


def traces() -> dict[str, int]:
    """How many files `ask`, one GRPO step and `kg build` enter."""
    with tempfile.TemporaryDirectory() as folder:
        smoke = ["train", "kgwalk", "--data", "world", "--smoke", "--output", f"{folder}/run"]
        films = ROOT / "examples" / "films.tsv"
        commands = {
            "ask": ("", ["ask", "what is the capital of Norway?", "--json"]),
            "grpo_step": ("training/grpo.py:step", smoke),
            "kg_build": ("", ["kg", "build", str(films), "-o", f"{folder}/films.kg", "-q"]),
        }
        return {name: len(entered(folder, inside, command)) for name, (inside, command) in commands.items()}


def entered(folder: str, inside: str, command: list[str]) -> list[str]:
    out = Path(folder) / "files.json"
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    subprocess.run(
        [sys.executable, "-c", TRACER, str(PACKAGE), str(out), inside, *command],
        env=environment,
        check=True,
        stdout=subprocess.DEVNULL,
        cwd=folder,
    )
    names = [str(Path(name).relative_to(PACKAGE)) for name in json.loads(out.read_text())]
    if "--list" in sys.argv:
        print(f"{command[:2]}: {' '.join(names)}", file=sys.stderr)
    return names


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trace", action="store_true", help="also run three commands and count the files they enter")
    parser.add_argument("--list", action="store_true", help="with --trace: name the files on stderr")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    given = parser.parse_args()
    found = counts()
    if given.trace:
        found["files_entered"] = traces()
    if given.json:
        print(json.dumps(found))
        return
    for name, value in found.items():
        print(f"{name:20} {value}")


if __name__ == "__main__":
    main()
