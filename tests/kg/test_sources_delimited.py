"""TSV and CSV: what is kept as it is, what is a header, what is refused and in which words."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_sources_reading import error, triples, write

from kgwalk.kg.sources.delimited import ESCAPED_MARK, escape, unescape
from kgwalk.kg.sources.source import ReadCounts, TripleBlock

SKIP = "  give --on-error skip to leave such rows out"
EXPECTED = "expected head<TAB>relation<TAB>tail with an optional 4th column time"
EXPECTED_CSV = "expected head,relation,tail with an optional 4th column time"
NAMES = [
    '"Weird Al" Yankovic',
    '"Heroes"',
    '"',
    "Paris, Texas",
    "back\\slash \\t \\n",
    "<information> <answer>x</answer>",
    "x" * 10_000,
    "\u202eright to left\u202c",
    "nul \x00 inside",
    "NULL",
    "NaN",
    "",
    " spaces around ",
    "# no comment",
    "vertical \x0b form \x0c next line \x85 separators \x1c\u2028\u2029",
]


# TSV


@pytest.mark.parametrize("name", [name for name in NAMES if name])
def test_tsv_keeps_names_as_they_are(tmp_path: Path, name: str) -> None:
    path = write(tmp_path, "a.tsv", f"{name}\t{name}\t{name}\nb\tr\t{name}")
    assert triples(path) == [(name, name, name), ("b", "r", name)]


def test_tsv_line_ends_and_empty_lines(tmp_path: Path) -> None:
    path = write(tmp_path, "a.tsv", "\r\n\na\tr\tb\r\n\n\nc\tr\td\n\r\ne\tr\tf\r")
    assert triples(path) == [("a", "r", "b"), ("c", "r", "d"), ("e", "r", "f")]
    path = write(tmp_path, "b.tsv", "a\rx\tr\tb\r\r\n\rc\tr\td\n")
    assert triples(path) == [("a\rx", "r", "b\r"), ("\rc", "r", "d")]


def test_tsv_times_mix_freely(tmp_path: Path) -> None:
    path = write(tmp_path, "a.tsv", "a\tr\tb\nc\tr\td\t2005-05\ne\tr\tf\t\n\ng\tr\th\t1990..1994")
    expected = [("a", "r", "b", ""), ("c", "r", "d", "2005-05"), ("e", "r", "f", ""), ("g", "r", "h", "1990..1994")]
    assert triples(path) == expected
    # In blocks of one row, those without a fourth column have no time column.
    assert triples(path, block_bytes=8) == [("a", "r", "b"), *expected[1:]]
    assert triples(write(tmp_path, "b.tsv", "a\tr\tb\t2005\n")) == [("a", "r", "b", "2005")]


def test_tsv_a_byte_order_mark_inside_the_file_is_part_of_a_name(tmp_path: Path) -> None:
    path = write(tmp_path, "a.tsv", "\ufeffa\tr\tb\n\ufeffc\tr\td\n")
    for block_bytes in (8, 100):
        assert triples(path, block_bytes=block_bytes) == [("a", "r", "b"), ("\ufeffc", "r", "d")]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (b"a\tb", f"{EXPECTED}, got 2 columns"),
        (b"a b c", f"{EXPECTED}, got 1 column"),
        (b"a\tb\tc\t2005\te", f"{EXPECTED}, got 5 columns"),
        (b"\tb\tc", f"{EXPECTED}, got an empty head"),
        (b"a\t\tc", f"{EXPECTED}, got an empty relation"),
        (b"a\tb\t", f"{EXPECTED}, got an empty tail"),
        (b"a\tb\tc\tMay 2005", "column 4 is the time: 'May 2005' is not a time; "),
        (b"a\tb\tc\t2005-13", "column 4 is the time: '2005-13' has no month 13"),
    ],
)
def test_tsv_malformed_rows(tmp_path: Path, row: bytes, message: str) -> None:
    path = write(tmp_path, "a.tsv", b"x\ty\tz\n\n" + row + b"\nx\ty\tw\n")
    said = error(path)
    assert said.startswith(f"a.tsv:3: {message}")
    assert said.endswith(f"\n  the line: {row.decode()}\n{SKIP}")
    tally = ReadCounts()
    assert triples(path, tally, on_error="skip") == [("x", "y", "z"), ("x", "y", "w")]
    assert (tally.rows, tally.skipped, len(tally.first_skipped)) == (2, 1, 1)
    assert tally.first_skipped[0].startswith(f"{path}:3: {message}")


def test_tsv_bad_encoding(tmp_path: Path) -> None:
    path = write(tmp_path, "a.tsv", b"x\ty\tz\nAm\xe9lie\tr\tb\n")
    assert error(path) == (
        "a.tsv:2: expected UTF-8, got the byte 0xe9 (column 3)\n  the line: Am\\xe9lie\tr\tb\n"
        "  re-encode the file to UTF-8, or give --on-error skip to leave such rows out"
    )
    assert triples(path, on_error="skip") == [("x", "y", "z")]


def test_tsv_counts_lines_over_blocks_and_keeps_five_messages(tmp_path: Path) -> None:
    path = write(tmp_path, "a.tsv", "a\tr\tb\n" * 100 + "bad\n" * 7 + "a\tr\tb\n")
    assert error(path, block_bytes=32).startswith("a.tsv:101: expected head")
    tally = ReadCounts()
    assert len(triples(path, tally, on_error="skip", block_bytes=32)) == 101
    assert tally.skipped == 7
    assert [message.split(":")[1] for message in tally.first_skipped] == ["101", "102", "103", "104", "105"]


# Escaped TSV


def test_escapes() -> None:
    assert escape("a\tb\nc\rd\\e") == "a\\tb\\nc\\rd\\\\e"
    assert unescape("a\\tb\\nc\\rd\\\\e\\\\n") == "a\tb\nc\rd\\e\\n"
    for bad in ("\\x", "end\\", "\\\n"):
        with pytest.raises(ValueError, match="expected one of the escapes"):
            unescape(bad)


@pytest.mark.parametrize("block_bytes", [16, 1 << 20])
def test_escaped_tsv(tmp_path: Path, block_bytes: int) -> None:
    rows = [("head", "relation", "tail", ""), ("a\tb", "new\nline", "re\rturn \\t", "2005"), ("a", "r", "b", "")]
    text = "".join("\t".join(map(escape, row)) + "\n" for row in rows)
    path = write(tmp_path, "a.tsv", f"{ESCAPED_MARK}\r\n{text}")
    tally = ReadCounts()
    assert triples(path, tally, block_bytes=block_bytes) == rows
    assert tally.notes == []
    assert triples(path, header=True, block_bytes=block_bytes) == rows[1:]


def test_escaped_tsv_refuses_other_escapes(tmp_path: Path) -> None:
    path = write(tmp_path, "a.tsv", f"{ESCAPED_MARK}\na\tr\tb\nC:\\dir\tr\tb\n")
    assert error(path) == (
        f"a.tsv:3: expected one of the escapes \\t \\n \\r \\\\, got '\\\\d'\n  the line: C:\\dir\tr\tb\n{SKIP}"
    )
    assert triples(path, on_error="skip") == [("a", "r", "b")]


def test_the_mark_counts_only_as_the_first_line(tmp_path: Path) -> None:
    path = write(tmp_path, "a.tsv", f"a\\t\tr\tb\n{ESCAPED_MARK}\n")
    assert error(path).startswith(f"a.tsv:2: {EXPECTED}, got 1 column\n")
    assert triples(path, on_error="skip") == [("a\\t", "r", "b")]


# Headers


@pytest.mark.parametrize("first", ["head,relation,tail", "Subject,Predicate,OBJECT,Time", "#h,r,t", "from,p,to"])
@pytest.mark.parametrize("separator", ["\t", ","])
def test_a_header_is_skipped_with_a_note(tmp_path: Path, first: str, separator: str) -> None:
    form = "csv" if separator == "," else "tsv"
    path = write(tmp_path, f"a.{form}", f"\n{first},\nBig,starred,Tom\n".replace(",\n", "\n").replace(",", separator))
    for block_bytes in (8, 1 << 20):
        tally = ReadCounts()
        assert triples(path, tally, block_bytes=block_bytes) == [("Big", "starred", "Tom")]
        assert tally.notes == [f"{path}: line 2 ({first.replace(',', ', ')}) taken as a header"]
    assert triples(path, header=True) == [("Big", "starred", "Tom")]
    if "Time" in first:
        assert error(path, header=False).startswith(f"a.{form}:2: column 4 is the time: 'Time' is not a time; ")
    else:
        assert triples(path, header=False) == [tuple(first.split(",")), ("Big", "starred", "Tom")]


@pytest.mark.parametrize("form", ["tsv", "csv"])
def test_the_first_row_is_a_header_only_if_it_names_the_columns(tmp_path: Path, form: str) -> None:
    separator = "," if form == "csv" else "\t"
    for first in [("s", "to", "t"), ("Big", "relation", "tail"), ("tail", "tail", "tail")]:
        tally = ReadCounts()
        path = write(tmp_path, f"a.{form}", separator.join(first) + "\n")
        assert triples(path, tally) == [first]
        assert tally.notes == []
    path = write(tmp_path, f"a.{form}", separator.join(("my", "own", "words", "here")) + f"\na{separator}b{separator}c")
    assert triples(path, header=True) == [("a", "b", "c")]


@pytest.mark.parametrize("form", ["tsv", "csv"])
def test_a_header_in_another_order_is_an_error(tmp_path: Path, form: str) -> None:
    path = write(tmp_path, f"a.{form}", "source,target,relation\na,b,r\n".replace(",", "," if form == "csv" else "\t"))
    assert error(path) == (
        f"a.{form}:1: the header says source, target, relation; expected the order head, relation, tail\n"
        "  reorder the columns, or give --header to skip this line and read them in that order"
    )
    assert triples(path, header=True) == [("a", "b", "r")]


# CSV


@pytest.mark.parametrize("name", [name for name in NAMES if name])
def test_csv_keeps_names_as_they_are(tmp_path: Path, name: str) -> None:
    quoted = '"' + name.replace('"', '""') + '"'
    path = write(tmp_path, "a.csv", f"{quoted},{quoted},{quoted}\r\nb,r,{quoted}")
    assert triples(path) == [(name, name, name), ("b", "r", name)]


@pytest.mark.parametrize("block_bytes", [4, 1 << 20])
def test_csv_quotes_newlines_and_times(tmp_path: Path, block_bytes: int) -> None:
    path = write(tmp_path, "a.csv", '"a ""b"", c","r\r\nr",t,\n\n6" pipe,r,"x\n\ny",2005\nc,r,d\n')
    rows = triples(path, block_bytes=block_bytes)
    assert [row[:3] for row in rows] == [
        ('a "b", c', "r\r\nr", "t"),
        ('6" pipe', "r", "x\n\ny"),
        ("c", "r", "d"),
    ]
    assert [row[3:] for row in rows[:2]] == [("",), ("2005",)]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (b"a,b", f"{EXPECTED_CSV}, got 2 columns"),
        (b"a,b,c,2005,e", f"{EXPECTED_CSV}, got 5 columns"),
        (b'a,"",c', f"{EXPECTED_CSV}, got an empty relation"),
        (b"a,b,c,May", "column 4 is the time: 'May' is not a time; "),
        (b'"a"x,b,c', "not CSV: ',' expected after '\"'\n"),
        (b"a\rb,r,c", "not CSV: new-line character seen in unquoted field"),
        (b'a,b,"c', "not CSV: unexpected end of data\n"),
        (b"Am\\xe9lie,b,c".replace(b"\\xe9", b"\xe9"), "expected UTF-8, got the byte 0xe9 (column 3)\n"),
    ],
)
@pytest.mark.parametrize("block_bytes", [8, 1 << 20])
def test_csv_malformed_rows(tmp_path: Path, row: bytes, message: str, block_bytes: int) -> None:
    path = write(tmp_path, "a.csv", b"x,y,z\n\n" + row + b"\nx,y,w\nu,v,w\n")
    said = error(path, block_bytes=block_bytes)
    assert said.startswith(f"a.csv:3: {message}")
    assert f"\n  the line: {row.decode(errors='backslashreplace')}\n" in said
    assert said.endswith(SKIP[2:])
    tally = ReadCounts()
    # A quote that is not closed costs its own line only.
    kept = triples(path, tally, on_error="skip", block_bytes=block_bytes)
    assert kept == [("x", "y", "z"), ("x", "y", "w"), ("u", "v", "w")]
    assert tally.skipped == 1
    assert tally.first_skipped[0].startswith(f"{path}:3: {message.rstrip()}")


def test_csv_line_numbers_after_rows_of_several_lines(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", 'a,r,"1\n2\n3"\nb,r,"Am\n')
    path.write_bytes(path.read_bytes() + b'\xe9lie"\nbad\n')
    tally = ReadCounts()
    for block_bytes in (5, 1 << 20):
        tally = ReadCounts()
        assert triples(path, tally, on_error="skip", block_bytes=block_bytes) == [("a", "r", "1\n2\n3")]
        assert [message.split(":")[1] for message in tally.first_skipped] == ["5", "6"]


def test_csv_an_open_quote_does_not_take_in_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", 'a,r,"b\n' + "c,r,d\n" * 2000)
    assert error(path, block_bytes=100).startswith(
        "a.csv:1: not CSV: a quoted field that does not end within 6,400 bytes\n"
    )
    tally = ReadCounts()
    assert triples(path, tally, on_error="skip", block_bytes=100) == [("c", "r", "d")] * 2000
    assert tally.skipped == 1


def test_csv_field_longer_than_the_modules_default(tmp_path: Path) -> None:
    long = "x" * 300_000
    assert triples(write(tmp_path, "a.csv", f"a,r,{long}\n")) == [("a", "r", long)]


def test_blocks_hold_no_more_than_asked(tmp_path: Path) -> None:
    from test_sources_reading import blocks

    for form, separator in (("tsv", "\t"), ("csv", ",")):
        path = write(tmp_path, f"a.{form}", separator.join(("head1", "relation1", "tail1")) + "\n")
        path.write_bytes(path.read_bytes() * 1000)
        found = blocks(path, block_bytes=1000)
        assert len(found) > 20
        for block in found:
            assert isinstance(block, TripleBlock)
            assert sum(column.nbytes for column in (block.head, block.relation, block.tail)) < 1500
