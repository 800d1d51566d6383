"""Readers of source files, one module for each family of formats; `reading.read` is the way in."""
