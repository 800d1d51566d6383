"""A graph by what a person calls it on the command line: a bundled graph, a store, a dataset's graph, an address.

And what becomes of malformed rows where a file of facts is read. Knows no command.
"""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from kgwalk.data.bundled import BUNDLED
from kgwalk.kg.files import is_store, naming_read_errors
from kgwalk.kg.graph import Graph
from kgwalk.kg.open import SPARQL, load_graph
from kgwalk.kg.store import StoredGraph, open_graph
from kgwalk.types import KgwalkError


class OnError(StrEnum):
    stop = "stop"
    skip = "skip"


OnErrorOption = Annotated[
    OnError, typer.Option("--on-error", help="Malformed rows: stop at the first, or skip and count them (stop, skip).")
]


def graph_called(name: str) -> Graph:
    """Any graph; a folder that is no store may be a dataset, whose graph is meant."""
    return load_graph(name) if _elsewhere(name) else stored_graph(name)[1]


def store_at(place: Path) -> StoredGraph:
    """A store by its folder, or a bundled one by its name."""
    return open_graph(bundled_path(str(place)) or place)


def bundled_path(name: str) -> Path | None:
    """Of the bundled graph of that name, unless something here is called so."""
    return BUNDLED[name]() if name in BUNDLED and not Path(name).exists() else None


def stored_graph(name: str) -> tuple[str, StoredGraph]:
    """A graph in a store here, and what to call it."""
    if _elsewhere(name):
        raise KgwalkError(f"{name} is a graph elsewhere; this needs one here: `kgwalk kg build` makes a store of facts")
    if name in BUNDLED:
        return name, load_graph(BUNDLED[name]())
    folder = Path(name)
    with naming_read_errors(folder):
        if not is_store(folder) and (opened := _of_dataset(name)) is not None:
            return opened
        if not folder.exists() and len(folder.parts) == 1 and not folder.suffix:
            raise _unknown(name)
    return folder.resolve().name.removesuffix(".kg"), load_graph(folder)


def _of_dataset(name: str) -> tuple[str, StoredGraph] | None:
    """The graph of a dataset's folder, or of one that was fetched; None if it is neither."""
    from kgwalk.data.dataset import fetched_folder, load_dataset  # they bring pyarrow along
    from kgwalk.data.folder import layout_of

    folder = Path(name) if Path(name).is_dir() else fetched_folder(name)
    if not folder.is_dir():
        return None
    layout = layout_of(folder)
    if not (layout.store or layout.kg or layout.graphs or layout.splits):
        return None
    dataset = load_dataset(name)
    graph = dataset.graph()
    assert isinstance(graph, StoredGraph)
    return dataset.name, graph


def _unknown(name: str) -> KgwalkError:
    from kgwalk.config.plugins import unknown
    from kgwalk.data.dataset import known_names

    error = unknown("graph", name, known_names())
    return KgwalkError(f"{error}\n  Or give a store's folder; `kgwalk kg build SRC -o {name}.kg` makes one.")


def _elsewhere(name: str) -> bool:
    return name.startswith(("http://", "https://", SPARQL))


# ----------------------------------------------------------------------------------------------------
# The option --data of commands that take several datasets at once. Knows nothing of what they do with them.


DataOption = Annotated[
    list[str],
    typer.Option(
        "--data",
        metavar="NAME[:SHARE]",
        help="A dataset's folder, or a known name such as world; repeat to mix. NAME:0.5 is half of its "
        "questions, NAME:500 so many.",
    ),
]


# ----------------------------------------------------------------------------------------------------
# The options that choose the world of a walk, the same for every command that has them: what is hidden, which web.


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


def environment_values(graph_drop: float | None, web: str | None) -> list[str]:
    """The options as values of a recipe.

    >>> environment_values(0.4, "my corpus.jsonl")
    ['world.drop=0.4', 'world.web="my corpus.jsonl"']
    """
    drop = [] if graph_drop is None else [f"world.drop={graph_drop}"]
    return drop if web is None else [*drop, f"world.web={json.dumps(web)}"]
