"""What a worker is given to walk with, in bytes: things that live in files are opened again there, not copied.

A store is its folder, a web engine its name, a tokenizer goes without the texts that it knows. What else is given must
be such that pickle can name it; a function inside a function is not. Needs no torch. Knows nothing of walks.
"""

from __future__ import annotations

import io
import pickle
from dataclasses import dataclass
from typing import Any

from kgwalk.agent.budget import Budget
from kgwalk.agent.protocol import Protocol
from kgwalk.agent.worlds import Worlds
from kgwalk.config.place import imported
from kgwalk.kg.store import StoredGraph, open_graph
from kgwalk.llm.hf_tokens import HfTokenizer
from kgwalk.tools.web.open import open_web


class CannotTravel(Exception):
    """What cannot be given to another process, and why."""


@dataclass(frozen=True, slots=True)
class Luggage:
    """`at_once` is how many episodes a worker has under way; the rest is what the engine says of itself."""

    protocol: Protocol
    budget: Budget
    tokens: HfTokenizer
    context: int
    vocabulary: int
    at_once: int


class _Packer(pickle.Pickler):
    def reducer_override(self, thing: Any) -> Any:
        if type(thing) is StoredGraph:  # a view over one is made anew by whoever asks for it
            return open_graph, (thing.store.folder.path,)
        if isinstance(thing, Worlds):
            web = None if thing.web is None or thing.settings.web == "none" else thing.settings.web
            return _worlds, (thing.graph_for, thing.settings, thing.base, thing.web if web is None else None, web)
        if type(thing) is HfTokenizer:
            return _tokens, (thing.hf, sorted(thing.end_ids))
        if isinstance(thing, type) and thing.__module__.endswith(".py"):  # pickle would not find a file's module
            return imported, ("class", f"{thing.__module__}:{thing.__qualname__}")
        return NotImplemented


def pack(thing: Any) -> bytes:
    """CannotTravel if it cannot be."""
    into = io.BytesIO()
    try:
        _Packer(into, protocol=5).dump(thing)
    except (pickle.PicklingError, TypeError, AttributeError, ValueError) as error:
        raise CannotTravel(str(error)) from error
    return into.getvalue()


def unpack(data: bytes) -> Any:
    """In the worker, from the process that started it."""
    return pickle.loads(data)


def _worlds(graph_for: Any, settings: Any, base: Any, web: Any, web_name: str | None) -> Worlds:
    return Worlds(graph_for, settings, base, web if web_name is None else open_web(web_name))


def _tokens(hf: Any, end_ids: list[int]) -> HfTokenizer:
    return HfTokenizer(hf, end_ids=end_ids)
