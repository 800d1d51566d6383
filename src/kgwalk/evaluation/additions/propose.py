"""A run's web searches to proposals: every finding that the walk's graph lacks, merged and weighed.

Knows the folder of an evaluation; not how sentences are read, nor what becomes of a proposal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kgwalk.agent.protocol import World
from kgwalk.agent.worlds import Worlds, WorldSettings
from kgwalk.data.dataset import load_dataset
from kgwalk.evaluation.additions.hidden import Hidden
from kgwalk.evaluation.additions.phrases import Phrases
from kgwalk.evaluation.additions.proposals import Proposal, ranked
from kgwalk.evaluation.additions.reading import Reader
from kgwalk.evaluation.predictions import PREDICTIONS, key_of, whole_rows
from kgwalk.kg.graph import Graph
from kgwalk.kg.store import Store, StoredGraph
from kgwalk.runs.episodes import episode_from
from kgwalk.runs.folder import open_run
from kgwalk.types import Call, Episode, KgwalkError, Question, Triple

Progress = Callable[[str, int, int | None], None]


@dataclass(frozen=True)
class Proposed:
    rows: list[dict[str, Any]]
    report: dict[str, Any]


def propose(run: Path, *, least: float = 0.5, progress: Progress = lambda what, done, total: None) -> Proposed:
    """The proposals of an evaluation's folder that are at least so sure, best first, and what was read for them."""
    folder = open_run(run)
    if folder.kind != "eval":
        raise KgwalkError(f"{run} is a run of kind {folder.kind!r}; proposals come from an evaluation, `kgwalk eval`")
    settings = folder.about["settings"]
    dataset = load_dataset(settings["data"])
    work = _Work(Worlds(dataset.graph_for, WorldSettings(**settings.get("world", {})), World))
    total = sum(1 for _ in _episodes(folder.file(PREDICTIONS)))
    for done, episode in enumerate(_episodes(folder.file(PREDICTIONS)), 1):
        work.add(episode)
        progress("episodes", done, total)
    every = list(work.proposals.values())
    kept = ranked(every, least)
    dropped = work.worlds.settings.drop > 0
    rows = [one.row() | ({"in_whole_graph": work.hidden.is_fact(one.triple)} if dropped else {}) for one in kept]
    report = {**work.report(), "proposals": len(kept), "less_sure": len(every) - len(kept), "least": least}
    return Proposed(rows, report | ({"drop": work.hidden.report(every, least)} if dropped else {}))


def _episodes(path: Path) -> Iterator[Episode]:
    """Each episode, of one that was walked again the last. Two readings of the file: it may be larger than memory."""
    last = {key_of(row): number for number, row in enumerate(whole_rows(path))}
    kept = set(last.values())
    for number, row in enumerate(whole_rows(path)):
        if number in kept:
            yield episode_from(row["episode"])


class _Work:
    """The proposals so far, and the counts."""

    def __init__(self, worlds: Worlds) -> None:
        self.worlds, self.hidden = worlds, Hidden()
        self.proposals: dict[Triple, Proposal] = {}
        self.counts: Counter[str] = Counter()
        self._known: set[Triple] = set()
        self._phrases: tuple[Store | None, Phrases] = (None, Phrases([]))

    def add(self, episode: Episode) -> None:
        question = episode.question
        whole, seen = self.worlds.graph_for(question), self.worlds.of(question).graph
        self.counts["episodes"] += 1
        self.hidden.add(question, whole, seen)
        searches = [at for at, turn in enumerate(episode.turns) if isinstance(turn.step, Call) and _is_web(turn.step)]
        self.counts["searches"] += len(searches)
        reader = Reader(whole, seen, self._phrases_of(whole)) if searches else None
        for number in searches:
            assert reader is not None
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
        """Those of a store's relations, made once; a graph elsewhere cannot list its own."""
        store = graph.store if isinstance(graph, StoredGraph) else None
        if store is not self._phrases[0] and store is not None:
            self._phrases = store, Phrases(store.relation.several(range(len(store.relation))))
        return self._phrases[1]


def _is_web(step: Call) -> bool:
    return step.tool == "web_search"
