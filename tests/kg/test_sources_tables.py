"""Tables with a thing a row: how they are read, what is refused, and how one that was read as triples is noticed."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from test_sources_reading import error, triples, write

from kgwalk.kg.sources.reading import LOOKED_AT, TableLook
from kgwalk.kg.sources.source import ReadCounts, TripleBlock, strings

PEOPLE = "name,born,team\nAnn,1990,X\nBob,1991,Y\n"
FACTS = [("Ann", "born", "1990"), ("Ann", "team", "X"), ("Bob", "born", "1991"), ("Bob", "team", "Y")]
NOTE = "read as a table of p, by column 1 (name); the relations are born, team"
SKIP = "  give --on-error skip to leave such rows out"
TABLE = "if its first row has column names, it is a table, which `kgwalk kg build --table` reads"


# Reading


def cells(path: Path, tally: ReadCounts | None = None, **options: object) -> list[tuple[str, ...]]:
    """The facts of a table that its cells say, without those that say which table a row is of."""
    return [fact for fact in triples(path, tally, table=True, **options) if fact[1] != "is_a"]


@pytest.mark.parametrize("block_bytes", [4, 1 << 20])
@pytest.mark.parametrize("separator", ["\t", ","])
def test_every_cell_is_a_fact(tmp_path: Path, separator: str, block_bytes: int) -> None:
    path = write(tmp_path, f"p.{'csv' if separator == ',' else 'tsv'}", PEOPLE.replace(",", separator))
    tally = ReadCounts()
    facts = triples(path, tally, table=True, block_bytes=block_bytes)
    assert sorted(facts) == sorted([*FACTS, ("Ann", "is_a", "p"), ("Bob", "is_a", "p")])
    assert tally.notes == [f"{path}: {NOTE}"]
    assert (tally.rows, tally.skipped) == (6, 0)


def test_a_table_is_compressed_quoted_and_marked_like_other_files(tmp_path: Path) -> None:
    text = '\ufeff\r\nname,"lives\nin",motto\r\n"Doe, Jo","Porto","a\n""b"""\r\n'
    path = write(tmp_path, "p.csv.gz", gzip.compress(text.encode()))
    assert cells(path) == [("Doe, Jo", "lives\nin", "Porto"), ("Doe, Jo", "motto", 'a\n"b"')]


def test_blank_cells_say_nothing_and_rows_may_be_short(tmp_path: Path) -> None:
    """Spreadsheets write empty columns at the end, and empty rows; names are as they are, column names are trimmed."""
    path = write(tmp_path, "p.csv", "name, born ,team,,\nAnn,,X,,\n,,,,\nBob,1991\n\n Cid ,  , Y\n,\n")
    assert cells(path) == [("Bob", "born", "1991"), ("Ann", "team", "X"), (" Cid ", "team", " Y")]


def test_columns_of_one_name_are_one_relation(tmp_path: Path) -> None:
    tally = ReadCounts()
    path = write(tmp_path, "p.csv", "name,phone,phone,name\nAnn,1,2,Anna\n")
    assert cells(path, tally) == [("Ann", "phone", "1"), ("Ann", "phone", "2"), ("Ann", "name", "Anna")]
    assert tally.notes[0] == f"{path}: several columns are called phone; each such name is one relation"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("Cid,1992,Z,more", "column 4 has no name in the first row, and a cell here"),
        (",1992,Z", "expected the name of a thing in column 1, got an empty one"),
    ],
)
def test_malformed_rows_of_a_table(tmp_path: Path, row: str, message: str) -> None:
    path = write(tmp_path, "p.csv", PEOPLE + f"{row}\n")
    assert error(path, table=True) == f"p.csv:4: {message}\n  the line: {row}\n{SKIP}"
    tally = ReadCounts()
    assert sorted(cells(path, tally, on_error="skip")) == FACTS
    assert tally.first_skipped == [f"{path}:4: {message}"]


def test_a_column_without_a_name_may_have_no_cell(tmp_path: Path) -> None:
    path = write(tmp_path, "p.tsv", "\tborn\t\tteam\nAnn\t1990\t\tX\nBob\t1991\t?\tY\n")
    assert error(path, table=True).startswith("p.tsv:3: column 3 has no name in the first row, and a cell here\n")
    tally = ReadCounts()
    assert cells(path, tally, on_error="skip") == FACTS[:2]
    assert tally.notes == [f"{path}: read as a table of p, by column 1 (no name); the relations are born, team"]


def test_a_first_row_that_names_no_columns(tmp_path: Path) -> None:
    assert error(write(tmp_path, "p.csv", "name;born\nAnn;1990\n"), table=True) == (
        "p.csv:1: expected a row of column names, two at least, got 1\n  the line: name;born\n"
        "  columns are parted by commas in CSV (not by semicolons), by tabs in TSV"
    )
    triples_said = "names the columns of triples, not of a table\n  leave out --table"
    for header in ("head,relation,tail", "source,target,relation"):
        assert error(write(tmp_path, "p.csv", f"{header}\na,b,c\n"), table=True).endswith(triples_said)
    exported = write(tmp_path, "p.tsv", "#kgwalk-tsv escaped\na\tr\tb\n")
    assert error(exported, table=True).endswith("not a table\n  leave out --table")
    # the second row's cells are not taken for the names, whatever is to become of bad rows
    bad = write(tmp_path, "p.csv", b"n\xe4me,born\nAnn,1990\nBob,1991\n")
    assert error(bad, table=True, on_error="skip") == (
        "p.csv: the first row cannot be read, and it has to name the columns; mend it"
    )
    assert error(write(tmp_path, "p.csv", "name,born\n"), table=True) == "p.csv: no triples"
    assert error(write(tmp_path, "p.csv", PEOPLE), table=True, header=False) == (
        "p.csv: a table has its column names in the first row\n  leave out --no-header, or --table"
    )


