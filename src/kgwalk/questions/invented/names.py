"""Invented names of entities by their kind, each given once, in the style of one graph.

    Namer().style(chance).name("film", chance)        # 'The Crooked Lantern'

A kind belongs to a family of names (films, books and games are named alike), a family has patterns, and the slots of a
pattern (`{Place}`, `{Adj}`, `{noun}`) are filled from `words`.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass

from kgwalk.kg.names import normalise
from kgwalk.questions.invented import words
from kgwalk.questions.invented.words import PHONOLOGIES, PHONOLOGY_WEIGHTS, Phonology
from kgwalk.questions.schema import askable

# Patterns of names, by family


# Slots: given family title roman cap (a capital) Place Word word Adj adj Noun noun Nouns nouns Verb verb Field year two
# (to 99), four (digits), CODE (2 to 4 capitals), code (letters and digits). A pattern that stands twice comes up twice
# as often.
_PATTERNS: dict[str, str] = {
    "person": "{given} {family} | {given} {family} | {given} {family} | {given} {family} | "
    "{given} {given} {family} | {given} {cap}. {family} | {given} {family}-{family} | "
    "{given} van {family} | {given} de la {family} | {given} al-{family} | {given} O'{family} | "
    '{given} {family}, Jr. | {given} "{Noun}" {family} | {given} {roman} of {Place} | '
    "{given} of {Place} | {title} {given} {family} | {given}",
    "staff": "{given} {family} | {given} {family} | {given} {family} | {given} {cap}. {family} | {family}, {given} | "
    "{given} {family}-{family} | Dr. {given} {family} | {given}",
    "character": "{given} | {given} {family} | {title} {family} | The {Adj} {Noun} | {Word} the {Adj} | {Word}",
    "deity": "{Word} | {Word} | {Word} {roman} | {Word}-{Word} | {Word} of the {Noun}",
    "creature": "{Word} | {Adj} {Noun} of {Place} | the {Word}",
    "name": "{given} | {Word}",
    "surname": "{family}",
    "dynasty": "House of {Word} | {Word} dynasty | {family} family | the {family}s",
    "country": "{Place} | {Place} | {Place} | Republic of {Place} | {Place} Islands | Kingdom of {Place} | New {Place}",
    "city": "{Place} | {Place} | {Place} | {Place} | Port {Place} | San {given} | {Place} {Place} | "
    "{Place}-on-{Word} | St. {given} | Fort {family} | {Place}, {Place} | {Adj} {Place}",
    "region": "{Place} | {Place} Province | {Adj} {Place} | {Place} Valley | {Place} County | {Place} and {Place}",
    "water": "{Place} River | {Place} | River {Word} | Lake {Word} | {Place} Creek | {Adj} {Noun} Creek | {Word} Sea",
    "mountain": "Mount {Word} | {Place} Peak | {Word} Hill | Monte {Word} | Mt. {family} | {Place} | {Word} Falls",
    "island": "{Place} Island | Isle of {Word} | {Place} | {Adj} Island",
    "company": "{Word} Corporation | {Word} | {family} & {family} | {Word} Group | {family} Brothers | "
    "{Place} {Noun} Company | {CODE} | {Word}{word} Inc. | {Noun}{Noun} | {family}, {family} and Sons | "
    "{Adj} {Noun} Ltd | {Word}.io | {Word} AG | {two} {Noun}s",
    "organization": "{Place} Society for {Field} | {Word} Foundation | Institute of {Field}, {Place} | {CODE} | "
    "{Adj} {Noun} Alliance | International {Field} Union | {Place} Council | Order of the {Adj} {Noun}",
    "team": "{Place} United | {Place} {Noun}s | FC {Place} | {CODE} {Place} | Real {Place} | {Place} | "
    "Sporting {Word} | {Place} City FC",
    "crew": "{Field} | {Noun} | {Field} Team | {Adj} {Nouns} | {CODE} | Team {Word} | {Noun} Operations | "
    "{Place} Sales",
    "project": "{Word} | Project {Noun} | {Adj} {Noun} | {Place} {Noun} {roman} | {CODE}-{two} | Operation {Word}",
    "university": "University of {Place} | {Place} University | {family} College | {Place} Institute of {Field} | "
    "{CODE} | {given} {family} School",
    "party": "{Place} People's Party | {Adj} Front | {Adj} Alliance of {Place} | {Word} Movement | {CODE}",
    "band": "The {Nouns} | {Word} | {Adj} {Noun} | {Word} and the {Nouns} | {Noun} {two} | {given} {family} Trio",
    "work": "The {Adj} {Noun} | {Adj} {Nouns} | The {Noun} of {Place} | {Noun} of the {Noun} | "
    "To {Verb} in {Place} | A {Noun} for {given} | {Place} | The {Nouns} | "
    "{given} and the {Adj} {Noun} | {Noun} | {two} {Nouns} | {Verb}, {given}, {Verb} | "
    "Letters from {Place} | What the {Noun} Said | {Noun} {roman} | {Word}: The {Noun} | {Adj} & {Adj} | "
    "Who Is {given} {family}? | Goodbye, {Place}! | {year} | The {Noun}, the {Noun} and the {Noun} | "
    "{Word} | No {Nouns} in {Place} | I {Verb} at {Noun}",
    "song": "{Verb} Me {Adj} | {given} | {Adj} {Noun} | Don't {Verb} the {Noun} | {Noun} (in {Place}) | "
    "{Verb} It All | My {Noun} Is {Adj} | {Word} {Word} | {Noun} Song | {two} Ways to {Verb}",
    "paper": "On the {Field} of {Adj} {Nouns} | Towards {Adj} {Field} | {Word}: {Adj} {Nouns} for {Field} | "
    "A Survey of {Adj} {Nouns} | Why {Nouns} {Verb}: A Study in {Field} | {Adj} {Noun} Networks | "
    "{Field} without {Nouns}",
    "painting": "{Noun} with {Nouns} | Portrait of {given} {family} | View of {Place} | The {Adj} {Noun} | "
    "{Noun} No. {two} | Woman with a {Noun}",
    "event": "{year} {Place} Festival | {Place} Games {year} | {Word} Congress | Treaty of {Place} | "
    "{Adj} Revolution of {Place} | {Place} Cup | Storm {given} | {Place} Open | Great {Place} Fire",
    "war": "{Place} War | {Adj} {Word} War | War of the {Adj} {Noun} | {two} Days' War | Siege of {Place}",
    "battle": "Battle of {Place} | Siege of {Place} | Battle of {Adj} {Noun} | Raid on {Place}",
    "election": "{year} {Place} election | {Place} general election, {year} | {year} elections in {Place}",
    "award": "{family} Prize | {Word} Award | {Adj} {Noun} Award for {Field} | {Place} Medal | "
    "{given} {family} Prize for {Field} | Order of {Word} | {CODE} Award | {Adj} {Noun}",
    "building": "{Place} Tower | {family} Hall | {Place} Station | {Word} Stadium | Palace of {Place} | "
    "Museum of {Field}, {Place} | {Adj} Bridge | St. {given}'s Church | {two} {Noun} Street | "
    "{Place} International Airport | {Word} Gardens",
    "vehicle": "{Word} {two} | {CODE}-{two} | {Noun} {roman} | {CODE} {Word} | {Word} | {Adj} {Noun} | {CODE} {Noun}",
    "species": "{Word} {word} | {adj} {noun} {word} | {adj} {word} | {Place} {noun} | {word} | {family}'s {word} | "
    "{adj}-tailed {word} | {Place} {adj} {word}",
    "chemical": "{word}ine | {word}ium | {word}ol | {word}ic acid | {two}-{word}yl {word}ate | di{word}ide | "
    "{word}ite | {Word}-{two}",
    "drug": "{word}mab | {word}pril | {word}olol | {Word} | {word}cillin | {word}statin {two} | {word}ine",
    "disease": "{family} disease | {word}itis | {Word} fever | {family}-{family} syndrome | {adj} {word}osis | "
    "{Word} virus | {word}emia",
    "gene": "{CODE}{two} | {CODE} | {CODE}R{two} | {word}{two} | {CODE}-{word}",
    "star": "{Word} | {Word} {roman} | {CODE} {two} | {Word} {CODE} | {two} {Word} | {CODE}-{two} {word}",
    "software": "{Word} | {word}-{noun} | lib{word} | {Noun}{Noun} | {Word} {two} | {word}.js | {CODE} | py{word} | "
    "{Word}DB | {noun}_{noun}",
    "product": "{Word} {two} | {Word} Pro | {CODE}-{two} | {Noun}{Word} | {Word} {Adj} | {family} {Noun} {roman}",
    "version": "{word} {two}.{two} | {word} {two}.{two}.{two} | {Word} v{two} | {word}-{year}.{two}",
    "site": "{word}.com | {noun}{noun}.org | {Word} | {word}hub.net",
    "user": "{noun}{two} | {adj}_{noun} | {word}_{two} | x{word}x",
    "law": "{Place} {Noun} Act | {Noun} Protection Act {year} | {family} v. {family} | {family} v. {Place} | "
    "Directive {two}/{year} | {Place} Convention on {Field}",
    "food": "{word} | {adj} {word} | {Place} {noun} | {word} with {nouns} | {word} soup | {family} pie | {Word}",
    "language": "{Word}ian | {Word}ese | {Word} | Old {Word} | {Adj} {Word} | {Word}ish",
    "faith": "{Word}ism | Church of {Place} | {Word} | {Adj} {Word}ism | Temple of the {Noun}",
    "currency": "{Place} {word} | {word} | {Word} dollar | {Place} crown | {word} {roman}",
    "word": "{word} | {noun} | {adj} | {word}ing | {word}ness | un{adj} | {noun}{noun} | to {word}",
    "idea": "{Word} theorem | {family}'s law | {adj} {noun} theory | {Word}ism | {adj} {noun} | {word} effect | "
    "{family}-{family} conjecture | {word} {word}",
    "file": "{word}.{word} | {Noun}{Noun} | get_{noun} | {noun}_{word}() | {Noun}{Word}Error | {word}/{noun}.py",
    "term": "{adj} {noun} | {word} | {Word} {noun} | {word} {noun} | {noun} {word} | {adj} {word}",
    "record": "{CODE}-{four} | {CODE}-{four} | {CODE}{four} | {CODE}-{year}-{two} | {cap}{four} | {CODE} {four}",
    "depot": "{family} Depot | {Place} Central | {Place} North | DC {Place} | {CODE} {Place} | {Word} Yard",
    "department": "{Field} | {Field} and {Field} | {Noun} Services | {Adj} Markets | {Field} {Place} | {CODE}",
    "task": "{Verb} the {noun} | {Verb} {adj} {nouns} | {verb} {noun} list | {CODE}-{four} | {Verb} {Word}",
    "part": "{noun} {noun} | {CODE}-{two} {noun} | {adj} {noun} | {word} {noun} {two} | {CODE}{four} | {Word} {noun}",
    "property": "{two} {Noun} Street | {Place} Villa | {family} House | {two} {Place} Road | {Adj} {Noun} Cottage | "
    "Flat {two}, {family} Court | {Place} Loft {two} | {two}b {Word} Lane",
    "room": "Room {two} | {cap}{two} | {family} Hall | Lecture Room {two} | {Word} Lab | {cap}.{two}",
    "hotel": "Hotel {Word} | {Adj} {Noun} Inn | Grand {Place} | {family}'s | The {Noun} | {Place} Lodge | Casa {Word}",
    "id": "m.0{code} | g.11{code} | m.0{code} | _:b{code}",
}
PATTERNS = {family: tuple(patterns.split(" | ")) for family, patterns in _PATTERNS.items()}


# The family of each kind; a kind that is not here goes by its last word, or is a "term"


_KINDS = {
    "staff": "employee, customer, driver, patient, tenant, landlord, guest, student, borrower, lawyer, doctor, "
    "estate agent, teacher, programmer, researcher, inspector, viewer",
    "person": "person, player, racing driver, saint, agent, creator, namesake, owner",
    "character": "character, pet, mascot",
    "deity": "deity, mythology",
    "creature": "mythical creature",
    "name": "given name",
    "surname": "family name",
    "dynasty": "family, dynasty",
    "country": "country, empire, continent, fictional universe",
    "city": "city, place, office, port",
    "room": "room, hall",
    "region": "region, district, constituency, diocese, wine region, time zone, oil field, mine, farm, cemetery, "
    "community, national park, archipelago",
    "water": "river, lake, sea",
    "mountain": "mountain, mountain range, volcano, waterfall, crater, fault",
    "island": "island",
    "company": "company, bank, airline, fashion house, modelling agency, store, brand, restaurant, newspaper, "
    "magazine, journal, tv channel, radio station, stock exchange, industry, space agency, theatre, supplier, carrier, "
    "hotel chain, energy supplier",
    "organization": "organization, group, library, museum, court, legislature, cabinet, orchestra, military unit, "
    "airline alliance, coalition, conference, prison, funding agency, club",
    "team": "team, racing team, fictional team, league",
    "crew": "work team",
    "university": "university, school",
    "party": "political party",
    "band": "band",
    "work": "film, book, tv series, episode, game, play, opera, musical, ballet, book series, film series, "
    "game series, poem, short story, podcast, work, composition, album, news program, document, manuscript, "
    "theatre production, interview, photograph, sculpture",
    "song": "song",
    "paper": "paper, patent, standard, course, dataset, experiment, report",
    "project": "project",
    "painting": "painting",
    "event": "event, award ceremony, contest, tournament, competition, storm, earthquake, disaster, expedition, "
    "holiday, revolution, match, space mission, treaty, historical period",
    "war": "war",
    "battle": "battle",
    "election": "election",
    "award": "award, award category",
    "building": "building, stadium, bridge, airport, station, dam, monument, place of worship, power station, road, "
    "railway line, pipeline, nuclear reactor, building site",
    "vehicle": "plane model, transit line, machine, ship, aircraft, vehicle, rocket, spacecraft, weapon, engine, "
    "processor",
    "species": "animal, plant, species, taxon, bird, crop, animal breed, livestock, fruit, plant family, host species, "
    "parasite, invasive species, pest, grape variety, cheese",
    "chemical": "chemical, material, mineral, chemical element, metal, alloy, gemstone, solvent, pollutant, "
    "fertilizer, nutrient, particle, fabric, soil",
    "drug": "drug, vaccine, perfume",
    "disease": "disease, pathogen",
    "version": "package release",
    "gene": "gene, protein, chromosome, vulnerability, benchmark",
    "star": "star, planet, moon, galaxy, celestial body, constellation",
    "software": "software, programming language, operating system, software package, web browser, browser engine, "
    "machine learning model, platform, network protocol, file format, service, repository",
    "product": "product, product line, device, invention, accessory, battery, garment, instrument",
    "site": "website",
    "user": "username",
    "law": "law, court case, licence",
    "food": "recipe, food, dish, drink, wine, agricultural product, animal product, commodity",
    "language": "language, dialect, constructed language, language family, writing system, ethnic group, cuisine",
    "faith": "religion, ideology, art movement, literary movement, architectural style",
    "currency": "currency, unit, stock index",
    "word": "word, term, abbreviation, letter, sound, scent",
    "idea": "theorem, conjecture, scientific theory, physical law, mathematical constant, phenomenon, physical law, "
    "concept, field of mathematics",
    "record": "order, order line, invoice, shipment, trip, flight, ticket, booking, visit, loan, meter, sample, "
    "museum object, enrolment, port call, line stop, issue, commit, requirement, sensor, reading, alarm, grant, "
    "permit, inspection, candidacy, contract, membership, prescription, appointment, admission, review, viewer rating, "
    "rental, "
    "bank account, air route, work shift, certificate, appearance, transfer, recipe line, exam",
    "depot": "warehouse, depot",
    "department": "department, ward, research topic",
    "task": "task",
    "part": "part",
    "property": "property",
    "hotel": "hotel",
    "file": "source file, function, software class, variable",
}
FAMILY = {kind.strip(): family for family, kinds in _KINDS.items() for kind in kinds.split(",")}


def family_of(kind: str) -> str:
    """The family of patterns for a kind, told by the whole of it or by its last word.

    >>> family_of("film"), family_of("railway station"), family_of("reactor type")
    ('work', 'building', 'term')
    """
    return FAMILY.get(kind) or FAMILY.get(kind.rsplit(" ", 1)[-1]) or "term"


_SLOT = re.compile(r"\{(\w+)\}")
_ARTICLE = re.compile(r"\b([Aa]) (?=[aeiouAEIOU])")  # an engine
_PEOPLE = ("person", "staff", "character")
# Ways to write names, and the share of graphs that use each.
SPELLINGS: dict[str, float] = {
    "plain": 0.58,
    "underscored": 0.12,  # Anna_Kovar
    "lower": 0.07,  # anna kovar
    "lower underscored": 0.13,  # anna_kovar
    "loud family": 0.05,  # Anna_KOVAR
    "plain with kinds": 0.05,  # Anna Kovar, and The Lantern (film)
}
_TRIES = 30


def spelled(name: str, style: str, *, person: bool) -> str:
    """A name in one of the SPELLINGS.

    >>> spelled("Anna Kovar, Jr.", "lower underscored", person=True)
    'anna_kovar_jr'
    >>> spelled("Anna Kovar", "loud family", person=True)
    'Anna_KOVAR'
    """
    if style.startswith("plain"):
        return name
    text = name.lower() if style.startswith("lower") else name
    if style == "loud family" and person and " " in text:
        given, _, family = text.rpartition(" ")
        text = f"{given} {family.upper()}"
    if style != "lower":
        text = "_".join(re.sub(r"[,.!?:;\"&()]", " ", text).split())
    return text


@dataclass(frozen=True)
class NamingStyle:
    """How one invented graph names its entities."""

    phonologies: tuple[Phonology, ...]
    spelling: str
    common: float  # the share of people with well-known names
    ids: float  # the share of entities with an id instead of a name
    taken: set[str]  # normalised names that any graph has used

    def name(self, kind: str, chance: random.Random) -> str:
        """A name that no entity of any graph has had before."""
        return self._given("id" if chance.random() < self.ids else family_of(kind), kind, chance)

    def id(self, chance: random.Random) -> str:
        """An id, for a node without a name."""
        return self._given("id", "", chance)

    def _given(self, family: str, kind: str, chance: random.Random) -> str:
        for attempt in range(_TRIES):
            name = self._once(family, kind, chance)
            if attempt > _TRIES // 2:  # short patterns run out first
                name = f"{name} {_number(chance)}"
            key = normalise(name)
            if key not in self.taken and (family == "id" or askable(name)):
                break
        else:
            name = f"{kind} {len(self.taken)}"
            key = normalise(name)
        self.taken.add(key)
        return name

    def _once(self, family: str, kind: str, chance: random.Random) -> str:
        phonology = chance.choice(self.phonologies)
        name = fill_pattern(chance.choice(PATTERNS[family]), phonology, chance, common=self.common)
        if family == "id":
            return name
        if self.spelling == "plain with kinds" and chance.random() < 0.3:
            name = f"{name} ({kind})"
        return spelled(name, self.spelling, person=family in _PEOPLE)


class Namer:
    """Remembers every name, so that no two invented graphs share one."""

    def __init__(self, taken: set[str] | None = None) -> None:
        self.taken = set() if taken is None else taken

    def style(self, chance: random.Random) -> NamingStyle:
        """The naming style of a new graph."""
        phonologies = chance.choices(PHONOLOGIES, PHONOLOGY_WEIGHTS, k=chance.choice((1, 2, 3, 4, 6)))
        (spelling,) = chance.choices(list(SPELLINGS), list(SPELLINGS.values()))
        ids = chance.uniform(0.03, 0.12) if chance.random() < 0.1 else 0.0
        return NamingStyle(tuple(phonologies), spelling, chance.choice((0.0, 0.3, 0.7)), ids, self.taken)


def fill_pattern(pattern: str, phonology: Phonology, chance: random.Random, *, common: float = 0.0) -> str:
    """A pattern with its slots filled; `common` is the share of people's names that are well-known ones."""

    def fill(slot: re.Match[str]) -> str:
        name = slot.group(1)
        known = {"given": words.GIVEN, "family": words.FAMILY}.get(name)
        return chance.choice(known) if known and chance.random() < common else _FILL[name](phonology, chance)

    return _ARTICLE.sub(r"\1n ", _SLOT.sub(fill, pattern))


