"""Graph-RFT's demonstrations: a plan first, then relation and neighbour searches for each step.

Where a fact of the route is hidden, a search shows that it is missing, and the web is asked for it: only there, and
only if a document really names what the graph lacks. A list that is merely shorter shows no gap, so the web is not
asked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kgwalk.demos.filter import FILTERS, CandidateWalk, read_of
from kgwalk.demos.route import CHOICES, HOPS, Route, way_of
from kgwalk.demos.voice import listed, spoken
from kgwalk.demos.writer import (
    NO_WEB,
    NOT_NAMED,
    NOT_SHOWN,
    PARTLY,
    TURNS,
    WEB_FAILED,
    WRITERS,
    Explorer,
    Script,
    Unwritable,
    ends_of,
    has,
    with_way,
    wrong_way,
)
from kgwalk.score.episode import shown_to
from kgwalk.systems.graph_rft.plan import Combination, Combine, PlanStep, SearchKG, SearchPlan
from kgwalk.systems.graph_rft.protocol import MOST_NEIGHBORS, GraphRft, parse
from kgwalk.types import Answer, Call, Question, Triple
from kgwalk.walk.facts import DirectedRelation, spell
from kgwalk.walk.web.search import WEB_SEARCH, names

FUNCTIONS: dict[str, Combination] = {"intersect": "Intersect", "union": "Union", "minus": "Negation"}
_ASKED = re.compile(r"\b(?:which|what)\s+(?!is\b|are\b|was\b|were\b|did\b|do\b|does\b|has\b|have\b)([a-z]+)", re.I)


@WRITERS.add("graph-rft")
@dataclass
class GraphRftWriter(Explorer):
    listed: set[str] = field(default_factory=set)  # relations that a relation search has shown
    partly: bool = False  # whether a list was shorter than in the whole graph
    by_web: bool = False  # whether the step under way was read from documents

    def script(self) -> Script:
        try:
            yield from super().script()
        except Unwritable as why:
            if self.partly and str(why) == NOT_SHOWN:
                raise Unwritable(PARTLY) from why
            raise

    def reach(self, at: int, source: Sequence[str], way: DirectedRelation) -> Script:
        spare = self.left - self.needed(at)
        looked = None
        if way.relation not in self.listed and (spare > 0 or self.left == self.walk.protocol.turns):
            looked = with_way(self.walk.environment.graph, source, way)
            yield from self._look(looked, way)
            spare -= 1
        if at == self.astray and spare > 0:
            yield from self._wrong(source, way)
        if self.route.steps[at].tool in CHOICES and len(source) > self.left:
            raise Unwritable(TURNS)
        self.by_web = False
        for place, entity in enumerate(source):
            hidden = self._hidden(entity, way)
            # its relations were listed, and this one is not among them
            missed = bool(hidden) and entity == looked and way.relation not in self.listed
            if place and self.left - self.steps_after(at) < 1 + (bool(hidden) and not missed):
                break
            if not missed:
                yield from self._search(place, entity, way, hidden)
            if hidden:
                yield from self._read(entity, way, hidden)

    def needed(self, at: int) -> int:
        return super().needed(at) + self._to_read(at)

    def before_answer(self) -> Script:
        if self.partly and set(self.members[-1]) != set(self.route.walk(self.whole).made[-1].members):
            raise Unwritable(PARTLY)
        yield from ()

    def finding(self, names: Sequence[str], relation: str) -> str:
        if not self.by_web:
            return super().finding(names, relation)
        return self.voice.say("read", names=listed(names), words=spoken(relation))

    def say(self, step: Call | Answer, think: str) -> str:
        first = self.walk.protocol.plan and self.walk.plan is None
        plan = plan_of(self.question, self.route) if first else None
        return GraphRft.render(step, think, plan=plan)

    def _look(self, entity: str, way: DirectedRelation) -> Script:
        think = self.before(self.voice.say("look", entity=entity, words=spoken(way.relation)))
        call, graph = Call("relation_search", (entity, spoken(way.relation))), self.walk.environment.graph
        # An entity that has lost all its facts gives an error, which is read and not imitated.
        turn = yield from self.ask(call, think, train=entity in graph)
        either = any(has(graph, entity, DirectedRelation(way.relation, out)) for out in (True, False))
        if either and spell(way.relation) in turn.observation:
            self.listed.add(way.relation)
        elif not self._hidden(entity, way):
            raise Unwritable(NOT_SHOWN)

    def _search(self, place: int, entity: str, way: DirectedRelation, hidden: Sequence[str]) -> Script:
        """Ask for the entity's neighbours; or, where the relation's name was never shown, for its relations."""
        graph = self.walk.environment.graph
        if hidden and way.relation not in self.listed:
            yield from self._look(entity, way)
            return
        train = entity in graph and graph.has_relation(way.relation)
        call = Call("neighbor_search", (entity, way.relation))
        yield from self.ask(call, self.entity_thought(place, entity, way), train=train)

    def _read(self, entity: str, way: DirectedRelation, hidden: Sequence[str]) -> Script:
        """Ask the web for what the graph lacks; it counts as told only if a document names it."""
        if self.walk.environment.web is None:
            raise Unwritable(NO_WEB)
        relation = way.relation if way.relation in self.listed else spoken(way.relation)
        think = self.before(self.voice.say("web", entity=entity, words=spoken(way.relation)))
        turn = yield from self.ask(Call(WEB_SEARCH, (entity, relation)), think)
        if turn.error is not None:
            raise Unwritable(WEB_FAILED)
        for name in hidden:
            if not any(names(document, name) for document in turn.documents):
                raise Unwritable(NOT_NAMED)
            self.tell(Triple(entity, way.relation, name) if way.out else Triple(name, way.relation, entity))
        self.by_web = True

    def _hidden(self, entity: str, way: DirectedRelation) -> list[str]:
        """Where the relation leads in the whole graph, if the walk's has nothing of it; a short list shows no gap."""
        if self.walk.environment.complete:
            return []
        there = ends_of(self.whole, entity, way, MOST_NEIGHBORS)
        left = ends_of(self.walk.environment.graph, entity, way).total
        self.partly |= 0 < left < there.total
        return [] if left else there.names

    def _to_read(self, at: int) -> int:
        """The web searches from this step on."""
        if self.walk.environment.complete:
            return 0
        made = self.route.walk(self.whole).made
        count = 0
        for step in self.route.steps[at:]:
            if step.tool in HOPS + CHOICES:
                first = step.args[0]
                way = way_of(step) if step.tool in HOPS else DirectedRelation(str(step.args[1]), True)
                source = made[first - 1].members if isinstance(first, int) else (first,)
                count += sum(bool(self._hidden(entity, way)) for entity in source)
        return count

    def _wrong(self, source: Sequence[str], way: DirectedRelation) -> Script:
        graph = self.walk.environment.graph
        there = source[0] in graph
        other = wrong_way(graph, source, way, self.question.answers, self.chance) if there else None
        if other is None:
            return
        self.strayed = True
        think = self.before(self.intention(other, source[0]))
        turn = yield from self.ask(Call("neighbor_search", (source[0], other.relation)), think, train=False)
        self.note = self.mistaken(turn.shown, way, ok=turn.ok)


