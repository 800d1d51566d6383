"""Episodes as JSON and back, whole: `episode_from(episode_row(episode)) == episode`.

Knows the nouns of kgwalk.types and nothing of who made or reads the episode.
"""

from __future__ import annotations

from typing import Any

from kgwalk.runs.question_rows import question_of, row_of
from kgwalk.types import Answer, Call, Document, Episode, Malformed, Step, StopReason, Triple, Turn


def episode_row(episode: Episode) -> dict[str, Any]:
    """Plain lists, numbers and texts, for orjson."""
    return {
        "question": row_of(episode.question),
        "topics": episode.topics,
        "prompt": episode.prompt,
        "prompt_ids": episode.prompt_ids,
        "turns": [_turn_row(turn) for turn in episode.turns],
        "answers": episode.answers,
        "evidence": {name: [list(fact) for fact in facts] for name, facts in episode.evidence.items()},
        "stop": str(episode.stop),
        "failure": episode.failure,
        "seconds": episode.seconds,
        "shown": episode.shown,
        "seen": [list(fact) for fact in episode.seen],
        "key": episode.key,
    }


def episode_from(row: dict[str, Any]) -> Episode:
    return Episode(
        question=question_of(row["question"], ""),
        topics=row["topics"],
        prompt_ids=row["prompt_ids"],
        prompt=row["prompt"],
        turns=[_turn_from(turn) for turn in row["turns"]],
        answers=row["answers"],
        evidence={name: [Triple(*fact) for fact in facts] for name, facts in row["evidence"].items()},
        stop=StopReason(row["stop"]),
        failure=row["failure"],
        seconds=row["seconds"],
        shown=row["shown"],
        seen=[Triple(*fact) for fact in row["seen"]],
        key=row["key"],
    )


def _turn_row(turn: Turn) -> dict[str, Any]:
    # by hand: dataclasses.asdict copies every list of ids, which takes longer than all the rest of an evaluation
    return {
        "ids": turn.ids,
        "logprobs": turn.logprobs,
        "text": turn.text,
        "step": step_row(turn.step),
        "observation": turn.observation,
        "observation_ids": turn.observation_ids,
        "ok": turn.ok,
        "error": turn.error,
        "shown": turn.shown,
        "counted": turn.counted,
        "seconds": turn.seconds,
        "documents": [[one.title, one.text, one.source] for one in turn.documents],
    }


def _turn_from(row: dict[str, Any]) -> Turn:
    """A row of an older run has no documents."""
    counted = row["counted"]
    own = {
        "step": step_from(row["step"]),
        "counted": None if counted is None else tuple(counted),
        "documents": [Document(*one) for one in row.get("documents", ())],
    }
    return Turn(**{**row, **own})


def step_row(step: Step) -> dict[str, Any]:
    match step:
        case Call(tool, args):
            return {"call": tool, "args": list(args)}
        case Answer(names):
            return {"answer": list(names)}
        case Malformed(why):
            return {"malformed": why}


def step_from(row: dict[str, Any]) -> Step:
    if "call" in row:
        return Call(row["call"], tuple(row["args"]))
    if "answer" in row:
        return Answer(tuple(row["answer"]))
    return Malformed(row["malformed"])
