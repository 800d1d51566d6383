"""Which adapter walks a graph: the one asked for, else the one beside the graph, else the shipped one.

    films.kg          a store
    films.kg.agent    its adapter, where `kgwalk fit films.kg` puts it

A bundled graph has its adapter in the cache. The shipped one lies in this package (`shipped/`); KGWALK_AGENT names
another folder in its place, or `none`. An adapter that was found, not asked for, is taken only if it fits: it has
learnt the recipe's protocol, and was made for the model that is asked for, if one is. Weights are not loaded here.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from kgwalk.config.cache import cache_folder
from kgwalk.config.recipe import Recipe
from kgwalk.data.bundled import BUNDLED
from kgwalk.kg.graph import Graph
from kgwalk.llm.engine import takes_adapter
from kgwalk.llm.models import Adapter, is_adapter, read_adapter, same_model
from kgwalk.types import KgwalkError

BESIDE = ".agent"
NONE = "none"
SHIPPED = "shipped"
VARIABLE = "KGWALK_AGENT"


@dataclass(frozen=True, slots=True)
class Choice:
    """`adapter` is None where the model walks as it is. `words` say which agent was found, or why one was left out."""

    adapter: Adapter | None = None
    words: tuple[str, ...] = ()

    @property
    def folder(self) -> str | None:
        """For an engine's option `adapter`."""
        return None if self.adapter is None else str(self.adapter.folder)


def choose_adapter(asked: str | None, store: Path | None, recipe: Recipe, *, model: str | None, engine: str) -> Choice:
    """The agent for a graph; `store` is its folder, if it has one. `asked` is a folder, `shipped` or `none`."""
    if asked == NONE:
        return Choice()
    if asked is not None:
        return Choice(read_adapter(asked_for(asked)))
    protocol = recipe.section("protocol").get("name")
    if protocol is None:
        return Choice()
    words: list[str] = []
    for folder, called in _places(store):
        if not is_adapter(folder):
            continue
        if not takes_adapter(engine):  # asked last: it imports the engine
            break
        adapter = read_adapter(folder)
        why = _unfit(adapter, str(protocol), model)
        if why is None:
            return Choice(adapter, (*words, f"agent: {called}"))
        words.append(f"not used: {called}, since {why}")
    return Choice(None, tuple(words))


def place_of(store: Path) -> Path:
    """Where the agent of a graph lies, or would: beside its store; of a graph that comes with kgwalk, in the cache.

    >>> place_of(Path("/graphs/films.kg"))
    PosixPath('/graphs/films.kg.agent')
    """
    store = store.resolve()
    for name, path in BUNDLED.items():
        if path().resolve() == store:
            return cache_folder() / "agents" / f"{name}{BESIDE}"
    return store.with_name(f"{store.name}{BESIDE}")


def store_of(graph: Graph) -> Path | None:
    """The store folder of a graph or of a view of it; None for a graph elsewhere."""
    store = getattr(graph, "store", None)
    return None if store is None else Path(store.folder.path)


def shipped() -> Path | None:
    """The folder of the agent that comes with kgwalk, or that KGWALK_AGENT names; None where there is none."""
    named = os.environ.get(VARIABLE, "").strip()
    if named == NONE:
        return None
    if named:
        folder = Path(named).expanduser()
        if not is_adapter(folder):
            raise KgwalkError(f"{VARIABLE} is {named}, which is no adapter's folder; unset it, or set it to {NONE}")
        return folder
    own = Path(str(files("kgwalk.walk"))) / "shipped"
    return own if is_adapter(own) else None


def asked_for(adapter: str) -> Path:
    """The folder that is meant: the shipped agent by its word, any other by its path."""
    if adapter != SHIPPED:
        return Path(adapter)
    folder = shipped()
    if folder is None:
        raise KgwalkError("no agent comes with this kgwalk; give an adapter's folder, or leave the option out")
    return folder


def _places(store: Path | None) -> list[tuple[Path, str]]:
    """Where to look, and what to call what is there."""
    places = []
    if store is not None:
        beside = place_of(store)
        places.append((beside, f"{beside}, beside the graph"))
    general = shipped()
    if general is not None:
        places.append((general, "the one that comes with kgwalk" if not os.environ.get(VARIABLE) else str(general)))
    return places


def _unfit(adapter: Adapter, protocol: str, model: str | None) -> str | None:
    if adapter.protocol and adapter.protocol != protocol:
        return f"it has learnt to walk by {adapter.protocol}, and the recipe walks by {protocol}"
    if model is not None and not same_model(adapter.base, model):
        return f"it was made for the model {adapter.base or '(not said)'}, not for {model}"
    return None
