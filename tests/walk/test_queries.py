"""Walks as queries: every call in every language by hand, names that would break out, and made questions in bulk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks.queries import EngineTally, Oxigraph, PythonScript, Sqlite, compare, made_programs, walked

from company import company
from conftest import AWKWARD, store_of, temporary_store
from kgwalk.data.dataset import load_dataset
from kgwalk.kg.build import build
from kgwalk.kg.store import StoredGraph, open_graph
from kgwalk.systems.kgwalk.protocol import program as calls_of
from kgwalk.types import Answer, Call, Turn
from kgwalk.walk.kinds import kind_named
from kgwalk.walk.language import CALLS, DATED_CALLS
from kgwalk.walk.queries import LANGUAGES, query_of
from kgwalk.walk.queries.program import QueryError, WalkProgram, program_of
from kgwalk.walk.queries.readings import NoReading, ValueReading, comparing, ordering

SHOP = """\
Ann	works_in	Sales
Bob	works_in	Sales
Cem	works_in	Design
Dee	works_in	Design
Ann	salary	100
Bob	salary	1,200
Cem	salary	250
Cem	salary	90
Dee	salary	unknown
Ann	speaks	French
Ann	speaks	German
Bob	speaks	French
Ann	born	1990-05-01
Bob	born	1991
Cem	born	1990-11
Ann	starts	09:30
Bob	starts	10:15
Ann	is_a	Employee
Bob	is_a	Employee
Cem	is_a	Employee
Dee	is_a	Employee
chair	price	p1
table	price	p2
lamp	price	p3
p1	amount	20 EUR
p2	amount	90 EUR
p3	amount	20 EUR
chair	width	40
chair	height	90
table	width	120
table	height	75
order 7	item	chair
order 7	item	lamp
order 7	item	table
chair	needs	seat
seat	needs	foam
foam	needs	seat
row 1	whole	chair
row 1	part	seat
row 2	whole	seat
row 2	part	foam
Ivo	plays_for	Roma	1990..1994
Ivo	plays_for	Bari	1994..1997
Ivo	plays_for	Pisa	1999
Una	plays_for	Bari	1995-06..
Una	plays_for	Lodi
Una	plays_for	Roma	..1989
"""
Engines = dict[str, Sqlite | Oxigraph | PythonScript]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> StoredGraph:
    return store_of(tmp_path_factory.mktemp("shop"), [line.split("\t") for line in SHOP.splitlines()])


@pytest.fixture(scope="module")
def engines(shop: StoredGraph) -> Iterator[Engines]:
    made: Engines = {"sql": Sqlite(shop), "sparql": Oxigraph(shop), "python": PythonScript(shop)}
    yield made
    for engine in made.values():
        engine.close()


def program(graph: StoredGraph, text: str, kinds: tuple[str, ...] = ()) -> WalkProgram:
    """Calls as a person writes them; the kinds are the first sets, the last set is the answer."""
    found = [kind_named(name, graph) for name in kinds]
    calls = calls_of(text)
    return WalkProgram((), tuple(kind for kind in found if kind), tuple(calls), len(found) + len(calls)).sliced()


# Every call by hand: the program, what it gives, and whether it starts from all employees ($1)

BY_HAND = [
    ('tail_entities("Ann", "speaks")', "French German"),
    ('head_entities("French", "speaks")', "Ann Bob"),
    ('tail_entities("order 7", "item/price/amount")', "20 EUR|90 EUR"),
    ('tail_entities("French", "^speaks/works_in")', "Sales"),
    ('tail_entities("Ann", "speaks|works_in")', "French German Sales"),
    ('tail_entities("Ann", "works_in/^works_in")', "Ann Bob"),  # turns back by the fact that it came by
    ('tail_entities("chair", "needs+")', "foam seat"),
    ('head_entities("foam", "needs+")', "chair foam seat"),
    ('tail_entities("chair", "(^whole/part)+")', "foam seat"),
    ('tail_entities("Ann", "speaks"); tail_entities("Bob", "speaks"); intersect($1, $2)', "French"),
    ('tail_entities("Ann", "speaks"); union($1, "Greek Lodi")', None),
    ('tail_entities("Ann", "speaks"); union($1, "Lodi")', "French German Lodi"),
    ('tail_entities("Ann", "speaks"); minus($1, "French")', "German"),
    ('count($1)', "4", "employee"),
    ('filter($1, "salary", ">", "200")', "Bob Cem", "employee"),  # 1,200; and Dee's is unknown
    ('filter($1, "salary", "<=", "100")', "Ann Cem", "employee"),
    ('filter($1, "salary", "!=", "90")', "Ann Bob Dee", "employee"),
    ('filter($1, "works_in", "=", "design")', "Cem Dee", "employee"),  # in any case of letters
    ('filter($1, "works_in", "!=", "Design")', "Ann Bob", "employee"),
    ('filter($1, "born", "=", "1990")', "Ann Cem", "employee"),
    ('filter($1, "born", ">", "1990")', "Bob", "employee"),
    ('filter($1, "born", ">=", "1990-11")', "Bob Cem", "employee"),
    ('filter($1, "starts", "<", "10:00")', "Ann", "employee"),
    ('filter($1, "count(speaks)", ">=", "1")', "Ann Bob", "employee"),
    ('filter($1, "count(speaks)", "=", "0")', "Cem Dee", "employee"),
    ('tail_entities("Cem", "salary"); filter($1, "salary", "<", $2)', "Ann Cem", "employee"),
    ('union("chair", "table"); filter($1, "width", ">", "height")', "table"),
    ('argmax($1, "salary")', "Bob", "employee"),
    ('argmin($1, "salary")', "Cem", "employee"),
    ('argmax($1, "born")', "Bob", "employee"),
    ('tail_entities("order 7", "item"); argmin($1, "price")', "chair lamp"),  # read through the node that holds it
    ('top($1, "salary", "2")', "Bob Cem", "employee"),
    ('bottom($1, "salary", "all")', "Cem Ann Bob", "employee"),
    ('top($1, "salary", "all"); nth($2, "3")', "Ann", "employee"),
    ('bottom($1, "works_in", "all"); count($2)', "4", "employee"),
    ('union("Ann", "Bob"); sum($1, "salary")', "1300"),
    ('tail_entities("order 7", "item"); sum($1, "price/amount")', "130 EUR"),  # two cost the same, both count
    ('union("order 7", "Ann"); argmax($1, "sum(item/price/amount)")', "order 7"),
    ('tail_entities("order 7", "item"); average($1, "price/amount")', "43.33333333 EUR"),
    ('union("Ann", "Bob"); least($1, "salary")', "100"),
    ('union("Ann", "Bob"); greatest($1, "born")', "1991"),
    ('sum("chair", "width|height"); least("table", "width|height"); subtract($1, $2)', "55"),
    ('tail_entities("Bob", "salary"); tail_entities("Ann", "salary"); subtract($1, $2)', "1100"),
    ('subtract("90 EUR", "20 EUR")', "70 EUR"),
    ('tail_entities("Ann", "born"); subtract($1, "1990-04-29")', "2 days"),
    ('subtract("1990-11", "1988")', "2"),
    ('divide("90 EUR", "20 EUR")', "4.5"),
    ('tail_entities("Ann", "speaks"); only($1, "speaks", $2)', "Ann Bob", "employee"),
    ('tail_entities("Bob", "speaks"); only($1, "speaks", $2)', "Bob", "employee"),
    ('none($1, "speaks", "French")', "Cem Dee", "employee"),
    ('tail_entities("Ann", "speaks"); every($1, "speaks", $2)', "Ann", "employee"),
    ('tail_entities("Ann", "speaks"); is_in("French", $1)', "yes"),
    ('tail_entities("Bob", "speaks"); tail_entities("Ann", "speaks"); is_in($2, $1)', "no"),
    ('tail_entities("Ann", "speaks"); tail_entities("Bob", "speaks"); overlap($1, $2)', "yes"),
    ('tail_entities("Ann", "salary"); compare($1, "<", "101")', "yes"),
    ('tail_entities("Ann", "born"); compare($1, "=", "1990")', "yes"),
    ('between("Ivo", "plays_for", "1993", "1995")', "Bari Roma"),
    ('tail_entities("Una", "plays_for@1996")', "Bari"),
    ('tail_entities("Una", "plays_for")', "Bari Lodi Roma"),
    ('tail_entities("Una", "plays_for/^plays_for")', "Ivo Una"),
    ('when("Ivo", "plays_for")', "1990..1994 1994..1997 1999"),
    ('when("Ivo", "plays_for", "Pisa")', "1999"),
    ('earliest("Ivo", "plays_for")', "Roma"),
    ('latest("Ivo", "plays_for")', "Pisa"),
    ('before("Ivo", "plays_for", "1994")', "Roma"),
    ('after("Ivo", "plays_for", "1994")', "Pisa"),
    ('union("Ivo", "Una"); argmin($1, "start(plays_for in $2)")', None),
    ('head_entities("Bari", "plays_for"); argmin($1, "start(plays_for)")', "Ivo"),
    ('head_entities("Bari", "plays_for"); filter($1, "end(plays_for)", ">", "1998")', "Ivo"),
]  # fmt: skip
WORKED = [(case[0], case[1], case[2:]) for case in BY_HAND if case[1] is not None]


@pytest.mark.parametrize(("text", "wanted", "kinds"), WORKED, ids=[case[0] for case in WORKED])
def test_every_query_gives_what_the_walk_gives(
    shop: StoredGraph, engines: Engines, text: str, wanted: str, kinds: tuple[str, ...]
) -> None:
    walk = program(shop, text, kinds)
    made = walked(walk, shop)
    separator = "|" if "|" in wanted or "EUR" in wanted or "days" in wanted or wanted == "order 7" else " "
    assert sorted(made.members) == sorted(wanted.split(separator))
    if made.ordered:
        assert list(made.members) == wanted.split(separator)
    for language, engine in engines.items():
        rows = [row[0] for row in engine.rows(query_of(walk, shop, language))]
        if language == "sparql" and "average" in text:  # as many figures as a decimal has
            rows = [f"{float(row.split()[0]):.10g} EUR" for row in rows]
        assert (rows if made.ordered else sorted(rows)) == (
            list(made.members) if made.ordered else sorted(made.members)
        ), language
    assert query_of(walk, shop, "cypher").startswith(("WITH", "OPTIONAL MATCH"))  # run by benchmarks/queries.py


def test_every_call_is_worked_by_hand() -> None:
    named = {call.tool for text, _, _ in WORKED for call in calls_of(text)}
    assert named == {*CALLS, *DATED_CALLS} - {"table"}


def test_a_table_has_a_row_for_each_member(shop: StoredGraph, engines: Engines) -> None:
    walk = program(shop, 'union("Ann", "Cem"); table($1, "works_in", "salary", "count(speaks)")')
    for language, engine in engines.items():
        rows = {
            row[0]: [set(cell.split("; ")) for cell in row[1:]] for row in engine.rows(query_of(walk, shop, language))
        }
        assert rows == {"Ann": [{"Sales"}, {"100"}, {"2"}], "Cem": [{"Design"}, {"250", "90"}, {"0"}]}, language


def test_columns_called_alike_stay_apart(shop: StoredGraph, engines: Engines) -> None:
    walk = program(shop, 'union("Ann", "Cem"); table($1, "works_in", "works_in")')
    rows = engines["sparql"].rows(query_of(walk, shop, "sparql"))
    assert sorted(rows) == [("Ann", "Sales", "Sales"), ("Cem", "Design", "Design")]
    assert query_of(walk, shop, "cypher").endswith("x[1] AS `works_in`, x[2] AS `works_in 2`;\n")


# How they look


def test_sql_has_a_table_for_each_set(shop: StoredGraph) -> None:
    walk = program(shop, 'tail_entities("Ann", "speaks"); tail_entities("Ann", "works_in"); count($1)')
    assert query_of(walk, shop, "sql") == (
        "WITH\n"
        "s1(name) AS (SELECT 'Ann'),\n"
        "s2(name) AS (SELECT DISTINCT f.tail FROM s1 s JOIN facts f ON f.head = s.name AND f.relation = 'speaks'),\n"
        "s3(name) AS (SELECT CAST(COUNT(*) AS VARCHAR) FROM s2)\n"
        "SELECT name FROM s3;\n"
    )


def test_sparql_is_of_the_terms_of_the_export(shop: StoredGraph) -> None:
    assert query_of(program(shop, 'tail_entities("order 7", "item")'), shop, "sparql") == (
        "PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#>\n"
        "SELECT DISTINCT ?answer ?name WHERE {\n"
        "  VALUES ?x1 { <urn:kgwalk:entity:order%207> }\n"
        "  ?x1 <urn:kgwalk:relation:item> ?answer .\n"
        "  ?answer rdfs:label ?name .\n"
        "}\n"
    )


def test_cypher_carries_lists_of_names(shop: StoredGraph) -> None:
    assert query_of(program(shop, 'tail_entities("order 7", "item/price")'), shop, "cypher") == (
        "WITH ['order 7'] AS s1\n"
        "OPTIONAL MATCH (a:Entity)-[:`item`]->(b1:Entity) WHERE a.name IN s1\n"
        "OPTIONAL MATCH (b1)-[:`price`]->(b2:Entity)\n"
        "WITH collect(DISTINCT b2.name) AS s2\n"
        "UNWIND s2 AS name RETURN name;\n"
    )


def test_python_ends_with_the_sets(shop: StoredGraph) -> None:
    text = query_of(program(shop, 'tail_entities("chair", "needs+")'), shop, "python")
    sets = "s1 = {'chair'}\ns2 = again(s1, lambda edge: follow(edge, 'needs'))\n"
    assert text.endswith(f"\n\n{sets}for name in sorted(s2):\n    print(name)\n")


# The program of a walk


def test_dead_ends_are_left_out_and_sets_numbered_anew() -> None:
    calls = (
        Call("tail_entities", (2, "borders")),  # $3
        Call("tail_entities", (1, "speaks")),  # $4, which nothing comes of
        Call("head_entities", (3, "works_in")),  # $5
        Call("argmax", (3, "count(^works_in in $5)")),  # $6
    )
    sliced = WalkProgram(("Rome", "Italy"), (), calls, 6).sliced()
    assert sliced.topics == ("Italy",)
    assert [call.args for call in sliced.calls] == [(1, "borders"), (2, "works_in"), (2, "count(^works_in in $3)")]
    assert sliced.answer == 4


def test_a_walk_is_read_off_its_turns() -> None:
    def turn(step: Call | Answer, ok: bool = True) -> Turn:
        return Turn([], [], "", step, ok=ok)

    wrong, right = Call("tail_entities", (1, "bordres")), Call("tail_entities", (1, "borders"))
    made = program_of([turn(wrong, ok=False), turn(right), turn(Answer((2,)))], ["Italy"], [])
    assert made == WalkProgram(("Italy",), (), (right,), 2)
    for answer, why in ((Answer(("Oslo",)), "written out by name"), (Answer(()), "the graph does not tell")):
        with pytest.raises(QueryError, match=why):
            program_of([turn(answer)], ["Italy"], [])
    with pytest.raises(QueryError, match="no answer"):
        program_of([turn(right)], ["Italy"], [])


# What has no query


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('tail_entities("order 7", "item"); bottom($1, "price/amount", "1")', "members 1 and 2 in order have the same"),
        ('tail_entities("Ann", "speaks"); nth($1, "1")', "no order but that of the graph"),
        ('union("Ann", "Bob"); tail_entities("Ann", "speaks"); filter($1, "speaks", "!=", $2)', "a set of 2 members"),
    ],
)
def test_what_depends_on_the_order_of_the_graph_is_refused(shop: StoredGraph, text: str, why: str) -> None:
    for language in LANGUAGES:
        with pytest.raises(QueryError, match=why) as refused:
            query_of(program(shop, text), shop, language)
        assert "no query for `" in str(refused.value)  # which call it is


def test_sparql_says_where_a_path_would_have_to_change_graphs(shop: StoredGraph, engines: Engines) -> None:
    """plays_for has dates, and facts of different dates stand in different graphs; needs has none."""
    walk = program(shop, 'tail_entities("Ivo", "(plays_for/^plays_for)+")')
    with pytest.raises(QueryError, match=r"no SPARQL for `tail_entities.*cannot go from one graph to another"):
        query_of(walk, shop, "sparql")
    assert engines["sql"].rows(query_of(walk, shop, "sql")) == [("Ivo",), ("Una",)]
    with pytest.raises(QueryError, match="no Cypher for"):
        query_of(walk, shop, "cypher")


def test_readings_are_tried_on_every_text() -> None:
    assert ordering(["9", "10", "1,000"]) == ValueReading("number", commas=True)
    assert ordering(["9 kg", "10 kg"]).unit == "kg"
    assert ordering(["1999", "2000-05-01"]).form == "date"
    assert ordering(["b", "a"]).form == "text"
    assert comparing("=", [("PARIS", "Paris"), ("Rome", "Paris")]).spellings == (("Paris", ("PARIS",)),)
    for texts in (["2 million", "3"], ["5 kg", "7 m"], ["-44-03-15", "2000-01-01"], ["B", "a"]):
        with pytest.raises(NoReading):
            ordering(texts)


# Names that would break out


def test_no_name_breaks_out_of_a_query() -> None:
    hostile = [
        *(name for name in AWKWARD if "\0" not in name),
        "'); DROP TABLE facts; --",
        '"} } # ',
        "> } <urn:x",
        "`]->() DETACH DELETE n //",
        "\\' OR 1=1",
        "\\u0027 or \\u0022",
        "{braces}",
        "%s ? $1 :name",
        '"""',
        "-- */ #",
    ]
    facts = [(name, "says", f"of {at}") for at, name in enumerate(hostile)]
    facts += [(f"is {at}", name, "so") for at, name in enumerate(hostile)]
    with temporary_store(facts) as graph:
        engines = (Sqlite(graph), Oxigraph(graph), PythonScript(graph))
        for at, name in enumerate(hostile):
            calls = Call("tail_entities", (1, "says")), Call("filter", (1, "says", "=", f"of {at}"))
            from_it = WalkProgram((name,), (), calls[:1], 2)
            kept = WalkProgram((name,), (), calls[1:], 2)
            for engine in engines:
                assert engine.rows(query_of(from_it, graph, engine.language)) == [(f"of {at}",)], (engine, name)
                if not set("\t\n\r") & set(name):  # a script prints a name a line
                    assert engine.rows(query_of(kept, graph, engine.language)) == [(name,)], (engine, name)
                if graph.has_relation(name):
                    back = WalkProgram(("so",), (), (Call("head_entities", (1, name)),), 2)
                    assert engine.rows(query_of(back, graph, engine.language)) == [(f"is {at}",)], (engine, name)
        for engine in engines:
            engine.close()


