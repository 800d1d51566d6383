"""Something of one's own by its place, `package.module:name` or `file.py:name`, as a recipe names it.

Imports, and so runs, what stands there. Knows not what the thing is for.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

from kgwalk.config.recipe import unknown
from kgwalk.types import KgwalkError


def imported(what: str, place: str) -> Any:
    """`what` is the word for it in errors: a reward, a protocol."""
    where, _, name = place.rpartition(":")
    try:
        module = _file(Path(where)) if where.endswith(".py") else importlib.import_module(where)
    except (ImportError, OSError) as error:
        raise KgwalkError(f"the {what} `{place}` cannot be imported: {error}") from error
    if not hasattr(module, name):
        raise unknown(what, place, (f"{where}:{other}" for other in vars(module) if not other.startswith("_")))
    return getattr(module, name)


def _file(path: Path) -> Any:
    """The module of a file, made once: two things of one file share it."""
    name = str(path.resolve())
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
