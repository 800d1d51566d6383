"""The command line as a newcomer meets it: the installed script in processes of its own, on graphs to check by eye.

Results go to stdout, messages to stderr; with --json stdout is one JSON object, on errors too; the exit status is
0 (done), 1 (failed) or 2 (wrong usage).
"""

from __future__ import annotations

import contextlib
import gzip
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from rich.text import Text
from typer.main import get_command

from commands import ENVIRONMENT, SCRIPT, Done, quickly
from kgwalk import __version__, load_graph
from kgwalk.cli.main import main, make_app
from kgwalk.cli.options import graph_called
from kgwalk.data.dataset import load_dataset
from kgwalk.kg.store import open_graph
from kgwalk.types import InputError, KgwalkError

ROOT = Path(__file__).parents[2]
EVENTS = """\
Barack Obama\tborn_in\tHonolulu
Barack Obama\tvisited\tJapan\t2014-04
Barack Obama\tvisited\tJapan\t2016-05-25
Barack Obama\tvisited\tKenya\t2015-07
Donald Trump\tholds\tPresident\t2017-01-20..2021-01-20
"""
QUESTIONS = """\
{"id": "q1", "question": "who directed Big?", "topic_entities": ["Big"], "answers": ["Penny Marshall"]}
{"id": "q2", "question": "who knows?", "topic_entities": ["Nobody"], "answers": []}
"""
BAD = "Big\tdirected_by\tPenny Marshall\nBig\tTom Hanks\nBig\trelease_year\t1988\n"
BAD_MESSAGE = "bad.tsv:2: expected head<TAB>relation<TAB>tail with an optional 4th column time, got 2 columns"


