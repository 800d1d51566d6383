"""The six ways of talking to a graph, and the two of answering without one, by name."""

from __future__ import annotations

from kgwalk.agent.protocol import Protocol
from kgwalk.agent.protocols.closed_book import Cot, Vanilla
from kgwalk.agent.protocols.eog import Eog
from kgwalk.agent.protocols.graph_rft import GraphRft
from kgwalk.agent.protocols.kg_hopper import KgHopper
from kgwalk.agent.protocols.kg_r1 import KgR1
from kgwalk.agent.protocols.kg_reasoner import KgReasoner
from kgwalk.agent.protocols.kgwalk import Kgwalk
from kgwalk.types import KgwalkError

PROTOCOLS: dict[str, type[Protocol]] = {
    kind.name: kind for kind in (KgR1, GraphRft, KgReasoner, KgHopper, Eog, Kgwalk, Vanilla, Cot)
}


def protocol_named(name: str, **settings: object) -> Protocol:
    """A protocol by its name, with settings of its own."""
    if name not in PROTOCOLS:
        raise KgwalkError(f"unknown protocol {name!r}; there are {', '.join(sorted(PROTOCOLS))}")
    return PROTOCOLS[name](**settings)  # type: ignore[arg-type]
