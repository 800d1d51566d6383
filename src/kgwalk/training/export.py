"""A trained agent in the formats that people serve: its weights as one model, and what asking it as it learnt takes.

    agent = agent_at("runs/films")                       # a run, an adapter's folder, a whole model, or `shipped`
    export(agent, "gguf", Path("films-gguf"), numbers="q8_0")

    hf       a folder that transformers loads: config.json, model.safetensors, tokenizer, chat_template.jinja
    gguf     one file for llama.cpp and what is built on it, with tokenizer and chat template inside
    ollama   the same, and a Modelfile for `ollama create`
    onnx     a folder for ONNX Runtime: model.onnx, genai_config.json, tokenizer, chat_template.jinja

Beside them lie kgwalk.json, by which `kgwalk ask --model FOLDER` walks as the agent learnt, and recipe.toml, which says
the same to a kgwalk that reaches the model through a server.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from kgwalk.config.recipe import Recipe, load_recipe
from kgwalk.config.recipe import names as recipes
from kgwalk.config.run_folder import RUN, read_json, write_json
from kgwalk.config.runtime import without_progress_bars
from kgwalk.evaluation.runs import FIT_REPORT
from kgwalk.kg.files import is_store
from kgwalk.llm.gguf_files import NUMBERS, modelfile, write_gguf
from kgwalk.llm.models import (
    CARD,
    EXPORTED,
    LoadedModel,
    card_folder,
    context_limit,
    is_adapter,
    known_as,
    learnt_in,
    load_model,
    need,
    read_adapter,
)
from kgwalk.llm.onnx_files import PRECISIONS, need_onnx, readme, write_onnx
from kgwalk.types import KgwalkError
from kgwalk.walk.policy import SHIPPED, asked_for, place_of, walked_as_learnt
from kgwalk.walk.ranking import RANKER_CARD, RANKER_WEIGHTS

FORMATS = ("hf", "gguf", "ollama", "onnx")
HF_DTYPES = {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}
NUMBERS_OF = {"hf": (*HF_DTYPES,), "gguf": NUMBERS, "ollama": NUMBERS, "onnx": (*PRECISIONS,)}
DEFAULT_NUMBERS = {"hf": "f32", "gguf": "f16", "ollama": "f16", "onnx": "f32"}
AS_FILE = ("gguf", "ollama")  # the weights are one file, which is what is asked; else it is the folder
RECIPE_FILE, MODEL_CARD = "recipe.toml", "README.md"
ASKING = ("protocol", "policy", "world", "rollout", "ask")  # the sections of a recipe that say how a question is walked
RESULT = "adapter"  # of a run's folder; a fit has it in train/
OWN = "config.json"  # of a whole model's folder
CONTEXT = 8192  # tokens that Ollama keeps room for at most: a walk has 3,072, and memory grows with each


@dataclass(frozen=True, slots=True)
class TrainedAgent:
    """Where a trained agent is. `folder` holds an adapter for the model `base`, or a whole model; `run` is the folder
    of the run that made it, where that is known.
    """

    folder: Path
    base: str
    is_adapter: bool
    run: Path | None = None

    @property
    def card(self) -> dict[str, Any]:
        """Its kgwalk.json: recipe, protocol, data, confidence."""
        found = read_json(self.folder / CARD) if (self.folder / CARD).is_file() else {}
        return found if isinstance(found, dict) else {}

    @property
    def format(self) -> str:
        """peft for an adapter; hf, gguf, ollama or onnx for a whole model."""
        told = self.card.get(EXPORTED)
        return "peft" if self.is_adapter else str(told["format"]) if isinstance(told, Mapping) else "hf"


def agent_at(named: str, model: str | None = None) -> TrainedAgent:
    """The agent that is meant by a run's folder, an adapter's, a whole model's, a graph's that it lies beside, or by
    `shipped`. `model` is the one that an adapter was made for, if its folder does not say so, or the model has moved.
    """
    if named == SHIPPED:
        return _agent_in(asked_for(SHIPPED, model), model)
    place = Path(named).expanduser()
    if not place.exists():
        raise KgwalkError(f"there is no run and no adapter {named}; give a folder, or `{SHIPPED}`")
    if holds_agent(place):
        return _agent_in(place, model)
    for inside in (place / RESULT, place / "train" / RESULT):
        if (place / RUN).is_file() and (is_adapter(inside) or (inside / OWN).is_file()):
            return _agent_in(_kept(place) or inside, model, place)
    if place.is_dir() and is_store(place) and is_adapter(place_of(place)):
        return _agent_in(place_of(place), model)
    raise KgwalkError(
        f"{named} holds no agent: no {RESULT}/ of a finished run, no adapter_config.json and no {OWN}; "
        "`kgwalk train` and `kgwalk fit --train` make one"
    )


def holds_agent(folder: Path) -> bool:
    """Whether the folder itself is an adapter, a whole model, or what `export` wrote; a store has a kgwalk.json too."""
    return is_adapter(folder) or (folder / OWN).is_file() or any(folder.glob("*.gguf"))


def _kept(run: Path) -> Path | None:
    """Where a fit put its agent: it may be the one that it started from."""
    report = read_json(run / FIT_REPORT) if (run / FIT_REPORT).is_file() else {}
    kept = Path(str(report.get("adapter", ""))) if isinstance(report, dict) else None
    return kept if kept is not None and is_adapter(kept) else None


def _agent_in(folder: Path, model: str | None, run: Path | None = None) -> TrainedAgent:
    if not is_adapter(folder):
        if model is not None:
            raise KgwalkError(f"{folder} is a whole model; leave --model {model} out")
        base = TrainedAgent(folder, "", False).card.get("base_model")
        return TrainedAgent(folder, str(base or ""), False, run)
    base = model or read_adapter(folder).base
    if not base:
        raise KgwalkError(f"the adapter {folder} does not name its model; give it with --model")
    return TrainedAgent(folder, base, True, run)


def export(agent: TrainedAgent, form: str, target: Path, *, numbers: str | None = None, force: bool = False) -> Path:
    """Writes the agent as one model into the folder `target`; returns the file or folder that holds the weights.

    `numbers` are those of the weights: f32, f16, bf16; in a GGUF file also q8_0, in ONNX also int8 and int4.
    """
    numbers = numbers or DEFAULT_NUMBERS[form]
    if numbers not in NUMBERS_OF[form]:
        raise KgwalkError(f"{form} is written in {', '.join(NUMBERS_OF[form])}, not in {numbers}")
    if agent.format in (*AS_FILE, "onnx"):
        called = "an ONNX model" if agent.format == "onnx" else "a GGUF file"
        raise KgwalkError(f"{agent.folder} is {called} already; export the adapter or the run that it was made of")
    if target.resolve() in (agent.folder.resolve(), agent.run and agent.run.resolve()):
        raise KgwalkError(f"{target} is what is exported; choose another folder with -o")
    need("torch", "transformers", *(["gguf"] if form in AS_FILE else []))
    if form == "onnx":
        need_onnx()
    # merged in float32, then rounded once
    model = load_model(agent.base, adapter=agent.folder) if agent.is_adapter else load_model(agent.folder)
    with new_folder(target, force=force) as beside:
        file = f"{_called(agent)}-{numbers}.gguf" if form in AS_FILE else ""
        if form == "hf":
            save_hf(model, beside, numbers)
        elif form == "onnx":
            save_onnx(model, beside, numbers)
            (beside / MODEL_CARD).write_text(readme(_called(agent), agent.base, numbers), "utf-8")
        else:
            write_gguf(model, beside / file, numbers)
        if form == "ollama":
            context = min(context_limit(model.module.config), CONTEXT)
            (beside / "Modelfile").write_text(modelfile(model.tokens, file, context), "utf-8")
        told = {"format": form, "numbers": numbers, **({"file": file} if file else {})}
        write_json(beside / CARD, {"base_model": agent.base, **agent.card, EXPORTED: told})
        (beside / RECIPE_FILE).write_text(asked_as(agent).toml(), "utf-8")
        for name in (RANKER_CARD, RANKER_WEIGHTS):
            if (agent.folder / name).is_file():
                shutil.copyfile(agent.folder / name, beside / name)
    return target / file


def save_hf(model: LoadedModel, folder: Path, numbers: str) -> None:
    """A Hugging Face folder, with the chat template that prompts have, and every token that ends a message.

    How it generates is made anew: agents walk greedily, and transformers does not save a greedy one with a temperature.
    """
    import torch
    from transformers import GenerationConfig

    module: Any = model.module.to(getattr(torch, HF_DTYPES[numbers]))
    module.config.dtype = module.dtype
    own = module.generation_config
    module.generation_config = GenerationConfig(  # type: ignore[no-untyped-call,unused-ignore]
        bos_token_id=own.bos_token_id, eos_token_id=sorted(model.tokens.end_ids), pad_token_id=own.pad_token_id
    )
    model.tokens.hf.chat_template = model.tokens.chat_template
    with without_progress_bars():
        module.save_pretrained(str(folder), safe_serialization=True)
        model.tokens.hf.save_pretrained(str(folder))
    for file in folder.iterdir():  # some are written for their owner alone; a model may be shared
        file.chmod(0o644)


def save_onnx(model: LoadedModel, folder: Path, numbers: str) -> None:
    """An ONNX folder, by way of a Hugging Face one beside it, which is what ONNX Runtime's builder reads."""
    with TemporaryDirectory(prefix=".hf-", dir=folder.parent) as plain:
        save_hf(model, Path(plain), "f32")
        write_onnx(model, Path(plain), folder, numbers)


