"""Reading sources: the door, formats by name, compression, progress, line blocks, stdin."""

from __future__ import annotations

import bz2
import gzip
import io
import sys
from pathlib import Path
from typing import Any

import pytest
import zstandard

from kgwalk.kg.sources.reading import FORMATS, detect_format, read, read_labels
from kgwalk.kg.sources.source import Labels, Options, ReadCounts, Source, TripleBlock, line_blocks, open_stream
from kgwalk.types import InputError

ROWS = b"Big\tstarred\tTom Hanks\nCast Away\tstarred\tTom Hanks\n"
TRIPLES = [("Big", "starred", "Tom Hanks"), ("Cast Away", "starred", "Tom Hanks")]


def write(folder: Path, name: str, data: bytes | str) -> Path:
    path = folder / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def blocks(path: Path, tally: ReadCounts | None = None, **options: Any) -> list[TripleBlock | Labels]:
    return list(read(path, Options(**options), ReadCounts() if tally is None else tally))


def triples(path: Path, tally: ReadCounts | None = None, **options: Any) -> list[tuple[str, ...]]:
    """(head, relation, tail), with a time where the block has times."""
    found: list[tuple[str, ...]] = []
    for block in blocks(path, tally, **options):
        if isinstance(block, TripleBlock):
            columns = [block.head, block.relation, block.tail] + ([] if block.time is None else [block.time])
            found += zip(*(column.to_pylist() for column in columns), strict=True)
    return found


def labels(path: Path, **options: Any) -> list[tuple[str, str, int]]:
    return [
        (key, label, block.rank)
        for block in blocks(path, **options)
        if isinstance(block, Labels)
        for key, label in zip(block.key.to_pylist(), block.label.to_pylist(), strict=True)
    ]


def error(path: Path, **options: Any) -> str:
    """The message of the error, with the folder left out."""
    with pytest.raises(InputError) as caught:
        blocks(path, **options)
    return str(caught.value).replace(f"{path.parent}/", "")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.tsv", "tsv"),
        ("a.TSV.GZ", "tsv"),
        ("a.b.csv.zst", "csv"),
        ("a.nt", "nt"),
        ("a.ttl.gz", "ttl"),
        ("a.nq", "nq"),
    ],
)
def test_format_by_name(name: str, expected: str) -> None:
    assert detect_format(name) == expected


def test_json_lines_are_told_apart_by_the_first_line(tmp_path: Path) -> None:
    rog = b'\n{"id": "q1", "graph": [["a", "b", "c"]]}\n'
    assert detect_format(write(tmp_path, "a.jsonl", '["a", "b", "c"]\n')) == "jsonl"
    assert detect_format(write(tmp_path, "b.jsonl", rog)) == "rog"
    assert detect_format(write(tmp_path, "b.jsonl.gz", gzip.compress(rog))) == "rog"
    assert detect_format(write(tmp_path, "c.ndjson", "not json")) == "jsonl"
    assert detect_format(write(tmp_path, "d.jsonl", "")) == "jsonl"


def test_unknown_formats_are_named() -> None:
    with pytest.raises(InputError) as caught:
        detect_format("facts.docx")
    assert str(caught.value) == (
        "facts.docx: unknown format: the name ends in '.docx'\n"
        "  known are .tsv .csv .nt .ttl .nq .jsonld .jsonl .ndjson .json .graphml .xlsx .db .sqlite .sqlite3 .duckdb "
        ".ddb, also with .gz, .zst, .bz2; for other names `kgwalk kg build` has --format: tsv csv nt ttl nq jsonld "
        "jsonl rog json wikidata neo4j graphml xlsx sqlite duckdb"
    )
    with pytest.raises(InputError, match="facts: unknown format: the name has no suffix"):
        detect_format("facts")
    with pytest.raises(InputError, match=r"unknown format 'jsonll'; did you mean 'jsonl'\?"):
        read("facts", Options(format="jsonll"), ReadCounts())
    with pytest.raises(InputError, match="stdin has no file name to tell the format\n  give --format: tsv"):
        detect_format("-")


def test_gzip_and_zstd_read_like_the_plain_file(tmp_path: Path) -> None:
    two_frames = zstandard.compress(ROWS[:30]) + zstandard.compress(ROWS[30:])
    for name, data in [
        ("a.tsv", ROWS),
        ("a.tsv.gz", gzip.compress(ROWS)),
        ("b.tsv.gz", gzip.compress(ROWS[:30]) + gzip.compress(ROWS[30:])),
        ("a.tsv.zst", zstandard.compress(ROWS)),
        ("b.tsv.zst", two_frames),
        ("a.tsv.bz2", bz2.compress(ROWS)),
        ("b.tsv.bz2", bz2.compress(ROWS[:30]) + bz2.compress(ROWS[30:])),
    ]:
        tally = ReadCounts()
        assert triples(write(tmp_path, name, data), tally) == TRIPLES
        assert (tally.rows, tally.bytes_read, tally.bytes_total) == (2, len(data), len(data))


