"""Questions made from a graph: drawn in balance, worded, with exact answers and facts; then split, and written.

    wording = Wording(NameLexicon(survey(graph)))
    questions = make_questions(graph, wording, MakeSettings(count=1000))
    write_dataset(Path("folder"), split_questions(questions), graph)

The same graph, wording and settings make the same questions. No size of answer, no relation and no program gets more
than its share: what comes too often waits, and is taken only if the draws run out before a cell (a pattern and a number
of hops) is full. A plan is put into words when it is taken; one without words is dropped.

Splits do not leak. A question with several relations goes where its relations go: all questions with the same relations
in the same directions are in one split, so a chain in test was never trained on. A question with one relation goes
where its topic goes, as relations are few and all must be trained on.
"""

from __future__ import annotations

import hashlib
import math
import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Generic, Protocol, TypeVar, runtime_checkable

from kgwalk.data.folder import STORE, DatasetWriter
from kgwalk.demos.route import CHOICES
from kgwalk.kg.names import normalise
from kgwalk.kg.store import StoredGraph
from kgwalk.questions.bank import Concept
from kgwalk.questions.drawing import WalkSampler
from kgwalk.questions.full_patterns import FULL_DRAWS, possible_in_full
from kgwalk.questions.groups import Groups
from kgwalk.questions.invented.junctions import RowGraph
from kgwalk.questions.patterns import DRAWS, possible
from kgwalk.questions.plan import (
    FULL_PATTERNS,
    HOPS,
    SUPERLATIVE,
    VERDICT,
    MakeSettings,
    PlanRejected,
    QuestionPlan,
    facts_used,
    gold_paths,
    run_plan,
    size_of,
)
from kgwalk.questions.schema import DATE, NUMBER, YEAR, Schema, literal_kind
from kgwalk.types import Call, KgwalkError, Progress, Question, silent
from kgwalk.walk.facts import DirectedRelation
from kgwalk.walk.kinds import EVERYTHING, TAILS, Kind, kinds_of
from kgwalk.walk.language import Sets
from kgwalk.walk.paths import renumbered
from kgwalk.walk.sets import ENTITY, NO, YES, SetError
from kgwalk.walk.starts import kinds_beside

PER_PROGRAM = 20  # a program has at most one in so many of its cell's questions...
LEAST_OF_PROGRAM = 2  # ...but it may always come twice
PER_RELATION = 4  # a relation's share of all relations in questions, in multiples of an even share
TRIES = 40  # draws for each wanted question, before a cell is given up
BARREN = 100  # draws, plus ten for each wanted question, without any good one: then the graph has none of that kind
PATIENCE = 3  # good draws for each wanted question, after which a cell is filled without regard to balance
AGAIN = 4  # every so many times that a plan is drawn it is worded anew: a small graph has no others left
ANY_SIZE = "any"  # of an answer, where it is not balanced
STEPWISE = 0.5  # the share of the full language's own questions that hop through rows one by one, not by a path
ROUNDS = 4  # how often the questions that some cells lack are asked of the others


class PlanWording(Protocol):
    """Gives the text of a plan, or None where there is no good wording."""

    def say(self, plan: QuestionPlan, chance: random.Random) -> str | None: ...


@runtime_checkable
class PathWording(Protocol):
    """A wording that can tell which walks it has words of their own for."""

    def says_as_one(self, ways: tuple[DirectedRelation, ...]) -> bool:
        """Whether it has words that ask for several hops as if they were one."""
        ...


