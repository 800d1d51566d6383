"""A question as words: where each begins and ends, and what its writing tells.

It knows English function words, quotation marks, capitals, underscores, and scripts without spaces. It does not know
any graph, nor whether a word is of a name.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from itertools import islice, pairwise
from typing import NamedTuple

from kgwalk.kg.normalise import normalise

LONGEST = 12.0  # words looked up together; of metaqa's 43,000 names 4 have more
CHARACTER = 0.3  # a character of a script without spaces, in words: names of up to 40 characters are found
MOST_WORDS = 600  # of a longer text only the beginning is read: bounds the time

# Words that join others or ask; a name made of these alone needs more evidence than being equal.
_FUNCTION = """
    a an the this that these those it its he him his she her hers they them their theirs we us our you your i me my
    myself yourself himself herself itself themselves and or but nor not no so if then than as of in on at by for with
    from to into onto over under about after before between during through without within against among upon up down
    out off per via since until while because is are was were be been being am do does did done doing has have had
    having can could will would shall should may might must s t d ll re ve m who whom whose what which when where why
    how whether there here all any both each every some many much more most other another such same own only also too
    very just now today currently ever still yet again once one ones first last next get got go goes went come came
    make made take took give gave given use used using say said name list tell show find know known called call mean
    want like kind type sort please
"""
FUNCTION_WORDS = frozenset(_FUNCTION.split())

_QUOTED = re.compile(
    r'"([^"]+)"|“([^”]+)”|„([^“”]+)[“”]|«([^»]+)»|「([^」]+)」|『([^』]+)』|《([^》]+)》|(?<!\w)[\'‘]([^\'‘’]+)[\'’](?!\w)'
)
# Thai and Lao, Burmese, Khmer, kana, Han, Hangul (which has spaces, but joins particles to names).
_UNSPACED = (
    (0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0x3005, 0x30FF), (0x3400, 0x9FFF), (0xAC00, 0xD7AF),
    (0xF900, 0xFAFF), (0x20000, 0x3FFFF),
)  # fmt: skip


def is_long(question: str) -> bool:
    """Whether it has words that are not read."""
    return next(islice(_words(question), MOST_WORDS, None), None) is not None


class _Word(NamedTuple):
    start: int
    end: int
    plain: str  # normalised
    size: float  # in words: 1, or CHARACTER


class Text:
    """The question, its words, and what their writing tells."""

    def __init__(self, question: str) -> None:
        self.question = question
        self.words = list(islice(_words(question), MOST_WORDS))
        words = self.words
        self.capital = [question[word.start].isupper() and word.plain != "i" for word in words]
        self.digits = [question[word.start].isdecimal() for word in words]
        # Capitals tell names apart only where other words have none. A sentence's first word tells nothing.
        small = [question[word.start].islower() for word in words]
        self.cased = any(self.capital[1:]) and any(small[1:])
        between = [question[one.end : other.start] for one, other in pairwise(words)]
        joined = [_joins(question, one, other) for one, other in pairwise(words)]
        hyphen = [glue in ("-", "‐", "‑", "–") for glue in between]
        count = len(words)
        self.joined_before, self.joined_after = [False, *joined][:count], [*joined, False][:count]
        self.hyphen_before, self.hyphen_after = [False, *hyphen][:count], [*hyphen, False][:count]
        self.function = [word.plain in FUNCTION_WORDS for word in words]
        self.quoted = set(self._quoted())

    def _quoted(self) -> Iterator[tuple[int, int]]:
        """The first and last word of each quotation."""
        end_of_words = self.words[-1].end + 1 if self.words else 0
        for found in _QUOTED.finditer(self.question, 0, end_of_words):
            start, end = found.span(found.lastindex or 0)
            inside = [at for at, word in enumerate(self.words) if start <= word.start and word.end <= end]
            if inside:
                yield inside[0], inside[-1]

    def stretches(self) -> Iterator[tuple[int, int]]:
        """First and last word of all that may be a name: LONGEST at most, where words joined by _ count as one.

        Joined words are not parted; a quotation may have any length.
        """
        for first, word in enumerate(self.words):
            if self.joined_before[first]:
                continue
            size = 0.0
            for last in range(first, len(self.words)):
                size += 0 if self.joined_before[last] else self.words[last].size
                if size > LONGEST + word.size / 2:  # half a word for rounding
                    break
                if not self.joined_after[last]:
                    yield first, last
        yield from (ends for ends in sorted(self.quoted) if self.size(*ends) > LONGEST)

    def capital_beside(self, first: int, last: int) -> bool:
        """Whether a capitalised word stands right before or after."""
        before = first > 0 and self.capital[first - 1] and self.question[self.words[first].start - 1] == " "
        return before or (last + 1 < len(self.words) and self.capital[last + 1])

    def span(self, first: int, last: int) -> tuple[int, int]:
        return self.words[first].start, self.words[last].end

    def size(self, first: int, last: int) -> float:
        return sum(word.size for word in self.words[first : last + 1])


def _joins(question: str, one: _Word, other: _Word) -> bool:
    """Whether two neighbouring words are one token of a name like anna_of_holstein-gottorp or 1._FC_Union."""
    glue = question[one.end : other.start]
    if "_" in glue:
        return not any(character.isspace() for character in glue)
    if glue not in ("-", "'", "’") or (glue != "-" and other.plain == "s"):
        return False
    return question[one.start - 1 : one.start] == "_" or question[other.end : other.end + 1] == "_"


class _Kinds(dict[str, str]):
    """What a character is to a word: "letter", "alone" (a word by itself), "mark" (goes with the last) or ""."""

    def __missing__(self, character: str) -> str:
        category = unicodedata.category(character)
        code = ord(character)
        if category[0] == "M" or category == "Cf":
            kind = "mark"
        elif category[0] not in "LN":
            kind = ""
        else:
            kind = "alone" if any(low <= code <= high for low, high in _UNSPACED) else "letter"
        self[character] = kind
        return kind


KINDS = _Kinds()


def _words(question: str) -> Iterator[_Word]:
    """Runs of letters and digits; single characters where a script has no spaces.

    >>> [word.plain for word in _words("Hanks's film, 東京?")]
    ['hanks', 's', 'film', '東', '京']
    """
    start, last = 0, ""
    for at, character in enumerate(question + " "):
        kind = KINDS[character]
        if kind == "mark" and last:
            continue
        if last and (kind != last or kind == "alone"):
            size = CHARACTER if last == "alone" else 1.0
            yield _Word(start, at, normalise(question[start:at]), size)
        if kind != last or kind == "alone":
            start = at
        last = "" if kind == "mark" else kind
