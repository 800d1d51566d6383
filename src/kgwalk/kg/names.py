"""Names: tables of them, each with a number; short ones for relations; one spelling to compare them by; their words.

A table is four arrays on disk: `heap` (the UTF-8 bytes of all names), `offsets` into it, `hash` (xxh3 of each name,
sorted) and `byhash` (the numbers in that order). Number to name goes by offset; name to number bisects the hashes, then
compares the bytes. Tables are written by `bulk_names`. This module is free of Arrow, so that a server opens a store
without importing it.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from datetime import date, datetime, time
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from kgwalk.kg.blocks import BlockView
from kgwalk.kg.files import Folder, damaged, forged

U64 = npt.NDArray[np.uint64]
U32 = npt.NDArray[np.uint32]
OTHER_NAMES = "other_name"  # the table of names that entities have beside the one that is shown
ALIASES = "alias"  # the table of names that updates gave to entities
name_hash = xxhash.xxh3_64_intdigest


class NameTable:
    """An opened table. `table[3]` is the fourth name; `table.number("Paris")` is the number of that name, or None.

    A number without a name, or a name that is not UTF-8, is a StoreError: numbers come from the store's own arrays.
    """

    def __init__(self, folder: Folder, prefix: str) -> None:
        self._path = folder.path
        self.heap = folder.array(f"{prefix}.heap", "|u1")
        self.offsets = folder.array(f"{prefix}.offsets", "<u8")
        names = len(self.offsets) - 1
        if names < 0 or self.offsets[names] != len(self.heap):
            raise forged(folder.path, f"the names of {prefix!r} do not end where their bytes do")
        # memoryviews give Python ints and bytes several times faster than NumPy scalars do
        self._heap = self.heap.data
        self._offsets = self.offsets.data
        self._by_block = isinstance(self._heap, BlockView) and isinstance(self._offsets, BlockView)
        self._hash = folder.array(f"{prefix}.hash", "<u8", names).data
        self._byhash = folder.array(f"{prefix}.byhash", "<u4", names).data

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, number: int) -> str:
        offsets = self._offsets
        try:
            if self._by_block:
                return str(self._heap.name(offsets, number))
            return str(self._heap[offsets[number] : offsets[number + 1]], "utf-8")
        except (IndexError, UnicodeDecodeError) as error:
            raise damaged(self._path) from error

    def several(self, numbers: Iterable[int]) -> list[str]:
        """The names of these numbers, in order."""
        heap, offsets = self._heap, self._offsets
        try:
            if self._by_block:
                return [heap.name(offsets, number) for number in numbers]
            return [str(heap[offsets[number] : offsets[number + 1]], "utf-8") for number in numbers]
        except (IndexError, UnicodeDecodeError) as error:
            raise damaged(self._path) from error

    def number(self, name: str) -> int | None:
        """The number of a name, or None."""
        try:
            data = name.encode()
        except UnicodeEncodeError:  # a lone surrogate: no stored name has one
            return None
        wanted = name_hash(data)
        hashes = self._hash
        by_block = isinstance(hashes, BlockView)
        at = hashes.array.bisect_uniform(wanted) if by_block else bisect_left(hashes, wanted)
        while at < len(hashes) and hashes[at] == wanted:
            number = self._byhash[at]
            if number >= len(self):
                raise damaged(self._path)
            if self._heap[self._offsets[number] : self._offsets[number + 1]] == data:
                return int(number)
            at += 1
        return None

    def any_byte(self, wanted: bytes) -> bool:
        """Whether any name holds one of these bytes."""
        values = list(wanted)
        step = 1 << 24
        return any(
            bool(np.isin(self.heap[start : start + step], values).any()) for start in range(0, len(self.heap), step)
        )


# Short names of relations

_CUT = re.compile(r"[./#:]+")


class ShortNames:
    """Short names of relations: the end of each that no other relation of the graph ends with.

    A model reads relations around every set, and most of a Freebase name or a web address is its domain. `shown` gives
    the short name of a relation, `real` the relation that a short or a whole name means.

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
    """The ends of a name, the shortest first and itself last. A name with spaces is no path, so it has one end.

    >>> _ends("/film/film/directed_by"), _ends("located in/on physical feature"), _ends("dbo:director")
    (['directed_by', 'film/directed_by', 'film/film/directed_by', '/film/film/directed_by'], \
['located in/on physical feature'], ['director', 'dbo:director'])
    """
    if any(character.isspace() for character in name):
        return [name]
    starts = [cut.end() for cut in _CUT.finditer(name) if cut.end() < len(name)]
    return list(dict.fromkeys([*(name[start:] for start in reversed(starts)), name]))


