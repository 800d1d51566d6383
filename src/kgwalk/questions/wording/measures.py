"""How a set chosen by values is worded, and a count: the largest, those above a bound, those of 2012, how many.

    "Which of the neighbours of X has the largest population?", "the films by X that came out before 1990"

Called by `speaker`, which words the rest of the sentence. The words for each kind of value are in `values`.
"""

from __future__ import annotations

import math
import random
import re
from decimal import ROUND_FLOOR, Decimal
from typing import TYPE_CHECKING, NamedTuple

from kgwalk.questions.plan import HOPS, way_of
from kgwalk.questions.wording.english import (
    DATE,
    UNCOUNTED,
    YEAR,
    a,
    is_person,
    is_plural,
    plural,
    singular,
    third,
    word_set,
)
from kgwalk.questions.wording.phrases import PLURAL_ASKED, Phrase, PhraseParts, as_many, fill, fits, parts
from kgwalk.questions.wording.values import VERBS, ValueWords, value_words
from kgwalk.types import Call
from kgwalk.walk.facts import DirectedRelation

if TYPE_CHECKING:
    from kgwalk.questions.wording.speaker import Speaker


# Round numbers


_SCALES = ((10**9, "billion"), (10**6, "million"))
LEAST_DIGIT = -12  # decimal places after which no rounder number is looked for


def round_between(low: float, high: float, *, year: bool = False) -> str:
    """The number with the fewest digits with low < number <= high; with `year`, a whole one.

    >>> round_between(4_213_265, 5_879_441), round_between(0.12, 0.18), round_between(-3, 7)
    ('5000000', '0.15', '0')
    >>> round_between(1994.4, 1999.2, year=True), round_between(12, 13)
    ('1995', '13')
    """
    if year:
        fives = _multiple(Decimal(high), Decimal(5))
        return f"{fives if fives > low else math.floor(high):.0f}"
    if low < 0 < high:
        return "0"
    below, above = Decimal(repr(low)), Decimal(repr(high))  # as written: 0.36 is a little less in binary
    size = max(abs(below), abs(above)).adjusted() + 1
    for digit in range(size, LEAST_DIGIT, -1):
        for unit in (Decimal(1).scaleb(digit), Decimal(5).scaleb(digit - 1)):
            number = _multiple(above, unit)
            if below < number:
                return _written(number)
    return _written(above)


def in_words(number: str, chance: random.Random) -> str:
    """A large number in one of the ways that people write it; not for years.

    >>> sorted({in_words("5000000", random.Random(seed)) for seed in range(20)})
    ['5 million', '5,000,000', '5000000']
    >>> sorted({in_words("150000", random.Random(seed)) for seed in range(20)}), in_words("0.15", random.Random(0))
    (['150,000', '150000'], '0.15')
    """
    if not number.isdigit() or int(number) < 10_000:
        return number
    spellings = [number, f"{int(number):,}"]
    scale, word = next(((scale, word) for scale, word in _SCALES if int(number) >= scale), (1, ""))
    short = _written(Decimal(number) / scale)
    if word and len(short) <= 4:
        spellings += [f"{short} {word}"] * 2
    return chance.choice(spellings)


def _multiple(number: Decimal, unit: Decimal) -> Decimal:
    """The largest multiple of the unit that is not above the number."""
    return (number / unit).to_integral_value(ROUND_FLOOR) * unit


def _written(number: Decimal) -> str:
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


_MORE = {
    ">": ("above", "over", "greater than", "of more than", "higher than"),
    "<": ("below", "under", "less than", "of less than", "lower than"),
    ">=": ("of at least", "not below"),
    "<=": ("of at most", "not above"),
    "!=": ("other than",),
}
_AMOUNTS = {">": ("more than", "over"), "<": ("less than", "under"), ">=": ("at least",), "<=": ("at most",)}
# Comparatives that an amount follows: "heavier than 12 kilos", but not "richer than 5 million".
_PLAIN = (
    "heavier",
    "lighter",
    "longer",
    "shorter",
    "taller",
    "deeper",
    "hotter",
    "warmer",
    "colder",
    "cheaper",
    "older",
)
_WITH_AMOUNTS = (*_PLAIN, "younger", "higher", "lower", "larger", "bigger", "smaller", "faster", "slower", "cooler")
_WITH_UNIT = 0.6  # the share of bounds that are said with their unit, where there is one
_COUNTS = {">": ("more than", "over"), "<": ("fewer than", "less than"), ">=": ("at least",), "<=": ("at most",)}
_LATER = {
    ">": ("after", "later than"),
    "<": ("before", "earlier than"),
    ">=": ("in or after", "not before"),
    "<=": ("in or before", "not after"),
    "!=": ("not in",),
}

