"""A graph by what a person calls it: a bundled name, a store, a dataset or an address.

graph_called("world"), graph_called("films.kg"), graph_called("http://localhost:8000")
"""

from __future__ import annotations

from pathlib import Path

from kgwalk.data.bundled import BUNDLED
from kgwalk.kg.files import is_store, naming_read_errors
from kgwalk.kg.graph import Graph
from kgwalk.kg.open import SPARQL, load_graph
from kgwalk.kg.store import StoredGraph, open_graph
from kgwalk.types import KgwalkError


def graph_called(name: str) -> Graph:
    """Any graph, here or elsewhere; of a dataset's folder, its graph."""
    return load_graph(name) if _elsewhere(name) else stored_graph(name)[1]


def store_at(place: Path) -> StoredGraph:
    """A store by its folder, or a bundled one by its name."""
    return open_graph(bundled_path(str(place)) or place)


def bundled_path(name: str) -> Path | None:
    """The store of the bundled graph of that name, unless a file or folder here has the same name."""
    return BUNDLED[name]() if name in BUNDLED and not Path(name).exists() else None


def stored_graph(name: str) -> tuple[str, StoredGraph]:
    """A graph in a store on this machine, and what to call it."""
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
    if not isinstance(graph, StoredGraph):
        raise KgwalkError(f"the graph of {name} is elsewhere; this needs one here: `kgwalk kg build` makes a store")
    return dataset.name, graph


def _unknown(name: str) -> KgwalkError:
    from kgwalk.config.plugins import unknown
    from kgwalk.data.dataset import known_names

    error = unknown("graph", name, known_names())
    return KgwalkError(f"{error}\n  Or give a store's folder; `kgwalk kg build SRC -o {name}.kg` makes one.")


def _elsewhere(name: str) -> bool:
    return name.startswith(("http://", "https://", SPARQL))
