"""JSON records, Excel sheets and SQLite databases as graphs: the same facts as the same tables in CSV."""

from __future__ import annotations

import csv
import json
import sqlite3
import sys
from contextlib import closing
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kgwalk.kg.build import BuildReport, build
from kgwalk.kg.sources.source import Options
from kgwalk.kg.store import open_graph
from kgwalk.types import InputError

Fact = tuple[str, str, str]
PRODUCTS = [{"id": 1, "name": "Heron", "price": 650}, {"id": 2, "name": "Bell", "price": 9.5}]
LINES = [{"id": 1, "product_id": 2, "note": "two, please"}, {"id": 2, "product_id": 1, "note": None}]
FACTS = {
    ("Heron", "name", "Heron"),
    ("Heron", "price", "650"),
    ("Heron", "is_a", "products"),
    ("Bell", "name", "Bell"),
    ("Bell", "price", "9.5"),
    ("Bell", "is_a", "products"),
    ("lines 1", "product_id", "Bell"),
    ("lines 1", "note", "two, please"),
    ("lines 1", "is_a", "lines"),
    ("lines 2", "product_id", "Heron"),
    ("lines 2", "is_a", "lines"),
}


def made(*files: Path, **options: Any) -> tuple[set[Fact], BuildReport]:
    target = files[0].parent / "made.kg"
    report = build(files, target, options=Options(**options), replace=True)
    return {(fact.head, fact.relation, fact.tail) for fact in open_graph(target).match(None, None, None)}, report


def written(path: Path, value: object) -> Path:
    path.write_text(json.dumps(value))
    return path


def database(path: Path, script: str) -> Path:
    with closing(sqlite3.connect(path)) as db:
        db.executescript(script)
    return path


def workbook(path: Path, sheets: dict[str, list[list[object]]]) -> Path:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.remove(book.active)
    for title, rows in sheets.items():
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(row)
    book.save(path)
    book.close()
    return path


def rows_of(records: list[dict[str, Any]]) -> list[list[object]]:
    return [list(records[0]), *[list(record.values()) for record in records]]


# The same tables in every format


def test_json(tmp_path: Path) -> None:
    one = made(written(tmp_path / "products.json", PRODUCTS), written(tmp_path / "lines.json", LINES))[0]
    assert one == made(written(tmp_path / "shop.json", {"products": PRODUCTS, "lines": LINES}))[0] == FACTS


def test_json_lines_of_records(tmp_path: Path) -> None:
    for name, records in (("products", PRODUCTS), ("lines", LINES)):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    assert made(tmp_path / "products.jsonl", tmp_path / "lines.jsonl", table=True)[0] == FACTS


def test_a_database(tmp_path: Path) -> None:
    script = """CREATE TABLE products (id INTEGER PRIMARY KEY, name TEXT, price REAL);
    INSERT INTO products VALUES (1, 'Heron', 650), (2, 'Bell', 9.5);
    CREATE TABLE lines (id INTEGER PRIMARY KEY, product_id INTEGER, note TEXT);
    INSERT INTO lines VALUES (1, 2, 'two, please'), (2, 1, NULL);"""
    for name in ("shop.db", "shop.sqlite"):
        assert made(database(tmp_path / name, script))[0] == FACTS


def test_sheets(tmp_path: Path) -> None:
    path = workbook(tmp_path / "shop.xlsx", {"products": rows_of(PRODUCTS), "lines": rows_of(LINES), "empty": []})
    assert made(path)[0] == FACTS


# JSON


def test_an_object_inside_a_record_is_a_thing_of_its_own(tmp_path: Path) -> None:
    """A price has no name, and is `price 1`; an author is known by the name, and is one for both books."""
    author = {"name": "Tove", "born": 1914}
    books = [
        {"title": "Comet", "author": author, "tags": ["trolls", "space"], "price": {"amount": 1.10, "currency": "EUR"}},
        {"title": "Winter", "author": author, "tags": [], "editions": [{"year": 1957}, {"year": 1971}], "sold": True},
    ]
    facts, report = made(written(tmp_path / "books.json", books))
    assert facts == {
        ("Comet", "author", "Tove"),
        ("Winter", "author", "Tove"),
        ("Tove", "born", "1914"),
        ("Tove", "is_a", "author"),
        ("Comet", "tags", "trolls"),
        ("Comet", "tags", "space"),
        ("Comet", "price", "price 1"),
        ("price 1", "amount", "1.1"),
        ("price 1", "currency", "EUR"),
        ("price 1", "is_a", "price"),
        ("Winter", "editions", "editions 1"),
        ("Winter", "editions", "editions 2"),
        ("editions 1", "year", "1957"),
        ("editions 2", "year", "1971"),
        ("editions 1", "is_a", "editions"),
        ("editions 2", "is_a", "editions"),
        ("Winter", "sold", "true"),
        ("Comet", "is_a", "books"),
        ("Winter", "is_a", "books"),
    }
    assert {one.table: one.links for one in report.tables}["books"] == {
        "author": "author",
        "price": "price",
        "editions": "editions",
    }


