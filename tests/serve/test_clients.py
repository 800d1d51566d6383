"""One running server, every client: MCP, LangChain, LlamaIndex, OpenAI's own and curl get a right answer with evidence.

The server is `kgwalk serve` as people start it, with the agent that comes with kgwalk. A client whose package is not
installed is skipped: `make test-clients` installs them all, pinned, in an environment of their own.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import FILMS
from kgwalk.bench.servers import ScanGraph
from kgwalk.llm.engine import ScriptedEngine
from kgwalk.serve.clients.answers import MOST_CHARACTERS, Answers
from kgwalk.types import KgwalkError, RemoteError
from kgwalk.walk.agent import Agent
from world_server import world_server

ROOT = Path(__file__).parents[2]
QUESTION = "what is the capital of France?"
FACT = ["France", "capital", "Paris"]
LINE = '"France" -["capital"]-> "Paris"'

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def url(run_cache: Path) -> Iterator[str]:
    with world_server(run_cache) as served:
        yield served


# --- each client of that server


def test_curl(url: str) -> None:
    if shutil.which("curl") is None:
        pytest.skip("there is no curl on this machine")
    body = json.dumps({"question": QUESTION})
    command = ["curl", "--silent", "--noproxy", "*", f"{url}/v1/ask", "--json", body]
    reply = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert (reply["answers"], reply["evidence"]) == (["Paris"], {"Paris": [FACT]})


def test_an_mcp_client(url: str) -> None:
    pytest.importorskip("mcp", reason="needs the MCP SDK: pip install 'kgwalk[mcp]'")
    from mcp import Client

    async def ask() -> Any:
        async with Client(f"{url}/mcp") as client:
            return await client.call_tool("ask", {"question": QUESTION})

    reply = asyncio.run(ask())
    assert (reply.structured_content["answers"], reply.structured_content["evidence"]) == (["Paris"], {"Paris": [FACT]})
    assert LINE in reply.content[0].text


def test_the_openai_client(url: str) -> None:
    """examples/openai_client.py, run as it stands."""
    pytest.importorskip("openai", reason="needs OpenAI's client: pip install openai")
    command = [sys.executable, str(ROOT / "examples" / "openai_client.py"), QUESTION, url]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "NO_PROXY": "*"}, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:2] == ["Paris", "  Paris: (France, capital, Paris)"]
    assert lines[2].startswith("  confidence 0.")
    assert lines[2].endswith(", entity")
    assert lines[3] == "  step 1: follow capital from France"


def test_a_langchain_agent(url: str) -> None:
    """LangChain's own loop. The model that chooses the tool is a script: it asks, then repeats what it was told."""
    pytest.importorskip("langchain.agents", reason="needs LangChain: pip install 'kgwalk[langchain]' langchain")
    from langchain.agents import create_agent
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage, ToolCall, ToolMessage

    from kgwalk.serve.clients.langchain import kgwalk_tool

    class Scripted(GenericFakeChatModel):
        def bind_tools(self, tools: Any, **options: Any) -> Any:
            assert [tool.name for tool in tools] == ["kgwalk_ask"]
            return self

    call = ToolCall(name="kgwalk_ask", args={"question": QUESTION}, id="1")
    script = iter([AIMessage(content="", tool_calls=[call]), AIMessage(content="It is Paris.")])
    agent = create_agent(Scripted(messages=script), [kgwalk_tool(url=url)])
    messages = agent.invoke({"messages": [("user", QUESTION)]})["messages"]
    [told] = [one for one in messages if isinstance(one, ToolMessage)]
    assert told.content.startswith(f'1. "Paris"\n   because {LINE}\nConfidence 0.')
    assert told.artifact["evidence"] == {"Paris": [FACT]}


def test_langchain_retrieves_facts(url: str) -> None:
    pytest.importorskip("langchain_core", reason="needs LangChain: pip install 'kgwalk[langchain]'")
    from kgwalk.serve.clients.langchain import KgwalkRetriever

    [found] = KgwalkRetriever(url=url).invoke(QUESTION)
    assert found.page_content == LINE
    assert (found.metadata["answer"], found.metadata["evidence"]) == ("Paris", [FACT])
    assert asyncio.run(KgwalkRetriever(url=url).ainvoke("what is love?")) == []


def test_llamaindex(url: str) -> None:
    pytest.importorskip("llama_index.core", reason="needs LlamaIndex: pip install 'kgwalk[llamaindex]'")
    from kgwalk.serve.clients.llamaindex import KgwalkNodeRetriever, kgwalk_tool

    told = kgwalk_tool(url=url).call(question=QUESTION)
    assert told.content.startswith(f'1. "Paris"\n   because {LINE}\n')
    assert told.raw_output["evidence"] == {"Paris": [FACT]}
    again = asyncio.run(kgwalk_tool(url=url).acall(question=QUESTION))
    assert again.raw_output["answers"] == ["Paris"]
    [found] = KgwalkNodeRetriever(url=url).retrieve(QUESTION)
    assert (found.text, found.metadata["evidence"]) == (LINE, [FACT])
    assert found.score > 0.8
    unsaid = kgwalk_tool(url=url).call(question="what is love?")  # it names nothing: walked, and not answered
    assert (unsaid.is_error, unsaid.content) == (False, "The graph does not say.")
    lost = kgwalk_tool(url=url).call(question=" ")
    assert lost.is_error
    assert "question" in lost.content


