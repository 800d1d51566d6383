"""POST /v1/feedback: what people say of answers becomes a question set that evaluation and training read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from conftest import FILMS
from kgwalk.data.dataset import load_dataset
from kgwalk.kg.store import StoredGraph
from kgwalk.serve.app import create_app
from kgwalk.serve.feedback import check_feedback
from kgwalk.serve.run import in_background
from kgwalk.serve.settings import ServeSettings
from kgwalk.types import KgwalkError

WHO = "Who directed Big?"
RIGHT = {
    "question": WHO,
    "verdict": "right",
    "answers": ["Penny Marshall"],
    "answer_kind": "entity",
    "topics": ["Big", "Nobody"],
    "paths": [[["Big", "directed_by", "Penny Marshall"]], [["Big", "directed_by", "Me"]]],
}


@contextmanager
def serving(graph: StoredGraph, **options: Any) -> Iterator[httpx.Client]:
    app = create_app(ServeSettings(**options), {"films": graph})
    with in_background(app) as url, httpx.Client(base_url=url, trust_env=False) as client:
        yield client


@pytest.fixture
def films(store: Callable[..., StoredGraph]) -> StoredGraph:
    return store(FILMS)


def test_an_answer_that_was_right_is_a_question_of_a_dataset(films: StoredGraph, tmp_path: Path) -> None:
    folder = tmp_path / "said"
    with serving(films, feedback=str(folder)) as client:
        assert client.get("/health").json()["feedback"] is True
        first = client.post("/v1/feedback", json=RIGHT).json()
        assert (first["questions"], first["unknown"]) == (1, [])
        wrong = {"question": "Which films did Tom Hanks direct?", "verdict": "wrong", "answers": ["Big"]}
        known = {**wrong, "right_answers": [], "topics": ["Tom Hanks"]}  # the graph does not say
        second = client.post("/v1/feedback", json=known).json()
    assert {first["split"], second["split"]} == {"train", "test"}  # one of the first two in each
    data = load_dataset(str(folder))
    assert data.splits() == ["train", "test"]
    questions = {one.question: one for split in data.splits() for one in data.questions(split)}
    kept = questions[WHO]
    assert (kept.topic_entities, kept.answers) == (["Big"], ["Penny Marshall"])
    assert kept.gold_paths == [[("Big", "directed_by", "Penny Marshall", "")]]  # not the one that is no fact
    assert kept.evidence == [("Big", "directed_by", "Penny Marshall", "")]
    assert kept.extra["answer_kind"] == "entity"
    unsaid = questions["Which films did Tom Hanks direct?"]
    assert (unsaid.answers, unsaid.extra["answer_kind"], unsaid.extra["given"]) == ([], "none", ["Big"])
    assert "Big" in data.graph_for(kept)


def test_what_is_said_again_takes_the_place_of_what_was_said(films: StoredGraph, tmp_path: Path) -> None:
    with serving(films, feedback=str(tmp_path / "said")) as client:
        split = client.post("/v1/feedback", json=RIGHT).json()["split"]
        corrected = {**RIGHT, "question": "who directed big", "verdict": "wrong", "right_answers": ["Robert Zemekis"]}
        again = client.post("/v1/feedback", json=corrected).json()
        assert (again["split"], again["questions"]) == (split, 1)
        assert again["unknown"] == [{"name": "Robert Zemekis", "nearest": again["unknown"][0]["nearest"]}]
        assert again["unknown"][0]["nearest"][0] == "Robert Zemeckis"
        (question,) = load_dataset(str(tmp_path / "said")).questions(split)
        assert (question.answers, question.gold_paths) == (["Robert Zemekis"], None)
        # no right answer is known: no question of the set any more, but kept for people to read
        gone = client.post("/v1/feedback", json={**RIGHT, "verdict": "wrong"}).json()
        assert (gone["split"], gone["questions"]) == (None, 0)
    assert sorted(path.name for path in (tmp_path / "said").glob("*.*json*")) == ["wrong.ndjson"]
    (row,) = map(orjson.loads, (tmp_path / "said" / "wrong.ndjson").read_bytes().splitlines())
    assert (row["question"], row["given"]) == (WHO, ["Penny Marshall"])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"verdict": "maybe"}, '"verdict" must be "right" or "wrong"'),
        ({"question": " "}, "the question is empty"),
        ({"answers": "x"}, '"answers" must be a list of strings'),
        ({"paths": [["Big"]]}, '"paths" must be a list of paths'),
        ({"path": 1}, 'unknown field "path"; did you mean "paths"?'),
    ],
)
def test_what_is_wrong_is_refused(films: StoredGraph, tmp_path: Path, change: dict[str, Any], words: str) -> None:
    with serving(films, feedback=str(tmp_path / "said")) as client:
        reply = client.post("/v1/feedback", json={**RIGHT, **change})
        assert reply.status_code == 422
        assert words in reply.json()["error"]["message"]
    assert not (tmp_path / "said").exists()


def test_only_a_server_that_was_told_to_keeps_it_and_the_key_is_wanted(films: StoredGraph, tmp_path: Path) -> None:
    with serving(films) as client:
        reply = client.post("/v1/feedback", json=RIGHT)
        assert (reply.status_code, reply.json()["error"]["kind"]) == (503, "no_feedback")
        assert client.get("/health").json()["feedback"] is False
    with serving(films, feedback=str(tmp_path / "said"), api_key="s3cret") as client:
        assert client.post("/v1/feedback", json=RIGHT).status_code == 401
        key = {"Authorization": "Bearer s3cret"}
        foreign = {**key, "Origin": "http://elsewhere.example"}
        assert client.post("/v1/feedback", json=RIGHT, headers=foreign).status_code == 403
        assert client.post("/v1/feedback", json=RIGHT, headers=key).status_code == 200


def test_several_graphs_have_folders_of_their_own(films: StoredGraph, tmp_path: Path) -> None:
    app = create_app(ServeSettings(feedback=str(tmp_path / "said")), {"films": films, "../x y": films})
    with in_background(app) as url, httpx.Client(base_url=url, trust_env=False) as client:
        assert client.post("/v1/feedback", json=RIGHT).status_code == 422
        for name in ("films", "../x y"):
            assert client.post("/v1/feedback", json={**RIGHT, "graph": name}).status_code == 200
    assert sorted(path.name for path in (tmp_path / "said").iterdir()) == ["___x_y", "films"]
    assert load_dataset(tmp_path / "said" / "films").has_graph()


def test_another_datasets_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text('{"question": "?", "answers": []}\n')
    with pytest.raises(KgwalkError, match="is a dataset already"):
        check_feedback(str(tmp_path), 1)
    check_feedback(str(tmp_path / "new"), 1)
    assert (tmp_path / "new").is_dir()
