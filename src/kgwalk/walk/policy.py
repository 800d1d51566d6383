"""Who walks: a `Policy` takes tasks and gives back episodes.

    policy = policy_of(load_recipe("kg-r1"), engine, Sampling())
    episodes = await policy.walk([(task, environment)], watch)

A language model that follows a protocol is one (`ProtocolPolicy`). The baselines without a protocol are others: they
register in `POLICIES`, and a recipe names them in [policy]. The `..._of` functions make a recipe's sections into the
objects of a rollout.

The adapter that walks is the one asked for, else the one beside the graph, else the shipped one:

    films.kg          a store
    films.kg.agent    its adapter, where `kgwalk fit films.kg` puts it
    films.kg.examples.jsonl    its worked examples (walk/examples.py), where the fit puts them

A bundled graph has its adapter in the cache. The shipped one lies in this package (`shipped/`); KGWALK_AGENT names
another folder in its place, or `none`. An adapter that was found, not asked for, is taken only if it fits: it has
learnt the recipe's protocol, and was made for the model that is asked for, if one is.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from importlib.resources import files
from pathlib import Path
from typing import Any
from typing import Protocol as Interface

from kgwalk.config.recipe import Parts, Recipe, imported, read_section, setting
from kgwalk.data.bundled import beside
from kgwalk.kg.graph import Graph
from kgwalk.llm.engine import Engine, Sampling, runs_here, takes_adapter
from kgwalk.llm.models import (
    GGUF_ON_HUB,
    Adapter,
    card_folder,
    is_adapter,
    known_as,
    learnt_in,
    read_adapter,
    same_model,
)
from kgwalk.types import EngineError, Episode, KgwalkError, SecondLook, Turn
from kgwalk.walk.confidence import Confidence, best_of
from kgwalk.walk.environment import environment_for, environment_settings
from kgwalk.walk.protocol import PROTOCOLS, Environment, Protocol, Task
from kgwalk.walk.rollout import Budget, Watch, ids_a_token, rollout_async, tokens


class Policy(Interface):
    """Whoever walks. `watch(episode, None)` is called as each episode ends; the list is in the order of the tasks, and
    an episode's `key` is its task's.
    """

    async def walk(self, tasks: Sequence[tuple[Task, Environment]], watch: Watch) -> list[Episode]: ...

    def environment(self, graph: Graph) -> Environment:
        """The graph, with what else this policy's tools use."""
        ...


@dataclass(frozen=True)
class AskSettings:
    """The section [ask] of a recipe: how much a question may cost.

    Where the first walk is less sure than `unsure`, the question is walked again until there are `walks`; the later
    ones are sampled, and the answer with the most probability together is taken. 1 is the first walk alone.
    """

    walks: int = setting(1, least=1, most=16)
    unsure: float = setting(0.5, least=0, most=1)


