"""What people read, on a terminal or in a log: characters that would steer it are shown escaped.

A name may hold an escape sequence that writes to the clipboard, a line break that forges a line, or a mark that turns
the order of letters. `visible` shows these as Python writes them: `\\x1b`, `\\n`, `\\u202e`. Two places call it: the
console of the command line (cli/output.py) and the formatter of logs (`log_visibly`). JSON and exported files are data
and are written as they are.
"""

from __future__ import annotations

import logging
import unicodedata

# Persian, Indic scripts and emoji need the zero-width joiner and non-joiner; the Arabic and Syriac number signs are
# drawn, though Unicode counts them as format characters.
_NEEDED = frozenset(
    "\u200c\u200d\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"
)
_HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def visible(text: str) -> str:
    """Text on one line, with control and format characters escaped. All else is as it was, backslashes too.

    >>> print(visible("Berlin\\x1b[2J\\nParis \\u202etfel"))
    Berlin\\x1b[2J\\nParis \\u202etfel
    >>> visible("می\u200cخواهم") == "می\u200cخواهم", visible("Zoë") == "Zoë"
    (True, True)
    """
    if text.isprintable():
        return text
    return "".join(map(_shown, text))


def visible_lines(text: str) -> str:
    """The same for text that has lines of its own, such as a recipe or a traceback."""
    return "\n".join(map(visible, text.split("\n")))


def visible_message(text: str) -> str:
    """The same for an error or a warning: their advice stands on lines of its own, indented by two spaces.

    >>> print(visible_message("no entity \\x1b[31m\\nerror: forged\\n  Look for it with `kgwalk kg find`."))
    no entity \\x1b[31m\\nerror: forged
      Look for it with `kgwalk kg find`.
    """
    return "\n  ".join(map(visible, text.split("\n  ")))


def _shown(character: str) -> str:
    if unicodedata.category(character) not in _HIDDEN or character in _NEEDED:
        return character
    if character in _SHORT:
        return _SHORT[character]
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


class VisibleFormatter(logging.Formatter):
    """A message as `visible_message` has it; a traceback keeps its lines."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = visible_message(record.message)
        return super().formatMessage(record)

    def format(self, record: logging.LogRecord) -> str:
        return visible_lines(super().format(record))


def log_visibly() -> None:
    """From now on warnings and errors for which nobody set a handler reach stderr in this form."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(VisibleFormatter())
