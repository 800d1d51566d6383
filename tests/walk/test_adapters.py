"""Which agent walks a graph: asked for, beside the graph, shipped, or none; what `ask`, `eval`, `serve` say of it."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from conftest import FILMS
from films_questions import write_films
from kgwalk.cli.main import main
from kgwalk.config.recipe import load_recipe
from kgwalk.data.bundled import world_path
from kgwalk.data.dataset import load_dataset
from kgwalk.kg.store import StoredGraph, load_graph
from kgwalk.llm.engine import open_engine
from kgwalk.llm.models import read_adapter
from kgwalk.types import EngineError, KgwalkError
from kgwalk.walk.agent import Agent
from kgwalk.walk.policy import (
    AskSettings,
    Choice,
    asking_of,
    choose_adapter,
    place_of,
    protocol_of,
    shipped,
    store_of,
    walked_as_learnt,
)
from kgwalk.walk.starts import NoTopic
from training_helpers import tiny_adapter

KGWALK = load_recipe("kgwalk")
SHORT = ("--set", "protocol.turns=1", "--set", "rollout.turn_tokens=4")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An adapter of the model tiny-random that follows the protocol kgwalk, in a cache with that model."""
    return tiny_adapter(
        tmp_path_factory.mktemp("cache"), {"recipe": "kgwalk", "protocol": {"name": "kgwalk", "turns": 8}}
    )


