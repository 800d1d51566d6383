"""Builds: the same store from any order and memory, whole or not at all, and bad input named exactly."""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import FILMS, few_names, memory_folder, store_of, write_jsonl
from kgwalk.kg.build import build
from kgwalk.kg.external_memory import RowSorter
from kgwalk.kg.question_sets import BothEdges, in_positions, write_in_positions
from kgwalk.kg.sources.source import Options
from kgwalk.kg.store import open_graph
from kgwalk.types import InputError, StoreError, Triple


def _bytes_of(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.glob("*.bin"))}


def _random_triples(count: int, seed: int = 0) -> list[tuple[str, str, str]]:
    rng = random.Random(seed)
    # a few hubs: names by the square of a random number
    name = lambda: f"entity {int(rng.random() ** 2 * count / 4)}"  # noqa: E731
    return [(name(), f"r{rng.randrange(9)}", name()) for _ in range(count)]


def test_order_and_memory_do_not_change_a_byte(tmp_path: Path) -> None:
    triples = _random_triples(30_000)
    plain = _build(tmp_path / "a", triples, memory=1 << 30)
    shuffled = list(triples)
    random.Random(1).shuffle(shuffled)
    # 1 MiB: blocks of 64 KiB, names and rows in files, sorts dealt to many files
    assert _build(tmp_path / "b", shuffled, memory=1 << 20) == plain
    graph = open_graph(tmp_path / "b" / "graph.kg")
    assert sorted(graph.match()) == sorted({Triple(*t) for t in triples})


def _build(folder: Path, triples: list[tuple[str, str, str]], memory: int) -> dict[str, bytes]:
    folder.mkdir()
    store_of(folder, triples, memory=memory)
    return _bytes_of(folder / "graph.kg")


def test_a_line_has_a_16th_of_the_memory(tmp_path: Path) -> None:
    """At 128 MB that is 8 MB: a longer line is refused before anything is made of it. The least is 4 MB."""
    source = tmp_path / "facts.tsv"
    source.write_bytes(b"a\tr\tb\nc\tr\t" + b"x" * (8 << 20) + b"\n")
    with pytest.raises(InputError, match=r"facts\.tsv:2: a line of 8,388,608 bytes or more") as caught:
        build([source], tmp_path / "facts.kg", memory=128 << 20)
    assert "more --memory" in str(caught.value)
    assert build([source], tmp_path / "facts.kg", memory=160 << 20).triples == 2
    source.write_bytes(b"a\tr\tb\nc\tr\t" + b"x" * (3 << 20) + b"\n")
    assert build([source], tmp_path / "less.kg", memory=1 << 20).triples == 2


@pytest.mark.parametrize("sources", [["names.nt"], ["names.nt", "more.nt"]])
def test_names_without_facts_are_no_graph(tmp_path: Path, sources: list[str]) -> None:
    for name in sources:
        (tmp_path / name).write_text(f'<http://x/{name}> <http://www.w3.org/2000/01/rdf-schema#label> "A" .\n')
    what = "2 sources hold" if len(sources) > 1 else r"\S+names\.nt holds"
    with pytest.raises(InputError, match=f"^no triples: {what} names of things only\n  give the file of facts too"):
        build([tmp_path / name for name in sources], tmp_path / "graph.kg")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(sources)


@pytest.mark.parametrize("limit", [1, 2, 7, 100])
def test_sorting_rows_in_little_memory(tmp_path: Path, limit: int) -> None:
    rng = np.random.default_rng(limit)
    # one value fills the first column: only the next columns can split it
    rows = np.concatenate([rng.integers(0, 5, (200, 3)), np.full((50, 3), 3), [[0, 2**32 - 1, 7]]]).astype(np.uint32)
    sorter = RowSorter(tmp_path, "rows", columns=3, limit=limit)
    for start in range(0, len(rows), 13):
        sorter.add(rows[start : start + 13])
    result = np.concatenate(list(sorter.sorted())).tolist()
    assert [tuple(row) for row in result] == sorted({tuple(row) for row in rows.tolist()})
    assert list(tmp_path.iterdir()) == []


def test_duplicates_are_counted_once_removed(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "x.jsonl", [*FILMS, FILMS[0], FILMS[0]])
    report = build([source], tmp_path / "x.kg")
    assert (report.rows, report.triples, report.duplicates) == (9, 7, 2)
    assert (report.entities, report.relations) == (8, 3)


