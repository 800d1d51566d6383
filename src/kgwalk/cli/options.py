"""The options and arguments that several commands share, and the graphs that such an argument names.

A command takes an option as the type of a parameter, `json: JsonOption = False`. What only one command has stands in
its own module. A graph is given by what a person calls it: a bundled name, a store, a dataset, a file of facts
or tables, or an address.

    graph_called("world"), graph_called("films.kg"), graph_called("http://localhost:8000")
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kgwalk.data.bundled import BUNDLED
from kgwalk.kg.files import is_store, naming_read_errors
from kgwalk.kg.graph import Graph
from kgwalk.kg.store import DATABASES, StoredGraph, database_at, is_elsewhere, load_graph, open_graph, shown_address
from kgwalk.types import KgwalkError

if TYPE_CHECKING:
    from kgwalk.config.recipe import Recipe

RECIPE_FORMS = "a bundled name (see kgwalk recipes), a TOML file or a system's folder"
ENGINES = "auto, cpu (OpenVINO), local (torch), onnx, vllm or api (OPENAI_BASE_URL, OPENAI_API_KEY)."

# How a command speaks
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")]

# What may be overwritten
ForceOption = Annotated[bool, typer.Option("--force", help="Replace what is there already.")]
StartOverOption = Annotated[bool, typer.Option("--force", help="Start over in a folder that holds a run.")]

# Graphs and data
GraphArgument = Annotated[
    str,
    typer.Argument(
        metavar="GRAPH",
        help="A store folder, `world`, a file of facts or tables, a kgwalk server's URL, sparql+URL, bolt://HOST, "
        "ladybug:///FILE, sqlite:///FILE or duckdb:///FILE.",
    ),
]


def own_store(text: str) -> Path:
    """The path of a store; an address is refused with how to make a store of it."""
    if is_elsewhere(text) or text.startswith(DATABASES):
        shown = shown_address(text)
        build = f"kgwalk kg build {shlex.quote(shown)} -o my.kg"
        raise KgwalkError(f"{shown} is no store, which this needs: `{build}` makes one")
    return Path(text)


StoreArgument = Annotated[
    Path,
    typer.Argument(metavar="GRAPH", help="A store folder made by `kgwalk kg build`.", parser=own_store),
]
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


class SourceFormat(StrEnum):
    """The format of a file of facts or tables."""

    tsv = "tsv"
    csv = "csv"
    nt = "nt"
    ttl = "ttl"
    nq = "nq"
    jsonld = "jsonld"
    jsonl = "jsonl"
    rog = "rog"
    json = "json"
    wikidata = "wikidata"
    neo4j = "neo4j"
    graphml = "graphml"
    xlsx = "xlsx"
    sqlite = "sqlite"
    duckdb = "duckdb"


class QueryLanguage(StrEnum):
    sparql = "sparql"
    cypher = "cypher"
    sql = "sql"
    python = "python"


class BadRows(StrEnum):
    """What to do about malformed rows of a file of facts."""

    stop = "stop"
    skip = "skip"


OnErrorOption = Annotated[
    BadRows, typer.Option("--on-error", help="Malformed rows: stop at the first, or skip and count them (stop, skip).")
]


class Ranks(StrEnum):
    """Which statements of Wikidata are read."""

    best = "best"
    all = "all"


RanksOption = Annotated[
    Ranks,
    typer.Option(
        help="Wikidata: of each property the best statements, which are the preferred ones where there are any, or all "
        "but the deprecated (best, all)."
    ),
]
ExternalIdsOption = Annotated[
    bool, typer.Option("--external-ids", help="Wikidata: keep the ids that things have in other catalogues.")
]

# Recipe, model and machine
RecipeArgument = Annotated[str, typer.Argument(help=f"The recipe: {RECIPE_FORMS}.")]
RecipeOption = Annotated[str, typer.Option("--recipe", help=f"How the agent walks: {RECIPE_FORMS}.")]
ValuesOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Set a value of the recipe; may be repeated."),
]
ProfileOption = Annotated[
    str | None,
    typer.Option("--profile", help="Values for a purpose over the recipe's: 135m for a small model (kgwalk recipes)."),
]
EngineOption = Annotated[str, typer.Option("--engine", help=ENGINES)]
AdapterOption = Annotated[
    str | None,
    typer.Option(
        "--adapter", help="A LoRA adapter's folder, shipped or none (default: beside the graph, else shipped)."
    ),
]
AsOption = Annotated[
    QueryLanguage | None,
    typer.Option("--as", help="Print a query that gives the same answer: sparql, cypher, sql or python."),
]
TraceOption = Annotated[
    bool | None,
    typer.Option(
        "--trace/--no-trace",
        help="Send traces of questions by OTLP (default: if OTEL_EXPORTER_OTLP_ENDPOINT is set).",
        show_default=False,
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
        metavar="CORPUS|PROVIDER|graph|none",
        help="What a web search asks: a folder or .jsonl[.gz] of documents; searxng, brave, bing, tavily; graph, a "
        "corpus written from the graph; none (world.web).",
    ),
]


def environment_values(graph_drop: float | None, web: str | None) -> list[str]:
    """The options of the environment as values of a recipe.

    >>> environment_values(0.4, "my corpus.jsonl")
    ['world.drop=0.4', 'world.web="my corpus.jsonl"']
    """
    drop = [] if graph_drop is None else [f"world.drop={graph_drop}"]
    return drop if web is None else [*drop, f"world.web={json.dumps(web)}"]


def chosen_recipe(name: str, profile: str | None, values: Sequence[str] | None) -> Recipe:
    """The recipe that the options name, with the values of the profile, then those of `--set`."""
    from kgwalk.config.recipe import load_recipe

    recipe = load_recipe(name)
    return (recipe if profile is None else recipe.with_profile(profile)).with_values(values or [])


# Graphs by name


def graph_called(name: str) -> Graph:
    """Any graph, here or elsewhere; of a dataset's folder, its graph."""
    return load_graph(name) if is_elsewhere(name) else stored_graph(name)[1]


