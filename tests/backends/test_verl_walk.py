"""The agent loop of verl: a question walked through verl's interface, and what verl is given of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("verl", reason="verl is not installed here: `make test-verl` runs these tests")

import torch
from omegaconf import OmegaConf
from transformers import AutoTokenizer, PreTrainedTokenizerBase
from verl.experimental.agent_loop.agent_loop import DictConfigWrap, _agent_loop_registry
from verl.utils.dataset.rl_dataset import RLHFDataset
from verl.workers.rollout.replica import TokenOutput

from kgwalk.config.recipe import load_recipe
from kgwalk.config.run_folder import begin_run, read_rows
from kgwalk.data.dataset import load_dataset
from kgwalk.llm.models import find_model
from kgwalk.llm.tokenizers import HfTokenizer
from kgwalk.training.backends.verl_credit import NAME
from kgwalk.training.backends.verl_walk import KgwalkAgentLoop, VerlEngine, WalkOutput
from kgwalk.types import EngineError, KgwalkError, Question

Said = Callable[[int], list[int]]  # the tokens of turn 0, 1, ...


class Server:
    """verl's client, as far as an agent loop sees it: token ids in, token ids and log-probabilities out."""

    def __init__(self, say: Said) -> None:
        self.say = say
        self.asked: list[tuple[list[int], dict[str, Any]]] = []

    async def generate(self, request_id: str, *, prompt_ids: list[int], sampling_params: dict[str, Any]) -> TokenOutput:
        self.asked.append((prompt_ids, sampling_params))
        ids = self.say(len(self.asked) - 1)
        steps = {"min_global_steps": 6, "max_global_steps": 6}
        logprobs = [-0.5] * len(ids)
        return TokenOutput(token_ids=ids, log_probs=logprobs, stop_reason="completed", extra_fields=steps)


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerBase:
    made: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(str(find_model("tiny-random").path))
    return made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    recipe = load_recipe("kg-r1").with_profile("smoke")
    data = load_dataset("world").place()
    about = {"recipe": "kg-r1", "sections": recipe.resolved(), "data": data, "split": "train", "dev": "dev"}
    with begin_run(tmp_path, "train", {**about, "limit": None, "seed": 3, "start": None}):
        return tmp_path


def one_hop() -> tuple[int, Question]:
    """A question of the bundled world that one query answers, and its number."""
    for number, question in enumerate(load_dataset("world").questions("train")):
        path = (question.gold_paths or [[]])[0]
        if len(path) == 1 and [path[0].tail] == question.answers:
            return number, question
    raise AssertionError("there is none")


def run(folder: Path, tokenizer: PreTrainedTokenizerBase, server: Server, number: int) -> WalkOutput | list[WalkOutput]:
    rollout = {"prompt_length": 4000, "response_length": 96, "name": "vllm"}
    config = OmegaConf.create({"actor_rollout_ref": {"rollout": rollout}, "data": {}, NAME: {"folder": str(folder)}})
    loop = KgwalkAgentLoop(
        trainer_config=DictConfigWrap(config),
        server_manager=server,
        tokenizer=tokenizer,
        processor=None,
        dataset_cls=RLHFDataset,
        data_config=DictConfigWrap(config.data),
        hf_model_type="llama",
    )
    about = {"split": "train", "number": number, "place": 2, "index": number}
    given = {"extra_info": about, "global_steps": 7, "session_id": 1, "uid": "u"}
    return asyncio.run(loop.run({"temperature": 1.0, "top_p": 1.0}, **given))


def letters(tokens: HfTokenizer, text: str) -> list[int]:
    """A token for each character: not what the tokenizer itself would make of the text."""
    return [number for letter in text for number in tokens.encode(letter)]


def test_verl_finds_the_loop_by_its_name() -> None:
    assert _agent_loop_registry[NAME]["_target_"] == "kgwalk.training.backends.verl_walk.KgwalkAgentLoop"


