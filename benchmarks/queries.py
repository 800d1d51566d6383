"""Whether the queries that walks are written as give the walks' answers: made questions, run in the languages' engines.

Run: python -m benchmarks.queries [--count 500] [--graph world] [--engines sqlite,oxigraph,python] [--json]
     python -m benchmarks.queries --worlds 20 --engines sqlite,duckdb,oxigraph,python,bolt --arcadedb FOLDER

Questions of the full walking language are made from the graph, or with `--worlds` from so many invented graphs, a third
of whose relations have dates. The program of each is walked, written as a query of each engine's language, and run over
what `kgwalk kg export` writes: sqlite (Python's own), duckdb (pip install duckdb), oxigraph (in this process), python
(a script), bolt (pip install neo4j; an ArcadeDB server is started from the package arcadedb-embedded whose folder is
given, on loopback). Names must be the same; numbers the same in ten figures; a table's cells the same sets.
It exits with 1 if any answer differs or a query fails. What has no query in a language is counted with its reason.
"""

from __future__ import annotations

import argparse
import io
import json
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from unittest.mock import patch

import httpx
import pyoxigraph

from kgwalk.data.dataset import load_dataset
from kgwalk.demos.route import step_of
from kgwalk.kg.build import build
from kgwalk.kg.export import export
from kgwalk.kg.store import StoredGraph, open_graph
from kgwalk.questions.make import make_questions
from kgwalk.questions.plan import MakeSettings, QuestionPlan
from kgwalk.types import Question
from kgwalk.walk.language import Sets
from kgwalk.walk.queries import query_of
from kgwalk.walk.queries.cypher import identifier
from kgwalk.walk.queries.program import QueryError, WalkProgram
from kgwalk.walk.sets import NamedSet
from kgwalk.walk.starts import gold_kinds
from kgwalk.walk.values import value_of

Rows = list[tuple[str, ...]]
BATCH = 5000  # rows sent to a server at once
PASSWORD = "on-loopback-only"


class QueryEngine(Protocol):
    """Runs queries of a language over one graph."""

    language: str

    def rows(self, query: str) -> Rows: ...


class Sqlite:
    language = "sql"

    def __init__(self, graph: StoredGraph) -> None:
        self.database = sqlite3.connect(":memory:")
        self.database.execute("CREATE TABLE facts(head TEXT, relation TEXT, tail TEXT, time TEXT)")
        self.database.executemany("INSERT INTO facts VALUES (?, ?, ?, ?)", graph.match())
        self.database.execute("CREATE INDEX forwards ON facts(relation, head, tail)")
        self.database.execute("CREATE INDEX backwards ON facts(relation, tail, head)")

    def rows(self, query: str) -> Rows:
        return self.database.execute(query).fetchall()

    def close(self) -> None:
        self.database.close()


class DuckDb:
    language = "sql"

    def __init__(self, graph: StoredGraph) -> None:
        import duckdb
        import pyarrow as pa

        columns = zip(*graph.match(), strict=True)
        facts = pa.table(dict(zip(("head", "relation", "tail", "time"), map(list, columns), strict=True)))
        self.database = duckdb.connect(":memory:")
        self.database.register("given", facts)
        self.database.execute("CREATE TABLE facts AS SELECT * FROM given")

    def rows(self, query: str) -> Rows:
        return [tuple(map(str, row)) for row in self.database.execute(query).fetchall()]

    def close(self) -> None:
        self.database.close()


class Oxigraph:
    language = "sparql"

    def __init__(self, graph: StoredGraph) -> None:
        form, parsed = ("nq", "N_QUADS") if graph.store.timed else ("nt", "N_TRIPLES")
        self.store = pyoxigraph.Store()
        self.store.load(b"".join(export(graph, form)), format=getattr(pyoxigraph.RdfFormat, parsed))

    def rows(self, query: str) -> Rows:
        found: Any = self.store.query(query)
        names = [variable.value for variable in found.variables if variable.value != "answer"]
        return [tuple("" if row[name] is None else row[name].value for name in names) for row in found]

    def close(self) -> None:
        pass


