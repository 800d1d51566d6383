"""A round number between two values, as people write it in a question: "more than 5 million". Knows no graph."""

from __future__ import annotations

import math
from decimal import ROUND_FLOOR, Decimal

LEAST_DIGIT = -12  # a billionth of a billionth is no round number


def round_between(low: float, high: float, *, year: bool = False) -> str:
    """The number with the fewest digits that parts `low` from `high`: low < number <= high; of years, a whole one.

    >>> round_between(4_213_265, 5_879_441), round_between(0.12, 0.18), round_between(-3, 7)
    ('5000000', '0.15', '0')
    >>> round_between(1994.4, 1999.2, year=True), round_between(12, 13)
    ('1995', '13')
    """
    if year:
        fives = _multiple(Decimal(high), Decimal(5))
        return f"{fives if fives > low else math.floor(high):.0f}"
    if low < 0 < high:
        return "0"
    below, above = Decimal(repr(low)), Decimal(repr(high))  # as written: 0.36 is a little less in binary
    size = max(abs(below), abs(above)).adjusted() + 1
    for digit in range(size, LEAST_DIGIT, -1):
        for unit in (Decimal(1).scaleb(digit), Decimal(5).scaleb(digit - 1)):
            number = _multiple(above, unit)
            if below < number:
                return _written(number)
    return _written(above)


def _multiple(number: Decimal, unit: Decimal) -> Decimal:
    """The largest multiple of the unit that is not above the number."""
    return (number / unit).to_integral_value(ROUND_FLOOR) * unit


def _written(number: Decimal) -> str:
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
