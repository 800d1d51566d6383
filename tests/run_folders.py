"""Run folders made by hand, for tests of what shows runs: a training with walks, and an evaluation with a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from films_questions import TURNS, engine
from kgwalk.config.run_folder import RowFile, begin_run, episode_row
from kgwalk.evaluation.evaluate import evaluate
from kgwalk.types import Answer, Call, Episode, Malformed, Question, StopReason, Triple, Turn

EVIL = "<img src=x onerror=\"document.title='owned'\">"


def walk(question: str, answers: list[str], *, malformed: bool = False, gold: str = "Ann", **about: Any) -> Episode:
    """A call and an answer, with a malformed turn between them if asked for."""
    turns = [
        Turn([7], [-0.5], 'tail_entities($1, "likes")', Call("tail_entities", (1, "likes")), "$2 = 1: Ann", [8, 9])
    ]
    if malformed:
        turns.append(Turn([5], [-0.5], "well", Malformed("no call and no answer"), "write a call", [6], ok=False))
    turns.append(Turn([9], [-0.5], f"<answer>{answers}</answer>", Answer(tuple(answers))))
    asked = Question(about.pop("id", "q"), question, ["Bob"], [gold], **about)
    evidence = {name: [Triple("Bob", "likes", name)] for name in answers}
    return Episode(asked, ["Bob"], [1, 2], f"the prompt of {question}", turns, answers, evidence, StopReason.answered)


def trained(path: Path, steps: int = 3, *, name: str = "who does Bob like", reward: float = 0.1) -> Path:
    """A training that was stopped: two steps of SFT, some of GRPO, two walks a step: a right and a malformed one."""
    settings = {
        "recipe": "kgwalk",
        "data": "/data/films",
        "split": "train",
        "sections": {"model": {"name": "tiny"}, "grpo": {"steps": 10, "lr": reward}},
    }
    with begin_run(path, "train", settings):
        with RowFile(path / "sft" / "metrics.jsonl") as rows:
            for step in (1, 2):
                rows.add({"stage": "sft", "step": step, "loss": 2.0 / step, "tokens": 100.0, "seconds": 0.5})
        (path / "sft" / "done.json").write_text('{"steps": 2, "last": {}, "best": {"eval_f1": 0.25, "step": 2}}')
        add_steps(path, range(1, steps + 1), reward)
        with RowFile(path / "grpo" / "episodes.jsonl") as rows:
            for step in range(1, steps + 1):
                for answer, malformed in (("Ann", False), ("Cid", True)):
                    one = walk(f"{name} in step {step}?", [answer], malformed=malformed, hops=1 + malformed)
                    rewards = {"turns": [0.25] * len(one.turns), "whole": float(answer == "Ann"), "parts": {"f1": 0.5}}
                    row = {"step": step, "rewards": rewards, "advantages": [1.5, -0.5, -1.0][: len(one.turns)]}
                    rows.add(row | {"episode": episode_row(one)})
    return path


def add_steps(path: Path, steps: range, reward: float = 0.1) -> None:
    with RowFile(path / "grpo" / "metrics.jsonl") as rows:
        for step in steps:
            row = {"stage": "grpo", "step": step, "reward": step * reward, "f1": 0.5, "kl": 0.01, "entropy": 1.0 / step}
            rows.add(row | {"generated_tokens": 30.0, "tokens_a_second": 900.0, "seconds": 2.0})


def evaluated(films: Path, out: Path, **answers: Any) -> Path:
    evaluate("kgwalk", films, engine=engine(**answers), values=[TURNS], out=out)
    return out
