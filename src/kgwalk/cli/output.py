"""What the command line prints: results on stdout (text, or one JSON object), progress and messages on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bars
from rich.table import Table
from rich.text import Text

from kgwalk.data.bundled import BUNDLED
from kgwalk.kg.files import is_store, naming_read_errors
from kgwalk.kg.graph import Graph
from kgwalk.kg.open import SPARQL, load_graph
from kgwalk.kg.store import StoredGraph, open_graph
from kgwalk.types import KgwalkError, Progress

# Names are data: never read as rich markup or emoji codes, never wrapped or coloured by guess.
out = Console(markup=False, emoji=False, highlight=False, soft_wrap=True)
err = Console(stderr=True, markup=False, emoji=False, highlight=False, soft_wrap=True)

EVERY = 30.0  # seconds between lines of progress where there is no terminal
ENGINES = "auto, cpu (OpenVINO), local (torch), vllm or api (OPENAI_BASE_URL, OPENAI_API_KEY)."  # of --engine's help


def print_json(value: Any) -> None:
    """One JSON object on stdout."""
    _write_json(value, orjson.OPT_INDENT_2, 2)


def print_json_line(value: Any) -> None:
    """One JSON object of many, each on a line of its own."""
    _write_json(value, None, None)


def _write_json(value: Any, option: int | None, indent: int | None) -> None:
    try:
        text = orjson.dumps(value, option=option)
    except orjson.JSONEncodeError:  # an argument that is not UTF-8 reaches us with half characters in it
        text = json.dumps(value, indent=indent).encode()
    sys.stdout.buffer.write(text + b"\n")
    sys.stdout.flush()


def counted(count: int, one: str, many: str = "") -> str:
    """`1 fact`, `2,000 facts`."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def first_of(names: Sequence[str], left_out: int) -> str:
    """Names of which some are left out: `France, Spain, Italy, ... (+2)`."""
    return ", ".join([*names, f"... (+{left_out:,})"] if left_out else names)


def print_table(table: Table) -> None:
    """A table on stdout; a pipe or file gets it whole, not wrapped to 80 columns."""
    console = out if out.is_terminal else Console(markup=False, highlight=False, width=200)
    console.print(table)


def size(count: float) -> str:
    """Bytes for people: 1536 -> 1.5 KiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def parse_size(text: str) -> int:
    """`512M`, `1.5G`, `2GiB` or plain bytes."""
    units = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
    trimmed = text.strip().lower().removesuffix("ib").removesuffix("b")
    unit = trimmed[-1:] if trimmed[-1:].isalpha() else ""
    try:
        value = float(trimmed.removesuffix(unit)) * units[unit]
    except (KeyError, ValueError) as error:
        raise ValueError(f"{text!r} is not a size; write it like 512M or 2G") from error
    if value < 1 << 20:
        raise ValueError(f"{text!r} is too little to work in; give at least 1M")
    return int(value)


class _Rate(ProgressColumn):
    """How fast it goes, in the unit of the task."""

    def render(self, task: Task) -> Text:
        if not task.speed:
            return Text("")
        rate = f"{size(task.speed)}/s" if task.fields.get("bytes") else f"{task.speed:,.0f}/s"
        return Text(rate, style="progress.data.speed")


@contextmanager
def progress_bar(*, quiet: bool = False) -> Iterator[Progress]:
    """A bar on stderr for each thing done in turn; none where stderr is not a terminal, or when told to be quiet."""
    bar = Bars(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=err,
        disable=quiet or not err.is_terminal,
    )
    tasks: dict[str, Any] = {}

    def update(what: str, done: int, total: int | None, figures: Mapping[str, float] = {}, /) -> None:
        if what not in tasks:
            tasks[what] = bar.add_task(what, total=total, bytes=what.startswith("reading"))
        bar.update(tasks[what], completed=done, total=total)

    with bar:
        yield update


# ----------------------------------------------------------------------------------------------------
# A graph by what a person calls it on the command line: a bundled graph, a store, a dataset's graph, an address.
#
# And what becomes of malformed rows where a file of facts is read. Knows no command.


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