def asked_as(agent: TrainedAgent) -> Recipe:
    """How the agent is asked, as a recipe: that of its run, else the bundled one that it names, with what it learnt."""
    named = str(agent.card.get("recipe", ""))
    own = agent.run / RECIPE_FILE if agent.run is not None else agent.folder / RECIPE_FILE
    if own.is_file():
        recipe = load_recipe(str(own))
    elif named in recipes():
        recipe = load_recipe(named)
    else:
        learnt = learnt_in(card_folder(agent.folder))
        recipe = Recipe(named or "agent", {"protocol": learnt} if learnt else {})
    adapter, model = (agent.folder, None) if agent.is_adapter else (None, agent.folder)
    walked = walked_as_learnt(recipe, adapter, model)
    sections = {name: values for name, values in walked.sections.items() if name in ASKING}
    if (styles := walked.section("demos").get("styles")) is not None:
        sections["demos"] = {"styles": styles}  # who learnt without thoughts has none
    about = "kgwalk ask 'YOUR QUESTION' --engine api --model NAME --recipe recipe.toml\nHow this agent is asked."
    return Recipe(recipe.name, sections, about)


def _called(agent: TrainedAgent) -> str:
    """What the file is called: the model's short name, and that it walks.

    >>> _called(TrainedAgent(Path("a"), "HuggingFaceTB/SmolLM2-135M-Instruct", True))
    'smollm2-135m-kgwalk'
    """
    base = Path(known_as(agent.base)).name.removesuffix(".gguf") if agent.base else agent.folder.resolve().name
    return f"{base}-kgwalk"


@contextmanager
def new_folder(target: Path, *, force: bool) -> Iterator[Path]:
    """A folder to write into, which becomes `target` at the end. One that is there is replaced only with `force`, and
    only if it holds an agent.
    """
    shown, target = target, target.resolve()
    if Path.cwd().resolve().is_relative_to(target):
        raise KgwalkError(f"{shown} is the current folder, or holds it; give the name of a new folder with -o")
    taken = target.exists() and (not target.is_dir() or any(target.iterdir()))
    if taken and not force:
        raise KgwalkError(f"{shown} exists; choose another folder with -o, or replace it with --force")
    if taken and not ((target / CARD).is_file() and holds_agent(target)):
        raise KgwalkError(f"{shown} holds something else than an agent, and is not replaced; choose another folder")
    beside = target.with_name(f".{target.name}.partial")
    shutil.rmtree(beside, ignore_errors=True)
    try:
        beside.mkdir(parents=True)
        yield beside
        if target.exists():
            shutil.rmtree(target)
        beside.rename(target)
    except OSError as error:
        raise KgwalkError(
            f"{shown} could not be written: {error.strerror or error}; free some space, or choose another folder"
        ) from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)
