"""A graph by what a person calls it on the command line: a bundled graph's name, or any address."""

from __future__ import annotations

from kgwalk.data.bundled import BUNDLED
from kgwalk.kg.graph import Graph
from kgwalk.kg.open import load_graph


def graph_called(name: str) -> Graph:
    return load_graph(BUNDLED[name]() if name in BUNDLED else name)
