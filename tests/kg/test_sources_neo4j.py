"""CSV dumps of Neo4j: the headers of neo4j-admin, apoc's one table, what is kept, left out and refused."""

from __future__ import annotations

import csv
import gzip
import io
import tempfile
from pathlib import Path

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_sources_reading import error, labels, triples, write

from kgwalk.kg.build import build
from kgwalk.kg.sources.reading import detect_format
from kgwalk.kg.sources.source import Options, ReadCounts
from kgwalk.kg.store import open_graph

PEOPLE = """personId:ID(Person),name,born:int,aliases:string[],retired:boolean,:LABEL,note:IGNORE
1,Keanu Reeves,1964,,false,Person;Actor,x
2,Carrie-Anne Moss,1967,"Carrie;Moss, C.",FALSE,Person,
"""
FILMS = """movieId:ID(Movie),title,released:int,:LABEL
1,The Matrix,1999,Movie
2,"Speed, 1994",1994,Movie
"""
ACTED = """:START_ID(Person),roles:string[],since:date,:END_ID(Movie),:TYPE
1,Neo,1998-03-01,1,ACTED_IN
2,Trinity,,1,ACTED_IN
1,,,2,ACTED_IN
"""
# Worked out by hand: two things have the id 1, one in each space; names are names, not facts.
FACTS = {
    ("Keanu Reeves", "is_a", "Person", ""),
    ("Keanu Reeves", "is_a", "Actor", ""),
    ("Keanu Reeves", "born", "1964", ""),
    ("Keanu Reeves", "retired", "false", ""),
    ("Carrie-Anne Moss", "is_a", "Person", ""),
    ("Carrie-Anne Moss", "born", "1967", ""),
    ("Carrie-Anne Moss", "aliases", "Carrie", ""),
    ("Carrie-Anne Moss", "aliases", "Moss, C.", ""),
    ("Carrie-Anne Moss", "retired", "false", ""),
    ("The Matrix", "is_a", "Movie", ""),
    ("The Matrix", "released", "1999", ""),
    ("Speed, 1994", "is_a", "Movie", ""),
    ("Speed, 1994", "released", "1994", ""),
    ("Keanu Reeves", "ACTED_IN", "The Matrix", "1998-03-01.."),
    ("Carrie-Anne Moss", "ACTED_IN", "The Matrix", ""),
    ("Keanu Reeves", "ACTED_IN", "Speed, 1994", ""),
}
APOC = """"_id","_labels","born","kids","name","title","_start","_end","_type","roles","year"
"188",":Person:Actor","1964","","Keanu Reeves","","","","","",""
"189",":Movie","","","","The Matrix","","","","",""
"190",":Person","","[""Ann"",""Bo, jr.""]","","","","","","",""
"","","","","","","188","189","ACTED_IN","[""Neo""]","1999"
"","","","","","","190","189","SAW","",""
"""


def graph_of(*files: Path, **options: object) -> tuple[set[tuple[str, ...]], list[str]]:
    target = files[0].parent / "made.kg"
    report = build(files, target, options=Options(**options), replace=True)  # type: ignore[arg-type]
    return set(map(tuple, open_graph(target).match())), [note.replace(f"{target.parent}/", "") for note in report.notes]


def dump(folder: Path) -> list[Path]:
    return [write(folder, name, text) for name, text in [("p.csv", PEOPLE), ("f.csv", FILMS), ("acted.csv", ACTED)]]


def test_the_files_of_neo4j_admin_are_one_graph(tmp_path: Path) -> None:
    files = dump(tmp_path)
    facts, notes = graph_of(*files)
    assert facts == FACTS
    assert notes == ["acted.csv: a fact has no properties but its time; left out: roles of ACTED_IN (2)"]
    # the order of files, their compression and the size of blocks change nothing
    packed = write(tmp_path, "p2.csv.gz", gzip.compress(PEOPLE.encode()))
    assert graph_of(files[2], packed, files[1])[0] == FACTS
    for path in files:
        assert [fact[:3] for fact in triples(path, block_bytes=2)] == [fact[:3] for fact in triples(path)]


