"""The engine `api`: any OpenAI-compatible API; messages go out, text comes back.

Ids are the bytes of the text, so episodes are for answering and evaluation, never for training (`exact` is False).
A server strips the stop text from its reply; it is put back here, as a protocol's parser needs it. All requests go
from one thread, so that the limits hold for all who share the engine, and connections outlive their event loops.
`ApiEngine` comes first, then what it does with texts, then the client that sends requests, retries and counts.
"""

from __future__ import annotations

import asyncio
import difflib
import os
import re
import time
import weakref
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import httpx
import orjson

from kgwalk import __version__
from kgwalk.config import http
from kgwalk.config.runtime import LoopClosed, LoopThread
from kgwalk.llm.engine import Generation, Request
from kgwalk.llm.tokenizers import ByteTokenizer
from kgwalk.types import EngineError, Message

OPENAI = "https://api.openai.com/v1"
KEY_VARIABLE, URL_VARIABLE = "OPENAI_API_KEY", "OPENAI_BASE_URL"
MAX_STOPS = 4  # OpenAI refuses more; the others are looked for in the reply
NEXT_USER = "\n\nUser:"  # where a completion of rendered messages would go on to speak for the user
SEEDS = 2**31  # some servers keep a seed in 32 bits

Finish = Literal["stop", "eos", "length"]


@dataclass(slots=True)
class Usage:
    """Requests and tokens as the server reported them; one that reports no tokens adds requests only."""

    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0


@dataclass(frozen=True, slots=True)
class ApiGeneration(Generation):
    """A generation with the tokens that the server counted for it."""

    usage: Usage = field(default_factory=Usage)


class ApiEngine:
    """`model` at `base_url` (OPENAI_BASE_URL, else OpenAI itself) with `api_key` (OPENAI_API_KEY).

    `chat` is for chat completions, otherwise plain ones. `timeout` is in seconds for one try; `retries` more may
    follow. `at_once` and `per_minute` limit the requests. `context` is the model's, in its own tokens: an id here is a
    byte, and a token is at least a byte, so a rollout within this context is within the model's. `usage` are running
    totals.
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
        # Also when the engine is dropped without being closed: no connection stays open.
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
        return ApiGeneration(ids, [], finish, usage=usage)

    async def forget(self, session: str) -> None:
        pass

    async def close(self) -> None:
        self._end()

    def _body(self, request: Request) -> tuple[str, dict[str, Any], tuple[str, ...]]:
        """The path, the body, and the stop texts, of which the body may have fewer."""
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
            body["stop"] = list(stops[:MAX_STOPS])
        if sampling.seed is not None:
            body["seed"] = sampling.seed % SEEDS
        return "/chat/completions" if self.chat else "/completions", body, stops

    def _read(self, reply: Any, stops: Sequence[str]) -> tuple[str, Finish]:
        """The text of a reply with its stop text, and how it ended."""
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
    """Merges neighbours of one role and drops empty messages: some servers want roles to alternate.

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
    """The messages as one text, for a model without a chat format.

    >>> render([Message("system", "Be brief."), Message("user", "Hi")])
    'Be brief.\\n\\nUser: Hi\\n\\nAssistant:'
    """
    leads = {"system": "", "user": "User: ", "assistant": "Assistant: "}
    return "\n\n".join([*(leads[one.role] + one.content.strip() for one in messages), "Assistant:"])


def close_text(text: str, finish: object, stops: Sequence[str], reported: object = None) -> tuple[str, Finish]:
    """The text up to its stop text, which is put back if the server stripped it, and how the text ended.

    `reported` is the stop text that some servers (vLLM, SGLang) say they met. Without it, the missing stop text is a
    closing tag whose opening tag is there; of several, the one opened last.

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
        missing = reported if isinstance(reported, str) and reported in stops else _missing(text, stops[:MAX_STOPS])
        if missing:
            return text + missing[_begun(text, missing) :], "stop"
    return text, "eos"


def _missing(text: str, stops: Sequence[str]) -> str:
    """The closing tag of the tag that was opened last; "" if none was opened."""
    opened = [(text.rfind(stop.replace("/", "", 1)), stop) for stop in stops if re.fullmatch(r"</[\w-]+>", stop)]
    place, stop = max(opened, default=(-1, ""))
    return stop if place >= 0 else ""


def _begun(text: str, stop: str) -> int:
    """How much of the stop text the text ends with already: a model may end inside a tag."""
    return next((size for size in range(len(stop) - 1, 1, -1) if text.endswith(stop[:size])), 0)


def _text(content: object) -> str:
    """A message's content: a text, nothing, or (from some servers) parts, of which some are text."""
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise TypeError(content)
    return "".join(part.get("text", "") for part in content if part.get("type") == "text")


