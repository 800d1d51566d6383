"""`kgwalk kg propose` and `accept`: facts found by a run's web searches, into a new store.

    propose(Path("runs/eval"))                             # findings that the walk's graph lacks, merged and scored
    accept(Path("facts.jsonl"), graph, Path("new.kg"))     # the graph and the accepted facts

A proposal is a row that a person may edit, giving it `"accept": true` or `false`:

    {"triple": ["Norway", "capital", "Oslo"], "confidence": 0.9, "features": {...}, "sources": [...], "questions": 2}

How sure it is:

    confidence = 0.4 sentence + 0.3 fit + 0.2 agreed + 0.1 repeated - 0.3 taken, at least 0.01

Each feature is from 0 to 1 (`Features`). The weights are set by hand so that each step can be explained. A sentence
that says it plainly, of things of the right kinds, is worth proposing (0.7) but not yet worth adding without a look
(0.8). For that the walk must have used it (0.9), or a second document must say it (0.8). Neither makes up for a wrong
kind: 0.4 + 0.2 + 0.1 is 0.7. Where a run hid facts from its graph, the report says how many of them the proposals bring
back.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson

from kgwalk.config.recipe import Recipe
from kgwalk.config.run_folder import RUN, kind, open_run, read_rows, triples_of
from kgwalk.data.dataset import load_dataset
from kgwalk.evaluation.report import PREDICTIONS, key_of, whole_episodes, whole_rows
from kgwalk.evaluation.web_facts.reading import FoundFact, Reader
from kgwalk.evaluation.web_facts.roles import Phrases
from kgwalk.kg.build import BuildReport, build
from kgwalk.kg.export import export, label_predicate
from kgwalk.kg.fact_sources import carry_sources
from kgwalk.kg.files import naming_disk_errors
from kgwalk.kg.graph import Graph
from kgwalk.kg.names import NameTable, normalise
from kgwalk.kg.sources.delimited import ESCAPED_MARK, escape
from kgwalk.kg.sources.source import Options
from kgwalk.kg.store import Store, StoredGraph
from kgwalk.types import Call, Episode, InputError, KgwalkError, Progress, Question, Triple, silent
from kgwalk.walk.environment import Environments, crucial_facts, environment_settings
from kgwalk.walk.protocol import Environment

WEIGHTS = {"sentence": 0.4, "fit": 0.3, "agreed": 0.2, "repeated": 0.1, "taken": -0.3}
LEAST = 0.01  # a confidence is above 0
MOST_SOURCES = 5  # of a proposal that are written
BANDS = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 1.01)
ADDITIONS = "additions.jsonl"


@dataclass(frozen=True)
class Proposed:
    """Proposals as rows, and the report."""

    rows: list[dict[str, Any]]
    report: dict[str, Any]


def propose(run: Path, *, least: float = 0.5, progress: Progress = silent) -> Proposed:
    """The proposals from an evaluation's folder that are at least so sure, surest first, and a report."""
    folder = open_run(run)
    if folder.kind != "eval":
        raise KgwalkError(f"{run} is a run of kind {folder.kind!r}; proposals come from an evaluation, `kgwalk eval`")
    settings = folder.about["settings"]
    if not isinstance(settings.get("data"), str):
        raise KgwalkError(f"{run / RUN} does not say of which dataset the run is; evaluate again with --force")
    dataset = load_dataset(settings["data"])
    hidden = settings.get("world", {})
    if not isinstance(hidden, dict):
        raise KgwalkError(f"{run / RUN}: expected `world`, an object, got {kind(hidden)}; evaluate again with --force")
    environment = environment_settings(Recipe(str(run / RUN), {"world": hidden}))
    proposing = _Proposing(Environments(dataset.graph_for, environment, Environment))
    total = sum(1 for _ in _episodes(folder.file(PREDICTIONS)))
    for done, episode in enumerate(_episodes(folder.file(PREDICTIONS)), 1):
        proposing.add(episode)
        progress("episodes", done, total)
    every = list(proposing.proposals.values())
    kept = ranked(every, least)
    dropped = proposing.environments.settings.drop > 0
    rows = [one.row() | ({"in_whole_graph": proposing.hidden.is_fact(one.triple)} if dropped else {}) for one in kept]
    report = {**proposing.report(), "proposals": len(kept), "less_sure": len(every) - len(kept), "least": least}
    return Proposed(rows, report | ({"drop": proposing.hidden.report(every, least)} if dropped else {}))


