"""GRPO on outside trainers: kgwalk's walks, rewards and credit; their optimiser, processes and hardware.

The stage is run by the native trainer, or by an outside one by its name.

A backend is a module with three functions: `check(run)` raises before the first stage if the recipe or the installation
cannot be run on it, `processes(run)` says how many processes train, and `grpo(run)` runs the stage and returns its
report, as `pipeline.grpo` does. All other stages are kgwalk's own. The modules are imported when they are asked for:
the outside trainers are no dependencies of kgwalk.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from kgwalk.config.recipe import unknown
from kgwalk.types import KgwalkError

NATIVE = "native"
BACKENDS = {
    "trl": "kgwalk.training.backends.trl_stage",
    "verl": "kgwalk.training.backends.verl_stage",
}


def check_backend(name: str) -> None:
    """Raises unless there is a backend of this name and its package is installed."""
    if name == NATIVE:
        return
    if name not in BACKENDS:
        raise unknown("backend", name, [NATIVE, *BACKENDS])
    if importlib.util.find_spec(name) is None:
        raise KgwalkError(
            f"--backend {name} needs the package {name}, which is not installed here: make an environment for it with "
            f"pip install -r requirements/{name}.txt (docs/guides/backends.md)"
        )


def backend(name: str) -> Any:
    """The module of an outside backend."""
    check_backend(name)
    return importlib.import_module(BACKENDS[name])
