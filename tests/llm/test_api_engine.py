"""The API engine against a real HTTP server on loopback that answers as OpenAI's does, and fails as servers fail."""

from __future__ import annotations

import asyncio
import gc
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from api_server import KEY, Said, completion, engine_at, failure, said, serving
from conftest import FILMS
from kgwalk.config import http as http_module
from kgwalk.kg.store import StoredGraph
from kgwalk.llm import api as api_module
from kgwalk.llm.api import ApiEngine, ApiGeneration, close_text, merge, render
from kgwalk.llm.engine import Engine, Request, Sampling
from kgwalk.llm.tokenizers import ByteTokenizer
from kgwalk.types import EngineError, Episode, Message, Question, StopReason, Triple
from kgwalk.walk.policy import protocol_named
from kgwalk.walk.protocol import Environment, Task
from kgwalk.walk.rollout import rollout, rollout_async

HELLO = [Message("user", "Hello")]


def generate(engine: ApiEngine, messages: list[Message] = HELLO, **sampling: Any) -> ApiGeneration:
    return asyncio.run(engine.generate(Request([], messages, Sampling(**sampling))))


def failing(engine: ApiEngine, pattern: str) -> str:
    with pytest.raises(EngineError, match=pattern) as caught:
        generate(engine)
    return str(caught.value)


def text_of(engine: ApiEngine, generation: ApiGeneration) -> str:
    return engine.tokens.decode(generation.ids)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_module, "FIRST_PAUSE", 0.01)
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


# --- requests and replies


def test_a_chat_completion() -> None:
    with serving([completion("Hi there")]) as (api, url), engine_at(url) as engine:
        generation = generate(engine, temperature=0.5, top_p=0.9, max_tokens=7, stop=("</a>",), seed=2**40 + 5)
        assert isinstance(engine, Engine)
        assert not engine.exact
        assert (engine.usage.requests, engine.usage.prompt_tokens, engine.usage.completion_tokens) == (1, 19, 10)
        assert "secret" not in repr(engine)
    assert generation.ids == [*b"Hi there", ByteTokenizer.END]
    assert (generation.logprobs, generation.finish) == ([], "eos")
    assert (generation.usage.prompt_tokens, generation.usage.completion_tokens) == (19, 10)
    assert api.paths == ["/v1/chat/completions"]
    assert api.keys == [f"Bearer {KEY}"]
    assert api.asked == [
        {
            "model": "gpt-4o-mini",
            "messages": [{"role": "user", "content": "Hello"}],
            "temperature": 0.5,
            "max_tokens": 7,
            "top_p": 0.9,
            "stop": ["</a>"],
            "seed": 5,
        }
    ]


def test_neighbours_of_one_role_are_one_message() -> None:
    messages = [Message("system", "s"), Message("user", "a"), Message("assistant", "b"), Message("user", "c")]
    assert merge(messages) == messages
    assert merge([*messages, Message("user", "d")]) == [*messages[:3], Message("user", "c\nd")]
    # an empty turn of the model's leaves two messages of the user's
    assert merge([*messages, Message("assistant", ""), Message("user", "d")])[3:] == [Message("user", "c\nd")]


def test_plain_completions() -> None:
    reply = {"choices": [{"text": " <answer>$1", "finish_reason": "stop"}]}
    with serving([said(reply)]) as (api, url), engine_at(url, chat=False) as engine:
        messages = [
            Message("system", "Walk."),
            Message("user", "Who?"),
            Message("assistant", "a"),
            Message("user", "b"),
        ]
        generation = generate(engine, messages, stop=("</answer>",))
        assert text_of(engine, generation) == " <answer>$1</answer>"
        assert engine.usage.requests == 1
        assert engine.usage.prompt_tokens == 0  # this server reports none
    assert api.paths == ["/v1/completions"]
    assert api.asked[0]["prompt"] == "Walk.\n\nUser: Who?\n\nAssistant: a\n\nUser: b\n\nAssistant:"
    assert api.asked[0]["stop"] == ["\n\nUser:", "</answer>"]
    assert api.asked[0]["prompt"] == render(messages)


def test_a_completion_does_not_speak_for_the_user() -> None:
    reply = {"choices": [{"text": "count($1)\n\nUser: $2 = 1: 7", "finish_reason": "length"}]}
    with serving([said(reply)]) as (_, url), engine_at(url, chat=False) as engine:
        generation = generate(engine)
        assert (text_of(engine, generation), generation.finish) == ("count($1)", "eos")
        assert generation.ids[-1] == ByteTokenizer.END


