"""Wikidata's JSON: the dump and Special:EntityData; names, ranks, times, values, and how little memory it takes."""

from __future__ import annotations

import bz2
import gzip
import json
import sys
import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_sources_reading import error, labels, triples, write

from kgwalk.kg.build import BuildReport, build
from kgwalk.kg.sources.reading import detect_format
from kgwalk.kg.sources.source import Options, ReadCounts
from kgwalk.kg.store import open_graph
from kgwalk.kg.times import date_text, parse_time

Json = dict[str, Any]
GREGORIAN = "http://www.wikidata.org/entity/Q1985727"


def item(id: str, label: str = "", claims: Json | None = None, **languages: str) -> Json:
    names = {"en": label, **languages} if label else languages
    labels = {tag.replace("_", "-"): {"language": tag, "value": text} for tag, text in names.items()}
    kind = "property" if id[0] == "P" else "item"
    return {"type": kind, "id": id, "labels": labels, "descriptions": {}, "aliases": {}, "claims": claims or {}}


def snak(property: str, kind: str, value: object, datatype: str) -> Json:
    return {
        "snaktype": "value",
        "property": property,
        "datavalue": {"value": value, "type": kind},
        "datatype": datatype,
    }


def thing(property: str, id: str) -> Json:
    value = {"entity-type": "item", "numeric-id": int(id[1:]), "id": id}
    return snak(property, "wikibase-entityid", value, "wikibase-item")


def time(property: str, text: str, precision: int) -> Json:
    value = {"time": text, "timezone": 0, "before": 0, "after": 0, "precision": precision, "calendarmodel": GREGORIAN}
    return snak(property, "time", value, "time")


def quantity(property: str, amount: str, unit: str = "") -> Json:
    value = {"amount": amount, "unit": f"http://www.wikidata.org/entity/{unit}" if unit else "1"}
    return snak(property, "quantity", value, "quantity")


def string(property: str, text: str, datatype: str = "string") -> Json:
    return snak(property, "string", text, datatype)


def said(main: Json, rank: str = "normal", **qualifiers: Json) -> Json:
    statement = {"mainsnak": main, "type": "statement", "id": "Q0$1", "rank": rank, "references": []}
    return statement | ({"qualifiers": {one: [given] for one, given in qualifiers.items()}} if qualifiers else {})


def unknown(property: str, kind: str = "somevalue") -> Json:
    return said({"snaktype": kind, "property": property, "datatype": "wikibase-item"})


def dumped(*entities: Json) -> str:
    """As the dump is written: a bracket, an entity on each line, a comma after all but the last."""
    return "[\n" + ",\n".join(json.dumps(entity, ensure_ascii=False) for entity in entities) + "\n]\n"


ADAMS = item(
    "Q42",
    "Douglas Adams",
    {
        "P31": [said(thing("P31", "Q5"))],
        "P569": [said(time("P569", "+1952-03-11T00:00:00Z", 11))],
        "P1082": [
            said(quantity("P1082", "+1"), "deprecated"),
            said(quantity("P1082", "+2"), P585=time("P585", "+2001-00-00T00:00:00Z", 9)),
            said(quantity("P1082", "+3"), "preferred", P585=time("P585", "+2011-05-00T00:00:00Z", 10)),
        ],
        "P2048": [said(quantity("P2048", "+1.96", "Q11573"))],
        "P26": [
            said(
                thing("P26", "Q14623681"),
                P580=time("P580", "+1991-11-25T00:00:00Z", 11),
                P582=time("P582", "+2001-05-11T00:00:00Z", 11),
            ),
            unknown("P26"),
        ],
        "P1477": [
            said(snak("P1477", "monolingualtext", {"text": "Adams, D. N.", "language": "en"}, "monolingualtext"))
        ],
        "P625": [
            said(
                snak(
                    "P625",
                    "globecoordinate",
                    {"latitude": 51.5667, "longitude": -0.1459, "altitude": None, "precision": 0.001, "globe": "Q2"},
                    "globe-coordinate",
                )
            )
        ],
        "P214": [said(string("P214", "113230702", "external-id"))],
        "P40": [unknown("P40", "novalue")],
    },
    de="Douglas Noel Adams",
)
ENTITIES = [
    ADAMS,
    item("Q5", "human", de="Mensch"),
    item("Q14623681", "Jane Belson"),
    item("P31", "instance of", de="ist ein(e)"),
    item("P26", "spouse"),
    item("P569", "date of birth"),
    item("P1082", "population"),
    item("P2048", "height"),
    item("P1477", "birth name"),
    item("P625", "coordinate location"),
]
FACTS = {
    ("Douglas Adams", "instance of", "human", ""),
    ("Douglas Adams", "date of birth", "1952-03-11", ""),
    ("Douglas Adams", "population", "3", "2011-05"),
    ("Douglas Adams", "height", "1.96 m", ""),
    ("Douglas Adams", "spouse", "Jane Belson", "1991-11-25..2001-05-11"),
    ("Douglas Adams", "birth name", "Adams, D. N.", ""),
    ("Douglas Adams", "coordinate location", "51.567, -0.146", ""),
}
TRIPLES = [  # the same by their keys, as they are read
    ("Q42", "P31", "Q5", ""),
    ("Q42", "P569", '"1952-03-11"', ""),
    ("Q42", "P1082", '"3"', "2011-05"),
    ("Q42", "P2048", '"1.96 m"', ""),
    ("Q42", "P26", "Q14623681", "1991-11-25..2001-05-11"),
    ("Q42", "P1477", '"Adams, D. N."', ""),
    ("Q42", "P625", '"51.567, -0.146"', ""),
]
LEFT_OUT = (
    "left out: 1 deprecated statements, 1 external ids, 1 statements of no value, 1 statements beside preferred ones, "
    "1 statements of an unknown value"
)


