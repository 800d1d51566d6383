"""A route as KG-Hopper walks it: one growing thought with a search for each entity on the way."""

from __future__ import annotations

from kgwalk.agent.protocols.kg_hopper import KgHopper
from kgwalk.training.demos.writers.growing_think import SearchWriter
from kgwalk.types import Answer, Call


class KgHopperWriter(SearchWriter):
    def say(self, step: Call | Answer, think: str) -> str:
        return KgHopper.render(step, think, opened=self.walk.opened)