def _episodes(path: Path) -> Iterator[Episode]:
    """Each episode, the last one if it was walked again. The file is read twice, since it may be larger than memory."""
    last = {key_of(row): number for number, row in enumerate(whole_rows(path))}
    kept = set(last.values())
    for number, (_, episode) in enumerate(whole_episodes(path)):
        if number in kept:
            yield episode


class _Proposing:
    """The proposals of the episodes so far, and counts."""

    def __init__(self, environments: Environments) -> None:
        self.environments, self.hidden = environments, Hidden()
        self.proposals: dict[Triple, Proposal] = {}
        self.counts: Counter[str] = Counter()
        self._known: set[Triple] = set()
        self._phrases: tuple[Store | None, Phrases] = (None, Phrases([]))

    def add(self, episode: Episode) -> None:
        question = episode.question
        whole, seen = self.environments.graph_for(question), self.environments.of(question).graph
        self.counts["episodes"] += 1
        self.hidden.add(question, whole, seen)
        searches = [at for at, turn in enumerate(episode.turns) if isinstance(turn.step, Call) and _is_web(turn.step)]
        self.counts["searches"] += len(searches)
        if searches:
            reader = Reader(whole, seen, self._phrases_of(whole))
            for number in searches:
                self._read(reader, episode, number, question)

    def _read(self, reader: Reader, episode: Episode, number: int, question: Question) -> None:
        turn = episode.turns[number]
        self.counts["documents"] += len(turn.documents)
        asked = reader.asked(turn)
        if asked is None:
            self.counts["not_in_graph"] += 1
            return
        for finding in reader.read(episode, number, *asked):
            self.counts["findings"] += 1
            if finding.known:
                self._known.add(finding.triple)
                continue
            self.proposals.setdefault(finding.triple, Proposal(finding.triple)).add(finding, question.id)
            self.hidden.look_up(finding.triple, reader.whole)

    def report(self) -> dict[str, Any]:
        names = ("episodes", "searches", "not_in_graph", "documents", "findings")
        return {name: self.counts[name] for name in names} | {"known": len(self._known)}

    def _phrases_of(self, graph: Graph) -> Phrases:
        """The phrases of a store's relations, made once; a remote graph cannot list its relations."""
        store = graph.store if isinstance(graph, StoredGraph) else None
        if store is not self._phrases[0] and store is not None:
            self._phrases = store, Phrases(store.relation.several(store.live_relations()))
        return self._phrases[1]


def _is_web(step: Call) -> bool:
    return step.tool == "web_search"


# Proposals: how sure each is, and their rows in a file


@dataclass(frozen=True, slots=True)
class Features:
    """What a confidence is made of, each from 0 to 1.

    sentence: how plainly it says so: nearness of the names to the relation's words times the share of words there
    fit: whether both ends are of the kinds that the relation has in the graph (`KindFit.of`)
    agreed: 1 if a walk later searched for the other end, answered with it, or had it on an answer's path
    repeated: 1 if two independent documents say so
    taken: 1 if the relation has a single value and the graph knows another one
    """

    sentence: float
    fit: float
    agreed: float = 0.0
    repeated: float = 0.0
    taken: float = 0.0


def confidence(features: Features) -> float:
    """The weighted sum of the features.

    >>> confidence(Features(sentence=0.8, fit=1.0, agreed=1.0))
    0.82
    """
    total = sum(weight * getattr(features, name) for name, weight in WEIGHTS.items())
    return float(round(min(1.0, max(LEAST, total)), 4))


@dataclass(slots=True)
class Proposal:
    """A triple and all that speaks for it: the best of its findings, their sources and questions."""

    triple: Triple
    sentence: float = 0.0
    fit: float = 0.0
    agreed: bool = False
    taken: bool = False
    sources: dict[tuple[str, str], dict[str, str]] = field(default_factory=dict)  # by title and snippet
    questions: set[str] = field(default_factory=set)

    def add(self, finding: FoundFact, question: str) -> None:
        self.sentence = max(self.sentence, finding.sentence)
        self.fit = max(self.fit, finding.fit)
        self.agreed |= finding.agreed
        self.taken |= finding.taken
        document = finding.document
        place = {"title": document.title, "source": document.source, "snippet": finding.snippet, "question": question}
        self.sources.setdefault((normalise(document.title), normalise(finding.snippet)), place)
        self.questions.add(question)

    @property
    def features(self) -> Features:
        titles, snippets = ({key[at] for key in self.sources} for at in (0, 1))
        # Parts of one document are not independent, nor are two that copy one sentence.
        repeated = len(titles) > 1 and len(snippets) > 1
        return Features(self.sentence, self.fit, float(self.agreed), float(repeated), float(self.taken))

    @property
    def confidence(self) -> float:
        return confidence(self.features)

    def row(self) -> dict[str, Any]:
        return {
            "triple": list(self.triple[:3]),
            "confidence": self.confidence,
            "features": asdict(self.features),
            "sources": list(self.sources.values())[:MOST_SOURCES],
            "questions": len(self.questions),
        }


