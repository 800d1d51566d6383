"""How the words of a relation's name read in a sentence: as a noun, a verb, a participle, a preposition or an event.

    read(("directed", "by"))            # DoneTo("directed"): the tail did it to the head
    read(("place", "of", "birth"))      # Noun("place of birth")

Only the words are looked at. `lexicon.name_templates` makes templates from a reading and the kinds of the two ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kgwalk.questions.wording.english import (
    DATE,
    NUMBER,
    PERSON,
    YEAR,
    base,
    is_participle,
    is_place,
    is_plural,
    kind_of,
    plural,
    word_set,
)
from kgwalk.questions.wording.relation_names import (
    ACTIVE,
    ACTIVE_BEFORE,
    ADJECTIVES,
    ADVERBS,
    AGAINST,
    ALSO_NOUNS,
    ATTRIBUTE_SIZES,
    ATTRIBUTES,
    BEFORE_PREPOSITIONS,
    BEING,
    DONE_THERE,
    DONE_TO_PEOPLE,
    EVENT_PREPOSITIONS,
    EVENTS,
    HAD_THERE,
    INTRANSITIVE,
    MOSTLY_VERBS,
    NOUN_GOES_ON,
    ONE_WORD,
    PREPOSITION_PAIRS,
    SOMEBODY,
    TAKES_OBJECT,
    VERB_PAIRS,
    WAS,
    WITH,
)
from kgwalk.walk.web.graph_corpus import PREPOSITIONS as COMMON_PREPOSITIONS

VERBS_END = ("lizes", "nizes", "rizes", "tizes", "ifies")
SPANS = word_set("seconds minutes hours days weeks months years")
PREPOSITIONS = COMMON_PREPOSITIONS | {"against", "among", "out", "since"}


@dataclass(frozen=True, slots=True)
class Noun:
    """The tail is the head's `noun`; with `of`, the head is the tail's: `capital of`."""

    noun: str
    of: bool = False
    many: bool = False


@dataclass(frozen=True, slots=True)
class DoneTo:
    """The tail did it to the head: `directed by`. With `active`, the head did it to the tail: `films directed`."""

    participle: str
    thing: str = ""  # what it is done to, where the name says so: "films"
    active: bool = False


@dataclass(frozen=True, slots=True)
class By:
    """The head's `noun` is by the tail: `music by`."""

    noun: str


@dataclass(frozen=True, slots=True)
class PlacedIn:
    """What the head is or was in relation to the tail: `born in`, `located in time zone`, `named after`."""

    participle: str  # "" for a preposition alone: `in language`
    preposition: str
    thing: str = ""
    be: str = "is"


@dataclass(frozen=True, slots=True)
class Acts:
    """The head does it to the tail: `borders`, `plays in club`, `acted in`."""

    verb: str
    preposition: str = ""
    thing: str = ""

    @property
    def past(self) -> bool:
        first = self.verb.partition("ly ")[2].split(" ")[0] or self.verb.split(" ")[0]
        return base(first) + "s" != first and not first.endswith("s")


@dataclass(frozen=True, slots=True)
class Whole:
    """The words describe the tails, with the head in the place of `{}`: `people born here`."""

    noun: str


@dataclass(frozen=True, slots=True)
class Event:
    """The head did it towards the tail: `Make a visit`."""

    verb: str
    preposition: str
    rest: str = ""  # what follows the tail: "accuse {} of crime"


Reading = Noun | DoneTo | By | PlacedIn | Acts | Whole | Event


