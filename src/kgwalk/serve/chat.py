"""POST /v1/chat/completions in OpenAI's shape: the agent under the name `kgwalk`, or its language model by its own.

The agent takes the last message of the user's as the question and answers with names joined by commas; the same in a
form for programs, with the evidence, stands in the field `kgwalk` of the message. The language model completes the
messages, so that one kgwalk can be the engine of another. A stream has the walk's turns as they happen.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from kgwalk.serve import asgi
from kgwalk.serve.agent import (
    AGENT,
    AgentRequest,
    AgentService,
    ReplyStream,
    parse,
    question_of,
    refusing,
    runs_of,
    topics_of,
)
from kgwalk.serve.asgi import STOPPING, HttpError, HttpReply, ItemError, check_characters, too_long
from kgwalk.types import Episode, Message, StopReason, Turn

if TYPE_CHECKING:
    from kgwalk.llm.engine import Engine, Generation, Request, Sampling
    from kgwalk.walk.agent import AskResult

MAX_TOKENS = 1024  # of a completion that sets no bound itself
MOST_STOPS = 16
ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True, slots=True)
class Chat:
    """A request as far as it is used; OpenAI's other fields are passed over."""

    model: str
    messages: list[Message]
    fields: dict[str, Any]
    stream: bool
    usage: bool  # a stream ends with the counts


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """An answer in the terms of OpenAI."""

    content: str
    finish: str
    prompt_tokens: int
    completion_tokens: int
    more: dict[str, Any]  # further fields of the message
    stop_reason: str | None = None  # the stop text that was met; vLLM's field

    @property
    def usage(self) -> dict[str, int]:
        total = self.prompt_tokens + self.completion_tokens
        counts = {"prompt_tokens": self.prompt_tokens, "completion_tokens": self.completion_tokens}
        return {**counts, "total_tokens": total}


class ChatRoute:
    def __init__(self, agent: AgentService) -> None:
        self._agent = agent

    async def __call__(self, body: bytes, deadline: float) -> HttpReply | ReplyStream:
        self._agent.require()
        chat = refusing(lambda: read_chat(parse(body)))
        wanted = self._wanted(chat)
        shape = _Shape(chat.model)
        if chat.stream:
            parts = self._parts(chat, wanted, shape, deadline)
            return ReplyStream(await anext(parts), parts, _event(STOPPING.body) + DONE)
        return HttpReply(200, shape.whole(await self._answer(chat, wanted, deadline, None)))

    def _wanted(self, chat: Chat) -> AgentRequest | None:
        """What is asked of the agent; None if the language model is meant."""
        own, *agents = self._agent.models()
        if chat.model in agents:
            recipe = chat.model.partition("/")[2] or None
            return refusing(lambda: _question(chat, recipe))
        if chat.model == own:
            return None
        listed = ", ".join([own, *agents])
        raise HttpError(404, "unknown_model", f'model "{chat.model[:60]}" is not served; there are {listed}')

    async def _answer(
        self,
        chat: Chat,
        wanted: AgentRequest | None,
        deadline: float,
        watch: Callable[[Episode, Turn | None], None] | None,
    ) -> ChatAnswer:
        if wanted is not None:
            return _of_agent(await self._agent.ask(wanted, deadline, watch))
        read = _Sampled(chat)
        return read.said(*await self._agent.generate(read.request, deadline))

    async def _parts(
        self, chat: Chat, wanted: AgentRequest | None, shape: _Shape, deadline: float
    ) -> AsyncGenerator[bytes, None]:
        """Server-sent events: the turns, the answer, the end. Before the first of them, an error is raised."""
        events: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        watch = _forward(events)
        # A task of its own: it has a time limit, and whoever reads the parts may be another task each time.
        job = asyncio.create_task(self._answer(chat, wanted, deadline, watch))
        job.add_done_callback(_ended(events))
        try:
            event = await events.get()
            if event is None and (error := job.exception()) is not None:
                raise error
            yield shape.part({"role": "assistant", "content": ""})
            while event is not None:
                yield shape.part({AGENT: event})
                event = await events.get()
            try:
                said = await job
            except HttpError as failed:
                yield _event(failed.reply.body) + DONE
                return
            yield shape.part({"content": said.content, **said.more})
            yield shape.part({}, said.finish, said.stop_reason)
            if chat.usage:
                yield shape.counts(said)
            yield DONE
        finally:
            job.cancel()


def _event(data: bytes) -> bytes:
    return b"data: " + data + b"\n\n"


def read_chat(value: object) -> Chat:
    if not isinstance(value, dict):
        raise ItemError("bad_request", f"the body is an object, not {asgi.json_type(value)}")
    model, listed = asgi.needed(value, "model"), value.get("messages")
    if not isinstance(listed, list) or not listed:
        raise ItemError("bad_request", '"messages" must be a list of messages')
    if value.get("n") not in (None, 1):
        raise ItemError("bad_request", '"n" must be 1: one completion is given')
    if value.get("tools"):
        raise ItemError("bad_request", '"tools" are not taken: the agent has its own')
    options = value.get("stream_options")
    usage = isinstance(options, dict) and options.get("include_usage") is True
    return Chat(model, [_message(one) for one in listed], value, asgi.flag(value, "stream", False), usage)


def _message(value: object) -> Message:
    if not isinstance(value, dict):
        raise ItemError("bad_request", f"a message is an object, not {asgi.json_type(value)}")
    role, content = asgi.needed(value, "role"), value.get("content")
    if role not in ROLES:
        raise ItemError("bad_request", f'role "{role[:60]}" is not taken; there are {", ".join(ROLES)}')
    if isinstance(content, list):  # parts, of which text is understood
        if not all(isinstance(part, dict) and isinstance(part.get("text"), str) for part in content):
            raise ItemError("bad_request", "a part of a message's content must be text")
        content = "".join(part["text"] for part in content)
    if not isinstance(content, str):
        raise ItemError("bad_request", '"content" must be a string or a list of texts')
    return Message(ROLES[role], content)


