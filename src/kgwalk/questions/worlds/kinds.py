"""Which kinds of the bank can stand for which in a world: a player is a person there, a thing is whatever there is.

Also which relations between things of one kind hold both ways, which lead back or forward in time, and which hold for
a time. Knows ids and
kinds of the bank, no world; tests/test_questions_worlds.py keeps the ids true.
"""

from __future__ import annotations

from kgwalk.questions.worlds.values import LITERALS
from kgwalk.questions.worlds.vocabulary import CLOSED

# Kinds that may be another kind in a world where that is there, as a wine is a food; else they stay what they are.
_ALSO: dict[str, str] = {
    "animal": "bird, livestock, parasite, host species, pest",
    "book": "play, poem, short story, manuscript",
    "building": "stadium, museum, monument, theatre, airport, place of worship, power station, station",
    "company": "newspaper, magazine, airline, bank, brand, store, restaurant, tv channel, radio station",
    "event": "battle, disaster, earthquake, expedition, holiday, revolution, storm, war, tournament",
    "food": "wine, cheese, fruit, agricultural product, commodity",
    "gene": "protein",
    "language": "dialect, constructed language",
    "material": "alloy, metal, mineral, gemstone, fabric",
    "mountain": "volcano",
    "organization": "court, legislature, library, military unit",
    "planet": "moon",
    "plant": "crop, grape variety",
    "product": "device, invention, garment, weapon",
    "software": "operating system, software package, network protocol, web browser, programming language",
    "song": "composition, album",
    "species": "taxon",
    "vehicle": "aircraft, ship, spacecraft, rocket",
}
# A wide kind, and the narrower ones that it may be in a world: one of them, in any case.
NARROWER: dict[str, tuple[str, ...]] = {
    "player": ("person",),
    "racing driver": ("person",),
    "saint": ("person",),
    "agent": ("person", "company"),
    "creator": ("person",),
    "owner": ("person", "company"),
    "namesake": ("person", "deity", "city"),
    "place": ("city", "country", "region"),
    "region": ("country", "region"),
    "group": ("organization", "band", "political party", "team"),
    "organization": ("company", "university", "team", "organization"),
    "work": ("film", "book", "song", "painting", "tv series"),
    "species": ("animal", "plant", "species"),
    "drink": ("food", "drink"),
    "dish": ("food", "dish"),
    "celestial body": ("star", "planet"),
    "material": ("chemical", "material"),
    "term": ("word",),
} | {kind: (kind, also) for also, kinds in _ALSO.items() for kind in kinds.split(", ")}
_NOT_THINGS = frozenset({*LITERALS, *CLOSED, "word", "letter", "class", "property", "purpose", "symbol", "given name"})


def _ids(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Whoever is married to someone has that someone for a spouse.
SYMMETRIC = _ids(
    """business-company-competitor character-enemy food-pairs-with gene-ortholog gene-protein-interaction
    generic-related-to generic-near generic-synonym generic-antonym generic-similar-to generic-different-from
    kinship-spouse kinship-ex-spouse kinship-partner kinship-fiance kinship-sibling kinship-twin kinship-half-sibling
    kinship-cousin kinship-relative medicine-drug-interaction paper-coauthor person-friend person-rival
    physics-antiparticle place-country-border place-city-twin religion-deity-consort religion-deity-equivalent
    software-alternative-to transport-station-adjacent word-rhymes-with word-homophone word-derived-form
    word-translation product-bought-with"""
)
# Tails that come after their heads; in other relations of one kind they come before: parents, causes, what is cited.
LATER = _ids(
    """kinship-son kinship-daughter kinship-nephew kinship-niece book-next film-sequel generic-replaced-by
    politics-officeholder-successor technology-device-successor time-before generic-causes character-sidekick
    character-pet"""
)


# What holds from some day to another, and what happens on a day.
LASTS = _ids(
    """person-employer person-residence person-member-of person-party person-alma-mater politics-person-office
    politics-party-leader politics-city-mayor politics-region-governor politics-organization-secretary
    politics-minister-cabinet politics-party-coalition politics-politician-constituency country-head-of-state
    country-head-of-government country-membership country-ambassador business-company-ceo business-company-owner
    business-company-board-member business-company-parent business-company-headquarters education-university-rector
    education-scholar-teaches-at sport-player-team sport-player-national-team sport-player-position sport-team-coach
    sport-team-captain sport-team-league sport-team-stadium sport-racer-team music-band-member music-lead-singer
    music-drummer music-artist-label music-conductor media-editor-in-chief media-newspaper-owner media-journalist-for
    media-channel-owner media-podcast-host media-news-anchor tv-presenter tv-cast tv-judge tv-network
    building-museum-director building-owner building-occupant military-unit-commander military-unit-garrison
    fashion-house-creative-director fashion-model-agency law-person-prison event-person-ruled transport-ship-captain
    transport-ship-home-port transport-airline-hub transport-airline-alliance transport-rail-line-operator
    software-maintainer religion-diocese-bishop art-owner art-museum internet-website-owner food-restaurant-chef
    generic-owned-by generic-managed-by generic-member-of generic-sponsor economy-index-constituent kinship-guardian
    energy-plant-operator material-mine-operator astronomy-spacecraft-operator paper-journal-editor"""
)
HAPPENS = _ids(
    """award-recipient award-nominee award-film-won education-person-degree sport-athlete-medal-event
    sport-player-drafted-by law-person-convicted-of business-company-acquired-by military-battle-commander
    environment-storm-landfall theatre-original-cast tv-guest-star"""
)


def fitting(kind: str, there: list[str]) -> list[str]:
    """The kinds that a kind of the bank may be in a world that has these kinds, `there`; itself if nothing fits.

    >>> fitting("player", ["film", "person"]), fitting("thing", ["film", "year"]), fitting("city", ["film"])
    (['person'], ['film'], ['city'])
    """
    if kind == "thing":
        return [one for one in there if one not in _NOT_THINGS] or ["product"]
    narrower = NARROWER.get(kind, (kind,))
    return [one for one in there if one in narrower] or [narrower[0]]


def wider(kind: str) -> list[str]:
    """The kinds of the bank that may be this kind in a world.

    >>> wider("mountain"), wider("month")
    (['mountain', 'volcano', 'thing'], ['month'])
    """
    wide = [one for one, narrower in NARROWER.items() if kind in narrower and one != kind]
    return [kind, *wide, *(() if kind in _NOT_THINGS else ("thing",))]
