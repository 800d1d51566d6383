"""The settings of a server, checked before it starts, and who may ask it: keys, hosts and origins.

A server without a key listens on this machine only, unless it is told to serve everyone. It also answers to this
machine's own names only: a browser's page from elsewhere could otherwise give its own name this machine's address (DNS
rebinding) and read what is served here.
"""

from __future__ import annotations

import difflib
import hmac
import ipaddress
import json
import os
import re
import socket
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from time import monotonic

from kgwalk.serve.asgi import JSON, HttpError, Scope
from kgwalk.types import KgwalkError

KEY_VARIABLE = "KGWALK_API_KEY"

_COUNTS = (
    "workers",
    "max_batch",
    "max_body",
    "max_upload",
    "limit",
    "max_reply",
    "agent_at_once",
    "max_header_bytes",
    "max_header_lines",
    "max_connections",
    "max_connections_per_address",
    "wrong_keys",
)
_LEAST = {"wrong_keys": 0, "max_reply": 1_000}  # 1 for the others


@dataclass(frozen=True, slots=True)
class ServeSettings:
    """Everything a server is told; `graphs` maps the names that clients use to the paths of stores."""

    graphs: dict[str, str] = field(default_factory=dict)
    data: str | None = None  # a dataset whose graph is served too: a question's id then means its view
    # a recipe's section [world]: what is hidden of each question's facts, and which web the server's agent searches
    environment: dict[str, str | float] = field(default_factory=dict)
    runs: str | None = None  # a folder whose run folders are shown
    host: str = "127.0.0.1"
    port: int = 8000  # 0: any free one
    workers: int = 1  # processes; each maps the same files, so the pages are in memory once
    api_key: str | None = field(default=None, repr=False)
    insecure: bool = False  # listen beyond this machine without a key
    max_batch: int = 1024  # items in a request
    max_body: int = 4 * 1024 * 1024  # bytes in a request
    max_header_bytes: int = 64 * 1024  # of the request line and the headers
    max_header_lines: int = 100
    header_time_limit: float = 10.0  # seconds until the headers are there
    silence_time_limit: float = 10.0  # seconds without a byte of a body, or without one of an answer being taken
    max_connections: int = 1024  # in one process
    max_connections_per_address: int = 512
    allow_hosts: list[str] = field(default_factory=list)  # names by which a server without a key may be called
    wrong_keys: int = 10  # of one address, and one more a second; 0: no bound, as behind a proxy all have one address
    time_limit: float = 5.0  # seconds for a request, its body included
    limit: int = 1000  # most names in one action's result, whatever the request asks for
    max_reply: int = 20_000  # characters in the reply of an MCP tool: about 5,000 tokens
    access_log: bool = False  # a line for each request, and for what became of each question
    log_format: str = "text"  # or "json", an object a line
    log_questions: bool = False  # whether questions and answers stand in log lines and traces
    trace: bool | None = None  # send traces of questions; None: if the environment names a collector
    verify: bool = True  # read all of a large store at the start; without it by block, when a block is first asked
    reload: bool = False  # open the stores again when their files change, as SIGHUP does
    uploads: str | None = None  # a folder for graphs that clients upload; without one they cannot
    max_upload: int = 256 * 1024 * 1024  # bytes of all files of one such graph
    model: str | None = None  # the language model of the /v1 routes; without one they answer 503
    engine: str = "auto"  # how it runs: see kgwalk.llm.engine
    base_url: str | None = None  # of that API; else OPENAI_BASE_URL. Its key is OPENAI_API_KEY, never a setting
    adapter: str | None = None  # a LoRA adapter's folder, for a model that runs here
    recipe: str = "kgwalk"  # how the agent walks, unless a request names a recipe
    warm: bool | None = None  # open the model at the start; None: with one worker, as each would have a model
    agent_time_limit: float = 120.0  # seconds for a question
    feedback: str | None = None  # a folder that keeps what people say of answers, as a question set
    agent_at_once: int = 8  # questions and completions under way; more of them wait

    def __post_init__(self) -> None:
        for name in _COUNTS:
            least, value = _LEAST.get(name, 1), getattr(self, name)
            if type(value) is not int or value < least:
                raise KgwalkError(f"`{name}` must be a whole number of at least {least}, not {value!r}")
        if type(self.port) is not int or not 0 <= self.port <= 65535:
            raise KgwalkError(f"`port` must be between 0 and 65535, not {self.port!r}")
        for name in ("time_limit", "agent_time_limit", "header_time_limit", "silence_time_limit"):
            value = getattr(self, name)
            if not isinstance(value, int | float) or not value > 0:
                raise KgwalkError(f"`{name}` must be a number of seconds above 0, not {value!r}")
        for name in ("data", "runs", "model", "base_url", "adapter", "uploads", "feedback"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, str) or not value.strip()):
                raise KgwalkError(f"`{name}` must be text, not {value!r}")
        if not isinstance(self.allow_hosts, list) or not all(
            isinstance(one, str) and re.fullmatch(r"\*|[\w.-]+|\[?[0-9a-fA-F:.]+\]?", one) for one in self.allow_hosts
        ):
            raise KgwalkError(
                "`allow_hosts` must be names such as kg.example.org, without http:// or a port, "
                f"not {self.allow_hosts!r}"
            )
        if self.log_format not in ("text", "json"):
            raise KgwalkError(f"`log_format` must be text or json, not {self.log_format!r}")
        for name in ("verify", "reload", "access_log", "log_questions"):
            if not isinstance(getattr(self, name), bool):
                raise KgwalkError(f"`{name}` must be true or false, not {getattr(self, name)!r}")
        if self.uploads is not None and self.workers > 1:
            raise KgwalkError(
                "`uploads` needs one worker: the others would not know of a new graph; leave out --workers"
            )
        for name in ("warm", "trace"):
            if not isinstance(getattr(self, name), bool | None):
                raise KgwalkError(f"`{name}` must be true, false or null, not {getattr(self, name)!r}")
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


