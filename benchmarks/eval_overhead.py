"""What an evaluation costs beside the walks themselves: scoring, classifying, writing, summarising.

Run: python benchmarks/eval_overhead.py [--episodes 10000] [--delay 0.05] [--at-once 64] [--profile] [--json]

Questions of two hops over a made-up film graph are walked by the kgwalk protocol with a script for a model: of five,
three are right at once, one after malformed turns, one is wrong. Measured in one process, one after the other: `walk`
alone and the same through `evaluate`, in seconds of the processor; then both with an engine that takes `--delay`
seconds a turn and `--at-once` episodes at a time, as an API does, in seconds of the clock.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import json
import os
import pstats
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

from kgwalk.config.recipe import load_recipe
from kgwalk.data.dataset import Dataset, load_dataset
from kgwalk.evaluation.evaluate import evaluate
from kgwalk.llm.engine import Generation, Request, Sampling, ScriptedEngine
from kgwalk.walk.policy import policy_of
from kgwalk.walk.protocol import Task

RIGHT = ['head_entities($1, "starred_actors")', 'tail_entities($2, "directed_by")', "<answer>$3</answer>"]
WRONG = [*RIGHT[:2], '<answer>["Nobody", "Somebody"]</answer>']
MALFORMED = ["I think it is", RIGHT[0], "so", RIGHT[1], "well", "<answer>$3</answer>"]
SCRIPTS = (RIGHT, RIGHT, WRONG, MALFORMED, RIGHT)


def write_dataset(folder: Path, questions: int) -> Dataset:
    """A film graph with half as many actors as questions, each in some five films."""
    draw = random.Random(0)
    actors, films = max(10, questions // 2), max(20, questions)
    facts = [(f"Film {film}", "directed_by", f"Director {draw.randrange(films // 4)}") for film in range(films)]
    directors = {film: director for film, _, director in facts}
    starred: dict[str, list[str]] = {f"Actor {actor}": [] for actor in range(actors)}
    for actor, roles in starred.items():
        roles += sorted({f"Film {draw.randrange(films)}" for _ in range(5)})
        facts += [(film, "starred_actors", actor) for film in roles]
    (folder / "kg.tsv").write_text("".join("\t".join(fact) + "\n" for fact in facts))
    with open(folder / "test.jsonl", "wb") as file:
        for number in range(questions):
            actor = f"Actor {number % actors}"
            paths = [
                [[film, "starred_actors", actor], [film, "directed_by", directors[film]]] for film in starred[actor]
            ]
            row = {
                "id": f"q{number}",
                "question": f"[{number % len(SCRIPTS)}] who directed the films that {actor} starred in?",
                "topic_entities": [actor],
                "answers": sorted({path[1][2] for path in paths}),
                "hops": 2,
                "gold_paths": paths,
            }
            file.write(orjson.dumps(row) + b"\n")
    return load_dataset(folder)


class Delayed(ScriptedEngine):
    """Answers after so many seconds, as a server would."""

    def __init__(self, delay: float) -> None:
        super().__init__(lambda request: script_of(request))
        self.delay = delay

    async def generate(self, request: Request) -> Generation:
        if self.delay:
            await asyncio.sleep(self.delay)
        return await super().generate(request)


def script_of(request: Request) -> str:
    """The next turn; the number in brackets at the question's beginning chooses the script."""
    said = sum(message.role == "assistant" for message in request.messages)
    asked = next(message.content for message in request.messages if message.role == "user")
    script = SCRIPTS[int(asked[1])]
    return script[min(said, len(script) - 1)]


def timed(clock: Callable[[], float], work: Callable[[], Any]) -> tuple[float, Any]:
    before = clock()
    value = work()
    return clock() - before, value


def pair(dataset: Dataset, episodes: int, delay: float, values: list[str], out: Path) -> tuple[float, float, Any]:
    """Seconds of the walks alone, and of the whole evaluation."""
    clock = time.perf_counter if delay else time.process_time  # others may use the machine as well
    recipe = load_recipe("kgwalk").with_values(values)

    def alone() -> None:
        policy = policy_of(recipe, Delayed(delay), Sampling(seed=0))
        questions = dataset.questions("test")[:episodes]
        environment = policy.environment(dataset.graph())
        tasks = [(Task(one, one.topic_entities, str(number)), environment) for number, one in enumerate(questions)]
        asyncio.run(policy.walk(tasks, lambda episode, turn: None))

    limit = None if episodes >= len(dataset.questions("test")) else episodes
    walks, _ = timed(clock, alone)
    whole, report = timed(clock, lambda: evaluate(recipe, dataset, engine=Delayed(delay), out=out, limit=limit))
    return walks, whole, report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=10_000)
    parser.add_argument("--delay", type=float, default=0.05, help="seconds that the slow engine takes for a turn")
    parser.add_argument("--at-once", type=int, default=16, help="episodes under way with the slow engine")
    parser.add_argument("--profile", action="store_true", help="show where the time of the evaluation goes, and end")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        os.environ["KGWALK_CACHE"] = str(folder / "cache")
        (folder / "films").mkdir()
        dataset = write_dataset(folder / "films", args.episodes)
        dataset.graph()
        if args.profile:
            with cProfile.Profile() as profile:
                evaluate("kgwalk", dataset, engine=Delayed(0.0), out=folder / "profiled")
            pstats.Stats(profile).sort_stats("cumulative").print_stats(45)
            return
        walks, whole, report = pair(dataset, args.episodes, 0.0, [], folder / "instant")
        few = max(1, args.episodes // 20)
        slow = [f"rollout.at_once={args.at_once}"]
        slow_walks, slow_whole, _ = pair(dataset, few, args.delay, slow, folder / "slow")
    figures = {
        "episodes": args.episodes,
        "f1": report["metrics"]["f1"],
        "walk_s": walks,
        "evaluate_s": whole,
        "added_s": whole - walks,
        "added_us_per_episode": (whole - walks) / args.episodes * 1e6,
        "slow_walk_s": slow_walks,
        "slow_evaluate_s": slow_whole,
        "slow_share": slow_whole / slow_walks - 1,
    }
    if args.json:
        print(json.dumps(figures, indent=2))
        return
    print(f"{args.episodes:,} episodes, F1 {figures['f1']:.3f}")
    print(f"  an instant engine: walks {walks:.2f} s, evaluate {whole:.2f} s: {whole - walks:.2f} s more,")
    print(f"    {figures['added_us_per_episode']:.0f} microseconds an episode")
    print(f"  {args.delay * 1000:.0f} ms a turn, {args.at_once} at once, {few:,} episodes:")
    print(f"    walks {slow_walks:.2f} s, evaluate {slow_whole:.2f} s: {figures['slow_share']:+.1%}")


if __name__ == "__main__":
    main()
