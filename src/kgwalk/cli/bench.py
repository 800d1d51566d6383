"""`kgwalk bench ...`: the figures of the README, measured again on this machine."""

from __future__ import annotations

import typer

app = typer.Typer(help="Measure kgwalk on this machine.", no_args_is_help=True)
