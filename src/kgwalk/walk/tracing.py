"""Traces: a question as an OpenTelemetry span, and each of its turns as a child, sent to a collector by OTLP over HTTP.

    ask                       kgwalk.outcome answered, kgwalk.turns 2, gen_ai.usage.output_tokens 21, ...
      turn                    kgwalk.call head_entities, kgwalk.model_milliseconds 310.2, kgwalk.set_size 6, ...
      turn                    kgwalk.call answer

Nothing is traced until `start_tracing`, which the commands call with `--trace`, or where OTEL_EXPORTER_OTLP_ENDPOINT is
set; until then a question costs no more than a look at a variable. Names, sizes and errors are told; the question's
text, calls with the names in them and answers only where that is asked for (KGWALK_LOG_QUESTIONS).
Where a program has set up OpenTelemetry itself, its provider takes the spans. The package is the extra `otel`.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kgwalk import __version__
from kgwalk.types import Answer, Call, Episode, KgwalkError, Malformed, StopReason, Turn

if TYPE_CHECKING:
    from kgwalk.llm.engine import Engine
    from kgwalk.walk.agent import AskResult
    from kgwalk.walk.rollout import Watch

log = logging.getLogger(__name__)

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
QUESTIONS_VARIABLE = "KGWALK_LOG_QUESTIONS"
INSTALL = "pip install 'kgwalk[otel]'"
FLUSH = 5_000  # milliseconds that the end waits for a collector
LONGEST_NAME = 60
FAILED = (StopReason.engine_failed, StopReason.tool_failed, StopReason.prompt)


@dataclass(slots=True)
class _Setup:
    """What is set up in this process: OpenTelemetry's tracer, and whether texts are told."""

    tracer: Any = None
    texts: bool = False


_setup = _Setup()


def on() -> bool:
    return _setup.tracer is not None


def texts_asked_for() -> bool:
    return os.environ.get(QUESTIONS_VARIABLE, "").strip().lower() in ("1", "true", "yes")


def start_tracing(asked: bool | None = None, *, texts: bool | None = None) -> Callable[[], None]:
    """Trace questions of this process from now on; gives what ends it and sends the rest.

    `asked` None: if a collector is named by the environment. A package that is missing is then a warning, since the
    variable may be meant for other programs; where tracing is asked for it is an error.
    """
    named = any(os.environ.get(name, "").strip() for name in ENDPOINTS)
    off = os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or os.environ.get("OTEL_TRACES_EXPORTER") == "none"
    if asked is False or (asked is None and (not named or off)) or on():
        return lambda: None
    try:
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ModuleNotFoundError as error:
        if asked:
            raise KgwalkError(f"traces need {error.name}, which is not installed; {INSTALL}") from error
        log.warning("no traces are sent: they need %s, which is not installed; %s", error.name, INSTALL)
        return lambda: None
    given = trace.get_tracer_provider()
    own = None
    if not isinstance(given, TracerProvider):  # nobody has set one up
        about = {"service.version": __version__}
        if not os.environ.get("OTEL_SERVICE_NAME"):
            about["service.name"] = "kgwalk"
        given = own = TracerProvider(resource=Resource.create(about))
        own.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    _setup.tracer = given.get_tracer("kgwalk", __version__)
    _setup.texts = texts_asked_for() if texts is None else texts

    def end() -> None:
        _setup.tracer = None
        if own is not None:
            own.force_flush(FLUSH)
            own.shutdown()

    return end


def trace_id() -> str:
    """Of the span that is current here, for lines of a log; "" without one."""
    if not on():
        return ""
    from opentelemetry import trace

    found = trace.get_current_span().get_span_context()
    return format(found.trace_id, "032x") if found.is_valid else ""


def tell(about: Mapping[str, str | int]) -> None:
    """Attributes of the span that is current here, if there is one."""
    if on():
        from opentelemetry import trace

        trace.get_current_span().set_attributes(about)


@contextmanager
def request_span(method: str, path: str, headers: Mapping[bytes, bytes], request: str) -> Iterator[None]:
    """Around a request of a server; a caller that traces is its parent (W3C's `traceparent`)."""
    from opentelemetry import propagate, trace

    told = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers.items()}
    about = {"http.request.method": method, "http.route": path, "kgwalk.request_id": request}
    context = propagate.extract(told)
    kind = trace.SpanKind.SERVER
    with _setup.tracer.start_as_current_span(f"{method} {path}", context=context, kind=kind, attributes=about):
        yield


# A question


class AskTrace:
    """The trace of one question; this one, for a process that traces nothing, tells nothing."""

    def following(self, watch: Watch) -> Watch:
        """A `watch` that tells of turns as well."""
        return watch

    def ends(self, asked: AskResult) -> None:
        """The walk is over."""


