"""KG-Hopper's demonstrations: one growing thought with a search for each entity on the way.

The walking is SearchWriter's, which KG-Reasoner uses as well; here is only how a turn is written.
"""

from __future__ import annotations

from kgwalk.demos.writer import WRITERS, SearchWriter
from kgwalk.systems.kg_hopper.protocol import KgHopper
from kgwalk.types import Answer, Call


@WRITERS.add("kg-hopper")
class KgHopperWriter(SearchWriter):
    def say(self, step: Call | Answer, think: str) -> str:
        return KgHopper.render(step, think, opened=self.walk.opened)
