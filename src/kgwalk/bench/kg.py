"""`kgwalk bench kg`: the store and its server beside a plain list scan, in one run on one machine.

(a) 2,000 question subgraphs of 4,000 triples; (b) one graph of 1M triples, then 10M; with `--huge`, 100M. With
`--scale`, actions/s of the graph of 1M triples by workers and clients (`bench_scale`).
"""

from __future__ import annotations

import random
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from kgwalk.bench import servers
from kgwalk.bench.rows import Figure
from kgwalk.bench.servers import Load, Running, ask, bodies, scan_server, store_server
from kgwalk.kg.graph import Graph
from kgwalk.kg.http import HttpGraph
from kgwalk.kg.http_servers import AT_ONCE
from kgwalk.kg.store import open_graph
from kgwalk.types import KgwalkError, Progress, UnknownName
from kgwalk.walk.actions import run

ACTIONS = ("get_tail_relations", "get_head_relations", "get_tail_entities", "get_head_entities")


@dataclass(frozen=True)
class GraphScale:
    """How much is measured. Goals hold for the full scale only."""

    triples: int = 1_000_000
    questions: int = 2_000
    question_triples: int = 4_000
    samples: int = 4_000
    seconds: float = 4.0
    scan_seconds: float = 1.0  # of asking a list scan
    starts: int = 5
    clients: tuple[int, ...] = (1, 8, 32, 64)  # of `bench_scale`
    rounds: int = 5

    @classmethod
    def quick(cls) -> GraphScale:
        return cls(
            triples=20_000,
            questions=20,
            question_triples=400,
            samples=300,
            seconds=0.1,
            scan_seconds=0.1,
            starts=1,
            clients=(1, 4),
            rounds=1,
        )


def bench_kg(folder: Path, scale: GraphScale, progress: Progress) -> list[Figure]:
    """All figures but those of `bench_huge`. The graphs are made in `folder`, which the caller removes."""
    full = scale == GraphScale()
    rows: list[Figure] = []
    one, one_store = _random_graph(folder, "1m", scale.triples, progress)
    rows += _build_rows(folder, scale.triples, progress, full)
    ten_store = folder / "10m.kg"
    single, ten = _in_turns([(one_store, 1), (ten_store, 10)], scale)
    scan = _in_process_scan(one)
    label = f"{scale.triples:,}"
    for action in ACTIONS:
        goal = ("<=", 20.0) if full else None
        rows.append(Figure(f"{action}, {label} triples, p50", single[action], "us", scan[action], goal))
        rows.append(Figure(f"{action}, {10 * scale.triples:,} triples, p50", ten[action], "us", None, goal))
        growth = ("<=", 1.5) if full else None
        rows.append(Figure(f"{action}, ten times the triples", ten[action] / single[action], "x", None, growth))
    rows.append(Figure(f"open, {label} triples", _open_ms(one_store), "ms", None, ("<=", 50.0) if full else None))
    rows += _over_http(one, one_store, scale, full, progress)
    rows += _questions(folder, one, scale, full, progress)
    return rows


