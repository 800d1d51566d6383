"""`kgwalk kg relations`: every relation of a graph with one of its facts, which is what a question can be about.

Knows nothing of how a store is built.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from kgwalk.cli.graphs import stored_graph
from kgwalk.cli.output import counted, out, print_json, print_table
from kgwalk.kg.store import StoredGraph

EXAMPLES = "kgwalk kg relations facts.kg · kgwalk kg relations facts.kg --like birth · kgwalk kg relations world --json"
WIDTH = 40  # characters of a name in an example


def relations(
    graph: Annotated[str, typer.Argument(metavar="GRAPH", help="A store folder, a dataset with a graph, or `world`.")],
    like: Annotated[str, typer.Option(help="Those whose names have this text in them, in any case.")] = "",
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False,
) -> None:
    """Every relation: how many facts it has, between how many heads and tails, and one of them.

    Relations that say the same from the other end (children and parents) name each other; their facts tell.
    """
    every = _rows(stored_graph(graph)[1])
    rows = [row for row in every if like.lower() in row["relation"].lower()]
    if json:
        print_json({"relations": rows})
        return
    if not rows:
        out.print(f"none of {counted(len(every), 'relation')} has {like!r} in its name")
        raise typer.Exit(1)
    from rich.table import Table

    table = Table(title=f"{len(rows):,} of {counted(len(every), 'relation')}", title_justify="left")
    for name in ("facts", "heads", "tails"):
        table.add_column(name, justify="right")
    for name in ("relation", "for example", "inverse"):
        table.add_column(name, overflow="fold")
    for row in rows:
        counts = (f"{row[name]:,}" for name in ("facts", "heads", "tails"))
        example = " -> ".join(name if len(name) <= WIDTH else name[: WIDTH - 1] + "…" for name in row["example"])
        table.add_row(*counts, row["relation"], example, ", ".join(row["inverse"]))
    print_table(table)


def _rows(graph: StoredGraph) -> list[dict[str, Any]]:
    """The most used first."""
    from kgwalk.questions.inverses import Inverses
    from kgwalk.questions.schema import survey

    inverses = Inverses(graph)
    found = sorted(survey(graph).relations.values(), key=lambda relation: (-relation.facts, relation.name))
    return [
        {
            "relation": one.name,
            "facts": one.facts,
            "heads": one.heads,
            "tails": one.tails,
            "example": [one.sample_heads[0], one.sample_tails[0]],
            "inverse": sorted(inverses.of(one.name)),
        }
        for one in found
    ]
