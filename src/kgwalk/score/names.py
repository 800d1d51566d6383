"""When two texts name the same thing: three forms of a name, from strict to loose.

`kg.normalise` is for finding, and makes "C", "C++" and "C#" one name, "-5" and "5" too; a score must tell them apart.
So here symbols that carry meaning stay, and a number is a number. English articles are the only thing known of any
language. Knows nothing of typos, of dates (they are names), or of which names are right.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import NamedTuple

from kgwalk.kg.normalise import normalise

_THOUSANDS = re.compile(r"(?<=[0-9]),(?=[0-9]{3}(?![0-9]))")
_NUMBER = re.compile(r"([-−–]?)(0|[1-9][0-9]*)(?:\.([0-9]+))?")
_SIGNS = "-−–"
_SYMBOLS = "#%‰*°♯♭"  # beside all mathematical and currency signs (Unicode Sm and Sc)
_MAY_HAVE_MARK = re.compile(r"[-+<=>|~$#%*]")  # of a text in ASCII
_ARTICLE = re.compile(r"\W*(?:the|an?)[\s_]+", re.IGNORECASE)


class Forms(NamedTuple):
    """A name in three forms; two names are the same by the first form in which they agree."""

    plain: str  # case and white space aside
    key: str  # accents and punctuation aside as well, but not symbols that carry meaning
    bare: str  # the key without a leading English article


@lru_cache(1 << 16)
def forms(name: str) -> Forms:
    """
    >>> forms("The  Beatles")
    Forms(plain='the beatles', key='the beatles', bare='beatles')
    >>> forms("Beyoncé (singer)")
    Forms(plain='beyoncé (singer)', key='beyonce singer', bare='beyonce singer')
    """
    same = key(name)
    return Forms(" ".join(name.casefold().split()), same, _bare(name, same))


def key(name: str) -> str:
    """The name with case, accents, quotes, brackets, commas and the like taken away; "" only for a blank text.

    >>> [key(name) for name in ("Washington, D.C.", "washington d c", "São_Paulo")]
    ['washington d c', 'washington d c', 'sao paulo']

    Mathematical and currency signs stay, and `# % * °`, sharps and flats:

    >>> [key(name) for name in ("C", "C++", "C #", "Google+", "$5", "Sagittarius A*", "O-", "O+")]
    ['c', 'c++', 'c#', 'google+', '$5', 'sagittarius a*', 'o-', 'o+']

    A number is written in one way, thousands without commas; a decimal point and a minus are part of it, a hyphen and
    a full stop are not:

    >>> [key(name) for name in ("1,000", "1000.0", "-5", "5", "1.5", "1-5", "F-16", "007", "10,000 Maniacs")]
    ['1000', '1000', '-5', '5', '1.5', '1 5', 'f 16', '007', '10000 maniacs']

    A name without a letter or digit keeps its symbols: `key("!!!") == "!!!"`.
    """
    text = name if name.isascii() else unicodedata.normalize("NFKC", name)
    if "," in text:
        text = _THOUSANDS.sub("", text)
    number = _NUMBER.fullmatch(text.strip())
    if number is not None:
        return _number(*number.groups(default=""))
    folded = normalise(text)
    if (text.isascii() and _MAY_HAVE_MARK.search(text) is None) or not _has_word(folded):
        return folded
    pieces, start = [], 0
    for at, character in enumerate(text):
        if _is_mark(character) or _is_sign(text, at):
            pieces += [_fold(text[start:at]), "-" if character in _SIGNS else character]
            start = at + 1
    return "".join([*pieces, _fold(text[start:])])


def is_number(key: str) -> bool:
    """Whether a key is a number's.

    >>> is_number("-1.5"), is_number("f 16"), is_number("007")
    (True, False, False)
    """
    return _NUMBER.fullmatch(key) is not None


def _number(sign: str, whole: str, decimals: str) -> str:
    decimals = decimals.rstrip("0")
    written = f"{whole}.{decimals}" if decimals else whole
    return f"-{written}" if sign and written != "0" else written


def _fold(piece: str) -> str:
    folded = normalise(piece)
    return folded if _has_word(folded) else ""


def _has_word(text: str) -> bool:
    return any(map(str.isalnum, text))


def _is_mark(character: str) -> bool:
    return character in _SYMBOLS or (unicodedata.category(character) in ("Sm", "Sc") and character not in _SIGNS)


def _is_sign(text: str, at: int) -> bool:
    """A minus, not a hyphen: before a digit where a word begins ("-5 °C"), or after the last letter ("O-")."""
    if text[at] not in _SIGNS:
        return False
    before, after = text[at - 1 : at] if at else "", text[at + 1 : at + 2]
    if after.isdigit():
        return not before.isalnum() and before not in tuple(_SIGNS)
    return before.isalpha() and not _has_word(text[at:])


def _bare(name: str, same: str) -> str:
    """The key without "the", "a" or "an" before it, unless too little is left: "The The", "A", "The 1975" stay."""
    article = _ARTICLE.match(name)
    if article is None:
        return same
    left = key(name[article.end() :])
    enough = left not in ("", "the", "a", "an") and any(map(str.isalpha, left))
    return left if enough else same