def make_questions(
    graph: StoredGraph,
    wording: PlanWording,
    settings: MakeSettings | None = None,
    *,
    schema: Schema | None = None,
    thrown: Counter[str] | None = None,
    progress: Progress = silent,
    concepts: Sequence[Concept] | None = None,
    rows: RowGraph | None = None,
    seconds: float = math.inf,
) -> list[Question]:
    """At most `settings.count` questions, in random order; fewer where the graph has no more.

    `thrown` counts the rejected draws by reason. `concepts` are those of the bank that may be asked for where a graph
    does not have them; by default all. With `rows`, programs and answers are of that graph, where some of the relations
    of this one go through rows. After `seconds` it ends with what there is; each kind of question has its part of them.
    """
    settings = settings or MakeSettings()
    told = Counter[str]() if thrown is None else thrown
    maker = _QuestionMaker(graph, wording, settings, told, progress, schema, concepts, rows)
    maker.end = time.monotonic() + seconds
    made = maker.run()
    random.Random(settings.seed).shuffle(made)
    return [replace(question, id=f"{settings.name}-{at:05}") for at, question in enumerate(made, 1)]


def question_of(
    plan: QuestionPlan, sets: Sets, text: str, id: str = "", named: Sequence[Kind] | None = None
) -> Question:
    """The question of a plan with this text; `sets` are those that the plan makes.

    In the full language `named` are the kinds that the text names. They are what a walk starts from, with those that
    the plan needs, so a walk is shown some that it does not need, as it will be where a question is typed.
    """
    made = sets.made[plan.last - 1] if plan.answered else None
    answers = [] if made is None else list(made.members)
    kind = "number" if plan.steps and plan.steps[-1].tool == "count" else _answer_kind(answers)
    extra: dict[str, object] = {"answer_kind": kind, "program": plan.program()}
    if named is not None:
        starts = [*named, *(kind for kind in plan.kinds if kind not in named)]
        extra = {"answer_kind": kind, "program": _with_kinds(plan, starts), "kinds": [kind.name for kind in starts]}
        if made is None:
            extra["answer_kind"] = "none"
        elif made.answer_kind != ENTITY:
            extra["answer_kind"] = made.answer_kind
        elif kind == "value":
            extra["answer_kind"] = "number"
        if made is not None and made.rows:
            rows = [[name, *("; ".join(cell) for cell in made.rows[name])] for name in made.members]
            extra |= {"columns": list(made.columns), "rows": rows}
    return Question(
        id,
        text,
        list(plan.topics),
        answers,
        hops=max(1, plan.hops),
        gold_paths=gold_paths(plan, sets),
        evidence=facts_used(plan, sets),
        type=plan.pattern,
        extra=extra,
    )


def _with_kinds(plan: QuestionPlan, starts: Sequence[Kind]) -> list[list[str]]:
    """The plan's program where a walk starts from these kinds: sets have other numbers."""
    topics, more = len(plan.topics), len(starts) - len(plan.kinds)
    place = {topics + at: topics + starts.index(kind) + 1 for at, kind in enumerate(plan.kinds, 1)}

    def number(old: int) -> int:
        return old if old <= topics else place.get(old, old + more)

    return replace(plan, steps=tuple(_numbered(step, number) for step in plan.steps)).program()


def by_mention(plan: QuestionPlan, text: str) -> QuestionPlan:
    """The plan with its topics in the order in which a text has them; sets have other numbers.

    >>> plan = QuestionPlan("which", ("Po", "Arno"), (Call("union", (1, 2)), Call("argmax", (3, "length"))))
    >>> by_mention(plan, "Which is longer, the Arno or the Po?").steps[0]
    Call(tool='union', args=(2, 1))
    """
    plain = text.casefold()
    places = [plain.find(topic.casefold()) for topic in plan.topics]
    if min(places, default=0) < 0 or places == sorted(places):
        return plan
    order = sorted(range(len(places)), key=places.__getitem__)
    place = {old + 1: new for new, old in enumerate(order, 1)}
    return replace(
        plan,
        topics=tuple(plan.topics[old] for old in order),
        steps=tuple(_numbered(step, lambda old: place.get(old, old)) for step in plan.steps),
    )


def _numbered(step: Call, number: Callable[[int], int]) -> Call:
    """A step whose sets have other numbers."""
    args = (number(arg) if isinstance(arg, int) else renumbered(arg, number) for arg in step.args)
    return Call(step.tool, tuple(args))


