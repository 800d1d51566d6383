"""Policies that are no trained agent: what a score must be read against."""

from __future__ import annotations

from kgwalk.agent.policies.oracle import Oracle
from kgwalk.agent.policies.random_walk import RandomWalk
from kgwalk.agent.policies.tog import Tog

# Each is a dataclass: `engine`, `budget` and `sampling` are what a caller gives, other fields are a recipe's keys.
POLICIES: dict[str, type[Oracle] | type[RandomWalk] | type[Tog]] = {
    "oracle": Oracle,
    "random-walk": RandomWalk,
    "tog": Tog,
}

__all__ = ["POLICIES", "Oracle", "RandomWalk", "Tog"]
