"""Which family of names a kind of the bank has: films, books and games are called alike, and so are rivers and seas.

A kind that stands nowhere here goes by its last word, or is a term. Knows kinds alone; patterns.py has the names.
"""

from __future__ import annotations

_KINDS = {
    "person": "person, employee, player, racing driver, saint, agent, creator, namesake, owner",
    "character": "character, pet, mascot",
    "deity": "deity, mythology",
    "creature": "mythical creature",
    "name": "given name",
    "surname": "family name",
    "dynasty": "family, dynasty",
    "country": "country, empire, continent, fictional universe",
    "city": "city, place, office",
    "region": "region, district, constituency, diocese, wine region, time zone, oil field, mine, farm, cemetery, "
    "community, national park, archipelago",
    "water": "river, lake, sea",
    "mountain": "mountain, mountain range, volcano, waterfall, crater, fault",
    "island": "island",
    "company": "company, bank, airline, fashion house, modelling agency, store, brand, restaurant, newspaper, "
    "magazine, journal, tv channel, radio station, stock exchange, industry, space agency, theatre",
    "organization": "organization, group, library, museum, court, legislature, cabinet, orchestra, military unit, "
    "airline alliance, coalition, conference, prison",
    "team": "team, racing team, fictional team, league",
    "crew": "work team",
    "university": "university",
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
    "railway line, pipeline, nuclear reactor",
    "vehicle": "ship, aircraft, vehicle, rocket, spacecraft, weapon, engine, processor",
    "species": "animal, plant, species, taxon, bird, crop, animal breed, livestock, fruit, plant family, host species, "
    "parasite, invasive species, pest, grape variety, cheese",
    "chemical": "chemical, material, mineral, chemical element, metal, alloy, gemstone, solvent, pollutant, "
    "fertilizer, nutrient, particle, fabric, soil",
    "drug": "drug, vaccine, perfume",
    "disease": "disease, pathogen",
    "gene": "gene, protein, chromosome, vulnerability, benchmark",
    "star": "star, planet, moon, galaxy, celestial body, constellation",
    "software": "software, programming language, operating system, software package, web browser, browser engine, "
    "machine learning model, platform, network protocol, file format, service",
    "product": "product, product line, device, invention, accessory, battery, garment, instrument",
    "site": "website",
    "user": "username",
    "law": "law, court case, licence",
    "food": "food, dish, drink, wine, agricultural product, animal product, commodity",
    "language": "language, dialect, constructed language, language family, writing system, ethnic group, cuisine",
    "faith": "religion, ideology, art movement, literary movement, architectural style",
    "currency": "currency, unit, stock index",
    "word": "word, term, abbreviation, letter, sound, scent",
    "idea": "theorem, conjecture, scientific theory, physical law, mathematical constant, phenomenon, physical law, "
    "concept, field of mathematics",
    "file": "source file, function, software class, variable",
}
FAMILY = {kind.strip(): family for family, kinds in _KINDS.items() for kind in kinds.split(",")}


def family_of(kind: str) -> str:
    """The family of patterns for a kind, told by the whole of it or by its last word.

    >>> family_of("film"), family_of("railway station"), family_of("reactor type")
    ('work', 'building', 'term')
    """
    return FAMILY.get(kind) or FAMILY.get(kind.rsplit(" ", 1)[-1]) or "term"
