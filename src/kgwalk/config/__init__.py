"""Recipes: what differs between the systems, as data."""
