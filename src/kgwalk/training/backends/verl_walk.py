"""The agent loop `kgwalk` of verl: one question walked by the recipe's protocol, rewarded, and laid out for training.

verl starts processes for agent loops and calls `KgwalkAgentLoop.run` for each rollout of a question. The walk is
kgwalk's own (`rollout_async`), with its tools and its budget. The model is behind verl's servers: `VerlEngine` sends
token ids and gets token ids and their log-probabilities, and nothing is decoded and encoded again on the way.

A walk that failed through no fault of the model's is given back as no output at all: verl then trains on the rest of
its group, and the estimator never sees it. Every walk, failed ones too, is a row in a file of its process
(`walks/HOST-PROCESS.jsonl` in the stage's folder), so that nothing is lost of what was counted.
"""

from __future__ import annotations

import functools
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import torch
from transformers import PreTrainedTokenizerBase
from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput, register

from kgwalk.config.run_folder import RowFile
from kgwalk.data.mixture import evenly
from kgwalk.llm.engine import Generation, Request, Sampling, first_stop
from kgwalk.llm.tokenizers import HfTokenizer, end_id
from kgwalk.score.rewards import Outcome, Rewarded
from kgwalk.training.advantages import Rewards
from kgwalk.training.backends.exchange import TrainerEpisode, unconstrained
from kgwalk.training.backends.verl_credit import NAME, token_scores
from kgwalk.training.backends.verl_job import WALKS, VerlJob
from kgwalk.training.collect import WATCHED
from kgwalk.training.curriculum import MeasuredEpisode, TrainingSet
from kgwalk.types import EngineError, Episode
from kgwalk.walk.protocol import Protocol, Task
from kgwalk.walk.rollout import Budget, rollout_async

# The words by which verl's servers are told where a turn ends. Others generate to the turn's length, and are cut.
STOPS_BY_TEXT = ("vllm",)
STOPS_BY_ID = ("vllm", "sglang")


class VerlEngine:
    """verl's servers as an engine. `server` is verl's client; `parameters` are the sampling parameters that verl asks
    for, `rollout` is its name of the kind of server.

    Grammars are not kept to: verl's trainer computes probabilities among all tokens.
    """

    exact = True
    at_once = 1 << 20  # verl's servers have queues of their own

    def __init__(
        self, server: Any, tokens: HfTokenizer, *, context: int, parameters: Mapping[str, Any], rollout: str = "vllm"
    ) -> None:
        self.tokens, self.context = tokens, context
        self._server, self._parameters, self._rollout = server, parameters, rollout
        self.steps: list[int] = []  # the versions of the weights that it was answered with

    async def generate(self, request: Request) -> Generation:
        sampling = request.sampling
        parameters = {**self._parameters, "max_tokens": sampling.max_tokens, "logprobs": True}
        if self._rollout in STOPS_BY_TEXT:
            parameters |= {"stop": list(sampling.stop), "include_stop_str_in_output": True}
        if self._rollout in STOPS_BY_ID:
            parameters |= {"stop_token_ids": sorted(self.tokens.end_ids)}
        try:
            output = await self._server.generate(
                request_id=request.session, prompt_ids=list(request.ids), sampling_params=parameters
            )
        except Exception as error:
            raise EngineError(f"verl's server failed: {type(error).__name__}: {error}") from error
        ids, logprobs = list(output.token_ids), output.log_probs
        if output.stop_reason == "aborted" or not ids:
            raise EngineError(f"verl's server gave {len(ids)} tokens and stopped: {output.stop_reason}")
        if logprobs is None or len(logprobs) != len(ids):
            raise EngineError("verl's server gave no log-probabilities; set rollout.calculate_log_probs=true")
        found = (output.extra_fields.get(name) for name in ("min_global_steps", "max_global_steps"))
        self.steps += [step for step in found if step is not None]
        return self._cut(ids, [float(value) for value in logprobs], sampling.stop)

    def _cut(self, ids: list[int], logprobs: list[float], stops: Sequence[str]) -> Generation:
        """Drops what follows the first end token or stop text: a server may look for it late, or not at all."""
        end = next((at + 1 for at, number in enumerate(ids) if number in self.tokens.end_ids), None)
        stop = first_stop(self.tokens, ids[:end], stops)
        length = stop or end or len(ids)
        finish: Literal["stop", "eos", "length"] = "stop" if stop else "eos" if end else "length"
        return Generation(ids[:length], logprobs[:length], finish)

    async def forget(self, session: str) -> None:
        """Nothing to do: verl's servers drop what they have not used for longest by themselves."""

    async def close(self) -> None:
        """The servers are verl's."""


