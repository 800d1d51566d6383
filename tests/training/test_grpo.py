"""Reinforcement learning on a model so small that it learns in seconds: rewards rise, and odd groups do no harm."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from conftest import FILMS, store_of
from kgwalk.config.recipe import load_recipe
from kgwalk.config.run_folder import episode_from, read_rows
from kgwalk.evaluation.report import STEP_EPISODES
from kgwalk.kg.graph import Graph
from kgwalk.llm.engine import Sampling
from kgwalk.score.rewards import Outcome, RewardFunction, WeightedReward
from kgwalk.training.curriculum import Curriculum, CurriculumSettings
from kgwalk.training.grpo import Grpo
from kgwalk.training.loop import CheckpointPolicy, run_stage
from kgwalk.training.loss import Totals
from kgwalk.training.microbatch import Batch
from kgwalk.training.model import PolicyModel
from kgwalk.training.rollouts import VALIDATED, TrainingSet, Walker
from kgwalk.training.settings import GrpoSettings, ModelSettings
from kgwalk.training.updater import Processes
from kgwalk.types import Episode, KgwalkError, Question, StopReason
from kgwalk.walk.policy import protocol_of
from kgwalk.walk.rollout import Budget
from tiny_models import tiny_model
from training_helpers import difference, policy, same, sequences, stir, updater_of, weights_of, worlds_over

VANILLA = protocol_of(load_recipe("vanilla"))
QUESTIONS = [Question(str(n), word, ["Big"], ["x"]) for n, word in enumerate(("one", "two", "three", "four"))]


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    return store_of(tmp_path_factory.mktemp("films"), FILMS)


def reward_of(whole: Callable[[Outcome], float]) -> RewardFunction:
    return RewardFunction((), (WeightedReward("own", 1.0, whole),))


def even(outcome: Outcome) -> float:
    """The share of tokens with an even number."""
    ids = [number for turn in outcome.episode.turns for number in turn.ids]
    return sum(number % 2 == 0 for number in ids) / len(ids)


def grpo_of(
    graph: Graph,
    folder: Path,
    model: PolicyModel | None = None,
    *,
    reward: Callable[[Outcome], float] = even,
    lr: float = 1e-3,
    **settings: Any,
) -> Grpo:
    model = model or policy()
    values = {"steps": 30, "questions": 2, "group": 4, "advantage": "trajectory", **settings}
    own = GrpoSettings(**values)
    walker = Walker(model, VANILLA, Budget(turn_tokens=8))
    curriculum = Curriculum(QUESTIONS, CurriculumSettings(), batch=own.questions)
    training_set = TrainingSet(QUESTIONS, worlds_over(graph))
    return Grpo(updater_of(model, lr=lr), walker, training_set, reward_of(reward), curriculum, own, 0, folder)


def test_thirty_steps_raise_the_reward(graph: Graph, tmp_path: Path) -> None:
    """Half of the tokens are even at first; a model that is paid for even ones soon writes little else."""
    grpo = grpo_of(graph, tmp_path, policy(8), lr=0.03, questions=1, group=8, kl=0.001, clip_high=0.28)
    rows = [grpo.step(number) for number in range(1, 31)]
    rewards = [row["reward"] for row in rows]
    assert 0.3 < sum(rewards[:3]) / 3 < 0.7
    assert sum(rewards[-5:]) / 5 > 0.9
    assert rewards == [row["reward_own"] for row in rows]
    taught = [row for row in rows if row["updates"]]  # when all are even, a group teaches nothing
    assert taught[-1]["entropy"] < taught[0]["entropy"] / 2
    assert taught[-1]["kl"] > 0.1
    assert all(row["mismatch_max"] < 1e-4 and row["grad_norm"] > 0 for row in taught)  # the engine saw every update
    assert all(row["dropped_groups"] == 1 for row in rows if not row["updates"])
    assert rows[0]["episodes"] == 8
    assert all(row["computed"] < 0.8 for row in taught)  # eight rollouts of one question share its prompt
    parts = ("rollout", "reward", "pack", "update", "optimiser", "sync")
    assert all(row[f"{name}_seconds"] > 0 for name in parts[:-1] for row in taught)
    assert all(row["optimiser_seconds"] < row["update_seconds"] for row in taught)  # a part of it
    assert all(row["sync_seconds"] == 0 for row in rows)  # on a CPU the engine runs the very module
    grpo.walker.close()


def test_a_group_whose_rewards_are_the_same_teaches_nothing(graph: Graph, tmp_path: Path) -> None:
    grpo = grpo_of(graph, tmp_path, reward=lambda outcome: 0.7, kl=0.1, minibatches=2)
    before = weights_of(grpo.updater.model)
    row = grpo.step(1)
    assert row["dropped_groups"] == 2
    assert row["updates"] == 0
    assert "loss" not in row
    assert same(weights_of(grpo.updater.model), before)
    grpo.walker.close()


def test_the_loss_of_a_microbatch_does_not_depend_on_those_before_it(graph: Graph, tmp_path: Path) -> None:
    """The log-probabilities that stay fixed belong to the microbatch: it may be passed on in any order."""
    grpo = grpo_of(graph, tmp_path, kl=0.1, epochs=2, microbatch_tokens=1)
    flats = sequences(3)
    batches = grpo._prepare([(flat, [1.0] * len(flat.ids)) for flat in flats])
    assert len(batches) == 3
    stir(grpo.updater.model)  # after the first update the model is another one
    totals, updater = Totals.of(flat.mask for flat in flats), grpo.updater
    for batch in batches:
        assert batch.start_logprobs_BT is not None
        assert batch.ref_logprobs_BT is not None
        assert batch.start_logprobs_BT.shape == batch.ref_logprobs_BT.shape == batch.mask_BT.shape
        assert not torch.equal(batch.start_logprobs_BT, updater.score(batch).logprobs_BT)

    def losses(some: Sequence[Batch]) -> list[float]:
        return [grpo._loss(totals, batch, updater.score(batch))[0].item() for batch in some]

    assert losses(batches) == losses(batches[::-1])[::-1]
    grpo.walker.close()


def test_a_rollout_that_failed_is_left_out_of_its_group(graph: Graph, tmp_path: Path) -> None:
    """Two of four fail; the two that are left decide the mean. If all fail, the run stops and says why."""

    paid: list[StopReason] = []

    def pay(outcome: Outcome) -> float:
        paid.append(outcome.episode.stop)
        return even(outcome)

    def failing(which: Callable[[int], bool]) -> Grpo:
        grpo = grpo_of(graph, tmp_path, reward=pay)
        walk = grpo.walker.walk

        def failed(training_set: TrainingSet, asked: Sequence[tuple[int, str]], sampling: Sampling) -> list[Episode]:
            episodes = walk(training_set, asked, sampling)
            for number, episode in enumerate(episodes):
                if which(number):
                    episode.stop, episode.failure = StopReason.tool_failed, "the graph is away"
            return episodes

        grpo.walker.walk = failed  # type: ignore[method-assign]
        return grpo

    grpo = failing(lambda number: number % 2 == 0)
    row = grpo.step(1)
    assert (row["left_out"], row["episodes"], row["updates"]) == (4, 8, 1)
    assert len(paid) == 4
    assert StopReason.tool_failed not in paid  # no reward has to make sense of a failed episode
    with pytest.raises(KgwalkError, match="all 8 rollouts failed, the first with: the graph is away"):
        failing(lambda number: True).step(1)


def test_a_model_whose_numbers_overflow_stops_the_run(graph: Graph, tmp_path: Path) -> None:
    """Its weights are as they were in the last checkpoint, which the message names."""
    grpo = grpo_of(graph, tmp_path, steps=3)
    saving = CheckpointPolicy(save_every=1, keep=1, eval_every=0)
    step = grpo.step

    def broken(number: int) -> dict[str, float]:
        if number == 2:
            with torch.no_grad():
                next(iter(grpo.updater.model.parameters().values())).fill_(float("nan"))
        return step(number)

    grpo.step = broken  # type: ignore[method-assign]
    with pytest.raises(KgwalkError) as caught:
        run_stage(grpo.stage(), grpo.updater, tmp_path, saving, seed=0, card={}, resume=False, report_to="none")
    assert "training of grpo stopped in step 2: all 8 rollouts failed, the first with: " in str(caught.value)
    assert "NaN" in str(caught.value)
    assert str(caught.value).endswith(f"the last good checkpoint is {tmp_path}/checkpoint-1")


def test_an_advantage_that_is_no_number_stops_the_run_and_leaves_the_weights(graph: Graph, tmp_path: Path) -> None:
    def rich(outcome: Outcome) -> float:
        return 1e307 * even(outcome)  # four of them still have a sum; in float32 there is no such number

    grpo = grpo_of(graph, tmp_path, reward=rich, std=False)
    before = weights_of(grpo.updater.model)
    saving = CheckpointPolicy(save_every=1, keep=1, eval_every=0)
    with pytest.raises(KgwalkError, match="training of grpo stopped in step 1: the loss is "):
        run_stage(grpo.stage(), grpo.updater, tmp_path, saving, seed=0, card={}, resume=False, report_to="none")
    assert same(weights_of(grpo.updater.model), before)


def test_how_a_step_is_cut_changes_nothing_that_is_learnt(graph: Graph, tmp_path: Path) -> None:
    """Two epochs of two minibatches with a reference: in microbatches of one sequence, of some, of all."""
    flats = sequences(8)
    learnt = [(flat, [(1.0 - at / 3) * mark for mark in flat.mask]) for at, flat in enumerate(flats)]
    found, computed = {}, {}
    for tokens in (1, 64, 100_000):
        model = policy()
        grpo = grpo_of(graph, tmp_path, model, lr=1e-4, kl=0.05, epochs=2, minibatches=2, microbatch_tokens=tokens)
        stir(model, 0.02, seed=4)
        before = weights_of(model)
        numbers = grpo._learn(1, learnt)
        assert numbers["updates"] == 4
        assert numbers["kl"] > 0
        assert difference(weights_of(model), before) > 1e-4
        computed[tokens] = numbers.pop("computed")
        found[tokens] = weights_of(model), numbers
    for tokens in (64, 100_000):
        assert difference(found[tokens][0], found[1][0]) < 1e-5
        assert found[tokens][1] == pytest.approx(found[1][1], rel=1e-3, abs=1e-5)
    assert computed[1] == 1 < computed[64] <= computed[100_000]


def test_every_walk_is_the_same_whatever_the_engine_did_before(graph: Graph) -> None:
    """A resumed run has a new engine: what an old one holds, and how large its cache has grown, must not be seen."""
    model = policy()
    protocol = protocol_of(load_recipe("kg-r1").with_values(["protocol.turns=1"]))

    def walk(walker: Walker, count: int, key: str) -> list[list[float]]:
        training_set = TrainingSet(QUESTIONS, worlds_over(graph))
        asked = [(number % 4, f"{key} {number}") for number in range(count)]
        episodes = walker.walk(training_set, asked, Sampling(temperature=1.0, seed=1))
        return [turn.logprobs for episode in episodes for turn in episode.turns]

    budget = Budget(turn_tokens=6, observation_tokens=40)
    used, new = Walker(model, protocol, budget, batch=3), Walker(model, protocol, budget, batch=3)
    other = walk(used, 7, "other")  # so many that sessions lose their slots
    found = walk(used, 4, "same")
    assert found == walk(new, 4, "same")
    assert found != other[: len(found)]
    used.close()
    new.close()


class SlowGraph:
    """A graph behind a network, say: every answer takes a while that nobody knows beforehand."""

    def __init__(self, graph: Graph, seed: int) -> None:
        self._graph, self._chance = graph, random.Random(seed)
        self.threads: set[int] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._graph

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._graph, name)
        if not callable(found):
            return found

        def slow(*args: Any, **options: Any) -> Any:
            self.threads.add(threading.get_ident())
            time.sleep(self._chance.uniform(0, 0.01))
            return found(*args, **options)

        return slow


def test_a_slow_tool_changes_no_bit(graph: Graph) -> None:
    protocol = protocol_of(load_recipe("eog").with_values(["protocol.graph_tokens=60"]))
    found = []
    for seed in (1, 2):
        slow = SlowGraph(graph, seed)
        walker = Walker(policy(), protocol, Budget(turn_tokens=4))
        training_set = TrainingSet(QUESTIONS, worlds_over(slow))  # type: ignore[arg-type]
        episodes = walker.walk(training_set, [(n, str(n)) for n in range(4)], Sampling(temperature=1.0, seed=1))
        assert all(episode.stop == StopReason.turns for episode in episodes), episodes[0].failure
        assert slow.threads == {threading.get_ident()}
        found.append([turn.logprobs for episode in episodes for turn in episode.turns])
        walker.close()
    assert found[0] == found[1]


def test_a_failing_tool_fails_its_episode_in_place_too() -> None:
    class Away:
        def __contains__(self, name: str) -> bool:
            raise KgwalkError("the graph is away")

    walker = Walker(policy(), protocol_of(load_recipe("eog")), Budget(turn_tokens=4))
    training_set = TrainingSet(QUESTIONS, worlds_over(Away()))  # type: ignore[arg-type]
    episodes = walker.walk(training_set, [(0, "key")], Sampling())
    assert (episodes[0].stop, episodes[0].trainable) == (StopReason.tool_failed, False)
    assert "the graph is away" in str(episodes[0].failure)
    walker.close()


def test_validation_is_greedy_and_the_same_again(graph: Graph) -> None:
    walker = Walker(policy(), VANILLA, Budget(turn_tokens=5))
    training_set = TrainingSet(QUESTIONS[:3], worlds_over(graph))
    first = walker.validate(training_set, Processes("cpu"))
    assert first.keys() == set(VALIDATED)
    assert first["generated_tokens"] == 5
    assert walker.validate(training_set, Processes("cpu")) == first
    walker.close()


def test_episodes_are_written_once_a_step_whatever_was_written_before(graph: Graph, tmp_path: Path) -> None:
    grpo = grpo_of(graph, tmp_path, episodes=2)
    for number in (1, 2, 3):
        grpo.step(number)
    again = grpo_of(graph, tmp_path, episodes=2)  # after a kill: the checkpoint was of step 1
    again.curriculum.restore(grpo.curriculum.state() | {"step": 1})
    for number in (2, 3):
        again.step(number)
    rows = list(read_rows(tmp_path / STEP_EPISODES))
    assert [row["step"] for row in rows] == [1, 1, 2, 2, 3, 3]
    assert rows[0]["rewards"]["whole"] == rows[0]["rewards"]["parts"]["own"]
    assert episode_from(rows[0]["episode"]).key == "0:1:0:0"
    grpo_of(graph, tmp_path, episodes=0).step(1)
    assert len(list(read_rows(tmp_path / STEP_EPISODES))) == 6
    grpo.walker.close()


def test_questions_to_train_on_have_a_topic_and_an_answer(graph: Graph) -> None:
    good = Question("a", "?", ["Big"], ["x"])
    with pytest.raises(KgwalkError, match="there are no questions to train on"):
        TrainingSet([], worlds_over(graph))
    with pytest.raises(KgwalkError, match="question 'b' has no topic entity; `kgwalk data check` lists all such"):
        TrainingSet([good, Question("b", "?", [], ["x"])], worlds_over(graph))
    with pytest.raises(KgwalkError, match="question 'c' has no answer; `kgwalk data check` lists all such"):
        TrainingSet([good, Question("c", "?", ["Big"], [])], worlds_over(graph))
    # all of a kind is a start, and that the graph does not say is an answer
    films = Question("d", "how many films are there", [], ["3"], extra={"kinds": ["film"]})
    longest = Question(
        "f", "which runs longest", [], ["Big"], extra={"program": [["all", "film"], ["argmax", 1, "runtime"]]}
    )
    unsaid = Question("e", "what colour is it", [], [], extra={"answer_kind": "none"})
    nobody = Question(
        "g", "who directed nothing", [], [], extra={"program": [["all", "person"], ["none", 1, "directed"]]}
    )
    assert len(TrainingSet([good, films, longest, unsaid, nobody], worlds_over(graph)).questions) == 5


def test_the_engine_follows_a_model_with_all_weights_trained(graph: Graph, tmp_path: Path) -> None:
    model = PolicyModel(ModelSettings(name="tiny-llama", lora_rank=0), device="cpu", loaded=tiny_model())
    grpo = grpo_of(graph, tmp_path, model, kl=0.01, minibatches=2)
    rows = [grpo.step(number) for number in (1, 2)]
    assert all(row["mismatch_max"] < 1e-4 for row in rows)
    assert rows[1]["kl"] > 0
    grpo.walker.close()
