"""The walks of a run, to look through: by step, right or wrong, malformed, by hops and by kind of answer.

    walks = RecordedWalks(Path("runs/kgwalk-world/grpo/episodes.jsonl"))
    walks.read()                                          # the places of all rows, and what they are filtered by
    found = walks.found(WalkFilter(show="wrong", step=40))
    walks.shown(*found[0])                                # one walk, turn by turn, with reward and advantage

The file is `episodes.jsonl` of a training, a few walks of each step, or `predictions.jsonl` of an evaluation. Both only
grow while a run goes on, so what was read once is not read again; a file that was replaced is. Of a row only its place
and its marks are kept.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, TypedDict

import orjson

from kgwalk.config.run_folder import RESTORE, episode_from, question_of
from kgwalk.evaluation.report import is_right
from kgwalk.score.answers import gold_of, match
from kgwalk.types import Answer, Call, Episode, InputError, Malformed, Turn

READ_AT_ONCE = 128 << 20  # bytes: about a second; a caller who is told that there is more asks again
LONGEST = 20_000  # characters of one text
SHOWS: dict[str, str] = {
    "all": "every walk",
    "wrong": "the answer is not just the right one",
    "right": "the answer is just the right one",
    "malformed": "a turn was neither a call nor an answer",
    "failed_call": "a tool answered with an error",
    "no_answer": "it ended without an answer",
}


class WalkMarks(NamedTuple):
    """Where a row lies, and what it is filtered by."""

    begin: int
    end: int
    step: int | None
    number: int | None  # the question's place in its split
    right: bool
    malformed: bool
    failed_call: bool
    answered: bool
    hops: str
    kind: str  # of answer: entity, number, boolean, table, time
    type: str
    error: str  # class of error, where an evaluation has found it
    text: str  # id and question, in lower case


@dataclass(frozen=True, slots=True)
class WalkFilter:
    """What to look for; None takes all. `step` takes the walks of that step alone."""

    show: str = "all"
    step: int | None = None
    number: int | None = None
    hops: str | None = None
    kind: str | None = None
    type: str | None = None
    error: str | None = None
    text: str | None = None

    def takes(self, marks: WalkMarks) -> bool:
        if not _SHOWN[self.show](marks):
            return False
        wanted = (self.step, self.number, self.hops, self.kind, self.type, self.error)
        having = (marks.step, marks.number, marks.hops, marks.kind, marks.type, marks.error)
        if any(want is not None and want != have for want, have in zip(wanted, having, strict=True)):
            return False
        return self.text is None or self.text.lower() in marks.text


_SHOWN: dict[str, Callable[[WalkMarks], bool]] = {
    "all": lambda marks: True,
    "wrong": lambda marks: not marks.right,
    "right": lambda marks: marks.right,
    "malformed": lambda marks: marks.malformed,
    "failed_call": lambda marks: marks.failed_call,
    "no_answer": lambda marks: not marks.answered,
}


class RecordedTurn(TypedDict):
    text: str  # what the model wrote
    call: str | None  # as words: the tool and what it was given
    answer: bool
    malformed: str | None  # why
    observation: str  # what it was told; no loss is taken there
    ok: bool
    error: str | None
    tokens: int
    observation_tokens: int
    reward: float | None
    advantage: float | None


class ShownWalk(TypedDict):
    """One walk to read. Long texts are cut."""

    line: int
    step: int | None
    number: int | None
    id: str
    question: str
    hops: int | None
    type: str | None
    kind: str
    topics: list[str]
    gold: list[str]
    answers: list[str]
    right: bool
    f1: float | None
    error: str | None
    stop: str
    failure: str | None
    confidence: float | None
    seconds: float
    prompt: str
    prompt_tokens: int
    turns: list[RecordedTurn]
    reward: float | None  # of the whole walk
    rewards: dict[str, float]  # its parts
    trained: bool | None  # whether it took part in the update; null in an evaluation
    evidence: dict[str, list[list[str]]]


class RecordedWalks:
    """A file of walks and the marks of its rows. Several threads may ask."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = Lock()
        self._clear(0)

    def _clear(self, file: int) -> None:
        self._file = file
        self.marks: list[WalkMarks] = []
        self.end = self.size = 0  # bytes read, bytes that there are

    @property
    def all_read(self) -> bool:
        return self.end == self.size

    def read(self, most: int = READ_AT_ONCE) -> None:
        """Look at the rows that are new, at most so many bytes of them."""
        with self._lock, open(self.path, "rb") as file:
            about = os.fstat(file.fileno())
            if about.st_ino != self._file or about.st_size < self.end:
                self._clear(about.st_ino)
            self.size = about.st_size
            file.seek(self.end)
            begin, until = self.end, self.end + most
            for line in file:
                if not line.endswith(b"\n"):  # it is being written
                    self.size = begin
                    break
                self.marks.append(self._marks(line, begin))
                begin += len(line)
                self.end = begin
                if begin >= until:
                    break

    def _marks(self, line: bytes, begin: int) -> WalkMarks:
        row = self._row(line, len(self.marks) + 1)
        episode, question = row["episode"], row["episode"]["question"]
        steps = [turn.get("step") or {} for turn in episode["turns"]]
        kinds = question.get("hops"), question.get("answer_kind"), question.get("type")
        hops, kind, form = (None if one is None else str(one) for one in kinds)
        return WalkMarks(
            begin,
            begin + len(line),
            row.get("step"),
            row.get("number"),
            _right(row),
            any("malformed" in step for step in steps),
            any(not turn.get("ok") and "call" in step for turn, step in zip(episode["turns"], steps, strict=True)),
            episode.get("stop") == "answered" and bool(episode.get("answers") or not question.get("answers")),
            hops or "not known",
            kind or "entity",
            form or "",
            row.get("error") or "",
            f"{question.get('id', '')} {question.get('question', '')}".lower(),
        )

    def _row(self, line: bytes, number: int) -> dict[str, Any]:
        try:
            row = orjson.loads(line)
            episode = row["episode"]
            proper = isinstance(episode["question"], dict) and all(isinstance(turn, dict) for turn in episode["turns"])
            proper = proper and all(type(row.get(key, 0)) is int for key in ("step", "number"))
        except (orjson.JSONDecodeError, KeyError, TypeError) as error:
            raise self._damaged(f"not the row of a walk ({type(error).__name__}: {error})", number) from None
        if not proper:
            raise self._damaged("not the row of a walk", number)
        return dict(row)

    def _damaged(self, why: str, number: int) -> InputError:
        return InputError(why, path=str(self.path), line=number, hint=RESTORE)

    def found(self, wanted: WalkFilter) -> list[tuple[int, WalkMarks]]:
        """The rows that the filter takes, among those that were read, each with its place."""
        return [(at, marks) for at, marks in enumerate(self.marks) if wanted.takes(marks)]

    def counts(self, wanted: WalkFilter) -> dict[str, dict[str, int]]:
        """What there is to filter by, with how many walks each value has; of the chosen step, if one is chosen."""
        inside = [marks for marks in self.marks if wanted.step is None or marks.step == wanted.step]
        found = {"show": {show: sum(map(takes, inside)) for show, takes in _SHOWN.items()}}
        for name in ("hops", "kind", "type", "error"):
            counts = Counter(str(getattr(marks, name)) for marks in inside)
            found[name] = {value: counts[value] for value in sorted(counts) if value}
        return found

    def steps(self) -> list[int]:
        """The steps that have walks."""
        return sorted({marks.step for marks in self.marks if marks.step is not None})

    def shown(self, at: int, marks: WalkMarks) -> ShownWalk:
        """The walk of a row, whole."""
        with open(self.path, "rb") as file:
            file.seek(marks.begin)
            row = self._row(file.read(marks.end - marks.begin), at + 1)
        try:
            return _shown(row, episode_from(row["episode"]), marks, at)
        except ValueError as error:
            raise self._damaged(f"its `episode`: {error}", at + 1) from None


