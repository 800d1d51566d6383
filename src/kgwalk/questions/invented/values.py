"""Values of an invented graph, and how the kinds of the bank fit together in it.

    ValueStyle.of(chance).value(birthdate, Span(1950, 2010), chance)     # '1950-04-17'

Values look right for their concept. An entity has a span of years: what begins with it comes early in the span, what
ends with it late, so that nobody dies before being born. The tables of kinds and concepts are kept in step with the
bank by tests/questions/test_invented.py.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from kgwalk.questions.bank import Concept
from kgwalk.questions.invented import words
from kgwalk.questions.invented.names import fill_pattern
from kgwalk.questions.invented.words import CLOSED_KINDS, PHONOLOGIES

LITERALS = ("year", "date", "number", "text")
# Words of a concept's id that place its date at the end of a span; other dates are at the beginning.
_ENDS = (
    *("end", "deathdate", "last", "split", "extinct", "eruption", "deadline"),
    *("shipped", "due", "arrived", "resolved", "returned", "checkout", "expires", "closed"),
)
# What a company keeps records of is of recent years: the first year of each kind, and how many years there are.
_RECENT: dict[str, tuple[int, int]] = {
    kind: years
    for kinds, years in (
        ("order, order line, invoice, shipment, trip, flight, ticket, booking, visit, loan, task, project", (2015, 10)),
        ("enrolment, exam, port call, issue, commit, package release, reading, alarm, inspection, rental", (2016, 9)),
        ("prescription, appointment, admission, review, viewer rating, work shift, certificate, permit", (2016, 9)),
        ("grant, contract, membership, sensor, appearance, transfer, candidacy", (2008, 17)),
        ("vehicle, meter, match, court case", (2001, 24)),
        ("employee", (1958, 42)),
        ("software, software package", (1984, 41)),
        ("customer, patient, student, driver", (1950, 55)),
    )
    for kind in kinds.split(", ")
}
_SINCE_BIRTH = {"hired": 19}  # years after the first one, at least
_NO_YEAR = ("national", "holiday", "feast")  # days of every year
_MONTHS = words.CLOSED_KINDS["month"]

_DEGREES = {"latitude": (-56.0, 71.0), "longitude": (-180.0, 180.0)}  # where people live; spread evenly
# Smallest and largest value and decimals, for words of a concept's id, before which the kind of the head may stand;
# spread evenly over orders of magnitude.
_RANGES: dict[str, tuple[float, float, int]] = {
    "lifespan": (1, 120, 0),
    "gestation": (12, 660, 0),
    "speed": (5, 350, 0),
    "orbital": (20, 90_000, 1),
    "distance": (4, 9_000, 1),
    "diameter": (2, 140_000, 0),
    "money": (500, 3_000_000, 0),
    "pages": (40, 1_400, 0),
    "floors": (2, 160, 0),
    "capacity": (400, 90_000, 0),
    "revenue": (100_000, 90_000_000_000, 0),
    "employees": (3, 400_000, 0),
    "atomic": (1, 130, 0),
    "point": (20, 3_500, 1),
    "calling": (20, 999, 0),
    "size": (100, 50_000_000, 0),
    "gdp": (1_000_000, 900_000_000_000, 0),
    "unemployment": (1, 30, 1),
    "students": (200, 60_000, 0),
    "magnitude": (3, 9.5, 1),
    "high": (15, 55, 1),
    "rainfall": (20, 4_000, 0),
    "deaths": (2, 90_000, 0),
    "casualties": (30, 200_000, 0),
    "runtime": (61, 240, 0),
    "office": (20_000, 2_000_000_000, 0),
    "budget": (10_000, 300_000_000, 0),
    "score": (1.5, 9.9, 1),
    "calories": (10, 900, 0),
    "alcohol": (3, 60, 1),
    "min": (1, 8, 0),
    "port": (20, 65_000, 0),
    "count": (1, 30, 0),
    "speakers": (200, 400_000_000, 0),
    "hardness": (1, 10, 1),
    "density": (0.5, 22, 2),
    "sides": (3, 24, 0),
    "constant": (0.1, 30, 4),
    "circulation": (900, 2_000_000, 0),
    "incubation": (1, 60, 0),
    "worth": (100_000, 90_000_000_000, 0),
    "charge": (1, 9, 2),
    "population": (300, 20_000_000, 0),
    "area": (5, 900_000, 0),
    "length": (4, 6_800, 0),
    "depth": (3, 1_600, 0),
    "turnout": (20, 99, 1),
    "seats": (20, 700, 0),
    "price": (2, 5_000, 2),
    "warranty": (6, 120, 0),
    "number": (1, 99, 0),
    "goals": (1, 400, 0),
    "acts": (1, 5, 0),
    "days": (28, 31, 0),
    "duration": (1, 2_000, 0),
    "conversion": (0.01, 5_000, 3),
    "citation": (1, 30_000, 0),
    "total": (15, 90_000, 2),
    "amount": (15, 90_000, 2),
    "quantity": (1, 500, 0),
    "discount": (1, 40, 0),
    "credit": (500, 250_000, 0),
    "weight": (0.2, 900, 1),
    "stock": (1, 4_000, 0),
    "reorder": (5, 500, 0),
    "cost": (0.5, 2_500, 2),
    "rating": (1.2, 5, 1),
    "time": (1, 90, 0),
    "delay": (1, 320, 0),
    "mileage": (900, 420_000, 0),
    "elevation": (1, 4_300, 0),
    "salary": (19_000, 240_000, 0),
    "estimate": (1, 120, 0),
    "trip distance": (3, 1_800, 0),
    "flight distance": (120, 9_000, 0),
    "vehicle seats": (2, 90, 0),
    "product weight": (0.1, 60, 2),
    "shipment weight": (2, 9_000, 0),
    "patient weight": (38, 140, 1),
    "rent": (280, 6_000, 0),
    "property price": (60_000, 3_000_000, 0),
    "property area": (18, 420, 0),
    "property rooms": (1, 12, 0),
    "hotel rooms": (8, 900, 0),
    "hotel price": (35, 900, 0),
    "hotel stars": (1, 5, 0),
    "stars": (3, 90_000, 0),
    "nights": (1, 21, 0),
    "software package size": (12, 900_000, 0),
    "downloads": (10, 90_000_000, 0),
    "code": (90, 4_000_000, 0),
    "gpa": (1, 4, 2),
    "credits": (1, 15, 0),
    "dose": (1, 1_500, 0),
    "life": (0.3, 90, 1),
    "damages": (1_000, 9_000_000, 0),
    "mass": (18, 900, 2),
    "temperature": (77, 600, 1),
    "reading": (100, 90_000, 0),
    "farm area": (3, 2_500, 0),
    "yield": (0.5, 90, 1),
    "attendance": (60, 80_000, 0),
    "points": (3, 110, 0),
    "servings": (1, 12, 0),
    "dish time": (5, 180, 0),
    "insured": (2_000, 40_000_000, 0),
    "enrolment grade": (31, 100, 0),
    "student year": (1, 13, 0),
    "exam duration": (30, 240, 0),
    "tonnes": (40, 90_000, 0),
    "ship length": (18, 400, 0),
    "berths": (2, 60, 0),
    "line stop number": (1, 40, 0),
    "transit line length": (3, 90, 1),
    "comments": (1, 180, 0),
    "lines": (1, 5_000, 0),
    "package release size": (8, 90_000, 0),
    "reading value": (0.2, 900, 1),
    "power": (0.5, 900, 1),
    "grant amount": (5_000, 4_000_000, 0),
    "contract amount": (2_000, 9_000_000, 0),
    "votes": (40, 900_000, 0),
    "fee": (15, 900, 0),
    "admission days": (1, 40, 0),
    "beds": (4, 60, 0),
    "review score": (1, 5, 0),
    "viewer rating points": (1, 10, 0),
    "rental price": (30, 2_500, 2),
    "bank account amount": (5, 250_000, 2),
    "air route distance": (120, 14_000, 0),
    "weekly": (1, 70, 0),
    "plane model seats": (19, 520, 0),
    "hours": (3, 12, 0),
    "minutes": (1, 90, 0),
    "transfer price": (50_000, 90_000_000, 0),
    "grams": (2, 1_500, 0),
    "copies": (1, 40, 0),
}
_HEIGHTS = {"person": (1.4, 2.2, 2), "building": (9, 800, 0), "plant": (0.1, 90, 1), "mountain": (300, 8_900, 0)}
_ANY = (1.0, 1_000_000.0, 0)

# What numbers are counted in, by the same words; money has a currency, which each graph chooses.
MONEY = "money"
_MONEY = frozenset(
    (
        "money",
        "price",
        "cost",
        "revenue",
        "budget",
        "worth",
        "gdp",
        "office",
        "salary",
        "total",
        "amount",
        "credit",
        "rent",
    )
) | {"damages", "insured", "fee"}
_UNITS = {
    "height": "metre", "depth": "metre", "elevation": "metre", "length": "kilometre", "diameter": "kilometre",
    "star distance": "light year", "trip distance": "kilometre", "flight distance": "mile", "mileage": "kilometre",
    "area": "square kilometre", "farm area": "hectare", "property area": "square metre", "speed": "kilometre per hour",
    "weight": "kilogram", "mass": "gram per mole", "density": "gram per cubic centimetre", "dose": "milligram",
    "runtime": "minute", "delay": "minute", "dish time": "minute", "duration": "minute", "estimate": "hour",
    "ticket time": "hour", "life": "hour", "part time": "day", "gestation": "day", "incubation": "day",
    "warranty": "month", "lifespan": "year", "point": "degree Celsius", "high": "degree Celsius",
    "temperature": "kelvin", "rainfall": "millimetre", "reading": "kilowatt hour", "power station capacity": "megawatt",
    "warehouse capacity": "pallet", "software package size": "kilobyte", "discount": "percent", "turnout": "percent",
    "ship length": "metre", "exam duration": "minute", "tonnes": "tonne", "power": "kilowatt", "hours": "hour",
    "air route distance": "kilometre", "package release size": "kilobyte", "admission days": "day",
    "minutes": "minute", "grams": "gram", "unemployment": "percent", "alcohol": "percent", "yield": "tonne per hectare",
}  # fmt: skip

_TEXTS: dict[str, tuple[str, ...]] = {
    "gender": ("male", "female"),
    "driving": ("left", "right"),
    "frequency": ("daily", "weekly", "monthly", "quarterly", "twice a year", "yearly", "every two weeks"),
}
_TEXT_PATTERNS: dict[str, tuple[str, ...]] = {
    "scientific": ("{Word} {word}", "{Word} {word}us", "{Word}a {word}is"),
    "isbn": ("978-{two}-{two}{two}{two}-{two}-{two}", "ISBN {two}{two}-{two}{two}{two}"),
    "doi": ("10.{two}{two}/{code}.{two}", "10.{two}{two}/{word}.{year}.{two}"),
    "code": ("{CODE}",),
    "symbol": ("{cap}{word}", "{CODE}"),
    "formula": ("C{two}H{two}", "{cap}2O{two}", "Na{cap}{two}", "C{two}H{two}N{two}O{two}"),
    "domain": (".{word}",),
    "extension": (".{word}",),
    "version": ("v{two}.{two}", "{two}.{two}.{two}", "{year}.{two}"),
    "offset": ("UTC+{two}:00", "UTC-{two}:30"),
    "hours": ("{two}:00 to {two}:30", "Monday to Friday, {two}:00"),
    "definition": ("a {adj} kind of {noun}", "to {noun} like a {noun}", "the {adj} part of a {noun}"),
    "example": ("the {noun} was {adj} and {word}", "she saw a {word} {noun}", "they {noun} the {word} at {Place}"),
    "motto": ("{Verb} and {Verb}", "{Noun}, {Noun}, {Noun}", "{Adj} in {Noun}", "One {Noun}, one {Noun}"),
    "slogan": ("{Verb} {adj}", "{Verb} the {noun}", "The {adj} {noun} company", "Always {adj}"),
    "demonym": ("{Word}ian", "{Word}er", "{Word}ese"),
    "name": ("{Place}", "Old {Place}", "{Word}"),
    "nickname": ("The {Adj} City", "City of {Nouns}", "The {Noun} of the {Noun}"),
    "email": ("{word}@{word}.com", "{word}.{word}@{word}.org", "{cap}{two}{word}@{noun}{noun}.net"),
    "phone": ("+{two} {two} {four} {two}", "0{two}-{four}{two}", "({two}{two}) {four}", "ext. {two}{two}"),
    "sku": ("{CODE}-{two}{two}", "{CODE}{four}", "{four}-{CODE}"),
    "address": ("{two} {Noun} Street, {Place}", "{family} Road {two}", "{two}b {Place} Lane", "{Word}weg {two}"),
    "inventory": ("{CODE}.{year}.{two}", "Inv. {four}", "{cap}{two}{two}/{two}"),
    "plate": ("{CODE} {four}", "{two}-{CODE}-{two}", "{cap} {CODE} {two}"),
    "alias": ("{Word}", "{Adj} {Noun}", "{Word} {Word}", "{CODE}"),
}


@dataclass(frozen=True, slots=True)
class Span:
    """The years from when a thing begins to when it ends."""

    first: int
    last: int


def random_span(chance: random.Random, latest: int = 2024) -> Span:
    """A random span that ends by the latest year; recent ones are likelier."""
    first = latest - 5 - int(abs(chance.gauss(0, 1)) * 60) - chance.randrange(20)
    return Span(first, chance.randint(first + 3, min(latest, first + 90)))


@dataclass(frozen=True)
class ValueStyle:
    """How one invented graph writes its values."""

    commas: bool  # 1,234,567
    dates: str  # "day", "month" or "year": how exact its dates are

    @classmethod
    def of(cls, chance: random.Random) -> ValueStyle:
        return cls(chance.random() < 0.15, chance.choices(("day", "month", "year"), (8, 1, 1))[0])

    def value(self, concept: Concept, span: Span, chance: random.Random) -> str:
        """A value of this concept for an entity of this span."""
        words = concept.id.split("-")
        if concept.tail == "number":
            return self._number(words, concept.head, chance)
        if concept.tail == "text":
            return _text(words, chance)
        if any(word in words for word in _NO_YEAR):
            return f"{chance.randrange(1, 29)} {chance.choice(_MONTHS)}"
        span = _recent(span, concept.head, words)
        year = span.last if any(word in words for word in _ENDS) else span.first
        if concept.tail == "year" or self.dates == "year":
            return str(year)
        # the end is in the later half of its year, so that an entity of one year ends after it begins
        late = year == span.last and any(word in words for word in _ENDS)
        month = chance.randrange(7, 13) if late else chance.randrange(1, 7)
        return f"{year}-{month:02}" if self.dates == "month" else f"{year}-{month:02}-{chance.randrange(1, 29):02}"

    def term(self, span: Span, chance: random.Random) -> dict[str, str]:
        """The start, end and date of something within this span: a term of office, a part in a play."""
        first = chance.randint(span.first, max(span.first, span.last - 1))
        last = chance.randint(first, span.last)
        return {
            "start": self._day(first, 1, chance),
            "end": self._day(last, 7, chance),
            "date": self._day(first, 4, chance),
        }

    def _day(self, year: int, month: int, chance: random.Random) -> str:
        """A date in the half year that starts with this month."""
        month += chance.randrange(6)
        if self.dates == "year":
            return str(year)
        return f"{year}-{month:02}" if self.dates == "month" else f"{year}-{month:02}-{chance.randrange(1, 29):02}"

    def _number(self, words: list[str], head: str, chance: random.Random) -> str:
        if words[-1] in _DEGREES:
            return f"{chance.uniform(*_DEGREES[words[-1]]):.2f}"
        if "height" in words:
            low, high, decimals = _HEIGHTS.get(head, _ANY)
        else:
            low, high, decimals = next((_RANGES[key] for key in _keys(words, head) if key in _RANGES), _ANY)
        number = round(math.exp(chance.uniform(math.log(low), math.log(high))), decimals)
        if decimals:
            return f"{number:.{decimals}f}"
        if number > 100_000 and chance.random() < 0.5:  # large figures are often rounded
            number = round(number, -3)
        return f"{int(number):,}" if self.commas else str(int(number))


def _keys(words: list[str], head: str) -> list[str]:
    """What a number is looked up by: the words of its id from the last on, each first with the kind of its head."""
    return [key for word in reversed(words) for key in (f"{head} {word}", word)]


def unit_of(concept: Concept) -> str:
    """The unit of a concept's numbers; "" for counts, money and what is not a number."""
    if concept.tail != "number":
        return ""
    return next((_UNITS[key] for key in _keys(concept.id.split("-"), concept.head) if key in _UNITS), "")


