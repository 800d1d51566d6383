"""The algebra of queries: what each call of a walk does, with names, paths and readings settled.

    filter($2, "pop", ">", "50 million")    Filtered(2, MemberValue(population), ">", ("50000000",), a reading)

`plan` makes these steps of a walk's calls, and the languages (`sql`, `sparql`, `cypher`, `python`) write them down.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kgwalk.walk.kinds import Kind
from kgwalk.walk.paths import COUNTED, Hop, Path
from kgwalk.walk.queries.program import QueryError
from kgwalk.walk.queries.readings import ValueReading

EXTREMES = ("least", "greatest")


@dataclass(frozen=True, slots=True)
class Window:
    """From the first day to the last, as texts such as 1999-12-31."""

    first: str
    last: str


@dataclass(frozen=True, slots=True)
class MemberValue:
    """What a member is compared by: the ends of a path (`how` is ""), or what is made of them. `inner` is how the ends
    are read for that, `unit` what a sum has behind it.
    """

    path: Path
    how: str = ""
    among: int | None = None
    outside: bool = False
    inner: ValueReading | None = None
    unit: str = ""

    @property
    def is_number(self) -> bool:
        """Whether a query has it as a number, not as a text."""
        return self.how in (COUNTED, "sum", "average")


@dataclass(frozen=True, slots=True)
class Topic:
    name: str


@dataclass(frozen=True, slots=True)
class AllOfKind:
    kind: Kind


@dataclass(frozen=True, slots=True)
class Followed:
    source: int
    path: Path
    window: Window | None = None


@dataclass(frozen=True, slots=True)
class Combined:
    how: str  # intersect, union or minus
    left: int
    right: int


@dataclass(frozen=True, slots=True)
class Quantified:
    how: str  # only, none or every
    source: int
    path: Path
    others: int


@dataclass(frozen=True, slots=True)
class Filtered:
    """Compared with texts, with the members of a set, or with another value of each member."""

    source: int
    value: MemberValue
    comparison: str
    bounds: tuple[str, ...] | int | MemberValue
    reading: ValueReading


@dataclass(frozen=True, slots=True)
class ExtremeMembers:
    source: int
    value: MemberValue
    largest: bool
    reading: ValueReading


@dataclass(frozen=True, slots=True)
class RankedMembers:
    """The first `size` in order; all of them, if that is None."""

    source: int
    value: MemberValue
    size: int | None
    largest: bool
    reading: ValueReading


@dataclass(frozen=True, slots=True)
class Place:
    source: int
    n: int


@dataclass(frozen=True, slots=True)
class SetSize:
    source: int


@dataclass(frozen=True, slots=True)
class Aggregated:
    how: str
    source: int
    value: MemberValue
    reading: ValueReading


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """subtract or divide. An operand is a set of one member, or a text. Of two dates the time between them is in `by`:
    "days" of two days, "years" where one is less than a day.
    """

    how: str
    left: int | str
    right: int | str
    reading: ValueReading
    unit: str = ""
    by: str = ""


@dataclass(frozen=True, slots=True)
class SetVerdict:
    how: str  # is_in or overlap
    left: int
    right: int


@dataclass(frozen=True, slots=True)
class ValueVerdict:
    left: int | str
    comparison: str
    right: int | str
    reading: ValueReading


@dataclass(frozen=True, slots=True)
class Tabled:
    source: int
    columns: tuple[tuple[str, MemberValue], ...]


@dataclass(frozen=True, slots=True)
class TimesOf:
    source: int
    hop: Hop
    others: int | None


@dataclass(frozen=True, slots=True)
class ByTime:
    how: str  # earliest, latest, before or after
    source: int
    hop: Hop
    limit: str = ""  # a day


AlgebraStep = (
    Topic
    | AllOfKind
    | Followed
    | Combined
    | Quantified
    | Filtered
    | ExtremeMembers
    | RankedMembers
    | Place
    | SetSize
    | Aggregated
    | Arithmetic
    | SetVerdict
    | ValueVerdict
    | Tabled
    | TimesOf
    | ByTime
)


@dataclass(frozen=True, slots=True)
class Plan:
    """Step i (from 1) makes set i; `answer` is the set that the query gives. `calls` says what each is in the walk,
    `read` has the texts of values that were read on the way.
    """

    steps: tuple[AlgebraStep, ...]
    calls: tuple[str, ...]
    answer: int
    dated: bool
    read: frozenset[str] = frozenset()

    def __getitem__(self, number: int) -> AlgebraStep:
        return self.steps[number - 1]

    def makes_text(self, number: int) -> bool:
        """Whether a set holds what was worked out (a count, a sum, yes, a date), not things of the graph."""
        step = self[number]
        if isinstance(step, Combined):
            return self.makes_text(step.left) or self.makes_text(step.right)
        if isinstance(step, Place | Tabled | Filtered | ExtremeMembers | RankedMembers | Quantified):
            return self.makes_text(step.source)
        return isinstance(step, SetSize | Aggregated | Arithmetic | SetVerdict | ValueVerdict | TimesOf)

    def refuse(self, number: int, why: str, language: str) -> QueryError:
        return QueryError(f"no {language} for `{self.calls[number - 1]}`: {why}")


def last_day(date: str) -> str:
    """The text of the last day of a year or month, or a day itself; months are given 31, which sorts the same.

    >>> last_day("1999"), last_day("1999-02"), last_day("1999-02-03")
    ('1999-12-31', '1999-02-31', '1999-02-03')
    """
    return {4: f"{date}-12-31", 7: f"{date}-31"}.get(len(date), date)


def hops_of(path: Path) -> Iterator[Hop]:
    """Every hop of a path, those of paths in brackets too."""
    for way in path:
        for hop in way:
            yield hop
            yield from hops_of(hop.path)