def read(words: Sequence[str]) -> Reading:
    """The reading of a relation's words.

    >>> read(("capital",)), read(("capital", "of")), read(("has", "genre"))
    (Noun(noun='capital', of=False, many=False), Noun(noun='capital', of=True, many=False), \
Noun(noun='genre', of=False, many=False))
    >>> read(("directed", "by")), read(("works", "written"))
    (DoneTo(participle='directed', thing='', active=False), DoneTo(participle='written', thing='works', active=True))
    >>> read(("located", "in", "time", "zone")), read(("plays", "in", "club"))
    (PlacedIn(participle='located', preposition='in', thing='time zone', be='is'), \
Acts(verb='plays', preposition='in', thing='club'))
    >>> read(("people", "born", "here")), read(("make", "a", "visit"))
    (Whole(noun='people born in {}'), Event(verb='make a visit', preposition='to', rest=''))
    """
    parts = list(words)
    passive = len(parts) > 2 and parts[0] in ("is", "are", "was", "were") and is_participle(parts[1])
    if passive and parts[2] in PREPOSITIONS - {"by"}:  # `is produced at`, where `produced` alone could be active
        return _placed(parts[1:])
    while len(parts) > 1 and parts[0] in ("has", "have", "is", "are", "was", "were", "be", "the"):
        if parts[:2] in (["is", "a"], ["is", "an"]):
            return Noun("type") if len(parts) == 2 else read(parts[2:])
        parts = parts[1:]
    if len(parts) == 1:
        parts = ONE_WORD.get(parts[0], parts[0]).split()
    if len(parts) > 1 and (parts[0] == "co" or (parts[0].endswith("ly") and _can_follow_adverb(parts[1]))):
        parts[:2] = [f"{parts[0]}{'-' if parts[0] == 'co' else ' '}{parts[1]}"]
    had = words[0] in ("has", "have")
    return _as_clause(parts) or _as_state(parts) or _as_participle(parts) or _as_preposition(parts, had) or _noun(parts)


def _as_clause(parts: list[str]) -> Reading | None:
    """What is done, by whom and to whom: `people born here`, `make a visit`, `directed by`, `plays in club`."""
    whole = _whole(parts)
    if whole is not None:
        return whole
    if parts[0].rstrip(",") in EVENTS and parts != ["use"] and parts[1:] != ["of"] and not _is_compound(parts):
        return _event(parts)
    if parts[-1].endswith(" containedby"):
        return DoneTo(f"{parts[-1].split(' ')[0]} contained")
    if parts[-1] == "by" and len(parts) > 1:
        return _by(parts[:-1])
    if len(parts) > 1 and parts[0] in DONE_THERE and parts[1] in ("in", "at", "on", "near"):
        return _placed(parts)
    return _acts(parts) if _is_active(parts) else None


def _as_state(parts: list[str]) -> Reading | None:
    """What the head is in relation to the tail: `in love with`, `on call`, `in language`, `located in`."""
    if len(parts) > 2 and parts[0] in PREPOSITIONS and parts[-1] in PREPOSITIONS:  # in love with
        return PlacedIn(" ".join(parts[:-1]), parts[-1])
    being = " ".join(parts[:2])
    if being in BEING:  # on call, on call team
        return PlacedIn(being, BEING[being]) if len(parts) == 2 else _noun([being.replace(" ", "-"), *parts[2:]])
    if len(parts) > 1 and parts[0] in PREPOSITIONS and parts[0] not in ("of", "by"):
        return PlacedIn("", parts[0], " ".join(parts[1:]))
    return _placed(parts) if len(parts) > 1 and parts[1] in PREPOSITIONS and _is_so(parts) else None


def _as_participle(parts: list[str]) -> Reading | None:
    """A noun and what was done: `countries spoken in`, `works written`, `place founded`."""
    if len(parts) > 2 and is_participle(parts[-2]) and parts[-1] in PREPOSITIONS:  # countries spoken in
        be = "" if parts[-2] in ACTIVE else "was " if parts[-2] in WAS else "is "
        return Whole(f"{plural(' '.join(parts[:-2]))} that {{}} {be}{parts[-2]} {parts[-1]}")
    if len(parts) > 1 and parts[-1] == "used" and is_place(kind_of(parts[0])):
        return Whole(f"{parts[0]} that {' '.join(parts[1:])} {{}}")  # the countries used the currency, not it them
    if len(parts) < 2 or not _is_done(parts[-1]):
        return None
    if len(parts) == 2 and parts[0] in ("place", "location", "city", "year", "date"):  # `place founded`
        return PlacedIn(parts[1], "on" if parts[0] == "date" else "in", parts[0], "was")
    if parts[-1] in INTRANSITIVE:
        return Whole(f"{plural(' '.join(parts[:-1]))} {INTRANSITIVE[parts[-1]]}")
    adverbs = [word for word in parts[:-1] if word in ADVERBS]
    return DoneTo(
        " ".join([*adverbs, parts[-1]]), " ".join(word for word in parts[:-1] if word not in ADVERBS), active=True
    )


