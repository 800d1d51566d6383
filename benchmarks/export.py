"""Whether an exported agent answers as it did before: the same questions, in llama.cpp and in ONNX Runtime.

Run: python -m benchmarks.export [--questions 250] [--agent shipped] [--work DIR] [--only NAME ...]

The agent walks questions of the bundled graph (dev, then train) in float32 without a grammar, as servers write freely.
Then it is exported, and walks them again: as `hf` in the engine `local`, as `gguf-f16` and `gguf-q8_0` in llama.cpp,
through xllamacpp's server and the engine of `kgwalk ask --engine api`, as `onnx-f32` and `onnx-int8` in the engine
`onnx`. Counted are the same answers, the same turns, both F1, how many prompts become the very ids that kgwalk makes of
them, and how far the log-probabilities of the likeliest tokens (with `hf` all logits) are from those in float32.
Exit status 1 if a form is further from the agent than TOLERANCES allows.

`pip install --no-deps xllamacpp` and `pip install 'kgwalk[onnx]'` into an environment beside; everything is greedy, and
on one busy core it takes two hours. Seconds are of processor time, so that other work on the machine counts little.
Finished walks stay in --work, and are not walked again.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from kgwalk.config.recipe import Recipe, load_recipe
from kgwalk.evaluation.evaluate import evaluate
from kgwalk.evaluation.report import PREDICTIONS, whole_rows
from kgwalk.llm.api import ApiEngine
from kgwalk.llm.engine import Engine
from kgwalk.llm.models import load_model
from kgwalk.llm.onnx_files import CachedTokens, runtime
from kgwalk.training.export import RECIPE_FILE, TrainedAgent, agent_at, export
from kgwalk.types import Message

FREE = ("protocol.constrain=false",)
LIKELIEST = 10  # tokens whose log-probabilities are compared
PROMPTS = 20  # prompts whose log-probabilities are compared


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far an exported form may be from its agent. Prompts must be the same ids in every form."""

    same: float  # of the questions, at least so many have the same answers
    furthest: float  # log-probabilities (hf: logits) are off by at most this


# Set after what was measured (docs/guides/export.md), with some room. A form without a line here is not taken.
TOLERANCES = {
    "hf": Tolerance(0.99, 0.0001),
    "gguf-f16": Tolerance(0.99, 0.05),
    "gguf-q8_0": Tolerance(0.98, 1.0),
    "onnx-f32": Tolerance(0.99, 0.001),
    "onnx-int8": Tolerance(0.98, 1.0),
}


def shortfalls(name: str, measured: dict[str, Any]) -> list[str]:
    """What is wrong with a form by its tolerance, a sentence each.

    >>> shortfalls("gguf-q8_0", {"questions": 250, "same_answers": 244, "prompts": 250, "same_ids": 250,
    ...                          "furthest_logprob": 0.52})
    ['gguf-q8_0: 244 of 250 questions have the same answers; it takes 98%']
    """
    allowed, questions, wrong = TOLERANCES[name], measured["questions"], []
    if questions < measured["prompts"]:
        wrong.append(f"{questions} of {measured['prompts']} questions were walked")
    if measured["same_answers"] < allowed.same * questions:
        wrong.append(
            f"{measured['same_answers']} of {questions} questions have the same answers; it takes {allowed.same:.0%}"
        )
    if measured["same_ids"] < measured["prompts"]:
        wrong.append(f"{measured['same_ids']} of {measured['prompts']} prompts are the same ids; all must be")
    off = measured.get("furthest_logprob", measured.get("furthest_logit"))
    if not off <= allowed.furthest:  # NaN too
        wrong.append(f"off by {off}; at most {allowed.furthest} is allowed")
    return [f"{name}: {one}" for one in wrong]


def walked(
    work: Path, name: str, questions: int, recipe: str | Recipe, engine: str | Engine, **options: Any
) -> dict[str, Any]:
    """The answers and turns of each question, by its text, and F1; of questions walked now, the processor time."""
    found: dict[str, Any] = {}
    there = sum(len(list(whole_rows(file))) for file in work.glob(f"{name}-*/{PREDICTIONS}"))
    began = time.process_time()
    for split, most in (("dev", questions), ("train", questions - 128)):
        if most > 0:
            folder = work / f"{name}-{split}"
            evaluate(recipe, "world", split, engine=engine, out=folder, limit=most, **options)
            for row in whole_rows(folder / PREDICTIONS):
                episode = row["episode"]
                turns = [turn["text"].strip() for turn in episode["turns"]]
                found[row["question"]] = {
                    "answers": sorted(episode["answers"]),
                    "turns": turns,
                    "f1": row["metrics"]["f1"],
                }
                found[row["question"]]["prompt"] = episode["prompt"]
    if len(found) > there:
        spent = (time.process_time() - began) / (len(found) - there)
        print(f"{name}: {spent:.2f} s of processor a question, {len(found) - there} questions", flush=True)
    return found


