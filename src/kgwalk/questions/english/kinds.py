"""What a noun stands for: a person, a place, a time, a number, or something of its own; and how one asks for it.

    kind_of("place of birth"), asked("person")    # "place", "who"

Knows common nouns of relation names, no graph. A kind is a plain singular noun; "" is unknown.
"""

from __future__ import annotations

from kgwalk.questions.english.inflect import plural, singular, word_set

PERSON, PLACE, DATE, YEAR, NUMBER, TEXT = "person", "place", "date", "year", "number", "text"
VALUES = (DATE, YEAR, NUMBER, TEXT)
# Kinds that tell a reader nothing: one says "ones" or "what" instead.
VAGUE = frozenset({"", "thing", "agent", "object", "item", "entity", "topic", "node", "work", "subject", "concept"})

_PEOPLE = word_set(
    "actor actress artist athlete author candidate celebrity character chairperson champion child citizen "
    "coach cofounder colleague commander composer conductor creator crewmember daughter dad descendant "
    "designer developer director discoverer doctor driver editor employee father founder friend grandchild "
    "grandparent governor guardian heir host husband inhabitant inventor investigator king kid leader "
    "lyricist manager mayor member minister mom mother musician narrator neighbour nominee officeholder "
    "officer official owner painter parent participant partner performer person player poet politician "
    "president producer professor queen relative representative resident ruler scientist screenwriter "
    "secretary sibling singer sister brother son spouse star student successor predecessor supervisor teacher "
    "victim voice winner wife writer advisor adviser astronaut athlete cinematographer instrumentalist "
    "graduate inductee vacationer impressionist lyricist monarch pilot politician prisoner staff combatant "
    "contributor builder architect choreographer sculptor ambassador ancestor boyfriend girlfriend fiance "
    "lover mentor pupil rival rector laureate people personnel crew cast parents offspring"
) - {"developer", "owner", "manufacturer", "character"}
_PLACES = word_set(
    "place location birthplace city town village country state province region county district area residence "
    "hometown headquarters address continent territory settlement venue destination neighbourhood "
    "municipality island capital origin"
)
_TIMES = word_set("date day birthday time founded inception born died established")
_NUMBERS = word_set(
    "number count population height length width weight mass area age amount elevation depth distance salary "
    "price cost budget revenue income rating score votes gdp temperature capacity duration size runtime "
    "latitude longitude percentage rate volume speed density value total quantity goals pages elo wins losses"
)


def kind_of(noun: str) -> str:
    """The kind that a relation's noun leads to: of "place of birth" the head is "place", of "birth place" the last.

    >>> [kind_of(noun) for noun in ("director", "children", "place of birth", "release year", "population", "language")]
    ['person', 'person', 'place', 'year', 'number', 'language']
    """
    head = noun.split(" of ")[0].split(" ")[-1]
    one = singular(head)
    if one in _PEOPLE or head in _PEOPLE:
        return PERSON
    if one == "year":
        return YEAR
    if one in _TIMES:
        return DATE
    if one in _NUMBERS or head in _NUMBERS:
        return NUMBER
    if one in ("city", "country", "state", "county", "continent", "island", "village", "town", "province"):
        return one
    return PLACE if one in _PLACES else singular(noun.split(" of ")[0])


def is_person(kind: str) -> bool:
    """
    >>> is_person("player"), is_person("racing driver"), is_person("film"), is_person("")
    (True, True, False, False)
    """
    return kind == PERSON or (kind.split(" ")[-1] in _PEOPLE and kind != "star") or kind == "saint"


def is_place(kind: str) -> bool:
    return kind in _PLACES


def asked(kind: str) -> str:
    """The word that asks for a kind by itself.

    >>> asked("person"), asked("film"), asked("date"), asked("city")
    ('who', 'what', 'when', 'what')
    """
    if is_person(kind):
        return "who"
    return "when" if kind == DATE else "what"


def several(kind: str) -> str:
    """The plural of a kind, or "ones" where it tells nothing.

    >>> several("person"), several("thing"), several("city")
    ('people', 'ones', 'cities')
    """
    return "ones" if kind in VAGUE else plural(kind)
