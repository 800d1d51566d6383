"""Evaluations whose every figure can be worked out by hand, and what becomes of them when they are run again."""

from __future__ import annotations

import asyncio
import doctest
import importlib
import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest

import kgwalk
from films_questions import HANKS, QUESTIONS, RIGHT, TURNS, engine, write_films
from kgwalk.config.run_folder import begin_run, episode_from, open_run, read_rows
from kgwalk.evaluation.evaluate import check_judge, chosen, evaluate, groups, judged, scored
from kgwalk.evaluation.report import _order, compare, read_predictions, summarise
from kgwalk.evaluation.web_facts.propose import propose
from kgwalk.llm.engine import Generation, Request, ScriptedEngine
from kgwalk.score.answers import gold_of
from kgwalk.score.judge.judge import Judge, reply_to
from kgwalk.types import Answer, Episode, KgwalkError, Question, StopReason, Turn

approx = pytest.approx


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGWALK_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def films(tmp_path: Path) -> Path:
    return write_films(tmp_path / "films")


def rows_in(folder: Path) -> list[dict[str, Any]]:
    return list(read_rows(folder / "predictions.jsonl"))


# --- the table, by hand
#
#            F1   P    R    first  set  any  shown  turns
#  big       1    1    1    1      1    1    1      2
#  hanks     2/3  1    1/2  1      0    1    1      3     one of two answers
#  year      2/3  1/2  1    0      0    1    0      1     one too many, and that one first
#  zemeckis  0    0    0    0      0    0    0      0     the engine failed
#  star      0    0    0    0      0    0    0      3     three malformed turns


def test_the_table_by_hand(films: Path, tmp_path: Path) -> None:
    report = evaluate("kgwalk", films, engine=engine(), values=[TURNS], out=tmp_path / "run")
    keys = ["n", "runs", "metrics", "counts", "intervals", "clusters", "by", "errors", "stops", "calibration", "folder"]
    assert list(report) == keys
    assert (report["calibration"]["n"], report["calibration"]["right"]) == (3, approx(1 / 3))  # of those answered
    assert (report["n"], report["runs"], report["folder"]) == (5, 1, str(tmp_path / "run"))
    metrics = report["metrics"]
    assert metrics["f1"] == approx((1 + 2 / 3 + 2 / 3) / 5)
    assert (metrics["precision"], metrics["recall"]) == (approx(2.5 / 5), approx(2.5 / 5))
    assert (metrics["hits_at_1"], metrics["exact_set"], metrics["hit_any"]) == (approx(0.4), approx(0.2), approx(0.6))
    assert (metrics["retrieval_rate"], metrics["turns"], metrics["calls"]) == (approx(0.4), approx(9 / 5), approx(0.6))
    assert (metrics["answered"], metrics["failed"], metrics["malformed"]) == (approx(0.6), approx(0.2), approx(0.6))
    assert "accuracy" not in metrics
    # of the four questions with gold facts: 1 of 1, 4 of 4, none, none
    assert metrics["exploration_coverage"] == approx(2 / 4)
    assert (report["counts"]["exploration_coverage"], report["counts"]["exploration_efficiency"]) == (4, 2)
    assert "f1" not in report["counts"]  # over all
    assert open_run(tmp_path / "run").read("metrics.json") == report


def test_the_tables_by_hop_type_and_number_of_answers(films: Path) -> None:
    by = evaluate("kgwalk", films, engine=engine(), values=[TURNS])["by"]
    assert {table: list(lines) for table, lines in by.items()} == {
        "hops": ["1", "2", "not known"],
        "type": ["long", "plain"],
        "answers": ["1", "2-4"],
        "confidence": ["0-20"],
    }
    one, two = by["hops"]["1"], by["hops"]["2"]
    assert (one["n"], one["f1"], one["turns"]) == (3, approx((1 + 2 / 3 + 0) / 3), approx(1.0))  # zemeckis counts
    assert (two["n"], two["f1"], two["precision"], two["recall"]) == (1, approx(2 / 3), 1.0, 0.5)
    assert (by["hops"]["not known"]["n"], by["hops"]["not known"]["f1"]) == (1, 0.0)
    assert (by["type"]["plain"]["n"], by["type"]["plain"]["f1"]) == (2, approx(5 / 6))
    assert (by["answers"]["2-4"]["n"], by["answers"]["2-4"]["hits_at_1"]) == (2, 0.5)


