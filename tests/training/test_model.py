"""The model that is trained, and its updates: what adds up, what the engine sees, what the reference is, what loads."""

from __future__ import annotations

import doctest
import shutil
from pathlib import Path
from typing import NamedTuple

import orjson
import pytest
import torch

from conftest import FILMS, store_of
from kgwalk.config.recipe import load_recipe
from kgwalk.llm.engine import Sampling
from kgwalk.llm.models import load_model
from kgwalk.training import memory
from kgwalk.training.logprobs import TokenScores
from kgwalk.training.loss import LossStats, Totals, policy_loss, token_weights
from kgwalk.training.microbatch import Batch, collate, pack
from kgwalk.training.model import PolicyModel
from kgwalk.training.rollouts import TrainingSet, Walker
from kgwalk.training.settings import ModelSettings, SftSettings
from kgwalk.training.sft import Sft
from kgwalk.training.updater import Diverged, Updater
from kgwalk.types import Episode, Flat, KgwalkError, Question
from kgwalk.walk.policy import protocol_of
from kgwalk.walk.rollout import Budget
from tiny_models import save_tiny, tiny_model
from training_helpers import Weights, difference, policy, same, sequences, stir, updater_of, weights_of, worlds_over

# How eight sequences are cut: all at once, one at a time, those of like length together, and as they come.
FLATS = sequences(8)
LR = 1e-4  # the first steps of Adam are as long as the rate, however small a gradient is: rounding is told apart
CUTS: dict[str, list[list[int]]] = {
    "1x8": [list(range(8))],
    "8x1": [[at] for at in range(8)],
    "by length": [one.members for one in pack(FLATS, None, budget=64, pad_id=0)],
    "as they come": [[7, 2], [5, 0, 3], [1], [6, 4]],
}


def _batch(cut: list[int]) -> Batch:
    advantages = [[(0.5 + at) * (-1) ** at * mark for mark in FLATS[at].mask] for at in cut]
    return collate([FLATS[at] for at in cut], advantages, 0)


class Updated(NamedTuple):
    """After two updates: the weights, the optimiser's mean of the gradients, and each update's numbers."""

    weights: Weights
    gradients: Weights
    numbers: list[float]

    def is_like(self, other: Updated) -> bool:
        largest = max(float(value.abs().max()) for value in other.gradients.values())
        return (
            difference(self.weights, other.weights) < 1e-5
            and difference(self.gradients, other.gradients) < 1e-5 * largest
            and self.numbers == pytest.approx(other.numbers, rel=1e-5, abs=1e-5)
        )


def _updated(updater: Updater, numbers: list[float]) -> Updated:
    state = updater.optimiser.state_dict()["state"]
    return Updated(weights_of(updater.model), {str(n): one["exp_avg"] for n, one in state.items()}, numbers)


def _after_policy_updates(cuts: list[list[int]], aggregation: str) -> Updated:
    model = policy()
    updater = updater_of(model, lr=LR)
    model.keep_reference()
    stir(model, 0.01, seed=2)
    watched: list[float] = []
    totals = Totals.of(flat.mask for flat in FLATS)
    batches = [_batch(cut) for cut in cuts]
    old = [updater.score(batch).logprobs_BT for batch in batches]
    with model.reference():
        ref = [updater.score(batch).logprobs_BT for batch in batches]
    for _ in range(2):
        fixed = iter(zip(old, ref, strict=True))

        def loss_of(batch: Batch, scores: TokenScores, fixed=fixed) -> tuple[torch.Tensor, LossStats]:  # type: ignore[no-untyped-def]
            old_BT, ref_BT = next(fixed)
            return policy_loss(
                scores.logprobs_BT,
                old_BT,
                batch.advantages_BT,
                batch.mask_BT,
                token_weights(aggregation, batch.mask_BT, totals, constant=64.0),
                clip_low=0.2,
                clip_high=0.28,
                kl=0.05,
                ref_BT=ref_BT,
                sampler_BT=batch.old_logprobs_BT,
                importance_cap=2.0,
                entropy_BT=scores.entropy_BT,
            )

        numbers, tally = updater.update(batches, loss_of, entropy=True)
        assert numbers["grad_norm"] > 0
        assert tally is not None
        assert int(tally.tokens) == totals.tokens
        watched += [*numbers.values(), *tally.report().values()]
    return _updated(updater, watched)