def kgwalk(*arguments: str | Path, cwd: Path, stdin: str | bytes = b"") -> Done:
    done = subprocess.run(
        [SCRIPT, *arguments],
        cwd=cwd,
        env=ENVIRONMENT,
        input=stdin.encode() if isinstance(stdin, str) else stdin,
        capture_output=True,
        timeout=180,  # a busy machine is no failure
    )
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with films.tsv, the store films.kg, and the dated store events.kg; nothing in it is changed."""
    folder = tmp_path_factory.mktemp("films")
    shutil.copy(ROOT / "examples" / "films.tsv", folder)
    (folder / "events.tsv").write_text(EVENTS)
    for name in ("films", "events"):
        assert kgwalk("kg", "build", f"{name}.tsv", "-o", f"{name}.kg", cwd=folder).status == 0
    return folder


def facts(store: Path) -> list[tuple[str, ...]]:
    return [tuple(part for part in fact if part) for fact in load_graph(store).match()]


# kg build


def test_build_says_what_it_made(films: Path, tmp_path: Path) -> None:
    done = kgwalk("kg", "build", films / "films.tsv", "-o", "films.kg", cwd=tmp_path)
    assert done.status == 0
    assert done.stderr == ""
    pattern = r"films\.kg: 66 triples, 53 entities, 5 relations, 5\.0 KiB, in \d+\.\d s\n"
    assert re.fullmatch(pattern, done.stdout), done.stdout


def test_build_report_as_json(tmp_path: Path) -> None:
    (tmp_path / "bad.tsv").write_text(BAD + "Big\trelease_year\t1988\n")
    done = quickly("kg", "build", "bad.tsv", "-o", "bad.kg", "--on-error", "skip", "--json", cwd=tmp_path)
    assert (done.status, done.stderr) == (0, "")
    report = done.json
    assert report.pop("seconds") >= 0
    assert report == {
        "path": "bad.kg",
        "triples": 2,
        "entities": 3,
        "relations": 2,
        "dates": 0,
        "questions": 0,
        "rows": 3,
        "duplicates": 1,
        "skipped": 1,
        "labelled": False,
        "notes": [],
        "first_skipped": [BAD_MESSAGE],
        "tables": [],
        "sources": 0,
    }


TURTLE = """\
@prefix ex: <http://example.org/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
ex:Big ex:directed_by ex:pm ; ex:release_year 1988 .
ex:pm rdfs:label "Penny Marshall"@en .
"""
TWO_FACTS = [("Big", "directed_by", "Penny Marshall"), ("Big", "release_year", "1988")]
SOURCES = {
    "f.tsv": "Big\tdirected_by\tPenny Marshall\nBig\trelease_year\t1988\n",
    "f.csv": 'head,relation,tail\nBig,directed_by,"Penny Marshall"\nBig,release_year,1988\n',
    "f.jsonl": '{"head": "Big", "relation": "directed_by", "tail": "Penny Marshall"}\n["Big", "release_year", 1988]\n',
    "f.ttl": TURTLE,
    "rog.jsonl": '{"id": "q7", "graph": [["Big", "directed_by", "Penny Marshall"], ["Big", "release_year", "1988"]]}\n',
}


@pytest.mark.parametrize("name", SOURCES)
def test_build_reads_each_format(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(SOURCES[name])
    done = quickly("kg", "build", name, "-o", "f.kg", "--json", cwd=tmp_path)
    assert (done.status, done.stderr) == (0, "")
    assert (done.json["triples"], done.json["entities"], done.json["relations"]) == (2, 3, 2)
    assert done.json["questions"] == (1 if name == "rog.jsonl" else 0)
    assert done.json["labelled"] is (name == "f.ttl")
    assert facts(tmp_path / "f.kg") == TWO_FACTS


def test_build_notes_go_to_stderr(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text(SOURCES["f.csv"])
    done = quickly("kg", "build", "f.csv", "-o", "f.kg", cwd=tmp_path)
    assert done.stderr == "note: f.csv: line 1 (head, relation, tail) taken as a header\n"
    assert done.stdout.startswith("f.kg: 2 triples, 3 entities, 2 relations, ")


def test_build_of_a_table(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("name,born,team\nAnn,1990,X\nBob,1991,Y\n")
    read_as = (
        "people.csv: read as triples, such as (Ann, 1990, X), with the relations born, 1990, 1991; it looks like a "
        "table. If its first row has column names, build it with --table"
    )
    assert quickly("kg", "build", "people.csv", "-o", "p.kg", cwd=tmp_path).stderr == f"note: {read_as}\n"
    build = ("kg", "build", "people.csv", "-o", "p.kg", "--force")
    assert quickly(*build, "--json", cwd=tmp_path).json["notes"] == [read_as]
    done = quickly(*build, "--table", cwd=tmp_path)
    assert done.stdout.startswith("p.kg: 6 triples, 7 entities, 3 relations, ")
    assert done.stderr == (
        "note: people.csv: read as a table of people, by column 1 (name); the relations are born, team\n"
    )
    assert set(facts(tmp_path / "p.kg")) == {
        ("Ann", "is_a", "people"),
        ("Bob", "is_a", "people"),
        ("Ann", "born", "1990"),
        ("Ann", "team", "X"),
        ("Bob", "born", "1991"),
        ("Bob", "team", "Y"),
    }


def test_build_of_several_tables_shows_the_keys_that_it_found(tmp_path: Path) -> None:
    (tmp_path / "products.csv").write_text("id,name\n1,Heron\n2,Bell\n")
    (tmp_path / "lines.csv").write_text("id,product_id,quantity\n1,2,1\n2,1,2\n")
    build = ("kg", "build", "products.csv", "lines.csv", "--table", "-o", "s.kg", "--force")
    done = quickly(*build, cwd=tmp_path)
    assert done.stderr == (
        "note: products.csv: read as a table of products, by column 1 (id), shown by name; the relations are name\n"
        "note: lines.csv: read as a table of lines, by column 1 (id); product_id -> products; the relations are "
        "quantity\n"
    )
    lines = quickly(*build, "--json", "--key", "lines.product_id=none", cwd=tmp_path).json["tables"][1]
    assert lines == {
        "table": "lines",
        "source": "lines.csv",
        "rows": 2,
        "key": "id",
        "label": [],
        "links": {},
        "read_as": "rows",
    }


def test_a_file_is_a_graph_wherever_one_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("name,born,team,city\nAnn,1990,X,Porto\nBob,1991,Y,\n")
    (tmp_path / "people.json").write_text('[{"name": "Ann", "team": {"name": "X", "city": "Porto"}}]')
    for file, told in (("people.csv", "Porto"), ("people.json", "X")):
        relation = "city" if file.endswith("csv") else "team"
        assert quickly("kg", "query", file, "Ann", relation, "-d", "out", "--json", cwd=tmp_path).json["out"][
            "names"
        ] == [told]


def test_a_command_of_a_group_is_hinted_at(tmp_path: Path) -> None:
    done = quickly("build", "people.csv", cwd=tmp_path)
    assert done.status == 2
    assert done.stderr.endswith("Did you mean kgwalk kg build?\n")


def test_build_of_ids_and_bare_names_says_what_they_share(tmp_path: Path) -> None:
    rdf = "@prefix ex: <http://example.org/> .\n"
    rdf += 'ex:it <http://www.w3.org/2000/01/rdf-schema#label> "Ilmar Tamm" ; ex:leads ex:Payments .\n'
    (tmp_path / "services.ttl").write_text(rdf)
    (tmp_path / "staff.tsv").write_text("Ilmar Tamm\tleads\tRouting\nPayments\tpart_of\tHalcyon\n")
    done = quickly("kg", "build", "services.ttl", "staff.tsv", "-o", "both.kg", cwd=tmp_path)
    assert done.stderr.startswith(
        "note: shared by one that has an id and one that goes by its name alone: 2 entity names ("
    )
    assert "and 1 relation name (leads). These are not merged: " in done.stderr
    assert set(facts(tmp_path / "both.kg")) == {
        ("Ilmar Tamm (it)", "leads (http://example.org/leads)", "Payments (http://example.org/Payments)"),
        ("Ilmar Tamm", "leads", "Routing"),
        ("Payments", "part_of", "Halcyon"),
    }
    # what the note advises: by names alone, they are one
    assert quickly("kg", "build", "services.ttl", "-o", "services.kg", cwd=tmp_path).stderr == ""
    assert quickly("kg", "export", "services.kg", "-o", "services.tsv", cwd=tmp_path).status == 0
    done = quickly("kg", "build", "services.tsv", "staff.tsv", "-o", "one.kg", cwd=tmp_path)
    assert done.stderr == ""
    assert ("Ilmar Tamm", "leads", "Payments") in facts(tmp_path / "one.kg")


def test_build_from_stdin_needs_a_format(films: Path, tmp_path: Path) -> None:
    text = (films / "films.tsv").read_text()
    refused = kgwalk("kg", "build", "-", "-o", "films.kg", cwd=tmp_path, stdin=text)
    assert refused == Done(
        1,
        "",
        "error: stdin has no file name to tell the format\n"
        "  give --format: tsv csv nt ttl nq jsonld jsonl rog json wikidata neo4j graphml xlsx sqlite duckdb\n",
    )
    done = kgwalk("kg", "build", "-", "--format", "tsv", "-o", "films.kg", "--json", cwd=tmp_path, stdin=text)
    assert (done.status, done.json["triples"]) == (0, 66)


def test_build_reads_compressed_files_and_several(films: Path, tmp_path: Path) -> None:
    (tmp_path / "films.tsv.gz").write_bytes(gzip.compress((films / "films.tsv").read_bytes()))
    (tmp_path / "more.tsv").write_text("Big\thas_genre\tComedy\nSplash\tstarred_actors\tTom Hanks\n")
    done = quickly("kg", "build", "films.tsv.gz", "more.tsv", "-o", "all.kg", "--json", cwd=tmp_path)
    assert (done.json["triples"], done.json["duplicates"]) == (67, 1)


def test_build_with_labels_tells_homonyms_apart(tmp_path: Path) -> None:
    (tmp_path / "wd.tsv").write_text("Q90\tP17\tQ142\nQ830149\tP17\tQ30\n")
    (tmp_path / "names.tsv").write_text("Q90\tParis\nQ830149\tParis\nQ142\tFrance\nQ30\tUnited States\nP17\tcountry\n")
    done = quickly("kg", "build", "wd.tsv", "--labels", "names.tsv", "-o", "wd.kg", "--json", cwd=tmp_path)
    assert done.json["labelled"] is True
    named = {("Paris (Q90)", "country", "France"), ("Paris (Q830149)", "country", "United States")}
    assert set(facts(tmp_path / "wd.kg")) == named
    asked = quickly("kg", "query", "wd.kg", "Paris", cwd=tmp_path)
    assert asked.status == 1
    assert asked.stderr == (
        "error: entity 'Paris' is not in the graph; did you mean 'Paris (Q90)' or 'Paris (Q830149)'?\n"
    )
    by_id = quickly("kg", "query", "wd.kg", "Q90", "P17", "-d", "out", cwd=tmp_path)
    assert by_id == Done(0, "(Q90, P17, ?): 1\n  France\n", "")


def test_build_stops_at_a_bad_row(tmp_path: Path) -> None:
    (tmp_path / "bad.tsv").write_text(BAD)
    done = kgwalk("kg", "build", "bad.tsv", "-o", "bad.kg", cwd=tmp_path)
    assert (done.status, done.stdout) == (1, "")
    first, line, hint = done.stderr.splitlines()
    assert first == f"error: {BAD_MESSAGE}"
    assert line == "  the line: Big\\tTom Hanks"
    assert hint == "  give --on-error skip to leave such rows out"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.tsv"]  # nothing half made is left


def test_build_skips_bad_rows_when_told(tmp_path: Path) -> None:
    (tmp_path / "bad.tsv").write_text(BAD)
    done = quickly("kg", "build", "bad.tsv", "-o", "bad.kg", "--on-error", "skip", cwd=tmp_path)
    assert (done.status, done.stderr) == (0, f"note: {BAD_MESSAGE}\n")
    assert done.stdout.splitlines()[1] == "left out: 0 duplicates, 1 malformed row"
    assert facts(tmp_path / "bad.kg") == TWO_FACTS


def test_an_error_is_json_too(tmp_path: Path) -> None:
    (tmp_path / "bad.tsv").write_text(BAD)
    done = kgwalk("kg", "build", "bad.tsv", "-o", "bad.kg", "--json", cwd=tmp_path)
    message = f"{BAD_MESSAGE}\n  the line: Big\tTom Hanks\n  give --on-error skip to leave such rows out"
    assert (done.status, done.json) == (1, {"error": {"kind": "InputError", "message": message}})
    done = quickly("kg", "build", "bad.tsv", "--json", cwd=tmp_path)
    message = "Missing option '--output' / '-o'."
    assert (done.status, done.json) == (2, {"error": {"kind": "UsageError", "message": message}})


def test_build_replaces_only_with_force(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("a\tr\tb\n")
    (tmp_path / "c.tsv").write_text("c\tr\td\n")
    assert quickly("kg", "build", "a.tsv", "-o", "x.kg", cwd=tmp_path).status == 0
    refused = quickly("kg", "build", "c.tsv", "-o", "x.kg", cwd=tmp_path)
    assert refused == Done(1, "", "error: x.kg exists; choose another name, or replace it with --force\n")
    assert facts(tmp_path / "x.kg") == [("a", "r", "b")]
    assert quickly("kg", "build", "c.tsv", "-o", "x.kg", "--force", cwd=tmp_path).status == 0
    assert facts(tmp_path / "x.kg") == [("c", "r", "d")]
    (tmp_path / "mine").mkdir()
    kept = quickly("kg", "build", "a.tsv", "-o", "mine", "--force", cwd=tmp_path)
    assert kept == Done(1, "", "error: mine exists and is not a kgwalk folder, so it will not be replaced\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["kg", "build", "films.tsv"], "Missing option '--output' / '-o'."),
        (["kg", "build", "films.tsv", "-o", "x", "--memory", "lots"], "'lots' is not a size; write it like 512M or 2G"),
        (["kg", "query", "events.kg", "Japan", "--from", "soon"], "'soon' is not a time; expected a year (2005), "),
        (["kg", "export", "films.kg"], "--json needs -o: the graph itself goes to stdout"),
    ],
)
def test_wrong_usage_is_status_2(arguments: list[str], message: str, films: Path) -> None:
    done = quickly(*arguments, "--json", cwd=films)
    assert done.status == 2
    assert message in done.stderr
    assert done.json["error"]["kind"] == "UsageError"
    assert message in done.json["error"]["message"]


# kg info


def test_info(films: Path) -> None:
    done = kgwalk("kg", "info", "films.kg", cwd=films)
    assert (done.status, done.stderr) == (0, "")
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[:4] == [["triples", "66"], ["entities", "53"], ["relations", "5"], ["on", "disk", "5.0", "KiB"]]
    at = lines.index(["most", "used", "relations"])
    assert lines[at + 1 : at + 3] == [["25", "starred_actors"], ["12", "directed_by"]]
    at = lines.index(["most", "connected", "entities"])
    assert lines[at + 1] == ["7", "Interstellar"]  # the film with most facts
    assert lines[at + 11] == ["...", "43", "more"]  # ten of 53 are shown
    assert done.stdout.count("...") == 1  # all five relations are


def test_info_says_that_there_are_more_relations(tmp_path: Path) -> None:
    (tmp_path / "f.tsv").write_text("".join(f"a\tr{n}\tb\n" for n in range(11)))
    assert quickly("kg", "build", "f.tsv", "-o", "f.kg", cwd=tmp_path).status == 0
    lines = [line.split() for line in quickly("kg", "info", "f.kg", cwd=tmp_path).stdout.splitlines()]
    at = lines.index(["most", "used", "relations"])
    assert lines[at + 10] == ["1", "r8"]  # r10 comes after r1
    assert lines[at + 11] == ["...", "1", "more;", "kgwalk", "kg", "relations", "lists", "them", "all"]


def test_relations(films: Path) -> None:
    done = quickly("kg", "relations", "films.kg", "--json", cwd=films)
    (first, *_), names = done.json["relations"], [row["relation"] for row in done.json["relations"]]
    assert (first["relation"], first["facts"], first["inverse"]) == ("starred_actors", 25, [])
    assert names[1] == "directed_by"
    assert len(names) == 5
    table = quickly("kg", "relations", "films.kg", "--like", "DIRECTED", cwd=films)
    assert "1 of 5 relations" in table.stdout
    assert "directed_by" in table.stdout
    assert "starred" not in table.stdout
    none = quickly("kg", "relations", "films.kg", "--like", "wrote", cwd=films)
    assert (none.status, none.stdout) == (1, "none of 5 relations has 'wrote' in its name\n")
    # a fact and its inverse name each other
    (films / "both.tsv").write_text("Ann\tparents\tBob\nBob\tchildren\tAnn\n")
    assert quickly("kg", "build", "both.tsv", "-o", "both.kg", cwd=films).status == 0
    rows = quickly("kg", "relations", "both.kg", "--json", cwd=films).json["relations"]
    assert [(row["relation"], row["example"], row["inverse"]) for row in rows] == [
        ("children", ["Bob", "Ann"], ["parents"]),
        ("parents", ["Ann", "Bob"], ["children"]),
    ]


def test_info_as_json(films: Path) -> None:
    about = quickly("kg", "info", "events.kg", "--json", cwd=films).json
    assert {key: about[key] for key in ("triples", "entities", "relations", "dates", "timed", "labelled")} == {
        "triples": 5,
        "entities": 6,
        "relations": 3,
        "dates": 4,
        "timed": True,
        "labelled": False,
    }
    assert about["top_relations"][0] == ["visited", 3]
    assert about["subgraphs"] is None


def test_a_store_that_is_not_there(films: Path) -> None:
    done = quickly("kg", "info", "none.kg", cwd=films)
    assert done == Done(1, "", "error: none.kg does not exist; build it with `kgwalk kg build SRC -o none.kg`\n")
    done = quickly("kg", "info", "films.tsv", "--json", cwd=films)
    assert done.status == 1
    assert done.json["error"]["message"].startswith("films.tsv is not a kgwalk store (it has no kgwalk.json); ")


def test_a_folder_without_a_store_says_what_it_could_be(films: Path, tmp_path: Path) -> None:
    for command in (("info", films), ("query", films, "Big")):
        done = quickly("kg", *command, cwd=tmp_path)
        assert done.status == 1
        assert "is a folder without a store (it has no kgwalk.json); give " in done.stderr
        assert "films.kg\n" in done.stderr
    done = quickly("kg", "query", tmp_path, "Big", cwd=films)
    assert f"if it is a dataset, see `kgwalk data show {tmp_path}`" in done.stderr


def test_a_graph_whose_name_is_misspelt(tmp_path: Path) -> None:
    done = quickly("kg", "query", "wrld", "Norway", cwd=tmp_path)
    assert (done.status, done.stdout) == (1, "")
    assert done.stderr.startswith("error: unknown graph `wrld`; did you mean `world`?\n")


@contextlib.contextmanager
def without_rights() -> Iterator[None]:
    """As somebody who may not read what others lock: root may read everything, so it becomes nobody for a while."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize("opens", [open_graph, graph_called, load_dataset], ids=lambda opens: opens.__name__)
