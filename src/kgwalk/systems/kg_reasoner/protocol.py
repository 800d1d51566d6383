"""KG-Reasoner's protocol (section 4, Algorithm 1): searches inside one thought, and going back.

    <think>... <search>Tom Hanks</search><searched_triples>(Big, starred_actors, Tom Hanks)
    (Cast Away, starred_actors, Tom Hanks)</searched_triples> ... <search>Big</search><searched_triples>...
    That leads nowhere. <search backtrack="true"></search><searched_triples>Back at Tom Hanks. Not tried yet:
    (Cast Away, starred_actors, Tom Hanks)</searched_triples> ...</think><answer>["..."]</answer>

The walk keeps its path, one frame for each entity searched: the entity and the candidates that its search showed.
- A search of X puts X at the end of the path, behind the nearest entity whose search showed X, or, if X is on the path
  already, where it is; what came after that is left. If nothing on the path showed X (a second topic), behind the end.
- Going back leaves the end of the path (or the entity named between the tags, and all after it) and stops at the
  nearest entity before it with a candidate that was never searched; the observation lists those. At the beginning of
  the path it stays there. If no entity on the path has any left, that is an error, and the path is as it was.
- Going back twice passes over what the first listed: until something is searched it is not listed again. So a walk that
  does nothing but go back comes to an end.

With `backtrack = false` there is no way back: the prompt does not offer it, and a search tag has no attribute.

Candidates are scored by the paper's graph network, `Environment.ranker` (walk/ranker.py), which the recipe's stage
`rank` trains; where there is none their texts are ranked. Entities searched before come after all others. Which
entities may be searched is not enforced: the paper's prompt asks for topics and entities shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from kgwalk.kg.names import normalise
from kgwalk.types import Answer, Call, Malformed, Step, UnknownEntity
from kgwalk.walk.facts import (
    Neighbour,
    entity_named,
    facts_along,
    not_found,
    read_name,
    relevant_relations,
    spell,
    write_fact,
)
from kgwalk.walk.growing_think import ThinkProtocol, ThinkWalk, WrittenSearch, write_end, write_search
from kgwalk.walk.protocol import PROTOCOLS, Environment, Observation, Task, written
from kgwalk.walk.ranking import Candidate, TextRanker

# Section 4.1 writes Backtrack=True.
_BACKTRACK = re.compile(r"""\s*(?:backtrack\s*=\s*(["']?)(true|false)\1\s*)?""", re.IGNORECASE)

PROMPT = """Answer the question by thinking once, inside <think>...</think>, and then giving the answer inside \
<answer>...</answer> as a JSON list of names, for example <answer>["first name", "second name"]</answer>.
While you think you may search a knowledge graph up to {turns} times: write <search>entity</search> with one entity, \
one of those you start from or one that a search has shown you. The facts that matter most are put right after it \
inside <{tag}>...</{tag}> as (head, relation, tail); a name with a comma stands in double quotes.
After each search, judge whether it helps.{offered}

Question: {question}
Start from: {topics}"""
BACKTRACK = """ If an entity leads nowhere, write <search backtrack="true"></search>: you go back along your path to \
the nearest entity that still has candidates you have not searched, and are shown them. With an entity of your path \
between these tags, you leave that one and all that came after it."""


@PROTOCOLS.add("kg-reasoner")
@dataclass(frozen=True)
class KgReasoner(ThinkProtocol):
    """A search reads the `relations` nearest to the question (None: all) and at most `facts` of each (None: all), ranks
    the entities they lead to, and shows the facts of the `candidates` best. `backtrack`: whether there is a way back.
    """

    name = "kg-reasoner"
    turns: int = 10
    relations: int | None = None
    facts: int | None = 200
    candidates: int = 10
    backtrack: bool = True

    def begin(self, task: Task, environment: Environment, count: Callable[[str], int]) -> KgReasonerWalk:
        return KgReasonerWalk(task, environment, protocol=self)

    @staticmethod
    def render(step: Step, think: str = "", *, opened: bool = False) -> str:
        """The turn that says a step; the inverse of `parse`. `opened`: the thought has begun in a turn before."""
        match step:
            case Call(tool, args):
                attributes = ' backtrack="true"' if tool == "backtrack" else ""
                return write_search(str(args[0]) if args else "", think, opened=opened, attributes=attributes)
            case Answer():
                return write_end(step, think, opened=opened)
            case Malformed(why):
                return why


@dataclass(frozen=True, slots=True)
class Frame:
    """An entity on the path, and the facts of the candidates that its search offered, best candidate first."""

    entity: str
    facts: tuple[Neighbour, ...]

    def shows(self, name: str) -> bool:
        return any(fact.other == name for fact in self.facts)


@dataclass
class KgReasonerWalk(ThinkWalk):
    template = PROMPT
    protocol: KgReasoner = field(kw_only=True)
    path: list[Frame] = field(default_factory=list)
    searched: set[str] = field(default_factory=set)
    passed: set[str] = field(default_factory=set)  # listed by going back since the last search

    def offered(self) -> str:
        return BACKTRACK if self.protocol.backtrack else ""

    def parse(self, text: str) -> Step:
        turn = self.read(text)
        if not isinstance(turn, WrittenSearch):
            return turn
        if turn.attributes.strip() and not self.protocol.backtrack:
            return Malformed("A search tag is plain.")
        backtrack = _BACKTRACK.fullmatch(turn.attributes)
        if backtrack is None:
            return Malformed('A search tag is plain, or has backtrack="true".')
        name = read_name(turn.inside)
        if (backtrack.group(2) or "").lower() == "true":
            return Call("backtrack", (name,) if name else ())
        return Call("search", (name,)) if name else Malformed("Write the name of one entity between the search tags.")

    def act(self, call: Call) -> Observation:
        if call.tool == "backtrack":
            return self._back(str(call.args[0]) if call.args else None)
        return self._search(str(call.args[0]))

    def _search(self, text: str) -> Observation:
        try:
            entity = entity_named(self.environment.graph, text)
        except UnknownEntity as error:
            return self.error("entity_not_found", not_found(error))
        frame, total = self._look(entity)
        # From here on nothing can fail: a tool that is tried again finds the path as it was.
        self.path = [*self.path[: self._place(entity)], frame]
        self.searched.add(entity)
        self.passed.clear()
        return self._show("", frame.facts, total)

    def _place(self, entity: str) -> int:
        """Where on the path an entity that is searched belongs."""
        for at in range(len(self.path) - 1, -1, -1):
            if self.path[at].entity == entity:
                return at
        for at in range(len(self.path) - 1, -1, -1):
            if self.path[at].shows(entity):
                return at + 1
        return len(self.path)

    def _look(self, entity: str) -> tuple[Frame, int]:
        graph, protocol, question = self.environment.graph, self.protocol, self.task.question.question
        along = relevant_relations(graph, entity, question, protocol.relations, self.environment.embed)
        facts, total = facts_along(graph, entity, along, protocol.facts)
        leading: dict[str, list[Neighbour]] = {}
        for fact in facts:
            leading.setdefault(fact.other, []).append(fact)
        candidates = [Candidate(name, tuple(fact.triple for fact in there)) for name, there in leading.items()]
        ranker = self.environment.ranker or TextRanker(self.environment.embed)
        scores = ranker.score(question, candidates, graph)
        # Where the walk has been comes last: the entity it came from is in the question, and would always lead.
        known = [one.name in self.searched or one.name == entity for one in candidates]
        best = sorted(range(len(candidates)), key=lambda at: (known[at], -scores[at]))[: protocol.candidates]
        return Frame(entity, tuple(fact for at in best for fact in leading[candidates[at].name])), total

    def _back(self, name: str | None) -> Observation:
        end = len(self.path) - 1
        if end < 0:
            return self.error("nothing_left", "Nothing was searched yet, so there is nothing to go back to")
        if name is not None:
            end = self._last(name)
            if end < 0:
                path = ", ".join(spell(frame.entity) for frame in self.path)
                return self.error("not_on_path", f"{spell(name)} is not on your path: {path}")
        known = self.searched | self.passed
        for at in range(max(end - 1, 0), -1, -1):
            untried = [fact for fact in self.path[at].facts if fact.other not in known]
            if untried:
                self.path = self.path[: at + 1]
                self.passed.update(fact.other for fact in untried)
                return self._show(f"Back at {spell(self.path[at].entity)}. Not tried yet:\n", untried, len(untried))
        first = spell(self.path[0].entity)
        return self.error("nothing_left", f"No candidate is left on the path from {first}")

    def _last(self, name: str) -> int:
        """The last place of an entity on the path, by its name or one that differs in case and the like; else -1."""
        names = [frame.entity for frame in self.path]
        same = [at for at, entity in enumerate(names) if entity == name]
        alike = [at for at, entity in enumerate(names) if normalise(entity) == normalise(name)]
        return (same or alike or [-1])[-1]

    def _show(self, lead: str, facts: Iterable[Neighbour], total: int) -> Observation:
        facts = list(facts)
        texts = [write_fact(fact) for fact in facts]
        shown = written(lead, [fact.other for fact in facts], texts, separator="\n", total=total)
        return Observation(*self.tags, [shown], triples=[fact.triple for fact in facts])
