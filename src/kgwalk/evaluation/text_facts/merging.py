"""Names that are the same and names that may be: spellings of entities and relations put together, with a report.

    "Tom Hanks", "tom hanks", "TOM HANKS"        merged: equal but for case, accents and signs
    "Zemeckis, Robert", "Robert Zemeckis"        merged: the same two words, turned around a comma
    "Robert Zemeckis", "Robert Zemekis"          near: reported, and merged only if that is asked for

A graph that takes two people for one says what no text says, so nothing is merged by likeness unless a person asks for
it, and never what differs in a digit, or stands side by side in one passage. The most frequent spelling is kept.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import NamedTuple

from rapidfuzz import fuzz
from rapidfuzz.distance import OSA

from kgwalk.evaluation.text_facts.passage_facts import relation_key
from kgwalk.kg.names import normalise

LEAST_WORD = 7  # letters of a word in which one may be mistyped
MOST_ALIKE = 50  # names that differ in the same word: so many are a list, and no misspellings
_SYMBOLS = re.compile(r"[^\w\s.,;:!?'’\"“”()\[\]–—-]")  # signs that make another name: C++, C#, A+


class NearNames(NamedTuple):
    """Two names that may be one; `score` is their likeness, 0 to 100."""

    kept: str
    other: str
    score: float


@dataclass
class Merged:
    """What became of names: `kept` of each spelling, and the pairs that are near each other."""

    kept: dict[str, str] = field(default_factory=dict)
    near: list[NearNames] = field(default_factory=list)

    def __getitem__(self, name: str) -> str:
        return self.kept.get(name, name)

    def groups(self) -> dict[str, list[str]]:
        """The other spellings of each name that has some."""
        found: defaultdict[str, list[str]] = defaultdict(list)
        for name, kept in self.kept.items():
            if name != kept:
                found[kept].append(name)
        return dict(found)


def merge_names(mentions: Iterable[tuple[str, int]], *, near: bool = False) -> Merged:
    """The names of entities, each with the passage it stands in; with `near` also those that are near are merged.

    >>> merged = merge_names([("Tom Hanks", 0), ("Tom Hanks", 1), ("TOM HANKS", 2), ("Hanks, Tom", 3)])
    >>> merged.groups()
    {'Tom Hanks': ['TOM HANKS', 'Hanks, Tom']}
    """
    counts: Counter[str] = Counter()
    passages: defaultdict[str, set[int]] = defaultdict(set)
    for name, passage in mentions:
        counts[name] += 1
        passages[name].add(passage)
    merged = Merged(_by_key(counts, {name: entity_key(name) for name in counts}))
    shown: Counter[str] = Counter()
    for name, count in counts.items():
        shown[merged[name]] += count
        passages[merged[name]] |= passages[name]
    apart = [pair for pair in near_names(shown) if not passages[pair.kept] & passages[pair.other]]
    if not near:
        merged.near = apart
        return merged
    into: dict[str, str] = {}
    for pair in apart:  # a name that others went into stays, and one that has gone takes none
        if pair.other not in into and pair.kept not in into and pair.other not in into.values():
            into[pair.other] = pair.kept
    merged.kept = {name: into.get(kept, kept) for name, kept in merged.kept.items()}
    return merged


def merge_relations(relations: Iterable[str]) -> Merged:
    """The relations of facts, one spelling of each: `Date_of_birth` and `date of birth` are one."""
    counts = Counter(relations)
    return Merged(_by_key(counts, {name: relation_key(name) for name in counts}))


def _by_key(counts: Mapping[str, int], key_of: Mapping[str, str]) -> dict[str, str]:
    """The most frequent spelling of each key; of equals the first that came."""
    best: dict[str, str] = {}
    for name, key in key_of.items():
        if key not in best or counts[name] > counts[best[key]]:
            best[key] = name
    return {name: best[key] for name, key in key_of.items()}


def entity_key(name: str) -> str:
    """What spellings of an entity's name have in common.

    >>> entity_key("the University of Coimbra") == entity_key("University of Coimbra")
    True
    >>> [entity_key(one) for one in ("C++", "C", "1.5", "15", "Turkey", "turkey")]
    ['c ++', 'c', '1.5', '15', 'turkey', 'turkey -']
    """
    if any(character.isdigit() for character in name):
        return " ".join(name.casefold().split())
    if name.count(",") == 1 and len(words := normalise(name).split()) == 2:
        return " ".join(reversed(words))  # "Hanks, Tom"
    plain = normalise(name)
    words = plain.split()
    if len(words) > 2 and words[0] == "the":
        plain = " ".join(words[1:])
    symbols = "".join(sorted(_SYMBOLS.findall(name.replace("_", ""))))
    small = " -" if len(words) == 1 and name[:1].islower() else ""  # turkey is no country
    return plain + (f" {symbols}" if symbols and plain != normalise(symbols) else "") + small


def near_names(counts: Mapping[str, int]) -> list[NearNames]:
    """Pairs of names that differ by one slip of the pen in one long word, the more frequent first; the nearest first.

    A slip is a letter left out, added, changed or swapped inside a word; not at its end, where names are inflected.

    >>> near_names({"Robert Zemeckis": 3, "Robert Zemekis": 1, "Andrea": 1, "Andreas": 1})
    [NearNames(kept='Robert Zemeckis', other='Robert Zemekis', score=96.6)]
    """
    groups: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    plain = {name: normalise(name) for name in counts}
    for name, text in plain.items():
        words = text.split()
        for at, word in enumerate(words):
            if len(word) >= LEAST_WORD - 1 and word.isalpha():
                groups[(*words[:at], f"{word[0]}*{word[-2:]}", *words[at + 1 :])].append(name)
    found: dict[tuple[str, str], NearNames] = {}
    for alike in groups.values():
        for one, other in combinations(alike if len(alike) <= MOST_ALIKE else (), 2):
            longest = max(len(plain[one]), len(plain[other]))
            if longest < LEAST_WORD or OSA.distance(plain[one], plain[other], score_cutoff=1) != 1:
                continue
            kept, less = sorted((one, other), key=lambda name: -counts[name])
            found.setdefault((kept, less), NearNames(kept, less, round(fuzz.ratio(plain[kept], plain[less]), 1)))
    return sorted(found.values(), key=lambda pair: (-pair.score, pair.kept, pair.other))
