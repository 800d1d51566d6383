"""JSON lines of triples and of questions with their graphs (RoG)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
from test_sources_reading import blocks, error, labels, triples, write

from kgwalk.kg.sources.source import ReadCounts, TripleBlock

SKIP = "  give --on-error skip to leave such rows out"
EXPECTED = 'expected {"head", "relation", "tail"} or [head, relation, tail], with an optional time'


def test_every_form_of_a_triple(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "a.jsonl",
        '{"head": "a", "relation": "r", "tail": "b"}\n'
        '{"predicate": "r", "subject": "a", "object": "b", "time": "2005-05", "source": "ignored"}\n'
        "\n  \r\n"
        '{"h": "a", "r": "r", "t": "b", "time": null}\r\n'
        '["a", "r", "b"]\n'
        '["a", "r", "b", 1990]\n'
        '["a", "r", "b", ""]',
    )
    assert triples(path) == [
        ("a", "r", "b", ""),
        ("a", "r", "b", "2005-05"),
        ("a", "r", "b", ""),
        ("a", "r", "b", ""),
        ("a", "r", "b", "1990"),
        ("a", "r", "b", ""),
    ]
    assert triples(path, block_bytes=8)[0] == ("a", "r", "b")


def test_homonyms_stay_apart_by_id(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "a.jsonl",
        '[{"id": "Q90", "name": "Paris"}, {"id": "P17", "name": "country"}, "France"]\n'
        '[{"id": "Q830149", "name": "Paris"}, {"id": "P17", "name": "country"}, {"id": 30, "name": null}]\n',
    )
    assert triples(path) == [("Q90", "P17", "France"), ("Q830149", "P17", "30")]
    assert labels(path) == [("Q90", "Paris", 0), ("P17", "country", 0), ("Q830149", "Paris", 0)]


def test_numbers_keep_their_text(tmp_path: Path) -> None:
    big = "123456789012345678901234567890"
    path = write(
        tmp_path, "a.jsonl", f'["a", "r", 42]\n["a", 1.10, -0.0]\n[1e3, true, {big}]\n[{{"id": 2.50}}, 7, false]'
    )
    assert triples(path) == [("a", "r", "42"), ("a", "1.10", "-0.0"), ("1e3", "true", big), ("2.50", "7", "false")]


@pytest.mark.parametrize(
    "name",
    ['"Weird Al" Yankovic', "a, b", "tab\tnew\nline\r", "nul \x00", "\u202ertl", "x" * 10_000, "<a>", "\\", "🎬"],
)
def test_names_are_kept_as_they_are(tmp_path: Path, name: str) -> None:
    path = write(tmp_path, "a.jsonl", orjson.dumps([name, name, name]))
    assert triples(path) == [(name, name, name)]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'["a", "r"]', f"{EXPECTED}, got a list of 2"),
        (b'{"head": "a", "tail": "b"}', f'{EXPECTED}, got an object with the keys "head", "tail"'),
        (b"{}", f"{EXPECTED}, got an object with the keys none"),
        (b'"a"', f"{EXPECTED}, got a string"),
        (b"7", f"{EXPECTED}, got a number or true/false"),
        (b"null", f"{EXPECTED}, got null"),
        (b'["a", "", "b"]', f"{EXPECTED}, got an empty relation"),
        (b'["a", "r", {"id": ""}]', f"{EXPECTED}, got an empty tail id"),
        (b'["a", "r", {"name": "b"}]', f'{EXPECTED}, got a tail without an "id"'),
        (b'[null, "r", "b"]', "expected text or a number for the head, got null"),
        (b'["a", ["r"], "b"]', "expected text or a number for the relation, got a list"),
        (b'["a", "r", 1.5, {}]', "expected text or a number for the time, got an object"),
        (b'[1.5, "r", null]', "expected text or a number for the tail, got null"),
        (b'["a", "r", "b", "May"]', "the time: 'May' is not a time; "),
        (b'["a", "r", "b"', "not JSON: "),
        (b'["a", "r", "\\ud800"]', "not JSON: "),
    ],
)
def test_malformed_lines(tmp_path: Path, line: bytes, message: str) -> None:
    path = write(tmp_path, "a.jsonl", b'["x", "y", "z"]\n\n' + line + b'\n["x", "y", "w"]\n')
    said = error(path)
    assert said.startswith(f"a.jsonl:3: {message}")
    assert said.endswith(f"\n  the line: {line.decode()}\n{SKIP}")
    tally = ReadCounts()
    assert triples(path, tally, on_error="skip") == [("x", "y", "z"), ("x", "y", "w")]
    assert tally.skipped == 1
    assert tally.first_skipped[0].startswith(f"{path}:3: {message}")


def test_bad_encoding(tmp_path: Path) -> None:
    path = write(tmp_path, "a.jsonl", b'["Am\xe9lie", "y", "z"]\n')
    assert error(path) == (
        'a.jsonl:1: expected UTF-8, got the byte 0xe9 (column 5)\n  the line: ["Am\\xe9lie", "y", "z"]\n'
        "  re-encode the file to UTF-8, or give --on-error skip to leave such rows out"
    )


# RoG


def rog(path: Path, tally: ReadCounts | None = None, **options: Any) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for block in blocks(path, tally, **options):
        if isinstance(block, TripleBlock):
            assert block.question is not None
            columns = (block.question, block.head, block.relation, block.tail)
            found += zip(*(column.to_pylist() for column in columns), strict=True)
    return found


def test_rog_rows_carry_the_id_of_their_question(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "a.jsonl",
        '{"id": "WebQTrn-0", "question": "?", "q_entity": ["a"], "a_entity": ["b"], '
        '"graph": [["a", "r", "b"], ["b", "r", "c"]]}\n'
        '{"question": "no id", "graph": [["a", "r", "b"]]}\n'
        '{"id": "", "graph": []}\n'
        '{"id": 12, "graph": [["a", "r", "b"], ["a", "r", 1.50]]}\n'
        '{"id": 1.5, "graph": [{"h": "a", "r": "r", "t": {"id": "Q1", "name": "one"}}]}\n',
    )
    expected = [
        ("WebQTrn-0", "a", "r", "b"),
        ("WebQTrn-0", "b", "r", "c"),
        ("2", "a", "r", "b"),
        ("12", "a", "r", "b"),
        ("12", "a", "r", "1.50"),
        ("1.5", "a", "r", "Q1"),
    ]
    for block_bytes in (8, 100, 1 << 20):
        tally = ReadCounts()
        assert rog(path, tally, block_bytes=block_bytes) == expected
        assert tally.notes == [f"{path}: 1 question with an empty graph"]
    assert labels(path) == [("Q1", "one", 0)]
    assert len(blocks(path)) == 2


def test_rog_times(tmp_path: Path) -> None:
    path = write(tmp_path, "a.jsonl", '{"id": "q", "graph": [["a", "r", "b", "2005"]]}\n{"graph": [["a", "r", "b"]]}\n')
    assert triples(path) == [("a", "r", "b", "2005"), ("a", "r", "b", "")]


@pytest.mark.parametrize(
    ("graph", "shown", "message"),
    [
        ('["a", "r"]', '["a","r"]', f"graph[1]: {EXPECTED}, got a list of 2"),
        ('"abc"', '"abc"', f"graph[1]: {EXPECTED}, got a string"),
        ('{"a": 1, "b": 2, "c": 3}', '{"a":1,"b":2,"c":3}', f"graph[1]: {EXPECTED}, got an object with the keys"),
        ('["a", "r", ""]', '["a","r",""]', f"graph[1]: {EXPECTED}, got an empty tail"),
        ('["a", null, "b"]', '["a",null,"b"]', "graph[1]: expected text or a number for the relation, got null"),
    ],
)
def test_rog_malformed_triples(tmp_path: Path, graph: str, shown: str, message: str) -> None:
    good = '["a", "r", "b"]'
    path = write(tmp_path, "a.jsonl", f'\n{{"id": "q", "graph": [{good}, {graph}, {good}]}}\n')
    said = error(path)
    assert said.startswith(f"a.jsonl:2: {message}")
    assert said.endswith(f"\n  the line: {shown}\n{SKIP}")
    tally = ReadCounts()
    assert rog(path, tally, on_error="skip") == [("q", "a", "r", "b")] * 2
    assert tally.skipped == 1


def test_rog_malformed_lines(tmp_path: Path) -> None:
    path = write(tmp_path, "a.jsonl", '{"graph": [["a", "r", "b"]]}\n{"id": "q"}\n{"id": ["q"], "graph": []}\n')
    assert error(path).startswith(
        'a.jsonl:2: expected {"id", "graph": [[head, relation, tail], ...]}, got no "graph" list\n'
    )
    tally = ReadCounts()
    assert rog(path, tally, on_error="skip") == [("1", "a", "r", "b")]
    assert tally.first_skipped[1] == f"{path}:3: expected text or a number for the id, got a list"