def test_failures_stay_in_the_denominator(films: Path) -> None:
    report = evaluate("kgwalk", films, engine=ScriptedEngine([]), values=[TURNS])
    assert report["n"] == 5
    assert report["stops"] == {"engine_failed": {"n": 5, "share": 1.0}}
    assert report["errors"] == {"unassigned": {"n": 5, "share": 1.0}}
    assert report["metrics"]["failed"] == 1.0
    assert [report["metrics"][name] for name in ("f1", "recall", "hit_any", "hit_substring", "answered")] == [0.0] * 5
    assert report["intervals"]["f1"] == [0.0, 0.0]


def test_errors_and_stops(films: Path) -> None:
    report = evaluate("kgwalk", films, engine=engine(), values=[TURNS])
    # hanks and year had, or were shown, all that is right; the shares are of the four that are wrong
    assert report["errors"] == {
        "reasoning": {"n": 2, "share": 0.5},
        "invalid_action": {"n": 1, "share": 0.25},
        "unassigned": {"n": 1, "share": 0.25},
    }
    assert list(report["errors"]) == ["reasoning", "invalid_action", "unassigned"]
    assert report["stops"] == {
        "answered": {"n": 3, "share": 0.6},
        "engine_failed": {"n": 1, "share": 0.2},
        "turns": {"n": 1, "share": 0.2},
    }


def test_questions_of_one_topic_are_one_cluster(films: Path, tmp_path: Path) -> None:
    """big and star are both asked of Big: four clusters. A row that names none, as of an older version, is its own."""
    report = evaluate("kgwalk", films, engine=engine(), values=[TURNS], out=tmp_path / "run")
    clusters = report["clusters"]
    assert (clusters["n"], clusters["largest"]) == (4, 2)
    assert set(clusters["intervals"]) == set(report["intervals"])
    rows = list(read_predictions(tmp_path / "run" / "predictions.jsonl").values())
    assert sorted(row["cluster"] for row in rows)[:2] == ["topics Big", "topics Big"]
    assert "clusters" not in summarise([{key: row[key] for key in row if key != "cluster"} for row in rows])


def test_a_cluster_is_resampled_whole() -> None:
    """Ten questions from one seed are right, ten from another wrong: by question the mean is 0.5 +- 2 * 0.11, by
    cluster it may be anything from 0 to 1."""
    base: dict[str, Any] = {"run": 0, "error": None, "stop": "answered", "groups": {}}
    metrics = dict.fromkeys(
        ("f1", "precision", "recall", "hits_at_1", "hit_any", "exact_set", "retrieval_rate", "answered"), 0.0
    )
    rows = [
        base | {"number": at, "cluster": f"seed {at % 2}", "metrics": metrics | {"f1": float(at % 2)}}
        for at in range(20)
    ]
    report = summarise(rows)
    low, high = report["intervals"]["f1"]
    assert 0.25 <= low < 0.35
    assert 0.65 < high <= 0.75
    assert report["clusters"]["intervals"]["f1"] == [0.0, 1.0]
    assert (report["clusters"]["n"], report["clusters"]["largest"]) == (2, 10)


def test_intervals_hold_their_means(films: Path) -> None:
    report = evaluate("kgwalk", films, engine=engine(), values=[TURNS])
    wanted = {"f1", "precision", "recall", "hits_at_1", "hit_any", "exact_set", "retrieval_rate"}
    assert set(report["intervals"]) == wanted
    for name, (low, high) in report["intervals"].items():
        assert 0 <= low < report["metrics"][name] < high <= 1


def test_a_row_has_the_scores_and_the_whole_episode(films: Path, tmp_path: Path) -> None:
    evaluate("kgwalk", films, engine=engine(), values=[TURNS], out=tmp_path / "run")
    rows = {row["id"]: row for row in rows_in(tmp_path / "run")}
    row = rows["hanks"]
    assert (row["number"], row["run"], row["gold"]) == (1, 0, ["Penny Marshall", "Robert Zemeckis"])
    assert (row["answers"], row["error"], row["stop"]) == (["Robert Zemeckis"], "reasoning", "answered")
    assert row["groups"] == {"hops": "2", "type": "long", "answers": "2-4", "confidence": "0-20"}
    assert row["metrics"]["f1"] == approx(2 / 3)
    episode = episode_from(row["episode"])
    assert episode.question.gold_paths is not None
    assert [turn.text for turn in episode.turns][:2] == RIGHT[:2]
    assert episode.evidence == {
        "Robert Zemeckis": [
            ("Cast Away", "starred_actors", "Tom Hanks", ""),
            ("Cast Away", "directed_by", "Robert Zemeckis", ""),
        ]
    }
    assert episode_from(rows["zemeckis"]["episode"]).failure == "the script has 0 turns and was asked for turn 1"


