"""Recipes and run folders: what is to be run, as data, and what was run."""
