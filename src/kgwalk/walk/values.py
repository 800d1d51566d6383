"""Values in names: numbers, dates and units, compared, summed and written.

    value_of("1,234.5 kg")      Quantity(1234.5, "kg")
    value_of("1999-12-31")      a date: the year with its fraction, so that years and days compare

A graph keeps every value as a name. What a call compares, orders or adds up is read here, at the last moment, so that
an answer has the value as its source wrote it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date

from kgwalk.kg.times import parse_time

SCALES = {"hundred": 1e2, "thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}
_SHORT = {"k": 1e3, "mio": 1e6, "bn": 1e9}  # joined to the figures: 5k. Not m, which is metres
DAYS_A_YEAR = 365.2425
NOW = ("now", "today")
CLOCK = "o'clock"  # the unit of a time of day
_FIGURES, _SCALE = r"[-+]?\d[\d,]*(?:\.\d+)?", rf"[ -]({'|'.join(SCALES)})\b"
_FEW = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_NUMBER_WORDS: dict[str, float] = {word: number for number, word in enumerate(f"{_FEW} eighteen nineteen".split())}
_NUMBER_WORDS |= {word: 10 * number for number, word in enumerate(_TENS.split(), 2)} | {"dozen": 12, "half": 0.5}
_DECADES = {word[:-1] + "ies": 1900 + 10 * number for number, word in enumerate(_TENS.split(), 2)}
_ONE_WORD = "|".join(sorted(_NUMBER_WORDS.keys() - {"half"}, key=len, reverse=True))
# "twenty", "twenty-five", "two hundred", "three hundred and fifty", "a million", "half a million", "a dozen"
_SPELT = (
    rf"(?:a |half an? |(?:{_ONE_WORD})[ -])?(?:{'|'.join(SCALES)})(?: and (?:{_ONE_WORD})(?:[ -](?:{_ONE_WORD}))?)?"
)
_SPELT += rf"|(?:{'|'.join(_TENS.split())})-(?:{_ONE_WORD})|{_ONE_WORD}"
_DECADE = rf"(?:the )?(?:19|20)?\d0'?s|the ({'|'.join(_DECADES)})"
# "june 2024", "1 jan 2025", "March 3rd, 1999"
_MONTH_NAMES = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
]
_MONTHS = {short: at for at, name in enumerate(_MONTH_NAMES, 1) for short in (name, name[:3])} | {"sept": 9}
_MONTH = rf"(?P<month>{'|'.join(sorted(_MONTHS, key=len, reverse=True))})\.?"
_DATED = (
    rf"(?:(?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?: of)? )?{_MONTH}(?: (?P<day_after>\d{{1,2}})(?:st|nd|rd|th)?)?(?:,| of)?"
)
_DATED += r" (?P<year>\d{4})"
_TWELVE = r"\d{1,2}(?::\d\d)? ?[ap]\.?m\b\.?|noon|midnight"
# A word that is no number before or after is one with it: N10156, uranium-238, 2nd. A unit may be joined: 100kg, 50%.
_JOINED = rf"{_FIGURES}(?:[a-z]{{1,3}}|%|°[cf]?)"
_VALUE = re.compile(
    rf"(?<![\w.])(?<![\w]-)(?:(?P<dated>{_DATED})|(?P<clock>{_TWELVE})|\d{{1,2}}:\d\d(?::\d\d)?|\d{{4}}-\d\d(?:-\d\d)?"
    rf"|(?P<decade>{_DECADE})|(?P<joined>{_JOINED})|{_FIGURES}(?:{_SCALE})?|(?P<spelt>{_SPELT}))(?![\w:-]|\.\d)",
    re.IGNORECASE,
)
_ORDINAL = re.compile(r"\d+(?:st|nd|rd|th)", re.IGNORECASE)
_WRITTEN = re.compile(f"{_FIGURES}(?:{_SCALE})?", re.IGNORECASE)
_SCALED = re.compile(f"({_FIGURES})(?:{_SCALE}|({'|'.join(_SHORT)}))", re.IGNORECASE)
# One word after the number, or a sign of a currency before it: 330 m, 12%, 5.99 EUR, $20
_UNIT = re.compile(
    rf"([$€£¥₹]?)\s?({_FIGURES}(?:[eE][-+]?\d+)?)(?:[ -]({'|'.join(SCALES)})\b)?\s?([^\W\d_][^\s\d]*|[%°‰]\S*)?",
    re.IGNORECASE,
)
_CLOCK = re.compile(r"([01]?\d|2[0-4]):([0-5]\d)(?::([0-5]\d))?")
_DAY = re.compile(r"[+-]?\d{1,12}-\d{1,2}-\d{1,2}.*")


def number_of(text: str) -> float | None:
    """A number, or a date as a year with its fraction, so that years and days compare; None for anything else.

    >>> number_of("67391582"), number_of("1,234.5"), number_of("2.5 million"), number_of("Paris")
    (67391582.0, 1234.5, 2500000.0, None)
    >>> number_of("1999") < number_of("1999-12-31") < number_of("2000")
    True
    """
    scaled = _SCALED.fullmatch(text.strip())
    if scaled is not None:
        return float(scaled[1].replace(",", "")) * (SCALES | _SHORT)[(scaled[2] or scaled[3]).lower()]
    try:
        number = float(text.replace(",", ""))
        return number if math.isfinite(number) else None
    except ValueError:
        pass
    try:
        return 1970 + parse_time(text)[0] / DAYS_A_YEAR
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class Quantity:
    """What a name says as a number; `unit` is "" where it has none, `date` where it is a day, a month or a span."""

    number: float
    unit: str = ""
    date: bool = False


def value_of(text: str) -> Quantity | None:
    """A number with its unit, a date, or a time of day; None for anything else.

    >>> value_of("330 m"), value_of("$5.99"), value_of("12%")
    (Quantity(number=330.0, unit='m', date=False), Quantity(number=5.99, unit='$', date=False), \
Quantity(number=12.0, unit='%', date=False))
    >>> value_of("2.5 million USD").number, value_of("1999-12-31").date, value_of("Paris")
    (2500000.0, True, None)
    >>> value_of("21:45").number, value_of("21:75")
    (21.75, None)
    """
    number = number_of(text)
    if number is not None:
        stripped = text.strip()
        return Quantity(number, date=("-" in stripped[1:] and "e-" not in stripped.lower()) or ".." in stripped)
    if (clock := _CLOCK.fullmatch(text.strip())) is not None:
        hours, minutes, seconds = (int(part or 0) for part in clock.groups())
        return Quantity(hours + minutes / 60 + seconds / 3600, CLOCK)
    found = _UNIT.fullmatch(text.strip())
    if found is None:
        return None
    sign, figures, scale, unit = found.groups()
    if bool(sign) == bool(unit):  # both, or neither: no number with a unit
        return None
    number = float(figures.replace(",", "")) * (SCALES[scale.lower()] if scale else 1)
    return Quantity(number, sign or unit) if math.isfinite(number) else None


def day(text: str) -> str:
    """A date that a call names: `now` is today.

    >>> day("1999"), len(day("now"))
    ('1999', 10)
    """
    return date.today().isoformat() if text.strip().casefold() in NOW else text


def spans(left: str, right: str) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """The first and last day of two dates; of a span from..to, those of its beginning. None where one is no date.

    >>> spans("1970-01-02", "1970")
    ((1, 1), (0, 364))
    """
    try:
        first, second = (parse_time(text.partition("..")[0].strip() or text) for text in (left, right))
    except ValueError:
        return None
    return first, second


def comparable(left: Quantity, right: Quantity) -> bool:
    """Whether two values can be compared: the same unit, or one without.

    >>> comparable(Quantity(5, "km"), Quantity(7)), comparable(Quantity(5, "km"), Quantity(7, "kg"))
    (True, False)
    """
    return left.unit == right.unit or not left.unit or not right.unit


def written(number: float, unit: str = "") -> str:
    """A number as an answer has it: whole where it is whole, at most ten figures, with its unit.

    >>> written(12.0), written(1234567.0), written(2 / 3), written(5.5, "kg"), written(5.5, "$"), written(12, "%")
    ('12', '1234567', '0.6666666667', '5.5 kg', '$5.5', '12%')
    """
    whole = abs(number) < 1e15 and number == int(number)
    text = str(int(number)) if whole else f"{number:.10g}"
    if not unit:
        return text
    return f"{unit}{text}" if unit in "$€£¥₹" else f"{text}{unit}" if unit in "%°‰" else f"{text} {unit}"


def shared_unit(values: Iterable[Quantity]) -> str | None:
    """The unit that all have, or "" if none has one; None where two differ.

    >>> shared_unit([Quantity(1, "kg"), Quantity(2, "kg")]), shared_unit([Quantity(1, "kg"), Quantity(2, "m")])
    ('kg', None)
    """
    units = {value.unit for value in values}
    return units.pop() if len(units) == 1 else "" if not units else None


def difference(left: str, right: str) -> str | None:
    """The first less the second: a number with its unit, or of two days the days between them; None if there is none.

    >>> difference("330 m", "96 m"), difference("2000-01-03", "2000-01-01"), difference("1990", "1950")
    ('234 m', '2 days', '40')
    """
    if _DAY.fullmatch(left.strip()) and _DAY.fullmatch(right.strip()):
        days = parse_time(left)[0] - parse_time(right)[0]
        return f"{days} day{'s' * (abs(days) != 1)}"
    one, two = value_of(left), value_of(right)
    if one is None or two is None or not comparable(one, two):
        return None
    if one.date or two.date:  # a year and a day: what both have is the year
        return written(math.floor(one.number) - math.floor(two.number))
    return written(_rounded(one.number - two.number), one.unit or two.unit)


def quotient(left: str, right: str) -> str | None:
    """The first over the second, without the unit that both have.

    >>> quotient("330 m", "110 m"), quotient("10", "4"), quotient("1", "0")
    ('3', '2.5', None)
    """
    one, two = value_of(left), value_of(right)
    if one is None or two is None or not comparable(one, two) or not two.number:
        return None
    return written(one.number / two.number, one.unit if one.unit and not two.unit else "")


def aggregate(how: str, texts: Sequence[str]) -> str | None:
    """The sum, average, least or greatest of values; None where one is no value, or their units differ.

    >>> aggregate("sum", ["1.1 kg", "2.2 kg"]), aggregate("average", ["1", "2"]), aggregate("greatest", ["9", "10"])
    ('3.3 kg', '1.5', '10')
    >>> aggregate("least", ["2000-05-01", "1999"]), aggregate("sum", ["1 kg", "1 m"])
    ('1999', None)
    """
    values = [value_of(text) for text in texts]
    read = [value for value in values if value is not None]
    unit = shared_unit(read)
    if not read or len(read) < len(values) or unit is None:
        return None
    numbers = [value.number for value in read]
    if how in ("least", "greatest"):  # as it is written: a date stays a date
        best = min(numbers) if how == "least" else max(numbers)
        return texts[numbers.index(best)]
    if any(value.date or value.unit == CLOCK for value in read):
        return None
    total = math.fsum(numbers)
    return written(_rounded(total if how == "sum" else total / len(numbers)), unit)


def _rounded(number: float) -> float:
    """Without the dust of binary fractions: 1.1 + 2.2 is 3.3."""
    return float(f"{number:.12g}")


def values_in(text: str) -> list[str]:
    """The numbers, dates and times of day that a text has, in figures or in words, in order.

    >>> values_in("at least four cities over 2.5 million, founded in 1999 or after 2001-05")
    ['4', '2.5 million', '1999', '2001-05']
    >>> values_in("flights after 22:00 with N10156 and uranium-238, below -3 degrees, costing $20")
    ['22:00', '-3', '20']
    >>> values_in("twenty of two hundred above 2.5k or 100kg, in the nineties or the 2010s, the 2nd of a dozen")
    ['20', '200', '2.5k', '100kg', '1990', '2010', '12']
    >>> values_in("since June 2024, before 1 jan 2025, on March 3rd, 1999, may 5 of them")
    ['2024-06', '2025-01-01', '1999-03-03', '5']
    """
    return [value for match in _VALUE.finditer(text) if (value := _figures(match)) is not None]


def _figures(match: re.Match[str]) -> str | None:
    """A value in figures; None for what is none after all, such as 2nd."""
    words = match[0].rstrip(",").casefold()
    if match["dated"]:
        day = match["day"] or match["day_after"]
        month = f"{match['year']}-{_MONTHS[match['month'].casefold()]:02}"
        return f"{month}-{int(day):02}" if day else month
    if match["clock"]:
        return _clock(words)
    if match["decade"]:
        first = _DECADES.get(words.removeprefix("the ")) or int(re.sub(r"\D", "", words))
        return str(first if first > 99 else 1900 + first)  # the first year of the nineties, the 90s, the 1990s
    if match["spelt"]:
        return written(_spelt(words))
    if match["joined"]:
        return None if _ORDINAL.fullmatch(words) or value_of(words) is None else words
    return words


def _clock(words: str) -> str:
    """A time of day of twelve hours.

    >>> _clock("10pm"), _clock("12:30 a.m."), _clock("noon")
    ('22:00', '00:30', '12:00')
    """
    if words in ("noon", "midnight"):
        return "12:00" if words == "noon" else "00:00"
    hours, minutes = (int(part) for part in (*re.findall(r"\d+", words), 0)[:2])
    return f"{hours % 12 + 12 * ('p' in words):02}:{minutes:02}"


def _spelt(words: str) -> float:
    """A number in words.

    >>> [_spelt(words) for words in ("twenty-five", "two hundred and fifty", "half a million", "a dozen")]
    [25.0, 250.0, 500000.0, 12.0]
    """
    total = 0.0
    for word in re.split(r"[ -]", words):
        if word in SCALES:
            total = (total or 1) * SCALES[word]
        elif word in _NUMBER_WORDS:
            total += _NUMBER_WORDS[word]
    return total


def as_written(number: str, text: str) -> str:
    """A number in the words that a text has for it; itself, if there are none.

    >>> as_written("10000000", "Which of Angola's neighbours have more than 10 million inhabitants?")
    '10 million'
    >>> as_written("150000", "cities over 150,000 in 1990"), as_written("3", "Which of the 30 are above three?")
    ('150,000', '3')
    """
    wanted = number_of(number)
    found = (match[0].rstrip(",") for match in _WRITTEN.finditer(text))
    return next((words for words in found if wanted is not None and number_of(words) == wanted), number)
