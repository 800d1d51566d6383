"""The bundled graph in engines that are here, walked as its questions were made."""

from __future__ import annotations

import asyncio
import importlib.util
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from benchmarks.same_answers import KnownWalks, Timed, policy_for, run
from benchmarks.world_engines import ENGINES, Modelled, rdf, tables

from kgwalk.data.dataset import load_dataset
from kgwalk.kg.build import build
from kgwalk.kg.graph import Graph
from kgwalk.kg.store import open_graph
from kgwalk.llm.engine import Request, Sampling, ScriptedEngine
from kgwalk.types import Question
from kgwalk.walk.protocol import Environment, Task

HERE = [
    "sqlite",
    *(["ladybug"] if importlib.util.find_spec("ladybug") else []),
    *(["oxigraph"] if shutil.which("oxigraph", path=str(Path(sys.executable).parent)) else []),
]
FACTS = "France\tcapital\tParis\nFrance\tborders\tSpain\nSpain\tborders\tFrance\nFrance\tborders\tItaly\n"
FACTS += "Spain\tpopulation\t49000000\nFrance\tcode\t033\nFrance\tcode\t33\nItaly\tborders\tFrance\nParis\tcode\t75\n"


@pytest.fixture(autouse=True)
def agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KGWALK_AGENT", raising=False)  # what is walked is its protocol


def test_the_known_walks_are_answered_alike() -> None:
    shown: list[str] = []
    results, wrong = run(HERE, limit=3, oracle=True, show=lambda found: shown.append(found.engine))
    assert wrong == []
    assert shown == [one.engine for one in results] == ["store", *HERE]
    for one in results:
        assert (one.questions, one.f1, one.hits_at_1, one.same, one.differing) == (3, 1.0, 1.0, 3, [])
        assert one.in_graph == one.seconds > 0
        # the store is here, and tables are read into one; of the others the world's kinds are asked once
        assert (one.queries > 0) == (one.engine not in ("store", "sqlite"))


@pytest.mark.parametrize("name", [one for one in HERE if one != "sqlite"])
def test_a_prompt_is_the_same_word_for_word(name: str, tmp_path: Path) -> None:
    """Members, the relations around them, what lies behind these with samples, and the kinds of the graph."""
    store, protocol = load_dataset("world").graph(), policy_for(oracle=True).protocol

    def prompt(graph: Graph, *topics: str) -> list[str]:
        walk = protocol.begin(Task(Question("q", "?", list(topics), []), topics), Environment(graph), len)
        return [message.content for message in walk.prompt()]

    with ENGINES[name](store, tmp_path) as opened, opened() as loaded:
        for topics in (["France"], ["UTC+10:00"], ["Oceania", "Spanish"]):
            assert prompt(loaded.graph, *topics) == prompt(store, *topics)
        before = loaded.queries()
        prompt(loaded.graph, "Japan")
        if name != "ladybug":  # which is asked a table at a time, in this process
            assert loaded.queries() - before <= 30


def test_facts_as_they_are_modelled(tmp_path: Path) -> None:
    (tmp_path / "facts.tsv").write_text(FACTS)
    build([tmp_path / "facts.tsv"], tmp_path / "facts.kg")
    modelled = Modelled.of(open_graph(tmp_path / "facts.kg"))
    assert sorted(modelled.relationships) == ["borders", "capital"]  # Paris has a code
    assert (modelled.whole, modelled.several) == ({"population"}, {"code"})  # 033 is no number as it is written
    assert sorted(modelled.cell("code", "France")) == ["033", "33"]
    assert modelled.cell("population", "Spain") == 49000000
    assert modelled.cell("population", "France") is None
    written = rdf(modelled).decode()
    assert '/thing/Spain> <http://world.example/relation/population> "49000000"^^<' in written
    assert '/thing/France> <http://world.example/relation/code> "033" .' in written
    made = [statement for statement, _ in tables(modelled) if statement.startswith("CREATE")]
    assert made[0].endswith('(name VARCHAR PRIMARY KEY, "population" BIGINT, "capital" VARCHAR)')
    assert len(made) == 4  # borders, and the codes with their table


def test_a_turn_is_not_written_twice() -> None:
    engine = Timed(ScriptedEngine(["yes", "no"]))

    def written(session: str, **more: Any) -> str:
        request = Request([1, 2], [], Sampling(**more), session)
        return engine.tokens.decode(asyncio.run(engine.generate(request)).ids)

    assert [written("one"), written("two"), written("three", seed=1)] == ["yes", "yes", "yes"]
    assert engine.seconds > engine.waited > 0
    assert written("four", temperature=1.0) == "yes"  # the script begins anew for each session
    assert len(engine._written[1, 2]) == 2


def test_the_walk_of_a_question() -> None:
    policy = policy_for(oracle=True)
    assert isinstance(policy, KnownWalks)
    question = load_dataset("world").questions("test")[0]
    assert question.extra["program"] == [["tail_entities", "$1", "capital"]]
