"""`kgwalk bench ...`: the figures of the README, measured again on this machine."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from kgwalk.cli.output import print_json, print_table, progress_bar

app = typer.Typer(help="Measure kgwalk on this machine.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Measure kgwalk on this machine."""


@app.command(epilog="Examples: kgwalk bench kg --quick · kgwalk bench kg --json > kg.json · kgwalk bench kg --huge")
def kg(
    huge: Annotated[
        bool, typer.Option("--huge", help="Only 100M triples: build, size, open (12 GB of disk, minutes).")
    ] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Small graphs: does it run? Not for quoting.")] = False,
    folder: Annotated[Path | None, typer.Option(help="Where to make the graphs; else a temporary folder.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False,
) -> None:
    """The store and the action server beside a plain list scan, in one run: about five minutes."""
    from kgwalk.bench.kg import Scale, bench_huge, bench_kg
    from kgwalk.bench.rows import table

    with tempfile.TemporaryDirectory(dir=folder) as made, progress_bar() as progress:
        if huge:
            rows = bench_huge(Path(made), progress)
        else:
            rows = bench_kg(Path(made), Scale.quick() if quick else Scale(), progress)
    if json:
        print_json({"rows": [row.as_json() for row in rows]})
    else:
        print_table(table("kgwalk bench kg", rows))


@app.command(epilog="Example: kgwalk bench soak --seconds 60 --clients 64")
def soak(
    seconds: Annotated[float, typer.Option(min=0.1, help="How long.")] = 60.0,
    clients: Annotated[int, typer.Option(min=1, help="Connections at the same time.")] = 64,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False,
) -> None:
    """Good and bad items from many clients at once: is every good answer right, and does nothing grow?"""
    from kgwalk.bench.rows import table
    from kgwalk.bench.soak import soak as run_soak

    with tempfile.TemporaryDirectory() as made, progress_bar() as progress:
        progress("asking", 0, None)
        rows = run_soak(Path(made), seconds=seconds, clients=clients)
    if json:
        print_json({"rows": [row.as_json() for row in rows]})
    else:
        print_table(table("kgwalk bench soak", rows))
    if any(row.met is False for row in rows):
        raise typer.Exit(1)
