"""Metrics and rewards: pure functions of an episode, and a judge for what no rule can tell."""
