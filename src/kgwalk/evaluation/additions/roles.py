"""Which names a sentence makes the head and which the tail of a relation, by where they stand around its words.

    Norway's capital is Oslo.               a possessive: the owner is the head
    The capital of Norway is Oslo.          what follows "of" is the head, what follows "is" the tail
    Oslo is the capital of Norway.          the same, the tail comes first
    Oslo, the capital of Norway, ...        the same, in apposition
    Big was directed by Penny Marshall.     head, words, tail; turned around if just one of the two says "by"
    Host a visit: China to Japan.           an event

Names joined by commas and "and" are one list and share the role. A name that stands elsewhere has no role, so "The
capital of Sweden, a neighbour of Norway, is Stockholm" says nothing of Norway. Negation, hedging, the past ("until",
"former") and markup between the names end a reading. English only. Knows no graph.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from kgwalk.agent.linking.words import FUNCTION_WORDS, Text
from kgwalk.evaluation.additions.mentions import Mention
from kgwalk.evaluation.additions.phrases import Phrase, Place
from kgwalk.kg.normalise import normalise

# What other words cost in nearness: few between the relation's words and the name that follows, more where the thing is
# described first ("Big is a 1988 American comedy film directed by").
COST_BEFORE, COST_AFTER = 0.05, 0.2
LEAST_NEAR = 0.2

_JOIN = re.compile(r"[\s,;&\"“”]*(?:(?:and|or|as well as)\b)?[\s\"“”]*(?:the\s+)?")
_PARENTHESES = re.compile(r"\([^()]*\)")
_MARKUP = re.compile(r"[<>{}|\[\]\\=]")
_BREAK = re.compile(r"[.,;:!?]")
_COPULA = re.compile(r"\b(?:is|are|was|were|been|became|becomes|remains|being|named|called)\b")
_OF = re.compile(r"\b(?:of|for|in|at)(?:\s+(?:the|an?))?[\s\"“]*$")
_POSSESSIVE = re.compile(r"(?:['’]s\b|(?<=s)['’](?=\s))\s*")
_UNSAID_WORDS = """
    not never no nor neither without cannot former formerly previously once until except unlike instead false wrongly
    incorrectly alleged allegedly reportedly rumored rumoured might could would if whether ex
"""
_UNSAID = frozenset(_UNSAID_WORDS.split())
_BY = re.compile(r"\bby\b")
_CAPITAL = re.compile(r"\b[A-Z]\w")
_NT = re.compile(r"n['’]t\b")
_CLAUSE = re.compile(
    r"(?:[;,]\s+|\s)(?:and|while|but|whereas)\s+(?=[^,;]*?\b(?:is|are|was|were)\b)|;\s+(?=[^,;]*?\b(?:is|are)\b)"
)


class Role(NamedTuple):
    """Heads and tails that a sentence names, and how near they stand to the relation's words, from 0.2 to 1."""

    heads: tuple[Mention, ...]
    tails: tuple[Mention, ...]
    near: float


class _Sentence:
    """The sentence as lists of names and the gaps between them: gap 0, list 0, gap 1, list 1, ..., last gap."""

    def __init__(self, text: str, start: int, mentions: Sequence[Mention]) -> None:
        self.text, self.start = text, start
        lists: list[list[Mention]] = []
        for mention in mentions:
            if lists and _joins(text[lists[-1][-1].end : mention.start]):
                lists[-1].append(mention)
            else:
                lists.append([mention])
        standing = ([mention for mention in names if mention.stands] for names in lists)
        self.lists = [names for names in standing if names]

    def names(self, at: int) -> tuple[Mention, ...]:
        return tuple(self.lists[at]) if 0 <= at < len(self.lists) else ()

    def gap(self, at: int) -> tuple[int, int]:
        """Where the gap before list `at` begins and ends."""
        start = self.lists[at - 1][-1].end if at > 0 else self.start
        return start, self.lists[at][0].start if at < len(self.lists) else len(self.text)

    def between(self, at: int) -> str:
        start, end = self.gap(at)
        return _PARENTHESES.sub(" ", self.text[start:end])


def roles(sentence: Text, mentions: Sequence[Mention], place: Place, phrase: Phrase) -> Role | None:
    """Who is who around the relation's words at this place; None if the sentence does not say."""
    start, end = sentence.span(place.first, place.last)
    clause_start, clause_end = _clause(sentence.question, mentions, start, end)
    inside = [one for one in mentions if clause_start <= one.start and one.end <= clause_end]
    text = sentence.question[:clause_end]
    told = _Sentence(text, clause_start, inside)
    at = next((n for n in range(len(told.lists) + 1) if told.gap(n)[0] <= start and end <= told.gap(n)[1]), None)
    if not told.lists or at is None or _unsaid(told):
        return None
    low, high = told.gap(at)
    before = _PARENTHESES.sub(" ", text[low:start])
    after = _PARENTHESES.sub(" ", text[end:high])
    for rule in (_owner, _event, _of, _direct):
        role = rule(told, at, before, after, phrase)
        if role is not None:
            return role if role.near > 0 and role.heads and role.tails else None
    return None