@pytest.mark.parametrize("package", ["openai", "langchain_core", "llama_index.core"])
def test_the_examples_of_the_guide(url: str, package: str) -> None:
    """docs/guides/clients.md, each block of Python run as it stands, but for the server's address."""
    pytest.importorskip(package, reason=f"needs {package}")
    text = (ROOT / "docs" / "guides" / "clients.md").read_text()
    names = {"openai": "openai", "langchain_core": "clients.langchain", "llama_index.core": "clients.llamaindex"}
    [code] = [block for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if names[package] in block]
    code = code.replace("http://127.0.0.1:8000", url)
    env = {**os.environ, "NO_PROXY": "*"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr
    assert "Paris" in done.stdout
    assert "capital" in done.stdout


# --- an agent in this process


WALK = ['tail_entities($1, "directed_by")', "<answer>$2</answer>"]


def films_agent(*scripts: list[str]) -> Agent:
    return Agent(ScanGraph(FILMS), engine=ScriptedEngine([turn for script in scripts for turn in script]))


def test_langchain_over_an_agent_here() -> None:
    pytest.importorskip("langchain_core", reason="needs LangChain: pip install 'kgwalk[langchain]'")
    from kgwalk.serve.clients.langchain import KgwalkRetriever, kgwalk_tool

    tool = kgwalk_tool(agent=films_agent(WALK, WALK))
    told = asyncio.run(tool.ainvoke({"type": "tool_call", "id": "1", "name": tool.name, "args": {"question": BIG}}))
    assert told.artifact["evidence"] == {"Penny Marshall": [["Big", "directed_by", "Penny Marshall"]]}
    assert tool.args["question"]["type"] == "string"
    assert "names no entity" in tool.invoke({"question": "what is love?"})
    [found] = KgwalkRetriever(agent=films_agent(WALK)).invoke(BIG)
    assert found.metadata["answer"] == "Penny Marshall"


def test_llamaindex_over_an_agent_here() -> None:
    pytest.importorskip("llama_index.core", reason="needs LlamaIndex: pip install 'kgwalk[llamaindex]'")
    from kgwalk.serve.clients.llamaindex import KgwalkNodeRetriever, kgwalk_tool

    assert kgwalk_tool(agent=films_agent(WALK)).call(question=BIG).raw_output["answers"] == ["Penny Marshall"]
    [found] = KgwalkNodeRetriever(agent=films_agent(WALK)).retrieve(BIG)
    assert found.text == '"Big" -["directed_by"]-> "Penny Marshall"'


BIG = "who directed Big?"


def test_without_an_answer_the_nearest_facts_are_found() -> None:
    found = Answers(agent=films_agent(["<answer>[]</answer>"])).found(BIG)
    assert [one.about["answer"] for one in found] == [None] * 3
    assert found[0].text == '"Big" -["directed_by"]-> "Penny Marshall"'


def test_a_text_is_bounded() -> None:
    facts = [("Hub", "to", f"{'x' * 500} {number}") for number in range(60)]
    walk = ['tail_entities($1, "to")', "<answer>$2</answer>"]
    text, reply = Answers(agent=Agent(ScanGraph(facts), engine=ScriptedEngine(walk))).text("where does Hub lead to?")
    assert (len(reply["answers"]), reply["left_out"]) == (50, 10)
    assert 10_000 < len(text) <= MOST_CHARACTERS
    assert "60 answers in all." in text


def test_the_bundled_agent_here(run_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("openvino", reason="the bundled agent needs an engine: pip install 'kgwalk[cpu]'")
    monkeypatch.setenv("KGWALK_CACHE", str(run_cache))
    monkeypatch.delenv("KGWALK_AGENT", raising=False)
    answers = Answers("world", adapter="shipped")
    try:
        assert answers.ask(QUESTION)["evidence"] == {"Paris": [FACT]}
    finally:
        answers.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"url": "http://127.0.0.1:1", "model": "x"}, "a server at `url` has its own agent"),
        ({"url": "http://127.0.0.1:1", "graph": Path("my.kg")}, "the name of one of the server's graphs"),
        ({"url": "nonsense"}, "is not the address of a server"),
    ],
)
def test_what_does_not_go_together(options: dict[str, Any], message: str) -> None:
    with pytest.raises(KgwalkError, match=message):
        Answers(**options)


def test_a_server_that_is_not_there_says_what_to_do() -> None:
    with pytest.raises(RemoteError, match="Check the address, and that `kgwalk serve` runs there"):
        Answers(url="http://127.0.0.1:1").ask(BIG)


def test_a_question_about_nothing(url: str) -> None:
    """The agent is told which kinds the graph has, so it looks; and the graph does not say."""
    assert Answers(url=url).ask("what is love?")["answers"] == []