def test_ids_work_beside_names(tmp_path: Path) -> None:
    graph_of(*dump(tmp_path))
    graph = open_graph(tmp_path / "made.kg")
    assert graph.id_of("Keanu Reeves") == "Person/1"
    assert graph.neighbors("Movie/1", "ACTED_IN", out=False).names == ["Keanu Reeves", "Carrie-Anne Moss"]


def test_the_table_of_apoc(tmp_path: Path) -> None:
    facts, notes = graph_of(write(tmp_path, "all.csv", APOC))
    assert facts == {
        ("Keanu Reeves", "is_a", "Person", ""),
        ("Keanu Reeves", "is_a", "Actor", ""),
        ("Keanu Reeves", "born", "1964", ""),
        ("The Matrix", "is_a", "Movie", ""),
        ("Person 190", "is_a", "Person", ""),  # it has no name
        ("Person 190", "kids", "Ann", ""),
        ("Person 190", "kids", "Bo, jr.", ""),
        ("Keanu Reeves", "ACTED_IN", "The Matrix", "1999"),
        ("Person 190", "SAW", "The Matrix", ""),
    }
    assert notes == ["all.csv: a fact has no properties but its time; left out: roles of ACTED_IN (1)"]


def test_headers_are_recognised(tmp_path: Path) -> None:
    assert [detect_format(path) for path in dump(tmp_path)] == ["neo4j"] * 3
    assert detect_format(write(tmp_path, "a.csv", APOC)) == "neo4j"
    assert detect_format(write(tmp_path, "b.tsv", PEOPLE.replace(",", "\t"))) == "neo4j"
    assert detect_format(write(tmp_path, "c.csv", "\ufeff:ID,:LABEL\r\n1,A\r\n")) == "neo4j"
    for text in ("id,name\n1,Ann\n", "a:b,c:ID2,d\n", "head,relation,tail\n", '":ID\n', ""):
        assert detect_format(write(tmp_path, "d.csv", text)) == "csv"
    assert detect_format(tmp_path / "p.csv", Options(table=True)) == "csv"  # a person's word goes first


def test_tabs_between_columns(tmp_path: Path) -> None:
    assert triples(write(tmp_path, "a.tsv", ":START_ID\t:TYPE\t:END_ID\na\tr\tb\n")) == [("a", "r", "b")]


def test_what_a_header_leaves_out_is_the_name_of_the_file(tmp_path: Path) -> None:
    """neo4j-admin takes labels and types from its command line, beside the names of files."""
    people = write(tmp_path, "Person.csv", ":ID,name\nann,Ann\n")
    knows = write(tmp_path, "KNOWS.csv", ":START_ID,:END_ID,since:int\nann,bob,2005\n")
    facts, notes = graph_of(people, knows)
    assert facts == {("Ann", "is_a", "Person", ""), ("Ann", "KNOWS", "bob", "2005..")}
    assert notes == [
        "Person.csv: no column is :LABEL; its nodes are `Person`, as the file is called",
        "KNOWS.csv: no column is :TYPE; its relationships are `KNOWS`, as the file is called",
    ]


