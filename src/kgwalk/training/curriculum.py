"""Curricula: which questions a step of training asks, by one of five named orders.

| order | questions of a step | source |
|---|---|---|
| shuffled | each once an epoch, in an order drawn for the epoch | all papers |
| hops | the same, but easy first: those of one hop, then of two, ...; a share of them anywhere | ours |
| history | after the first epochs, none of one hop, none that every rollout got right last time | KG-Hopper, III-D |
| hard | after the first epochs, only those of several hops whose SFT loss is high | KG-Reasoner, 4.3, eq. 10 |
| variance | drawn in proportion to how much rewards differed within a group when last asked | ours |

A question whose hops are not known, or that was never asked, stays in. One without a loss is no hard case, as equation
10 selects by it (`hard_unknown`); with `demonstrated` it is never asked. If nothing would be left, everything stays.
All is decided by the seed, the step and what was recorded before: no random state is kept, and a curriculum that is
restored goes on as if it had never stopped.
`TrainingSet` at the end holds the questions with their environments; this module needs no torch, since the worker
processes import it.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kgwalk.config.recipe import Recipe, read_section, setting
from kgwalk.demos.route import NONE
from kgwalk.score.episode import measure
from kgwalk.types import Episode, KgwalkError, Question
from kgwalk.walk.environment import Environments

ORDERS = ("shuffled", "hops", "history", "hard", "variance")


@dataclass(frozen=True, slots=True)
class CurriculumSettings:
    """[curriculum]."""

    order: str = setting("shuffled", among=ORDERS)
    first_epochs: int = setting(1, least=0)  # of hops: with the easy first; of history and hard: over all questions
    mix: float = setting(0.2, least=0, most=1)  # hops: the share of questions that stand anywhere
    # history: a question is solved when every rollout answered it right, and if this is given, each had such a reward
    solved: float | None = None
    hard_share: float = setting(0.5, above=0, most=1)  # hard: the share of questions with the highest loss
    hard_loss: float | None = None  # hard: instead, all above this loss, the paper's epsilon (it gives no value)
    # hard: questions without a loss, since SFT did not see them: "leave" them out, as the paper does, or "keep" them
    hard_unknown: str = setting("leave", among=("leave", "keep"))
    demonstrated: bool = False  # any order: only questions that SFT has a loss of; all, where it has none of any
    memory: float = setting(0.5, least=0, most=0.99)  # variance: the weight of earlier spreads in the estimate
    floor: float = setting(0.05, above=0, most=1)  # variance: the least weight, as a share of the greatest


@dataclass
class QuestionHistory:
    """What is remembered of a question: the lowest reward of its last group, an estimate of its rewards' spread, and
    whether every rollout of the last group answered it right."""

    lowest: float
    spread: float
    answered: bool


class Curriculum:
    """`batch` is the number of questions of a step; with fewer questions than that, a step asks some of them twice.

    Steps are counted from 1 and must be asked for in order. `losses` are SFT losses by question id.
    """

    def __init__(
        self,
        questions: Sequence[Question],
        settings: CurriculumSettings,
        *,
        batch: int,
        seed: int = 0,
        losses: Mapping[str, float] | None = None,
    ) -> None:
        if not questions:
            raise KgwalkError("there are no questions to train on")
        if batch < 1:
            raise KgwalkError(f"a step asks at least 1 question, not {batch}")
        if settings.order == "hard" and not any(question.id in (losses or {}) for question in questions):
            raise KgwalkError(
                "the order `hard` needs the losses of [sft] on these questions: train that first, or take another order"
            )
        self.settings, self.batch, self.seed = settings, batch, seed
        self.hops = [hops_of(question) for question in questions]
        self.losses = [None if losses is None else losses.get(question.id) for question in questions]
        every = list(range(len(questions)))
        seen = [place for place in every if self.losses[place] is not None]
        self.every = seen if settings.demonstrated and seen else every  # the places of all that may be asked
        self.asked: dict[int, QuestionHistory] = {}
        self.step, self.chosen = 0, list[int]()  # the step that was asked for last, and its questions
        self.epoch, self.left = 0, list[int]()  # epochs begun, and what is left of this one

    @classmethod
    def of(
        cls,
        recipe: Recipe,
        questions: Sequence[Question],
        *,
        batch: int,
        seed: int = 0,
        losses: Mapping[str, float] | None = None,
    ) -> Curriculum:
        """The curriculum that the section [curriculum] of a recipe asks for."""
        settings = read_section(CurriculumSettings, recipe, "curriculum")
        return cls(questions, settings, batch=batch, seed=seed, losses=losses)

    def questions(self, step: int) -> list[int]:
        """The places of the step's questions. Asked again, a step has the same; an earlier step is an error."""
        if step < max(self.step, 1):
            last = f"step {self.step} was asked for already" if self.step else "steps are counted from 1"
            raise KgwalkError(f"there are no questions for step {step}: {last}")
        while self.step < step:
            self.step += 1
            self.chosen = self._by_variance() if self.settings.order == "variance" else self._by_epoch()
        return list(self.chosen)

    def record(self, step: int, rows: Iterable[tuple[int, Sequence[float], bool]]) -> None:
        """Record of each question the whole rewards of its rollouts, and whether all of them answered it right; a
        question without any (all failed) stays as it was."""
        for place, rewards, answered in rows:
            if not 0 <= place < len(self.hops):
                raise KgwalkError(f"step {step}: there is no question {place}; there are {len(self.hops)}")
            if not all(map(math.isfinite, rewards)):
                raise KgwalkError(f"step {step}, question {place}: rewards must be finite: {list(rewards)}")
            if rewards:
                spread, before = spread_of(rewards), self.asked.get(place)
                if before is not None:
                    spread = self.settings.memory * before.spread + (1 - self.settings.memory) * spread
                self.asked[place] = QuestionHistory(min(rewards), spread, answered)

    def state(self) -> dict[str, Any]:
        """All that later steps depend on, beside what the curriculum was made with; for JSON."""
        return {
            "order": self.settings.order,
            "count": len(self.hops),
            "step": self.step,
            "chosen": list(self.chosen),
            "epoch": self.epoch,
            "left": list(self.left),
            "asked": [[place, one.lowest, one.spread, one.answered] for place, one in sorted(self.asked.items())],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state; one of another order or another number of questions is an error.

        The states of version 0.2 do not say what was answered: such questions stay in until they are asked again.
        """
        for what, own in (("order", self.settings.order), ("count", len(self.hops))):
            if state[what] != own:
                raise KgwalkError(f"the curriculum's {what} was {state[what]!r} and is now {own!r}; start a new run")
        self.step, self.chosen = state["step"], list(state["chosen"])
        self.epoch, self.left = state["epoch"], list(state["left"])
        self.asked = {
            place: QuestionHistory(lowest, spread, any(more)) for place, lowest, spread, *more in state["asked"]
        }

    def _random(self, what: str, number: int) -> random.Random:
        return random.Random(f"{self.seed}/{what}/{number}")

    def _by_epoch(self) -> list[int]:
        chosen: list[int] = []
        while len(chosen) < self.batch:
            if not self.left:
                self.epoch += 1
                # Questions that this step already has from the last epoch come last: no question twice if possible.
                self.left = sorted(self._order(), key=Counter(chosen).__getitem__)
            taken = self.batch - len(chosen)
            chosen += self.left[:taken]
            self.left = self.left[taken:]
        return chosen

    def _order(self) -> list[int]:
        """The questions of an epoch, in order."""
        rng, kind = self._random("epoch", self.epoch), self.settings.order
        order = list(self.every)
        first = self.epoch <= self.settings.first_epochs
        if kind == "history" and not first:
            order = self._unsolved() or order
        elif kind == "hard" and not first:
            order = self._hard() or order
        rng.shuffle(order)
        return self._easy_first(order, rng) if kind == "hops" and first else order

    def _easy_first(self, order: list[int], rng: random.Random) -> list[int]:
        """By hops, unknown ones last; then a share of the places swap their questions among themselves."""
        order.sort(key=lambda place: self._hops(place, unknown=math.inf))
        places = rng.sample(range(len(order)), round(self.settings.mix * len(order)))
        mixed = rng.sample(places, len(places))
        swapped = list(order)
        for here, there in zip(places, mixed, strict=True):
            swapped[here] = order[there]
        return swapped

    def _unsolved(self) -> list[int]:
        least = -math.inf if self.settings.solved is None else self.settings.solved
        solved = {place for place, asked in self.asked.items() if asked.answered and asked.lowest >= least}
        return [place for place in self._several_hops() if place not in solved]

    def _hard(self) -> list[int]:
        """Several hops, and a loss above the threshold, or among the highest share of those that are known."""
        most = self.settings.hard_loss
        if most is None:
            known = sorted((loss for loss in self.losses if loss is not None), reverse=True)
            kept = known[: math.ceil(self.settings.hard_share * len(known))]
            return [place for place in self._several_hops() if self._loss(place) >= min(kept, default=-math.inf)]
        return [place for place in self._several_hops() if self._loss(place) > most]

    def _several_hops(self) -> list[int]:
        return [place for place in self.every if self._hops(place, unknown=2) > 1]

    def _hops(self, place: int, *, unknown: float) -> float:
        hops = self.hops[place]
        return unknown if hops is None else hops

    def _loss(self, place: int) -> float:
        loss = self.losses[place]
        if loss is not None:
            return loss
        return math.inf if self.settings.hard_unknown == "keep" else -math.inf

    def _by_variance(self) -> list[int]:
        """Without replacement, each with a weight (Efraimidis and Spirakis: the greatest u^(1/weight) are drawn)."""
        greatest = max((asked.spread for asked in self.asked.values()), default=0.0) or 1.0
        least = self.settings.floor * greatest
        rng, chosen = self._random("variance", self.step), list[int]()
        while len(chosen) < self.batch:
            keys = []
            for place in self.every:
                asked = self.asked.get(place)
                weight = greatest if asked is None else max(asked.spread, least)
                keys.append(math.log(1.0 - rng.random()) / weight)
            best = heapq.nlargest(self.batch - len(chosen), range(len(keys)), key=keys.__getitem__)
            chosen += [self.every[at] for at in best]
        return chosen


def hops_of(question: Question) -> int | None:
    """As the data says; else the length of its longest gold path; else None.

    >>> hops_of(Question("q", "?", [], [], hops=2)), hops_of(Question("q", "?", [], []))
    (2, None)
    """
    if question.hops is not None:
        return question.hops
    return max(map(len, question.gold_paths), default=None) if question.gold_paths else None


def spread_of(rewards: Sequence[float]) -> float:
    """The standard deviation of a group (of the population).

    >>> spread_of([1, 1, 0, 0]), spread_of([1, 1, 1])
    (0.5, 0.0)
    """
    mean = math.fsum(rewards) / len(rewards)
    return math.sqrt(math.fsum((reward - mean) ** 2 for reward in rewards) / len(rewards))


# The training set, and the metrics of its episodes


@dataclass(frozen=True, slots=True)
class MeasuredEpisode:
    """An episode with its metrics. `complete`: it was walked over a graph with all that the question needs; `web`: with
    a web to search."""

    episode: Episode
    numbers: dict[str, float]
    complete: bool
    web: bool = False

    @classmethod
    def of(cls, episode: Episode, environments: Environments) -> MeasuredEpisode:
        """Names are compared over the whole graph, as in an evaluation."""
        question = episode.question
        environment = environments.of(question)
        numbers = measure(episode, environments.graph_for(question))
        return cls(episode, numbers, environment.complete, environment.web is not None)


@dataclass(frozen=True)
class TrainingSet:
    """The training set: the questions of a run and the environment that each is asked in.

    `answers` says whether every question needs gold answers. KG-Hopper's rewards need none: its judge then goes by what
    it knows (`RewardFunction.needs_answers`).
    """

    questions: Sequence[Question]
    environments: Environments
    answers: bool = True

    def __post_init__(self) -> None:
        if not self.questions:
            raise KgwalkError("there are no questions to train on")
        for question in self.questions:
            if not question.topic_entities and question.needs_topic:
                raise KgwalkError(f"question {question.id!r} has no topic entity; `kgwalk data check` lists all such")
            known = question.extra.get("answer_kind") == NONE or question.extra.get("program")  # none may be right
            if self.answers and not question.answers and not known:
                raise KgwalkError(
                    f"question {question.id!r} has no answer; `kgwalk data check` lists all such. "
                    "Only rewards that compare with no answer can be trained on it, such as kg-hopper's with --judge"
                )