class PythonScript:
    language = "python"

    def __init__(self, graph: StoredGraph) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.facts = Path(self.folder.name) / "facts.tsv"
        self.facts.write_bytes(b"".join(export(graph, "tsv")))

    def rows(self, query: str) -> Rows:
        printed = io.StringIO()
        with redirect_stdout(printed), patch.object(sys, "argv", ["query.py", str(self.facts)]):
            exec(compile(query, "query.py", "exec"), {"__name__": "__main__"})
        return [tuple(line.split("\t")) for line in printed.getvalue().split("\n")[:-1]]

    def close(self) -> None:
        self.folder.cleanup()


class Bolt:
    """A database of the server, made anew for each graph."""

    language = "cypher"

    def __init__(self, graph: StoredGraph, server: ArcadeDb) -> None:
        import neo4j

        self.server, self.name = server, server.new_database()
        self.driver = neo4j.GraphDatabase.driver(f"bolt://127.0.0.1:{server.bolt}", auth=("root", PASSWORD))
        self.session = self.driver.session(database=self.name)
        facts = list(graph.match())
        names = list(dict.fromkeys(name for fact in facts for name in (fact.head, fact.tail)))
        self._send("UNWIND $rows AS name CREATE (:Entity {name: name})", names)
        by_relation = defaultdict(list)
        for head, relation, tail, time_ in facts:
            by_relation[relation].append([head, tail, time_])
        for relation, rows in by_relation.items():
            create = f"CREATE (a)-[:{identifier(relation)} {{time: r[2]}}]->(b)"
            ends = "MATCH (a:Entity {name: r[0]}) MATCH (b:Entity {name: r[1]})"
            self._send(f"UNWIND $rows AS r {ends} {create}", rows)

    def _send(self, query: str, rows: Sequence[Any]) -> None:
        for at in range(0, len(rows), BATCH):
            self.session.run(query, rows=rows[at : at + BATCH]).consume()  # type: ignore[arg-type]

    def rows(self, query: str) -> Rows:
        found = self.session.run(query)  # type: ignore[arg-type]
        return [
            tuple("; ".join(cell) if isinstance(cell, list) else str(cell) for cell in row.values()) for row in found
        ]

    def close(self) -> None:
        self.session.close()
        self.driver.close()
        self.server.command(f"drop database {self.name}")


class ArcadeDb:
    """An ArcadeDB server with its Bolt port, from the folder of the package arcadedb_embedded."""

    def __init__(self, package: Path, folder: Path) -> None:
        self.http, self.bolt = _free_port(), _free_port()
        self.databases = 0
        settings = {
            "server.rootPath": folder,
            "server.rootPassword": PASSWORD,
            "server.httpIncomingHost": "127.0.0.1",
            "server.httpIncomingPort": self.http,
            "bolt.host": "127.0.0.1",
            "bolt.port": self.bolt,
            "server.plugins": "Bolt:com.arcadedb.bolt.BoltProtocolPlugin",
        }
        options = [f"-Darcadedb.{name}={value}" for name, value in settings.items()]
        command = [package / "jre/bin/java", "-Xmx1g", *options, "-cp", f"{package}/jars/*"]
        with open(folder / "server.txt", "wb") as log:
            self.process = subprocess.Popen(
                [*map(str, command), "com.arcadedb.server.ArcadeDBServer"], stdout=log, stderr=log, cwd=folder
            )

    def ready(self, seconds: float = 60) -> None:
        ends = time.monotonic() + seconds
        while True:
            try:
                self.command("list databases")
                with socket.create_connection(("127.0.0.1", self.bolt), 1):
                    return
            except (httpx.HTTPError, OSError):
                if time.monotonic() > ends or self.process.poll() is not None:
                    raise
                time.sleep(0.2)

    def command(self, text: str, where: str = "server", **more: str) -> None:
        url = f"http://127.0.0.1:{self.http}/api/v1/{where}"
        httpx.post(url, auth=("root", PASSWORD), json={"command": text, **more}, timeout=60).raise_for_status()

    def new_database(self) -> str:
        self.databases += 1
        name = f"graph{self.databases}"
        self.command(f"create database {name}")
        for text in (
            "CREATE VERTEX TYPE Entity",
            "CREATE PROPERTY Entity.name STRING",
            "CREATE INDEX ON Entity (name) UNIQUE",
        ):
            self.command(text, f"command/{name}", language="sql")
        return name

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(30)


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


