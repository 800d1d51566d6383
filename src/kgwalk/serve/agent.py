"""The agent behind the server, with bounds on its use; GET /v1/models.

Walks run on an event loop in a thread of their own, so that a long step of one holds up no graph request. How many
run at once is bounded, and so is the time of each. The agent and its engine are imported when somebody asks, or when
the server warms them. ask.py (/v1/ask) and chat.py (OpenAI's shape) ask the same agent.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

import orjson

from kgwalk.config.runtime import LoopClosed, LoopThread
from kgwalk.serve.asgi import STOPPING_WORDS, HttpError, HttpReply, check_characters, check_question, too_long
from kgwalk.serve.engine import NotOpened, SharedEngine
from kgwalk.serve.graphs import ServedGraphs
from kgwalk.serve.reading import ItemError, given
from kgwalk.serve.settings import ServeSettings
from kgwalk.serve.shapes import AgentOptions, EngineState, ModelEntry, ModelList
from kgwalk.types import EngineError, Episode, KgwalkError, StopReason, Turn, UnknownEntity

if TYPE_CHECKING:
    from kgwalk.llm.engine import Engine, Generation, Request
    from kgwalk.walk.agent import AskResult
    from kgwalk.walk.confidence import Confidence
    from kgwalk.walk.policy import AskSettings
    from kgwalk.walk.protocol import Protocol
    from kgwalk.walk.rollout import Budget
    from kgwalk.walk.starts import Start
    from kgwalk.walk.web.search import WebSearch

log = logging.getLogger("kgwalk.serve")

AGENT = "kgwalk"  # the model's name under which the agent itself is asked; `kgwalk/RECIPE` for another recipe
MOST_WAITING = 64  # requests that wait for their turn; one more is told to come back
SOFT = 0.8  # of the time left: a walk then stops between two turns, with what it has

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AgentRequest:
    """What a request asks of the agent; None stands for the server's own choice."""

    question: str
    graph: str | None = None
    topics: list[str] | None = None
    recipe: str | None = None
    runs: int = 1
    walks: int | None = None
    limit: int | None = None
    min_confidence: float | None = None
    query: str | None = None  # the language of a query that gives the same answer

    def told(self, asked: AskResult) -> dict[str, Any]:
        """The reply, as this request wants it."""
        from kgwalk.walk.agent import as_json  # imported by now

        return as_json(asked, limit=self.limit, least=self.min_confidence)


@dataclass(frozen=True, slots=True)
class AskRecord:
    """What became of a question, for counts and logs. `outcome` is answered, nothing (the walk ended without an answer)
    or cancelled (the client left, or the server ended), or the kind of an error; of the last two there is no `asked`.
    """

    wanted: AgentRequest
    outcome: str
    seconds: float
    asked: AskResult | None = None


def _unheard(record: AskRecord) -> None:
    """For a service that nobody watches."""


class WalkFollower:
    """Is told of a question on its way to an answer; mostly from the agent's thread. This one hears nothing."""

    def waits(self, before: int, model: EngineState | None) -> None:
        """It has to wait: for so many other questions, or until the model is open."""

    def starts(self, start: Start, kinds: Sequence[str]) -> None:
        """The walk begins at these topics, and from all of these kinds."""

    def turns(self, episode: Episode, turn: Turn | None) -> None:
        """A turn was done; None: the episode has ended. A `Watch`."""


