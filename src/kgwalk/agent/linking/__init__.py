"""Linking, step by step: the question's words, the graph's names, equal names weighed, then near spellings."""