def test_names_that_the_graph_tells_apart_are_wrong_in_both_numbers_and_class() -> None:
    """The class of an error asks the same graph as the scores: "big" and "Big" may both be in it."""
    question = Question("q", "?", ["x"], ["Big"], gold_paths=None)
    episode = Episode(question, ["x"], [], "", answers=["big"], stop=StopReason.answered)
    row = scored(episode, {"big", "Big"})  # type: ignore[arg-type]
    assert (row["metrics"]["f1"], row["error"]) == (0.0, "unassigned")
    row = scored(episode, None)
    assert (row["metrics"]["f1"], row["error"]) == (1.0, None)


def test_a_table_does_not_depend_on_the_order_of_rows(films: Path, tmp_path: Path) -> None:
    report = evaluate("kgwalk", films, engine=engine(), values=[TURNS, "eval.runs=2"], out=tmp_path / "run")
    rows = rows_in(tmp_path / "run")
    for seed in range(5):
        random.Random(seed).shuffle(rows)
        assert summarise(rows) | {"folder": report["folder"]} == report
        assert orjson.dumps(summarise(rows)["errors"]) == orjson.dumps(report["errors"])


def test_the_lines_of_a_table_are_in_order() -> None:
    lines = ["not known", "10+", "2-4", "1", "5-9", "²", "1-hop", "9" * 5000, "zebra"]
    assert sorted(lines, key=_order) == ["1", "1-hop", "2-4", "5-9", "10+", "9" * 5000, "not known", "zebra", "²"]


def test_answers_are_counted_as_entities() -> None:
    """An id beside a name is one answer, not two."""

    def line(question: Question) -> str:
        return dict(groups(question, gold_of(question)))["answers"]

    assert line(Question("q", "?", [], ["Paris", "m.05qtj"], aliases={"Paris": ["m.05qtj"]})) == "1"
    assert [line(Question("q", "?", [], [str(n) for n in range(count)])) for count in (0, 1, 2, 4, 5, 9, 10)] == [
        *("0", "1", "2-4", "2-4", "5-9", "5-9", "10+")
    ]


# --- several runs


def by_run(said: dict[str, Sequence[str]]) -> ScriptedEngine:
    """For each question what its runs answer at once."""

    def script(request: Request) -> str:
        asked = next(message.content for message in request.messages if message.role == "user")
        answers = next(answers for text, answers in said.items() if text in asked)
        return answers[int(request.session.rsplit(":", 1)[1])]

    return ScriptedEngine(script)


def answer(*names: str) -> str:
    return f"<answer>{orjson.dumps(list(names)).decode()}</answer>"


def test_several_runs_by_hand(tmp_path: Path) -> None:
    """
    big:   M, Z, M: united M Z (P 1/2, R 1), agreed M; runs F1 1 0 1, all right 2 of 3
    hanks: M, Z, no answer: united M Z (right), agreed nothing; runs F1 2/3 2/3 0, all right 0 of 3
    """
    films = write_films(tmp_path / "films", QUESTIONS[:2])
    marshall, zemeckis = answer("Penny Marshall"), answer("Robert Zemeckis")
    said = {"who directed Big?": [marshall, zemeckis, marshall], HANKS: [marshall, zemeckis, "words"]}
    report = evaluate("kgwalk", films, engine=by_run(said), values=[TURNS, "eval.runs=3"])
    assert (report["n"], report["runs"]) == (2, 3)
    assert sum(entry["n"] for entry in report["stops"].values()) == 6
    assert report["metrics"]["f1"] == approx((2 / 3 + 4 / 9) / 2)
    assert report["metrics"]["answered"] == approx((1 + 2 / 3) / 2)
    several = report["several"]
    assert several["union_f1"] == approx((2 / 3 + 1) / 2)
    assert (several["union_precision"], several["union_recall"]) == (approx(0.75), 1.0)
    assert several["union_hits_at_1"] == 1.0  # of equal votes the one seen first: M, which is right
    assert (several["majority_f1"], several["majority_exact_set"]) == (0.5, 0.5)
    assert several["oracle_max_f1"] == approx((1 + 2 / 3) / 2)
    assert several["oracle_max_hit_any"] == 1.0
    assert several["pass@1"] == approx((2 / 3 + 0) / 2)
    assert several["pass@3"] == approx((1 + 0) / 2)


