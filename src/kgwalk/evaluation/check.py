"""Whether a dataset can be trusted: everything in it is read, scored, looked up in its graph and walked to.

    check(load_dataset("metaqa")).ok

What is wrong is listed, never raised: a folder may be broken in many places, and all of them are wanted at once.
Knows the order of the checks; each is a module of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain

from kgwalk.data.dataset import Dataset
from kgwalk.data.layout import Layout, layout_of
from kgwalk.evaluation import question_checks
from kgwalk.evaluation.findings import Checked, Finding, quoted
from kgwalk.evaluation.ground import Ground, Located
from kgwalk.evaluation.question_lines import Asked, read_lines, unreadable
from kgwalk.evaluation.reach import distances
from kgwalk.evaluation.repeats import repeats
from kgwalk.kg.build import Progress
from kgwalk.kg.files import Folder
from kgwalk.kg.store import StoredGraph
from kgwalk.types import KgwalkError

HOPS = 4  # within which an answer is looked for where a question does not say
FARTHEST = 64  # hops after which a way is no longer looked for
_STEP = 1024  # questions from one word of progress to the next


def _silent(what: str, done: int, total: int | None) -> None:
    pass


def check(dataset: Dataset, split: str | None = None, progress: Progress = _silent) -> Checked:
    """All that is found in a dataset, or in one split of it; the other splits are then read for leaks alone."""
    checked = Checked()
    try:
        layout = layout_of(dataset.path)
    except (KgwalkError, OSError) as error:
        checked.findings.append(unreadable(error, dataset.path))
        return checked
    if split is not None and split not in layout.splits:
        there_are = ", ".join(layout.splits) or "none"
        raise KgwalkError(f"no split {split!r} of {dataset.name}; there are: {there_are}")
    if not layout.splits:
        text = "put questions there, in train.jsonl, dev.jsonl or test.jsonl, plain, .gz or .zst"
        texts = any(dataset.path.glob("passages.jsonl*"))
        kind = "graph_only" if dataset.has_graph() else "texts_only" if texts else "no_splits"
        checked.findings.append(Finding(kind, text, dataset.path))
        if kind == "texts_only":
            return checked
    asked, broken = _read(layout, split, checked, progress)
    dataset = dataset.without(broken) if broken else dataset  # else no name could be looked up
    whole = _graph(dataset, checked, progress)
    wanted = [split] if split is not None else list(layout.splits)
    checked.questions = {name: len(asked[name]) for name in wanted}
    _questions(dataset, whole, [one for name in wanted for one in asked[name]], checked, progress)
    checked.findings += repeats(asked, split)
    return checked


def _read(
    layout: Layout, split: str | None, checked: Checked, progress: Progress
) -> tuple[dict[str, list[Asked]], set[str]]:
    """The questions by split, and the splits of which not all could be read."""
    asked: dict[str, list[Asked]] = {name: [] for name in layout.splits}
    broken: set[str] = set()
    for name, path in layout.splits.items():
        for line in read_lines(path, name, progress):
            if isinstance(line, Asked):
                asked[name].append(line)
                continue
            if line.kind == "unreadable_file":
                broken.add(name)
            if split in (None, name):
                checked.findings.append(line)
    return asked, broken


def _graph(dataset: Dataset, checked: Checked, progress: Progress) -> StoredGraph | None:
    """The graph, every byte of it compared with its checksum."""
    try:
        graph = dataset.graph(progress)
        assert isinstance(graph, StoredGraph)
        folders = {id(folder): folder for folder in (graph.store.folder, _question_sets(graph)) if folder is not None}
        for folder in folders.values():
            read = 0
            for _, size in folder.verify():
                read += size
                progress("reading the graph", read, folder.size())
    except (KgwalkError, OSError) as error:
        checked.findings.append(unreadable(error, dataset.path, kind="graph"))
        return None
    header = graph.store.folder.header
    if header["skipped"]:
        first = next(iter(header["first_skipped"]), "")
        checked.findings.append(Finding("facts_left_out", f"{header['skipped']:,}; the first: {first}", dataset.path))
    return graph


def _question_sets(graph: StoredGraph) -> Folder | None:
    return None if graph.question_sets is None else graph.question_sets.folder


def _questions(
    dataset: Dataset, graph: StoredGraph | None, asked: Sequence[Asked], checked: Checked, progress: Progress
) -> None:
    """Each question by itself, then the ways to the answers of all that share the whole graph."""
    whole = None if graph is None else Ground(graph)
    walks: list[tuple[Asked, list[int], list[int]]] = []
    for at, one in enumerate(asked):
        if at % _STEP == 0:
            progress("checking questions", at, len(asked))
        located = None if whole is None else _ground(dataset, one, whole).locate(one.question)
        checked.findings += chain(question_checks.fields(one), question_checks.score(one, located))
        if located is None or whole is None:
            continue
        checked.findings += _names(one, located, whole)
        starts, ends = located.starts, located.ends
        if starts and ends and located.ground is whole:
            walks.append((one, starts, ends))
        elif starts and ends:
            _reached([one], distances(located.ground.graph, [starts], [ends], _most([one])), checked)
    progress("checking questions", len(asked), len(asked))
    if graph is not None and walks:
        walked, starts_Q, ends_Q = zip(*walks, strict=True)
        walking = partial(progress, "walking to the answers")
        _reached(walked, distances(graph, starts_Q, ends_Q, _most(walked), walking), checked)
    for split, counts in checked.reach.items():
        checked.reach[split] = Counter(dict(sorted(counts.items(), key=lambda one: (len(one[0]), one[0]))))


def _ground(dataset: Dataset, asked: Asked, whole: Ground) -> Ground:
    graph = dataset.graph_for(asked.question)
    assert isinstance(graph, StoredGraph)
    return whole if graph is whole.graph else Ground(graph)


def _names(asked: Asked, located: Located, whole: Ground) -> Iterator[Finding]:
    yield from question_checks.topics(asked, located)
    yield from question_checks.answers(asked, located, whole)
    yield from question_checks.paths(asked, located)


def _most(asked: Sequence[Asked]) -> int:
    return max(FARTHEST, *(one.question.hops or 0 for one in asked))


def _reached(asked: Sequence[Asked], found: Sequence[int | None], checked: Checked) -> None:
    """Counts the hops to the nearest answer, and lists those that are too many."""
    for one, hops in zip(asked, found, strict=True):
        checked.reach.setdefault(one.split, Counter())["none" if hops is None else str(hops)] += 1
        question = one.question
        if hops is None:
            text = f"from {quoted(question.topic_entities)} to {quoted(question.answers)}"
            checked.findings.append(one.finding("answers_unreached", text))
        elif hops > (HOPS if question.hops is None else question.hops):
            said = "`hops` is not given" if question.hops is None else f"`hops` is {question.hops}"
            checked.findings.append(one.finding("answers_far", f"the nearest is {hops} hops away; {said}"))
