"""Every module of benchmarks/ can be imported: mypy does not read them, and what they import moves."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
IMPORT_ALL = """
import importlib, pkgutil
import benchmarks
for module in pkgutil.walk_packages(benchmarks.__path__, "benchmarks."):
    if not module.name.endswith("__main__") and ".dev." not in module.name:
        importlib.import_module(module.name)
        print(module.name)
"""


def test_every_benchmark_imports_what_is_there() -> None:
    """In a process of its own: some register parts of their own."""
    done = subprocess.run([sys.executable, "-c", IMPORT_ALL], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert {"benchmarks.attack.names", "benchmarks.users.score", "benchmarks.learn"} <= {*done.stdout.split()}
