"""`kgwalk train` as a person runs it: every recipe from demonstrations to an evaluation, and errors that help."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from commands import Cli, Done
from films_questions import write_films
from kgwalk.config.recipe import load_recipe
from kgwalk.config.run_folder import read_rows
from kgwalk.training.pipeline import train
from tiny_models import save_tiny  # also: one thread for torch

RECIPES = ("kgwalk", "kg-r1", "eog", "kg-hopper", "kg-reasoner", "graph-rft")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _own_place(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("KGWALK_CACHE", str(cache))
    monkeypatch.setenv("COLUMNS", "120")
    for name in ("FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_recipe_goes_from_demonstrations_to_an_evaluation(recipe: str, cli: Cli, tmp_path: Path) -> None:
    from kgwalk.llm.models import load_model

    done = cli("train", recipe, "--data", "world", "--smoke")
    assert done.status == 0, done.stderr
    run = tmp_path / "runs" / f"{recipe}-world-smoke"
    _check_files(run, recipe)
    rows = list(read_rows(run / "grpo" / "metrics.jsonl"))
    assert [row["step"] for row in rows] == [1, 2]
    assert any(row["updates"] == 1 and row["grad_norm"] > 0 for row in rows)
    assert all(row["left_out"] == 0 and row["mismatch_max"] < 1e-4 for row in rows if row["updates"])
    assert rows[-1]["eval_f1"] == 0
    losses = [row["loss"] for row in read_rows(run / "sft" / "metrics.jsonl")]
    assert all(5 < loss < 8 for loss in losses)  # ln 1024 = 6.9: it knows nothing
    base, trained = (load_model("tiny-random", adapter=adapter).module for adapter in (None, run / "adapter"))
    assert any(bool((one != other).any()) for one, other in zip(base.parameters(), trained.parameters(), strict=True))
    _check_words(done, run)


def _check_files(run: Path, recipe: str) -> None:
    about = orjson.loads((run / "run.json").read_bytes())
    assert about["settings"]["sections"]["model"]["name"] == "tiny-random"
    assert {"kgwalk", "torch", "peft"} <= about["versions"].keys()
    resolved = load_recipe(recipe).with_profile("smoke").resolved()
    assert load_recipe(str(run / "recipe.toml")).resolved() == resolved
    card = (run / "README.md").read_text()
    assert "base_model: tiny-random" in card
    assert f"# {recipe} on world" in card
    for stage in ("sft", "grpo"):
        last = max((run / stage).glob("checkpoint-*"), key=lambda path: int(path.name.rpartition("-")[2]))
        names = {file.name for file in last.iterdir()}
        assert {"adapter_model.safetensors", "optimizer.safetensors", "trainer_state.json"} <= names
        assert list((run / stage / "tensorboard").glob("events*"))
        assert (run / stage / "done.json").exists()
    assert {file.name for file in (run / "adapter").iterdir()} >= {"adapter_config.json", "kgwalk.json"}
    assert "optimizer.safetensors" not in {file.name for file in (run / "adapter").iterdir()}
    assert orjson.loads((run / "adapter" / "kgwalk.json").read_bytes())["recipe"] == recipe
    assert len(list(read_rows(run / "eval" / "predictions.jsonl"))) == 12
    assert [row["step"] for row in read_rows(run / "grpo" / "episodes.jsonl")] == [1, 2]
    assert not list(run.rglob("*.partial"))


def _check_words(done: Done, run: Path) -> None:
    lines = done.stderr.splitlines()
    told = ["grpo 1/2", "grpo 2/2", "eval 0/12", "eval 12/12"]  # of an evaluation, that it begins, and its end
    assert [" ".join(line.split()[:2]) for line in lines[-4:]] == told
    assert " reward 0." in lines[-3]
    assert " eval_f1 0.000" in lines[-3]
    assert done.stdout.splitlines()[-1] == f"adapter: {Path('runs') / run.name}/adapter"
    assert "eval: 12 questions, f1 0.000" in done.stdout


def test_a_run_and_its_adapter_are_used_again(cli: Cli, tmp_path: Path) -> None:
    """An adapter is evaluated by `kgwalk eval`, and trained on by a run of another stage; demonstrations too."""
    short = ("--set", "rollout.turn_tokens=48", "--set", "protocol.turns=1", "--set", "rollout.observation_tokens=8")
    smoke = ("--data", "world", "--smoke", *short)
    first = cli("train", "kgwalk", *smoke, "--stages", "demos, sft", "-o", "first", "--json")
    assert first.status == 0, first.stderr
    assert first.json["stages"]["sft"]["steps"] == first.json["stages"]["sft"]["last"]["step"]
    assert first.stderr == ""
    more = ("--stages", "demos,sft,grpo", "--demos", "first/demos.jsonl", "--start", "first/adapter")
    second = cli("train", "kgwalk", *smoke, *more, "-o", "second", "--json", "--set", "grpo.steps=1")
    assert second.status == 0, second.stderr
    assert second.json["stages"]["demos"] == {"file": "first/demos.jsonl"}
    assert second.json["stages"]["sft"]["last"]["loss"] < first.json["stages"]["sft"]["last"]["loss"]
    wanted = ("eval", "kgwalk", "--data", "world", "--limit", 2, "--model", "tiny-random", "--json", *short)
    found = cli(*wanted, "--adapter", "second/adapter")
    assert found.status == 0, found.stderr
    assert found.json["n"] == 2
    hard = (*smoke, "--stages", "grpo", "--set", "grpo.steps=1", "--set", "curriculum.order=hard")
    assert cli("train", "kgwalk", *hard, "--start", "first/adapter", "-o", "hard").status == 0  # first's losses
    shutil.copytree("first/adapter", "alone")
    told = cli("train", "kgwalk", *hard, "--start", "alone", "-o", "alone-hard")
    assert "the order `hard` needs the losses of [sft]" in told.stderr
    wrong = cli("train", "kgwalk", *smoke, *more, "-o", "third", "--set", "model.lora_rank=2")
    assert wrong.status == 1
    assert "adapter of rank 4 and alpha 8, and this run is of rank 2" in wrong.stderr
    other = cli("train", "kg-r1", "--data", "world", "--smoke", "--demos", "first/demos.jsonl", "-o", "fourth")
    assert other.status == 1
    assert "follows kgwalk, and the recipe kg-r1 follows kg-r1; make others with `kgwalk demos`" in other.stderr
    again = cli("train", "kgwalk", *smoke, *more, "-o", "second", "--set", "grpo.steps=1")
    assert again.status == 1
    assert "second holds this run already; --resume goes on with it, --force starts over" in again.stderr


WRONG: dict[str, tuple[tuple[str, ...], str]] = {
    "recipe": (("kgwak",), "unknown recipe `kgwak`; did you mean `kgwalk`?"),
    "baseline": (("oracle",), "the recipe oracle is a baseline without a protocol; choose a recipe that can be"),
    "no writer": (("cot",), "nothing writes demonstrations of its protocol cot; choose a recipe that can be"),
    "device": (("kgwalk", "--smoke", "--device", "tpu"), "unknown device `tpu`; there are auto, cpu and cuda"),
    "dev": (("kgwalk", "--smoke", "--dev", "zzz"), "no split 'zzz' of world; there are "),
    "eval key": (("kgwalk", "--smoke", "--set", "eval.run=2"), "did you mean `eval.runs`?"),
    "profile": (("kgwalk", "--profile", "135"), "unknown profile `135`; did you mean `135m`?"),
    "stage": (("kgwalk", "--stages", "demo,sft"), "unknown stage `demo`; did you mean `demos`?"),
    "key": (("kgwalk", "--set", "grpo.step=3"), "unknown setting `grpo.step`; did you mean `grpo.steps`?"),
    "sft key": (("kgwalk", "--set", "sft.epoch=3"), "unknown setting `sft.epoch`; did you mean `sft.epochs`?"),
    "demos key": (("kgwalk", "--set", "demos.stiles=[]"), "did you mean `demos.styles`?"),
    "section": (("kgwalk", "--set", "grop.steps=3"), "unknown section `grop`; did you mean `grpo`?"),
    "number": (("kgwalk", "--set", "grpo.lr=-1"), "`grpo.lr` must be above 0, not -1"),
    "weight": (("kgwalk", "--set", "rewards.f1=-1"), "`rewards.f1` must not be below 0, not -1: a penalty is a"),
    "no weight": (
        ("kg-r1", *(part for name in ("turn_rewards.format", "turn_rewards.query", "turn_rewards.answer", "rewards.f1",
                                      "rewards.retrieval") for part in ("--set", f"{name}=0"))),
        "the recipe kg-r1 pays for nothing: give a reward a weight in [rewards]",
    ),
    "order": (("kgwalk", "--set", "curriculum.order=hardest"), "unknown value of curriculum.order `hardest`"),
    "judge": (("kg-hopper",), "rewards what a judge says (correct, reasoning): give one with --judge ENGINE[:MODEL]"),
    "tracker": (("kgwalk", "--report-to", "tensorbord"), "unknown tracker `tensorbord`; did you mean `tensorboard`?"),
    "data": (("kgwalk", "--data", "wrld"), "unknown dataset `wrld`; did you mean `world`?"),
    "split": (("kgwalk", "--split", "trian"), "no split 'trian' of world; there are "),
    "start": (("kgwalk", "--smoke", "--start", "nowhere"), "there is no folder nowhere to start from"),
    "demos": (("kgwalk", "--smoke", "--demos", "none.jsonl"), "there are no demonstrations in none.jsonl; make"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_told_before_anything_is_done(what: str, cli: Cli, tmp_path: Path) -> None:
    arguments, message = WRONG[what]
    data = () if "--data" in arguments else ("--data", "world")
    done = cli("train", *arguments, *data, "-o", "run")
    assert done.status == 1
    assert message in done.stderr
    assert done.stdout == ""
    assert not (tmp_path / "run").exists()


def test_smoke_is_a_profile_of_its_own(cli: Cli) -> None:
    done = cli("train", "kgwalk", "--data", "world", "--smoke", "--profile", "135m")
    assert done.status == 2
    assert "leave --profile out" in done.stderr


def _without(folder: Path, **missing: object) -> Path:
    """The film questions with one that lacks something."""
    write_films(folder)
    for split in ("train", "dev", "test"):
        file = folder / f"{split}.jsonl"
        rows = [orjson.loads(line) for line in (folder / "test.jsonl").read_bytes().splitlines()]
        if split in missing:
            rows = [] if missing[split] is None else [*rows, rows[0] | missing[split]]  # type: ignore[operator]
        file.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    return folder


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ({"train": {"id": "odd", "topic_entities": []}}, "question 'odd' has no topic entity; `kgwalk data check`"),
        ({"train": {"id": "odd", "answers": []}}, "question 'odd' has no answer; `kgwalk data check` lists all such"),
        ({"dev": {"id": "odd", "answers": []}}, "question 'odd' has no answer; `kgwalk data check` lists all such"),
        ({"train": None}, "films/train.jsonl: no questions"),
    ],
)
def test_questions_that_cannot_be_learnt_from(missing: Any, message: str, cli: Cli, tmp_path: Path) -> None:
    data = _without(tmp_path / "films", **missing)
    done = cli("train", "kgwalk", "--data", data, "--smoke", "-o", "run", "--set", "train.limit=100")
    assert done.status == 1
    assert message in done.stderr
    assert not (tmp_path / "run").exists()


def test_a_dataset_of_one_split(cli: Cli, tmp_path: Path) -> None:
    data = _without(tmp_path / "films")
    for split in ("dev", "test"):
        (data / f"{split}.jsonl").unlink()
    short = ("--set", "rollout.turn_tokens=48", "--set", "protocol.turns=1", "--set", "grpo.steps=1")
    done = cli("train", "kgwalk", "--data", data, "--smoke", "-o", "run", *short)
    assert done.status == 0, done.stderr
    notes = [
        "no validation: there is no split dev; films has only train (--dev names another)",
        "no evaluation: there is no split test or dev; films has only train",
    ]
    assert done.stderr.splitlines()[:2] == [f"note: {words}" for words in notes]
    report = orjson.loads((tmp_path / "run" / "train.json").read_bytes())
    assert (list(report["stages"]), report["notes"]) == (["demos", "sft", "grpo"], notes)
    assert report["stages"]["sft"]["best"] is None


def test_no_demonstration_at_all(cli: Cli) -> None:
    done = cli("train", "kgwalk", "--data", "world", "--smoke", "-o", "run", "--set", "rollout.turn_tokens=2")
    assert done.status == 1
    assert "no demonstration could be made of 12 questions: 12 length: a turn is too long" in done.stderr


def test_from_python_inside_an_event_loop(tmp_path: Path) -> None:
    """As in a notebook, and with a model from a folder, all its weights trained."""
    import asyncio

    model = save_tiny(tmp_path / "model")
    told: list[tuple[str, int, int]] = []
    values = ("train.limit=2", "rollout.turn_tokens=4", "protocol.turns=1", "grpo.steps=1", "model.lora_rank=0")

    async def notebook() -> dict[str, Any]:
        return train(
            "kg-r1",
            "world",
            out=tmp_path / "run",
            profile="smoke",
            model=str(model),
            values=[*values, 'train.stages=["grpo"]', "rollout.total_tokens=1024", "rollout.observation_tokens=16"],
            progress=lambda stage, step, steps, numbers={}: told.append((stage, step, steps)),
        )

    report = asyncio.run(notebook())
    assert told == [("grpo", 1, 1)]
    assert report["stages"]["grpo"]["steps"] == 1
    assert (tmp_path / "run" / "adapter" / "model.safetensors").is_file()


def test_recipes_are_listed_and_shown(cli: Cli, tmp_path: Path) -> None:
    listed = cli("recipes")
    assert listed.status == 0
    assert all(name in listed.stdout for name in (*RECIPES, "oracle", "tog"))
    assert "profiles: 135m, fit, smoke" in listed.stdout
    rows = {row["name"]: row["trains"] for row in cli("recipes", "--json").json["recipes"]}
    assert {name for name, trains in rows.items() if trains} == set(RECIPES)
    shown = cli("recipes", "show", "eog", "--profile", "135m", "--set", "grpo.lr=0.5")
    (tmp_path / "mine.toml").write_text(shown.stdout)
    expected = load_recipe("eog").with_profile("135m").with_values(["grpo.lr=0.5"])
    assert load_recipe("mine.toml").resolved() == expected.resolved()
    assert cli("recipes", "show", "eog", "--json").json["sections"]["grpo"]["group"] == 6
    assert "did you mean `eog`" in cli("recipes", "show", "eogg").stderr
    assert "did you mean `smoke`" in cli("recipes", "show", "eog", "--profile", "smok").stderr


def test_the_loss_of_a_question_with_several_demonstrations() -> None:
    import doctest

    from kgwalk.training import pipeline

    result = doctest.testmod(pipeline)
    assert (result.attempted, result.failed) == (1, 0)