class AgentService:
    """The shared engine, and the bounds on its use. An engine given here is not closed here."""

    def __init__(
        self,
        graphs: ServedGraphs,
        settings: ServeSettings,
        engine: Engine | None = None,
        web: WebSearch | None = None,
        heard: Callable[[AskRecord], None] = _unheard,
    ) -> None:
        self._graphs, self._settings, self._web, self._heard = graphs, settings, web, heard
        self._engine = SharedEngine(settings, engine)
        self._gate = asyncio.Semaphore(settings.agent_at_once)
        self._recipes: dict[str | None, tuple[Protocol, Budget, AskSettings]] = {}  # by name; only bundled ones
        self._reading = Lock()  # the first recipe imports the protocols; another thread would find half of them
        self.waiting = 0  # requests that wait for their turn
        self.under_way = 0  # requests that have it
        self._loop = LoopThread("kgwalk-agent", self._engine.close)

    @property
    def configured(self) -> bool:
        return self._engine.configured

    @property
    def _own_model(self) -> str | None:
        """The model, where its folder may say how it is asked."""
        from kgwalk.llm.engine import runs_here

        return self._settings.model if runs_here(self._settings.engine) else None

    @property
    def state(self) -> EngineState | None:
        """Of the language model; None where there is none."""
        return self._engine.state

    @property
    def busy_opening(self) -> bool:
        """Whether the engine is being opened, which nothing can stop."""
        return self._engine.busy_opening

    @property
    def model(self) -> str:
        """The language model's name, for requests that want it without the agent."""
        return self._engine.name

    def models(self) -> list[str]:
        """The language model's name, then the agent's."""
        return [self.model, AGENT, *(f"{AGENT}/{name}" for name in _agents())]

    async def warm(self) -> None:
        """Open the engine and import what a walk needs before the first question.

        A failure is logged and does not stop the server: graphs are served, and the next question tries again.
        """
        if not self.configured:
            return
        try:
            await asyncio.to_thread(import_module, "kgwalk.walk.agent")
            await asyncio.to_thread(self._recipe, None)
            await self._loop.run(self._engine.opened)
        except (LoopClosed, NotOpened):
            pass  # the server was stopped meanwhile, or the failure is in the log already
        except (KgwalkError, ImportError, OSError, RuntimeError):  # what a recipe, an import or a library may raise
            log.exception("the agent cannot be made ready")

    async def ask(self, wanted: AgentRequest, deadline: float, follower: WalkFollower | None = None) -> AskResult:
        """Walk, and tell whoever follows; what becomes of it is counted. Raises HttpError."""
        began = monotonic()
        try:
            asked = await self._asked(wanted, deadline, follower)
        except HttpError as error:
            self._heard(AskRecord(wanted, error.about["kind"], monotonic() - began))
            raise
        except asyncio.CancelledError:
            self._heard(AskRecord(wanted, "cancelled", monotonic() - began))
            raise
        self._heard(AskRecord(wanted, "answered" if asked.answers else "nothing", monotonic() - began, asked))
        return asked

    async def _asked(self, wanted: AgentRequest, deadline: float, follower: WalkFollower | None) -> AskResult:
        told = follower or WalkFollower()
        self.require()
        graph = refusing(lambda: self._graphs.graph(wanted.graph))
        protocol, budget, asking = await self._walked_by(wanted.recipe)
        asking = asking if wanted.walks is None else replace(asking, walks=wanted.walks)
        check_characters(len(wanted.question), budget.total_tokens)

        async def walk(ends: float) -> AskResult:
            from kgwalk.walk.agent import answer_question
            from kgwalk.walk.starts import kinds_beside, start_of

            if self.state != "open":
                told.waits(0, self.state)
            engine = await self._engine.opened()
            check_question(wanted.question, engine, budget)
            web = self._web if protocol.searches_web else None

            def begin() -> tuple[Start, list[str]]:
                start = start_of(wanted.question, graph, wanted.topics, protocol=protocol, web=web is not None)
                if follower is None or not protocol.starts_from_kinds:
                    return start, []
                return start, [kind.name for kind in kinds_beside(wanted.question, start.topics, graph)]

            # in a thread: a remote graph is slow, and so is comparing spellings
            start, kinds = await asyncio.to_thread(begin)
            told.starts(start, kinds)
            left = max(0.0, ends - monotonic()) * SOFT
            asked = await answer_question(
                wanted.question,
                graph,
                protocol=protocol,
                engine=engine,
                web=web,
                topics=start,
                runs=wanted.runs,
                budget=replace(budget, seconds=min(budget.seconds, left)),
                watch=told.turns,
                confidence=_confidence(self._settings.adapter, self._own_model),
                asking=asking,
            )
            if wanted.query is not None:
                from kgwalk.systems.kgwalk.queries import add_query

                await asyncio.to_thread(add_query, asked, graph, protocol, wanted.query)
            return asked

        asked = await self._run(walk, deadline, told)
        if asked.stop is StopReason.prompt:
            raise too_long(asked.failure or "the prompt is longer than the language model can read")
        if asked.stop in (StopReason.engine_failed, StopReason.tool_failed):
            log.error("a walk failed: %s", asked.failure)
            what = "language model" if asked.stop is StopReason.engine_failed else "graph"
            raise HttpError(502, str(asked.stop), f"the {what} could not answer; the server's log has the reason")
        return asked

    async def generate(self, make: Callable[[Engine], Request], deadline: float) -> tuple[Request, Generation, str]:
        """The language model alone: the request, its generation, and the generated text. Raises HttpError."""
        self.require()

        async def work(ends: float) -> tuple[Request, Generation, str]:
            engine = await self._engine.opened()
            request = make(engine)
            try:
                generation = await engine.generate(request)
            finally:
                await engine.forget(request.session)
            return request, generation, engine.tokens.decode(generation.ids)

        return await self._run(work, deadline)

    def require(self) -> None:
        """Refuse where there is no language model, and say how to start the server with one."""
        if not self.configured:
            raise HttpError(
                503,
                "no_model",
                "this server has no language model; start it with one: `kgwalk serve --model NAME`, "
                "with `--engine api` for a model behind OPENAI_BASE_URL",
            )

    def close(self) -> None:
        self._loop.close()

    async def _run(
        self, work: Callable[[float], Coroutine[Any, Any, T]], deadline: float, told: WalkFollower | None = None
    ) -> T:
        """Do the work on the agent's loop, within the bounds, told when it is ended; its failures become replies."""
        async with self._admitted(deadline, told or WalkFollower()) as ends:
            try:
                return await self._loop.run(lambda: work(ends))
            except UnknownEntity as error:
                facts = [[*fact[:3]] for fact in getattr(error, "facts", ())]
                raise HttpError(422, "unknown_entity", str(error), nearest=error.nearest, facts=facts) from error
            except EngineError as error:
                if not isinstance(error, NotOpened):
                    log.error("the language model failed: %s", error)
                raise HttpError(
                    502, "engine_failed", "the language model could not answer; the server's log has the reason"
                ) from error
            except KgwalkError as error:
                log.error("a graph failed: %s", error)
                message = "the graph could not answer; the server's log has the reason"
                raise HttpError(502, "tool_failed", message) from error
            except LoopClosed:
                raise HttpError(503, *STOPPING_WORDS) from None

    @asynccontextmanager
    async def _admitted(self, deadline: float, told: WalkFollower) -> AsyncIterator[float]:
        """Wait for a turn, for no longer than until the deadline. Gives when the work is ended: who had to wait has all
        of the time from its turn on, since a walk that begins with seconds left is work for nothing.
        """
        if self.waiting >= MOST_WAITING:
            raise _busy()
        seconds = self._settings.agent_time_limit
        waits = self._gate.locked()
        if waits:
            told.waits(self.waiting, self.state)
        self.waiting += 1
        try:
            async with asyncio.timeout(max(0.0, deadline - monotonic())):
                await self._gate.acquire()
        except TimeoutError as error:
            raise _busy() from error
        finally:
            self.waiting -= 1
        ends = monotonic() + seconds if waits else deadline
        self.under_way += 1
        try:
            async with asyncio.timeout(max(0.0, ends - monotonic())):
                yield ends
        except TimeoutError as error:
            raise HttpError(504, "time_limit", f"there was no answer within {seconds:g} s") from error
        finally:
            self.under_way -= 1
            self._gate.release()

    async def protocol(self, recipe: str | None) -> Protocol:
        """By which a recipe walks; None: the server's own."""
        protocol, _, _ = await self._walked_by(recipe)
        return protocol

    async def _walked_by(self, name: str | None) -> tuple[Protocol, Budget, AskSettings]:
        """What a recipe says of a walk. Read in another thread: the first request imports the agent, which takes a
        while. Kept: most questions of a burst are told to come back, and need not read the recipe for that.
        """
        if name not in self._recipes:
            self._recipes[name] = await asyncio.to_thread(self._recipe, name)
        return self._recipes[name]

    def _recipe(self, name: str | None) -> tuple[Protocol, Budget, AskSettings]:
        from kgwalk.config.recipe import load_recipe, unknown
        from kgwalk.walk.policy import asking_of, budget_of, protocol_of, walked_as_learnt

        # A client may name what is bundled; a path is for the settings only.
        if name is not None and name not in _agents():
            raise HttpError(422, "unknown_recipe", str(unknown("recipe", name[:60], _agents())))
        with self._reading:
            asked = load_recipe(name or self._settings.recipe)
            recipe = walked_as_learnt(asked, self._settings.adapter, self._own_model)
            return protocol_of(recipe), budget_of(recipe), asking_of(recipe)


