"""Noun phrases, and how they are put into the templates of questions and of other noun phrases.

    films = fill_noun("the films directed by {}", name("\\ue000"))    # plural, of head "films"
    fill("Where was {} born?", films)                                 # "Where were the films ... born?"

A template has one `{}`; whether a phrase can stand there is told by `fitting`. Knows grammar, no relations.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import NamedTuple

from kgwalk.questions.english.inflect import UNCOUNTED, base, is_participle, is_plural, plural, word_set

LINKS = word_set(
    "of that who whose which whom in with by for from on at to where when as under behind inside near about "
    "after before over into against during between among around through within without is are was were has "
    "have had can could did does do and or than like called named based used {} {}'s"
)
# Follow a noun as part of what is said about it: "the diseases spread by {}", "the year the album {} came out".
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
# Follow a name as nouns, though they end like verbs.
_NOUNS_IN_S = word_set("pages minutes goals players episodes times sides seasons days members works as its this")
HEADLESS = ("what", "how", "where", "when", "why", "who", "whether", "that", "if", "because")
_PRONOUNS = {"something": False, "somebody": False, "someone": False, "anyone": False, "anybody": False,
             "everybody": False, "everyone": False, "everything": False, "anything": False, "whoever": False,
             "whatever": False, "those": True, "these": True, "all": True}  # fmt: skip


class Parts(NamedTuple):
    """`the old films | that {} made`: determiner, head and the rest; the head of "those who" is "those"."""

    determiner: str
    head: str
    rest: str


@dataclass(frozen=True, slots=True)
class Phrase:
    """`name` is set for a name as it is; `short` where a possessive may follow."""

    text: str
    many: bool = False
    kind: str = ""
    name: str | None = None
    short: bool = False
    hops: int = 0

    @property
    def simple(self) -> bool:
        return self.name is not None


def parts(noun: str) -> Parts | None:
    """The parts of a noun phrase; None where it has no head of its own ("what {} wrote", "{}'s father").

    >>> parts("the films directed by {}"), parts("movies that {} made"), parts("what {} wrote")
    (Parts(determiner='the', head='films', rest='directed by {}'), Parts(determiner='', head='movies', \
rest='that {} made'), None)
    """
    words = noun.split()
    first = words[0].lower()
    if first in HEADLESS or "{}" in words[0] or "'s" in words[0] or not words[0][:1].isascii():
        return None
    if first in _PRONOUNS:
        return Parts("", words[0], " ".join(words[1:]))
    determiner = words.pop(0) if first in ("the", "a", "an", "any", "some", "another") else ""
    at = 0
    while at < len(words) and not _ends_head(words[at : at + 2], at):
        at += 1
        if at < len(words) and is_plural(words[at - 1]) and words[at - 1] not in PLURAL_MODIFIERS:
            break  # "nations adjacent to", not "sports team"
    return Parts(determiner, " ".join(words[:at]), " ".join(words[at:])) if at else None


def _ends_head(words: list[str], at: int) -> bool:
    """Whether the first of two words is past the head: a link, the sign for a name, or after a noun a clause."""
    if words[0] in LINKS or "\ue000" <= words[0][0] <= "\uf8ff":
        return True
    if words[0] in _AFTER_NOUN and words[0] not in ("the", "a", "an", "one", "you", "i"):
        return at > 0 and (
            len(words) < 2 or words[1] in LINKS or "\ue000" <= words[1][0] <= "\uf8ff"
        )  # no "set designer"
    return at > 0 and (words[0] in _AFTER_NOUN or _opens_clause(words))


def _opens_clause(words: list[str]) -> bool:
    """`directed by`, `starring X`; in `the imdb rating of X` it is a noun."""
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
        return noun.startswith("{}'s") and is_plural(noun.split()[-1])
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
    """The phrase; with an article where it would run into a noun: "the person | military units of X were led by"."""
    last = before.split(" ")[-2].lower() if " " in before else ""
    if phrase.simple or not last or last in LINKS | HELPERS | OPEN | RELATIVES | BEFORE_NOUN:
        return phrase.text
    found = parts(phrase.text)
    bare = found is not None and not found.determiner and found.head.lower() not in _PRONOUNS and phrase.many
    return f"the {phrase.text}" if bare else phrase.text


def _inverted(before: list[str]) -> bool:
    """`Where is {}`, `In which city is {}`; not `whose father is {}`, where the name is no subject."""
    words = [word.lower() for word in before]
    return not {"whose", "that", "who", "what's"} & set(words[1:])


def _subject(helper: str, after: str) -> bool:
    """`What has {} directed` is about what they did; in `What has {} as its capital` they are had."""
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