def test_several_runs_of_yes_or_no(tmp_path: Path) -> None:
    """ "Yes" is "true", also when runs are united."""
    row = {"id": "b", "question": "is it so?", "topic_entities": ["Big"], "answers": ["true"], "answer_kind": "boolean"}
    films = write_films(tmp_path / "films", [row])
    yes_no = by_run({"is it so?": [answer("Yes"), answer("no"), answer("yes.")]})
    report = evaluate("kgwalk", films, engine=yes_no, values=[TURNS, "eval.runs=3"])
    assert report["metrics"]["accuracy"] == approx(2 / 3)
    assert "accuracy" in report["intervals"]
    assert (report["several"]["majority_f1"], report["several"]["union_recall"]) == (1.0, 1.0)


def test_no_answer_is_not_the_answer_nothing(tmp_path: Path) -> None:
    row = {"id": "n", "question": "who is nobody?", "topic_entities": ["Big"], "answers": []}
    films = write_films(tmp_path / "films", [row])
    for said, right in ((["words", "words"], 0.0), ([answer(), "words"], 1.0)):
        report = evaluate("kgwalk", films, engine=by_run({"nobody": said}), values=["protocol.turns=1", "eval.runs=2"])
        assert (report["several"]["union_f1"], report["several"]["majority_f1"]) == (right, right)
        assert report["several"]["oracle_max_f1"] == right


class Seen(ScriptedEngine):
    """Keeps what it was asked for."""

    def __init__(self) -> None:
        super().__init__(lambda request: answer("x"))
        self.seen: list[Request] = []

    async def generate(self, request: Request) -> Generation:
        self.seen.append(request)
        return await super().generate(request)


def test_one_run_is_greedy_and_several_are_sampled(films: Path) -> None:
    drawn: dict[str, list[tuple[float, int | None]]] = {}
    for name, values in {"one": [], "two": ["eval.runs=2"], "cold": ["eval.runs=2", "eval.temperature=0.5"]}.items():
        seen = Seen()
        evaluate("kgwalk", films, engine=seen, values=values)
        drawn[name] = [(request.sampling.temperature, request.sampling.seed) for request in seen.seen]
    assert [{temperature for temperature, _ in found} for found in drawn.values()] == [{0.0}, {1.0}, {0.5}]
    assert len({seed for _, seed in drawn["two"]}) == 10  # a seed for each episode
    assert [seed for _, seed in drawn["two"]] == [seed for _, seed in drawn["cold"]]


def test_wrong_settings_are_named(films: Path) -> None:
    for values, why in (
        (["eval.runs=0"], "`eval.runs` must be at least 1, not 0"),
        (["eval.runs=many"], "`eval.runs` must be a whole number, not 'many'"),
        (["eval.temperature=-1"], "`eval.temperature` must be at least 0"),
        (["eval.top_p=2"], "`eval.top_p` must be at most 1"),
        (["eval.run=2"], "unknown setting `eval.run`; did you mean `eval.runs`"),
        (["protocol.turn=2"], "unknown setting `protocol.turn`; did you mean `protocol.turns`"),
        (["rollout.turn_token=2"], "unknown setting `rollout.turn_token`"),
    ):
        with pytest.raises(KgwalkError, match=why):
            evaluate("kgwalk", films, engine="no such engine", values=values)
    with pytest.raises(KgwalkError, match="limit must be at least 1, not 0"):
        evaluate("oracle", films, limit=0)


# --- the sample


def test_a_sample_is_the_same_for_all_policies(tmp_path: Path) -> None:
    numbers: dict[str, list[int]] = {}
    for recipe in ("oracle", "random-walk"):
        evaluate(recipe, "world", limit=20, seed=3, out=tmp_path / recipe)
        numbers[recipe] = sorted({row["number"] for row in rows_in(tmp_path / recipe)})
    assert len(numbers["oracle"]) == 20
    assert numbers["oracle"] == numbers["random-walk"]


def test_a_sample_is_seeded_and_of_the_whole_split() -> None:
    questions = [Question(str(n), "?", [], []) for n in range(1000)]
    sample = chosen(questions, 100, 0)
    assert sample == chosen(questions, 100, 0) != chosen(questions, 100, 1)
    assert [number for number, _ in sample] == sorted({number for number, _ in sample})
    assert all(question is questions[number] for number, question in sample)
    assert sample[0][0] < 50
    assert sample[-1][0] > 950
    assert chosen(questions, None, 0) == chosen(questions, 1000, 5) == list(enumerate(questions))


# --- topics


