"""Walks under the grammar of the `kgwalk` protocol: that none is malformed, and what constraining costs.

Run: python -m benchmarks.wellformed [--walks 1000] [--model tiny-random --adapter none] [--engine cpu] [--json]
     python -m benchmarks.wellformed --cost [--walks 64] [--batch 1] [--engine cpu] [--clock cpu] [--json]

The first samples walks at temperature 1 and counts the turns that do not parse, and those that name a relation or a
set that is not there; it exits with 1 if there is one. `--free` does without the grammar, for comparison.

The second walks greedily once, then asks the requests of each turn again, `--batch` walks together, with and without
their grammar in turn. Each is first asked for one token, which computes its prompt, so that only writing is timed. The
first round includes the states of grammars that are met for the first time; the others do not. On a busy machine take
one thread and the processor's clock; beside a GPU `--engine local --batch 1024 --walks 1024`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle, islice
from typing import Any

from kgwalk.config.recipe import Recipe, load_recipe
from kgwalk.data.dataset import load_dataset
from kgwalk.llm.engine import Engine, Generation, Request, Sampling, open_engine
from kgwalk.types import Episode, Malformed
from kgwalk.walk.agent import choose_adapter
from kgwalk.walk.policy import budget_of, protocol_of
from kgwalk.walk.protocol import Environment, Task
from kgwalk.walk.rollout import rollout_async

CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
AT_ONCE = 256  # walks sampled together; their episodes are counted and dropped
# What the model is told of a call that names something that is not there.
UNKNOWN = {"set": "there is no set", "relation": "is not in the graph", "tool": "there is no tool"}
Tasks = list[tuple[Task, Environment]]


def tasks_of(data: Sequence[str], split: str, count: int) -> Tasks:
    """So many tasks over the questions of all datasets, each with a key of its own."""
    every = []
    for name in data:
        dataset = load_dataset(name)
        every += [(one, dataset) for one in dataset.questions(split) if one.topic_entities]
    return [
        (Task(one, one.topic_entities, key=str(number)), Environment(dataset.graph_for(one)))
        for number, (one, dataset) in enumerate(islice(cycle(every), count))
    ]


def opened(given: argparse.Namespace, recipe: Recipe) -> Engine:
    chosen = choose_adapter(given.adapter, None, recipe, model=given.model, engine=given.engine)
    options: dict[str, Any] = {"adapter": chosen.folder} if chosen.adapter else {}
    if given.batch is not None:
        options["batch"] = given.batch
    return open_engine(given.engine, given.model, **options)


def count_turns(episodes: Sequence[Episode], into: Counter[str]) -> None:
    for episode in episodes:
        into["walks"] += 1
        into[f"stop {episode.stop.value}"] += 1
        into["tokens"] += episode.generated_tokens
        for turn in episode.turns:
            into["turns"] += 1
            into["malformed"] += isinstance(turn.step, Malformed)
            into["error"] += not turn.ok
            for what, words in UNKNOWN.items():
                into[f"unknown {what}"] += not turn.ok and words in turn.observation


async def sampled(given: argparse.Namespace, recipe: Recipe) -> dict[str, Any]:
    engine, counts, started = opened(given, recipe), Counter[str](), time.perf_counter()
    tasks = tasks_of(given.data, given.split, given.walks)
    sampling = Sampling(temperature=given.temperature, seed=given.seed)
    for begin in range(0, len(tasks), AT_ONCE):
        some = tasks[begin : begin + AT_ONCE]
        episodes = await rollout_async(some, protocol_of(recipe), engine, sampling=sampling, budget=budget_of(recipe))
        count_turns(episodes, counts)
        print(f"{counts['walks']} walks, {counts['malformed']} malformed", file=sys.stderr, flush=True)
    await engine.close()
    wrong = counts["malformed"] + sum(counts[f"unknown {what}"] for what in UNKNOWN)
    return {"wrong": wrong, **dict(sorted(counts.items())), "seconds": round(time.perf_counter() - started, 1)}


# What it costs


class Recording:
    """An engine that keeps the requests of each session."""

    exact = True

    def __init__(self, engine: Engine) -> None:
        self._engine, self.tokens, self.context, self.at_once = engine, engine.tokens, engine.context, engine.at_once
        self.asked: dict[str, list[Request]] = {}

    async def generate(self, request: Request) -> Generation:
        kept = replace(request, ids=list(request.ids), messages=())
        self.asked.setdefault(request.session, []).append(kept)
        return await self._engine.generate(request)

    async def forget(self, session: str) -> None:
        await self._engine.forget(session)

    async def close(self) -> None:
        pass


async def cost(given: argparse.Namespace, recipe: Recipe) -> dict[str, Any]:
    engine, clock = opened(given, recipe), CLOCKS[given.clock]
    recording = Recording(engine)
    tasks = tasks_of(given.data, given.split, given.walks)
    await rollout_async(tasks, protocol_of(recipe), recording, budget=budget_of(recipe))
    walks = list(recording.asked.values())
    batch = given.batch or 1
    seconds = {(how, at): 0.0 for how in ("free", "constrained") for at in range(given.rounds)}
    tokens, differ = dict.fromkeys(("free", "constrained"), 0), 0
    for at in range(given.rounds):
        for begin in range(0, len(walks), batch):
            some = walks[begin : begin + batch]
            for turn in range(max(map(len, some))):
                now = [walk[turn] for walk in some if turn < len(walk)]
                made = {}
                for how in ("free", "constrained") if (at + turn) % 2 else ("constrained", "free"):
                    asked = [
                        replace(one, session=f"{how}:{one.session}", grammar=one.grammar if how != "free" else None)
                        for one in now
                    ]
                    first = [replace(one, sampling=replace(one.sampling, max_tokens=1), grammar=None) for one in asked]
                    await asyncio.gather(*map(engine.generate, first))
                    before = clock()
                    made[how] = await asyncio.gather(*map(engine.generate, asked))
                    seconds[how, at] += clock() - before
                    tokens[how] += sum(len(one.ids) for one in made[how])
                differ += sum(a.ids != b.ids for a, b in zip(*made.values(), strict=True))
            for walk in some:
                for how in ("free", "constrained"):
                    await engine.forget(f"{how}:{walk[0].session}")
            print(f"round {at + 1}, {min(len(walks), begin + batch)} walks", file=sys.stderr, flush=True)
    await engine.close()
    later = range(1, given.rounds)
    each = {how: sum(seconds[how, at] for at in later) / (tokens[how] / given.rounds * max(1, len(later)))
            for how in tokens}  # fmt: skip
    return {
        "walks": len(walks),
        "turns": sum(map(len, walks)),
        "batch": batch,
        "tokens": {how: count // given.rounds for how, count in tokens.items()},
        "turns that differ": differ // given.rounds,
        "seconds of the rounds": {how: [round(seconds[how, at], 3) for at in range(given.rounds)] for how in tokens},
        "ms a token": {how: round(1e3 * value, 4) for how, value in each.items()},
        "constrained / free": round(each["constrained"] / each["free"], 4) if each["free"] else None,
        "constrained / free, first round": round(seconds["constrained", 0] / seconds["free", 0], 4),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--cost", action="store_true", help="measure what constraining costs, not whether it holds")
    parser.add_argument("--walks", type=int, default=1000)
    parser.add_argument("--data", action="append", help="a dataset's folder or name; may be repeated (default: world)")
    parser.add_argument("--split", default="test")
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--model")
    parser.add_argument("--adapter", help="a folder, shipped or none (default: shipped where it fits)")
    parser.add_argument("--batch", type=int, help="walks at once (default: the engine's own; of --cost 1)")
    parser.add_argument("--set", action="append", default=[], help="a value of the recipe: protocol.language=full")
    parser.add_argument("--free", action="store_true", help="without the grammar")
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=3, help="of --cost; the first is apart")
    parser.add_argument("--clock", choices=sorted(CLOCKS), default="wall")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    given.data = given.data or ["world"]
    recipe = load_recipe("kgwalk").with_values([*given.set, *(["protocol.constrain=false"] if given.free else [])])
    found = asyncio.run(cost(given, recipe) if given.cost else sampled(given, recipe))
    print(json.dumps(found) if given.json else "\n".join(f"{name}: {value}" for name, value in found.items()))
    return 1 if found.get("wrong") and not given.free else 0


if __name__ == "__main__":
    sys.exit(main())