def test_a_walk(folder: Path, tokenizer: PreTrainedTokenizerBase) -> None:
    """A query that is answered, then the right answer: r = 1 and 1, R = F1 + retrieval = 2."""
    number, question = one_hop()
    [fact] = question.gold_paths[0]  # type: ignore[index]
    tokens = HfTokenizer(tokenizer)
    query = f'<think>.</think><kg-query>get_tail_entities("{fact.head}", "{fact.relation}")</kg-query>'
    answer = f'<think>.</think><answer>["{fact.tail}"]</answer>'
    first, second = letters(tokens, query), letters(tokens, answer)
    assert first != tokens.encode(query)
    after = letters(tokens, " and more")  # a server that looks for stop texts late, or not at all
    server = Server(lambda turn: [*first, *after] if turn == 0 else second)

    output = run(folder, tokenizer, server, number)

    assert isinstance(output, WalkOutput)
    (prompt, parameters), (context, _) = server.asked
    assert parameters["max_tokens"] == 48
    assert parameters["stop"] == ["</kg-query>", "</answer>"]
    assert parameters["stop_token_ids"] == sorted(tokens.end_ids)
    told = len(context) - len(prompt) - len(first)  # tokens of the observation
    assert told > 0
    assert output.prompt_ids == prompt
    assert context[len(prompt) : len(prompt) + len(first)] == first  # as they came: neither cut into others nor joined
    assert output.response_ids == [*context[len(prompt) :], *second, tokenizer.eos_token_id]
    assert output.response_mask == [*[1] * len(first), *[0] * told, *[1] * len(second), 0]
    fields = output.as_dict()
    places = fields["rm_scores"].nonzero()[:, 0].tolist()
    assert places == [len(first) - 1, len(first) + told + len(second) - 1, len(first) + told + len(second)]
    assert fields["rm_scores"][places].tolist() == [1.0, 1.0, 2.0]
    assert fields["rollout_log_probs"].tolist() == [-0.5 * one for one in output.response_mask]
    assert fields["extra_fields"]["min_global_steps"] == 6
    assert fields["rm_scores"].dtype == torch.float32
    [row] = rows(folder)
    assert (row["step"], row["place"], row["rollout"], row["group"], row["trained"]) == (7, 2, 1, "u", True)
    assert (row["id"], row["stop"], row["metrics"]["f1"]) == (question.id, "answered", 1.0)
    assert (row["rewards"]["turns"], row["rewards"]["whole"]) == ([1.0, 1.0], 2.0)


def rows(folder: Path) -> list[dict[str, Any]]:
    [file] = (folder / "grpo" / "walks").glob("*.jsonl")
    return list(read_rows(file))


def test_a_walk_that_failed_is_counted_and_not_given_back(folder: Path, tokenizer: PreTrainedTokenizerBase) -> None:
    def away(turn: int) -> list[int]:
        raise ConnectionError("the server is away")

    assert run(folder, tokenizer, Server(away), 0) == []
    [row] = rows(folder)
    assert (row["trained"], row["stop"], row["rewards"]) == (False, "engine_failed", {})
    assert row["failure"] == "verl's server failed: ConnectionError: the server is away"


def test_constrained_walks_are_sampled_freely(folder: Path, tokenizer: PreTrainedTokenizerBase) -> None:
    """verl computes probabilities among all tokens, so no grammar may have a say in what is drawn."""
    recipe = load_recipe("kgwalk").with_profile("smoke")
    assert recipe.section("protocol")["constrain"] is True
    data = load_dataset("world").place()
    about = {"recipe": "kgwalk", "sections": recipe.resolved(), "data": data, "split": "train", "dev": "dev"}
    tokens = HfTokenizer(tokenizer)
    with begin_run(folder / "other", "train", {**about, "limit": None, "seed": 3, "start": None}):
        output = run(folder / "other", tokenizer, Server(lambda turn: tokens.encode("no call of any language")), 0)
    assert isinstance(output, WalkOutput)
    assert output.response_mask[0] == 1


def generated(tokenizer: PreTrainedTokenizerBase, **output: Any) -> None:
    """One request to a server that gives this output."""
    from kgwalk.llm.engine import Request, Sampling

    class Odd:
        async def generate(self, **_: Any) -> TokenOutput:
            return TokenOutput(**{"token_ids": [5], "log_probs": [-1.0], "stop_reason": "completed", **output})

    engine = VerlEngine(Odd(), HfTokenizer(tokenizer), context=100, parameters={})
    asyncio.run(engine.generate(Request([1, 2], [], Sampling(), session="s")))


def test_a_server_that_says_too_little_is_a_failure(tokenizer: PreTrainedTokenizerBase) -> None:
    with pytest.raises(EngineError, match="no log-probabilities; set rollout"):
        generated(tokenizer, log_probs=None)
    with pytest.raises(EngineError, match="gave 0 tokens and stopped: aborted"):
        generated(tokenizer, token_ids=[], log_probs=[], stop_reason="aborted")
    generated(tokenizer)


def test_turns_that_touch_stop_the_walk() -> None:
    from kgwalk.training.backends.exchange import TrainerEpisode

    touching = TrainerEpisode([5], [7, 8], [1, 1], [0.0] * 2, [0, 1], [0.5, 1.0], 2.0, True)
    with pytest.raises(KgwalkError, match="the protocol must tell the model something after every call"):
        WalkOutput.of(touching, closing_id=0)
