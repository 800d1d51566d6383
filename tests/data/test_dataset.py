"""Dataset folders: written and read back the same, opened by path or name, their graphs built once into the cache."""

from __future__ import annotations

import gzip
import json
import re
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import FILMS, awkward_names, memory_folder, store_of
from kgwalk.config.cache import cache_folder
from kgwalk.config.run_folder import question_of, row_of
from kgwalk.data.bundled import world_path
from kgwalk.data.dataset import Dataset, datasets_folder, known_names, load_dataset
from kgwalk.data.folder import DatasetWriter, read_questions
from kgwalk.kg import cached
from kgwalk.kg.store import StoredGraph
from kgwalk.kg.subgraphs import Seeds, write_subgraphs
from kgwalk.score.episode import measure
from kgwalk.types import AnswerForm, Episode, InputError, KgwalkError, Question, StopReason, StoreError, Triple

ROW = {"id": "q1", "question": "who directed Big?", "topic_entities": ["Big"], "answers": ["Penny Marshall"]}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KGWALK_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def lines(rows: Iterable[Any]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def films(folder: Path, **files: bytes) -> Path:
    """A dataset folder: the films' facts, and the files given as split=content."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "kg.tsv").write_text("".join("\t".join(fact) + "\n" for fact in FILMS))
    for name, data in (files or {"train": lines([ROW])}).items():
        (folder / f"{name}.jsonl").write_bytes(data)
    return folder


def stored(dataset: Dataset) -> StoredGraph:
    graph = dataset.graph()
    assert isinstance(graph, StoredGraph)
    return graph


# What is written reads back the same.

plain = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
extras = st.recursive(
    plain | awkward_names,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(awkward_names, inner, max_size=2),
    max_leaves=5,
)
# every one a name that JSON can hold; a time is what a store would take
triples = st.builds(Triple, awkward_names, awkward_names, awkward_names, st.sampled_from(["", "2005-05", "1990..1994"]))
keys = awkward_names.filter(lambda key: key not in ("id", "question", "topic_entities", "answers", "graph"))
questions = st.builds(
    Question,
    id=awkward_names,
    question=awkward_names,
    topic_entities=st.lists(awkward_names, max_size=2),
    answers=st.lists(awkward_names, max_size=3),
    hops=st.none() | st.integers(0, 9),
    gold_paths=st.none() | st.lists(st.lists(triples, max_size=2), max_size=2),
    evidence=st.none() | st.lists(triples, max_size=2),
    type=st.none() | awkward_names,
    aliases=st.dictionaries(awkward_names, st.lists(awkward_names, max_size=2), max_size=2),
    extra=st.dictionaries(keys | st.sampled_from(["q_entity", "answer", "a_entity", "level"]), extras, max_size=2),
)


@given(st.lists(questions, min_size=1, max_size=3), st.sampled_from(["train", "my-split", "test_2"]))
@settings(max_examples=60)
def test_any_question_reads_back_the_same(asked: list[Question], split: str) -> None:
    with memory_folder() as folder:
        with DatasetWriter(folder / "out") as out:
            for question in asked:
                out.add(split, question)
            out.finish()
        dataset = load_dataset(folder / "out")
        assert dataset.splits() == [split]
        assert dataset.questions(split) == asked


@given(st.lists(triples, min_size=1, max_size=4, unique=True), st.booleans())
@settings(max_examples=40)
def test_any_facts_read_back_the_same(facts: list[Triple], own: bool) -> None:
    with memory_folder() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("KGWALK_CACHE", str(folder / "cache"))
        with DatasetWriter(folder / "out") as out:
            out.add("test", Question("q", "?", [], []))
            if own:
                out.add_graph("q", facts)
            else:
                assert out.write_facts(lambda: facts) == len(facts)
            out.finish()
        dataset = load_dataset(folder / "out")
        assert set(dataset.graph().match()) == set(facts)
        assert set(dataset.graph_for(dataset.questions("test")[0]).match()) == set(facts)


def test_a_first_row_like_a_header_is_a_fact(tmp_path: Path) -> None:
    with DatasetWriter(tmp_path / "out") as out:
        out.write_facts(lambda: [Triple("head", "relation", "tail")])
        out.finish()
    assert list(load_dataset(tmp_path / "out").graph().match()) == [Triple("head", "relation", "tail")]


def test_a_question_as_json() -> None:
    question = Question(
        "q", "?", ["a"], ["b"], 1, [[Triple("a", "r", "b", "2005")]], [], "1-hop", {"b": ["Q1"]}, {"level": "easy"}
    )
    row = row_of(question)
    assert row == {
        "id": "q",
        "question": "?",
        "topic_entities": ["a"],
        "answers": ["b"],
        "aliases": {"b": ["Q1"]},
        "hops": 1,
        "gold_paths": [[["a", "r", "b", "2005"]]],
        "evidence": [],
        "type": "1-hop",
        "level": "easy",
    }
    assert question_of(row, "1") == question
    with pytest.raises(KgwalkError, match="'q': `extra` may not hold hops"):
        row_of(Question("q", "?", [], [], extra={"hops": 1}))


def test_several_types_are_one_in_alphabetical_order() -> None:
    assert question_of({**ROW, "type": ["Temp.Ans", "Ordinal"]}, "1").type == "Ordinal+Temp.Ans"


def test_rog_lines_are_read_by_what_they_are_scored_by() -> None:
    row = {"id": "a", "question": "?", "q_entity": ["x"], "answer": ["1889"], "a_entity": []}
    question = question_of(row, "1")
    assert (question.topic_entities, question.answers, question.extra) == (["x"], ["1889"], {"a_entity": []})
    assert question_of({"q_entity": ["x"], "a_entity": ["y"]}, "7").answers == ["y"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hops": "two"}, "expected `hops`, a whole number, got text"),
        ({"gold_paths": [["a", "b", "c"]]}, "a list of .head, relation, tail., got text|three names"),
        ({"gold_paths": [[["a", "b"]]]}, r'in `gold_paths`, three names, got \["a","b"\]'),
        ({"evidence": {}}, "`evidence`, a list of .* got an object"),
        ({"type": 7}, "expected `type`, text, got a number"),
        ({"aliases": {"a": "b"}}, "expected `aliases`, an object with a list of names"),
        ({"answers": None}, "expected `answers`, a list of names, got nothing"),
        ({"answers": ["a", None]}, "expected `answers`, a list of names, got a list with null in it"),
    ],
)
def test_a_line_that_is_no_question(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    (tmp_path / "test.jsonl").write_bytes(lines([ROW, {**ROW, **change}]))
    with pytest.raises(InputError, match=rf"test\.jsonl:2: .*({message})"):
        list(read_questions(tmp_path / "test.jsonl"))


# Opening.


def test_splits_of_every_compression_in_order(tmp_path: Path) -> None:
    folder = films(tmp_path / "films", test=lines([ROW]), extra=lines([ROW]))
    (folder / "dev.jsonl.zst").write_bytes(zstandard.compress(lines([ROW, ROW])))
    (folder / "train.jsonl.gz").write_bytes(gzip.compress(lines([ROW] * 3)))
    (folder / "passages.jsonl").write_text('{"title": "no question"}\n')
    dataset = load_dataset(folder)
    assert (dataset.name, dataset.path) == ("films", folder)
    assert dataset.splits() == ["train", "dev", "test", "extra"]
    assert [len(dataset.questions(split)) for split in dataset.splits()] == [3, 2, 1, 1]
    with pytest.raises(KgwalkError, match="no split 'valid' of films; there are train, dev, test, extra"):
        dataset.questions("valid")
    (folder / "train.jsonl").write_bytes(lines([ROW]))
    with pytest.raises(InputError, match=r"has both train\.jsonl and train\.jsonl\.gz"):
        load_dataset(folder)


def test_the_world_by_name() -> None:
    world = load_dataset("world")
    assert world.splits() == ["train", "dev", "test"]
    (first, *_) = world.questions("test")
    assert first.topic_entities[0] in world.graph_for(first)
    assert stored(world).store.folder.path == world_path()
    assert not cache_folder().exists()


def test_a_fetched_dataset_by_name(tmp_path: Path) -> None:
    films(datasets_folder() / "films")
    films(datasets_folder() / "owner--films")
    assert load_dataset("films").questions("train")[0].id == "q1"
    assert load_dataset("owner/films").name == "owner/films"
    assert known_names() == ["films", "owner--films", "world"]
    with pytest.raises(KgwalkError, match=r"unknown dataset `film`; did you mean `films`\?\n.*kgwalk data get"):
        load_dataset("film")


def test_what_is_no_dataset(tmp_path: Path) -> None:
    with pytest.raises(KgwalkError, match="nowhere does not exist"):
        load_dataset(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    with pytest.raises(KgwalkError, match="is a file; a dataset is a folder"):
        load_dataset(tmp_path / "file")
    with pytest.raises(KgwalkError, match=r"neither questions .* nor a graph"):
        load_dataset(tmp_path)
    (tmp_path / "test.jsonl").write_bytes(lines([ROW]))
    dataset = load_dataset(tmp_path)
    assert not dataset.has_graph()
    with pytest.raises(KgwalkError, match=r"has no graph: put kg\.tsv\.gz"):
        dataset.graph()


def test_a_graph_without_questions(tmp_path: Path) -> None:
    folder = films(tmp_path / "films")
    (folder / "train.jsonl").unlink()
    dataset = load_dataset(folder)
    assert (dataset.splits(), len(stored(dataset))) == ([], len(FILMS))
    with pytest.raises(KgwalkError, match="no split 'train' of films; it has no questions"):
        dataset.questions("train")


# Graphs.


def test_a_graph_is_built_once(tmp_path: Path, cache: Path) -> None:
    folder = films(tmp_path / "films")
    folder.chmod(0o555)
    before = sorted(path.name for path in folder.iterdir())
    steps: list[str] = []
    dataset = load_dataset(folder)
    graph = dataset.graph(lambda what, done, total: steps.append(what))
    assert "reading kg.tsv" in steps
    assert dataset.graph() is graph
    assert graph.neighbors("Big", "directed_by").names == ["Penny Marshall"]
    assert sorted(path.name for path in folder.iterdir()) == before
    (store,) = (cache / "graphs").glob("*.kg")
    made = (store / "kgwalk.json").stat().st_mtime_ns
    again: list[str] = []
    assert load_dataset(folder).graph(lambda what, done, total: again.append(what)) is not graph
    assert again == []
    assert (store / "kgwalk.json").stat().st_mtime_ns == made


def test_one_graph_of_two_datasets_is_one_store_and_a_changed_one_another(tmp_path: Path, cache: Path) -> None:
    paths = [stored(load_dataset(films(tmp_path / name))).store.folder.path for name in "ab"]
    assert paths[0] == paths[1]
    with open(tmp_path / "a" / "kg.tsv", "a") as file:
        file.write("Hook\tdirected_by\tSteven Spielberg\n")
    changed = stored(load_dataset(tmp_path / "a"))
    assert "Hook" in changed
    assert changed.store.folder.path != paths[0]


def test_large_files_are_known_by_size_and_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:

    monkeypatch.setattr(cached, "READ_BYTES", 10)
    folder = films(tmp_path / "films")
    first = stored(load_dataset(folder)).store.folder.path
    assert stored(load_dataset(folder)).store.folder.path == first
    with open(folder / "kg.tsv", "a") as file:
        file.write("Hook\tdirected_by\tSteven Spielberg\n")
    assert "Hook" in load_dataset(folder).graph()


def test_several_at_once_build_it_once(tmp_path: Path, cache: Path) -> None:
    folder = films(tmp_path / "films")
    built: list[str] = []
    paths: list[Path] = []

    def opening() -> None:
        dataset = load_dataset(folder)
        graph = dataset.graph(lambda what, done, total: built.append(what) if what.startswith("reading") else None)
        assert isinstance(graph, StoredGraph)
        paths.append(graph.store.folder.path)

    threads = [threading.Thread(target=opening) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(paths) == 4
    assert len(set(paths)) == 1
    assert built == ["reading kg.tsv"]


def test_a_cache_that_cannot_be_written_to(tmp_path: Path, cache: Path) -> None:
    cache.write_text("a file")
    with pytest.raises(StoreError, match=r"cannot be kept as .*\n  Set KGWALK_CACHE to a folder"):
        load_dataset(films(tmp_path / "films")).graph()


def test_malformed_facts_are_left_out_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = films(tmp_path / "films")
    with open(folder / "kg.tsv", "a") as file:
        file.write("Big\tshown\tParis\t2001..1976\n")
    graph = stored(load_dataset(folder))
    assert len(graph) == len(FILMS)
    assert graph.store.folder.header["skipped"] == 1
    assert "1 malformed row was left out" in caplog.text
    assert "'2001..1976' ends before it starts" in caplog.text


def test_a_fourth_column_is_time(tmp_path: Path) -> None:
    folder = films(tmp_path / "films")
    with open(folder / "kg.tsv", "a") as file:
        file.write("Big\tshown\tParis\t1988-06\n")
    assert load_dataset(folder).graph().neighbors("Big", "shown").times == [["1988-06"]]


def test_names_for_ids(tmp_path: Path) -> None:
    (tmp_path / "kg.tsv").write_text("Q17\tP36\tQ1490\n")
    (tmp_path / "names.tsv").write_text("Q17\tJapan\nQ1490\tTokyo\nP36\tcapital\n")
    graph = load_dataset(tmp_path).graph()
    assert graph.neighbors("Japan", "capital").names == ["Tokyo"]
    assert graph.neighbors("Q17", "P36").names == ["Tokyo"]


def test_a_store_in_the_folder_is_opened_where_it_is(tmp_path: Path, cache: Path) -> None:
    store = store_of(tmp_path, FILMS)
    write_subgraphs(store, [Seeds("q1", ["Contact"])], hops=1)
    (tmp_path / "facts.jsonl").unlink()
    (tmp_path / "test.jsonl").write_bytes(lines([ROW, {**ROW, "id": "q2"}]))
    dataset = load_dataset(tmp_path)
    q1, q2 = dataset.questions("test")
    assert "Big" not in dataset.graph_for(q1)
    assert "Contact" in dataset.graph_for(q1)
    assert "Big" in dataset.graph_for(q2)  # it has no subgraph: the whole graph
    assert not cache.exists()


OWN = [
    {**ROW, "graph": [["Big", "directed_by", "Penny Marshall"]]},
    {**ROW, "id": "q2", "graph": [["Big", "shown", "Paris", "1988"], ["Paris", "country", "France"]]},
    {**ROW, "id": "q3", "graph": []},
]


def test_facts_that_come_with_the_questions(tmp_path: Path) -> None:
    (tmp_path / "test.jsonl").write_bytes(lines(OWN))
    dataset = load_dataset(tmp_path)
    q1, q2, q3 = dataset.questions("test")
    assert "graph" not in q1.extra  # reached by graph_for; held once
    assert next(read_questions(tmp_path / "test.jsonl")).extra["graph"] == OWN[0]["graph"]
    assert len(stored(dataset)) == 3
    assert [t[:3] for t in dataset.graph_for(q1).match()] == [("Big", "directed_by", "Penny Marshall")]
    assert Triple("Big", "shown", "Paris", "1988") in set(dataset.graph_for(q2).match())
    assert list(dataset.graph_for(q3).match()) == []


def test_facts_of_the_questions_and_a_graph_beside_them(tmp_path: Path) -> None:
    folder = films(tmp_path / "films", test=lines(OWN), train=lines([ROW | {"id": "q4"}]))
    dataset = load_dataset(folder)
    q1, *_ = dataset.questions("test")
    (q4,) = dataset.questions("train")
    assert len(list(dataset.graph_for(q1).match())) == 1
    assert dataset.graph_for(q4) is dataset.graph()
    assert len(stored(dataset)) == len(FILMS) + 2


# Writing.


def _written(target: Path, *, replace: bool = False, fail: bool = False) -> None:
    with DatasetWriter(target, replace=replace) as out:
        out.add("test", Question("q", "?", [], []))
        out.add_graph("q", [Triple("a", "r", "b")])
        if fail:
            raise ZeroDivisionError
        out.finish()


def test_a_folder_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        _written(tmp_path / "out", fail=True)
    assert list(tmp_path.iterdir()) == []
    _written(tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["graphs.jsonl.zst", "test.jsonl.gz"]
    with pytest.raises(ZeroDivisionError):
        _written(tmp_path / "out", replace=True, fail=True)
    assert load_dataset(tmp_path / "out").splits() == ["test"]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_nothing_is_written_over_by_accident(tmp_path: Path) -> None:
    _written(tmp_path / "out")
    with pytest.raises(KgwalkError, match=r"out exists; .* replace it with --force"):
        _written(tmp_path / "out")
    (tmp_path / "out" / "old.jsonl").write_text("")
    _written(tmp_path / "out", replace=True)
    assert load_dataset(tmp_path / "out").splits() == ["test"]
    (tmp_path / "out" / "thesis.docx").write_text("")
    with pytest.raises(KgwalkError, match=r"holds thesis\.docx, which is no part of a dataset"):
        _written(tmp_path / "out", replace=True)
    (tmp_path / "empty").mkdir()
    _written(tmp_path / "empty")
    (tmp_path / "file").write_text("")
    with pytest.raises(KgwalkError, match="file is a file, and a dataset is a folder"):
        _written(tmp_path / "file", replace=True)


def test_a_store_is_no_dataset_and_is_not_replaced_by_one(tmp_path: Path) -> None:
    store = store_of(tmp_path, FILMS).store.folder.path
    with pytest.raises(KgwalkError, match=r"is a graph's store, without questions; `kgwalk questions make .* -o DIR`"):
        load_dataset(store)
    with pytest.raises(KgwalkError, match="is a graph's store, so it will not be replaced"):
        _written(store, replace=True)


@pytest.mark.parametrize("split", ["kg", "graphs", "a/b", "", ".hidden", "a.b"])
def test_names_that_no_split_can_have(split: str, tmp_path: Path) -> None:
    with pytest.raises(KgwalkError, match="cannot name a split"), DatasetWriter(tmp_path / "out") as out:
        out.add(split, Question("q", "?", [], []))


def test_graphs_that_are_put_in(tmp_path: Path) -> None:
    store = store_of(tmp_path, FILMS).store.folder.path
    (tmp_path / "facts.txt").write_text("Big\tdirected_by\tPenny Marshall\n")
    (tmp_path / "facts.nt.gz").write_bytes(gzip.compress(b"<urn:x:a> <urn:x:r> <urn:x:b> .\n"))
    for path, name in ((store, "graph.kg"), (tmp_path / "facts.txt", "kg.tsv"), (tmp_path / "facts.nt.gz", "kg.nt.gz")):
        with DatasetWriter(tmp_path / name.replace(".", "-")) as out:
            out.copy_graph(path)
            out.finish()
        target = tmp_path / name.replace(".", "-")
        assert [path.name for path in target.iterdir()] == [name]
        assert len(stored(load_dataset(target))) > 0
    (tmp_path / "facts.docx").write_text("")
    for path, message in ((tmp_path / "facts.docx", "unknown kind of graph"), (tmp_path / "no", "expected a file")):
        with pytest.raises(InputError, match=message), DatasetWriter(tmp_path / "out") as out:
            out.copy_graph(path)


# Tables, and questions without an answer


def _read(tmp_path: Path, *rows: dict[str, object]) -> list[Question]:
    (tmp_path / "test.jsonl").write_text("".join(json.dumps({"question": "?", **row}) + "\n" for row in rows))
    return list(read_questions(tmp_path / "test.jsonl"))


def test_a_table_and_what_has_no_answer_are_read_and_scored(tmp_path: Path) -> None:
    """Of two rows one is said right and one wrong: 2 * 1 / (2 + 2). Where nothing is known, nothing is right."""
    table, nothing = _read(
        tmp_path,
        {"topic_entities": ["IT"], "columns": ["name", "age"], "rows": [["Ann", "40"], ["Bob", "31"]]},
        {"topic_entities": ["Ann"], "answerable": False},
    )
    assert (table.answers, table.extra["answer_kind"]) == (["Ann", "Bob"], "table")
    assert (nothing.answers, nothing.extra["answer_kind"]) == ([], "none")
    assert [question_of(row_of(one), "1") for one in (table, nothing)] == [table, nothing]
    form = AnswerForm("table", columns=["name", "age"], rows=[["Ann", "40"], ["Bob", "30"]])
    said = Episode(table, [], [], "", answers=["Ann", "Bob"], stop=StopReason.answered, form=form)
    assert measure(said)["rows_f1"] == 0.5
    assert measure(Episode(table, [], [], "", answers=["Ann"], stop=StopReason.answered))["rows_f1"] == 0
    refused = Episode(nothing, [], [], "", answers=[], stop=StopReason.answered)
    assert measure(refused)["f1"] == 1
    assert "rows_f1" not in measure(refused)
    guessed = Episode(nothing, [], [], "", answers=["1990"], stop=StopReason.answered)
    assert measure(guessed)["f1"] == 0


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"rows": ["Ann"]}, "expected `rows`, a list of rows"),
        ({"rows": [["Ann", 40]]}, "expected `rows`, lists of texts; write numbers as text"),
        ({"rows": [["Ann", "40", "IT"]], "columns": ["name"]}, "expected a name for each column in `columns`"),
        ({"answerable": "no"}, "expected `answerable`, true or false, got text"),
        ({"answerable": False, "answers": ["x"]}, "it is said not to be `answerable`, and has `answers`"),
    ],
)
def test_tables_that_are_wrong(row: dict[str, object], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        _read(tmp_path, {"topic_entities": ["x"], **row})
