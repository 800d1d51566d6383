"""Worked examples of a graph: questions with the calls that answer them, the nearest of which stand in a prompt.

    library = read_examples(Path("films.kg.examples.jsonl"))     # made by `kgwalk fit films.kg`
    library.lines("who made Cast Away", ["Cast Away"], 1, 2, count)
    e.g. who directed Big => tail_entities($1, "directed_by")
    e.g. when did Jaws come out => tail_entities($1, "release_year")

They say which words go with which relation, and cost no training. Nearness is that of words (tf-idf), with the names of
topics left out on both sides: a film of the same name is no help. An example of a relation that no other shows is worth
more than another one of the same.
"""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

from kgwalk.kg.names import normalise, split_words
from kgwalk.types import InputError, KgwalkError
from kgwalk.walk.question_words import stem
from kgwalk.walk.tagged_text import escape_around

ENDING = ".examples.jsonl"  # films.kg has its examples in films.kg.examples.jsonl
MOST = 2000  # of a library: more would be searched, and say little more
TOKENS = 160  # of all examples in a prompt
SHOWN = 3  # examples in a prompt, where nothing else is said
POOL = 64  # the nearest, of which those shown are chosen
LEAST = 0.1  # nearness (a cosine) of those that are shown: what shares only "what is the" misleads
REPEATED, TWIN = 0.6, 0.3  # what an example is worth still whose relations, or whose calls, stand there already
OTHERWISE = 0.85  # and one that starts from more sets or fewer than the question: its $2 is another's $1
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_NUMBER = re.compile(r"\b\d+\b")


@dataclass(frozen=True, slots=True)
class WorkedExample:
    """A question, and the calls that answer it as a model writes them: $1, $2, ... are its topics, then its kinds."""

    question: str
    calls: tuple[str, ...]
    topics: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()

    def line(self) -> str:
        """As it stands in a prompt.

        >>> WorkedExample("who directed Big", ('tail_entities($1, "directed_by")',), ("Big",)).line()
        'e.g. who directed Big => tail_entities($1, "directed_by")'
        """
        return f"e.g. {escape_around(self.question, self.topics)} => {'; '.join(self.calls)}"

    @property
    def relations(self) -> frozenset[str]:
        """What its calls name: relations, paths and values, without comparisons and numbers."""
        named = (text for call in self.calls for text in _QUOTED.findall(call))
        return frozenset(text for text in named if any(map(str.isalpha, text)))


def words_of(question: str, topics: Iterable[str] = ()) -> set[str]:
    """The words by which questions are compared: stems without the topics' names, and how the question begins.

    >>> sorted(words_of("How many films has Tom Hanks starred in since 1994?", ["Tom Hanks"]))
    ['#', 'film', 'has', 'how', 'how many', 'in', 'many', 'sinc', 'star']
    """
    text = f" {normalise(question)} "
    for name in sorted(map(normalise, topics), key=len, reverse=True):
        text = text.replace(f" {name} ", " ") if name else text
    words = _NUMBER.sub("#", text).split()
    return {stem(word) for word in words} | ({" ".join(words[:2])} if len(words) > 1 else set())


class _Postings(NamedTuple):
    """The examples that have a word: how rare it is (its idf), and in which places with which share of the example."""

    rarity: float
    places: npt.NDArray[np.int64]
    shares: npt.NDArray[np.float64]