def test_damaged_compressed_files_say_so(tmp_path: Path) -> None:
    text = b"".join(b"head %d\tr\ttail %d\n" % (i, i * i) for i in range(5000))
    packed, squeezed = gzip.compress(text), zstandard.ZstdCompressor(write_checksum=True).compress(text)
    for name, kind, data in [
        ("a.tsv.gz", "gzip", packed),
        ("a.tsv.zst", "zstd", squeezed),
        ("a.tsv.bz2", "bzip2", bz2.compress(text)),
    ]:
        for kept in (len(data) - 3, len(data) // 2):
            cut = write(tmp_path, name, data[:kept])
            assert error(cut) == f"{name}: truncated {kind} file: the end is missing"
        spoilt = data[:500] + bytes(255 - byte for byte in data[500:520]) + data[520:]
        assert error(write(tmp_path, name, spoilt)).startswith(f"{name}: corrupt {kind} file: ")
        assert error(write(tmp_path, name, ROWS)).startswith(f"{name}: corrupt {kind} file: ")
    ttl = write(tmp_path, "a.ttl.gz", gzip.compress(b"<urn:a> <urn:b> <urn:c> .\n" * 5000)[:-9])
    assert error(ttl) == "a.ttl.gz: truncated gzip file: the end is missing"


def test_files_that_are_not_the_text_their_name_promises(tmp_path: Path) -> None:
    assert error(write(tmp_path, "a.tsv", gzip.compress(ROWS))) == (
        "a.tsv: gzip data where text was expected\n  decompress it, or name the file .gz"
    )
    assert error(write(tmp_path, "a.tsv", zstandard.compress(ROWS))) == (
        "a.tsv: zstd data where text was expected\n  decompress it, or name the file .zst"
    )
    assert error(write(tmp_path, "a.tsv", bz2.compress(ROWS))).startswith("a.tsv: bzip2 data where text was expected")
    assert error(write(tmp_path, "a.tsv", ROWS.decode().encode("utf-16"))) == (
        "a.tsv: UTF-16 text; expected UTF-8\n  re-encode the file to UTF-8"
    )
    assert error(tmp_path / "absent.tsv") == "absent.tsv: cannot be read: No such file or directory"
    (tmp_path / "folder.tsv").mkdir()
    assert error(tmp_path / "folder.tsv") == "folder.tsv: cannot be read: Is a directory"


@pytest.mark.parametrize("form", [form for form in FORMATS if form not in ("json", "xlsx", "sqlite", "duckdb")])
def test_a_source_without_triples_is_an_error(tmp_path: Path, form: str) -> None:
    assert error(write(tmp_path, "a.txt", ""), format=form) == "a.txt: no triples"
    assert error(write(tmp_path, "a.txt", "\n\r\n\n"), format=form) == "a.txt: no triples"


def test_no_triples_left_says_how_many_were_malformed(tmp_path: Path) -> None:
    path = write(tmp_path, "a.tsv", "a\nb\nc\n")
    table = "\n  if its first row has column names, it is a table, which `kgwalk kg build --table` reads"
    assert error(path, on_error="skip") == f"a.tsv: no triples; 3 malformed rows were left out{table}"


@pytest.mark.parametrize("form", [form for form in FORMATS if form not in ("wikidata", "xlsx", "sqlite", "duckdb")])
def test_a_byte_order_mark_is_dropped(tmp_path: Path, form: str) -> None:
    text = {
        "tsv": "urn:a\turn:r\turn:b",
        "csv": '"urn:a",urn:r,urn:b',
        "jsonl": '["urn:a", "urn:r", "urn:b"]',
        "json": '[["urn:a", "urn:r", "urn:b"]]',
        "rog": '{"graph": [["urn:a", "urn:r", "urn:b"]]}',
        "jsonld": '{"@id": "urn:a", "urn:r": {"@id": "urn:b"}}',
        "neo4j": ":START_ID,:TYPE,:END_ID\nurn:a,urn:r,urn:b",
        "graphml": '<graphml><graph><edge source="urn:a" target="urn:b" label="urn:r"/></graph></graphml>',
    }.get(form, "<urn:a> <urn:r> <urn:b> .")
    path = write(tmp_path, "a.txt", "\ufeff" + text)
    assert triples(path, format=form) == [("urn:a", "urn:r", "urn:b")]


def test_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(ROWS)))
    tally = ReadCounts()
    assert triples(Path("-"), tally, format="tsv") == TRIPLES
    assert (tally.bytes_read, tally.bytes_total) == (len(ROWS), 0)
    assert not sys.stdin.buffer.closed
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\tb\n")))
    assert error(Path("-"), format="tsv").startswith("stdin:1: expected head<TAB>relation")