def test_a_store_without_read_permission(opens: Callable[[str], object], films: Path, tmp_path: Path) -> None:
    locked = tmp_path / "films.kg"
    shutil.copytree(films / "films.kg", locked)
    with contextlib.suppress(KgwalkError):
        opens(str(tmp_path / "none.kg"))  # imports what it needs, while that can be read
    locked.chmod(0)
    with without_rights(), pytest.raises(InputError, match=r"films\.kg(/kgwalk\.json)?: cannot be read: Permission"):
        opens(str(locked))
    locked.chmod(0o755)


# kg query


def test_query_lists_the_relations_of_an_entity(films: Path) -> None:
    done = kgwalk("kg", "query", "films.kg", "Tom Hanks", cwd=films)
    assert done == Done(
        0,
        "(Tom Hanks, ?, ...): 0 relations\n"
        "(..., ?, Tom Hanks): 1 relation\n"
        "  starred_actors  (6: Forrest Gump, Apollo 13, Philadelphia, ...)\n",
        "",
    )


def test_query_lists_neighbours_most_connected_first(films: Path) -> None:
    done = quickly("kg", "query", "films.kg", "Forrest Gump", "starred_actors", cwd=films)
    assert done == Done(
        0,
        "(Forrest Gump, starred_actors, ?): 3\n"
        "  Tom Hanks\n"  # in six films here
        "  Gary Sinise\n"  # in two
        "  Robin Wright\n"
        "(?, starred_actors, Forrest Gump): 0\n",
        "",
    )