_UNTRACED = AskTrace()


@contextmanager
def traced_ask(question: str, protocol: str, engine: Engine) -> Iterator[AskTrace]:
    """Around a question. What is raised is told by its kind, since its words may quote the question."""
    if _setup.tracer is None:
        yield _UNTRACED
        return
    from opentelemetry.trace import Status, StatusCode

    from kgwalk.walk.rollout import ids_a_token

    about = {"gen_ai.operation.name": "invoke_agent", "kgwalk.protocol": protocol}
    if isinstance(model := getattr(engine, "model", None), str):
        about["gen_ai.request.model"] = model
    about |= {"kgwalk.question": question} if _setup.texts else {}
    with _setup.tracer.start_as_current_span(
        "ask", attributes=about, record_exception=False, set_status_on_exception=False
    ) as span:
        try:
            yield _Traced(span, ids_a_token(engine))
        except BaseException as error:
            span.set_attribute("error.type", type(error).__name__)
            span.set_status(Status(StatusCode.ERROR))
            raise


@dataclass
class _Traced(AskTrace):
    span: Any
    ids_a_token: int
    began: int = field(default_factory=time.time_ns)
    last: dict[int, int] = field(default_factory=dict)  # when each episode's last turn ended, in nanoseconds

    def following(self, watch: Watch) -> Watch:
        from opentelemetry import trace

        parent = trace.set_span_in_context(self.span)
        runs: dict[int, int] = {}

        def told(episode: Episode, turn: Turn | None) -> None:
            if turn is not None:
                self._turn(parent, runs.setdefault(id(episode), len(runs) + 1), episode, turn)
            watch(episode, turn)

        return told

    def _turn(self, parent: Any, run: int, episode: Episode, turn: Turn) -> None:
        """A turn is told when it has ended: it began when the one before it ended. Of a walk that began after others
        the first turn began as long ago as its model took.
        """
        from opentelemetry.trace import Status, StatusCode

        now = time.time_ns()
        first = self.began if run == 1 else now - int(turn.seconds * 1e9)
        generated = len(turn.ids) // self.ids_a_token if turn.counted is None else turn.counted[1]
        about: dict[str, Any] = {
            "kgwalk.run": run,
            "kgwalk.turn": len(episode.turns),
            "kgwalk.call": called(turn),
            "kgwalk.model_milliseconds": round(1000 * turn.seconds, 3),
            "kgwalk.observation_tokens": len(turn.observation_ids) // self.ids_a_token,
            "gen_ai.usage.output_tokens": generated,
        }
        if turn.made is not None:
            about["kgwalk.set_size"] = turn.made[1]
        if not turn.ok:
            about["error.type"] = turn.error or "malformed"
        if _setup.texts:
            about |= {"kgwalk.text": turn.text, "kgwalk.observation": turn.observation}
        span = _setup.tracer.start_span("turn", parent, attributes=about, start_time=self.last.get(run, first))
        if not turn.ok:
            span.set_status(Status(StatusCode.ERROR))
        span.end(end_time=now)
        self.last[run] = now

    def ends(self, asked: AskResult) -> None:
        from opentelemetry.trace import Status, StatusCode

        about: dict[str, Any] = {
            "kgwalk.outcome": "answered" if asked.answers else "nothing",
            "kgwalk.stop": str(asked.stop),
            "kgwalk.topics": len(asked.topics),
            "kgwalk.answers": len(asked.answers),
            "kgwalk.turns": asked.turns,
            "kgwalk.walks": asked.walks,
            "gen_ai.usage.input_tokens": asked.tokens["prompt"],
            "gen_ai.usage.output_tokens": asked.tokens["generated"],
        }
        if asked.confidence is not None:
            about |= {"kgwalk.confidence": asked.confidence, "kgwalk.calibrated": asked.calibrated}
        if _setup.texts:
            about["kgwalk.answered"] = asked.answers
        self.span.set_attributes(about)
        if asked.stop in FAILED:
            self.span.set_attribute("error.type", str(asked.stop))
            why = asked.failure if _setup.texts else None  # it may quote the question
            self.span.set_status(Status(StatusCode.ERROR, why))


def called(turn: Turn) -> str:
    """What a turn did, in one word: the tool that it called, `answer`, or `malformed`.

    >>> called(Turn([], [], "", Call("count", (2,)))), called(Turn([], [], "", Answer((2,))))
    ('count', 'answer')
    """
    match turn.step:
        case Call(tool, _):
            return tool[:LONGEST_NAME]  # a model may write any
        case Answer(_):
            return "answer"
        case Malformed():
            return "malformed"
