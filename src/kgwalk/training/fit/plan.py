"""How much fits into the minutes that a fit may take: questions, updates, GRPO steps, walks to measure by.

    speed = Speed(demo=3.0, walk=2.0)             # two slow cores: 3 s to learn from a demonstration
    plan_for(speed, 2400, most=1500).train        # 640 questions to learn from

Arithmetic alone: knows neither models nor graphs.
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
from kgwalk.config.run_folder import read_json, write_json
from kgwalk.config.runtime import most
from kgwalk.data.dataset import Data
from kgwalk.demos.demo import encode
from kgwalk.demos.filter import DemoSettings
from kgwalk.demos.make import make_demos
from kgwalk.kg.store import StoredGraph
from kgwalk.llm.engine import Request, Sampling
from kgwalk.training.run import TrainingRun
from kgwalk.training.settings import SftSettings
from kgwalk.training.sft import Sft
from kgwalk.training.shards import Processes
from kgwalk.training.updater import Updater
from kgwalk.types import Flat, KgwalkError, Progress, silent

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
class MachineSpeed:
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
    speed: MachineSpeed, seconds: float, most: int, *, untrained: bool = True, questions: int = 32, group: int = 8
) -> FitPlan:
    """The most that fits into `seconds`; at most `most` questions to learn from. `untrained`: the start is a model that
    does not walk yet. A GRPO step has `questions` x `group` walks.

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
    plan: FitPlan, speed: MachineSpeed, *, untrained: bool = True, questions: int = 32, group: int = 8
) -> dict[str, float]:
    """The seconds of a plan, part by part; to load a model before each of the three is a part of its own.

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


# ----------------------------------------------------------------------------------------------------
# The minutes of a fit, from the start of its command: what was used on what, what is left, and who gets it.
#
#     run/time.json   seconds used, part by part, however often the fit was resumed; what was decided by them
#
# A slow machine shortens the stages that learn, not the promise. Knows neither models nor questions.


TIME = "time.json"
MARGIN = 1.25  # the walks at the end may meet a busier machine, and an agent that walks further
# Demonstrations: the cpu engine brings a new adapter into its own form once, which took as long as five to learn from;
# that of the start it may have had already. On a GPU, where nothing is converted, they are a moment.
CONVERTED = 6
MOST_BEFORE = 0.15  # of all the time, for the walks before training: they were planned to take a tenth
VALIDATING, LEAST_EVAL = 0.1, 4  # of a stage's time, for one validation; questions, at least
LEAST_STAGE = 1.0  # seconds: in any time, a stage does one step


class FitTime:
    """`started` is when the command was given, by `clock`, in seconds."""

    def __init__(
        self, folder: Path, minutes: float, started: float, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._file, self.minutes, self._started, self._clock = folder / TIME, minutes, started, clock
        kept = read_json(self._file) if self._file.exists() else {"used": {}, "decided": {}}
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
        """Seconds."""
        return 60 * self.minutes - self.spent

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """What is done inside is a part of the fit; stopped in the middle, its time counts all the same."""
        begun = self._clock()
        try:
            yield
        finally:
            self._add(name, self._clock() - begun)
            self._write()

    def known(self, name: str) -> Any:
        """What was decided under this name; None: nothing yet."""
        return self._decided.get(name)

    def decided(self, name: str, found: Any) -> Any:
        """Decided once: a fit that is resumed must find its runs as it left them. Returns what counts."""
        if name not in self._decided:
            self._decided[name] = found
            self._write()
        return self._decided[name]

    def _add(self, name: str, seconds: float) -> None:
        self.used[name] = round(self.used.get(name, 0.0) + seconds, 2)

    def _write(self) -> None:
        write_json(self._file, {"used": self.used, "decided": self._decided})


def a_walk(speed: MachineSpeed, each: float, *, untrained: bool) -> float:
    """Seconds for one of the walks after training, from those for each before it. An agent will walk as it did; a model
    that knows nothing uses all turns.

    >>> a_walk(MachineSpeed(demo=3.0, walk=2.0), 1.5, untrained=False)
    1.5
    >>> a_walk(MachineSpeed(demo=3.0, walk=2.0), 30.0, untrained=True)  # a twelfth
    2.5
    """
    return max(speed.walk, each / RAMBLES) if untrained else each or speed.walk


def stage_minutes(left: float, planned: Mapping[str, float]) -> dict[str, float]:
    """The seconds that are left for the stages, shared among them as it was planned, as minutes of each.

    >>> stage_minutes(600.0, {"sft": 900.0, "grpo": 300.0})
    {'sft': 7.5, 'grpo': 2.5}
    >>> stage_minutes(-20.0, {"sft": 900.0})  # a minute of 60 seconds: one second
    {'sft': 0.0167}
    """
    whole = sum(planned.values())
    return {
        stage: round(max(LEAST_STAGE, left * seconds / whole) / 60, 4) for stage, seconds in planned.items() if seconds
    }


def walks_within(seconds: float, each: float, least: int, most: int) -> int:
    """How many walks there is time for, at so many seconds each.

    >>> [walks_within(seconds, 2.0, 16, 100) for seconds in (240.0, 120.0, 10.0)]
    [100, 60, 16]
    """
    return most if not each else min(most, max(least, int(seconds / each)))


# ----------------------------------------------------------------------------------------------------
# How fast this machine learns and walks, with the model, the graph and the questions that it will have to.
#
# A few demonstrations are learnt from, and their prompts answered, as long as a trained walk is; all of it is thrown
# away. Knows nothing of plans.


TRIED = {"cpu": 4, "cuda": 64}  # demonstrations: enough to be like the rest, few enough to be quick
SPARE = 4  # of so many times the questions some will do as demonstrations
WRITTEN = 32  # tokens, in about three turns
ENOUGH = 0.85  # of the time: all cores leave none to whoever else is at work
TURNS = 1.4  # a walk of several turns takes longer than one turn with as many tokens: it reads observations, too


def measure(recipe: Recipe, data: Data, *, seed: int, start: Path | None, device: str) -> MachineSpeed:
    """Seconds a demonstration and a walk, and what comes once, of a model that is loaded for this alone."""
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
        gc.collect()  # the next model needs the memory of this one


def _measured(run: TrainingRun) -> MachineSpeed:
    begun = time.monotonic()
    count = TRIED["cuda" if run.model.device.startswith("cuda") else "cpu"]
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


class ThreadTrial(NamedTuple):
    """So many threads, and the seconds of an update with them."""

    threads: int
    seconds: float


def _with_more_threads(sft: Sft) -> ThreadTrial | None:
    """A thread for each core, unless somebody has said how many. The very first update is slower than others, so it is
    the second that counts.
    """
    more = None if sft.updater.on_gpu or sft.updater.threads else most()
    if more is None or more <= torch.get_num_threads():
        return None
    sft.updater.threads = more
    sft.step(1)
    begun = time.monotonic()
    sft.step(1)
    sft.updater.threads = 0
    return ThreadTrial(more, time.monotonic() - begun)


async def _answer(run: TrainingRun, flats: list[Flat]) -> None:
    """So many tokens after each prompt, all at once."""
    run.walker.weights_changed()  # nothing is kept of the time before
    prompts = [flat.ids[: flat.mask.index(1)] for flat in flats]
    sampling = Sampling(temperature=1.0, max_tokens=WRITTEN, seed=run.seed)
    asked = [Request(ids, (), sampling, f"speed:{number}") for number, ids in enumerate(prompts)]
    await asyncio.gather(*map(run.walker.engine.generate, asked))
    await asyncio.gather(*(run.walker.engine.forget(request.session) for request in asked))


def _flats(run: TrainingRun, count: int) -> list[Flat]:
    """Demonstrations as token ids."""
    made, fallen = make_demos(
        run.questions[: SPARE * count],
        run.dataset.graph_for,
        run.protocol,
        environment_of=run.training_worlds.of,
        settings=replace(DemoSettings.of(run.recipe), limit=count),
        budget=run.budget,
        tokens=run.model.tokens,
        seed=run.seed,
    )
    flats = [encode(demo, run.model.tokens) for demo in made]
    if not flats:
        why = "; ".join(f"{number:,} {reason}" for reason, number in fallen.counts.items())
        raise KgwalkError(f"no demonstration could be made of the first {fallen.tried:,} questions: {why}")
    return flats


def _timed(work: Callable[[], object], run: TrainingRun) -> float:
    """Its seconds; on a GPU the second time, since the first compiles and records."""
    if run.model.device.startswith("cuda"):
        work()
    before = time.monotonic()
    work()
    return time.monotonic() - before


# ----------------------------------------------------------------------------------------------------
# What a fit was asked for, resolved, and the names of what it writes.
#
# Knows nothing of how it is carried out.


MINUTES = {"cpu": 40.0, "cuda": 8.0}
QUESTIONS = {"cpu": 1500, "cuda": 8000}  # to learn from, at most, unless told
PLAN, REPORT, ASKED, TRAINED, BEFORE, AFTER = "plan.json", "fit.json", "questions", "train", "before", "after"


@dataclass(frozen=True, kw_only=True)
class FitRequest:
    """What was asked for, resolved. `start` is an adapter to go on from."""

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
    values: tuple[str, ...]  # of the recipe, anew: they are in it, and count for more than the plan's
    progress: Progress

    @property
    def store(self) -> Path:
        return Path(self.graph.store.folder.path).resolve()

    def settings(self) -> dict[str, Any]:
        """What decides what is computed; how fast it is computed decides, too, and is kept in plan.json."""
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
        }


def kind_of(device: str) -> str:
    """Of a device: cpu or cuda."""
    if device == "auto":
        import torch

        return "cuda" if torch.cuda.is_available() else "cpu"
    return "cuda" if device.startswith("cuda") else "cpu"
