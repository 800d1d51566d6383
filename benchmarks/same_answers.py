"""Whether a graph in a database gives the answers of a store: the bundled graph's questions through real engines.

Run: python -m benchmarks.same_answers                                all 186 test questions, by the agent
     python -m benchmarks.same_answers --engines store,bolt --limit 20
     python -m benchmarks.same_answers --oracle                       the known walks in place of the agent: minutes
     python -m benchmarks.same_answers --engines oxigraph,virtuoso --json > same.json

The graph is loaded into each engine, started on this machine, as its users would hold the same facts
(`benchmarks.world_engines`): RDF with labels in Oxigraph and Virtuoso, nodes and relationships behind Bolt and in
Ladybug, tables in SQLite and DuckDB; `http` is a kgwalk server, which lists no kinds. First all facts are read back:
they must be the store's, so that a difference in the answers is one of the walk and not of the load. Then the agent
that comes with kgwalk (SmolLM2-135M on the processor) answers each question, one at a time, scored as `kgwalk eval`
does. A turn that the model wrote before, of the same prompt, is not written again; its seconds count as they were. What
is not installed is left out, with a line that says what to install.

It exits with 1 if the facts differ, or an engine's F1 differs by more than 0.005 from the store's.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.world_engines import ENGINES, Loaded, NotInstalled, differing

from kgwalk.cli.output import progress_bar
from kgwalk.config.recipe import load_recipe
from kgwalk.data.dataset import Dataset, load_dataset
from kgwalk.evaluation.evaluate import Evaluation, Sample
from kgwalk.kg.graph import Graph
from kgwalk.llm.automaton import automaton_of
from kgwalk.llm.engine import Engine, Generation, Request, Sampling, ScriptedEngine, open_engine
from kgwalk.llm.models import card_folder
from kgwalk.llm.tokenizers import Tokenizer
from kgwalk.types import Episode, KgwalkError, Progress, silent
from kgwalk.walk.confidence import read_confidence
from kgwalk.walk.policy import ProtocolPolicy, policy_of, shipped, walked_as_learnt
from kgwalk.walk.protocol import Environment, Task
from kgwalk.walk.rollout import Watch

TOLERANCE = 0.005
STORE = "store"


@dataclass
class Measured:
    """What one engine's answers were like. Seconds and queries are of one question."""

    engine: str
    questions: int
    f1: float
    hits_at_1: float
    same: int  # answers that are the store's
    seconds: float
    in_graph: float  # of these: all but the model
    queries: float  # that the engine was sent; 0 of a store
    differing: list[str] = field(default_factory=list)