def test_an_object_inside_is_the_row_of_a_table_that_there_is(tmp_path: Path) -> None:
    shop = {
        "customers": [{"id": 7, "name": "Velo Bern", "city": "Bern"}],
        "orders": [{"id": "SO-1", "customer": {"id": 7}}, {"id": "SO-2", "customer": {"id": 8, "name": "Roue"}}],
    }
    facts, _ = made(written(tmp_path / "shop.json", shop))
    assert {("SO-1", "customer", "Velo Bern"), ("SO-2", "customer", "Roue"), ("Roue", "is_a", "customers")} <= facts


def test_things_that_share_a_name_and_differ_stay_apart(tmp_path: Path) -> None:
    """`weight` is said of both, with another value each: no thing that they share."""
    products = [
        {"id": "a", "specs": [{"name": "weight", "value": 5}]},
        {"id": "b", "specs": [{"name": "weight", "value": 7}]},
    ]
    facts, _ = made(written(tmp_path / "products.json", products))
    (of_a,) = (tail for head, relation, tail in facts if (head, relation) == ("a", "specs"))
    assert {tail for head, relation, tail in facts if (head, relation) == (of_a, "value")} == {"5"}


def test_numbers_keep_their_text(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('[{"id": "x", "n": 1.10, "m": 123456789012345678901234567890}]')
    assert {fact[2] for fact in made(path)[0]} == {"1.10", "123456789012345678901234567890", "a"}


def test_objects_by_their_keys(tmp_path: Path) -> None:
    path = written(tmp_path / "ports.json", {"JFK": {"city": "New York"}, "BOS": {"city": "Boston"}})
    assert made(path)[0] == {
        ("JFK", "city", "New York"),
        ("BOS", "city", "Boston"),
        ("JFK", "is_a", "ports"),
        ("BOS", "is_a", "ports"),
    }


def test_a_list_of_triples_is_read_as_triples(tmp_path: Path) -> None:
    path = written(tmp_path / "a.json", [["Ann", "knows", "Bob"], {"head": "Bob", "relation": "age", "tail": 40}])
    assert made(path)[0] == {("Ann", "knows", "Bob"), ("Bob", "age", "40")}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1, 2]", "expected a list of objects, an object of such lists, or one object, got a list with values in it"),
        ('"x"', "expected a list of objects, an object of such lists, or one object, got a string"),
        (
            '{"a": 1}\n{"a": 2}\n',
            "not JSON: Extra data (column 1)\n  a file with a value on each line is called .jsonl",
        ),
        ("[{]", "not JSON: Expecting property name enclosed in double quotes (column 3)"),
        ("[]", "or one object, got an empty list"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_json_that_is_no_records(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(InputError) as caught:
        made(tmp_path / "a.json")
    assert message in str(caught.value)


def test_lines_that_are_no_records(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"id": "x", "n": 1}\n[1]\n')
    with pytest.raises(InputError, match=r"a.jsonl:2: expected an object, got a list"):
        made(tmp_path / "a.jsonl", table=True)
    assert made(tmp_path / "a.jsonl", table=True, on_error="skip")[1].skipped == 1


# Databases


def test_declared_keys_go_before_names(tmp_path: Path) -> None:
    """`nr` is declared as the key of boats, `lead` as one of crew; a key of two columns is none that can be named."""
    path = database(
        tmp_path / "club.db",
        """CREATE TABLE crew (id INTEGER PRIMARY KEY, name TEXT);
        INSERT INTO crew VALUES (1, 'Ann'), (2, 'Bob');
        CREATE TABLE boats (id INTEGER, nr INTEGER PRIMARY KEY, name TEXT, lead INTEGER REFERENCES crew (id));
        INSERT INTO boats VALUES (1, 77, 'Swan', 2), (2, 88, 'Duck', 1);
        CREATE TABLE aboard (boat INTEGER REFERENCES boats, who INTEGER REFERENCES crew, PRIMARY KEY (boat, who));
        INSERT INTO aboard VALUES (77, 1), (77, 2), (88, 2);
        CREATE VIEW names AS SELECT name FROM crew;""",
    )
    facts, report = made(path)
    assert {one.table: (one.key, one.links) for one in report.tables} == {
        "crew": ("id", {}),
        "boats": ("nr", {"lead": "crew"}),
        "aboard": (None, {"boat": "boats", "who": "crew"}),
    }
    assert {("Swan", "lead", "Bob"), ("Swan", "who", "Ann"), ("Swan", "who", "Bob"), ("Duck", "who", "Bob")} <= facts


def test_cells_that_are_no_text_are_left_out(tmp_path: Path) -> None:
    path = database(
        tmp_path / "a.db",
        "CREATE TABLE photos (id INTEGER PRIMARY KEY, name TEXT, data BLOB);"
        "INSERT INTO photos VALUES (1, 'Sea', x'00ff');",
    )
    facts, report = made(path)
    assert facts == {("Sea", "name", "Sea"), ("Sea", "is_a", "photos")}
    assert report.notes[0].endswith("photos: 1 cells that are no text left out")


def test_files_that_are_no_database(tmp_path: Path) -> None:
    (tmp_path / "a.db").write_text("no database, but long enough that SQLite looks at its header" * 9)
    with pytest.raises(InputError, match=r"cannot be read as an SQLite database: file is not a database"):
        made(tmp_path / "a.db")
    with pytest.raises(InputError, match=r"this format is read from a file that is not compressed"):
        made(tmp_path / "a.db.gz")
    with pytest.raises(InputError, match=r"cannot be read: No such file"):
        made(tmp_path / "b.sqlite")
    assert not (tmp_path / "b.sqlite").exists()


# Excel


def test_days_and_times_of_sheets(tmp_path: Path) -> None:
    rows: list[list[object]] = [
        ["Staff list"],
        [],
        ["name", "hired", "seen", "starts", "share", "left"],
        ["Ann", date(2020, 5, 1), datetime(2024, 1, 2, 3, 4), time(9, 30), 3.0, False],
    ]
    assert made(workbook(tmp_path / "staff.xlsx", {"Sheet1": rows}))[0] == {
        ("Ann", "hired", "2020-05-01"),
        ("Ann", "seen", "2024-01-02 03:04:00"),
        ("Ann", "starts", "09:30:00"),
        ("Ann", "share", "3"),
        ("Ann", "left", "false"),
        ("Ann", "is_a", "staff"),
    }


def test_without_openpyxl_a_message_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    (tmp_path / "a.xlsx").write_bytes(b"PK")
    with pytest.raises(InputError) as caught:
        made(tmp_path / "a.xlsx")
    assert str(caught.value).removeprefix(f"{tmp_path}/") == (
        "a.xlsx: Excel files need openpyxl, which is not installed\n"
        "  pip install 'kgwalk[xlsx]'; or save each sheet as CSV, and give --table"
    )


def test_a_file_that_is_no_workbook(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl")
    (tmp_path / "a.xlsx").write_text("id,name\n1,Ann\n")
    with pytest.raises(InputError, match=r"not an Excel file"):
        made(tmp_path / "a.xlsx")


# All formats say the same

CELL = st.text("abc 1,.\"'-é", min_size=1, max_size=4).filter(lambda text: text == text.strip())


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.tuples(CELL, CELL, CELL), min_size=1, max_size=6))
def test_every_format_makes_the_same_graph(rows: list[tuple[str, str, str]], tmp_path: Path) -> None:
    names = ["id", "name", "x", "y"]
    cells = [[f"k{at}", *row] for at, row in enumerate(rows)]
    with (tmp_path / "t.csv").open("w", newline="") as file:
        csv.writer(file).writerows([names, *cells])
    records = [dict(zip(names, row, strict=True)) for row in cells]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    (tmp_path / "t.db").unlink(missing_ok=True)
    with closing(sqlite3.connect(tmp_path / "t.db")) as db, db:
        db.execute("CREATE TABLE t (id TEXT, name TEXT, x TEXT, y TEXT)")
        db.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", cells)
    facts = made(tmp_path / "t.csv", table=True)[0]
    assert facts == made(written(tmp_path / "t.json", records))[0]
    assert facts == made(tmp_path / "t.jsonl", table=True)[0]
    assert facts == made(tmp_path / "t.db")[0]
