"""What verl loads of kgwalk, in each of its processes: the agent loop, the advantage estimator and the policy loss.

Importing this module registers them. It is the entry point `kgwalk` of the group `verl.plugins`, so verl finds it where
kgwalk is installed; but verl passes over a plugin that cannot be imported. So `kgwalk train` names it as one of verl's
external modules, whose import must succeed, and runs `python -m kgwalk.training.backends.verl_plugin` before, which
says what is registered or why not.
"""

from __future__ import annotations

import sys

import kgwalk.training.backends.verl_credit
import kgwalk.training.backends.verl_walk
from kgwalk.types import KgwalkError

MODULE = "kgwalk.training.backends.verl_plugin"
TESTED = "0.9.1"


def check_registered() -> str:
    """What verl knows of kgwalk, in words; raises if it lacks a part, or is a version that kgwalk was not tested on."""
    import verl
    from verl.experimental.agent_loop.agent_loop import _agent_loop_registry
    from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY, POLICY_LOSS_REGISTRY

    name = kgwalk.training.backends.verl_credit.NAME
    places = {
        "the agent loop": _agent_loop_registry,
        "the advantage estimator": ADV_ESTIMATOR_REGISTRY,
        "the policy loss": POLICY_LOSS_REGISTRY,
    }
    missing = [what for what, registry in places.items() if name not in registry]
    if missing:
        raise KgwalkError(f"verl {verl.__version__} does not know {' and '.join(missing)} `{name}`: import {MODULE}")
    if verl.__version__ != TESTED:
        raise KgwalkError(
            f"verl is {verl.__version__}, and its interface changes from version to version: kgwalk was tested on "
            f"{TESTED}; pip install -r requirements/verl.txt"
        )
    return f"verl {verl.__version__} knows {', '.join(places)} `{name}`"


if __name__ == "__main__":
    try:
        print(check_registered())
    except KgwalkError as error:
        sys.exit(str(error))
