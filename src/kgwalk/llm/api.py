"""An engine over any OpenAI-compatible API: messages out, text back.

Ids are the bytes of the text, so episodes are for answering and evaluation, never for training (`exact` is False).
A server strips the stop text from its reply; it is put back here, as a protocol's parser waits for it. All requests go
from one thread, so the bounds hold for all who share the engine, and connections outlive their event loops.
Knows nothing of protocols; of a stop text only whether it is a closing tag.
"""

from __future__ import annotations

import os
import re
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import httpx

from kgwalk.llm.api_client import Client, Usage, shorten
from kgwalk.llm.engine import Generation, Request
from kgwalk.llm.loop import LoopClosed, LoopThread
from kgwalk.llm.tokens import ByteTokenizer
from kgwalk.types import EngineError, Message

OPENAI = "https://api.openai.com/v1"
KEY_VARIABLE, URL_VARIABLE = "OPENAI_API_KEY", "OPENAI_BASE_URL"
MOST_STOPS = 4  # OpenAI refuses more; those left out are looked for in the reply
NEXT_USER = "\n\nUser:"  # where a completion of rendered messages would begin to speak for the user
SEEDS = 2**31  # some servers keep a seed in 32 bits

Finish = Literal["stop", "eos", "length"]


@dataclass(frozen=True, slots=True)
class ApiGeneration(Generation):
    """With the tokens that the server counted for it."""

    usage: Usage


class ApiEngine:
    """`model` at `base_url` (OPENAI_BASE_URL, else OpenAI itself) with `api_key` (OPENAI_API_KEY).

    `chat` chooses chat completions over plain ones; `timeout` is seconds for one try, of which there are `retries`
    more; `at_once` and `per_minute` bound the requests. `context` is the model's, in its own tokens: as an id here
    is a byte, and a token is a byte or more, a rollout within it is within the model's. `usage` are running totals.
    """

    exact = False

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        chat: bool = True,
        timeout: float = 60,
        retries: int = 3,
        at_once: int = 16,
        per_minute: int | None = None,
        context: int = 32768,
    ) -> None:
        if not model:
            raise EngineError("an API engine needs the name of a model")
        url = _base(base_url or os.environ.get(URL_VARIABLE, "").strip() or OPENAI)
        key = _key(api_key)
        if key is None and url.startswith(OPENAI):
            raise EngineError(
                f"there is no key for {OPENAI}: set {KEY_VARIABLE}, or pass api_key\n"
                f"  For a server of your own set {URL_VARIABLE}, such as http://localhost:8000/v1."
            )
        self.model, self.context, self.chat, self.url = model, context, chat, url
        self.tokens = ByteTokenizer()
        self.at_once = at_once
        self._client = Client(url, key, timeout=timeout, retries=retries, at_once=at_once, per_minute=per_minute)
        self._loop = LoopThread("kgwalk-api", self._client.close)
        # Also when the engine is forgotten without being closed: no connection stays open.
        self._end = weakref.finalize(self, self._loop.close)

    def __repr__(self) -> str:
        return f"ApiEngine({self.model!r}, base_url={self._client.shown!r})"

    @property
    def usage(self) -> Usage:
        return self._client.usage

    async def generate(self, request: Request) -> ApiGeneration:
        path, body, stops = self._body(request)
        try:
            reply, usage = await self._loop.run(lambda: self._client.complete(path, body))
        except LoopClosed:
            raise EngineError(f"{self!r} is closed") from None
        text, finish = self._read(reply, stops)
        ids = self.tokens.encode(text)
        if finish == "eos":
            ids.append(self.tokens.END)
        return ApiGeneration(ids, [], finish, usage)

    async def forget(self, session: str) -> None:
        pass

    async def close(self) -> None:
        self._end()

    def _body(self, request: Request) -> tuple[str, dict[str, Any], tuple[str, ...]]:
        sampling = request.sampling
        messages = merge(request.messages)
        stops = sampling.stop if self.chat else (NEXT_USER, *sampling.stop)
        body: dict[str, Any] = {"model": self.model}
        if self.chat:
            body["messages"] = [{"role": message.role, "content": message.content} for message in messages]
        else:
            body["prompt"] = render(messages)
        body |= {"temperature": sampling.temperature, "max_tokens": sampling.max_tokens}
        if sampling.top_p != 1.0:
            body["top_p"] = sampling.top_p
        if stops:
            body["stop"] = list(stops[:MOST_STOPS])
        if sampling.seed is not None:
            body["seed"] = sampling.seed % SEEDS
        return "/chat/completions" if self.chat else "/completions", body, stops

    def _read(self, reply: Any, stops: Sequence[str]) -> tuple[str, Finish]:
        try:
            choice = reply["choices"][0]
            content = choice["message"].get("content") if self.chat else choice["text"]
            finish = choice.get("finish_reason")
            said = _text(content)
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            told = self._client.clean(str(reply))
            message = f"{self._client.shown} answered with something else than a completion: {told}"
            raise EngineError(message) from error
        if finish == "content_filter":
            raise EngineError(f"{self._client.shown} withheld the reply (content_filter)")
        text, ended = close_text(said, finish, stops, choice.get("stop_reason", choice.get("matched_stop")))
        if text.endswith(NEXT_USER) and not self.chat:
            return text.removesuffix(NEXT_USER), "eos"
        return text, ended


