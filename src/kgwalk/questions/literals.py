"""What kind of thing a name is by its looks: a number, a year, a date, a link, an id, a long text, or a plain name.

Knows one text at a time, no graph.
"""

from __future__ import annotations

import re
from functools import lru_cache

LONGEST_NAME = 80  # characters; what is longer is a sentence, not the name of something
REMEMBERED = 200  # characters: what longer names are is looked at each time
NUMBER, YEAR, DATE, LINK, ID, TEXT, NAME = "number", "year", "date", "link", "id", "text", "name"
LITERALS = (NUMBER, YEAR, DATE, LINK, TEXT)  # values, as opposed to things

_DATE = re.compile(r"[+-]?\d{3,6}-\d\d(?:-\d\d(?:[T ][\d:.,]*(?:Z|[+-]\d\d:?\d\d)?)?)?")
_YEAR = re.compile(r"[12]\d{3}")
_NUMBER = re.compile(r"[+-]?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+)?(?:[eE][+-]?\d+)?%?")
_LINK = re.compile(r"(?:\w+://|www\.|mailto:)\S+")
# Freebase's ids and mediators, Wikidata's, blank nodes, digests
_ID = re.compile(r"/?[mg][./][0-9a-z_]{3,}|cvt\.\S+|[QPL]\d{2,}|_:\S+|(?=.*\d)[0-9a-f]{8,}(?:-[0-9a-f]+)*|\W*")

_WITH_ID = re.compile(r"[(\[]/?(?:[mg][./][0-9a-z_]{3,}|Q\d+)[)\]]$")


def literal_kind(name: str) -> str:
    """
    >>> [literal_kind(name) for name in ("Paris", "1999", "1999-05-01", "67,391", "m.0abc1", "https://a.b/c")]
    ['name', 'year', 'date', 'number', 'id', 'link']
    """
    return _kind(name) if len(name) <= REMEMBERED else _kind.__wrapped__(name)


@lru_cache(maxsize=1 << 15)
def _kind(name: str) -> str:
    text = name.strip()
    if len(text) > LONGEST_NAME or "\n" in text:
        return LINK if _LINK.fullmatch(text) else TEXT
    if any(sign.isdigit() for sign in text[:2]) or text[:1] in "+-.":
        for kind, pattern in ((DATE, _DATE), (YEAR, _YEAR), (NUMBER, _NUMBER)):
            if text and pattern.fullmatch(text) and any(map(str.isdigit, text)):
                return kind
    for kind, pattern in ((LINK, _LINK), (ID, _ID)):
        if pattern.fullmatch(text):
            return kind
    return NAME


def askable(name: str) -> bool:
    """Whether a person could put this name into a question: some letters, no id (nor one added to it), no value.

    >>> askable("Drama"), askable("Drama (/m/07s9rl0)"), askable("19")
    (True, False, False)
    """
    return literal_kind(name) == NAME and any(map(str.isalpha, name)) and not _WITH_ID.search(name)
