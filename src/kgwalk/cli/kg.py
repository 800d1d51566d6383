"""`kgwalk kg ...`: build graphs of files or texts, update, look at, query, verify and export them."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from kgwalk.cli.extract import EXTRACT_EXAMPLES, extract
from kgwalk.cli.kg_info import RELATIONS_EXAMPLES, WALK_EXAMPLES, info, relations, walk
from kgwalk.cli.kg_update import COMPACT_EXAMPLES, UPDATE_EXAMPLES, compact, update
from kgwalk.cli.options import (
    BadRows,
    ExternalIdsOption,
    ForceOption,
    GraphArgument,
    JsonOption,
    OnErrorOption,
    QuietOption,
    Ranks,
    RanksOption,
    SourceFormat,
    StoreArgument,
    graph_called,
    store_at,
)
from kgwalk.cli.output import counted, err, out, parse_size, print_json, progress_bar, size
from kgwalk.cli.propose import ACCEPT_EXAMPLES, PROPOSE_EXAMPLES, accept, propose
from kgwalk.kg.graph import Graph, with_nearest
from kgwalk.kg.store import StoredGraph, open_graph
from kgwalk.types import KgwalkError, Neighbors, UnknownName

app = typer.Typer(help="Build, update, query and export knowledge graphs.", no_args_is_help=True)


class ExportFormat(StrEnum):
    tsv = "tsv"
    nt = "nt"
    nq = "nq"


class Direction(StrEnum):
    out = "out"
    in_ = "in"
    both = "both"


def _memory(text: str) -> int:
    try:
        return parse_size(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


@app.command(
    epilog="Examples: kgwalk kg build facts.tsv -o facts.kg · kgwalk kg build a.nt.gz b.nt.gz -o both.kg --lang de · "
    "kgwalk kg build people.csv --table -o people.kg · "
    "kgwalk kg build products.csv orders.csv --table --key products=sku -o shop.kg · "
    "kgwalk kg build shop.db -o shop.kg · kgwalk kg build bolt://127.0.0.1:7687 -o movies.kg · "
    "kgwalk kg build nodes.csv relationships.csv -o neo4j.kg · "
    "kgwalk kg build latest-all.json.bz2 -o wikidata.kg --lang de --ranks all · "
    "kgwalk kg build wd.tsv --labels names.tsv -o wd.kg --memory 4G"
)
def build(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SRC...", help="Files of triples or tables; - reads stdin (with --format); a graph's address."
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The store folder to make.")],
    format: Annotated[
        SourceFormat | None,
        typer.Option(
            help="tsv, csv, nt, ttl, nq, jsonld, jsonl, rog, json, wikidata, neo4j, graphml, xlsx, sqlite or duckdb; "
            "else as the file is called and begins."
        ),
    ] = None,
    labels: Annotated[Path | None, typer.Option(help="TSV of id and label: names for the ids in the sources.")] = None,
    label: Annotated[
        str | None, typer.Option(help="RDF: the predicate whose objects are names (default rdfs:label).")
    ] = None,
    lang: Annotated[str, typer.Option(help="RDF, Wikidata: the language of names to prefer.")] = "en",
    ranks: RanksOption = Ranks.best,
    external_ids: ExternalIdsOption = False,
    header: Annotated[
        bool | None,
        typer.Option(
            "--header/--no-header",
            help="TSV, CSV: the first row is, or is not, a header; else it is guessed.",
        ),
    ] = None,
    table: Annotated[
        bool,
        typer.Option(
            "--table",
            help="TSV, CSV: the first row has column names, and each other row is a thing; JSONL: records. Keys and "
            "foreign keys of "
            "several tables are found by their names, and shown.",
        ),
    ] = False,
    key: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TABLE=COLUMN",
            help="Tables: the key column of a table, where another was found; TABLE.COLUMN=TABLE for a foreign key, "
            "`none` in place of the last for none. May be repeated.",
        ),
    ] = None,
    on_error: OnErrorOption = BadRows.stop,
    memory: Annotated[
        str, typer.Option(help="About how much memory to use, whatever the input's size.", metavar="SIZE")
    ] = "1G",
    force: ForceOption = False,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Build a store from TSV, CSV, RDF, JSON, JSONL, Neo4j's CSV, Wikidata's JSON or GraphML (plain, .gz, .bz2 or
    .zst), Excel sheets, an SQLite or DuckDB database, or of all facts of a graph elsewhere.

    TSV and CSV have three columns, head, relation and tail, and may have a fourth, the time of the fact; with --table
    they are tables of any width, in which every cell is a fact, and foreign keys lead to other tables' rows. The store
    appears whole or not at all.
    """
    from kgwalk.kg.build import build as build_store
    from kgwalk.kg.sources.source import RDFS_LABEL, Options

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
    budget = _memory(memory)
    started = time.perf_counter()
    with progress_bar(quiet=quiet or json) as progress:
        report = build_store(
            sources, output, options=options, labels=labels, memory=budget, replace=force, progress=progress
        )
    seconds = time.perf_counter() - started
    if json:
        print_json({"path": str(output), "seconds": round(seconds, 3), **asdict(report)})
        return
    for note in [*report.notes, *report.first_skipped]:
        err.print(f"note: {note}")
    parts = [
        counted(report.triples, "triple"),
        counted(report.entities, "entity", "entities"),
        counted(report.relations, "relation"),
    ]
    parts += [counted(report.dates, "date")] * bool(report.dates)
    parts += [counted(report.questions, "question")] * bool(report.questions)
    parts += [counted(report.sources, "quotation")] * bool(report.sources)
    out.print(f"{output}: {', '.join(parts)}, {size(open_graph(output).store.folder.size())}, in {seconds:.1f} s")
    if report.duplicates or report.skipped:
        duplicates, skipped = counted(report.duplicates, "duplicate"), counted(report.skipped, "malformed row")
        out.print(f"left out: {duplicates}, {skipped}")


