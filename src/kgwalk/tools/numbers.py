"""Numbers and dates as texts have them: 67391582, "1,234.5", "10 million", 1999-12-31. Knows no graph."""

from __future__ import annotations

import re

from kgwalk.kg.times import parse_time

SCALES = {"thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}
_FIGURES, _SCALE = r"[-+]?\d[\d,]*(?:\.\d+)?", rf"[ -]({'|'.join(SCALES)})\b"
_WRITTEN = re.compile(f"{_FIGURES}(?:{_SCALE})?", re.IGNORECASE)
_SCALED = re.compile(f"({_FIGURES}){_SCALE}", re.IGNORECASE)


def number_of(text: str) -> float | None:
    """A number, or a date as a year with its fraction, so that years and days compare; None for anything else.

    >>> number_of("67391582"), number_of("1,234.5"), number_of("2.5 million"), number_of("Paris")
    (67391582.0, 1234.5, 2500000.0, None)
    >>> number_of("1999") < number_of("1999-12-31") < number_of("2000")
    True
    """
    scaled = _SCALED.fullmatch(text.strip())
    if scaled is not None:
        return float(scaled[1].replace(",", "")) * SCALES[scaled[2].lower()]
    try:
        return float(text.replace(",", ""))
    except ValueError:
        pass
    try:
        return 1970 + parse_time(text)[0] / 365.2425
    except ValueError:
        return None


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