@pytest.mark.parametrize(
    ("properties", "time", "left_out"),
    [
        ({"since": "2005"}, "2005..", []),
        ({"startDate": "2005-01-02", "end_date": "2006"}, "2005-01-02..2006", []),
        ({"until": "2006"}, "..2006", []),
        ({"year": "1999", "weight": "3"}, "1999", ["weight"]),
        ({"date": "2013-02-18T21:00:00Z"}, "2013-02-18T21:00:00Z", []),
        ({"began": "1990", "endedOn": "1995"}, "1990..1995", []),
        ({"timestamp": "2013-02-18", "at": "x"}, "2013-02-18", ["at"]),
        ({"year": "1999", "date": "1999-05-01"}, "1999-05-01", ["year"]),  # by the alphabet, in whatever order
        ({"time": "130"}, "", ["time"]),  # minutes
        ({"from": "Porto", "to": "Bonn"}, "", ["from", "to"]),  # no dates
        ({"from": "2006", "to": "2005"}, "", ["from", "to"]),  # ends before it starts
        ({"time": "1577836800"}, "", ["time"]),  # seconds since 1970, not a year
    ],
)
def test_when_a_relationship_holds(tmp_path: Path, properties: dict[str, str], time: str, left_out: list[str]) -> None:
    path = write(
        tmp_path, "a.csv", f":START_ID,:TYPE,:END_ID,{','.join(properties)}\na,R,b,{','.join(properties.values())}\n"
    )
    tally = ReadCounts()
    assert triples(path, tally) == [("a", "R", "b", time) if time else ("a", "R", "b")]
    assert [note.count(f"{name} of R (1)") for note in tally.notes for name in left_out] == [1] * len(left_out)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (":ID,age:int,:LABEL\n1,x,A\n", "2: column age:int: expected a whole number, got 'x'"),
        (":ID,age:double,:LABEL\n1,1e,A\n", "2: column age:double: expected a number, got '1e'"),
        (":ID,:LABEL\n1,A\n2\n", "3: expected 2 columns, as the header has, got 1"),
        (":ID,:LABEL\n,A\n", "2: expected an id, got an empty one"),
        (
            ":START_ID,:TYPE,:END_ID\na,,b\n",
            "2: expected a relationship with a start, an end and a type, got an empty type",
        ),
        (
            "_id,_labels,_start,_end,_type\n,,1,,R\n",
            "2: expected a relationship with _start, _end and _type, got an empty",
        ),
        ("_id,_labels,_start,_end,_type\n,:A,,,\n", "2: expected a node with _id, or a relationship with _start"),
        (':ID,:LABEL\n"1,A\n', "2: not CSV: unexpected end of data"),
    ],
)
def test_rows_that_are_wrong(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path, "a.csv", text)
    said = error(path)
    assert said.startswith(f"a.csv:{message}")
    assert said.endswith("\n  give --on-error skip to leave such rows out")
    tally = ReadCounts()
    kept = text.rstrip("\n").count("\n") - 1
    found = triples(write(tmp_path, "b.csv", text + ("z,A" if kept else "")), tally, on_error="skip") if kept else []
    assert (tally.skipped, len(found)) == ((1, 2) if kept else (0, 0))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (":ID,age:integer\n1,2\n", "a.csv:1: column 'age:integer': integer is no type of a property\n  types are int"),
        (
            ":START_ID,:TYPE\n1,2\n",
            "a.csv:1: expected a header with :ID, or with :START_ID and :END_ID; got no :END_ID",
        ),
        ("a:ID,b:ID\n1,2\n", "a.csv:1: several columns are :ID; one is read"),
        (
            ":ID,:LABEL\n",
            "a.csv: a header and no rows\n  put a header and the file of its rows into one: cat header.csv",
        ),
    ],
)
def test_headers_that_are_wrong(tmp_path: Path, text: str, message: str) -> None:
    assert error(write(tmp_path, "a.csv", text)).startswith(message)


words = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=8).filter(str.strip)
nodes = st.dictionaries(words.filter(lambda id: any(map(str.isalpha, id))), st.lists(words, max_size=3), max_size=5)


@given(nodes, st.data())
@settings(max_examples=25)
def test_what_apoc_writes_reads_back(given_nodes: dict[str, list[str]], data: st.DataObject) -> None:
    """Any ids and values, quoted as CSV has it; arrays as JSON lists."""
    ids = list(given_nodes)
    edges = data.draw(st.lists(st.tuples(st.sampled_from(ids), words, st.sampled_from(ids)), max_size=5)) if ids else []
    text = io.StringIO(newline="")
    writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow(["_id", "_labels", "said", "_start", "_end", "_type"])
    writer.writerows([id, ":A", orjson.dumps(said).decode(), "", "", ""] for id, said in given_nodes.items())
    writer.writerows(["", "", "", head, tail, relation] for head, relation, tail in edges)
    expected = [(id, "is_a", "A") for id in ids]
    expected += [(id, "said", one) for id, said in given_nodes.items() for one in said] + edges
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder), "a.csv", text.getvalue().encode())
        if expected:
            shown = {key: label for key, label, _ in labels(path)}
            found = [(head, relation, shown.get(tail, tail)) for head, relation, tail in triples(path, block_bytes=64)]
            assert sorted(found) == sorted(expected)
