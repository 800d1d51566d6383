"""A run's folder: what was run and with what, and files of rows with its questions and episodes.

    eval/run.json           kind, settings (the recipe as resolved, data, seed, model), command, versions, commit, when
    eval/predictions.jsonl  one row an episode (`RowFile`)
    eval/metrics.json       written at the end

A folder holds one run, and one process at a time writes into it (lock.py). With the same settings a run goes on where
it stopped; other settings are refused. Questions and episodes are written as JSON rows and read back without loss:

    episode_from(episode_row(episode)) == episode
    question_of(row_of(question), "1") == question

A question's row is a part of an episode's row, and the line of a dataset's split.
"""

from __future__ import annotations

import math
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import orjson

from kgwalk.config.lock import LOCK_FILES, sole_writer
from kgwalk.config.runtime import surroundings
from kgwalk.types import (
    Answer,
    AnswerForm,
    Call,
    Document,
    Episode,
    InputError,
    KgwalkError,
    Malformed,
    Question,
    SecondLook,
    Step,
    StopReason,
    Triple,
    Turn,
)

RUN = "run.json"
RESTORE = "restore the file, or start over with --force"


@dataclass(frozen=True)
class RunFolder:
    path: Path
    about: dict[str, Any]  # run.json

    @property
    def kind(self) -> str:
        return str(self.about["kind"])

    def file(self, name: str) -> Path:
        return self.path / name

    def write(self, name: str, value: Any) -> None:
        """A JSON file that is there whole or not at all."""
        write_json(self.path / name, value)

    def read(self, name: str) -> Any:
        return read_json(self.path / name)

    @contextmanager
    def unless_refused(self) -> Iterator[None]:
        """A run that is refused before it has a result was never begun: run.json goes.

        Within `begin_run`, so that it is nobody else's; the folders that were made for it go at the end of that.
        """
        try:
            yield
        except KgwalkError:
            if not any(_results(self.path)):
                for inside in self.path.iterdir():
                    if inside.name not in LOCK_FILES:
                        inside.unlink()
            raise


@contextmanager
def begin_run(
    path: Path, kind: str, settings: dict[str, Any], *, force: bool = False
) -> Iterator[tuple[RunFolder, bool]]:
    """The folder of this run, and whether it had begun before with the same settings (then it goes on).

    `settings` decide what is computed: recipe, data, seed, model. A folder of another run is not touched unless
    `force` says to start over, or that run has written nothing yet. Inside, no other process writes into the folder.
    """
    with sole_writer(path):
        yield _begin(path, kind, orjson.loads(orjson.dumps(settings)), force=force)


@contextmanager
def continue_run(path: Path) -> Iterator[RunFolder]:
    """A run that was begun before, to add to it. Inside, no other process writes into the folder."""
    with sole_writer(path):
        yield open_run(path)


def _begin(path: Path, kind: str, settings: dict[str, Any], *, force: bool) -> tuple[RunFolder, bool]:
    try:
        if (path / RUN).exists():
            found = open_run(path)
            differing = _differing(found.about, kind, settings)
            if not differing and not force:
                return found, True
            if not force and any(_results(path)):
                raise KgwalkError(
                    f"{path} holds another run: {'; '.join(differing)}. "
                    "Choose another folder with -o, or start over with --force"
                )
            _clear(path)
        elif any(_results(path)):
            raise KgwalkError(f"{path} is not empty and holds no run; choose another folder")
        about = {"kind": kind, "settings": settings, **surroundings()}
        write_json(path / RUN, about)
    except OSError as error:
        raise KgwalkError(f"cannot write into {path}: {error.strerror or error}; choose another folder") from error
    return RunFolder(path, about), False


def open_run(path: Path) -> RunFolder:
    """A run that was begun before."""
    if not (path / RUN).exists():
        raise KgwalkError(f"{path} holds no run: there is no {RUN} in it")
    about = read_json(path / RUN)
    if not isinstance(about, dict) or not isinstance(about.get("settings"), dict) or "kind" not in about:
        raise KgwalkError(f"{path / RUN} is not of a run: it has no kind and settings")
    return RunFolder(path, about)


