"""A graph of four facts, two questions, and a scripted model behind a server on loopback: for the tests of verifiers.

It needs nothing but kgwalk's base install and pytest, as those environments have no more.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kgwalk
from api_server import Said, completion
from kgwalk.llm.api import ApiEngine

FACTS = [
    ("Big", "starred_actors", "Tom Hanks"),
    ("Big", "directed_by", "Penny Marshall"),
    ("Cast Away", "starred_actors", "Tom Hanks"),
    ("Cast Away", "directed_by", "Robert Zemeckis"),
]
HANKS = {
    "id": "hanks",
    "question": "who directed the films that Tom Hanks starred in?",
    "topic_entities": ["Tom Hanks"],
    "answers": ["Penny Marshall", "Robert Zemeckis"],
    "hops": 2,
}
BIG = {
    "id": "big",
    "question": "who directed Big?",
    "topic_entities": ["Big"],
    "answers": ["Penny Marshall"],
    "hops": 1,
}
RIGHT = ['head_entities($1, "starred_actors")', 'tail_entities($2, "directed_by")', "<answer>$3</answer>"]
HALF = ['head_entities($1, "starred_actors")', '<answer>["Penny Marshall"]</answer>']


def write_films(folder: Path) -> Path:
    """A dataset with one question to train on and two to be tested by."""
    folder.mkdir()
    (folder / "kg.tsv").write_text("".join("\t".join(fact) + "\n" for fact in FACTS))
    for split, rows in (("train", [BIG]), ("test", [HANKS, BIG])):
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def says(*turns: str, to: str = "Hanks") -> Callable[[str, Any], Said]:
    """Says the turns one after the other in every conversation about `to`, and a short answer in all others. It strips
    the stop text, as servers do.
    """

    def answer(path: str, body: Any) -> Said:
        messages = body["messages"]
        script = turns if any(to in message["content"] for message in messages) else ('<answer>["nobody"]</answer>',)
        text = script[sum(message["role"] == "assistant" for message in messages)]
        for stop in body.get("stop", []):
            text = text.removesuffix(stop)
        return completion(text)

    return answer


def own_evaluation(data: Path, url: str, question: str) -> dict[str, float]:
    """The metrics of `kgwalk eval` for the same model."""
    engine = ApiEngine("scripted", base_url=f"{url}/v1", api_key="sk-test")
    folder = data.parent / "run"
    kgwalk.evaluate("kgwalk", str(data), engine=engine, out=folder)
    rows = [json.loads(line) for line in (folder / "predictions.jsonl").read_text().splitlines()]
    metrics: dict[str, float] = next(row["metrics"] for row in rows if row["id"] == question)
    return metrics