def _owner(told: _Sentence, at: int, before: str, after: str, phrase: Phrase) -> Role | None:
    owner = told.names(at - 1)[-1:]
    found = _POSSESSIVE.match(told.text, owner[0].end) if owner else None
    if found is None or not before.startswith(told.text[owner[0].end : found.end()]):
        return None
    adjectives = before[found.end() - owner[0].end :]
    if told.names(at) and (_links(after) or _apposes(after)):
        return Role(owner, told.names(at), _near(adjectives, after))
    ahead = told.lists[at - 1][:-1] or list(told.names(at - 2))
    gap = told.between(at - 1) if len(told.lists[at - 1]) == 1 else ","
    return Role(owner, tuple(ahead), _near(adjectives, gap)) if ahead and (_links(gap) or _apposes(gap)) else None


def _event(told: _Sentence, at: int, before: str, after: str, phrase: Phrase) -> Role | None:
    if _other_words(before) or after.strip() != ":" or not told.names(at + 1) or told.between(at + 1).strip() != "to":
        return None
    return Role(told.names(at), told.names(at + 1), 1.0)


def _of(told: _Sentence, at: int, before: str, after: str, phrase: Phrase) -> Role | None:
    """Not where the "of" is the relation's own, as in county_of; but "director of" speaks of directed_by."""
    heads = told.names(at)
    if after.split()[:1] == list(phrase.own[:1]) or not heads or _BREAK.search(after) or not _OF.search(after):
        return None
    if told.names(at - 1) and _links(before):
        return Role(heads, told.names(at - 1), _near(before, after))
    if told.names(at + 1) and _links(told.between(at + 1)):
        return Role(heads, told.names(at + 1), _near(told.between(at + 1), after))
    for further in range(at + 2, len(told.lists)):  # "the capital of Sweden, a neighbour of Norway, is Stockholm"
        gap = told.between(further)
        if gap.lstrip().startswith(",") and _links(gap.lstrip(" ,")):
            return Role(heads, told.names(further), _near(gap, after))
    if told.names(at - 1) and _apposes(before):
        return Role(heads, told.names(at - 1), _near(before, after))
    return Role((), (), 0.0)


def _direct(told: _Sentence, at: int, before: str, after: str, phrase: Phrase) -> Role | None:
    first, second = told.names(at - 1), told.names(at)
    following = after.lstrip().removeprefix(":")
    if not first or not second or _BREAK.search(before) or _BREAK.search(following):
        return None
    by = _BY.search(before + following) is not None
    near = _near(before, following)
    return Role(first, second, near) if by == ("by" in phrase.own) else Role(second, first, near)


def _joins(gap: str) -> bool:
    """Whether a gap makes one list of the names on its two sides."""
    plain = _PARENTHESES.sub(" ", gap)
    return bool(plain.strip()) and _JOIN.fullmatch(plain) is not None


def _links(gap: str) -> bool:
    """Whether a gap says that what stands on one side is what stands on the other: "is the", "is also a", ":"."""
    if gap.strip() in (":", "-", "–", "—"):
        return True
    found = _COPULA.search(gap)
    return found is not None and not _BREAK.search(gap[found.end() :]) and not _other_words(gap[: found.start()])


def _apposes(gap: str) -> bool:
    """Whether a gap is a comma and an article: "Oslo, the capital"."""
    return gap.lstrip().startswith(",") and not _BREAK.search(gap.lstrip()[1:])


def _near(before: str, after: str) -> float:
    """1 less the cost of other words; 0 where markup, or a name that the graph does not know, stands between."""
    if _MARKUP.search(before) or _MARKUP.search(after) or _CAPITAL.search(after):
        return 0.0
    near = 1 - COST_BEFORE * _other_words(before) - COST_AFTER * _other_words(after)
    return round(near, 4) if near >= LEAST_NEAR else 0.0


def _other_words(gap: str) -> int:
    return sum(word not in FUNCTION_WORDS for word in normalise(gap).split() if any(map(str.isalnum, word)))


def _unsaid(told: _Sentence) -> bool:
    """Whether a word between the names takes back what is said; a name may hold such words itself."""
    gaps = " ".join(told.text[slice(*told.gap(at))] for at in range(len(told.lists) + 1))
    words = re.split(r"[\s,;:()]+", gaps[:1].lower() + gaps[1:])
    return not _UNSAID.isdisjoint(words) or _NT.search(gaps) is not None


def _clause(text: str, mentions: Sequence[Mention], start: int, end: int) -> tuple[int, int]:
    """The part of a sentence around a place, parted from others by "and" or ";" where both have a verb of their own."""
    low = 0
    for found in _CLAUSE.finditer(text):
        inside_a_name = any(one.start < found.end() and found.start() < one.end for one in mentions)
        if inside_a_name or not _COPULA.search(text[low : found.start()]):
            continue
        if found.end() <= start:
            low = found.end()
        elif found.start() >= end:
            return low, found.start()
    return low, len(text)
