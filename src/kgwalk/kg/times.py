"""Dates of facts as closed intervals of days, so that a time window is two comparisons.

A time is a year, a month, a day (ISO 8601, also negative and long years; a time of day is ignored) or `from..to` with
either side left open. Days count from 1970-01-01 in the proleptic Gregorian calendar.
"""

from __future__ import annotations

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
