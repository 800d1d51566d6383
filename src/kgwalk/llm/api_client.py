"""Requests to an OpenAI-compatible server: bounded, retried, counted, and refused with words that say what to do.

Lives in one event loop. Knows status codes and errors, nothing of prompts or tokens.
"""

from __future__ import annotations

import asyncio
import difflib
import email.utils
import random
import re
import time
from collections import deque
from dataclasses import dataclass
from typing import Any

import httpx
import orjson

from kgwalk import __version__
from kgwalk.types import EngineError

FIRST_WAIT = 0.5  # seconds before the first retry; each later one doubles it
LONGEST_WAIT = 30.0  # seconds; also the most that a Retry-After is believed
MINUTE = 60.0  # seconds
CONNECT = 10.0  # seconds to connect, if a try may take longer

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
# What a request can do without. Some models refuse one of them, and say which.
_OPTIONAL = frozenset(["temperature", "top_p", "seed", "stop", "max_tokens"])
_UNSUPPORTED = re.compile(r"[Uu]nsupported (?:parameter|value): '(\w+)'")
_KEY_LIKE = re.compile(r"\bsk-[\w*.-]+")  # OpenAI repeats a wrong key, with stars in its middle


@dataclass(slots=True)
class Usage:
    """As the server reported it; a server that reports nothing adds requests only."""

    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0


class Client:
    """One server, one key. `shown` is its address as errors name it."""

    def __init__(
        self, url: str, key: str | None, *, timeout: float, retries: int, at_once: int, per_minute: int | None
    ) -> None:
        if timeout <= 0 or retries < 0 or at_once < 1 or (per_minute is not None and per_minute < 1):
            raise EngineError(
                f"timeout={timeout}, retries={retries}, at_once={at_once}, per_minute={per_minute}: "
                "timeout is above 0, retries at least 0, the others at least 1"
            )
        self._url, self._key = httpx.URL(url), key
        self.shown = str(self._url.copy_with(userinfo=b"", query=None, fragment=None))
        self.usage = Usage()
        self._timeout, self._retries, self._at_once = timeout, retries, at_once
        self._gate = asyncio.Semaphore(at_once)
        self._rate = None if per_minute is None else _Rate(per_minute)
        self._refused: set[str] = set()
        self._http: httpx.AsyncClient | None = None

    async def close(self) -> None:
        if self._http is not None:
            await self._http.aclose()

    async def complete(self, path: str, body: dict[str, Any]) -> tuple[Any, Usage]:
        """The server's reply, and what it counted for it."""
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
        trouble, wait = "", 0.0
        for attempt in range(self._retries + 1):
            if attempt:
                await asyncio.sleep(wait)
            wait = min(FIRST_WAIT * 2**attempt, LONGEST_WAIT) * random.uniform(0.5, 1.0)
            try:
                reply = await self._send("POST", path, body)
            except (TimeoutError, httpx.TimeoutException):
                trouble = f"no answer within {self._timeout:g} s"
            except httpx.TransportError as error:
                trouble = f"no connection ({str(error) or type(error).__name__})"
            except httpx.RequestError as error:
                raise self._error(path, f"an unreadable reply ({error})", "check the address") from error
            else:
                if reply.is_success:
                    return self._parse(path, reply)
                if not _passing(reply):
                    if self._learn(reply, body):
                        return await self._post(path, body)
                    raise await self._refusal(path, reply, str(body.get("model")))
                trouble = self._describe(reply)
                wait = max(wait, _retry_after(reply))
        tries = "once" if self._retries == 0 else f"{self._retries + 1} times"
        raise self._error(path, f"{trouble}, tried {tries}", "check that the server is up, and OPENAI_BASE_URL")

    async def _send(self, method: str, path: str, body: dict[str, Any] | None) -> httpx.Response:
        async with self._gate:
            if self._rate is not None:
                await self._rate.turn()
            # httpx bounds each wait for bytes; this bounds the whole try.
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
                # Reading the system's certificates takes longer than many plain requests.
                verify=self._url.scheme == "https",
                # A proxy set for the web must not swallow what goes to this machine.
                trust_env=self._url.host not in _LOOPBACK,
            )
        return self._http

    # What a model does not take

    def _accepted(self, body: dict[str, Any]) -> dict[str, Any]:
        """The request without what this server refused before; the bound on tokens has a newer name."""
        fitted = {name: value for name, value in body.items() if name not in self._refused}
        if "max_tokens" in body and "max_tokens" in self._refused:
            fitted["max_completion_tokens"] = body["max_tokens"]
        return fitted

    def _learn(self, reply: httpx.Response, body: dict[str, Any]) -> bool:
        """Whether the server refuses something that the request can do without: it is left out from now on."""
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

    # What went wrong

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
        except (TimeoutError, httpx.RequestError, ValueError, KeyError, TypeError):
            return None  # only asked to help with another error

    def _error(self, path: str, trouble: str, advice: str) -> EngineError:
        return EngineError(f"{self.shown}{path}: {self._hide(trouble)}; {advice}")

    def _describe(self, reply: httpx.Response) -> str:
        message = _about(reply).get("message")
        said = self.clean(message if isinstance(message, str) else reply.text)
        return f"{reply.status_code} {reply.reason_phrase}".strip() + (f": {said}" if said else "")

    def clean(self, text: str) -> str:
        """What a server said, on one line and without secrets."""
        return shorten(self._hide(text))

    def _hide(self, text: str) -> str:
        """Without the key, or what looks like one."""
        return _KEY_LIKE.sub("***", text if self._key is None else text.replace(self._key, "***"))


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


def shorten(text: str, most: int = 300) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[:most]}..."


def _passing(reply: httpx.Response) -> bool:
    """Whether the same request may do better later."""
    if reply.status_code == 429:
        return _about(reply).get("code") != "insufficient_quota"
    return reply.status_code >= 500


def _about(reply: httpx.Response) -> dict[str, Any]:
    """What an error says of itself: OpenAI has `error.message`, others have `error`, `message` or `detail`."""
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


def _retry_after(reply: httpx.Response) -> float:
    """Seconds that the server asks us to wait, as a number or a date; 0 where it does not say."""
    told = reply.headers.get("Retry-After", "").strip()
    try:
        wait = float(told)
    except ValueError:
        try:
            wait = email.utils.parsedate_to_datetime(told).timestamp() - time.time()
        except ValueError:
            return 0.0
    return min(wait, LONGEST_WAIT) if wait > 0 else 0.0


def _count(counts: dict[str, Any], name: str) -> int:
    value = counts.get(name)
    return value if type(value) is int else 0
