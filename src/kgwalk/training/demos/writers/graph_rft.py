"""A route as Graph-RFT walks it: a plan first, then for each step a relation search and neighbour searches."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from kgwalk.agent.plan import Combination, Combine, Plan, PlanStep, SearchKG
from kgwalk.agent.protocols.graph_rft import GraphRft
from kgwalk.tools.facts import Way, spell
from kgwalk.training.demos.route import CHOICES, HOPS, Route, way_of
from kgwalk.training.demos.voice import spoken
from kgwalk.training.demos.writers.around import with_way, wrong_way
from kgwalk.training.demos.writers.explorer import Explorer
from kgwalk.training.demos.writers.writer import NOT_SHOWN, TURNS, Script, Unwritable
from kgwalk.types import Answer, Call, Question

FUNCTIONS: dict[str, Combination] = {"intersect": "Intersect", "union": "Union", "minus": "Negation"}
_ASKED = re.compile(r"\b(?:which|what)\s+(?!is\b|are\b|was\b|were\b|did\b|do\b|does\b|has\b|have\b)([a-z]+)", re.I)


@dataclass
class GraphRftWriter(Explorer):
    listed: set[str] = field(default_factory=set)  # relations that a relation search has shown

    def reach(self, at: int, source: Sequence[str], way: Way) -> Script:
        spare = self.left - self.needed(at)
        if way.relation not in self.listed and (spare > 0 or self.left == self.walk.protocol.turns):
            yield from self._look(with_way(self.walk.world.graph, source, way), way)
            spare -= 1
        if at == self.astray and spare > 0:
            yield from self._wrong(source, way)
        if self.route.steps[at].tool in CHOICES and len(source) > self.left:
            raise Unwritable(TURNS)
        room = max(1, self.left - self.steps_after(at))
        for place, entity in enumerate(source[:room]):
            call = Call("neighbor_search", (entity, way.relation))
            yield from self.ask(call, self.entity_thought(place, entity, way))

    def say(self, step: Call | Answer, think: str) -> str:
        plan = plan_of(self.question, self.route) if self.walk.plan is None else None
        return GraphRft.render(step, think, plan=plan)

    def _look(self, entity: str, way: Way) -> Script:
        think = self.before(self.voice.say("look", entity=entity, words=spoken(way.relation)))
        turn = yield from self.ask(Call("relation_search", (entity, spoken(way.relation))), think)
        if spell(way.relation) not in turn.observation:
            raise Unwritable(NOT_SHOWN)
        self.listed.add(way.relation)

    def _wrong(self, source: Sequence[str], way: Way) -> Script:
        other = wrong_way(self.walk.world.graph, source, way, self.question.answers, self.chance)
        if other is None:
            return
        self.strayed = True
        think = self.before(self.intention(other, source[0]))
        turn = yield from self.ask(Call("neighbor_search", (source[0], other.relation)), think, train=False)
        self.note = self.mistaken(turn.shown, way, ok=turn.ok)


def plan_of(question: Question, route: Route) -> Plan:
    """The route in the plan's functions. What these cannot say (a count, a comparison) is left to the thoughts.

    >>> steps = (Call("tail_entities", (1, "borders")), Call("argmax", (2, "population")))
    >>> question = Question("q", "Which neighbour of Rwanda has most people?", ["Rwanda"], [])
    >>> print(plan_of(question, Route(("Rwanda",), steps, 1.0)))
    Step 1: Find the borders of Rwanda.
    Ans1 = SearchKG(t="neighbour" | h="Rwanda", r="borders")
    Step 2: Find the population of Ans1.
    Ans2 = SearchKG(t="population" | h=Ans1, r="population")
    """
    steps: list[PlanStep] = []
    answer: dict[int, int] = {}  # the plan's answer, by the number of the route's set
    last = max((at for at, step in enumerate(route.steps) if step.tool in HOPS), default=-1)
    for at, step in enumerate(route.steps):
        number = len(route.topics) + at + 1
        first = step.args[0]
        if step.tool in FUNCTIONS:
            used = tuple(answer[arg] for arg in step.args if isinstance(arg, int) and arg in answer)
            if len(used) == len(step.args):
                steps.append(PlanStep(_COMBINING[step.tool], Combine(FUNCTIONS[step.tool], used)))
                answer[number] = len(steps)
            elif used:
                answer[number] = used[0]
            continue
        if step.tool in HOPS + CHOICES:
            way = way_of(step) if step.tool in HOPS else Way(str(step.args[1]), True)
            head = (
                answer.get(first, route.topics[min(first, len(route.topics)) - 1]) if isinstance(first, int) else first
            )
            steps.append(
                PlanStep(_problem(way, head), SearchKG(_target(question, way, at == last), head, spoken(way.relation)))
            )
        before = answer.get(first) if isinstance(first, int) else None
        answer[number] = len(steps) if step.tool in HOPS else before or len(steps)
    return Plan(tuple(steps))


_COMBINING = {
    "intersect": "Which of these are in both?",
    "union": "What is in either of them?",
    "minus": "Which of the first are not in the second?",
}


def _problem(way: Way, head: str | int) -> str:
    called = f"Ans{head}" if isinstance(head, int) else head
    said = spoken(way.relation)
    return f"Find the {said} of {called}." if way.out else f"Find what has {called} as its {said}."


def _target(question: Question, way: Way, last: bool) -> str:
    """The type of what is looked for: the question's own word for it at the last hop, else the relation's."""
    asked = _ASKED.search(question.question) if last else None
    if asked is not None:
        return asked.group(1).lower()
    return spoken(way.relation) if way.out else "entity"