def write_json(path: Path, value: Any) -> None:
    beside = _partial(path)
    with open(beside, "wb") as file:
        file.write(orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS))
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def read_json(path: Path) -> Any:
    try:
        return orjson.loads(path.read_bytes())
    except FileNotFoundError:
        raise KgwalkError(f"{path} is missing; the run did not get so far") from None
    except orjson.JSONDecodeError as error:
        raise KgwalkError(f"{path} is not JSON: {error}") from None


def read_object(path: Path, *keys: str) -> dict[str, Any]:
    """A JSON object of a run that has these keys."""
    found = read_json(path)
    if not isinstance(found, dict):
        raise KgwalkError(f"{path} is damaged: expected an object, got {kind(found)}; {RESTORE}")
    missing = next((key for key in keys if key not in found), None)
    if missing is not None:
        raise KgwalkError(f"{path} is damaged: there is no `{missing}`; {RESTORE}")
    return found


def _partial(path: Path) -> Path:
    return path.with_name(f".{path.name}.partial")


def _results(path: Path) -> Iterator[Path]:
    """What is in the folder beside the beginning of a run: files that hold something, and folders."""
    for inside in path.iterdir():
        if inside.name not in (RUN, _partial(path / RUN).name, *LOCK_FILES) and (
            not inside.is_file() or inside.stat().st_size
        ):
            yield inside


def _clear(path: Path) -> None:
    """Remove a run's results. run.json stays until it is replaced: killed in between, this is still a run's folder."""
    for inside in path.iterdir():
        if inside.is_dir() and not inside.is_symlink():
            shutil.rmtree(inside)
        elif inside.name not in (RUN, *LOCK_FILES):
            inside.unlink()


def _differing(about: dict[str, Any], kind: str, settings: dict[str, Any]) -> list[str]:
    if about["kind"] != kind:
        return [f"its kind is {about['kind']!r}, not {kind!r}"]
    before, now = dict(flat_settings(about["settings"])), dict(flat_settings(settings))
    return [
        f"`{key}` was {_short(before.get(key))}, is {_short(now.get(key))}"
        for key in sorted({*before, *now})
        if before.get(key) != now.get(key)
    ]


