"""`kgwalk kg ...`: build, look at, query, verify and export graphs, and add to them."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from kgwalk.cli.output import (
    OnError,
    OnErrorOption,
    counted,
    err,
    graph_called,
    out,
    parse_size,
    print_json,
    print_table,
    progress_bar,
    size,
    store_at,
    stored_graph,
)
from kgwalk.cli.propose import ACCEPT_EXAMPLES, PROPOSE_EXAMPLES, accept, propose
from kgwalk.kg.graph import Graph, with_nearest
from kgwalk.kg.store import StoredGraph, open_graph
from kgwalk.types import KgwalkError, Neighbors, UnknownName

# ----------------------------------------------------------------------------------------------------
# `kgwalk kg relations`: every relation of a graph with one of its facts, which is what a question can be about.
#
# Knows nothing of how a store is built.


EXAMPLES = "kgwalk kg relations facts.kg · kgwalk kg relations facts.kg --like birth · kgwalk kg relations world --json"
WIDTH = 40  # characters of a name in an example


def relations(
    graph: Annotated[str, typer.Argument(metavar="GRAPH", help="A store folder, a dataset with a graph, or `world`.")],
    like: Annotated[str, typer.Option(help="Those whose names have this text in them, in any case.")] = "",
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False,
) -> None:
    """Every relation: how many facts it has, between how many heads and tails, and one of them.

    Relations that say the same from the other end (children and parents) name each other; their facts tell.
    """
    every = _rows(stored_graph(graph)[1])
    rows = [row for row in every if like.lower() in row["relation"].lower()]
    if json:
        print_json({"relations": rows})
        return
    if not rows:
        out.print(f"none of {counted(len(every), 'relation')} has {like!r} in its name")
        raise typer.Exit(1)
    from rich.table import Table

    table = Table(title=f"{len(rows):,} of {counted(len(every), 'relation')}", title_justify="left")
    for name in ("facts", "heads", "tails"):
        table.add_column(name, justify="right")
    for name in ("relation", "for example", "inverse"):
        table.add_column(name, overflow="fold")
    for row in rows:
        counts = (f"{row[name]:,}" for name in ("facts", "heads", "tails"))
        example = " -> ".join(name if len(name) <= WIDTH else name[: WIDTH - 1] + "…" for name in row["example"])
        table.add_row(*counts, row["relation"], example, ", ".join(row["inverse"]))
    print_table(table)


def _rows(graph: StoredGraph) -> list[dict[str, Any]]:
    """The most used first."""
    from kgwalk.questions.schema import Inverses, survey

    inverses = Inverses(graph)
    found = sorted(survey(graph).relations.values(), key=lambda relation: (-relation.facts, relation.name))
    return [
        {
            "relation": one.name,
            "facts": one.facts,
            "heads": one.heads,
            "tails": one.tails,
            "example": [one.sample_heads[0], one.sample_tails[0]],
            "inverse": sorted(inverses.of(one.name)),
        }
        for one in found
    ]


app = typer.Typer(help="Build, query and export knowledge graphs.", no_args_is_help=True)

GraphAddress = Annotated[
    str, typer.Argument(metavar="GRAPH", help="A store folder, `world`, a kgwalk server's URL, or sparql+URL.")
]
GraphPath = Annotated[Path, typer.Argument(metavar="GRAPH", help="A store folder made by `kgwalk kg build`.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]
Force = Annotated[bool, typer.Option("--force", help="Replace what stands there.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")]


class SourceFormat(StrEnum):
    tsv = "tsv"
    csv = "csv"
    nt = "nt"
    ttl = "ttl"
    nq = "nq"
    jsonl = "jsonl"
    rog = "rog"


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
    "kgwalk kg build people.csv --table -o people.kg · kgwalk kg build wd.tsv --labels names.tsv -o wd.kg --memory 4G"
)
def build(
    sources: Annotated[
        list[Path], typer.Argument(metavar="SRC...", help="Files of triples; - reads stdin (with --format).")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The store folder to make.")],
    format: Annotated[
        SourceFormat | None, typer.Option(help="tsv, csv, nt, ttl, nq, jsonl or rog; else by file name.")
    ] = None,
    labels: Annotated[Path | None, typer.Option(help="TSV of id and label: names for the ids in the sources.")] = None,
    label: Annotated[
        str | None, typer.Option(help="RDF: the predicate whose objects are names (default rdfs:label).")
    ] = None,
    lang: Annotated[str, typer.Option(help="RDF: the language of names to prefer.")] = "en",
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
            help="TSV, CSV: the first row has column names, and each other row is about the thing in its first column.",
        ),
    ] = False,
    on_error: OnErrorOption = OnError.stop,
    memory: Annotated[
        str, typer.Option(help="About how much memory to use, whatever the input's size.", metavar="SIZE")
    ] = "1G",
    force: Force = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Build a store from TSV, CSV, N-Triples, Turtle, N-Quads or JSONL, plain, .gz or .zst.

    TSV and CSV have three columns, head, relation and tail, and may have a fourth, the time of the fact; with --table
    they are tables of any width, in which every cell is a fact. The store appears whole or not at all.
    """
    from kgwalk.kg.build import build as build_store
    from kgwalk.kg.sources.source import RDFS_LABEL, Options

    options = Options(
        format=format.value if format else None,
        on_error=on_error.value,
        header=header,
        table=table,
        label=label or RDFS_LABEL,
        lang=lang,
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
    out.print(f"{output}: {', '.join(parts)}, {size(open_graph(output).store.folder.size())}, in {seconds:.1f} s")
    if report.duplicates or report.skipped:
        duplicates, skipped = counted(report.duplicates, "duplicate"), counted(report.skipped, "malformed row")
        out.print(f"left out: {duplicates}, {skipped}")


@app.command(epilog="Example: kgwalk kg info facts.kg")
def info(graph: GraphPath, json: Json = False) -> None:
    """Counts, sizes, the most used relations and the most connected entities."""
    opened = store_at(graph)
    facts = _facts(opened)
    if json:
        print_json(facts)
        return
    for key in ("triples", "entities", "relations", "questions", "dates"):
        if facts[key]:
            out.print(f"{key:<20}{facts[key]:>14,}")
    out.print(f"{'on disk':<20}{size(facts['bytes']):>14}")
    out.print(f"{'  bytes a triple':<20}{facts['bytes_per_triple']:>14.1f}  (without names)")
    out.print(f"{'ids beside names':<20}{'yes' if facts['labelled'] else 'no':>14}")
    if facts["subgraphs"]:
        around = " and ".join(facts["subgraphs"]["around"])
        out.print(f"question subgraphs  {facts['subgraphs']['hops']} hops around {around}")
    out.print("most used relations")
    _print_top(facts["top_relations"], facts["relations"], "; kgwalk kg relations lists them all")
    out.print("most connected entities")
    _print_top(facts["top_entities"], facts["entities"])


def _print_top(top: list[tuple[str, int]], total: int, rest: str = "") -> None:
    for name, count in top:
        out.print(f"  {count:>12,}  {name}")
    if total > len(top):
        out.print(f"  {'...':>12}  {total - len(top):,} more{rest}")


def _facts(graph: StoredGraph) -> dict[str, Any]:
    import numpy as np

    store = graph.store
    sizes = store.folder.sizes()
    edges = sum(count for name, count in sizes.items() if name.startswith(("out.", "in.", "date.of")))
    used = np.zeros(len(store.relation), np.int64)
    np.add.at(used, store.out.relation_array, np.diff(store.out.start_array).astype(np.int64))
    top = np.argsort(-used, kind="stable")[:10].tolist()
    degree = [
        (n, sum(high - low for low, high in (e.span(n) for e in (store.out, store.in_))))
        for n in range(min(200, len(store.entity)))
    ]
    degree.sort(key=lambda pair: -pair[1])
    sets = graph.question_sets
    header = sets.folder.header if sets is not None and "hops" in sets.folder.header else None
    return {
        **graph.info(),
        "dates": len(store.date) - (store.date.number("") is not None) if store.timed else 0,  # "" is no date
        "bytes_per_triple": round(edges / max(1, len(store.out.other)), 2),
        "arrays": sizes,
        "subgraphs": {key: header[key] for key in ("hops", "hub", "max_triples", "around")} if header else None,
        "top_relations": [(store.relation[n], int(used[n])) for n in top],
        "top_entities": [(store.entity[n], count) for n, count in degree[:10]],
    }


app.command(epilog=f"Examples: {EXAMPLES}")(relations)


@app.command(
    epilog="Examples: kgwalk kg query facts.kg 'Tom Hanks' · kgwalk kg query facts.kg 'Tom Hanks' starred_in · "
    "kgwalk kg query events.kg Japan 'Make a visit' -d in --from 2014-03 --to 2014-04"
)
def query(
    graph: GraphAddress,
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
    json: Json = False,
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
    graph: GraphAddress,
    text: Annotated[str, typer.Argument(help="A name, roughly.")],
    k: Annotated[int, typer.Option("-k", min=1, help="How many to show.")] = 5,
    json: Json = False,
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
    graph: GraphPath,
    format: Annotated[ExportFormat, typer.Option(help="tsv, nt or nq.")] = ExportFormat.tsv,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A file; else stdout.")] = None,
    question: Annotated[str | None, typer.Option(help="Only this question's subgraph.")] = None,
    start: Annotated[str | None, typer.Option("--from", help="Only facts that hold from this date on.")] = None,
    end: Annotated[str | None, typer.Option("--to", help="Only facts that hold up to this date.")] = None,
    force: Force = False,
    quiet: Quiet = False,
    json: Json = False,
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
    graph: GraphPath,
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
    force: Force = False,
    quiet: Quiet = False,
    json: Json = False,
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
def verify(graph: GraphPath, quiet: Quiet = False, json: Json = False) -> None:
    """Read every byte of a store, and of the question subgraphs in it, against its checksums."""
    opened = store_at(graph)
    folders = [opened.store.folder]
    sets = opened.question_sets
    if sets is not None and sets.folder is not opened.store.folder:
        folders.append(sets.folder)
    total = sum(folder.size() for folder in folders)
    read = 0
    with progress_bar(quiet=quiet or json) as progress:
        for folder in folders:
            for _, count in folder.verify():
                read += count
                progress("reading", read, total)
    if json:
        print_json({"path": str(graph), "ok": True, "bytes": read})
    else:
        out.print(f"{graph}: {size(read)} read, every checksum matches")


app.command(epilog=f"Examples: {PROPOSE_EXAMPLES}")(propose)
app.command(epilog=f"Examples: {ACCEPT_EXAMPLES}")(accept)