def test_query_limits_what_it_shows_and_says_so(films: Path) -> None:
    wanted = ["kg", "query", "films.kg", "Tom Hanks", "starred_actors", "--direction", "in", "--limit", "2"]
    done = quickly(*wanted, cwd=films)
    assert done == Done(
        0,
        "(?, starred_actors, Tom Hanks): 6\n  Forrest Gump\n  Apollo 13\n  ... 4 more (--limit)\n",
        "",
    )
    assert quickly(*wanted, "--json", cwd=films).json == {
        "entity": "Tom Hanks",
        "relation": "starred_actors",
        "in": {"names": ["Forrest Gump", "Apollo 13"], "total": 6, "left_out": 4},
    }


def test_query_relations_as_json(films: Path) -> None:
    assert quickly("kg", "query", "films.kg", "Carl Sagan", "--json", cwd=films).json == {
        "entity": "Carl Sagan",
        "relation": None,
        "out": {"relations": [], "left_out": 0},
        "in": {"relations": [{"relation": "written_by", "total": 1, "examples": ["Contact"]}], "left_out": 0},
    }


def test_query_shows_dates(films: Path) -> None:
    wanted = ["kg", "query", "events.kg", "Barack Obama", "visited", "-d", "out"]
    done = quickly(*wanted, cwd=films)
    assert done == Done(0, "(Barack Obama, visited, ?): 2\n  Japan  [2014-04; 2016-05-25]\n  Kenya  [2015-07]\n", "")
    shown = quickly(*wanted, "--json", cwd=films).json["out"]
    assert shown == {
        "names": ["Japan", "Kenya"],
        "total": 2,
        "left_out": 0,
        "times": [["2014-04", "2016-05-25"], ["2015-07"]],
    }