def store_at(place: Path) -> StoredGraph:
    """A store by its folder, or a bundled one by its name."""
    return open_graph(bundled_path(str(place)) or place)


def bundled_path(name: str) -> Path | None:
    """The store of the bundled graph of that name, unless a file or folder here has the same name."""
    return BUNDLED[name]() if name in BUNDLED and not Path(name).exists() else None


def stored_graph(name: str) -> tuple[str, StoredGraph]:
    """A graph in a store on this machine, and what to call it."""
    if is_elsewhere(name):
        shown = shown_address(name)
        build = f"kgwalk kg build {shlex.quote(shown)} -o my.kg"
        raise KgwalkError(f"{shown} is a graph elsewhere; this needs one here: `{build}` makes one")
    if name.startswith(DATABASES):
        return database_at(name).path.stem, open_graph(_of_database(name))
    if name in BUNDLED:
        return name, load_graph(BUNDLED[name]())
    folder = Path(name)
    with naming_read_errors(folder):
        if folder.is_file():
            return _of_file(folder)
        if not is_store(folder) and (opened := _of_dataset(name)) is not None:
            return opened
        if not folder.exists() and len(folder.parts) == 1 and not folder.suffix:
            raise _unknown(name)
    return folder.resolve().name.removesuffix(".kg"), load_graph(folder)


def _of_database(address: str) -> Path:
    from kgwalk.kg.cached import database_store  # it brings pyarrow along

    return database_store(address)


def _of_file(path: Path) -> tuple[str, StoredGraph]:
    """The graph of a file that `kgwalk kg build` reads, built into the cache."""
    from kgwalk.data.folder import stem_and_suffix
    from kgwalk.kg.cached import file_store  # it brings pyarrow along
    from kgwalk.types import silent

    return stem_and_suffix(path)[0], load_graph(file_store(path, silent))


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
    if not isinstance(graph, StoredGraph):
        raise KgwalkError(f"the graph of {name} is elsewhere; this needs one here: `kgwalk kg build` makes a store")
    return dataset.name, graph


def _unknown(name: str) -> KgwalkError:
    from kgwalk.config.recipe import unknown
    from kgwalk.data.dataset import known_names

    error = unknown("graph", name, known_names())
    return KgwalkError(f"{error}\n  Or give a store's folder; `kgwalk kg build SRC -o {name}.kg` makes one.")