def _answer_kind(answers: list[str]) -> str:
    kinds = {literal_kind(answer) for answer in answers}
    return "time" if kinds <= {DATE, YEAR} else "value" if kinds <= {NUMBER, YEAR} else "entity"


# Splits


SHARES: Mapping[str, float] = {"train": 0.8, "dev": 0.1, "test": 0.1}

_Kind = tuple[str | None, int | None]  # pattern, hops


def split_key(question: Question) -> str:
    """What decides on a question's split: its relations with their directions, or its topic if it has one relation.

    >>> program = [["tail_entities", "$1", "borders"], ["head_entities", "$2", "capital"]]
    >>> split_key(Question("1", "?", ["France"], [], extra={"program": program}))
    'ways: < capital, > borders'
    >>> split_key(Question("2", "?", ["France"], [], extra={"program": program[:1]}))
    'topic: France'
    """
    ways = [
        f"{'<' if tool == 'head_entities' else '>'} {rest[1]}" for tool, *rest in _program(question) if _has_way(tool)
    ]
    if not question.topic_entities:  # all of a kind: the same again only where the whole program is
        return f"program: {question.extra['kinds']} {question.extra['program']}"
    return f"ways: {', '.join(sorted(ways))}" if len(ways) > 1 else f"topic: {min(question.topic_entities)}"


def split_questions(
    questions: Sequence[Question], seed: int = 0, shares: Mapping[str, float] = SHARES
) -> dict[str, list[Question]]:
    """The questions by split, in their order; every pattern and number of hops has about these shares.

    Groups with one `split_key` are placed largest first, in the split that lacks most; the seed orders equal groups.
    """
    if not shares or min(shares.values()) < 0 or not sum(shares.values()):
        raise KgwalkError(f"shares of splits {dict(shares)}: give each 0 or more, and one more than that")
    groups: dict[str, list[Question]] = defaultdict(list)
    for question in questions:
        groups[split_key(question)].append(question)
    total = Counter(map(_kind, questions))
    whole = sum(shares.values())
    lacking = {split: {kind: share / whole * count for kind, count in total.items()} for split, share in shares.items()}
    placed: dict[str, str] = {}
    for key in sorted(groups, key=lambda key: (-len(groups[key]), _order(key, seed))):
        kinds = Counter(map(_kind, groups[key]))
        placed[key] = max(lacking, key=lambda split: sum(lacking[split][kind] * n for kind, n in kinds.items()))
        for kind, count in kinds.items():
            lacking[placed[key]][kind] -= count
    return {split: [one for one in questions if placed[split_key(one)] == split] for split in shares}


def gaps(splits: Mapping[str, Sequence[Question]]) -> list[str]:
    """What held-out scores will not cover: empty splits, and patterns that only the first split has.

    >>> chain, count = (Question("1", "?", [], [], type=name) for name in ("chain", "count"))
    >>> for gap in gaps({"train": [chain, count], "dev": [chain], "test": []}):
    ...     print(gap)
    no questions in test: there are too few to hold some out
    count: in train alone, so held-out scores will not cover it
    """
    first, *held_out = splits
    empty = [split for split in held_out if not splits[split]]
    found = [f"no questions in {' and '.join(empty)}: there are too few to hold some out"] if empty else []
    if len(empty) == len(held_out):
        return found
    asked = {question.type for split in held_out for question in splits[split]}
    alone = sorted({str(question.type) for question in splits[first] if question.type not in asked})
    them = "them" if len(alone) > 1 else "it"
    return found + [f"{', '.join(alone)}: in {first} alone, so held-out scores will not cover {them}"] * bool(alone)


def _program(question: Question) -> Iterable[Sequence[str]]:
    program = question.extra.get("program")
    if not isinstance(program, list):
        raise KgwalkError(f"question {question.id} has no program, so it is unknown which relations it is about")
    return program


def _has_way(tool: str) -> bool:
    return tool in HOPS + CHOICES


def _kind(question: Question) -> _Kind:
    return question.type, question.hops


def _order(key: str, seed: int) -> bytes:
    return hashlib.blake2b(f"{seed}:{key}".encode(), digest_size=8).digest()