class WalkOutput(AgentLoopOutput):  # type: ignore[misc,unused-ignore]  # verl has no types
    """A walk as verl stores it, with a score for each token of the response (`verl_credit`)."""

    scores: list[float]

    @classmethod
    def of(cls, one: TrainerEpisode, *, closing_id: int, steps: Sequence[int] = (), **numbers: float) -> WalkOutput:
        """`steps` are the versions of the weights that it was sampled from, `numbers` what validation reports."""
        scores = token_scores(one)
        versions = {"min_global_steps": min(steps, default=0), "max_global_steps": max(steps, default=0)}
        return cls(
            prompt_ids=one.prompt_ids,
            response_ids=[*one.completion_ids, closing_id],
            response_mask=[*one.mask, 0],
            response_logprobs=[*one.logprobs, 0.0],
            reward_score=sum(scores),  # given, so that verl asks no reward function of its own
            num_turns=2 * len(one.turn_rewards),  # verl counts both sides' messages
            metrics=AgentLoopMetrics(),
            extra_fields={"reward_extra_info": numbers, **versions},
            scores=scores,
        )

    def as_dict(self) -> dict[str, Any]:
        fields: dict[str, Any] = super().as_dict()
        fields["rm_scores"] = torch.tensor(fields.pop("scores"), dtype=torch.float32)
        return fields


@dataclass(frozen=True)
class WalkedQuestion:
    """One rollout: its episode with its metrics, and its rewards; None where it is left out."""

    measured: MeasuredEpisode
    rewarded: Rewarded | None

    @property
    def episode(self) -> Episode:
        return self.measured.episode

    def trainer_episode(self) -> TrainerEpisode:
        rewarded = self.rewarded
        rewards = None if rewarded is None else Rewards(rewarded.turns, rewarded.whole)
        return TrainerEpisode.of(self.episode, rewards, pad_id=0)

    def row(self) -> dict[str, Any]:
        """What is recorded of it."""
        episode, rewarded = self.episode, self.rewarded
        paid = {} if rewarded is None else {"turns": rewarded.turns, "whole": rewarded.whole, "parts": rewarded.parts}
        return {
            "id": episode.question.id,
            "trained": rewarded is not None,
            "stop": str(episode.stop),
            "failure": episode.failure,
            "rewards": paid,
            "metrics": {name: self.measured.numbers[name] for name in WATCHED},
        }


class QuestionWalker:
    """Walks questions of a job in this process: what `KgwalkAgentLoop` does, but for verl's types."""

    def __init__(self, job: VerlJob, tokenizer: PreTrainedTokenizerBase) -> None:
        self.job, self.run = job, job.training_run()
        self.tokens = HfTokenizer(tokenizer)
        self.protocol: Protocol = unconstrained(self.run.protocol)
        self.budget: Budget = self.run.budget
        self.closing_id = end_id(self.tokens)
        self.rows = RowFile(job.stage / WALKS / f"{platform.node()}-{os.getpid()}.jsonl")

    def training_set(self, split: str) -> TrainingSet:
        return self._held_out if split == self.run.dev else self.run.training_set

    @cached_property
    def _held_out(self) -> TrainingSet:
        """The questions to validate on."""
        count = self.job.settings.eval_questions
        sample = evenly(self.run.dataset.questions(self.run.dev), count, self.run.seed)
        return TrainingSet(sample, self.run.environments)

    async def walk(self, engine: VerlEngine, split: str, number: int, key: str, step: int) -> WalkedQuestion:
        """One rollout of question `number` of a split, in a step of training."""
        asked = self.training_set(split)
        question = asked.questions[number]
        task = Task(question, question.topic_entities, key)
        [episode] = await rollout_async(
            [(task, asked.environments.of(question))],
            self.protocol,
            engine,
            sampling=Sampling(temperature=self.job.settings.temperature),
            budget=self.budget,
        )
        measured = MeasuredEpisode.of(episode, asked.environments)
        if not episode.trainable or not episode.generated_tokens:
            return WalkedQuestion(measured, None)
        progress = step / self.job.settings.steps
        outcome = Outcome(episode, measured.numbers, measured.complete, {}, step, progress, measured.web)
        return WalkedQuestion(measured, self.run.reward(outcome))


@functools.cache
def _walker(folder: str, tokenizer_name: str, tokenizer: PreTrainedTokenizerBase) -> QuestionWalker:
    return QuestionWalker(VerlJob.read(Path(folder)), tokenizer)


@register(NAME)
class KgwalkAgentLoop(AgentLoopBase):  # type: ignore[misc,unused-ignore]
    """verl makes one for each rollout; what takes time to open is opened once in a process."""

    async def run(self, sampling_params: dict[str, Any], **given: Any) -> WalkOutput | list[WalkOutput]:
        """`given` is the question's row as `verl_job` wrote it, with verl's step, group and number of the rollout."""
        about = given["extra_info"]
        split, number, place = str(about["split"]), int(about["number"]), int(about["place"])
        step, rollout = int(given["global_steps"]), int(given["session_id"])
        walker = _walker(str(self.config.kgwalk.folder), self.tokenizer.name_or_path, self.tokenizer)
        engine = VerlEngine(
            self.server_manager,
            walker.tokens,
            context=walker.job.context,
            parameters=sampling_params,
            rollout=str(self.rollout_config.name),
        )
        key = f"{walker.run.seed}:{step}:{place}:{rollout}"
        walked = await walker.walk(engine, split, number, key, step)
        row = {"step": step, "split": split, "place": place, "rollout": rollout, "group": str(given["uid"])}
        walker.rows.add({**row, **walked.row()})
        if walked.rewarded is None:
            return []
        numbers = {name: walked.measured.numbers[name] for name in WATCHED}
        return WalkOutput.of(walked.trainer_episode(), closing_id=walker.closing_id, steps=engine.steps, **numbers)
