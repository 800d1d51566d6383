"""The baselines that walk without a protocol: importing this file registers them as policies.

`POLICIES` imports `policy.py` of every system's folder, as `PROTOCOLS` imports `protocol.py`; each baseline has a file
of its own and registers there. A policy is a dataclass: `engine`, `budget` and `sampling` are given by the caller, its
other fields are keys of a recipe's [policy].
"""

from __future__ import annotations

from kgwalk.systems.baselines.oracle import Oracle
from kgwalk.systems.baselines.random_walk import RandomWalk
from kgwalk.systems.baselines.tog import Tog

__all__ = ["Oracle", "RandomWalk", "Tog"]