@pytest.mark.parametrize("aggregation", ["token-mean", "sequence-mean", "sequence-sum-constant"])
def test_how_a_batch_is_cut_changes_no_policy_update(aggregation: str) -> None:
    found = {name: _after_policy_updates(cuts, aggregation) for name, cuts in CUTS.items()}
    start = policy()
    stir(start, 0.01, seed=2)
    assert difference(found["1x8"].weights, weights_of(start)) > LR
    for name, updated in found.items():
        assert updated.is_like(found["1x8"]), name


def test_how_a_batch_is_cut_changes_no_sft_update() -> None:
    found, losses = {}, {}
    for tokens in (1, 64, 100_000):  # one at a time, by length, all at once
        updater = updater_of(policy(), lr=LR)
        settings = SftSettings(batch=8, epochs=2, microbatch_tokens=tokens)
        sft = Sft(updater, FLATS, [str(at) for at in range(8)], settings, seed=0)
        assert sft.steps == 2
        numbers = [sft.step(step) for step in (1, 2)]
        assert [row["tokens"] for row in numbers] == [sum(map(sum, (flat.mask for flat in FLATS)))] * 2
        found[tokens] = _updated(updater, [row[name] for row in numbers for name in ("loss", "grad_norm")])
        losses[tokens] = sft.losses
    assert difference(found[1].weights, weights_of(policy())) > LR
    for tokens in found:
        assert found[tokens].is_like(found[1]), tokens
        assert losses[tokens] == pytest.approx(losses[1], abs=1e-4)
        assert losses[tokens].keys() == {str(at) for at in range(8)}


def test_demonstrations_of_one_question_share_its_prompt() -> None:
    """Three of 3 + 2 tokens: 3 + 3 * 2 = 9 are computed of 15, and each has the loss that it has alone."""
    losses = []
    for shared in (True, False):
        updater = updater_of(policy())
        updater.scorer.takes_trees = shared
        sft = Sft(updater, sequences_of_one_prompt(), list("abc"), SftSettings(batch=3), seed=0)
        assert sft.step(1)["computed"] == (9 / 15 if shared else 1)
        losses.append(sft.losses)
    assert losses[0].keys() == {"a", "b", "c"}
    assert len({round(loss, 3) for loss in losses[0].values()}) == 3
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)


def test_every_demonstration_is_seen_once_an_epoch_in_an_order_of_its_own() -> None:
    sft = Sft(updater_of(policy()), sequences(7), list("abcdefg"), SftSettings(batch=3, epochs=2), seed=5)
    epochs = [[index for step in steps for index in sft.chosen(step)] for steps in ((1, 2, 3), (4, 5, 6))]
    assert [sorted(epoch) for epoch in epochs] == [list(range(7))] * 2
    assert epochs[0] != epochs[1]
    with pytest.raises(KgwalkError, match="there are no demonstrations to learn from"):
        Sft(updater_of(policy()), [], [], SftSettings(), seed=0)


def test_a_loss_that_is_no_number_or_explodes_leaves_the_weights_alone() -> None:
    model = policy()
    updater = updater_of(model, most_loss=100.0)
    before = weights_of(model)
    for factor, said in ((float("nan"), "the loss is nan"), (float("inf"), "the loss is inf"), (1e3, "the loss is ")):
        with pytest.raises(Diverged, match=said):
            updater.update([_batch([0, 1])], lambda batch, scores: (-scores.logprobs_BT.sum() * factor, None))  # noqa: B023
    assert same(weights_of(model), before)
    assert not updater.optimiser.state_dict()["state"]  # nor has the optimiser seen anything
    updater.update([_batch([0])], lambda batch, scores: (-scores.logprobs_BT.mean(), None))
    assert not same(weights_of(model), before)


