"""Start and stop a server: bind the address, run uvicorn in one or several processes, clean up.

`run_server` is what `kgwalk serve` calls; it returns when the server was told to stop (SIGTERM, SIGINT).
`python -m kgwalk.serve.run SETTINGS_JSON` does the same without the command line. `in_background` serves from a
thread, for tests and benchmarks.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import math
import mmap
import multiprocessing
import multiprocessing.connection
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from time import monotonic, sleep
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import uvicorn

from kgwalk.config.runtime import log_visibly, visible_message
from kgwalk.kg.graph import Graph
from kgwalk.serve.app import App, create_app
from kgwalk.serve.engine import check_engine
from kgwalk.serve.graphs import ServedGraphs, StoreWatch, UpdateWatch, open_served
from kgwalk.serve.metrics import FOLDER_VARIABLE, count_in_files
from kgwalk.serve.protocol import ConnectionCounts, Connections, WorkerShare
from kgwalk.serve.settings import ServeSettings, check_bind, read_key
from kgwalk.serve.telemetry import say, start_logging
from kgwalk.types import KgwalkError
from kgwalk.walk.tracing import start_tracing

if TYPE_CHECKING:
    from kgwalk.llm.engine import Engine

log = logging.getLogger("kgwalk.serve")
State = npt.NDArray[np.float64]  # of a worker: when it last gave a sign of life, and whether it takes no more requests

BACKLOG = 2048
# Longer than clients keep an idle connection (httpx: 5 s), so that the client closes it, and not the server in the
# moment of the client's next request.
KEEP_ALIVE = 30
AT_ONCE = 2.0  # seconds for closing the engine and the graphs after a second Ctrl-C
STARTUP_FAILURE = 3  # the exit status of a worker that could not start
STOPPING = {signal.SIGINT, signal.SIGTERM}
# Of several workers, in seconds:
LOOK_EVERY = 0.25  # between two looks at them
HUNG_AFTER = 30.0  # without a sign of life from a worker
SHORT_LIFE = 1.0  # a worker that died sooner is replaced with a pause
CHANGE_WITHIN = 5.0  # for all to stop taking requests when they are replaced
WATCH_EVERY = 1.0  # between two looks at the stores' files


def run_server(
    settings: ServeSettings,
    *,
    graphs: Mapping[str, Graph] | None = None,
    engine: Engine | None = None,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT; requests under way are answered first. `ready` is told the URL."""
    start_logging(settings)
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
            _Workers(settings, listener).run(ready or announce)
        else:
            traced = start_tracing(settings.trace, texts=settings.log_questions or None)
            app = create_app(settings, graphs, engine)
            here = app.graphs if graphs is None else None
            server = _Server(_config(app, settings), ready or announce, app, reload=here is not None, follow=here)
            server.run([listener])
            if server.force_exit:
                _close_soon(app)
            else:
                traced()
            busy = app.agent.busy_opening or server.force_exit
    if busy:
        # All is answered and closed, but a thread may be inside a library's import, a download or a computation.
        # Nothing stops it, a server that was told to stop should not wait for it, and Python's own exit while it runs
        # can crash.
        sys.stderr.flush()
        os._exit(0)


def announce(url: str) -> None:
    say(f"kgwalk serves at {url} (docs: {url}/docs); Ctrl-C stops it")


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
        say(f"kgwalk: {visible_message(str(error))}")
        return 1
    return 0