def _base(url: str) -> str:
    parsed = http.parse_address(url)
    if parsed is None:
        hint = f"; write it like http://localhost:8000/v1 (base_url or {URL_VARIABLE})"
        raise EngineError(f"{http.shorten(url)!r} is not the address of an API{hint}")
    return str(parsed.copy_with(path=parsed.path.rstrip("/") or "/v1", fragment=None))


def _key(given: str | None) -> str | None:
    key = (given or os.environ.get(KEY_VARIABLE, "")).strip()
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise EngineError(f"the API key is not one: it has spaces or other than ASCII letters ({KEY_VARIABLE})")
    return key or None


# The client

MINUTE = 60.0  # seconds
CONNECT = 10.0  # seconds to connect, if a try may take longer

# Parts that a request can do without. Some models refuse one of them, and say which.
_OPTIONAL = frozenset(["temperature", "top_p", "seed", "stop", "max_tokens"])
_UNSUPPORTED = re.compile(r"[Uu]nsupported (?:parameter|value): '(\w+)'")
_KEY_LIKE = re.compile(r"\bsk-[\w*.-]+")  # OpenAI repeats a wrong key, with stars in its middle


class Client:
    """Requests to one server with one key: limited, retried, counted, and errors that say what to do.

    Lives in one event loop. `shown` is the server's address as errors name it.
    """

    def __init__(
        self, url: str, key: str | None, *, timeout: float, retries: int, at_once: int, per_minute: int | None
    ) -> None:
        if timeout <= 0 or retries < 0 or at_once < 1 or (per_minute is not None and per_minute < 1):
            raise EngineError(
                f"timeout={timeout}, retries={retries}, at_once={at_once}, per_minute={per_minute}: "
                "timeout is above 0, retries at least 0, the others at least 1"
            )
        self._url, self._key = httpx.URL(url), key
        self.shown = http.shown(self._url)
        self.usage = Usage()
        self._timeout, self._retry, self._at_once = timeout, http.Retry(retries, http.FIRST_PAUSE), at_once
        self._gate = asyncio.Semaphore(at_once)
        self._rate = None if per_minute is None else _Rate(per_minute)
        self._refused: set[str] = set()
        self._http: httpx.AsyncClient | None = None

    async def close(self) -> None:
        if self._http is not None:
            await self._http.aclose()

    async def complete(self, path: str, body: dict[str, Any]) -> tuple[Any, Usage]:
        """The server's reply, and the tokens it counted for it."""
        reply = await self._post(path, body)
        told = reply.get("usage") if isinstance(reply, dict) else None
        counts = told if isinstance(told, dict) else {}
        usage = Usage(1, _count(counts, "prompt_tokens"), _count(counts, "completion_tokens"))
        self.usage.requests += 1
        self.usage.prompt_tokens += usage.prompt_tokens
        self.usage.completion_tokens += usage.completion_tokens
        return reply, usage

    async def _post(self, path: str, body: dict[str, Any]) -> Any:
        body = self._accepted(body)
        try:
            reply = await self._retry.call_async(lambda: self._once(path, body))
        except http.RequestFailed as failure:
            advice = failure.advice or "check that the server is up, and OPENAI_BASE_URL"
            raise self._error(path, failure.told, advice) from failure.__cause__
        if reply.is_success:
            return self._parse(path, reply)
        if self._learn(reply, body):
            return await self._post(path, body)
        raise await self._refusal(path, reply, str(body.get("model")))

    async def _once(self, path: str, body: dict[str, Any]) -> httpx.Response:
        reply = await self._send("POST", path, body)
        if http.may_pass(reply) and _about(reply).get("code") != "insufficient_quota":
            raise http.RequestFailed(self._describe(reply), wait=http.retry_after(reply))
        return reply

    async def _send(self, method: str, path: str, body: dict[str, Any] | None) -> httpx.Response:
        async with self._gate:
            if self._rate is not None:
                await self._rate.turn()
            # httpx limits each wait for bytes; this limits the whole try.
            with http.failures(self._timeout):
                async with asyncio.timeout(self._timeout):
                    content = None if body is None else orjson.dumps(body)
                    url = self._url.copy_with(path=self._url.path + path)
                    return await self._connections().request(method, url, content=content)

    def _connections(self) -> httpx.AsyncClient:
        if self._http is None:
            headers = {"Content-Type": "application/json", "User-Agent": f"kgwalk/{__version__}"}
            if self._key is not None:
                headers["Authorization"] = f"Bearer {self._key}"
            self._http = httpx.AsyncClient(
                headers=headers,
                timeout=httpx.Timeout(self._timeout, connect=min(self._timeout, CONNECT)),
                limits=httpx.Limits(max_connections=self._at_once, max_keepalive_connections=self._at_once),
                **http.connection_options(self._url),
            )
        return self._http

    # Parts of a request that a server refuses

    def _accepted(self, body: dict[str, Any]) -> dict[str, Any]:
        """The body without what this server refused before. If it refused `max_tokens`, the newer name is used."""
        fitted = {name: value for name, value in body.items() if name not in self._refused}
        if "max_tokens" in body and "max_tokens" in self._refused:
            fitted["max_completion_tokens"] = body["max_tokens"]
        return fitted

    def _learn(self, reply: httpx.Response, body: dict[str, Any]) -> bool:
        """Whether the server refuses a part that a request can do without, which is then left out from now on."""
        if reply.status_code not in (400, 422):
            return False
        about = _about(reply)
        found = _UNSUPPORTED.search(str(about.get("message")))
        unsupported = found is not None or str(about.get("code")).startswith("unsupported")
        name = about.get("param") or (found[1] if found else None)
        if not unsupported or name not in _OPTIONAL or name not in body:
            return False
        self._refused.add(str(name))
        return True

    # Errors

    def _parse(self, path: str, reply: httpx.Response) -> Any:
        try:
            return orjson.loads(reply.content)
        except orjson.JSONDecodeError as error:
            begins = f"a reply that is not JSON: {self.clean(reply.text)!r}"
            raise self._error(path, begins, "check that OPENAI_BASE_URL is an OpenAI-compatible API") from error

    async def _refusal(self, path: str, reply: httpx.Response, model: str) -> EngineError:
        status = reply.status_code
        if reply.is_redirect:
            where = self.clean(reply.headers.get("Location", "another address").split("?")[0])
            return self._error(path, self._describe(reply), f"give the address it sends to, {where}")
        if status in (401, 403):
            advice = "set OPENAI_API_KEY (or pass api_key) to a key of this server"
            if self._key is not None:
                advice = "the key was refused; " + advice
            return self._error(path, self._describe(reply), advice)
        if status == 404 or _about(reply).get("code") == "model_not_found":
            return await self._not_found(path, reply, model)
        if status == 429:
            return self._error(path, self._describe(reply), "the account's quota is used up")
        return self._error(path, self._describe(reply), "the request was refused as it is")

    async def _not_found(self, path: str, reply: httpx.Response, model: str) -> EngineError:
        known = await self._models()
        if known is None:
            return self._error(path, self._describe(reply), "check OPENAI_BASE_URL: it mostly ends in /v1")
        if model in known:
            return self._error(path, self._describe(reply), f"it has the model {model!r}, so try chat or completions")
        near = difflib.get_close_matches(model, known, 1)
        listed = ", ".join(known[:20]) + (f" and {len(known) - 20} more" if len(known) > 20 else "")
        hint = f"did you mean {near[0]!r}? " if near else ""
        return EngineError(f"{self.shown} has no model {model!r}; {hint}there are {listed or 'none'}")

    async def _models(self) -> list[str] | None:
        try:
            reply = await self._send("GET", "/models", None)
            return [str(entry["id"]) for entry in orjson.loads(reply.content)["data"]] if reply.is_success else None
        except (http.RequestFailed, ValueError, KeyError, TypeError):
            return None  # only asked to help with another error

    def _error(self, path: str, trouble: str, advice: str) -> EngineError:
        return EngineError(f"{self.shown}{path}: {self._hide(trouble)}; {advice}")

    def _describe(self, reply: httpx.Response) -> str:
        message = _about(reply).get("message")
        said = self.clean(message if isinstance(message, str) else reply.text)
        return http.status_line(reply, said)

    def clean(self, text: str) -> str:
        """What a server said, on one short line and without secrets."""
        return http.shorten(self._hide(text))

    def _hide(self, text: str) -> str:
        """The text without the key, or what looks like one."""
        return _KEY_LIKE.sub("***", http.hide(text, [self._key] if self._key else []))


class _Rate:
    """At most so many requests in any minute."""

    def __init__(self, per_minute: int) -> None:
        self._begun: deque[float] = deque(maxlen=per_minute)
        self._lock = asyncio.Lock()

    async def turn(self) -> None:
        async with self._lock:
            if len(self._begun) == self._begun.maxlen:
                await asyncio.sleep(max(0.0, self._begun[0] + MINUTE - time.monotonic()))
            self._begun.append(time.monotonic())


def _about(reply: httpx.Response) -> dict[str, Any]:
    """An error's fields: OpenAI has `error.message`, others have `error`, `message` or `detail`."""
    try:
        value = orjson.loads(reply.content)
    except orjson.JSONDecodeError:
        return {}
    if not isinstance(value, dict):
        return {}
    error = value.get("error")
    if isinstance(error, dict):
        return error
    return {**value, "message": next((value[key] for key in ("error", "message", "detail") if key in value), None)}


def _count(counts: dict[str, Any], name: str) -> int:
    value = counts.get(name)
    return value if type(value) is int else 0
