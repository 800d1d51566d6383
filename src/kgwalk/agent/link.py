"""Which entities of a graph a question mentions: equal names first, longest first, then near spellings.

Every run of up to twelve words is looked up by name, as written and normalised. What is found is weighed by rules,
each of which can be read off `Mention.why`: quotation marks, underscores, capitals where the question has capitals
and small letters, how many words tell something. Where that leaves nothing but common words, near spellings and
names that hold the words ("obama", Barack Obama) are looked for. Of equal names the better connected one is chosen.

It knows English function words, the words of the graph's relations, and scripts without spaces. It does not know
what a question means: no aliases ("the Big Apple", "JFK" unless the graph has the name), no plurals or demonyms
("Jamaican"), no types, no context; and which of two equal names is meant is a guess by popularity.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice, pairwise
from typing import NamedTuple, Protocol
from weakref import WeakKeyDictionary

from rapidfuzz.distance import OSA

from kgwalk.kg.graph import Graph
from kgwalk.kg.normalise import normalise
from kgwalk.kg.store import Store, StoredGraph
from kgwalk.types import Found

LONGEST = 12.0  # words looked up together; of metaqa's 43,000 names 4 have more
CHARACTER = 0.3  # a character of a script without spaces, in words: names of up to 40 characters are found
MOST_WORDS = 600  # of a longer text only the beginning is read: bounds the time
# A near spelling: letters right, of ten. One typo in five letters is 0.8, two in ten as well.
ALIKE = 0.8
ALIKE_LETTERS = 5  # of a shorter word one typo leaves too little
# A near spelling of more words beats an equal name of fewer ("Tom Henks", where there is a Tom): be surer.
SURELY_ALIKE = 0.85
MOST_NEAR = 6  # searches for near spellings in one question: 4 ms each at 43,000 names
CONSIDERED = 50  # names that a search proposes, of which the best connected is chosen
# An entity is well connected if it is among so many, or this share, of the graph's.
WELL_CONNECTED, WELL_CONNECTED_SHARE = 1000, 0.05
# Times that a name must be better connected, by rank, to be meant by its beginning or end alone: "lincoln".
FAR_BETTER = 20
MOST_ASKED = 24  # names asked of a graph that has no store here: each may be a request
MOST_TOLD_APART = 200_000  # names like `Paris (Q90)` known by their label: the best connected ones, one index a store

COMMON, WEAK, FAIR, STRONG = 1, 2, 3, 4

# Words that join others or ask; a name made of these alone needs more evidence than being equal.
_FUNCTION = """
    a an the this that these those it its he him his she her hers they them their theirs we us our you your i me my
    myself yourself himself herself itself themselves and or but nor not no so if then than as of in on at by for with
    from to into onto over under about after before between during through without within against among upon up down
    out off per via since until while because is are was were be been being am do does did done doing has have had
    having can could will would shall should may might must s t d ll re ve m who whom whose what which when where why
    how whether there here all any both each every some many much more most other another such same own only also too
    very just now today currently ever still yet again once one ones first last next get got go goes went come came
    make made take took give gave given use used using say said name list tell show find know known called call mean
    want like kind type sort please
"""
FUNCTION_WORDS = frozenset(_FUNCTION.split())
# Words for kinds of things, which stand beside names in questions: as weak as the words of a relation.
_CLASSES = """
    person people man men woman women child children kid family father mother parent son daughter brother sister wife
    husband film movie picture show series episode season book novel story song album music band artist actor actress
    director writer screenwriter author character role place city town country state county nation continent world
    team club player coach company organization university college school language year date day time word number
    topic subject theme genre title part thing
