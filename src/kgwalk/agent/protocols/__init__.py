"""The six ways of talking to a graph, and the two of answering without one, by name; others by their place.

`package.module:Class` and `file.py:Class` need no registering. Knows no recipe.
"""

from __future__ import annotations

from kgwalk.agent.protocol import Protocol
from kgwalk.agent.protocols.closed_book import Cot, Vanilla
from kgwalk.agent.protocols.eog import Eog
from kgwalk.agent.protocols.graph_rft import GraphRft
from kgwalk.agent.protocols.kg_hopper import KgHopper
from kgwalk.agent.protocols.kg_r1 import KgR1
from kgwalk.agent.protocols.kg_reasoner import KgReasoner
from kgwalk.agent.protocols.kgwalk import Kgwalk
from kgwalk.config.place import imported
from kgwalk.config.recipe import unknown
from kgwalk.types import KgwalkError

PROTOCOLS: dict[str, type[Protocol]] = {
    kind.name: kind for kind in (KgR1, GraphRft, KgReasoner, KgHopper, Eog, Kgwalk, Vanilla, Cot)
}
_OWN: dict[str, type[Protocol]] = {}  # those that were imported; demonstrations have only their names


def protocol_named(name: str, **settings: object) -> Protocol:
    """A protocol by its name or place, with settings of its own."""
    return protocol_kind(name)(**settings)  # type: ignore[arg-type]


def protocol_kind(name: str) -> type[Protocol]:
    """A protocol's class by its name, or by its place: one that was imported so has its own name as well."""
    known = PROTOCOLS | _OWN
    if name in known:
        return known[name]
    if ":" not in name:
        raise unknown("protocol", name, known)
    kind = imported("protocol", name)
    if not isinstance(kind, type) or not issubclass(kind, Protocol):
        raise KgwalkError(f"`{name}` is no protocol; it must be a subclass of kgwalk.agent.protocol.Protocol")
    for part in ("name", "stop", "inline"):
        if not hasattr(kind, part):
            raise KgwalkError(f"the protocol `{name}` has no `{part}`; give the class one")
    if kind.name in PROTOCOLS:
        raise KgwalkError(f"the protocol `{name}` is called {kind.name}, as one of kgwalk's is; give it another `name`")
    _OWN[kind.name] = kind
    return kind
