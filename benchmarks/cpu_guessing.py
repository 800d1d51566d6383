"""Guesses ahead in the engine `cpu`: the same walks without and with them, and beside transformers' `generate`.

Run: python benchmarks/cpu_guessing.py [--walks 9] [--threads 1] [--clock cpu] [--adapter FOLDER] [--no-generate]

An agent walks the bundled graph once; what it was asked in each turn is then asked again, walk by walk in turn, of an
engine without guesses, of one that forgets after each walk what it wrote (`first`: as the first question of a process),
of one that does not (`later`), and of `generate` with the adapter merged. Writing is what a turn takes beyond the pass
over its prompt in the engine without guesses, and of `generate` what it takes beyond its first token. Tokens and
log-probabilities are compared as well. On a busy machine take one thread and the processor's clock.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from kgwalk.data.bundled import world_path, world_questions
from kgwalk.kg.store import open_graph
from kgwalk.llm.engine import Generation, Request
from kgwalk.llm.openvino_engine.engine import CpuEngine
from kgwalk.llm.openvino_engine.scheduler import NgramIndex
from kgwalk.walk.agent import answer_question
from kgwalk.walk.policy import shipped

CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


class Heard(CpuEngine):
    """Keeps what it was asked, and how long its passes over prompts took."""

    def __init__(self, clock: Callable[[], float], **options: Any) -> None:
        super().__init__(**options)
        self.asked: list[Request] = []
        self.clock, self.prompts = clock, 0.0
        self._one_pass = self._scheduler._pass
        self._scheduler._pass = self._timed  # type: ignore[method-assign]

    def _timed(self, rows: Any) -> None:
        started = self.clock()
        self._one_pass(rows)
        if any(len(new) > 1 for _, new in rows):
            self.prompts += self.clock() - started

    async def generate(self, request: Request) -> Generation:
        self.asked.append(replace(request, ids=list(request.ids)))  # the episode's own list, which grows
        return await super().generate(request)

    def fresh(self) -> None:
        """As an engine that has written nothing yet."""
        self._scheduler._written_ngrams = NgramIndex()


async def walked(engine: Heard, count: int) -> list[list[Request]]:
    """The requests of each walk."""
    graph, found = open_graph(world_path()), []
    for question in random.Random(0).sample(list(world_questions("dev")), count):
        engine.asked.clear()
        await answer_question(
            question.question, graph, protocol="kgwalk", engine=engine, topics=question.topic_entities
        )
        found.append(list(engine.asked))
    await engine.close()  # its cache holds the prompts
    return found


async def again(engine: Heard, walk: list[Request]) -> tuple[list[Generation], float]:
    """What comes of a walk's requests, and the seconds that it took."""
    started = engine.clock()
    made = [await engine.generate(request) for request in walk]
    seconds = engine.clock() - started
    await engine.forget(walk[0].session)
    return made, seconds


def by_generate(adapter: Path, threads: int, clock: Callable[[], float]) -> Callable[[Request, int], float]:
    """Seconds that transformers takes to write so many tokens after the first one."""
    import torch
    from transformers import StoppingCriteriaList

    from kgwalk.llm.models import load_model

    torch.set_num_threads(threads)
    module: Any = load_model(adapter, dtype="float32").module

    def writing(request: Request, count: int) -> float:
        ids, ends = torch.tensor([list(request.ids)]), list[float]()

        def ended(so_far: torch.Tensor, scores: Any, **_: Any) -> torch.Tensor:  # asked after every token
            ends.append(clock())
            return torch.zeros(len(so_far), dtype=torch.bool)

        how = {"do_sample": False, "eos_token_id": None, "pad_token_id": 0}
        with torch.no_grad():
            module.generate(ids, max_new_tokens=1 + count, stopping_criteria=StoppingCriteriaList([ended]), **how)
        return ends[-1] - ends[0]

    return writing


def differences(some: list[Generation], others: list[Generation]) -> tuple[int, float]:
    """Generations that are not the same, and how far log-probabilities of the same ones are apart at most."""
    pairs = list(zip(some, others, strict=True))
    same = [(a, b) for a, b in pairs if (a.ids, a.finish) == (b.ids, b.finish)]
    apart = [abs(x - y) for a, b in same for x, y in zip(a.logprobs, b.logprobs, strict=True)]
    return len(pairs) - len(same), max(apart, default=0.0)


async def measured(given: argparse.Namespace) -> None:
    clock, adapter = CLOCKS[given.clock], given.adapter or shipped()
    options = {"adapter": adapter, "threads": given.threads}
    engines = {name: Heard(clock, **options, **more) for name, more in
               (("plain", {"guesses": 0}), ("first", {}), ("later", {}))}  # fmt: skip
    walks = await walked(Heard(clock, **options), given.walks)
    for engine in engines.values():  # each has the fixed instructions in its cache, and has run once
        await again(engine, walks[0])
        engine.fresh()
        engine.prompts = 0.0
    writing = None if given.no_generate else by_generate(adapter, given.threads, clock)
    whole, tokens, generate, differ, apart = dict.fromkeys(engines, 0.0), 0, 0.0, 0, 0.0
    for number, walk in enumerate(walks[1:]):
        engines["first"].fresh()
        made = {}
        for name in sorted(engines, reverse=number % 2 == 1):
            made[name], seconds = await again(engines[name], walk)
            whole[name] += seconds
        for name in ("first", "later"):
            more, far = differences(made["plain"], made[name])
            differ, apart = differ + more, max(apart, far)
        after = [len(one.ids) - 1 for one in made["plain"]]
        tokens += sum(after)
        print(f"{number + 1} walks, {tokens} tokens", file=sys.stderr, flush=True)
        if writing is not None:
            generate += sum(writing(request, count) for request, count in zip(walk, after, strict=True))
    print(f"{len(walks) - 1} walks, {tokens} tokens after the first of a turn; {differ} generations differ, "
          f"log-probabilities {apart:.1e} apart at most")  # fmt: skip
    print("| engine | tokens/s of writing | beside plain | beside `generate` | s a walk | guesses right |")
    print("|---|--:|--:|--:|--:|--:|")
    if writing is not None:
        print(f"| generate | {tokens / generate:.1f} | | 1.0x | | |")
    base = whole["plain"] - engines["plain"].prompts
    for name, engine in engines.items():
        wrote, (guessed, right) = whole[name] - engines["plain"].prompts, engine.guessed
        beside = f"{generate / wrote:.1f}x" if writing is not None else ""
        print(f"| {name} | {tokens / wrote:.1f} | {base / wrote:.2f}x | {beside} "
              f"| {whole[name] / (len(walks) - 1):.2f} | {right} of {guessed} |")  # fmt: skip
        await engine.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--walks", type=int, default=9, help="the first of them is not counted")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--clock", choices=list(CLOCKS), default="wall")
    parser.add_argument("--adapter", type=Path, help="default: the agent that comes with kgwalk")
    parser.add_argument("--no-generate", action="store_true", help="without transformers beside it")
    asyncio.run(measured(parser.parse_args()))


if __name__ == "__main__":
    main()
