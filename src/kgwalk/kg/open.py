"""Opens any graph by its address: a store folder, another kgwalk server, or a SPARQL endpoint."""

from __future__ import annotations

from pathlib import Path
from typing import overload

from kgwalk.kg.graph import Graph
from kgwalk.kg.store import StoredGraph, open_graph

SPARQL = "sparql+"


@overload
def load_graph(address: Path) -> StoredGraph: ...
@overload
def load_graph(address: str | Path) -> Graph: ...
def load_graph(address: str | Path) -> Graph:
    """Open a graph by its address.

    `films.kg` is a store folder, `http://host:8000` a kgwalk server (`http://host:8000#films` one of its graphs),
    `sparql+https://query.wikidata.org/sparql` a SPARQL endpoint.
    """
    text = str(address)
    if text.startswith(SPARQL):
        from kgwalk.kg.sparql import SparqlGraph

        return SparqlGraph(text.removeprefix(SPARQL))
    if text.startswith(("http://", "https://")):
        from kgwalk.kg.http import HttpGraph

        url, _, name = text.partition("#")
        return HttpGraph(url, name or None)
    return open_graph(address)