# One spelling for a name

# Latin letters with a stroke, and joined ones, which Unicode does not decompose. People type the plain ones.
_PLAIN = {
    "ø": "o", "ł": "l", "đ": "d", "ð": "d", "ħ": "h", "ŧ": "t", "ı": "i", "æ": "ae", "œ": "oe", "þ": "th",
}  # fmt: skip

# Modifier letters that Unicode counts among the letters: the okina of Hawaiʻi, the apostrophe of Oʼzbekiston.
_APOSTROPHES = "\u02b9\u02ba\u02bb\u02bc\u02bd\u02be\u02bf\u02c8\u02ee"

# Canonical combining classes of marks that spell a sound (0: vowel signs of the Indic scripts and Thai;
# 8: kana voicing, which parts "ga" from "ka"; 9: virama). The other classes are accents, points, tone marks.
_SPELLING_MARKS = (0, 8, 9)


class _Fold(dict[int, str]):
    """A table for str.translate that folds each character when it first meets it."""

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

    A text without a letter or digit, as the last one, keeps its symbols, so that such names can be found too.
    `normalise(normalise(text)) == normalise(text)`. It works character by character, whatever the language: "Göring"
    becomes "goring" (not "goering"), Cyrillic "й" becomes "и", and "C", "C++" and "C#" all become "c".
    """
    if text.isascii():  # two to three times as fast, and most names are
        folded = b" ".join(text.encode().translate(_FOLD_ASCII).split()).decode()
    else:
        folded = " ".join(text.translate(_FOLD).split())
    return folded or " ".join(unicodedata.normalize("NFKC", text).split())


# A value of a database as a name

_MOST_EXACT = 1 << 53  # whole numbers below are exact as floats
_FAILED = frozenset(("#REF!", "#N/A", "#VALUE!", "#DIV/0!", "#NAME?", "#NULL!", "#NUM!"))  # formulas of a sheet


def value_text(value: Any) -> str:
    """A cell of a sheet or a database as text: days without a time of day, whole numbers without a point.

    >>> value_text(1995.0), value_text(True), value_text(datetime(1995, 6, 30)), value_text(None), value_text(b"bytes")
    ('1995', 'true', '1995-06-30', '', '')
    """
    if value is None or isinstance(value, bytes):
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.date().isoformat() if value.time() == time() else value.isoformat(" ")
    if isinstance(value, float) and value.is_integer() and abs(value) < _MOST_EXACT:
        return str(int(value))
    text = value.isoformat() if isinstance(value, date | time) else str(value)
    return "" if text.startswith("#") and text in _FAILED else text


# One number for a name

_IRREGULAR = {"people": "person", "men": "man", "women": "woman", "children": "child", "staff": "employee"}
_IRREGULAR |= {"companies": "company", "movies": "movie", "series": "series", "species": "species", "cities": "city"}
_IRREGULAR |= {"wives": "wife", "knives": "knife", "shelves": "shelf", "feet": "foot", "gases": "gas", "gasses": "gas"}
_IRREGULAR |= {"news": "news", "lens": "lens", "mice": "mouse", "teeth": "tooth"}


def singular(word: str) -> str:
    """An English word in the singular, in lower case.

    >>> [singular(word) for word in ("countries", "people", "buses", "bus", "boxes", "houses", "classes", "bases")]
    ['country', 'person', 'bus', 'bus', 'box', 'house', 'class', 'base']
    """
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 4 and word.endswith(("ses", "xes", "ches", "shes", "zes")):
        whole = word.endswith("ses") and (not word.endswith(("sses", "uses")) or word.endswith(("ouses", "auses")))
        return word[:-1] if whole else word[:-2]  # a house, a cause, an exercise; but a bus, a class
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


_BETWEEN_WORDS = re.compile(r"[._/#:-]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def split_words(name: str) -> str:
    """The words that a name written as one word is made of; a text with spaces stays as it is.

    >>> [split_words(name) for name in ("people.person.place_of_birth", "timeZone", "/film/HTMLPage", "J.K. Rowling")]
    ['people person place of birth', 'time Zone', 'film HTML Page', 'J.K. Rowling']
    """
    if name.split() != [name]:
        return name
    return " ".join(_CAMEL.sub(" ", _BETWEEN_WORDS.sub(" ", name)).split()) or name
