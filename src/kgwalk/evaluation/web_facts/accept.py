"""A new store of a graph's facts and the proposals that were accepted; the graph itself is not touched.

Exports the graph, writes the additions beside it as a second source, and builds. The rows of the additions, with
their sources, lie in the new store's folder as additions.jsonl. Knows nothing of how proposals came about.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kgwalk.config.run_folder import read_rows
from kgwalk.evaluation.web_facts.propose import read_proposals, write_rows
from kgwalk.kg.build import BuildReport, build
from kgwalk.kg.export import export, label_predicate
from kgwalk.kg.files import naming_disk_errors
from kgwalk.kg.names import NameTable
from kgwalk.kg.sources.delimited import ESCAPED_MARK, escape
from kgwalk.kg.sources.source import Options
from kgwalk.kg.store import Store, StoredGraph
from kgwalk.types import KgwalkError, Progress, Triple, silent

ADDITIONS = "additions.jsonl"


@dataclass(frozen=True)
class Accepted:
    """`refused` by hand, `less_sure` than asked for, `known` to the graph already."""

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
    """Build `target` from the graph and the proposals at least so sure; `accept` in a row wins over that."""
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
    write_rows(target / ADDITIONS, [*read_rows(source / ADDITIONS), *chosen.values()])
    return Accepted(len(chosen), *left_out, report)


def _build(
    graph: StoredGraph, additions: Iterable[Triple], target: Path, replace: bool, progress: Progress
) -> BuildReport:
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
    """TSV with the keys of the names: their ids where the store has ids; a new name is its own."""
    yield f"{ESCAPED_MARK}\n"
    for head, relation, tail, time in additions:
        keys = [_key(store.entity, store.entity_id, head), _key(store.relation, store.relation_id, relation)]
        keys.append(_key(store.entity, store.entity_id, tail))
        yield "\t".join([*map(escape, keys), *([time] if time else [])]) + "\n"


def _key(names: NameTable, ids: NameTable | None, name: str) -> str:
    number = None if ids is None else names.number(name)
    return name if ids is None or number is None else ids[number]