class Timed:
    """An engine that counts the seconds its model takes, and does not let it write the same turn twice.

    The model is greedy: of the same prompt it writes the same, also where less is allowed, as long as what it wrote is
    allowed still (through a graph elsewhere only relations that were listed are). Such a turn counts the seconds that
    it took the first time.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.seconds = self.waited = 0.0  # that the model takes for these turns, and that it took now
        self._written: dict[tuple[int, ...], list[tuple[Request, Generation, float]]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    @property
    def tokens(self) -> Tokenizer:
        return self._engine.tokens

    @property
    def context(self) -> int:
        return self._engine.context

    @property
    def exact(self) -> bool:
        return self._engine.exact

    @property
    def at_once(self) -> int:
        return 1

    async def generate(self, request: Request) -> Generation:
        written = self._written.setdefault(tuple(request.ids), [])
        for before, generation, seconds in written:
            if self._would_write(request, before, generation):
                self.seconds += seconds
                return generation
        started = time.monotonic()
        generation = await self._engine.generate(request)
        seconds = time.monotonic() - started
        self.seconds, self.waited = self.seconds + seconds, self.waited + seconds
        written.append((request, generation, seconds))
        return generation

    def _would_write(self, request: Request, before: Request, generation: Generation) -> bool:
        """Whether the model would write this again: what it wrote is allowed, and nothing is that was not before."""
        if request.sampling.temperature or request.sampling.max_tokens != before.sampling.max_tokens:
            return False
        if request.grammar == before.grammar:
            return True
        automaton = automaton_of(self._engine.tokens)
        if automaton is None or request.grammar is None or before.grammar is None or generation.room is None:
            return False
        room, ids = generation.room, generation.ids
        try:
            now, then = automaton.replay(request.grammar, room, ids), automaton.replay(before.grammar, room, ids)
        except ValueError:  # a token that is not allowed now
            return False
        places = zip(ids, now, then, strict=True)
        return all(token in allowed and np.isin(allowed, wider).all() for token, allowed, wider in places)

    async def forget(self, session: str) -> None:
        await self._engine.forget(session)

    async def close(self) -> None:
        await self._engine.close()


@dataclass(frozen=True)
class Elsewhere(ProtocolPolicy):
    """Walks another graph than the dataset's, by which the answers are scored. Each walk's queries are counted."""

    loaded: Loaded | None = None
    counted: list[int] = field(default_factory=list)

    def environment(self, graph: Graph) -> Environment:
        assert self.loaded is not None
        return super().environment(self.loaded.graph)

    async def walk(self, tasks: Sequence[tuple[Task, Environment]], watch: Watch) -> list[Episode]:
        assert self.loaded is not None
        episodes: list[Episode] = []
        for task in tasks:
            before = self.loaded.queries()
            episodes += await super().walk([task], watch)
            self.counted.append(self.loaded.queries() - before)
        return episodes


@dataclass(frozen=True)
class KnownWalks(Elsewhere):
    """The walk that each question was made with, in place of a model's."""

    async def walk(self, tasks: Sequence[tuple[Task, Environment]], watch: Watch) -> list[Episode]:
        assert isinstance(self.engine, Timed)
        episodes: list[Episode] = []
        for task, environment in tasks:
            own = replace(self, engine=Timed(ScriptedEngine(turns_of(task))))
            episodes += await Elsewhere.walk(own, [(task, environment)], watch)
        return episodes


def turns_of(task: Task) -> list[str]:
    """The turns of the walk that a question of the bundled graph was made with."""
    program: Any = task.question.extra["program"]
    said = [", ".join(one if one.startswith("$") else json.dumps(one) for one in args) for _, *args in program]
    calls = [f"{tool}({args})" for (tool, *_), args in zip(program, said, strict=True)]
    return [*calls, f"<answer>${len(task.topics) + len(calls)}</answer>"]


def policy_for(oracle: bool) -> Elsewhere:
    """The agent that comes with kgwalk, or the known walks in its protocol."""
    folder = shipped()
    if folder is None:
        raise KgwalkError("no agent comes with this kgwalk")
    recipe = walked_as_learnt(load_recipe("kgwalk"), str(folder))
    engine = Timed(ScriptedEngine([]) if oracle else open_engine("cpu", None, adapter=str(folder)))
    made = policy_of(recipe, engine, Sampling(), read_confidence(card_folder(str(folder), None)))
    assert isinstance(made, ProtocolPolicy)
    kind = KnownWalks if oracle else Elsewhere
    return kind(made.protocol, engine, made.budget, made.sampling, made.confidence, made.asking)


def measure(
    name: str, loaded: Loaded, dataset: Dataset, policy: Elsewhere, limit: int | None, progress: Progress = silent
) -> tuple[Measured, dict[int, list[str]]]:
    """The figures of an engine, and its answers by the number of the question."""
    policy = replace(policy, loaded=loaded, counted=[])
    assert isinstance(policy.engine, Timed)

    def told(what: str, done: int, total: int | None, figures: Mapping[str, float] = {}, /) -> None:
        progress(name, done, total, figures)

    modelled, waited = policy.engine.seconds, policy.engine.waited
    with tempfile.TemporaryDirectory() as folder:
        sample = Sample(limit=limit, from_kinds=policy.protocol.starts_from_kinds)
        evaluation = Evaluation(dataset, dataset.questions("test"), sample, Path(folder) / "rows.jsonl", told)
        evaluation.walk(policy)
    rows = evaluation.rows()
    modelled, waited = policy.engine.seconds - modelled, policy.engine.waited - waited
    in_graph = sum(row["metrics"]["seconds"] for row in rows) - waited

    def mean(of: str) -> float:
        return sum(row["metrics"][of] for row in rows) / len(rows)

    each = len(rows)
    failed = [f"{row['question']} {row['stop']}" for row in rows if row["metrics"]["failed"]]
    figures = ((in_graph + modelled) / each, in_graph / each, sum(policy.counted) / each)
    found = Measured(name, each, mean("f1"), mean("hits_at_1"), each, *figures, failed)
    return found, {row["number"]: sorted(row["answers"]) for row in rows}


