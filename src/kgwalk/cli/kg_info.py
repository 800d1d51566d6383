"""`kgwalk kg info`, `kgwalk kg relations` and `kgwalk kg walk`: what is in a graph, and what a program finds there."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import closing, nullcontext
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from kgwalk.cli.ask import SHOWN, print_answer, show_turn
from kgwalk.cli.options import (
    AsOption,
    GraphArgument,
    JsonOption,
    graph_called,
    store_at,
    stored_graph,
)
from kgwalk.cli.output import counted, out, print_json, print_table, size
from kgwalk.kg.graph import Graph
from kgwalk.kg.store import DATABASES, StoredGraph, is_elsewhere, shown_address
from kgwalk.types import Call, KgwalkError

RELATIONS_EXAMPLES = (
    "kgwalk kg relations facts.kg · kgwalk kg relations facts.kg --like birth · kgwalk kg relations world --json"
)
WALK_EXAMPLES = (
    """kgwalk kg walk world 'tail_entities("France", "borders"); count($1)' · """
    """kgwalk kg walk world 'top($1, "population", "3")' --kind country · kgwalk kg walk films.kg - < program.txt · """
    """kgwalk kg walk world 'tail_entities("France", "borders")' --as sparql"""
)
WIDTH = 40  # characters of a name in an example


def info(graph: GraphArgument, json: JsonOption = False) -> None:
    """Counts, sizes, the most used relations and the most connected entities; how tables and databases were read."""
    by_address = is_elsewhere(graph) or graph.startswith(DATABASES)
    opened = graph_called(graph) if by_address else store_at(Path(graph))
    if not isinstance(opened, StoredGraph):
        _print_elsewhere(graph, opened, json)
        return
    facts = _facts(opened)
    if json:
        print_json(facts)
        return
    for key in ("triples", "entities", "relations", "questions", "dates"):
        if facts[key]:
            out.print(f"{key:<20}{facts[key]:>14,}")
    if facts["updates"]["batches"]:
        done = facts["updates"]
        told = f"{counted(done['added'], 'fact')} added, {done['removed']:,} removed"
        told += f", {counted(done['aliases'], 'alias', 'aliases')}" * bool(done["aliases"])
        out.print(f"{'updates':<20}{told}; kgwalk kg compact folds them in")
    out.print(f"{'on disk':<20}{size(facts['bytes']):>14}")
    out.print(f"{'  bytes a triple':<20}{facts['bytes_per_triple']:>14.1f}  (without names)")
    out.print(f"{'ids beside names':<20}{'yes' if facts['labelled'] else 'no':>14}")
    if facts["subgraphs"]:
        around = " and ".join(facts["subgraphs"]["around"])
        out.print(f"question subgraphs  {facts['subgraphs']['hops']} hops around {around}")
    for table in facts["tables"]:
        out.print(f"{'table':<20}{_read_as(table)}", soft_wrap=True)
    out.print("most used relations")
    _print_top(facts["top_relations"], facts["relations"], "; kgwalk kg relations lists them all")
    out.print("most connected entities")
    _print_top(facts["top_entities"], facts["entities"])


def _read_as(table: dict[str, Any]) -> str:
    """How a build read a table: `employees: 5 rows by id, shown by name; department_id -> departments`."""
    links = ", ".join(f"{column} -> {other}" for column, other in table["links"].items())
    if table["read_as"] == "relation":
        return f"{table['table']}: a relation between rows, {links}"
    by = f"{table['table']}: {counted(table['rows'], 'row')} by {table['key'] or 'their number'}"
    return by + f", shown by {' and '.join(table['label'])}" * bool(table["label"]) + f"; {links}" * bool(links)


def _print_elsewhere(address: str, graph: Graph, json: bool) -> None:
    """What a graph elsewhere says of itself; a property graph or an endpoint, how it is read."""
    with closing(graph) if hasattr(graph, "close") else nullcontext():  # type: ignore[type-var]
        if not hasattr(graph, "info"):
            raise KgwalkError(
                f"{shown_address(address)} says nothing of itself; `kgwalk kg query` asks for what is around an entity"
            )
        facts = graph.info()
    if json:
        print_json(facts)
        return
    for key, value in facts.items():
        if isinstance(value, dict):
            out.print(key)
            for name, about in value.items():
                told = ", ".join(f"{word}: {_listed(said)}" for word, said in about.items() if said)
                out.print(f"  {name:<20}{told}".rstrip(), soft_wrap=True)
        else:
            out.print(f"{key:<20}{_said(value):>14}", soft_wrap=True)


def _said(value: Any) -> str:
    """A setting or a count: `yes`, `4,112`, `none`; of a fact its names."""
    if isinstance(value, bool):
        return ("no", "yes")[value]
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:g}"
    return f"({', '.join(value)})" if isinstance(value, list) and value else value or "none"


def _listed(said: str | list[str]) -> str:
    return said if isinstance(said, str) else ", ".join(said)


def walk(
    graph: GraphArgument,
    program: Annotated[
        str, typer.Argument(help="Calls, a line each or with ; between; - reads stdin. The last set is the answer.")
    ],
    topic: Annotated[list[str] | None, typer.Option("--topic", help="An entity: $1, $2, ... in this order.")] = None,
    kind: Annotated[
        list[str] | None, typer.Option("--kind", help="All of a kind, such as country: the sets after the topics.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help=f"Print at most so many answers (default {SHOWN}; with --json all).")
    ] = None,
    as_: AsOption = None,
    json: JsonOption = False,
) -> None:
    """Run a program of the walking language: the calls that an agent writes, without a model.

    Every call makes the next set. An argument is a set ($1), a name, a relation, a path or a value in double quotes.
    With --as the program is printed as a query that gives the same answer; with --json that is the field `query`.
    """
    from kgwalk.kg.fact_sources import sources_behind
    from kgwalk.systems.kgwalk.protocol import program as calls_of
    from kgwalk.systems.kgwalk.protocol import run_program
    from kgwalk.walk.agent import as_json, gathered
    from kgwalk.walk.facts import entity_named, nearest_facts
    from kgwalk.walk.kinds import kind_named
    from kgwalk.walk.starts import Start

    calls = calls_of(sys.stdin.read() if program == "-" else program)
    opened = graph_called(graph)
    kinds = [(name, kind_named(name, opened)) for name in kind or ()]
    if missing := [name for name, found in kinds if found is None]:
        raise KgwalkError(f"the graph has no kind {missing[0]!r}; `kgwalk kg relations` lists what its things have")
    topics = [entity_named(opened, name) for name in topic or ()]
    episode = run_program(calls, opened, topics, [found for _, found in kinds if found is not None])
    asked = gathered("", Start(topics), [episode], {"generated": 0, "prompt": 0, "total": 0}, 0.0)
    asked.sources = sources_behind(asked.evidence, opened)
    if not asked.answers:
        asked.nearest = nearest_facts(program, opened, topics or named(calls))
    if as_ is not None:
        from kgwalk.walk.queries import query_of
        from kgwalk.walk.queries.program import program_of

        used = [found for _, found in kinds if found is not None]
        asked.query = query_of(program_of(episode.turns, topics, used), opened, as_.value)
        if not json:
            print(asked.query, end="")
            return
    if json:
        whole = as_json(asked, limit=limit)
        print_json({name: value for name, value in whole.items() if name not in _OF_A_MODEL})
        return
    for turn in episode.turns[:-1]:
        show_turn(turn)
    print_answer(asked, limit or SHOWN)


def named(calls: Iterable[Call]) -> list[str]:
    """The names that calls begin from."""
    return [call.args[0] for call in calls if call.args and isinstance(call.args[0], str)]


_OF_A_MODEL = ("turns", "tokens", "seconds", "stop", "note", "walks")  # what a program does not have


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
    np.add.at(used, np.asarray(store.out.relation_array), np.diff(np.asarray(store.out.start_array)).astype(np.int64))
    top = [number for number in np.argsort(-used, kind="stable")[:10].tolist() if used[number]]
    degree = [
        (n, sum(high - low for low, high in (e.span(n) for e in (store.out, store.in_))))
        for n in islice(graph.live_entities(), 200)
    ]
    degree.sort(key=lambda pair: -pair[1])
    sets = graph.question_sets
    header = sets.folder.header if sets is not None and "hops" in sets.folder.header else None
    return {
        **graph.info(),
        "tables": store.folder.header.get("tables", []),
        "dates": len(store.date) - (store.date.number("") is not None) if store.timed else 0,  # "" is no date
        "bytes_per_triple": round(edges / max(1, len(store.out.other)), 2),
        "arrays": sizes,
        "subgraphs": {key: header.get(key) for key in ("hops", "hub", "max_triples", "around")} if header else None,
        "top_relations": [(store.relation[n], int(used[n])) for n in top],
        "top_entities": [(store.entity[n], count) for n, count in degree[:10]],
    }


def relations(
    graph: Annotated[str, typer.Argument(metavar="GRAPH", help="A store folder, a dataset with a graph, or `world`.")],
    like: Annotated[str, typer.Option(help="Those whose names have this text in them, in any case.")] = "",
    json: JsonOption = False,
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
