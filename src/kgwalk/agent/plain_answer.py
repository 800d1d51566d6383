"""The names in a reply that gives its answer in plain words, not in tags.

This is what is read, and nothing else of the reply:

1. Thoughts are set aside: what stands before `</think>`, or after a `<think>` that is not closed.
2. The text after the last words that announce an answer (`<answer>`, "Answer:", "The final answer is", "The answers to
   the question are:"), up to an `</answer>`. Words with nothing after them announce nothing.
3. Of that text the first line that holds a name; where nothing is announced, the last line that does. Is it an item of
   a list (`-`, `*`, `•`, `1.`, `2)`), the items next to it are read too.
4. A line's names stand between `|`, else between `;`, else between commas, but for those inside a number (`679,400`). A
   JSON list is read as one. Bullets and brackets around the line are taken off, and of each name quotes, asterisks and
   backticks around it, full stops after it, and the "and" before the last of several.

A sentence is one name, or several where it has commas: whether "The capital is Berlin" is right is for the scores to
say. Knows no prompt, no graph, and not which names are right.
"""

from __future__ import annotations

import json
import re
from itertools import takewhile

from kgwalk.tools.text import unescape

_ANNOUNCED = re.compile(
    r"<answer>"
    r"|(?:\bthe\s+)?(?:\b(?:final|correct|right)\s+)?\banswers?"
    r"(?:[\s*_]*:|(?:\s+(?:to|for|of)\s[^\n.:;?!<>|]{0,80}?)?\s+(?:is|are)\b(?:\s*:)?)",
    re.IGNORECASE,
)
_BULLET = re.compile(r"\s*(?:[-*•–]|\(?[0-9]{1,2}[.)])\s+")
_SEPARATORS = (re.compile(r"\|"), re.compile(";"), re.compile(r"(?<![0-9]),|,(?![0-9]{3}(?![0-9]))"))
_AND = re.compile(r"\s*and\s", re.IGNORECASE)


def plain_names(reply: str) -> tuple[str, ...]:
    """The names that a reply gives, in its order, repetitions and all; () where there is none to read.

    >>> plain_names("Answer: Mercury | Venus"), plain_names("The final answer is Berlin.")
    (('Mercury', 'Venus'), ('Berlin',))
    >>> plain_names("Two planets have no moon.\\n- Mercury\\n- Venus"), plain_names("The answer is:")
    (('Mercury', 'Venus'), ())
    """
    said = reply.rpartition("</think>")[2].partition("<think>")[0]
    before, *announced = (text.partition("</answer>")[0].splitlines() for text in _ANNOUNCED.split(said))
    for lines in reversed(announced):
        if names := _of_first(lines):
            return tuple(name for line in names for name in line)
    return tuple(name for line in reversed(_of_first(before[::-1])) for name in line)


def _of_first(lines: list[str]) -> list[list[str]]:
    """The names of the first line that holds any; if it is an item of a list, those of the items after it as well."""
    held = [(_BULLET.match(line) is not None, names) for line in lines if (names := line_names(line))]
    items = list(takewhile(lambda one: one[0], held)) or held[:1]
    return [names for _, names in items]


def line_names(line: str) -> list[str]:
    """The names on one line.

    >>> line_names("1. Mercury, Venus, and Earth."), line_names("679,400"), line_names('[1998, "Big"]')
    (['Mercury', 'Venus', 'Earth'], ['679,400'], ['1998', 'Big'])
    """
    bullet = _BULLET.match(line)
    text = line[bullet.end() if bullet else 0 :].strip()
    listed = _json_list(text)
    pieces = _split(unescape(text.strip("[]"))) if listed is None else [unescape(name) for name in listed]
    return [name for piece in pieces if (name := piece.strip())]


def _split(text: str) -> list[str]:
    pieces = next((parts for separator in _SEPARATORS if len(parts := separator.split(text)) > 1), [text])
    if len(pieces) > 1 and (joined := _AND.match(pieces[-1])):
        pieces[-1] = pieces[-1][joined.end() :]
    return [_bare(piece) for piece in pieces]


def _json_list(text: str) -> list[str] | None:
    """A list of texts and numbers, these as they are written; None for anything else."""
    if not text.startswith("["):
        return None
    try:
        found = json.loads(text, strict=False, parse_int=str, parse_float=str, parse_constant=str)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, list) and all(isinstance(one, str) for one in found) else None


def _bare(piece: str) -> str:
    """The piece without what is around a name; quotes only where they do not belong to a part of it.

    >>> [_bare(piece) for piece in (' **Berlin**.', '"Big"', '"Weird Al" Yankovic', '"cut o')]
    ['Berlin', 'Big', '"Weird Al" Yankovic', 'cut o']
    """
    text = piece.strip(" \t*`").rstrip(".").strip(" \t*`")
    quotes = text.count('"')
    return text.strip('"').rstrip(".") if quotes == 1 or (quotes == 2 and text[0] == text[-1] == '"') else text