# The agent


def _question(chat: Chat, recipe: str | None) -> AgentRequest:
    asked = next((one.content for one in reversed(chat.messages) if one.role == "user"), "")
    fields = chat.fields
    return AgentRequest(question_of(asked), asgi.text_of(fields, "graph"), topics_of(fields), recipe, runs_of(fields))


def _of_agent(asked: AskResult) -> ChatAnswer:
    from kgwalk.walk.agent import as_json

    whole = as_json(asked)
    about = {
        name: whole[name] for name in ("answers", "evidence", "topics", "stop", "confidence", "note") if name in whole
    }
    finish = "stop" if asked.stop is StopReason.answered else "length"
    return ChatAnswer(
        ", ".join(asked.answers), finish, asked.tokens["prompt"], asked.tokens["generated"], {AGENT: about}
    )


def _forward(events: asyncio.Queue[dict[str, Any] | None]) -> Callable[[Episode, Turn | None], None]:
    """A watch that, from the agent's thread, puts each turn into the queue of this one."""
    here = asyncio.get_running_loop()
    runs: dict[int, int] = {}

    def watch(episode: Episode, turn: Turn | None) -> None:
        if turn is not None:
            run = runs.setdefault(id(episode), len(runs) + 1)
            about = {"run": run, "turn": len(episode.turns), "text": turn.text, "observation": turn.observation}
            here.call_soon_threadsafe(events.put_nowait, {**about, "ok": turn.ok})

    return watch


def _ended(events: asyncio.Queue[dict[str, Any] | None]) -> Callable[[asyncio.Task[ChatAnswer]], None]:
    def ended(job: asyncio.Task[ChatAnswer]) -> None:
        if not job.cancelled():
            job.exception()  # looked at, so that nobody warns where the client has left
        events.put_nowait(None)

    return ended


# The language model


class _Sampled:
    """A completion of the messages: the request for the engine, and what its generation says."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        self._sampling = refusing(lambda: _sampling(chat.fields))

    def request(self, engine: Engine) -> Request:
        from dataclasses import replace

        from kgwalk.llm.engine import Request

        if engine.exact:
            check_characters(sum(len(message.content) for message in self._chat.messages), engine.context)
        ids = engine.tokens.open_chat(self._chat.messages)
        sampling = self._sampling
        if engine.exact:  # else the ids are no tokens of the model's, whose server knows its own bounds
            room = engine.context - len(ids)
            if room < 1:
                raise too_long(
                    f"the messages have {len(ids):,} tokens; prompt and completion have {engine.context:,} at most"
                )
            sampling = replace(sampling, max_tokens=min(sampling.max_tokens, room))
        return Request(ids, self._chat.messages, sampling, f"chat/{uuid.uuid4().hex}")

    def said(self, request: Request, generation: Generation, text: str) -> ChatAnswer:
        met = [(text.index(stop), stop) for stop in request.sampling.stop if stop in text]
        at, stop = min(met, default=(len(text), None))
        from kgwalk.walk.budget import server_counts

        counts = server_counts(generation) or (len(request.ids), len(generation.ids))
        return ChatAnswer(text[:at], "length" if generation.finish == "length" else "stop", *counts, {}, stop)


def _sampling(fields: dict[str, Any]) -> Sampling:
    from kgwalk.llm.engine import Sampling

    stop = fields.get("stop")
    stops = [stop] if isinstance(stop, str) else stop or []
    if not isinstance(stops, list) or len(stops) > MOST_STOPS or not all(isinstance(s, str) and s for s in stops):
        raise ItemError("bad_request", f'"stop" must be a text or a list of at most {MOST_STOPS} texts')
    bound = asgi.count(fields, "max_tokens", MAX_TOKENS, least=1)
    seed = fields.get("seed")
    if seed is not None and type(seed) is not int:
        raise ItemError("bad_request", f'"seed" must be a whole number, not {asgi.json_type(seed)}')
    return Sampling(
        temperature=_number(fields, "temperature", 2.0),
        top_p=_number(fields, "top_p", 1.0),
        max_tokens=asgi.count(fields, "max_completion_tokens", bound, least=1),
        stop=tuple(stops),
        seed=seed,
    )


def _number(fields: dict[str, Any], name: str, most: float) -> float:
    value = fields.get(name)
    if value is None:
        return 1.0
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        raise ItemError("bad_request", f'"{name}" must be a number between 0 and {most:g}')
    return float(value)


class _Shape:
    """OpenAI's objects for one answer."""

    def __init__(self, model: str) -> None:
        self._same = {"id": f"chatcmpl-{uuid.uuid4().hex}", "created": int(time.time()), "model": model}

    def whole(self, said: ChatAnswer) -> bytes:
        message = {"role": "assistant", "content": said.content, **said.more}
        choice = {"index": 0, "message": message, "finish_reason": said.finish, "stop_reason": said.stop_reason}
        return orjson.dumps({**self._same, "object": "chat.completion", "choices": [choice], "usage": said.usage})

    def part(self, delta: dict[str, Any], finish: str | None = None, stop_reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish, "stop_reason": stop_reason}
        return self._event({"choices": [choice]})

    def counts(self, said: ChatAnswer) -> bytes:
        return self._event({"choices": [], "usage": said.usage})

    def _event(self, fields: dict[str, Any]) -> bytes:
        value = {**self._same, "object": "chat.completion.chunk", **fields}
        return _event(orjson.dumps(value))
