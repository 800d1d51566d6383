"""One spelling for a name: case, accents, underscores and punctuation taken away.

Works a character at a time, so it knows nothing of languages: "Göring" becomes "goring" (not "goering"),
Cyrillic "й" becomes "и", and "C", "C++" and "C#" all become "c". Nor does it know typos; see kg/find.py.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable

# Latin letters with a stroke or joined, which Unicode does not decompose: people type the plain ones.
_PLAIN = {
    "ø": "o", "ł": "l", "đ": "d", "ð": "d", "ħ": "h", "ŧ": "t", "ı": "i", "æ": "ae", "œ": "oe", "þ": "th",
}  # fmt: skip

# Modifier letters that Unicode counts among the letters: the okina of Hawaiʻi, the apostrophe of Oʼzbekiston.
_APOSTROPHES = "\u02b9\u02ba\u02bb\u02bc\u02bd\u02be\u02bf\u02c8\u02ee"

# Canonical combining classes of marks that spell a sound (0: vowel signs of the Indic scripts and Thai;
# 8: kana voicing, which parts "ga" from "ka"; 9: virama). The other classes are accents, points, tone marks.
_SPELLING_MARKS = (0, 8, 9)


class _Fold(dict[int, str]):
    """A table for str.translate that works out a character when it first meets it."""

    def __missing__(self, codepoint: int) -> str:
        folded = self[codepoint] = _fold(chr(codepoint))
        return folded


def _fold(character: str) -> str:
    """What one character becomes: folded letters, a space, or nothing (accents and invisible characters)."""
    parts = unicodedata.normalize("NFKD", character)
    if parts != character:
        return "".join(map(_fold, parts))
    category = unicodedata.category(character)
    if category in ("Mn", "Mc"):
        spells = unicodedata.combining(character) in _SPELLING_MARKS and not _selects_variant(character)
        return character if spells else ""
    if not character.isalnum() or character in _APOSTROPHES:
        return "" if category in ("Cf", "Me") else " "
    lower = character.casefold()
    return _PLAIN.get(character, character) if lower == character else "".join(map(_fold, lower))


def _selects_variant(mark: str) -> bool:
    """Marks of class 0 that only choose a glyph or join two: variation selectors, the grapheme joiner."""
    return mark == "\u034f" or "\ufe00" <= mark <= "\ufe0f" or "\U000e0100" <= mark <= "\U000e01ef"


_FOLD = _Fold()
_FOLD_ASCII = bytes(
    ord(chr(byte).lower()) if chr(byte).isascii() and chr(byte).isalnum() else 32 for byte in range(256)
)


def normalise(text: str) -> str:
    """The text with case folded, accents dropped, and each run of other characters made one space.

    >>> normalise("  São_Paulo!")
    'sao paulo'
    >>> normalise("Schindler's List"), normalise("東京"), normalise("!!!")
    ('schindler s list', '東京', '!!!')

    A text without a letter or digit, as the last one, keeps its symbols: such names can be found too.
    `normalise(normalise(text)) == normalise(text)`.
    """
    if text.isascii():  # two to three times as fast, and most names are
        folded = b" ".join(text.encode().translate(_FOLD_ASCII).split()).decode()
    else:
        folded = " ".join(text.translate(_FOLD).split())
    return folded or " ".join(unicodedata.normalize("NFKC", text).split())


# ----------------------------------------------------------------------------------------------------
# Short names of relations: the end of each that no other relation of the graph ends with.
#
#     film.film.directed_by, tv.tv_program.directed_by  ->  film.directed_by, tv_program.directed_by
#
# A model reads the names around every set, and Freebase's, or a web address, are mostly their domain. Knows names
# alone.


_CUT = re.compile(r"[./#:]+")


class ShortNames:
    """`shown` is the short name of a relation, `real` the relation that a short or a whole name stands for.

    >>> names = ShortNames(["film.film.directed_by", "tv.tv_program.directed_by", "film.film.country", "born in"])
    >>> [names.shown(name) for name in ("film.film.directed_by", "film.film.country", "born in", "unknown")]
    ['film.directed_by', 'country', 'born in', 'unknown']
    >>> names.real("country"), names.real("film.film.country"), names.real("directed_by")
    ('film.film.country', 'film.film.country', 'directed_by')
    """

    def __init__(self, names: Iterable[str]) -> None:
        ends = {name: _ends(name) for name in names}
        owners = Counter(end for found in ends.values() for end in found)
        self._shown = {name: next((end for end in found if owners[end] == 1), name) for name, found in ends.items()}
        self._real = {short: name for name, short in self._shown.items()}

    def shown(self, name: str) -> str:
        return self._shown.get(name, name)

    def real(self, name: str) -> str:
        return self._real.get(name, name)


def _ends(name: str) -> list[str]:
    """The parts that a name ends with, the shortest first, itself last. Words with spaces are no path: one part.

    >>> _ends("/film/film/directed_by"), _ends("located in/on physical feature"), _ends("dbo:director")
    (['directed_by', 'film/directed_by', 'film/film/directed_by', '/film/film/directed_by'], \
['located in/on physical feature'], ['director', 'dbo:director'])
    """
    if any(character.isspace() for character in name):
        return [name]
    starts = [cut.end() for cut in _CUT.finditer(name) if cut.end() < len(name)]
    return list(dict.fromkeys([*(name[start:] for start in reversed(starts)), name]))