def is_money(concept: Concept) -> bool:
    return concept.tail == "number" and any(word in _MONEY for word in concept.id.split("-"))


def _recent(span: Span, kind: str, words: list[str]) -> Span:
    """The years of a kind that is recorded today; others keep theirs. The same span always becomes the same years.

    >>> _recent(Span(1801, 1890), "order", ["order", "date"]), _recent(Span(1801, 1890), "city", [])
    (Span(first=2022, last=2022), Span(first=1801, last=1890))
    """
    if kind not in _RECENT:
        return span
    start, years = _RECENT[kind]
    first = start + (7 * span.first + span.last) % years
    after = next((_SINCE_BIRTH[word] for word in words if word in _SINCE_BIRTH), 0)
    first = min(2024, first + after + (span.last % 6 if after else 0))
    return Span(first, first)


def _text(words: list[str], chance: random.Random) -> str:
    for word in reversed(words):
        if word in _TEXTS:
            return chance.choice(_TEXTS[word])
        if word in _TEXT_PATTERNS:
            return fill_pattern(chance.choice(_TEXT_PATTERNS[word]), chance.choice(PHONOLOGIES), chance)
    return fill_pattern("{adj} {noun} {word}", chance.choice(PHONOLOGIES), chance)


# Kinds and concepts of the bank


