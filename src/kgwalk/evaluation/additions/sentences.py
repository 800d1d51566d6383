"""The sentences of a document that may say something of one entity.

Splits text, and reads a pronoun at a sentence's beginning as the document's title. Knows no graph and no relation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from kgwalk.kg.normalise import normalise
from kgwalk.types import Document

MOST_CHARACTERS = 20_000  # read of one document
LONGEST = 1_000  # characters; what is longer is a table or a dump, no sentence

# A full stop after one of these, or after a single capital letter, ends no sentence.
_SHORT_WORDS = "st mr mrs ms dr jr sr vs no vol ft mt approx ca cf etc inc ltd corp co prof gen col lt rev u.s"
_SHORT = frozenset(_SHORT_WORDS.split())
_END = re.compile(r"[.!?][\"'”’)\]]*(?=\s)|\n")
# "It", or "The film" before a verb: "The film stars", "The company was founded"; not "The country is Norway".
_PRONOUN = re.compile(
    r"(?:It|He|She|They|The (?:film|movie|book|novel|song|album|series|game|band|team|club|company|city|town|country)"
    r"(?=\s(?!is|was|has)[a-z]+(?:s|ed)\b|\s(?:is|was)\s[a-z]+ed\b)|(Its|His|Her|Their))\s"
)


class Sentence(NamedTuple):
    """`text` as it stands in the document; `read` as it is understood, with the title in place of a pronoun.

    `cut`: the document ends in it without a full stop, so that its last name may be half of one.
    """

    text: str
    read: str
    cut: bool = False


def sentences(document: Document, entity: str) -> Iterator[Sentence]:
    """The sentences that name the entity, or speak of it as "it" in a document of that title.

    >>> norway = Document("Norway", "Its capital is Oslo. Sweden borders it. St. Olav was born in Norway.")
    >>> [one.read for one in sentences(norway, "Norway")]
    ["Norway's capital is Oslo.", 'St. Olav was born in Norway.']
    """
    wanted = f" {normalise(entity)} "
    titled = f" {normalise(document.title)} " == wanted
    text = document.text[:MOST_CHARACTERS]
    cut_document = len(document.text) > MOST_CHARACTERS
    for start, end in _spans(text, entity):
        found = text[start:end]
        stripped = found.strip()
        if not stripped or len(stripped) > LONGEST or stripped.endswith("?"):
            continue
        read = stripped
        named = wanted in f" {normalise(read)} "
        if titled and not named and (pronoun := _PRONOUN.match(read)):
            possessive = "'s" if pronoun.group(1) else ""
            read, named = f"{entity}{possessive} {read[pronoun.end() :]}", True
        if named:
            cut = end == len(text) and (cut_document or not stripped.endswith((".", "!", '"', "”", ")")))
            yield Sentence(stripped, read, cut)


def _spans(text: str, entity: str) -> Iterator[tuple[int, int]]:
    """Where sentences begin and end. A full stop inside the entity's own name ends none."""
    inside = [(at.start(), at.end()) for at in re.finditer(re.escape(entity), text)] if ". " in entity else []
    start = 0
    for found in _END.finditer(text):
        at = found.start()
        if text[at] == "." and (_is_short(text, at) or any(low <= at < high - 1 for low, high in inside)):
            continue
        yield start, found.end()
        start = found.end()
    if start < len(text):
        yield start, len(text)


def _is_short(text: str, at: int) -> bool:
    before = re.search(r"[\w.]+$", text[max(0, at - 12) : at])
    if before is None:
        return False
    word = before.group()
    return word.casefold() in _SHORT or (len(word.rsplit(".", 1)[-1]) == 1 and word[-1].isupper())
