"""How a relation's words read in a sentence: as a noun, a verb, a participle, a preposition, an event.

    read(("directed", "by"))            # Done("directed"): what is asked for did it
    read(("place", "of", "birth"))      # Noun("place of birth")

Knows words alone: no kinds of ends, no templates (see `name_sayings`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kgwalk.questions.english.inflect import base, is_participle, is_plural, plural, word_set
from kgwalk.tools.web.fact_sentences import PREPOSITIONS as COMMON_PREPOSITIONS
from kgwalk.tools.web.fact_sentences import VERBS

PREPOSITIONS = COMMON_PREPOSITIONS | {"against", "out", "since"}

_ONE_WORD = {
    "starring": "star", "containedby": "contained by", "isa": "type", "citytown": "town", "is_a": "type",
    "crewmember": "crew member", "aged": "age", "isin": "in",
}  # fmt: skip
# With the head as their subject, in the third person or the past; beside those of tools/web.
_ACTIVE = (
    VERBS
    | word_set(
        "adjoins analyzes assesses attends carries comes complicates consists depicts describes develops "
        "diagnoses disrupts employs enters exhibits expresses feeds follows governs grew helps hosts houses "
        "inhibits interacts involves issued leads left lies makes manages manufactures measures meets needs "
        "neighbors neighbours occurs operates participated participates performs possesses prevents publishes "
        "reacts regulates replaces reports represents requires resides runs sells serves signed speaks stands "
        "stars studies succeeds succeeded supplies supports surrounds targets takes teaches trades trained "
        "treats wears wins writes appears belonged belongs binds graduated emigrated married moved retired "
        "served fought dated befriended impersonated canoodled depicts indicates interconnects exported "
        "imported happens happened ended began begins ends opened opens closed specializes specialises "
        "abolishes abrogates accompanies administers assists catalyses catalyzes cites commemorates competes confers "
        "consumes cultivates deals declares defines detects dissolves distributes eats emits encloses encodes entails "
        "explains extends feels fights gives harms hunts identifies illustrates implies impounds infests invokes joins "
        "keeps knows loves maintains obsoletes observes occupies organises originates pollinates portrays practises "
        "predicts presides proposes protects provokes receives remembers repeals resembles ruptures supersedes "
        "symbolizes threatens transmits translates unlocks wields came drew gave lost ran sat stood took"
    )
) - {"featured", "starring", "starred", "can", "is", "was", "were", "has", "had"}
# Verbs where more words follow, nouns alone: `holds office`, but the "holds" of a ship; `hosted event`.
_ACTIVE_BEFORE = word_set(
    "acts adds anchors attacks bears broadcasts calls captains coaches covers dams drains edits exports extracts falls "
    "fields fits fronts funds grows heads holds honours imports issues links lists orbits passes powers presents raises "
    "reads returns rules samples signs sits sounds spreads stocks tops transports visits watches yields looks "
    "caused climbed commanded commissioned conducted dammed decided designed discovered formulated held hosted led "
    "ordered passed photographed published released shot suffered supervised triggered visited"
)
# Of plural nouns these words say more: "passes of the city", "awards in field", "calls by X".
_NOUN_GOES_ON = word_set("of in with by")
_ADVERBS = word_set("executive co mainly partially jointly officially partly originally currently formerly")
_ADJECTIVES = word_set(
    "adjacent similar together equal opposite due next close identical equivalent prior distinct different independent "
    "endemic native notable famous known guilty sacred toxic poisonous compatible responsible subject"
)
_INTRANSITIVE = {"lived": "where {} lived", "involved": "involved in {}", "located": "in {}", "died": "where {} died"}
# What is said of a thing as over and done: "was born", but "is located".
_WAS = word_set(
    "born buried killed founded created built nominated elected appointed educated discovered invented named "
    "raised published produced recorded written made introduced drafted released launched married baptized "
    "featured arrested defeated executed convicted established formed signed sent taught portrayed shown "
    "awarded honored"
)
_EVENTS = word_set(
    "abduct accede accuse acknowledge apologize appeal arrest assassinate attempt ban bring carry coerce "
    "complain conduct confiscate consider consult cooperate criticize decline declare defend defy demand "
    "demobilize demonstrate deny destroy detonate discuss ease employ engage expel express fight forgive give "
    "grant halt host impose increase investigate kill make mediate meet mobilize obstruct occupy physically "
    "praise protest provide rally receive reduce refuse reject retreat return seize sexually share sign "
    "threaten torture use veto violate yield visit attack pardon invite sue contact warn blame"
)
_WITH = word_set(
    "meet negotiate negotiation negotiations agreement cooperation cooperate relations discuss telephone "
    "economically militarily accord mediation intelligence information rally consult dispute"
)
_AGAINST = word_set(
    "force violence repression weapons bombing embargo sanctions blockade boycott strike forces power protest "
    "violently riot tanks artillery lawsuit dissent law"
)
_EVENT_PREPOSITIONS = {
    "to": word_set("make give grant provide apologize yield appeal accede"),
    "for": frozenset(("host",)),
    "from": word_set("demand receive"),
}
_TAKES_OBJECT = word_set(
    "abduct accuse arrest assassinate attack blame coerce consult contact criticize defend forgive "
    "investigate invite kill pardon physically praise reject sexually sue threaten torture veto visit warn"
)


@dataclass(frozen=True, slots=True)
class Noun:
    """The tail is the head's `noun`; with `of`, the head is the tail's."""

    noun: str
    of: bool = False
    many: bool = False


@dataclass(frozen=True, slots=True)
class Done:
    """The tail did it to the head: `directed by`. With `active`, the head did it to the tail: `films directed`."""

    participle: str
    thing: str = ""  # what it is done to, where the name says so: "films"
    active: bool = False


@dataclass(frozen=True, slots=True)
class By:
    """The head's `noun` is by the tail: `music by`."""

    noun: str