def _episodes(walker: Walker, folder: Path) -> list[Episode]:
    store = store_of(folder, FILMS)
    training_set = TrainingSet(
        [Question(str(n), f"Who directed {n}?", ["Big"], ["x"]) for n in range(6)], worlds_over(store)
    )
    asked = [(number % 6, f"key {number}") for number in range(7)]
    return walker.walk(training_set, asked, Sampling(temperature=1.0, seed=3))


@pytest.mark.parametrize("rank", [4, 0])
def test_the_engine_and_the_trainer_give_the_same_log_probabilities(rank: int, tmp_path: Path) -> None:
    """Over several turns with observations between them, before and after an update, in float32."""
    model = policy(rank)
    updater = updater_of(model)
    budget = Budget(turn_tokens=6, observation_tokens=32, total_tokens=1000)
    protocol = protocol_of(load_recipe("kg-r1").with_values(["protocol.turns=2"]))
    walker = Walker(model, protocol, budget, batch=3)
    seen: list[list[float]] = []
    for _ in range(2):
        episodes = _episodes(walker, tmp_path)
        assert all(len(episode.turns) == 3 and episode.turns[0].observation_ids for episode in episodes)
        flats = [episode.flatten() for episode in episodes]
        batch = collate(flats, None, 0)
        scored = updater.score(batch).logprobs_BT
        assert float((scored - batch.old_logprobs_BT)[batch.mask_BT].abs().max()) < 1e-4
        assert float(scored[batch.mask_BT].abs().min()) > 0
        seen.append(flats[0].logprobs)
        updater.update([batch], lambda batch, scores: (scores.logprobs_BT.sum() / 100, None), rate=10)
    assert seen[0] != seen[1]
    walker.close()


def test_dropout_is_off_in_rollouts_of_a_model_that_was_just_made(tmp_path: Path) -> None:
    """peft makes its layers in training mode: the engine must not roll out with their dropout."""
    model = policy(lora_dropout=0.5)
    assert not any(module.training for module in model.module.modules())
    walker = Walker(model, protocol_of(load_recipe("vanilla")), Budget(turn_tokens=8))
    batch = collate([episode.flatten() for episode in _episodes(walker, tmp_path)], None, 0)
    scored = updater_of(model).score(batch).logprobs_BT
    assert float((scored - batch.old_logprobs_BT)[batch.mask_BT].abs().max()) < 1e-4
    walker.close()


def test_with_the_adapter_off_it_is_the_base_model_exactly() -> None:
    model = policy(stirred=False)
    updater, batch = updater_of(model), _batch([0, 1, 2])
    base = updater_of(PolicyModel(ModelSettings(name="tiny-llama", lora_rank=0), device="cpu", loaded=tiny_model()))
    before = base.score(batch).logprobs_BT
    model.keep_reference()
    assert torch.equal(updater.score(batch).logprobs_BT, before)  # B is 0: it adds exactly 0
    stir(model)
    moved = weights_of(model)
    assert not torch.allclose(updater.score(batch).logprobs_BT, before, atol=1e-3)
    with model.reference():
        assert torch.equal(updater.score(batch).logprobs_BT, before)
    assert same(weights_of(model), moved)


@pytest.mark.parametrize("rank", [4, 0])
def test_the_reference_is_the_model_as_it_was_when_it_was_kept(rank: int) -> None:
    model = policy(rank)
    updater, batch = updater_of(model), _batch([3, 4])
    with pytest.raises(KgwalkError, match="there is no reference"), model.reference():
        pass
    before = updater.score(batch).logprobs_BT
    model.keep_reference()
    stir(model, seed=9)
    moved, after = weights_of(model), updater.score(batch).logprobs_BT
    assert not torch.equal(after, before)

    def look(*, fail: bool) -> None:
        with model.reference():
            assert torch.equal(updater.score(batch).logprobs_BT, before)
            if fail:
                raise KeyError("in the middle")

    look(fail=False)
    with pytest.raises(KeyError):
        look(fail=True)
    assert same(weights_of(model), moved)
    assert torch.equal(updater.score(batch).logprobs_BT, after)


