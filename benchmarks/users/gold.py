"""The gold walks: what they answer over the graphs that `kgwalk kg build` makes, and whether linking finds the starts.

The oracle runs a question's program by the calls of the walking language, from its gold starts, and is scored as any
agent is. What it misses cannot be said in the language, or is not in the graph as it is built.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.users.answers import Answers
from benchmarks.users.graphs import UserGraph, UserQuestion
from benchmarks.users.run import SPLIT, build, said
from benchmarks.users.score import Scored, score

from kgwalk.config.recipe import load_recipe
from kgwalk.data.dataset import load_dataset
from kgwalk.data.mixture import Mixture, MixturePart
from kgwalk.evaluation.evaluate import evaluate
from kgwalk.evaluation.report import PREDICTIONS, whole_rows
from kgwalk.kg.store import StoredGraph, open_graph
from kgwalk.systems.kgwalk.protocol import Kgwalk
from kgwalk.types import Progress, Question, silent
from kgwalk.walk.kinds import Kind, kind_named
from kgwalk.walk.protocol import Environment, Task
from kgwalk.walk.starts import NoTopic, start_of
from kgwalk.walk.values import value_of, values_in

STORE = "graph.kg"


# What the gold programs answer


def oracle(graphs: Sequence[UserGraph], *, progress: Progress = silent) -> list[Scored]:
    """Every question's gold program, run and scored. A question that cannot be said is not answered."""
    with _built(graphs) as folders:
        parts = []
        for graph, folder in zip(graphs, folders, strict=True):
            names, opened = Answers(graph), open_graph(folder / STORE)
            rows = [_row(question, opened, names) for question in graph.questions]
            (folder / f"{SPLIT}.jsonl").write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
            parts.append(MixturePart(graph.name, load_dataset(folder)))
        out = folders[0].parent / "run"
        evaluate(load_recipe("oracle"), Mixture(tuple(parts)), SPLIT, out=out, progress=progress)
        found = {row["id"]: said(row) for row in whole_rows(out / PREDICTIONS)}
    scored = []
    for graph in graphs:
        for question in graph.questions:
            answers = [] if question.unsayable else found[f"{graph.name}/{question.id}"]
            scored.append(Scored(graph.name, graph.company, question, answers, score(answers, question), True))
    return scored


@contextmanager
def _built(graphs: Sequence[UserGraph]) -> Iterator[list[Path]]:
    """A folder for each graph, with its store."""
    with tempfile.TemporaryDirectory(prefix="kgwalk-users-") as made:
        folders = [Path(made) / graph.name for graph in graphs]
        for graph, folder in zip(graphs, folders, strict=True):
            folder.mkdir()
            build(graph, folder / STORE)
        yield folders


def _row(question: UserQuestion, graph: StoredGraph, names: Answers) -> dict[str, Any]:
    """The question with its gold walk, as a dataset has it."""
    return {
        "id": question.id,
        "question": question.question,
        "topic_entities": [_node(name, graph, names) for name in question.starts.entities],
        "answers": [cell for row in question.answers for cell in ([row] if isinstance(row, str) else row)],
        "type": question.shape,
        "kinds": question.starts.kinds,
        "program": question.program,
        "answer_kind": question.answer_kind,
    }


def _node(name: str, graph: StoredGraph, names: Answers) -> str:
    """The name of the node that goes by a name or an id, or by another of the thing's names.

    Where two things have the name, a graph puts an id behind it: Crux (Cru) beside the text Crux.
    """
    found = [one for text in (name, *sorted(names.same(name))) for one in graph.find(text, 5)]
    exact = [one.name for one in found if one.how != "fuzzy"]
    with_id = [one.name for one in found if one.name.startswith(f"{name} (") and not (one.id or "").startswith('"')]
    return (exact + with_id + [name])[0]


# Whether linking finds where they start


@dataclass(frozen=True)
class LinkedStarts:
    """What linking finds of a question's gold starts, and what else it starts from."""

    id: str
    question: str
    shape: str
    missing: list[str]
    other: list[str]

    @property
    def found(self) -> bool:
        return not self.missing

    @property
    def exact(self) -> bool:
        return not self.missing and not self.other


def linked_starts(graph: UserGraph, opened: StoredGraph) -> list[LinkedStarts]:
    """Each question as the kgwalk protocol in its full language would begin to walk it."""
    names = Answers(graph)
    return [_linked(question, opened, names) for question in graph.questions]


def _linked(question: UserQuestion, graph: StoredGraph, names: Answers) -> LinkedStarts:
    topics, kinds = starts_of(question.question, graph)
    wanted, values = question.starts, [*topics, *values_in(question.question)]
    ways = {name: [name, *wanted.instead.get(name, ())] for name in (*wanted.entities, *wanted.kinds)}
    missing = [name for name, ones in ways.items() if not any(_among(o, topics, kinds, graph, names) for o in ones)]
    missing += [text for text in wanted.values if not any(_same_value(text, value) for value in values)]
    gold = [*(one for ones in ways.values() for one in ones), *wanted.also]
    other = [
        name
        for name in topics
        if not any(_among(one, [name], [], graph, names) for one in gold)
        and not any(_same_value(one, name) for one in wanted.values)
    ]
    other += [kind.name for kind in kinds if not any(_among(one, [], [kind], graph, names) for one in gold)]
    return LinkedStarts(question.id, question.question, question.shape, missing, other)


def starts_of(question: str, graph: StoredGraph) -> tuple[list[str], list[Kind]]:
    """The entities and kinds that a walk in the full language starts from; none where it is refused."""
    protocol = Kgwalk(language="full")
    try:
        topics = start_of(question, graph, protocol=protocol).topics
    except NoTopic:
        return [], []
    walk = protocol.begin(Task(Question("", question, topics, []), topics), Environment(graph), len)
    return topics, [made.kind for made in walk.sets.made if made.kind is not None]


def _among(name: str, topics: Sequence[str], kinds: Sequence[Kind], graph: StoredGraph, names: Answers) -> bool:
    """Whether a start is there: an entity by any of its names, or a kind with just the members of the one meant."""
    if {name.casefold(), *(other.casefold() for other in names.same(name))} & {topic.casefold() for topic in topics}:
        return True
    meant = kind_named(name, graph)
    if meant is None or not kinds:
        return False
    members = set(meant.members(graph))
    return any(kind == meant or set(kind.members(graph)) == members for kind in kinds)


def _same_value(text: str, other: str) -> bool:
    one, two = value_of(text), value_of(other)
    return one is not None and two is not None and one.number == two.number


def starts_report(graphs: Sequence[UserGraph], *, secret: bool = False) -> dict[str, Any]:
    """In how many questions all starts are found, and in how many exactly those. A `secret` set is told in total."""
    with _built(graphs) as folders:
        by_graph = {
            graph.name: linked_starts(graph, open_graph(folder / STORE))
            for graph, folder in zip(graphs, folders, strict=True)
        }
    rows = [row for found in by_graph.values() for row in found]
    told: dict[str, Any] = {"total": _shares(rows)}
    told["by_shape"] = {
        shape: _shares([row for row in rows if row.shape == shape]) for shape in sorted({row.shape for row in rows})
    }
    if not secret:
        told["by_graph"] = {name: _shares(found) for name, found in by_graph.items()}
        told["questions"] = [asdict(row) | {"found": row.found, "exact": row.exact} for row in rows]
    return told


def _shares(rows: Sequence[LinkedStarts]) -> dict[str, Any]:
    found, exact = (float(np.mean(values)) for values in ([r.found for r in rows], [r.exact for r in rows]))
    return {"n": len(rows), "found": found, "exact": exact}