# What is asked, and whether it is answered alike


class Programs:
    """Says a plan as its program: every plan can be said."""

    def say(self, plan: QuestionPlan, chance: object) -> str | None:
        return f"{plan.topics} {[kind.name for kind in plan.kinds]} {plan.program()} {plan.asked} {plan.meant}"


def made_programs(graph: StoredGraph, count: int, seed: int = 0) -> list[WalkProgram]:
    """Programs of questions made from a graph; those that nothing is walked for are left out."""
    questions = make_questions(graph, Programs(), MakeSettings(count=count, seed=seed, language="full"))
    return [program_of(one, graph) for one in questions if one.answers]


def program_of(question: Question, graph: StoredGraph) -> WalkProgram:
    steps: Any = question.extra["program"]
    kinds, calls = gold_kinds(question, graph), tuple(step_of(tool, args) for tool, *args in steps)
    starts = len(question.topic_entities) + len(kinds)
    return WalkProgram(tuple(question.topic_entities), tuple(kinds), calls, starts + len(calls))


def walked(program: WalkProgram, graph: StoredGraph) -> NamedSet:
    """What the program's walk answers."""
    sets = Sets(graph, program.topics, kinds=program.kinds, short=True, empty=True)
    for call in program.calls:
        sets.call(call.tool, call.args)
    return sets.made[program.answer - 1]


def same(made: NamedSet, rows: Rows) -> bool:
    """Whether a query's rows are the answer of a walk."""
    if made.rows:
        wanted = {(name, *(_cell(cell) for cell in made.rows[name])) for name in made.members}
        return wanted == {(row[0], *(_cell(filter(None, cell.split("; "))) for cell in row[1:])) for row in rows}
    return len(rows) == len(made.members) and {_plain(row[0]) for row in rows} == set(map(_plain, made.members))


def _cell(texts: Iterable[str]) -> frozenset[str | tuple[str, str]]:
    return frozenset(map(_plain, texts))


def _plain(text: str) -> str | tuple[str, str]:
    """A number in ten figures with its unit; any other text as it is."""
    value = value_of(text)
    return text if value is None or value.date else (f"{value.number:.10g}", value.unit)


@dataclass
class EngineTally:
    """Of one engine: how many answers were the same, by the calls of their programs, and what was not."""

    counts: Counter[str] = field(default_factory=Counter)
    by_call: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    refused: Counter[str] = field(default_factory=Counter)
    differing: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, outcome: str, program: WalkProgram) -> None:
        self.counts[outcome] += 1
        for tool in {call.tool for call in program.sliced().calls} or {"(a kind alone)"}:
            self.by_call[tool][outcome] += 1


def compare(engine: QueryEngine, graph: StoredGraph, programs: Iterable[WalkProgram], tally: EngineTally) -> None:
    for program in programs:
        made = walked(program, graph)
        try:
            query = query_of(program, graph, engine.language)
        except QueryError as error:
            tally.add("refused", program)
            tally.refused[str(error).partition("`: ")[2] or str(error)] += 1
            continue
        started = time.perf_counter()
        try:
            outcome = "same" if same(made, engine.rows(query)) else "different"
        except Exception as error:  # noqa: BLE001 - whatever the engine says of it
            outcome, query = "failed", f"{error}\n{query}"
        tally.seconds += time.perf_counter() - started
        tally.add(outcome, program)
        if outcome != "same":
            tally.differing.append(f"{[(call.tool, *call.args) for call in program.calls]}\n{query}")


