"""Rewards: pure functions of an outcome, by name; a recipe says which count, and how much."""

# Each module registers its own when it is imported: with the package, all of them are known.
from kgwalk.score.rewards import eog, graph_rft, kg_r1, kgwalk, search

__all__ = ["eog", "graph_rft", "kg_r1", "kgwalk", "search"]