def graph_of(path: Path, **options: Any) -> tuple[set[tuple[str, ...]], BuildReport]:
    target = path.parent / "made.kg"
    report = build([path], target, options=Options(**options), replace=True)
    return set(map(tuple, open_graph(target).match())), report


def test_the_dump(tmp_path: Path) -> None:
    text = dumped(*ENTITIES)
    for name, data in [
        ("a.json", text.encode()),
        ("a.json.gz", gzip.compress(text.encode())),
        ("a.json.bz2", bz2.compress(text.encode())),
        ("a.jsonl", "\n".join(json.dumps(entity) for entity in ENTITIES).encode()),
        ("b.json", json.dumps(ENTITIES).encode()),  # all on one line
        ("c.json", json.dumps(ENTITIES, indent=1).encode()),  # printed for people
        ("d.json", text.replace("[\n", "[").replace("\n]", "]").encode()),
    ]:
        path = write(tmp_path, name, data)
        assert detect_format(path) == "wikidata"
        tally = ReadCounts()
        assert sorted(triples(path, tally)) == sorted(TRIPLES)
        assert [note.partition(": ")[2] for note in tally.notes] == [LEFT_OUT]
    assert graph_of(path)[0] == FACTS
    assert open_graph(tmp_path / "made.kg").id_of("Douglas Adams") == "Q42"
    assert open_graph(tmp_path / "made.kg").neighbors("Q42", "P31").names == ["human"]


def test_special_entity_data(tmp_path: Path) -> None:
    """One entity and nothing about others: they are their ids."""
    entity = {"pageid": 138, "ns": 0, "title": "Q42", "lastrevid": 1, "modified": "2024-01-01T00:00:00Z", **ADAMS}
    for indent in (2, None):
        path = write(tmp_path, "Q42.json", json.dumps({"entities": {"Q42": entity}}, indent=indent))
        assert detect_format(path) == "wikidata"
        assert sorted(triples(path)) == sorted(TRIPLES)
    facts, _ = graph_of(path)
    assert facts >= {("Douglas Adams", "P31", "Q5", ""), ("Douglas Adams", "P2048", "1.96 m", "")}
    several = {"entities": {one["id"]: one for one in ENTITIES}, "success": 1}
    assert sorted(triples(write(tmp_path, "several.json", json.dumps(several)))) == sorted(TRIPLES)


def test_ranks(tmp_path: Path) -> None:
    path = write(tmp_path, "a.json", dumped(*ENTITIES))
    facts, _ = graph_of(path, ranks="all")
    assert {fact for fact in facts if fact[1] == "population"} == {
        ("Douglas Adams", "population", "2", "2001"),
        ("Douglas Adams", "population", "3", "2011-05"),
    }
    assert facts > FACTS


def test_external_ids_are_kept_where_asked(tmp_path: Path) -> None:
    facts, _ = graph_of(write(tmp_path, "a.json", dumped(*ENTITIES)), external_ids=True)
    assert facts == FACTS | {("Douglas Adams", "P214", "113230702", "")}


