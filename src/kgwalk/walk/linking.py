"""Which entities of a graph a question mentions: equal names first, then near spellings.

    >>> topics(link("who directed the films Tom Hanks starred in?", graph))     # doctest: +SKIP
    ['Tom Hanks']

Every run of up to twelve words is looked up by name, as written and normalised; longer names win (`equal_names`). What
is found is weighed by rules, each of which can be read off `Mention.why`: quotation marks, underscores, capitals where
the question has capitals and small letters, how many words tell something. Where that leaves nothing but common words,
near spellings and names that hold the words ("obama", Barack Obama) are looked for (`near_names`). Of equal names the
better connected one is chosen.

A name is also found in the plural, by the people of a country ("French"), by another usual name ("UK"), by its label in
another language, by its initials and by a row's key ("order 10248"). What is but the name or code of a thing stands for
it; a class is a kind, a topic only where there is nothing else. In a graph of few names, words that nothing explains
are looked for as misspelt names and as parts of names; of several such names, those that the question says most of are
chosen.

It goes by the small words of English, German, French and Spanish, the words of the graph's relations, and scripts
without spaces. It does not know what a question means: no nicknames ("the Big Apple") unless the graph has them, no
sounds or translations; which of two equal names is meant is a guess by popularity.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from kgwalk.kg.graph import Graph
from kgwalk.kg.names import normalise
from kgwalk.kg.store import StoredGraph
from kgwalk.types import Found
from kgwalk.walk.name_lookup import ALIKE_LETTERS, GraphNames, RankedName, RemoteNames, Stored
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
    WEAK,
    WeighedMatch,
    choose,
    is_unknown,
    of_relations,
    overlapping,
)
from kgwalk.walk.near_names import MOST_READINGS, better_known, faintly_alike, near_names
from kgwalk.walk.question_words import (
    FUNCTION_WORDS,
    KINDS,
    Text,
    compass_names,
    foreign_singulars,
    is_common,
    numbered_name,
    other_names,
    plural_name,
    same_kind,
    singular_name,
    spellings,
    stem,
)
from kgwalk.walk.word_vectors import is_term

# Equal names, and how much speaks for each


MOST_FORMED = 5  # words of a name that is looked for in the singular and the plural
_HOW_MANY = {"less", "more", "fewer", "greater", "larger", "top", "bottom", "best", "worst", "first", "last", "over"}
_HOW_MANY_OF = {"than", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "twenty", "hundred"}
_IDS = {"id", "no", "nr", "number", "sku", "item", "order", "invoice", "ticket", "case", "part", "product", "model"}
_IDS |= {"article", "batch", "lot", "version", "serial", "customer", "employee", "account", "flight", "room", "line"}
# After a number these are units: above 3000 K is not about potassium.
_UNITS = {
    "k",
    "c",
    "f",
    "g",
    "kg",
    "mg",
    "t",
    "m",
    "km",
    "cm",
    "mm",
    "l",
    "ml",
    "s",
    "h",
    "min",
    "w",
    "kw",
    "v",
    "a",
    "hz",
}
_UNITS |= {
    "b",
    "kb",
    "mb",
    "gb",
    "tb",
    "eur",
    "usd",
    "gbp",
    "chf",
    "mi",
    "ft",
    "in",
    "lb",
    "lbs",
    "oz",
    "am",
    "pm",
    "p",
}
_SPOKEN = {"speak", "spoken", "spok"}
_PARTS_OF_THE_WORLD = {"south", "north", "east", "west", "central", "latin", "eastern", "western", "new"}


def equal_names(text: Text, names: GraphNames) -> Iterator[WeighedMatch]:
    for first, last in names.stretches(text):
        the_us = text.words[first].plain == "us" and first > 0 and text.words[first - 1].plain == "the"
        word = text.function[first] and not text.capital[first] and not the_us
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
    says_what = text.hyphen_after[last] and stem(text.words[last + 1].plain) in names.said_words  # English-language
    if text.hyphen_before[first] or (text.hyphen_after[last] and not says_what):
        return COMMON, "part of a hyphenated word"
    plain = "".join(word.plain for word in words)
    if any(word.size < 1 for word in words):
        if len(words) == 1 or plain in names.relation_words:
            return COMMON, "one character" if len(words) == 1 else "a word of a relation"
        return (STRONG if len(words) > 2 else FAIR), f"{len(words)} characters"
    if first == last and first and text.digits[first - 1] and plain in _UNITS:
        return COMMON, "a unit"
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
        return (FAIR if exact and before in BEFORE_A_NAME else COMMON), "one letter"
    if names.is_class(best):
        return COMMON, "a kind"
    if first == last and first and text.digits[first - 1] and not names.is_thing(best):
        return COMMON, "a unit"
    if _says_of_what(text, names, first, last, best):
        return COMMON, "a relation of a name"
    if _is_condition(text, names, first, last, best):
        return FAIR, "a value of it"
    if _says_a_relation(text, names, content):
        telling = len(content) > 2 or (len(content) == 2 and best.rank < names.well_connected // FAR_BETTER)
        telling = telling or _says_several(text, names, content)
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


def _says_a_relation(text: Text, names: GraphNames, places: Iterable[int]) -> bool:
    return all(stem(text.words[at].plain) in names.said_words for at in places)


def _says_several(text: Text, names: GraphNames, content: Sequence[int]) -> bool:
    """Whether no one relation or class has these words: a team lead, where there are teams and each has a lead."""
    return names.few and len(content) > 1 and not names.one_relation({stem(text.words[at].plain) for at in content})


def _is_condition(text: Text, names: GraphNames, first: int, last: int, best: RankedName) -> bool:
    """Whether a value stands as an adjective does: "open tickets", "which tickets are still open"."""
    if not names.few or first != last or names.is_thing(best) or text.digits[first]:
        return False
    before = text.words[first - 1].plain if first else ""
    after = text.words[last + 1].plain if last + 1 < len(text.words) else ""
    ends = not after or (text.function[last + 1] and after not in ("of", "by"))
    if before in _IS and ends:
        return True
    kind = stem(after) in names.class_words and stem(after) != stem(text.words[last].plain)
    return kind or (bool(after) and not ends and bool(names.equal(singular_name(after))))  # open P1s


_IS = {"is", "are", "was", "were", "still", "currently", "not", "be", "been", "now"}


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
    forms = [singular_name(plain), plural_name(plain), *spellings(plain), *foreign_singulars(plain, text.language)]
    forms += [numbered_name(plain)] if last > first else []
    named = next(filter(None, (names.equal(name) for name in forms if name != plain)), [])
    if not named:
        return _written_as_one(text, names, first, last)
    relation = _says_a_relation(text, names, content) and not _says_several(text, names, content)
    common = relation or names.is_class(named[0])
    if common or text.digits[first] or (len(content) == 1 and is_common(text.words[content[0]].plain)):
        level = COMMON
    elif len(content) == 1:
        level = FAIR if names.few or (text.cased and not small) else COMMON
    else:
        level = FAIR if text.cased and small else STRONG
    return WeighedMatch(first, last, start, end, named, level, text.size(first, last), INFLECTED)


def _part_of_one(text: Text, names: GraphNames, first: int, last: int) -> WeighedMatch | None:
    """What just one name has, two words or more, in this order ("the law school", of a Royal Law School), or a code
    of letters and figures ("the X9", of a Line X9).
    """
    start, end = text.span(first, last)
    plain = normalise(text.question[start:end])
    ends_in_word = text.function[first] or text.function[last] or text.digits[first]
    if first == last and not _CODE.fullmatch(plain):
        return None
    if ends_in_word or not names.few or of_relations(text, names, range(first, last + 1)):
        return None
    named = names.only_with(plain) or (names.only_with(plain.replace(" ", "")) if last == first + 1 else [])
    if not named:
        return None
    return WeighedMatch(first, last, start, end, named, FAIR, text.size(first, last), PART_OF_NAME)


def _is_abbreviation(text: Text, names: GraphNames, at: int) -> bool:
    """Whether a word in small letters can be no word: hr, cs."""
    plain = text.words[at].plain
    if text.cased or not 1 < len(plain) < 5 or not is_unknown(text, names, at):
        return False
    said = at > 0 and len(plain) > 2 and text.words[at - 1].plain in ("the", *BEFORE_A_NAME)  # on the icu
    return (said and not is_term(plain)) or not _VOWEL.search(plain)  # but the mom is a word


_VOWEL = re.compile(r"[aeiouy\d]")
_CODE = re.compile(r"[a-z]{1,3}\d{1,4}")


def _written_as_one(text: Text, names: GraphNames, first: int, last: int) -> WeighedMatch | None:
    """A name whose words are joined or parted otherwise: "king fisher" for Kingfisher, "LaGuardia" for La Guardia."""
    start, end = text.span(first, last)
    letters = normalise(text.question[start:end]).replace(" ", "")
    if not names.few or last - first > 2 or (len(letters) < ALIKE_LETTERS and not _CODE.fullmatch(letters)):
        return None
    named = names.squeezed(letters)
    if not named:
        return _part_of_one(text, names, first, last)
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
    if match.why == OF_KIND:
        return named, len(named)
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