# Files


def write_dataset(
    target: Path,
    splits: Mapping[str, Sequence[Question]],
    graph: StoredGraph,
    *,
    link: bool = False,
    replace: bool = False,
) -> None:
    """Writes a dataset folder, whole or not at all. With `link`, it has a symbolic link to the graph's store."""
    store = Path(graph.store.folder.path).resolve()
    with DatasetWriter(target, replace=replace) as writer:
        for split, questions in splits.items():
            for question in questions:
                writer.add(split, question)
        if link:
            (writer.folder / STORE).symlink_to(store, target_is_directory=True)
        else:
            writer.copy_graph(store)
        writer.finish()


# Making


class _QuestionMaker:
    def __init__(
        self,
        graph: StoredGraph,
        wording: PlanWording,
        settings: MakeSettings,
        thrown: Counter[str],
        progress: Progress,
        schema: Schema | None,
        concepts: Sequence[Concept] | None,
        rows: RowGraph | None,
    ) -> None:
        self.wording, self.settings, self.thrown, self.progress = wording, settings, thrown, progress
        self.sampler = WalkSampler(graph, settings, schema)
        if isinstance(wording, PathWording):
            self.sampler.says_as_one = wording.says_as_one
        self.stored, self.rows = graph if rows is None else rows.graph, rows  # the graph that is walked
        if rows is not None:
            mixed = (DirectedRelation(label, False) for label in rows.junctions.kinds)
            self.sampler.shared = [way for way in mixed if way in self.sampler.first_ways]
        self.groups = Groups(self.sampler, graph, concepts)
        self.words = random.Random(settings.seed + 1)  # separate: how one plan is worded does not change the next draw
        self.shares = RelationShares(len(self.sampler.schema.relations))
        self.plans: Counter[tuple[object, ...]] = Counter()  # how often each was drawn
        self.texts: set[str] = set()
        self.made: list[Question] = []
        self.end = math.inf  # by `time.monotonic`

    def run(self) -> list[Question]:
        shares = {cell: share for cell, share in self.settings.cells().items() if self._possible(cell[0])}
        if not shares:
            self.thrown["no values to compare"] += 1
            return []
        full = self.settings.language == "full"
        quota = partial(drawn_quotas, chance=random.Random(self.settings.seed + 2)) if full else quotas
        wanted = quota(shares, self.settings.count)
        for _ in range(ROUNDS):
            filled = {}
            for at, (cell, number) in enumerate(wanted.items()):
                now = time.monotonic()
                if self._fill(cell, number, now + (self.end - now) / (len(wanted) - at)) == number:
                    filled[cell] = shares[cell]
            missing = self.settings.count - len(self.made)
            if not missing or not filled or time.monotonic() > self.end:
                break
            wanted = quota(filled, missing)
        return self.made

    def _possible(self, pattern: str) -> bool:
        return possible_in_full(self.groups, pattern) if pattern in FULL_PATTERNS else possible(self.sampler, pattern)

    def _fill(self, kind: tuple[str, int], wanted: int, end: float) -> int:
        """Makes up to `wanted` questions of a pattern and number of hops until `end`; returns how many it made."""
        pattern, hops = kind
        # a superlative has one answer or a few, whatever the size of its set
        sizes = {"1": 1.0, "2-5": 1.0} if pattern == SUPERLATIVE else self.settings.sizes
        if pattern in FULL_PATTERNS:  # their answers are as they come, but half of the verdicts are no
            sizes = {YES: 0.5, NO: 0.5} if pattern == VERDICT else {ANY_SIZE: 1.0}
        cell: QuotaCell[QuestionPlan] = QuotaCell(wanted, sizes, self.shares, self._ask)
        barren = BARREN + 10 * wanted
        for tried in range(BARREN + TRIES * wanted):
            if cell.enough(PATIENCE):
                cell.settle()  # some may have no words; then the draws go on
            if cell.full or (tried >= barren and not cell.offered) or time.monotonic() > end:
                break
            try:
                plan, size = self._draw(pattern, hops)
            except PlanRejected as why:
                self.thrown[str(why)] += 1
                continue
            if cell.offer(plan, size, plan.shape, list(plan.ways())):
                self.progress("making questions", len(self.made), self.settings.count)
        cell.settle()
        self.thrown["more than its share"] += len(cell.waiting)
        return len(cell.taken)

    def _draw(self, pattern: str, hops: int) -> tuple[QuestionPlan, str]:
        """A plan, and the size of its answer, or of the set that it counts; of yes or no, which."""
        full = pattern in FULL_PATTERNS
        try:
            builder = FULL_DRAWS[pattern](self.groups) if full else DRAWS[pattern](self.sampler, hops)
        except SetError as error:  # a value that cannot be read
            raise PlanRejected(str(error).partition(";")[0]) from error
        plan = builder.plan(pattern)
        if plan.hops != hops and not full:
            raise PlanRejected("more or fewer hops than wanted")
        key = (plan.topics, plan.steps, plan.kinds, plan.asked, plan.meant)
        self.plans[key] += 1
        if self.plans[key] % AGAIN != 1:
            raise PlanRejected("the same plan again")
        builder.check(len(self.sampler.schema.relations))
        self.sampler.check(builder)
        if full:
            return plan, builder.members(plan.last)[0] if pattern == VERDICT else ANY_SIZE
        counted = plan.last - (plan.steps[-1].tool == "count")
        return plan, size_of(len(builder.members(counted)))

    def _ask(self, plan: QuestionPlan) -> bool:
        """Makes the question of a plan; False if it has no words, or those of another question."""
        text = self.wording.say(plan, self.words)
        if text is None:
            self.thrown["cannot be said well"] += 1
            return False
        if (normal := normalise(text)) in self.texts:
            self.thrown["the same text again"] += 1
            return False
        self.texts.add(normal)
        full = self.settings.language == "full"
        plan = by_mention(plan, text) if full else plan  # as linking finds them
        named = kinds_beside(text, plan.topics, self.stored) if full else None
        if EVERYTHING in plan.kinds and named and named != [EVERYTHING]:
            self.thrown["a kind is named where all things are meant"] += 1
            return False
        sets = run_plan(plan, self.sampler.graph)
        if self.rows is not None:
            walked = self._through_rows(plan, sets, self.rows, named or [])
            if walked is None:
                self.thrown["rows lead elsewhere"] += 1
                return False
            plan, sets = walked
        self.made.append(question_of(plan, sets, text, named=named))
        return True

    def _through_rows(
        self, plan: QuestionPlan, sets: Sets, rows: RowGraph, named: Sequence[Kind]
    ) -> tuple[QuestionPlan, Sets] | None:
        """The plan and its sets in the graph that is walked; None where that has other kinds, or other answers."""
        known = kinds_of(rows.graph).values()
        columns = {label: hops[0].relation for label, hops in rows.junctions.paths.items() if len(hops) == 1}
        tails = {kind.relation: kind for kind in known if kind.how == TAILS}
        led = [tails.get(columns.get(kind.relation, ""), kind) if kind.how == TAILS else kind for kind in plan.kinds]
        plan = replace(plan, kinds=tuple(led))  # the countries of suppliers are those of all that have a country
        if not all(kind in known for kind in plan.kinds) or len(set(led)) < len(led):
            return None
        if not rows.junctions.passes(plan):
            return plan, sets
        stepwise = True if self.words.random() < STEPWISE else None
        walked = rows.junctions.through(plan, stepwise=stepwise, named=named)
        try:
            reached = run_plan(walked, rows.graph)
        except SetError:
            return None
        if plan.answered and set(reached.made[walked.last - 1].members) != set(sets.made[plan.last - 1].members):
            return None
        return walked, reached


