"""When a statement of Wikidata holds: its qualifiers start, end and point in time, as one time of the store.

    statement_time("1885", "1889", "")     '1885..1889'

The dump has them beside each statement (`sources.wikidata`); over SPARQL they are asked for (`sparql_times`).
"""

from __future__ import annotations

import math
import re

START, END, AT = "P580", "P582", "P585"  # qualifiers that say when
DAY = 11  # Wikidata's precision of a day; a time of a higher one is a day, too
_TIME = re.compile(r"([+-]?)(\d+)-(\d\d)-(\d\d)T.*")


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
    found = _TIME.fullmatch(time)
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
    found = _TIME.fullmatch(value)
    if found is None:
        return ""
    year = int(found[1] + found[2])
    return date_text(value if year > 0 else f"-{1 - year:04d}-{found[3]}-{found[4]}T", precision)
