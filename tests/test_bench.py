"""Benchmarks run, and can fail: a soak of a second, rows that know their goal."""

from __future__ import annotations

from pathlib import Path

from kgwalk.bench.rows import Row
from kgwalk.bench.soak import soak


def test_rows_know_what_is_better() -> None:
    assert Row("rate", 900.0, "actions/s", 24.0, (">=", 900.0)).ratio == 37.5
    assert Row("time", 2.0, "ms", 41.0).ratio == 20.5
    assert Row("rate", 899.0, "actions/s", None, (">=", 900.0)).met is False
    assert Row("time", 20.0, "us", None, ("<=", 20.0)).met is True
    assert Row("time", 20.0, "us").met is None


def test_a_short_soak(tmp_path: Path) -> None:
    rows = {row.name: row for row in soak(tmp_path, seconds=1.5, clients=16, triples=5_000)}
    assert rows["good items"].value > 100
    assert rows["bad items among them"].value > 30
    assert rows["wrong answers"].value == 0
    assert rows["answers with status 5xx"].value == 0
