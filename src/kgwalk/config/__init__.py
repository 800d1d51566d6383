"""Recipes, systems from folders, run folders, the cache folder, and how this process runs."""