app.command(epilog=f"Examples: {EXTRACT_EXAMPLES}")(extract)
app.command(epilog=f"Examples: {UPDATE_EXAMPLES}")(update)
app.command(epilog=f"Examples: {COMPACT_EXAMPLES}")(compact)
app.command(
    epilog="Examples: kgwalk kg info facts.kg · kgwalk kg info sqlite:///shop.db · kgwalk kg info bolt://127.0.0.1:7687"
)(info)
app.command(epilog=f"Examples: {RELATIONS_EXAMPLES}")(relations)
app.command(epilog=f"Examples: {WALK_EXAMPLES}")(walk)


@app.command(
    epilog="Examples: kgwalk kg query facts.kg 'Tom Hanks' · kgwalk kg query facts.kg 'Tom Hanks' starred_in · "
    "kgwalk kg query events.kg Japan 'Make a visit' -d in --from 2014-03 --to 2014-04"
)
def query(
    graph: GraphArgument,
    entity: Annotated[str, typer.Argument(help="An entity's name or id.")],
    relation: Annotated[str | None, typer.Argument(help="A relation; without it, list the entity's relations.")] = None,
    direction: Annotated[
        Direction,
        typer.Option("--direction", "-d", help="out (edges that leave the entity), in (that arrive at it) or both."),
    ] = Direction.both,
    start: Annotated[str | None, typer.Option("--from", help="Only facts that hold from this date on.")] = None,
    end: Annotated[str | None, typer.Option("--to", help="Only facts that hold up to this date.")] = None,
    question: Annotated[str | None, typer.Option(help="Within this question's subgraph.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most this many names.")] = 50,
    json: JsonOption = False,
) -> None:
    """One hop from an entity: its relations, or its neighbours along one."""
    seen = _view(graph_called(graph), question, start, end)
    try:
        found = {out: _hop(seen, entity, relation, out, limit) for out in _directions(direction)}
    except UnknownName as error:
        raise with_nearest(seen, error) from None
    if json:
        print_json({"entity": entity, "relation": relation, **{"out" if o else "in": v for o, v in found.items()}})
        return
    for outgoing, value in found.items():
        _print_hop(entity, relation, outgoing, value)