def test_names_in_a_language_and_namesakes(tmp_path: Path) -> None:
    cities = [
        item("Q90", "Paris", {"P31": [said(thing("P31", "Q515"))]}),
        item("Q830149", "Paris", {"P31": [said(thing("P31", "Q515"))]}, de="Paris in Texas"),
        item("Q515", "city", de="Stadt"),
        item("P31", "instance of"),
    ]
    cities[0]["aliases"] = {"en": [{"language": "en", "value": "City of Light"}], "fr": [{"value": "Paname"}]}
    path = write(tmp_path, "a.json", dumped(*cities))
    assert graph_of(path)[0] == {
        ("Paris (Q90)", "instance of", "city", ""),
        ("Paris (Q830149)", "instance of", "city", ""),
    }
    store = open_graph(tmp_path / "made.kg").store
    assert [(name, store.entity[number]) for name, number in store.other_names] == [("City of Light", "Paris (Q90)")]
    assert graph_of(path, lang="de")[0] == {
        ("Paris", "instance of", "Stadt", ""),
        ("Paris in Texas", "instance of", "Stadt", ""),
    }


@pytest.mark.parametrize(
    ("languages", "lang", "expected"),
    [
        ({"en": "a", "de": "b", "mul": "c"}, "de", ("b", 0)),
        ({"en": "a", "pt_br": "b", "mul": "c"}, "pt", ("b", 1)),
        ({"en": "a", "mul": "c"}, "de", ("c", 1)),
        ({"ja": "d", "en": "a"}, "de", ("a", 2)),
        ({"ja": "d"}, "de", ("d", 2)),
    ],
)
def test_which_label_is_taken(tmp_path: Path, languages: Json, lang: str, expected: tuple[str, int]) -> None:
    entity = item("Q1", claims={"P1": [said(thing("P1", "Q1"))]}, **languages)
    assert labels(write(tmp_path, "a.json", dumped(entity)), lang=lang) == [("Q1", *expected)]


@pytest.mark.parametrize(
    ("qualifiers", "expected"),
    [
        ({"P580": ("+1990-00-00T00:00:00Z", 9)}, "1990.."),
        ({"P582": ("+1994-06-00T00:00:00Z", 10)}, "..1994-06"),
        ({"P580": ("+1950-00-00T00:00:00Z", 8), "P582": ("+1850-00-00T00:00:00Z", 7)}, ""),  # ends before it starts
        ({"P580": ("+1850-00-00T00:00:00Z", 7), "P582": ("+1950-00-00T00:00:00Z", 8)}, "1801..1959"),
        ({"P585": ("+1850-00-00T00:00:00Z", 7)}, "1801..1900"),
        ({"P585": ("-0044-03-15T00:00:00Z", 11)}, "-0044-03-15"),
        ({"P585": ("+1900-02-29T00:00:00Z", 11)}, ""),  # a day of the Julian calendar
    ],
)
def test_qualifiers_say_when(tmp_path: Path, qualifiers: dict[str, tuple[str, int]], expected: str) -> None:
    given_times = {name: time(name, *value) for name, value in qualifiers.items()}
    path = write(tmp_path, "a.json", dumped(item("Q1", "a", {"P1": [said(thing("P1", "Q2"), **given_times)]})))
    tally = ReadCounts()
    assert triples(path, tally) == [("Q1", "P1", "Q2", expected) if expected else ("Q1", "P1", "Q2")]
    assert [note.partition(": ")[2] for note in tally.notes] == (
        [] if expected else ["left out: 1 dates that cannot be read"]
    )


@given(st.integers(1, 9999), st.integers(1, 12), st.integers(1, 28), st.integers(6, 11), st.sampled_from("+-"))
def test_every_date_is_a_time_that_covers_its_year(year: int, month: int, day: int, precision: int, sign: str) -> None:
    first, last = parse_time(date_text(f"{sign}{year:04d}-{month:02d}-{day:02d}T00:00:00Z", precision))
    inside = parse_time(f"{sign}{year:04d}-{month:02d}-{day:02d}")
    assert first <= inside[0] <= inside[1] <= last
    assert (last - first + 1) // 365 in {11: {0}, 10: {0}, 9: {1}, 8: {9, 10}, 7: {100}, 6: {1000}}[precision]


def test_units_are_symbols_else_labels_else_ids(tmp_path: Path) -> None:
    """A unit's label is used wherever in the file the unit stands, and whether or not its item says it is one."""
    claims = {
        "P1": [said(quantity("P1", "+12", "Q11229")), said(quantity("P1", "-3.50", "Q25267"))],
        "P2": [said(quantity("P2", "+5", "Q1033")), said(quantity("P2", "+7", "Q999"))],
    }
    unit = item("Q1033", "naira", {"P498": [said(string("P498", "NGN"))]})
    for order in ([item("Q1", "a", claims), unit], [unit, item("Q1", "a", claims)]):
        facts, _ = graph_of(write(tmp_path, "a.json", dumped(*order)))
        assert {fact[2] for fact in facts if fact[0] == "a"} == {"12%", "-3.50 °C", "5 naira", "7 Q999"}


