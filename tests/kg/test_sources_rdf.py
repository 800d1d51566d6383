"""N-Triples, N-Quads and Turtle: keys, names, times, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from test_sources_reading import blocks, error, labels, triples, write

from kgwalk.kg.sources import rdf
from kgwalk.kg.sources.rdf import fallback_labels, local_part
from kgwalk.kg.sources.source import Labels, ReadCounts, TripleBlock

EX = "http://example.org/"
RDFS_LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
SKIP = "  give --on-error skip to leave such rows out"


def test_keys_of_iris_and_literals(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "a.nt",
        f"<{EX}Big> <{EX}directed_by> <{EX}Penny%20Marshall> . # a comment\n"
        "\n# another\n"
        f'<{EX}Big> <{EX}title> "Big" .\n'
        f'<{EX}Big> <{EX}title> "Gro\\u00DF \\"und\\"\\n weiter"@DE .\r\n'
        f'<{EX}Big> <{EX}year> "1988"^^<http://www.w3.org/2001/XMLSchema#integer> .\n'
        f'<{EX}Big> <{EX}plain> "x"^^<http://www.w3.org/2001/XMLSchema#string> .',
    )
    rows = triples(path)
    assert [row[2] for row in rows] == [
        f"{EX}Penny%20Marshall",
        '"Big"',
        '"Groß \\"und\\"\\n weiter"@de',
        '"1988"^^<http://www.w3.org/2001/XMLSchema#integer>',
        '"x"',
    ]
    assert rows[0] == (f"{EX}Big", f"{EX}directed_by", f"{EX}Penny%20Marshall")
    assert {key: label for key, label, _ in labels(path)} == {
        f"{EX}Big": "Big",
        f"{EX}directed_by": "directed_by",
        f"{EX}title": "title",
        f"{EX}year": "year",
        f"{EX}plain": "plain",
        f"{EX}Penny%20Marshall": "Penny Marshall",
        '"Big"': "Big",
        '"Groß \\"und\\"\\n weiter"@de': 'Groß "und"\n weiter',
        '"1988"^^<http://www.w3.org/2001/XMLSchema#integer>': "1988",
        '"x"': "x",
    }


@pytest.mark.parametrize(
    ("key", "name"),
    [
        (f"{EX}film/Big", "Big"),
        (f"{EX}film#Big", "Big"),
        (f"{EX}a#b/c", "c"),
        (f"{EX}Am%C3%A9lie", "Amélie"),
        (f"{EX}Amélie", "Amélie"),
        (f"{EX}100%25", "100%"),
        (f"{EX}%E9", "%E9"),  # no UTF-8
        (f"{EX}%20", f"{EX}%20"),
        (EX, EX),
        ("urn:isbn:123", "urn:isbn:123"),
        (f"{EX}-", "-"),
        ("_:1234_x/y", "_:1234_x/y"),
    ],
)
def test_names_made_from_keys(key: str, name: str) -> None:
    assert local_part(key) == name
    assert fallback_labels(pa.array([key, f"{EX}other"]), {}).to_pylist() == [name, "other"]


def test_label_triples_are_names_and_not_rows(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "a.nt",
        f'<{EX}1> <{RDFS_LABEL}> "Munich"@en .\n'
        f'<{EX}1> <{RDFS_LABEL}> "Munich!"@en-gb .\n'
        f'<{EX}1> <{RDFS_LABEL}> "Munich?" .\n'
        f'<{EX}1> <{RDFS_LABEL}> "München"@de .\n'
        f"<{EX}1> <{RDFS_LABEL}> <{EX}no-literal> .\n",
    )
    assert triples(path) == [(f"{EX}1", RDFS_LABEL, f"{EX}no-literal")]
    assert labels(path)[:4] == [
        (f"{EX}1", "Munich", 0),
        (f"{EX}1", "Munich!", 1),
        (f"{EX}1", "Munich?", 1),
        (f"{EX}1", "München", 2),
    ]
    assert [label[1:] for label in labels(path, lang="DE")[:4]] == [
        ("München", 0),
        ("Munich?", 1),
        ("Munich", 2),
        ("Munich!", 2),
    ]
    assert [label[1:] for label in labels(path, lang="en-US")[:3]] == [("Munich", 1), ("Munich!", 1), ("Munich?", 1)]
    other = write(tmp_path, "b.nt", f'<{EX}1> <{EX}name> "Munich" .\n')
    assert triples(other) == [(f"{EX}1", f"{EX}name", '"Munich"')]
    tally = ReadCounts()
    [block] = blocks(other, tally, label=f"{EX}name")  # a file of names alone is no error
    assert isinstance(block, Labels)
    assert tally.rows == 0


def test_every_key_of_a_block_gets_one_name(tmp_path: Path) -> None:
    path = write(tmp_path, "a.nt", f"<{EX}a> <{EX}r> <{EX}b> .\n<{EX}b> <{EX}r> <{EX}a> .\n")
    assert labels(path) == [(f"{EX}a", "a", 200), (f"{EX}b", "b", 200), (f"{EX}r", "r", 200)]


def test_empty_literals_are_left_out(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "a.nt",
        f'<{EX}a> <{EX}r> "" .\n<{EX}a> <{EX}r> ""@en .\n<{EX}a> <{RDFS_LABEL}> "" .\n<{EX}a> <{EX}r> " " .\n',
    )
    for block_bytes in (16, 1 << 20):
        tally = ReadCounts()
        assert triples(path, tally, block_bytes=block_bytes) == [(f"{EX}a", f"{EX}r", '" "')]
        assert tally.notes == [f"{path}: 3 triples with an empty literal left out"]
        assert tally.skipped == 0


def test_an_empty_literal_is_counted_once_when_its_block_is_read_again(tmp_path: Path) -> None:
    path = write(tmp_path, "a.nt", f'<{EX}a> <{EX}r> "" .\nbad\n<{EX}a> <{EX}r> <{EX}b> .\n')
    tally = ReadCounts()
    assert len(triples(path, tally, on_error="skip")) == 1
    assert tally.notes == [f"{path}: 1 triple with an empty literal left out"]


def test_blank_nodes_of_two_files_stay_apart(tmp_path: Path) -> None:
    text = f"_:x <{EX}r> _:y .\n_:y <{EX}r> _:x .\n"
    one, two = (triples(write(tmp_path, name, text), block_bytes=16) for name in ("a.nt", "b.nt"))
    for (x, _, y), second in (one, two):
        assert x.startswith("_:")
        assert x.endswith("_x")
        assert y.endswith("_y")
        assert second == (y, f"{EX}r", x)
    assert one[0][0] != two[0][0]
    path = tmp_path / "a.nt"
    assert triples(path) == one
    assert (one[0][0], one[0][0], 200) in labels(path)


def test_turtle(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "a.ttl",
        f"@prefix : <{EX}> .\n@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .\n"
        ':Big rdfs:label "Big"@en ; :year 1988 ; :cast [ :actor :Tom ], [ :actor _:you ] .\n',
    )
    prefix = triples(path)[1][0].rpartition("-")[0]
    assert triples(path) == [
        (f"{EX}Big", f"{EX}year", '"1988"^^<http://www.w3.org/2001/XMLSchema#integer>'),
        (f"{prefix}-1", f"{EX}actor", f"{EX}Tom"),
        (f"{EX}Big", f"{EX}cast", f"{prefix}-1"),
        (f"{prefix}-2", f"{EX}actor", f"{prefix}_you"),
        (f"{EX}Big", f"{EX}cast", f"{prefix}-2"),
    ]
    assert labels(path)[0] == (f"{EX}Big", "Big", 0)
    assert [len(block.head) for block in blocks(path, block_bytes=1) if isinstance(block, TripleBlock)] == [1] * 5
    assert triples(path, block_bytes=1) == triples(path)


def test_turtle_of_names_alone_comes_in_blocks_too(tmp_path: Path) -> None:
    path = write(tmp_path, "a.ttl", "".join(f'<{EX}{i}> <{RDFS_LABEL}> "name {i}" .\n' for i in range(100)))
    found = blocks(path, block_bytes=300)
    assert len(found) == 9  # 10 names of 26 characters with their keys, 90 of 28
    assert [label[1] for label in labels(path, block_bytes=300)] == [f"name {i}" for i in range(100)]


def test_unnamed_nodes_past_the_limit_keep_their_random_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rdf, "_MOST_RENUMBERED", 2)
    path = write(tmp_path, "a.ttl", f"<{EX}a> <{EX}r> [], [], [], [] .\n")
    tails = [row[2] for row in triples(path)]
    assert len(set(tails)) == 4
    assert [tail[-2:] for tail in tails[:2]] == ["-1", "-2"]
    assert "-" not in tails[2] + tails[3]


def test_the_graph_name_of_a_quad_may_be_a_time(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "a.nq",
        f"<{EX}a> <{EX}r> <{EX}b> .\n"
        f"<{EX}a> <{EX}r> <{EX}c> <urn:kgwalk:time:2005-05> .\n"
        f'<{EX}a> <{EX}r> "d" <urn:kgwalk:time:1990%2E%2E1994> .\n'
        f"<{EX}a> <{EX}r> <{EX}e> <{EX}graph> .\n",
    )
    assert [(row[2], row[3]) for row in triples(path)] == [
        (f"{EX}b", ""),
        (f"{EX}c", "2005-05"),
        ('"d"', "1990..1994"),
        (f"{EX}e", ""),
    ]
    assert len(triples(path, block_bytes=40)[0]) == 3
    bad = write(tmp_path, "b.nq", f"<{EX}a> <{EX}r> <{EX}c> <urn:kgwalk:time:May> .\n<{EX}a> <{EX}r> <{EX}b> .\n")
    assert error(bad).startswith("b.nq:1: the graph name is the time: 'May' is not a time; ")
    assert triples(bad, on_error="skip") == [(f"{EX}a", f"{EX}r", f"{EX}b")]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (f"<{EX}a> no .".encode(), "not N-Triples: The predicate of a triple must be an IRI (column 24)"),
        (f'<{EX}a> <{EX}r> "x .'.encode(), "not N-Triples: "),
        (f"<{EX}a b> <{EX}r> <{EX}c> .".encode(), "not N-Triples: Invalid IRI code point ' ' (column 1)"),
        (b'<urn:a> <urn:b> "Am\xe9lie" .', "not N-Triples: Invalid UTF-8: "),
        (b"<urn:a> <urn:b> <urn:c>", "not N-Triples: "),
        (
            b"<urn:a> <urn:b> <<( <urn:a> <urn:b> <urn:c> )>> .",
            "expected an IRI, a literal or a blank node, got a triple inside a triple (RDF-star)",
        ),
        (
            b'<urn:a> <urn:b> "' + b"x" * (17 << 20) + b'" .',
            "N-Triples statement too long: the parser takes 16 MiB at most",
        ),
    ],
)
def test_malformed_lines(tmp_path: Path, line: bytes, message: str) -> None:
    good = f"<{EX}a> <{EX}r> <{EX}b> .\n".encode()
    path = write(tmp_path, "a.nt", good + b"# comment\n" + line + b"\n" + good)
    said = error(path)
    assert said.startswith(f"a.nt:3: {message}")
    assert f"\n  the line: {line[:60].decode(errors='backslashreplace')}" in said
    assert said.endswith(f"\n{SKIP}")
    tally = ReadCounts()
    assert triples(path, tally, on_error="skip") == [(f"{EX}a", f"{EX}r", f"{EX}b")] * 2
    assert tally.skipped == 1
    assert tally.first_skipped[0].startswith(f"{path}:3: {message}")


def test_errors_in_turtle_cannot_be_skipped(tmp_path: Path) -> None:
    path = write(tmp_path, "a.ttl", f"<{EX}a> <{EX}r> <{EX}b> .\n<{EX}a> r <{EX}b> .\n")
    for on_error in ("stop", "skip"):
        said = error(path, on_error=on_error)
        assert said.startswith("a.ttl:2: not Turtle: ")
        assert said.endswith("\n  an error in Turtle cannot be skipped; one in N-Triples can, with --on-error skip")
    star = write(tmp_path, "b.ttl", "<urn:a> <urn:b> <<( <urn:a> <urn:b> <urn:c> )>>, <urn:d> .\n")
    assert error(star).startswith("b.ttl: expected an IRI, a literal or a blank node, got a triple inside")
    assert triples(star, on_error="skip") == [("urn:a", "urn:b", "urn:d")]


def test_unnamed_nodes_are_numbered_in_the_order_met(tmp_path: Path) -> None:
    # Many, since a random name in hundreds starts with a zero, which pyoxigraph does not write.
    path = write(tmp_path, "a.ttl", f"<{EX}a> <{EX}r> {', '.join(['[]'] * 3000)} .\n")
    assert [row[2].rpartition("-")[2] for row in triples(path)] == [str(number) for number in range(1, 3001)]


# JSON-LD

LINKED = """{"@context": {"@vocab": "http://x/", "label": "http://www.w3.org/2000/01/rdf-schema#label"},
 "@graph": [
  {"@id": "http://x/big", "label": {"@value": "Big", "@language": "en"}, "year": 1988, "rated": 7.5,
   "director": {"@id": "http://x/pm"}},
  {"@id": "http://x/pm", "@type": "Person", "label": "Penny Marshall"}]}
