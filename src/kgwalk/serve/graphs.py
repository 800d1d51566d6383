"""The graphs that a server has, by name: how they are opened and changed, and the view that a request asks for.

A view is one question's subgraph, a time window, or both. It is made once and kept while it is in use. A graph that
has views has the methods `question(id)` and `between(start, end)`, as a store has.

A server answers from what it opened until it is told to open its stores again: nothing that happens to their files in
between reaches it. But updates do (`kgwalk kg update`): `UpdateWatch` looks at the stores' journals, several times a
second, and puts the graph as it is now in the place of the one before.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Container, Iterable, Mapping
from copy import copy
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from kgwalk.kg.files import HEADER
from kgwalk.kg.graph import Graph
from kgwalk.kg.journal import stamp
from kgwalk.kg.store import SUBGRAPHS, StoredGraph, open_graph, with_updates
from kgwalk.serve.reading import ItemError
from kgwalk.serve.settings import ServeSettings
from kgwalk.serve.shapes import GraphEntry, View
from kgwalk.types import KgwalkError, StoreError, UnknownQuestion

log = logging.getLogger("kgwalk.serve")

# A training step asks about a few hundred questions at a time, and a view is made in tens of microseconds.
VIEWS = 256
STORE = ".kg"  # how the folder of an uploaded graph ends


class ServedGraphs:
    """Graphs by name. Where the server was given one, a request for it need not name it, whatever is `uploaded`.

    `views` says for some of them which view a question's id means; of the others it is the store's own subgraph.
    """

    def __init__(
        self,
        graphs: Mapping[str, Graph],
        views: Mapping[str, Callable[[str], Graph]] | None = None,
        uploaded: Mapping[str, Graph] | None = None,
    ) -> None:
        if not graphs:
            raise ValueError("a server needs at least one graph")
        self._given, self._views, self.uploaded = dict(graphs), dict(views or {}), dict(uploaded or {})
        # those of the server come first: a page that names no graph shows the first
        self.by_name = self._given | {name: graph for name, graph in self.uploaded.items() if name not in self._given}
        self._only = next(iter(graphs)) if len(graphs) == 1 else None
        # Not a method: what `now` copied goes on with these graphs.
        self._view = lru_cache(VIEWS)(partial(_make_view, self.by_name, self._views))

    def now(self) -> ServedGraphs:
        """These graphs for one request, which `change` does not reach."""
        return copy(self)

    def change(self, other: ServedGraphs) -> None:
        """Serve the other graphs from now on."""
        self.__dict__ = dict(other.__dict__)

    def with_updated(self, updated: Mapping[str, tuple[Graph, Graph]]) -> None:
        """Serve the second of each pair from now on, where the first is still served."""
        now = {name: new for name, (old, new) in updated.items() if self.by_name.get(name) is old}
        given, uploaded = (
            {name: now.get(name, one) for name, one in of.items()} for of in (self._given, self.uploaded)
        )
        self.change(ServedGraphs(given, self._views, uploaded))

    def updatable(self) -> dict[str, StoredGraph]:
        """The stores whose updates are served; those of a dataset stay as its questions have them."""
        return {
            name: graph
            for name, graph in self.by_name.items()
            if isinstance(graph, StoredGraph) and name not in self._views
        }

    def with_uploaded(self, uploaded: Mapping[str, Graph]) -> None:
        """Serve these uploaded graphs from now on, beside those that the server was given."""
        self.change(ServedGraphs(self._given, self._views, uploaded))

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

    def _info(self, graph: Graph) -> dict[str, Any]:
        info = getattr(graph, "info", None)
        about: dict[str, Any] = {} if info is None else info()
        # A client is not told where the files are.
        return {key: value for key, value in about.items() if key != "path"}

    def _names(self) -> str:
        return ", ".join(f'"{name}"' for name in self.by_name)

    def failed(self, item: object, error: KgwalkError) -> ItemError:
        """The graph of an item could not answer. The reason may name files and hosts, so it goes to the log only."""
        asked = item.get("graph") if isinstance(item, dict) else None
        name = asked if isinstance(asked, str) else self._only
        log.error("the graph %s failed: %s", name, error)
        return ItemError("graph_failed", f'the graph "{name}" could not answer; the server\'s log has the reason')


def _make_view(
    graphs: Mapping[str, Graph],
    of_question: Mapping[str, Callable[[str], Graph]],
    name: str,
    question: str | None,
    start: str | None,
    end: str | None,
) -> Graph:
    graph = graphs[name]
    if question is not None:
        view_of = of_question.get(name) or getattr(graph, "question", None)
        if view_of is None:
            raise UnknownQuestion(question)
        graph = view_of(question)
    if start is not None or end is not None:
        between = getattr(graph, "between", None)
        if between is None:
            raise ItemError("bad_request", 'this graph has no time windows; leave out "start" and "end"')
        try:
            graph = between(start, end)
        except ValueError as error:
            raise ItemError("bad_request", f"bad time window: {error}") from error
    return graph


# Opening


def open_served(settings: ServeSettings) -> ServedGraphs:
    """The stores of the settings and the graph of their dataset, every byte checked unless the settings say no."""
    opened = open_graphs(settings.graphs, data=settings.data is not None)
    views: dict[str, Callable[[str], Graph]] = {}
    if settings.data is not None:
        from kgwalk.walk.environment import environment_values, open_questions

        questions = open_questions(settings.data, environment_values(settings.environment))
        name = questions.dataset.name
        if name in opened:
            raise KgwalkError(f"the dataset and a graph are both called {name!r}; name the graph: --graph NAME=DIR")
        opened[name], views[name] = questions.dataset.graph(), questions.graph
    if settings.verify:
        for graph in opened.values():
            for folder in graph.folders():
                for _ in folder.verify():
                    pass
    return ServedGraphs(opened, views, open_uploaded(settings.uploads, opened))


def open_uploaded(folder: str | None, taken: Container[str] = ()) -> dict[str, StoredGraph]:
    """The graphs that were uploaded into a folder, by name. One that cannot be opened is logged and left out."""
    opened: dict[str, StoredGraph] = {}
    for path in sorted(Path(folder).glob(f"*{STORE}")) if folder is not None else ():
        name = path.name.removesuffix(STORE)
        if name in taken or path.is_symlink() or not path.is_dir():
            log.warning("%s is not served: no folder, or another graph has this name", path)
            continue
        try:
            opened[name] = open_graph(path, private=True)
        except KgwalkError as error:
            log.error("the uploaded graph %s is not served: %s", name, error)
    return opened


def open_graphs(paths: Mapping[str, str], *, data: bool = False) -> dict[str, StoredGraph]:
    """The stores, opened by name. There may be none if a dataset is served (`data`)."""
    if not paths and not data:
        raise KgwalkError("there is no graph to serve; give at least one, as NAME=PATH or PATH, or a dataset")
    return {name: open_graph(path, private=True) for name, path in paths.items()}


class UpdateWatch:
    """Follows the updates of the served stores."""

    def __init__(self, graphs: ServedGraphs) -> None:
        self._graphs = graphs
        self._seen: dict[str, object] = {}  # by the graph's name, what its journal was when it was last read

    def changed(self) -> bool:
        """Whether a journal is another than the one that was read; takes microseconds."""
        return any(self._is_new(name, graph) for name, graph in self._graphs.updatable().items())

    def _is_new(self, name: str, graph: StoredGraph) -> bool:
        # Without a journal there is nothing to follow: a compacted store answers as the one that is open does.
        return (now := stamp(str(graph.store.folder.path))) is not None and self._seen.get(name) != now

    def read(self) -> dict[str, tuple[Graph, Graph]]:
        """The graphs that changed, as they were and as they are now; takes milliseconds, so a thread does it."""
        found: dict[str, tuple[Graph, Graph]] = {}
        for name, graph in self._graphs.updatable().items():
            if self._is_new(name, graph):
                # before it is read: what comes meanwhile is seen the next time
                self._seen[name] = stamp(str(graph.store.folder.path))
                try:
                    now = followed(graph)
                except KgwalkError as error:
                    log.error("an update of the graph %s is not served: %s", name, error)
                    continue
                if now is not graph:
                    found[name] = (graph, now)
        return found


def followed(graph: StoredGraph) -> StoredGraph:
    """The graph with the updates that its folder has now; itself where there are no others.

    Where another build has taken the folder's place since, that one is opened.
    """
    folder = graph.store.folder
    try:
        store = with_updates(graph.store.built)
    except StoreError:
        return open_graph(folder.path, private=folder.private)
    return graph if store.digest == graph.store.digest else StoredGraph(store)


class StoreWatch:
    """Whether the files of some stores are others than when it was last asked."""

    def __init__(self, graphs: Iterable[Graph]) -> None:
        self._folders = [str(graph.store.folder.path) for graph in graphs if isinstance(graph, StoredGraph)]
        self._seen = self._look()

    def changed(self) -> bool:
        before, self._seen = self._seen, self._look()
        return self._seen != before

    def _look(self) -> list[tuple[object, ...]]:
        return [stamp for folder in self._folders for stamp in _stamps(folder)]


def _stamps(folder: str) -> list[tuple[object, ...]]:
    """The name, number, size and time of each file of a folder; nothing of one that is not there."""
    try:
        with os.scandir(folder) as entries:
            # not what others keep beside the arrays, such as vectors of names
            files = [entry for entry in entries if entry.name.endswith((".bin", HEADER, SUBGRAPHS))]
            found = [(entry.name, entry.inode(), entry.stat()) for entry in files]
    except OSError:
        return []
    return sorted((folder, name, inode, stat.st_size, stat.st_mtime_ns) for name, inode, stat in found)
