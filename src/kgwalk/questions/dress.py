"""The manner of a question: lower case without a stop, spaced as some datasets write it, with a word before or after.

Works on texts whose names are marks; knows nothing of what is asked.
"""

from __future__ import annotations

import random
import re

_BEFORE = (
    "Quick question: ", "Do you happen to know: ", "I was wondering: ", "Please tell me: ", "Hi, ", "Help me out: ",
    "For a quiz: ", "Question: ", "Can you find out: ", "I need to know: ",
)  # fmt: skip
_AFTER = (" Thanks.", " I forgot.", " Any idea?", " It is for a quiz.", " Please list all.", " I need this for work.")
# Shares of questions, by level: all lower case, spaced before signs, a word before, a word after.
_SHARES = ((0.0, 0.0, 0.0, 0.0), (0.2, 0.12, 0.0, 0.0), (0.28, 0.14, 0.05, 0.04))


def dress(text: str, level: int, chance: random.Random) -> str:
    """The text in a manner that its level allows."""
    lower, spaced, before, after = _SHARES[level]
    drawn = chance.random()
    asks = text.endswith("?") and ". " not in text  # "Do you know: take the films of X." is no question
    if chance.random() < before and asks:
        opening = chance.choice(_BEFORE)
        text = opening + (text[:1].lower() + text[1:])
    elif chance.random() < after:
        text = _stopped(text) + chance.choice(_AFTER)
    if drawn < lower:
        text = text.lower()
        if chance.random() < 0.7:
            text = text.rstrip("?. ")
    elif drawn < lower + spaced:
        text = re.sub(r"(?<=\w)'s\b|(?<=[\ue000-\uf8ff])'s\b", " 's", text.lower())
        text = text.rstrip("?. ") + " ?"
    return text


def _stopped(text: str) -> str:
    return text if text[-1:] in "?.!" else f"{text}?"
