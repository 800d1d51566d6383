"""A graph and its questions for `verifiers` 0.4: a taskset, and the harness in which a model walks.

    vf-eval verifiers-kgwalk --env.taskset.task.data my-questions --env.agent.runtime.type subprocess

The harness is kgwalk's own rollout in this process. Its engine asks the endpoint that verifiers gives it, so that every
call of the model is in the trace; nothing runs in the box that verifiers makes for other harnesses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import verifiers.v1 as vf

from kgwalk.llm.api import ApiEngine
from kgwalk.llm.engine import Sampling
from kgwalk.types import Question
from kgwalk.walk.rollout import rollout_async
from verifiers_kgwalk.walks import METRICS, Walks, questions_of, result_of, walks_of

RESULT = "kgwalk"  # key of a trace's info: what came of the walk


class WalkTaskConfig(vf.TaskConfig):
    """How a question is walked and paid, as in `kgwalk eval`; see `walks_of`."""

    graph: str | None = None
    data: str = "world"
    recipe: str = "kgwalk"
    profile: str | None = None
    values: tuple[str, ...] = ()
    link: bool = False


class KgwalkConfig(vf.TasksetConfig):
    """Which questions: `--env.taskset.split`, `--env.taskset.limit`, `--env.taskset.task.recipe`, ..."""

    split: str = "test"
    limit: int | None = None
    task: WalkTaskConfig = WalkTaskConfig()


class WalkData(vf.TaskData):
    """One question; `number` is its place in the split."""

    split: str
    number: int
    answers: list[str]
    walking: dict[str, Any]  # the task's settings, for the harness


class WalkTask(vf.Task[WalkData, vf.State, WalkTaskConfig]):
    """Pays what the harness found, with the recipe's rewards and weights."""

    @vf.reward
    async def walked(self, trace: vf.Trace) -> Mapping[str, float]:
        """Each reward of the recipe with its weight, turn rewards by their mean."""
        reward = walks_for(trace.task.data.walking).reward
        paid = trace.info.get(RESULT, {}).get("rewards", {})
        for part in reward.whole_parts:
            trace.record_reward(part.name, paid.get(part.name, 0.0), part.weight)
        for part in reward.turn_parts:
            trace.record_reward(f"turn_{part.name}", paid.get(f"turn.{part.name}", 0.0), part.weight)
        return {}  # recorded above, as here all would have one weight

    @vf.metric
    async def measured(self, trace: vf.Trace) -> Mapping[str, float]:
        found = trace.info.get(RESULT, {}).get("metrics", {})
        return {name: found.get(name, 0.0) for name in ("f1", *METRICS)}


class KgwalkTaskset(vf.Taskset[WalkTask, KgwalkConfig]):
    def load(self) -> Iterator[WalkTask]:
        settings = self.config.task
        walking = settings.model_dump(include={"graph", "data", "recipe", "profile", "values", "link"}, mode="json")
        for number, question in enumerate(questions_of(settings.data, self.config.split, self.config.limit)):
            data = WalkData(
                id=question.id,
                prompt=question.question,
                split=self.config.split,
                number=number,
                answers=question.answers,
                walking=walking,
            )
            yield WalkTask(data, settings)


class KgwalkHarnessConfig(vf.HarnessConfig):
    """Nothing of its own: the task says how it is walked."""


class KgwalkHarness(vf.Harness[KgwalkHarnessConfig]):
    """The walk of one question. The prompt is the protocol's, not the task's bare question."""

    APPENDS_SYSTEM_PROMPT = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: vf.ModelContext,
        trace: vf.Trace,
        runtime: vf.Runtime,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: vf.TaskData,
    ) -> vf.ProgramResult:
        own = data if isinstance(data, WalkData) else WalkData.model_validate(data.model_dump())
        walks = walks_for(own.walking)
        task, environment = walks.task(question_at(own.walking["data"], own.split, own.number))
        engine = ApiEngine(ctx.model, base_url=endpoint, api_key=secret, timeout=walks.plain.seconds, retries=0)
        try:
            (episode,) = await rollout_async(
                [(task, environment)], walks.protocol, engine, sampling=Sampling(temperature=1.0), budget=walks.plain
            )
        finally:
            await engine.close()
        rewarded, metrics = walks.paid(episode, environment)
        trace.info[RESULT] = result_of(episode, rewarded, metrics)
        failed = 0 if episode.trainable else 1
        return vf.ProgramResult(failed, "; ".join(episode.answers), episode.failure or "")


def walks_for(walking: dict[str, Any]) -> Walks:
    return _walks(**{**walking, "values": tuple(walking["values"])})


@lru_cache(maxsize=8)
def _walks(**walking: Any) -> Walks:
    return walks_of(**walking)


def question_at(data: str, split: str, number: int) -> Question:
    return _questions(data, split)[number]


@lru_cache(maxsize=8)
def _questions(data: str, split: str) -> list[Question]:
    return questions_of(data, split)
