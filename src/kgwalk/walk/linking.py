"""Which entities of a graph a question mentions: equal names first, then near spellings.

    >>> topics(link("who directed the films Tom Hanks starred in?", graph))     # doctest: +SKIP
    ['Tom Hanks']

Every run of up to twelve words is looked up by name, as written and normalised; longer names win (`equal_names`). What
is found is weighed by rules, each of which can be read off `Mention.why`: quotation marks, underscores, capitals where
the question has capitals and small letters, how many words tell something. Where that leaves nothing but common words,
near spellings and names that hold the words ("obama", Barack Obama) are looked for (`near_names`). Of equal names the
better connected one is chosen.

A name is also found in the plural, by the people of a country ("French"), by another usual name ("UK"), by its initials
and by a row's key ("order 10248"). What is but the name or code of a thing stands for it; a class is a kind, a topic
only where there is nothing else. In a graph of few names, words that nothing explains are looked for as misspelt names
and as parts of names; of several such names, those that the question says most of are chosen.

It goes by English words, the words of the graph's relations, and scripts without spaces. It does not know what a
question means: no nicknames ("the Big Apple") unless the graph has them, no sounds or translations; which of two equal
names is meant is a guess by popularity.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import NamedTuple

from rapidfuzz.distance import OSA

from kgwalk.kg.graph import Graph
from kgwalk.kg.names import normalise
from kgwalk.kg.store import StoredGraph
from kgwalk.types import Found
from kgwalk.walk.name_lookup import (
    ALIKE,
    ALIKE_LETTERS,
    COMMON,
    FAIR,
    STRONG,
    WEAK,
    GraphNames,
    RankedName,
    RemoteNames,
    Stored,
    WeighedMatch,
    alike_names,
    choose,
    holding,
    is_unknown,
    of_relations,
    overlapping,
)
from kgwalk.walk.question_words import (
    FUNCTION_WORDS,
    KINDS,
    LONGEST,
    Text,
    compass_names,
    foreign_singulars,
    is_common,
    other_names,
    plural_name,
    same_kind,
    singular_name,
    stem,
)

# Equal names, and how much speaks for each


# Times that a name must be better connected, by rank, to be meant by its beginning or end alone: "lincoln".
FAR_BETTER = 20


MOST_FORMED = 5  # words of a name that is looked for in the singular and the plural
_HOW_MANY = {"less", "more", "fewer", "greater", "larger", "top", "bottom", "best", "worst", "first", "last", "over"}
_HOW_MANY_OF = {"than", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "twenty", "hundred"}
# Before the one letter or the small word that is a name: "written in c", "does the Heron have a bell"
_BEFORE_A_NAME = {"in", "of", "with", "for", "on", "by", "from", "about", "to", "language"}
_IDS = {"id", "no", "nr", "number", "sku", "item", "order", "invoice", "ticket", "case", "part", "product", "model"}
_IDS |= {"article", "batch", "lot", "version", "serial", "customer", "employee", "account", "flight", "room", "line"}
_SPOKEN = {"speak", "spoken", "spok"}
_PARTS_OF_THE_WORLD = {"south", "north", "east", "west", "central", "latin", "eastern", "western", "new"}


def equal_names(text: Text, names: GraphNames) -> Iterator[WeighedMatch]:
    for first, last in names.stretches(text):
        word = text.function[first] and not text.capital[first]
        if first == last and (word or _says_how_many(text, first)) and (first, last) not in text.quoted:
            continue
        match = _equal_name(text, names, first, last) or _other_form(text, names, first, last)
        if match is not None:
            yield match


def _says_how_many(text: Text, at: int) -> bool:
    """ "less than 5" and "top 5" name nothing, even where something is called Less or TOP."""
    after = at + 1 < len(text.words) and (text.digits[at + 1] or text.words[at + 1].plain in _HOW_MANY_OF)
    return text.words[at].plain in _HOW_MANY and after


def _equal_name(text: Text, names: GraphNames, first: int, last: int) -> WeighedMatch | None:
    start, end = text.span(first, last)
    stretch = text.question[start:end]
    keyed = _keyed(text, names, first, last)
    if keyed:
        return WeighedMatch(first, last, start, end, keyed, FAIR, text.size(first, last), "an id after what it is")
    named = names.equal(stretch)
    if not named:
        return None
    folded = stretch.casefold()
    # All in small letters, "king kong" is no more the tag king kong than the film King Kong.
    upper = any(text.upper[first : last + 1])
    case_tells = text.cased or upper or (first, last) in text.quoted or "_" in stretch
    ranked = []
    for one in named:
        place = _as_written(text.question, start, one.found)
        kept = one if place is None else one._replace(found=replace(one.found, how="exact"))
        longer = len(one.found.name) > len(stretch)  # c++, of which "c" is looked up
        as_written = -len(one.found.name) if place and (case_tells or longer) else 0
        ranked.append((as_written, one.found.name.casefold() != folded, one.rank, kept, place))
    ranked.sort(key=lambda entry: entry[:3])
    level, why = _evidence(text, names, first, last, ranked[0][3])
    if level == 0:
        return None
    start, end = ranked[0][4] or (start, end)
    if text.cased and ranked[0][3].found.how != "exact":
        while first < last and not text.capital[first]:  # "the Eclipse": rather Eclipse, if there is one
            first += 1
    return WeighedMatch(first, last, start, end, [entry[3] for entry in ranked], level, text.size(first, last), why)


def _keyed(text: Text, names: GraphNames, first: int, last: int) -> list[RankedName]:
    """Rows of tables by their keys: "order 10248", "SKU 4711", "employee no. 12"."""
    if not first or not text.digits[last] or (first < last and not all(text.hyphen_after[first:last])):
        return []
    said = [word.plain for word in text.words[max(first - 2, 0) : first]]
    if said[-1] in ("no", "nr", "number", "id") and len(said) > 1:
        said.pop()
    if said[-1] not in _IDS and stem(said[-1]) not in names.class_words:
        return []
    start, end = text.span(first, last)
    return names.keyed(text.question[start:end], said[-1])


def _as_written(question: str, start: int, found: Found) -> tuple[int, int] | None:
    """Where the name stands letter for letter, if its first word begins at `start`: "Airplane!", "(500) Days"."""
    before = next((at for at, character in enumerate(found.name) if KINDS[character] in ("letter", "alone")), 0)
    place = start - before
    if place >= 0 and question.startswith(found.name, place):
        return place, place + len(found.name)
    return None


def _evidence(text: Text, names: GraphNames, first: int, last: int, best: RankedName) -> tuple[int, str]:
    """How much speaks for a name that equals these words, and what; 0 for nothing at all."""
    words = text.words[first : last + 1]
    exact = best.found.how == "exact"
    if (first, last) in text.quoted:
        return STRONG, "quoted"
    if any(text.joined_after[first:last]):
        return STRONG, "joined by _"
    if text.hyphen_before[first] or text.hyphen_after[last]:
        return COMMON, "part of a hyphenated word"
    plain = "".join(word.plain for word in words)
    if any(word.size < 1 for word in words):
        if len(words) == 1 or plain in names.relation_words:
            return COMMON, "one character" if len(words) == 1 else "a word of a relation"
        return (STRONG if len(words) > 2 else FAIR), f"{len(words)} characters"
    content = [at for at in range(first, last + 1) if not text.function[at]]
    shown = content or range(first, last + 1)
    capital = [text.capital[at] for at in range(first, last + 1) if at > 0]
    written = text.cased or all(text.upper[at] or text.digits[at] for at in shown)
    if written and any(capital) and (exact or all(text.capital[at] or text.digits[at] for at in shown)):
        if (not content or len(plain) == 1) and text.capital_beside(first, last):
            return COMMON, "part of a longer run of capitals"
        return STRONG, "capitals"
    if not content:
        return (COMMON, "function words") if exact or len(words) > 1 else (0, "")
    before = text.words[first - 1].plain if first else ""
    if plain.isdecimal():
        said = before in _IDS or (stem(before) in names.class_words and len(plain) != len("1999"))
        return (FAIR, "an id after what it is") if said and names.is_thing(best) else (COMMON, "a number")
    if len(plain) == 1:
        return (FAIR if exact and before in _BEFORE_A_NAME else COMMON), "one letter"
    if names.is_class(best):
        return COMMON, "a kind"
    if first == last and first and text.digits[first - 1] and not names.is_thing(best):
        return COMMON, "a unit"
    if _says_of_what(text, names, first, last, best):
        return COMMON, "a relation of a name"
    if of_relations(text, names, content):
        telling = len(content) > 2 or (len(content) == 2 and best.rank < names.well_connected // FAR_BETTER)
        return (FAIR if telling else COMMON), "words of relations"
    if text.cased and any(capital) and len(content) > 1:
        return FAIR, "some capitals"
    if text.cased and not exact:
        meant = len(content) > 1 or (names.few and not is_common(plain))
        return (FAIR if meant else COMMON), "small letters among capitals"
    if text.cased:
        known = before == "the" and best.rank < names.well_connected and not is_common(plain)
        meant = len(content) > 1 or known  # European countries with the euro
        return (FAIR if meant else WEAK), "small letters, as in the name"
    if len(content) > 1:
        return STRONG, f"{len(content)} telling words"
    known = len(words) > 2 or best.rank < names.well_connected
    return (FAIR if known else WEAK), "one telling word"


def _says_of_what(text: Text, names: GraphNames, first: int, last: int, best: RankedName) -> bool:
    """Whether these words are a relation and a name: the head of purchasing, whose title is Head of Purchasing."""
    of = next((at for at in range(first + 1, last) if text.words[at].plain == "of"), None)
    if of is None or not of_relations(text, names, range(first, of)) or names.is_thing(best):
        return False
    start, end = text.span(of + 1, last)
    return any(map(names.is_thing, names.equal(text.question[start:end])))


def _other_form(text: Text, names: GraphNames, first: int, last: int) -> WeighedMatch | None:
    """A name in the singular or plural, another name of the same thing, its people, or its initials."""
    start, end = text.span(first, last)
    plain = normalise(text.question[start:end])
    if last - first >= MOST_FORMED or any(word.size < 1 for word in text.words[first : last + 1]) or len(plain) < 2:
        return None
    content = [at for at in range(first, last + 1) if not text.function[at]]
    small = not any(text.capital[first : last + 1])
    before = text.words[first - 1].plain if first else ""
    # South America is not America
    others = [] if before in _PARTS_OF_THE_WORLD else [*other_names(plain), *compass_names(plain)]
    for name in [f"{plain} language", *others] if others and stem(before) in _SPOKEN else others:
        if named := names.equal(name):
            guessed = [one._replace(found=replace(one.found, how="fuzzy")) for one in named]
            level = FAIR if small else STRONG
            return WeighedMatch(first, last, start, end, guessed, level, text.size(first, last), "another name of it")
    letters = plain.replace(" ", "")
    spelt = len(letters) > 1 and len(plain) == 2 * len(letters) - 1  # R&D
    short = spelt or (first == last and (text.upper[first] or _is_abbreviation(text, names, first)))
    if short and names.few and (named := names.short_for(letters)):
        return WeighedMatch(first, last, start, end, named, FAIR, text.size(first, last), "initials")
    if not content or not names.near_by or text.function[first] or text.function[last]:
        return None
    forms = [singular_name(plain), plural_name(plain), *foreign_singulars(plain, text.language)]
    named = next(filter(None, (names.equal(name) for name in forms if name != plain)), [])
    if not named:
        return _written_as_one(text, names, first, last)
    common = of_relations(text, names, content) or names.is_class(named[0])
    if common or (len(content) == 1 and is_common(text.words[content[0]].plain)):
        level = COMMON
    elif len(content) == 1:
        level = FAIR if names.few or (text.cased and not small) else COMMON
    else:
        level = FAIR if text.cased and small else STRONG
    return WeighedMatch(first, last, start, end, named, level, text.size(first, last), "in the singular or plural")


def _is_abbreviation(text: Text, names: GraphNames, at: int) -> bool:
    """Whether a word in small letters can be no word: hr, cs."""
    plain = text.words[at].plain
    return not text.cased and 1 < len(plain) < 5 and not _VOWEL.search(plain) and is_unknown(text, names, at)


_VOWEL = re.compile(r"[aeiouy\d]")


def _written_as_one(text: Text, names: GraphNames, first: int, last: int) -> WeighedMatch | None:
    """A name whose words are joined or parted otherwise: "king fisher" for Kingfisher, "LaGuardia" for La Guardia."""
    start, end = text.span(first, last)
    letters = normalise(text.question[start:end]).replace(" ", "")
    if not names.few or last - first > 2 or len(letters) < ALIKE_LETTERS:
        return None
    named = names.squeezed(letters)
    if not named:
        return None
    return WeighedMatch(first, last, start, end, named, FAIR, text.size(first, last), "joined or parted")


def shared_words(text: Text, names: GraphNames, chosen: Iterable[WeighedMatch]) -> Iterator[WeighedMatch]:
    """Names that share words with one beside an "and" or "or": Mayor of York or Leeds, front and rear wheel."""
    for match in chosen if names.near_by else ():
        plain = [word.plain for word in text.words[match.first : match.last + 1]]
        if len(plain) < 2 or match.level < FAIR:
            continue
        after, before = match.last + 2, match.first - 2
        if after < len(text.words) and text.words[after - 1].plain in _JOINING:
            stretches = [(after, last) for last in range(min(after + len(plain), len(text.words)) - 1, after - 1, -1)]
            yield from _completed(
                text, names, match, stretches, [(plain[:cut], []) for cut in range(len(plain) - 1, 0, -1)]
            )
        if before >= 0 and text.words[before + 1].plain in _JOINING:
            stretches = [(first, before) for first in range(max(0, before - len(plain) + 1), before + 1)]
            yield from _completed(text, names, match, stretches, [([], plain[cut:]) for cut in range(1, len(plain))])


SHARES_WORDS = "shares words"
_JOINING = ("and", "or", "nor", "und", "oder")


def _completed(
    text: Text,
    names: GraphNames,
    match: WeighedMatch,
    stretches: Iterable[tuple[int, int]],
    shared: Sequence[tuple[list[str], list[str]]],
) -> Iterator[WeighedMatch]:
    """The first stretch that is a name with the words that it shares with another one before or after it."""
    for first, last in stretches:
        own = [word.plain for word in text.words[first : last + 1]]
        for before, after in shared:
            if any(not text.function[at] for at in range(first, last + 1)) and (
                named := names.equal(" ".join([*before, *own, *after]))
            ):
                start, end = text.span(first, last)
                size = text.size(first, last) + 0.5  # before the name that these words are by themselves
                yield WeighedMatch(first, last, start, end, named, match.level, size, SHARES_WORDS)
                return


# Near names, where no equal name covers the words


# A near spelling of more words beats an equal name of fewer ("Tom Henks", where there is a Tom): be surer.
SURELY_ALIKE = 0.85
# A word of a name that is not near enough to be chosen, and near enough to be offered: two typos in seven letters.
FAINTLY_ALIKE = 0.7
_QUESTION = {"which", "what", "whose", "many", "welche", "welcher", "welches", "viele", "quel", "quelle", "quels"}
_QUESTION |= {"quelles", "que", "cual", "cuales", "cuantos", "cuantas"}
_QUANTITY = {"any", "every", "each", "all", "most", "least", "some", "no", "other", "another"}
_FORM_OF_VERB = re.compile(r"(?:ed|ing|ly|s)$")
PART_OF_NAME = "part of the name"
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
    surely = any(match.level == STRONG and any(text.upper[match.first : match.last + 1]) for match in equal)
    for first, last in _unknown(text, names, [*chosen, *found]):
        for begin, end in _windows(text, first, last):
            if searches and not overlapping(found, begin, end):
                searches -= 1
                match = _near_name(text, names, begin, end, bold=False, unknown=True)
                # Beside NEYMAR, "football" is no part of a name, unless it begins one.
                if match is not None and not (surely and match.why == PART_OF_NAME and not _begins(text, match)):
                    found.append(match)
    return found


def _begins(text: Text, match: WeighedMatch) -> bool:
    return normalise(match.named[0].found.name).split()[0] == text.words[match.first].plain


def _unknown(text: Text, names: GraphNames, known: Sequence[WeighedMatch]) -> Iterator[tuple[int, int]]:
    """Runs of words that are in no match, and neither common nor of a relation: what else than names could they be?"""
    if not names.few:  # among many names there is one like any word
        return
    yield from _runs(
        not overlapping(known, at, at) and is_unknown(text, names, at) and len(text.words[at].plain) > 3
        for at in range(len(text.words))
    )


def _worth_searching(text: Text, names: GraphNames, weak: Iterable[WeighedMatch], first: int, last: int) -> bool:
    """Whether a window has a word that may be of a name, and is not itself the name of something, if weakly so."""
    telling = [at for at in range(first, last + 1) if not text.function[at] and not text.digits[at]]
    if not telling or of_relations(text, names, telling):
        return False
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
    anywhere = names.few and capital and not is_common(plain)  # also in the middle: "kennedy", John F Kennedy
    holds = holding(plain, near, anywhere) if bold or (unknown and capital) else []
    if unknown and not holds and one_word and (one := singular_name(plain)) != plain:  # lamps: Desk Lamp, Floor Lamp
        holds = holding(one, names.near(one))
    telling = len(holds) <= MOST_READINGS and len(plain) > 3 and names.few and not is_common(plain)
    if one_word:
        # "What trucks do we run" is not about the Amber Run, nor "which ferries", of ferry lines, about Hansa Ferries.
        said = first > 0 and text.words[first - 1].plain == "the"
        common = names.few and not said and (is_common(plain) or stem(plain) in names.class_words)
        known = [one for one in holds if not common and (telling or (bold and one.rank < names.well_connected))]
        holds = [
            one
            for one in known
            if not _says_a_kind(text, first, one, len(known) > 1) and _fits_beside(text, names, first, one)
        ]
    if names.few:  # a thing, or the name of one, goes before a value: Honolulu Intl before Pacific/Honolulu
        holds.sort(key=lambda one: not names.is_thing(names.meant([one])[0]))
    least = ALIKE if unknown or (bold and (text.cased or not one_word)) else SURELY_ALIKE
    alike = [one for one in alike_names(plain, near, least) if not unknown or _begins_alike(plain, one)]
    ranked = holds + alike if one_word else alike + holds
    if not ranked and unknown and one_word and names.few and len(plain) > 3 and capital:
        ranked = names.begun(plain)  # coop: cooperation
    if not ranked:
        return None
    why = PART_OF_NAME if holds and ranked[0] is holds[0] else "near spelling"
    return WeighedMatch(first, last, start, end, ranked, FAIR if bold else STRONG, text.size(first, last), why)


def _says_a_kind(text: Text, at: int, one: RankedName, several: bool) -> bool:
    """Whether the last word of a name without capitals, or of several, says what kind of thing is meant, not which.

    "Which service", "the cheapest service" and "the fraud service" do not mean eta-service; "the service" may.
    """
    name, before = one.found.name, text.words[at - 1].plain if at else ""
    if at == 0 or normalise(name).split()[0] == text.words[at].plain:
        return False
    if name != name.lower():
        return several and (before in _QUESTION or before in _QUANTITY)
    return before in _QUESTION or before in _QUANTITY or not text.function[at - 1]


def _fits_beside(text: Text, names: GraphNames, at: int, one: RankedName) -> bool:
    """Whether a word beside that must be of a name is in this one: "radhaus hamburg" is not Radhaus Bonn."""
    if not names.few or text.language != "en":
        return True
    beside = [near for near in (at - 1, at + 1) if 0 <= near < len(text.words) and is_unknown(text, names, near)]
    of_name = {text.words[near].plain for near in beside if not _FORM_OF_VERB.search(text.words[near].plain)}
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
    if common or explicit or best.found.how != "normalised" or best.rank <= names.well_connected // FAR_BETTER:
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


__all__ = ["FUNCTION_WORDS", "Mention", "link", "nearest", "topics"]


@dataclass(frozen=True, slots=True)
class Mention:
    """One stretch of the question and the entities it may mean.

    `start` and `end` count characters of the question; `candidates` has the best first, which is the choice.
    Not `sure`: show the candidates to the user. `why` says what spoke for it; `rank` is 0 for the best evidence.
    `common` words, numbers and kinds are there only where nothing else is. Of a part of a name that several have, the
    first `readings` candidates are as likely, and all are chosen.
    """

    text: str
    start: int
    end: int
    candidates: list[Found]
    sure: bool
    why: str = ""
    rank: int = 0
    common: bool = False
    readings: int = 1


def link(question: str, graph: Graph, *, most: int = 5) -> list[Mention]:
    """The mentions of a question in order of appearance, none overlapping, each with at most `most` candidates."""
    if most < 1:
        raise ValueError(f"most must be at least 1, got {most}")
    text, names = Text(question), _names(graph)
    chosen = choose(equal_names(text, names))
    chosen = choose([*chosen, *shared_words(text, names, chosen)])
    chosen = choose([*chosen, *near_names(text, names, chosen)])
    if not text.cased:
        chosen = [better_known(text, names, match) for match in chosen]
        chosen.sort(key=lambda match: match.weight, reverse=True)
    best = _telling(chosen)
    mentions = [_mention(text, names, best, rank, most) for rank in range(len(best))]
    return sorted(mentions, key=lambda mention: mention.start)


def nearest(question: str, graph: Graph, *, most: int = 3) -> list[str]:
    """Names to offer where a question mentions nothing: those with a word like one of its words, the likest first."""
    return faintly_alike(Text(question), _names(graph))[:most]


def _names(graph: Graph) -> GraphNames:
    return Stored(graph) if isinstance(graph, StoredGraph) else RemoteNames(graph)


def _telling(chosen: Sequence[WeighedMatch]) -> list[WeighedMatch]:
    """What to return of matches in order of evidence: a name that is one common word only where nothing is better."""
    if not chosen:
        return []
    least = {STRONG: FAIR, FAIR: WEAK}.get(chosen[0].level, chosen[0].level)
    return [match for match in chosen if match.level >= least]


def topics(mentions: list[Mention]) -> list[str]:
    """The chosen names in order of mention: "X but not Y" starts from X."""
    ordered = sorted(mentions, key=lambda mention: mention.start)
    return list(dict.fromkeys(one.name for mention in ordered for one in mention.candidates[: mention.readings]))


def _mention(text: Text, names: GraphNames, best: Sequence[WeighedMatch], rank: int, most: int) -> Mention:
    match = best[rank]
    named, readings = _in_context(text, names, best, match)
    candidates = [one.found for one in named[:most]]
    stretch = text.question[match.start : match.end]
    why = f"{candidates[0].how}: {match.why}"
    sure, common = _sure(text, best, match), match.level == COMMON
    return Mention(stretch, match.start, match.end, candidates, sure, why, rank, common, min(readings, most))


def _in_context(
    text: Text, names: GraphNames, best: Sequence[WeighedMatch], match: WeighedMatch
) -> tuple[list[RankedName], int]:
    """What a match may mean, in the order of what the question says of each; and how many of them are as likely.

    "Maria", of whom there are two, is the one with a salary if that is asked for, and the one in Berlin if it is named.
    """
    named = _of_its_people(text, names, match, names.meant(match.named))
    part = match.why == PART_OF_NAME or len(named) > len(match.named)
    if not names.few or not part or len(named) == 1:
        return named, 1
    telling = [word.plain for at, word in enumerate(text.words) if not text.function[at]]
    known = names.relation_words | names.class_words
    others_of_kind = [same_kind(singular_name(word)) for word in telling if stem(word) not in known]
    kinds = [other for kind in others_of_kind for other in kind]  # the government: a cabinet
    stems = set(map(stem, telling + kinds))
    others = [one for other in best if other is not match for one in other.named[:1]]
    scores = [(names.is_thing(one), names.context(one, stems, others)) for one in named]
    ranked = [named[at] for at in sorted(range(len(named)), key=lambda at: scores[at], reverse=True)]
    equal = ranked[: scores.count(max(scores))]
    alike = len(equal) <= MOST_READINGS and names.is_thing(equal[0]) and len(set(map(names.types, equal))) == 1
    return ranked, len(equal) if alike else 1


def _of_its_people(text: Text, names: GraphNames, match: WeighedMatch, named: list[RankedName]) -> list[RankedName]:
    """The country first where a word is the name of something and of a people, and the question speaks of the country:
    the Hungarian national dish is Hungary's, not one of the language Hungarian.
    """
    places = (
        other_names(normalise(text.question[match.start : match.end]))
        if names.few and match.why != "another name of it"
        else []
    )
    countries = [one for place in places for one in names.equal(place) if names.is_thing(one)]
    if not countries:
        return named
    stems = {stem(word.plain) for at, word in enumerate(text.words) if not text.function[at]}
    if names.spoken_of(countries[0], stems) <= max(names.spoken_of(one, stems) for one in named):
        return named
    return [*countries[:1], *(one for one in named if one.found.name != countries[0].found.name)]


def _sure(text: Text, best: Sequence[WeighedMatch], match: WeighedMatch) -> bool:
    """Whether an equal name is the only one, and nothing beside it looks like more of the name."""
    first, *others = (one.found for one in match.named)
    if first.how == "fuzzy" or match.level < (FAIR if len(best) == 1 else STRONG):
        return False
    if not text.cased:
        return not others
    beside = [at for at in (match.first - 1, match.last + 1) if 0 < at < len(text.words) and text.capital[at]]
    if any(not overlapping(best, at, at) for at in beside):
        return False
    return first.how == "exact" or (not others and first.name[:1].isupper())
