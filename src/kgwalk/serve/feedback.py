"""POST /v1/feedback: what people say of an answer, kept as a question set.

Where `--feedback DIR` is given, a question whose right answers are known (the answer was right, or somebody gave the
right one) becomes a line of DIR/train.jsonl or DIR/test.jsonl, and DIR/graph.kg links to the graph's store. So the
folder is a dataset: `kgwalk eval --data DIR`, `kgwalk train --data DIR`. With several graphs each has its own folder in
it. An answer that was wrong, with nothing better known, goes to DIR/wrong.ndjson, which no split is read from.

A question that comes again takes the place of what was said before. The facts that are sent as its evidence are kept
only if they are in the graph.
"""

# Without `from __future__ import annotations`: only then does a TypedDict know which of its fields are required.
import asyncio
import hashlib
import logging
import os
import re
import shutil
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import orjson

from kgwalk.config.cache import exclusive
from kgwalk.kg.graph import Graph
from kgwalk.kg.names import normalise
from kgwalk.kg.store import StoredGraph
from kgwalk.serve.agent import parse, refusing
from kgwalk.serve.asgi import HttpError, HttpReply
from kgwalk.serve.graphs import ServedGraphs
from kgwalk.serve.reading import RequestReader
from kgwalk.serve.shapes import MAX_PAGE, MOST_TOPICS, About, AnswerKind, EvidenceFact, GraphName
from kgwalk.types import KgwalkError

log = logging.getLogger("kgwalk.serve")

STORE = "graph.kg"  # as in a dataset's folder
TRAIN, TEST = "train", "test"
WRONG = "wrong.ndjson"
ONE_IN = 4  # questions are tested on, by their words; but either split gets one of the first two
MOST_BYTES = 16 << 20  # of one file
MOST_PATHS = 20
NEAREST = 3

_FACT_LISTS = "must be a list of paths, each a list of facts [head, relation, tail]"


class FeedbackBody(TypedDict):
    question: str
    verdict: Annotated[Literal["right", "wrong"], About("of the answer that was given")]
    answers: Annotated[list[str], About("the answer that was given", most=MAX_PAGE)]
    right_answers: NotRequired[
        Annotated[list[str] | None, About("the right one, if known; an empty list: the graph does not say", most=1000)]
    ]
    answer_kind: NotRequired[AnswerKind]
    graph: NotRequired[GraphName]
    topics: NotRequired[Annotated[list[str] | None, About("what the walk started from", most=MOST_TOPICS)]]
    kinds: NotRequired[Annotated[list[str] | None, About("the kinds that it started from", most=MOST_TOPICS)]]
    paths: NotRequired[
        Annotated[list[list[EvidenceFact]] | None, About("the evidence, a path for each answer", refusal=_FACT_LISTS)]
    ]


class UnknownAnswer(TypedDict):
    name: str
    nearest: list[str]


class FeedbackReply(TypedDict):
    split: Annotated[str | None, About("of the question set that it went to; null where no right answer is known")]
    questions: Annotated[int, About("how many the set has now")]
    unknown: Annotated[list[UnknownAnswer], About("right answers that are not in the graph, with near names")]


read_feedback = RequestReader(FeedbackBody, "the body")


class FeedbackRoute:
    def __init__(self, graphs: ServedGraphs, folder: str | None) -> None:
        self._graphs, self._folder = graphs, folder

    async def __call__(self, body: bytes, deadline: float) -> HttpReply:
        if self._folder is None:
            message = "this server keeps no feedback; start it with `kgwalk serve --feedback DIR`"
            raise HttpError(503, "no_feedback", message)
        said = refusing(lambda: read_feedback(parse(body)))
        if not said["question"].strip():
            raise HttpError(422, "wrong_content", "the question is empty")
        graph = refusing(lambda: self._graphs.graph(said.get("graph")))
        folder = Path(self._folder)
        if len(self._graphs.by_name) > 1:
            folder /= re.sub(r"[^\w-]", "_", said.get("graph") or "graph")
        return HttpReply(200, orjson.dumps(await asyncio.to_thread(_keep, folder, graph, said)))


def _keep(folder: Path, graph: Graph, said: FeedbackBody) -> FeedbackReply:
    right = said.get("right_answers")
    if right is None and said["verdict"] == "right":
        right = said["answers"]
    row = _row(said, right, graph)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with exclusive(folder / ".feedback"):
            kept = FeedbackFolder(folder)
            kept.link(graph)
            split = kept.add(row, known=right is not None)
            count = kept.count()
    except OSError as error:
        log.error("feedback cannot be kept in %s: %s", folder, error)
        raise HttpError(500, "internal", "the feedback could not be kept; the server's log has the reason") from error
    unknown = [] if right is None else [name for name in right if not _is_known(name, graph)]
    return {
        "split": split,
        "questions": count,
        "unknown": [{"name": name, "nearest": [one.name for one in graph.find(name, NEAREST)]} for name in unknown[:5]],
    }


