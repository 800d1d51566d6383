"""Start and stop a server: bind the address, run uvicorn in one or several processes, clean up.

`run_server` is what `kgwalk serve` calls; it returns when the server was told to stop (SIGTERM, SIGINT).
`python -m kgwalk.serve.run SETTINGS_JSON` does the same without the command line. `in_background` serves from a
thread, for tests and benchmarks.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import math
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from types import FrameType
from typing import TYPE_CHECKING, Any

import uvicorn

from kgwalk.config.terminal import VisibleFormatter, log_visibly, visible_message
from kgwalk.kg.graph import Graph
from kgwalk.serve.app import App, close_graphs, create_app, open_graphs
from kgwalk.serve.engine import check_engine
from kgwalk.serve.metrics import FOLDER_VARIABLE
from kgwalk.serve.protocol import Connections
from kgwalk.serve.settings import ENVIRONMENT, ServeSettings, check_bind, read_key
from kgwalk.types import KgwalkError

if TYPE_CHECKING:
    from kgwalk.llm.engine import Engine

log = logging.getLogger("kgwalk.serve")

BACKLOG = 2048
# Longer than clients keep an idle connection (httpx: 5 s), so that the client closes it, and not the server in the
# moment of the client's next request.
KEEP_ALIVE = 30
AT_ONCE = 2.0  # seconds for closing the engine and the graphs after a second Ctrl-C
STARTUP_FAILURE = 3  # uvicorn's exit status of a worker that could not start


def run_server(
    settings: ServeSettings,
    *,
    graphs: Mapping[str, Graph] | None = None,
    engine: Engine | None = None,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT; requests under way are answered first. `ready` is told the URL."""
    check_bind(settings)
    if settings.workers > 1 and graphs is not None:
        raise KgwalkError("graphs that are open here cannot be given to worker processes; give their paths")
    if settings.workers > 1 and engine is not None:
        raise KgwalkError("an engine that is open here cannot be given to worker processes; name its model")
    busy = False
    with (
        _early_signals(),
        bind(settings.host, settings.port) as listener,
        _metrics_folder(settings.workers),
    ):
        if settings.workers > 1:
            _run_workers(settings, listener, ready or announce)
        else:
            _log_accesses(settings)
            app = create_app(settings, graphs, engine)
            server = _Server(_config(app, settings), ready or announce, app)
            server.run([listener])
            if server.force_exit:
                _close_soon(app)
            busy = app.agent.busy_opening or server.force_exit
    if busy:
        # All is answered and closed, but a thread may be inside a library's import, a download or a computation.
        # Nothing stops it, a server that was told to stop should not wait for it, and Python's own exit while it runs
        # can crash.
        sys.stderr.flush()
        os._exit(0)


def announce(url: str) -> None:
    _say(f"kgwalk serves at {url} (docs: {url}/docs); Ctrl-C stops it")


@contextlib.contextmanager
def in_background(app: App) -> Iterator[str]:
    """The URL of the app, served from a thread of this process on a free port until the block ends."""
    listener = bind("127.0.0.1", 0)
    started = threading.Event()
    server = _Server(_config(app, app.settings), lambda url: started.set())

    def serve() -> None:
        try:
            server.run([listener])
        finally:
            started.set()

    thread = threading.Thread(target=serve, name="kgwalk-serve")
    thread.start()
    try:
        started.wait()
        if not server.started:
            raise KgwalkError("the server did not start; the log has the reason")
        yield url_of(listener)
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


