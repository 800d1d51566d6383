"""What a format is: which files of a source are its questions and its graph, and how a record becomes a question.

    for question in FORMATS["webqsp"].read(Path("WebQSP.train.json")): ...

A format is a few pure functions over records; this module walks the files and treats what is malformed. Knows no
format by name.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from kgwalk.config.episode_rows import kind, kind_of_list, row_of
from kgwalk.data.folder import line_of
from kgwalk.kg.sources.source import Options, ReadCounts, Source, line_blocks, not_utf8, open_stream, shown
from kgwalk.types import InputError, KgwalkError, Question, Triple

# ----------------------------------------------------------------------------------------------------
# Records of a file, whatever it is: JSON lines, a JSON array, an object that holds one, parquet, lines of text.
#
# Arrays are read a record at a time, so a file may be larger than memory. Compressed files are read as they are.
# Knows nothing of what the records mean.


SKIP_HINT = "give --skip-bad to leave such records out"
_SPACE = re.compile(r"[ \t\n\r]*")
_CHUNK = 1 << 20
_DECODER = json.JSONDecoder()


@dataclass(frozen=True)
class Record:
    """One record and its place: a line's number, or how many records stand before it plus one."""

    value: Any
    path: Path
    number: int
    in_lines: bool = True
    broken: str | None = None  # why it could not even be decoded; `value` is its text then

    def error(self, why: str) -> InputError:
        text = self.value if isinstance(self.value, str) else json.dumps(self.value, default=str)
        if self.in_lines:
            return InputError(why, path=str(self.path), line=self.number, text=text, hint=SKIP_HINT)
        return InputError(f"record {self.number}: {why}", path=str(self.path), text=text, hint=SKIP_HINT)


def json_records(path: Path, key: str | None = None) -> Iterator[Record]:
    """Records of JSON lines, of an array, of the array `key` of an object, or of a parquet file."""
    if path.suffix == ".parquet":
        return _parquet(path)
    source = _source(path)
    with open_stream(source) as stream:
        first = stream.read(_CHUNK).lstrip()[:1]
    if first == b"[":
        return _array(path)
    return _lines(path) if key is None else _held(path, key)


def line_records(path: Path) -> Iterator[Record]:
    """The lines of a text file that are not empty."""
    source = _source(path)
    with open_stream(source) as stream:
        for block in line_blocks(source, stream):
            for number, raw in enumerate(block.data.split(b"\n"), block.first):
                line = raw.removesuffix(b"\r")
                if line.strip():
                    yield _decoded(line, path, number)


def _decoded(line: bytes, path: Path, number: int) -> Record:
    try:
        return Record(line.decode("utf-8"), path, number)
    except UnicodeDecodeError as error:
        return Record(shown(line), path, number, broken=not_utf8(error))


def _lines(path: Path) -> Iterator[Record]:
    for record in line_records(path):
        try:
            yield record if record.broken else replace(record, value=orjson.loads(record.value))
        except orjson.JSONDecodeError as error:
            yield replace(record, broken=f"not JSON: {error}")


def _held(path: Path, key: str) -> Iterator[Record]:
    source = _source(path)
    with open_stream(source) as stream:
        parts = list(iter(lambda: stream.read(_CHUNK), b""))
    try:
        whole = orjson.loads(b"".join(parts))
    except orjson.JSONDecodeError as error:
        raise source.error(f"not JSON: {error.msg}", line=error.lineno) from None
    held = whole.get(key) if isinstance(whole, dict) else None
    if not isinstance(held, list):
        raise source.error(f"expected an object with the list `{key}`, got {kind(held)} there")
    for number, value in enumerate(held, 1):
        yield Record(value, path, number, in_lines=False)


def _array(path: Path) -> Iterator[Record]:
    """The values of an array one after the other, with no more in memory than the longest needs."""
    source = _source(path)
    with open_stream(source) as stream:
        text = _Text(source, stream.read)
        text.skip("[")
        number = 0
        while not text.skip("]", optional=True):
            if number:
                text.skip(",")
            number += 1
            yield Record(text.value(number), path, number, in_lines=False)
        text.end()


class _Text:
    """The text of a file in a window that grows to hold one JSON value."""

    def __init__(self, source: Source, read: Any) -> None:
        self._source, self._read = source, read
        self._decode = codecs.getincrementaldecoder("utf-8")().decode
        self._window, self._at, self._ended = "", 0, False

    def skip(self, mark: str, *, optional: bool = False) -> bool:
        """Step over white space and the mark; whether it was there."""
        while True:
            found = _SPACE.match(self._window, self._at)
            assert found is not None
            self._at = found.end()
            if self._at < len(self._window) or not self._more(_CHUNK):
                break
        there = self._window.startswith(mark, self._at)
        if not there and not optional:
            ahead = self._window[self._at : self._at + 60]
            raise self._source.error(f"not JSON: expected {mark!r}, got {ahead!r}" if ahead else "not JSON: cut off")
        self._at += len(mark) * there
        return there

    def end(self) -> None:
        """Nothing but white space may be left: what came after the array would be lost without a word."""
        self.skip("", optional=True)
        if ahead := self._window[self._at : self._at + 60]:
            raise self._source.error(f"not JSON: expected the end of the file after the array, got {ahead!r}")

    def value(self, number: int) -> Any:
        self.skip("", optional=True)
        size = _CHUNK
        while True:
            try:
                value, end = _DECODER.raw_decode(self._window, self._at)
            except json.JSONDecodeError as error:
                if not self._more(size):
                    raise self._source.error(f"record {number}: not JSON: {error.msg}") from None
                size *= 2  # so that a long value, or a broken one, is not tried too often
                continue
            if end == len(self._window) and self._more(_CHUNK):
                continue  # a number might go on
            self._at = end
            return value

    def _more(self, size: int) -> bool:
        if self._ended:
            return False
        data = self._read(size)
        self._ended = not data
        try:
            self._window = self._window[self._at :] + self._decode(data, final=not data)
        except UnicodeDecodeError as error:
            raise self._source.error(not_utf8(error)) from None
        self._at = 0
        return bool(data)


