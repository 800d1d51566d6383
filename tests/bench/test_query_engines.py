"""Five hundred made questions of the bundled graph as queries, in the engines that people have: `make test-stores`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("duckdb", reason="`make test-stores` has the engines")
pytest.importorskip("neo4j", reason="`make test-stores` has the engines")

from benchmarks.queries import ArcadeDb, Bolt, DuckDb, EngineTally, Oxigraph, Sqlite, compare, made_programs

from kgwalk.data.dataset import load_dataset
from kgwalk.kg.store import StoredGraph
from kgwalk.walk.queries.program import WalkProgram


@pytest.fixture(scope="module")
def world() -> StoredGraph:
    return load_dataset("world").graph()


@pytest.fixture(scope="module")
def programs(world: StoredGraph) -> list[WalkProgram]:
    return made_programs(world, 500)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ArcadeDb]:
    package = pytest.importorskip("arcadedb_embedded", reason="`make test-stores` has the server")
    started = ArcadeDb(Path(package.__file__).parent, tmp_path_factory.mktemp("arcadedb"))
    started.ready()
    yield started
    started.stop()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("language", ["sqlite", "duckdb", "oxigraph", "bolt"])
def test_every_query_gives_the_answer_of_its_walk(
    language: str, world: StoredGraph, programs: list[WalkProgram], request: pytest.FixtureRequest
) -> None:
    """Of the walks of 500 questions none is refused, fails or has another answer."""
    if language == "bolt":
        engine: Sqlite | DuckDb | Oxigraph | Bolt = Bolt(world, request.getfixturevalue("server"))
    else:
        engine = {"sqlite": Sqlite, "duckdb": DuckDb, "oxigraph": Oxigraph}[language](world)
    tally = EngineTally()
    compare(engine, world, programs, tally)
    engine.close()
    assert tally.differing == []
    assert tally.counts["same"] == len(programs) >= 450
