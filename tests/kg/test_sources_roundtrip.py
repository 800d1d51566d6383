"""What is written reads back the same, over every block border; the quick and the careful readers agree."""

from __future__ import annotations

import csv
import io
import tempfile
from collections.abc import Callable
from pathlib import Path

import orjson
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyoxigraph import Literal, NamedNode, Quad, RdfFormat, serialize
from test_sources_reading import labels, triples

from kgwalk.kg.sources import delimited
from kgwalk.kg.sources.delimited import ESCAPED_MARK, LABELS, TRIPLES, ColumnLayout, escape
from kgwalk.kg.sources.source import Lines, Options, ReadCounts, Source
from kgwalk.types import InputError

Row = tuple[str, str, str]

SPECIAL = ["\t", "\n", "\r", "\r\n", '"', ",", "\\", "\\n", "\x00", "\ufeff", "\u2028", "\x85", "head", "\u202e", "é"]
names = st.lists(st.sampled_from(SPECIAL) | st.text(max_size=4), min_size=1, max_size=4).map("".join).filter(bool)
rows = st.lists(st.tuples(names, names, names), min_size=1, max_size=8)
block_sizes = st.sampled_from([16, 64, 1 << 20])


def as_escaped_tsv(given: list[Row]) -> bytes:
    return "".join([f"{ESCAPED_MARK}\n", *("\t".join(map(escape, row)) + "\n" for row in given)]).encode()


def as_csv(given: list[Row]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text).writerows(given)
    return text.getvalue().encode("utf-8-sig")  # as a spreadsheet does; a name may start with the mark itself


def as_jsonl(given: list[Row]) -> bytes:
    return b"".join(orjson.dumps(row) + b"\n" for row in given)


@pytest.mark.parametrize(("form", "writer"), [("tsv", as_escaped_tsv), ("csv", as_csv), ("jsonl", as_jsonl)])
@given(rows, block_sizes)
@settings(max_examples=60)
def test_triples_read_back(
    form: str, writer: Callable[[list[Row]], bytes], given_rows: list[Row], block_bytes: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"a.{form}")
        path.write_bytes(writer(given_rows))
        # A first row (head, relation, tail) is data here; the escaped TSV says so by its mark.
        header = False if form == "csv" else None
        assert triples(path, header=header, block_bytes=block_bytes) == given_rows


iris = st.text("abc/%é-", max_size=6).map(lambda text: f"http://example.org/x#{text.replace('%', '%C3%A9')}")
literals = st.builds(Literal, names) | st.builds(lambda text: Literal(text, language="en"), names)


@given(st.lists(st.tuples(iris, iris, literals | iris.map(NamedNode)), min_size=1, max_size=8), block_sizes)
@settings(max_examples=60)
def test_ntriples_read_back(given_rows: list[tuple[str, str, NamedNode | Literal]], block_bytes: int) -> None:
    quads = [Quad(NamedNode(head), NamedNode(relation), tail) for head, relation, tail in given_rows]
    data = serialize(quads, format=RdfFormat.N_TRIPLES)
    assert data is not None
    tails = [tail.value if isinstance(tail, NamedNode) else str(tail) for _, _, tail in given_rows]
    expected = [(head, relation, tail) for (head, relation, _), tail in zip(given_rows, tails, strict=True)]
    with tempfile.TemporaryDirectory() as folder:
        for form in ("nt", "ttl"):
            path = Path(folder, f"a.{form}")
            path.write_bytes(data)
            assert triples(path, block_bytes=block_bytes) == expected
            named = {key: label for key, label, _ in labels(path, block_bytes=block_bytes)}
            for key, (_, _, tail) in zip(tails, given_rows, strict=True):
                if isinstance(tail, Literal):
                    assert named[key] == tail.value


marks = [b"\t", b"\n", b"\r", b"\r\n", b'"', b",", b"\\", b"\\t", b"\x00", b"\xff", b"\xef\xbb\xbf"]
texts = [b"a", b"b", "é".encode(), b"2005", b"a\tb\tc\n", b"a\tb\tc\t1990\n", b"a,b,c\n"]
pieces = st.sampled_from(marks + texts) | st.sampled_from([b"\t", b",", b"\n", b"a"])  # these more often
some_bytes = st.lists(pieces, max_size=30).map(b"".join) | st.binary(max_size=40)


def lists(columns: list[pa.StringArray] | None) -> list[list[str]] | None:
    if columns is None:
        return None
    assert all(column.type == pa.string() and column.null_count == 0 for column in columns)
    return [column.to_pylist() for column in columns]


def skipping() -> Source:
    return Source("a", Options(on_error="skip"), ReadCounts())


@given(some_bytes, st.booleans(), st.sampled_from([TRIPLES, LABELS]))
@example(b"\xef\xbb\xbfa\tb\tc", False, TRIPLES)
@example(b'"a\tb"\tc\n"\t"\t"', False, TRIPLES)
@example(b"a\tb\tc\td\te\n", False, TRIPLES)
@example(b"a\tb\tc\n\na\tb\tc\t2005\na\tb\tc", False, TRIPLES)
@example(b"a\tb\tc\na\tb\tc\t\n", False, TRIPLES)
@settings(max_examples=500)
def test_tsv_quick_and_careful_agree(data: bytes, escaped: bool, layout: ColumnLayout) -> None:
    """The quick reader takes a block only if the careful one finds nothing wrong, and then gives the same."""
    source = skipping()
    careful = lists(delimited.checked_columns(source, Lines(1, data), layout, escaped))
    quick = lists(delimited.clean_tsv_columns(data, layout, escaped))
    assert quick is None or (quick == careful and source.tally.skipped == 0)
    if quick is None and not source.tally.skipped:
        # Nothing is wrong: then it must be one of the unusual things that the quick reader leaves.
        assert data.startswith(b"\xef\xbb\xbf") or b"\r" in data.replace(b"\r\n", b"\n")


@given(some_bytes, st.sampled_from([TRIPLES, LABELS]))
@example(b'"a",b,c\n"a\n', TRIPLES)
@example(b"a,b,c\n\na,b,c,2005\na,b,c", TRIPLES)
@settings(max_examples=300)
def test_csv_quick_and_careful_agree(data: bytes, layout: ColumnLayout) -> None:
    source = skipping()
    feed = delimited._Feed(iter(()), 1 << 20)
    feed.start_block(Lines(1, data))
    careful = [
        lists(columns) for columns in delimited._checked_columns(source, layout, delimited._csv_records(source, feed))
    ]
    quick = lists(delimited.clean_csv_columns(data, layout))
    if quick is None:
        assert source.tally.skipped > 0
    else:
        assert careful == ([quick] if quick[0] else [])
        assert source.tally.skipped == 0


@given(some_bytes, block_sizes, st.sampled_from(["tsv", "csv", "jsonl", "nt", "nq"]))
@settings(max_examples=200)
def test_any_bytes_are_read_or_refused_the_same_in_blocks_of_any_size(data: bytes, block_bytes: int, form: str) -> None:
    def outcome(block_bytes: int) -> tuple[list[tuple[str, ...]], int, list[str]]:
        path.write_bytes(b"a\n" + data)  # a first line that is no row, no header and no other encoding's mark
        tally = ReadCounts()
        try:
            found = triples(path, tally, on_error="skip", block_bytes=block_bytes)
        except InputError as error:
            if "no triples" not in str(error):
                raise
            found = []
        return [row if row[3:] != ("",) else row[:3] for row in found], tally.skipped, tally.first_skipped

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"a.{form}")
        assert outcome(block_bytes) == outcome(1 << 24)
