"""Near names: what a question's words mean where no equal name covers them.

    near_names(text, names, chosen)     "Tom Henks" is Tom Hanks, "obama" Barack Obama, "coop" the mechanic cooperation

Promising stretches are searched for: quotations, joined words, runs of capitals, and in a graph of few names whatever
nothing explains. A stretch means a name that is spelt nearly so, or that holds its words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

from rapidfuzz.distance import OSA

from kgwalk.kg.names import normalise
from kgwalk.walk.name_lookup import ALIKE, ALIKE_LETTERS, TITLES, GraphNames, RankedName
from kgwalk.walk.name_matches import (
    BEFORE_A_NAME,
    COMMON,
    FAIR,
    FAR_BETTER,
    INFLECTED,
    OF_KIND,
    PART_OF_NAME,
    SHARES_WORDS,
    STRONG,
    WeighedMatch,
    alike_names,
    holding,
    is_unknown,
    of_relations,
    overlapping,
)
from kgwalk.walk.question_words import LONGEST, Text, is_usual, singular_name, stem

# A near spelling of more words beats an equal name of fewer ("Tom Henks", where there is a Tom): be surer.
SURELY_ALIKE = 0.85
# A word of a name that is not near enough to be chosen, and near enough to be offered: two typos in seven letters.
FAINTLY_ALIKE = 0.7
_QUESTION = {"which", "what", "whose", "many", "welche", "welcher", "welches", "viele", "quel", "quelle", "quels"}
_QUESTION |= {"quelles", "que", "cual", "cuales", "cuantos", "cuantas"}
_QUANTITY = {"any", "every", "each", "all", "most", "least", "some", "no", "other", "another"}
_FORM_OF_VERB = re.compile(r"(?:ed|ing|ly|s)$")
MOST_READINGS = 3  # names that a word is part of, and tells something: of more it is a common one
MOST_NEAR = 6  # searches for near spellings in one question: 4 ms each at 43,000 names


class _Run(NamedTuple):
    """First and last word of what looks like a name."""

    first: int
    last: int
    marked: bool  # by quotation marks, underscores or capitals
    whole: bool = False  # not to be looked for in parts


def near_names(text: Text, names: GraphNames, chosen: Sequence[WeighedMatch]) -> list[WeighedMatch]:
    """Matches by near spelling for promising stretches that no equal name covers."""
    equal = [match for match in chosen if match.level >= FAIR]
    weak = [match for match in chosen if match.level < FAIR]
    found: list[WeighedMatch] = []
    searches = 2 * MOST_NEAR if names.few else MOST_NEAR
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
    found += _titled(text, names, [*equal, *found])
    found += _of_kind(text, names, [*equal, *found])
    surely = any(match.level == STRONG and any(text.upper[match.first : match.last + 1]) for match in equal)
    for first, last in _unknown(text, names, [*chosen, *found]):
        mixed = not all(is_unknown(text, names, at) for at in range(first, last + 1))
        for begin, end in [(first, last)] if mixed else _windows(text, first, last):
            if searches and not overlapping(found, begin, end):
                searches -= 1
                match = _near_name(text, names, begin, end, bold=False, unknown=True)
                # Beside NEYMAR, "football" is no part of a name, unless it begins one.
                if match is not None and not (surely and match.why == PART_OF_NAME and not _begins(text, match)):
                    found.append(match)
    return found


def _begins(text: Text, match: WeighedMatch) -> bool:
    return normalise(match.named[0].found.name).split()[0] == text.words[match.first].plain


def _titled(text: Text, names: GraphNames, known: Sequence[WeighedMatch]) -> Iterator[WeighedMatch]:
    """Who is called by a title and the last name, be that a word of its own or misspelt: "dr price", "prof. Rossy"."""
    for at in range(1, len(text.words) if names.few else 0):
        plain = text.words[at].plain
        if text.words[at - 1].plain not in TITLES or text.function[at] or overlapping(known, at, at):
            continue
        named = [one for one in names.near(plain) if normalise(one.found.name).split()[-1:] == [plain]]
        named = [one for one in named or names.with_word_like(plain) if names.is_thing(one)]
        if named:
            yield WeighedMatch(at, at, *text.span(at, at), named, STRONG, text.size(at, at), PART_OF_NAME)


def _of_kind(text: Text, names: GraphNames, known: Sequence[WeighedMatch]) -> Iterator[WeighedMatch]:
    """The first word of a name before what the thing is, or what has it: "the database team", "windows servers"."""
    for at in range(len(text.words) - 1 if names.few else 0):
        plain, kind = text.words[at].plain, text.words[at + 1].plain
        if text.function[at] or stem(kind) not in names.class_words or stem(plain) in names.class_words:
            continue
        if not overlapping(known, at, at) and (
            named := names.of_kind(plain, kind) or _short_of_kind(names, plain, kind)
        ):
            yield WeighedMatch(at, at, *text.span(at, at), named, STRONG, text.size(at, at), OF_KIND)


def _short_of_kind(names: GraphNames, plain: str, kind: str) -> list[RankedName]:
    """The initials of a name without its last word, which is said: MLK school."""
    short = names.short_for(plain + kind[:1]) if len(plain) > 1 else []
    return [one for one in short if normalise(one.found.name).split()[-1] == kind]


def _unknown(text: Text, names: GraphNames, known: Sequence[WeighedMatch]) -> Iterator[tuple[int, int]]:
    """Runs of words that are in no match, and neither common nor of a relation: what else than names could they be?"""
    if not names.few:  # among many names there is one like any word
        return
    places = range(len(text.words))
    free = [not overlapping(known, at, at) for at in places]
    unknown = [free[at] and is_unknown(text, names, at) and len(text.words[at].plain) > 2 for at in places]
    # A misspelt word with those beside it first: "budget committe", of which only one word is unknown.
    for first, last in _runs(free[at] and not text.function[at] and not text.digits[at] for at in places):
        if last - first in (1, 2) and any(unknown[first : last + 1]) and not all(unknown[first : last + 1]):
            yield first, last
    yield from _runs(unknown)


def _worth_searching(text: Text, names: GraphNames, weak: Iterable[WeighedMatch], first: int, last: int) -> bool:
    """Whether a window has a word that may be of a name, and is not itself the name of something, if weakly so."""
    telling = [at for at in range(first, last + 1) if not text.function[at] and not text.digits[at]]
    if not telling or of_relations(text, names, telling):
        return False
    if names.few and last + 1 < len(text.words) and text.hyphen_after[last] and text.digits[last + 1]:
        return False  # SRV of SRV-099
    return not any(match.first <= first and last <= match.last for match in weak)


def _promising(text: Text, names: GraphNames) -> Iterator[_Run]:
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


def _around(inside: Sequence[WeighedMatch], first: int, last: int) -> Iterator[tuple[int, int]]:
    """A matched word with the word after it, and with the word before it."""
    for match in inside:
        if match.first == match.last:
            if match.last < last:
                yield match.first, match.last + 1
            if match.first > first:
                yield match.first - 1, match.last


def _covered(text: Text, first: int, last: int, inside: Sequence[WeighedMatch]) -> bool:
    """Whether every telling word of the run is in a match."""
    telling = [at for at in range(first, last + 1) if not text.function[at]]
    return all(any(m.first <= at <= m.last for m in inside) for at in telling or range(first, last + 1))


def _article_name(text: Text, names: GraphNames, first: int, last: int) -> WeighedMatch | None:
    """ "Godfather" for The Godfather."""
    start, end = text.span(first, last)
    named = names.equal(f"the {text.question[start:end]}")
    if not named:
        return None
    return WeighedMatch(first, last, start, end, named, FAIR, text.size(first, last), "with the article")


def _near_name(
    text: Text, names: GraphNames, first: int, last: int, *, bold: bool, unknown: bool = False
) -> WeighedMatch | None:
    """A name spelt nearly so; `bold`: with more errors, or one that holds these words.

    Words that are `unknown` are part of a name only if few names have them.
    """
    start, end = text.span(first, last)
    plain = normalise(text.question[start:end])
    near = names.near(plain)
    one_word = " " not in plain
    capital = not text.cased or text.capital[first]
    anywhere = names.few and capital and not is_usual(plain)  # also in the middle: "kennedy", John F Kennedy
    holds = holding(plain, near, anywhere) if bold or (unknown and capital) else []
    if (
        (unknown or (bold and text.cased)) and not holds and one_word and (one := singular_name(plain)) != plain
    ):  # lamps: Desk Lamp, Floor Lamp
        holds = holding(one, names.near(one))
    telling = len(holds) <= MOST_READINGS and len(plain) > 3 and names.few and not is_usual(plain)
    if one_word:
        # "What trucks do we run" is not about the Amber Run, nor "which ferries", of ferry lines, about Hansa Ferries.
        before = text.words[first - 1].plain if first else ""
        said = before == "the" or (before in BEFORE_A_NAME and len(holds) == 1 and names.is_thing(holds[0]))
        common = names.few and not said and (is_usual(plain) or stem(plain) in names.class_words)
        known = [one for one in holds if not common and (telling or (bold and one.rank < names.well_connected))]
        holds = [
            one
            for one in known
            if not _says_a_kind(text, names, first, one, len(known) > 1) and _fits_beside(text, names, first, one)
        ]
        holds = [one for one in holds if not (names.few and names.is_class(one))]
    if names.few:  # a thing, or the name of one, goes before a value: Honolulu Intl before Pacific/Honolulu
        holds.sort(key=lambda one: not names.is_thing(names.meant([one])[0]))
    least = ALIKE if unknown or (bold and (text.cased or not one_word)) else SURELY_ALIKE
    alike = [one for one in alike_names(plain, near, least) if not unknown or _begins_alike(plain, one)]
    if one_word and names.few and not text.cased and is_usual(plain):
        alike = []  # islands are not a misspelt Iceland
    ranked = holds + alike if one_word else alike + holds
    if not ranked and unknown and one_word and names.few and len(plain) > 2 and capital:
        ranked = names.begun(plain) or names.begun(singular_name(plain))  # coop: cooperation
    if not ranked and unknown and one_word and names.few:
        ranked = holds = [one for one in names.with_word_like(plain) if _fits_beside(text, names, first, one)]
    if not ranked:
        return None
    why = PART_OF_NAME if holds and ranked[0] is holds[0] else "near spelling"
    return WeighedMatch(first, last, start, end, ranked, FAIR if bold else STRONG, text.size(first, last), why)


def _says_a_kind(text: Text, names: GraphNames, at: int, one: RankedName, several: bool) -> bool:
    """Whether the last word of a name without capitals, or of several, says what kind of thing is meant, not which.

    "Which service", "the cheapest service" and "the fraud service" do not mean eta-service; "the service" may.
    """
    name, before = one.found.name, text.words[at - 1].plain if at else ""
    if at == 0 or normalise(name).split()[0] == text.words[at].plain:
        return False
    others = [word for word in normalise(name).split() if word != text.words[at].plain]
    if all(stem(word) in names.class_words for word in others):
        return False  # "cardiology" says which of the wards ward_cardiology is
    if name != name.lower():
        return several and (before in _QUESTION or before in _QUANTITY)
    return before in _QUESTION or before in _QUANTITY or not text.function[at - 1]


def _fits_beside(text: Text, names: GraphNames, at: int, one: RankedName) -> bool:
    """Whether a word beside that must be of a name is in this one: "radhaus hamburg" is not Radhaus Bonn."""
    if not names.few or text.language != "en":
        return True
    beside = [near for near in (at - 1, at + 1) if 0 <= near < len(text.words) and is_unknown(text, names, near)]
    plain = [text.words[near].plain for near in beside]
    of_name = {word for word in plain if not _FORM_OF_VERB.search(word) and not names.equal(word)}
    return of_name <= set(normalise(one.found.name).split())


def _begins_alike(plain: str, one: RankedName) -> bool:
    """A word that nothing explains is a misspelt name if it begins with the same letter."""
    return normalise(one.found.name)[:1] == plain[:1]


def better_known(text: Text, names: GraphNames, match: WeighedMatch) -> WeighedMatch:
    """The match with a far better connected name put first, where this one was written without capitals.

    "lincoln" may be the film Lincoln; but in webqsp-fbpool, by connections, that is the 23,551st entity and Abraham
    Lincoln the 92nd.
    """
    best = match.named[0]
    common = (match.level == COMMON and match.first == match.last) or match.why == SHARES_WORDS
    explicit = (match.first, match.last) in text.quoted or any(text.joined_after[match.first : match.last])
    inflected = names.few and match.why == INFLECTED
    if inflected or common or explicit or best.found.how != "normalised":
        return match
    if best.rank <= names.well_connected // FAR_BETTER:
        return match
    plain = normalise(text.question[match.start : match.end])
    held = [one for one in holding(plain, names.near(plain)) if one.rank * FAR_BETTER <= best.rank]
    if not held:
        return match
    level = FAIR if match.level == COMMON else match.level
    return replace(match, named=held + match.named, level=level, why="part of a far better connected name")


def faintly_alike(text: Text, names: GraphNames) -> list[str]:
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