# Numbers that only identify things: nobody asks for the largest calling code.
_CODES = re.compile(r"\b(?:code|prefix|id|isbn|port|doi|phone|postal|zip|iso)\b")


# Plural nouns for one amount: "the highest damages", not "number of damages".
_SUMS = word_set("damages earnings savings assets costs sales profits funds wages expenses losses winnings")


def measured(speaker: Speaker, relation: str) -> str:
    """The relation that holds the value; of a path, its first one."""
    behind = speaker.plan.expressions.get(relation)
    return relation if behind is None else behind.path[0][0].relation


def words_for(speaker: Speaker, relation: str, noun: str) -> ValueWords:
    """The wordings for the value that a noun names, by the kind of thing that has it."""
    return value_words(noun, holder_kind(speaker, relation))


def holder_kind(speaker: Speaker, relation: str) -> str:
    return speaker.templates(DirectedRelation(measured(speaker, relation), False)).kind


def amount(speaker: Speaker, relation: str, noun: str, number: str) -> str:
    """A bound as people say it: "5 million", "12 kilos", "50 euros"."""
    mark = speaker.mark(in_words(number, speaker.chance))
    units = speaker.lexicon.units(measured(speaker, relation))
    if not units or " in " in noun or number == "1" or speaker.chance.random() > _WITH_UNIT:
        return mark
    unit = speaker.chance.choice(units)
    return f"{mark}{unit}" if unit == "%" else f"{mark} {unit}"


def value_noun(speaker: Speaker, relation: str) -> tuple[str, bool] | None:
    """A noun for what a relation measures, and whether that is a time; of a path, what its first relation does."""
    behind = speaker.plan.expressions.get(relation)
    relation = measured(speaker, relation)
    words = [word for word in speaker.lexicon.value_words(relation) if not _CODES.search(word)]
    if not words and behind is not None and behind.single is None:
        words = list(speaker.templates(DirectedRelation(relation, True)).at(speaker.level).bare)
    if not words:
        return None
    timed = speaker.templates(DirectedRelation(relation, True)).kind in (DATE, YEAR)
    noun = words[0] if speaker.level == 0 else speaker.chance.choice(words)
    several = (
        not timed and is_plural(noun.split(" ")[-1]) and noun not in _SUMS and not re.search(r"^total | of ", noun)
    )
    return (f"number of {noun}" if several else noun), timed


# The largest and the smallest


class Extreme(NamedTuple):
    """Wordings of the largest value: "the largest population", "most populous", "has the most inhabitants"."""

    most: str
    adjective: str
    did: str
    by: str  # "the largest by population"


def extreme_of(speaker: Speaker, relation: str, most: bool) -> Extreme | None:
    """Wordings of the largest or the smallest value of a relation."""
    found = value_noun(speaker, relation)
    if found is None:
        return None
    noun, timed = found
    chance, wording = speaker.chance, words_for(speaker, relation, noun)
    if timed:
        word, by = chance.choice(("latest", "most recent") if most else ("earliest",)), ""
    else:
        word = chance.choice(("highest", "largest", "greatest") if most else ("lowest", "smallest"))
        by = f"the {chance.choice(('largest', 'biggest') if most else ('smallest',))} by {noun}"
    adjectives, did = (wording.most, wording.did_most) if most else (wording.least, wording.did_least)
    return Extreme(
        f"the {word} {noun}", chance.choice(adjectives) if adjectives else "", chance.choice(did) if did else "", by
    )


def _extreme(speaker: Speaker, call: Call) -> Extreme | None:
    return extreme_of(speaker, str(call.args[1]), call.tool == "argmax")