"""


@pytest.mark.parametrize(("name", "form"), [("a.jsonld", None), ("a.json", None), ("a.txt", "jsonld")])
def test_json_ld(tmp_path: Path, name: str, form: str | None) -> None:
    path = write(tmp_path, name, LINKED)
    rdf = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
    assert triples(path, format=form) == [
        ("http://x/big", "http://x/year", '"1988"^^<http://www.w3.org/2001/XMLSchema#integer>'),
        ("http://x/big", "http://x/rated", '"7.5"^^<http://www.w3.org/2001/XMLSchema#decimal>'),
        ("http://x/big", "http://x/director", "http://x/pm"),
        ("http://x/pm", f"{rdf}type", "http://x/Person"),
    ]
    given = [label for label in labels(path, format=form) if label[2] < 200]
    assert given == [("http://x/big", "Big", 0), ("http://x/pm", "Penny Marshall", 1)]
    assert triples(path, format=form, block_bytes=20) == triples(path, format=form)


@pytest.mark.parametrize(
    "context", ['"https://schema.org"', '["https://schema.org/", {}]', '{"@import": "https://schema.org"}']
)
def test_json_ld_asks_no_network(tmp_path: Path, context: str) -> None:
    path = write(tmp_path, "a.jsonld", f'{{"@context": {context}, "name": "Big"}}')
    assert error(path) == (
        "a.jsonld: its @context is an address, and a build asks no network\n"
        "  put the context itself in place of the address: the object that the address gives, or for schema.org "
        '{"@vocab": "https://schema.org/"}; or convert the file to N-Triples'
    )
    inside = f'{{"@context": {{"@vocab": "https://schema.org/"}}, "name": "Big", "x": {{"@context": {context}}}}}'
    assert "asks no network" in error(write(tmp_path, "b.jsonld", inside))


def test_json_ld_errors_have_a_place(tmp_path: Path) -> None:
    said = error(write(tmp_path, "a.jsonld", '{"@id": "http://x/a",\n "http://x/p": ]}'), on_error="skip")
    assert said.startswith("a.jsonld:2: not JSON-LD: ")
    assert said.endswith("an error in JSON-LD cannot be skipped; one in N-Triples can, with --on-error skip")