def compare(
    found: Measured, answers: Mapping[int, list[str]], store: Mapping[int, list[str]], dataset: Dataset
) -> None:
    """Count the answers that are the store's."""
    questions = dataset.questions("test")
    other = [number for number, names in answers.items() if names != store[number]]
    found.same = len(answers) - len(other)
    found.differing += [f"{questions[number].question} {store[number]} / {answers[number]}" for number in other]


def run(
    engines: Sequence[str],
    limit: int | None = None,
    oracle: bool = False,
    progress: Progress = silent,
    show: Callable[[Measured], None] = lambda found: None,
) -> tuple[list[Measured], list[str]]:
    """The figures of each engine, the store's first, and what went wrong, in words; `show` is told of each."""
    dataset, policy = load_dataset("world"), policy_for(oracle)
    graph, results, wrong = dataset.graph(), list[Measured](), list[str]()
    store: dict[int, list[str]] = {}
    try:
        for name in dict.fromkeys([STORE, *engines]):
            with tempfile.TemporaryDirectory(prefix="kgwalk-same-") as folder:
                try:
                    with ENGINES[name](graph, Path(folder)) as opened:
                        with opened() as loaded:
                            less, more = differing(loaded.graph, graph)
                        if less or more:
                            wrong.append(f"{name}: {len(less)} facts less and {len(more)} more, as {(less + more)[:3]}")
                            continue
                        with opened() as loaded:  # with no name or fact kept
                            found, answers = measure(name, loaded, dataset, policy, limit, progress)
                except NotInstalled as error:
                    print(f"{name} is left out: {error}", file=sys.stderr)
                    continue
            store = store or answers
            compare(found, answers, store, dataset)
            results.append(found)
            show(found)
            if abs(found.f1 - results[0].f1) > TOLERANCE:
                wrong.append(f"{name}: F1 is {found.f1:.4f}, and of the store {results[0].f1:.4f}")
    finally:
        asyncio.run(policy.engine.close())
    return results, wrong


COLUMNS = {"F1": 8, "Hits@1": 8, "same": 9, "s/question": 12, "in the graph": 14, "queries/question": 18}


def show(one: Measured) -> None:
    """A line of the table; before the store's, which is the first, its head."""
    if one.engine == STORE:
        print("engine    " + "".join(f"{name:>{width}}" for name, width in COLUMNS.items()), flush=True)
    cells = (f"{one.f1:.4f}", f"{one.hits_at_1:.4f}", f"{one.same}/{one.questions}")
    figures = (f"{one.seconds:.2f}", f"{one.in_graph:.3f}", f"{one.queries:.1f}")
    widths = zip((*cells, *figures), COLUMNS.values(), strict=True)
    print(f"{one.engine:<10}" + "".join(f"{cell:>{width}}" for cell, width in widths), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    named = ",".join(name for name in ENGINES if name != "http")
    parser.add_argument("--engines", default=named, help="with commas between them; %(default)s; also http")
    parser.add_argument("--limit", type=int, help="a seeded sample of so many questions")
    parser.add_argument("--oracle", action="store_true", help="the walks that the questions were made with, no model")
    parser.add_argument("--json", action="store_true", help="one object on stdout")
    given = parser.parse_args()
    engines = given.engines.split(",")
    if unknown := [name for name in engines if name not in ENGINES]:
        parser.error(f"there is no engine {unknown[0]}; there are {', '.join(ENGINES)}")
    with progress_bar(quiet=given.json) as progress:
        told = (lambda found: None) if given.json else show
        results, wrong = run(engines, given.limit, given.oracle, progress, told)
    if given.json:
        print(json.dumps({"rows": [asdict(one) for one in results], "wrong": wrong}, ensure_ascii=False))
    for one in results:
        for text in one.differing:
            print(f"{one.engine}: {text}", file=sys.stderr)
    for text in wrong:
        print(text, file=sys.stderr)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
