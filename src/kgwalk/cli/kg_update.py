"""`kgwalk kg update` and `kgwalk kg compact`: facts added to a store and removed from it, and folded in."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from kgwalk.cli.options import (
    BadRows,
    ExternalIdsOption,
    JsonOption,
    OnErrorOption,
    QuietOption,
    Ranks,
    RanksOption,
    SourceFormat,
    StoreArgument,
    bundled_path,
)
from kgwalk.cli.output import counted, err, out, parse_size, print_json, progress_bar, size
from kgwalk.types import KgwalkError

UPDATE_EXAMPLES = (
    "kgwalk kg update films.kg more.tsv · kgwalk kg update films.kg more.nt --remove wrong.nt · "
    "kgwalk kg update films.kg --merge 'T. Hanks=Tom Hanks' · kgwalk kg update films.kg --alias 'Tom=Tom Hanks' · "
    "kgwalk kg update shop.kg orders.csv --table --json"
)
COMPACT_EXAMPLES = "kgwalk kg compact films.kg · kgwalk kg compact films.kg --memory 4G --json"
MANY = 10_000  # changes from which on folding them in is advised: every opening reads them, in up to a second


def update(
    graph: StoreArgument,
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SRC]...", help="Files of facts to add; - reads stdin (with --format); a graph's address."
        ),
    ] = None,
    remove: Annotated[
        list[str] | None, typer.Option("--remove", metavar="FILE", help="A file of facts to remove; may be repeated.")
    ] = None,
    merge: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DUPLICATE=KEPT",
            help="The facts of a duplicate become the kept entity's; its name still means it. May be repeated.",
        ),
    ] = None,
    alias: Annotated[
        list[str] | None,
        typer.Option(metavar="NEW=NAME", help="A further name of an entity. May be repeated."),
    ] = None,
    format: Annotated[
        SourceFormat | None,
        typer.Option(help="A format, as for `kgwalk kg build`; else as the file is called and begins."),
    ] = None,
    labels: Annotated[Path | None, typer.Option(help="TSV of id and label: names for new ids.")] = None,
    label: Annotated[
        str | None, typer.Option(help="RDF: the predicate whose objects are names (default rdfs:label).")
    ] = None,
    lang: Annotated[str, typer.Option(help="RDF, Wikidata: the language of names to prefer.")] = "en",
    ranks: RanksOption = Ranks.best,
    external_ids: ExternalIdsOption = False,
    header: Annotated[
        bool | None,
        typer.Option("--header/--no-header", help="TSV, CSV: the first row is, or is not, a header; else guessed."),
    ] = None,
    table: Annotated[
        bool, typer.Option("--table", help="TSV, CSV, JSONL: tables, as `kgwalk kg build` reads.")
    ] = False,
    key: Annotated[
        list[str] | None, typer.Option(metavar="TABLE=COLUMN", help="Tables: a key, as for `kgwalk kg build`.")
    ] = None,
    on_error: OnErrorOption = BadRows.stop,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Add facts to a store and remove facts from it, at once: what reads the store, also a running server, sees them.

    Files are what `kgwalk kg build` reads. Facts are removed first, then added; then duplicates are merged and aliases
    given. When the command ends, the change is on the disk as a whole. Removing what is not there is counted.
    """
    from kgwalk.kg.sources.source import RDFS_LABEL, Options
    from kgwalk.kg.update import update as update_store

    store = _own(graph)
    if not (sources or remove or merge or alias):
        raise typer.BadParameter("nothing to do: give files of facts, --remove, --merge or --alias")
    options = Options(
        format=format.value if format else None,
        on_error=on_error.value,
        header=header,
        table=table,
        keys=key or (),
        label=label or RDFS_LABEL,
        lang=lang,
        ranks=ranks.value,
        external_ids=external_ids,
    )
    started = time.perf_counter()
    with progress_bar(quiet=quiet or json) as progress:
        report = update_store(
            store,
            sources or (),
            remove=remove or (),
            merges=[_pair(text, "--merge", "DUPLICATE=KEPT") for text in merge or ()],
            aliases=[_pair(text, "--alias", "NEW=NAME") for text in alias or ()],
            options=options,
            labels=labels,
            progress=progress,
        )
    seconds = time.perf_counter() - started
    if json:
        print_json({"path": str(graph), "seconds": round(seconds, 3), **asdict(report)})
        return
    for note in [*report.notes, *report.first_skipped]:
        err.print(f"note: {note}")
    parts = [counted(report.added, "fact") + " added", f"{report.removed:,} removed"]
    parts += [f"{report.moved:,} moved in {counted(report.merged, 'merge')}"] * bool(report.merged)
    parts += [counted(report.aliases, "alias", "aliases")] * bool(report.aliases)
    parts += [counted(report.sources, "quotation")] * bool(report.sources)
    out.print(f"{graph}: {', '.join(parts)}, in {seconds:.1f} s")
    if report.known or report.missing or report.skipped:
        skipped = counted(report.skipped, "malformed row")
        out.print(
            f"left out: {report.known:,} already there, {report.missing:,} to remove that are not there, {skipped}"
        )
    if report.changes > MANY:
        err.print(
            f"note: {report.changes:,} changes since the store was built; `kgwalk kg compact {graph}` folds them in"
        )


def compact(
    graph: StoreArgument,
    memory: Annotated[
        str, typer.Option(help="About how much memory to use, whatever the store's size.", metavar="SIZE")
    ] = "1G",
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Fold the updates of a store into a new build of it, which takes its place in one step.

    Killed at any moment, there is the store with its updates or the new one. What has the old one open reads on.
    """
    from kgwalk.kg.compact import compact as compact_store
    from kgwalk.kg.store import open_graph

    store = _own(graph)
    try:
        budget = parse_size(memory)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    started = time.perf_counter()
    with progress_bar(quiet=quiet or json) as progress:
        report = compact_store(store, memory=budget, progress=progress)
    seconds = time.perf_counter() - started
    if json:
        done = {"batches": 0} if report is None else asdict(report)
        print_json({"path": str(graph), "seconds": round(seconds, 3), **done})
        return
    if report is None:
        out.print(f"{graph}: no updates to fold in")
        return
    folded = f"{counted(report.added, 'fact')} added and {report.removed:,} removed"
    held = size(open_graph(store).store.folder.size())
    out.print(f"{graph}: {folded} are folded in; {counted(report.store.triples, 'triple')}, {held}, in {seconds:.1f} s")
    if report.subgraphs:
        err.print(f"note: question subgraphs are not kept; `kgwalk kg subgraphs {graph} QUESTIONS` makes them again")


def _own(graph: Path) -> Path:
    """The store's folder, which is not one that comes with kgwalk."""
    if bundled_path(str(graph)) is not None:
        raise KgwalkError(
            f"the graph {graph} comes with kgwalk and stays as it is; make one of your own: "
            f"`kgwalk kg export {graph} -o facts.tsv`, `kgwalk kg build facts.tsv -o mine.kg`"
        )
    return graph


def _pair(text: str, option: str, form: str) -> tuple[str, str]:
    """Both sides of the first equals sign."""
    first, equals, second = text.partition("=")
    if not equals or not first.strip() or not second.strip():
        raise typer.BadParameter(f"{text!r} is not of the form {form}", param_hint=option)
    return first.strip(), second.strip()
