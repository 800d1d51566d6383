"""Which format a file has, by its name; for JSON lines also by what the first line holds.

Knows the names of the formats, not how they are read.
"""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path, PurePath

import orjson

from kgwalk.kg.sources.source import STDIN, Options, Source, Tally
from kgwalk.kg.sources.stream import COMPRESSIONS, line_blocks, open_stream
from kgwalk.types import InputError

FORMATS = ("tsv", "csv", "nt", "ttl", "nq", "jsonl", "rog")
_SUFFIXES = {
    ".tsv": "tsv",
    ".csv": "csv",
    ".nt": "nt",
    ".ttl": "ttl",
    ".nq": "nq",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}


def detect_format(path: str | Path) -> str:
    """The format by the suffix, `.gz` or `.zst` aside: `films.tsv.gz` is tsv."""
    if str(path) == STDIN:
        raise InputError("stdin has no file name to tell the format", hint=f"give --format: {_listed()}")
    name = PurePath(path)
    suffixes = [suffix.lower() for suffix in name.suffixes]
    if suffixes and suffixes[-1] in COMPRESSIONS:
        suffixes.pop()
    suffix = suffixes[-1] if suffixes else ""
    if suffix not in _SUFFIXES:
        raise InputError(
            f"unknown format: the name ends in {suffix!r}" if suffix else "unknown format: the name has no suffix",
            path=str(path),
            hint=f"known are {' '.join(_SUFFIXES)}, also with .gz or .zst; "
            f"for other names `kgwalk kg build` has --format: {_listed()}",
        )
    found = _SUFFIXES[suffix]
    return "rog" if found == "jsonl" and _holds_graphs(path) else found


def check_format(name: str) -> str:
    if name in FORMATS:
        return name
    near = get_close_matches(name, FORMATS, 1)
    raise InputError(
        f"unknown format {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""),
        hint=f"known are {_listed()}",
    )


def _holds_graphs(path: str | Path) -> bool:
    """Whether the first line is a question with its graph; the reader will refuse one that is no JSON."""
    # Its own tally: these bytes are read again.
    source = Source(str(path), Options(block_bytes=1 << 20), Tally())
    with open_stream(source) as stream:
        for lines in line_blocks(source, stream):
            if first := lines.data.lstrip().split(b"\n", 1)[0]:
                try:
                    value = orjson.loads(first)
                except orjson.JSONDecodeError:
                    return False
                return isinstance(value, dict) and isinstance(value.get("graph"), list)
    return False


def _listed() -> str:
    return " ".join(FORMATS)
