"""The kgwalk servers behind one `HttpGraph`: calls under way together share a request, and a dead server is survived.

    servers = GraphServers(["http://a:8000", "http://b:8000"], graph="films")
    servers.ask({b"1": {"op": "relations", "entity": "Big"}})

Three things happen to a call on its way. It waits for a moment while `at_once` requests are under way already: so a
call alone goes at once, and the more calls there are, the more travel in one request. A request goes to the server with
the fewest requests under way. Where a server fails, the request goes to another at once, which is safe because all that
a graph is asked only reads; the one that failed is left alone for a while, then tried again. All servers must serve the
same graph, and each is asked for its digest before its first use.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import httpx
import orjson

from kgwalk.config import http
from kgwalk.types import KgwalkError, RemoteError

Query = Mapping[str, object]
QueryResult = dict[str, Any]  # {"ok": True, "value": ...} or {"ok": False, "error": ...}
ByKey = Mapping[bytes, Query]  # a key is the query as JSON: equal queries have one

BATCH = 1000  # queries in one request; halved where a server takes fewer
AT_ONCE = 2  # requests under way, or one at each server if those are more: more are slower for a client in Python
PATIENCE = 0.1  # seconds that a call waits for the requests under way
FIRST_PAUSE = 0.1  # seconds before the first retry, when no server answers
FIRST_REST = 1.0  # seconds that a server is left alone after it failed; doubled each time that it fails again
LONGEST_REST = 30.0
# Seconds after which an idle connection is closed. A kgwalk server closes it after 30, perhaps as a request is sent.
IDLE = 20.0
CONNECTIONS = 128

# Not 500: a kgwalk server gives its reason for that one, which goes to the caller.
_OVERLOADED = (429, 502, 503, 504)


class GraphServers:
    """Servers that serve the same graph, asked as one. Many threads may share it."""

    def __init__(
        self,
        urls: Sequence[str],
        *,
        graph: str | None = None,
        api_key: str | None = None,
        timeout: float = 10,
        retries: int = 2,
        at_once: int = AT_ONCE,
    ) -> None:
        self.all = [_Server(url, api_key, timeout) for url in dict.fromkeys(urls)]
        if not self.all:
            raise KgwalkError("no address of a server; expected http://HOST:PORT, or several with commas between them")
        self.shown = ", ".join(server.shown for server in self.all)
        self._graph, self._retry = graph, http.Retry(retries, FIRST_PAUSE)
        self._lock = threading.Lock()
        self._info: tuple[_Server, dict[str, Any]] | None = None  # of the graph, by the first server that was asked
        self._shared = _SharedRequests(self._ask_in_parts, max(at_once, len(self.all)))

    def close(self) -> None:
        for server in self.all:
            server.client.close()

    def ask(self, queries: ByKey) -> dict[bytes, QueryResult]:
        """One result a query; RemoteError where no server gives one."""
        return self._shared.ask(queries)

    def info(self) -> dict[str, Any]:
        """The counts that a server gives for the graph."""
        server, reply = self._request("GET", "/kg/graphs")
        return _info_of(server, reply, self._graph)

    def _ask_in_parts(self, queries: ByKey) -> dict[bytes, QueryResult]:
        left, results = list(queries.items()), dict[bytes, QueryResult]()
        size = BATCH
        while left:
            some = left[:size]
            try:
                server, reply = self._request("POST", "/kg/query", {"queries": [query for _, query in some]})
            except _TooLarge:
                if len(some) == 1:
                    raise
                size = len(some) // 2
                continue
            answers = reply.get("results") if isinstance(reply, dict) else None
            if not isinstance(answers, list) or len(answers) != len(some):
                message = f"{server.shown} did not give one result for each query; is it a kgwalk server?"
                raise RemoteError(message)
            # A server that ran out of time marks the rest as late, and they are asked again. It always answers the
            # first query, so this ends.
            late = next((at for at, one in enumerate(answers) if at and _is_late(one)), len(answers))
            results.update(zip((key for key, _ in some[:late]), answers[:late], strict=True))
            left = left[late:]
        return results

    def request(self, method: str, path: str, content: object = None) -> Any:
        """The JSON that a server answers with to a request that only reads."""
        return self._request(method, path, content)[1]

    def _request(self, method: str, path: str, content: object = None) -> tuple[_Server, Any]:
        """The JSON that a server answers with, and which one; goes round again while none can be reached."""
        body = None if content is None else orjson.dumps(content)
        try:
            server, response = self._retry.call(lambda: self._send_once(method, path, body))
        except http.RequestFailed as failure:
            raise self._unreachable(path, failure) from failure.__cause__
        return server, _read(server, response)

    def _send_once(self, method: str, path: str, body: bytes | None) -> tuple[_Server, httpx.Response]:
        """A reply to the request, of the first server that gives one; RequestFailed once each has failed."""
        failed: dict[_Server, http.RequestFailed] = {}
        while (server := self._next(failed)) is not None:
            try:
                with self._using(server):
                    if len(self.all) > 1 and not server.compared:
                        self._compare(server)
                    return server, server.send(method, path, body)
            except http.RequestFailed as failure:
                failed[server] = failure
        if len(failed) == 1:
            raise next(iter(failed.values()))
        waits = [failure.wait for failure in failed.values() if failure.wait is not None]
        told = "; ".join(f"{server.shown}: {failure}" for server, failure in failed.items())
        raise http.RequestFailed(told, wait=min(waits) if waits else None)

    def _next(self, failed: Mapping[_Server, object]) -> _Server | None:
        """The server for a request that these failed to answer; None where all did. It counts as asked from now on."""
        with self._lock:
            now = time.monotonic()
            left = [server for server in self.all if server not in failed]
            awake = [server for server in left if server.rests_until <= now]
            # One that failed last gets one request, to see whether it is back; the others do not wait for that.
            trusted = [server for server in awake if not (server.failures and server.under_way)]
            if not left:
                return None
            if awake:
                chosen = min(trusted or awake, key=lambda server: (server.under_way, server.requests))
            else:
                chosen = min(left, key=lambda server: server.rests_until)
            chosen.under_way += 1
            chosen.requests += 1
            return chosen

    @contextmanager
    def _using(self, server: _Server) -> Iterator[None]:
        """Counts the request out, and keeps whether the server is alive."""
        try:
            yield
        except http.RequestFailed as failure:
            with self._lock:
                now = time.monotonic()
                if server.rests_until <= now:  # else it failed others in the same moment, which counts once
                    rest = min(FIRST_REST * 2.0**server.failures, LONGEST_REST)
                    server.failures += 1
                    server.rests_until = now + max(rest, min(failure.wait or 0.0, LONGEST_REST))
                server.compared = False  # when it is back, it may serve another graph
            raise
        except RemoteError:  # it serves another graph, or does not say which
            with self._lock:
                server.failures, server.rests_until = server.failures + 1, time.monotonic() + LONGEST_REST
            raise
        else:
            with self._lock:
                server.failures, server.rests_until = 0, 0.0
        finally:
            with self._lock:
                server.under_way -= 1

    def _compare(self, server: _Server) -> None:
        """Refuse a server that serves another graph than the first: answers would change with who gives them."""
        info = self._info_by(server)
        with self._lock:
            first, known = self._info or (server, info)
        if first is not server and known != info:  # it may have been updated since the first server was asked
            try:
                known = self._info_by(first)
            except http.RequestFailed:  # it is compared when it is back
                first = server
        if first is server:
            known = info
        with self._lock:
            self._info = (first, known)
        if other := [name for name in known.keys() & info.keys() if known[name] != info[name]]:
            name = min(other, key=list(known).index)
            raise RemoteError(
                f"{first.shown} and {server.shown} serve different graphs: {name} is {known[name]} and {info[name]}\n"
                "  Give addresses of servers of the same store: copy its folder, or build it from the same files."
            )
        server.compared = True

    def _info_by(self, server: _Server) -> dict[str, Any]:
        return _info_of(server, _read(server, server.send("GET", "/kg/graphs", None)), self._graph)

    def _unreachable(self, path: str, failure: http.RequestFailed) -> RemoteError:
        if len(self.all) == 1:
            return Unreachable(
                f"{self.shown}{path} could not be reached in {failure.tries} tries: {failure}\n"
                "  Check the address, and that `kgwalk serve` runs there."
            )
        return Unreachable(
            f"none of {len(self.all)} servers could be reached in {failure.tries} tries: {failure}\n"
            "  Check the addresses, and that `kgwalk serve` runs at one of them at least."
        )


class Unreachable(RemoteError):
    """No server answered."""


class _TooLarge(RemoteError):
    """A request that the server would accept in smaller parts."""


class _Server:
    """One address: a pool of connections, and what is known of how it does."""

    def __init__(self, url: str, api_key: str | None, timeout: float) -> None:
        parsed = http.parse_address(url.rstrip("/"))
        if parsed is None:
            raise KgwalkError(f"{url!r} is not the address of a server; expected http://HOST:PORT")
        self.url, self.shown = str(parsed), http.shown(parsed)
        self._timeout = timeout
        self.client = httpx.Client(
            headers={} if api_key is None else {"Authorization": f"Bearer {api_key}"},
            timeout=timeout,
            limits=httpx.Limits(
                max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS, keepalive_expiry=IDLE
            ),
            **http.connection_options(parsed),
        )
        self.under_way = self.requests = 0
        self.failures, self.rests_until = 0, 0.0  # in a row, and until when it is left alone for them
        self.compared = False  # whether it serves the same graph as the others

    def send(self, method: str, path: str, body: bytes | None) -> httpx.Response:
        """The server's reply; RequestFailed where it gives none, or says that it has too much to do."""
        headers = None if body is None else {"Content-Type": "application/json"}
        with http.failures(self._timeout):
            response = self.client.request(method, self.url + path, content=body, headers=headers)
        if response.status_code in _OVERLOADED:
            raise http.RequestFailed(f"HTTP {response.status_code}", wait=http.retry_after(response))
        return response