def test_other_formats_are_no_tables(tmp_path: Path) -> None:
    tally = ReadCounts()
    path = write(tmp_path, "a.nt", "<http://x/Ann> <http://x/born> <http://x/Porto> .\n")
    assert len(triples(path, tally, table=True)) == 1
    assert tally.notes == [f"{path}: read as nt; --table is about TSV and CSV"]


# Read as triples


@pytest.mark.parametrize("width", [2, 5])
def test_a_first_row_of_another_width_may_be_a_tables(tmp_path: Path, width: int) -> None:
    row = ",".join("abcde"[:width])
    path = write(tmp_path, "p.csv", f"{row}\n")
    assert error(path).endswith(f"got {width} columns\n  the line: {row}\n{SKIP}; {TABLE}")
    later = write(tmp_path, "p.csv", f"x,y,z\n{row}\n")
    assert error(later).endswith(f"got {width} columns\n  the line: {row}\n{SKIP}")


TABLES = {
    "a value a row": PEOPLE,
    "values that recur, of many things": "name,age,team\n" + "".join(f"P{n},{n % 3},X\n" for n in range(9)),
    "a first column that recurs": "country,year,gdp\nFrance,1990,1.27\nFrance,1991,1.28\nChad,1990,0.01\n",
    "numbers under names": "id,age,height\n1,40,170\n2,41,180\n3,40,165\n",
    "numbered things": "id,name,city\n1,Ann,Porto\n2,Bob,Ghent\n",
    "names alone": "name,city,team\nAnn,Porto,X\nBob,Ghent,Y\n",
    "names that recur": "name,team,city\n" + "".join(f"P{n},T{n % 3} United,Porto\n" for n in range(9)),
}
GRAPHS = {
    "several facts of one": "Big,directed_by,Penny\nBig,year,1988\nBig,starred,Tom\nBig,genre,Comedy\n",
    "each of another": "Big,directed_by,Penny\nTom,born_in,Concord\nParis,capital_of,France\n",
    "relations by id": "Q1,P17,Q2\nQ3,P18,Q4\nQ5,P19,Q6\n",
    "numbers throughout": "0,5,1\n2,6,3\n4,7,0\n",
    "capitals": "Obama,Make a visit,Japan\nObama,Praise,Kenya\nMerkel,Make a visit,Kenya\nMerkel,Consult,Obama\n",
    "one relation": "Ann,Knows,Bob\nCid,Knows,Dee\nEve,Knows,Fay\n",
    "two facts": "name,born,team\nAnn,1990,X\n",
    "a header says so": "subject,predicate,object\nAnn,Likes,Bob\nCid,Hates,Dee\nEve,Meets,Fay\n",
}


@pytest.mark.parametrize("name", [*TABLES, *GRAPHS])
def test_a_table_read_as_triples_is_noted_and_a_graph_is_not(name: str, tmp_path: Path) -> None:
    path = write(tmp_path, "p.csv", {**TABLES, **GRAPHS}[name])
    tally = ReadCounts()
    triples(path, tally)
    noted = [note for note in tally.notes if "looks like a table" in note]
    assert len(noted) == (name in TABLES)


def test_the_note_says_what_was_read(tmp_path: Path) -> None:
    tally = ReadCounts()
    path = write(tmp_path, "p.csv", PEOPLE + "Cid,1992,Z\n")
    triples(path, tally, block_bytes=4)
    assert tally.notes == [
        f"{path}: read as triples, such as (Ann, 1990, X), with the relations born, 1990, 1991, ...; it looks like a "
        "table. If its first row has column names, build it with --table"
    ]


def test_column_names_are_looked_for_in_the_whole_file() -> None:
    """A relation that comes once among the first facts may come again: then it is no column's name."""
    look = TableLook()
    names = [f"P{n}" for n in range(LOOKED_AT)]
    relations = ["Led", *[f"Joined {n % 9}" for n in range(LOOKED_AT - 1)]]
    look.see(TripleBlock(strings(names), strings(relations), strings(names[::-1])))
    assert look.like_a_table
    look.see(TripleBlock(strings(["Q"]), strings(["Led"]), strings(["R"])))
    assert not look.like_a_table


def test_long_texts_are_not_kept_nor_told_whole(tmp_path: Path) -> None:
    """Of 200 rows with texts of 100 KB each, eleven are looked at; three are enough."""
    look, text = TableLook(), "so on and\non " * 8000
    for at in range(20):
        people = [f"P{number}" for number in range(10 * at, 10 * at + 10)]
        look.see(TripleBlock(strings(people), strings([f"19{name[1:]}" for name in people]), strings([text] * 10)))
    assert len(look._heads) < 20
    assert look.like_a_table
    path = write(tmp_path, "p.csv", "name,born,story\n" + "".join(f'P{n},19{n},"{text}"\n' for n in range(10, 20)))
    tally = ReadCounts()
    triples(path, tally)
    (note,) = tally.notes
    assert f"such as (P10, 1910, {'so on and on ' * 4}so on an...)" in note
