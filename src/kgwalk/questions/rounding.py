"""A round number between two values, and how people write it in a question: "more than 5 million". Knows no graph."""

from __future__ import annotations

import math
import random
from decimal import ROUND_FLOOR, Decimal

_SCALES = ((10**9, "billion"), (10**6, "million"))
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


def in_words(number: str, chance: random.Random) -> str:
    """A large number as one of those ways that people have for it; not for years.

    >>> sorted({in_words("5000000", random.Random(seed)) for seed in range(20)})
    ['5 million', '5,000,000', '5000000']
    >>> sorted({in_words("150000", random.Random(seed)) for seed in range(20)}), in_words("0.15", random.Random(0))
    (['150,000', '150000'], '0.15')
    """
    if not number.isdigit() or int(number) < 10_000:
        return number
    said = [number, f"{int(number):,}"]
    scale, word = next(((scale, word) for scale, word in _SCALES if int(number) >= scale), (1, ""))
    short = _written(Decimal(number) / scale)
    if word and len(short) <= 4:
        said += [f"{short} {word}"] * 2
    return chance.choice(said)


def _multiple(number: Decimal, unit: Decimal) -> Decimal:
    """The largest multiple of the unit that is not above the number."""
    return (number / unit).to_integral_value(ROUND_FLOOR) * unit


def _written(number: Decimal) -> str:
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