def _read(server: _Server, response: httpx.Response) -> Any:
    where = f"{server.shown}{response.url.path}"
    try:
        value = orjson.loads(response.content)
    except orjson.JSONDecodeError as error:
        message = f"{where} answered HTTP {response.status_code} without JSON; is it a kgwalk server?"
        raise RemoteError(message) from error
    if response.status_code == 200:
        return value
    about = value.get("error") if isinstance(value, dict) else None
    kind, reason = (about.get("kind"), about.get("message")) if isinstance(about, dict) else (None, None)
    text = f"{where} answered HTTP {response.status_code}: {reason or 'no reason given'}"
    if response.status_code == 401:
        raise RemoteError(f"{text}\n  Pass the server's key: api_key=..., or KGWALK_API_KEY.")
    if kind in ("batch_too_large", "body_too_large"):
        raise _TooLarge(text)
    raise RemoteError(text, kind=kind)


def _info_of(server: _Server, reply: Any, graph: str | None) -> dict[str, Any]:
    """What a server's list of graphs says of one; without a name, of the only one."""
    entries = reply["graphs"]
    for entry in entries:
        if entry["name"] == graph or (graph is None and len(entries) == 1):
            return dict(entry["info"])
    names = ", ".join(entry["name"] for entry in entries)
    raise RemoteError(f"{server.shown} serves {names}; choose one with `graph`, not {graph!r}")


