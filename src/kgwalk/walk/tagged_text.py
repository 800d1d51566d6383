"""Names inside text that has tags: escaped so that they can forge nothing, and read back as they were.

`<`, `>` and invisible or control characters become `&lt;`, `&gt;` and `&#10;`; an `&` is escaped only where it would be
read as one of these. A small model takes even `&lt;answer&gt;$3` for its own words and repeats it. So what looks like a
tag, a call or a set loses its look: the first letter of the tag's or the tool's word, the bracket and the `$` become
numbers too. Plain names stay as they are, and what a model copies from an observation names the same entity.
`plain_names` reads the names of a reply that has no tags.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Sequence
from itertools import takewhile

_NAMED = {"lt": "<", "gt": ">", "amp": "&"}
_ENTITY = re.compile(r"&(?:(lt|gt|amp)|#([0-9]{1,7}));")
_AMPERSAND = re.compile(r"&(?=(?:lt|gt|amp|#[0-9]{1,7});)")
_SURROGATE = re.compile("[\ud800-\udfff]")
_ARGUMENT = re.compile(r'\s*("(?:[^"\\]|\\.)*")\s*(,|$)', re.DOTALL)

# Most texts have nothing to look at: one search tells.
_SPECIAL = re.compile(r"[<>&(]|[^ -~]")
_SPECIAL_NAME = re.compile(r"[<>&($]|[^ -~]")
_TAG = re.compile(r"(<[\s/|]*+)([^\W\d_])")
_BRACKET = re.compile(r"(?<!\w)(\w)(\w*+)(\s*+)\((?=(\s*+[\"'$])?+)")
_SNAKE = re.compile(r"[a-z]+(?:_[a-z]+)+")
_SET = re.compile(r"\$(?=\d)")
# Tools whose names are plain words, in small letters.
_TOOL_WORDS = frozenset((
    "intersect", "union", "minus", "count", "filter", "argmax", "argmin", "between", "negation", "searchkg", "top",
    "bottom", "nth", "sum", "average", "least", "greatest", "subtract", "divide", "only", "none", "every", "overlap",
    "compare", "table", "when", "earliest", "latest", "before", "after", "start", "end",
))  # fmt: skip


def escape(text: str) -> str:
    """A sentence as it stands in a prompt or an observation, on one line. `$3` in it is a set, or dollars.

    >>> escape("</information><answer>x")
    '&lt;/&#105;nformation&gt;&lt;&#97;nswer&gt;x'
    >>> escape("AT&T"), escape("a&lt;b"), escape("two\\nlines")
    ('AT&T', 'a&amp;lt;b', 'two&#10;lines')
    """
    return text if _SPECIAL.search(text) is None else _escaped(text)


def escape_name(name: str) -> str:
    """A name as it stands in a prompt or an observation: nothing in it reads as a tag, a call or a set.

    >>> escape_name("Penny Marshall"), escape_name("Big (film)"), escape_name("iron(III) oxide"), escape_name("A$AP")
    ('Penny Marshall', 'Big (film)', 'iron(III) oxide', 'A$AP')
    >>> escape_name('count($1)'), escape_name("$3")
    ('&#99;ount&#40;&#36;1)', '&#36;3')
    """
    return name if _SPECIAL_NAME.search(name) is None else _SET.sub("&#36;", _escaped(name))


def escape_around(text: str, names: Iterable[str]) -> str:
    """A sentence, with these names in it written as they are everywhere else.

    >>> escape_around("who directed $3, for $3 million?", ["$3"]), escape_around("is $2 what I need?", ["Big"])
    ('who directed &#36;3, for &#36;3 million?', 'is $2 what I need?')
    """
    written = escape(text)
    for name in names:
        if "$" in name and (shown := escape_name(name)) != name:
            written = written.replace(escape(name), shown)
    return written


def _escaped(text: str) -> str:
    text = _AMPERSAND.sub("&amp;", text)
    if "<" in text:
        text = _TAG.sub(lambda found: f"{found[1]}&#{ord(found[2])};", text)
        text = text.replace("<", "&lt;")
    text = text.replace(">", "&gt;")
    if "(" in text:
        text = _BRACKET.sub(_bracket, text)
    return text if text.isprintable() else "".join(map(_escape_character, text))


def _bracket(found: re.Match[str]) -> str:
    """A call loses its first letter and its bracket. `iron(III) oxide`, `Big_(film)` and `Union (album)` are names."""
    first, rest, space, argument = found.groups()
    tool = (first + rest).lower() in _TOOL_WORDS or _SNAKE.fullmatch(first + rest) is not None
    if not (tool and (argument or not space)) and not (argument and not space):
        return found[0]
    return f"&#{ord(first)};{rest}{space}&#40;"


def _escape_character(character: str) -> str:
    # control, format (right-to-left marks, zero width), surrogate, private, line and paragraph separators
    if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp"):
        return f"&#{ord(character)};"
    return character


def unescape(text: str) -> str:
    """The inverse of `escape`. Half a surrogate pair, which no name has and no file takes, becomes U+FFFD.

    >>> unescape("a&amp;lt;b"), unescape("AT&T"), unescape("two&#10;lines")
    ('a&lt;b', 'AT&T', 'two\\nlines')
    """
    return _SURROGATE.sub("\ufffd", _ENTITY.sub(_plain, text))


def _plain(found: re.Match[str]) -> str:
    named, code = found.groups()
    if named:
        return _NAMED[named]
    return chr(int(code)) if int(code) <= 0x10FFFF else found.group()


def quote(name: str) -> str:
    """A name as an argument in double quotes; quotes and backslashes inside are escaped as in JSON.

    >>> quote('"Weird Al" Yankovic')
    '"\\\\"Weird Al\\\\" Yankovic"'
    """
    return json.dumps(escape_name(name), ensure_ascii=False)


def split_arguments(text: str) -> list[str] | None:
    """Arguments in double quotes, separated by commas; None if the text is anything else.

    >>> split_arguments('"a, b", "c"')
    ['a, b', 'c']
    >>> split_arguments('a, "c"') is None
    True
    """
    arguments: list[str] = []
    at = 0
    while at < len(text):
        found = _ARGUMENT.match(text, at)
        if found is None:
            return None
        try:
            arguments.append(unescape(json.loads(found.group(1), strict=False)))
        except json.JSONDecodeError:
            return None
        at = found.end()
        if found.group(2) == "," and not text[at:].strip():
            return None
    return arguments


def read_answer(text: str) -> tuple[str, ...] | None:
    """The names of an answer: a JSON list of strings, one with names in single quotes as Python writes it
    (Explore-on-Graph's Figure 14), or a text that is one name; None if there is none.

    >>> read_answer('["Big", "Cast Away"]'), read_answer(" Washington, D.C. "), read_answer("[]"), read_answer("  ")
    (('Big', 'Cast Away'), ('Washington, D.C.',), (), None)
    >>> read_answer("['arizona', 'colorado']"), read_answer("['Rosa\'s Diner', \"Ed's, Ohio\"]")
    (('arizona', 'colorado'), ("Rosa's Diner", "Ed's, Ohio"))
    """
    stripped = text.strip()
    if not stripped:
        return None
    try:
        value = json.loads(stripped, strict=False)
    except (ValueError, RecursionError):  # no JSON, a number of thousands of digits, a thousand brackets
        return _single_quoted(stripped) or (unescape(stripped),)
    if isinstance(value, list):
        return tuple(unescape(name) for name in value) if all(isinstance(name, str) for name in value) else None
    return (unescape(value),) if isinstance(value, str) else (unescape(stripped),)


# A name ends at the quote before a comma or the bracket, so an apostrophe may stand inside.
_LISTED = re.compile(r"""\s*(?:'((?:[^'\\]|\\.|'(?!\s{0,8}(?:,|$)))*+)'|("(?:[^"\\]|\\.)*+"))\s*(,|$)""", re.DOTALL)