def _as_preposition(parts: list[str], had: bool) -> Reading | None:
    """A noun with a preposition: `part of conflict`, `capital of`, `hospitals in`, `participant in`.

    `had` is whether the name says that the head has it: `has offices in`.
    """
    if len(parts) > 2 and parts[:2] == ["part", "of"]:  # part of conflict
        return PlacedIn("a part", "of", " ".join(word for word in parts[2:] if word not in ("the", "a", "an")))
    if len(parts) > 2 and parts[:2] == ["member", "of"]:  # member of union
        return _noun(["member"], of=True)
    if len(parts) > 1 and parts[-1] == "of":
        return _noun(parts[:-1], of=True)
    if len(parts) > 1 and parts[-1] in PREPOSITIONS - {"of", "by", "as"} and PREPOSITIONS.isdisjoint(parts[:-1]):
        verb = _is_third_person(*parts[-2:])
        if verb and len(parts) == 2:
            return _acts(parts)  # rhymes with, hikes in
        if is_plural(parts[-2]) and not verb and parts[-2] not in ACTIVE:
            return _several_there(parts[:-1], parts[-1], had=had)
    if len(parts) > 1 and parts[-1] in ("in", "at", "on", "for", "to", "with"):  # participant in
        return PlacedIn(f"{'an' if parts[0][0] in 'aeiou' else 'a'} {' '.join(parts[:-1])}", parts[-1])
    return None


def _placed(parts: Sequence[str]) -> PlacedIn:
    be = "was" if parts[0] in WAS | DONE_THERE else "is"
    thing = [word for word in parts[2:] if word not in ("the", "a", "an")]
    return PlacedIn(parts[0], parts[1], " ".join(thing), be)


def _is_active(parts: Sequence[str]) -> bool:
    if parts[0] == "works":  # a noun unless one works for somebody
        return len(parts) > 1 and parts[1] in PREPOSITIONS
    if parts[0] in ACTIVE_BEFORE and len(parts) > 1:
        if not parts[0].endswith("s"):
            return parts[1] not in PREPOSITIONS  # `held in` is no `held office`
        if (len(parts) == 2 or parts[2] in PREPOSITIONS) and is_participle(parts[1]):
            return False  # `tests passed`, `ships launched in`
        if _is_attribute(parts):
            return False
        return parts[1] not in NOUN_GOES_ON or parts[0] in ("acts", "sits", "falls", "sounds", "spreads")
    return parts[0].removeprefix("co-").split(" ")[-1] in ACTIVE


def _is_done(word: str) -> bool:
    return is_participle(word) or word == "used"


def _is_so(parts: Sequence[str]) -> bool:
    """Whether the word before a preposition describes the head: `located in`, `similar to`, `toxic for`.

    >>> [_is_so(text.split()) for text in ("written in", "victorious in", "used for", "used to treat", "next in row")]
    [True, True, True, False, False]
    """
    first, preposition = parts[:2]
    if first in ("next", "previous") and preposition == "in":  # the one that follows in the series
        return False
    if first in ("used", "set"):
        return preposition != "of" and (len(parts) == 2 or preposition not in ("to", "as"))
    return is_participle(first) or first in ADJECTIVES or first.endswith("ous") or parts == ["friends", "with"]


def _is_compound(parts: Sequence[str]) -> bool:
    """Whether it is two nouns, though the first could be a verb: `contact category`, `host city`."""
    return len(parts) == 2 and parts[0] in ALSO_NOUNS and parts[1] not in PREPOSITIONS