class _Server(uvicorn.Server):
    """uvicorn's server, which says when it is ready and exits normally after the signal that stopped it.

    With an `app`, it says on stderr for how many questions its end waits, or how many it cuts off, and with `reload`
    opens the app's stores again when it is asked to. The updates of the graphs in `follow` are served. `silent` is
    called when it takes no more requests.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        ready: Callable[[str], None],
        app: App | None = None,
        *,
        reload: bool = False,
        follow: ServedGraphs | None = None,
        silent: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(config)
        self._ready, self._app, self._silent = ready, app, silent
        self._reload = _Reload(app.settings, app.graphs) if app is not None and reload else None
        self._followed, self._updates = follow, None if follow is None else UpdateWatch(follow)
        self._opening: asyncio.Task[None] | None = None

    async def on_tick(self, counter: int) -> bool:
        if self._opening is None or self._opening.done():
            if self._reload is not None and self._reload.wanted():
                self._opening = asyncio.create_task(self._change())
            elif self._updates is not None and self._updates.changed():
                self._opening = asyncio.create_task(self._update())
        return await super().on_tick(counter)

    async def _update(self) -> None:
        """Read what was updated in another thread, then change all graphs at once."""
        assert self._followed is not None
        assert self._updates is not None
        self._followed.with_updated(await asyncio.to_thread(self._updates.read))

    async def _change(self) -> None:
        """Open the stores again in another thread, then change all graphs at once."""
        assert self._app is not None
        graphs = await asyncio.to_thread(_opened_again, self._app.settings)
        if graphs is not None:
            self._app.graphs.change(graphs)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started and sockets:
            self._ready(url_of(sockets[0]))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # Said here and not in the signal's handler, which may interrupt another print.
        if (left := self._questions()) and not self.force_exit:
            say(f"stopping, {_counted(left)} under way; Ctrl-C again stops at once")
        if self._silent is not None:
            for server in self.servers:
                server.close()
            await asyncio.sleep(0.1)  # who was let in just now has sent a request, which is answered
            self._silent()
        await super().shutdown(sockets)
        if self.force_exit:
            left = self._questions()
            say(f"stopped at once; {_counted(left)} not answered" if left else "stopped at once")

    def _questions(self) -> int:
        return 0 if self._app is None else self._app.agent.under_way + self._app.agent.waiting

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        # uvicorn would raise the signal again afterwards: the exit status of a killed process.
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        hangup = signal.signal(signal.SIGHUP, self._reload.ask) if self._reload is not None else None
        try:
            with _handlers(self.handle_exit):
                yield
        finally:
            if hangup is not None:
                signal.signal(signal.SIGHUP, hangup)


def _counted(questions: int) -> str:
    return "1 question" if questions == 1 else f"{questions:,} questions"


def _close_soon(app: App) -> None:
    """Close what is left of a server that was stopped at once; wait no longer than AT_ONCE."""
    closing = threading.Thread(target=app.close, name="kgwalk-close", daemon=True)
    closing.start()
    closing.join(AT_ONCE)


class _Reload:
    """When the stores are to be opened again: at SIGHUP and, with --reload, when their files are others."""

    def __init__(self, settings: ServeSettings, graphs: ServedGraphs) -> None:
        self._asked, self._terminal = False, _has_terminal()
        self._watch = StoreWatch(graphs.by_name.values()) if settings.reload else None
        self._looked = monotonic()

    def ask(self, number: int, frame: FrameType | None) -> None:
        """The handler of SIGHUP, which also says that the terminal was closed, and the server with it."""
        if self._terminal and not _has_terminal():
            os.kill(os.getpid(), signal.SIGTERM)
        else:
            self._asked = True

    def wanted(self) -> bool:
        """Asked several times a second."""
        asked, self._asked = self._asked, False
        if self._watch is not None and monotonic() - self._looked >= WATCH_EVERY:
            self._looked = monotonic()
            asked |= self._watch.changed()
        return asked


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True


def _opened_again(settings: ServeSettings) -> ServedGraphs | None:
    """The stores as they are now; None where they cannot be opened, which is said."""
    try:
        graphs = open_served(settings)
    except KgwalkError as error:
        say(f"the graphs were not opened again, those of before are served: {error}")
        return None
    say(f"the graphs were opened again: {', '.join(graphs.by_name)}")
    return graphs


class _Worker:
    """A worker process, and what it tells its parent: that it lives, and that it takes no more requests."""

    def __init__(self, work: Callable[[State, WorkerShare], None], share: WorkerShare) -> None:
        self.number = share.worker
        self.state: State = np.frombuffer(mmap.mmap(-1, 16), np.float64)  # shared with the fork
        self.began = monotonic()
        self.state[0] = self.began
        context = multiprocessing.get_context("fork")
        self.process = context.Process(target=work, args=(self.state, share), name="kgwalk-worker")
        # A signal must meet the worker's handlers, not those of this process in the worker.
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
        try:
            self.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)

    @property
    def silent(self) -> bool:
        """Whether it takes no more requests."""
        return bool(self.state[1]) or self.process.exitcode is not None


class _Workers:
    """Worker processes that are forks of this one: all of them, also those that replace a dead one, answer from the
    graphs that this process opened.

    When the stores are opened again all workers are replaced: first none of them takes requests any more, while those
    under way are answered and new ones wait in the socket's queue, then the new ones start. So no answer from the old
    graphs is to a request that came after one answered from the new.
    """

    def __init__(self, settings: ServeSettings, listener: socket.socket) -> None:
        # A store or an engine that cannot be opened fails here once, and not in each worker.
        check_engine(settings)
        self._settings, self._listener = settings, listener
        self._graphs = open_served(settings)
        self._reload, self._updates = _Reload(settings, self._graphs), UpdateWatch(self._graphs)
        self._workers: list[_Worker] = []
        self._leaving: list[_Worker] = []  # that answer their last requests
        self._counts = ConnectionCounts(settings.workers)
        self._stop = False

    def run(self, ready: Callable[[str], None]) -> None:
        hangup = signal.signal(signal.SIGHUP, self._reload.ask)
        try:
            with _handlers(self._end):
                # The socket listens: a request from now on waits until the first worker is up.
                ready(url_of(self._listener))
                self._start()
                while not self._stop:
                    self._look_after()
                    if self._updates.changed():  # each worker sees it by itself; those that replace one see it here
                        self._graphs.with_updated(self._updates.read())
                    if self._reload.wanted() and (graphs := _opened_again(self._settings)) is not None:
                        self._change(graphs)
        finally:
            self._end_all()
            signal.signal(signal.SIGHUP, hangup)

    def _end(self, number: int, frame: FrameType | None) -> None:
        self._stop = True

    def _start(self) -> None:
        for number in sorted({*range(self._settings.workers)} - {one.number for one in self._workers}):
            self._workers.append(_Worker(self._work, WorkerShare(self._counts, number)))

    def _look_after(self) -> None:
        """Wait a little; replace workers that died, and end those that hang."""
        every = self._workers + self._leaving
        multiprocessing.connection.wait([one.process.sentinel for one in every], LOOK_EVERY)
        self._leaving = [one for one in self._leaving if one.process.exitcode is None]
        for one in self._workers:
            if one.process.exitcode is None and monotonic() - one.state[0] > HUNG_AFTER:
                log.error("worker process %s does not react; it is replaced", one.process.pid)
                one.process.kill()
                one.process.join()
        dead = [one for one in self._workers if one.process.exitcode is not None]
        if self._stop or not dead:
            return
        if any(one.process.exitcode == STARTUP_FAILURE for one in dead):
            raise KgwalkError("a worker process could not start; the log has the reason")
        self._workers = [one for one in self._workers if one.process.exitcode is None]
        for one in dead:
            self._counts.gone(one.number)
        log.warning("worker process %s died; it is replaced", ", ".join(str(one.process.pid) for one in dead))
        if any(monotonic() - one.began < SHORT_LIFE for one in dead):
            sleep(SHORT_LIFE)  # what kills every worker at once must not keep this one busy with starting them
        self._start()

    def _change(self, graphs: ServedGraphs) -> None:
        for one in self._workers:
            one.process.terminate()
        until = monotonic() + CHANGE_WITHIN
        while not all(one.silent for one in self._workers):
            sleep(0.01)
            if monotonic() > until:
                for one in self._workers:
                    if not one.silent:
                        one.process.kill()
        self._leaving += self._workers
        self._workers, self._graphs, self._counts = [], graphs, ConnectionCounts(self._settings.workers)
        self._updates = UpdateWatch(graphs)
        self._start()

    def _end_all(self) -> None:
        every = self._workers + self._leaving
        for one in every:
            one.process.terminate()
        until = monotonic() + _patience(self._settings) + AT_ONCE
        for one in every:
            one.process.join(max(0.0, until - monotonic()))
            if one.process.exitcode is None:
                one.process.kill()
                one.process.join()

    def _work(self, state: State, share: WorkerShare) -> None:
        """What a worker process does."""
        with _early_signals():
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)
            count_in_files()
            threading.Thread(target=_beat, args=(state, os.getppid()), name="kgwalk-beat", daemon=True).start()
            log_visibly()
            start_logging(self._settings)
            try:
                traced = start_tracing(self._settings.trace, texts=self._settings.log_questions or None)
                app = create_app(self._settings, self._graphs)
            except KgwalkError as error:
                log.error("a worker process cannot start: %s", error)
                sys.exit(STARTUP_FAILURE)
            app.share = share
            config = _config(app, self._settings, share)
            server = _Server(config, lambda url: None, follow=app.graphs, silent=lambda: _set_silent(state))
            server.run([self._listener])
            if not server.force_exit:
                traced()
            if app.agent.busy_opening or server.force_exit:
                os._exit(0)


def _beat(state: State, parent: int) -> None:
    """Tell the parent that this worker lives; end it when the parent is gone."""
    while True:
        state[0] = monotonic()
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGTERM)
            return
        sleep(0.5)


def _set_silent(state: State) -> None:
    state[1] = 1


def _config(app: App, settings: ServeSettings, share: WorkerShare | None = None) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        backlog=BACKLOG,
        http=Connections(settings, share),  # type: ignore[arg-type]  # called as a class would be
        h11_max_incomplete_event_size=settings.max_header_bytes,
        ws="none",
        headers=[("x-content-type-options", "nosniff")],
        lifespan="on",
        interface="asgi3",
        log_config=None,
        access_log=False,  # telemetry.py writes it
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=_patience(settings),
    )


def _patience(settings: ServeSettings) -> int:
    """Seconds that the end waits for requests under way."""
    return math.ceil(_longest(settings)) + 5


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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
