"""Several datasets as one: the questions of each, asked over the graph of each.

    load_data(["metaqa:0.2", "pq-2h", "webqsp:500"]).questions("train")

`metaqa:0.2` takes a fifth of the questions of every split, `webqsp:500` at most 500 of every split: a seeded sample, in
the order of the file. A question's id becomes `metaqa/7`, and its `extra["dataset"]` is `metaqa`.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from kgwalk.data.dataset import Data, load_dataset
from kgwalk.kg.graph import Graph
from kgwalk.types import KgwalkError, Progress, Question

DATASET_KEY = "dataset"  # the key of `Question.extra` that says which dataset a mixture's question is from


@dataclass(frozen=True, slots=True)
class MixturePart:
    """One dataset of a mixture. `name` is unique and has no slash; `take` is a share (float) or a number (int)."""

    name: str
    data: Data
    take: float | int = 1.0

    def questions(self, split: str, seed: int) -> list[Question]:
        """The questions taken of a split, with the part's name before their ids; none if it has no such split."""
        if split not in self.data.splits():
            return []
        there = self.data.questions(split)
        count = min(len(there), taken(len(there), self.take))
        numbers = sorted(random.Random(f"{seed}/{self.name}/{split}").sample(range(len(there)), count))
        return [self._outside(there[number]) for number in numbers]

    def inside(self, question: Question) -> Question:
        """The question as the dataset itself has it: the inverse of `_outside`."""
        extra = {key: value for key, value in question.extra.items() if key != DATASET_KEY}
        return replace(question, id=question.id.removeprefix(f"{self.name}/"), extra=extra)

    def _outside(self, question: Question) -> Question:
        return replace(question, id=f"{self.name}/{question.id}", extra=question.extra | {DATASET_KEY: self.name})

    def __str__(self) -> str:
        return self.name if self.take == 1.0 and isinstance(self.take, float) else f"{self.name}:{self.take}"


@dataclass(frozen=True)
class Mixture:
    """Made by `load_data`. The splits are those that any part has."""

    parts: tuple[MixturePart, ...]
    seed: int = 0

    @property
    def name(self) -> str:
        return "+".join(map(str, self.parts))

    def splits(self) -> list[str]:
        return list(dict.fromkeys(split for part in self.parts for split in part.data.splits()))

    def questions(self, split: str) -> list[Question]:
        """The questions of each part, one part after the other."""
        if split not in self.splits():
            raise KgwalkError(f"no split {split!r} in {self.name}; there are {', '.join(self.splits())}")
        return [question for part in self.parts for question in part.questions(split, self.seed)]

    def graph_for(self, question: Question) -> Graph:
        part = self._by_name.get(question.id.partition("/")[0])
        if part is None:
            raise KgwalkError(f"question {question.id!r} is of no part of {self.name}")
        return part.data.graph_for(part.inside(question))

    def prepare(self, progress: Progress) -> None:
        for part in self.parts:
            part.data.prepare(progress)

    def place(self) -> list[Any]:
        return [{"data": part.data.place(), "name": part.name, "take": part.take} for part in self.parts]

    @cached_property
    def _by_name(self) -> dict[str, MixturePart]:
        return {part.name: part for part in self.parts}


def load_data(given: str | Path | Data | Sequence[str | Path | Data], seed: int = 0) -> Data:
    """The dataset that is named, or a mixture of several; `seed` decides which questions are taken of each."""
    several = [given] if isinstance(given, str | Path) or not isinstance(given, Sequence) else given
    parts: list[MixturePart] = []
    for one in several:
        data, take = _opened(one) if isinstance(one, str | Path) else (one, 1.0)
        parts.append(MixturePart(_unique(data.name.replace("/", "--"), [part.name for part in parts]), data, take))
    if not parts:
        raise KgwalkError("no dataset is given; name at least one")
    if len(parts) == 1 and parts[0].take == 1.0 and isinstance(parts[0].take, float):
        return parts[0].data
    return Mixture(tuple(parts), seed)


def taken(count: int, take: float | int) -> int:
    """How many of `count` questions are taken: a share of them, at least one; or a number.

    >>> taken(1000, 0.25), taken(1000, 300), taken(10, 0.01)
    (250, 300, 1)
    """
    return take if isinstance(take, int) else max(1, round(count * take))


def evenly(questions: Sequence[Question], count: int, seed: int) -> list[Question]:
    """A seeded sample with equally many questions of each dataset, as far as there are enough, in their order.

    Otherwise a large dataset would fill nearly all of a small sample. For one dataset it is a plain sample.

    >>> many = [Question(f"a/{n}", "?", [], [], extra={"dataset": "a"}) for n in range(90)]
    >>> few = [Question(f"b/{n}", "?", [], [], extra={"dataset": "b"}) for n in range(10)]
    >>> [sum(question.extra["dataset"] == name for question in evenly(many + few, 30, 0)) for name in "ab"]
    [20, 10]
    """
    if count >= len(questions):
        return list(questions)
    groups: dict[object, list[int]] = {}
    for number, question in enumerate(questions):
        groups.setdefault(question.extra.get(DATASET_KEY), []).append(number)
    chance = random.Random(f"kgwalk/{seed}")
    kept: list[int] = []
    # The smallest dataset first: what it lacks of its share, the larger ones give.
    for left, members in enumerate(sorted(groups.values(), key=len), -len(groups)):
        kept += chance.sample(members, min(len(members), (count - len(kept)) // -left))
    return [questions[number] for number in sorted(kept)]


def _opened(given: str | Path) -> tuple[Data, float | int]:
    """The dataset that is named, and how much of it is taken; a folder may have a colon in its name."""
    name, colon, amount = str(given).rpartition(":")
    if not colon or Path(given).expanduser().exists():
        return load_dataset(given), 1.0
    whole = amount.isdecimal()
    try:
        take = int(amount) if whole else float(amount)
    except ValueError:
        raise _wrong(str(given), name) from None
    if not (take >= 1 if whole else 0 < take <= 1):
        raise _wrong(str(given), name)
    return load_dataset(name), take


def _wrong(given: str, name: str) -> KgwalkError:
    return KgwalkError(
        f"{given!r}: after the colon stands a share of the questions above 0 and up to 1.0, such as {name}:0.5, "
        f"or a number of them, such as {name}:500"
    )


def _unique(name: str, others: Sequence[str]) -> str:
    """`qa`, or `qa-2` where another part has that name: two folders may be called the same."""
    made, number = name, 1
    while made in others:
        number += 1
        made = f"{name}-{number}"
    return made
