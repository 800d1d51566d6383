"""The options and arguments that several commands share, each defined once.

A command takes one as the type of a parameter, `json: JsonOption = False`. What only one command has stands in its own
module.
"""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

RECIPE_FORMS = "a bundled name (see kgwalk recipes), a TOML file or a system's folder"
ENGINES = "auto, cpu (OpenVINO), local (torch), vllm or api (OPENAI_BASE_URL, OPENAI_API_KEY)."

# How a command speaks
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")]

# What may be overwritten
ForceOption = Annotated[bool, typer.Option("--force", help="Replace what is there already.")]
StartOverOption = Annotated[bool, typer.Option("--force", help="Start over in a folder that holds a run.")]

# Graphs and data
GraphArgument = Annotated[
    str, typer.Argument(metavar="GRAPH", help="A store folder, `world`, a kgwalk server's URL, or sparql+URL.")
]
StoreArgument = Annotated[Path, typer.Argument(metavar="GRAPH", help="A store folder made by `kgwalk kg build`.")]
DatasetOption = Annotated[str, typer.Option("--data", help="A dataset's folder, or a known name such as world.")]
MixtureOption = Annotated[
    list[str],
    typer.Option(
        "--data",
        metavar="NAME[:SHARE]",
        help="A dataset's folder, or a known name such as world; repeat to mix. NAME:0.5 is half of its "
        "questions, NAME:500 so many.",
    ),
]


class BadRows(StrEnum):
    """What to do about malformed rows of a file of facts."""

    stop = "stop"
    skip = "skip"


OnErrorOption = Annotated[
    BadRows, typer.Option("--on-error", help="Malformed rows: stop at the first, or skip and count them (stop, skip).")
]

# Recipe, model and machine
RecipeArgument = Annotated[str, typer.Argument(help=f"The recipe: {RECIPE_FORMS}.")]
RecipeOption = Annotated[str, typer.Option("--recipe", help=f"How the agent walks: {RECIPE_FORMS}.")]
ValuesOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Set a value of the recipe; may be repeated."),
]
EngineOption = Annotated[str, typer.Option("--engine", help=ENGINES)]
AdapterOption = Annotated[
    str | None,
    typer.Option(
        "--adapter", help="A LoRA adapter's folder, shipped or none (default: beside the graph, else shipped)."
    ),
]
DeviceOption = Annotated[str, typer.Option("--device", help="auto, cpu or cuda.")]

# The environment of a walk: what is hidden of the graph, and which web is searched
GraphDropOption = Annotated[
    float | None,
    typer.Option(
        "--graph-drop", min=0.0, max=1.0, help="Hide this share of each question's crucial facts (world.drop)."
    ),
]
WebOption = Annotated[
    str | None,
    typer.Option(
        "--web",
        metavar="CORPUS|PROVIDER",
        help="What a web search asks: a folder or .jsonl[.gz] of documents, or searxng, brave, bing, tavily "
        "(world.web).",
    ),
]


def environment_values(graph_drop: float | None, web: str | None) -> list[str]:
    """The options of the environment as values of a recipe.

    >>> environment_values(0.4, "my corpus.jsonl")
    ['world.drop=0.4', 'world.web="my corpus.jsonl"']
    """
    drop = [] if graph_drop is None else [f"world.drop={graph_drop}"]
    return drop if web is None else [*drop, f"world.web={json.dumps(web)}"]
