"""What a format is: which files are questions or graph, and how a record becomes a question.

    FORMATS["webqsp"].read(Path("WebQSP.train.json"))

A `Format` is a few pure functions over records; its methods walk the files and deal with malformed records. Below it
are the functions by which a format reads the fields of a record. Each raises a ValueError that says what was expected;
`Format.read` makes it an InputError with the record's place, or notes it and goes on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from kgwalk.config.run_folder import kind, kind_of_list, row_of
from kgwalk.data.folder import line_of
from kgwalk.data.formats.records import Record
from kgwalk.types import InputError, KgwalkError, Question, Triple

SPLIT_NAMES = {"validation": "dev", "valid": "dev", "val": "dev", "training": "train"}
_SPLIT = re.compile(r"(?<![a-z])(train|training|dev|valid|validation|val|test)(?![a-z])")
_NOT_DATA = {"dataset_infos.json", "dataset_info.json", "dataset_dict.json", "state.json"}  # of the hub's library
_SHARD = re.compile(r"-\d{5}-of-\d{5}.*")


@dataclass(frozen=True)
class RecordReading:
    """How records are read: the language of questions, names for ids, and what becomes of malformed records."""

    language: str = "en"
    names: Mapping[str, str] = field(default_factory=dict)  # id -> name
    skipped: list[str] | None = None  # None: the first malformed record is an InputError
    split: str = ""  # of the file being read

    def name(self, key: str) -> str:
        return self.names.get(key, key)

    def refuse(self, error: InputError) -> None:
        """A malformed record: an error, or noted and left out."""
        if self.skipped is None:
            raise error
        self.skipped.append(str(error).split("\n")[0])


class ConvertedQuestion(NamedTuple):
    """A question, its own facts where the format has a graph for each, and the record it was read from."""

    question: Question
    graph: list[Triple] | None
    record: Record


@dataclass(frozen=True)
class Format:
    """One way in which questions are published."""

    name: str
    about: str
    files: str  # what they are called, for people
    records: Callable[[Path], Iterator[Record]]
    question: Callable[[Record, RecordReading], Question]
    is_questions: re.Pattern[str] = re.compile(r"\.(jsonl?|parquet)(\.gz|\.zst)?$")  # on the path inside the source
    is_graph: re.Pattern[str] | None = None
    facts: Callable[[Path, RecordReading], Iterator[Triple]] | None = None  # of a graph file; None: it is copied
    graph: Callable[[Record], list[Triple]] | None = None  # a question's own
    evidence_is_graph: bool = False  # without a graph file, the questions' evidence together is the graph
    keys: frozenset[str] = frozenset()  # that tell a record of this format from others

    def read(self, path: Path, reading: RecordReading | None = None) -> Iterator[Question]:
        """The questions of a file. A malformed record is an InputError with its place and what was expected there."""
        return (asked.question for asked in self.read_with_graphs(path, reading))

    def read_with_graphs(self, path: Path, reading: RecordReading | None = None) -> Iterator[ConvertedQuestion]:
        """As `read`, each question with its own facts and its record."""
        reading = reading or RecordReading()
        if not reading.split:
            reading = replace(reading, split=split_of(path))
        for record in self.records(path):
            try:
                asked = self._asked(record, reading)
            except ValueError as error:
                reading.refuse(record.error(str(error)))
            else:
                yield asked

    def _asked(self, record: Record, reading: RecordReading) -> ConvertedQuestion:
        if record.broken is not None:
            raise ValueError(record.broken)
        question = self.question(record, reading)
        try:
            line_of(row_of(question))
        except KgwalkError as error:  # lone surrogates, which JSON can spell but UTF-8 cannot
            raise ValueError(str(error)) from None
        return ConvertedQuestion(question, self.graph(record) if self.graph else None, record)

    def question_files(self, source: Path) -> dict[str, list[Path]]:
        """The files of questions in a file or folder, by split; a split may have several files."""
        if source.is_file():
            return {split_of(source): [source]}
        found: dict[str, list[Path]] = {}
        for path in _inside(source):
            if self.is_questions.search(path.relative_to(source).as_posix()):
                found.setdefault(split_of(path, source), []).append(path)
        if not found:
            raise InputError(
                f"no questions of the format {self.name} in this folder; expected {self.files}", path=str(source)
            )
        return found

    def graph_files(self, source: Path) -> list[Path]:
        """The files of the graph in a folder."""
        if self.is_graph is None or source.is_file():
            return []
        return [path for path in _inside(source) if self.is_graph.search(path.relative_to(source).as_posix())]


def split_of(path: Path, source: Path | None = None) -> str:
    """The split that a file's name says, else the name of a folder it is in (inside the source), else the name itself.

    >>> split_of(Path("WebQSP.train.json")), split_of(Path("annotated_fb_data_valid.txt")), split_of(Path("PQ-2H.txt"))
    ('train', 'dev', 'pq-2h')
    """
    folders = [] if source is None else list(reversed(path.relative_to(source).parent.parts))
    for part in (path.name, *folders):
        if found := _SPLIT.search(part.lower()):
            return SPLIT_NAMES.get(found.group(), found.group())
    stem = _SHARD.sub("", path.name.lower().split(".json")[0].removesuffix(".txt").removesuffix(".parquet"))
    return re.sub(r"[^\w-]+", "-", stem).strip("-") or "all"


def record_id(record: Record, reading: RecordReading, prefix: str) -> str:
    """An id for a question without one in its source: the split and its place in the file."""
    return f"{prefix}-{reading.split}-{record.number}"


def _inside(folder: Path) -> list[Path]:
    paths = (path for path in folder.rglob("*") if path.is_file() and path.name not in _NOT_DATA)
    return sorted(path for path in paths if not any(part.startswith(".") for part in path.relative_to(folder).parts))


# Fields of a record


def mapping(value: Any, what: str = "a record") -> dict[str, Any]:
    """The value, checked to be an object."""
    if not isinstance(value, dict):
        raise ValueError(f"expected an object for {what}, got {kind(value)}")
    return value


def text(row: dict[str, Any], *keys: str) -> str:
    """The text under the first of the keys that the record has; it may not be empty."""
    for key in keys:
        if (value := row.get(key)) is not None:
            if isinstance(value, str) and value.strip():
                return value
            raise ValueError(f"expected text in `{key}`, got {'an empty one' if value == '' else kind(value)}")
    raise ValueError(f"expected {_listed(keys)}, got {_keys(row)}")


def text_or_number(row: dict[str, Any], *keys: str) -> str:
    """As `text`, but an integer will do too."""
    for key in keys:
        if isinstance(value := row.get(key), int) and not isinstance(value, bool):
            return str(value)
    return text(row, *keys)


def maybe(row: dict[str, Any], key: str) -> str:
    """The text under a key; "" where it is missing, null or empty."""
    value = row.get(key)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"expected text in `{key}`, got {kind(value)}")
    return value or ""


def texts(row: dict[str, Any], key: str) -> list[str]:
    """A list of texts; [] where the key is missing or null."""
    value = row.get(key)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise ValueError(f"expected a list of texts in `{key}`, got {kind_of_list(value)}")
    return value


def rows(row: dict[str, Any], key: str) -> list[dict[str, Any]]:
    """A list of objects; [] where the key is missing or null."""
    value = row.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise ValueError(f"expected a list of objects in `{key}`, got {kind(value)}")
    return [mapping(one, f"each of `{key}`") for one in value]


def from_json(value: Any) -> Any:
    """A value that some copies of a dataset carry as JSON text."""
    if isinstance(value, str) and value[:1] in ("[", "{"):
        try:
            return orjson.loads(value)
        except orjson.JSONDecodeError as error:
            raise ValueError(f"expected JSON, got {value[:60]!r}: {error}") from None
    return value


def facts(value: Any, what: str) -> list[Triple]:
    """[[head, relation, tail], ...] as triples; those with an empty part are left out, since they say nothing."""
    if not isinstance(value, list):
        raise ValueError(f"expected a list of [head, relation, tail] in `{what}`, got {kind(value)}")
    made = []
    for fact in value:
        if not isinstance(fact, list) or len(fact) not in (3, 4) or not all(isinstance(part, str) for part in fact):
            raise ValueError(f"expected [head, relation, tail] in `{what}`, three names, got {fact!r:.80}")
        if all(fact[:3]):
            made.append(Triple(*fact))
    return made


class GatheredAnswers:
    """The answers of one question: distinct names in the order they came, and the aliases of each.

    A name and its ids are one answer:

    >>> answers = GatheredAnswers()
    >>> answers.add("Paris", "m.05qtj", "Paris")
    >>> answers.add("", "m.0x")
    >>> answers.names, answers.aliases
    (['Paris', 'm.0x'], {'Paris': ['m.05qtj']})
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self.aliases: dict[str, list[str]] = {}

    def add(self, *names: str | None) -> None:
        """One answer: the first name that is not empty is its name, the others are aliases."""
        name, *others = [name for name in names if name] or [""]
        if not name:
            return
        if name not in self.names:
            self.names.append(name)
        known = self.aliases.get(name, [])
        fresh = [other for other in dict.fromkeys(others) if other != name and other not in known]
        if known or fresh:
            self.aliases[name] = known + fresh


def without_none(values: dict[str, Any]) -> dict[str, Any]:
    """The mapping without the keys whose value is null or empty."""
    return {key: value for key, value in values.items() if value is not None and value != [] and value not in ("", {})}


def unique(names: Iterable[str]) -> list[str]:
    """The names that are not empty, each once, in order."""
    return list(dict.fromkeys(name for name in names if name))


def _listed(keys: Iterable[str]) -> str:
    return " or ".join(f"`{key}`" for key in keys)


def _keys(row: dict[str, Any]) -> str:
    return f"the keys {', '.join(list(row)[:8])}" if row else "an empty object"
