"""Sentences behind facts: kept with a store, found again after updates, and never another one than was written."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from commands import Cli
from kgwalk.kg.build import build
from kgwalk.kg.compact import compact
from kgwalk.kg.fact_sources import SOURCES, FactSource, sources_behind, verify_sources
from kgwalk.kg.store import open_graph
from kgwalk.kg.update import update
from kgwalk.types import InputError, StoreError, Triple

BIG, CAST = "Big is a 1988 film directed by Penny Marshall.", "Tom Hanks stars in it."
DIRECTED, STARRED = Triple("Big", "director", "Penny Marshall"), Triple("Big", "cast member", "Tom Hanks")
OF_BIG, OF_CAST = FactSource("big.md", 0, 46, BIG, "Big"), FactSource("big.md", 47, 69, CAST, "Big")


def row(fact: Triple, source: FactSource) -> dict[str, Any]:
    text = {"title": source.title, "url": source.url, "sentence": source.sentence}
    return {"fact": fact[:3], "document": source.document, "start": source.start, "end": source.end, **text}


def write(path: Path, facts: Sequence[Triple], rows: Sequence[dict[str, Any]]) -> Path:
    path.write_text("".join("\t".join(fact[:3]) + "\n" for fact in facts))
    path.with_suffix(".sources.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def films(folder: Path, *more: dict[str, Any]) -> Path:
    rows = [row(DIRECTED, OF_BIG), row(STARRED, OF_CAST), *more]
    build([write(folder / "films.tsv", [DIRECTED, STARRED], rows)], folder / "films.kg")
    return folder / "films.kg"


def behind(store: Path, *facts: Triple) -> dict[Triple, list[FactSource]]:
    return sources_behind({"an answer": facts}, open_graph(store))


def test_a_build_takes_the_file_beside_its_source(tmp_path: Path) -> None:
    store = films(tmp_path)
    assert open_graph(store).store.folder.header["sources"] == 2
    assert behind(store, DIRECTED, STARRED) == {DIRECTED: [OF_BIG], STARRED: [OF_CAST]}
    assert behind(store, Triple("Big", "director", "Tom Hanks")) == {}
    assert verify_sources(store) == 2
    (tmp_path / "films.sources.jsonl").unlink()
    build([tmp_path / "films.tsv"], tmp_path / "plain.kg")
    assert behind(tmp_path / "plain.kg", DIRECTED) == {}


def test_a_fact_may_have_several_sources_each_once(tmp_path: Path) -> None:
    other = FactSource("list.txt", 5, 27, "Penny Marshall: Big...", url="https://example.org/list")
    store = films(tmp_path, row(DIRECTED, other), row(DIRECTED, OF_BIG))
    assert behind(store, DIRECTED) == {DIRECTED: [OF_BIG, other]}
    assert (other.place, OF_BIG.place) == ("https://example.org/list", "big.md")
    assert sources_behind({"x": [DIRECTED]}, open_graph(store), most=1) == {DIRECTED: [OF_BIG]}


def test_aliases_are_names_unless_something_else_has_them(tmp_path: Path) -> None:
    more = [{"alias": "P. Marshall", "of": "Penny Marshall"}, {"alias": "Tom Hanks", "of": "Penny Marshall"}]
    graph = open_graph(films(tmp_path, *more, {"alias": "Nobody", "of": "Not here"}))
    assert graph.neighbors("P. Marshall", "director", out=False).names == ["Big"]
    assert graph.neighbors("Tom Hanks", "cast member", out=False).names == ["Big"]
    assert "Nobody" not in graph


def test_beside_a_source_with_ids_names_and_ids_both_find_them(tmp_path: Path) -> None:
    """One file says it by ids, the other, which has the sentences, by the same ids."""
    big, penny = "http://x/big", "http://x/penny"
    label = "<http://www.w3.org/2000/01/rdf-schema#label>"
    (tmp_path / "films.nt").write_text(
        f'<{big}> {label} "Big" .\n<{penny}> {label} "Penny Marshall" .\n<{big}> <http://x/by> <{penny}> .\n'
    )
    rows = [{**row(DIRECTED, OF_BIG), "fact": [big, "http://x/by", penny]}, {"alias": "P. Marshall", "of": penny}]
    facts = write(tmp_path / "more.tsv", [Triple(big, "http://x/by", penny)], rows)
    build([tmp_path / "films.nt", facts], tmp_path / "films.kg")
    graph = open_graph(tmp_path / "films.kg")
    (fact,) = graph.match("Big", None, "Penny Marshall")
    assert sources_behind({"x": [fact]}, graph) == {fact: [OF_BIG]}
    assert graph.neighbors("P. Marshall", fact.relation, out=False).names == ["Big"]


def test_updates_and_compaction_leave_them_valid(tmp_path: Path) -> None:
    """A removed fact is not asked for; one that a merge moved is found by the name that it was read with."""
    store = films(tmp_path)
    second = FactSource("more.md", 0, 24, "Marshall also made Hook.")
    made = Triple("Hook", "director", "P. Marshall")
    more = write(tmp_path / "more.tsv", [made], [row(made, second), {"alias": "Hook (film)", "of": "Hook"}])
    assert update(store, [more]).sources == 1
    assert behind(store, made) == {made: [second]}
    update(store, merges=[("P. Marshall", "Penny Marshall")])
    moved = made._replace(tail="Penny Marshall")
    assert "Hook (film)" in open_graph(store)
    gone = write(tmp_path / "gone.tsv", [STARRED], [])
    update(store, remove=[gone])
    for _ in range(2):
        assert behind(store, moved, DIRECTED) == {moved: [second], DIRECTED: [OF_BIG]}
        compact(store)
    assert verify_sources(store) == open_graph(store).store.folder.header["sources"] == 3


def test_a_document_that_is_read_again_is_quoted_as_it_is_now(tmp_path: Path) -> None:
    """Its sentence changed, and all behind it moved; what other documents say of the fact stays, and its order."""
    listed = FactSource("list.txt", 0, 22, "Penny Marshall: Big...")
    store = films(tmp_path, row(DIRECTED, listed))
    now = "Big is a film by Penny Marshall, of 1988."
    of_big = FactSource("big.md", 0, len(now), now, "Big")
    again = FactSource("big.md", 99, 110, "She made it", "Big")  # and a second sentence, new
    said = [row(DIRECTED, of_big), row(DIRECTED, again), row(STARRED, OF_CAST)]
    more = write(tmp_path / "more.tsv", [DIRECTED, STARRED], said)
    assert update(store, [more]).sources == 2
    assert behind(store, DIRECTED, STARRED) == {DIRECTED: [listed, of_big, again], STARRED: [OF_CAST]}
    assert update(store, [more]).sources == 0  # the same once more changes nothing
    assert behind(store, DIRECTED) == {DIRECTED: [listed, of_big, again]}
    # the same place, another title: the address of a row is no reason to keep what it says
    titled = FactSource("big.md", 0, len(now), now, "Big (film)")
    update(store, [write(tmp_path / "more.tsv", [DIRECTED], [row(DIRECTED, titled)])])
    assert behind(store, DIRECTED) == {DIRECTED: [listed, titled]}
    assert verify_sources(store) == 3


def test_a_line_that_is_none_is_refused_with_its_place_and_nothing_is_built(tmp_path: Path) -> None:
    for wrong, why in (
        ({"fact": ["Big", "director"], "document": "x", "start": 0, "end": 1, "sentence": "x"}, "not enough values"),
        ({**row(DIRECTED, OF_BIG), "end": 99}, "do not fit"),
        ({**row(DIRECTED, OF_BIG), "sentence": None}, "`sentence` is no text"),
        ({"document": "x"}, "'fact'"),
    ):
        with pytest.raises(InputError, match=r"films.sources.jsonl:3: not a line of sources") as error:
            films(tmp_path, wrong)
        assert why in str(error.value)
        assert not (tmp_path / "films.kg").exists()


def test_a_changed_byte_is_an_error_and_never_another_quotation(tmp_path: Path, cli: Cli) -> None:
    store = films(tmp_path)
    with sqlite3.connect(store / SOURCES) as db:
        db.execute("UPDATE sources SET sentence = 'Big was directed by nobody.' WHERE start = 0")
    db.close()
    for look in (lambda: behind(store, DIRECTED), lambda: verify_sources(store)):
        with pytest.raises(StoreError, match=r"sources of facts in .* are damaged"):
            look()
    assert behind(store, STARRED) == {STARRED: [OF_CAST]}
    assert "damaged" in cli("kg", "verify", store).stderr
    (store / SOURCES).write_bytes(b"no database at all, but long enough to be looked at" * 9)
    with pytest.raises(StoreError, match="damaged"):
        behind(store, STARRED)


def test_a_walk_quotes_the_sentences_behind_its_evidence(tmp_path: Path, cli: Cli) -> None:
    store = films(tmp_path)
    program = 'head_entities($1, "cast member")\ntail_entities($2, "director")'
    done = cli("kg", "walk", store, program, "--topic", "Tom Hanks")
    assert done.stdout.splitlines()[-5:] == [
        "Penny Marshall",
        "    (Big, cast member, Tom Hanks)",
        f'        "{CAST}" (big.md)',
        "    (Big, director, Penny Marshall)",
        f'        "{BIG}" (big.md)',
    ]
    told = cli("kg", "walk", store, program, "--topic", "Tom Hanks", "--json").json
    assert told["evidence"] == {"Penny Marshall": [list(STARRED[:3]), list(DIRECTED[:3])]}
    whole = {"document": "big.md", "start": 0, "end": 46, "sentence": BIG, "title": "Big", "url": ""}
    assert told["sources"][1] == {"fact": list(DIRECTED[:3]), **whole}
    shutil.rmtree(store)