def extreme_phrase(speaker: Speaker, call: Call) -> Phrase | None:
    inner, extreme = speaker.phrase(speaker.sources(call)[0]), _extreme(speaker, call)
    if inner is None or extreme is None:
        return None
    inner = as_many(inner)
    options = [
        (1.0, f"the one of {inner.text} with {extreme.most}"),
        (1, f"whichever of {inner.text} has {extreme.most}"),
    ]
    if extreme.adjective and inner.many:
        options.append((1.5, f"the {extreme.adjective} of {inner.text}"))
    if extreme.did:
        options.append((1, f"whichever of {inner.text} {extreme.did}"))
    found = parts(inner.text)
    if found is not None and inner.many and inner.hops < 2 and says_one(found):
        options.append((2, f"the {singular(found.head)} {found.rest} with {extreme.most}"))
        if extreme.adjective:
            options.append((2, f"the {extreme.adjective} {singular(found.head)} {found.rest}"))
    return Phrase(speaker.choose(options) or "", False, inner.kind, hops=inner.hops)


def says_one(found: PhraseParts) -> bool:
    """Whether the head can become singular while the rest stays as it is: not in "the players who play"."""
    opened = re.match(r"(?:who|that|which) (\w+)", found.rest)
    return (
        bool(found.rest) and found.head not in ("ones", "those", "all") and (not opened or opened[1] in ("the", "was"))
    )


def extreme_question(speaker: Speaker, call: Call) -> str | None:
    inner, extreme = speaker.phrase(speaker.sources(call)[0]), _extreme(speaker, call)
    if inner is None or extreme is None:
        return None
    inner, (most, adjective, did, by) = as_many(inner), extreme
    options = [
        (2.0, f"Which of {inner.text} has {most}?"),
        (1, f"Among {inner.text}, which has {most}?"),
        (0.8, f"Of {inner.text}, which one has {most}?"),
        (0.7, f"Name the one of {inner.text} with {most}."),
        (0.5, f"Out of {inner.text}, tell me the one that has {most}."),
        (1, f"Which of {inner.text} is {by}?") if by else (0, ""),
    ]
    found = parts(inner.text)
    if found is not None and inner.many and says_one(found):
        one = f"{singular(found.head)} {found.rest}"
        options.append((1.5, f"Which {one} has {most}?"))
        if adjective:
            options += [(1.5, f"What is the {adjective} {one}?"), (speaker.level, f"{adjective} {one}?")]
        if did:
            options.append((1, f"Which {one} {did}?"))
    if adjective:
        options += [
            (1.5, f"Which of {inner.text} is the {adjective}?"),
            (1, f"What is the {adjective} of {inner.text}?"),
        ]
    if did:
        options += [(2, f"Which of {inner.text} {did}?"), (0.7, f"Out of {inner.text}, which {did}?")]
    return speaker.choose(options)


# Comparisons


class Condition(NamedTuple):
    """The set that is filtered, and its condition in four forms."""

    source: int
    having: str  # "a birth date after 1980"
    clause: str  # "whose birth date is after 1980"
    did: str = ""  # "were born after 1980"
    done: str = ""  # "who were born after 1980"


def condition_of(speaker: Speaker, call: Call) -> Condition | None:
    """The condition of a filter; two filters on one relation become one. None for filters on two relations."""
    relation, comparison, value = (str(argument) for argument in call.args[1:])
    found = value_noun(speaker, relation)
    if found is None:
        return None
    noun, timed = found
    source, wording = speaker.sources(call)[0], words_for(speaker, relation, noun)
    before = speaker.plan.made_by(source)
    if before is not None and before.tool == "filter":
        pair = _between(speaker, (str(before.args[2]), str(before.args[3])), (comparison, value))
        if pair is None or before.args[1] != relation:
            return None
        found_words = _compared(speaker.sources(before)[0], noun, pair, wording if timed else None)
        if timed or not wording.verb or pair.startswith(("in ", "of ")):
            return found_words
        who = "who" if is_person(holder_kind(speaker, relation)) else "that"
        return found_words._replace(did=f"{wording.verb} {pair}", done=f"{who} {wording.verb} {pair}")
    if not timed and wording.counted and comparison in _COUNTS and speaker.chance.random() < 0.6:
        number = speaker.mark(in_words(value, speaker.chance))
        having = f"{speaker.chance.choice(_COUNTS[comparison])} {number} {wording.counted}"
        return Condition(source, having, f"that have {having}")
    mark = speaker.mark(value) if timed else amount(speaker, relation, noun, value)
    if comparison == "=":
        when = f"in {mark}"
        did = (f"{wording.did} {when}", f"{wording.done} {when}") if timed and wording.did else ("", "")
        return Condition(source, f"{_one(noun)} of {mark}", f"whose {noun} {_is(noun)} {mark}", *did)
    word = speaker.chance.choice((_LATER if timed else _MORE)[comparison])
    found_words = _compared(source, noun, f"{word} {mark}", wording if timed else None)
    than = "" if timed else bound_phrase(speaker, wording, comparison, mark)
    if not than:
        return found_words
    who = "who" if is_person(holder_kind(speaker, relation)) else "that"
    return found_words._replace(did=than, done=f"{who} {than}")


