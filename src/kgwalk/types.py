"""The nouns every other part shares: triples, what a lookup found, and the errors.

Knows nothing of stores, models, prompts or files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class Triple(NamedTuple):
    """One fact. `time` is "" for a fact without a date, else as the source wrote it: `2005-05`, `1990..1994`."""

    head: str
    relation: str
    tail: str
    time: str = ""


@dataclass(frozen=True, slots=True)
class Neighbors:
    """The entities one relation away, most connected first.

    `total` counts the distinct entities there are; `names` may hold fewer (a limit was given).
    `times[i]` lists the dates of the facts that lead to `names[i]`; None where the graph has no time column.
    """

    names: list[str]
    total: int
    times: list[list[str]] | None = None

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    @property
    def left_out(self) -> int:
        return self.total - len(self.names)


@dataclass(frozen=True, slots=True)
class Found:
    """One entity that `find` proposes for a text.

    `how` is "exact", "normalised" (same but for case, accents, underscores, punctuation) or "fuzzy";
    `score` is 1.0 for the first two and in (0, 1) for the third.
    """

    name: str
    score: float
    how: str
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """A question with what is known about it; the folder format of the datasets has one a line."""

    id: str
    question: str
    topic_entities: list[str]
    answers: list[str]
    hops: int | None = None
    gold_paths: list[list[Triple]] | None = None
    evidence: list[Triple] | None = None
    type: str | None = None
    extra: dict[str, object] = field(default_factory=dict)


class KgwalkError(Exception):
    """An error with a message for a person: what, given what, do what. The command line prints it and exits 1."""


class InputError(KgwalkError):
    """A source that cannot be read as it is; names the file, the line, the text and what was expected."""

    def __init__(
        self,
        message: str,
        *,
        path: str | None = None,
        line: int | None = None,
        text: str | None = None,
        hint: str | None = None,
    ) -> None:
        self.path, self.line, self.text = path, line, text
        where = f"{path}:{line}: " if path and line else f"{path}: " if path else ""
        shown = "" if text is None else f"\n  the line: {_shorten(text)}"
        advice = "" if hint is None else f"\n  {hint}"
        super().__init__(f"{where}{message}{shown}{advice}")


class StoreError(KgwalkError):
    """A store that cannot be opened or written: missing, truncated, corrupted, of another version, no space."""


class RemoteError(KgwalkError):
    """A graph behind a network that did not answer rightly, after the retries it was allowed."""


class UnknownName(KgwalkError):
    """An entity or relation that is not in the graph; `nearest` holds names that are."""

    kind = "name"

    def __init__(self, name: str, nearest: Sequence[str] = ()) -> None:
        self.name, self.nearest = name, list(nearest)
        hint = f"; did you mean {_listed(self.nearest)}?" if self.nearest else ""
        super().__init__(f"{self.kind} {_shorten(name)!r} is not in the graph{hint}")


class UnknownEntity(UnknownName):
    kind = "entity"


class UnknownRelation(UnknownName):
    kind = "relation"


class UnknownQuestion(UnknownName):
    """A question id that no stored subgraph belongs to."""

    kind = "question"


def _shorten(text: str, limit: int = 200) -> str:
    return text if len(text) <= limit else f"{text[:limit]}... ({len(text):,} characters)"


def _listed(names: Sequence[str]) -> str:
    quoted = [repr(_shorten(name, 60)) for name in names]
    return quoted[0] if len(quoted) == 1 else ", ".join(quoted[:-1]) + " or " + quoted[-1]