# Each request

MOST_ADDRESSES = 4096  # whose wrong keys are remembered
MOST_HOSTS = 64  # that are remembered as allowed; a Host with a port counts by itself
IPV4_BYTES, MAPPED = 4, bytes(10) + b"\xff\xff"  # ::ffff:127.0.0.1 is 127.0.0.1
WILDCARDS = ("", "0.0.0.0", "::")

Headers = Iterable[tuple[bytes, bytes]]


class Access:
    """Who may ask a server: its key, the hosts it answers to, and how fast one address may guess the key."""

    def __init__(self, settings: ServeSettings) -> None:
        self._key = None if settings.api_key is None else settings.api_key.encode()
        self._named = {host_name(one) for one in settings.allow_hosts}
        # With a key a page from elsewhere gets nothing, by whatever name it calls.
        self._any_host = "*" in self._named or (self._key is not None and not self._named)
        self._bound = settings.host
        self._hosts: set[bytes] = set()  # allowed Hosts, as clients write them
        self._most_wrong = settings.wrong_keys
        self._left: dict[bytes, tuple[float, float]] = {}  # by address: tries left, and when that was so

    def check_site(self, scope: Scope) -> None:
        """Refuse a Host that is not this server's, and a page of another site."""
        host, origin = b"", None
        for name, value in scope["headers"]:
            if name == b"host":
                host = value
                if not self._any_host and host not in self._hosts:
                    self._check_host(host, scope)
            elif name == b"origin":
                origin = value
        if not host and not self._any_host:
            self._check_host(host, scope)
        if origin is not None:
            authority = origin.partition(b"://")[2]
            if authority.lower() != host.lower() and host_name(authority.decode("latin-1")) not in self._named:
                raise HttpError(
                    403,
                    "foreign_origin",
                    f"a page of {_shown(origin)} may not use this server; only its own pages may "
                    "(`--allow-host NAME` names a host that is this server's too)",
                )

    def check_key(self, scope: Scope) -> None:
        """Refuse a request without the key. An address that has sent many wrong ones is refused unread for a while.

        The comparison takes the same time for any wrong key. A right key is refused too while its address is: a
        client that guesses would otherwise know a wrong key by the delay, and need not wait for it.
        """
        if self._key is None:
            return
        sent = next((value for name, value in scope["headers"] if name == b"authorization"), None)
        if sent is None:
            raise _unauthorized()  # no guess, so it is not counted
        client = scope.get("client")
        address = address_key(client[0] if client else None) if self._left else None
        if address is not None and self._tries_left(address) < 1:
            raise _too_many_wrong()
        scheme, _, given = sent.partition(b" ")
        if not (scheme.lower() == b"bearer" and hmac.compare_digest(given.strip(), self._key)):
            self._count_wrong(address or address_key(client[0] if client else None))
            raise _unauthorized()

    def _check_host(self, host: bytes, scope: Scope) -> None:
        name = host_name(host.decode("latin-1"))
        bound = self._bound
        if bound in WILDCARDS:  # the address where this connection arrived
            bound = (scope.get("server") or ("",))[0]
        if not host or not (is_loopback(name) or name in self._named or name == bound.lower()):
            raise HttpError(
                421,
                "unknown_host",
                f"this server does not answer to {_shown(host)}; start it with `--allow-host NAME` for each name that "
                "is its own, or with a key",
            )
        if len(self._hosts) < MOST_HOSTS:
            self._hosts.add(host)

    def _tries_left(self, address: bytes) -> float:
        left, then = self._left.get(address, (self._most_wrong, 0.0))
        left += monotonic() - then  # one more a second
        if left >= self._most_wrong:
            self._left.pop(address, None)
            return self._most_wrong
        return left

    def _count_wrong(self, address: bytes) -> None:
        if not self._most_wrong:
            return
        left = self._tries_left(address) - 1
        self._left.pop(address, None)
        if len(self._left) >= MOST_ADDRESSES:
            del self._left[next(iter(self._left))]
        self._left[address] = (left, monotonic())