def bound_phrase(speaker: Speaker, wording: ValueWords, comparison: str, bound: str) -> str:
    """What those beyond a bound do or are: "cost more than 50 euros", "are heavier than 12 kilos"; "" for nothing."""
    options = [f"{wording.verb} {word} {bound}" for word in _AMOUNTS.get(comparison, ()) if wording.verb]
    if comparison in "<>":
        adjectives = map(comparative, wording.most if comparison == ">" else wording.least)
        told = len(bound) > 1  # with a unit
        options += [f"are {one} than {bound}" for one in adjectives if one in _WITH_AMOUNTS and (told or one in _PLAIN)]
    return speaker.chance.choice(options) if options else ""


def comparative(adjective: str) -> str:
    """
    >>> [comparative(word) for word in ("largest", "most populous", "northernmost", "first", "least populous")]
    ['larger', 'more populous', '', '', 'less populous']
    >>> [comparative(word) for word in ("best paid", "highest rated", "longest-serving", "driest", "most recent")]
    ['better paid', 'higher rated', 'longer-serving', 'drier', 'more recent']
    """
    found = re.match(r"(best|worst|most|least|farthest|furthest|\w+est)\b(.*)", adjective)
    if found is None or adjective in ("latest", "earliest", "eldest"):
        return ""
    first, rest = found[1], found[2]
    irregular = {"best": "better", "worst": "worse", "most": "more", "least": "less"}
    return irregular.get(first, f"{first[:-3]}er") + rest


def _one(noun: str) -> str:
    return noun if noun in _SUMS else a(noun)


def _is(noun: str) -> str:
    return "are" if noun in _SUMS else "is"


def of_one(did: str) -> str:
    """What one does, from what several do.

    >>> of_one("were founded"), of_one("are heavier than 3 kg"), of_one("cost over 5"), of_one("died in 1990")
    ('was founded', 'is heavier than 3 kg', 'costs over 5', 'died in 1990')
    """
    first, _, rest = did.partition(" ")
    changed = {"were": "was", "are": "is", "start": "starts"}.get(first) or (
        third(first) if first in VERBS.values() else first
    )
    return f"{changed} {rest}" if rest else changed


def _compared(source: int, noun: str, than: str, wording: ValueWords | None) -> Condition:
    """`wording` is given for times only: "founded below 5" makes no sense."""
    clause = f"whose {noun} {_is(noun)} {than.removeprefix('of ')}"
    if wording is None or not wording.did:
        return Condition(source, f"{_one(noun)} {than}", clause)
    return Condition(source, f"{_one(noun)} {than}", clause, f"{wording.did} {than}", f"{wording.done} {than}")


def _between(speaker: Speaker, one: tuple[str, str], two: tuple[str, str]) -> str | None:
    """`>= 1999` and `< 2000` are the year 1999; `>= 1800` and `<= 1805` are between the two."""
    low, high = sorted((one, two), key=lambda bound: bound[0], reverse=True)
    if (low[0], high[0]) == (">=", "<="):
        start, end = speaker.mark(low[1]), speaker.mark(high[1])
        return speaker.choose(
            [(3, f"between {start} and {end}"), (1, f"from {start} to {end}"), (0.5, f"of {start} to {end}")]
        )
    if (low[0], high[0]) != (">=", "<") or not low[1].isdigit() or not high[1].isdigit():
        return None
    first, last = int(low[1]), int(high[1]) - 1
    if first == last:
        return f"in {speaker.mark(str(first))}"
    start, end = speaker.mark(str(first)), speaker.mark(str(last))
    return speaker.choose([(1, f"between {start} and {end}"), (1, f"from {start} to {end}")])