def test_content_in_parts_or_missing() -> None:
    parts: Any = [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]
    with serving([completion(parts), completion(None)]) as (_, url), engine_at(url) as engine:
        assert text_of(engine, generate(engine)) == "ab"
        assert generate(engine).ids == [ByteTokenizer.END]


def test_the_environment_and_what_beats_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving([completion("x")]) as (api, url):
        monkeypatch.setenv("OPENAI_BASE_URL", f"{url}/deep/v1/")
        monkeypatch.setenv("OPENAI_API_KEY", " from-env\n")
        with engine_at("", api_key=None) as engine:
            generate(engine)
        with engine_at(url, api_key="given") as engine:
            generate(engine)
    assert api.paths == ["/deep/v1/chat/completions", "/v1/chat/completions"]
    assert api.keys == ["Bearer from-env", "Bearer given"]


def test_a_server_of_ones_own_needs_no_key_but_openai_does() -> None:
    with serving([completion("x")]) as (api, url), engine_at(url, api_key=None) as engine:
        generate(engine)
    assert api.keys == [None]
    with pytest.raises(EngineError, match="set OPENAI_API_KEY"):
        ApiEngine("gpt-4o-mini")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"base_url": "localhost:8000"}, "is not the address of an API; write it like"),
        ({"base_url": "http://h", "api_key": "two words"}, "the API key is not one"),
        ({"base_url": "http://h", "api_key": "ké\n"}, "the API key is not one"),
        ({"base_url": "http://h", "at_once": 0}, "at_once=0"),
        ({"base_url": "http://h", "per_minute": 0}, "per_minute=0"),
        ({"base_url": "http://h", "model": ""}, "needs the name of a model"),
    ],
)
def test_wrong_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(EngineError, match=message) as caught:
        ApiEngine(**{"model": "m", **settings})
    assert "two words" not in str(caught.value)


# --- stop texts

STOPS = ("</kg-query>", "</answer>")


@pytest.mark.parametrize(
    ("text", "finish", "reported", "expected"),
    [
        ("<think>a</think><kg-query>f()", "stop", None, ("<think>a</think><kg-query>f()</kg-query>", "stop")),
        ('<think>a</think><answer>["x"]', "stop", None, ('<think>a</think><answer>["x"]</answer>', "stop")),
        # opened last: the thought only speaks of a query
        (
            "<think>a <kg-query></think><answer>x",
            "stop",
            None,
            ("<think>a <kg-query></think><answer>x</answer>", "stop"),
        ),
        # vLLM tells which it met, even where no tag is open
        ("no tag", "stop", "</answer>", ("no tag</answer>", "stop")),
        ("no tag", "stop", 151645, ("no tag", "eos")),
        ("no tag", "stop", None, ("no tag", "eos")),
        ("", "stop", None, ("", "eos")),
        # cut by length: the model did not close it
        ("<answer>x", "length", None, ("<answer>x", "length")),
        ("<answer>x", None, None, ("<answer>x", "eos")),
        # ended inside the closing tag
        ("<answer>x</answer", "stop", None, ("<answer>x</answer>", "stop")),
        ("<answer>x</", "stop", None, ("<answer>x</answer>", "stop")),
        # a server that keeps the stop text, or does not know `stop`
        ("<answer>x</answer>", "stop", None, ("<answer>x</answer>", "stop")),
        ("<answer>x</answer>\nUser: more", "length", None, ("<answer>x</answer>", "stop")),
        ("<answer>x</answer><kg-query>y</kg-query>", "stop", None, ("<answer>x</answer>", "stop")),
    ],
)
def test_the_stop_text_is_put_back(text: str, finish: str | None, reported: object, expected: tuple[str, str]) -> None:
    assert close_text(text, finish, STOPS, reported) == expected


def test_a_stop_text_that_is_no_tag_is_not_guessed() -> None:
    assert close_text("Thought: x", "stop", ("\nObservation:",)) == ("Thought: x", "eos")
    assert close_text("Thought: x", "stop", ("\nObservation:",), "\nObservation:")[0] == "Thought: x\nObservation:"


def test_more_stops_than_openai_takes() -> None:
    stops = ("</a>", "</b>", "</c>", "</d>", "</e>")
    with serving([completion("<e>1</e><a>2")]) as (api, url), engine_at(url) as engine:
        generation = generate(engine, stop=stops)
        assert (text_of(engine, generation), generation.finish) == ("<e>1</e>", "stop")
        assert generation.ids[-1] != ByteTokenizer.END
    assert api.asked[0]["stop"] == list(stops[:4])
    assert close_text("<e>1", "stop", stops) == ("<e>1", "eos")  # the server was not told of </e>


