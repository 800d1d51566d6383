"""The findings of a data check: their kinds, the report, and the checks that need no graph.

`read_lines` reads every line of a split, with a finding for each that is no question; `repeats` finds questions that
occur more than once, in a split or across splits. What needs a graph is in check.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from kgwalk.config.run_folder import kind, question_of
from kgwalk.data.folder import GRAPH
from kgwalk.kg.names import normalise
from kgwalk.kg.sources.source import Options, ReadCounts, Source, line_blocks, not_utf8, open_stream
from kgwalk.types import InputError, Progress, Question

ERROR, NOTE = "error", "note"

# An error makes a folder or a question useless, or its score wrong. A note is something to know when reading results.
KINDS: dict[str, tuple[str, str]] = {
    "unreadable_file": (ERROR, "a file that cannot be read"),
    "bad_line": (ERROR, "a line that is no question"),
    "no_splits": (ERROR, "no file of questions"),
    "graph": (ERROR, "no graph, or none that can be read"),
    "duplicate_id": (ERROR, "the id of an earlier question of the split"),
    "no_text": (ERROR, "no question text"),
    "no_topics": (ERROR, "no topic entity"),
    "no_answers": (ERROR, "no answer"),
    "gold_f1": (ERROR, "the gold answers do not score F1 = 1"),
    "gold_truth": (ERROR, "a yes-or-no question whose answer is neither"),
    "topics_missing": (ERROR, "no topic is in the graph"),
    "answers_missing": (ERROR, "no answer is in the graph"),
    "graph_only": (NOTE, "a graph without questions"),
    "texts_only": (NOTE, "texts without questions and graph"),
    "no_id": (NOTE, "no id"),
    "aliases_unused": (NOTE, "aliases of a name that is no answer"),
    "facts_left_out": (NOTE, "malformed facts left out of the graph"),
    "some_topics_missing": (NOTE, "some topics are not in the graph"),
    "some_answers_missing": (NOTE, "some answers are no node of the graph"),
    "answers_are_times": (NOTE, "the answers are times of facts, not nodes"),
    "answers_are_values": (NOTE, "the answers are of a kind that is no node"),
    "answers_elsewhere": (NOTE, "the answers are in the graph, not in the question's own facts"),
    "answers_far": (NOTE, "no answer within the hops given (4 where none are)"),
    "answers_unreached": (NOTE, "no way from a topic to an answer"),
    "answer_is_topic": (NOTE, "an answer is itself a topic"),
    "path_facts_missing": (NOTE, "a gold path has a fact that is not in the graph"),
    "path_start": (NOTE, "a gold path does not start at a topic"),
    "path_gap": (NOTE, "a gold path has facts that do not join"),
    "path_end": (NOTE, "a gold path does not end at an answer"),
    "same_text": (NOTE, "the text of an earlier question of the split"),
    "id_in_two_splits": (NOTE, "the id of a question of another split"),
    "leak": (NOTE, "text and topics of a question of another split"),
    "leak_of_text": (NOTE, "text of a question of another split, with other topics"),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be. `split`, `id` and `line` are None where it is not about one question."""

    kind: str
    text: str
    path: Path
    split: str | None = None
    id: str | None = None
    line: int | None = None

    @property
    def severity(self) -> str:
        return KINDS[self.kind][0]

    @property
    def where(self) -> str:
        return str(self.path) if self.line is None else f"{self.path}:{self.line}"

    def row(self) -> dict[str, Any]:
        return {"split": self.split, "id": self.id, "file": str(self.path), "line": self.line, "text": self.text}


@dataclass
class DataReport:
    """The result of a check. `reach[split][hops]` counts questions by the hops to their nearest answer.

    Only questions whose topics and answers are nodes are in `reach`; those whose answers cannot be reached are under
    "none".
    """

    questions: dict[str, int] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    reach: dict[str, Counter[str]] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether there are no errors; there may be notes."""
        return not self.count(ERROR)

    def count(self, severity: str) -> int:
        return sum(found.severity == severity for found in self.findings)

    def by_kind(self) -> dict[str, list[Finding]]:
        """The findings by kind, in the order of KINDS."""
        groups: dict[str, list[Finding]] = {kind: [] for kind in KINDS}
        for found in self.findings:
            groups[found.kind].append(found)
        return {kind: group for kind, group in groups.items() if group}

    def row(self, examples: int) -> dict[str, Any]:
        """What `kgwalk data check --json` prints, with so many examples of each kind."""
        kinds = {
            kind: {
                "severity": KINDS[kind][0],
                "count": len(group),
                "splits": dict(Counter(found.split for found in group if found.split)),
                "examples": [found.row() for found in group[:examples]],
            }
            for kind, group in self.by_kind().items()
        }
        return {"questions": self.questions, "findings": kinds, "reach": self.reach, "ok": self.ok}


def quoted(names: Sequence[str], most: int = 3) -> str:
    """Names for a message, the first few, with control characters written out.

    >>> quoted(["Big", "Tom\\tHanks", "1988", "Splash", "Hook"])
    "'Big', 'Tom\\\\tHanks', '1988' and 2 more"
    """
    shown = ", ".join(repr(name if len(name) <= 60 else f"{name[:60]}...") for name in names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


# Reading every line of a split


@dataclass(frozen=True, slots=True)
class QuestionLine:
    """A question, and the line that it stands in."""

    question: Question
    split: str
    path: Path
    line: int

    def finding(self, kind: str, text: str) -> Finding:
        return Finding(kind, text, self.path, self.split, self.question.id, self.line)


def read_lines(path: Path, split: str, progress: Progress) -> Iterator[QuestionLine | Finding]:
    """The questions of a file, and a finding for each other line; a file that breaks off ends with a finding.

    Loading a dataset stops at the first bad line, and takes a number for a text; this does neither.
    """
    source = Source(str(path), Options(), ReadCounts())
    empty = True
    try:
        with open_stream(source) as stream:
            for block in line_blocks(source, stream):
                for number, raw in enumerate(block.data.split(b"\n"), block.first):
                    if raw.strip():
                        empty = False
                        yield from _line(raw, number, split, path)
                progress(f"reading {path.name}", source.tally.bytes_read, source.tally.bytes_total)
    except InputError as error:
        yield unreadable(error, path, split)
    else:
        if empty:
            yield Finding("unreadable_file", "no questions", path, split)


def unreadable(error: Exception, path: Path, split: str | None = None, *, kind: str = "unreadable_file") -> Finding:
    """An error as a finding: its first line, without the file and line, which the finding has itself."""
    if isinstance(error, OSError):
        return Finding(kind, f"cannot be read: {error.strerror}", path, split)
    text, line = str(error).partition("\n")[0], None
    if isinstance(error, InputError) and error.path == str(path):
        line = error.line
        text = text.removeprefix(f"{path}:").removeprefix(f"{line}:").strip()
    return Finding(kind, text, path, split, line=line)


def _line(raw: bytes, number: int, split: str, path: Path) -> Iterator[QuestionLine | Finding]:
    try:
        row = _row(raw)
        asked = QuestionLine(_question(row, number), split, path, number)
    except ValueError as error:
        yield Finding("bad_line", str(error), path, split, line=number)
        return
    yield asked
    if "id" not in row:
        yield asked.finding("no_id", "no `id`: the line's number stands for it")


def _row(raw: bytes) -> dict[str, Any]:
    """The object of a line, without the question's own facts, which may be a thousand times the rest."""
    try:
        row = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        try:
            raw.decode("utf-8")
        except UnicodeDecodeError as why:
            raise ValueError(not_utf8(why)) from None
        raise ValueError(f"not JSON: {error.msg} (column {error.colno})") from None
    if not isinstance(row, dict):
        raise ValueError(f"expected an object, got {kind(row)}")
    row.pop(GRAPH, None)
    return row