@dataclass(frozen=True)
class ExampleLibrary:
    """The examples of one graph. `hidden` are the places of those that are not to be shown."""

    examples: Sequence[WorkedExample]
    hidden: frozenset[int] = frozenset()
    _index: dict[str, _Postings] = field(default_factory=dict, compare=False, repr=False)
    _same: dict[object, list[int]] = field(
        default_factory=dict, compare=False, repr=False
    )  # places by text, and by calls and topics

    def __post_init__(self) -> None:
        if self._index or not self.examples:
            return
        said = [_said(example) for example in self.examples]
        found = Counter(word for words in said for word in words)
        rarity = {word: math.log1p(len(said) / count) for word, count in found.items()}
        length = np.array([math.hypot(*(rarity[word] for word in words)) for words in said])
        having: dict[str, list[int]] = {}
        for place, words in enumerate(said):
            for word in words:
                having.setdefault(word, []).append(place)
        for word, listed in having.items():
            places = np.array(listed, np.int64)
            self._index[word] = _Postings(rarity[word], places, rarity[word] / length[places])
        for place, example in enumerate(self.examples):
            for key in _keys(example):
                self._same.setdefault(key, []).append(place)

    def without(self, own: WorkedExample) -> ExampleLibrary:
        """The library for a question of its own: without it, and without the same calls from the same topics."""
        twins = (place for key in _keys(own) for place in self._same.get(key, ()))
        return replace(self, hidden=self.hidden.union(twins))

    def nearest(self, question: str, topics: Iterable[str], starts: int, most: int) -> list[WorkedExample]:
        """At most so many examples, the nearest first; `starts` are the sets that the question's walk starts from."""
        near = np.zeros(len(self.examples))
        asked = sorted(words_of(question, topics))  # sums are the same in every process
        unknown = math.log1p(len(self.examples))  # a word that no example has
        length = math.hypot(*(self._index[word].rarity if word in self._index else unknown for word in asked)) or 1.0
        for word in asked:
            if word in self._index:
                rarity, places, shares = self._index[word]
                near[places] += rarity / length * shares
        near[list(self.hidden)] = 0.0
        near *= np.where(self._starts == starts, 1.0, OTHERWISE)
        pool = [int(place) for place in np.argsort(-near, kind="stable")[:POOL] if near[place] >= LEAST]
        chosen: list[WorkedExample] = []
        while pool and len(chosen) < most:
            shown = frozenset[str]().union(*(one.relations for one in chosen))
            calls = {one.calls for one in chosen}
            best = max(pool, key=lambda place: near[place] * _worth(self.examples[place], shown, calls))
            pool.remove(best)
            chosen.append(self.examples[best])
        return chosen

    @cached_property
    def _starts(self) -> npt.NDArray[np.int64]:
        return np.array([len(one.topics) + len(one.kinds) for one in self.examples], np.int64)

    def lines(
        self, question: str, topics: Iterable[str], starts: int, most: int, count: Callable[[str], int]
    ) -> list[str]:
        """The nearest as they stand in a prompt, within TOKENS of it; `count` gives the tokens of a text."""
        lines = [example.line() for example in self.nearest(question, topics, starts, most)]
        while lines and count("".join(f"{line}\n" for line in lines)) > TOKENS:
            lines.pop()
        return lines


def _said(example: WorkedExample) -> set[str]:
    """The words of an example: those of its question, and those of the relations that answer it."""
    relations = " ".join(map(split_words, example.relations))
    return words_of(example.question, example.topics) | {stem(word) for word in normalise(relations).split()}


def _keys(example: WorkedExample) -> tuple[object, object]:
    """What two examples share that ask the same: their text, or their calls from the same topics."""
    return normalise(example.question), (example.calls, frozenset(example.topics), frozenset(example.kinds))


def _worth(example: WorkedExample, shown: frozenset[str], calls: set[tuple[str, ...]]) -> float:
    if example.calls in calls:
        return TWIN
    return REPEATED if shown and example.relations <= shown else 1.0


# The file


def write_examples(path: Path, examples: Iterable[WorkedExample]) -> int:
    """Write a library, whole or not at all; returns how many examples it has."""
    lines = [orjson.dumps(asdict(example), option=orjson.OPT_APPEND_NEWLINE) for example in examples]
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_bytes(b"".join(lines))
        os.replace(part, path)
    except OSError as error:
        raise KgwalkError(f"cannot write {path}: {error.strerror or error}; choose another place") from error
    finally:
        part.unlink(missing_ok=True)
    return len(lines)


def read_examples(path: str | Path) -> ExampleLibrary:
    """The library of a file; a bad line is an InputError with its number. Read once, until the file changes."""
    try:
        changed = Path(path).stat().st_mtime_ns
    except OSError as error:
        raise InputError(f"cannot read the examples: {error.strerror}", path=str(path)) from error
    return _read(str(path), changed)


@lru_cache(16)
def _read(path: str, changed: int) -> ExampleLibrary:
    with open(path, "rb") as file:
        return ExampleLibrary(list(_examples(path, file)))


def _examples(path: str, lines: Iterable[bytes]) -> Iterator[WorkedExample]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = orjson.loads(line)
            texts = [row["question"], *row["calls"], *row.get("topics", ()), *row.get("kinds", ())]
            if not row["calls"] or not all(isinstance(text, str) for text in texts):
                raise TypeError
            lists = (tuple(row.get(key, ())) for key in ("calls", "topics", "kinds"))
        except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
            wrong = line.decode("utf-8", "backslashreplace")
            raise InputError(
                "expected an example: a `question`, and its `calls` as texts", path=path, line=number, text=wrong
            ) from None
        yield WorkedExample(row["question"], *lists)