def _view(graph: Graph, question: str | None, start: str | None, end: str | None) -> Any:
    """The graph, or the part of it that is asked for; graphs elsewhere may lack such parts."""
    if isinstance(graph, StoredGraph) and question is not None and graph.question_sets is None:
        path = graph.store.folder.path
        raise KgwalkError(f"{path} has no question subgraphs; make them with `kgwalk kg subgraphs {path} QUESTIONS`")
    view: Any = graph
    for name, wanted, arguments in (
        ("question", question is not None, (question,)),
        ("between", start is not None or end is not None, (start, end)),
    ):
        if wanted and not hasattr(view, name):
            raise KgwalkError(f"a {type(graph).__name__} has no such parts; build a store of it for that")
        try:
            view = getattr(view, name)(*arguments) if wanted else view
        except ValueError as error:
            raise typer.BadParameter(str(error)) from error
    return view


def _directions(direction: Direction) -> tuple[bool, ...]:
    return {Direction.out: (True,), Direction.in_: (False,), Direction.both: (True, False)}[direction]


def _hop(graph: Graph, entity: str, relation: str | None, out: bool, limit: int) -> dict[str, Any]:
    if relation is None:
        every = graph.relations(entity, out=out)
        relations = every[:limit]
        counts = [graph.neighbors(entity, r, out=out, limit=3) for r in relations]
        return {
            "relations": [
                {"relation": r, "total": c.total, "examples": c.names} for r, c in zip(relations, counts, strict=True)
            ],
            "left_out": len(every) - len(relations),
        }
    neighbors: Neighbors = graph.neighbors(entity, relation, out=out, limit=limit)
    value: dict[str, Any] = {
        "names": neighbors.names,
        "total": neighbors.total,
        "left_out": neighbors.left_out,
    }
    return value if neighbors.times is None else value | {"times": neighbors.times}


def _print_hop(entity: str, relation: str | None, outgoing: bool, value: dict[str, Any]) -> None:
    if relation is None:
        pattern = f"({entity}, ?, ...)" if outgoing else f"(..., ?, {entity})"
        out.print(f"{pattern}: {counted(len(value['relations']) + value['left_out'], 'relation')}")
        for entry in value["relations"]:
            more = ", ..." if entry["total"] > len(entry["examples"]) else ""
            out.print(f"  {entry['relation']}  ({entry['total']:,}: {', '.join(entry['examples'])}{more})")
        if value["left_out"]:
            out.print(f"  ... {value['left_out']:,} more (--limit)")
        return
    pattern = f"({entity}, {relation}, ?)" if outgoing else f"(?, {relation}, {entity})"
    out.print(f"{pattern}: {value['total']:,}")
    times = value.get("times") or [[]] * len(value["names"])
    for name, dates in zip(value["names"], times, strict=True):
        out.print(f"  {name}" + (f"  [{'; '.join(dates)}]" if dates else ""))
    if value["left_out"]:
        out.print(f"  ... {value['left_out']:,} more (--limit)")


@app.command(epilog="Example: kgwalk kg find facts.kg 'tom hancks'")
def find(
    graph: GraphArgument,
    text: Annotated[str, typer.Argument(help="A name, roughly.")],
    k: Annotated[int, typer.Option("-k", min=1, help="How many to show.")] = 5,
    json: JsonOption = False,
) -> None:
    """Entities whose names are nearest to a text."""
    found = graph_called(graph).find(text, k)
    if json:
        print_json({"text": text, "found": [asdict(entry) for entry in found]})
        return
    if not found:
        err.print(f"note: no name is near {text!r}")
    for entry in found:
        known_as = f"  <{entry.id}>" if entry.id and entry.id != entry.name else ""
        out.print(f"{entry.score:.2f}  {entry.how:<11} {entry.name}{known_as}")


