"""Episodes as JSON and back, whole: `episode_from(episode_row(episode)) == episode`.

Knows the nouns of kgwalk.types and nothing of who made or reads the episode.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from kgwalk.types import Answer, Call, Episode, Malformed, Question, Step, StopReason, Triple, Turn


def episode_row(episode: Episode) -> dict[str, Any]:
    """Plain lists, numbers and texts, for orjson."""
    return {
        "question": question_row(episode.question),
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
        question=question_from(row["question"]),
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


def question_row(question: Question) -> dict[str, Any]:
    """The line of a question in the folder format; what is not known is left out."""
    row: dict[str, Any] = {
        "id": question.id,
        "question": question.question,
        "topic_entities": question.topic_entities,
        "answers": question.answers,
    }
    if question.hops is not None:
        row["hops"] = question.hops
    if question.gold_paths is not None:
        row["gold_paths"] = [[list(fact) for fact in path] for path in question.gold_paths]
    if question.evidence is not None:
        row["evidence"] = [list(fact) for fact in question.evidence]
    if question.type is not None:
        row["type"] = question.type
    if question.aliases:
        row["aliases"] = question.aliases
    return row | question.extra


_FIELDS = {"id", "question", "topic_entities", "answers", "hops", "gold_paths", "evidence", "type", "aliases"}


def question_from(row: dict[str, Any]) -> Question:
    paths, evidence = row.get("gold_paths"), row.get("evidence")
    return Question(
        id=row["id"],
        question=row["question"],
        topic_entities=row["topic_entities"],
        answers=row["answers"],
        hops=row.get("hops"),
        gold_paths=None if paths is None else [[Triple(*fact) for fact in path] for path in paths],
        evidence=None if evidence is None else [Triple(*fact) for fact in evidence],
        type=row.get("type"),
        aliases=row.get("aliases", {}),
        extra={key: value for key, value in row.items() if key not in _FIELDS},
    )


def _turn_row(turn: Turn) -> dict[str, Any]:
    row = asdict(turn)
    row["step"] = step_row(turn.step)
    return row


def _turn_from(row: dict[str, Any]) -> Turn:
    counted = row["counted"]
    return Turn(**{**row, "step": step_from(row["step"]), "counted": None if counted is None else tuple(counted)})


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
