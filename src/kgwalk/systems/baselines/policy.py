"""The baselines that walk without a protocol: importing them registers them as policies.

Each is a dataclass: `engine`, `budget` and `sampling` are what a caller gives, other fields are a recipe's keys.
"""

from __future__ import annotations

from kgwalk.systems.baselines.oracle import Oracle
from kgwalk.systems.baselines.random_walk import RandomWalk
from kgwalk.systems.baselines.tog import Tog

__all__ = ["Oracle", "RandomWalk", "Tog"]