def test_progress_follows_the_compressed_file(tmp_path: Path) -> None:
    text = b"".join(b"head %d\tr\ttail %d\n" % (i, i * i) for i in range(200_000))
    path = write(tmp_path, "a.tsv.gz", gzip.compress(text, 1))
    tally = ReadCounts()
    seen = [tally.bytes_read for _ in read(path, Options(block_bytes=1 << 20), tally)]
    assert len(seen) == 6  # of 5.1 MB of text
    assert seen == sorted(set(seen))
    assert seen[-1] == tally.bytes_total == path.stat().st_size


def lines_of(path: Path, block_bytes: int) -> list[tuple[int, bytes]]:
    source = Source(str(path), Options(block_bytes=block_bytes), ReadCounts())
    with open_stream(source) as stream:
        return list(line_blocks(source, stream))


def test_blocks_are_whole_lines_with_the_number_of_the_first(tmp_path: Path) -> None:
    path = write(tmp_path, "a", b"one\ntwo\nthree\nfour")
    assert lines_of(path, 8) == [(1, b"one\ntwo\n"), (3, b"three\n"), (4, b"four")]
    assert lines_of(path, 100) == [(1, b"one\ntwo\nthree\n"), (4, b"four")]
    # A longer line makes its block grow; one more than 64 blocks long is refused.
    assert lines_of(path, 1) == [(1, b"one\n"), (2, b"two\n"), (3, b"three\n"), (4, b"four")]
    path = write(tmp_path, "b", b"one\n" + b"x" * 640)
    with pytest.raises(InputError, match=r"b:2: a line of 640 bytes or more; expected one row a line"):
        lines_of(path, 10)
    assert lines_of(path, 11) == [(1, b"one\n"), (2, b"x" * 640)]


def test_the_longest_line_may_be_said(tmp_path: Path) -> None:
    path = write(tmp_path, "a.tsv", b"a\tr\tb\nc\tr\t" + b"x" * 100 + b"\n")
    assert triples(path, block_bytes=8, line_bytes=105)[1][2] == "x" * 100
    assert error(path, block_bytes=8, line_bytes=100).startswith(
        "a.tsv:2: a line of 100 bytes or more; expected one row"
    )
    assert "more --memory: a line may have a 16th of it" in error(path, block_bytes=8, line_bytes=100)


def test_one_tally_may_serve_several_sources(tmp_path: Path) -> None:
    tally = ReadCounts()
    for name in ("a.tsv", "b.tsv"):
        triples(write(tmp_path, name, ROWS + b"bad\n"), tally, on_error="skip")
    assert (tally.rows, tally.skipped, tally.bytes_total) == (4, 2, 2 * len(ROWS) + 8)
    assert [message.partition(": ")[0].rpartition("/")[2] for message in tally.first_skipped] == [
        "a.tsv:3",
        "b.tsv:3",
    ]


def test_label_files(tmp_path: Path) -> None:
    path = write(tmp_path, "names.tsv", 'id\tname\nm.01\t"Weird Al" Yankovic\nm.02\tParis, Texas\n')
    tally = ReadCounts()
    [block] = read_labels(path, Options(header=True, format="nt"), tally)
    assert block.key.to_pylist() == ["m.01", "m.02"]
    assert block.label.to_pylist() == ['"Weird Al" Yankovic', "Paris, Texas"]
    assert (block.rank, tally.rows) == (0, 0)
    assert tally.notes == [f"{path}: line 1 (id, name) taken as a header"]


def test_label_files_that_are_wrong(tmp_path: Path) -> None:
    def message(data: str) -> str:
        with pytest.raises(InputError) as caught:
            list(read_labels(write(tmp_path, "n.tsv", data), Options(), ReadCounts()))
        return str(caught.value).replace(f"{tmp_path}/", "")

    assert message("m.01\tBig\tFilm\n") == (
        "n.tsv:1: expected id<TAB>label, got 3 columns\n  the line: m.01\tBig\tFilm\n"
        "  give --on-error skip to leave such rows out"
    )
    assert message("m.01\t\n").startswith("n.tsv:1: expected id<TAB>label, got an empty label\n")
    assert message("") == "n.tsv: no labels"


def test_a_source_is_told_without_its_password() -> None:
    source = Source("bolt://me:secret@db.example/films", Options(), ReadCounts())
    source.note("nothing is dated")
    assert source.tally.notes == ["bolt://db.example/films: nothing is dated"]
    assert "secret" not in str(source.error("no facts"))
    with pytest.raises(InputError) as refused:
        detect_format("bold://me:secret@db.example/films")
    assert "secret" not in str(refused.value)
