"""Dates of facts as closed intervals of days, so that a time window is two comparisons.

A time is a year, a month, a day (ISO 8601, also negative and long years; a time of day is ignored) or `from..to` with
either side left open. Days count from 1970-01-01 in the proleptic Gregorian calendar. Wikidata says when a statement
holds by three qualifiers, each a timestamp with a precision: `date_text` and `statement_time` make one time of them.
"""

from __future__ import annotations

import math
import re

# The ends of an open interval; years further off are clipped to them. int32 days reach 5.8 million years.
EARLIEST, LATEST = -(2**31) + 1, 2**31 - 1

_DATE = re.compile(r"([+-]?\d{1,12})(?:-(\d{1,2})(?:-(\d{1,2})(?:[T ][0-9:.,]*(?:Z|[+-]\d{2}:?\d{2})?)?)?)?")
_MONTH_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
EXPECTED = "a year (2005), month (2005-06), day (2005-06-30) or span (1990..1994, 1990.., ..1994)"


def parse_time(text: str) -> tuple[int, int]:
    """The first and last day that a time covers.

    >>> parse_time("1970")
    (0, 364)
    >>> parse_time("1970-02")
    (31, 58)
    >>> parse_time("1970-01-02..1970-01-03")
    (1, 2)
    >>> parse_time("1970-01-02..")[1] == LATEST
    True
    """
    if ".." in text:
        left, _, right = text.partition("..")
        if not left.strip() and not right.strip():
            raise ValueError(f"{text!r} has no date on either side; expected {EXPECTED}")
        start = _span(left)[0] if left.strip() else EARLIEST
        end = _span(right)[1] if right.strip() else LATEST
    else:
        start, end = _span(text)
    if start > end:
        raise ValueError(f"{text!r} ends before it starts")
    return start, end


def parse_window(start: str | None, end: str | None) -> tuple[int, int]:
    """The days between two dates, each a year, month or day; None leaves that side open.

    >>> parse_window("1970", "1970-01")
    (0, 30)
    """
    low = parse_time(start)[0] if start else EARLIEST
    high = parse_time(end)[1] if end else LATEST
    if low > high:
        raise ValueError(f"the window ends ({end}) before it starts ({start})")
    return low, high


def _span(text: str) -> tuple[int, int]:
    """The first and last day of a year, month or day."""
    found = _DATE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not a time; expected {EXPECTED}")
    year, month, day = (int(part) if part else None for part in found.groups())
    assert year is not None  # the pattern has a year
    # Wikidata and XSD write an unknown month or day as 00, which means the whole year or month.
    first_month, last_month = (month, month) if month else (1, 12)
    if last_month > 12:
        raise ValueError(f"{text!r} has no month {month}")
    longest = _month_days(year, last_month)
    if day and day > longest:
        raise ValueError(f"{text!r} has no day {day}; that month has {longest}")
    first_day, last_day = (day, day) if day else (1, longest)
    return _clip(_days(year, first_month, first_day)), _clip(_days(year, last_month, last_day))


def _month_days(year: int, month: int) -> int:
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return 29 if month == 2 and leap else _MONTH_DAYS[month - 1]


def _days(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01. Years are counted from March, so that the leap day is the last of a year."""
    year -= month <= 2
    era, year_of_era = divmod(year, 400)
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - 719_468


def _clip(days: int) -> int:
    return max(EARLIEST, min(LATEST, days))


# Times of Wikidata's statements

START, END, AT = "P580", "P582", "P585"  # qualifiers that say when
DAY = 11  # the precision of a day; a time of a higher one is a day, too
_TIMESTAMP = re.compile(r"([+-]?)(\d+)-(\d\d)-(\d\d)T.*")


def statement_time(since: str, until: str, at: str) -> str:
    """The time of a statement by its three qualifiers, "" for one that it lacks.

    >>> statement_time("1885", "", ""), statement_time("1950..1959", "1961", "1955"), statement_time("", "", "1955")
    ('1885..', '1950..1961', '1955')
    """
    return f"{since.partition('..')[0]}..{until.rpartition('..')[2]}" if since or until else at


def date_text(time: str, precision: int) -> str:
    """A time as far as it is known: a day, a month, a year; of a decade, century or millennium its first and last year.

    >>> [date_text("+1952-03-11T00:00:00Z", precision) for precision in (11, 10, 9, 8, 7, 6)]
    ['1952-03-11', '1952-03', '1952', '1950..1959', '1901..2000', '1001..2000']
    >>> [date_text("-0044-03-15T00:00:00Z", precision) for precision in (11, 9, 7)]
    ['-0044-03-15', '-44', '-100..-1']
    >>> date_text("+1900-00-00T00:00:00Z", 7), date_text("-13798000000-00-00T00:00:00Z", 3)
    ('1801..1900', '-13798000000')
    """
    found = _TIMESTAMP.fullmatch(time)
    if found is None:
        raise ValueError(f"{time!r} is not a time")
    sign, year, month, day = "-" if found[1] == "-" else "", int(found[2]), found[3], found[4]
    if precision >= DAY and month != "00" and day != "00":
        return f"{sign}{year:04d}-{month}-{day}"
    if precision >= DAY - 1 and month != "00":
        return f"{sign}{year:04d}-{month}"
    if precision not in (6, 7, 8) or not year:
        return f"{sign}{year}"
    if precision == 8:
        first = year - year % 10
        last = first + 9
    else:
        length = 10 ** (9 - precision)
        last = math.ceil(year / length) * length
        first = last - length + 1
    return f"-{last}..-{first}" if sign else f"{first}..{last}"


def xsd_date_text(value: str, precision: int) -> str:
    """The same of a date of RDF, which counts the year before 1 as 0; "" if it is none.

    >>> xsd_date_text("-0043-03-15T00:00:00Z", 11), xsd_date_text("1952-01-01T00:00:00Z", 9), xsd_date_text("soon", 9)
    ('-0044-03-15', '1952', '')
    """
    found = _TIMESTAMP.fullmatch(value)
    if found is None:
        return ""
    year = int(found[1] + found[2])
    return date_text(value if year > 0 else f"-{1 - year:04d}-{found[3]}-{found[4]}T", precision)