@cache
def _confidence(adapter: str | None, model: str | None) -> Confidence | None:
    """What was fitted for the adapter, or the model; read once, as the weights are."""
    from kgwalk.llm.models import card_folder
    from kgwalk.walk.confidence import read_confidence

    return read_confidence(card_folder(adapter, model))


@cache
def _agents() -> list[str]:
    """The bundled recipes by which a language model walks; the baselines without a protocol need none."""
    from kgwalk.config.recipe import load_recipe, names

    return [name for name in names() if "protocol" in load_recipe(name).sections]


class ModelsRoute:
    """GET /v1/models: the language model, the agent, and the agent by recipe."""

    def __init__(self, agent: AgentService) -> None:
        self._agent = agent

    async def __call__(self, body: bytes, deadline: float) -> HttpReply:
        self._agent.require()
        entries: list[ModelEntry] = [
            {"id": name, "object": "model", "created": 0, "owned_by": AGENT} for name in self._agent.models()
        ]
        listed: ModelList = {"object": "list", "data": entries}
        return HttpReply(200, orjson.dumps(listed))


def parse(body: bytes) -> object:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise HttpError(400, "malformed_json", f"the body is not JSON: {error}") from error


def refusing(read: Callable[[], T]) -> T:
    """What `read` gives; what it refuses becomes the error of the whole request."""
    try:
        return read()
    except ItemError as error:
        status = 404 if error.kind == "unknown_graph" else 422
        kind = error.kind if error.kind == "unknown_graph" else "wrong_content"
        raise HttpError(status, kind, error.message) from error


def wanted_of(question: str, recipe: str | None, options: AgentOptions) -> AgentRequest:
    if not question.strip():
        raise ItemError("bad_request", "the question is empty")
    runs = given(options.get("runs"), 1)
    bounds = (options.get("walks"), options.get("limit"), options.get("min_confidence"))
    return AgentRequest(question, options.get("graph"), options.get("topics"), recipe, runs, *bounds)


def _busy() -> HttpError:
    return HttpError(503, "busy", "too many questions at once; ask again later", ((b"retry-after", b"5"),))