def test_topics_are_given_or_found(tmp_path: Path) -> None:
    row = {"id": "q", "question": "who directed Cast Away?", "topic_entities": ["Big"], "answers": ["Robert Zemeckis"]}
    films = write_films(tmp_path / "films", [row])
    walk = {"who directed": ['tail_entities($1, "directed_by")', "<answer>$2</answer>"]}
    for link, topics, f1 in ((False, ["Big"], 0.0), (True, ["Cast Away"], 1.0)):
        out = tmp_path / f"link-{link}"
        report = evaluate("kgwalk", films, engine=ScriptedEngine(walk), link=link, out=out)
        assert rows_in(out)[0]["episode"]["topics"] == topics
        assert report["metrics"]["f1"] == f1


# --- again


def test_what_is_done_is_not_walked_again(films: Path, tmp_path: Path) -> None:
    told: list[tuple[str, int, int, dict[str, float]]] = []
    first = evaluate(
        "kgwalk", films, engine=engine(), values=[TURNS], out=tmp_path / "run", progress=lambda *now: told.append(now)
    )
    assert {what for what, _, _, _ in told} == {"episodes"}
    assert [done for _, done, _, _ in told] == [0, 1, 2, 3, 4, 5]
    assert {total for _, _, total, _ in told} == {5}
    assert told[0][3] == {}
    assert told[-1][3] == {"f1": approx(first["metrics"]["f1"]), "hits_at_1": approx(0.4)}
    told.clear()
    silent = ScriptedEngine(lambda request: pytest.fail("the engine was asked"))
    again = evaluate(
        "kgwalk", films, engine=silent, values=[TURNS], out=tmp_path / "run", progress=lambda *now: told.append(now)
    )
    assert again == first
    assert [done for _, done, _, _ in told] == [5]


def test_an_engine_is_not_opened_for_nothing(films: Path, tmp_path: Path) -> None:
    """All rows are there: to print the table again, or to judge, no model is loaded."""

    class Renamed(ScriptedEngine):
        pass

    Renamed.__name__ = "no such engine"
    first = evaluate("vanilla", films, engine=Renamed([answer("x")]), out=tmp_path / "run")
    assert evaluate("vanilla", films, engine="no such engine", out=tmp_path / "run") == first
    with pytest.raises(KgwalkError, match="unknown engine"):
        evaluate("vanilla", films, engine="no such engine")


def test_other_settings_need_another_folder(films: Path, tmp_path: Path) -> None:
    evaluate("oracle", films, out=tmp_path / "run")
    with pytest.raises(KgwalkError, match=r"holds another run: `limit` was not set, is 2\. Choose another folder"):
        evaluate("oracle", films, out=tmp_path / "run", limit=2)
    with pytest.raises(KgwalkError, match=r"`policy.name` was \"oracle\", is \"random-walk\"; `recipe` was"):
        evaluate("random-walk", films, out=tmp_path / "run")
    assert evaluate("oracle", films, out=tmp_path / "run", limit=2, force=True)["n"] == 2


def test_data_that_changed_is_noticed(films: Path, tmp_path: Path) -> None:
    evaluate("oracle", films, out=tmp_path / "run")
    write_films(films, [*QUESTIONS[:4], QUESTIONS[4] | {"answers": ["Someone Else"]}])
    with pytest.raises(KgwalkError, match=r"made from other questions than films has now \(question 4, 'star'\)"):
        evaluate("oracle", films, out=tmp_path / "run")
    write_films(films, [*QUESTIONS[:4], QUESTIONS[4] | {"aliases": {"Tom Hanks": ["Woody"]}}])
    with pytest.raises(KgwalkError, match="made from other questions"):
        evaluate("oracle", films, out=tmp_path / "run")
    write_films(films, QUESTIONS[:3])
    with pytest.raises(KgwalkError, match="made from other questions"):
        evaluate("oracle", films, out=tmp_path / "run")