def ranked(proposals: Iterable[Proposal], least: float) -> list[Proposal]:
    """The proposals at least so sure, the surest first."""
    kept = (proposal for proposal in proposals if proposal.confidence >= least)
    return sorted(kept, key=lambda proposal: (-proposal.confidence, proposal.triple))


def write_rows(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Write one row a line; the file exists whole or not at all."""
    beside = path.with_name(f".{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(beside, "wb") as file:
            file.writelines(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows)
        beside.replace(path)
    except OSError as error:
        raise KgwalkError(f"cannot write {path}: {error.strerror}; choose another place with -o") from error
    finally:
        beside.unlink(missing_ok=True)


def read_proposals(path: Path) -> Iterator[tuple[Triple, float, bool | None, dict[str, Any]]]:
    """Each row's triple, its confidence (1 where a person wrote a row without one), its `accept`, and the row."""
    if not path.is_file():
        raise KgwalkError(f"{path} is no file; `kgwalk kg propose RUN -o {path}` writes proposals")
    if path.read_bytes()[-1:] not in (b"\n", b""):  # an editor may leave the last line without its end
        raise InputError("the last line is not ended", path=str(path), hint="add a line break at the end of the file")
    for number, row in enumerate(read_rows(path), 1):
        sure, accept = row.get("confidence", 1.0), row.get("accept")
        try:
            (triple,) = triples_of([row.get("triple")], "triple")
        except ValueError as error:
            raise InputError(str(error), path=str(path), line=number) from None
        if "" in triple[:3]:
            raise InputError("a name in `triple` is empty", path=str(path), line=number)
        if isinstance(sure, bool) or not isinstance(sure, int | float):
            raise InputError(f"expected `confidence`, a number, got {kind(sure)}", path=str(path), line=number)
        if not (accept is None or isinstance(accept, bool)):
            raise InputError(f"expected `accept`, true or false, got {kind(accept)}", path=str(path), line=number)
        yield triple, float(sure), accept, row


# What a run hid from its questions, and how much of it is proposed


class Hidden:
    """The facts that a run hid from its questions, each counted once however many questions it was hidden from.

    `needed` are crucial facts of a question (its gold paths, else its evidence) that the whole graph has and its view
    lacks. `hidden` are these and every other fact between the same two entities, which a view hides with them. `lone`
    are needed facts with an end that has no other fact in the view: its name is known only because the store keeps it,
    and a graph that never had the fact would not know it.
    """

    def __init__(self) -> None:
        self.questions: set[str] = set()
        self.needed: set[Triple] = set()
        self.hidden: set[Triple] = set()
        self.lone: set[Triple] = set()
        self._whole: dict[Triple, bool] = {}

    def add(self, question: Question, whole: Graph, seen: Graph) -> None:
        for fact in crucial_facts(question):
            if not _has(seen, fact) and _has(whole, fact):
                self.questions.add(question.id)
                self.needed.add(fact)
                if fact.head not in seen or fact.tail not in seen:
                    self.lone.add(fact)
                pair = [*whole.match(fact.head, None, fact.tail), *whole.match(fact.tail, None, fact.head)]
                self.hidden.update(Triple(*one[:3]) for one in pair if not _has(seen, one))

    def look_up(self, triple: Triple, whole: Graph) -> None:
        """Remember whether a proposed triple is a fact of the whole graph."""
        self._whole[triple] = self._whole.get(triple, False) or _has(whole, triple)

    def is_fact(self, triple: Triple) -> bool:
        return self._whole[triple]

    def report(self, every: Sequence[Proposal], least: float) -> dict[str, Any]:
        """Recall of hidden facts and precision of proposals, at `least` and in bands of confidence."""
        proposed = [one for one in every if one.confidence >= least]
        right = [one for one in proposed if self.is_fact(one.triple)]
        found = {one.triple for one in right}
        return {
            "questions": len(self.questions),
            "needed": len(self.needed),
            "recovered": len(self.needed & found),
            "recall": _share(len(self.needed & found), len(self.needed)),
            "lone": len(self.lone),
            "lone_recovered": len(self.lone & found),
            "hidden": len(self.hidden),
            "recall_of_hidden": _share(len(self.hidden & found), len(self.hidden)),
            "right": len(right),
            "precision": _share(len(right), len(proposed)),
            "bands": self._bands(every),
        }

    def _bands(self, every: Sequence[Proposal]) -> list[dict[str, Any]]:
        bands = []
        for low, high in pairwise(BANDS):
            inside = [one for one in every if low <= one.confidence < high]
            right = [one.triple for one in inside if self.is_fact(one.triple)]
            counts = {"proposals": len(inside), "right": len(right), "precision": _share(len(right), len(inside))}
            bands.append({"from": low, "to": min(high, 1.0), **counts, "needed": len(self.needed.intersection(right))})
        return bands


def _has(graph: Graph, fact: Triple) -> bool:
    return next(graph.match(*fact[:3], limit=1), None) is not None


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None


# Accepted proposals into a new store


@dataclass(frozen=True)
class Accepted:
    """How many proposals were added, `refused` by hand, `less_sure` than asked for, or `known` to the graph already."""

    added: int
    refused: int
    less_sure: int
    known: int
    store: BuildReport


def accept(
    proposals: Path,
    graph: StoredGraph,
    target: Path,
    *,
    least: float = 0.8,
    replace: bool = False,
    progress: Progress = silent,
) -> Accepted:
    """Build the store `target` from the graph and the proposals at least so sure; a row's own `accept` decides first.

    The graph itself is not touched. The rows of the additions, with their sources, are kept in the new store's folder
    as additions.jsonl.
    """
    chosen: dict[Triple, dict[str, Any]] = {}
    counts: Counter[str] = Counter()
    for triple, sure, accepted, row in read_proposals(proposals):
        if accepted is False:
            counts["refused"] += 1
        elif accepted is None and sure < least:
            counts["less_sure"] += 1
        elif next(graph.match(*triple[:3], limit=1), None) is not None:
            counts["known"] += 1
        else:
            chosen.setdefault(triple, row)
    left_out = (counts["refused"], counts["less_sure"], counts["known"])
    if not chosen:
        told = "{} refused, {} less sure than {}, {} already in the graph".format(*left_out[:2], least, left_out[2])
        raise KgwalkError(f"nothing to add from {proposals}: {told}; no store was written")
    source = graph.store.folder.path
    if target.resolve() == source.resolve():
        raise KgwalkError(f"{target} is the graph itself, which stays as it is; give another folder with -o")
    report = _build(graph, chosen, target, replace, progress)
    carry_sources(source, target)
    write_rows(target / ADDITIONS, [*read_rows(source / ADDITIONS), *chosen.values()])
    return Accepted(len(chosen), *left_out, report)


def _build(
    graph: StoredGraph, additions: Iterable[Triple], target: Path, replace: bool, progress: Progress
) -> BuildReport:
    """Export the graph, write the additions beside it as a second source, and build a store of both."""
    store = graph.store
    labelled = store.entity_id is not None
    format = "tsv" if not labelled else "nq" if store.timed else "nt"  # TSV has no place for ids beside names
    with naming_disk_errors(f"while building {target}"):
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{target.name}.adding-", dir=target.parent) as scratch:
            facts, added = Path(scratch) / f"facts.{format}", Path(scratch) / "additions.tsv"
            with open(facts, "wb") as file:
                file.writelines(export(graph, format))
            added.write_text("".join(_lines(store, additions)), encoding="utf-8", newline="")
            options = Options(label=label_predicate(store)) if labelled else Options()
            return build([facts, added], target, options=options, replace=replace, progress=progress)


def _lines(store: Store, additions: Iterable[Triple]) -> Iterable[str]:
    """The additions as TSV, by id where the store has ids; a new name is its own id."""
    yield f"{ESCAPED_MARK}\n"
    for head, relation, tail, time in additions:
        keys = [_key(store.entity, store.entity_id, head), _key(store.relation, store.relation_id, relation)]
        keys.append(_key(store.entity, store.entity_id, tail))
        yield "\t".join([*map(escape, keys), *([time] if time else [])]) + "\n"


def _key(names: NameTable, ids: NameTable | None, name: str) -> str:
    number = None if ids is None else names.number(name)
    return name if ids is None or number is None else ids[number]
