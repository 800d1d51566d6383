"""The walks of a run: filters, steps, rewards on each turn, and files that grow or are damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from films_questions import write_films
from kgwalk.config.run_folder import RowFile, episode_row
from kgwalk.evaluation.recorded_walks import RecordedWalks, WalkFilter
from kgwalk.types import InputError
from run_folders import evaluated, trained, walk


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return trained(tmp_path / "run") / "grpo" / "episodes.jsonl"


def test_the_walks_of_a_training(path: Path) -> None:
    walks = RecordedWalks(path)
    walks.read()
    assert walks.all_read
    assert walks.steps() == [1, 2, 3]
    assert walks.counts(WalkFilter()) == {
        "show": {"all": 6, "wrong": 3, "right": 3, "malformed": 3, "failed_call": 0, "no_answer": 0},
        "hops": {"1": 3, "2": 3},
        "kind": {"entity": 6},
        "type": {},
        "error": {},
    }
    (found,) = walks.found(WalkFilter(show="wrong", step=2))
    assert found == walks.found(WalkFilter(show="malformed", hops="2", text="STEP 2"))[0]
    assert walks.found(WalkFilter(show="right", hops="2")) == []
    shown = walks.shown(*found)
    assert (shown["step"], shown["gold"], shown["answers"], shown["right"], shown["f1"]) == (
        2,
        ["Ann"],
        ["Cid"],
        False,
        0.0,
    )
    assert (shown["reward"], shown["rewards"], shown["trained"]) == (0.0, {"f1": 0.5}, True)
    first, second, last = shown["turns"]
    assert (first["call"], first["observation"], first["tokens"]) == ('tail_entities($1, "likes")', "$2 = 1: Ann", 1)
    assert [(turn["reward"], turn["advantage"]) for turn in shown["turns"]] == [(0.25, 1.5), (0.25, -0.5), (0.25, -1.0)]
    assert (second["ok"], second["malformed"], last["answer"]) == (False, "no call and no answer", True)


def test_the_walks_of_an_evaluation(tmp_path: Path) -> None:
    folder = evaluated(write_films(tmp_path / "films"), tmp_path / "eval")
    walks = RecordedWalks(folder / "predictions.jsonl")
    walks.read()
    counts = walks.counts(WalkFilter())
    assert (counts["show"]["all"], counts["show"]["right"], sum(counts["error"].values())) == (5, 1, 4)
    (right,) = walks.found(WalkFilter(show="right"))
    shown = walks.shown(*right)
    assert (shown["id"], shown["f1"], shown["trained"], shown["reward"], shown["error"]) == (
        "big",
        1.0,
        None,
        None,
        None,
    )
    assert shown["evidence"] == {"Penny Marshall": [["Big", "directed_by", "Penny Marshall"]]}
    assert len(walks.found(WalkFilter(number=shown["number"]))) == 1


def test_it_reads_on_and_no_more_than_is_asked_for(path: Path) -> None:
    walks = RecordedWalks(path)
    walks.read(most=1)
    assert (len(walks.marks), walks.all_read) == (1, False)
    walks.read()
    assert len(walks.marks) == 6
    with RowFile(path) as rows:
        rows.add({"step": 4, "episode": episode_row(walk("more?", []))})
    with path.open("ab") as file:
        file.write(b'{"step": 5, "episode"')
    walks.read()
    assert walks.all_read
    assert walks.steps() == [1, 2, 3, 4]
    (last,) = walks.found(WalkFilter(show="no_answer"))
    assert walks.shown(*last)["trained"] is None
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:2]))
    walks.read()
    assert walks.steps() == [1]


@pytest.mark.parametrize(
    "line", [b"{\n", b"[]\n", b'{"episode": 5}\n', b'{"step": "1", "episode": {"question": {}, "turns": []}}\n']
)
def test_a_damaged_row_is_named(path: Path, line: bytes) -> None:
    with path.open("ab") as file:
        file.write(line)
    with pytest.raises(InputError, match=r"episodes.jsonl:7"):
        RecordedWalks(path).read()


def test_an_episode_that_lacks_a_part_is_named_when_it_is_shown(path: Path) -> None:
    path.write_bytes(b'{"step": 1, "episode": {"question": {}, "turns": []}}\n')
    walks = RecordedWalks(path)
    walks.read()
    with pytest.raises(InputError, match="there is no `topics`"):
        walks.shown(*walks.found(WalkFilter())[0])
