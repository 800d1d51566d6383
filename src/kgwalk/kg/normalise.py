"""One spelling for a name: case, accents, underscores and punctuation taken away.

Works a character at a time, so it knows nothing of languages: "Göring" becomes "goring" (not "goering"),
Cyrillic "й" becomes "и", and "C", "C++" and "C#" all become "c". Nor does it know typos; see kg/find.py.
"""

from __future__ import annotations

import unicodedata

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