def _is_late(result: QueryResult) -> bool:
    return not result["ok"] and bool(result["error"]["kind"] == "time_limit")


# Calls that share a request


class _Call:
    """The queries of one caller, and what came of them."""

    def __init__(self, queries: ByKey) -> None:
        self.queries = queries
        self.results: dict[bytes, QueryResult] = {}
        self.error: RemoteError | None = None
        self.done = self.leads = False
        self.woken = threading.Event()


class _SharedRequests:
    """Calls of many threads in few requests, at most so many `lanes` at the same time.

    A thread that finds a free lane sends its own call at once. Where all lanes are taken it waits, and the thread whose
    request ends first hands its lane to the one that waits longest, which sends its call and those of all others that
    wait in one request. So no thread works for others longer than one request. Where all lanes have slow requests, who
    has waited for `PATIENCE` seconds takes a lane beyond their number.
    """

    def __init__(self, send: Callable[[ByKey], dict[bytes, QueryResult]], lanes: int) -> None:
        self._send, self._free = send, lanes
        self._lock = threading.Lock()
        self._waiting: list[_Call] = []  # empty while a lane is free; `_free` is below 0 while there are more lanes

    def ask(self, queries: ByKey) -> dict[bytes, QueryResult]:
        call = _Call(queries)
        with self._lock:
            if self._free > 0:
                self._free -= 1
                call.leads = True
            else:
                self._waiting.append(call)
        if not call.leads:
            self._wait(call)
        if not call.done:
            self._lead(call)
        if call.error is not None:
            raise call.error
        return call.results

    def _wait(self, call: _Call) -> None:
        try:
            if call.woken.wait(PATIENCE):
                return
            with self._lock:
                if call in self._waiting:
                    self._waiting.remove(call)
                    self._free -= 1
                    call.leads = True
                    return
            call.woken.wait()  # it is in another's request by now
        except BaseException:  # Ctrl-C
            with self._lock:
                if call in self._waiting:
                    self._waiting.remove(call)
                elif call.leads:
                    self._hand_on()
            raise

    def _lead(self, call: _Call) -> None:
        """Send a call and those that wait, then hand on the lane."""
        with self._lock:
            others = self._take(BATCH - len(call.queries))
        try:
            self._send_together([call, *others])
        finally:
            with self._lock:
                self._waiting[:0] = [other for other in others if not other.done]  # of an interrupted thread
                self._hand_on()

    def _take(self, room: int) -> list[_Call]:
        """As many of the calls that wait as have room, those that wait longest first."""
        count = 0
        while count < len(self._waiting) and len(self._waiting[count].queries) <= room:
            room -= len(self._waiting[count].queries)
            count += 1
        taken, self._waiting = self._waiting[:count], self._waiting[count:]
        return taken

    def _hand_on(self) -> None:
        """Give this thread's lane to the call that waits longest; the caller holds the lock."""
        if self._waiting and self._free >= 0:
            call = self._waiting.pop(0)
            call.leads = True
            call.woken.set()
        else:
            self._free += 1

    def _send_together(self, calls: Sequence[_Call]) -> None:
        try:
            results = self._send({key: query for call in calls for key, query in call.queries.items()})
        except RemoteError as error:
            if len(calls) > 1 and not isinstance(error, Unreachable):
                # It may be the fault of one query, and then the other callers must not pay for it.
                for call in calls:
                    self._send_together([call])
                return
            for call in calls:
                call.error = type(error)(str(error), kind=error.kind)  # each thread raises its own
                call.error.__cause__ = error.__cause__
        else:
            for call in calls:
                call.results = {key: results[key] for key in call.queries}
        for call in calls:
            call.done = True
            call.woken.set()
