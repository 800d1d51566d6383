"""Small mistakes, as people make them: typos, missing words, odd case, dropped signs, doubled blanks.

Works on texts whose names are marks, which it leaves alone; `in_names` writes mistakes into names too, where the asker
is not to be trusted with them. All by `chance`: the same seed makes the same mistakes.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from kgwalk.questions.english.inflect import word_set

_SMALL = word_set("the a an of is are was were do does did to in by for")
_NEIGHBOURS = {
    "a": "s", "b": "v", "c": "x", "d": "f", "e": "r", "f": "g", "g": "h", "h": "j", "i": "o", "j": "k", "k": "l",
    "l": "k", "m": "n", "n": "m", "o": "p", "p": "o", "q": "w", "r": "t", "s": "d", "t": "r", "u": "i", "v": "b",
    "w": "e", "x": "c", "y": "u", "z": "x",
}  # fmt: skip
LEAST = 4  # letters of a word that gets a typo: a shorter one would become another word


def noisy(text: str, rate: float, chance: random.Random) -> str:
    """Each word suffers with probability `rate`; so do the stop at the end and the case of the first letter.

    >>> noisy("Who directed it?", 0.0, random.Random(1))
    'Who directed it?'
    """
    if rate <= 0:
        return text
    words = [_worn(word, rate, chance) for word in text.split(" ")]
    text = " ".join(word for word in words if word is not None)
    if text[-1:] in "?." and chance.random() < 2 * rate:
        text = text[:-1].rstrip()
    if chance.random() < 2 * rate:
        text = text[:1].lower() + text[1:]
    if chance.random() < rate / 2:
        text = text.lower()
    return text


def _worn(word: str, rate: float, chance: random.Random) -> str | None:
    if chance.random() >= rate or not word.strip("?.,'").isascii():
        return word
    if word.lower() in _SMALL:
        return None if chance.random() < 0.5 else word
    if chance.random() < 0.1:
        return f"{word} "  # a doubled blank
    letters = [at for at in range(1, len(word)) if word[at].isalpha()]
    if sum(map(str.isalpha, word)) < LEAST or not letters:
        return word
    return chance.choice(_TYPOS)(word, chance.choice(letters))


def _swap(word: str, at: int) -> str:
    return word[: at - 1] + word[at] + word[at - 1] + word[at + 1 :]


def _drop(word: str, at: int) -> str:
    return word[:at] + word[at + 1 :]


def _double(word: str, at: int) -> str:
    return word[:at] + word[at] + word[at:]


def _miss(word: str, at: int) -> str:
    return word[:at] + _NEIGHBOURS.get(word[at].lower(), word[at]) + word[at + 1 :]


_TYPOS: tuple[Callable[[str, int], str], ...] = (_swap, _drop, _double, _miss)
