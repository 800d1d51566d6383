"""The graphs that a server has, by name, and the view of one that a request asks for.

A view is one question's subgraph, a time window, or both. It is made once and kept while it is in use. A graph that
has views has the methods `question(id)` and `between(start, end)`, as a store has.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from kgwalk.kg.graph import Graph
from kgwalk.serve.reading import ItemError
from kgwalk.serve.shapes import GraphEntry, View
from kgwalk.types import KgwalkError, UnknownQuestion

log = logging.getLogger("kgwalk.serve")

# A training step asks about a few hundred questions at a time, and a view is made in tens of microseconds.
VIEWS = 256


class ServedGraphs:
    """Graphs by name. Where there is one, a request need not name it.

    `views` says for some of them which view a question's id means; of the others it is the store's own subgraph.
    """

    def __init__(self, graphs: Mapping[str, Graph], views: Mapping[str, Callable[[str], Graph]] | None = None) -> None:
        if not graphs:
            raise ValueError("a server needs at least one graph")
        self.by_name = dict(graphs)
        self._of_question = dict(views or {})
        self._only = next(iter(graphs)) if len(graphs) == 1 else None
        self._view = lru_cache(VIEWS)(self._make_view)

    def graph(self, name: str | None) -> Graph:
        """The graph of that name, or the only one; raises ItemError."""
        return self.by_name[self._known(name)]

    def select(self, item: View) -> Graph:
        """The graph or view that an item asks for; raises UnknownQuestion, else ItemError."""
        name = self._known(item.get("graph"))
        question, start, end = item.get("question"), item.get("start"), item.get("end")
        if question is None and start is None and end is None:
            return self.by_name[name]
        return self._view(name, question, start, end)

    def info(self) -> list[GraphEntry]:
        return [{"name": name, "info": self._info(graph)} for name, graph in self.by_name.items()]

    def _known(self, name: str | None) -> str:
        if name is None:
            name = self._only
            if name is None:
                raise ItemError("bad_request", f'"graph" is missing; there are {self._names()}')
        if name not in self.by_name:
            raise ItemError("unknown_graph", f'graph "{name[:60]}" is not served; there are {self._names()}')
        return name

    def _make_view(self, name: str, question: str | None, start: str | None, end: str | None) -> Graph:
        graph = self.by_name[name]
        if question is not None:
            of_question = self._of_question.get(name) or getattr(graph, "question", None)
            if of_question is None:
                raise UnknownQuestion(question)
            graph = of_question(question)
        if start is not None or end is not None:
            between = getattr(graph, "between", None)
            if between is None:
                raise ItemError("bad_request", 'this graph has no time windows; leave out "start" and "end"')
            try:
                graph = between(start, end)
            except ValueError as error:
                raise ItemError("bad_request", f"bad time window: {error}") from error
        return graph

    def _info(self, graph: Graph) -> dict[str, Any]:
        info = getattr(graph, "info", None)
        about: dict[str, Any] = {} if info is None else info()
        # A client is not told where the files are.
        return {key: value for key, value in about.items() if key != "path"}

    def _names(self) -> str:
        return ", ".join(f'"{name}"' for name in self.by_name)


def failed_graph(error: KgwalkError) -> ItemError:
    """A graph that could not answer. The reason may name files and hosts, so it goes to the log only."""
    log.error("a graph failed: %s", error)
    return ItemError("graph_failed", "the graph could not answer; the server's log has the reason")
