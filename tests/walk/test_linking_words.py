"""In other words: what people call the things and kinds of their graphs, on a graph small enough to check by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conftest import memory_folder, store_of
from kgwalk.kg.build import build
from kgwalk.kg.store import StoredGraph, open_graph
from kgwalk.types import Found
from kgwalk.walk.linking import link, topics
from kgwalk.walk.name_lookup import RankedName
from kgwalk.walk.name_matches import holding
from kgwalk.walk.starts import starts_in
from kgwalk.walk.values import value_of, values_in

HARBOUR = [
    ("Port of Kiel", "is_a", "port"),
    ("Kiel Depot", "is_a", "depot"),
    ("F1", "is_a", "ferry line"),
    ("F1", "from_port", "Port of Kiel"),
    ("F1", "operator", "Hansa Ferries"),
    ("Stop 1", "is_a", "route stop"),
    ("Stop 1", "place", "Kiel Depot"),
    ("R10", "is_a", "route"),
    ("R10", "name", "Amber Run"),
    ("Aino Jonaitis", "is_a", "driver"),
    ("Aino Jonaitis", "salary", "3000"),
    ("Casper Lehmann", "is_a", "driver"),
    ("Casper Lehmann", "rank", "Captain"),
    ("Casper Lehmann", "studied_at", "Royal Law School"),
    ("Aurora Paper", "is_a", "customer"),
    ("Aurora Paper", "home_town", "Turku"),
    ("Aurora Paper", "continent", "South-Eastern Asia"),
    ("Aurora Paper", "aliases", "AP Corp; Northern Paper"),
    ("Mayor of Kiel", "is_a", "office"),
    ("Mayor of Turku", "is_a", "office"),
    ("Turku", "lies_in", "Finland"),
    ("Finland", "national_dish", "rye bread"),
    ("Finnish", "is_a", "language"),
    ("Kingfisher", "is_a", "truck"),
    ("Kingfisher", "designed_by", "Uwe Berg"),
    ("Kingfisher", "model", "7 Wonders"),
    ("Kingfisher", "written_in", "c++"),
    ("R10", "written_in", "c"),
    ("cooperation", "is_a", "mechanic"),
    ("Minister of Defence", "is_a", "office"),
    ("Computer Science", "is_a", "faculty"),
    ("ward_cardiology", "is_a", "ward"),
    ("potassium", "is_a", "element"),
    ("potassium", "symbol", "K"),
]


@pytest.fixture(scope="module")
def harbour() -> Iterator[StoredGraph]:
    with memory_folder() as folder:
        yield store_of(folder, HARBOUR)


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("where does the ferry from kiel go", ["Port of Kiel"]),  # ferry lines lead to the port
        ("which stop is in kiel", ["Kiel Depot"]),
        ("what does Captain Lehmann earn", ["Captain", "Casper Lehmann"]),  # a name beside a title
        ("is aino certified (ADR)", ["Aino Jonaitis"]),  # capitals of an abbreviation say nothing of the others
        ("who went to the law school", ["Royal Law School"]),  # two words that one name has
        ("how is the king fisher doing", ["Kingfisher"]),  # joined otherwise
        ("is it written in c++", ["c++"]),
        ("where is northern paper", ["Aurora Paper"]),  # one of several aliases in a cell
        ("mayor of kiel or turku", ["Mayor of Kiel", "Mayor of Turku"]),  # shared words
        ("what is made in south east asia", ["South-Eastern Asia"]),
        ("typical finnish national dish", ["Finland"]),  # not the language, which has no dish
        ("how many seven wonders are there", ["7 Wonders"]),
        ("who is minister of defense", ["Minister of Defence"]),
        ("anything coop", ["cooperation"]),  # the beginning of just one name
        ("dean of cs", ["Computer Science"]),  # initials in small letters, that can be no word
        ("which doctor runs cardiology", ["ward_cardiology"]),  # its other word says what it is
    ],
)
def test_other_words_for_a_thing(harbour: StoredGraph, question: str, expected: list[str]) -> None:
    assert topics(link(question, harbour)) == expected


@pytest.mark.parametrize(
    ("question", "things", "kinds"),
    [
        ("how many clients do we have", [], ["customer"]),  # another word
        ("which lines are there", [], ["ferry line"]),  # the end of one kind's name
        ("ferries after 10pm", [], ["ferry line"]),  # its beginning; not Hansa Ferries
        ("which towns do customers come from", [], ["home town", "customer"]),  # what a relation leads to
        ("designers with two trucks", [], ["designed by", "truck"]),  # who does what a relation says
        ("who earns the most", [], ["driver"]),  # earning speaks of the salary
        ("who drives more than Aino Jonaitis", ["Aino Jonaitis"], ["driver"]),  # what she is compared with
        ("what do we run", [], []),  # not the Amber Run
        ("customers outside Turku", ["Turku"], ["customer"]),
        ("elements that melt above 3000 K", [], ["element"]),  # a unit, not potassium
        ("all custmers", [], ["customer"]),
    ],
)
def test_other_words_for_a_kind(harbour: StoredGraph, question: str, things: list[str], kinds: list[str]) -> None:
    mentions, found = starts_in(question, harbour)
    assert (topics(mentions), sorted(kind.name for kind in found)) == (things, sorted(kinds))


def test_a_verb_is_no_kind(harbour: StoredGraph) -> None:
    mentions, kinds = starts_in("routes that stop in kiel", harbour)
    assert (topics(mentions), [kind.name for kind in kinds]) == (["Kiel Depot"], [])


LABELS = """
@prefix : <http://example.org/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
:ch a :Country ; rdfs:label "Switzerland"@en , "Schweiz"@de , "Suisse"@fr ; :speaks :fr .
:prof a :Rank ; rdfs:label "Professor"@en ; :pay 5 .
:fr a :Language ; rdfs:label "French"@en , "Französisch"@de .
"""


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("welche sprachen spricht man in der schweiz", ["Switzerland"]),
        ("quelles sont les langues en suisse", ["Switzerland"]),
        ("wo ist französisch amtssprache", ["French"]),
        ("wie viele professoren gibt es", ["Professor"]),  # a German plural
    ],
)
def test_labels_in_other_languages_are_names(tmp_path: Path, question: str, expected: list[str]) -> None:
    (tmp_path / "x.ttl").write_text(LABELS)
    build([tmp_path / "x.ttl"], tmp_path / "x.kg")
    graph = open_graph(tmp_path / "x.kg")
    assert topics(link(question, graph)) == expected
    assert sorted(graph.store.other_names) == [("Französisch", _number(graph, "French"))] + [
        (name, _number(graph, "Switzerland")) for name in ("Schweiz", "Suisse")
    ]


def _number(graph: StoredGraph, name: str) -> int:
    number = graph.store.entity_number(name)
    assert number is not None
    return number


def test_a_graph_with_many_figures_has_few_names(store: Callable[..., StoredGraph]) -> None:
    """20,000 prices are no names: "lehmann" is still looked for as a part of one."""
    facts = [("Casper Lehmann", "price", f"{n}.5") for n in range(20_500)]
    assert topics(link("does lehmann have a red car", store([*facts, ("Casper Lehmann", "car", "x1")]))) == [
        "Casper Lehmann"
    ]


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("parts below 2.5k or over two hundred and fifty", [2500, 250]),
        ("half a million, a dozen, twenty-five", [500_000, 12, 25]),
        ("in the nineties or the 2010s", [1990, 2010]),
        ("ferries after 10pm or before 7:30 am, or at noon", [22, 7.5, 12]),
        ("100kg, 50%, 800,000 km, not the 2nd of N10156", [100, 50, 800_000]),
    ],
)
def test_values_as_people_write_them(question: str, expected: list[float]) -> None:
    read = [value_of(value) for value in values_in(question)]
    assert [value.number for value in read if value is not None] == expected


CLINIC = [
    ("Martin Price", "is_a", "doctor"),
    ("Martin Price", "price", "90"),
    ("Irene Castellanos", "is_a", "doctor"),
    ("Intensive Care Unit", "is_a", "ward"),
    ("Information Security", "is_a", "team"),
    ("Database Administration", "is_a", "team"),
    ("Database Administration", "lead", "Irene Castellanos"),
    ("SRV-019", "is_a", "server"),
    ("SRV-019", "system", "Windows Server 2019"),
    ("SRV-020", "is_a", "server"),
    ("SRV-020", "system", "Windows Server 2022"),
    ("INC-1", "is_a", "incident"),
    ("INC-1", "status", "open"),
    ("INC-1", "priority", "P1"),
    ("INC-1", "opened_on", "2024-03-01"),
    ("Head", "is_a", "sculpture"),
    ("Head", "held_by", "House of Light"),
    ("Swan", "is_a", "painting"),
    ("Swan", "held_by", "Rhine Gallery"),
    ("Wharf Street", "is_a", "street"),
    ("Martin Luther King School", "is_a", "school"),
]


@pytest.fixture(scope="module")
def clinic() -> Iterator[StoredGraph]:
    with memory_folder() as folder:
        yield store_of(folder, CLINIC)


@pytest.mark.parametrize(
    ("question", "things", "kinds"),
    [
        ("when did dr price start here", ["Martin Price"], []),  # a last name that is a word of its own
        ("pager of castelanos", ["Irene Castellanos"], []),  # misspelt
        ("how many beds on the icu", ["Intensive Care Unit"], []),
        ("who is in infosec", ["Information Security"], []),
        ("who is in the database team", ["Database Administration"], []),
        ("is SRV-019 one of the windows servers", ["SRV-019", "Windows Server 2019", "Windows Server 2022"], []),
        ("who looks after SRV-099", [], []),  # no misspelt SRV-019
        ("open P1s", ["open", "P1"], []),
        ("how many sculptures does the rhine galery have", ["Rhine Gallery"], ["sculpture"]),  # none; it holds the Swan
        ("what is in wharf st", ["Wharf Street"], []),
        ("how many kids go to MLK school", ["Martin Luther King School"], []),
    ],
)
def test_names_in_short_misspelt_and_before_what_they_are(
    clinic: StoredGraph, question: str, things: list[str], kinds: list[str]
) -> None:
    mentions, found = starts_in(question, clinic)
    assert (topics(mentions), [kind.name for kind in found]) == (things, kinds)


def test_names_of_one_rank_are_held_in_the_order_given() -> None:
    """Of a graph elsewhere the ranks are not known: all are 0."""
    near = [RankedName(0, Found(name, 0.9, "fuzzy")) for name in ("Paris, Texas", "Paris Hilton", "Lyon")]
    assert [one.found.name for one in holding("paris", near)] == ["Paris, Texas", "Paris Hilton"]
