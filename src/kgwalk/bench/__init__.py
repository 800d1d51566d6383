"""Benchmarks: the figures of the docs, measured again on your machine."""
