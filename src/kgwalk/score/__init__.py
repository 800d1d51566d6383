"""Metrics, statistics, error classes, the reward registry, and a judge for what no rule can tell."""