def bind(host: str, port: int) -> socket.socket:
    """A listening socket: connections wait in its queue from now on, even while the graphs are opened."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise KgwalkError(
            f"cannot listen on {host or '0.0.0.0'}:{port}: {error.strerror or error}\n"
            "  Stop what listens there, or choose another port; 0 takes any free one."
        ) from error


def url_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def worker_app() -> App:
    """The application of a worker process, from the settings in its environment."""
    settings = ServeSettings.from_json(os.environ[ENVIRONMENT])
    log_visibly()
    _log_accesses(settings)
    try:
        return create_app(settings)
    except KgwalkError as error:
        log.error("a worker process cannot start: %s", error)
        # With another status the parent would start it again, and again.
        sys.exit(STARTUP_FAILURE)


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print("usage: python -m kgwalk.serve.run SETTINGS_JSON (the key: KGWALK_API_KEY)", file=sys.stderr)
        return 2
    log_visibly()
    try:
        settings = ServeSettings.from_json(arguments[0])
        if settings.api_key is None:
            settings = dataclasses.replace(settings, api_key=read_key())
        run_server(settings)
    except KgwalkError as error:
        _say(f"kgwalk: {visible_message(str(error))}")
        return 1
    return 0


class _Server(uvicorn.Server):
    """uvicorn's server, which says when it is ready and exits normally after the signal that stopped it.

    With an `app`, it says on stderr for how many questions its end waits, or how many it cuts off.
    """

    def __init__(self, config: uvicorn.Config, ready: Callable[[str], None], app: App | None = None) -> None:
        super().__init__(config)
        self._ready, self._app = ready, app

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started and sockets:
            self._ready(url_of(sockets[0]))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # Said here and not in the signal's handler, which may interrupt another print.
        if (left := self._questions()) and not self.force_exit:
            _say(f"stopping, {_counted(left)} under way; Ctrl-C again stops at once")
        await super().shutdown(sockets)
        if self.force_exit:
            left = self._questions()
            _say(f"stopped at once; {_counted(left)} not answered" if left else "stopped at once")

    def _questions(self) -> int:
        return 0 if self._app is None else self._app.agent.under_way + self._app.agent.waiting

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        # uvicorn would raise the signal again afterwards: the exit status of a killed process.
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        with _handlers(self.handle_exit):
            yield


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


def _counted(questions: int) -> str:
    return "1 question" if questions == 1 else f"{questions:,} questions"


def _close_soon(app: App) -> None:
    """Close what is left of a server that was stopped at once; wait no longer than AT_ONCE."""
    closing = threading.Thread(target=app.close, name="kgwalk-close", daemon=True)
    closing.start()
    closing.join(AT_ONCE)


def _run_workers(settings: ServeSettings, listener: socket.socket, ready: Callable[[str], None]) -> None:
    from uvicorn.supervisors import Multiprocess

    # A store or an engine that cannot be opened fails here once, and not in each worker.
    check_engine(settings)
    graphs = open_graphs(settings.graphs, data=settings.data is not None)
    close_graphs(graphs.values())
    with _environment(ENVIRONMENT, settings.to_json()):
        supervisor = Multiprocess(_config("kgwalk.serve.run:worker_app", settings), [listener])
        # The socket listens: a request from now on waits until the first worker is up.
        ready(url_of(listener))
        try:
            supervisor.run()
        except BaseException:
            # A worker that died could not be replaced. The others must not stay behind without a parent.
            supervisor.terminate_all()
            supervisor.join_all()
            raise
    if any(process.process.exitcode == STARTUP_FAILURE for process in supervisor.processes):
        raise KgwalkError("a worker process could not start; the log has the reason")


def _config(app: App | str, settings: ServeSettings) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        factory=isinstance(app, str),
        workers=settings.workers,
        backlog=BACKLOG,
        http=Connections(settings),  # type: ignore[arg-type]  # called as a class would be
        h11_max_incomplete_event_size=settings.max_header_bytes,
        ws="none",
        headers=[("x-content-type-options", "nosniff")],
        lifespan="on",
        interface="asgi3",
        log_config=None,
        access_log=settings.access_log,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=math.ceil(_longest(settings)) + 5,
    )


def _longest(settings: ServeSettings) -> float:
    """Seconds that a request may take."""
    return settings.time_limit if settings.model is None else max(settings.time_limit, settings.agent_time_limit)


@contextlib.contextmanager
def _early_signals() -> Iterator[None]:
    """Ends the process in order also on a signal before the server handles signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise _Stopped

    with contextlib.suppress(_Stopped), _handlers(stop):
        yield


class _Stopped(Exception):
    pass


@contextlib.contextmanager
def _handlers(handler: Callable[[int, FrameType | None], Any]) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


@contextlib.contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    """The variable set while the block runs."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        os.environ.pop(name, None)
        if before is not None:
            os.environ[name] = before


@contextlib.contextmanager
def _metrics_folder(workers: int) -> Iterator[None]:
    """A private folder for the counts of several processes, removed afterwards.

    Also made where the variable is set already: prometheus_client then writes files in any case, and files that
    others left in that folder must not be counted.
    """
    if workers == 1 and FOLDER_VARIABLE not in os.environ:
        yield
        return
    folder = tempfile.mkdtemp(prefix="kgwalk-metrics-")
    try:
        with _environment(FOLDER_VARIABLE, folder):
            yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _log_accesses(settings: ServeSettings) -> None:
    if not settings.access_log:
        return
    logger = logging.getLogger("uvicorn.access")
    if not logger.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(VisibleFormatter("%(asctime)s %(message)s"))
        logger.addHandler(handler)
    logger.setLevel(logging.INFO)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
