"""A lesson as its folder has it: the raw files, other names for what is in them, and questions with their walks.

    lesson = read_lesson(Path("benchmarks/lessons/museum"))
    lesson.asks[0].drawn(random.Random(0))      # "price of rye loaf?" with its starts and calls

README.md describes the format for authors.
"""

from __future__ import annotations

import random
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.users.graphs import SHAPES

from kgwalk.systems.kgwalk.protocol import program
from kgwalk.types import Call, KgwalkError

HERE = Path(__file__).parent
LESSON = "lesson.toml"
NOT_THERE = "not in the graph"
_SLOT = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class Drawn:
    """One question of an entry: a text, and the walk that answers it."""

    text: str
    shape: str
    entities: tuple[str, ...]
    kinds: tuple[str, ...]
    calls: tuple[Call, ...]


@dataclass(frozen=True)
class Ask:
    """An entry: one thing that people want to know, in several words. Numbers of sets count entities, then kinds."""

    shape: str
    texts: list[str]
    calls: list[str] = field(default_factory=list)
    entities: list[str] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    fill: dict[str, list[Any]] = field(default_factory=dict)
    together: list[dict[str, Any]] = field(default_factory=list)
    all: bool = False  # the answer is all of the kind
    empty: bool = False  # no answer is an answer

    @property
    def answered(self) -> bool:
        return self.shape != NOT_THERE

    def fillings(self) -> int:
        """How many different fillings there are."""
        if self.together:
            return len(self.together)
        count = 1
        for values in self.fill.values():
            count *= len(values)
        return count

    def drawn(self, chance: random.Random, text: str | None = None) -> Drawn:
        """A text with its slots filled, and the walk for it."""
        filled = (
            chance.choice(self.together)
            if self.together
            else {slot: chance.choice(values) for slot, values in self.fill.items()}
        )
        pairs = {slot: value if isinstance(value, list) else [value, value] for slot, value in filled.items()}
        said = {slot: str(pair[0]) for slot, pair in pairs.items()}
        meant = {slot: str(pair[1]) for slot, pair in pairs.items()}
        calls = program("\n".join(self.calls)) if self.calls else []
        return Drawn(
            _filled(text or chance.choice(self.texts), said),
            self.shape,
            tuple(_filled(name, meant) for name in self.entities),
            tuple(_filled(name, meant) for name in self.kinds),
            tuple(
                Call(call.tool, tuple(_filled(a, meant) if isinstance(a, str) else a for a in call.args))
                for call in calls
            ),
        )

    def problems(self) -> list[str]:
        """What is wrong with the entry by itself."""
        found = []
        if self.shape not in SHAPES:
            found.append(f"no shape {self.shape!r}")
        if len(self.texts) < 3 or len(set(self.texts)) < len(self.texts):
            found.append(f"{len(set(self.texts))} different texts; write at least 3, each once")
        slots = set(self.fill) or {slot for one in self.together for slot in one}
        if any(set(one) != slots for one in self.together):
            found.append("the fillings of `together` have different slots")
        used = {slot for text in (*self.entities, *self.kinds, *self.calls) for slot in _SLOT.findall(text)}
        for text in self.texts:
            named = set(_SLOT.findall(text))
            if named - slots:
                found.append(f"{text!r} has a slot that nothing fills: {', '.join(sorted(named - slots))}")
            if slots - named:
                found.append(f"{text!r} lacks {', '.join(sorted(slots - named))}")
        if used - slots:
            found.append(f"the walk has slots that nothing fills: {', '.join(sorted(used - slots))}")
        if self.answered and slots - used:
            found.append(f"the walk does not use {', '.join(sorted(slots - used))}")
        if bool(self.calls) == (self.all or not self.answered):
            found.append("an entry has calls, or `all = true`, or the shape `not in the graph`, and only one of these")
        if not self.entities and not self.kinds and self.answered:
            found.append("it starts from nothing: give entities or kinds")
        try:
            program("\n".join(self.calls)) if self.calls else []
        except KgwalkError as error:
            found.append(str(error))
        return found


@dataclass(frozen=True)
class Lesson:
    """A graph and its entries. `names` has other names for relations and kinds."""

    name: str
    folder: Path
    title: str
    files: list[str]
    options: list[str]
    names: Mapping[str, list[str]]
    asks: Sequence[Ask]

    @property
    def sources(self) -> list[Path]:
        return [self.folder / file for file in self.files]


def read_lesson(folder: Path) -> Lesson:
    """The lesson of a folder; an entry with an unknown key is an error."""
    about = tomllib.loads((folder / LESSON).read_text(encoding="utf-8"))
    try:
        asks = [Ask(**entry) for entry in about.get("ask", [])]
    except TypeError as error:
        raise KgwalkError(f"{folder.name}/{LESSON}: {error}") from None
    return Lesson(
        folder.name,
        folder,
        about["title"],
        about["files"],
        about.get("options", []),
        about.get("names", {}),
        asks,
    )


def lessons(names: Sequence[str] = ()) -> list[Lesson]:
    """The lessons of these names, or all."""
    known = {file.parent.name: file.parent for file in sorted(HERE.glob(f"*/{LESSON}"))}
    if missing := [name for name in names if name not in known]:
        raise KgwalkError(f"no lesson {missing[0]!r}; there are {', '.join(known)}")
    return [read_lesson(folder) for name, folder in known.items() if not names or name in names]


def _filled(text: str, values: Mapping[str, str]) -> str:
    return _SLOT.sub(lambda found: values.get(found[1], found[0]), text)