def test_a_new_adapter_comes_from_the_seed_alone() -> None:
    def drawn(seed: int) -> Weights:
        torch.manual_seed(len(tried))  # whatever torch's own generator has done before
        tried.append(seed)
        return weights_of(policy(stirred=False, seed=seed))

    tried: list[int] = []
    first, again, other = drawn(0), drawn(0), drawn(1)
    assert same(first, again)
    assert difference(first, other) > 0.01
    torch.manual_seed(4)
    expected = torch.rand(3)
    loaded = tiny_model()
    torch.manual_seed(4)
    PolicyModel(ModelSettings(lora_rank=4), device="cpu", loaded=loaded)
    assert torch.equal(torch.rand(3), expected)  # and leaves that generator as it was


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A model's folder, and the adapter of one that has learnt something."""
    folder = tmp_path_factory.mktemp("saved")
    base = save_tiny(folder / "base")
    model = PolicyModel(ModelSettings(name=str(base), lora_rank=4, lora_alpha=8.0), device="cpu")
    stir(model)
    model.save(folder / "adapter", {"recipe": "kgwalk"})
    return base, folder / "adapter"


def test_what_is_saved_is_loaded_again_here_and_by_the_engine(saved: tuple[Path, Path]) -> None:
    base, adapter = saved
    settings = ModelSettings(name=str(base), lora_rank=4, lora_alpha=8.0)
    model = PolicyModel(settings, device="cpu", start=adapter)
    fresh = PolicyModel(settings, device="cpu")
    assert difference(weights_of(model), weights_of(fresh)) > 0.01
    again = PolicyModel(settings, device="cpu", start=adapter)
    assert same(weights_of(model), weights_of(again))
    ids = torch.tensor([FLATS[0].ids])
    merged = load_model(base, adapter=adapter).module
    assert torch.allclose(merged(ids).logits, model.trained(ids).logits, atol=1e-4)
    assert not torch.allclose(merged(ids).logits, load_model(base).module(ids).logits, atol=1e-2)
    assert orjson.loads((adapter / "kgwalk.json").read_bytes()) == {"base_model": str(base), "recipe": "kgwalk"}
    assert not (adapter / "README.md").exists()


def test_a_whole_model_is_saved_and_loaded_too(saved: tuple[Path, Path], tmp_path: Path) -> None:
    base, adapter = saved
    settings = ModelSettings(name=str(base), lora_rank=0)
    model = PolicyModel(settings, device="cpu")
    stir(model)
    model.save(tmp_path / "whole", {})
    again = PolicyModel(settings, device="cpu", start=tmp_path / "whole")
    assert same(weights_of(model), weights_of(again))
    ids = torch.tensor([FLATS[0].ids])
    assert torch.equal(load_model(tmp_path / "whole").module(ids).logits, model.module.eval()(ids).logits)
    with pytest.raises(KgwalkError, match=r"has no model\.safetensors; with lora_rank = 0 a whole model is needed"):
        model.load(adapter)


def _changed(adapter: Path, folder: Path, file: str, **values: object) -> Path:
    shutil.copytree(adapter, folder)
    path = folder / file
    path.write_bytes(orjson.dumps(orjson.loads(path.read_bytes()) | values))
    return folder