def address_key(host: str | None) -> bytes:
    """What counts as one address: an IPv4 address, or the first half of an IPv6 one, which one customer has whole.

    >>> address_key("127.0.0.1") == address_key("::ffff:127.0.0.1")
    True
    >>> address_key("2001:db8::1") == address_key("2001:db8::ffff")
    True
    """
    try:
        packed = socket.inet_pton(socket.AF_INET6 if ":" in (host or "") else socket.AF_INET, host or "")
    except OSError:
        return (host or "").encode()
    if len(packed) == IPV4_BYTES:
        return packed
    return packed[12:] if packed.startswith(MAPPED) else packed[:8]


def host_name(authority: str) -> str:
    """The name or address in a Host, without its port.

    >>> host_name("LocalHost:8000"), host_name("[::1]:8000"), host_name("::1"), host_name("kg.example.org.")
    ('localhost', '::1', '::1', 'kg.example.org')
    """
    if authority.startswith("["):
        authority = authority[1:].partition("]")[0]
    elif authority.count(":") == 1:
        authority = authority.partition(":")[0]
    return authority.lower().removesuffix(".")


def is_json(headers: Headers) -> bool:
    """Whether the body is said to be JSON. A page of another site can send other bodies without being asked first.

    >>> is_json([(b"content-type", b"application/json; charset=utf-8")]), is_json([(b"content-type", b"text/plain")])
    (True, False)
    """
    for name, value in headers:
        if name == b"content-type":
            return value == JSON or value.partition(b";")[0].strip().lower() == JSON
    return False


def _shown(text: bytes) -> str:
    return ascii(text[:80].decode("latin-1"))[1:-1] or "none"


def _unauthorized() -> HttpError:
    message = "this server wants a key: send `Authorization: Bearer KEY`"
    return HttpError(401, "unauthorized", message, ((b"www-authenticate", b"Bearer"),))


def _too_many_wrong() -> HttpError:
    message = "too many wrong keys came from this address; try again in a second"
    return HttpError(429, "too_many_wrong_keys", message, ((b"retry-after", b"1"),))
