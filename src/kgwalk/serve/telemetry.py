"""What a server tells those who run it: lines in its log, an id for each request, a span for each question's request.

A line is text for people or, with `--log-format json`, an object for programs:

    {"time": "2026-11-18T19:46:04.120Z", "level": "info", "logger": "kgwalk.access", "message": "POST /v1/ask 200",
     "request_id": "9f2fb3b0c41d7e05", "method": "POST", "path": "/v1/ask", "status": 200, "milliseconds": 651.3, ...}

With `--access-log` there is a line for each request and one for what became of each question. What was asked, and what
was answered, stands in them only with `--log-questions`: a log is read by others than who asked. Of an address only the
path is written, since what follows its "?" may hold names and beginnings of questions.

The id is the client's own `X-Request-ID`, if it is short and plain, else one made here; the reply has it too.
"""

from __future__ import annotations

import json
import logging
import re
import secrets
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import orjson

from kgwalk.config.runtime import VisibleFormatter, visible, visible_lines
from kgwalk.serve.agent import AskRecord
from kgwalk.serve.asgi import Scope
from kgwalk.serve.settings import ServeSettings
from kgwalk.walk import tracing

log = logging.getLogger("kgwalk.serve")
access = logging.getLogger("kgwalk.access")

REQUEST_ID = b"x-request-id"
TRACED = ("/v1/ask", "/v1/chat/completions", "/mcp")  # where questions are asked
LONGEST_PATH = 200  # characters of a path that is not served

_request: ContextVar[str] = ContextVar("kgwalk-request", default="")


def start_logging(settings: ServeSettings) -> None:
    """Write this process's log as the settings say; a second call changes nothing."""
    access.setLevel(logging.INFO if settings.access_log else logging.WARNING)
    if settings.log_format == "json":
        log.setLevel(logging.INFO)  # also what is said at the start and the end
        logging.captureWarnings(True)
        _write(logging.getLogger(), JsonFormatter())
    elif settings.access_log:
        _write(access, VisibleFormatter("%(asctime)s %(message)s"))


def _write(logger: logging.Logger, formatter: logging.Formatter) -> None:
    if not any(type(one.formatter) is type(formatter) for one in logger.handlers):
        handler = logging.StreamHandler()
        handler.setFormatter(formatter)
        logger.addHandler(handler)


def say(words: str) -> None:
    """Tell whoever started the server: a line of text, or of the log where that is for programs."""
    if log.isEnabledFor(logging.INFO):
        log.info("%s", words)
    else:
        print(words, file=sys.stderr, flush=True)


class JsonFormatter(logging.Formatter):
    """One object on one line; a record's `fields` are fields of it."""

    def format(self, record: logging.LogRecord) -> str:
        told: dict[str, Any] = {
            "time": f"{datetime.fromtimestamp(record.created, UTC).isoformat(timespec='milliseconds')[:-6]}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": visible_lines(record.getMessage()),
        }
        if request := _request.get():
            told["request_id"] = request
        if trace := tracing.trace_id():
            told["trace_id"] = trace
        told |= getattr(record, "fields", {})
        if record.exc_info:
            told["exception"] = visible_lines("".join(traceback.format_exception(*record.exc_info)).rstrip())
        try:
            return orjson.dumps(told).decode()
        except orjson.JSONEncodeError:  # half a character in a question
            return json.dumps(told)


# A request


@contextmanager
def request(scope: Scope) -> Iterator[bytes]:
    """Around a request: its id is in the log's lines, its span is the parent of the question's. Gives the id."""
    headers = dict(scope["headers"]) if tracing.on() and scope["path"] in TRACED else None
    own = next((value for name, value in scope["headers"] if name == REQUEST_ID), b"").decode("latin-1")
    name = own if re.fullmatch(r"[\w.:-]{1,64}", own, re.ASCII) else secrets.token_hex(8)
    token = _request.set(name)
    try:
        if headers is None:
            yield name.encode()
        else:
            with tracing.request_span(scope["method"], scope["path"], headers, name):
                yield name.encode()
    finally:
        _request.reset(token)


def log_request(scope: Scope, label: str, status: int, seconds: float) -> None:
    """The line of a request; `label` is its path where that is one that is served. Its span has the status too."""
    tracing.tell({"http.response.status_code": status})
    if not access.isEnabledFor(logging.INFO):
        return
    method, path = scope["method"], quote(scope["path"][:LONGEST_PATH]) if label == "other" else label
    client = (scope.get("client") or ("", 0))[0]
    fields = {"method": method, "path": path, "status": status, "milliseconds": round(1000 * seconds, 3)}
    if _is_json():
        told = f"{method} {path} {status}"
    else:
        version = scope.get("http_version", "1.1")
        told = f'{client} - "{method} {path} HTTP/{version}" {status} {1000 * seconds:.1f} ms {_request.get()}'
    access.info("%s", told, extra={"fields": {**fields, "client": client}})


def log_ask(record: AskRecord, *, with_question: bool) -> None:
    """The line of a question: what became of it and what it cost. The request's span is told what became of it."""
    tracing.tell({"kgwalk.outcome": record.outcome})
    if not access.isEnabledFor(logging.INFO):
        return
    wanted, asked = record.wanted, record.asked
    fields: dict[str, Any] = {"outcome": record.outcome, "graph": wanted.graph, "recipe": wanted.recipe}
    fields["milliseconds"] = round(1000 * record.seconds, 3)
    words = [f"question: {record.outcome}", f"{record.seconds:.2f} s"]
    if asked is not None:
        fields |= {"stop": str(asked.stop), "turns": asked.turns, "walks": asked.walks, "tokens": asked.tokens}
        fields |= {"answers": len(asked.answers), "confidence": asked.confidence, "calibrated": asked.calibrated}
        words += [f"{asked.turns} turns", f"{asked.tokens['total']} tokens"]
        words += [] if asked.confidence is None else [f"confidence {asked.confidence:.3f}"]
    if with_question:
        fields |= {"question": wanted.question, "answered": [] if asked is None else asked.answers}
        words += [visible(wanted.question), *([] if asked is None else [visible("; ".join(asked.answers))])]
    told = f"question: {record.outcome}" if _is_json() else f"{', '.join(words)} {_request.get()}"
    access.info("%s", told, extra={"fields": fields})


def _is_json() -> bool:
    return any(isinstance(one.formatter, JsonFormatter) for one in logging.getLogger().handlers)
