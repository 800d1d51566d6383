"""The Python examples of the documents, run as they stand."""

from __future__ import annotations

import doctest
import re
from pathlib import Path
from typing import Any

import pytest

import kgwalk
from kgwalk.kg.store import open_graph
from kgwalk.kg.subgraphs import Seeds, write_subgraphs

ROOT = Path(__file__).parents[1]
EVENTS = """\
Barack Obama\tborn_in\tHonolulu
Barack Obama\tvisited\tJapan\t2014-04
Barack Obama\tvisited\tJapan\t2016-05-25
Barack Obama\tvisited\tKenya\t2015-07
Donald Trump\tholds\tPresident\t2017-01-20..2021-01-20
"""


@pytest.mark.parametrize("page", ["concepts/views.md", "reference/python.md"])
def test_examples(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("films.tsv").write_bytes((ROOT / "examples" / "films.tsv").read_bytes())
    Path("events.tsv").write_text(EVENTS)
    for name in ("films", "events"):
        kgwalk.build_graph([f"{name}.tsv"], f"{name}.kg")
    write_subgraphs(open_graph("films.kg"), [Seeds("q1", ["Big"])], hops=1)
    known: dict[str, Any] = {"kgwalk": kgwalk, "Path": Path, "graph": kgwalk.load_graph(Path("films.kg"))}
    text = (ROOT / "docs" / page).read_text()
    blocks = [block for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if ">>>" in block]
    assert blocks
    runner = doctest.DocTestRunner(verbose=False)
    for block in blocks:
        example = doctest.DocTestParser().get_doctest(block, known, page, page, 0)
        assert runner.run(example, clear_globs=False).failed == 0
        known.update(example.globs)