# --- failures


def test_too_many_requests_then_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    slow_down = failure(429, "Rate limit reached", headers={"Retry_After": "0.2"})
    with serving([slow_down, completion("x")]) as (api, url), engine_at(url) as engine:
        assert text_of(engine, generate(engine)) == "x"
        assert engine.usage.requests == 1
    assert api.times[1] - api.times[0] >= 0.2
    # an hour is not believed
    monkeypatch.setattr(http_module, "LONGEST_PAUSE", 0.05)
    wait_long = failure(429, "Rate limit reached", headers={"Retry_After": "3600"})
    wait_until = failure(503, "Overloaded", headers={"Retry_After": "Wed, 21 Oct 2099 07:28:00 GMT"})
    with serving([wait_long, wait_until, completion("x")]) as (api, url), engine_at(url) as engine:
        generate(engine)
    assert 0.1 <= api.times[2] - api.times[0] < 5


def test_waits_double() -> None:
    with serving([failure(500, "oops")] * 3 + [completion("x")]) as (api, url), engine_at(url) as engine:
        generate(engine)
    waits = [after - before for before, after in zip(api.times, api.times[1:], strict=False)]
    assert all(wait >= 0.005 * 2**number for number, wait in enumerate(waits))


@pytest.mark.parametrize("status", [500, 502, 503, 529])
def test_a_server_that_keeps_failing(status: int) -> None:
    with serving([failure(status, "The server had an error")]) as (api, url), engine_at(url, retries=2) as engine:
        with pytest.raises(EngineError, match=rf"{status}.*The server had an error, tried 3 times; check"):
            generate(engine)
        assert engine.usage.requests == 0
    assert len(api.asked) == 3


def test_no_answer_in_time() -> None:
    leave = threading.Event()

    def late(path: str, body: Any) -> Said:
        leave.wait(10)
        return completion("x")

    with serving(late) as (api, url), engine_at(url, timeout=0.5, retries=1) as engine:
        failing(engine, r"no answer within 0\.5 s, tried 2 times")
        leave.set()
    assert len(api.asked) == 2


def test_an_answer_that_trickles_is_late_too() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        over = threading.Event()

        def trickle() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
                while not over.wait(0.02):
                    try:
                        connection.sendall(b"{")
                    except OSError:
                        return

        thread = threading.Thread(target=trickle)
        thread.start()
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with engine_at(address, timeout=0.2, retries=0) as engine:
            failing(engine, "no answer within")
            over.set()
        thread.join()


def test_nobody_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with engine_at(f"http://127.0.0.1:{port}", retries=1) as engine:
        failing(engine, r"no connection .*, tried 2 times; check that the server is up")


def test_not_json_and_not_a_completion() -> None:
    page = said(b"<!doctype html>\n<title>Welcome to nginx</title>", Content_Type="text/html")
    with serving([page]) as (api, url), engine_at(url) as engine:
        failing(engine, "a reply that is not JSON: '<!doctype html> <title>Welcome")
    assert len(api.asked) == 1
    odd_ones: list[object] = [[], {}, {"choices": []}, {"choices": [{"message": 5}]}]
    for odd in [*odd_ones, {"choices": [{"message": {"content": 5}}]}]:
        with serving([said(odd)]) as (_, url), engine_at(url) as engine:
            failing(engine, "something else than a completion")


def test_a_wrong_key_is_named_but_not_shown() -> None:
    wrong = f"Incorrect API key provided: sk-verys****t123. Full: {KEY}. You can find your API key at https://x.y."
    with serving([failure(401, wrong, code="invalid_api_key")]) as (api, url), engine_at(url) as engine:
        told = failing(engine, "the key was refused; set OPENAI_API_KEY")
    assert len(api.asked) == 1
    assert "t123" not in told
    assert "verys" not in told
    with serving([failure(401, "no key")]) as (_, url), engine_at(url, api_key=None) as engine:
        failing(engine, "401 Unauthorized: no key; set OPENAI_API_KEY")


def test_a_model_that_is_not_there() -> None:
    def answer(path: str, body: Any) -> Said:
        if path == "/v1/models":
            return said({"object": "list", "data": [{"id": "gpt-4o"}, {"id": "qwen"}]})
        return failure(404, "The model does not exist", code="model_not_found")

    with serving(answer) as (_, url), engine_at(url) as engine:
        failing(engine, r"has no model 'gpt-4o-mini'; did you mean 'gpt-4o'\? there are gpt-4o, q")


