"""Paths between topics and answers where a dataset has none: search, then verify."""
