"""`kgwalk kg propose` and `kgwalk kg accept`: facts found on the web, into a new store."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from kgwalk.cli.options import ForceOption, JsonOption, QuietOption
from kgwalk.cli.output import counted, err, out, print_json, print_table, progress_bar
from kgwalk.types import KgwalkError

PROPOSE_EXAMPLES = (
    "kgwalk kg propose runs/eval-oracle-world-test · kgwalk kg propose RUN --least 0.8 -o sure.jsonl · "
    "kgwalk kg propose RUN --json"
)
ACCEPT_EXAMPLES = (
    "kgwalk kg accept RUN/proposals.jsonl my.kg -o more.kg · kgwalk kg accept proposals.jsonl world -o world.kg "
    "--least 0.9"
)
Least = Annotated[float, typer.Option(min=0, max=1, help="Only what is at least so sure, from 0 to 1.")]


def propose(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of an evaluation that searched the web.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file to write; else proposals.jsonl in RUN.")
    ] = None,
    least: Least = 0.5,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Propose facts that the web searches of an evaluation found and its graph lacks.

    One line a fact: triple, confidence with its features, and the sentences that say so. Edit the file, then
    `kgwalk kg accept` it. Of a run with --graph-drop, also: how many of the hidden facts come back, and how many of
    the proposals are facts of the whole graph.
    """
    from kgwalk.config.lock import sole_writer_of
    from kgwalk.evaluation.web_facts.propose import propose as propose_facts
    from kgwalk.evaluation.web_facts.propose import write_rows
    from kgwalk.walk.facts import spell

    output = output or run / "proposals.jsonl"
    started = time.perf_counter()
    with sole_writer_of(output):
        with progress_bar(quiet=quiet or json) as progress:
            proposed = propose_facts(run, least=least, progress=progress)
        write_rows(output, proposed.rows)
    seconds = time.perf_counter() - started
    report = proposed.report
    if json:
        print_json({"path": str(output), "seconds": round(seconds, 3), **report})
        return
    if not report["searches"]:
        err.print(f"note: no walk in {run} searched the web; evaluate with --web and a recipe that does")
    for row in proposed.rows[:10]:
        out.print(f"{row['confidence']:.2f}  ({', '.join(map(spell, row['triple']))})")
    if len(proposed.rows) > 10:
        out.print(f"      ... {len(proposed.rows) - 10:,} more")
    read = f"{counted(report['searches'], 'web search', 'web searches')}, {counted(report['documents'], 'document')}"
    found = f"{counted(report['known'], 'fact')} the graph has, {report['less_sure']:,} less sure than {least}"
    out.print(f"{output}: {counted(len(proposed.rows), 'proposal')} from {read}; left out: {found}; {seconds:.1f} s")
    if report["not_in_graph"]:
        out.print(f"{report['not_in_graph']:,} searches were for an entity or relation that the graph does not have")
    if "drop" in report:
        _show_drop(report["drop"])


def _show_drop(drop: dict[str, Any]) -> None:
    from rich.table import Table

    table = Table(title="by confidence, against the whole graph", title_justify="left")
    for column in ("confidence", "proposals", "right", "precision", "hidden ones found"):
        table.add_column(column, justify="right")
    for band in drop["bands"]:
        precision = "" if band["precision"] is None else f"{band['precision']:.3f}"
        row = (f"{band['from']:.1f} - {band['to']:.1f}", band["proposals"], band["right"], precision, band["needed"])
        table.add_row(*map(str, row))
    print_table(table)
    recall, precision = ("-" if drop[name] is None else f"{drop[name]:.3f}" for name in ("recall", "precision"))
    out.print(
        f"hidden from {counted(drop['questions'], 'question')}: {drop['needed']:,} crucial facts, "
        f"{drop['recovered']:,} proposed (recall {recall}); precision {precision}"
    )


def accept(
    proposals: Annotated[Path, typer.Argument(metavar="PROPOSALS", help="What `kgwalk kg propose` wrote.")],
    graph: Annotated[str, typer.Argument(metavar="GRAPH", help="A store folder, or `world`; it stays as it is.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The store folder to make.")],
    least: Least = 0.8,
    force: ForceOption = False,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Build a new store: the facts of a graph and the proposals that are sure enough.

    A line with "accept": true is taken and one with "accept": false is not, whatever its confidence. The lines taken,
    with their sources, are kept as additions.jsonl in the new store's folder.
    """
    from kgwalk.cli.options import graph_called
    from kgwalk.evaluation.web_facts.propose import accept as accept_facts
    from kgwalk.kg.store import StoredGraph, shown_address

    opened = graph_called(graph)
    if not isinstance(opened, StoredGraph):
        raise KgwalkError(f"{shown_address(graph)} is not a store here; give a store folder, or `world`")
    with progress_bar(quiet=quiet or json) as progress:
        done = accept_facts(proposals, opened, output, least=least, replace=force, progress=progress)
    if json:
        counts = {name: getattr(done, name) for name in ("added", "refused", "less_sure", "known")}
        print_json({"path": str(output), **counts, "store": asdict(done.store)})
        return
    out.print(f"{output}: {counted(done.store.triples, 'triple')}, {done.added:,} of them added")
    out.print(f"left out: {done.refused:,} refused, {done.less_sure:,} less sure than {least}, {done.known:,} known")
    if opened.question_sets is not None:
        err.print(f"note: question subgraphs are not copied; `kgwalk kg subgraphs {output} QUESTIONS` makes them")
