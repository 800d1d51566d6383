"""Questions from a graph: plans drawn in balance, said by a wording, with exact answers and the facts behind them.

    make_questions(graph, Wording(NameLexicon(survey(graph))), MakeSettings(count=1000))

The same graph, wording and settings make the same questions. Knows nothing of files and splits.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Protocol

from kgwalk.kg.build import Progress
from kgwalk.kg.normalise import normalise
from kgwalk.kg.store import StoredGraph
from kgwalk.questions.balance import Cell, Shares, quotas
from kgwalk.questions.building import Refused, walk
from kgwalk.questions.drawing import Drawing
from kgwalk.questions.evidence import facts_used, gold_paths
from kgwalk.questions.literals import DATE, NUMBER, YEAR, literal_kind
from kgwalk.questions.patterns import DRAWS, possible
from kgwalk.questions.plan import SUPERLATIVE, Plan
from kgwalk.questions.schema import Schema
from kgwalk.questions.settings import MakeSettings, size_of
from kgwalk.tools.sets import Sets
from kgwalk.types import Question

TRIES = 40  # draws for each question wanted, before a cell is given up
BARREN = 100  # draws, and ten for each question wanted, without a single one: the graph has none of that kind
PATIENCE = 3  # good draws for each question wanted, after which a cell is filled without regard to balance
AGAIN = 4  # a plan that is drawn so often is said anew: a small graph has no others left
ROUNDS = 4  # what a cell could not give is wanted of the others, so often


class Says(Protocol):
    """What is needed of a wording: the text of a plan, or None where it cannot be said well."""

    def say(self, plan: Plan, chance: random.Random) -> str | None: ...


def make_questions(
    graph: StoredGraph,
    wording: Says,
    settings: MakeSettings | None = None,
    *,
    schema: Schema | None = None,
    thrown: Counter[str] | None = None,
    progress: Progress = lambda what, done, total: None,
) -> list[Question]:
    """At most `settings.count` questions, in random order; fewer where the graph has no more.

    `thrown` is told how many draws fell out, by reason.
    """
    settings = settings or MakeSettings()
    making = _Making(graph, wording, settings, Counter() if thrown is None else thrown, progress, schema)
    made = making.run()
    random.Random(settings.seed).shuffle(made)
    return [replace(question, id=f"{settings.name}-{at:05}") for at, question in enumerate(made, 1)]


def question_of(plan: Plan, sets: Sets, text: str, id: str = "") -> Question:
    """The question of a plan, by the sets of its walk."""
    answers = list(sets.made[plan.last - 1].members)
    kind = "number" if plan.steps[-1].tool == "count" else _answer_kind(answers)
    return Question(
        id,
        text,
        list(plan.topics),
        answers,
        hops=plan.hops,
        gold_paths=gold_paths(plan, sets),
        evidence=facts_used(plan, sets),
        type=plan.pattern,
        extra={"answer_kind": kind, "program": plan.program()},
    )


def _answer_kind(answers: list[str]) -> str:
    kinds = {literal_kind(answer) for answer in answers}
    return "time" if kinds <= {DATE, YEAR} else "value" if kinds <= {NUMBER, YEAR} else "entity"


class _Making:
    def __init__(
        self,
        graph: StoredGraph,
        wording: Says,
        settings: MakeSettings,
        thrown: Counter[str],
        progress: Progress,
        schema: Schema | None,
    ) -> None:
        self.wording, self.settings, self.thrown, self.progress = wording, settings, thrown, progress
        self.drawing = Drawing(graph, settings, schema)
        self.words = random.Random(settings.seed + 1)  # of its own: how a plan is said does not change the next draw
        self.shares = Shares(len(self.drawing.schema.relations))
        self.plans: Counter[tuple[object, ...]] = Counter()  # drawn so often
        self.texts: set[str] = set()
        self.made: list[Question] = []

    def run(self) -> list[Question]:
        shares = {cell: share for cell, share in self.settings.cells().items() if possible(self.drawing, cell[0])}
        if not shares:
            self.thrown["no values to compare"] += 1
            return []
        wanted = quotas(shares, self.settings.count)
        for _ in range(ROUNDS):
            full = {cell: shares[cell] for cell, number in wanted.items() if self._fill(cell, number) == number}
            missing = self.settings.count - len(self.made)
            if not missing or not full:
                break
            wanted = quotas(full, missing)
        return self.made

    def _fill(self, kind: tuple[str, int], wanted: int) -> int:
        """Make so many questions of a pattern and number of hops, or as many as there are; how many."""
        pattern, hops = kind
        # one of many is chosen, whatever the size of the set: sizes say nothing there
        sizes = {"1": 1.0, "2-5": 1.0} if pattern == SUPERLATIVE else self.settings.sizes
        cell: Cell[Plan] = Cell(wanted, sizes, self.shares, self._ask)
        barren = BARREN + 10 * wanted
        for tried in range(BARREN + TRIES * wanted):
            if cell.enough(PATIENCE):
                cell.settle()  # some of it may have no words; then the draws go on
            if cell.full or (tried >= barren and not cell.offered):
                break
            try:
                plan, size = self._draw(pattern, hops)
            except Refused as why:
                self.thrown[str(why)] += 1
                continue
            if cell.offer(plan, size_of(size), plan.shape, list(plan.ways())):
                self.progress("making questions", len(self.made), self.settings.count)
        cell.settle()
        self.thrown["more than its share"] += len(cell.waiting)
        return len(cell.taken)

    def _draw(self, pattern: str, hops: int) -> tuple[Plan, int]:
        """A plan, and how many it is about: its answers, or what it counts."""
        building = DRAWS[pattern](self.drawing, hops)
        plan = building.plan(pattern)
        if plan.hops != hops:
            raise Refused("more or fewer hops than wanted")
        key = (plan.topics, plan.steps)
        self.plans[key] += 1
        if self.plans[key] % AGAIN != 1:
            raise Refused("the same plan again")
        building.check(len(self.drawing.schema.relations))
        self.drawing.check(building)
        counted = plan.last - (plan.steps[-1].tool == "count")
        return plan, len(building.members(counted))

    def _ask(self, plan: Plan) -> bool:
        """Put a plan into words; whether there are some, and no other question has them."""
        text = self.wording.say(plan, self.words)
        if text is None:
            self.thrown["cannot be said well"] += 1
            return False
        if (normal := normalise(text)) in self.texts:
            self.thrown["the same text again"] += 1
            return False
        self.texts.add(normal)
        self.made.append(question_of(plan, walk(plan, self.drawing.graph), text))
        return True
