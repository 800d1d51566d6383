"""kgwalk: small language models that answer questions by walking a knowledge graph.

    >>> import kgwalk
    >>> graph = kgwalk.load_graph("films.kg")           # doctest: +SKIP
    >>> graph.neighbors("Big", "directed_by").names     # doctest: +SKIP
    ['Penny Marshall']
    >>> with kgwalk.Agent(graph).opened() as agent:     # doctest: +SKIP
    ...     agent.ask("who directed Big?").answers
    ['Penny Marshall']

The names below are the public door; they are imported when first used, so `import kgwalk` stays quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.2.0"

if TYPE_CHECKING:
    from kgwalk.data.dataset import load_dataset
    from kgwalk.evaluation.evaluate import evaluate
    from kgwalk.kg.build import build as build_graph
    from kgwalk.kg.graph import Graph
    from kgwalk.kg.http import HttpGraph
    from kgwalk.kg.in_memory import graph_from
    from kgwalk.kg.sparql import SparqlGraph
    from kgwalk.kg.store import load_graph
    from kgwalk.kg.views import incomplete
    from kgwalk.training.pipeline import train
    from kgwalk.types import Found, KgwalkError, Neighbors, Question, Triple
    from kgwalk.walk.agent import Agent, ask

_WHERE = {
    "Agent": "kgwalk.walk.agent",
    "Found": "kgwalk.types",
    "Graph": "kgwalk.kg.graph",
    "HttpGraph": "kgwalk.kg.http",
    "KgwalkError": "kgwalk.types",
    "Neighbors": "kgwalk.types",
    "Question": "kgwalk.types",
    "SparqlGraph": "kgwalk.kg.sparql",
    "Triple": "kgwalk.types",
    "ask": "kgwalk.walk.agent",
    "build_graph": "kgwalk.kg.build:build",
    "evaluate": "kgwalk.evaluation.evaluate",
    "graph_from": "kgwalk.kg.in_memory",
    "incomplete": "kgwalk.kg.views",
    "load_dataset": "kgwalk.data.dataset",
    "load_graph": "kgwalk.kg.store",
    "train": "kgwalk.training.pipeline",
}

__all__ = [
    "Agent",
    "Found",
    "Graph",
    "HttpGraph",
    "KgwalkError",
    "Neighbors",
    "Question",
    "SparqlGraph",
    "Triple",
    "ask",
    "build_graph",
    "evaluate",
    "graph_from",
    "incomplete",
    "load_dataset",
    "load_graph",
    "train",
]


def __getattr__(name: str) -> object:
    if name not in _WHERE:
        raise AttributeError(f"module 'kgwalk' has no attribute {name!r}")
    module, _, inside = _WHERE[name].partition(":")
    value = getattr(import_module(module), inside or name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