@dataclass(frozen=True)
class ProtocolPolicy:
    """A language model that follows a protocol: the policy of every recipe that is trained.

    `confidence` gives each episode the probability that its answer is right. Only a greedy walk is looked at again
    (`asking`): who samples several wants each of them.
    """

    protocol: Protocol
    engine: Engine
    budget: Budget = field(default_factory=Budget)
    sampling: Sampling = field(default_factory=Sampling)
    confidence: Confidence | None = None
    asking: AskSettings = field(default_factory=AskSettings)

    async def walk(self, tasks: Sequence[tuple[Task, Environment]], watch: Watch) -> list[Episode]:
        def judged(episode: Episode, turn: Turn | None) -> None:
            if turn is None:
                self._judge(episode)
            watch(episode, turn)

        if self.asking.walks == 1 or self.sampling.temperature > 0:
            return await self._rollout(tasks, self.sampling, judged)
        gate = asyncio.Semaphore(self.budget.at_once)

        async def one(number: int, task: Task, environment: Environment) -> Episode:
            keyed = task if task.key else replace(task, key=f"{number}:{task.question.id}")
            async with gate:
                episode = await self._looked_at(keyed, environment, judged)
            episode.key = task.key
            judged(episode, None)
            return episode

        return list(await asyncio.gather(*(one(at, *each) for at, each in enumerate(tasks))))

    async def _looked_at(self, task: Task, environment: Environment, watch: Watch) -> Episode:
        """The first walk, or the best of several where it was unsure."""

        def turns(episode: Episode, turn: Turn | None) -> None:
            if turn is not None:
                watch(episode, turn)

        [first] = await self._rollout([(task, environment)], self.sampling, turns)
        self._judge(first)
        if not first.trainable or (first.confidence is not None and first.confidence >= self.asking.unsure):
            return first
        again = [(replace(task, key=f"{task.key}/{n}"), environment) for n in range(1, self.asking.walks)]
        # seeded: the same question is walked in the same ways
        warm = replace(self.sampling, temperature=1.0, seed=self.sampling.seed or 0)
        walks = [first, *await self._rollout(again, warm, turns)]
        best, agreed = best_of(walks, self.confidence)
        spent = [tokens(walk, ids_a_token(self.engine)) for at, walk in enumerate(walks) if at != best]
        taken = walks[best]
        taken.seconds = first.seconds + max(walk.seconds for walk in walks[1:])
        taken.looked = SecondLook(len(walks), agreed, sum(told for told, _ in spent), sum(said for _, said in spent))
        return taken

    async def _rollout(
        self, tasks: Sequence[tuple[Task, Environment]], sampling: Sampling, watch: Watch
    ) -> list[Episode]:
        return await rollout_async(
            tasks, self.protocol, self.engine, sampling=sampling, budget=self.budget, watch=watch
        )

    def _judge(self, episode: Episode) -> None:
        if self.confidence is not None:
            episode.probability = self.confidence.probability(episode)

    def environment(self, graph: Graph) -> Environment:
        return environment_for(graph, self.protocol)


# Protocols by name


NO_THOUGHTS = "none"  # the style of demonstrations without any (`demos.voice`)
POLICIES: Parts[type[Any]] = Parts("policy", "policy")
_own: dict[str, type[Protocol]] = {}  # those that were named by their place


def protocol_named(name: str, **settings: object) -> Protocol:
    """A protocol by its name or place, with settings of its own."""
    return protocol_kind(name)(**settings)  # type: ignore[arg-type]


def protocol_kind(name: str) -> type[Protocol]:
    """A protocol's class by its name, or by its place: `package.module:Class` or `file.py:Class` need no registering.

    A class that was once found by its place is known by its name as well, as demonstrations have only that.
    """
    if name in _own:
        return _own[name]
    if ":" not in name:
        return PROTOCOLS.named(name)
    kind = imported("protocol", name)
    if not isinstance(kind, type) or not issubclass(kind, Protocol):
        raise KgwalkError(f"`{name}` is no protocol; it must be a subclass of kgwalk.walk.protocol.Protocol")
    for part in ("name", "stop", "inline"):
        if not hasattr(kind, part):
            raise KgwalkError(f"the protocol `{name}` has no `{part}`; give the class one")
    if PROTOCOLS.get(kind.name, kind) is not kind:
        raise KgwalkError(f"the protocol `{name}` is called {kind.name}, as one of kgwalk's is; give it another `name`")
    _own[kind.name] = kind
    return kind


# From a recipe


def policy_of(
    recipe: Recipe, engine: Engine | None, sampling: Sampling, confidence: Confidence | None = None
) -> Policy:
    """Whoever walks: what [policy] names, else a model that follows [protocol]. `engine` is for those that need one,
    `confidence` is what was fitted for its adapter.
    """
    if engine is None and needs_engine(recipe):
        raise EngineError(f"the recipe {recipe.name} needs a language model, and none is given")
    given = {"engine": engine, "budget": budget_of(recipe), "sampling": sampling}
    kind = _policy_kind(recipe)
    if kind is None:
        own = {"confidence": confidence, "asking": asking_of(recipe)}
        return ProtocolPolicy(protocol_of(recipe), **given, **own)  # type: ignore[arg-type]
    made: Policy = read_section(kind, recipe, "policy", given=given, apart=["name"], positive=True)
    return made