def _is_attribute(parts: Sequence[str]) -> bool:
    """Whether a first word that could be a verb is a plural noun, followed by something that it has.

    >>> names = "orders status", "orders total price", "programs director", "monitors service", "mentors student"
    >>> [_is_attribute(name.split()) for name in names]
    [True, True, True, False, False]
    """
    first, *rest = parts
    if len(rest) == 2 and rest[0] in ATTRIBUTE_SIZES:
        rest = rest[1:]
    if len(rest) != 1 or is_plural(rest[0]) or first in MOSTLY_VERBS or f"{first} {rest[0]}" in VERB_PAIRS:
        return False
    kind = kind_of(rest[0])
    if kind == PERSON or rest[0] in SOMEBODY:
        return first not in DONE_TO_PEOPLE
    return rest[0] in ATTRIBUTES or kind in (NUMBER, DATE, YEAR)


def _is_third_person(word: str, preposition: str) -> bool:
    """Whether a word before a preposition is known to be a verb.

    >>> names = "rhymes with", "hikes in", "partners with", "crystallizes in", "partners in", "cities in", "deaths in"
    >>> [_is_third_person(*name.split()) for name in names]
    [True, True, True, True, False, False, False]
    """
    return word in BEFORE_PREPOSITIONS or word.endswith(VERBS_END) or (word, preposition) in PREPOSITION_PAIRS


def _several_there(nouns: Sequence[str], preposition: str, *, had: bool = False) -> Reading:
    """The reading of a plural noun before a preposition; `had` where the name says that the head has them.

    >>> _several_there(["hospitals"], "in"), _several_there(["side", "effects"], "on")
    (Whole(noun='hospitals in {}'), Acts(verb='has side effects', preposition='on', thing=''))
    """
    noun = " ".join(nouns)
    return Acts(f"has {noun}", preposition) if had or nouns[-1] in HAD_THERE else Whole(f"{noun} {preposition} {{}}")


def _can_follow_adverb(word: str) -> bool:
    """Whether a word may follow an adverb: `partially contains`, `conceptually related`."""
    return is_participle(word) or word in ACTIVE or word == "containedby"


def _noun(parts: Sequence[str], of: bool = False) -> Noun:
    text = " ".join(parts)
    head = text.split(" of ")[0].split(" ")[-1]
    return Noun(text, of, is_plural(head))


def _whole(parts: Sequence[str]) -> Whole | None:
    """`people born here`, `films in this genre`: "here" and "this genre" stand for the head."""
    if "this" in parts and parts.index("this") > 0:
        return Whole(" ".join(parts[: parts.index("this")]) + " {}")
    if parts[-1] in ("here", "there", "within") and len(parts) > 1:
        return Whole(" ".join(parts[:-1]) + " in {}")
    return None


def _by(parts: Sequence[str]) -> Reading:
    if not _is_done(parts[-1]):
        return By(" ".join(parts))
    before = [word for word in parts[:-1] if word in ADVERBS]
    return DoneTo(" ".join([*before, parts[-1]]))


def _acts(parts: Sequence[str]) -> Acts:
    verb, rest = parts[0], list(parts[1:])
    if rest and rest[-1] in PREPOSITIONS:
        return Acts(" ".join([verb, *rest[:-1]]), rest[-1])
    if rest and rest[0] in PREPOSITIONS:
        thing = " ".join(word for word in rest[1:] if word not in ("the", "a", "an"))
        return Acts(verb, rest[0], f"number of {thing}" if thing in SPANS else thing)  # expires in days
    return Acts(verb, "", " ".join(word for word in rest if word not in ("the", "a", "an")))


def _event(parts: Sequence[str]) -> Event:
    text = " ".join(parts).replace("(s)", "s")
    words = {word.strip(",'") for word in parts}
    if parts[-1] in PREPOSITIONS:
        return Event(" ".join(parts[:-1]), parts[-1])
    if parts[0].strip(",") in TAKES_OBJECT:
        at = next((at for at, word in enumerate(parts) if word in ("of", "with", "by", "as")), len(parts))
        if at < len(parts) or len(parts) < 3 or "or" in parts[:3]:
            return Event(" ".join(parts[:at]), "", " ".join(parts[at:]))
        return Event(text, "of")
    for preposition, verbs in EVENT_PREPOSITIONS.items():
        if parts[0] in verbs:
            return Event(text, preposition)
    if words & WITH:
        return Event(text, "with")
    return Event(text, "against" if words & AGAINST else "to" if words & {"aid", "provide"} else "towards")