def test_an_address_where_there_is_no_api() -> None:
    with serving([said(b"nothing here", 404)]) as (_, url), engine_at(url) as engine:
        failing(engine, "404 Not Found: nothing here; check OPENAI_BASE_URL")
    with serving([said(b"", 308, Location="https://elsewhere/v1?key=s")]) as (_, url), engine_at(url) as engine:
        failing(engine, r"give the address it sends to, https://elsewhere/v1$")


@pytest.mark.parametrize(
    "reply",
    [
        failure(400, "This model's maximum context length is 8192 tokens. " + "x" * 5000),
        said({"detail": "nonsense"}, 422),
        said({"error": "nonsense"}, 400),
        failure(429, "You exceeded your current quota", code="insufficient_quota"),
        completion("", "content_filter"),
    ],
)
def test_refusals_are_not_tried_again(reply: Said) -> None:
    with serving([reply]) as (api, url), engine_at(url) as engine:
        told = failing(engine, "http://127")
    assert len(api.asked) == 1
    assert len(told) < 500


def test_what_a_model_does_not_take_is_left_out_from_then_on() -> None:
    def answer(path: str, body: Any) -> Said:
        if "max_tokens" in body:
            told = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens'."
            return failure(400, told, param="max_tokens", code="unsupported_parameter")
        if "temperature" in body:
            told = "Unsupported value: 'temperature' does not support 0 with this model."
            return failure(400, told, param="temperature", code="unsupported_value")
        return completion("x")

    with serving(answer) as (api, url), engine_at(url) as engine:
        generate(engine, max_tokens=9)
        generate(engine, max_tokens=9)
    assert len(api.asked) == 4
    assert api.asked[2] == api.asked[3]
    assert api.asked[3]["max_completion_tokens"] == 9


# --- bounds