def _parquet(path: Path) -> Iterator[Record]:
    import pyarrow as pa
    from pyarrow import parquet

    number = 0
    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=64):
                for value in batch.to_pylist():
                    number += 1
                    yield Record(value, path, number, in_lines=False)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"not a parquet file that can be read: {error}", path=str(path)) from error


def _source(path: Path) -> Source:
    return Source(str(path), Options(), ReadCounts())


SPLIT_NAMES = {"validation": "dev", "valid": "dev", "val": "dev", "training": "train"}
_SPLIT = re.compile(r"(?<![a-z])(train|training|dev|valid|validation|val|test)(?![a-z])")
_NOT_DATA = {"dataset_infos.json", "dataset_info.json", "dataset_dict.json", "state.json"}  # of the hub's library
_SHARD = re.compile(r"-\d{5}-of-\d{5}.*")


@dataclass(frozen=True)
class RecordReading:
    """How records are read: the language of questions, names for ids, and where the malformed go."""

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
    facts: Callable[[Path, RecordReading], Iterator[Triple]] | None = (
        None  # of a graph file; None: it is copied as it is
    )
    graph: Callable[[Record], list[Triple]] | None = None  # a question's own
    evidence_is_graph: bool = False  # without a graph file, the questions' evidence together is the graph
    keys: frozenset[str] = frozenset()  # that tell a record of this format from others

    def read(self, path: Path, reading: RecordReading | None = None) -> Iterator[Question]:
        """The questions of a file; a malformed one is an InputError with its place and what was expected."""
        return (asked.question for asked in self.read_with_graphs(path, reading))

    def read_with_graphs(self, path: Path, reading: RecordReading | None = None) -> Iterator[ConvertedQuestion]:
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
        except KgwalkError as error:  # half characters, which JSON can spell and no file can hold
            raise ValueError(str(error)) from None
        return ConvertedQuestion(question, self.graph(record) if self.graph else None, record)

    def question_files(self, source: Path) -> dict[str, list[Path]]:
        """The files of questions in a file or folder, by split; a shard or a part of a split follows another."""
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
        if self.is_graph is None or source.is_file():
            return []
        return [path for path in _inside(source) if self.is_graph.search(path.relative_to(source).as_posix())]


def split_of(path: Path, source: Path | None = None) -> str:
    """The split that a file's name tells, else its folder's (inside the source), else the name itself.

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
    """An id for a question that its source gives none: where it stands."""
    return f"{prefix}-{reading.split}-{record.number}"


def _inside(folder: Path) -> list[Path]:
    paths = (path for path in folder.rglob("*") if path.is_file() and path.name not in _NOT_DATA)
    return sorted(path for path in paths if not any(part.startswith(".") for part in path.relative_to(folder).parts))


# ----------------------------------------------------------------------------------------------------
# Fields of a record, checked, and answers gathered by the one rule: a name and its ids are one answer.
#
# Knows no format; a ValueError says what was expected of a field.


def mapping(value: Any, what: str = "a record") -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"expected an object for {what}, got {kind(value)}")
    return value


def text(row: dict[str, Any], *keys: str) -> str:
    """The text under the first of the keys that is there; it may not be empty."""
    for key in keys:
        if (value := row.get(key)) is not None:
            if isinstance(value, str) and value.strip():
                return value
            raise ValueError(f"expected text in `{key}`, got {'an empty one' if value == '' else kind(value)}")
    raise ValueError(f"expected {_listed(keys)}, got {_keys(row)}")


def text_or_number(row: dict[str, Any], *keys: str) -> str:
    for key in keys:
        if isinstance(value := row.get(key), int) and not isinstance(value, bool):
            return str(value)
    return text(row, *keys)


def maybe(row: dict[str, Any], key: str) -> str:
    """Text that may be missing, null or empty: "" then."""
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
    """[[head, relation, tail], ...] as triples; those with an empty part, which say nothing, are left out."""
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
    """The answers of one question: names in the order they came, each once, and what else each goes by.

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
        """One answer: the first name that is not empty is its own, the others are aliases."""
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
    """Only the keys that say something: null, empty lists and empty texts are left out."""
    return {key: value for key, value in values.items() if value is not None and value != [] and value not in ("", {})}


def unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(name for name in names if name))


def _listed(keys: Iterable[str]) -> str:
    return " or ".join(f"`{key}`" for key in keys)


def _keys(row: dict[str, Any]) -> str:
    return f"the keys {', '.join(list(row)[:8])}" if row else "an empty object"