def test_an_adapter_of_something_else_is_refused(saved: tuple[Path, Path], tmp_path: Path) -> None:
    base, adapter = saved

    def start(folder: Path, **settings: object) -> None:
        own = {"name": str(base), "lora_rank": 4, "lora_alpha": 8.0, **settings}
        PolicyModel(ModelSettings(**own), device="cpu", start=folder)  # type: ignore[arg-type]

    with pytest.raises(KgwalkError, match="of rank 4 and alpha 8, and this run is of rank 8 and alpha 8"):
        start(adapter, lora_rank=8)
    with pytest.raises(KgwalkError, match="of rank 4 and alpha 8, and this run is of rank 4 and alpha 16; set model"):
        start(adapter, lora_alpha=16.0)
    with pytest.raises(KgwalkError, match="there is no folder"):
        start(tmp_path / "none")
    with pytest.raises(KgwalkError, match=r"is no adapter: it has no adapter_model\.safetensors"):
        start(base)
    other = _changed(adapter, tmp_path / "other", "kgwalk.json", base_model="another")
    with pytest.raises(KgwalkError, match="was trained from another, and this run is of"):
        start(other)
    # without kgwalk.json, as another program saves adapters, names and shapes tell
    foreign = _changed(adapter, tmp_path / "foreign", "adapter_config.json", use_rslora=True)
    (foreign / "kgwalk.json").unlink()
    with pytest.raises(KgwalkError, match=r"alpha 8 \(rsLoRA\)"):
        start(foreign)
    wide = tmp_path / "wide"
    large = tiny_model("llama", hidden_size=128)
    PolicyModel(ModelSettings(lora_rank=4, lora_alpha=8.0), device="cpu", loaded=large).save(wide, {})
    (wide / "kgwalk.json").unlink()
    with pytest.raises(KgwalkError, match=r"is of another model or rank: .* is \(4, 128\), not \(4, 64\)"):
        start(wide)
    deep = tmp_path / "deep"
    more = tiny_model("llama", num_hidden_layers=4)
    PolicyModel(ModelSettings(lora_rank=4, lora_alpha=8.0), device="cpu", loaded=more).save(deep, {})
    (deep / "kgwalk.json").unlink()
    with pytest.raises(KgwalkError, match=r"is of another model or adapter than .*: it has .*layers\.3\..*has not"):
        start(deep)
    cut = tmp_path / "cut"
    shutil.copytree(adapter, cut)
    (cut / "adapter_model.safetensors").write_bytes((adapter / "adapter_model.safetensors").read_bytes()[:-10])
    with pytest.raises(KgwalkError, match="cannot be read: "):
        start(cut)


def test_passes_in_bfloat16_learn_the_same_direction_and_leave_the_weights_in_float32() -> None:
    """As on a GPU: the adapter's weights are float32, and compute in the type of the model they are in."""
    found = []
    with torch.backends.mkldnn.flags(enabled=False):  # whose bfloat16 kernels some processors do not have
        for dtype in ("float32", "bfloat16"):
            model = policy()
            model.dtype = dtype
            updater = updater_of(model)
            assert updater.scorer.takes_trees
            packed = updater.pack([FLATS[0], *sequences_of_one_prompt()], None, 1000)
            updater.update([batch for _, batch in packed], lambda batch, scores: (-scores.logprobs_BT.mean(), None))
            state = updater.optimiser.state_dict()["state"]
            found.append(torch.cat([one["exp_avg"].flatten() for one in state.values()]))
            assert {value.dtype for value in model.parameters().values()} == {torch.float32}
    assert found[0].dtype == found[1].dtype == torch.float32
    assert 0.99 < float(torch.cosine_similarity(*found, dim=0)) < 0.999999


def sequences_of_one_prompt() -> list[Flat]:
    return [Flat([7, 8, 9, *ids], [0, 0, 0, 1, 1], [0.0] * 5, []) for ids in ([10, 11], [12, 13], [14, 15])]