def plan_of(question: Question, route: Route) -> SearchPlan:
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
            way = way_of(step) if step.tool in HOPS else DirectedRelation(str(step.args[1]), True)
            head = (
                answer.get(first, route.topics[min(first, len(route.topics)) - 1]) if isinstance(first, int) else first
            )
            steps.append(
                PlanStep(_problem(way, head), SearchKG(_target(question, way, at == last), head, spoken(way.relation)))
            )
        before = answer.get(first) if isinstance(first, int) else None
        answer[number] = len(steps) if step.tool in HOPS else before or len(steps)
    return SearchPlan(tuple(steps))


_COMBINING = {
    "intersect": "Which of these are in both?",
    "union": "What is in either of them?",
    "minus": "Which of the first are not in the second?",
}


def _problem(way: DirectedRelation, head: str | int) -> str:
    called = f"Ans{head}" if isinstance(head, int) else head
    said = spoken(way.relation)
    return f"Find the {said} of {called}." if way.out else f"Find what has {called} as its {said}."


def _target(question: Question, way: DirectedRelation, last: bool) -> str:
    """The type of what is looked for: the question's own word for it at the last hop, else the relation's."""
    asked = _ASKED.search(question.question) if last else None
    if asked is not None:
        return asked.group(1).lower()
    return spoken(way.relation) if way.out else "entity"


@FILTERS.add("plan")
def by_plan(walked: CandidateWalk) -> str | None:
    """Each search of the plan was done, in its order, and nothing was searched that neither it nor the graph named."""
    if walked.protocol != GraphRft.name or "<plan>" not in walked.episode.prompt:  # `protocol.plan = false`
        return None
    plans = [plan for turn in walked.episode.turns[:1] if (plan := parse(turn.text, planned=False)[1])]
    if not plans:
        return "there is no plan in the first turn"
    calls = [turn.step for turn in walked.episode.turns if isinstance(turn.step, Call)]
    shown = shown_to(walked.episode)
    return _followed(plans[0], calls, lambda name: name in shown or read_of(name, walked.episode))


def _followed(plan: SearchPlan, calls: Sequence[Call], shown: Callable[[str], bool]) -> str | None:
    searched = [str(call.args[0]) for call in calls if call.tool in ("neighbor_search", WEB_SEARCH)]
    heads = [step.function.head for step in plan.steps if isinstance(step.function, SearchKG)]
    named = {head for head in heads if isinstance(head, str)}
    if any(entity not in named and not shown(entity) for entity in searched):
        return "an entity was searched that is not in the plan"
    at = 0
    for head in heads:
        while at < len(searched) and not (searched[at] == head if isinstance(head, str) else shown(searched[at])):
            at += 1
        if at == len(searched):
            return "a step of the plan was not carried out"
        at += 1
    return None
