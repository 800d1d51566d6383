"""Facts with a node of their own between their two ends, as Freebase has them for a part in a film or a term of office.

    film -[film.film.starring]-> m.0x7k2 -[film.starring.person]-> person

Two hops that people speak of as one. The hop to the nameless node adds no words ("{}"), the hop from it says the
concept, so a chain over both reads "Who starred in X?". Knows concepts and ways, no facts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from kgwalk.data.bank.concepts import Concept
from kgwalk.questions.bank_lexicon import BankLexicon
from kgwalk.questions.english.kinds import DATE
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
    """The bank's sayings for relations by their meanings, and for those that have a node in between.

    `marks` are relations from such a node to its times, with what they say: its "start", its "end" or its "date".
    """

    def __init__(
        self,
        meanings: Mapping[str, tuple[Concept, bool]],
        ends: Mapping[str, End],
        marks: Mapping[str, str] | None = None,
    ) -> None:
        self._plain, self._ends = BankLexicon(meanings, [end.concept for end in ends.values()]), ends
        self._marks = marks or {}

    def sayings(self, way: Way) -> Sayings:
        end = self._ends.get(way.relation)
        if way.relation in self._marks:
            return Sayings((), (), DATE)
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
        bare = self._plain.heard.nouns(concept, not end.head)
        return Sayings(questions, nouns, kind, bare=bare, where=() if end.head else concept.where)

    def value_words(self, relation: str) -> tuple[str, ...]:
        if relation in self._marks:
            return (self._marks[relation],)
        return () if relation in self._ends else self._plain.value_words(relation)

    def alone(self, way: Way) -> bool:
        end = self._ends.get(way.relation)
        return self._plain.alone(way) if end is None else self._plain.heard.alone(end.concept)


def passes_through(plan: Plan, ends: Mapping[str, End], marks: Collection[str] = ()) -> bool:
    """Whether every hop to a node in between is followed by the one to its other end.

    Before that, nodes may be chosen from by their `marks`; nothing else.
    """
    for number, step in enumerate(plan.steps, len(plan.topics) + 1):
        relation = str(step.args[1]) if step.tool in HOPS + CHOICES else ""
        if relation in marks and step.tool in HOPS:
            return False
        end = ends.get(relation)
        if end is None:
            continue
        if step.tool in CHOICES:
            return False
        if end.enters(_way(step)):
            if not _goes_on(plan, number, end, ends, marks):
                return False
        else:
            before = plan.made_by(_chosen_from(plan, step, marks))
            entered = ends.get(str(before.args[1])) if before is not None and before.tool in HOPS else None
            if before is None or entered is None or not entered.enters(_way(before)):
                return False
    return True


def _goes_on(plan: Plan, number: int, entered: End, ends: Mapping[str, End], marks: Collection[str]) -> bool:
    """Whether all that is made of a set of nodes is their other ends, or some of them of which that is so."""
    after = [(at, one) for at, one in enumerate(plan.steps, len(plan.topics) + 1) if number in one.args]
    return bool(after) and all(
        _goes_on(plan, at, entered, ends, marks)
        if one.tool in CHOICES and str(one.args[1]) in marks
        else _leaves(one, entered, ends)
        for at, one in after
    )


def _chosen_from(plan: Plan, step: Call, marks: Collection[str]) -> int:
    """The set that a hop starts from, before nodes were chosen from it."""
    source = step.args[0]
    assert isinstance(source, int)
    before = plan.made_by(source)
    chose = before is not None and before.tool in CHOICES and str(before.args[1]) in marks
    return _chosen_from(plan, before, marks) if chose and before is not None else source


def _leaves(step: Call, entered: End, ends: Mapping[str, End]) -> bool:
    end = ends.get(str(step.args[1])) if step.tool in HOPS else None
    if end is None or end.enters(_way(step)):
        return False
    return end.concept is entered.concept and end.head != entered.head


def _way(step: Call) -> Way:
    return Way(str(step.args[1]), step.tool != "head_entities")
