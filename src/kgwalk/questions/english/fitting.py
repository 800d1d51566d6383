"""Whether a noun phrase can stand in the place of a name: some templates take names only ("the movie {}", "{} cast?").

Judges by the words around `{}`; knows grammar, no relations. What does not fit is left to other templates.
"""

from __future__ import annotations

import re
from functools import lru_cache

from kgwalk.questions.english.inflect import is_participle, is_plural, word_set
from kgwalk.questions.english.kinds import VALUES
from kgwalk.questions.english.phrases import BEFORE_NOUN, HELPERS, LINKS, OPEN, RELATIVES, Phrase

_DETERMINERS = word_set("the a an this that which what any some every each another its their all")


def fits(template: str, phrase: Phrase) -> bool:
    """Whether a phrase can stand in a template without breaking it.

    >>> films = Phrase("the films of X", many=True)
    >>> [fits(text, films) for text in ("Who made {}?", "Who made the movie {}?", "{} cast?", "What is {}'s genre?")]
    [True, False, False, False]
    """
    before, after = (side.split() for side in template.split("{}"))
    last = before[-1].lower() if before else ""
    if last == "of" and len(before) > 1 and before[-2].lower() == "one" and not phrase.many:
        return False
    if phrase.simple:
        name = phrase.name or ""
        if after and name and after[0].strip("?.,").lower() == re.split(r"[\W_]", name.lower())[-1]:
            return False  # "the continental climate climate"
        return not (last in ("the", "a", "an") and name.lower().startswith(("the ", "a ", "an ")))
    return _fits_words(template, phrase.many, phrase.short, phrase.kind in VALUES)


@lru_cache(maxsize=1 << 14)
def _fits_words(template: str, many: bool, short: bool, value: bool) -> bool:
    """`fits` for a phrase that is no name: its own words do not matter."""
    before, after = (side.split() for side in template.split("{}"))
    last = before[-1].lower() if before else ""
    possessive = bool(after) and after[0].startswith("'")
    if last in ("the", "a", "an", "name", "named", "called", "year", "number", "word", "letters"):
        return False
    if possessive:
        return short
    if re.search(r"\bthat (?:is|are|was|were) \{\}$", template):
        return False  # "things that are red", not "things that are the colour of X"
    if before[-2:-1] in (["a"], ["an"]) and len(after) == 1 and not _verb_like(after[0]) and after[0] not in HELPERS:
        return False  # "a typical French dish"
    if after in (["has"], ["have"]):
        return False  # "the award that the category that X has has"
    said_of_one = "whose" in map(str.lower, before) or after[:1] in (["a"], ["an"], ["the"])
    if many and last in ("is", "was") and said_of_one:
        return False  # the phrase must be the subject, and nothing singular said of it
    if value and re.search(r"\ban? \w+ of$", " ".join(before).lower()):
        return False  # "an age of the age of X"
    following = re.sub(r"\W", "", after[0].lower()) if after else ""
    if _apposed(before):
        if (
            _twice(before)
            or not following
            or following in OPEN
            or _helped(before)
            or RELATIVES & {word.lower() for word in after}
        ):
            return False
    elif before and following and not _continues(last, following):
        return False
    if not before and following and following not in HELPERS and not _verb_like(following):
        return False
    if len(before) <= 2 and not following and before and not _is_sentence(before):
        return False
    if many and last in ("is", "was") and len(before) > 1 and before[0].lower() in ("whose", "which", "what"):
        return False
    return not (following and is_plural(following) and last in ("of", "in", "by", "for", "to"))


def _apposed(before: list[str]) -> bool:
    """`the movie`, `the animated movie`: a noun with a determiner, directly before the name."""
    for back in range(1, min(4, len(before)) + 1):
        word = before[-back].lower()
        if (word in _DETERMINERS and word not in ("that", "what", "which")) or word.endswith("'s"):
            return back > 1
        if is_participle(word) and before[-back - 1 : -back] and before[-back - 1].lower() in ("a", "an", "the"):
            return True  # "a grown {}", "the animated movie {}"
        if word in LINKS or word in HELPERS or word in OPEN or is_participle(word):
            return back == 2 and word in BEFORE_NOUN and before[-1].lower() not in LINKS | OPEN
    return len(before) == 1 and before[0].islower() and is_plural(before[0]) is False and before[0] not in OPEN


def _twice(before: list[str]) -> bool:
    """`the album the track {} comes from`: a noun of its own stands before the noun that the name belongs to."""
    at = [at for at, word in enumerate(before) if word.lower() in ("the", "a", "an")]
    return len(at) > 1 and before[at[-1] - 1].lower() not in LINKS | HELPERS | OPEN | RELATIVES


def _helped(before: list[str]) -> bool:
    """`is the alloy {} made`: a helping verb or a relative before the noun, so that the name belongs to the noun."""
    at = max((at for at, word in enumerate(before) if word.lower() in _DETERMINERS or word.endswith("'s")), default=0)
    return at > 0 and (before[at - 1].lower() in RELATIVES or any(word.lower() in HELPERS for word in before[:at]))


def _continues(last: str, following: str) -> bool:
    """Whether a sentence can go on after a name: not where the name is an adjective, as in `have {} flowers`."""
    if last in HELPERS or last in RELATIVES or is_plural(last):
        return True
    return following in OPEN or following in HELPERS or following.endswith("ly") or following in ("first", "a", "the")


def _is_sentence(before: list[str]) -> bool:
    words = {word.lower() for word in before}
    return bool(words & (LINKS | HELPERS | RELATIVES) or (before[0][:1].isupper() and len(before) > 1 and words & OPEN))


def _verb_like(word: str) -> bool:
    return (word.endswith("s") and not is_plural(word)) or word in (
        "belongs",
        "comes",
        "lies",
        "leads",
        "lives",
        "goes",
    )
