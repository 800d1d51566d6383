"""The options that choose the world of a walk, the same for every command that has them: what is hidden, which web."""

from __future__ import annotations

import json
from typing import Annotated

import typer

GraphDrop = Annotated[
    float | None,
    typer.Option(
        "--graph-drop", min=0.0, max=1.0, help="Hide this share of each question's crucial facts (world.drop)."
    ),
]
Web = Annotated[
    str | None,
    typer.Option(
        "--web",
        metavar="CORPUS|PROVIDER",
        help="What a web search asks: a folder or .jsonl[.gz] of documents, or searxng, brave, bing, tavily "
        "(world.web).",
    ),
]


def world_values(graph_drop: float | None, web: str | None) -> list[str]:
    """The options as values of a recipe.

    >>> world_values(0.4, "my corpus.jsonl")
    ['world.drop=0.4', 'world.web="my corpus.jsonl"']
    """
    drop = [] if graph_drop is None else [f"world.drop={graph_drop}"]
    return drop if web is None else [*drop, f"world.web={json.dumps(web)}"]