def graphs_of(given: argparse.Namespace, folder: Path) -> Iterator[tuple[StoredGraph, list[WalkProgram]]]:
    if not given.worlds:
        graph = load_dataset("world").graph() if given.graph == "world" else open_graph(Path(given.graph))
        yield graph, made_programs(graph, given.count, given.seed)
        return
    from kgwalk.questions.bank import load_bank
    from kgwalk.questions.invented.concepts import Exclusions
    from kgwalk.questions.invented.dataset import InventedDataSettings, write_invented
    from kgwalk.questions.invented.graph import InventedSettings

    each = -(-given.count // given.worlds)
    settings = InventedDataSettings(
        given.worlds,
        each,
        given.seed,
        world=InventedSettings(dated=0.3, language="full"),
        questions=MakeSettings(language="full"),
    )
    concepts, _ = Exclusions().of(load_bank(None))
    write_invented(folder / "worlds", settings, concepts, Exclusions())
    dataset = load_dataset(folder / "worlds")
    by_graph: dict[str, list[Question]] = defaultdict(list)
    for split in dataset.splits():
        for question in dataset.questions(split):
            by_graph[str(question.extra["graph_id"])].append(question)
    for name, questions in by_graph.items():
        facts = folder / f"{name}.jsonl"
        facts.write_text("".join(f"{json.dumps(fact)}\n" for fact in dataset.graph_for(questions[0]).match()))
        build([facts], folder / f"{name}.kg")
        graph = open_graph(folder / f"{name}.kg")
        yield graph, [program_of(one, graph) for one in questions if one.answers]


@contextmanager
def engines_of(given: argparse.Namespace, folder: Path) -> Iterator[dict[str, Callable[[StoredGraph], Any]]]:
    makers: dict[str, Callable[[StoredGraph], Any]] = {
        "sqlite": Sqlite,
        "duckdb": DuckDb,
        "oxigraph": Oxigraph,
        "python": PythonScript,
    }
    names = given.engines.split(",")
    if "bolt" not in names:
        yield {name: makers[name] for name in names}
        return
    server = ArcadeDb(Path(given.arcadedb), folder)
    try:
        server.ready()
        yield {name: makers.get(name) or (lambda graph: Bolt(graph, server)) for name in names}
    finally:
        server.stop()


def show(tallies: dict[str, EngineTally]) -> None:
    outcomes = ("same", "different", "failed", "refused")
    for name, tally in tallies.items():
        print(f"{name}: {', '.join(f'{one} {tally.counts[one]}' for one in outcomes)}, {tally.seconds:.1f} s")
        for why, count in tally.refused.most_common():
            print(f"    refused {count}: {why}")
    calls = sorted({call for tally in tallies.values() for call in tally.by_call})
    print(f"{'call':<16}" + "".join(f"{name:>18}" for name in tallies))
    for call in calls:
        of = [tally.by_call[call] for tally in tallies.values()]
        shares = [f"{one['same']} of {sum(one.values())}" for one in of]
        print(f"{call:<16}" + "".join(f"{share:>18}" for share in shares))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=500, help="questions; %(default)s")
    parser.add_argument("--graph", default="world", help="a store's folder; %(default)s")
    parser.add_argument("--worlds", type=int, default=0, help="invented graphs in place of it")
    parser.add_argument("--seed", type=int, default=0, help="%(default)s")
    parser.add_argument("--engines", default="sqlite,oxigraph,python", help="%(default)s; also duckdb, bolt")
    parser.add_argument("--arcadedb", help="for bolt: the folder of the installed package arcadedb_embedded")
    parser.add_argument("--json", action="store_true", help="one object on stdout")
    given = parser.parse_args()
    if "bolt" in given.engines and not given.arcadedb:
        parser.error("bolt needs --arcadedb, the folder of the installed package arcadedb_embedded")
    with tempfile.TemporaryDirectory() as temporary, engines_of(given, Path(temporary)) as engines:
        tallies = {name: EngineTally() for name in engines}
        for graph, programs in graphs_of(given, Path(temporary)):
            for name, make in engines.items():
                print(f"{name}: {len(programs)} programs over {len(graph):,} facts ...", file=sys.stderr)
                with closing(make(graph)) as engine:
                    compare(engine, graph, programs, tallies[name])
    for name, tally in tallies.items():
        for text in tally.differing:
            print(f"{name}: {text}", file=sys.stderr)
    if given.json:
        print(json.dumps({name: vars(tally) for name, tally in tallies.items()}, ensure_ascii=False))
    else:
        show(tallies)
    return int(any(tally.differing for tally in tallies.values()))


if __name__ == "__main__":
    sys.exit(main())