def needs_engine(recipe: Recipe) -> bool:
    """Whether a language model walks."""
    kind = _policy_kind(recipe)
    return kind is None or any(field.name == "engine" for field in fields(kind))


def searches_web(recipe: Recipe) -> bool:
    """Whether whoever walks has a tool for the web."""
    kind = _policy_kind(recipe)
    return bool(protocol_of(recipe).searches_web if kind is None else getattr(kind, "searches_web", False))


def check_web(recipe: Recipe, *, given: bool = False) -> None:
    """Refuses a web, the recipe's or one that is `given`, where the walk has no tool to search it."""
    if (given or environment_settings(recipe).web != "none") and not searches_web(recipe):
        raise KgwalkError(f"the recipe {recipe.name} has no web search; choose one that has, such as graph-rft")


def _policy_kind(recipe: Recipe) -> type[Any] | None:
    """The policy that the recipe names; None where it has a protocol for a model to follow."""
    if "policy" not in recipe.sections:
        return None
    if "protocol" in recipe.sections:
        raise KgwalkError(f"the recipe {recipe.name} has [policy] and [protocol]; one of them walks, remove the other")
    name = recipe.section("policy").get("name")
    return POLICIES.named(str(name))


def walked_as_learnt(recipe: Recipe, adapter: str | Path | None, model: str | Path | None = None) -> Recipe:
    """The recipe with the adapter's own values of [protocol] and [ask] where the recipe has none: an agent that learnt
    the full language is asked in it without being told, and walks again where that was found to pay. What the recipe
    says itself stays. Without an adapter they are those of the model, which may be an agent itself (`kgwalk export`).
    """
    folder = card_folder(adapter, model)
    if folder is None or "protocol" not in recipe.sections or not (adapter is None or is_adapter(folder)):
        return recipe  # an engine says what is wrong with an adapter
    learnt = learnt_in(folder)
    own = recipe.section("protocol")
    if not learnt or learnt.get("name") != own.get("name"):
        return recipe
    sections = {**recipe.sections, "protocol": {**learnt, **own}}
    if asking := {**learnt_in(folder, "ask"), **recipe.section("ask")}:
        sections["ask"] = asking
    return Recipe(recipe.name, sections, recipe.about)


def protocol_of(recipe: Recipe) -> Protocol:
    name = recipe.section("protocol").get("name")
    if name is None and "policy" in recipe.sections:
        with_protocol = f"choose a recipe with one, such as {', '.join(sorted(PROTOCOLS))}"
        raise KgwalkError(f"the recipe {recipe.name} is a baseline without a protocol; {with_protocol}")
    # whoever learnt without thoughts has none: a protocol that asks for it is told
    styles = recipe.section("demos").get("styles")
    given = {"thoughts": False} if styles == [NO_THOUGHTS] and "thoughts" not in recipe.section("protocol") else {}
    return read_section(protocol_kind(str(name)), recipe, "protocol", given=given, apart=["name"], positive=True)


def budget_of(recipe: Recipe) -> Budget:
    return read_section(Budget, recipe, "rollout", positive=True)


def asking_of(recipe: Recipe) -> AskSettings:
    return read_section(AskSettings, recipe, "ask")


# Which adapter walks a graph

BESIDE = ".agent"
NONE = "none"
SHIPPED = "shipped"
VARIABLE = "KGWALK_AGENT"


