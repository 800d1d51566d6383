"""Facts with a node of their own between their two ends, as Freebase has them for a part in a film or a term of office.

    film -[film.film.starring]-> m.0x7k2 -[film.starring.person]-> person

Two hops that people speak of as one. The hop to the nameless node adds no words ("{}"), the hop from it says the
concept, so a chain over both reads "Who starred in X?". Knows concepts and ways, no facts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kgwalk.data.bank.concepts import Concept
from kgwalk.questions.bank_lexicon import BankLexicon, bare_nouns
from kgwalk.questions.lexicon import Sayings
from kgwalk.questions.plan import CHOICES, HOPS, Plan
from kgwalk.tools.facts import Way
from kgwalk.types import Call

_SILENT = Sayings((), ("{}",))


@dataclass(frozen=True, slots=True)
class End:
    """One of the two relations of such a fact: at the concept's head or tail, leading into the node or out of it."""

    concept: Concept
    head: bool
    inward: bool

    def enters(self, way: Way) -> bool:
        """Whether a hop leads to the node in between."""
        return way.out == self.inward


class WorldLexicon:
    """The bank's sayings for relations by their meanings, and for those that have a node in between."""

    def __init__(self, meanings: Mapping[str, tuple[Concept, bool]], ends: Mapping[str, End]) -> None:
        self._plain, self._ends = BankLexicon(meanings), ends

    def sayings(self, way: Way) -> Sayings:
        end = self._ends.get(way.relation)
        if end is None:
            return self._plain.sayings(way)
        if end.enters(way):
            return _SILENT
        concept = end.concept
        questions, nouns, kind = (
            (concept.backward, concept.backward_nouns, concept.head)
            if end.head
            else (concept.forward, concept.forward_nouns, concept.tail)
        )
        return Sayings(questions, nouns, kind, bare=bare_nouns(concept, not end.head))

    def value_words(self, relation: str) -> tuple[str, ...]:
        return () if relation in self._ends else self._plain.value_words(relation)


def passes_through(plan: Plan, ends: Mapping[str, End]) -> bool:
    """Whether every hop to a node in between is followed by the one to its other end, and by nothing else."""
    for number, step in enumerate(plan.steps, len(plan.topics) + 1):
        end = ends.get(str(step.args[1])) if step.tool in HOPS + CHOICES else None
        if end is None:
            continue
        if step.tool in CHOICES:
            return False
        if end.enters(_way(step)):
            after = [one for one in plan.steps if number in one.args]
            if not after or not all(_leaves(one, end, ends) for one in after):
                return False
        else:
            source = step.args[0]
            before = plan.made_by(source) if isinstance(source, int) else None
            entered = ends.get(str(before.args[1])) if before is not None and before.tool in HOPS else None
            if before is None or entered is None or not entered.enters(_way(before)):
                return False
    return True


def _leaves(step: Call, entered: End, ends: Mapping[str, End]) -> bool:
    end = ends.get(str(step.args[1])) if step.tool in HOPS else None
    if end is None or end.enters(_way(step)):
        return False
    return end.concept is entered.concept and end.head != entered.head


def _way(step: Call) -> Way:
    return Way(str(step.args[1]), step.tool != "head_entities")