def _question(row: dict[str, Any], number: int) -> Question:
    """The question of an object; ValueError says what is wrong."""
    if "question" not in row:
        raise ValueError("no `question`")
    for key, kinds in (("id", (str, int)), ("question", (str,))):
        if key in row and type(row[key]) not in kinds:
            raise ValueError(f"expected `{key}`, text, got {kind(row[key])}")
    question = question_of(row, str(number))
    if question.hops is not None and question.hops < 0:
        raise ValueError(f"expected `hops`, a whole number from 0 on, got {question.hops}")
    return question


# Questions that occur more than once

_Key = tuple[str, frozenset[str]]  # the text, and the topics


def repeats(asked: Mapping[str, Sequence[QuestionLine]], split: str | None = None) -> Iterator[Finding]:
    """Findings for questions whose id or text occurred before, in their split or in an earlier one (train, dev, test).

    Texts are the same if they agree but for case, accents and punctuation. With `split`, only that one's questions are
    checked, against all other splits.
    """
    ids: dict[str, dict[str, QuestionLine]] = {}  # the first question with this id, by split
    texts: dict[str, dict[str, QuestionLine]] = {}
    wholes: dict[_Key, dict[str, QuestionLine]] = {}
    later: list[tuple[QuestionLine, _Key]] = []
    for name in asked:
        for one in asked[name]:
            text = normalise(one.question.question)
            whole = (text, frozenset(one.question.topic_entities))
            ids.setdefault(one.question.id, {}).setdefault(name, one)
            if text:  # a blank text has a finding of its own
                texts.setdefault(text, {}).setdefault(name, one)
                wholes.setdefault(whole, {}).setdefault(name, one)
            if split in (None, name):
                later.append((one, whole))
    before = {name: set(list(asked)[:at]) if split is None else asked.keys() - {name} for at, name in enumerate(asked)}
    for one, whole in later:
        others = before[one.split]
        yield from _same_id(one, ids[one.question.id], others)
        if whole[0]:
            yield from _same_text(one, texts[whole[0]], wholes[whole], others)


def _same_id(one: QuestionLine, by_split: Mapping[str, QuestionLine], others: set[str]) -> Iterator[Finding]:
    first = by_split[one.split]
    if first is not one:
        yield one.finding("duplicate_id", f"the same id as line {first.line}")
    elif other := next((name for name in by_split if name in others), None):
        yield one.finding("id_in_two_splits", f"the same id as {_place(by_split[other])}")


def _same_text(
    one: QuestionLine, texts: Mapping[str, QuestionLine], wholes: Mapping[str, QuestionLine], others: set[str]
) -> Iterator[Finding]:
    text = quoted([one.question.question])
    first = texts[one.split]
    if first is not one:
        nearest = first if wholes[one.split] is one else wholes[one.split]
        yield one.finding("same_text", f"{text} is {_place(nearest)}, {_answers(one, nearest)}")
    if other := next((name for name in wholes if name in others), None):
        yield one.finding("leak", f"{text} is {_place(wholes[other])}, {_answers(one, wholes[other])}")
    elif other := next((name for name in texts if name in others), None):
        yield one.finding("leak_of_text", f"{text} is {_place(texts[other])}, {_answers(one, texts[other])}")


def _answers(one: QuestionLine, other: QuestionLine) -> str:
    """Whether two questions have the same answers: two films of one name make the same question twice."""
    return f"with {'the same' if set(one.question.answers) == set(other.question.answers) else 'other'} answers"


def _place(asked: QuestionLine) -> str:
    return f"line {asked.line} of {asked.split} ({asked.question.id})"
