"""Ask an agent all the questions: build each graph as a user would, walk, score.

The graphs are built by the command `kgwalk kg build` with the options in graph.toml. All questions are walked together
by `kgwalk.evaluate`, each from what kgwalk's own linking finds in it, since users name no topics. A question that
`kgwalk ask` refuses, because it finds nothing to start from, counts as not answered.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.users.answers import Answers
from benchmarks.users.graphs import Cells, UserGraph, UserQuestion
from benchmarks.users.score import Scored, score

from kgwalk.config.recipe import Recipe, load_recipe
from kgwalk.data.dataset import load_dataset
from kgwalk.data.mixture import Mixture, MixturePart
from kgwalk.evaluation.evaluate import evaluate
from kgwalk.evaluation.report import PREDICTIONS, whole_rows
from kgwalk.kg.graph import Graph
from kgwalk.llm.engine import Engine, open_engine
from kgwalk.types import KgwalkError, Progress, silent
from kgwalk.walk.policy import choose_adapter, needs_engine, protocol_of, walked_as_learnt
from kgwalk.walk.protocol import Protocol
from kgwalk.walk.starts import NoTopic, start_of

SPLIT, STORE = "test", "graph.kg"
# The kinds of answers here as a dataset calls them
ANSWER_KINDS = {
    "set": "entity",
    "yes/no": "boolean",
    "number": "number",
    "date": "time",
    "table": "table",
    "none": "none",
}


@dataclass(frozen=True)
class Asked:
    """Who is asked: a recipe, and for those that walk with a model, which."""

    recipe: str = "kgwalk"
    adapter: str | None = None  # a folder, `shipped` or `none`; else the shipped one where it fits
    model: str | None = None
    engine: str = "auto"
    keep: Path | None = None  # where the walks are kept, to be read
    values: tuple[str, ...] = ()  # settings of the recipe in place of its own, `ask.walks=5`

    def folder(self, recipe: Recipe) -> str | None:
        """The adapter's folder, if the recipe walks with a model."""
        if not needs_engine(recipe):
            return None
        return choose_adapter(self.adapter, None, recipe, model=self.model, engine=self.engine).folder


@contextmanager
def opened(who: Asked) -> Iterator[Engine | None]:
    """The model, opened once for all sets; None for a recipe that walks without."""
    recipe = load_recipe(who.recipe).with_values(who.values)
    if not needs_engine(recipe):
        yield None
        return
    folder = who.folder(recipe)
    engine = open_engine(who.engine, who.model, **({} if folder is None else {"adapter": folder}))
    try:
        yield engine
    finally:
        asyncio.run(engine.close())


def run(
    graphs: Sequence[UserGraph],
    who: Asked,
    *,
    engine: Engine | None = None,
    progress: Progress = silent,
    prepare: Callable[[Path], None] | None = None,
) -> list[Scored]:
    """Every question of the graphs, asked and scored. Nothing is kept on disk unless a folder is given. `engine` is one
    that is open already. `prepare` is given each store before it is asked: `kgwalk fit` puts worked examples beside it.
    """
    recipe = load_recipe(who.recipe).with_values(who.values)
    adapter = who.folder(recipe)
    with tempfile.TemporaryDirectory(prefix="kgwalk-users-") as made:
        walks = who.keep or Path(made) / "run"
        parts = [MixturePart(graph.name, load_dataset(_dataset(graph, Path(made)))) for graph in graphs]
        if prepare is not None:
            for graph in graphs:
                prepare(Path(made) / graph.name / STORE)
        data = Mixture(tuple(parts))
        evaluate(
            recipe,
            data,
            SPLIT,
            out=walks,
            engine=who.engine if engine is None else engine,
            model=who.model,
            adapter=adapter,
            link=True,
            progress=progress,
        )
        rows = {row["id"]: row for row in whole_rows(walks / PREDICTIONS)}
        protocol = protocol_of(walked_as_learnt(recipe, adapter)) if needs_engine(recipe) else None
        scored = []
        for graph, part in zip(graphs, parts, strict=True):
            opened = part.data.graph_for(part.data.questions(SPLIT)[0])
            names = Answers(graph)
            for question in graph.questions:
                row = rows[f"{graph.name}/{question.id}"]
                answers: list[Cells] = [] if _refused(question, opened, protocol) else said(row)
                topics = set(row["episode"]["topics"])
                found = all(names.same(start) & topics for start in question.starts.entities)
                scored.append(Scored(graph.name, graph.company, question, answers, score(answers, question), found))
        return scored


def build(graph: UserGraph, out: Path) -> None:
    """`kgwalk kg build`, as a user would; its error is ours."""
    command = [sys.executable, "-m", "kgwalk", "kg", "build", *map(str, graph.sources), *graph.options]
    done = subprocess.run([*command, "-o", str(out), "--quiet"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise KgwalkError(f"`kgwalk kg build` failed for {graph.name}: {done.stderr.strip()[-500:]}")


def said(row: Mapping[str, Any]) -> list[Cells]:
    """What a row of predictions answers: names, or the rows of a table."""
    form = row["episode"].get("form", {})
    answers: list[Cells] = form.get("rows") or row["answers"]
    return answers


def _dataset(graph: UserGraph, where: Path) -> Path:
    """A dataset's folder of the graph: its store, and its questions without topics."""
    folder = where / graph.name
    folder.mkdir()
    build(graph, folder / STORE)
    rows = [
        {
            "id": question.id,
            "question": question.question,
            "topic_entities": [],
            "answers": [cell for row in question.answers for cell in ([row] if isinstance(row, str) else row)],
            "type": question.shape,
            "answer_kind": ANSWER_KINDS[question.answer_kind],
        }
        | ({"rows": question.answers} if question.answer_kind == "table" else {})
        for question in graph.questions
    ]
    (folder / f"{SPLIT}.jsonl").write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return folder


def _refused(question: UserQuestion, graph: Graph, protocol: Protocol | None) -> bool:
    """Whether `kgwalk ask` would not walk at all."""
    if protocol is None:
        return False
    try:
        start_of(question.question, graph, protocol=protocol)
    except NoTopic:
        return True
    return False
