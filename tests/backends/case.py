"""One update by the native trainer, written to files: what TRL and verl must compute as well.

    python tests/backends/case.py FOLDER          # makes what is missing, in about half a minute

    FOLDER/kg-r1/            credit by turns, sequence-sum-constant, KL
    FOLDER/eog/              credit by walks, sequence-mean
      case.json              settings of [grpo], groups of episodes (`TrainerEpisode`), their token advantages
      model/                 a tiny Llama that has learnt a few demonstrations by heart; it sampled the walks
      reference/             the same, moved a little: the reference of the KL term in the second pair of files
      gradient.safetensors   of the loss, before clipping; the reference is `model` itself, as in a run's first step
      weights.safetensors    after one step of AdamW along it
      gradient-moved.safetensors, weights-moved.safetensors    with `reference`: here the KL term has a gradient

The walks are real ones of the recipe's protocol over the bundled world, sampled at temperature 1. In each case one
episode is marked as failed, and one group as earning all the same, since both must be left out. Settings over the
recipe's: one update (`epochs` = `minibatches` = 1), and a rate at which a step can be seen.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from kgwalk.config.recipe import Recipe, load_recipe, read_section
from kgwalk.data.mixture import load_data
from kgwalk.score.rewards import Rewarded, RewardFunction
from kgwalk.training.advantages import group_credit
from kgwalk.training.backends.exchange import TrainerEpisode, token_credit
from kgwalk.training.collect import UNPAID, Rollout
from kgwalk.training.curriculum import Curriculum, CurriculumSettings, TrainingSet
from kgwalk.training.grpo import Grpo, _sequences
from kgwalk.training.loss import Totals
from kgwalk.training.model import PolicyModel
from kgwalk.training.pipeline import train
from kgwalk.training.rollouts import Walker
from kgwalk.training.settings import GrpoSettings, ModelSettings
from kgwalk.training.updater import Updater
from kgwalk.types import StopReason
from kgwalk.walk.environment import environment_for, environments_of
from kgwalk.walk.policy import budget_of, protocol_of

RECIPES = ("kg-r1", "eog")
GROUPS, SIZE = 4, 4
VALUES = (
    "grpo.epochs=1",
    "grpo.minibatches=1",
    "grpo.lr=1e-3",
    f"grpo.questions={GROUPS}",
    f"grpo.group={SIZE}",
    "grpo.warmup=0",
    "grpo.importance_cap=1e9",  # no cap: the weights are 1 up to rounding, and outside trainers need not know of them
)
MOVED = 0.01  # the standard deviation of what the reference was moved by
TOLERANCE = 1e-5  # relative: what outside trainers must keep


def recipe_of(name: str) -> Recipe:
    """The recipe of a case, with the values that it has over the recipe's own."""
    return load_recipe(name).with_profile("smoke").with_values(VALUES)


def make_case(name: str, folder: Path) -> Path:
    """The folder of one recipe's case, made unless it is there whole."""
    place = folder / name
    if (place / "case.json").exists():  # written last
        return place
    place.mkdir(parents=True, exist_ok=True)
    recipe = recipe_of(name)
    taught = place / "taught"
    stages = "train.stages=['demos', 'sft']"
    train(recipe, "world", out=taught, values=[stages], device="cpu", report_to="none", force=True)
    _copy(taught / "adapter", place / "model")
    settings = read_section(GrpoSettings, recipe, "grpo")
    grpo = _grpo(recipe, place / "model", settings, place)
    groups = _spoilt(grpo.collector.collect(1))
    model = grpo.updater.model
    pad = model.tokens.hf.pad_token_id or 0
    episodes = [[TrainerEpisode.of(one.episode, one.rewards, pad_id=pad) for one in group] for group in groups]
    credit = token_credit(episodes, settings)
    assert 0 < credit.learnt_from < GROUPS * SIZE
    start = {key: value.clone() for key, value in model.weights().items()}
    _stir(model)
    _save_model(model, place / "reference")
    for suffix, reference in (("", place / "model"), ("-moved", place / "reference")):
        model.load_weights(start, "the start")
        _one_update(recipe, place, settings, groups, reference, suffix)
    grpo.walker.close()
    rows = [
        [{**one.as_json(), "advantages": values} for one, values in zip(group, per_group, strict=True)]
        for group, per_group in zip(episodes, credit.advantages, strict=True)
    ]
    about = {"recipe": name, "settings": asdict(settings), "pad_id": pad, "temperature": settings.temperature}
    (place / "case.json").write_text(json.dumps({**about, "groups": rows}), "utf-8")
    return place


def read_case(place: Path) -> tuple[GrpoSettings, list[list[TrainerEpisode]], list[list[list[float] | None]]]:
    """Settings, groups of episodes, and the advantage of each token of their completions (None: left out)."""
    about = json.loads((place / "case.json").read_text("utf-8"))
    episodes = [[TrainerEpisode.from_json(row) for row in group] for group in about["groups"]]
    return (
        GrpoSettings(**about["settings"]),
        episodes,
        [[row["advantages"] for row in group] for group in about["groups"]],
    )


