"""How each protocol would walk a route: a writer for each, by the protocol's name."""

from __future__ import annotations

from kgwalk.training.demos.writers.eog import EogWriter
from kgwalk.training.demos.writers.graph_rft import GraphRftWriter
from kgwalk.training.demos.writers.kg_hopper import KgHopperWriter
from kgwalk.training.demos.writers.kg_r1 import KgR1Writer
from kgwalk.training.demos.writers.kg_reasoner import KgReasonerWriter
from kgwalk.training.demos.writers.kgwalk import KgwalkWriter
from kgwalk.training.demos.writers.writer import Writer

WRITERS: dict[str, type[Writer]] = {
    "kg-r1": KgR1Writer,
    "graph-rft": GraphRftWriter,
    "kg-reasoner": KgReasonerWriter,
    "kg-hopper": KgHopperWriter,
    "eog": EogWriter,
    "kgwalk": KgwalkWriter,
}
