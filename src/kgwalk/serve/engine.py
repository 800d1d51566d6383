"""The engine behind the server: opened once, in a thread of its own, and shared by all requests.

Its settings are checked at the start. An engine's libraries are imported only when it is opened, which may take as long
as a download. Until then graphs are served, and a question waits.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING

from kgwalk.serve.settings import ServeSettings
from kgwalk.serve.shapes import EngineState
from kgwalk.types import EngineError, KgwalkError

if TYPE_CHECKING:
    from kgwalk.llm.engine import Engine

log = logging.getLogger("kgwalk.serve")


class NotOpened(EngineError):
    """The engine cannot be opened; the log has the reason."""


class SharedEngine:
    """The engine of the settings, or one that is open already; that one is not closed here.

    `opened` and `close` belong to one event loop.
    """

    def __init__(self, settings: ServeSettings, engine: Engine | None = None) -> None:
        check_engine(settings, given=engine is not None)
        self._settings = settings
        self._engine, self._given = engine, engine is not None
        self._opening: asyncio.Task[None] | None = None
        self._thread: threading.Thread | None = None

    @property
    def configured(self) -> bool:
        return self._given or self._settings.model is not None

    @property
    def name(self) -> str:
        """What the language model is called."""
        return self._settings.model or str(getattr(self._engine, "model", "engine"))

    @property
    def state(self) -> EngineState | None:
        """None without a language model. One that could not be opened is "closed": the next question tries again."""
        if not self.configured:
            return None
        return "open" if self._engine is not None else "closed" if self._opening is None else "opening"

    @property
    def busy_opening(self) -> bool:
        """Whether a thread is opening an engine; nothing can stop it."""
        return self._thread is not None and self._thread.is_alive()

    async def opened(self) -> Engine:
        """The engine. The first request begins to open it, and the others wait for the same."""
        while self._engine is None:
            if self._opening is None:
                self._opening = asyncio.create_task(self._open())
            # Shielded: opening may take longer than the request that began it, and serves the next one.
            await asyncio.shield(self._opening)
        return self._engine

    async def close(self) -> None:
        if self._engine is not None and not self._given:
            await self._engine.close()

    async def _open(self) -> None:
        future: Future[Engine] = Future()
        # A daemon thread, not one of the loop's pool: the loop's end would wait for it, and it may be downloading.
        self._thread = threading.Thread(
            target=_open_for, args=(future, self._settings), name="kgwalk-open", daemon=True
        )
        self._thread.start()
        try:
            self._engine = await asyncio.wrap_future(future)
        except EngineError as error:
            # Logged here, once for all requests that wait; perhaps none does any longer.
            log.error("the language model cannot be opened: %s", error)
            raise NotOpened(str(error)) from error
        finally:
            self._opening = None  # so that the next request tries again, if this failed


def _open_for(future: Future[Engine], settings: ServeSettings) -> None:
    """Open the engine for the future; if the server was stopped meanwhile nobody awaits it, and it is closed."""
    try:
        engine = open_engine(settings)
    except BaseException as error:  # noqa: BLE001 - raised where the future is awaited
        if future.set_running_or_notify_cancel():
            future.set_exception(error)
        return
    if future.set_running_or_notify_cancel():
        future.set_result(engine)
    else:
        asyncio.run(engine.close())


def open_engine(settings: ServeSettings) -> Engine:
    from kgwalk.llm.engine import open_engine as open_kind

    options: dict[str, object] = {}
    if settings.engine == "api":
        options = {"base_url": settings.base_url, "at_once": max(16, settings.agent_at_once)}
    elif settings.adapter is not None:
        options = {"adapter": settings.adapter}
    return open_kind(settings.engine, settings.model, **options)


def check_engine(settings: ServeSettings, *, given: bool = False) -> None:
    """Raise what can be known to be wrong before the engine is opened or the agent imported."""
    from kgwalk.config.recipe import load_recipe
    from kgwalk.llm.engine import check_kind

    load_recipe(settings.recipe)
    # An engine that nobody asked for may be missing: graphs are served, and a question is told why it fails.
    if settings.engine != "auto" or settings.model is not None:
        check_kind(settings.engine)
    if settings.engine == "api" and settings.adapter is not None:
        raise KgwalkError("an adapter is for a model that runs here; the engine `api` takes none")
    if settings.engine != "api" and settings.base_url is not None:
        raise KgwalkError(f"`base_url` is for the engine `api`, not for `{settings.engine}`")
    if settings.engine == "api" and not given:
        open_engine(settings)  # sends no request, but checks for a model's name and a key