@app.command(
    epilog="Examples: kgwalk kg export facts.kg > facts.tsv · kgwalk kg export facts.kg --format nt -o facts.nt"
)
def export(
    graph: StoreArgument,
    format: Annotated[ExportFormat, typer.Option(help="tsv, nt or nq.")] = ExportFormat.tsv,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A file; else stdout.")] = None,
    question: Annotated[str | None, typer.Option(help="Only this question's subgraph.")] = None,
    start: Annotated[str | None, typer.Option("--from", help="Only facts that hold from this date on.")] = None,
    end: Annotated[str | None, typer.Option("--to", help="Only facts that hold up to this date.")] = None,
    force: ForceOption = False,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Write a graph as TSV, N-Triples or N-Quads; building that again gives the same graph."""
    from kgwalk.kg.export import export as export_blocks

    blocks = export_blocks(_view(store_at(graph), question, start, end), format.value)
    if output is None:
        if json:
            raise typer.BadParameter("--json needs -o: the graph itself goes to stdout")
        for block in blocks:
            sys.stdout.buffer.write(block)
        sys.stdout.flush()
        return
    written = _write_whole(blocks, output, force=force, quiet=quiet or json)
    if json:
        print_json({"path": str(output), "format": format.value, "bytes": written})
    else:
        out.print(f"{output}: {size(written)}")


def _write_whole(blocks: Iterator[bytes], path: Path, *, force: bool, quiet: bool) -> int:
    from kgwalk.kg.files import naming_disk_errors

    if path.exists() and not force:
        raise KgwalkError(f"{path} exists; choose another name, or replace it with --force")
    partial = path.with_name(f".{path.name}.partial")
    written = 0
    with naming_disk_errors(f"cannot write {path}"), progress_bar(quiet=quiet) as progress:
        try:
            with open(partial, "wb") as file:
                for block in blocks:
                    file.write(block)
                    written += len(block)
                    progress("writing", written, None)
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    return written


@app.command(epilog="Example: kgwalk kg subgraphs facts.kg test.jsonl.gz --hops 2")
def subgraphs(
    graph: StoreArgument,
    questions: Annotated[
        list[Path],
        typer.Argument(metavar="QUESTIONS...", help="JSONL files with id, topic_entities, answers."),
    ],
    hops: Annotated[int, typer.Option(min=1, help="How far from the topics.")] = 2,
    with_answers: Annotated[
        bool,
        typer.Option(
            "--with-answers",
            help="Grow around the gold answers too (KG-R1's appendix B.2); recorded as such.",
        ),
    ] = False,
    hub: Annotated[int, typer.Option(min=1, help="Follow at most this many edges of one entity and relation.")] = 200,
    max_triples: Annotated[int, typer.Option(min=1, help="At most this many triples a question.")] = 50_000,
    force: ForceOption = False,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Store a subgraph for each question, as lists of triples over the shared graph."""
    from kgwalk.data.folder import read_questions
    from kgwalk.kg.subgraphs import Seeds, write_subgraphs

    opened = open_graph(graph)
    asked = [question for path in questions for question in read_questions(path)]
    seeds = (Seeds(q.id, q.topic_entities, q.answers if with_answers else ()) for q in asked)
    with progress_bar(quiet=quiet or json) as progress:
        report = write_subgraphs(
            opened,
            seeds,
            hops=hops,
            hub=hub,
            max_triples=max_triples,
            replace=force,
            progress=lambda done: progress("subgraphs", done, len(asked)),
        )
    if json:
        print_json({"around": ["topics", "answers"] if with_answers else ["topics"], **asdict(report)})
        return
    mean = report.triples / report.questions
    out.print(f"{counted(report.questions, 'subgraph')}, {mean:,.0f} triples on average, {report.largest:,} at most")
    if report.truncated:
        out.print(f"{report.truncated:,} were cut at {max_triples:,} triples (--max-triples)")
    if report.empty or report.unknown:
        missing = f"; not in the graph, for example: {', '.join(report.unknown)}" if report.unknown else ""
        err.print(f"note: {counted(report.empty, 'is', 'are')} empty{missing}")


@app.command(epilog="Example: kgwalk kg verify facts.kg")
def verify(graph: StoreArgument, quiet: QuietOption = False, json: JsonOption = False) -> None:
    """Read every byte of a store, and of the question subgraphs in it, against its checksums."""
    from kgwalk.kg.fact_sources import verify_sources

    folders = store_at(graph).folders()
    total = sum(folder.size() for folder in folders)
    read = 0
    with progress_bar(quiet=quiet or json) as progress:
        for folder in folders:
            for _, count in folder.verify():
                read += count
                progress("reading", read, total)
    verify_sources(folders[0].path)
    if json:
        print_json({"path": str(graph), "ok": True, "bytes": read})
    else:
        out.print(f"{graph}: {size(read)} read, every checksum matches")


app.command(epilog=f"Examples: {PROPOSE_EXAMPLES}")(propose)
app.command(epilog=f"Examples: {ACCEPT_EXAMPLES}")(accept)
