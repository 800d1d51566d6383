"""Rows that survive a cut anywhere, episodes that come back whole, folders that hold one run."""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import awkward_names, memory_folder
from kgwalk.config.run_folder import (
    RowFile,
    RunFolder,
    begin_run,
    continue_run,
    episode_from,
    episode_row,
    open_run,
    question_of,
    read_json,
    read_rows,
    row_of,
    write_json,
)
from kgwalk.types import (
    Answer,
    AnswerForm,
    Call,
    Episode,
    InputError,
    KgwalkError,
    Malformed,
    Question,
    SecondLook,
    StopReason,
    Triple,
    Turn,
)

# --- rows


def test_rows_survive_a_cut_at_every_byte(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    wanted = [{"n": 1}, {"n": 2, "name": "Ünï\n東京"}, {"n": 3, "nested": {"list": [1, [2]]}}]
    with RowFile(path) as rows:
        for row in wanted:
            rows.add(row)
    whole = path.read_bytes()
    ends = [at + 1 for at, byte in enumerate(whole) if byte == ord("\n")]
    assert len(ends) == 3
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        kept = sum(end <= cut for end in ends)
        assert list(read_rows(path)) == wanted[:kept]
        with RowFile(path) as rows:  # goes on after what is whole
            rows.add({"n": 4})
        assert list(read_rows(path)) == [*wanted[:kept], {"n": 4}]


def test_a_cut_line_longer_than_a_block_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"n":1}\n{"n":"' + b"x" * 200_000)
    RowFile(path).close()
    assert path.read_bytes() == b'{"n":1}\n'
    path.write_bytes(b"x" * 200_000)
    RowFile(path).close()
    assert path.read_bytes() == b""


@given(
    st.lists(st.dictionaries(awkward_names, awkward_names | st.integers(-(2**63), 2**63 - 1), max_size=3), max_size=4)
)
def test_rows_are_read_as_they_were_written(wanted: list[dict[str, Any]]) -> None:
    with memory_folder() as folder:
        with RowFile(folder / "new" / "rows.jsonl") as rows:
            for row in wanted:
                rows.add(row)
        assert list(read_rows(folder / "new" / "rows.jsonl")) == wanted


def test_a_row_is_on_disk_when_add_returns(tmp_path: Path) -> None:
    rows = RowFile(tmp_path / "rows.jsonl")
    rows.add({"n": 1})
    assert list(read_rows(tmp_path / "rows.jsonl")) == [{"n": 1}]
    rows.close()


def test_half_a_surrogate_pair_is_no_reason_to_lose_a_row(tmp_path: Path) -> None:
    with RowFile(tmp_path / "rows.jsonl") as rows:
        rows.add({"failure": "the server said \ud83d", "in": [("a\udc00", 1, None)], "\ud800": 1.5})
    replaced = {"failure": "the server said \ufffd", "in": [["a\ufffd", 1, None]], "\ufffd": 1.5}
    assert list(read_rows(tmp_path / "rows.jsonl")) == [replaced]


def test_a_line_that_is_no_row_is_named(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    for text in ("{nonsense}", "[1]"):
        path.write_text(f'{{"n":1}}\n{text}\n{{"n":2}}\n')
        with pytest.raises(InputError, match=r"rows\.jsonl:2: (not JSON|expected an object)"):
            list(read_rows(path))
    assert list(read_rows(tmp_path / "missing.jsonl")) == []


# --- questions and episodes

triples = st.builds(Triple, awkward_names, awkward_names, awkward_names, st.just("") | awkward_names)
few = {"max_size": 3}
names = st.lists(awkward_names, **few)
json_values = st.none() | st.booleans() | st.integers(-(2**31), 2**31) | awkward_names | names
FIELDS = {"id", "question", "topic_entities", "answers", "hops", "gold_paths", "evidence", "type", "aliases"}
questions = st.builds(
    Question,
    id=awkward_names,
    question=awkward_names,
    topic_entities=names,
    answers=names,
    hops=st.none() | st.integers(0, 9),
    gold_paths=st.none() | st.lists(st.lists(triples, **few), **few),
    evidence=st.none() | st.lists(triples, **few),
    type=st.none() | awkward_names,
    aliases=st.dictionaries(awkward_names, names, **few),
    extra=st.dictionaries(
        st.sampled_from(["program", "answer_kind", "q_entity", "answer", "a_entity", "graph"])
        | awkward_names.filter(lambda name: name not in FIELDS),
        json_values,
        **few,
    ),
)
numbers = st.floats(allow_nan=False, allow_infinity=False)
arguments = st.lists(awkward_names | st.integers(0, 999_999), **few).map(tuple)
steps = st.builds(Call, awkward_names, arguments) | st.builds(Answer, arguments) | st.builds(Malformed, awkward_names)
ids = st.lists(st.integers(0, 200_000), **few)
turns = st.builds(
    Turn,
    ids=ids,
    logprobs=st.lists(numbers, **few),
    text=awkward_names,
    step=steps,
    observation=awkward_names,
    observation_ids=ids,
    ok=st.booleans(),
    error=st.none() | awkward_names,
    shown=names,
    counted=st.none() | st.tuples(st.integers(0, 9999), st.integers(0, 9999)),
    seconds=numbers,
)
episodes = st.builds(
    Episode,
    question=questions,
    topics=names,
    prompt_ids=ids,
    prompt=awkward_names,
    turns=st.lists(turns, **few),
    answers=names,
    evidence=st.dictionaries(awkward_names, st.lists(triples, **few), **few),
    stop=st.sampled_from(StopReason),
    failure=st.none() | awkward_names,
    seconds=numbers,
    shown=names,
    seen=st.lists(triples, **few),
    key=awkward_names,
)


@given(questions)
def test_a_question_comes_back_as_it_was(question: Question) -> None:
    assert question_of(orjson.loads(orjson.dumps(row_of(question))), "") == question


@given(episodes)
@settings(max_examples=150)
def test_an_episode_comes_back_as_it_was(episode: Episode) -> None:
    again = episode_from(orjson.loads(orjson.dumps(episode_row(episode))))
    assert again == episode
    assert again.flatten() == episode.flatten()
    assert all(type(one.step) is type(other.step) for one, other in zip(again.turns, episode.turns, strict=True))


def test_every_field_of_an_episode_and_a_turn_is_in_its_row() -> None:
    """A field that is added later must not be forgotten here: rows are written field by field."""
    episode = Episode(Question("q", "?", [], []), [], [], "", [Turn([], [], "", Malformed("x"))])
    seldom = {"form", "looked", "probability"}  # only where there is more than names, another look, a fitted confidence
    assert set(episode_row(episode)) | seldom == set(Episode.__slots__)
    episode.form = AnswerForm("table", True, ["name", "age"], [["Ann", "40"]])
    episode.looked, episode.probability = SecondLook(3, 2), 0.75
    row = episode_row(episode)
    assert set(row) == set(Episode.__slots__)
    again = episode_from(row)
    assert (again.form, again.looked, again.probability) == (episode.form, episode.looked, episode.probability)
    here = {"constraint", "made"}  # a grammar is for the trainer of this process, a set's size for who looks on
    assert set(row["turns"][0]) | here == set(Turn.__slots__)
    assert {*row_of(Question("q", "?", [], [], 1, [], [], "t", {"a": ["b"]}))} | {"extra"} == set(Question.__slots__)


# --- folders

SETTINGS = {"recipe": "kgwalk", "seed": 0, "rollout": {"turn_tokens": 64, "total_tokens": 2048}, "limit": None}


def begin(path: Path, kind: str, wanted: dict[str, Any], *, force: bool = False) -> tuple[RunFolder, bool]:
    """A run that is begun, and let go of again."""
    with begin_run(path, kind, wanted, force=force) as run:
        return run


def begun(path: Path) -> Path:
    """A folder with a run that has written something."""
    begin(path, "eval", SETTINGS)
    (path / "predictions.jsonl").write_text('{"n":1}\n')
    (path / "checkpoints").mkdir()
    (path / "checkpoints" / "one").write_text("x")
    return path


def test_the_same_settings_go_on(tmp_path: Path) -> None:
    first, resumed = begin(tmp_path / "a" / "b", "eval", SETTINGS)
    assert not resumed
    assert first.kind == "eval"
    assert first.about["settings"] == SETTINGS
    assert set(first.about) == {"kind", "settings", "command", "versions", "commit", "machine", "begun"}
    assert read_json(tmp_path / "a" / "b" / "run.json") == first.about
    begun(tmp_path / "a" / "b")
    again, resumed = begin(tmp_path / "a" / "b", "eval", dict(reversed(SETTINGS.items())))
    assert resumed
    assert again == first == open_run(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b" / "checkpoints" / "one").exists()


def test_other_settings_are_refused_by_name(tmp_path: Path) -> None:
    path = begun(tmp_path / "run")
    before = read_json(path / "run.json")
    other = {**SETTINGS, "rollout": {"turn_tokens": 128, "total_tokens": 2048}, "limit": 5}
    with pytest.raises(KgwalkError) as refused:
        begin(path, "eval", other)
    assert str(refused.value) == (
        f"{path} holds another run: `limit` was not set, is 5; `rollout.turn_tokens` was 64, is 128. "
        "Choose another folder with -o, or start over with --force"
    )
    with pytest.raises(KgwalkError, match="its kind is 'eval', not 'train'"):
        begin(path, "train", SETTINGS)
    assert read_json(path / "run.json") == before
    assert (path / "predictions.jsonl").exists()


def test_force_starts_over(tmp_path: Path) -> None:
    path = begun(tmp_path / "run")
    folder, resumed = begin(path, "eval", {**SETTINGS, "seed": 1}, force=True)
    assert not resumed
    assert folder.about["settings"]["seed"] == 1
    assert [inside.name for inside in path.iterdir()] == ["run.json"]
    begun(tmp_path / "run2")
    assert begin(tmp_path / "run2", "eval", SETTINGS, force=True)[1] is False  # the same settings, too
    assert [inside.name for inside in (tmp_path / "run2").iterdir()] == ["run.json"]


def test_a_run_that_wrote_nothing_yet_stands_in_nobodys_way(tmp_path: Path) -> None:
    """As after a model's name that was wrong: the corrected command needs no --force."""
    begin(tmp_path / "run", "eval", SETTINGS)
    (tmp_path / "run" / "predictions.jsonl").touch()
    folder, resumed = begin(tmp_path / "run", "eval", {**SETTINGS, "seed": 2})
    assert (resumed, folder.about["settings"]["seed"]) == (False, 2)


def test_a_run_that_is_refused_leaves_nothing(tmp_path: Path) -> None:
    def refuse(path: Path, result: str) -> None:
        def run() -> None:
            with begin_run(path, "eval", SETTINGS) as (folder, _), folder.unless_refused():
                folder.file("predictions.jsonl").write_text(result)
                raise KgwalkError("no graph")

        with pytest.raises(KgwalkError, match="no graph"):
            run()

    refuse(tmp_path / "runs" / "a", "")
    assert not (tmp_path / "runs").exists()
    (tmp_path / "mine").mkdir()
    refuse(tmp_path / "mine", "")
    assert list((tmp_path / "mine").iterdir()) == []  # a folder that was there stays
    refuse(tmp_path / "runs" / "b", "{}\n")
    assert {one.name for one in (tmp_path / "runs" / "b").iterdir()} == {"run.json", "predictions.jsonl"}
    refuse(tmp_path / "runs" / "c", "")
    assert [one.name for one in (tmp_path / "runs").iterdir()] == ["b"]


def test_killed_while_beginning(tmp_path: Path) -> None:
    path = tmp_path / "run"
    path.mkdir()
    (path / ".run.json.partial").write_text('{"kind"')
    assert begin(path, "eval", SETTINGS)[1] is False
    assert [inside.name for inside in path.iterdir()] == ["run.json"]


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    thesis = tmp_path / "thesis"
    thesis.mkdir()
    (thesis / "chapter1.tex").write_text("years of work")
    for force in (False, True):
        with pytest.raises(KgwalkError, match="is not empty and holds no run; choose another folder"):
            begin(thesis, "eval", SETTINGS, force=force)
    assert (thesis / "chapter1.tex").read_text() == "years of work"
    with pytest.raises(KgwalkError, match="is a file; give a folder"):
        begin(thesis / "chapter1.tex", "eval", SETTINGS)
    with pytest.raises(KgwalkError, match=r"cannot write into .*chapter1.tex/run: Not a directory"):
        begin(thesis / "chapter1.tex" / "run", "eval", SETTINGS)
    with pytest.raises(KgwalkError, match=r"holds no run: there is no run\.json"):
        open_run(thesis)
    for text, why in (("{", "is not JSON"), ("[]", "is not of a run"), ('{"kind":"eval"}', "is not of a run")):
        (thesis / "run.json").write_text(text)
        with pytest.raises(KgwalkError, match=why):
            begin(thesis, "eval", SETTINGS, force=True)
    assert (thesis / "chapter1.tex").exists()


def _hold(path: Path, held: Any, end: Any) -> None:
    with continue_run(path):
        held.set()
        end.wait(20)


def test_one_process_at_a_time(tmp_path: Path) -> None:
    path = begun(tmp_path / "run")
    context = multiprocessing.get_context("spawn")
    held, end = context.Event(), context.Event()
    other = context.Process(target=_hold, args=(path, held, end))
    other.start()
    try:
        assert held.wait(20)
        with pytest.raises(KgwalkError, match="another process is writing into"), continue_run(path):
            pass
        with pytest.raises(KgwalkError, match="another process is writing into"):
            begin(path, "eval", SETTINGS, force=True)
        assert (path / "predictions.jsonl").exists()
    finally:
        other.kill()  # a dead one's lock is free
        other.join()
    with continue_run(path):
        pass


def test_a_file_is_whole_or_not_there(tmp_path: Path) -> None:
    write_json(tmp_path / "x.json", {"a": 1})
    with pytest.raises(TypeError):
        write_json(tmp_path / "x.json", {"a": object()})
    assert read_json(tmp_path / "x.json") == {"a": 1}
    with pytest.raises(KgwalkError, match="is missing; the run did not get so far"):
        read_json(tmp_path / "y.json")
