"""Questions and episodes as JSON rows, and back without loss.

    episode_from(episode_row(episode)) == episode
    question_of(row_of(question), "1") == question

A question's row is the line of a dataset's split and a part of an episode's row. `question_of` reads the folder format
of kgwalk's data (`id, question, topic_entities, answers, ...`) and the keys of RoG's data sets (`q_entity, answer,
a_entity`).
"""

from __future__ import annotations

from typing import Any

import orjson

from kgwalk.types import (
    Answer,
    Call,
    Document,
    Episode,
    KgwalkError,
    Malformed,
    Question,
    Step,
    StopReason,
    Triple,
    Turn,
)

# Questions


_FIELDS = ("id", "question", "topic_entities", "answers", "hops", "gold_paths", "evidence", "type", "aliases")
_KINDS = {str: "text", bool: "true or false", int: "a number", float: "a number", dict: "an object", list: "a list"}


def question_of(row: Any, number: str) -> Question:
    """A question from its JSON object; `number` is the id of one that has none. ValueError says what is wrong."""
    if not isinstance(row, dict):
        raise ValueError(f"expected an object, got {kind(row)}")
    topics_key = "topic_entities" if "topic_entities" in row else "q_entity"
    # RoG: `answer` is what the question is scored by, `a_entity` those of it that are entities
    answers_key = "answers" if "answers" in row else "answer" if row.get("answer") else "a_entity"
    used = {*_FIELDS, topics_key, answers_key}
    hops = row.get("hops")
    if not (hops is None or type(hops) is int):
        raise ValueError(f"expected `hops`, a whole number, got {kind(hops)}")
    return Question(
        id=str(row.get("id", number)),
        question=str(row.get("question", "")),
        topic_entities=_names(row.get(topics_key), "topic_entities"),
        answers=_names(row.get(answers_key), "answers"),
        hops=hops,
        gold_paths=_paths(row.get("gold_paths")),
        evidence=None if row.get("evidence") is None else triples_of(row["evidence"], "evidence"),
        type=_type(row.get("type")),
        aliases=_aliases(row.get("aliases")),
        extra={key: value for key, value in row.items() if key not in used},
    )


def row_of(question: Question) -> dict[str, Any]:
    """The JSON object that `question_of` reads back as the same question."""
    if taken := set(_FIELDS) & question.extra.keys():
        raise KgwalkError(f"question {question.id!r}: `extra` may not hold {', '.join(sorted(taken))}")
    row: dict[str, Any] = {
        "id": question.id,
        "question": question.question,
        "topic_entities": question.topic_entities,
        "answers": question.answers,
    }
    optional = {
        "aliases": question.aliases or None,
        "hops": question.hops,
        "gold_paths": None if question.gold_paths is None else [_lists(path) for path in question.gold_paths],
        "evidence": None if question.evidence is None else _lists(question.evidence),
        "type": question.type,
    }
    return row | {key: value for key, value in optional.items() if value is not None} | question.extra


def triples_of(value: Any, what: str) -> list[Triple]:
    """[[head, relation, tail], ...], each with an optional time."""
    if not isinstance(value, list):
        raise ValueError(f"expected `{what}`, a list of [head, relation, tail], got {kind(value)}")
    for fact in value:
        if not isinstance(fact, list) or len(fact) not in (3, 4) or not all(isinstance(part, str) for part in fact):
            raise ValueError(f"expected [head, relation, tail] in `{what}`, three names, got {_short(fact)}")
    return [Triple(*fact) for fact in value]


def kind(value: Any) -> str:
    """What a JSON value is, in words."""
    return "nothing" if value is None else _KINDS.get(type(value), type(value).__name__)


def kind_of_list(value: Any) -> str:
    """What was given for a list of texts: no list, or the first in it that is no text.

    >>> kind_of_list("a"), kind_of_list(["a", 5])
    ('text', 'a list with a number in it')
    """
    odd = [one for one in value if not isinstance(one, str)] if isinstance(value, list) else []
    inside = "null" if odd and odd[0] is None else kind(odd[0]) if odd else ""
    return f"a list with {inside} in it" if odd else kind(value)


def _lists(facts: list[Triple]) -> list[list[str]]:
    return [list(fact if fact.time else fact[:3]) for fact in facts]


def _names(value: Any, key: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise ValueError(f"expected `{key}`, a list of names, got {kind_of_list(value)}")
    return value


def _paths(value: Any) -> list[list[Triple]] | None:
    if value is None:
        return None
    if not isinstance(value, list):
        raise ValueError(f"expected `gold_paths`, a list of paths, got {kind(value)}")
    return [triples_of(path, "gold_paths") for path in value]


def _type(value: Any) -> str | None:
    """Text; several types of one question are joined in alphabetical order: Ordinal+Temp.Ans."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return "+".join(sorted(value)) or None
    raise ValueError(f"expected `type`, text, got {kind(value)}")


def _aliases(value: Any) -> dict[str, list[str]]:
    if value is None:
        return {}
    lists = list(value.values()) if isinstance(value, dict) else [None]
    if not all(isinstance(names, list) and all(isinstance(name, str) for name in names) for names in lists):
        raise ValueError("expected `aliases`, an object with a list of names for an answer")
    return dict(value)


def _short(value: Any, limit: int = 80) -> str:
    text = orjson.dumps(value).decode()
    return text if len(text) <= limit else f"{text[:limit]}..."


# Episodes


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