@dataclass(frozen=True, slots=True)
class Choice:
    """`adapter` is None where the model walks as it is, or is an `agent` itself. `words` say which agent was found, or
    why one was left out.
    """

    adapter: Adapter | None = None
    words: tuple[str, ...] = ()
    agent: bool = False

    @property
    def folder(self) -> str | None:
        """For an engine's option `adapter`."""
        return None if self.adapter is None else str(self.adapter.folder)


def choose_adapter(asked: str | None, store: Path | None, recipe: Recipe, *, model: str | None, engine: str) -> Choice:
    """The agent for a graph; `store` is its folder, if it has one. `asked` is a folder, `shipped` or `none`."""
    if asked == NONE:
        return Choice()
    if asked is not None:
        return Choice(read_adapter(asked_for(asked, model)))
    protocol = recipe.section("protocol").get("name")
    if protocol is None:
        return Choice()
    if runs_here(engine) and learnt_in(card_folder(None, model)).get("name") == protocol:
        return Choice(words=(f"agent: {model}",), agent=True)
    words: list[str] = []
    for folder, called in _places(store, model):
        if not is_adapter(folder):
            continue
        if not takes_adapter(engine):  # asked last: it imports the engine
            break
        adapter = read_adapter(folder)
        why = _unfit(adapter, str(protocol), recipe.section("protocol").get("language"), model)
        if why is None:
            return Choice(adapter, (*words, f"agent: {called}"))
        words.append(f"not used: {called}, since {why}")
    return Choice(None, tuple(words))


def place_of(store: Path) -> Path:
    """Where the agent of a graph lies, or would."""
    return beside(store, BESIDE)


def store_of(graph: Graph) -> Path | None:
    """The store folder of a graph or of a view of it; None for a graph elsewhere."""
    store = getattr(graph, "store", None)
    return None if store is None else Path(store.folder.path)


def shipped(model: str | None = None) -> Path | None:
    """The folder of the agent that comes with kgwalk for a model (None: the default one), or that KGWALK_AGENT names;
    None where there is none. Of a model that none comes for it is the default's, which then says that it does not fit.
    """
    named = os.environ.get(VARIABLE, "").strip()
    if named == NONE:
        return None
    if named:
        folder = Path(named).expanduser()
        if not is_adapter(folder):
            raise KgwalkError(f"{VARIABLE} is {named}, which is no adapter's folder; unset it, or set it to {NONE}")
        return folder
    own = Path(str(files("kgwalk.walk"))) / "shipped"
    larger = own / known_as(model) if model is not None and known_as(model) in GGUF_ON_HUB else own
    return next((folder for folder in (larger, own) if is_adapter(folder)), None)


def asked_for(adapter: str, model: str | None = None) -> Path:
    """The folder that is meant: the shipped agent of a model by its word, any other by its path."""
    if adapter != SHIPPED:
        return Path(adapter)
    folder = shipped(model)
    if folder is None:
        raise KgwalkError("no agent comes with this kgwalk; give an adapter's folder, or leave the option out")
    return folder


def _places(store: Path | None, model: str | None) -> list[tuple[Path, str]]:
    """Where to look, and what to call what is there."""
    places = []
    if store is not None:
        own = place_of(store)
        places.append((own, f"{own}, beside the graph"))
    general = shipped(model)
    if general is not None:
        places.append((general, "the one that comes with kgwalk" if not os.environ.get(VARIABLE) else str(general)))
    return places


def _unfit(adapter: Adapter, protocol: str, language: str | None, model: str | None) -> str | None:
    if adapter.protocol and adapter.protocol != protocol:
        return f"it has learnt to walk by {adapter.protocol}, and the recipe walks by {protocol}"
    learnt = adapter.learnt.get("language", "core")
    if language is not None and learnt != language:
        return f"it has learnt the {learnt} walking language, and the recipe has the {language} one"
    if model is not None and not same_model(adapter.base, model):
        return f"it was made for the model {adapter.base or '(not said)'}, not for {model}"
    return None
