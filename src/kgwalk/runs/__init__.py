"""Run folders: what was run, with what, and every row it wrote."""