def test_a_microbatch_has_as_many_tokens_as_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    free = memory.free_bytes("cpu")  # once: other programs take and give memory between two looks
    monkeypatch.setattr(memory, "free_bytes", lambda device: free)
    model = policy()
    updater = updater_of(model)
    updater.expect(1000)
    assert updater.most == 1000
    updater.expect(10**9)  # tokens: no machine that runs this has a terabyte
    assert updater.most == 2048 < memory.tokens_that_fit(updater.scorer, "cpu") < 10**9  # a processor wants no more
    updater.on_gpu = True
    updater.expect(10**9)
    assert updater.most == memory.tokens_that_fit(updater.scorer, "cpu")
    assert not model.checkpointing


def test_activations_are_computed_twice_where_only_few_tokens_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    model = policy()
    updater = updater_of(model)
    room = memory.LOGITS * memory.CHUNK * len(model.tokens.hf) * 4
    monkeypatch.setattr(memory, "free_bytes", lambda device: room + 1_000_000)
    assert 0 < memory.tokens_that_fit(updater.scorer, "cpu") < 1024
    updater.expect(100_000)
    assert (model.checkpointing, updater.most) == (True, 2048)
    model = policy()
    updater = updater_of(model)
    monkeypatch.setattr(memory, "free_bytes", lambda device: room + 1_000_000_000)
    updater.expect(100_000)
    fit = memory.tokens_that_fit(updater.scorer, "cpu")
    assert not model.checkpointing
    long = Flat([1] * (fit + 1), [0] * fit + [1], [0.0] * (fit + 1), [])  # alone, whatever the budget
    updater.pack([long], None, 100_000)
    assert model.checkpointing
    for chosen in (True, False):
        model = policy(checkpoint_activations=chosen)
        updater_of(model).expect(10**9)
        assert model.checkpointing is chosen


def test_what_a_pass_keeps_is_counted() -> None:
    result = doctest.testmod(memory)
    assert (result.failed, result.attempted) == (0, 2)
    scorer = updater_of(policy()).scorer
    each = memory.bytes_a_token(scorer, "cpu")
    assert 3 * 64 * 4 * 7 < each < 1_000_000  # three layers of width 64 keep the inputs of seven matrices, and more
    left = memory.free_bytes("cpu") - memory.LOGITS * memory.CHUNK * scorer.model.config.vocab_size * 4
    assert memory.tokens_that_fit(scorer, "cpu") == int(left / (each * memory.PEAK))
    assert 1e8 < memory.free_bytes("cpu") < 1e14


def test_how_many_pairs_are_worth_a_token() -> None:
    """The tiny Llama's layer: queries and outputs 64 x 64, keys and values 64 x 32, three matrices of 64 x 128. Its
    four heads of 16 multiply 64 numbers for a pair, twice: 36,864 / 128 = 288.
    """
    loaded = PolicyModel(ModelSettings(name="tiny-llama", lora_rank=0), device="cpu", loaded=tiny_model())
    assert memory.pairs_a_token(updater_of(loaded).scorer) == 288


def test_activations_may_be_computed_again_instead_of_kept() -> None:
    found = []
    for again in (False, True):
        model = policy(checkpoint_activations=again)
        numbers, _ = updater_of(model).update(
            [_batch([0, 1])], lambda batch, scores: (-scores.logprobs_BT.mean(), None)
        )
        found.append((numbers["grad_norm"], weights_of(model)))
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-5)
    assert difference(found[0][1], found[1][1]) < 1e-6


@pytest.mark.parametrize("rank", [0, 4])
def test_a_copy_for_the_engine_has_the_weights_as_they_are(rank: int, tmp_path: Path) -> None:
    model = PolicyModel(ModelSettings(name=str(save_tiny(tmp_path / "tiny")), lora_rank=rank), device="cpu")
    with torch.no_grad():
        for value in model.parameters().values():
            value.add_(0.01 * torch.randn(value.shape, generator=torch.Generator().manual_seed(1)))
    copy = load_model(model.name)
    model._refresh(copy.module)
    ids = torch.tensor([[5, 6, 7, 8]])
    with torch.no_grad():
        assert torch.allclose(copy.module(ids).logits, model.trained(ids).logits, atol=1e-5)