def compared(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    both = sorted(first.keys() & second.keys())
    same = {key: [id for id in both if first[id][key] == second[id][key]] for key in ("answers", "turns")}
    mean = {name: sum(one[id]["f1"] for id in both) / len(both) for name, one in (("before", first), ("after", second))}
    return {
        "questions": len(both),
        "same_answers": len(same["answers"]),
        "same_turns": len(same["turns"]),
        "f1_before": round(mean["before"], 4),
        "f1_after": round(mean["after"], 4),
    }


def chat_of(prompt: str) -> list[Message]:
    system, _, user = prompt.partition("\n\n")
    return [Message("system", system), Message("user", user)]


def logits_compared(agent: TrainedAgent, folder: Path, prompts: list[str]) -> dict[str, Any]:
    """The agent with its adapter merged as kgwalk loads it, beside the folder that was exported."""
    import torch

    before, after = load_model(agent.base, adapter=agent.folder), load_model(folder)
    same, furthest = 0, 0.0
    for number, prompt in enumerate(prompts):
        ids = [model.tokens.open_chat(chat_of(prompt)) for model in (before, after)]
        same += ids[0] == ids[1]
        if number < PROMPTS:
            with torch.no_grad():
                first, second = (model.module(torch.tensor(ids[:1])).logits for model in (before, after))
            furthest = max(furthest, float((first - second).abs().max()))
    return {"prompts": len(prompts), "same_ids": same, "furthest_logit": furthest}


@contextmanager
def llama_cpp(file: Path) -> Iterator[str]:
    """The address of llama.cpp's own server with this file, on loopback."""
    import xllamacpp

    settings = xllamacpp.CommonParams()
    settings.model.path = str(file)
    settings.n_ctx, settings.n_parallel, settings.port, settings.verbosity = 8192, 1, 0, 0
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = int(os.environ.get("OMP_NUM_THREADS", "2"))
    server = xllamacpp.Server(settings)
    yield server.listening_address
    del server


def prompts_compared(address: str, agent: TrainedAgent, prompts: list[str]) -> dict[str, Any]:
    """Ids of prompts by llama.cpp beside kgwalk's, and log-probabilities of the first token."""
    import torch

    model = load_model(agent.base, adapter=agent.folder)
    same, furthest = 0, 0.0
    with httpx.Client(base_url=address, timeout=120) as client:
        for number, prompt in enumerate(prompts):
            chat = chat_of(prompt)
            ids = model.tokens.open_chat(chat)
            told = [{"role": message.role, "content": message.content} for message in chat]
            text = client.post("/apply-template", json={"messages": told}).json()["prompt"]
            asked = {"content": text, "add_special": True, "parse_special": True}
            same += client.post("/tokenize", json=asked).json()["tokens"] == ids
            if number >= PROMPTS:
                continue
            with torch.no_grad():
                own = torch.log_softmax(model.module(torch.tensor([ids])).logits[0, -1].float(), -1)
            asked = {"prompt": ids, "n_predict": 1, "n_probs": LIKELIEST, "temperature": 0, "cache_prompt": False}
            likely = client.post("/completion", json=asked).json()["completion_probabilities"][0]["top_logprobs"]
            furthest = max(furthest, *(abs(one["logprob"] - float(own[one["id"]])) for one in likely))
    return {"prompts": len(prompts), "same_ids": same, "furthest_logprob": round(furthest, 4)}


def onnx_compared(agent: TrainedAgent, folder: Path, prompts: list[str]) -> dict[str, Any]:
    """Ids of prompts by onnxruntime-genai beside kgwalk's, and log-probabilities of the first token."""
    import torch

    model = load_model(agent.base, adapter=agent.folder)
    theirs = runtime().Tokenizer(runtime().Model(str(folder)))
    sequence = CachedTokens(folder, 4096)
    same, furthest = 0, 0.0
    for number, prompt in enumerate(prompts):
        chat = chat_of(prompt)
        ids = model.tokens.open_chat(chat)
        told = json.dumps([{"role": message.role, "content": message.content} for message in chat])
        same += list(theirs.encode(theirs.apply_chat_template(told, add_generation_prompt=True))) == ids
        if number >= PROMPTS:
            continue
        with torch.no_grad():
            own_V = torch.log_softmax(model.module(torch.tensor([ids])).logits[0, -1].float(), -1).numpy()
        sequence.keep(0)
        logits_V = sequence.read(ids)
        logprobs_V = logits_V - np.logaddexp.reduce(logits_V)
        likely = np.argsort(-logits_V)[:LIKELIEST]
        furthest = max(furthest, float(np.abs(logprobs_V - own_V)[likely].max()))
    return {"prompts": len(prompts), "same_ids": same, "furthest_logprob": float(f"{furthest:.2g}")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=250)
    parser.add_argument("--agent", default="shipped")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "kgwalk-export")
    parser.add_argument("--only", nargs="*", default=list(TOLERANCES), choices=list(TOLERANCES))
    asked = parser.parse_args()
    agent = agent_at(asked.agent)
    recipe = str(agent.card["recipe"])
    adapter = str(agent.folder)
    report: dict[str, Any] = {}
    free = walked(asked.work, "free", asked.questions, recipe, "local", adapter=adapter, values=FREE)
    for name in asked.only:
        form, _, numbers = name.partition("-")
        folder = asked.work / "exported" / name
        if not folder.exists():
            export(agent, form, folder, numbers=numbers or None)
        prompts = [one["prompt"] for one in free.values()]
        if form == "gguf":
            [file] = folder.glob("*.gguf")
            with llama_cpp(file) as address:
                engine = ApiEngine(file.stem, base_url=f"{address}/v1", at_once=1, context=8192, timeout=300)
                told = load_recipe(str(folder / RECIPE_FILE))
                after = walked(asked.work, name, asked.questions, told, engine, values=FREE)
                beside = prompts_compared(address, agent, prompts)
        else:
            kind, told = ("onnx" if form == "onnx" else "local"), load_recipe(str(folder / RECIPE_FILE))
            after = walked(asked.work, name, asked.questions, told, kind, model=str(folder), values=FREE)
            beside = (onnx_compared if form == "onnx" else logits_compared)(agent, folder, prompts)
        size = sum(file.stat().st_size for file in folder.iterdir())
        report[name] = compared(free, after) | beside | {"megabytes": round(size / 1e6, 1)}
        print(name, json.dumps(report[name]), flush=True)
    print(json.dumps(report, indent=2))
    wrong = [one for name, measured in report.items() for one in shortfalls(name, measured)]
    for one in wrong:
        print(one, file=sys.stderr)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
