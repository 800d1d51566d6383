"""Several tables as one graph: keys of each table's own, foreign keys, labels, and what a person chooses."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kgwalk.kg.build import BuildReport, build
from kgwalk.kg.sources.source import Options
from kgwalk.kg.store import open_graph
from kgwalk.questions.drawing import WalkSampler
from kgwalk.questions.plan import MakeSettings
from kgwalk.types import InputError
from kgwalk.walk.kinds import kinds_in, names_class

Fact = tuple[str, str, str]
SHOP = {
    "products": "id,name,category,price\n1,Trek 820,city,400\n2,Heron,city,650\n3,Bell,part,9\n",
    "customers": "id,name,city\n1,Velo Bern,Bern\n2,Roue Libre,Lyon\n",
    "orders": "id,customer_id,ordered_on\nSO-1,2,2024-01-05\nSO-2,1,2024-02-01\nSO-3,2,2024-02-01\n",
    "order_lines": "id,order_id,product_id,quantity\n1,SO-1,1,2\n2,SO-1,3,1\n3,SO-2,2,1\n4,SO-3,1,5\n",
}


def made(folder: Path, tables: dict[str, str], *keys: str, **options: Any) -> tuple[set[Fact], BuildReport]:
    """The facts of the graph that the tables make, as people see them."""
    files = []
    for name, text in tables.items():
        files.append(folder / (name if "." in name else f"{name}.csv"))
        files[-1].write_text(text)
    report = build(files, folder / "made.kg", options=Options(table=True, keys=keys, **options), replace=True)
    facts = open_graph(folder / "made.kg").match(None, None, None)
    return {(fact.head, fact.relation, fact.tail) for fact in facts}, report


def links(report: BuildReport) -> dict[str, str]:
    return {f"{one.table}.{column}": table for one in report.tables for column, table in one.links.items()}


def test_a_1_is_a_row_of_its_own_table(tmp_path: Path) -> None:
    """Product 1, customer 1, order line 1 and the quantity 1 are four things."""
    facts, report = made(tmp_path, SHOP)
    assert {fact for fact in facts if fact[0] == "Trek 820"} == {
        ("Trek 820", "name", "Trek 820"),
        ("Trek 820", "category", "city"),
        ("Trek 820", "price", "400"),
        ("Trek 820", "is_a", "products"),
    }
    assert {fact for fact in facts if fact[0] == "order_lines 1"} == {
        ("order_lines 1", "order_id", "SO-1"),
        ("order_lines 1", "product_id", "Trek 820"),
        ("order_lines 1", "quantity", "2"),
        ("order_lines 1", "is_a", "order_lines"),
    }
    assert {head for head, relation, tail in facts if (relation, tail) == ("customer_id", "Roue Libre")} == {
        "SO-1",
        "SO-3",
    }
    assert {head for head, _, tail in facts if tail == "1"} == {"order_lines 2", "order_lines 3"}  # their quantity
    assert links(report) == {
        "orders.customer_id": "customers",
        "order_lines.order_id": "orders",
        "order_lines.product_id": "products",
    }
    assert [(one.table, one.rows, one.key, one.label, one.read_as) for one in report.tables] == [
        ("products", 3, "id", ["name"], "rows"),
        ("customers", 2, "id", ["name"], "rows"),
        ("orders", 3, "id", [], "rows"),
        ("order_lines", 4, "id", [], "rows"),
    ]


def test_the_report_says_what_was_found(tmp_path: Path) -> None:
    _, report = made(tmp_path, SHOP)
    assert report.notes[3] == (
        f"{tmp_path}/order_lines.csv: read as a table of order_lines, by column 1 (id); order_id -> orders, "
        "product_id -> products; the relations are quantity"
    )


def test_the_order_of_the_files_does_not_matter(tmp_path: Path) -> None:
    assert made(tmp_path, SHOP)[0] == made(tmp_path, dict(reversed(SHOP.items())))[0]


def test_a_rows_table_is_its_kind(tmp_path: Path) -> None:
    made(tmp_path, SHOP)
    graph = open_graph(tmp_path / "made.kg")
    (orders,) = kinds_in("how many orders are there", graph)
    assert sorted(orders.kind.members(graph)) == ["SO-1", "SO-2", "SO-3"]
    (customers,) = kinds_in("which customer ordered the most", graph)
    assert sorted(customers.kind.members(graph)) == ["Roue Libre", "Velo Bern"]


def test_labels_get_an_id_only_where_two_would_be_confused(tmp_path: Path) -> None:
    facts, _ = made(tmp_path, {"bikes": "id,name,price\n1,Trek 820,400\n2,Trek 820,450\n3,Heron,650\n4,,80\n"})
    assert {(head, tail) for head, relation, tail in facts if relation == "price"} == {
        ("Trek 820 (1)", "400"),
        ("Trek 820 (2)", "450"),
        ("Heron", "650"),
        ("bikes 4", "80"),
    }
    assert ("Trek 820 (1)", "name", "Trek 820") in facts


def test_a_name_of_rows_of_two_tables(tmp_path: Path) -> None:
    tables = {
        "planets": "id,name,moons\n1,Mercury,0\n2,Mars,2\n",
        "metals": "id,name,melts\n1,Iron,1538\n2,Mercury,-39\n",
    }
    facts, _ = made(tmp_path, tables)
    assert {head for head, relation, _ in facts if relation == "is_a"} == {
        "Mercury (1)",
        "Mars",
        "Iron",
        "Mercury (2)",
    }


def test_a_label_that_is_a_number_is_not_the_number(tmp_path: Path) -> None:
    """Room 101 is not the number of seats of another room."""
    facts, _ = made(tmp_path, {"rooms": "id,name,seats\n7,101,20\n8,Aula,101\n"})
    assert {fact for fact in facts if fact[1] == "seats"} == {("rooms 101", "seats", "20"), ("Aula", "seats", "101")}


@pytest.mark.parametrize(
    ("column", "table"),
    [
        ("product_id", "products"),
        ("productId", "products"),
        ("ProductID", "Product"),
        ("productid", "products"),
        ("product", "products"),
        ("Product", "tbl_products"),
        ("id_product", "products"),
        ("main_product_id", "products"),
        ("product_code", "products"),
    ],
)
def test_a_foreign_key_by_its_name(column: str, table: str, tmp_path: Path) -> None:
    tables = {table: "id,name\n1,Heron\n2,Stork\n", "notes": f"id,{column},text\n1,2,good\n2,1,bad\n3,2,fair\n"}
    facts, report = made(tmp_path, tables)
    assert links(report) == {f"notes.{column}": table}
    assert {fact for fact in facts if fact[1] == column} == {
        ("notes 1", column, "Stork"),
        ("notes 2", column, "Heron"),
        ("notes 3", column, "Stork"),
    }


@pytest.mark.parametrize("column", ["orders", "floor", "since", "quantity", "stock"])
def test_a_number_is_no_foreign_key_because_there_is_such_a_key(column: str, tmp_path: Path) -> None:
    tables = {"orders": "id,placed\n1,2024\n2,2023\n3,2024\n", "shops": f"id,name,{column}\n1,North,3\n2,South,1\n"}
    facts, report = made(tmp_path, tables)
    assert links(report) == {}
    assert ("North", column, "3") in facts


def test_people_are_named_by_what_they_are_to_others(tmp_path: Path) -> None:
    tables = {
        "employees": "id,name,manager_id,department_id\n1,Ann,,1\n2,Bob,1,2\n3,Cid,1,1\n",
        "departments": "id,name,head_id,approved_by\n1,Sales,3,1\n2,IT,2,1\n",
        "teams": "id,name,staff\n1,Red,3\n2,Blue,2\n3,Green,9\n",
    }
    facts, report = made(tmp_path, tables)
    assert links(report) == {
        "employees.manager_id": "employees",
        "employees.department_id": "departments",
        "departments.head_id": "employees",
        "departments.approved_by": "employees",
    }
    assert {("Bob", "manager_id", "Ann"), ("Sales", "head_id", "Cid"), ("Red", "staff", "3")} <= facts


def test_the_manager_of_a_product_is_no_product(tmp_path: Path) -> None:
    tables = {
        "employees": "id,name,city\n1,Ann,Bern\n2,Bob,Lyon\n",
        "products": "id,name,product_manager_id\n1,Heron,2\n2,Stork,1\n",
    }
    assert links(made(tmp_path, tables)[1]) == {"products.product_manager_id": "employees"}


def test_codes_as_keys(tmp_path: Path) -> None:
    """Text that is a key of one table leads there, whatever the column is called; a code finds its row."""
    tables = {
        "airports": "faa,name,alt\nJFK,John F Kennedy Intl,13\nBOS,Logan Intl,19\nDEN,Denver Intl,5431\n",
        "flights": "flight,origin,dest,carrier\nB6915,JFK,BOS,B6\nDL1,BOS,DEN,DL\nDL2,JFK,XXX,DL\n",
        "airlines": "carrier,name\nB6,JetBlue\nDL,Delta\n",
    }
    facts, report = made(tmp_path, tables)
    assert links(report) == {"flights.origin": "airports", "flights.carrier": "airlines"}
    assert {fact for fact in facts if fact[1] == "dest"} == {
        ("B6915", "dest", "Logan Intl"),
        ("DL1", "dest", "Denver Intl"),
        ("DL2", "dest", "XXX"),
    }
    graph = open_graph(tmp_path / "made.kg")
    assert list(graph.neighbors("JFK", "origin", out=False).names) == list(
        graph.neighbors("John F Kennedy Intl", "origin", out=False).names
    )


def test_codes_that_two_tables_have(tmp_path: Path) -> None:
    tables = {
        "countries": "code,name,continent\nDE,Germany,Europe\nFR,France,Europe\n",
        "languages": "code,name,speakers\nDE,German,95\nEN,English,380\n",
        "cities": "city,country_code,language_code\nBonn,DE,DE\nLyon,FR,EN\n",
    }
    facts, _ = made(tmp_path, tables)
    assert {("Bonn", "country_code", "Germany"), ("Bonn", "language_code", "German")} <= facts
    assert {("Lyon", "country_code", "France"), ("Lyon", "language_code", "English")} <= facts


def test_names_in_place_of_keys(tmp_path: Path) -> None:
    """A spreadsheet that has names where a database has ids."""
    tables = {"staff": "id,name,boss,city\n1,Ann,,Bern\n2,Bob,Ann,Lyon\n", "offices": "id,name\n1,Bern\n2,Lyon\n"}
    facts, _ = made(tmp_path, tables)
    assert {("Bob", "boss", "Ann"), ("Ann", "city", "Bern"), ("Bern", "is_a", "offices")} <= facts
    assert not [name for fact in facts for name in fact if "(" in name]


def test_first_and_last_names(tmp_path: Path) -> None:
    facts, report = made(tmp_path, {"people": "PersonID,FirstName,LastName\n1,Ann,Lee\n2,Bob,Ray\n"})
    assert {head for head, _, _ in facts} == {"Ann Lee", "Bob Ray"}
    assert ("Ann Lee", "FirstName", "Ann") in facts
    assert report.tables[0].label == ["FirstName", "LastName"]


# Tables without a key of their own


CAST = {"films": "id,title,year\n1,Big,1988\n2,Splash,1984\n", "actors": "id,name\n1,Tom Hanks\n2,Daryl Hannah\n"}


def test_two_foreign_keys_are_a_relation(tmp_path: Path) -> None:
    facts, report = made(tmp_path, {**CAST, "film_actors": "film_id,actor_id\n1,1\n2,1\n2,2\n"})
    assert {fact for fact in facts if fact[1] in ("film_id", "actor_id")} == {
        ("Big", "actor_id", "Tom Hanks"),
        ("Splash", "actor_id", "Tom Hanks"),
        ("Splash", "actor_id", "Daryl Hannah"),
    }
    assert report.tables[2].read_as == "relation"
    assert report.notes[2].endswith("read as a relation between rows: film_id -> films, actor_id -> actors")


@pytest.mark.parametrize("text", ["film_id,actor_id\n2,1\n2,2\n2,2\n", "id,film_id,actor_id\n7,2,1\n8,2,2\n9,2,2\n"])
def test_rows_that_are_counted_stay_rows(text: str, tmp_path: Path) -> None:
    """Daryl Hannah is seen in Splash twice: with a key of their own, or where two are alike, rows are things."""
    facts, report = made(tmp_path, {**CAST, "screenings": text})
    assert report.tables[2].read_as == "rows"
    assert len([fact for fact in facts if fact[1:] == ("actor_id", "Daryl Hannah")]) == 2


def test_with_values_of_their_own_they_are_rows(tmp_path: Path) -> None:
    text = "film_id,actor_id,role\n1,1,Josh\n2,1,Allen\n2,2,Madison\n"
    facts, _ = made(tmp_path, {**CAST, "roles": text})
    assert {fact for fact in facts if fact[0] == "roles 3"} == {
        ("roles 3", "film_id", "Splash"),
        ("roles 3", "actor_id", "Daryl Hannah"),
        ("roles 3", "role", "Madison"),
        ("roles 3", "is_a", "roles"),
    }


def test_parts_of_parts(tmp_path: Path) -> None:
    tables = {
        "parts": "id,name\n1,Wheel\n2,Spoke\n3,Rim\n",
        "part_components": "id,part_id,component_id,quantity\n1,1,2,36\n2,1,3,1\n",
    }
    assert links(made(tmp_path, tables)[1]) == {
        "part_components.part_id": "parts",
        "part_components.component_id": "parts",
    }


def test_further_facts_about_rows_of_another_table(tmp_path: Path) -> None:
    tables = {
        "employees": "id,name\n1,Ann\n2,Bob\n",
        "contracts": "employee_id,salary,until\n1,4000,2030\n2,3900,2027\n",
    }
    facts, _ = made(tmp_path, tables)
    assert {("Ann", "salary", "4000"), ("Bob", "until", "2027"), ("Ann", "is_a", "contracts")} <= facts


def test_rows_about_one_thing(tmp_path: Path) -> None:
    """Where only one column differs between the rows of a thing nothing is lost; where two do, rows stay rows."""
    facts, report = made(tmp_path, {"speaks": "person,born,language\nAnn,1990,en\nAnn,1990,fr\nBob,1985,de\n"})
    assert {("Ann", "language", "en"), ("Ann", "language", "fr"), ("Ann", "born", "1990")} <= facts
    facts, report = made(tmp_path, {"gdp": "country,year,value\nChad,1990,1.7\nChad,1991,1.9\nMali,1990,2.7\n"})
    assert report.tables[0].key is None
    assert {fact for fact in facts if fact[0] == "gdp 2"} == {
        ("gdp 2", "country", "Chad"),
        ("gdp 2", "year", "1991"),
        ("gdp 2", "value", "1.9"),
        ("gdp 2", "is_a", "gdp"),
    }


# What a person says


def test_a_person_chooses_keys(tmp_path: Path) -> None:
    tables = {
        "boats": "id,number,name\n1,77,Swan\n2,88,Duck\n",
        "trips": "id,boat,pilot_id\n1,88,1\n2,77,1\n",
        "crew": "id,name\n1,Ann\n2,Bob\n",
    }
    facts, report = made(tmp_path, tables)
    assert links(report) == {}  # 77 and 88 are no ids of boats, and crew is no word for pilots
    facts, report = made(tmp_path, tables, "boats=number", "trips.pilot_id=crew")
    assert links(report) == {"trips.boat": "boats", "trips.pilot_id": "crew"}
    assert {("trips 1", "boat", "Duck"), ("trips 1", "pilot_id", "Ann"), ("Duck", "id", "2")} <= facts
    facts, report = made(tmp_path, tables, "boats=number", "trips.boat=none", "crew=none")
    assert links(report) == {}
    assert ("trips 1", "boat", "88") in facts
    assert report.tables[2].key is None


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("boats", "key boats: expected TABLE=COLUMN, or TABLE.COLUMN=TABLE for a foreign key"),
        ("boat=id", "key boat=id: no table is called 'boat'; did you mean 'boats'?\n  there are boats"),
        ("boats=nr", "key boats=nr: no column of boats is called 'nr'\n  there are id, name"),
        ("boats.name=ships", "key boats.name=ships: no table is called 'ships'\n  there are boats"),
    ],
)
def test_what_a_person_says_wrongly(said: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        made(tmp_path, {"boats": "id,name\n1,Swan\n2,Duck\n"}, said)
    assert str(caught.value) == message


# Every cell is told, whatever the tables

CELL = st.text("abc 1,.\"'-/()é", max_size=4)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    names=st.lists(st.sampled_from(["id", "name", "x", "y_id", "people", "code"]), min_size=2, max_size=5, unique=True),
    rows=st.lists(st.lists(CELL, min_size=5, max_size=5), min_size=1, max_size=8),
)
def test_every_cell_is_told(names: list[str], rows: list[list[str]], tmp_path: Path) -> None:
    """As many facts as cells that are not the key, and as many things as rows."""
    rows = [[f"k{at}", *row[1 : len(names)]] for at, row in enumerate(rows)]
    text = io.StringIO()
    csv.writer(text).writerows([names, *rows])
    facts, report = made(tmp_path, {"people": text.getvalue()})
    (table,) = report.tables
    assert report.skipped == 0
    key = names.index(table.key) if table.key is not None else None
    cells = {
        (at, name, cell)
        for at, row in enumerate(rows)
        for place, (name, cell) in enumerate(zip(names, row, strict=False))
        if cell.strip() and place != key
    }
    told = [fact for fact in facts if fact[1] != "is_a"]
    assert len(told) == len(cells)
    assert sorted(name for _, name, _ in cells) == sorted(fact[1] for fact in told)
    assert len({head for head, _, _ in facts}) == len(rows)


def test_a_class_is_a_kind_and_not_asked_about(tmp_path: Path) -> None:
    """`is_a` and rdf:type lead to a class, a column called `type` does not; none of the first is a question's."""
    made(tmp_path, {"planes": "tail,type,seats\nN1,jet,50\nN2,prop,20\nN3,jet,70\n"})
    table = open_graph(tmp_path / "made.kg")
    assert [names_class(table, name) for name in ("is_a", "type", "seats")] == [True, False, False]
    (tmp_path / "a.ttl").write_text("@prefix : <http://x/> . :a a :K ; :r :b . :b a :K .")
    build([tmp_path / "a.ttl"], tmp_path / "a.kg")
    assert names_class(open_graph(tmp_path / "a.kg"), "type")
    made(tmp_path, SHOP)
    asked = {way.relation for way in WalkSampler(open_graph(tmp_path / "made.kg"), MakeSettings()).first_ways}
    assert not asked & {"is_a", "name"}
    assert {"customer_id", "product_id"} & asked


def test_a_key_where_nothing_is_a_table(tmp_path: Path) -> None:
    """Of triples alone no tables are set up, and a key is still refused."""
    facts = tmp_path / "facts.tsv"
    facts.write_text("Ann\tworks_in\tDesign\n")
    with pytest.raises(InputError, match="no table is called 'people'\n  nothing was read as a table; --table reads"):
        build([facts], tmp_path / "facts.kg", options=Options(keys=("people=id",)))
    assert build([facts], tmp_path / "facts.kg", options=Options()).tables == []