def test_requests_at_once_are_bounded() -> None:
    def slow(path: str, body: Any) -> Said:
        time.sleep(0.03)
        return completion("x")

    async def many(engine: ApiEngine) -> None:
        await asyncio.gather(*(engine.generate(Request([], HELLO, Sampling())) for _ in range(12)))

    with serving(slow) as (api, url), engine_at(url, at_once=3) as engine:
        # two callers with an event loop each share the bound
        threads = [threading.Thread(target=asyncio.run, args=(many(engine),)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert engine.usage.requests == 24
    assert api.most == 3


def test_requests_a_minute_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_module, "MINUTE", 0.3)

    async def many(engine: ApiEngine) -> None:
        await asyncio.gather(*(engine.generate(Request([], HELLO, Sampling())) for _ in range(7)))

    with serving([completion("x")]) as (api, url), engine_at(url, per_minute=3) as engine:
        started = time.monotonic()
        asyncio.run(many(engine))
    # three in each minute; they reach the server when they are sent, or later
    assert all(at - started >= 0.3 * (number // 3) for number, at in enumerate(sorted(api.times)))


def test_a_caller_who_leaves_ends_the_request() -> None:
    leave = threading.Event()

    def late(path: str, body: Any) -> Said:
        leave.wait(10)
        return completion("x")

    async def hurried(engine: ApiEngine) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await engine.generate(Request([], HELLO, Sampling()))

    with serving(late) as (_, url), engine_at(url) as engine:
        asyncio.run(hurried(engine))
        leave.set()


def test_closing_ends_requests_and_a_closed_engine_says_so() -> None:
    leave = threading.Event()

    def late(path: str, body: Any) -> Said:
        leave.wait(10)
        return completion("x")

    async def closed_meanwhile(engine: ApiEngine) -> None:
        asking = asyncio.create_task(engine.generate(Request([], HELLO, Sampling())))
        await asyncio.sleep(0.1)
        await engine.close()
        with pytest.raises(EngineError, match="is closed"):
            await asking

    with serving(late) as (_, url), engine_at(url) as engine:
        asyncio.run(closed_meanwhile(engine))
        leave.set()
        failing(engine, "is closed")


def test_a_forgotten_engine_closes_itself() -> None:
    def threads() -> list[str]:
        return [thread.name for thread in threading.enumerate() if thread.name == "kgwalk-api"]

    assert threads() == []
    with serving([completion("x")]) as (_, url):
        engine = ApiEngine("m", base_url=url)
        generate(engine)
        assert threads() == ["kgwalk-api"]
        del engine
        gc.collect()
        assert threads() == []


# --- whole walks

QUESTION = Question("q1", "who directed the films Tom Hanks starred in?", ["Tom Hanks"], [])
WALKS = {
    "kgwalk": [
        'head_entities($1, "starred_actors")',
        "nonsense($2)",
        '<think>Now the directors.</think>tail_entities($2, "directed_by")',
        "<answer>$3</answer>",
    ],
    "kg-r1": [
        '<think>films</think><kg-query>get_head_entities("Tom Hanks", "starred_actors")</kg-query>',
        '<think>one</think><kg-query>get_tail_entities("Big", "directed_by")</kg-query>',
        '<think>two</think><kg-query>get_tail_entities("Cast Away", "directed_by")</kg-query>',
        '<think>both</think><answer>["Penny Marshall", "Robert Zemeckis"]</answer>',
    ],
}
DIRECTORS = ["Penny Marshall", "Robert Zemeckis"]


def strip_stop(text: str, stops: list[str]) -> str:
    """As OpenAI does it."""
    return text[: min((text.index(stop) for stop in stops if stop in text), default=len(text))]


def scripted(turns: list[str]) -> Callable[[str, Any], Said]:
    def answer(path: str, body: Any) -> Said:
        if "messages" in body:
            number = sum(message["role"] == "assistant" for message in body["messages"])
        else:
            number = body["prompt"].count("\n\nAssistant:") - 1
        text = strip_stop(turns[number], body["stop"])
        if "messages" in body:
            return completion(text)
        return said({"choices": [{"text": text, "finish_reason": "stop"}]})

    return answer


def walk(engine: ApiEngine, protocol: str, graph: StoredGraph, times: int = 1) -> list[Episode]:
    tasks = [(Task(QUESTION, QUESTION.topic_entities), Environment(graph))] * times
    return asyncio.run(rollout_async(tasks, protocol_named(protocol), engine, sampling=Sampling(seed=1)))


@pytest.mark.parametrize("chat", [True, False])
@pytest.mark.parametrize("protocol", ["kgwalk", "kg-r1"])
def test_whole_episodes(store: Callable[..., StoredGraph], protocol: str, chat: bool) -> None:
    turns = WALKS[protocol]
    graph = store(FILMS)
    with serving(scripted(turns)) as (api, url), engine_at(url, chat=chat) as engine:
        episodes = walk(engine, protocol, graph, times=3)
        requests = engine.usage.requests
    for episode in episodes:
        assert episode.stop is StopReason.answered
        assert sorted(episode.answers) == DIRECTORS
        assert [turn.text for turn in episode.turns] == turns
        assert episode.evidence["Penny Marshall"] == [
            Triple("Big", "starred_actors", "Tom Hanks"),
            Triple("Big", "directed_by", "Penny Marshall"),
        ]
    assert requests == 3 * len(turns)
    assert len({body["seed"] for body in api.asked}) == 3  # one for each episode
    if chat:
        roles = [message["role"] for message in api.asked[-1]["messages"] if message["role"] != "system"]
        assert roles == (["user", "assistant"] * len(turns))[:-1]
        assert "Robert Zemeckis" in api.asked[-1]["messages"][-1]["content"]


def test_a_walk_that_runs_out_of_turns_has_alternating_roles(store: Callable[..., StoredGraph]) -> None:
    turns = ["hm"] * 5 + ['<think>x</think><answer>["Big"]</answer>']
    with serving(scripted(turns)) as (api, url), engine_at(url) as engine:
        (episode,) = walk(engine, "kg-r1", store(FILMS))
    assert (episode.stop, episode.answers) == (StopReason.answered, ["Big"])
    last = api.asked[-1]["messages"]
    assert [message["role"] for message in last] == ["user", "assistant"] * 5 + ["user"]
    assert last[-1]["content"].endswith("No queries are left. Give the answer now.</information>")


def test_a_failing_server_is_recorded_on_the_episode(store: Callable[..., StoredGraph]) -> None:
    with serving([failure(400, "too long")]) as (_, url), engine_at(url) as engine:
        (episode,) = walk(engine, "kgwalk", store(FILMS))
    assert episode.stop is StopReason.engine_failed
    assert "400 Bad Request: too long" in str(episode.failure)


def test_one_engine_serves_many_event_loops(store: Callable[..., StoredGraph]) -> None:
    turns = WALKS["kgwalk"]
    graph = store(FILMS)
    tasks = [(Task(QUESTION, QUESTION.topic_entities), Environment(graph))]
    with serving(scripted(turns)) as (_, url), engine_at(url) as engine:
        for _ in range(3):  # a loop each
            (episode,) = rollout(tasks, protocol_named("kgwalk"), engine)
            assert sorted(episode.answers) == DIRECTORS
