"""Columns that tables of several kinds share, and columns that are true or false, in invented graphs.

    columns = draw_columns(placed, chance, lambda label: True)      # a country of suppliers and of customers
    columns[0].label, [one.head for one in columns[0].relations]    # "country", ["supplier", "customer"]

A company's tables have the same few columns again and again: country, city, status, the one who is responsible. In the
graph they are one relation from several kinds of things, so "Swedish ports" are those among the ports that `country`
leads to from Sweden: the kind is a start, and the two are intersected. Questions are drawn and worded over a graph
where each kind has a relation of its own, as those that go through rows are, and led to the shared column by
`Junctions`.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from kgwalk.questions.bank import Concept
from kgwalk.questions.invented.concepts import PlacedConcept
from kgwalk.questions.invented.words import DEMONYMS, truth_words
from kgwalk.questions.wording.english import is_person, plural
from kgwalk.types import Triple

SHARED = "column"  # what the ids of its concepts start with, and their domain
WITH_COLUMNS = 0.5  # the share of graphs with types that get such columns, if they have kinds for them
_HOW_MANY = (1, 1, 2, 2, 3)  # columns of one graph
_HEADS = (2, 2, 3, 3, 4)  # kinds that share a column


def _words(text: str) -> frozenset[str]:
    return frozenset(part.strip() for part in text.split(","))


# Kinds that have such columns. People are told by `is_person`.
_FIRMS = _words(
    "company, customer, supplier, bank, airline, team, band, university, school, restaurant, hotel, newspaper, "
    "magazine, political party, club, store, brand, carrier, museum, orchestra, organization, radio station, "
    "fashion house, funding agency, tv channel, racing team, hotel chain, estate agent, library"
)
_SITES = _words(
    "warehouse, depot, port, airport, station, office, building, farm, mine, stadium, power station, theatre, "
    "monument, dam, bridge, property, oil field, nuclear reactor, place of worship, national park, building site"
)
_GOODS = _words(
    "product, device, part, vehicle, ship, machine, garment, aircraft, weapon, instrument, accessory, sensor, meter, "
    "spacecraft, perfume, battery"
)
_WORKS = _words("film, book, game, album, song, tv series, painting, play, opera, wine, cheese, dish, podcast")
_RECORDS = _words(
    "order, invoice, contract, ticket, issue, shipment, booking, loan, permit, project, task, grant, course, rental, "
    "exam, inspection, visit, document, report, membership, prescription, admission, appointment, certificate, trip, "
    "bank account, requirement, alarm, dataset, patent, service, air route, transit line, pipeline, work shift"
)
_PEOPLE = "person"  # all kinds of people


@dataclass(frozen=True, slots=True)
class _Family:
    """A column: what it is called, the kind of its values, the kinds that may have it, and how people speak of it.

    In the phrasings `@` is the kind in the plural and `{}` the known end, as in a concept.
    """

    labels: tuple[str, ...]
    tail: str
    heads: frozenset[str]
    forward: tuple[str, ...]
    backward: tuple[str, ...]
    forward_nouns: tuple[str, ...]
    backward_nouns: tuple[str, ...]
    like: frozenset[str] = frozenset()  # kinds of values that say the same: no second country for a city


_ASKED = ("Which @ are {}?", "{} @", "{} @?", "list the {} @", "show me all {} @", "what {} @ are there")
_FAMILIES: tuple[_Family, ...] = (
    _Family(
        ("country", "country", "country_name", "nation", "home_country", "Country", "COUNTRY", "inCountry"),
        "nation",
        _FIRMS | _SITES | {_PEOPLE} | _WORKS,
        ("Which country is {} from?", "what country does {} come from", "{} country?", "In which country is {}?"),
        ("Which @ are from {}?", "@ from {}", "{} @", "which @ do we have in {}", "List the @ from {}.", "all {} @",
         "what @ are there in {}", "@ with country {}", "{} @ please"),
        ("the country of {}", "the country that {} is from"),
        ("the @ from {}", "the {} @", "the @ in {}", "the {} @"),
        frozenset({"country", "region"}),
    ),
    _Family(
        ("city", "town", "location", "city_id", "located_in", "place", "hasLocation", "site"),
        "city",
        _FIRMS | _SITES | {_PEOPLE} | _words("event, exam, course, contest, tournament, award ceremony, shipment"),
        ("Which city is {} in?", "where is {}", "{} city?", "In what town is {}?", "what is the location of {}"),
        ("Which @ are in {}?", "@ in {}", "what @ does {} have", "list the @ in {}", "which @ can I find in {}",
         "all @ located in {}", "{} @?", "Name the @ that are in the city of {}."),
        ("the city of {}", "the city that {} is in", "the location of {}"),
        ("the @ in {}", "the @ located in {}", "the @ that are in {}"),
        frozenset({"city", "place", "country", "region"}),
    ),
    _Family(
        ("status", "status", "state", "current_status", "hasStatus", "STATUS", "status_code"),
        "record status",
        _FIRMS - {"band", "orchestra"} | _SITES | _RECORDS | _words("vehicle, ship, machine, device, sensor, employee"),
        ("What is the status of {}?", "{} status?", "status of {}", "which state is {} in"),
        (*_ASKED, "@ with status {}", "Which @ have the status {}?", "which of the @ are {}"),
        ("the status of {}", "the state that {} is in"),
        ("the {} @", "the @ that are {}", "the @ with the status {}"),
        frozenset({"order status", "ticket status", "issue state"}),
    ),
    _Family(
        ("tier", "level", "grade", "category", "segment", "service_level", "hasTier"),
        "tier",
        _FIRMS | _words("product, membership, contract, employee, ticket, store, hotel, loan, service, bank account"),
        ("Which tier is {}?", "{} tier?", "what level does {} have", "In which category is {}?"),
        ("Which @ are {}?", "{} @", "list the {} @", "@ in the category {}", "which @ belong to {}", "all {} @"),
        ("the tier of {}", "the category of {}"),
        ("the {} @", "the @ in the category {}", "the @ of the tier {}"),
    ),
    _Family(
        ("region", "sales_region", "area", "market", "territory", "inRegion"),
        "sales region",
        _FIRMS | _SITES | _RECORDS - _words("exam, course, prescription, admission") | _words("employee, product"),
        ("Which region does {} belong to?", "{} region?", "what area is {} in", "Which market is {} in?"),
        ("Which @ are in {}?", "@ in {}", "list the {} @", "what @ do we have in {}", "{} @", "@ of the region {}"),
        ("the region of {}", "the region that {} belongs to"),
        ("the @ in {}", "the {} @", "the @ of the region {}"),
        frozenset({"region", "country"}),
    ),
    _Family(
        ("division", "dept", "department", "department_id", "unit", "belongs_to", "cost_centre"),
        "division",
        _RECORDS | _GOODS | _words("employee, office, supplier, building, customer, person, researcher"),
        ("Which division does {} belong to?", "{} department?", "what department is {} in", "whose is {}, which unit"),
        ("Which @ belong to {}?", "{} @", "the @ of {}", "what @ does {} have", "list the @ in {}", "all {} @",
         "which @ are in the department {}"),
        ("the division of {}", "the department that {} belongs to"),
        ("the @ of {}", "the {} @", "the @ that belong to {}"),
        frozenset({"department"}),
    ),
    _Family(
        ("currency", "currency_code", "currency", "hasCurrency", "curr"),
        "currency code",
        _words("order, invoice, contract, loan, bank account, booking, grant, product, rental, project, company"),
        ("In which currency is {}?", "{} currency?", "what currency does {} have"),
        ("Which @ are in {}?", "@ in {}", "{} @", "list the {} @", "which @ have {} as currency"),
        ("the currency of {}",),
        ("the @ in {}", "the {} @"),
        frozenset({"currency"}),
    ),
    _Family(
        ("colour", "color", "main_colour", "hasColor", "COLOUR"),
        "colour",
        _GOODS | _words("building, plant, bird, animal, livestock, gemstone, mineral, team, bridge, pet"),
        ("What colour is {}?", "{} colour?", "which color does {} have"),
        ("Which @ are {}?", "{} @", "all {} @", "@ that are {}", "show me the {} @", "what {} @ are there"),
        ("the colour of {}",),
        ("the {} @", "the @ that are {}"),
    ),
    _Family(
        ("responsible", "owner", "contact", "contact_person", "owner_id", "managed_by", "hasContact", "in_charge"),
        "employee",
        _RECORDS | _FIRMS | _SITES | _GOODS,
        ("Who is responsible for {}?", "who looks after {}", "{} contact?", "Whom do I ask about {}?",
         "who is in charge of {}"),
        ("Which @ does {} look after?", "{}'s @", "what @ is {} responsible for", "list the @ of {}",
         "which @ are in the hands of {}", "@ that {} is in charge of"),
        ("the one responsible for {}", "the contact of {}"),
        ("the @ that {} looks after", "the @ of {}", "the @ that {} is responsible for"),
        frozenset({"person", "employee"}),
    ),
)  # fmt: skip
COLUMN_KINDS = frozenset(family.tail for family in _FAMILIES)
# Kinds that many tables have a key to; the phrasings are the same for all of them.
_KEYED = _words(
    "department, depot, warehouse, office, store, university, school, project, hotel, port, airport, team, museum, "
    "building, farm, company, customer, supplier, club, library"
)
_KEY_BACKWARD = (
    "Which @ belong to {}?", "{}'s @", "what @ does {} have", "the @ of {}", "{} @", "list the @ at {}", "@ of {}?",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SharedColumn:
    """One column, and the relations of several kinds that it holds."""

    label: str
    relations: tuple[PlacedConcept, ...]

    def asked_label(self, one: PlacedConcept) -> str:
        """The label that the relation of one kind is asked under: `supplier.country`."""
        return f"{one.head.replace(' ', '_')}.{self.label}"


def draw_columns(
    placed: Sequence[PlacedConcept], chance: random.Random, free: Callable[[str], bool]
) -> list[SharedColumn]:
    """Columns for the kinds of a graph, each with a label that is `free`; none where no two kinds could share one."""
    kinds = list(dict.fromkeys(kind for one in placed for kind in (one.head, *(() if one.literal else (one.tail,)))))
    families = [*_FAMILIES, *(_keyed(kind) for kind in kinds if kind in _KEYED)]
    found: list[SharedColumn] = []
    wanted = chance.choice(_HOW_MANY)
    for family in chance.sample(families, len(families)):
        if len(found) == wanted:
            break
        heads = [kind for kind in kinds if _may_have(family, kind, placed)]
        label = chance.choice(family.labels)
        if len(heads) < 2 or not free(label) or any(column.label == label for column in found):
            continue
        some = chance.sample(heads, min(len(heads), chance.choice(_HEADS)))
        found.append(
            SharedColumn(label, tuple(PlacedConcept(_concept(family, kind), kind, family.tail) for kind in some))
        )
    return found


def _keyed(kind: str) -> _Family:
    """The column of a key to things of this kind: `depot_id`."""
    name = kind.replace(" ", "_")
    forward = (f"Which {kind} does {{}} belong to?", f"{{}} {kind}?", f"what {kind} is {{}} at")
    nouns = (f"the {kind} of {{}}", f"the {kind} that {{}} belongs to")
    backward_nouns = ("the @ of {}", "the @ that belong to {}", "the @ at {}")
    heads = _RECORDS | _GOODS | _words("employee, driver, student, player, researcher, room")
    return _Family(
        (f"{name}_id", name, f"{name}_ref"), kind, heads - {kind}, forward, _KEY_BACKWARD, nouns, backward_nouns
    )


def _may_have(family: _Family, kind: str, placed: Sequence[PlacedConcept]) -> bool:
    """Whether things of a kind can have this column, and no relation of theirs says the like."""
    if kind == family.tail or not (kind in family.heads or (_PEOPLE in family.heads and is_person(kind))):
        return False
    like = {family.tail, *family.like}
    return not any(like & {one.head, one.tail} and kind in (one.head, one.tail) for one in placed)


def _concept(family: _Family, kind: str) -> Concept:
    def spoken(texts: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(text.replace("@", plural(kind)) for text in texts))

    return Concept(
        id=f"{SHARED}-{family.tail}-{kind}".replace(" ", "-"),
        head=kind,
        tail=family.tail,
        many="n:1",
        labels=family.labels,
        inverse_labels=(),
        forward=family.forward,
        backward=spoken(family.backward),
        forward_nouns=family.forward_nouns,
        backward_nouns=spoken(family.backward_nouns),
        domain=SHARED,
    )


_NO_NOUN = r"(?:and|or|with|that|who|which|have|has|is|are|as|in|by|does|do|the)\b"


def with_demonyms(text: str, topics: Sequence[str]) -> str:
    """Countries before a noun as people say them.

    >>> with_demonyms("list the Sweden ports", ["Sweden"]), with_demonyms("ports from Sweden", ["Sweden"])
    ('list the Swedish ports', 'ports from Sweden')
    """
    for topic in topics:
        if topic in DEMONYMS:
            before_noun = rf"(?<!from )(?<!in )(?<!of )(?<!country )\b{topic}(?= [a-z])(?! {_NO_NOUN})"
            text = re.sub(before_noun, DEMONYMS[topic], text)
    return text


# True and false


def truth_facts(
    things: Mapping[str, Sequence[str]],
    camel: bool,
    taken: Collection[str],
    key: Callable[[str], str],
    chance: random.Random,
) -> list[Triple]:
    """Facts that are true or false of every thing of a kind or two; no label has a key that is `taken`."""
    yes, no = chance.choice((("true", "false"), ("true", "false"), ("yes", "no"), ("True", "False")))
    facts: list[Triple] = []
    keys = set(taken)
    kinds = [kind for kind in sorted(things) if truth_words(kind)]
    for kind in chance.sample(kinds, min(len(kinds), chance.choice((1, 2, 2, 3)))):
        words = [*(["is"] * (chance.random() < 0.3)), *chance.choice(truth_words(kind)).split()]
        label = words[0] + "".join(map(str.title, words[1:])) if camel else "_".join(words)
        if key(label) in keys:
            continue
        keys.add(key(label))
        share = chance.uniform(0.15, 0.7)
        facts += [Triple(name, label, yes if chance.random() < share else no) for name in things[kind]]
    return facts
