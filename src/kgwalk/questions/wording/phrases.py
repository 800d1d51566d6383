"""Noun phrases, and how they are put into templates of questions and of other noun phrases.

    films = Phrase("the films directed by X", many=True)
    fill("Where was {} made?", films)          # "Where were the films directed by X made?"
    fits("Who made the movie {}?", films)      # False: this template takes names only

A template has one `{}`. `fits` judges by the words around it; a phrase that does not fit is left to other templates.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from kgwalk.questions.wording.english import UNCOUNTED, VALUES, base, is_participle, is_plural, plural, word_set

LINKS = word_set(
    "of that who whose which whom in with by for from on at to where when as under behind inside near about "
    "after before over into against during between among around through within without is are was were has "
    "have had can could did does do and or than like called named based used {} {}'s"
)
# Words that open a description after a noun: "the diseases spread by {}", "the year the album {} came out".
_AFTER_NOUN = word_set(
    "one you i the a an pregnant spread redone wed native responsible set put cut hit famous known similar popular "
    "open worth able home next close good available active full true"
)
BEFORE_NOUN = word_set("in for at of on by from to with")  # `in club {}`: an apposition without an article
_ONE_ONLY = word_set("next first last one only latest newest same")  # not "the nexts"
PLURAL_MODIFIERS = word_set("fips gps sports arts sales goods news games olympics awards series species human")
RELATIVES = word_set("that which whom where when if how what who why")
HELPERS = word_set("is are was were has have had did does do can could will would may might should must")
OPEN = word_set(
    "who what which where when how whom whose by in of on at to from for with as that and or because since "
    "while if under into about after before than also too today now then there here"
)
_AGREEMENT = {"is": "are", "was": "were", "does": "do", "has": "have"}
# Nouns that may follow a name, though they end like verbs.
_NOUNS_IN_S = word_set("pages minutes goals players episodes times sides seasons days members works as its this")
HEADLESS = ("what", "how", "where", "when", "why", "who", "whether", "that", "if", "because")
_PRONOUNS = {"something": False, "somebody": False, "someone": False, "anyone": False, "anybody": False,
             "everybody": False, "everyone": False, "everything": False, "anything": False, "whoever": False,
             "whatever": False, "those": True, "these": True, "all": True}  # fmt: skip


class PhraseParts(NamedTuple):
    """Determiner, head and rest: "the" + "old films" + "that {} made". The head of "those who" is "those"."""

    determiner: str
    head: str
    rest: str


@dataclass(frozen=True, slots=True)
class Phrase:
    """A noun phrase for a set."""

    text: str
    many: bool = False  # plural
    kind: str = ""
    name: str | None = None  # the entity's name, if the phrase is nothing else
    short: bool = False  # whether a possessive may follow
    hops: int = 0  # relations that the phrase words

    @property
    def simple(self) -> bool:
        return self.name is not None


def parts(noun: str) -> PhraseParts | None:
    """The parts of a noun phrase; None where it has no head of its own ("what {} wrote", "{}'s father").

    >>> parts("the films directed by {}"), parts("movies that {} made"), parts("what {} wrote")
    (PhraseParts(determiner='the', head='films', rest='directed by {}'), PhraseParts(determiner='', head='movies', \
rest='that {} made'), None)
    """
    words = noun.split()
    first = words[0].lower()
    if first in HEADLESS or "{}" in words[0] or "'s" in words[0] or not words[0][:1].isascii():
        return None
    if first in _PRONOUNS:
        return PhraseParts("", words[0], " ".join(words[1:]))
    determiner = words.pop(0) if first in ("the", "a", "an", "any", "some", "another") else ""
    at = 0
    while at < len(words) and not _ends_head(words[at : at + 2], at):
        at += 1
        if at < len(words) and is_plural(words[at - 1]) and words[at - 1] not in PLURAL_MODIFIERS:
            break  # "nations adjacent to", not "sports team"
    return PhraseParts(determiner, " ".join(words[:at]), " ".join(words[at:])) if at else None


def _ends_head(words: list[str], at: int) -> bool:
    """Whether the head ends before the first of two words: a link, the mark for a name, or the start of a clause."""
    if words[0] in LINKS or "\ue000" <= words[0][0] <= "\uf8ff":
        return True
    if words[0] in _AFTER_NOUN and words[0] not in ("the", "a", "an", "one", "you", "i"):
        return at > 0 and (
            len(words) < 2 or words[1] in LINKS or "\ue000" <= words[1][0] <= "\uf8ff"
        )  # no "set designer"
    return at > 0 and (words[0] in _AFTER_NOUN or _opens_clause(words))


def _opens_clause(words: list[str]) -> bool:
    """Whether words open a clause: "directed by", "starring X"; not "rating of" in "the imdb rating of X"."""
    word = words[0].rstrip(",")
    if word == "consisting":
        return True
    return is_participle(word) or (word.endswith("ing") and len(word) > 5 and words[1:] != ["of"])


def as_many(phrase: Phrase) -> Phrase:
    """A phrase for a set of several: definite, and plural where its head allows it.

    >>> as_many(Phrase("the child of X")).text, as_many(Phrase("films by X", many=True)).text
    ('the children of X', 'the films by X')
    """
    found = parts(phrase.text)
    if found is None and phrase.short and not phrase.simple and not phrase.many:  # "X's child"
        owner, _, noun = phrase.text.rpartition("'s ")
        many = noun and noun.split(" ")[-1] not in UNCOUNTED
        return replace(phrase, text=f"{owner}'s {plural(noun)}", many=True) if many else phrase
    if found is None or phrase.simple or found.head.lower() in ("those", "these", "all"):
        return phrase
    head = found.head
    if head.lower() in _PRONOUNS:  # "someone who plays" as "those who play"
        opened = re.match(r"(who|that) (\w+) ?", found.rest)
        if opened:
            rest = f"{opened[1]} {_agreed(opened[2], [])} {found.rest[opened.end() :]}"
        else:
            rest = f"who {found.rest}" if head.lower() == "whoever" else found.rest
        return replace(phrase, text=f"those {rest}".rstrip(), many=True)
    if not phrase.many:
        singular_verb = re.match(r"(?:who|that|which) (\w+s)\b", found.rest)
        if head.split(" ")[-1] in UNCOUNTED or head.split(" ")[-1] in _ONE_ONLY:
            return phrase
        head = plural(head)
        either = re.match(r"(or|and) ([\w-]+) ", found.rest)
        if either:  # "a half-brother or half-sister of X"
            found = found._replace(rest=f"{either[1]} {plural(either[2])} {found.rest[either.end() :]}")
        if singular_verb:
            verb = singular_verb[1]
            found = found._replace(rest=found.rest.replace(f" {verb} ", f" {_agreed(verb, [])} ", 1))
    return replace(phrase, text=f"the {head} {found.rest}".rstrip(), many=True)


def is_many(noun: str) -> bool:
    """Whether a noun phrase is plural.

    >>> is_many("the films of {}"), is_many("the director of {}"), is_many("{}'s children"), is_many("those {} met")
    (True, False, True, True)
    """
    found = parts(noun)
    if found is None:
        return noun.startswith(("{}'s", "the {} ")) and is_plural(noun.split()[-1])
    if found.head.lower() in _PRONOUNS:
        return _PRONOUNS[found.head.lower()]
    return found.determiner not in ("a", "an", "another") and is_plural(found.head.split()[-1])


def fill(template: str, phrase: Phrase) -> str:
    """The template with the phrase in its place; verbs agree with a plural one.

    >>> fill("Where was {} born?", Phrase("the sons of X", many=True)), fill("{} belongs to whom?", Phrase("X"))
    ('Where were the sons of X born?', 'X belongs to whom?')
    """
    before, after = template.split("{}")
    if phrase.many:
        words = before.split(" ")
        if len(words) > 1 and words[-2].lower() in _AGREEMENT and _inverted(words[:-2]) and _subject(words[-2], after):
            words[-2] = _like(_AGREEMENT[words[-2].lower()], words[-2])
        before = " ".join(words)
        if len(words) < 2 or words[-2].lower() not in BEFORE_NOUN:  # "what the capital of {} is"
            after = re.sub(r"^ (\w+ly )?([\w-]+)", lambda found: f" {found[1] or ''}{_agreed(found[2], words)}", after)
        if not before:
            after = after.replace(" as its ", " as their ")
    if after.startswith("'s") and phrase.many and phrase.text.endswith("s"):
        after = after.replace("'s", "'", 1)
    text = before + _told_apart(before, phrase) + after
    if not before and phrase.name is None:
        text = text[:1].upper() + text[1:]
    return text


def _told_apart(before: str, phrase: Phrase) -> str:
    """The phrase, with an article where it would run into the noun before it: "the person military units ..."."""
    last = before.split(" ")[-2].lower() if " " in before else ""
    if phrase.simple or not last or last in LINKS | HELPERS | OPEN | RELATIVES | BEFORE_NOUN:
        return phrase.text
    found = parts(phrase.text)
    bare = found is not None and not found.determiner and found.head.lower() not in _PRONOUNS and phrase.many
    return f"the {phrase.text}" if bare else phrase.text


def _inverted(before: list[str]) -> bool:
    """Whether the name is the subject of the verb before it: in "Where is {}", not in "whose father is {}"."""
    words = [word.lower() for word in before]
    return not {"whose", "that", "who", "what's"} & set(words[1:])


def _subject(helper: str, after: str) -> bool:
    """Whether the name is the subject of "has": in "What has {} directed", not in "What has {} as its capital"."""
    words = after.split()
    return helper.lower() != "has" or (bool(words) and (is_participle(words[0].strip("?.")) or words[0] == "been"))


def _agreed(word: str, before: list[str]) -> str:
    if word in _AGREEMENT:
        return _AGREEMENT[word]
    helped = len(before) > 1 and before[-2].lower() in HELPERS
    if helped or not word.endswith("s") or word.endswith("ss") or word in _NOUNS_IN_S:
        return word
    return base(word)


def _like(word: str, model: str) -> str:
    return word.capitalize() if model[:1].isupper() else word


# Whether a phrase fits a template


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


# Nouns that people put before a number or a code, without an article.
_BEFORE_CODES = word_set(
    "order line position invoice bill shipment consignment trip flight ticket task booking reservation visit loan "
    "meter sample customer client vendor supplier account warehouse depot hotel vehicle part assembly dept site"
)


@lru_cache(maxsize=1 << 14)
def _fits_words(template: str, many: bool, short: bool, value: bool) -> bool:
    """`fits` for a phrase that is not a name: its own words do not matter."""
    before, after = (side.split() for side in template.split("{}"))
    last = before[-1].lower() if before else ""
    possessive = bool(after) and after[0].startswith("'")
    if last in ("the", "a", "an", "name", "named", "called", "year", "number", "word", "letters"):
        return False
    if last in _BEFORE_CODES:
        return False  # "the customer of order X", not "the customer of order the orders of X"
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
        return False  # the phrase must be the subject, without anything singular after it
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
    """Whether a noun with a determiner stands directly before the name: "the movie", "the animated movie"."""
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
    """Whether another noun stands before the noun of the name: "the album the track {} comes from"."""
    at = [at for at, word in enumerate(before) if word.lower() in ("the", "a", "an")]
    return len(at) > 1 and before[at[-1] - 1].lower() not in LINKS | HELPERS | OPEN | RELATIVES


def _helped(before: list[str]) -> bool:
    """Whether a helping verb or a relative stands before the noun of the name: "is the alloy {} made"."""
    at = max((at for at, word in enumerate(before) if word.lower() in _DETERMINERS or word.endswith("'s")), default=0)
    return at > 0 and (before[at - 1].lower() in RELATIVES or any(word.lower() in HELPERS for word in before[:at]))


def _continues(last: str, following: str) -> bool:
    """Whether a sentence can go on after a phrase: not where the name is an adjective, as in "have {} flowers"."""
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


# "what stands before {}" opens with a verb, so after "what" a helping verb must follow the noun
PLURAL_ASKED = re.compile(
    r"(?:which|what(?= \w+ (?:do|did|does|are|were|have|has|is|was)\b)) (\w+) (.*)", re.IGNORECASE
)