def merge(messages: Sequence[Message]) -> list[Message]:
    """Neighbours of one role as one message, empty ones left out: some servers want roles to alternate.

    >>> merge([Message("user", "a"), Message("assistant", ""), Message("user", "b")])
    [Message(role='user', content='a\\nb')]
    """
    merged: list[Message] = []
    for message in messages:
        if merged and merged[-1].role == message.role and message.content:
            merged[-1] = Message(message.role, f"{merged[-1].content}\n{message.content}")
        elif message.content:
            merged.append(message)
    return merged


def render(messages: Sequence[Message]) -> str:
    """The messages as one text for a model without a chat format.

    >>> render([Message("system", "Be brief."), Message("user", "Hi")])
    'Be brief.\\n\\nUser: Hi\\n\\nAssistant:'
    """
    leads = {"system": "", "user": "User: ", "assistant": "Assistant: "}
    return "\n\n".join([*(leads[one.role] + one.content.strip() for one in messages), "Assistant:"])


def close_text(text: str, finish: object, stops: Sequence[str], reported: object = None) -> tuple[str, Finish]:
    """The text up to its stop text, which is put back where the server took it off, and how it ended.

    `reported` is the stop text that some servers (vLLM, SGLang) say they met. Without it a closing tag is taken to be
    what is missing if its opening tag is there; of several the one opened last.

    >>> close_text("<answer>$2", "stop", ["</kg-query>", "</answer>"])
    ('<answer>$2</answer>', 'stop')
    >>> close_text("I do not know.", "stop", ["</answer>"])
    ('I do not know.', 'eos')
    >>> close_text("<answer>$2</answer> and so on", "length", ["</answer>"])
    ('<answer>$2</answer>', 'stop')
    """
    ends = [text.index(stop) + len(stop) for stop in stops if stop in text]
    if ends:
        return text[: min(ends)], "stop"
    if finish == "length":
        return text, "length"
    if finish == "stop":
        missing = reported if isinstance(reported, str) and reported in stops else _missing(text, stops[:MOST_STOPS])
        if missing:
            return text + missing[_begun(text, missing) :], "stop"
    return text, "eos"


def _missing(text: str, stops: Sequence[str]) -> str:
    opened = [(text.rfind(stop.replace("/", "", 1)), stop) for stop in stops if re.fullmatch(r"</[\w-]+>", stop)]
    place, stop = max(opened, default=(-1, ""))
    return stop if place >= 0 else ""


def _begun(text: str, stop: str) -> int:
    """How much of the stop text there is already at the end of the text: a model may end inside a tag."""
    return next((size for size in range(len(stop) - 1, 1, -1) if text.endswith(stop[:size])), 0)


def _text(content: object) -> str:
    """A message's content: a text, nothing, or (some servers) parts of which some are text."""
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise TypeError(content)
    return "".join(part.get("text", "") for part in content if part.get("type") == "text")


def _base(url: str) -> str:
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        parsed = httpx.URL("")
    if parsed.scheme not in ("http", "https") or not parsed.host:
        hint = f"; write it like http://localhost:8000/v1 (base_url or {URL_VARIABLE})"
        raise EngineError(f"{shorten(url)!r} is not the address of an API{hint}")
    return str(parsed.copy_with(path=parsed.path.rstrip("/") or "/v1", fragment=None))


def _key(given: str | None) -> str | None:
    key = (given or os.environ.get(KEY_VARIABLE, "")).strip()
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise EngineError(f"the API key is not one: it has spaces or other than ASCII letters ({KEY_VARIABLE})")
    return key or None