def _right(row: dict[str, Any]) -> bool:
    """As an evaluation has scored it; a training's walk is scored here, by its names alone."""
    if isinstance(row.get("metrics"), dict):
        try:
            return is_right(row)
        except (KeyError, TypeError, AttributeError):
            return False
    gold, answers = row["episode"]["question"].get("answers"), row["episode"].get("answers")
    if row["episode"].get("stop") != "answered":
        return False
    return bool(answers == gold or _f1(row) == 1)


def _f1(row: dict[str, Any]) -> float | None:
    episode = row["episode"]
    try:
        question = question_of(episode["question"], "")
        return match(episode["answers"], gold_of(question)).f1 if episode["stop"] == "answered" else 0.0
    except (ValueError, KeyError, TypeError):
        return None


def _shown(row: dict[str, Any], episode: Episode, marks: WalkMarks, at: int) -> ShownWalk:
    rewards = row.get("rewards") or {}
    whole = rewards.get("whole")
    each, credit = rewards.get("turns") or [], row.get("advantages") or []
    question, metrics = episode.question, row.get("metrics")
    return {
        "line": at,
        "step": marks.step,
        "number": marks.number,
        "id": question.id,
        "question": _cut(question.question),
        "hops": question.hops,
        "type": question.type,
        "kind": marks.kind,
        "topics": episode.topics,
        "gold": question.answers,
        "answers": episode.answers,
        "right": marks.right,
        "f1": metrics.get("f1") if isinstance(metrics, dict) else _f1(row),
        "error": marks.error or None,
        "stop": str(episode.stop),
        "failure": episode.failure,
        "confidence": episode.confidence,
        "seconds": episode.seconds,
        "prompt": _cut(episode.prompt),
        "prompt_tokens": len(episode.prompt_ids),
        "turns": list(_turns(episode.turns, each, credit)),
        "reward": None if whole is None else float(whole),
        "rewards": {str(name): float(value) for name, value in (rewards.get("parts") or {}).items()},
        "trained": None if "rewards" not in row else "advantages" in row,
        "evidence": {name: [list(fact[:3]) for fact in facts[:20]] for name, facts in episode.evidence.items()},
    }


def _turns(turns: Sequence[Turn], rewards: Sequence[float], advantages: Sequence[float]) -> Iterator[RecordedTurn]:
    for at, turn in enumerate(turns):
        call = malformed = None
        match turn.step:
            case Call(tool, args):
                shown = ", ".join(f"${arg}" if isinstance(arg, int) else f'"{arg}"' for arg in args)
                call = _cut(f"{tool}({shown})")
            case Malformed(why):
                malformed = why
        yield {
            "text": _cut(turn.text),
            "call": call,
            "answer": isinstance(turn.step, Answer),
            "malformed": malformed,
            "observation": _cut(turn.observation),
            "ok": turn.ok,
            "error": turn.error,
            "tokens": len(turn.ids),
            "observation_tokens": len(turn.observation_ids),
            "reward": rewards[at] if at < len(rewards) else None,
            "advantage": advantages[at] if at < len(advantages) else None,
        }


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}... ({len(text) - LONGEST:,} characters more)"
