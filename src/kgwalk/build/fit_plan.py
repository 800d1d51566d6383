"""How much fits into the minutes that a fit may take: questions, updates, GRPO steps, walks to measure by.

    speed = Speed(demo=3.0, walk=2.0)             # two slow cores: 3 s to learn from a demonstration
    plan_for(speed, 2400, most=1500).train        # 640 questions to learn from

Arithmetic alone: knows neither models nor graphs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

MEASURING = 0.1  # of the time: the walks before, and as much again for those after
RAMBLES = 12  # an untrained model writes so many times what a trained one does: it uses all turns, and fills each
MOST_TEST, LEAST_TEST, LEAST_BEFORE, LEAST_DEV = 500, 16, 4, 8
DEV = 0.4  # as many questions to validate by as there are test questions, times this
LEAST_TRAIN = 32
ROOM = 2  # so many times the questions are there to learn from, if the minutes allow for them
LOADED = 3  # times: to walk before, to train, to walk after
ROLLOUT = 1.3  # a sampled walk takes longer than a greedy one, and rewards take their time
BRANCHES = 1.8  # a group of eight in the update, its prompt computed once, in demonstrations
LEAST_STEPS, MOST_STEPS = 10, 60  # fewer GRPO steps than that teach nothing that can be measured
LEAST_BATCH, MOST_BATCH, UPDATES = 8, 32, 60  # a small course has small batches, so that there are enough updates
SMALL = UPDATES * MOST_BATCH  # demonstrations: a course of fewer is small
# The rate of SFT that goes on from an agent: it shall learn this graph, and not forget how to walk. Of 400
# demonstrations, at the first of these, it learnt where its F1 was 0.38 to 0.57, not where 0.70 and 0.93 (docs/log.md).
GENTLY, MORE_GENTLY = 5e-4, 1.5e-4
WELL = 0.6  # F1 of an agent that has little left to learn


@dataclass(frozen=True, slots=True)
class Speed:
    """Measured on this machine, with this model and graph."""

    demo: float  # seconds to learn from one demonstration, once
    walk: float  # seconds for one question, many walked at once, by a model that has learnt to walk
    write: float = 0.0  # seconds to write one demonstration
    load: float = 0.0  # seconds until a model is there
    setup: float = 0.0  # seconds before the first update is under way: what is compiled, tried and recorded once
    threads: int = 0  # of a processor, for an update: a demonstration takes `demo` with so many; 0: as elsewhere


@dataclass(frozen=True, slots=True)
class FitPlan:
    """Questions to learn from, to validate by and to test on; `before` of the last are walked before anything is
    learnt. `batch` is of an SFT update; `steps` are GRPO's, 0: there is no time for it.
    """

    train: int
    dev: int
    test: int
    before: int
    batch: int
    steps: int
    seconds: float  # that all of it should take

    def within(self, there: Mapping[str, int]) -> FitPlan:
        """The same for a graph that gives fewer questions.

        >>> FitPlan(600, 40, 100, 10, 10, 0, 2400.0).within({"train": 90, "dev": 12, "test": 9})
        FitPlan(train=90, dev=12, test=9, before=9, batch=10, steps=0, seconds=2400.0)
        """
        test = min(self.test, there["test"])
        return replace(
            self,
            train=min(self.train, there["train"]),
            dev=min(self.dev, there["dev"]),
            test=test,
            before=min(self.before, test),
        )


def plan_for(
    speed: Speed, seconds: float, most: int, *, untrained: bool = True, questions: int = 32, group: int = 8
) -> FitPlan:
    """The most that fits into `seconds`; at most `most` questions to learn from. `untrained`: the start is a model that
    does not walk yet. A GRPO step has `questions` x `group` walks.

    Two slow cores, 2400 s: 240 s for 10 walks before, at 24 s, and as long for 120 after, at 2 s. Of the 1920 s left,
    at 3 s, come 640 demonstrations. A GRPO step would take 32 x (8 x 2 x 1.3 + 1.8 x 3) = 838 s, so there is none.

    >>> plan_for(Speed(demo=3.0, walk=2.0), 2400, most=1500)
    FitPlan(train=640, dev=48, test=120, before=10, batch=10, steps=0, seconds=2400.0)

    A GPU, 420 s: 42 s for 350 walks before, 5 for 500 after, 160 for 8,000 demonstrations. The 213 s left are for GRPO,
    2 to validate by 200 questions, and 32 x (8 x 0.01 x 1.3 + 1.8 x 0.02) = 4.48 s a step.

    >>> plan_for(Speed(demo=0.02, walk=0.01), 420, most=8000)
    FitPlan(train=8000, dev=200, test=500, before=350, batch=32, steps=47, seconds=419.6)
    """
    walk, first, demo = speed.walk, speed.walk * (RAMBLES if untrained else 1), speed.demo + speed.write
    test = _between(LEAST_TEST, MEASURING * seconds / walk, MOST_TEST)
    least = LEAST_BEFORE if untrained else LEAST_TEST  # by an agent's walks it is decided whether it stays as it is
    before = _between(least, MEASURING * seconds / first, test)
    dev = max(LEAST_DEV, round(DEV * test))
    measuring = before * first + test * walk
    train = _between(LEAST_TRAIN, (seconds - measuring) / demo, most)
    step = _step(speed, questions, group)
    steps = min(MOST_STEPS, int((seconds - measuring - train * demo - dev * walk) / step))
    steps = steps if steps >= LEAST_STEPS else 0
    batch = _between(LEAST_BATCH, train / UPDATES, MOST_BATCH)
    grpo = steps * step + dev * walk if steps else 0.0
    return FitPlan(train, dev, test, before, batch, steps, round(measuring + train * demo + grpo, 1))


def rate_after(f1: float, train: int) -> float:
    """The rate for an agent that walks with this F1 as it is, to learn from so many: only a small course goes by it.

    >>> rate_after(0.4, 400), rate_after(0.9, 400), rate_after(0.9, 8000)
    (0.0005, 0.00015, 0.0005)
    """
    return MORE_GENTLY if f1 >= WELL and train < SMALL else GENTLY


def parts_of(
    plan: FitPlan, speed: Speed, *, untrained: bool = True, questions: int = 32, group: int = 8
) -> dict[str, float]:
    """The seconds of a plan, part by part; to load a model before each of the three is a part of its own.

    >>> plan = FitPlan(train=640, dev=48, test=120, before=10, batch=10, steps=0, seconds=2400.0)
    >>> parts_of(plan, Speed(demo=3.0, walk=2.0, load=5.0))
    {'loading': 15.0, 'before': 240.0, 'demos': 0.0, 'sft': 1920.0, 'grpo': 0.0, 'after': 240.0}
    """
    parts = {
        "loading": LOADED * speed.load + speed.setup,
        "before": plan.before * speed.walk * (RAMBLES if untrained else 1),
        "demos": plan.train * speed.write,
        "sft": plan.train * speed.demo,
        "grpo": plan.steps * _step(speed, questions, group) + (plan.dev * speed.walk if plan.steps else 0.0),
        "after": plan.test * speed.walk,
    }
    return {name: round(seconds, 1) for name, seconds in parts.items()}


def _step(speed: Speed, questions: int, group: int) -> float:
    return questions * (group * speed.walk * ROLLOUT + BRANCHES * speed.demo)


def _between(least: int, value: float, most: int) -> int:
    return int(max(least, min(value, most)))
