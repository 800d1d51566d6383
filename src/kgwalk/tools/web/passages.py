"""Long texts cut into passages of whole sentences: what is indexed, found and shown.

Nothing is lost and the order is kept: the passages of a text, one after the other, are the text but for white space
between them. Knows nothing of files or search.
"""

from __future__ import annotations

import re

CHARACTERS = 600  # about 100 words of English; what the Graph-RFT protocol shows of a document
# A sentence ends with a full stop and the like, perhaps a closing quote, and white space; or with a blank line. CJK
# full stops need no space.
_END = re.compile(r"""[.!?…]+["'”’)\]]*(?=\s)|[。！？]+[”’」』）]*|\n[ \t]*\n""")
# A full stop after one of these, or after an initial, ends no sentence.
_ABBREVIATIONS = (
    "approx bros ca capt co col corp dept dr eds etc fig ft gen gov inc jr lt ltd maj messrs mr mrs ms mt no nos op pp "
    "prof pt rep rev sen sgt sr st vol vols vs"
)
_SHORT = frozenset(_ABBREVIATIONS.split())
_LAST_WORD = re.compile(r"([^\W\d_]+(?:\.[^\W\d_]+)*)\.$")


def sentences(text: str) -> list[str]:
    """The sentences of a text, without white space around them.

    >>> sentences("St. Louis is big. It lies in the U.S. Midwest. Is it? Yes.")
    ['St. Louis is big.', 'It lies in the U.S. Midwest.', 'Is it?', 'Yes.']
    """
    return [text[start:end] for start, end in _spans(text)]


def passages(text: str, characters: int = CHARACTERS) -> list[str]:
    """The text in pieces of whole sentences, as many as fit; a sentence that is longer is cut between words.

    >>> passages("One two. Three four. Five.", 20)
    ['One two. Three four.', 'Five.']
    >>> passages("one two three four", 9)
    ['one two', 'three', 'four']
    """
    pieces: list[str] = []
    begin = end = -1  # of the passage that is being filled
    for start, stop in _spans(text):
        if begin >= 0 and stop - begin <= characters:
            end = stop
            continue
        if begin >= 0:
            pieces.append(text[begin:end])
        while stop - start > characters:
            cut = _cut(text, start, start + characters)
            pieces.append(text[start:cut].rstrip())
            start = cut + len(text[cut:stop]) - len(text[cut:stop].lstrip())
        begin, end = start, stop
    if begin >= 0:
        pieces.append(text[begin:end])
    return pieces


def _spans(text: str) -> list[tuple[int, int]]:
    """Where each sentence starts and ends."""
    spans: list[tuple[int, int]] = []
    start = 0
    ends = [found.end() for found in _END.finditer(text) if _ends(text, found.start(), found.end())]
    for end in [*ends, len(text)]:
        piece = text[start:end]
        first = start + len(piece) - len(piece.lstrip())
        last = start + len(piece.rstrip())
        if first < last:
            spans.append((first, last))
        start = end
    return spans


def _ends(text: str, start: int, end: int) -> bool:
    """Whether a full stop that was found ends a sentence: not after an abbreviation, nor before a small letter."""
    if text[start] != "." or end - start > 1:
        return True
    following = text[end : end + 40]
    if following.lstrip(" \t")[:1] == "\n" and not following.strip()[:1].islower():
        return True  # it ends the line as well
    if following.lstrip()[:1].islower():
        return False
    word = _LAST_WORD.search(text, max(0, start - 40), end)
    if word is None:
        return True
    last = word.group(1)
    return not (len(last) == 1 or "." in last or last.lower() in _SHORT)


def _cut(text: str, start: int, limit: int) -> int:
    """Where to cut a sentence that is too long: at the last space before the limit, else at the limit."""
    space = max(text.rfind(mark, start + 1, limit + 1) for mark in (" ", "\n", "\t"))
    return space if space > start else limit