def test_cypher_escapes_names() -> None:
    with temporary_store([("it's \\ `\n\\u0027", "a`b", "x")]) as graph:
        query = query_of(
            WalkProgram(("it's \\ `\n\\u0027",), (), (Call("tail_entities", (1, "a`b")),), 2), graph, "cypher"
        )
        assert query.splitlines()[0] == r"WITH ['it\'s \\ `\n\\' + 'u0027'] AS s1"
        assert "-[:`a``b`]->" in query


def test_nul_has_no_literal() -> None:
    with temporary_store([("nul\0inside", "says", "x")]) as graph:
        walk = WalkProgram(("nul\0inside",), (), (Call("tail_entities", (1, "says")),), 2)
        with pytest.raises(QueryError, match="NUL"):
            query_of(walk, graph, "sql")


# Graphs from RDF

TURTLE = """\
@prefix : <http://example.org/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
:fr rdfs:label "France" ; :borders :es, :de ; :area 551500 .
:es rdfs:label "Spain" ; :area 505990.5 ; :capital [ rdfs:label "Madrid" ; :twin :p1 ] .
:de rdfs:label "Germany" ; :area "357,582" ; :founded "1949-05-23"^^xsd:date .
:p1 rdfs:label "Paris" ; :in :fr .
:p2 rdfs:label "Paris" ; :in :us .
"""


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> StoredGraph:
    folder = tmp_path_factory.mktemp("rdf")
    (folder / "places.ttl").write_text(TURTLE)
    build([folder / "places.ttl"], folder / "places.kg")
    return open_graph(folder / "places.kg")


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ('tail_entities("France", "borders")', ["<http://example.org/de>", "<http://example.org/es>"]),
        ('tail_entities("France", "borders"); argmax($1, "area")', ["<http://example.org/es>"]),
        ('tail_entities("Germany", "founded")', ['"1949-05-23"^^<http://www.w3.org/2001/XMLSchema#date>']),
        ('head_entities("France", "in")', ["<http://example.org/p1>"]),
        ('tail_entities("Madrid", "twin")', ["<http://example.org/p1>"]),  # from a blank node, by its label
    ],
)
def test_a_graph_of_rdf_is_asked_by_its_iris(places: StoredGraph, text: str, terms: list[str]) -> None:
    walk = program(places, text)
    engine = Oxigraph(places)
    found = engine.store.query(query_of(walk, places, "sparql"))
    assert sorted(str(row["answer"]) for row in found) == terms  # type: ignore[union-attr]
    names = sorted(walked(walk, places).members)
    assert sorted(row[0] for row in Sqlite(places).rows(query_of(walk, places, "sql"))) == names


# Questions made in bulk


def agree(graph: StoredGraph, count: int, *engines: type[Sqlite | Oxigraph | PythonScript]) -> dict[str, EngineTally]:
    tallies = {}
    programs = made_programs(graph, count)
    for make in engines:
        engine, tally = make(graph), EngineTally()
        compare(engine, graph, programs, tally)  # type: ignore[arg-type]
        engine.close()
        assert tally.differing == []
        tallies[make.__name__] = tally
    return tallies


def test_made_questions_of_a_firm_are_answered_alike(tmp_path: Path) -> None:
    """Dates, prices behind nodes, bosses of bosses: all but a few have a query, and no query gives another answer."""
    for tally in agree(store_of(tmp_path, company()), 150, Sqlite, Oxigraph, PythonScript).values():
        assert tally.counts["same"] >= 0.9 * tally.counts.total()


def test_made_questions_of_the_world_are_answered_alike() -> None:
    """Five hundred of them, and those in Cypher and Python, are run by benchmarks/queries.py."""
    for tally in agree(load_dataset("world").graph(), 40, Sqlite, Oxigraph).values():
        assert tally.counts["same"] == tally.counts.total()
