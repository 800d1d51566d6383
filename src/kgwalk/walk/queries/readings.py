"""Readings: how a query reads the texts of values, and the proof that it reads them as the walk does.

A graph keeps every value as a text, and the walk reads it at the last moment (`walk.values`): numbers with commas and
units, dates, times of day. A query language reads less. So a reading is what a query can do, one of

    number      1,234.5 or 20 EUR   the commas and the one unit taken out, then cast to a number
    date        1999, 1999-12       as the text of its first day, 1999-01-01: such texts sort as days do
    clock       21:45               as it is: such texts sort as times do
    text        Paris               equal or not

and the same is written here in Python (`key`, `holds`). Before a query is written, both are asked about every text that
the call read in the walk; where they differ, there is no query, and the message says why.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from kgwalk.walk.language import COMPARISONS, compares
from kgwalk.walk.values import CLOCK, value_of

NUMBER, DATE, CLOCKED, TEXT, MADE = "number", "date", "clock", "text", "made"
DIGITS = "0123456789"
_FIGURES = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
_ISO = re.compile(r"(\d{4}(?:-(?:0[1-9]|1[0-2])(?:-(?:0[1-9]|[12]\d|3[01]))?)?)(?:T[0-9:.Z+-]*)?")
_TIME_OF_DAY = re.compile(r"(?:[01]\d|2[0-4]):[0-5]\d(?::[0-5]\d)?")
LARGEST_DECIMAL = 1e15


class NoReading(Exception):
    """Values that no reading fits; the message says which."""


@dataclass(frozen=True, slots=True)
class ValueReading:
    """`unit` is taken out of every text; `commas`, `spans` (from..to) and `others` (texts that are no value) are there
    where a text has them, so that a query is as short as its values allow. Of a number that the query itself made
    (MADE) there is nothing to read.
    """

    form: str
    unit: str = ""
    commas: bool = False
    exponents: bool = False
    spans: bool = False
    large: bool = False  # a number that has no room in a decimal to be added up
    others: bool = False
    spellings: tuple[tuple[str, tuple[str, ...]], ...] = ()  # of TEXT: other spellings of a bound that the graph has

    @property
    def characters(self) -> str:
        """Those that a value may have: a text with any other is none."""
        if self.form == DATE:
            return f"{DIGITS}-:.TZ+"
        return f"{DIGITS}:" if self.form == CLOCKED else f"{DIGITS}+-.{'eE' * self.exponents}"

    def stripped(self, text: str) -> str:
        text = text.replace(",", "") if self.commas else text
        return text.replace(self.unit, "").strip(" ") if self.unit else text

    def key(self, text: str) -> float | str | None:
        """What a query orders a text by; None where it is no value. ValueError where a query would fail."""
        if self.form == TEXT:
            return text
        rest = self.stripped(text)
        if self.others and rest.strip(self.characters):
            return None
        if self.form in (NUMBER, MADE):
            if (found := _FIGURES.fullmatch(rest)) is None or (found[1] and not self.exponents):
                raise ValueError(text)
            return float(rest)
        return self._days(text)[0] if self.form == DATE else self._clock(text)

    def holds(self, text: str, comparison: str, bound: str) -> bool:
        """Whether a text compares so with a bound, as a query would say it."""
        if self.form == TEXT:
            same = text == bound or text in dict(self.spellings).get(bound, ())
            return same == (comparison == "=")
        left, right = self.key(text), self.key(bound)
        if left is None or right is None:
            return comparison == "!="
        if self.form != DATE:
            return bool(COMPARISONS[comparison](left, right))  # type: ignore[arg-type]
        (first, last), (since, until) = self._days(text), self._days(bound)
        if comparison in ("=", "!="):
            return (since <= first and last <= until) == (comparison == "=")
        return bool(COMPARISONS[comparison](first, until if comparison in (">", "<=") else since))  # type: ignore[arg-type]

    def bound(self, text: str) -> str:
        """A bound that is written out, as plain figures: a query has no need to read it."""
        value = value_of(text)
        if self.form not in (NUMBER, MADE) or value is None:
            return text
        return str(int(value.number)) if value.number == int(value.number) else repr(value.number)

    def _days(self, text: str) -> tuple[str, str]:
        """The texts of the first and the last day; every month is given 31, which changes no comparison."""
        found = _ISO.fullmatch(text.partition("..")[0] if self.spans else text)
        if found is None:
            raise ValueError(text)
        return f"{found[1]}-01-01"[:10], {4: f"{found[1]}-12-31", 7: f"{found[1]}-31"}.get(len(found[1]), found[1])

    def _clock(self, text: str) -> str:
        if _TIME_OF_DAY.fullmatch(text) is None:
            raise ValueError(text)
        return text


MADE_NUMBER = ValueReading(MADE, exponents=True)  # a count or a sum, which a query has as a number


def ordering(texts: Iterable[str], *, made: bool = False) -> ValueReading:
    """The reading by which texts are in the order of their values; by their letters, if none is a value."""
    distinct = list(dict.fromkeys(texts))
    if made:
        return ValueReading(MADE, unit=_unit(distinct), exponents=True)
    reading = _shape(distinct)
    values = [(value.number, text) for text in distinct if (value := value_of(text)) is not None]
    if not values:
        reading = ValueReading(TEXT)
        _check_order(sorted((text.casefold(), text) for text in distinct), reading.key)
        return reading
    _check_others(distinct, reading)
    _check_order(sorted(values), reading.key)
    return reading


def comparing(
    comparison: str, pairs: Iterable[tuple[str, str]], *, made: bool = False, raw: bool = True
) -> ValueReading:
    """The reading by which every pair of a text and a bound compares as it does in a walk; unless the bounds are `raw`,
    the query has them as plain figures (`ValueReading.bound`).
    """
    distinct = list(dict.fromkeys(pairs))
    bounds = dict.fromkeys(bound for _, bound in distinct)
    texts = dict.fromkeys(text for text, _ in distinct)
    if comparison in ("=", "!=") and not any(value_of(bound) is not None for bound in bounds):
        alike = {bound: tuple(t for t in texts if t != bound and t.casefold() == bound.casefold()) for bound in bounds}
        reading = ValueReading(TEXT, spellings=tuple((bound, some) for bound, some in alike.items() if some))
    elif made:
        reading = ValueReading(MADE, unit=_unit([*texts, *bounds]), exponents=True)
    else:
        reading = _shape([*texts, *bounds])
    for text, bound in distinct:
        try:
            plain = bound if raw else reading.bound(bound)
            equal = reading.holds(text, comparison, plain) == compares(comparison, text, bound)
        except ValueError as error:
            raise NoReading(_unread(str(error))) from None
        if not equal:
            raise NoReading(f'"{text}" {comparison} "{bound}" is read differently by a query')
    return reading


def summing(texts: Sequence[str]) -> ValueReading:
    """The reading by which texts are added up: numbers of one unit."""
    reading = _shape(texts)
    if reading.form != NUMBER or reading.others:
        raise NoReading(_unread(next((text for text in texts if value_of(text) is None), texts[0] if texts else "")))
    for text in dict.fromkeys(texts):
        value = value_of(text)
        try:
            if value is None or reading.key(text) != value.number:
                raise ValueError(text)
        except ValueError as error:
            raise NoReading(_unread(str(error))) from None
    return reading


def _shape(texts: Iterable[str]) -> ValueReading:
    """The reading that the values among texts look like."""
    found = [(text, value) for text in texts if (value := value_of(text)) is not None]
    values = [text for text, _ in found]
    others = len(values) < len(list(texts))
    if any(value.date for _, value in found):
        return ValueReading(DATE, spans=any(".." in text for text in values), others=others)
    if found and all(value.unit == CLOCK for _, value in found):
        if len({len(text) for text in values}) > 1:
            raise NoReading("times of day with and without seconds do not sort as texts")
        return ValueReading(CLOCKED, others=others)
    exponents = any(re.search(r"\d[eE][-+]?\d", text) for text in values)
    commas, large = any("," in text for text in values), any(abs(value.number) >= LARGEST_DECIMAL for _, value in found)
    return ValueReading(NUMBER, _unit(values), commas, exponents, large=large, others=others)


def _unit(texts: Iterable[str]) -> str:
    units = {value.unit for text in texts if (value := value_of(text)) is not None and value.unit}
    if len(units) > 1:
        raise NoReading(f"the values have different units: {', '.join(sorted(units))}")
    return units.pop() if units else ""


def _check_others(texts: Iterable[str], reading: ValueReading) -> None:
    for text in texts:
        try:
            if (reading.key(text) is None) != (value_of(text) is None):
                raise ValueError(text)
        except ValueError as error:
            raise NoReading(_unread(str(error))) from None


def _check_order(pairs: Sequence[tuple[float | str, str]], key: Callable[[str], float | str | None]) -> None:
    """Keys must rise where what the walk orders by rises, and be equal where that is equal."""
    try:
        keyed = [(rank, key(text), text) for rank, text in pairs]
    except ValueError as error:
        raise NoReading(_unread(str(error))) from None
    for (rank, before, one), (next_rank, after, two) in pairwise(keyed):
        if (rank == next_rank) != (before == after) or before > after:  # type: ignore[operator]
            raise NoReading(f'"{one}" and "{two}" do not sort in a query as they do in a walk')


def _unread(text: str) -> str:
    return f'"{text}" is no plain number, date or time of day that a query can read'