@dataclass(frozen=True, slots=True)
class Placed:
    """The head is, or was, so with regard to the tail: `born in`, `located in time zone`, `named after`."""

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
    """The tails are what the words say, with the head in the place of `{}`: `people born here`."""

    noun: str


@dataclass(frozen=True, slots=True)
class Event:
    """The head did it towards the tail: `Make a visit`."""

    verb: str
    preposition: str
    rest: str = ""  # what follows the tail: "accuse {} of crime"


Reading = Noun | Done | By | Placed | Acts | Whole | Event


def read(words: Sequence[str]) -> Reading:
    """
    >>> read(("capital",)), read(("capital", "of")), read(("has", "genre"))
    (Noun(noun='capital', of=False, many=False), Noun(noun='capital', of=True, many=False), \
Noun(noun='genre', of=False, many=False))
    >>> read(("directed", "by")), read(("works", "written"))
    (Done(participle='directed', thing='', active=False), Done(participle='written', thing='works', active=True))
    >>> read(("located", "in", "time", "zone")), read(("plays", "in", "club"))
    (Placed(participle='located', preposition='in', thing='time zone', be='is'), \
Acts(verb='plays', preposition='in', thing='club'))
    >>> read(("people", "born", "here")), read(("make", "a", "visit"))
    (Whole(noun='people born in {}'), Event(verb='make a visit', preposition='to', rest=''))
    """
    parts = list(words)
    while len(parts) > 1 and parts[0] in ("has", "have", "is", "are", "was", "were", "be", "the"):
        if parts[:2] in (["is", "a"], ["is", "an"]):
            return Noun("type") if len(parts) == 2 else read(parts[2:])
        parts = parts[1:]
    if len(parts) == 1:
        parts = _ONE_WORD.get(parts[0], parts[0]).split()
    if len(parts) > 1 and (parts[0] == "co" or (parts[0].endswith("ly") and _can_follow_adverb(parts[1]))):
        parts[:2] = [f"{parts[0]}{'-' if parts[0] == 'co' else ' '}{parts[1]}"]
    whole = _whole(parts)
    if whole is not None:
        return whole
    if parts[0].rstrip(",") in _EVENTS and parts != ["use"] and parts[1:] != ["of"]:
        return _event(parts)
    if parts[-1].endswith(" containedby"):
        return Done(f"{parts[-1].split(' ')[0]} contained")
    if parts[-1] == "by" and len(parts) > 1:
        return _by(parts[:-1])
    if _is_active(parts):
        return _acts(parts)
    if len(parts) > 2 and parts[0] in PREPOSITIONS and parts[-1] in PREPOSITIONS:  # in love with
        return Placed(" ".join(parts[:-1]), parts[-1])
    if len(parts) > 1 and parts[0] in PREPOSITIONS and parts[0] not in ("of", "by"):
        return Placed("", parts[0], " ".join(parts[1:]))
    if len(parts) > 1 and (is_participle(parts[0]) or parts[0] in _ADJECTIVES) and parts[1] in PREPOSITIONS:
        be = "was" if parts[0] in _WAS else "is"
        thing = [word for word in parts[2:] if word not in ("the", "a", "an")]
        return Placed(parts[0], parts[1], " ".join(thing), be)
    if len(parts) > 2 and is_participle(parts[-2]) and parts[-1] in PREPOSITIONS:  # countries spoken in
        be = "" if parts[-2] in _ACTIVE else "was " if parts[-2] in _WAS else "is "
        return Whole(f"{plural(' '.join(parts[:-2]))} that {{}} {be}{parts[-2]} {parts[-1]}")
    if len(parts) > 1 and is_participle(parts[-1]):
        if parts[-1] in _INTRANSITIVE:
            return Whole(f"{plural(' '.join(parts[:-1]))} {_INTRANSITIVE[parts[-1]]}")
        adverbs = [word for word in parts[:-1] if word in _ADVERBS]
        return Done(
            " ".join([*adverbs, parts[-1]]), " ".join(word for word in parts[:-1] if word not in _ADVERBS), active=True
        )
    if len(parts) > 2 and parts[:2] == ["part", "of"]:  # part of conflict
        return Placed("a part", "of", " ".join(word for word in parts[2:] if word not in ("the", "a", "an")))
    if len(parts) > 1 and parts[-1] == "of":
        return _noun(parts[:-1], of=True)
    if len(parts) == 2 and parts[1] in ("with", "to", "from", "into", "through") and _is_third_person(parts[0]):
        return _acts(parts)  # rhymes with
    if len(parts) > 1 and parts[-1] in ("in", "at", "on", "for", "to", "with"):  # participant in
        return Placed(f"{'an' if parts[0][0] in 'aeiou' else 'a'} {' '.join(parts[:-1])}", parts[-1])
    return _noun(parts)


