"""Benchmarks: the figures of the README, measured again on your machine."""