def test_other_kinds_of_entities_and_values(tmp_path: Path) -> None:
    odd = snak("P1", "unheard-of", {}, "new")
    entities = [
        {"type": "lexeme", "id": "L1", "lemmas": {"en": {"language": "en", "value": "run"}}, "claims": {}},
        {"id": "Q9", "missing": ""},
        {**item("Q1", "a"), "labels": [], "aliases": [], "claims": []},  # as PHP writes what is empty
        item("Q2", "b", {"P1": [said(odd), said(string("P1", "http://example.org/x", "url"))]}),
    ]
    path, tally = write(tmp_path, "a.json", dumped(*entities)), ReadCounts()
    assert triples(path, tally) == [("Q2", "P1", '"http://example.org/x"')]
    assert tally.notes == [f"{path}: left out: 1 lexemes, 1 entities that are missing, 1 values of other types"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            '{"type":"item","id":"Q2","labels":{},"claims":{"P1":[{}]}}',
            "Q2 is not as Wikidata writes an entity: KeyError",
        ),
        ('{"type":"item","labels":{}}', 'expected an entity of Wikidata, with an "id" such as Q42'),
        ("7", 'expected an entity of Wikidata, with an "id" such as Q42'),
        ('{"type":"item"', "not JSON: unexpected end of data"),
    ],
)
def test_lines_that_are_wrong(tmp_path: Path, line: str, message: str) -> None:
    good = json.dumps(item("Q1", "a", {"P1": [said(thing("P1", "Q2"))]}))
    path = write(tmp_path, "a.json", f"[\n{good},\n{line},\n{good}\n]\n")
    assert error(path).startswith(f"a.json:3: {message}")
    assert "give --on-error skip" in error(path)
    tally = ReadCounts()
    assert triples(path, tally, on_error="skip") == [("Q1", "P1", "Q2")] * 2
    assert tally.skipped == 1


def test_a_document_of_many_lines_is_bounded(tmp_path: Path) -> None:
    path = write(tmp_path, "a.json", json.dumps(ENTITIES, indent=4))
    assert error(path, block_bytes=4096, line_bytes=8192) == (
        "a.json: a JSON document of more than 8,192 bytes that is printed over several lines\n"
        "  write an entity on each line, as the dump does: `jq -c '.[]'` or `jq -c '.entities[]'` does it"
    )


def test_other_json_is_no_wikidata(tmp_path: Path) -> None:
    for text in ('[{"type": "item", "id": "Q1"}]', '[{"id": "x", "labels": {}, "type": "item"}]', "[]", "{"):
        assert detect_format(write(tmp_path, "a.json", text)) == "json"


def test_memory_is_bounded_by_blocks_and_not_by_the_file(tmp_path: Path) -> None:
    """Ten times the file takes no more memory."""
    most = []
    for count in (60, 600):
        claims = {"P31": [said(thing("P31", "Q5"))] * 4}
        path = write(tmp_path, "a.json", dumped(*(item(f"Q{n}", f"thing {n}", claims) for n in range(count))))
        tracemalloc.start()
        found = sum(len(block.head) for block in _triples(path))
        most.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert found == 4 * count
    assert most[1] < 1.5 * most[0]


def _triples(path: Path) -> Any:
    from kgwalk.kg.sources.reading import read
    from kgwalk.kg.sources.source import TripleBlock

    options = Options(block_bytes=1 << 13)
    return (block for block in read(path, options, ReadCounts()) if isinstance(block, TripleBlock))


texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=6)


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 4), texts | st.integers(1, 9)), min_size=1, max_size=12))
@settings(max_examples=25)
def test_any_statements_read_back_in_blocks_of_any_size(given_facts: list[tuple[int, int, str | int]]) -> None:
    entities: dict[str, Json] = {}
    expected = []
    for head, relation, tail in given_facts:
        entity = entities.setdefault(f"Q{head}", item(f"Q{head}", f"thing {head}"))
        main = thing(f"P{relation}", f"Q{tail}") if isinstance(tail, int) else string(f"P{relation}", tail)
        entity["claims"].setdefault(f"P{relation}", []).append(said(main))
        expected.append((f"Q{head}", f"P{relation}", f"Q{tail}" if isinstance(tail, int) else tail))
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder), "a.json", dumped(*entities.values()))
        shown = {key: label for key, label, rank in labels(path) if rank == 200}
        for block_bytes in (64, sys.maxsize):
            found = triples(path, block_bytes=block_bytes, line_bytes=1 << 20)
            assert sorted((h, r, shown.get(t, t)) for h, r, t in found) == sorted(expected)
