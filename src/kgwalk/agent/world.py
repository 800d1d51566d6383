"""The world of a walk: a graph with what else a protocol's tools would use, where that is installed.

Embeddings are loaded once a process and kept for each store. Knows no protocol by name: a protocol says whether it
ranks by meaning.
"""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from functools import lru_cache
from weakref import WeakKeyDictionary

from kgwalk.agent.protocol import Protocol, World
from kgwalk.kg.graph import Graph
from kgwalk.kg.store import Store, StoredGraph
from kgwalk.llm.embed import CachedEmbedder, Embedder, MiniLM, installed_minilm

_of_store: WeakKeyDictionary[Store, Embedder] = WeakKeyDictionary()


def world_for(graph: Graph, protocol: Protocol) -> World:
    """The graph, with an embedder if the protocol asks for one and there is one here; else letters decide."""
    if not protocol.by_meaning or installed_minilm() is None or not _has_torch():
        return World(graph)
    if not isinstance(graph, StoredGraph):
        return World(graph, embed=_shared())
    if graph.store not in _of_store:
        _of_store[graph.store] = CachedEmbedder(_model(), graph.store)
    return World(graph, embed=_of_store[graph.store])


def with_ranker(world: World, folder: str) -> World:
    """The world with the trained ranker of a folder, over the embedder that the world has."""
    from kgwalk.tools.ranker.learned import open_ranker  # needs torch

    return replace(world, ranker=open_ranker(folder, world.embed))


@lru_cache(1)
def _model() -> MiniLM:
    return MiniLM()


@lru_cache(1)
def _shared() -> Embedder:
    return CachedEmbedder(_model())


def _has_torch() -> bool:
    return all(importlib.util.find_spec(name) is not None for name in ("torch", "transformers"))