# Balance


Item = TypeVar("Item")


def quotas(shares: Mapping[tuple[str, int], float], count: int) -> dict[tuple[str, int], int]:
    """Whole numbers that sum to `count` in these shares, by largest remainders.

    >>> quotas({("chain", 1): 0.5, ("chain", 2): 0.25, ("count", 1): 0.25}, 5)
    {('chain', 1): 3, ('chain', 2): 1, ('count', 1): 1}
    """
    exact = {cell: share * count / sum(shares.values()) for cell, share in shares.items()}
    whole = {cell: math.floor(value) for cell, value in exact.items()}
    order = sorted(exact, key=lambda cell: whole[cell] - exact[cell])  # stable: the first of equals comes first
    for cell in order[: count - sum(whole.values())]:
        whole[cell] += 1
    return whole


def drawn_quotas(
    shares: Mapping[tuple[str, int], float], count: int, chance: random.Random
) -> dict[tuple[str, int], int]:
    """The same with the remainders drawn: over many graphs of few questions each, the rarest cell has its share, too.

    >>> draws = [drawn_quotas({("chain", 1): 0.9, ("union", 1): 0.1}, 5, random.Random(seed)) for seed in range(100)]
    >>> {sum(one.values()) for one in draws}, sum(one["union", 1] for one in draws)
    ({5}, 58)
    """
    at = chance.random()
    whole = {}
    for cell, share in shares.items():
        end = at + share * count / sum(shares.values())
        whole[cell] = math.floor(end + 1e-9) - math.floor(at + 1e-9)
        at = end
    return whole


