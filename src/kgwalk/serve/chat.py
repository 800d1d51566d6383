"""POST /v1/chat/completions in OpenAI's shape, for the agent or its language model.

The agent is the model `kgwalk`; the language model goes by its own name. The agent takes the user's last message as the
question and answers with names joined by commas. The field `kgwalk` of its message has the same for programs: the
answers as a list, with their evidence. The language model completes the messages, so one kgwalk server can be the
engine of another. A stream has the turns of the walk as they happen.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

import orjson

from kgwalk.serve.agent import AgentRequest, AgentService, WalkFollower, parse, refusing, wanted_of
from kgwalk.serve.asgi import STOPPING, HttpError, HttpReply, ReplyStream, check_characters, too_long
from kgwalk.serve.ask import WalkEvents
from kgwalk.serve.reading import ItemError, MissingField, RequestReader, given, json_type
from kgwalk.serve.shapes import (
    AgentOptions,
    ChatAbout,
    ChatChunk,
    ChatDelta,
    ChatHead,
    ChatReply,
    ChatRole,
    ChatSaid,
    ChatUsage,
    ChunkChoice,
    SamplingOptions,
)
from kgwalk.types import Message, StopReason

if TYPE_CHECKING:
    from kgwalk.llm.engine import Engine, Generation, Request, Sampling
    from kgwalk.walk.agent import AskResult

MAX_TOKENS = 1024  # of a completion that sets no bound itself
ROLES: dict[ChatRole, str] = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True, slots=True)
class Chat:
    """A request as far as it is used; OpenAI's other fields are passed over."""

    model: str
    messages: list[Message]
    body: object  # the whole request; the options in it are read by whoever answers
    stream: bool
    usage: bool  # a stream ends with the counts


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """An answer in the terms of OpenAI."""

    content: str
    finish: Literal["stop", "length"]
    prompt_tokens: int
    completion_tokens: int
    about: ChatAbout | None = None  # of the agent's
    stop_reason: str | None = None  # the stop text that was met; vLLM's field

    @property
    def usage(self) -> ChatUsage:
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
        }


class ChatRoute:
    def __init__(self, agent: AgentService) -> None:
        self._agent = agent

    async def __call__(self, body: bytes, deadline: float) -> HttpReply | ReplyStream:
        self._agent.require()
        chat = refusing(lambda: read_chat(parse(body)))
        wanted = self._wanted(chat)
        writer = _Writer(chat.model)
        if chat.stream:
            parts = self._parts(chat, wanted, writer, deadline)
            return ReplyStream(await anext(parts), parts, _event(STOPPING.body) + DONE)
        return HttpReply(200, writer.whole(await self._answer(chat, wanted, deadline, None)))

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
        follower: WalkFollower | None,
    ) -> ChatAnswer:
        if wanted is not None:
            return _of_agent(wanted, await self._agent.ask(wanted, deadline, follower))
        completion = _Completion(chat)
        return completion.answer(*await self._agent.generate(completion.request, deadline))

    async def _parts(
        self, chat: Chat, wanted: AgentRequest | None, writer: _Writer, deadline: float
    ) -> AsyncGenerator[bytes, None]:
        """Server-sent events: the turns, the answer, the end. An error before the first of them is raised."""
        events = WalkEvents()
        # A task of its own: it has a time limit, and whoever reads the parts may be another task each time.
        job = asyncio.create_task(self._answer(chat, wanted, deadline, events))
        job.add_done_callback(events.ends)
        try:
            turn = await events.next_turn()
            if turn is None and (error := job.exception()) is not None:
                raise error
            yield writer.part({"role": "assistant", "content": ""})
            while turn is not None:
                yield writer.part({"kgwalk": turn})
                turn = await events.next_turn()
            try:
                answer = await job
            except HttpError as failed:
                yield _event(failed.reply.body) + DONE
                return
            yield writer.answer(answer)
            yield writer.part({}, answer.finish, answer.stop_reason)
            if chat.usage:
                yield writer.counts(answer)
            yield DONE
        finally:
            job.cancel()


def _event(data: bytes) -> bytes:
    return b"data: " + data + b"\n\n"


# Reading a request

read_head = RequestReader(ChatHead, "the body", other_fields=True)
read_agent_options = RequestReader(AgentOptions, "the body", other_fields=True)
read_sampling_options = RequestReader(SamplingOptions, "the body", other_fields=True)


def read_chat(value: object) -> Chat:
    head = read_head(value)
    fields = cast(dict[str, Any], head)
    if fields.get("n") not in (None, 1):
        raise ItemError("bad_request", '"n" must be 1: one completion is given')
    if fields.get("tools"):
        raise ItemError("bad_request", '"tools" are not taken: the agent has its own')
    options = head.get("stream_options")
    usage = isinstance(options, dict) and options.get("include_usage") is True
    messages = [_message(one) for one in head["messages"]]
    return Chat(head["model"], messages, value, given(head.get("stream"), False), usage)


def _message(value: object) -> Message:
    """Checked by hand, for words that OpenAI's clients can show to a person."""
    if not isinstance(value, dict):
        raise ItemError("bad_request", f"a message is an object, not {json_type(value)}")
    role, content = value.get("role"), value.get("content")
    if role is None:
        raise MissingField("role")
    if not isinstance(role, str):
        raise ItemError("bad_request", f'"role" must be a string, not {json_type(role)}')
    known = ROLES.get(cast(ChatRole, role))
    if known is None:
        raise ItemError("bad_request", f'role "{role[:60]}" is not taken; there are {", ".join(ROLES)}')
    if isinstance(content, list):  # parts, of which text is understood
        if not all(isinstance(part, dict) and isinstance(part.get("text"), str) for part in content):
            raise ItemError("bad_request", "a part of a message's content must be text")
        content = "".join(part["text"] for part in content)
    if not isinstance(content, str):
        raise ItemError("bad_request", '"content" must be a string or a list of texts')
    return Message(known, content)