def _is_active(parts: Sequence[str]) -> bool:
    if parts[0] == "works":  # a noun unless one works for somebody
        return len(parts) > 1 and parts[1] in PREPOSITIONS
    if parts[0] in _ACTIVE_BEFORE and len(parts) > 1:
        return parts[1] not in _NOUN_GOES_ON or parts[0] in ("acts", "sits", "falls", "sounds", "spreads")
    return parts[0].removeprefix("co-").split(" ")[-1] in _ACTIVE


def _is_third_person(word: str) -> bool:
    return word.endswith("s") and not word.endswith(("ions", "ments", "ss"))


def _can_follow_adverb(word: str) -> bool:
    """`partially contains`, `conceptually related`."""
    return is_participle(word) or word in _ACTIVE or word == "containedby"


def _noun(parts: Sequence[str], of: bool = False) -> Noun:
    text = " ".join(parts)
    head = text.split(" of ")[0].split(" ")[-1]
    return Noun(text, of, is_plural(head))


def _whole(parts: Sequence[str]) -> Whole | None:
    """`people born here`, `films in this genre`: the head is what "here" and "this" stand for."""
    if "this" in parts and parts.index("this") > 0:
        return Whole(" ".join(parts[: parts.index("this")]) + " {}")
    if parts[-1] in ("here", "there", "within") and len(parts) > 1:
        return Whole(" ".join(parts[:-1]) + " in {}")
    return None


def _by(parts: Sequence[str]) -> Reading:
    if not is_participle(parts[-1]):
        return By(" ".join(parts))
    before = [word for word in parts[:-1] if word in _ADVERBS]
    return Done(" ".join([*before, parts[-1]]))


def _acts(parts: Sequence[str]) -> Acts:
    verb, rest = parts[0], list(parts[1:])
    if rest and rest[-1] in PREPOSITIONS:
        return Acts(" ".join([verb, *rest[:-1]]), rest[-1])
    if rest and rest[0] in PREPOSITIONS:
        return Acts(verb, rest[0], " ".join(word for word in rest[1:] if word not in ("the", "a", "an")))
    return Acts(verb, "", " ".join(word for word in rest if word not in ("the", "a", "an")))


def _event(parts: Sequence[str]) -> Event:
    text = " ".join(parts).replace("(s)", "s")
    words = {word.strip(",'") for word in parts}
    if parts[-1] in PREPOSITIONS:
        return Event(" ".join(parts[:-1]), parts[-1])
    if parts[0].strip(",") in _TAKES_OBJECT:
        at = next((at for at, word in enumerate(parts) if word in ("of", "with", "by", "as")), len(parts))
        if at < len(parts) or len(parts) < 3 or "or" in parts[:3]:
            return Event(" ".join(parts[:at]), "", " ".join(parts[at:]))
        return Event(text, "of")
    for preposition, verbs in _EVENT_PREPOSITIONS.items():
        if parts[0] in verbs:
            return Event(text, preposition)
    if words & _WITH:
        return Event(text, "with")
    return Event(text, "against" if words & _AGAINST else "to" if words & {"aid", "provide"} else "towards")