def test_query_in_a_time_window(films: Path) -> None:
    wanted = ["kg", "query", "events.kg", "Barack Obama", "visited", "-d", "out"]
    assert (
        quickly(*wanted, "--from", "2016", cwd=films).stdout == "(Barack Obama, visited, ?): 1\n  Japan  [2016-05-25]\n"
    )
    # April 2014 overlaps a window that ends on its first day; the birth has no date, so it holds at any time
    done = quickly("kg", "query", "events.kg", "Barack Obama", "--to", "2014-04-01", "-d", "out", cwd=films)
    assert done.stdout == "(Barack Obama, ?, ...): 2 relations\n  born_in  (1: Honolulu)\n  visited  (1: Japan)\n"
    gone = quickly("kg", "query", "events.kg", "Donald Trump", "--to", "2014", cwd=films)
    assert (gone.status, gone.stdout) == (1, "")
    assert gone.stderr.startswith("error: entity 'Donald Trump' is not in this part of the graph")


def test_an_unknown_name_comes_with_the_nearest(films: Path) -> None:
    done = quickly("kg", "query", "films.kg", "Tom Hancks", cwd=films)
    assert done == Done(1, "", "error: entity 'Tom Hancks' is not in the graph; did you mean 'Tom Hanks'?\n")
    done = quickly("kg", "query", "films.kg", "Big", "directedby", "--json", cwd=films)
    assert (done.status, done.json["error"]["kind"]) == (1, "UnknownRelation")
    assert done.json["error"]["message"].startswith(
        "relation 'directedby' is not in the graph; did you mean 'directed_by'"
    )


def test_names_are_shown_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "odd.tsv").write_text("[bold]x[/bold]\t:heart:\t" + "long " * 60 + "\n")
    assert quickly("kg", "build", "odd.tsv", "-o", "odd.kg", cwd=tmp_path).status == 0
    done = quickly("kg", "query", "odd.kg", "[bold]x[/bold]", ":heart:", "-d", "out", cwd=tmp_path)
    assert done == Done(0, "([bold]x[/bold], :heart:, ?): 1\n  " + "long " * 60 + "\n", "")


# kg find


def test_find(films: Path) -> None:
    assert kgwalk("kg", "find", "films.kg", "amelie", cwd=films) == Done(0, "1.00  normalised  Amélie\n", "")
    done = kgwalk("kg", "find", "films.kg", "jody foster", "-k", "1", "--json", cwd=films)
    (found,) = done.json["found"]
    assert done.json["text"] == "jody foster"
    assert (found["name"], found["how"], found["id"]) == ("Jodie Foster", "fuzzy", None)
    assert 0.5 < found["score"] < 1


def test_find_without_a_result(films: Path) -> None:
    assert kgwalk("kg", "find", "films.kg", "qqqqqqq", cwd=films) == Done(0, "", "note: no name is near 'qqqqqqq'\n")
    # bytes that are not UTF-8 reach a program as half characters
    done = kgwalk("kg", "find", "films.kg", os.fsdecode(b"\xff"), "--json", cwd=films)
    assert (done.status, done.json["found"]) == (0, [])


# kg export


def test_export_is_the_graph_again(films: Path) -> None:
    done = kgwalk("kg", "export", "films.kg", cwd=films)
    assert (done.status, done.stderr) == (0, "")
    assert sorted(done.stdout.splitlines()) == sorted((films / "films.tsv").read_text().splitlines())


def test_export_to_a_file_does_not_overwrite(films: Path, tmp_path: Path) -> None:
    target = tmp_path / "big.nt"
    wanted = ["kg", "export", "films.kg", "--format", "nt", "-o", target]
    done = quickly(*wanted, "--json", cwd=films)
    assert done.json == {"path": str(target), "format": "nt", "bytes": target.stat().st_size}
    lines = target.read_text().splitlines()
    assert "<urn:kgwalk:entity:Big> <urn:kgwalk:relation:directed_by> <urn:kgwalk:entity:Penny%20Marshall> ." in lines
    assert len(lines) == 53 + 5 + 66  # a label for each entity and relation, and the facts
    again = quickly(*wanted, cwd=films)
    assert again == Done(1, "", f"error: {target} exists; choose another name, or replace it with --force\n")
    target.write_text("old")
    assert quickly(*wanted, "--force", cwd=films).status == 0
    assert target.read_text().splitlines() == lines
    assert [path.name for path in tmp_path.iterdir()] == ["big.nt"]


def test_export_of_dates(films: Path) -> None:
    done = quickly("kg", "export", "events.kg", "--from", "2017", cwd=films)
    assert sorted(done.stdout.splitlines()) == [
        "Barack Obama\tborn_in\tHonolulu\t",
        "Donald Trump\tholds\tPresident\t2017-01-20..2021-01-20",
    ]
    done = quickly("kg", "export", "events.kg", "--format", "nt", cwd=films)
    assert done == Done(1, "", "error: N-Triples cannot hold the dates of this graph; export it as nq or tsv\n")


