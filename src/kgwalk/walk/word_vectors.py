"""What English words mean, as vectors: a table that comes with kgwalk, read without torch.

    similarity("prawns", "shrimp")      0.8
    vector("myocardial infarction")     a row of length 1; None of a word that the table does not have

`words/word_vectors.npz` has words and terms of two words, each a row of four-bit numbers, and no names: "tokyo" is near
to Honolulu and means it nowhere. `scripts/word_vectors.py` made it from all-MiniLM-L6-v2's vectors of single words,
moved until synonyms, a word's broader word and its relatives in WordNet lie near each other, and words of the
same broader word and opposites do not.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kgwalk.kg.names import normalise, singular
from kgwalk.walk.question_words import FUNCTION_WORDS

F32 = npt.NDArray[np.float32]
FILE = Path(__file__).parent / "words" / "word_vectors.npz"
WIDTH = 64  # of a row


class _Table(NamedTuple):
    row_of: dict[str, int]
    rows_WD: npt.NDArray[np.int8]  # of four bits each, -7 to 7
    nouns_W: npt.NDArray[np.uint8]  # how much of a word's use is that of a noun, and of an adjective, out of 15
    adjectives_W: npt.NDArray[np.uint8]


@cache
def _table() -> _Table:
    """Read when the first word is asked for: 0.1 s."""
    with np.load(FILE, allow_pickle=False) as file:
        words = bytes(file["words"]).decode().split("\n")
        packed, parts = file["rows"], file["parts"]
    rows_WD = np.empty((len(words), 2 * packed.shape[1]), np.int8)
    rows_WD[:, 0::2], rows_WD[:, 1::2] = packed >> 4, packed & 15
    rows_WD -= 8
    return _Table({word: row for row, word in enumerate(words)}, rows_WD, parts >> 4, parts & 15)


def vector(text: str) -> F32 | None:
    """What a word or a few words mean, a row of length 1; None where one of them is not in the table."""
    table, plain = _table(), normalise(text)
    words = plain.split(" ")
    whole = next((table.row_of[form] for form in _forms(plain) if form in table.row_of), None)
    telling = [word for word in words if word not in FUNCTION_WORDS] or words
    rows = [whole] if whole is not None else [_row(word) for word in telling]
    if not plain or any(row is None for row in rows):
        return None
    each = table.rows_WD[[row for row in rows if row is not None]].astype(np.float32)
    mean: F32 = (each / np.linalg.norm(each, axis=1, keepdims=True)).sum(axis=0)
    return mean / np.linalg.norm(mean)


def similarity(text: str, other: str) -> float:
    """How near two texts are in meaning, 1 at most; 0 where one is not in the table."""
    one, two = vector(text), vector(other)
    return 0.0 if one is None or two is None else float(one @ two)


def noun_share(word: str) -> float:
    """How much of a word's use is that of a noun: 1 of "cinema", 0 of "send"; 0.5 where nobody counted."""
    row = _row(normalise(word))
    return 0.5 if row is None else float(_table().nouns_W[row]) / 15


def adjective_share(word: str) -> float:
    row = _row(normalise(word))
    return 0.0 if row is None else float(_table().adjectives_W[row]) / 15


def is_term(text: str) -> bool:
    """Whether a text has a row of its own."""
    return any(form in _table().row_of for form in _forms(normalise(text)))


def _row(word: str) -> int | None:
    row_of = _table().row_of
    return next((row_of[form] for form in _forms(word) if form in row_of), None)


def _forms(word: str) -> Iterator[str]:
    """A word, and what it may be a form of: wives, cooled, screening."""
    yield word
    yield singular(word)
    yield singular(singular(word))  # childrens, of someone who leaves out the apostrophe
    for ending, others in _ENDINGS:
        if word.endswith(ending) and len(word) > len(ending) + 2:
            yield from (word[: -len(ending)] + other for other in others)
    if word.endswith(("ing", "ed")):  # stopped
        yield word.removesuffix("ing").removesuffix("ed")[:-1]


_ENDINGS = (("ves", ("fe", "f")), ("ing", ("", "e")), ("ied", ("y",)), ("ed", ("e", "")), ("s", ("",)))