# Kinds that become another kind if the graph has it, as a wine becomes a food; else they stay as they are.
_ALSO: dict[str, str] = {
    "animal": "bird, livestock, parasite, host species, pest",
    "book": "play, poem, short story, manuscript",
    "building": "stadium, museum, monument, theatre, airport, place of worship, power station, station",
    "company": "newspaper, magazine, airline, bank, brand, store, restaurant, tv channel, radio station, supplier, "
    "carrier",
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
# A wide kind, and the narrower ones: in a graph it always is one of them.
NARROWER: dict[str, tuple[str, ...]] = {
    "player": ("person",),
    "customer": ("customer", "company", "person"),
    "driver": ("driver", "employee"),
    "doctor": ("doctor", "person"),
    "patient": ("patient", "person"),
    "student": ("student", "person"),
    "tenant": ("tenant", "person"),
    "landlord": ("landlord", "person", "company"),
    "lawyer": ("lawyer", "person"),
    "guest": ("guest", "person"),
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
    "teacher": ("teacher", "person"),
    "programmer": ("programmer", "person"),
    "researcher": ("researcher", "person"),
    "viewer": ("viewer", "person"),
    "funding agency": ("funding agency", "organization"),
} | {kind: (kind, also) for also, kinds in _ALSO.items() for kind in kinds.split(", ")}
_NOT_THINGS = frozenset(
    {*LITERALS, *CLOSED_KINDS, "word", "letter", "class", "property", "purpose", "symbol", "given name"}
)


def _ids(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Relations that hold in both directions.
SYMMETRIC = _ids(
    """business-company-competitor character-enemy food-pairs-with gene-ortholog gene-protein-interaction
    generic-related-to generic-near generic-synonym generic-antonym generic-similar-to generic-different-from
    kinship-spouse kinship-ex-spouse kinship-partner kinship-fiance kinship-sibling kinship-twin kinship-half-sibling
    kinship-cousin kinship-relative medicine-drug-interaction paper-coauthor person-friend person-rival
    physics-antiparticle place-country-border place-city-twin religion-deity-consort religion-deity-equivalent
    software-alternative-to transport-station-adjacent word-rhymes-with word-homophone word-derived-form
    word-translation product-bought-with"""
)
# Relations within one kind whose tail comes after its head in time; in others it comes before: parents, causes.
LATER = _ids(
    """kinship-son kinship-daughter kinship-nephew kinship-niece book-next film-sequel generic-replaced-by
    politics-officeholder-successor technology-device-successor time-before generic-causes character-sidekick
    character-pet"""
)

# Relations that hold from one day to another, and those that happen on a day.
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
    """The kinds that a kind of the bank may become in a graph that has the kinds `there`; itself if none fits.

    >>> fitting("player", ["film", "person"]), fitting("thing", ["film", "year"]), fitting("city", ["film"])
    (['person'], ['film'], ['city'])
    """
    if kind == "thing":
        return [one for one in there if one not in _NOT_THINGS] or ["product"]
    narrower = NARROWER.get(kind, (kind,))
    return [one for one in there if one in narrower] or [narrower[0]]


def wider(kind: str) -> list[str]:
    """The kinds of the bank that may become this kind in a graph.

    >>> wider("mountain"), wider("month")
    (['mountain', 'volcano', 'thing'], ['month'])
    """
    wide = [one for one, narrower in NARROWER.items() if kind in narrower and one != kind]
    return [kind, *wide, *(() if kind in _NOT_THINGS else ("thing",))]
