"""The graphs and their questions as the files have them: `graph.toml`, the raw files, `questions.jsonl`.

    for graph in dev():
        graph.name, graph.files, graph.questions[0].question

A sealed graph has the same files inside an archive; `sealed()` unpacks them into a folder that goes away again.
"""

from __future__ import annotations

import gzip
import json
import tarfile
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kgwalk.demos.route import sets_named, step_of
from kgwalk.walk.language import CALLS, DATED_CALLS
from kgwalk.walk.values import value_of

HERE = Path(__file__).parent
SEALED = HERE / "sealed.tar.gz"
QUESTIONS = "questions.jsonl"
GRAPH = "graph.toml"

KINDS = ("set", "yes/no", "number", "date", "table", "none")  # of answers
SHAPES = (
    "one hop",
    "two hops",
    "three hops",
    "both",
    "union",
    "count",
    "superlative",
    "n-th",
    "comparison",
    "sum or average",
    "group by",
    "date",
    "yes/no",
    "not",
    "which of two",
    "only or none",
    "value node",
    "repeated path",
    "table",
    "not in the graph",
    "kind",
)

Cells = str | list[str]  # one answer: a name, a number, a date, yes or no; or a row of a table


@dataclass(frozen=True)
class Starts:
    """What a walk should start from, as people see it: things, kinds of things, and values that a condition names.

    These are what the gold program needs. `also` are kinds and things that the question names as well: to start from
    them is not wrong. `instead` has for a start others that do as well, by another program.
    """

    entities: list[str] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    values: list[str] = field(default_factory=list)
    also: list[str] = field(default_factory=list)
    instead: dict[str, list[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class UserQuestion:
    """A question with its answers, and the query over the raw files that gives them (none if the graph does not say).

    `aliases` are other names that an answer goes by. Of `ordered` answers the order was asked for. `why` says what is
    missing where the graph has no answer.

    `program` is the gold walk, as datasets have theirs: calls of the walking language. $1, $2, ... are the starts,
    entities before kinds; each call makes the next set, of which the last is the answer. Without a call the answer
    is what it starts from. `unsayable` says why there is none for a question that has an answer.
    """

    id: str
    question: str
    shape: str
    answer_kind: str
    answers: list[Cells]
    starts: Starts
    query: str = ""
    ordered: bool = False
    aliases: dict[str, list[str]] = field(default_factory=dict)
    why: str = ""
    program: list[list[str]] = field(default_factory=list)
    unsayable: str = ""

    @classmethod
    def of(cls, row: dict[str, Any]) -> UserQuestion:
        return cls(**row | {"starts": Starts(**row["starts"])})


@dataclass(frozen=True)
class UserGraph:
    """One graph: its folder, what `kg build` is given, and its questions."""

    name: str
    folder: Path
    title: str
    files: list[str]
    options: list[str]  # of `kg build`
    company: bool
    aliases: str  # a query for pairs of a name and another name of the same thing
    questions: list[UserQuestion]

    @property
    def sources(self) -> list[Path]:
        return [self.folder / file for file in self.files]


def read_graph(folder: Path) -> UserGraph:
    about = tomllib.loads((folder / GRAPH).read_text())
    lines = (folder / QUESTIONS).read_text().splitlines() if (folder / QUESTIONS).is_file() else []
    return UserGraph(
        folder.name,
        folder,
        about["title"],
        about["files"],
        about.get("options", []),
        about.get("company", False),
        about.get("aliases", ""),
        [UserQuestion.of(json.loads(line)) for line in lines],
    )


def dev() -> list[UserGraph]:
    """The graphs for development."""
    return _graphs(HERE / "dev")


def practice() -> list[UserGraph]:
    """Graphs written later: measured once before anybody read a failure on them, and read from then on."""
    return _graphs(HERE / "practice")


def fresh() -> list[UserGraph]:
    """Graphs written later still: two to tune by, hospital and festival; of wines and buses only totals are read."""
    return _graphs(HERE / "fresh")


@contextmanager
def sealed() -> Iterator[list[UserGraph]]:
    """The sealed graphs, unpacked while they are used."""
    with tempfile.TemporaryDirectory(prefix="kgwalk-users-") as made:
        with tarfile.open(SEALED) as archive:
            archive.extractall(made, filter="data")
        yield _graphs(Path(made))


def seal(folder: Path, archive: Path = SEALED) -> None:
    """Write the archive of the sealed graphs; the same files give the same bytes."""
    files = sorted(path for path in folder.glob("*/*") if path.is_file())
    with (
        archive.open("wb") as raw,
        gzip.GzipFile(fileobj=raw, mode="wb", filename="", mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w") as tar,
    ):
        for path in files:
            entry = tarfile.TarInfo(str(path.relative_to(folder)))
            entry.size = path.stat().st_size
            with path.open("rb") as file:
                tar.addfile(entry, file)


def _graphs(folder: Path) -> list[UserGraph]:
    return [read_graph(file.parent) for file in sorted(folder.glob(f"*/{GRAPH}"))]


def _program_problems(question: UserQuestion) -> Iterator[str]:
    """What is wrong with a gold program: no such call, a set before it is made, a start that is not used."""
    starts = len(question.starts.entities) + len(question.starts.kinds)
    if not question.answers or question.unsayable:
        if question.program:
            yield "a question without an answer, or that cannot be said, has no program"
        return
    if not question.program:
        if starts != 1:
            yield "it has neither a program nor one start that is the answer"
        return
    used: set[int] = set()
    for made, (tool, *args) in enumerate(question.program, starts + 1):
        if tool not in CALLS + DATED_CALLS:
            yield f"there is no call {tool}"
        step = step_of(tool, args)
        used |= set(sets_named(step))
        if any(not 1 <= number < made for number in sets_named(step)):
            yield f"{tool} names a set that is not made"
    if unused := set(range(1, starts + len(question.program))) - used:
        yield f"${min(unused)} is not used"
    written = [value_of(arg) for _, *args in question.program for arg in args]
    numbers = {value.number for value in written if value is not None}
    for value in question.starts.values:
        read = value_of(value)
        if read is None or read.number not in numbers:
            yield f"the value {value} is in no call"


def problems(graph: UserGraph) -> Sequence[str]:
    """What is wrong with the questions of a graph by themselves; nothing, one hopes."""
    found = []
    for question in graph.questions:
        if question.shape not in SHAPES:
            found.append(f"{question.id}: no shape {question.shape!r}")
        if question.answer_kind not in KINDS:
            found.append(f"{question.id}: no kind of answer {question.answer_kind!r}")
        if (question.answer_kind == "none") != (not question.answers) or bool(question.why) != (not question.query):
            found.append(f"{question.id}: a question has a query and answers, or neither and a reason")
        if question.answer_kind in ("yes/no", "number", "date") and len(question.answers) != 1:
            found.append(f"{question.id}: a {question.answer_kind} is one, not {len(question.answers)}")
        found += [f"{question.id}: {line}" for line in _program_problems(question)]
        if (question.answer_kind == "table") != any(isinstance(row, list) for row in question.answers):
            found.append(f"{question.id}: rows make a table, names do not")
    if len({question.id for question in graph.questions}) < len(graph.questions):
        found.append(f"{graph.name}: two questions have one id")
    return found
