"""A graph and its questions as an environment for `verifiers` 0.3, by its `MultiTurnEnv`.

    env = vf.load_environment("verifiers-kgwalk", graph="my.kg", data="my-questions", recipe="kgwalk")
    env.evaluate_sync(client=ClientConfig(api_base_url="http://localhost:8000/v1"), model="my-model")

verifiers asks its model and hands the reply to the walk; the walk's observation is the environment's response.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import verifiers as vf
from datasets import Dataset as Rows
from verifiers.utils.message_utils import normalize_messages

from kgwalk.llm.api import MAX_STOPS
from kgwalk.score.rewards import RewardFunction
from kgwalk.types import Question
from verifiers_kgwalk.walks import METRICS, RelayedWalk, Walks, questions_of, result_of, walks_of

WALK, RESULT = "kgwalk_walk", "kgwalk"  # keys of a rollout's state: the walk under way, and what came of it


def load_environment(
    graph: str | None = None,
    data: str = "world",
    recipe: str = "kgwalk",
    *,
    profile: str | None = None,
    values: Sequence[str] = (),
    split: str = "train",
    eval_split: str = "test",
    limit: int | None = None,
    link: bool = False,
    **other: Any,
) -> KgwalkEnv:
    """The questions of `data` over its graph, or over `graph` (a store's folder or an address).

    `recipe`, `profile` and `values` ("protocol.turns=5") decide prompt, tools, budget and rewards, as in `kgwalk eval`.
    `link` finds the topics in the question's text; otherwise they are given. `other` goes to verifiers.
    """
    walks = walks_of(graph, data, recipe, profile=profile, values=values, link=link)
    questions = {part: questions_of(data, part, limit) for part in dict.fromkeys((split, eval_split))}
    return KgwalkEnv(walks, questions, split, eval_split, **other)


class KgwalkEnv(vf.MultiTurnEnv):
    """Questions over a graph. What a rollout found stands in `state["kgwalk"]`: answers, evidence, why it stopped."""

    def __init__(
        self, walks: Walks, questions: dict[str, list[Question]], split: str, eval_split: str, **other: Any
    ) -> None:
        self.walks, self.questions = walks, questions
        parts, names = [*walks.reward.whole_parts, *walks.reward.turn_parts], self._reward_names(walks.reward)
        rubric = vf.Rubric([_read("rewards", name) for name in names], [part.weight for part in parts])
        for name in METRICS:
            rubric.add_metric(_read("metrics", name))
        super().__init__(
            dataset=lambda: self._rows(split), eval_dataset=lambda: self._rows(eval_split), rubric=rubric, **other
        )

    @staticmethod
    def _reward_names(reward: RewardFunction) -> list[str]:
        return [part.name for part in reward.whole_parts] + [f"turn.{part.name}" for part in reward.turn_parts]

    def _rows(self, split: str) -> Rows:
        """A row for each question. The prompt is made in `setup_state`, where the walk begins."""
        return Rows.from_list(
            [
                {
                    "prompt": [{"role": "user", "content": question.question}],
                    "answer": "; ".join(question.answers),
                    "info": {"split": split, "number": number, "id": question.id},
                }
                for number, question in enumerate(self.questions[split])
            ]
        )

    async def setup_state(self, state: vf.State) -> vf.State:
        info = state["info"]
        walk = self.walks.walk(self.questions[info["split"]][info["number"]])
        state[WALK] = walk
        budget = self.walks.plain
        state["sampling_args"] = {"max_tokens": budget.turn_tokens, **(state.get("sampling_args") or {})}
        state["sampling_args"]["stop"] = list(self.walks.protocol.stop[:MAX_STOPS])
        prompt = await walk.begin()
        if prompt is None:  # a prompt too long, or a graph that is away
            state["final_env_response"] = []
        else:
            state["prompt"] = normalize_messages(prompt, field_name="prompt")
        return state

    async def env_response(self, messages: vf.Messages, state: vf.State, **other: Any) -> vf.Messages:
        step = state["trajectory"][-1]
        said = step["response"].message
        told = await state[WALK].turn(_text(said.content), said.finish_reason or "stop")
        if told is None:
            state["final_env_response"] = []
        return told or []

    @vf.cleanup
    async def end_walk(self, state: vf.State) -> None:
        """What came of the walk, before it is scored; nothing of it stays under way."""
        walk: RelayedWalk | None = state.pop(WALK, None)
        if walk is None:
            return
        await walk.stop()
        rewarded, metrics = self.walks.paid(walk.episode, walk.environment)
        for step, reward in zip(state["trajectory"], rewarded.turns, strict=False):  # a turn that was cut off has none
            step["extras"]["turn_reward"] = reward
        episode = walk.episode
        state[RESULT] = result_of(episode, rewarded, metrics)
        if not episode.trainable and state.get("error") is None:
            state["error"] = vf.Error(episode.failure or str(episode.stop))


def _read(part: str, name: str) -> Callable[..., float]:
    """A function for a rubric, which calls it by its name."""

    def reward(state: vf.State) -> float:
        return float(state.get(RESULT, {}).get(part, {}).get(name, 0.0))

    reward.__name__ = name.replace(".", "_")
    return reward


def _text(content: Any) -> str:
    """A message's text; of parts, those that are text."""
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(getattr(part, "text", "") for part in content)