def _row(said: FeedbackBody, right: list[str] | None, graph: Graph) -> dict[str, Any]:
    """The line of the dataset."""
    plain = normalise(said["question"])
    row: dict[str, Any] = {
        "id": f"feedback-{hashlib.sha256(plain.encode()).hexdigest()[:12]}",
        "question": said["question"].strip(),
        "topic_entities": [name for name in said.get("topics") or [] if name in graph],
        "answers": right or [],
        "hops": None,
        "gold_paths": None,
        "type": "feedback",
        "verdict": said["verdict"],
        "given": said["answers"],
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    if right is not None and set(right) == set(said["answers"]):
        true = _true_paths(said.get("paths") or [], graph)
        row["evidence"] = [fact for path in true for fact in path] or None
        row["gold_paths"] = [path for path in true if _leads(path, row["topic_entities"], right)] or None
        row["answer_kind"] = said.get("answer_kind") or "entity"
    elif right is not None:
        row["answer_kind"] = "entity" if right else "none"
    if said.get("kinds"):
        row["kinds"] = said["kinds"]
    return row


def _true_paths(paths: Iterable[list[list[str]]], graph: Graph) -> list[list[list[str]]]:
    """The paths all of whose facts are in the graph."""
    found = []
    for path in list(paths)[:MOST_PATHS]:
        facts = [(head, relation, tail) for head, relation, tail in path]
        if facts and all(next(iter(graph.match(*fact, limit=1)), None) is not None for fact in facts):
            found.append([list(fact) for fact in facts])
    return found


def _leads(path: Sequence[Sequence[str]], topics: Sequence[str], answers: Sequence[str]) -> bool:
    """Whether the facts, one after the other, lead from a topic to an answer.

    >>> _leads([["Big", "directed_by", "Penny Marshall"]], ["Big"], ["Penny Marshall"])
    True
    >>> _leads([["France", "borders", "Belgium"], ["Germany", "borders", "Belgium"]], ["France"], ["Belgium"])
    False
    """
    for at in topics:
        for head, _, tail in path:
            if at not in (head, tail):
                break
            at = tail if at == head else head
        else:
            if at in answers:
                return True
    return False


def _is_known(name: str, graph: Graph) -> bool:
    """Whether an answer is something that could be answered: a name of the graph, a value, a verdict."""
    from kgwalk.walk.values import value_of

    return name in graph or value_of(name) is not None or name in ("yes", "no")


class FeedbackFolder:
    """The files of one graph's feedback. Whoever writes holds the lock beside them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def link(self, graph: Graph) -> None:
        """Let the folder's graph be the one that was asked; one that is there stays."""
        place = self._folder / STORE
        if not isinstance(graph, StoredGraph) or os.path.lexists(place):
            return
        store = Path(graph.store.folder.path).resolve()
        try:
            place.symlink_to(store, target_is_directory=True)
        except OSError:  # Windows may allow no links
            shutil.copytree(store, place)

    def add(self, row: dict[str, Any], *, known: bool) -> str | None:
        """Put the row in its place, and take what was said before out of the others; the split it is in now."""
        files = {name: self._rows(name) for name in (f"{TRAIN}.jsonl", f"{TEST}.jsonl", WRONG)}
        place = f"{self._split(row['id'], files)}.jsonl" if known else WRONG
        for name, rows in files.items():
            left = [one for one in rows if one["id"] != row["id"]] + ([row] if name == place else [])
            if left != rows:
                self._write(name, left)
        return place.partition(".")[0] if known else None

    def count(self) -> int:
        return sum(len(self._rows(f"{split}.jsonl")) for split in (TRAIN, TEST))

    def _split(self, id: str, files: dict[str, list[dict[str, Any]]]) -> str:
        for split in (TRAIN, TEST):
            if any(row["id"] == id for row in files[f"{split}.jsonl"]):
                return split
        for split, other in ((TEST, TRAIN), (TRAIN, TEST)):
            if files[f"{other}.jsonl"] and not files[f"{split}.jsonl"]:
                return split
        return TEST if int(id[-6:], 16) % ONE_IN == 0 else TRAIN

    def _rows(self, name: str) -> list[dict[str, Any]]:
        file = self._folder / name
        if not file.is_file():
            return []
        return [orjson.loads(line) for line in file.read_bytes().splitlines() if line.strip()]

    def _write(self, name: str, rows: Sequence[dict[str, Any]]) -> None:
        """The file anew, whole or not at all. One without rows is not there: an empty split is an error to readers."""
        data = b"".join(orjson.dumps(row) + b"\n" for row in rows)
        if len(data) > MOST_BYTES:
            raise HttpError(503, "feedback_full", f"the server keeps {MOST_BYTES >> 20} MB of feedback, and has them")
        file, other = self._folder / name, self._folder / f".{name}.new"
        if not rows:
            file.unlink(missing_ok=True)
            return
        other.write_bytes(data)
        other.replace(file)


def check_feedback(folder: str, graphs: int) -> None:
    """Refuse at the start of a server a folder that cannot be written, or that is another dataset's."""
    place = Path(folder)
    try:
        place.mkdir(parents=True, exist_ok=True)
        writable = os.access(place, os.W_OK)
    except OSError as error:
        raise KgwalkError(f"feedback cannot be kept in {folder}: {error.strerror}") from error
    if not writable:
        raise KgwalkError(f"feedback cannot be kept in {folder}: the folder cannot be written to")
    for split in (TRAIN, TEST) if graphs == 1 else ():
        file = place / f"{split}.jsonl"
        first = file.read_bytes().split(b"\n")[0] if file.is_file() else b""
        if (first and b'"verdict"' not in first) or (place / f"{split}.jsonl.gz").exists():
            raise KgwalkError(f"{folder} is a dataset already ({file.name}); name a folder of its own for feedback")