# The agent


def _question(chat: Chat, recipe: str | None) -> AgentRequest:
    asked = next((one.content for one in reversed(chat.messages) if one.role == "user"), "")
    return wanted_of(asked, recipe, read_agent_options(chat.body))


_OF_ASK = ("turns", "tokens", "seconds", "walk", "votes", "mentions")  # what /v1/ask tells besides


def _of_agent(wanted: AgentRequest, asked: AskResult) -> ChatAnswer:
    about = {name: value for name, value in wanted.told(asked).items() if name not in _OF_ASK}
    return ChatAnswer(
        _spoken(asked, wanted.limit),
        "stop" if asked.stop is StopReason.answered else "length",
        asked.tokens["prompt"],
        asked.tokens["generated"],
        cast(ChatAbout, about),
    )


def _spoken(asked: AskResult, limit: int | None) -> str:
    """The answer as a message: names joined by commas, a table's rows each on a line."""
    from kgwalk.walk.agent import NOT_SAID
    from kgwalk.walk.starts import SAYS_NOT

    if asked.kind == NOT_SAID:
        return SAYS_NOT
    left = len(asked.answers) - len(asked.answers[:limit])
    more = [f"... and {left:,} more"] if left else []
    if asked.form.rows:
        rows = [asked.form.columns, *asked.form.rows[:limit]]
        return "\n".join([*(" | ".join(row) for row in rows), *more])
    return ", ".join([*asked.answers[:limit], *more])


# The language model


class _Completion:
    """A completion of the messages: the request for the engine, and the answer from its generation."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        self._sampling = refusing(lambda: _sampling(read_sampling_options(chat.body)))

    def request(self, engine: Engine) -> Request:
        from dataclasses import replace

        from kgwalk.llm.engine import Request

        if engine.exact:
            check_characters(sum(len(message.content) for message in self._chat.messages), engine.context)
        ids = engine.tokens.open_chat(self._chat.messages)
        sampling = self._sampling
        if engine.exact:  # else the ids are not the model's tokens, and its own server knows its bounds
            room = engine.context - len(ids)
            if room < 1:
                raise too_long(
                    f"the messages have {len(ids):,} tokens; prompt and completion have {engine.context:,} at most"
                )
            sampling = replace(sampling, max_tokens=min(sampling.max_tokens, room))
        return Request(ids, self._chat.messages, sampling, f"chat/{uuid.uuid4().hex}")

    def answer(self, request: Request, generation: Generation, text: str) -> ChatAnswer:
        from kgwalk.walk.rollout import server_counts

        met = [(text.index(stop), stop) for stop in request.sampling.stop if stop in text]
        at, stop = min(met, default=(len(text), None))
        prompt, generated = server_counts(generation) or (len(request.ids), len(generation.ids))
        finish: Literal["stop", "length"] = "length" if generation.finish == "length" else "stop"
        return ChatAnswer(text[:at], finish, prompt, generated, stop_reason=stop)


def _sampling(options: SamplingOptions) -> Sampling:
    from kgwalk.llm.engine import Sampling

    stop = given(options.get("stop"), [])
    bound = given(options.get("max_tokens"), MAX_TOKENS)
    return Sampling(
        temperature=float(given(options.get("temperature"), 1.0)),
        top_p=float(given(options.get("top_p"), 1.0)),
        max_tokens=given(options.get("max_completion_tokens"), bound),
        stop=(stop,) if isinstance(stop, str) else tuple(stop),
        seed=options.get("seed"),
    )


class _Writer:
    """OpenAI's objects for one answer, as JSON."""

    def __init__(self, model: str) -> None:
        self._id, self._created, self._model = f"chatcmpl-{uuid.uuid4().hex}", int(time.time()), model

    def whole(self, answer: ChatAnswer) -> bytes:
        message: ChatSaid = {"role": "assistant", "content": answer.content}
        if answer.about is not None:
            message["kgwalk"] = answer.about
        reply: ChatReply = {
            "id": self._id,
            "created": self._created,
            "model": self._model,
            "object": "chat.completion",
            "choices": [
                {"index": 0, "message": message, "finish_reason": answer.finish, "stop_reason": answer.stop_reason}
            ],
            "usage": answer.usage,
        }
        return orjson.dumps(reply)

    def answer(self, answer: ChatAnswer) -> bytes:
        """The part of a stream that has the answer."""
        delta: ChatDelta = {"content": answer.content}
        if answer.about is not None:
            delta["kgwalk"] = answer.about
        return self.part(delta)

    def part(
        self, delta: ChatDelta, finish: Literal["stop", "length"] | None = None, stop_reason: str | None = None
    ) -> bytes:
        choice: ChunkChoice = {"index": 0, "delta": delta, "finish_reason": finish, "stop_reason": stop_reason}
        return _event(orjson.dumps(self._chunk([choice])))

    def counts(self, answer: ChatAnswer) -> bytes:
        """The part after the last, where the client asked for the counts."""
        return _event(orjson.dumps({**self._chunk([]), "usage": answer.usage}))

    def _chunk(self, choices: list[ChunkChoice]) -> ChatChunk:
        return {
            "id": self._id,
            "created": self._created,
            "model": self._model,
            "object": "chat.completion.chunk",
            "choices": choices,
        }
