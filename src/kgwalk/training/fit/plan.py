"""The plan of a fit: how fast the machine is, and how much fits into the given minutes.

    speed = MachineSpeed(demo=3.0, walk=2.0)      # two slow cores: 3 s to learn from a demonstration
    plan_for(speed, 2400, most=1500).train        # 640 questions to learn from

`measure` finds the speed with the model, graph and questions at hand; `plan_for` is arithmetic over it. `FitTime` keeps
the time from the start of the command (run/time.json): a slow machine shortens the stages that learn, and the promised
minutes still hold. `FitRequest` is what was asked for, resolved.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from kgwalk.config.recipe import Recipe, read_section
from kgwalk.config.run_folder import read_object, write_json
from kgwalk.config.runtime import most_threads
from kgwalk.data.dataset import Data
from kgwalk.demos.demo import encode
from kgwalk.demos.filter import DemoSettings
from kgwalk.demos.make import make_demos
from kgwalk.evaluation.runs import FIT_PLAN, FIT_REPORT, FIT_TIME
from kgwalk.kg.store import StoredGraph
from kgwalk.llm.engine import Request, Sampling
from kgwalk.training.run import TrainingRun
from kgwalk.training.settings import SftSettings
from kgwalk.training.sft import Sft
from kgwalk.training.updater import Processes, Updater
from kgwalk.types import Flat, KgwalkError, Progress, silent
from kgwalk.walk.policy import protocol_of

MEASURING = 0.1  # of the time for the walks before training, and as much for those after
RAMBLES = 12  # times what a trained model writes: an untrained one uses all turns, and fills each
MOST_TEST, LEAST_TEST, LEAST_BEFORE, LEAST_DEV = 500, 16, 4, 8
DEV = 0.4  # dev questions, as a share of test questions
LEAST_TRAIN = 32
ROOM = 2  # times the planned questions are made, in case the minutes allow for them
LOADED = 3  # times a model is loaded: to walk before, to train, to walk after
ROLLOUT = 1.3  # times a greedy walk: a sampled one is longer, and its reward takes time
BRANCHES = 1.8  # demonstrations that cost as much in an update as a group of eight, whose prompt is computed once
LEAST_STEPS, MOST_STEPS = 10, 60  # of GRPO; fewer teach nothing that can be measured
LEAST_BATCH, MOST_BATCH, UPDATES = 8, 32, 60  # a small training set has small batches, so that there are enough updates
SMALL = UPDATES * MOST_BATCH  # demonstrations: a training set with fewer is small
# Learning rates of SFT that goes on from an agent: it must learn this graph without forgetting how to walk. From 400
# demonstrations at the first rate, agents improved whose F1 was 0.38 to 0.57, not those at 0.70 and 0.93 (docs/log.md).
GENTLY, MORE_GENTLY = 5e-4, 1.5e-4
WELL = 0.6  # F1 of an agent that has little left to learn


@dataclass(frozen=True, slots=True)
class MachineSpeed:
    """Measured on this machine, with this model and graph."""

    demo: float  # seconds to learn from one demonstration, once
    walk: float  # seconds for one question, many walked at once, by a model that has learnt to walk
    write: float = 0.0  # seconds to write one demonstration
    load: float = 0.0  # seconds to load a model
    setup: float = 0.0  # seconds before the first update: what is compiled, probed and recorded once
    threads: int = 0  # of a CPU, in an update, for which `demo` was measured; 0: as many as elsewhere


@dataclass(frozen=True, slots=True)
class FitPlan:
    """How many questions to learn from, to validate on and to test on; `before` of the last are walked before training.

    `batch` is that of an SFT update; `steps` are GRPO's, 0 where there is no time for it.
    """

    train: int
    dev: int
    test: int
    before: int
    batch: int
    steps: int
    seconds: float  # that all of it should take together

    def within(self, there: Mapping[str, int]) -> FitPlan:
        """The plan cut to the questions that there are.

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
    speed: MachineSpeed, seconds: float, most: int, *, untrained: bool = True, questions: int = 32, group: int = 8
) -> FitPlan:
    """The most that fits into `seconds`, with at most `most` questions to learn from.

    `untrained`: the fit starts from a model that does not walk yet. A GRPO step has `questions` x `group` walks.

    Two slow cores, 2400 s: 240 s for 10 walks before, at 24 s, and as long for 120 after, at 2 s. Of the 1920 s left,
    at 3 s, come 640 demonstrations. A GRPO step would take 32 x (8 x 2 x 1.3 + 1.8 x 3) = 838 s, so there is none.

    >>> plan_for(MachineSpeed(demo=3.0, walk=2.0), 2400, most=1500)
    FitPlan(train=640, dev=48, test=120, before=10, batch=10, steps=0, seconds=2400.0)

    A GPU, 420 s: 42 s for 350 walks before, 5 for 500 after, 160 for 8,000 demonstrations. The 213 s left are for GRPO,
    2 to validate by 200 questions, and 32 x (8 x 0.01 x 1.3 + 1.8 x 0.02) = 4.48 s a step.

    >>> plan_for(MachineSpeed(demo=0.02, walk=0.01), 420, most=8000)
    FitPlan(train=8000, dev=200, test=500, before=350, batch=32, steps=47, seconds=419.6)
    """
    walk, first, demo = speed.walk, speed.walk * (RAMBLES if untrained else 1), speed.demo + speed.write
    test = _between(LEAST_TEST, MEASURING * seconds / walk, MOST_TEST)
    least = LEAST_BEFORE if untrained else LEAST_TEST  # an agent's walks decide whether it stays
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
    """The learning rate for an agent of this F1 and `train` questions: gentler if it is good and they are few.

    >>> rate_after(0.4, 400), rate_after(0.9, 400), rate_after(0.9, 8000)
    (0.0005, 0.00015, 0.0005)
    """
    return MORE_GENTLY if f1 >= WELL and train < SMALL else GENTLY