def _random_graph(folder: Path, name: str, triples: int, progress: Progress) -> tuple[Path, Path]:
    """A random graph of so many triples: its TSV file and its store."""
    source, store = folder / f"{name}.tsv", folder / f"{name}.kg"
    if not source.exists():
        servers.write_tsv(source, triples, triples // 10, 300, lambda n: progress(f"making {name}", n, triples))
    if not store.exists():
        _build(source, store, "1G")
    return source, store


# Runs a command and prints, after its output, the most memory it had, apart from that of this process.
_MEASURED = """
import resource, subprocess, sys
done = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE)
most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
sys.stdout.buffer.write(done.stdout + b"\\n" + str(most).encode())
sys.exit(done.returncode)
"""


@dataclass(frozen=True)
class Built:
    """What a build took, and its report."""

    seconds: float
    rss: float  # MB, the most at any moment
    report: dict[str, Any]


def _build(source: Path, store: Path, memory: str) -> Built:
    """Builds a store in a process of its own, to measure its memory."""
    before = time.perf_counter()
    command = [sys.executable, "-m", "kgwalk.cli.main", "kg", "build", str(source), "-o", str(store)]
    done = subprocess.run(
        [sys.executable, "-c", _MEASURED, *command, "--memory", memory, "--json"], stdout=subprocess.PIPE
    )
    if done.returncode:
        raise KgwalkError(f"the build of {source} failed with status {done.returncode}")
    report, kilobytes = done.stdout.rstrip().rsplit(b"\n", 1)
    return Built(time.perf_counter() - before, int(kilobytes) * 1024 / 1e6, orjson.loads(report))


def _build_rows(folder: Path, triples: int, progress: Progress, full: bool) -> list[Figure]:
    source, store = folder / "10m.tsv", folder / "10m.kg"
    servers.write_tsv(source, 10 * triples, triples, 300, lambda n: progress("making 10m", n, 10 * triples))
    progress("building 10m", 0, None)
    built = _build(source, store, "1G")
    source.unlink()
    return _store_rows(store, built, f"{10 * triples:,}", full)


def _store_rows(store: Path, built: Built, label: str, full: bool) -> list[Figure]:
    sizes = open_graph(store).store.folder.sizes()
    triples = built.report["triples"]
    edges = sum(size for name, size in sizes.items() if name.startswith(("out.", "in.")))
    return [
        Figure(f"build, {label} triples, --memory 1G", built.seconds, "s"),
        Figure(f"build, {label} triples, most memory", built.rss, "MB", None, ("<=", 2000.0) if full else None),
        Figure(
            f"store, {label} triples, without names",
            edges / triples,
            "bytes a triple",
            None,
            ("<=", 40.0) if full else None,
        ),
        Figure(f"store, {label} triples, with names", sum(sizes.values()) / triples, "bytes a triple"),
        Figure(f"open, {label} triples", _open_ms(store), "ms"),
    ]


def bench_huge(folder: Path, progress: Progress, triples: int = 100_000_000) -> list[Figure]:
    """100M triples: build, size, open, actions. Needs about 12 GB of disk."""
    source, store = folder / "huge.tsv", folder / "huge.kg"
    servers.write_tsv(source, triples, triples // 10, 1000, lambda n: progress("making huge", n, triples))
    progress("building huge", 0, None)
    built = _build(source, store, "1G")
    source.unlink()
    label = f"{triples:,}"
    rows = _store_rows(store, built, label, False)
    (measured,) = _in_turns([(store, 1)], GraphScale(triples=triples))
    return rows + [Figure(f"{action}, {label} triples, p50", value, "us") for action, value in measured.items()]


# In this process


def _questions_for(graph: Graph, names: Sequence[str], count: int) -> dict[str, list[tuple[str, str | None]]]:
    """For each action, random entities, and relations that they have, to ask about."""
    rng = random.Random(7)
    asked: dict[str, list[tuple[str, str | None]]] = {action: [] for action in ACTIONS}
    while len(asked["get_head_entities"]) < count:
        entity = rng.choice(names)
        for out, side in ((True, "tail"), (False, "head")):
            try:
                relations = graph.relations(entity, out=out)
            except UnknownName:
                continue
            if relations:
                asked[f"get_{side}_relations"].append((entity, None))
                asked[f"get_{side}_entities"].append((entity, rng.choice(relations)))
    return asked


def _times(graph: Graph, asked: dict[str, list[tuple[str, str | None]]]) -> dict[str, list[int]]:
    """How long each call of each action took, in nanoseconds, with looking up names."""
    times: dict[str, list[int]] = {}
    for action, questions in asked.items():
        times[action] = []
        for entity, relation in questions:
            before = time.perf_counter_ns()
            answer = run(graph, action, entity, relation, limit=100)
            times[action].append(time.perf_counter_ns() - before)
            if not answer.ok:
                raise KgwalkError(f"{action}({entity}, {relation}) went wrong: {answer.text}")
    return times


def _medians(times: dict[str, list[int]]) -> dict[str, float]:
    return {action: sorted(each)[len(each) // 2] / 1000 for action, each in times.items()}


def _in_turns(stores: Sequence[tuple[Path, int]], scale: GraphScale, rounds: int = 8) -> list[dict[str, float]]:
    """The median time of each action on each store, in microseconds.

    The stores take turns, so that other work on the machine slows all of them, and their ratio still holds.
    """
    graphs, asked = [], []
    for store, times in stores:
        entities = scale.triples * times // 10
        names = [servers.entity(n) for n in random.Random(3).sample(range(entities), min(entities, 5000))]
        graphs.append(open_graph(store))
        asked.append(_questions_for(graphs[-1], names, scale.samples))
        _times(graphs[-1], asked[-1])  # once to bring the pages in
    found: list[dict[str, list[int]]] = [{action: [] for action in ACTIONS} for _ in stores]
    for turn in range(rounds):
        for graph, questions, kept in zip(graphs, asked, found, strict=True):
            for action, each in _times(graph, {a: q[turn::rounds] for a, q in questions.items()}).items():
                kept[action] += each
    return [_medians(kept) for kept in found]


def _in_process_scan(source: Path) -> dict[str, float]:
    graph = servers.ListGraphs(source)
    asked: dict[str, list[tuple[str, str | None]]] = {action: [] for action in ACTIONS}
    for fact in random.Random(4).sample(graph.triples, 15):
        asked["get_tail_relations"].append((fact.head, None))
        asked["get_head_relations"].append((fact.tail, None))
        asked["get_tail_entities"].append((fact.head, fact.relation))
        asked["get_head_entities"].append((fact.tail, fact.relation))
    return _medians(_times(graph, asked))


def _open_ms(store: Path) -> float:
    times = []
    for _ in range(5):
        before = time.perf_counter()
        open_graph(store)
        times.append((time.perf_counter() - before) * 1000)
    return sorted(times)[2]


# Over HTTP


def _actions(graph: Graph, names: Sequence[str], count: int, question: str | None = None) -> list[dict[str, Any]]:
    asked = _questions_for(graph, names, count)
    more = {} if question is None else {"question": question}
    mixed = [
        {"action": action, "entity": entity, **({"relation": relation} if relation else {}), **more}
        for action, questions in asked.items()
        for entity, relation in questions[:count]
    ]
    random.Random(5).shuffle(mixed)
    return mixed


def _over_http(source: Path, store: Path, scale: GraphScale, full: bool, progress: Progress) -> list[Figure]:
    graph = open_graph(store)
    entities = scale.triples // 10
    names = [servers.entity(n) for n in random.Random(11).sample(range(entities), min(entities, 5000))]
    actions = _actions(graph, names, scale.samples)
    progress("asking over HTTP", 0, None)
    with store_server(store) as server:
        ours = _three_loads(server, actions, scale.seconds)
    progress("asking a list scan over HTTP", 0, None)
    with scan_server(source) as server:
        # Each action scans the whole list: a batch of 256 would take longer than its time limit.
        theirs = _three_loads(server, actions, scale.scan_seconds, batch=8)
    label = f"{scale.triples:,} triples, HTTP, one worker"
    goals = (900.0, 2000.0, 25_000.0) if full else (None, None, None)
    shapes = ("1 client", "64 clients", "batches of 256")
    return [
        Figure(f"{label}, {shape}", mine, "actions/s", scanned, None if goal is None else (">=", goal))
        for shape, mine, scanned, goal in zip(shapes, ours, theirs, goals, strict=True)
    ]


def _three_loads(
    server: Running, actions: list[dict[str, Any]], seconds: float, batch: int = 256
) -> tuple[float, float, float]:
    """Actions a second: one client, 64 clients, and batches from two."""
    single = bodies(actions, 1)
    one = _good(ask(server.url, single, clients=1, seconds=seconds))
    many = _good(ask(server.url, single, clients=64, seconds=seconds))
    batch = min(batch, len(actions))
    batches = _good(ask(server.url, bodies(actions, batch), clients=2, seconds=seconds))
    return one.rate, many.rate, batches.rate * batch


def _ready(store: Path, starts: int) -> float:
    """Seconds from the start of a server's process to its first answer: the median."""
    times = []
    for _ in range(starts):
        with store_server(store) as server:
            times.append(server.ready_seconds)
    return sorted(times)[starts // 2]


def _good(load: Load) -> Load:
    if set(load.statuses) != {200}:
        raise KgwalkError(f"the server answered {load.statuses}")
    return load


def _questions(folder: Path, plain: Path, scale: GraphScale, full: bool, progress: Progress) -> list[Figure]:
    source, store = folder / "questions.jsonl", folder / "questions.kg"
    progress("making question subgraphs", 0, scale.questions)
    servers.write_rog(
        source,
        scale.questions,
        scale.question_triples,
        lambda n: progress("making question subgraphs", n, scale.questions),
    )
    progress("building question subgraphs", 0, None)
    # The plain graph is built again: only builds one after the other can be compared on a machine with other work.
    plain_built = _build(plain, folder / "plain.kg", "1G")
    built = _build(source, store, "1G")
    a_triple, plain_a_triple = (one.seconds / one.report["rows"] * 1e6 for one in (built, plain_built))
    graph = open_graph(store)
    actions: list[dict[str, Any]] = []
    for number in range(scale.questions):
        view = graph.question(f"q{number}")
        names = sorted({name for triple in view.match(limit=4) for name in (triple.head, triple.tail)})
        actions += _actions(view, names, 2, f"q{number}")
    random.Random(6).shuffle(actions)
    ready = _ready(store, scale.starts)
    with store_server(store) as server:
        ours = _three_loads(server, actions, scale.seconds)
        rss = server.rss()
    progress("asking lists of question subgraphs", 0, None)
    with scan_server(source) as server:
        scan_ready = server.ready_seconds
        theirs = _three_loads(server, actions, scale.seconds)
        scan_rss = server.rss()
    label = f"{scale.questions:,} subgraphs of {scale.question_triples:,}"
    rows = [
        Figure(f"{label}: ready after start", ready, "s", scan_ready, ("<=", 0.5) if full else None),
        Figure(f"{label}: server's memory", rss, "MB", scan_rss, ("<=", 300.0) if full else None),
        Figure(f"{label}: build", built.seconds, "s"),
        Figure(f"{label}: build, most memory", built.rss, "MB", None, ("<=", 2000.0) if full else None),
        Figure(f"{label}: build, each triple", a_triple, "us"),
        Figure(
            f"{label}: build, each triple, beside a plain graph of {scale.triples:,}",
            a_triple / plain_a_triple,
            "x",
            None,
            ("<=", 2.0) if full else None,
        ),
    ]
    shapes = ("1 client", "64 clients", "batches of 256")
    return rows + [
        Figure(f"{label}, HTTP, one worker, {shape}", mine, "actions/s", scanned)
        for shape, mine, scanned in zip(shapes, ours, theirs, strict=True)
    ]


# Workers and clients

SCALE_BATCH = 32


def bench_scale(folder: Path, scale: GraphScale, progress: Progress) -> list[Figure]:
    """Actions a second by workers and clients; the baseline of each figure is the same with one worker.

    Four kinds of clients. "Single" and "batches" are connections of a load generator with 1 and 32 actions in a
    request. "Graph" are threads that share an `HttpGraph`, "graph, unshared" the same where each call is a request of
    its own. All kinds take turns in each of some rounds, and the median over the rounds is the figure: other work on
    the machine then slows all of them.
    """
    _, store = _random_graph(folder, "1m", scale.triples, progress)
    graph, entities = open_graph(store), scale.triples // 10
    names = [servers.entity(n) for n in random.Random(13).sample(range(entities), min(entities, 5000))]
    actions = _actions(graph, names, scale.samples)
    single, batches = bodies(actions, 1), bodies(actions, SCALE_BATCH)
    asked = _questions_for(graph, names, scale.samples)
    seconds = scale.seconds / 4
    kinds: dict[str, Callable[[Sequence[str], int], float]] = {
        "single": lambda urls, clients: _good(ask(urls[0], single, clients=clients, seconds=seconds)).rate,
        f"batches of {SCALE_BATCH}": lambda urls, clients: (
            SCALE_BATCH * _good(ask(urls[0], batches, clients=clients, seconds=seconds)).rate
        ),
        "graph, unshared": lambda urls, clients: _graph_rate(urls, asked, clients, seconds, clients),
        "graph": lambda urls, clients: _graph_rate(urls, asked, clients, seconds),
    }
    rates: dict[tuple[str, int, str], list[float]] = {}
    with ExitStack() as running:
        one, other, two = (running.enter_context(store_server(store, workers)).url for workers in (1, 1, 2))
        time.sleep(1.0)  # a server of several workers says where it is before all of them are up
        behind = {"1 worker": [one], "2 workers": [two], "2 servers": [one, other]}
        for done in range(scale.rounds):
            progress("asking by workers and clients", done, scale.rounds)
            for clients in scale.clients:
                for kind, rate in kinds.items():
                    for where, urls in behind.items():
                        if len(urls) == 1 or kind == "graph":  # the load generator knows one address
                            rates.setdefault((kind, clients, where), []).append(rate(urls, clients))
    rows = []
    for (kind, clients, where), found in rates.items():
        name = f"{kind}, {clients} {'client' if clients == 1 else 'clients'}, {where}"
        baseline = statistics.median(rates[kind, clients, "1 worker"])
        rows.append(Figure(name, statistics.median(found), "actions/s", baseline))
    return rows


def _graph_rate(
    urls: Sequence[str],
    asked: dict[str, list[tuple[str, str | None]]],
    clients: int,
    seconds: float,
    at_once: int = AT_ONCE,
) -> float:
    """Calls a second of so many threads that share one graph, which keeps no answers."""
    calls = [
        (entity, relation, action.startswith("get_tail")) for action in asked for entity, relation in asked[action]
    ]
    random.Random(17).shuffle(calls)
    done = [0] * clients
    with HttpGraph(urls, cache=0, at_once=at_once) as graph:
        stop = time.perf_counter() + seconds

        def client(number: int) -> None:
            at = number * 7919
            while time.perf_counter() < stop:
                entity, relation, out = calls[at % len(calls)]
                if relation is None:
                    graph.relations(entity, out=out)
                else:
                    graph.neighbors(entity, relation, out=out, limit=100)
                at += 1
                done[number] += 1

        threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
        began = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sum(done) / (time.perf_counter() - began)