def flat_settings(settings: dict[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Each single setting: {"rollout": {"turn_tokens": 64}} has `rollout.turn_tokens`."""
    for key, value in settings.items():
        if isinstance(value, dict):
            yield from flat_settings(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


def _short(value: Any, limit: int = 80) -> str:
    text = "not set" if value is None else orjson.dumps(value).decode()
    return text if len(text) <= limit else f"{text[:limit]}..."


# Files of JSON rows that only grow

_OPTIONS = orjson.OPT_APPEND_NEWLINE | orjson.OPT_SERIALIZE_NUMPY
_SURROGATE = re.compile("[\ud800-\udfff]")


class RowFile:
    """Appends rows; other processes can read each as soon as `add` returns.

    A process that is killed leaves at most one line that is cut off. Opening the file again drops it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        drop_cut_line(path)
        self._file: BinaryIO = open(path, "ab", buffering=0)  # noqa: SIM115 - closed by close()

    def add(self, row: dict[str, Any]) -> None:
        view = memoryview(_line(row))
        while view:  # a raw write may take only a part
            view = view[self._file.write(view) :]

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> RowFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: object, trace: TracebackType | None) -> None:
        self.close()


def read_rows(path: Path, *, hint: str | None = None) -> Iterator[dict[str, Any]]:
    """The whole rows of a file; a last line that was cut off is left out, any other that is not JSON is an error.

    `hint` says what to do then.
    """
    if not path.exists():
        return
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return
            try:
                row = orjson.loads(line)
            except orjson.JSONDecodeError as error:
                raise InputError(f"not JSON: {error}", path=str(path), line=number, hint=hint) from None
            if not isinstance(row, dict):
                raise InputError("expected an object", path=str(path), line=number, hint=hint)
            yield row


def drop_cut_line(path: Path) -> None:
    """Truncate the file after its last newline."""
    if not path.exists():
        return
    with open(path, "r+b") as file:
        end = file.seek(0, os.SEEK_END)
        at = end
        while at > 0:
            begin = max(0, at - 65536)
            file.seek(begin)
            newline = file.read(at - begin).rfind(b"\n")
            if newline >= 0:
                at = begin + newline + 1
                break
            at = begin
        if at < end:
            file.truncate(at)


def _line(row: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(row, option=_OPTIONS)
    except orjson.JSONEncodeError:  # half a surrogate pair, as a server's message may have: no file takes it
        return orjson.dumps(_writable(row), option=_OPTIONS)


def _writable(value: Any) -> Any:
    """The same with U+FFFD for each half of a surrogate pair."""
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_writable(key): _writable(inside) for key, inside in value.items()}
    return [_writable(inside) for inside in value] if isinstance(value, list | tuple) else value


# Questions as rows

_FIELDS = ("id", "question", "topic_entities", "answers", "hops", "gold_paths", "evidence", "type", "aliases")
_KINDS = {str: "text", bool: "true or false", int: "a number", float: "a number", dict: "an object", list: "a list"}


def question_of(row: Any, number: str) -> Question:
    """A question from its JSON object; `number` is the id of one that has none. ValueError says what is wrong.

    Reads the folder format of kgwalk's data (`id, question, topic_entities, answers, ...`) and the keys of RoG's data
    sets (`q_entity, answer, a_entity`).
    """
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
            raise ValueError(f"expected [head, relation, tail] in `{what}`, three names, got {_short_value(fact)}")
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


def _short_value(value: Any, limit: int = 80) -> str:
    text = orjson.dumps(value, default=repr).decode()
    return text if len(text) <= limit else f"{text[:limit]}..."


# Episodes as rows


def episode_row(episode: Episode) -> dict[str, Any]:
    """Plain lists, numbers and texts, for orjson. What is as it mostly is (`form`, `looked`...) is left out."""
    form = {} if episode.form == AnswerForm() else {"form": asdict(episode.form)}
    looked = {} if episode.looked is None else {"looked": asdict(episode.looked)}
    sure = {} if episode.probability is None else {"probability": episode.probability}
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
        **(form | looked | sure),
    }


def episode_from(row: Any) -> Episode:
    """The episode of a row; ValueError says what is wrong with one that `episode_row` did not write."""
    _check_parts(row, _EPISODE)
    for part, of_part in (("form", _FORM), ("looked", _LOOKED)):
        if part in row:
            _check_parts(row[part], of_part)
    if not isinstance(row.get("probability"), float | int | None):
        raise ValueError(f"expected `probability`, a number, got {_short_value(row['probability'])}")
    return Episode(
        question=question_of(row["question"], ""),
        topics=row["topics"],
        prompt_ids=row["prompt_ids"],
        prompt=row["prompt"],
        turns=[_turn_from(turn) for turn in row["turns"]],
        answers=row["answers"],
        evidence={name: triples_of(facts, "evidence") for name, facts in row["evidence"].items()},
        stop=StopReason(row["stop"]),
        failure=row["failure"],
        seconds=row["seconds"],
        shown=row["shown"],
        seen=triples_of(row["seen"], "seen"),
        key=row["key"],
        form=AnswerForm(**{name: row["form"][name] for name in _FORM}) if "form" in row else AnswerForm(),
        probability=row.get("probability"),
        looked=SecondLook(**{name: row["looked"][name] for name in _LOOKED}) if "looked" in row else None,
    )


def step_row(step: Step) -> dict[str, Any]:
    match step:
        case Call(tool, args):
            return {"call": tool, "args": list(args)}
        case Answer(names):
            return {"answer": list(names)}
        case Malformed(why):
            return {"malformed": why}


