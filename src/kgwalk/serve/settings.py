"""The settings of a server, checked before it starts, and who may ask it: the API key.

A server without a key listens on this
machine only, unless it is told to serve everyone.
"""

from __future__ import annotations

import difflib
import hmac
import ipaddress
import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

from kgwalk.types import KgwalkError

KEY_VARIABLE = "KGWALK_API_KEY"


@dataclass(frozen=True, slots=True)
class ServeSettings:
    """Everything a server is told; `graphs` maps the names that clients use to the paths of stores."""

    graphs: dict[str, str] = field(default_factory=dict)
    data: str | None = None  # a dataset whose graph is served too: a question's id then means its view
    # a recipe's section [world]: what is hidden of each question's facts, and which web the server's agent searches
    environment: dict[str, str | float] = field(default_factory=dict)
    host: str = "127.0.0.1"
    port: int = 8000  # 0: any free one
    workers: int = 1  # processes; each maps the same files, so the pages are in memory once
    api_key: str | None = field(default=None, repr=False)
    insecure: bool = False  # listen beyond this machine without a key
    max_batch: int = 1024  # items in a request
    max_body: int = 4 * 1024 * 1024  # bytes in a request
    time_limit: float = 5.0  # seconds for a request, its body included
    limit: int = 1000  # most names in one action's result, whatever the request asks for
    access_log: bool = False
    verify: bool = True  # read all of a large store at the start; without it by block, when a block is first asked
    reload: bool = False  # open the stores again when their files change, as SIGHUP does
    model: str | None = None  # the language model of the /v1 routes; without one they answer 503
    engine: str = "auto"  # how it runs: see kgwalk.llm.engine
    base_url: str | None = None  # of that API; else OPENAI_BASE_URL. Its key is OPENAI_API_KEY, never a setting
    adapter: str | None = None  # a LoRA adapter's folder, for a model that runs here
    recipe: str = "kgwalk"  # how the agent walks, unless a request names a recipe
    warm: bool | None = None  # open the model at the start; None: with one worker, as each would have a model
    agent_time_limit: float = 120.0  # seconds for a question
    agent_at_once: int = 8  # questions and completions under way; more of them wait

    def __post_init__(self) -> None:
        for name in ("workers", "max_batch", "max_body", "limit", "agent_at_once"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise KgwalkError(f"`{name}` must be a whole number of at least 1, not {value!r}")
        if type(self.port) is not int or not 0 <= self.port <= 65535:
            raise KgwalkError(f"`port` must be between 0 and 65535, not {self.port!r}")
        for name in ("time_limit", "agent_time_limit"):
            value = getattr(self, name)
            if not isinstance(value, int | float) or not value > 0:
                raise KgwalkError(f"`{name}` must be a number of seconds above 0, not {value!r}")
        for name in ("data", "model", "base_url", "adapter"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, str) or not value.strip()):
                raise KgwalkError(f"`{name}` must be text, not {value!r}")
        for name in ("verify", "reload"):
            if not isinstance(getattr(self, name), bool):
                raise KgwalkError(f"`{name}` must be true or false, not {getattr(self, name)!r}")
        if not isinstance(self.warm, bool | None):
            raise KgwalkError(f"`warm` must be true, false or null, not {self.warm!r}")
        if self.api_key is not None and not (self.api_key.isascii() and self.api_key.isprintable()):
            raise KgwalkError("the API key must be printable ASCII: it travels in an HTTP header")
        if self.api_key is not None and (not self.api_key or " " in self.api_key):
            raise KgwalkError("the API key must not be empty or hold spaces")

    @property
    def warms(self) -> bool:
        """Whether the model is opened at the start."""
        return self.workers == 1 if self.warm is None else self.warm

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> ServeSettings:
        try:
            values = json.loads(text)
        except json.JSONDecodeError as error:
            raise KgwalkError(f"the settings of the server are not JSON: {error}") from error
        if not isinstance(values, dict):
            raise KgwalkError(f"the settings of the server are a JSON object, not {type(values).__name__}")
        known = [one.name for one in fields(cls)]
        for name in values:
            if name not in known:
                near = difflib.get_close_matches(name, known, 1)
                hint = f"; did you mean `{near[0]}`?" if near else f"; there are {', '.join(known)}"
                raise KgwalkError(f"unknown setting `{name}`{hint}")
        return cls(**values)


# The API key


def read_key(path: Path | None = None) -> str | None:
    """The key in a file, or else in KGWALK_API_KEY; None where there is neither."""
    if path is None:
        return os.environ.get(KEY_VARIABLE, "").strip() or None
    try:
        key = path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise KgwalkError(f"cannot read the API key from {path}: {error}") from error
    if not key:
        raise KgwalkError(f"{path} holds no API key; write one line of text into it")
    return key


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address; any name but localhost could be another machine's."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_bind(settings: ServeSettings) -> None:
    """Refuse to listen beyond this machine without a key, unless `insecure` is set."""
    if settings.api_key is None and not settings.insecure and not is_loopback(settings.host):
        raise KgwalkError(
            f"{settings.host or 'every address'} can be reached from other machines, and no API key is set.\n"
            f"  Set {KEY_VARIABLE} or pass --api-key-file FILE; clients send `Authorization: Bearer KEY`.\n"
            "  Or listen on 127.0.0.1, or pass --insecure to serve everyone."
        )


def authorized(headers: Iterable[tuple[bytes, bytes]], key: bytes) -> bool:
    """Whether the headers carry `Authorization: Bearer KEY`. Takes the same time for any wrong key."""
    for name, value in headers:
        if name == b"authorization":
            scheme, _, given = value.partition(b" ")
            return scheme.lower() == b"bearer" and hmac.compare_digest(given.strip(), key)
    return False
