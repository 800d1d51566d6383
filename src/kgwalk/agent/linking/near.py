"""Near names: those spelt nearly as in the question, or that hold its words, where no equal name covers them.

It knows which stretches look like a name and how alike two spellings are. It does not know sounds, translations or
aliases, nor how a graph finds the names it proposes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

from rapidfuzz.distance import OSA

from kgwalk.agent.linking.evidence import COMMON, FAIR, FAR_BETTER, STRONG, Match, of_relations, overlapping
from kgwalk.agent.linking.names import Named, Names
from kgwalk.agent.linking.words import LONGEST, Text
from kgwalk.kg.normalise import normalise

# A near spelling: letters right, of ten. One typo in five letters is 0.8, two in ten as well.
ALIKE = 0.8
ALIKE_LETTERS = 5  # of a shorter word one typo leaves too little
# A near spelling of more words beats an equal name of fewer ("Tom Henks", where there is a Tom): be surer.
SURELY_ALIKE = 0.85
# A word of a name that is not near enough to be chosen, and near enough to be offered: two typos in seven letters.
FAINTLY_ALIKE = 0.7
_QUESTION = {"which", "what", "whose", "many"}
_QUANTITY = {"any", "every", "each", "all", "most", "least", "some", "no", "other", "another"}
MOST_NEAR = 6  # searches for near spellings in one question: 4 ms each at 43,000 names


class _Run(NamedTuple):
    """First and last word of what looks like a name."""

    first: int
    last: int
    marked: bool  # by quotation marks, underscores or capitals
    whole: bool = False  # not to be looked for in parts


def near_names(text: Text, names: Names, chosen: Sequence[Match]) -> list[Match]:
    """Matches by near spelling for promising stretches that no equal name covers."""
    equal = [match for match in chosen if match.level >= FAIR]
    weak = [match for match in chosen if match.level < FAIR]
    found: list[Match] = []
    searches = MOST_NEAR
    for run in _promising(text, names):
        inside = overlapping([*equal, *found], run.first, run.last)
        if _covered(text, run.first, run.last, inside):
            continue
        if not run.marked and (any(match.level == STRONG for match in equal) or (equal and not inside)):
            continue
        if inside and not run.marked and not run.whole:
            windows: Iterable[tuple[int, int]] = _around(inside, run.first, run.last)
        elif inside or run.whole:
            windows = [(run.first, run.last)]
        else:
            windows = _windows(text, run.first, run.last)
        for first, last in windows:
            if searches == 0:
                return found
            if overlapping(found, first, last) or not _worth_searching(text, names, weak, first, last):
                continue
            match = _article_name(text, names, first, last) if run.marked and not inside else None
            if match is None:
                searches -= 1
                match = _near_name(text, names, first, last, bold=not inside and not run.whole)
            if match is not None:
                found.append(match)
    return found


def _worth_searching(text: Text, names: Names, weak: Iterable[Match], first: int, last: int) -> bool:
    """Whether a window has a word that may be of a name, and is not itself the name of something, if weakly so."""
    telling = [at for at in range(first, last + 1) if not text.function[at] and not text.digits[at]]
    if not telling or of_relations(text, names, telling):
        return False
    return not any(match.first <= first and last <= match.last for match in weak)


def _promising(text: Text, names: Names) -> Iterator[_Run]:
    """Quotations, joined words, then runs of capitalised words; of telling words where capitals tell nothing."""
    yield from (_Run(first, last, marked=True) for first, last in sorted(text.quoted))
    joined = [before or after for before, after in zip(text.joined_before, text.joined_after, strict=True)]
    yield from (_Run(first, last, marked=True) for first, last in _runs(joined))
    if text.cased:
        telling = [capital or digits for capital, digits in zip(text.capital, text.digits, strict=True)]
        if telling[0] and not telling[1]:  # a sentence's first word
            telling[0] = False
    else:
        telling = [not text.function[at] and not of_relations(text, names, [at]) for at in range(len(text.words))]
    loose = [is_telling or is_function for is_telling, is_function in zip(telling, text.function, strict=True)]
    for first, last in _runs(loose):
        inside = [at for at in range(first, last + 1) if telling[at]]
        if len(inside) > 1 and inside[-1] - inside[0] >= len(inside):
            yield _Run(inside[0], inside[-1], marked=text.cased, whole=True)
    for first, last in _runs(telling):
        yield _Run(first, last, marked=text.cased)


def _runs(flags: Iterable[bool]) -> Iterator[tuple[int, int]]:
    """The first and last place of each run of True."""
    at = 0
    for value, group in groupby(flags):
        count = len(list(group))
        if value:
            yield at, at + count - 1
        at += count


def _windows(text: Text, first: int, last: int) -> Iterator[tuple[int, int]]:
    """Parts of a run, longest first, the whole one too."""
    for length in range(min(last - first, int(LONGEST)), -1, -1):
        for start in range(first, last - length + 1):
            if not text.joined_before[start] and not text.joined_after[start + length]:
                yield start, start + length


def _around(inside: Sequence[Match], first: int, last: int) -> Iterator[tuple[int, int]]:
    """A matched word with the word after it, and with the word before it."""
    for match in inside:
        if match.first == match.last:
            if match.last < last:
                yield match.first, match.last + 1
            if match.first > first:
                yield match.first - 1, match.last


def _covered(text: Text, first: int, last: int, inside: Sequence[Match]) -> bool:
    """Whether every telling word of the run is in a match."""
    telling = [at for at in range(first, last + 1) if not text.function[at]]
    return all(any(m.first <= at <= m.last for m in inside) for at in telling or range(first, last + 1))


def _article_name(text: Text, names: Names, first: int, last: int) -> Match | None:
    """ "Godfather" for The Godfather."""
    start, end = text.span(first, last)
    named = names.equal(f"the {text.question[start:end]}")
    if not named:
        return None
    return Match(first, last, start, end, named, FAIR, text.size(first, last), "with the article")


def _near_name(text: Text, names: Names, first: int, last: int, *, bold: bool) -> Match | None:
    """A name spelt nearly so; `bold`: with more errors, or one that holds these words."""
    start, end = text.span(first, last)
    plain = normalise(text.question[start:end])
    near = names.near(plain)
    one_word = " " not in plain
    holds = _holding(plain, near) if bold else []
    if one_word:
        holds = [one for one in holds if one.rank < names.well_connected and not _says_a_kind(text, first, one)]
    alike = _alike_names(plain, near, ALIKE if bold and (text.cased or not one_word) else SURELY_ALIKE)
    ranked = holds + alike if one_word else alike + holds
    if not ranked:
        return None
    why = "part of the name" if holds and ranked[0] is holds[0] else "near spelling"
    return Match(first, last, start, end, ranked, FAIR if bold else STRONG, text.size(first, last), why)


def _says_a_kind(text: Text, at: int, one: Named) -> bool:
    """Whether the last word of a name without capitals, in these words, says what kind of thing is meant, not which.

    "Which service", "the cheapest service" and "the fraud service" do not mean eta-service; "the service" may.
    """
    name = one.found.name
    if at == 0 or name != name.lower() or normalise(name).split()[0] == text.words[at].plain:
        return False
    before = text.words[at - 1].plain
    return before in _QUESTION or before in _QUANTITY or not text.function[at - 1]


def _alike_names(plain: str, near: Iterable[Named], least: float) -> list[Named]:
    """Names spelt nearly so, the most alike first."""
    if len(plain) < ALIKE_LETTERS:
        return []
    scored = [(_alike(plain, normalise(one.found.name)), one) for one in near]
    scored = [entry for entry in scored if entry[0] >= least]
    return [one for _, one in sorted(scored, key=lambda entry: (-entry[0], entry[1].rank))]


def _holding(plain: str, near: Iterable[Named]) -> list[Named]:
    """Names that have all these words and more, a single word first or last; the best connected first."""
    words = plain.split()
    if len(plain) < 3:
        return []
    held = []
    for one in near:
        name = normalise(one.found.name).split()
        if len(name) > len(words) and (set(words) <= set(name) if len(words) > 1 else words[0] in (name[0], name[-1])):
            held.append(one)
    return sorted(held, key=lambda one: one.rank)


def better_known(text: Text, names: Names, match: Match) -> Match:
    """The match with a far better connected name put first, where this one was written without capitals.

    "lincoln" may be the film Lincoln; but in webqsp-fbpool, by connections, that is the 23,551st entity and Abraham
    Lincoln the 92nd.
    """
    best = match.named[0]
    common = match.level == COMMON and match.first == match.last
    explicit = (match.first, match.last) in text.quoted or any(text.joined_after[match.first : match.last])
    if common or explicit or best.found.how != "normalised" or best.rank <= names.well_connected // FAR_BETTER:
        return match
    plain = normalise(text.question[match.start : match.end])
    held = [one for one in _holding(plain, names.near(plain)) if one.rank * FAR_BETTER <= best.rank]
    if not held:
        return match
    level = FAIR if match.level == COMMON else match.level
    return replace(match, named=held + match.named, level=level, why="part of a far better connected name")


def faintly_alike(text: Text, names: Names) -> list[str]:
    """Names that have a word like a telling word of the question, the likest first."""
    telling = [at for at, word in enumerate(text.words) if not text.function[at] and len(word.plain) >= ALIKE_LETTERS]
    found: dict[str, tuple[float, int]] = {}
    for at in [at for at in telling if not text.digits[at] and not of_relations(text, names, [at])][:MOST_NEAR]:
        plain = text.words[at].plain
        for one in names.near(plain):
            words = normalise(one.found.name).split()
            alike = max((OSA.normalized_similarity(plain, word) for word in words), default=0.0)
            if alike >= FAINTLY_ALIKE:
                found[one.found.name] = min(found.get(one.found.name, (0.0, 0)), (-alike, one.rank))
    return sorted(found, key=lambda name: found[name])


def _alike(plain: str, name: str) -> float:
    """The share of letters that are right, in this order of words or by alphabet."""
    in_order = OSA.normalized_similarity(plain, name)
    by_alphabet = OSA.normalized_similarity(" ".join(sorted(plain.split())), " ".join(sorted(name.split())))
    return max(in_order, 0.95 * by_alphabet)