def _several(noun: str) -> str:
    """The plural of one of the nouns in `words`.

    >>> _several("fox"), _several("story"), _several("thief"), _several("lantern")
    ('foxes', 'stories', 'thieves', 'lanterns')
    """
    if noun.endswith("f") or noun == "child":
        return {"wolf": "wolves", "thief": "thieves", "child": "children"}.get(noun, f"{noun}s")
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("s", "x", "ch", "sh", "ss")) else f"{noun}s"


def _number(chance: random.Random) -> str:
    return str(chance.randrange(2, 100))


def _letters(chance: random.Random) -> str:
    return "".join(chance.choices("ABCDEFGHKMNRSTVWXZ", k=chance.choice((2, 3, 3, 4))))


def _code(chance: random.Random) -> str:
    return "".join(chance.choices("0123456789bcdfghjkmnpqrstvwxyz_", k=chance.choice((4, 5, 5, 6))))


_FILL: dict[str, Callable[[Phonology, random.Random], str]] = {
    "given": lambda phonology, chance: phonology.with_ending(chance, phonology.given),
    "family": lambda phonology, chance: phonology.with_ending(chance, phonology.family),
    "Place": lambda phonology, chance: phonology.with_ending(chance, phonology.place),
    "Word": lambda phonology, chance: phonology.word(chance).capitalize(),
    "word": lambda phonology, chance: phonology.word(chance),
    "Adj": lambda _, chance: chance.choice(words.ADJECTIVES).capitalize(),
    "adj": lambda _, chance: chance.choice(words.ADJECTIVES),
    "Noun": lambda _, chance: chance.choice(words.NOUNS).capitalize(),
    "noun": lambda _, chance: chance.choice(words.NOUNS),
    "Nouns": lambda _, chance: _several(chance.choice(words.NOUNS)).capitalize(),
    "nouns": lambda _, chance: _several(chance.choice(words.NOUNS)),
    "Verb": lambda _, chance: chance.choice(words.VERBS).capitalize(),
    "verb": lambda _, chance: chance.choice(words.VERBS),
    "Field": lambda _, chance: chance.choice(words.FIELDS).capitalize(),
    "title": lambda _, chance: chance.choice(words.TITLES),
    "roman": lambda _, chance: chance.choice(words.ROMAN),
    "cap": lambda _, chance: chance.choice("ABCDEFGHJKLMNPRSTW"),
    "year": lambda _, chance: str(chance.randrange(1700, 2030)),
    "two": lambda _, chance: _number(chance),
    "four": lambda _, chance: str(chance.randrange(1000, 10_000)),
    "CODE": lambda _, chance: _letters(chance),
    "code": lambda _, chance: _code(chance),
}