def parts_of(
    plan: FitPlan, speed: MachineSpeed, *, untrained: bool = True, questions: int = 32, group: int = 8
) -> dict[str, float]:
    """The seconds of a plan, part by part; loading models is a part of its own.

    >>> plan = FitPlan(train=640, dev=48, test=120, before=10, batch=10, steps=0, seconds=2400.0)
    >>> parts_of(plan, MachineSpeed(demo=3.0, walk=2.0, load=5.0))
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


def _step(speed: MachineSpeed, questions: int, group: int) -> float:
    return questions * (group * speed.walk * ROLLOUT + BRANCHES * speed.demo)


def _between(least: int, value: float, most: int) -> int:
    return int(max(least, min(value, most)))


# The time that a fit has

TIME = FIT_TIME
MARGIN = 1.25  # the walks at the end may meet a busier machine, and an agent that walks further
# In demonstrations: the cpu engine converts a new adapter once, which took as long as learning from five; that of the
# start may be converted already. On a GPU nothing is converted, and six demonstrations take no time.
CONVERTED = 6
MOST_BEFORE = 0.15  # of all the time, for the walks before training, which were planned to take a tenth
VALIDATING, LEAST_EVAL = 0.1, 4  # of a stage's time, for one validation; questions, at least
LEAST_STAGE = 1.0  # seconds: a stage does one step even in no time


class FitTime:
    """The time of a fit: what was used on what, what is left, and what was decided by it.

    `started` is when the command was given, by `clock`, in seconds. All is kept in `run/time.json`, over all the times
    that the fit was resumed.
    """

    def __init__(
        self, folder: Path, minutes: float, started: float, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._file, self.minutes, self._started, self._clock = folder / TIME, minutes, started, clock
        kept = read_object(self._file, "used", "decided") if self._file.exists() else {"used": {}, "decided": {}}
        self.used: dict[str, float] = kept["used"]
        self._decided: dict[str, Any] = kept["decided"]
        self._earlier: float = sum(self.used.values())  # before this process
        self._add("start", clock() - started)

    @property
    def spent(self) -> float:
        """Seconds of this fit so far."""
        return self._earlier + self._clock() - self._started

    @property
    def left(self) -> float:
        """Seconds left."""
        return 60 * self.minutes - self.spent

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """What is done inside is a part of the fit; its time counts even if it is stopped in the middle."""
        begun = self._clock()
        try:
            yield
        finally:
            self._add(name, self._clock() - begun)
            self._write()

    def known(self, name: str) -> Any:
        """What was decided under this name; None if nothing yet."""
        return self._decided.get(name)

    def decided(self, name: str, found: Any) -> Any:
        """Decide something once, and return it: a fit that is resumed keeps the first decision."""
        if name not in self._decided:
            self._decided[name] = found
            self._write()
        return self._decided[name]

    def _add(self, name: str, seconds: float) -> None:
        self.used[name] = round(self.used.get(name, 0.0) + seconds, 2)

    def _write(self) -> None:
        write_json(self._file, {"used": self.used, "decided": self._decided})


def a_walk(speed: MachineSpeed, each: float, *, untrained: bool) -> float:
    """Seconds for a walk after training, from those for `each` walk before it.

    An agent will walk as it did; an untrained model used all its turns, and will be faster.

    >>> a_walk(MachineSpeed(demo=3.0, walk=2.0), 1.5, untrained=False)
    1.5
    >>> a_walk(MachineSpeed(demo=3.0, walk=2.0), 30.0, untrained=True)  # a twelfth
    2.5
    """
    return max(speed.walk, each / RAMBLES) if untrained else each or speed.walk


def stage_minutes(left: float, planned: Mapping[str, float]) -> dict[str, float]:
    """The minutes of each stage: the seconds left, shared as they were planned.

    >>> stage_minutes(600.0, {"sft": 900.0, "grpo": 300.0})
    {'sft': 7.5, 'grpo': 2.5}
    >>> stage_minutes(-20.0, {"sft": 900.0})  # at least a second, in minutes
    {'sft': 0.0167}
    """
    whole = sum(planned.values())
    return {
        stage: round(max(LEAST_STAGE, left * seconds / whole) / 60, 4) for stage, seconds in planned.items() if seconds
    }


def walks_within(seconds: float, each: float, least: int, most: int) -> int:
    """How many walks there is time for, at `each` seconds.

    >>> [walks_within(seconds, 2.0, 16, 100) for seconds in (240.0, 120.0, 10.0)]
    [100, 60, 16]
    """
    return most if not each else min(most, max(least, int(seconds / each)))


# How fast the machine is

MEASURED = {"cpu": 4, "cuda": 64}  # demonstrations: enough to be like the rest, few enough to be fast
SPARE = 4  # times the questions are taken, since not each gives a demonstration
WRITTEN = 32  # tokens that a trained model writes in a walk, in about three turns
ENOUGH = 0.85  # of the time, or more threads are not worth it: they leave no core to other programs
TURNS = 1.4  # times one turn with as many tokens: a walk of several turns also reads observations


def measure(recipe: Recipe, data: Data, *, seed: int, start: Path | None, device: str) -> MachineSpeed:
    """The speed of this machine, measured with a model that is loaded for this alone and thrown away.

    A few demonstrations are learnt from, and their prompts are answered with as many tokens as a trained walk has.
    """
    run = TrainingRun(
        recipe=recipe,
        dataset=data,
        path=Path(),  # it is never begun
        split="train",
        dev="dev",
        limit=None,
        incomplete=None,
        seed=seed,
        start=start,
        demos=None,
        judge=None,
        device=device,
        report_to="none",
        progress=silent,
        processes=Processes(device),
    )
    try:
        return _measured(run)
    finally:
        run.close()
        gc.collect()  # the next model needs this one's memory


def _measured(run: TrainingRun) -> MachineSpeed:
    begun = time.monotonic()
    count = MEASURED["cuda" if run.model.device.startswith("cuda") else "cpu"]
    loaded = time.monotonic()
    flats = _flats(run, count)
    written = time.monotonic()
    walking = _timed(lambda: asyncio.run(_answer(run, flats)), run)
    settings = replace(read_section(SftSettings, run.recipe, "sft"), batch=len(flats))
    updater = Updater(
        run.model,
        lr=settings.lr,
        weight_decay=0.0,
        clip=settings.clip,
        most_loss=settings.most_loss,
        half=settings.half,
        threads=settings.threads,
    )
    sft = Sft(updater, flats, [str(number) for number in range(len(flats))], settings, run.seed)
    ready = time.monotonic()
    more = _with_more_threads(sft)
    tried = time.monotonic() - ready
    learning = _timed(lambda: sft.step(1), run)
    setup = time.monotonic() - written - walking - tried - learning
    threads = settings.threads
    if more is not None and more.seconds < ENOUGH * learning:
        threads, learning = more
    return MachineSpeed(
        demo=learning / len(flats),
        walk=TURNS * walking / len(flats),
        write=(written - loaded) / len(flats),
        load=loaded - begun,
        setup=setup,
        threads=threads,
    )


class ThreadProbe(NamedTuple):
    """A number of threads, and the seconds of an update with them."""

    threads: int
    seconds: float


def _with_more_threads(sft: Sft) -> ThreadProbe | None:
    """An update with a thread for each core; None where the number is set already.

    The second update counts, since the first is slower than others.
    """
    more = None if sft.updater.on_gpu or sft.updater.threads else most_threads()
    if more is None or more <= torch.get_num_threads():
        return None
    sft.updater.threads = more
    sft.step(1)
    begun = time.monotonic()
    sft.step(1)
    sft.updater.threads = 0
    return ThreadProbe(more, time.monotonic() - begun)


async def _answer(run: TrainingRun, flats: list[Flat]) -> None:
    """Generate WRITTEN tokens after each prompt, all together."""
    run.walker.weights_changed()  # nothing may be cached
    prompts = [flat.ids[: flat.mask.index(1)] for flat in flats]
    sampling = Sampling(temperature=1.0, max_tokens=WRITTEN, seed=run.seed)
    asked = [Request(ids, (), sampling, f"speed:{number}") for number, ids in enumerate(prompts)]
    await asyncio.gather(*map(run.walker.engine.generate, asked))
    await asyncio.gather(*(run.walker.engine.forget(request.session) for request in asked))


def _flats(run: TrainingRun, count: int) -> list[Flat]:
    """Demonstrations as token ids."""
    made, rejects = make_demos(
        run.questions[: SPARE * count],
        run.dataset.graph_for,
        run.protocol,
        environment_of=run.training_environments.of,
        settings=replace(DemoSettings.of(run.recipe), limit=count),
        budget=run.budget,
        tokens=run.model.tokens,
        seed=run.seed,
    )
    flats = [encode(demo, run.model.tokens) for demo in made]
    if not flats:
        why = "; ".join(f"{number:,} {reason}" for reason, number in rejects.counts.items())
        raise KgwalkError(f"no demonstration could be made of the first {rejects.tried:,} questions: {why}")
    return flats


def _timed(work: Callable[[], object], run: TrainingRun) -> float:
    """The seconds that `work` takes; on a GPU those of the second time, since the first compiles and records."""
    if run.model.device.startswith("cuda"):
        work()
    before = time.monotonic()
    work()
    return time.monotonic() - before


# What a fit was asked for

MINUTES = {"cpu": 40.0, "cuda": 8.0}
QUESTIONS = {"cpu": 1500, "cuda": 8000}  # to learn from, at most, unless told
# Without training: worked examples alone. Of the minutes, at most a third is for making them.
EXAMPLE_MINUTES, EXAMPLE_QUESTIONS, MAKING = 3.0, 600, 1 / 3
BOTH = 2.5  # times the walks without examples: these, and the same with examples, whose prompts are longer
PLAN, REPORT, ASKED, TRAINED, BEFORE, AFTER = FIT_PLAN, FIT_REPORT, "questions", "train", "before", "after"
EXAMPLES = "examples.jsonl"


@dataclass(frozen=True, kw_only=True)
class FitRequest:
    """What was asked for, resolved. `start` is an adapter to go on from. Without `train` its weights stay as they are,
    and worked examples are made for it.
    """

    graph: StoredGraph
    name: str
    recipe: Recipe
    path: Path
    minutes: float
    count: int
    seed: int
    start: Path | None
    device: str
    engine: str
    smoke: bool
    train: bool
    values: tuple[str, ...]  # of the recipe, as the user gave them: they win over the plan's
    progress: Progress

    @property
    def language(self) -> str:
        """The walking language that the agent speaks, or will."""
        return "full" if protocol_of(self.recipe).starts_from_kinds else "core"

    @property
    def examples(self) -> int:
        """How many worked examples a prompt has."""
        return protocol_of(self.recipe).shows_examples

    @property
    def store(self) -> Path:
        return Path(self.graph.store.folder.path).resolve()

    def settings(self) -> dict[str, Any]:
        """The settings that decide what is computed. The machine's speed decides too, and is kept in plan.json."""
        return {
            "graph": str(self.store),
            "digest": self.graph.store.digest,
            "recipe": self.recipe.name,
            "sections": self.recipe.resolved(),
            "minutes": self.minutes,
            "count": self.count,
            "seed": self.seed,
            "start": None if self.start is None else str(self.start.resolve()),
            "smoke": self.smoke,
            "train": self.train,
        }


def kind_of(device: str) -> str:
    """The kind of a device: cpu or cuda."""
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    return "cuda" if device.startswith("cuda") else "cpu"