def _first_line(*arguments: str, cwd: Path) -> Done:
    """As `kgwalk ... | head -1`: the reader closes the pipe after one line."""
    with subprocess.Popen(
        [SCRIPT, *arguments], cwd=cwd, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        line = process.stdout.readline()
        process.stdout.close()
        message = process.stderr.read()
        return Done(process.wait(180), line.decode(), message.decode())


def test_a_reader_that_leaves_is_no_error(tmp_path: Path) -> None:
    """More than a pipe holds (64 KiB), written by us and by rich."""
    (tmp_path / "hub.tsv").write_text("".join(f"hub\tspoke\tthe entity of number {n:06}\n" for n in range(20_000)))
    assert quickly("kg", "build", "hub.tsv", "-o", "hub.kg", cwd=tmp_path).status == 0
    status, line, message = _first_line("kg", "export", "hub.kg", cwd=tmp_path)
    assert line.startswith("hub\tspoke\tthe entity of number ")
    assert (status, message) == (0, "")
    wanted = ["kg", "query", "hub.kg", "hub", "spoke", "-d", "out", "--limit", "20000"]
    assert _first_line(*wanted, cwd=tmp_path) == Done(0, "(hub, spoke, ?): 20,000\n", "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_a_full_disk_is_a_message(films: Path) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [SCRIPT, "kg", "export", "films.kg"], cwd=films, env=ENVIRONMENT, stdout=full, stderr=subprocess.PIPE
        )
    assert done.returncode == 1
    assert done.stderr == b"error: the output could not be written: No space left on device\n"


# kg subgraphs, kg verify


@pytest.fixture
def asked(films: Path, tmp_path: Path) -> Path:
    """A folder with a store of its own and two questions."""
    shutil.copytree(films / "films.kg", tmp_path / "films.kg")
    (tmp_path / "questions.jsonl").write_text(QUESTIONS)
    return tmp_path


def test_subgraphs_then_a_query_in_one(asked: Path) -> None:
    before = quickly("kg", "query", "films.kg", "Big", "--question", "q1", cwd=asked)
    assert (before.status, before.stderr) == (
        1,
        "error: films.kg has no question subgraphs; make them with `kgwalk kg subgraphs films.kg QUESTIONS`\n",
    )
    made = kgwalk("kg", "subgraphs", "films.kg", "questions.jsonl", "--hops", "1", "--json", cwd=asked)
    assert made.json == {
        "around": ["topics"],
        "questions": 2,
        "triples": 5,
        "largest": 5,
        "truncated": 0,
        "empty": 1,
        "unknown": ["Nobody"],
    }
    inside = quickly("kg", "query", "films.kg", "Penny Marshall", "--question", "q1", "-d", "in", cwd=asked)
    assert inside.stdout == "(..., ?, Penny Marshall): 1 relation\n  directed_by  (1: Big)\n"  # of her two films
    outside = quickly("kg", "query", "films.kg", "Contact", "--question", "q1", cwd=asked)
    assert outside.status == 1
    assert outside.stderr.startswith("error: entity 'Contact' is not in this part of the graph")
    exported = quickly("kg", "export", "films.kg", "--question", "q1", cwd=asked)
    assert len(exported.stdout.splitlines()) == 5
    unknown = quickly("kg", "query", "films.kg", "Big", "--question", "q9", cwd=asked)
    assert (unknown.status, unknown.stderr) == (1, "error: question 'q9' is not in the graph\n")


def test_subgraphs_around_answers_are_recorded_as_such(asked: Path) -> None:
    done = quickly("kg", "subgraphs", "films.kg", "questions.jsonl", "--hops", "1", "--with-answers", cwd=asked)
    assert done == Done(
        0,
        "2 subgraphs, 3 triples on average, 6 at most\n",  # the five of Big, and the director's other film
        "note: 1 is empty; not in the graph, for example: Nobody\n",
    )
    assert quickly("kg", "info", "films.kg", "--json", cwd=asked).json["subgraphs"] == {
        "hops": 1,
        "hub": 200,
        "max_triples": 50000,
        "around": ["topics", "answers"],
    }
    again = quickly("kg", "subgraphs", "films.kg", "questions.jsonl", cwd=asked)
    assert (again.status, again.stdout) == (1, "")
    assert "films.kg/subgraphs exists" in again.stderr


@pytest.mark.parametrize("name", ["out.other.bin", "subgraphs/question.out.bin"])
def test_verify_reads_every_byte(name: str, asked: Path) -> None:
    assert quickly("kg", "subgraphs", "films.kg", "questions.jsonl", cwd=asked).status == 0
    good = quickly("kg", "verify", "films.kg", "--json", cwd=asked)
    held = sum(path.stat().st_size for path in (asked / "films.kg").rglob("*.bin"))
    assert (good.status, good.json) == (0, {"path": "films.kg", "ok": True, "bytes": held})
    damaged = asked / "films.kg" / name
    data = damaged.read_bytes()
    damaged.write_bytes(bytes([data[0] ^ 1]) + data[1:])
    bad = quickly("kg", "verify", "films.kg", cwd=asked)
    assert (bad.status, bad.stdout) == (1, "")
    assert bad.stderr.startswith(f"error: films.kg/{name} is corrupted: its bytes do not match their checksum")
    damaged.write_bytes(data[:-1])
    short = quickly("kg", "verify", "films.kg", "--json", cwd=asked)
    assert short.status == 1
    assert short.json["error"]["kind"] == "StoreError"
    assert f"holds {len(data) - 1:,} bytes and should hold {len(data):,}" in short.json["error"]["message"]


# serve


@contextlib.contextmanager
def serving(*arguments: str, cwd: Path, **environment: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server on a free port, and its URL as it announced it on stderr."""
    command = [SCRIPT, "serve", *arguments, "--port", "0"]
    env = ENVIRONMENT | environment
    with subprocess.Popen(
        command, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        try:
            line = process.stderr.readline()
            found = re.match(r"kgwalk serves at (http://\S+) \(docs: \1/docs\); Ctrl-C stops it\n", line)
            assert found, line + process.stderr.read()
            yield process, found.group(1)
        finally:
            process.kill()


def test_serve_answers_and_stops_in_order(films: Path) -> None:
    with serving("--graph", "films.kg", cwd=films) as (process, url):
        action = {"action": "get_tail_entities", "entity": "Big", "relation": "directed_by"}
        reply = httpx.post(f"{url}/kg/actions", json={"actions": [action]})
        assert reply.status_code == 200
        assert reply.json() == {
            "results": [
                {
                    "ok": True,
                    "items": ["Penny Marshall"],
                    "total": 1,
                    "left_out": 0,
                    "text": 'Tail entities for relation "directed_by" with head "Big": Penny Marshall',
                }
            ]
        }
        process.send_signal(signal.SIGTERM)
        stdout, stderr = process.communicate(timeout=60)
        assert (process.returncode, stdout, stderr) == (0, "", "")


def test_serve_with_a_key(films: Path) -> None:
    with serving("--graph", "facts=films.kg", cwd=films, KGWALK_API_KEY="secret") as (_, url):
        assert httpx.get(f"{url}/kg/graphs").status_code == 401
        assert httpx.get(f"{url}/health").json() == {
            "status": "ok",
            "version": __version__,
            "graphs": 1,
            "model": None,
            "under_way": 0,
            "waiting": 0,
            "feedback": False,
        }
        allowed = httpx.get(f"{url}/kg/graphs", headers={"Authorization": "Bearer secret"})
        assert allowed.json()["graphs"][0]["name"] == "facts"


def test_serve_refuses_a_public_address_without_a_key(films: Path) -> None:
    done = kgwalk("serve", "--graph", "films.kg", "--host", "0.0.0.0", "--port", "0", cwd=films)
    assert done == Done(
        1,
        "",
        "error: 0.0.0.0 can be reached from other machines, and no API key is set.\n"
        "  Set KGWALK_API_KEY or pass --api-key-file FILE; clients send `Authorization: Bearer KEY`.\n"
        "  Or listen on 127.0.0.1, or pass --insecure to serve everyone.\n",
    )


def test_serve_two_graphs_of_one_name(films: Path) -> None:
    done = quickly("serve", "--graph", "films.kg", "--graph", "films.kg", cwd=films)
    assert done.status == 2
    assert "two graphs are called 'films'; name them: --graph NAME=DIR" in done.stderr


def test_serve_refuses_a_model_that_is_not_there(films: Path) -> None:
    done = quickly("serve", "--graph", "films.kg", "--model", "./zzz", "--port", "0", cwd=films)
    assert (done.status, done.stdout) == (1, "")
    assert done.stderr.startswith("error: there is no model './zzz'. Looked for:")


# The rest


def test_recipes_are_described_in_whole_sentences() -> None:
    rows = quickly("recipes", "--json", cwd=ROOT).json["recipes"]
    about = {row["name"]: row["about"] for row in rows}
    assert about["oracle"].startswith("The ceiling: each question's own relation chain, walked as sets.")
    assert about["oracle"].endswith("takes those that a document names.")
    assert all(text[0].isupper() and text.endswith(".") for text in about.values()), about


def test_the_version() -> None:
    assert kgwalk("--version", cwd=ROOT) == Done(0, f"kgwalk {__version__}\n", "")


def test_the_package_is_the_command_line_too() -> None:
    def ran(*arguments: str) -> tuple[int, str]:
        done = subprocess.run([sys.executable, "-m", "kgwalk", *arguments], capture_output=True, text=True)
        return done.returncode, done.stdout

    assert ran("--version") == (0, f"kgwalk {__version__}\n")
    assert ran("kg", "info", "no-such.kg")[0] == 1


def _commands(command: Any, name: Sequence[str] = ()) -> Iterator[list[str]]:
    inner = getattr(command, "commands", None)
    if inner is None:
        yield list(name)
    for sub, entry in (inner or {}).items():
        yield from _commands(entry, [*name, sub])


@pytest.mark.parametrize("command", list(_commands(get_command(make_app()))), ids=" ".join)
def test_every_command_explains_itself_with_an_example(command: list[str]) -> None:
    done = quickly(*command, "--help", cwd=ROOT)
    assert (done.status, done.stderr) == (0, "")
    shown = " ".join(done.stdout.split())
    assert re.search(rf"Examples?: (.* )?kgwalk {' '.join(command)} ", shown), done.stdout


def _described(command: Any) -> Iterator[str]:
    """Every text of a command's help and of those inside it."""
    texts = [command.help, command.epilog, *(getattr(param, "help", None) for param in command.params)]
    yield from filter(None, [*texts, *(param.metavar for param in command.params)])
    for entry in getattr(command, "commands", {}).values():
        yield from _described(entry)


def test_no_help_has_a_hole() -> None:
    """Rich takes `[word]` for markup and shows nothing in its place: "those of [world]" became "those of "."""
    texts = list(_described(get_command(make_app())))
    assert len(texts) > 200
    for text in texts:
        assert Text.from_markup(text).plain == text


def test_no_command_shows_the_help() -> None:
    done = kgwalk(cwd=ROOT)
    assert done.status == 2
    assert "Start with: kgwalk kg build my.tsv -o my.kg" in " ".join(done.stdout.split())


@pytest.mark.slow
def test_bench_gives_rows(tmp_path: Path) -> None:
    done = kgwalk("bench", "kg", "--quick", "--json", "--folder", tmp_path, cwd=tmp_path)
    assert (done.status, done.stderr) == (0, "")
    rows = done.json["rows"]
    assert len(rows) > 20
    for row in rows:
        assert set(row) == {"name", "value", "unit", "baseline", "goal", "ratio", "met"}
        assert row["value"] >= 0
        assert row["goal"] is None  # goals are for the full size
    compared = next(row for row in rows if row["name"] == "get_tail_entities, 20,000 triples, p50")
    assert compared["unit"] == "us"
    assert compared["ratio"] == pytest.approx(compared["baseline"] / compared["value"])
    assert list(tmp_path.iterdir()) == []  # it cleans up


@pytest.mark.slow
def test_bench_by_workers_and_clients(tmp_path: Path) -> None:
    done = kgwalk("bench", "kg", "--scale", "--quick", "--json", "--folder", tmp_path, cwd=tmp_path)
    assert (done.status, done.stderr) == (0, "")
    rows = {row["name"]: row for row in done.json["rows"]}
    assert len(rows) == 2 * (4 * 2 + 1)  # 1 and 4 clients; four kinds at 1 and 2 workers, and one kind at 2 servers
    assert rows["graph, 4 clients, 2 servers"]["baseline"] == rows["graph, 4 clients, 1 worker"]["value"]
    assert all(row["value"] > 0 for row in rows.values())


def test_the_bundled_graph_goes_by_its_name(tmp_path: Path) -> None:
    assert quickly("kg", "info", "world", "--json", cwd=tmp_path).json["entities"] > 1000
    assert quickly("kg", "verify", "world", "--quiet", cwd=tmp_path).status == 0


@pytest.mark.parametrize(("module", "status"), [("torch", 1), ("nonsense", None)])
def test_a_package_that_is_not_installed(module: str, status: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that an extra brings is a message; any other missing module is our bug, with a traceback."""

    def make(*_: object) -> object:
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)

    monkeypatch.setattr("kgwalk.cli.main.make_app", make)
    with pytest.raises(SystemExit if status else ModuleNotFoundError) as caught:
        main()
    assert status is None or caught.value.code == status  # type: ignore[attr-defined]


def test_demos_and_the_graph_benchmark_need_no_torch() -> None:
    code = (
        "import sys; sys.modules['torch'] = None; import kgwalk.bench.kg, kgwalk.bench.soak, kgwalk.training.settings"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_program_is_walked_without_a_model(cli: Callable[..., Done]) -> None:
    """Denmark has one neighbour by land; the three largest countries are in order, each with what decided."""
    done = cli("kg", "walk", "world", 'tail_entities("Denmark", "borders"); count($1)')
    assert done.stdout == "1\n    (Denmark, borders, Germany)\n"
    assert done.stderr.startswith('> tail_entities("Denmark", "borders")\n  $1 = 1: Germany\n')
    top = cli("kg", "walk", "world", 'top($1, "population", "3")', "--kind", "country").stdout.splitlines()
    assert [line for line in top if not line.startswith(" ")] == ["1. China", "2. India", "3. United States"]
    told = cli("kg", "walk", "world", 'table($1, "capital", "currency")', "--topic", "denmark", "--json").json
    assert (told["answer_kind"], told["columns"]) == ("table", ["name", "capital", "currency"])
    assert told["rows"] == [["Denmark", "Copenhagen", "Danish krone"]]
    assert [turn["text"] for turn in told["walk"]] == ['table($1, "capital", "currency")', "<answer>$2</answer>"]


def test_a_program_is_printed_as_a_query(cli: Callable[..., Done]) -> None:
    """Denmark borders Germany alone; the second call leads nowhere, and is not in the query."""
    calls = 'tail_entities("Denmark", "borders"); tail_entities("Denmark", "capital"); count($1)'
    done = cli("kg", "walk", "world", calls, "--as", "sql")
    assert (done.status, done.stderr) == (0, "")
    assert done.stdout.startswith("WITH\ns1(name) AS (SELECT 'Denmark'),\ns2(name)")
    assert "capital" not in done.stdout
    told = cli("kg", "walk", "world", calls, "--as", "python", "--json").json
    assert told["answers"] == ["1"]
    assert told["query"].endswith("s3 = {str(len(set(s2)))}\nfor name in sorted(s3):\n    print(name)\n")
    refused = cli("kg", "walk", "world", 'tail_entities("France", "borders"); nth($1, "2")', "--as", "sparql")
    assert (refused.status, refused.stdout) == (1, "")
    assert 'no query for `nth($1, "2")`: the set has no order but that of the graph' in refused.stderr


def test_a_program_says_yes_and_no_and_that_there_is_nothing(cli: Callable[..., Done]) -> None:
    yes = cli("kg", "walk", "world", 'tail_entities("France", "borders"); is_in("Spain", $1)')
    assert yes.stdout == "yes\n    (France, borders, Spain)\n"
    none = cli("kg", "walk", "world", 'filter("Denmark", "population", ">", "1 billion")')
    assert none.stdout.splitlines()[0] == "the graph does not say"
    cut = cli("kg", "walk", "world", 'tail_entities("France", "borders")', "--limit", "2").stdout
    assert cut.splitlines()[-1] == "... and 6 more"


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("hello", "`hello` is no call"),
        ("", "the program has no call"),
        ('fly("France", "borders")', "there is no tool fly"),
        ('tail_entities("France", "border")', 'relation "border" is not in the graph; there is "borders"'),
    ],
)
def test_a_program_that_is_wrong(cli: Callable[..., Done], program: str, why: str) -> None:
    done = cli("kg", "walk", "world", program)
    assert done.status == 1
    assert why in done.stderr


# --- graphs elsewhere


@pytest.mark.parametrize("password", ["secret", "se/cret"])
@pytest.mark.parametrize(
    "command",
    [
        ["serve", "--graph", "bolt://me:{}@db.example/movies"],
        ["serve", "--graph", "films=bolt://me:{}@db.example/movies?name=Person.id"],
        ["fit", "bolt://me:{}@db.example/movies"],
        ["kg", "relations", "bolt://me:{}@db.example/movies"],
        ["kg", "compact", "bolt://me:{}@db.example/movies"],
        ["kg", "update", "bolt://me:{}@db.example/movies", "more.tsv"],
    ],
)
def test_a_password_in_an_address_is_not_printed(command: list[str], password: str, tmp_path: Path) -> None:
    done = quickly(*(word.format(password) for word in command), cwd=tmp_path)
    assert done.status == 1
    assert "cret" not in done.stdout + done.stderr
    address = next(word for word in command if "bolt" in word).replace("me:{}@", "").removeprefix("films=")
    assert f"`kgwalk kg build {shlex.quote(address)} -o my.kg` makes one" in done.stderr