def step_from(row: Any) -> Step:
    match row:
        case {"call": str(tool), "args": list(args)} if all(isinstance(one, str | int) for one in args):
            return Call(tool, tuple(args))
        case {"answer": list(names)} if all(isinstance(one, str | int) for one in names):
            return Answer(tuple(names))
        case {"malformed": str(why)}:
            return Malformed(why)
    raise ValueError(f"expected `step`, a call, an answer or why it is malformed, got {_short_value(row)}")


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


def _turn_from(row: Any) -> Turn:
    """A row of an older run has no documents."""
    _check_parts(row, _TURN)
    counted, documents = row["counted"], row.get("documents", [])
    if not (isinstance(documents, list) and all(_is_texts(one) and len(one) == 3 for one in documents)):
        raise ValueError("expected `documents`, a list of [title, text, source]")
    own = {
        "logprobs": [math.nan if one is None else one for one in row["logprobs"]],  # JSON has no NaN
        "step": step_from(row["step"]),
        "counted": None if counted is None else tuple(counted),
        "documents": [Document(*one) for one in documents],
    }
    return Turn(**{name: row[name] for name in _TURN} | own)


_Part = tuple[Callable[[Any], bool], str]  # whether a value is proper, and what it must be


def _check_parts(row: Any, parts: dict[str, _Part]) -> None:
    if not isinstance(row, dict):
        raise ValueError(f"expected an object, got {kind(row)}")
    for name, (proper, what) in parts.items():
        if name not in row:
            raise ValueError(f"there is no `{name}`")
        if not proper(row[name]):
            raise ValueError(f"expected `{name}`, {what}, got {_short_value(row[name])}")


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _is_whole_numbers(value: Any) -> bool:
    return isinstance(value, list) and all(type(one) is int for one in value)


_TEXT: _Part = (lambda value: isinstance(value, str), "text")
_TEXT_OR_NOTHING: _Part = (lambda value: value is None or isinstance(value, str), "text")
_NUMBER: _Part = (lambda value: type(value) in (int, float), "a number")
_TEXTS, _IDS = (_is_texts, "a list of names"), (_is_whole_numbers, "a list of whole numbers")
_LIST: _Part = (lambda value: isinstance(value, list), "a list")
_OBJECT: _Part = (lambda value: isinstance(value, dict), "an object")
_EPISODE: dict[str, _Part] = {
    "question": _OBJECT,
    "topics": _TEXTS,
    "prompt": _TEXT,
    "prompt_ids": _IDS,
    "turns": _LIST,
    "answers": _TEXTS,
    "evidence": _OBJECT,
    "stop": (lambda value: value in [str(stop) for stop in StopReason], "why it ended"),
    "failure": _TEXT_OR_NOTHING,
    "seconds": _NUMBER,
    "shown": _TEXTS,
    "seen": _LIST,
    "key": _TEXT,
}
_FORM: dict[str, _Part] = {
    "kind": _TEXT,
    "ordered": (lambda value: isinstance(value, bool), "true or false"),
    "columns": _TEXTS,
    "rows": (lambda value: isinstance(value, list) and all(map(_TEXTS[0], value)), "lists of texts"),
}
_LOOKED: dict[str, _Part] = dict.fromkeys(
    ("walks", "agreed", "prompt_tokens", "generated_tokens"), (lambda value: type(value) is int, "a whole number")
)
_TURN: dict[str, _Part] = {
    "ids": _IDS,
    "logprobs": (lambda value: isinstance(value, list) and {*map(type, value)} <= {int, float, type(None)}, "numbers"),
    "text": _TEXT,
    "step": _OBJECT,
    "observation": _TEXT,
    "observation_ids": _IDS,
    "ok": (lambda value: isinstance(value, bool), "true or false"),
    "error": _TEXT_OR_NOTHING,
    "shown": _TEXTS,
    "counted": (lambda value: value is None or (_is_whole_numbers(value) and len(value) == 2), "two whole numbers"),
    "seconds": _NUMBER,
}
