"""How fast this machine learns and walks, with the model, the graph and the questions that it will have to.

A few demonstrations are learnt from, and their prompts answered, as long as a trained walk is; all of it is thrown
away. Knows nothing of plans.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch

from kgwalk.build.fit_plan import Speed
from kgwalk.build.run import Run
from kgwalk.config.recipe import Recipe
from kgwalk.config.section import read_section
from kgwalk.config.threads import most
from kgwalk.data.dataset import Data
from kgwalk.llm.engine import Request, Sampling
from kgwalk.training.demos.demo import encode
from kgwalk.training.demos.make import make_demos
from kgwalk.training.demos.settings import DemoSettings
from kgwalk.training.loop import silent
from kgwalk.training.processes import Processes
from kgwalk.training.settings import SftSettings
from kgwalk.training.sft import Sft
from kgwalk.training.updater import Updater
from kgwalk.types import Flat, KgwalkError

TRIED = {"cpu": 4, "cuda": 64}  # demonstrations: enough to be like the rest, few enough to be quick
SPARE = 4  # of so many times the questions some will do as demonstrations
WRITTEN = 32  # tokens, in about three turns
ENOUGH = 0.85  # of the time: all cores leave none to whoever else is at work
TURNS = 1.4  # a walk of several turns takes longer than one turn with as many tokens: it reads observations, too


def measure(recipe: Recipe, data: Data, *, seed: int, start: Path | None, device: str) -> Speed:
    """Seconds a demonstration and a walk, and what comes once, of a model that is loaded for this alone."""
    run = Run(
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


def _measured(run: Run) -> Speed:
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
    return Speed(
        demo=learning / len(flats),
        walk=TURNS * walking / len(flats),
        write=(written - loaded) / len(flats),
        load=loaded - begun,
        setup=setup,
        threads=threads,
    )


class Tried(NamedTuple):
    """So many threads, and the seconds of an update with them."""

    threads: int
    seconds: float


def _with_more_threads(sft: Sft) -> Tried | None:
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
    return Tried(more, time.monotonic() - begun)


async def _answer(run: Run, flats: list[Flat]) -> None:
    """So many tokens after each prompt, all at once."""
    run.walker.weights_changed()  # nothing is kept of the time before
    prompts = [flat.ids[: flat.mask.index(1)] for flat in flats]
    sampling = Sampling(temperature=1.0, max_tokens=WRITTEN, seed=run.seed)
    asked = [Request(ids, (), sampling, f"speed:{number}") for number, ids in enumerate(prompts)]
    await asyncio.gather(*map(run.walker.engine.generate, asked))
    await asyncio.gather(*(run.walker.engine.forget(request.session) for request in asked))


def _flats(run: Run, count: int) -> list[Flat]:
    """Demonstrations as token ids."""
    made, fallen = make_demos(
        run.questions[: SPARE * count],
        run.dataset.graph_for,
        run.protocol,
        world_of=run.training_worlds.of,
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


def _timed(work: Callable[[], object], run: Run) -> float:
    """Its seconds; on a GPU the second time, since the first compiles and records."""
    if run.model.device.startswith("cuda"):
        work()
    before = time.monotonic()
    work()
    return time.monotonic() - before