def compared_phrase(speaker: Speaker, call: Call) -> Phrase | None:
    found = condition_of(speaker, call)
    inner = None if found is None else speaker.phrase(found.source)
    if found is None or inner is None:
        return None
    inner = as_many(inner)
    members = (
        f"those of {inner.text}" if inner.hops > 1 and inner.many else inner.text
    )  # else it describes the last noun
    options = [(1.0, f"{members} with {found.having}"), (1.2, f"{members} {found.clause}")]
    if found.done and inner.many:
        options.append((2, f"{members} {found.done}"))
    return Phrase(speaker.choose(options) or "", inner.many, inner.kind, hops=inner.hops)


def compared_question(speaker: Speaker, call: Call) -> str | None:
    found = condition_of(speaker, call)
    inner = None if found is None else speaker.phrase(found.source)
    if found is None or inner is None:
        return None
    inner, (_, having, clause, did, done) = as_many(inner), found
    have = "have" if inner.many else "has"
    did = did if inner.many else of_one(did)
    options = [
        (3.0, f"Which of {inner.text} {have} {having}?"),
        (1, f"Of {inner.text}, which {have} {having}?"),
        (0.7, f"Which of {inner.text} {'are those' if inner.many else 'is the one'} {clause}?"),
        (3, f"Which of {inner.text} {did}?") if did else (0, ""),
    ]
    if inner.hops < 2:  # else it would describe the last noun
        texts = [
            f"{inner.text} with {having}",
            f"{inner.text} {clause}",
            *([f"{inner.text} {done}"] if done and inner.many else []),
        ]
        texts = texts if done and inner.many else texts[:2]
        options += [(1, speaker.frame(Phrase(text, inner.many, inner.kind)) or "") for text in texts]
    head = parts(inner.text)
    if head is not None and head.rest and inner.many and head.head not in ("ones", "those"):
        options.append((2, f"Which {head.head} {head.rest} have {having}?"))
        if did:
            options.append((1.5, f"Which {head.head} {head.rest} {did}?"))
    return speaker.choose(options)


# Counts


def count_phrase(speaker: Speaker, call: Call) -> Phrase | None:
    inner = speaker.phrase(speaker.sources(call)[0])
    return None if inner is None else Phrase(f"the number of {inner.text}", False, "number", hops=inner.hops)


def count_question(speaker: Speaker, call: Call) -> str | None:
    number = speaker.sources(call)[0]
    counted = speaker.phrase(number)
    made = speaker.plan.made_by(number)
    if counted is None:
        return None
    counted = as_many(counted)
    options: list[tuple[float, str]] = []
    found = parts(counted.text)
    if found is not None and found.rest and counted.many and found.head not in ("ones", "those", "all"):
        described = f"{found.head} {found.rest}"
        options += [(3, f"How many {described} are there?"), (0.7, f"Count the {described}.")]
        options += [(1, f"What is the number of {described}?"), (0.7, f"number of {described}?")]
    elif counted.many:
        options += [(1, f"How many are there of {counted.text}?"), (1, f"Count {counted.text}.")]
    if made is not None and made.tool in HOPS and made.tool != "between":
        options += _how_many(speaker, made)
    return speaker.choose(options)


def _how_many(speaker: Speaker, made: Call) -> list[tuple[float, str]]:
    """ "Which films did {} direct?" as "How many films did {} direct?"; "How many children does {} have?"."""
    through = speaker.through(made)
    inner = speaker.phrase(speaker.sources(made)[0]) if through is None else through[1]
    if inner is None:
        return []
    questions, _, bare = (speaker.templates(way_of(made)) if through is None else through[0]).at(speaker.level)
    found: list[tuple[float, str]] = []
    for question in questions:
        opened = PLURAL_ASKED.match(question)
        if opened and is_plural(opened[1]) and opened[1] != "ones" and fits(question, inner):
            found.append((1.0, f"How many {fill(question, inner).split(' ', 1)[1]}"))
    for noun in bare:
        if noun.split(" ")[-1] not in UNCOUNTED:
            does = "do" if inner.many else "does"
            found.append((1.0, f"How many {plural(noun)} {does} {inner.text} have?"))
    return found