@pytest.mark.parametrize(
    ("part", "value"),
    [
        *((part, ...) for part in ("number", "id", "aliases", "metrics", "error", "groups", "episode")),
        ("number", "0"),
        ("number", -1),
        ("run", True),
        ("answers", [None]),
        ("aliases", {"Big": 5}),
        ("groups", {"hops": 2}),
        ("metrics", {"f1": 1.0}),
        ("metrics", {"f1": "1.0"}),
    ],
)
def test_a_row_of_something_else_is_named(part: str, value: Any, films: Path, tmp_path: Path) -> None:
    """Edited, or of another version: told with its line, whoever reads it."""
    out = tmp_path / "run"
    evaluate("oracle", films, out=out)
    rows = rows_in(out)
    rows[1] = {key: value for key, value in (rows[1] | {part: value}).items() if value is not ...}
    (out / "predictions.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    why = rf"predictions\.jsonl:2: not a row of an evaluation: no proper `{part}`"
    with pytest.raises(KgwalkError, match=why):
        evaluate("oracle", films, out=out)
    with pytest.raises(KgwalkError, match=why):
        compare(out, out)
    with (
        Judge(ScriptedEngine(judge_engine), model_name="scripted") as judge,
        pytest.raises(KgwalkError, match=why),
    ):
        judged(open_run(out), judge, ["correct"])


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        ({"turns": [5]}, "expected an object, got a number"),
        ({"turns": {}}, "expected `turns`, a list, got {}"),
        ({"stop": "bored"}, 'expected `stop`, why it ended, got "bored"'),
        ({"evidence": {"Big": [["a", "b"]]}}, r"expected \[head, relation, tail\] in `evidence`"),
        ({"seen": [5]}, r"expected \[head, relation, tail\] in `seen`"),
        ({"question": {"id": 1}}, "expected `topic_entities`, a list of names, got nothing"),
        ({"prompt_ids": ["1"]}, "expected `prompt_ids`, a list of whole numbers"),
        ({"key": ...}, "there is no `key`"),
    ],
)
def test_a_damaged_episode_is_named_by_all_who_read_it(
    damage: dict[str, Any], why: str, films: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    evaluate("oracle", films, out=out)
    rows = rows_in(out)
    episode = rows[1]["episode"] | damage
    rows[1]["episode"] = {key: value for key, value in episode.items() if value is not ...}
    (out / "predictions.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    said = rf"predictions\.jsonl:2: not a row of an evaluation: its `episode`: {why}"
    with pytest.raises(KgwalkError, match=said):
        propose(out)
    with Judge(ScriptedEngine(judge_engine), model_name="scripted") as judge, pytest.raises(KgwalkError, match=said):
        judged(open_run(out), judge, ["correct"])


def test_a_line_that_is_cut_off_is_walked_again_and_one_that_is_damaged_is_named(films: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    whole = evaluate("oracle", films, out=out)
    rows = (out / "predictions.jsonl").read_bytes()
    (out / "predictions.jsonl").write_bytes(rows[:-20])  # killed while it wrote
    assert evaluate("oracle", films, out=out)["metrics"]["f1"] == whole["metrics"]["f1"]
    (out / "predictions.jsonl").write_bytes(rows.replace(b"{", b"(", 1))
    for read in (lambda: evaluate("oracle", films, out=out), lambda: compare(out, out), lambda: propose(out)):
        with pytest.raises(KgwalkError, match=r"predictions\.jsonl:1: not JSON(.|\n)*restore the file, or start over"):
            read()


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({}, "does not say of which dataset"),
        ({"data": ["world"]}, "does not say of which dataset"),
        ({"data": "world", "world": []}, "expected `world`, an object, got a list"),
        ({"data": "world", "world": {"drop": "all"}}, "`world.drop` must be"),
        ({"data": "world", "world": {"dropped": 1}}, "unknown setting `world.dropped`"),
    ],
)
def test_proposals_of_a_run_whose_record_is_damaged(settings: dict[str, Any], why: str, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_bytes(orjson.dumps({"kind": "eval", "settings": settings}))
    with pytest.raises(KgwalkError, match=why):
        propose(tmp_path)


def test_failures_are_walked_again_when_asked(films: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    evaluate("kgwalk", films, engine=engine(), values=[TURNS], out=out)
    works = engine(zemeckis=['head_entities($1, "directed_by")', "<answer>$2</answer>"])
    assert evaluate("kgwalk", films, engine=works, values=[TURNS], out=out)["metrics"]["failed"] == approx(0.2)
    report = evaluate("kgwalk", films, engine=works, values=[TURNS], out=out, retry_failed=True)
    assert (report["n"], report["runs"], report["metrics"]["failed"]) == (5, 1, 0.0)
    assert report["metrics"]["f1"] == approx((1 + 2 / 3 + 2 / 3 + 1) / 5)
    assert [row["id"] for row in rows_in(out)].count("zemeckis") == 2  # the failure is kept, the last counts
    assert evaluate("kgwalk", films, engine=works, values=[TURNS], out=out) == report


def test_an_unfinished_folder_gives_the_same_table(films: Path, tmp_path: Path) -> None:
    """Rows cut off at any line, in any order: as if it had never stopped."""
    whole = evaluate("kgwalk", films, engine=engine(), values=[TURNS], out=tmp_path / "run")
    lines = (tmp_path / "run" / "predictions.jsonl").read_bytes().splitlines(keepends=True)
    random.Random(0).shuffle(lines)
    for kept in range(5):
        (tmp_path / "run" / "predictions.jsonl").write_bytes(b"".join(lines[:kept]) + lines[kept][: 40 * kept])
        (tmp_path / "run" / "metrics.json").unlink()
        again = evaluate("kgwalk", films, engine=engine(), values=[TURNS], out=tmp_path / "run")
        assert timeless(again) == timeless(whole)


def timeless(report: dict[str, Any]) -> dict[str, Any]:
    return report | {"metrics": {name: mean for name, mean in report["metrics"].items() if name != "seconds"}}


# --- doors


def test_the_public_door(films: Path) -> None:
    """`kgwalk.evaluate` is a function, also after the modules of the layer have been imported."""
    importlib.import_module("kgwalk.evaluation.evaluate")
    dataset = kgwalk.load_dataset(films)
    assert dataset.splits() == ["test"]
    report = kgwalk.evaluate("oracle", dataset)
    assert report["folder"] is None  # nothing is kept
    assert report["metrics"]["f1"] == approx(4 / 5)  # star has no gold path to walk by


def test_in_a_notebook(films: Path) -> None:
    """Whose own event loop is running."""

    async def cell() -> dict[str, Any]:
        return kgwalk.evaluate("oracle", films)

    assert asyncio.run(cell())["n"] == 5


def test_a_dataset_goes_by_its_name_where_that_finds_it(films: Path, tmp_path: Path) -> None:
    evaluate("oracle", "world", limit=1, out=tmp_path / "a")
    assert open_run(tmp_path / "a").about["settings"]["data"] == "world"
    environment = write_films(tmp_path / "world")  # another of that name
    evaluate("oracle", environment, out=tmp_path / "b")
    assert open_run(tmp_path / "b").about["settings"]["data"] == str(environment)


def test_the_settings_say_all_that_decides(films: Path, tmp_path: Path) -> None:
    evaluate("kgwalk", films, engine=engine(), values=[TURNS, "eval.runs=2"], seed=5, out=tmp_path / "run")
    about = open_run(tmp_path / "run").about
    assert about["kind"] == "eval"
    settings = about["settings"]
    assert settings.pop("protocol")["turns"] == 2
    assert settings.pop("rollout")["turn_tokens"] == 64
    assert settings == {
        "recipe": "kgwalk",
        "runs": 2,
        "temperature": 1.0,
        "top_p": 1.0,
        "data": str(films),
        "split": "test",
        "limit": None,
        "seed": 5,
        "link": False,
        "engine": "ScriptedEngine",
        "model": None,
        "adapter": None,
    }


def test_the_guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its Python examples, run as they stand."""
    monkeypatch.chdir(tmp_path)
    page = Path(__file__).parents[2] / "docs" / "guides" / "evaluating.md"
    blocks = "".join(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
    example = doctest.DocTestParser().get_doctest(blocks, {}, page.name, page.name, 0)
    assert len(example.examples) > 5
    assert doctest.DocTestRunner(verbose=False).run(example).failed == 0


# --- judged


def judge_engine(request: Request) -> str:
    """Says that the first gold entity was found, in lists of two that the second was not; chokes on dates."""
    text = request.messages[1].content
    if "when was" in text:
        return "I would rather not say."
    if '"equivalent"' in text:
        return reply_to(request, {"equivalent": [1, 0] if HANKS in text else [1]})
    return reply_to(request, {"correct": 0})


def test_a_judge_beside_the_scores(films: Path, tmp_path: Path) -> None:
    """
    equivalence: big found; hanks 1 of 2 with one name (P 1, R 1/2); year cannot be read; zemeckis failed and is not
    judged; star has no answer, so 0 without a call. Means are over the three that have a verdict.
    correct: big is the gold answer, so 1 without a call, whatever the judge would say.
    """
    out = tmp_path / "run"
    evaluate("kgwalk", films, engine=engine(), values=[TURNS], out=out)
    strict = open_run(out).read("metrics.json")
    with Judge(ScriptedEngine(judge_engine), model_name="scripted") as judge:
        report = judged(open_run(out), judge, ["equivalence", "correct", "equivalence"])
        metrics = report["metrics"]
        assert metrics["judge_recall"] == approx((1 + 0.5 + 0) / 3)
        assert metrics["judge_precision"] == approx((1 + 1 + 0) / 3)
        assert metrics["judge_f1"] == approx((1 + 2 / 3 + 0) / 3)
        assert metrics["judge_correct"] == approx(1 / 3)
        assert {name: metrics[name] for name in strict["metrics"]} == strict["metrics"]
        low, high = report["intervals"]["judge_recall"]
        assert low < 0.5 < high
        about = report["judge"]
        assert (about["verdicts"], about["failed"], about["cached"]) == (10, 4, 0)
        assert about["calls"] == (2 + 2) + (1 + 2)  # big (not for `correct`) and hanks once, year twice
        assert about["kinds"] == ["equivalence", "correct"]
        again = judged(open_run(out), judge, ["equivalence", "correct"])
        assert again["metrics"] == metrics
        assert (again["judge"]["cached"], again["judge"]["calls"]) == (3, 4)  # what failed is asked again
    assert open_run(out).read("metrics.json") == again
    rows = list(read_rows(out / "judgements.jsonl"))
    assert len(rows) == 10
    assert rows[1]["numbers"]["judge_recall"] == 0.5
    assert [row["number"] for row in rows if row["failure"]] == [2, 3, 2, 3]
    assert all(row["numbers"] == {} for row in rows if row["failure"])
    assert "engine_failed" in rows[3]["failure"]


def test_a_name_that_was_said_twice_is_judged_as_one(films: Path, tmp_path: Path) -> None:
    """big is answered with two spellings of one name: precision 1/1, as strictly, not 1/2."""
    out = tmp_path / "run"
    said = engine(big=['<answer>["Penny Marshall", "PENNY  MARSHALL"]</answer>'])
    assert evaluate("kgwalk", films, engine=said, values=[TURNS], out=out)["metrics"]["precision"] == approx(2.5 / 5)
    with Judge(ScriptedEngine(judge_engine), model_name="scripted") as judge:
        judged(open_run(out), judge, ["equivalence"])
    rows = list(read_rows(out / "judgements.jsonl"))
    assert (rows[0]["numbers"]["judge_precision"], rows[0]["numbers"]["judge_f1"]) == (1.0, 1.0)


def test_an_episode_that_was_walked_again_is_judged_once(films: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    evaluate("kgwalk", films, engine=engine(), values=[TURNS], out=out)
    works = engine(zemeckis=['head_entities($1, "directed_by")', "<answer>$2</answer>"])
    evaluate("kgwalk", films, engine=works, values=[TURNS], out=out, retry_failed=True)
    with Judge(ScriptedEngine(lambda one: reply_to(one, {"correct": 1})), model_name="scripted") as judge:
        report = judged(open_run(out), judge, ["correct"])
    assert (report["n"], report["runs"], report["judge"]["verdicts"]) == (5, 1, 5)
    assert report["metrics"]["judge_correct"] == approx(4 / 5)


def test_what_cannot_be_judged(films: Path, tmp_path: Path) -> None:
    from kgwalk.evaluation.evaluate import judge_run

    with pytest.raises(KgwalkError, match="unknown kind of judgement `corect`; did you mean `correct`"):
        check_judge("api:x", ["equivalence", "corect"])
    with pytest.raises(KgwalkError, match="unknown engine of a judge `apy`; did you mean `api`"):
        check_judge("apy:x", ["correct"])
    with begin_run(tmp_path / "train", "train", {}):
        pass
    with pytest.raises(KgwalkError, match="is a run of kind 'train', not an evaluation"):
        judge_run(tmp_path / "train", "api:x", ["correct"])
    with begin_run(tmp_path / "eval", "eval", {}):
        pass
    with pytest.raises(KgwalkError, match="has not ended; the same `kgwalk eval` command goes on"):
        judge_run(tmp_path / "eval", "api:x", ["correct"])


@pytest.mark.parametrize(
    ("logprobs", "line"),
    [([-0.1, -0.1], "80-100"), ([0.0, 0.0], "80-100"), ([-0.25, -0.25], "60-80"), ([-3.0, 0.0], "0-20"), ([], None)],
)
def test_walks_are_grouped_by_how_sure_the_model_was(logprobs: list[float], line: str | None) -> None:
    """exp(-0.2) = 0.82, exp(-0.5) = 0.61, exp(-3) = 0.05; an engine behind an API says nothing."""
    turn = Turn([5, 6], logprobs, "<answer>", Answer(("Oslo",)))
    episode = Episode(Question("q", "?", [], ["Oslo"]), [], [1], "", [turn], ["Oslo"], stop=StopReason.answered)
    row = scored(episode)
    assert row["groups"].get("confidence") == line
    assert ("confidence" in row["metrics"]) == (line is not None)