@pytest.fixture(autouse=True)
def _own_place(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGWALK_CACHE", str(tiny.parent))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def films(store: Callable[..., StoredGraph]) -> Path:
    return store(FILMS).store.folder.path


def found(store: Path | None, **options: Any) -> Choice:
    return choose_adapter(None, store, options.pop("recipe", KGWALK), **{"model": None, "engine": "local", **options})


def test_without_any_agent_the_model_walks_as_it_is(films: Path) -> None:
    assert found(films) == found(None) == Choice(None, ())
    assert shipped() is None  # conftest says so


def test_beside_the_graph_before_the_shipped_one(films: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGWALK_AGENT", str(tiny))
    assert found(films).folder == str(tiny)
    assert found(None).words == (f"agent: {tiny}",)
    beside = place_of(films)
    assert beside == films.with_name("graph.kg.agent")
    shutil.copytree(tiny, beside)
    assert found(films).folder == str(beside)
    assert found(films).words == (f"agent: {beside}, beside the graph",)
    assert choose_adapter("none", films, KGWALK, model=None, engine="local") == Choice()
    for word in (str(tiny), "shipped"):  # which is, here, what KGWALK_AGENT names
        asked = choose_adapter(word, films, KGWALK, model=None, engine="local")
        assert (asked.folder, asked.words) == (str(tiny), ())


def test_an_agent_that_does_not_fit_is_left_out_with_a_word(films: Path, tiny: Path) -> None:
    beside = shutil.copytree(tiny, place_of(films))
    assert read_adapter(beside).base == "tiny-random"
    other = found(films, recipe=load_recipe("kg-r1"))
    assert other.adapter is None
    why = "it has learnt to walk by kgwalk, and the recipe walks by kg-r1"
    assert other.words == (f"not used: {beside}, beside the graph, since {why}",)
    full = found(films, recipe=KGWALK.with_values(['protocol.language="full"']))
    assert "it has learnt the core walking language, and the recipe has the full one" in full.words[0]
    assert found(films, model="TINY-random").folder == str(beside)
    assert "was made for the model tiny-random, not for smollm2-135m" in found(films, model="smollm2-135m").words[0]
    assert found(films, engine="api") == Choice()  # its model is what it is
    assert found(films, recipe=load_recipe("oracle")) == Choice()


def test_an_agent_is_asked_in_the_language_that_it_learnt(films: Path, tiny: Path) -> None:
    """Nobody has to say so: what the recipe does not name, the agent's folder does. What a person sets stays."""
    beside = shutil.copytree(tiny, place_of(films))
    card = json.loads((beside / "kgwalk.json").read_text())
    card["protocol"] |= {"language": "full", "documented": False, "turns": 3}
    (beside / "kgwalk.json").write_text(json.dumps(card))
    walked = protocol_of(walked_as_learnt(KGWALK, beside))
    assert (walked.language, walked.documented, walked.turns) == ("full", False, 8)  # type: ignore[attr-defined]
    card["ask"] = {"walks": 3, "unsure": 0.7}
    (beside / "kgwalk.json").write_text(json.dumps(card))
    with Agent(load_graph(films), engine=None).opened(engine="local") as agent:
        assert agent.protocol == walked
        assert agent.asking == AskSettings(walks=3, unsure=0.7)
    assert asking_of(walked_as_learnt(KGWALK.with_values(["ask.walks=1"]), beside)) == AskSettings(1, 0.7)
    assert asking_of(walked_as_learnt(KGWALK, None)) == AskSettings()
    assert protocol_of(walked_as_learnt(KGWALK, None)).language == "core"  # type: ignore[attr-defined]
    kg_r1 = load_recipe("kg-r1")
    assert walked_as_learnt(kg_r1, beside) is kg_r1
    core = found(films, recipe=KGWALK.with_values(['protocol.language="core"']))
    assert "it has learnt the full walking language, and the recipe has the core one" in core.words[0]


def test_a_bundled_graph_has_its_agent_in_the_cache(tiny: Path) -> None:
    assert place_of(world_path()) == tiny.parent / "agents" / "world.agent"
    assert store_of(load_dataset("world").graph()) == world_path()


def test_what_cannot_be(films: Path, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EngineError, match="there is no adapter's folder nowhere"):
        choose_adapter("nowhere", films, KGWALK, model=None, engine="local")
    both = r"adapter was made for the model tiny-random, and the model asked for is Qwen/Qwen2\.5-3B; leave the model"
    with pytest.raises(EngineError, match=both):
        open_engine("local", "Qwen/Qwen2.5-3B", adapter=str(tiny))
    monkeypatch.setenv("KGWALK_AGENT", str(tmp_path / "gone"))
    with pytest.raises(KgwalkError, match="which is no adapter's folder; unset it, or set it to none"):
        found(films)


def test_ask_and_eval_say_who_walks(
    films: Path, tiny: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def cli(*arguments: object) -> tuple[Any, str]:
        monkeypatch.setattr(sys, "argv", ["kgwalk", *map(str, arguments), "--engine", "local", "--json", *SHORT])
        capfd.readouterr()
        with pytest.raises(SystemExit, match="1" if arguments[0] == "ask" else "0"):  # this model has no answer
            main()
        stdout, stderr = capfd.readouterr()
        return json.loads(stdout), stderr

    beside = shutil.copytree(tiny, place_of(films))
    question = ("ask", "who directed Big?", "--graph", films)
    answer, said = cli(*question)
    assert answer["topics"] == ["Big"]
    assert said == f"agent: {beside}, beside the graph\n"
    assert cli(*question, "--model", "tiny-random", "--adapter", "none")[1] == ""
    data = write_films(tmp_path / "films")
    graph = store_of(load_dataset(data).graph())
    assert graph is not None
    beside = shutil.copytree(tiny, place_of(graph))
    report, said = cli("eval", "kgwalk", "--data", data, "-o", "run")
    assert report["n"] == 5
    assert said == f"agent: {beside}, beside the graph\n"
    settings = json.loads((tmp_path / "run" / "run.json").read_text())["settings"]
    assert (settings["adapter"], settings["model"]) == (str(beside), None)


def test_a_server_of_a_graph_with_an_agent_can_be_asked(films: Path, tiny: Path) -> None:
    """Without --model; of two graphs with agents of their own, neither is taken."""
    beside = shutil.copytree(tiny, place_of(films))
    other = Path(shutil.copytree(films, films.with_name("other.kg")))
    command = [sys.executable, "-m", "kgwalk.cli.main", "serve", "--port", "0", "--graph"]
    lines, models = _served([*command, str(films)])
    assert lines == [f"agent: {beside}, beside the graph"]
    assert models.json()["data"][0]["id"] == "tiny-random"
    shutil.copytree(tiny, place_of(other))
    lines, models = _served([*command, str(films), "--graph", str(other)])
    assert lines == ["not used: agents beside the graphs, since they differ; choose one with --adapter"]
    assert models.status_code == 503


def _served(command: list[str]) -> tuple[list[str], httpx.Response]:
    """What a server says before it is ready, and its models."""
    lines: list[str] = []
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            for line in server.stderr:
                if address := re.search(r"http://\S+:\d+", line):
                    return lines, httpx.get(f"{address[0]}/v1/models", timeout=20, trust_env=False)
                lines.append(line.rstrip("\n"))
        finally:
            server.terminate()
    raise AssertionError(lines)


def test_an_agent_from_python(films: Path, tiny: Path) -> None:
    """Opened with the adapter beside the graph, asked twice, closed; in a notebook, whose loop is running, as well."""
    shutil.copytree(tiny, beside := place_of(films))
    short = KGWALK.with_values(["protocol.turns=1", "rollout.turn_tokens=4"])
    graph = load_graph(films)
    with Agent(graph, short).opened(engine="local") as agent:
        assert agent.choice is not None
        assert agent.choice.words == (f"agent: {beside}, beside the graph",)
        for topics, started in ((None, ["Big"]), (["Cast Away"], ["Cast Away"])):
            asked = agent.ask("who directed Big?", topics)
            assert (asked.topics, asked.turns, asked.stop) == (started, 2, "turns")  # a turn, and the last word

    async def cell() -> int:
        with Agent(graph, short).opened("none", model="tiny-random", engine="local") as other:
            return other.ask("who directed Big?").turns

    assert asyncio.run(cell()) == 2
    with pytest.raises(KgwalkError, match=r"the agent's model is not open: call `opened\(\)` first"):
        agent.ask("who directed Big?")
    with pytest.raises(NoTopic):
        Agent(graph).start("who is the oldest?")  # no model is needed to say so


def test_each_size_of_model_has_its_own_shipped_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KGWALK_AGENT")
    monkeypatch.setattr("kgwalk.walk.policy.files", lambda package: tmp_path)
    larger = tmp_path / "shipped" / "qwen2.5-coder-0.5b"
    larger.mkdir(parents=True)
    for folder in (larger.parent, larger):
        (folder / "adapter_config.json").write_text("{}")
    assert shipped() == shipped("smollm2-135m") == larger.parent
    assert shipped("qwen2.5-coder-0.5b") == larger
    assert shipped("models/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf") == larger
    assert shipped("qwen2.5-coder-1.5b") == larger.parent  # which says that it was made for another