@dataclass
class RelationShares:
    """How often each relation was used, over all cells."""

    relations: int
    taken: Counter[str] = field(default_factory=Counter)
    total: int = 0

    def take(self, ways: Sequence[DirectedRelation]) -> None:
        self.taken.update(way.relation for way in ways)
        self.total += len(ways)

    def exceeded(self, ways: Sequence[DirectedRelation]) -> bool:
        even = self.total / max(1, self.relations)
        return any(self.taken[way.relation] > PER_RELATION * (even + 1) for way in ways)


@dataclass
class QuotaCell(Generic[Item]):
    """The questions of one pattern and number of hops."""

    wanted: int
    sizes: Mapping[str, float]  # shares by answer size
    shares: RelationShares
    finish: Callable[[Item], bool] = lambda item: True  # makes a question of an item; False if it cannot
    taken: list[Item] = field(default_factory=list)
    waiting: list[tuple[Item, Sequence[DirectedRelation]]] = field(default_factory=list)
    offered: int = 0
    _of_size: Counter[str] = field(default_factory=Counter)
    _of_program: Counter[str] = field(default_factory=Counter)

    @property
    def full(self) -> bool:
        return len(self.taken) >= self.wanted

    def enough(self, patience: int) -> bool:
        """Whether `patience` times what is wanted was offered, and what waits would fill the cell."""
        return self.offered >= patience * self.wanted and len(self.taken) + len(self.waiting) >= self.wanted

    def offer(self, item: Item, size: str, program: str, ways: Sequence[DirectedRelation]) -> bool:
        """Takes an item if it keeps the balance, else lets it wait; returns whether it was taken."""
        share = self.sizes.get(size, 0.0) / sum(self.sizes.values())
        most_of_program = max(LEAST_OF_PROGRAM, math.ceil(self.wanted / PER_PROGRAM))
        fits = self._of_size[size] < math.ceil(share * self.wanted) and self._of_program[program] < most_of_program
        if not fits or self.shares.exceeded(ways):
            self.offered += 1
            if len(self.waiting) < self.wanted:
                self.waiting.append((item, ways))
            return False
        if not self._take(item, ways):
            return False
        self.offered += 1
        self._of_size[size] += 1
        self._of_program[program] += 1
        return True

    def settle(self) -> None:
        """Takes what waited, as far as it is needed, in the order in which it came."""
        tried = 0
        while tried < len(self.waiting) and not self.full:
            self._take(*self.waiting[tried])
            tried += 1
        del self.waiting[:tried]

    def _take(self, item: Item, ways: Sequence[DirectedRelation]) -> bool:
        if not self.finish(item):
            return False
        self.taken.append(item)
        self.shares.take(ways)
        return True