def test_several_sources_and_formats_make_one_graph(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("a\tr\tb\n")
    (tmp_path / "b.csv").write_text('"b, too",r,a\n')
    (tmp_path / "c.jsonl").write_text('["a", "s", "c"]\n')
    report = build([tmp_path / name for name in ("a.tsv", "b.csv", "c.jsonl")], tmp_path / "all.kg")
    assert report.triples == 3
    assert open_graph(tmp_path / "all.kg").neighbors("a", "r", out=False).names == ["b, too"]


def test_homonyms_stay_apart(tmp_path: Path) -> None:
    (tmp_path / "wd.ttl").write_text(
        """@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> . @prefix e: <http://x/> .
        e:Q90 e:P17 e:Q142 ; rdfs:label "Paris"@en , "Lutetia"@la . e:Q830149 e:P17 e:Q30 ; rdfs:label "Paris"@en .
        e:Q142 rdfs:label "France"@en . e:P17 rdfs:label "country"@en . e:Q90 e:P1082 2100000 ."""
    )
    report = build([tmp_path / "wd.ttl"], tmp_path / "wd.kg")
    assert report.labelled
    graph = open_graph(tmp_path / "wd.kg")
    assert graph.neighbors("Paris (Q90)", "country").names == ["France"]
    assert graph.neighbors("Paris (Q830149)", "country").names == ["Q30"]  # no label: the end of its IRI
    assert graph.neighbors("http://x/Q90", "http://x/P17").names == ["France"]  # ids work as names
    assert graph.neighbors("Paris (Q90)", "P1082").names == ["2100000"]
    assert graph.id_of("France") == "http://x/Q142"
    assert {f.id for f in graph.find("paris", 2)} == {"http://x/Q90", "http://x/Q830149"}


STAFF = """@prefix : <http://example.org/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
:p1 rdfs:label "Ann Lee" ; :name "Ann Lee" ; :age "40"^^<http://www.w3.org/2001/XMLSchema#decimal> .
:p2 rdfs:label "Bob Ray" ; :name "Bob Ray"@en ; :age "40" ; :boss :p1 ; :size 40 .
"""


def test_a_thing_goes_before_a_text_of_its_name(tmp_path: Path) -> None:
    """Both have their label as a `name`, too. Of the texts `40` the number is there twice, and keeps its name;
    it is one number, whether a decimal or an integer.
    """
    (tmp_path / "staff.ttl").write_text(STAFF)
    report = build([tmp_path / "staff.ttl"], tmp_path / "staff.kg")
    graph = open_graph(tmp_path / "staff.kg")
    assert set(graph.match(None, None, None)) == {
        Triple("Ann Lee", "name", "Ann Lee (text)"),
        Triple("Ann Lee", "age", "40"),
        Triple("Bob Ray", "name", "Bob Ray (en)"),
        Triple("Bob Ray", "age", "40 (text)"),
        Triple("Bob Ray", "size", "40"),
        Triple("Bob Ray", "boss", "Ann Lee"),
    }
    assert list(graph.neighbors("Ann Lee", "boss", out=False).names) == ["Bob Ray"]
    (note,) = report.notes
    assert note.startswith("3 texts told apart (")
    assert note.endswith("): something else is called the same, and the text has its type or language after it")


def test_two_things_of_one_name_both_get_their_ids_and_the_report_says_so(tmp_path: Path) -> None:
    two = ':p3 rdfs:label "Ann Lee" ; :boss :p1 .\n'
    (tmp_path / "staff.ttl").write_text(STAFF + two)
    report = build([tmp_path / "staff.ttl"], tmp_path / "staff.kg")
    graph = open_graph(tmp_path / "staff.kg")
    assert sorted(graph.neighbors("Ann Lee (p1)", "boss", out=False).names) == ["Ann Lee (p3)", "Bob Ray"]
    assert report.notes[0] == (
        "2 names told apart (Ann Lee (p1), Ann Lee (p3)): several things are called the same, and each has its id in "
        "its name"
    )


def test_labels_from_a_file_and_a_label_that_imitates_a_told_apart_name(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text("Q1\tP1\tQ2\nQ3\tP1\tQ2\n")
    (tmp_path / "names.tsv").write_text("Q1\tParis\nQ2\tParis\nQ3\tParis (Q1)\nP1\tnear\nQ9\tunused\n")
    build([tmp_path / "x.tsv"], tmp_path / "x.kg", labels=tmp_path / "names.tsv")
    graph = open_graph(tmp_path / "x.kg")
    assert graph.relations("Q3") == ["near"]
    # "Paris (Q1)" is taken, by its label; the short form of Q1 gives way to one that is free
    names = {graph.id_of(name): name for triple in graph.match() for name in (triple.head, triple.tail)}
    assert names == {"Q1": "Paris (Q1) #1", "Q2": "Paris (Q2)", "Q3": "Paris (Q1)"}


def test_a_graph_per_question_becomes_one_store(tmp_path: Path) -> None:
    rows = [
        {
            "id": "q1",
            "question": "?",
            "q_entity": ["a"],
            "a_entity": ["b"],
            "graph": [["a", "r", "b"], ["b", "r", "c"]],
        },
        {
            "id": "q2",
            "question": "?",
            "q_entity": ["a"],
            "a_entity": ["c"],
            "graph": [["a", "r", "b"], ["a", "s", "c"]],
        },
    ]
    (tmp_path / "rog.jsonl").write_bytes(b"\n".join(map(orjson.dumps, rows)))
    (tmp_path / "more.tsv").write_text("x\tr\ty\n")
    report = build([tmp_path / "rog.jsonl", tmp_path / "more.tsv"], tmp_path / "rog.kg")
    assert (report.triples, report.questions, report.duplicates) == (4, 2, 1)
    graph = open_graph(tmp_path / "rog.kg")
    assert sorted(graph.question("q1").match()) == [Triple("a", "r", "b"), Triple("b", "r", "c")]
    assert graph.question("q2").relations("a") == ["r", "s"]
    assert "b" in graph.question("q2")
    assert "x" not in graph.question("q2")
    assert graph.question("q1").neighbors("b", "r", out=False).names == ["a"]
    assert list(graph.question_sets or []) == ["q1", "q2"]


@given(st.lists(st.lists(st.tuples(few_names, st.sampled_from("pq"), few_names), max_size=12), min_size=1, max_size=6))
@settings(max_examples=40)
def test_each_question_has_its_facts_both_ways(graphs: list[list[tuple[str, str, str]]]) -> None:
    """Beside a plain search: the facts of each question, and where the incoming edges have them."""
    lines = [orjson.dumps({"id": f"q{number}", "graph": graph}) for number, graph in enumerate(graphs)]
    with memory_folder() as folder:
        (folder / "rog.jsonl").write_bytes(b"\n".join([*lines, b'{"id": "last", "graph": [["a", "p", "a"]]}']))
        build([folder / "rog.jsonl"], folder / "rog.kg")
        graph = open_graph(folder / "rog.kg")
        sets, store = graph.question_sets, graph.store
        assert sets is not None
        for number, facts in enumerate(graphs):
            if not facts:  # no rows, so the build knows of no such question
                assert f"q{number}" not in sets
                continue
            out, in_ = sets[f"q{number}"]
            assert {fact[:3] for fact in graph.triples(out.astype(np.int64))} == set(facts)
            assert len(out) == len(set(facts))
            assert in_.tolist() == [at for at, triple in enumerate(store.triple_of) if triple in set(out.tolist())]
        edges = BothEdges(store.out, store.in_, store.triple_of_array)
        every = np.arange(len(graph))
        for at_once in (1, 3, 1000):
            positions = write_in_positions(folder / "positions", store.triple_of_array, at_once)
            assert positions.tolist() == in_positions(edges, every).tolist() == np.argsort(store.triple_of).tolist()


def test_memory_does_not_change_a_byte_of_question_subgraphs(tmp_path: Path) -> None:
    triples = _random_triples(30_000)
    rows = [{"id": f"q{n}", "graph": triples[n * 100 : n * 100 + 300]} for n in range(300)]  # each fact in three
    (tmp_path / "rog.jsonl").write_bytes(b"\n".join(map(orjson.dumps, rows)))
    build([tmp_path / "rog.jsonl"], tmp_path / "much.kg")
    build([tmp_path / "rog.jsonl"], tmp_path / "little.kg", memory=1 << 20)
    assert _bytes_of(tmp_path / "little.kg") == _bytes_of(tmp_path / "much.kg")


def test_who_an_edge_belongs_to_is_found_without_reading_all(tmp_path: Path) -> None:
    """A question's list is made of many such searches: one must not take memory that grows with the graph."""
    graph = store_of(tmp_path, [(f"h{n}", "r", f"t{n % 7}") for n in range(20_000)])
    wanted = np.array([12_345])
    tracemalloc.start()
    graph.store.out.owners(wanted)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 20_000  # bytes; a copy of the bounds of 20,000 edges has 160,000


def test_a_bad_row_stops_the_build_and_leaves_nothing(tmp_path: Path) -> None:
    source = tmp_path / "bad.tsv"
    source.write_text("a\tr\tb\nonly two\tcolumns\n")
    with pytest.raises(InputError) as caught:
        build([source], tmp_path / "bad.kg")
    assert str(caught.value).splitlines() == [
        f"{source}:2: expected head<TAB>relation<TAB>tail with an optional 4th column time, got 2 columns",
        "  the line: only two\tcolumns",
        "  give --on-error skip to leave such rows out",
    ]
    assert [p.name for p in tmp_path.iterdir()] == ["bad.tsv"]
    report = build([source], tmp_path / "bad.kg", options=Options(on_error="skip"))
    assert (report.triples, report.skipped) == (1, 1)


def test_an_existing_folder_is_replaced_only_when_asked(tmp_path: Path) -> None:
    store_of(tmp_path, FILMS)
    source = write_jsonl(tmp_path / "other.jsonl", [("a", "r", "b")])
    with pytest.raises(StoreError, match="exists; choose another name, or replace it with --force"):
        build([source], tmp_path / "graph.kg")
    assert len(open_graph(tmp_path / "graph.kg")) == 7
    still_open = open_graph(tmp_path / "graph.kg")
    build([source], tmp_path / "graph.kg", replace=True)
    assert len(open_graph(tmp_path / "graph.kg")) == 1
    assert len(still_open) == 7  # who has it open keeps the old one
    (tmp_path / "precious").mkdir()
    with pytest.raises(StoreError, match="not a kgwalk folder, so it will not be replaced"):
        build([source], tmp_path / "precious", replace=True)


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "x.jsonl", FILMS)
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot write"):
        build([source], tmp_path / "file" / "x.kg")
    if os.geteuid() != 0:  # root may write anywhere
        (tmp_path / "locked").mkdir(mode=0o500)
        with pytest.raises(StoreError, match="no permission"):
            build([source], tmp_path / "locked" / "x.kg")


_BUILD = (
    "import sys; from kgwalk.kg.build import build; build([sys.argv[1]], sys.argv[2], memory=8 << 20, replace=True)"
)


def test_a_full_disk_is_named_and_leaves_nothing(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "x.jsonl", _random_triples(20_000))

    def small_files() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # then a write past the limit fails as on a full disk
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))

    done = subprocess.run(
        [sys.executable, "-c", _BUILD, source, tmp_path / "x.kg"],
        preexec_fn=small_files,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert f"while building {tmp_path / 'x.kg'}: the file would pass the largest size allowed here" in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["x.jsonl"]


def test_killed_a_dozen_times_nothing_opens_wrong(tmp_path: Path) -> None:
    triples = _random_triples(60_000)
    source = write_jsonl(tmp_path / "x.jsonl", triples)
    target = tmp_path / "x.kg"
    for _ in range(2):  # the first may have Python compile modules, which the killed ones will not
        started = time.monotonic()
        subprocess.run([sys.executable, "-c", _BUILD, source, target], check=True)
        whole = time.monotonic() - started
    good = _bytes_of(target)
    rng = random.Random(20)
    killed = 0
    for attempt in range(12):
        if attempt % 2:  # half of them replace a good store, half start from nothing
            subprocess.run(["rm", "-rf", target], check=True)
        process = subprocess.Popen([sys.executable, "-c", _BUILD, source, target])
        time.sleep(rng.uniform(0.3, 1.05) * whole)
        process.send_signal(signal.SIGKILL)
        killed += process.wait() == -signal.SIGKILL
        if target.exists():
            list(open_graph(target).store.folder.verify())
            assert _bytes_of(target) == good
    assert killed >= 5
    build([source], target, memory=8 << 20, replace=True)
    # the next build removed what the killed ones left behind
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.jsonl", "x.kg"]


def test_two_builds_of_one_target_do_not_mix(tmp_path: Path) -> None:
    from kgwalk.kg.files import FolderWriter

    source = write_jsonl(tmp_path / "x.jsonl", FILMS)
    with FolderWriter(tmp_path / "x.kg", kind="test", version=1), pytest.raises(StoreError, match="another process"):
        build([source], tmp_path / "x.kg")
    build([source], tmp_path / "x.kg")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.jsonl", "x.kg"]


def test_a_labels_file_beats_the_labels_of_the_source(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"head": {"id": "Q1", "name": "A"}, "relation": "r", "tail": "b"}\n')
    (tmp_path / "names.tsv").write_text("Q1\tZ\n")
    build([tmp_path / "x.jsonl"], tmp_path / "x.kg", labels=tmp_path / "names.tsv")
    assert "Z" in open_graph(tmp_path / "x.kg")


def test_no_triples(tmp_path: Path) -> None:
    (tmp_path / "empty.tsv").write_text("\n\n")
    with pytest.raises(InputError, match="no triples"):
        build([tmp_path / "empty.tsv"], tmp_path / "x.kg")
    with pytest.raises(InputError, match="cannot be read: No such file"):
        build([tmp_path / "nowhere.tsv"], tmp_path / "x.kg")