def difference(found: dict[str, torch.Tensor], file: Path) -> float:
    """The norm of the difference from the tensors of a file, over the norm of these.

    Names are compared without what wrappers put before them; a head that is tied to the embeddings is passed over.
    """
    wanted = load_file(str(file))
    own = {key.removeprefix("module.").removeprefix("_fsdp_wrapped_module."): value for key, value in found.items()}
    own.pop("lm_head.weight", None) if "lm_head.weight" not in wanted else None
    assert own.keys() == wanted.keys(), sorted(own.keys() ^ wanted.keys())
    apart = torch.stack([(own[key].double() - value.double()).norm() for key, value in wanted.items()]).norm()
    return float(apart / torch.stack([value.double().norm() for value in wanted.values()]).norm())


def moved_by(found: dict[str, torch.Tensor], place: Path, suffix: str = "") -> float:
    """How far the step from `model` to these weights is from the native one, relative to its length: stricter than to
    compare weights, most of which hardly move."""
    start = load_file(str(place / "model" / "model.safetensors"))
    wanted = load_file(str(place / f"weights{suffix}.safetensors"))
    own = {key.removeprefix("module."): value for key, value in found.items()}
    apart = torch.stack([(own[key].double() - value.double()).norm() for key, value in wanted.items()]).norm()
    step = torch.stack([(value.double() - start[key].double()).norm() for key, value in wanted.items()]).norm()
    return float(apart / step)


def _grpo(recipe: Recipe, source: Path, settings: GrpoSettings, place: Path) -> Grpo:
    model = _model(source)
    protocol = protocol_of(recipe)
    walker = Walker(model, protocol, budget_of(recipe), workers=0)
    data = load_data("world", 0)
    environments = environments_of(recipe, data.graph_for, partial(environment_for, protocol=protocol))
    known = _demonstrated(place / "taught" / "demos.jsonl")
    questions = [question for question in data.questions("train") if question.id in known][:GROUPS]
    training_set = TrainingSet(questions, environments)
    curriculum = Curriculum(questions, CurriculumSettings(), batch=GROUPS)
    return Grpo(
        _updater(model, settings), walker, training_set, RewardFunction.of(recipe), curriculum, settings, 0, place
    )


def _demonstrated(file: Path) -> set[str]:
    """The ids of the questions that the model has learnt by heart: on others it earns nothing."""
    return {json.loads(line)["id"].partition("#")[0] for line in file.read_text("utf-8").splitlines()}


def _model(source: Path) -> PolicyModel:
    return PolicyModel(ModelSettings(name=str(source), lora_rank=0, dtype="float32", compile=False), device="cpu")


def _updater(model: PolicyModel, settings: GrpoSettings) -> Updater:
    return Updater(
        model, lr=settings.lr, weight_decay=settings.weight_decay, clip=settings.clip, most_loss=settings.most_loss
    )


def _spoilt(groups: list[list[Rollout]]) -> list[list[Rollout]]:
    """One rollout failed through no fault of the model's, and all of the last group earned the same."""
    failed = groups[0][1]
    failed.episode.stop, failed.episode.failure = StopReason.tool_failed, "the graph is away"
    groups[0][1] = Rollout(failed.number, failed.outcome, UNPAID)
    groups[-1] = [Rollout(one.number, one.outcome, Rewarded([0.5] * len(one.episode.turns), 1.0)) for one in groups[-1]]
    return groups


def _one_update(
    recipe: Recipe, place: Path, settings: GrpoSettings, groups: list[list[Rollout]], reference: Path, suffix: str
) -> None:
    """Write the gradient of the loss and the weights after one step along it."""
    grpo = _grpo(recipe, reference, settings, place)  # it keeps its reference as it is made
    model = grpo.updater.model
    model.load(place / "model")
    sequences = _sequences(groups, group_credit([[one.rewards for one in group] for group in groups], settings))
    batches, totals = grpo._prepare(sequences), Totals.of(flat.mask for flat, _ in sequences)
    grpo.updater._gradients(batches, partial(grpo._loss, totals), False)
    names = model.parameters()
    save_file({key: value.grad.clone() for key, value in names.items()}, str(place / f"gradient{suffix}.safetensors"))
    grpo.updater.update(batches, partial(grpo._loss, totals))
    save_file(
        {key: value.clone() for key, value in model.weights().items()}, str(place / f"weights{suffix}.safetensors")
    )
    grpo.walker.close()


def _stir(model: PolicyModel) -> None:
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for value in model.parameters().values():
            value.add_(MOVED * torch.randn(value.shape, generator=generator))


def _save_model(model: PolicyModel, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    model.save(folder, {})


def _copy(source: Path, target: Path) -> None:
    target.mkdir(exist_ok=True)
    for file in source.iterdir():
        if file.name != "kgwalk.json":  # it names the base; here the folder is the model
            (target / file.name).write_bytes(file.read_bytes())


if __name__ == "__main__":
    for recipe_name in RECIPES:
        print(make_case(recipe_name, Path(sys.argv[1])))