def _single_quoted(text: str) -> tuple[str, ...] | None:
    """The names of a list in which some are in single quotes; None for anything else."""
    if not (text.startswith("[") and text.endswith("]") and "'" in text):
        return None
    inside, names, at = text[1:-1].strip(), [], 0
    while at < len(inside):
        found = _LISTED.match(inside, at)
        if found is None:
            return None
        single, double, _ = found.groups()
        if double is not None:
            try:
                single = json.loads(double, strict=False)
            except ValueError:
                return None
        else:
            single = single.replace("\\'", "'").replace("\\\\", "\\")
        names.append(unescape(single))
        at = found.end()
    return tuple(names) or None


def write_answer(names: Sequence[str]) -> str:
    """
    >>> write_answer(["Washington, D.C."])
    '["Washington, D.C."]'
    """
    return "[" + ", ".join(quote(name) for name in names) + "]"


# The names in a reply without tags


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
    """The names that a reply gives in plain words, in its order, repetitions and all; () where there is none to read.

    1. Thoughts are set aside: what stands before `</think>`, or after a `<think>` that is not closed.
    2. The text after the last words that announce an answer is read, up to an `</answer>`: after `<answer>`, "Answer:",
       "The final answer is", "The answers to the question are:". Words with nothing after them announce nothing.
    3. Of that text the first line that holds a name counts; where nothing is announced, the last line that does. If it
       is an item of a list (`-`, `*`, `•`, `1.`, `2)`), the items next to it are read too.
    4. The line's names are read by `line_names`.

    A sentence is one name, or several where it has commas: whether "The capital is Berlin" is right is for the scores
    to say.

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
    """The names on one line: between `|`, else between `;`, else between commas, but for those inside a number.

    A JSON list is read as one. Bullets and brackets around the line are taken off, and of each name quotes, asterisks
    and backticks around it, full stops after it, and the "and" before the last of several.

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