"""

_QUOTED = re.compile(
    r'"([^"]+)"|“([^”]+)”|„([^“”]+)[“”]|«([^»]+)»|「([^」]+)」|『([^』]+)』|《([^》]+)》|(?<!\w)[\'‘]([^\'‘’]+)[\'’](?!\w)'
)
# Thai and Lao, Burmese, Khmer, kana, Han, Hangul (which has spaces, but joins particles to names).
_UNSPACED = (
    (0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0x3005, 0x30FF), (0x3400, 0x9FFF), (0xAC00, 0xD7AF),
    (0xF900, 0xFAFF), (0x20000, 0x3FFFF),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Mention:
    """One stretch of the question and the entities it may mean.

    `start` and `end` count characters of the question; `candidates` has the best first, which is the choice.
    Not `sure`: show the candidates to the user. `why` says what spoke for it; `rank` is 0 for the best evidence.
    """

    text: str
    start: int
    end: int
    candidates: list[Found]
    sure: bool
    why: str = ""
    rank: int = 0


def link(question: str, graph: Graph, *, most: int = 5) -> list[Mention]:
    """The mentions of a question in order of appearance, none overlapping, each with at most `most` candidates."""
    if most < 1:
        raise ValueError(f"most must be at least 1, got {most}")
    text = _Text(question)
    names: _Names = _Stored(graph) if isinstance(graph, StoredGraph) else _Asked(graph)
    chosen = _choose(_equal_names(text, names))
    chosen = _choose([*chosen, *_near_names(text, names, chosen)])
    if not text.cased:
        chosen = [_better_known(text, names, match) for match in chosen]
        chosen.sort(key=lambda match: match.weight, reverse=True)
    best = _telling(chosen)
    mentions = [_mention(text, best, rank, most) for rank in range(len(best))]
    return sorted(mentions, key=lambda mention: mention.start)


def _telling(chosen: Sequence[_Match]) -> list[_Match]:
    """What to return of matches in order of evidence: a name that is one common word only where nothing is better."""
    if not chosen:
        return []
    least = {STRONG: FAIR, FAIR: WEAK}.get(chosen[0].level, chosen[0].level)
    return [match for match in chosen if match.level >= least]


def topics(mentions: list[Mention]) -> list[str]:
    """The chosen names, best evidence first."""
    ranked = sorted(mentions, key=lambda mention: mention.rank)
    return list(dict.fromkeys(mention.candidates[0].name for mention in ranked))


# The question as words


class _Word(NamedTuple):
    start: int
    end: int
    plain: str  # normalised
    size: float  # in words: 1, or CHARACTER


class _Text:
    """The question, its words, and what their writing tells."""

    def __init__(self, question: str) -> None:
        self.question = question
        self.words = list(islice(_words(question), MOST_WORDS))
        words = self.words
        self.capital = [question[word.start].isupper() and word.plain != "i" for word in words]
        self.digits = [question[word.start].isdecimal() for word in words]
        # Capitals tell names apart only where other words have none. A sentence's first word tells nothing.
        small = [question[word.start].islower() for word in words]
        self.cased = any(self.capital[1:]) and any(small[1:])
        between = [question[one.end : other.start] for one, other in pairwise(words)]
        joined = [_joins(question, one, other) for one, other in pairwise(words)]
        hyphen = [glue in ("-", "‐", "‑", "–") for glue in between]
        count = len(words)
        self.joined_before, self.joined_after = [False, *joined][:count], [*joined, False][:count]
        self.hyphen_before, self.hyphen_after = [False, *hyphen][:count], [*hyphen, False][:count]
        self.function = [word.plain in FUNCTION_WORDS for word in words]
        self.quoted = set(self._quoted())

    def _quoted(self) -> Iterator[tuple[int, int]]:
        """The first and last word of each quotation."""
        end_of_words = self.words[-1].end + 1 if self.words else 0
        for found in _QUOTED.finditer(self.question, 0, end_of_words):
            start, end = found.span(found.lastindex or 0)
            inside = [at for at, word in enumerate(self.words) if start <= word.start and word.end <= end]
            if inside:
                yield inside[0], inside[-1]

    def stretches(self) -> Iterator[tuple[int, int]]:
        """First and last word of all that may be a name: LONGEST at most, where words joined by _ count as one.

        Joined words are not parted; a quotation may have any length.
        """
        for first, word in enumerate(self.words):
            if self.joined_before[first]:
                continue
            size = 0.0
            for last in range(first, len(self.words)):
                size += 0 if self.joined_before[last] else self.words[last].size
                if size > LONGEST + word.size / 2:  # half a word for rounding
                    break
                if not self.joined_after[last]:
                    yield first, last
        yield from (ends for ends in sorted(self.quoted) if self.size(*ends) > LONGEST)

    def capital_beside(self, first: int, last: int) -> bool:
        """Whether a capitalised word stands right before or after."""
        before = first > 0 and self.capital[first - 1] and self.question[self.words[first].start - 1] == " "
        return before or (last + 1 < len(self.words) and self.capital[last + 1])

    def span(self, first: int, last: int) -> tuple[int, int]:
        return self.words[first].start, self.words[last].end

    def size(self, first: int, last: int) -> float:
        return sum(word.size for word in self.words[first : last + 1])


def _joins(question: str, one: _Word, other: _Word) -> bool:
    """Whether two neighbouring words are one token of a name like anna_of_holstein-gottorp or 1._FC_Union."""
    glue = question[one.end : other.start]
    if "_" in glue:
        return not any(character.isspace() for character in glue)
    if glue not in ("-", "'", "’") or (glue != "-" and other.plain == "s"):
        return False
    return question[one.start - 1 : one.start] == "_" or question[other.end : other.end + 1] == "_"


class _Kinds(dict[str, str]):
    """What a character is to a word: "letter", "alone" (a word by itself), "mark" (goes with the last) or ""."""

    def __missing__(self, character: str) -> str:
        category = unicodedata.category(character)
        code = ord(character)
        if category[0] == "M" or category == "Cf":
            kind = "mark"
        elif category[0] not in "LN":
            kind = ""
        else:
            kind = "alone" if any(low <= code <= high for low, high in _UNSPACED) else "letter"
        self[character] = kind
        return kind


_KINDS = _Kinds()


def _words(question: str) -> Iterator[_Word]:
    """Runs of letters and digits; single characters where a script has no spaces.

    >>> [word.plain for word in _words("Hanks's film, 東京?")]
    ['hanks', 's', 'film', '東', '京']
    """
    start, last = 0, ""
    for at, character in enumerate(question + " "):
        kind = _KINDS[character]
        if kind == "mark" and last:
            continue
        if last and (kind != last or kind == "alone"):
            size = CHARACTER if last == "alone" else 1.0
            yield _Word(start, at, normalise(question[start:at]), size)
        if kind != last or kind == "alone":
            start = at
        last = "" if kind == "mark" else kind


# The graph's names


def _stem(plain: str) -> str:
    """A word without its ending, so that "directed", "director" and "directs" are one.

    >>> [_stem(word) for word in ("directed", "directors", "starred", "star", "languages", "country", "sing")]
    ['direct', 'direct', 'star', 'star', 'languag', 'country', 'sing']
    """
    stem = re.sub(r"(?:ing|ed|ors?|ers?|es|s|e)$", "", plain)
    if len(stem) < 3:
        return plain
    return stem[:-1] if len(stem) > 3 and stem[-1] == stem[-2] else stem


CLASS_STEMS = frozenset(map(_stem, _CLASSES.split()))


class _Named(NamedTuple):
    rank: int  # 0 is the best connected entity
    found: Found


class _Names(Protocol):
    """What linking asks of a graph."""

    well_connected: int  # ranks below this
    relation_words: frozenset[str]  # stems

    def stretches(self, text: _Text) -> Iterable[tuple[int, int]]:
        """The stretches worth asking for."""
        ...

    def equal(self, text: str) -> list[_Named]:
        """Entities of this name, normalised, best connected first."""
        ...

    def near(self, text: str) -> list[_Named]:
        """Entities of names near to the text."""
        ...


class _Known(NamedTuple):
    """What is read from a store once."""

    relation_words: frozenset[str]
    told_apart: dict[str, list[int]]  # normalised label to the entities that share it


_KNOWN: WeakKeyDictionary[Store, _Known] = WeakKeyDictionary()


def _known(store: Store) -> _Known:
    known = _KNOWN.get(store)
    if known is None:
        relations = store.relation.several(range(len(store.relation)))
        known = _KNOWN[store] = _Known(_relation_words(relations), _told_apart(store))
    return known


def _relation_words(relations: Iterable[str]) -> frozenset[str]:
    # Of people.person.profession only the property: domains hold names (base.arizona.topic). And directedBy is two.
    properties = (re.split(r"[./#]", name.rstrip("./#"))[-1] for name in relations)
    spaced = (re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name) for name in properties)
    return CLASS_STEMS.union(_stem(word) for name in spaced for word in normalise(name).split())


def _told_apart(store: Store) -> dict[str, list[int]]:
    """Labels that several entities share stand in the names with a suffix, `Paris (Q90)`: found by the label too."""
    labels: dict[str, list[int]] = {}
    if "entity.told" in store.folder:
        told = store.folder["entity.told"][:MOST_TOLD_APART].tolist()
        suffixes = store.folder["entity.suffix"][:MOST_TOLD_APART].tolist()
        for number, suffix in zip(told, suffixes, strict=True):
            name = store.entity[number].encode()
            labels.setdefault(normalise(name[: len(name) - suffix].decode()), []).append(number)
    return labels


class _Stored:
    """The names of a store, or of those that are live in a view of one."""

    def __init__(self, graph: StoredGraph) -> None:
        self._graph, self._store = graph, graph.store
        self.relation_words, self._told_apart = _known(graph.store)
        self.well_connected = max(WELL_CONNECTED, int(WELL_CONNECTED_SHARE * len(graph.store.entity)))

    def stretches(self, text: _Text) -> Iterable[tuple[int, int]]:
        return text.stretches()

    def equal(self, text: str) -> list[_Named]:
        store = self._store
        numbers = store.finder.equal(text)
        if self._told_apart:
            numbers = sorted({*numbers, *self._told_apart.get(normalise(text), ())})
        if store.entity_id is not None and (number := store.entity_id.number(text)) is not None:
            numbers = [number]  # the source's own id
        ids = store.entity_id
        named = [_Named(n, Found(store.entity[n], 1.0, "normalised", None if ids is None else ids[n])) for n in numbers]
        return [one for one in named if one.found.name in self._graph]

    def near(self, text: str) -> list[_Named]:
        found = self._graph.find(text, CONSIDERED)
        return [_Named(self._store.entity_number(one.name) or 0, one) for one in found]


class _Asked:
    """The names of a graph elsewhere: each lookup may be a request, so few are made and only as written."""

    relation_words = CLASS_STEMS
    well_connected = 1  # all: their ranks are not known

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def stretches(self, text: _Text) -> Iterable[tuple[int, int]]:
        telling = [
            (first, last)
            for first, last in text.stretches()
            if all(text.capital[at] or not text.function[at] for at in (first, last))
        ]
        telling.sort(key=lambda ends: _promise(text, *ends))
        return telling[:MOST_ASKED]

    def equal(self, text: str) -> list[_Named]:
        return [_Named(0, Found(text, 1.0, "exact"))] if text in self._graph else []

    def near(self, text: str) -> list[_Named]:
        return [_Named(0, one) for one in self._graph.find(text, CONSIDERED)]


def _promise(text: _Text, first: int, last: int) -> tuple[int, int, float]:
    """Sorts first what has most capitals, then fewest function words, then most words."""
    capitals, function = sum(text.capital[first : last + 1]), sum(text.function[first : last + 1])
    return -capitals, function, -text.size(first, last)


# Evidence


@dataclass(frozen=True, slots=True)
class _Match:
    """A stretch of the question with the entities that may be meant, and how much speaks for that."""

    first: int  # words
    last: int
    start: int  # characters
    end: int
    named: list[_Named]  # best first
    level: int
    size: float
    why: str

    @property
    def weight(self) -> tuple[int, float, bool, int, int]:
        best = self.named[0]
        return (self.level, self.size, best.found.how == "exact", -best.rank, -self.start)


def _choose(matches: Iterable[_Match]) -> list[_Match]:
    """The best matches that do not overlap, best first."""
    chosen: list[_Match] = []
    for match in sorted(matches, key=lambda match: match.weight, reverse=True):
        if all(match.end <= other.start or other.end <= match.start for other in chosen):
            chosen.append(match)
    return chosen


def _equal_names(text: _Text, names: _Names) -> Iterator[_Match]:
    for first, last in names.stretches(text):
        if first == last and text.function[first] and not text.capital[first] and (first, last) not in text.quoted:
            continue
        match = _equal_name(text, names, first, last)
        if match is not None:
            yield match


def _equal_name(text: _Text, names: _Names, first: int, last: int) -> _Match | None:
    start, end = text.span(first, last)
    stretch = text.question[start:end]
    named = names.equal(stretch)
    if not named:
        return None
    folded = stretch.casefold()
    # All in small letters, "king kong" is no more the tag king kong than the film King Kong.
    case_tells = text.cased or (first, last) in text.quoted or "_" in stretch
    ranked = []
    for one in named:
        place = _as_written(text.question, start, one.found)
        kept = one if place is None else one._replace(found=replace(one.found, how="exact"))
        as_written = -len(one.found.name) if place and case_tells else 0
        ranked.append((as_written, one.found.name.casefold() != folded, one.rank, kept, place))
    ranked.sort(key=lambda entry: entry[:3])
    level, why = _evidence(text, names, first, last, ranked[0][3])
    if level == 0:
        return None
    start, end = ranked[0][4] or (start, end)
    if text.cased and ranked[0][3].found.how != "exact":
        while first < last and not text.capital[first]:  # "the Eclipse": rather Eclipse, if there is one
            first += 1
    return _Match(first, last, start, end, [entry[3] for entry in ranked], level, text.size(first, last), why)


def _as_written(question: str, start: int, found: Found) -> tuple[int, int] | None:
    """Where the name stands letter for letter, if its first word begins at `start`: "Airplane!", "(500) Days"."""
    before = next((at for at, character in enumerate(found.name) if _KINDS[character] in ("letter", "alone")), 0)
    place = start - before
    if place >= 0 and question.startswith(found.name, place):
        return place, place + len(found.name)
    return None


def _evidence(text: _Text, names: _Names, first: int, last: int, best: _Named) -> tuple[int, str]:
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
    if text.cased and any(capital) and (exact or all(text.capital[at] or text.digits[at] for at in shown)):
        if (not content or len(plain) == 1) and text.capital_beside(first, last):
            return COMMON, "part of a longer run of capitals"
        return STRONG, "capitals"
    if not content:
        return (COMMON, "function words") if exact or len(words) > 1 else (0, "")
    if plain.isdecimal():
        return COMMON, "a number"
    if len(plain) == 1:
        return COMMON, "one letter"
    if _of_relations(text, names, content):
        telling = len(content) > 2 or (len(content) == 2 and best.rank < names.well_connected // FAR_BETTER)
        return (FAIR if telling else COMMON), "words of relations"
    if text.cased and any(capital) and len(content) > 1:
        return FAIR, "some capitals"
    if text.cased and not exact:
        return COMMON, "small letters among capitals"
    if text.cased:
        return (FAIR if len(content) > 1 else WEAK), "small letters, as in the name"
    if len(content) > 1:
        return STRONG, f"{len(content)} telling words"
    known = len(words) > 2 or best.rank < names.well_connected
    return (FAIR if known else WEAK), "one telling word"


def _of_relations(text: _Text, names: _Names, places: Iterable[int]) -> bool:
    """Whether these words are all words of relations or classes."""
    return all(_stem(text.words[at].plain) in names.relation_words for at in places)


# Near spellings


class _Run(NamedTuple):
    """First and last word of what looks like a name."""

    first: int
    last: int
    marked: bool  # by quotation marks, underscores or capitals
    whole: bool = False  # not to be looked for in parts


def _near_names(text: _Text, names: _Names, chosen: Sequence[_Match]) -> list[_Match]:
    """Matches by near spelling for promising stretches that no equal name covers."""
    equal = [match for match in chosen if match.level >= FAIR]
    weak = [match for match in chosen if match.level < FAIR]
    found: list[_Match] = []
    searches = MOST_NEAR
    for run in _promising(text, names):
        inside = _overlapping([*equal, *found], run.first, run.last)
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
            if _overlapping(found, first, last) or not _worth_searching(text, names, weak, first, last):
                continue
            match = _article_name(text, names, first, last) if run.marked and not inside else None
            if match is None:
                searches -= 1
                match = _near_name(text, names, first, last, bold=not inside and not run.whole)
            if match is not None:
                found.append(match)
    return found


def _worth_searching(text: _Text, names: _Names, weak: Iterable[_Match], first: int, last: int) -> bool:
    """Whether a window has a word that may be of a name, and is not itself the name of something, if weakly so."""
    telling = [at for at in range(first, last + 1) if not text.function[at] and not text.digits[at]]
    if not telling or _of_relations(text, names, telling):
        return False
    return not any(match.first <= first and last <= match.last for match in weak)


def _overlapping(matches: Iterable[_Match], first: int, last: int) -> list[_Match]:
    return [match for match in matches if match.first <= last and first <= match.last]


def _promising(text: _Text, names: _Names) -> Iterator[_Run]:
    """Quotations, joined words, then runs of capitalised words; of telling words where capitals tell nothing."""
    yield from (_Run(first, last, marked=True) for first, last in sorted(text.quoted))
    joined = [before or after for before, after in zip(text.joined_before, text.joined_after, strict=True)]
    yield from (_Run(first, last, marked=True) for first, last in _runs(joined))
    if text.cased:
        telling = [capital or digits for capital, digits in zip(text.capital, text.digits, strict=True)]
        if telling[0] and not telling[1]:  # a sentence's first word
            telling[0] = False
    else:
        telling = [not text.function[at] and not _of_relations(text, names, [at]) for at in range(len(text.words))]
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


def _windows(text: _Text, first: int, last: int) -> Iterator[tuple[int, int]]:
    """Parts of a run, longest first, the whole one too."""
    for length in range(min(last - first, int(LONGEST)), -1, -1):
        for start in range(first, last - length + 1):
            if not text.joined_before[start] and not text.joined_after[start + length]:
                yield start, start + length


def _around(inside: Sequence[_Match], first: int, last: int) -> Iterator[tuple[int, int]]:
    """A matched word with the word after it, and with the word before it."""
    for match in inside:
        if match.first == match.last:
            if match.last < last:
                yield match.first, match.last + 1
            if match.first > first:
                yield match.first - 1, match.last


def _covered(text: _Text, first: int, last: int, inside: Sequence[_Match]) -> bool:
    """Whether every telling word of the run is in a match."""
    telling = [at for at in range(first, last + 1) if not text.function[at]]
    return all(any(m.first <= at <= m.last for m in inside) for at in telling or range(first, last + 1))


def _article_name(text: _Text, names: _Names, first: int, last: int) -> _Match | None:
    """ "Godfather" for The Godfather."""
    start, end = text.span(first, last)
    named = names.equal(f"the {text.question[start:end]}")
    if not named:
        return None
    return _Match(first, last, start, end, named, FAIR, text.size(first, last), "with the article")


def _near_name(text: _Text, names: _Names, first: int, last: int, *, bold: bool) -> _Match | None:
    """A name spelt nearly so; `bold`: with more errors, or one that holds these words."""
    start, end = text.span(first, last)
    plain = normalise(text.question[start:end])
    near = names.near(plain)
    one_word = " " not in plain
    holds = _holding(plain, near) if bold else []
    if one_word:
        holds = [one for one in holds if one.rank < names.well_connected]
    alike = _alike_names(plain, near, ALIKE if bold and (text.cased or not one_word) else SURELY_ALIKE)
    ranked = holds + alike if one_word else alike + holds
    if not ranked:
        return None
    why = "part of the name" if holds and ranked[0] is holds[0] else "near spelling"
    return _Match(first, last, start, end, ranked, FAIR if bold else STRONG, text.size(first, last), why)


def _alike_names(plain: str, near: Iterable[_Named], least: float) -> list[_Named]:
    """Names spelt nearly so, the most alike first."""
    if len(plain) < ALIKE_LETTERS:
        return []
    scored = [(_alike(plain, normalise(one.found.name)), one) for one in near]
    scored = [entry for entry in scored if entry[0] >= least]
    return [one for _, one in sorted(scored, key=lambda entry: (-entry[0], entry[1].rank))]


def _holding(plain: str, near: Iterable[_Named]) -> list[_Named]:
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


def _better_known(text: _Text, names: _Names, match: _Match) -> _Match:
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


def _alike(plain: str, name: str) -> float:
    """The share of letters that are right, in this order of words or by alphabet."""
    in_order = OSA.normalized_similarity(plain, name)
    by_alphabet = OSA.normalized_similarity(" ".join(sorted(plain.split())), " ".join(sorted(name.split())))
    return max(in_order, 0.95 * by_alphabet)


def _mention(text: _Text, best: Sequence[_Match], rank: int, most: int) -> Mention:
    match = best[rank]
    candidates = [one.found for one in match.named]
    stretch = text.question[match.start : match.end]
    why = f"{candidates[0].how}: {match.why}"
    return Mention(stretch, match.start, match.end, candidates[:most], _sure(text, best, match), why, rank)


def _sure(text: _Text, best: Sequence[_Match], match: _Match) -> bool:
    """Whether an equal name is the only one, and nothing beside it looks like more of the name."""
    first, *others = (one.found for one in match.named)
    if first.how == "fuzzy" or match.level < (FAIR if len(best) == 1 else STRONG):
        return False
    if not text.cased:
        return not others
    beside = [at for at in (match.first - 1, match.last + 1) if 0 < at < len(text.words) and text.capital[at]]
    if any(not _overlapping(best, at, at) for at in beside):
        return False
    return first.how == "exact" or (not others and first.name[:1].isupper())
