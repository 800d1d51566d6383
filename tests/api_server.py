"""A stand-in for an OpenAI-compatible server, on loopback: answers as it is told, and keeps what it was asked."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from kgwalk.llm.api import ApiEngine

KEY = "sk-verysecret123"


class Said(NamedTuple):
    """One reply of the server."""

    status: int
    body: bytes
    headers: dict[str, str]


def said(body: object, status: int = 200, **headers: str) -> Said:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Said(status, content, {name.replace("_", "-"): value for name, value in headers.items()})


def completion(text: str | None, finish: str = "stop", **more: Any) -> Said:
    """As recorded from OpenAI, shortened."""
    return said(
        {
            "id": "chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT",
            "object": "chat.completion",
            "created": 1741569952,
            "model": "gpt-4o-mini-2024-07-18",
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": text, "refusal": None, "annotations": []},
                    "logprobs": None,
                    "finish_reason": finish,
                    **more,
                }
            ],
            "usage": {"prompt_tokens": 19, "completion_tokens": 10, "total_tokens": 29},
        }
    )


def failure(status: int, message: str, **more: Any) -> Said:
    headers = more.pop("headers", {})
    return said({"error": {"message": message, "type": "x", "param": None, "code": None, **more}}, status, **headers)


class Api:
    """What was asked, and what is answered: a list of replies in turn (the last one again), or a function."""

    def __init__(self, answer: list[Said] | Callable[[str, Any], Said]) -> None:
        self._answer = answer
        self.asked: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.keys: list[str | None] = []
        self.times: list[float] = []
        self.under_way = self.most = 0
        self.lock = threading.Lock()

    def reply(self, path: str, body: Any, key: str | None) -> Said:
        with self.lock:
            self.asked.append(body)
            self.paths.append(path)
            self.keys.append(key)
            self.times.append(time.monotonic())
            self.under_way += 1
            self.most = max(self.most, self.under_way)
            number = len(self.asked) - 1
        try:
            if callable(self._answer):
                return self._answer(path, body)
            return self._answer[min(number, len(self._answer) - 1)]
        finally:
            with self.lock:
                self.under_way -= 1


@contextmanager
def serving(answer: list[Said] | Callable[[str, Any], Said]) -> Iterator[tuple[Api, str]]:
    api = Api(answer)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"null")
            reply = api.reply(self.path, body, self.headers.get("Authorization"))
            try:
                self.send_response(reply.status)
                for name, value in {**reply.headers, "Content-Length": str(len(reply.body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(reply.body)
            except OSError:  # the client did not wait
                self.close_connection = True

        do_GET = do_POST

        def log_message(self, format: str, *args: object) -> None:
            pass

    with listening(Handler) as url:
        yield api, url


@contextmanager
def listening(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """The address of a server on loopback whose requests the handler answers."""

    class Server(ThreadingHTTPServer):
        request_queue_size = 128

    server = Server(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def engine_at(url: str, **settings: Any) -> Iterator[ApiEngine]:
    engine = ApiEngine("gpt-4o-mini", base_url=url, **{"api_key": KEY, **settings})
    try:
        yield engine
    finally:
        asyncio.run(engine.close())
