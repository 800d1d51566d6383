"""`kgwalk questions make`: a dataset folder that passes its checks; and rewriting by a scripted model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
from typer.testing import CliRunner

from kgwalk.cli.main import make_app
from kgwalk.cli.output import first_of
from kgwalk.cli.questions import example, shares_of
from kgwalk.data.dataset import load_dataset
from kgwalk.evaluation.check import check
from kgwalk.kg.names import normalise
from kgwalk.llm.engine import Request, ScriptedEngine
from kgwalk.questions.rewrite import one_line, reason_against, rewrite
from kgwalk.types import EngineError, InputError, KgwalkError, Question


def run(*args: object) -> Any:
    return CliRunner().invoke(make_app("questions"), ["questions", "make", *map(str, args)])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("made") / "world-made"
    done = run("world", "-o", folder, "--count", 150, "--link", "--json")
    assert done.exit_code == 0, done.output
    return folder, orjson.loads(done.stdout)


def test_the_folder_is_a_dataset_without_errors(made: tuple[Path, dict[str, Any]]) -> None:
    folder, report = made
    dataset = load_dataset(folder)
    assert dataset.splits() == ["train", "dev", "test"]
    assert sum(report["questions"].values()) == 150
    checked = check(dataset)
    assert checked.ok
    kinds = {finding.kind for finding in checked.findings}
    assert kinds <= {"answers_are_values", "same_text", "leak_of_text"}
    assert "leak" not in kinds


def test_no_text_and_no_program_is_in_two_splits(made: tuple[Path, dict[str, Any]]) -> None:
    dataset = load_dataset(made[0])
    texts: dict[str, str] = {}
    for split in dataset.splits():
        for question in dataset.questions(split):
            asked = f"{question.topic_entities} {question.extra['program']}"
            assert texts.setdefault(asked, split) == split
            assert texts.setdefault(normalise(question.question), split) == split
            assert all(topic in question.question for topic in question.topic_entities)


def test_the_report_counts_everything(made: tuple[Path, dict[str, Any]]) -> None:
    _, report = made
    assert sum(report["by"]["pattern"].values()) == sum(report["by"]["hops"].values()) == 150
    assert sum(report["by"]["answers"].values()) == 150
    assert report["thrown"]["a step changes nothing"] > 0
    assert set(report["examples"][0]) == {"question", "answers", "left_out", "type"}
    wanted = {question.question: question.answers for question in _all(made[0])}
    for one in report["examples"]:
        assert len(one["answers"]) + one["left_out"] == len(wanted[one["question"]])


def _all(folder: Path) -> list[Question]:
    return [one for split in ("train", "dev", "test") for one in load_dataset(folder).questions(split)]


def test_answers_that_are_left_out_are_counted() -> None:
    assert first_of(["France", "Spain", "Italy"], 2) == "France, Spain, Italy, ... (+2)"
    assert first_of(["France", "Spain"], 0) == "France, Spain"
    assert example("which?", list("abcde")) == {"question": "which?", "answers": ["a", "b", "c"], "left_out": 2}


def test_malformed_rows_stop_it_unless_they_are_to_be_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("KGWALK_CACHE", str(tmp_path / "cache"))
    facts = [f"Film {n}\tdirected_by\tDirector {n % 5}\n" for n in range(20)]
    source = tmp_path / "facts.tsv"
    source.write_text("".join([*facts, "no fact\n"]))
    for _ in range(2):  # also where a store without the row lies in the cache, from the skipping below
        stopped = run(source, "-o", tmp_path / "made", "-n", 20)
        assert isinstance(stopped.exception, InputError)
        assert f"{source}:21: expected head<TAB>relation<TAB>tail" in str(stopped.exception)
        assert "the line: no fact\n  give --on-error skip" in str(stopped.exception)
        assert not (tmp_path / "made").exists()
        skipped = run(source, "-o", tmp_path / "skipped", "-n", 20, "--on-error", "skip", "--force")
        assert skipped.exit_code == 0, skipped.output
    assert f"{source}: 1 malformed row was left out" in caplog.text


def test_a_file_of_facts_with_some_patterns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGWALK_CACHE", str(tmp_path / "cache"))
    facts = [f"Film {n}\tdirected_by\tDirector {n % 5}\nFilm {n}\tstarred_actors\tActor {n % 7}\n" for n in range(40)]
    (tmp_path / "facts.tsv").write_text("".join(facts))
    folder = tmp_path / "made"
    done = run(tmp_path / "facts.tsv", "-o", folder, "-n", 60, "--patterns", "chain=0.7,count", "--hops", "1,2", "-q")
    assert done.exit_code == 0, done.output
    assert "60 questions" in done.stdout
    questions = [one for split in ("train", "dev", "test") for one in load_dataset(folder).questions(split)]
    assert {one.type for one in questions} == {"chain", "count"}
    assert {one.hops for one in questions} == {1, 2}
    again = run(tmp_path / "facts.tsv", "-o", folder)
    assert "replace it with --force" in str(again.exception)
    onto_a_file = run("world", "-o", tmp_path / "facts.tsv", "--force")
    assert "facts.tsv is a file, and a dataset is a folder" in str(onto_a_file.exception)
    (tmp_path / "kg.sh").write_text("")
    assert "`kgwalk kg build` has --format" in str(run(tmp_path / "kg.sh", "-o", tmp_path / "other").exception)


def test_what_held_out_scores_will_not_cover_is_a_note(tmp_path: Path) -> None:
    done = run("world", "-o", tmp_path / "one", "--count", 1, "--link", "-q")
    assert done.exit_code == 0, done.output
    assert "note: no questions in dev and test: there are too few to hold some out" in done.stderr
    notes = orjson.loads(run("world", "-o", tmp_path / "again", "--count", 1, "--link", "--json").stdout)["notes"]
    assert notes == ["no questions in dev and test: there are too few to hold some out"]


def test_a_target_is_refused_before_the_graph_is_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run(tmp_path / "nowhere.kg", "-o", tmp_path / "file", "--force")
    assert "file is a file" in str(done.exception)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--patterns", "chian"], "did you mean `chain`"),
        (["--hops", "5"], "give some of 1 to 4"),
        (["--hops", "7,1"], "hops 7, 1: give some of 1 to 4"),
        (["--patterns", ""], "--patterns is empty"),
        (["--hops", ","], "--hops is empty"),
        (["--hops", "two"], "'two' is no number of hops"),
        (["--patterns", "chain=much"], "'much' is no share"),
        (["--rewrite", "apo:x"], "did you mean `api`"),
        (["--rewrite", "api"], "needs the name of a model"),
    ],
)
def test_wrong_usage_says_what_would_be_right(tmp_path: Path, options: list[str], said: str) -> None:
    done = run("world", "-o", tmp_path / "made", *options)
    assert isinstance(done.exception, KgwalkError)
    assert said in str(done.exception)
    assert not (tmp_path / "made").exists()


def test_shares() -> None:
    assert shares_of("chain=0.5, count") == {"chain": 0.5, "count": 1.0}


# Rewriting

BIG = Question("1", "Who directed Big?", ["Big"], ["Penny Marshall"])
YEAR = Question(
    "2",
    "Which films of Tom Hanks came out after 1990?",
    ["Tom Hanks"],
    ["Cast Away"],
    extra={"program": [["head_entities", "$1", "starred_actors"], ["filter", "$2", "release_year", ">", "1990"]]},
)


def test_a_rewritten_question_keeps_its_names_and_values() -> None:
    assert reason_against(BIG, "Big was directed by whom?") is None
    assert reason_against(BIG, "Who was its director?") == "a name or value is missing"
    assert reason_against(YEAR, "What did Tom Hanks play in, later?") == "a name or value is missing"
    assert reason_against(BIG, "Did Penny Marshall direct Big?") == "it tells the answer"
    assert reason_against(BIG, "Big\nwas directed by whom?") == "not one line of text"
    assert reason_against(BIG, "Big? " * 40) == "too long or too short"


def test_the_question_in_a_reply() -> None:
    assert one_line('Question: "Who made Big?"\n') == "Who made Big?"
    assert one_line(" Who made Big? ") == "Who made Big?"


def test_rewriting_by_a_scripted_model() -> None:
    same = Question("3", "Who wrote Big?", ["Big"], ["Gary Ross"])
    lost = Question("4", "Who starred in Big?", ["Big"], ["Tom Hanks"])
    replies = {
        BIG.question: ["By whom was Big directed?"],
        YEAR.question: ['"After 1990, which Tom Hanks films came out?"'],
        same.question: ["by whom was big directed"],  # the name is spelt otherwise
    }
    seen: list[int] = []
    written, counts = rewrite(
        [BIG, YEAR, same, lost], ScriptedEngine(replies), progress=lambda what, done, total: seen.append(done)
    )
    assert [one.question for one in written] == [
        "By whom was Big directed?",
        "After 1990, which Tom Hanks films came out?",
        same.question,
        lost.question,
    ]
    assert written[0].extra["rewritten_from"] == BIG.question
    assert counts == {"rewritten": 2, "a name or value is missing": 1, "the engine failed": 1}
    assert seen == [1, 2, 3, 4]


def test_two_questions_are_not_given_one_text() -> None:
    other = Question("5", "What person directed Big?", ["Big"], ["Penny Marshall"])
    engine = ScriptedEngine(["Name the director of Big."])
    written, counts = rewrite([BIG, other], engine)
    assert [one.question for one in written] == ["Name the director of Big.", other.question]
    assert counts["the text of another question, or the same again"] == 1


def test_an_engine_that_never_answers_is_an_error() -> None:
    def fails(request: Request) -> str:
        raise EngineError("no connection")

    with pytest.raises(KgwalkError, match="no question could be rewritten; the first time: no connection"):
        rewrite([BIG, YEAR], ScriptedEngine(fails))
