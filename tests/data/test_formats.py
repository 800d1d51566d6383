"""Every public format: small files in the shape they are published in, questions a reader can check by eye."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from conftest import memory_folder
from kgwalk.cli.data import FormatName
from kgwalk.data.convert import convert, read_names
from kgwalk.data.dataset import load_dataset
from kgwalk.data.formats import FORMATS, format_of, records
from kgwalk.data.formats.base import GatheredAnswers, RecordReading, split_of
from kgwalk.data.formats.freebase import described
from kgwalk.data.formats.graph_included import path_of, right_answers
from kgwalk.data.formats.records import Record, json_records
from kgwalk.types import InputError, KgwalkError, Question, Triple

FIXTURES = Path(__file__).parents[1] / "fixtures" / "formats"


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGWALK_CACHE", str(tmp_path / "cache"))


def read(form: str, file: str, **reading: Any) -> list[Question]:
    return list(FORMATS[form].read(FIXTURES / form / file, RecordReading(**reading) if reading else None))


def by_id(form: str, file: str, **reading: Any) -> dict[str, Question]:
    return {question.id: question for question in read(form, file, **reading)}


def test_the_command_line_knows_every_format() -> None:
    assert [name.value for name in FormatName] == list(FORMATS)
    assert {path.name for path in FIXTURES.iterdir()} == set(FORMATS)


@pytest.mark.parametrize("form", FORMATS)
def test_what_is_read_is_written_and_loaded_the_same(form: str, tmp_path: Path) -> None:
    source, folder = FIXTURES / form, tmp_path / "out"
    report = convert(form, source, folder)
    dataset = load_dataset(folder)
    names = RecordReading(names=read_names(source / "names.tsv") if (source / "names.tsv").exists() else {})
    files = FORMATS[form].question_files(source)
    assert set(dataset.splits()) == set(files) == set(report.questions)
    for split, paths in files.items():
        expected = [
            q for path in paths for q in FORMATS[form].read(path, RecordReading(names=names.names, split=split))
        ]
        assert dataset.questions(split) == expected
        assert report.questions[split] == len(expected) > 0
    assert report.dropped == []
    if report.facts:
        assert len(dataset.graph()) == report.facts  # type: ignore[arg-type]


@pytest.mark.parametrize("form", FORMATS)
def test_the_same_source_gives_the_same_bytes(form: str, tmp_path: Path) -> None:
    for name in ("a", "b"):
        convert(form, FIXTURES / form, tmp_path / name)
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


# Format by format.


def test_rog(tmp_path: Path) -> None:
    eiffel = read("rog", "train.jsonl")[1]
    assert eiffel == Question("WebQTrn-2", "when did the eiffel tower open", ["Eiffel Tower"], ["1889-03-31"], extra={})
    convert("rog", FIXTURES / "rog", tmp_path / "out")
    dataset = load_dataset(tmp_path / "out")
    paris, _ = dataset.questions("train")
    assert "Paris" in dataset.graph_for(paris)
    assert "Canada" not in dataset.graph_for(paris)
    assert "Canada" in dataset.graph()
    nobody = dataset.questions("test")[1]
    assert list(dataset.graph_for(nobody).match()) == []  # it came with an empty graph


def test_rog_as_parquet(tmp_path: Path) -> None:
    rows = [json.loads(line) for line in (FIXTURES / "rog" / "train.jsonl").read_text().splitlines()]
    for split, some in (("train", rows[:1]), ("validation", rows[1:])):
        path = tmp_path / "hub" / "data" / f"{split}-00000-of-00001-0a1b.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        parquet.write_table(pa.Table.from_pylist(some), path)
    report = convert("rog", tmp_path / "hub", tmp_path / "out")
    assert report.questions == {"train": 1, "dev": 1}
    dataset = load_dataset(tmp_path / "out")
    assert dataset.questions("train") + dataset.questions("dev") == read("rog", "train.jsonl")
    assert {t[:3] for t in dataset.graph_for(dataset.questions("dev")[0]).match()} == {
        ("Eiffel Tower", "architecture.structure.opened", "1889-03-31"),
        ("Eiffel Tower", "location.location.containedby", "Paris"),
    }


def test_webqsp() -> None:
    train = by_id("webqsp", "WebQSP.train.json")
    tokyo, woody = train["WebQTrn-7"], train["WebQTrn-8"]
    assert (tokyo.topic_entities, tokyo.answers, tokyo.hops) == (["Japan"], ["Tokyo"], 1)  # the partial parse is left
    assert tokyo.aliases == {"Tokyo": ["m.07dfk"]}
    assert tokyo.extra["topic_ids"] == {"Japan": "m.03_3d"}
    assert (woody.hops, woody.extra["answer_kind"]) == (2, "entity")
    (parse,) = woody.extra["parses"]  # type: ignore[misc]
    assert parse["chain"] == ["film.film.starring", "film.performance.actor"]
    assert parse["constraints"] == [["film.performance.character", "Equal", "Woody"]]
    test = by_id("webqsp", "WebQSP.test.json")
    assert (test["WebQTest-9"].answers, test["WebQTest-9"].extra["answer_kind"]) == (["1969-07-20"], "value")
    assert (test["WebQTest-10"].topic_entities, test["WebQTest-10"].answers) == ([], [])


def test_cwq() -> None:
    kyoto, woody = read("cwq", "ComplexWebQuestions_train.json", names={"m.0dqyw": "Kyoto"})
    assert (kyoto.type, kyoto.topic_entities, kyoto.answers) == ("composition", ["Kyoto"], ["Tokyo"])
    assert kyoto.aliases == {"Tokyo": ["m.07dfk", "Tokyo Metropolis", "Tōkyō"]}
    assert woody.topic_entities == ["m.0dyb1", "m.0h3mh"]
    assert (woody.answers, woody.aliases) == (["m.0abc1", "Tom Hanks"], {"Tom Hanks": ["m.0bxtg", "T. Hanks"]})


def test_webquestions(tmp_path: Path) -> None:
    _, beatles = read("webquestions", "webquestions.examples.train.json")
    assert beatles.id == "webquestions-train-2"
    assert beatles.topic_entities == ["the beatles"]
    assert beatles.answers == ["John Lennon", "Paul McCartney", 'George "the quiet one" Harrison']
    rows = [{"url": "http://www.freebase.com/view/en/japan", "question": "capital of japan?", "answers": ["Tokyo"]}]
    parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "test-00000-of-00001.parquet")
    (tokyo,) = FORMATS["webquestions"].read(tmp_path / "test-00000-of-00001.parquet")
    assert (tokyo.id, tokyo.question, tokyo.answers) == ("webquestions-test-1", "capital of japan?", ["Tokyo"])


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), max_size=4))
def test_descriptions_read_back(names: list[str]) -> None:
    quoted = [name.replace("\\", "\\\\").replace('"', '\\"') for name in names]
    assert described("(list " + " ".join(f'(description "{name}")' for name in quoted) + ")") == names


def test_grailqa() -> None:
    yen, moons = read("grailqa", "grailqa_v1.0_train.json")
    assert (yen.id, yen.topic_entities, yen.answers, yen.hops) == ("2101", ["Japan"], ["Japanese yen"], 1)
    assert yen.aliases == {"Japanese yen": ["m.088n7"]}
    assert (yen.extra["level"], yen.extra["answer_kind"], yen.type) == ("i.i.d.", "entity", "none")
    assert (moons.answers, moons.hops, moons.type, moons.extra["answer_kind"]) == (["2"], 2, "count", "number")
    (masked,) = read("grailqa", "grailqa_v1.0_test_public.json")
    assert masked == Question("2103", "which sea is the saltiest?", [], [])


def test_simplequestions(tmp_path: Path) -> None:
    tokyo, _ = read("simplequestions", "annotated_fb_data_train.txt")
    assert tokyo.gold_paths == [[Triple("m.03_3d", "location.country.capital", "m.07dfk")]]
    assert (tokyo.topic_entities, tokyo.answers, tokyo.aliases) == (["m.03_3d"], ["m.07dfk"], {})
    convert("simplequestions", FIXTURES / "simplequestions", tmp_path / "out")  # names.tsv stands there
    dataset = load_dataset(tmp_path / "out")
    named, _ = dataset.questions("train")
    assert named.gold_paths == [[Triple("Japan", "location.country.capital", "Tokyo")]]
    assert (named.answers, named.aliases) == (["Tokyo"], {"Tokyo": ["m.07dfk"]})
    assert set(dataset.graph().neighbors("Japan", "location.location.contains")) == {"Tokyo", "Kyoto (m.0dqyw)"}


def test_qald() -> None:
    capital, larger, moons = read("qald", "qald_10.json", names={"Q1490": "Tokyo"})
    assert (capital.topic_entities, capital.answers) == (["Q17"], ["Tokyo"])
    assert capital.aliases == {"Tokyo": ["Q1490", "http://www.wikidata.org/entity/Q1490"]}
    assert (larger.answers, larger.extra["answer_kind"]) == (["true"], "boolean")
    assert larger.topic_entities == ["Tokyo", "Q34600"]
    assert (moons.answers, moons.extra["answer_kind"]) == (["2"], "number")
    skipped: list[str] = []
    german = read("qald", "qald_10.json", language="de", skipped=skipped)
    assert [question.question for question in german] == [
        "Was ist die Hauptstadt von Japan?",
        "Ist Tokio größer als Kyoto?",
    ]
    assert len(skipped) == 1
    assert skipped[0].endswith("qald_10.json: record 3: expected the question in 'de'; it is given in en")


def test_kilt() -> None:
    tokyo, toys = read("kilt", "trex-train-kilt.jsonl")
    assert (tokyo.question, tokyo.topic_entities, tokyo.type) == ("what is the capital of Japan?", ["Japan"], "capital")
    assert (tokyo.answers, tokyo.aliases) == (["Tokyo"], {"Tokyo": ["Tōkyō", "Tokyo Metropolis"]})
    assert toys.gold_paths == [[Triple("Toy Story", "director", "John Lasseter")]]
    assert toys.extra["pages"] == ["Toy Story"]
    (ada,) = read("kilt", "structured_zeroshot-dev-kilt.jsonl")
    assert ada.question == "When was Ada Lovelace born?"
    assert ada.extra["template_questions"] == ["What is the birth date of Ada Lovelace?"]


def test_creak() -> None:
    tokyo, everest = read("creak", "train.json")
    assert (tokyo.answers, everest.answers) == (["true"], ["false"])
    assert (tokyo.topic_entities, tokyo.extra["answer_kind"]) == (["Tokyo"], "boolean")
    (mars,) = read("creak", "test_without_labels.json")
    assert mars.answers == []


def test_multitq(tmp_path: Path) -> None:
    obama, kenya = read("multitq", "questions/train.json")
    assert (obama.id, obama.answers, obama.type) == ("101", ["Barack_Obama"], "equal")
    assert (kenya.answers, kenya.extra["answer_kind"], kenya.extra["time_level"]) == (["2015-07"], "time", "month")
    convert("multitq", FIXTURES / "multitq", tmp_path / "out")
    visits = load_dataset(tmp_path / "out").graph().neighbors("Barack_Obama", "Make_a_visit")
    assert (visits.names, visits.times) == (["Kenya", "Japan"], [["2015-07-24"], ["2014-04-23"]])


def test_a_whole_graph_beside_its_parts_is_read_once(tmp_path: Path) -> None:
    """MultiTQ publishes full.txt and what it is made of; without it the parts are the graph."""
    source = shutil.copytree(FIXTURES / "multitq", tmp_path / "multitq")
    shutil.copy(source / "kg" / "full.txt", source / "kg" / "train.txt")
    assert convert("multitq", source, tmp_path / "out").facts == 3
    (source / "kg" / "full.txt").unlink()
    assert convert("multitq", source, tmp_path / "parts").facts == 3


def test_metaqa(tmp_path: Path) -> None:
    convert("metaqa", FIXTURES / "metaqa", tmp_path / "out")
    dataset = load_dataset(tmp_path / "out")
    toys, hanks, films = dataset.questions("train")
    assert (toys.id, toys.question, toys.topic_entities) == (
        "metaqa-1h-train-1",
        "who directed Toy Story",
        ["Toy Story"],
    )
    assert (toys.type, hanks.type, films.type) == ("movie_to_director", "actor_to_movie", None)
    assert (hanks.answers, hanks.hops, films.hops) == (["Toy Story", "Big", "Cast Away"], 1, 2)
    (rec,) = dataset.questions("test")
    assert (rec.question, rec.topic_entities) == ("who acted in the films of the director of [REC]", ["[REC]"])
    assert dataset.graph().neighbors("[REC]", "starred_actors").names == ["Manuela Velasco"]


def test_pathquestion() -> None:
    male, london = read("pathquestion", "PQ-2H.txt")
    assert male.gold_paths == [
        [Triple("ada_lovelace", "parents", "lord_byron"), Triple("lord_byron", "gender", "male")]
    ]
    assert (male.topic_entities, male.answers, male.hops) == (["ada_lovelace"], ["male"], 2)
    assert london.answers == ["london", "paris_(texas)"]
    assert right_answers("a(b)(a(b)/c)") == ["a(b)", "c"]
    assert right_answers("plain") == ["plain"]
    for text in ("a(b/c)", "", "a(a"):
        with pytest.raises(ValueError, match="second column"):
            right_answers(text)
    with pytest.raises(ValueError, match="third column"):
        path_of("a#r")


def test_2wiki(tmp_path: Path) -> None:
    born, older, country = read("2wiki", "dev.json")
    chain = [Triple("Big", "director", "Penny Marshall"), Triple("Penny Marshall", "place of birth", "The Bronx")]
    assert (born.gold_paths, born.evidence, born.hops) == ([chain], chain, 2)
    assert (born.topic_entities, born.aliases) == (["Big"], {"The Bronx": ["Q18426"]})
    assert (older.gold_paths, older.hops, older.topic_entities) == (None, 1, ["Big", "Cast Away"])
    assert (country.answers, country.extra["answer_kind"]) == (["yes"], "boolean")
    convert("2wiki", FIXTURES / "2wiki", tmp_path / "out")
    assert len(list(load_dataset(tmp_path / "out").graph().match())) == 7


@pytest.mark.parametrize("shape", ["text", "columns"])
def test_2wiki_from_the_hub_is_the_same(shape: str, tmp_path: Path) -> None:
    def column(name: str, keys: tuple[str, ...], value: list[list[Any]]) -> Any:
        if shape == "text":
            return json.dumps(value)
        return {key: [fact[at] for fact in value] for at, key in enumerate(keys)}

    rows = json.loads((FIXTURES / "2wiki" / "dev.json").read_text())
    for row in rows:
        row["evidences"] = column("evidences", ("fact", "relation", "entity"), row["evidences"])
        row["supporting_facts"] = column("supporting_facts", ("title", "sent_id"), row["supporting_facts"])
        del row["context"], row["evidences_id"]
    parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "dev.parquet")
    assert list(FORMATS["2wiki"].read(tmp_path / "dev.parquet")) == read("2wiki", "dev.json")


def test_own_keys() -> None:
    (japan,) = read("kgwalk", "test.jsonl")
    assert (japan.id, japan.aliases) == ("1", {"Japan": ["Q17", "Nippon"]})
    assert japan.evidence == [Triple("Japan", "contains", "Kyoto")]


# What is malformed.

BAD: list[tuple[str, str, str, str]] = [
    (
        "rog",
        "x.jsonl",
        '{"id": "a", "question": "?", "q_entity": "Japan"}',
        r"x\.jsonl:1: .*list of texts in `q_entity`",
    ),
    ("rog", "x.jsonl", '{"id": "a", "question": "?", "graph": [["a", "b"]]}', r"\[head, relation, tail\] in `graph`"),
    ("rog", "x.jsonl", '{"id": "a"}', "expected `question`, got the keys id"),
    ("rog", "x.jsonl", "{nonsense", r"x\.jsonl:1: not JSON"),
    ("rog", "x.jsonl", "7", "expected an object for a record, got a number"),
    ("webqsp", "x.json", '{"Questions": [{"QuestionId": "q"}]}', "record 1: expected `RawQuestion` or `Proc"),
    ("webqsp", "x.json", "{}", "expected an object with the list `Questions`, got nothing"),
    ("webqsp", "x.json", "{", "not JSON"),
    ("cwq", "x.json", '[{"ID": "q", "question": "?", "answers": ["a"]}]', "object for each of `answers`, got text"),
    ("cwq", "x.json", '[{"ID": "q", "question": "?"}', "not JSON: cut off"),
    ("cwq", "x.json", '[{"ID": nonsense}]', "record 1: not JSON"),
    ("cwq", "x.json", '[{"ID": "q", "question": "?"} {}]', "not JSON: expected ','"),
    ("cwq", "x.json", '[{"ID": "q", "question": "?"}]\n[{"ID": "r"}]', r"end of the file after the array, got '\[\{"),
    ("webquestions", "x.json", '[{"utterance": "?", "targetValue": "Tokyo"}]', r"record 1: .*\(list \(desc"),
    ("webquestions", "x.json", '[{"utterance": "?", "targetValue": "(list (name a))"}]', r"got '\(name a\)'"),
    ("webquestions", "x.json", '[{"question": "?", "answer": ["a"]}]', "`targetValue` or `answers`, got the keys qu"),
    ("grailqa", "x.json", '[{"qid": 1, "question": ""}]', "text in `question`, got an empty one"),
    ("simplequestions", "x.txt", "a\tb\tc", r"x\.txt:1: expected subject<TAB>.* got 3 columns"),
    ("qald", "x.json", '{"questions": [{"id": "1", "question": []}]}', "given in none"),
    ("kilt", "x.jsonl", '{"id": "1", "input": "Japan [SEP] ", "output": []}', "a head and a relation"),
    ("creak", "x.json", '{"ex_id": "1", "sentence": "a", "label": "perhaps"}', '"true" or "false" in `label`'),
    ("creak", "x.json", '{"ex_id": "1", "sentence": "a", "label": 0}', '"true" or "false" in `label`, got 0'),
    ("multitq", "x.json", '[{"quid": 1, "question": "?", "answers": "a"}]', "list of texts in `answers`, got text"),
    ("metaqa", "x.txt", "what is this\tthat", "topic in brackets"),
    ("metaqa", "x.json", "[1, 2]", "answer.*, got 1 columns"),  # it is not its own file of types
    ("metaqa", "x.txt", "what is [this]", r"question<TAB>answer\|answer"),
    ("pathquestion", "x.txt", "what ?\ta(a/)", r"question<TAB>answer.* got 2 columns"),
    ("2wiki", "x.json", '[{"_id": "1", "question": "?", "evidences": [["a"]]}]', "three names, got"),
    (
        "kgwalk",
        "x.jsonl",
        '{"question": "?", "topic_entities": [], "answers": [1]}',
        "a list of names, got a list with a nu",
    ),
    ("kgwalk", "x.jsonl", '{"question": "?", "topic_entities": [], "answers": [], "hops": "2"}', "a whole number"),
    ("kgwalk", "x.json", '[{"question": "\\ud800", "topic_entities": [], "answers": []}]', "cannot be written as JSON"),
    ("rog", "x.parquet", "PAR1", "not a parquet file"),
]


@pytest.mark.parametrize(("form", "name", "text", "message"), BAD)
def test_a_malformed_record_is_named(form: str, name: str, text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=message) as failed:
        list(FORMATS[form].read_with_graphs(tmp_path / name))
    assert str(tmp_path / name) in str(failed.value)


def test_bad_records_are_left_out_and_listed(tmp_path: Path) -> None:
    good = '{"id": "%s", "question": "?", "q_entity": [], "answer": []}\n'
    (tmp_path / "train.jsonl").write_bytes(
        b"".join(
            [(good % "a").encode(), b"{nonsense\n", b"\xff\n", b"7\n", (good % "a").encode(), (good % "b").encode()]
        )
    )
    with pytest.raises(InputError, match=r"train\.jsonl:2: not JSON"):
        convert("rog", tmp_path / "train.jsonl", tmp_path / "out")
    assert not list(tmp_path.glob("*out*"))
    report = convert("rog", tmp_path / "train.jsonl", tmp_path / "out", skip_bad=True)
    assert report.questions == {"train": 2}
    assert [why.removeprefix(f"{tmp_path}/train.jsonl:").split(": unexpected")[0] for why in report.dropped] == [
        "2: not JSON",
        "3: expected UTF-8, got the byte 0xff (column 1)",
        "4: expected an object for a record, got a number",
        "5: the id 'a' occurs twice",
    ]
    assert [question.id for question in load_dataset(tmp_path / "out").questions("train")] == ["a", "b"]


def test_bad_facts_are_left_out_and_listed_once(tmp_path: Path) -> None:
    (tmp_path / "qa_train.txt").write_text("who directed [Big]\tPenny Marshall\n")
    (tmp_path / "kb.txt").write_text("nonsense\nBig|directed_by|Penny\tMarshall\n")  # a tab: written in two passes
    with pytest.raises(InputError, match=r"kb\.txt:1: expected head\|relation\|tail"):
        convert("metaqa", tmp_path, tmp_path / "out")
    report = convert("metaqa", tmp_path, tmp_path / "out", skip_bad=True)
    assert (len(report.dropped), report.facts) == (1, 1)
    assert list(load_dataset(tmp_path / "out").graph().match()) == [Triple("Big", "directed_by", "Penny\tMarshall")]


def test_sources_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(KgwalkError, match=r"nowhere does not exist; expected .* WebQSP\.train\.json"):
        convert("webqsp", tmp_path / "nowhere", tmp_path / "out")
    with pytest.raises(InputError, match="no questions of the format webqsp in this folder; expected WebQSP"):
        convert("webqsp", tmp_path, tmp_path / "out")
    with pytest.raises(KgwalkError, match="unknown format `webqps`; did you mean `webqsp`"):
        convert("webqps", tmp_path, tmp_path / "out")
    (tmp_path / "train.jsonl").write_text("\n")
    with pytest.raises(InputError, match="no questions"):
        convert("rog", tmp_path / "train.jsonl", tmp_path / "out")


def test_a_split_by_name(tmp_path: Path) -> None:
    convert("qald", FIXTURES / "qald" / "qald_10.json", tmp_path / "file", split="test")
    assert load_dataset(tmp_path / "file").splits() == ["test"]
    convert("rog", FIXTURES / "rog", tmp_path / "folder", split="test")
    assert load_dataset(tmp_path / "folder").splits() == ["test"]
    with pytest.raises(KgwalkError, match=r"no split 'dev' in .*; there are test, train"):
        convert("rog", FIXTURES / "rog", tmp_path / "none", split="dev")
    with pytest.raises(KgwalkError, match=r"'\.\./x' cannot name a split"):
        convert("qald", FIXTURES / "qald" / "qald_10.json", tmp_path / "none", split="../x")


@pytest.mark.parametrize(
    ("path", "split"),
    [
        ("ComplexWebQuestions_dev.json", "dev"),
        ("data/validation-00000-of-00002-ab.parquet", "dev"),
        ("trex/train-00000-of-00001.parquet", "train"),
        ("default/test/0000.parquet", "test"),
        ("2-hop/vanilla/qa_test.txt", "test"),
        ("test_without_labels.json", "test"),
        ("contrast_set.jsonl", "contrast_set"),
        ("trained/latest.json", "latest"),
        ("PQL-3H_more.txt", "pql-3h_more"),
    ],
)
def test_the_split_of_a_file(path: str, split: str) -> None:
    assert split_of(Path("source", path), Path("source")) == split


def test_the_format_of_a_record() -> None:
    for form in ("rog", "cwq", "webquestions", "grailqa", "kilt", "creak", "multitq", "2wiki", "kgwalk"):
        files = FORMATS[form].question_files(FIXTURES / form)
        record = next(json_records(next(iter(files.values()))[0]))
        assert format_of(record.value) is FORMATS[form]
    assert format_of({"text": "?"}) is None


def test_one_name_one_answer() -> None:
    answers = GatheredAnswers()
    answers.add("Paris", "m.1")
    answers.add("Paris", "m.2", "m.1", "Paris")
    answers.add(None, "m.3")
    answers.add(None, "")
    assert (answers.names, answers.aliases) == (["Paris", "m.3"], {"Paris": ["m.1", "m.2"]})


# Arrays are read a value at a time.

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abé\n", max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(json_values, max_size=5), st.sampled_from([1, 3, 1000]), st.booleans(), st.booleans())
@settings(max_examples=60)
def test_an_array_in_pieces_is_the_array(values: list[Any], chunk: int, indent: bool, ascii_only: bool) -> None:
    with memory_folder() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "_CHUNK", chunk)
        path = folder / "a.json"
        path.write_text(" \n" + json.dumps(values, indent=2 if indent else None, ensure_ascii=ascii_only) + "\n")
        assert [record.value for record in records._array(path)] == values


IN_LINES = ("simplequestions", "pathquestion", "metaqa")

# Whatever stands in a record, the reader makes a question of it or says what it expected.

KEYS = sorted({word for path in FIXTURES.rglob("*.json*") for word in re.findall(r'"(\w+)":', path.read_text())})
rows = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["", "en", "Entity", "entity", "a [SEP] b", "[1"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6),
    max_leaves=12,
)


NEEDED = ("id", "question", "QuestionId", "RawQuestion", "ID", "qid", "input", "ex_id", "sentence", "quid", "_id")
# with what every question has, so that the rest is reached as well
with_needed = rows | rows.map(lambda row: {**(row if isinstance(row, dict) else {}), **dict.fromkeys(NEEDED, "x")})


@pytest.mark.parametrize("form", [form for form in FORMATS if form not in IN_LINES])
@given(data=st.data())
@settings(max_examples=40)
def test_any_record_is_a_question_or_a_complaint(form: str, data: st.DataObject) -> None:
    _try(form, data.draw(with_needed))


@pytest.mark.parametrize("form", IN_LINES)
@given(text=st.text(st.sampled_from("a[]|\t()/# "), max_size=12))
@settings(max_examples=60)
def test_any_line_is_a_question_or_a_complaint(form: str, text: str) -> None:
    _try(form, text)


def _try(form: str, value: Any) -> None:
    record = Record(value, Path("x.json"), 1)
    with contextlib.suppress(ValueError):
        assert FORMATS[form]._asked(record, RecordReading(split="train")).question.id
