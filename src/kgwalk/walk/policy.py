"""Who walks: a `Policy` takes tasks and gives back episodes.

    policy = policy_of(load_recipe("kg-r1"), engine, Sampling())
    episodes = await policy.walk([(task, environment)], watch)

A language model that follows a protocol is one (`ProtocolPolicy`). The baselines without a protocol are others: they
register in `POLICIES`, and a recipe names them in [policy]. The `..._of` functions make a recipe's sections into the
objects of a rollout.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any
from typing import Protocol as Interface

from kgwalk.config.recipe import Parts, Recipe, imported, read_section
from kgwalk.kg.graph import Graph
from kgwalk.llm.engine import Engine, Sampling
from kgwalk.types import EngineError, Episode, KgwalkError
from kgwalk.walk.environment import environment_for, environment_settings
from kgwalk.walk.protocol import PROTOCOLS, Environment, Protocol, Task
from kgwalk.walk.rollout import Budget, Watch, rollout_async


class Policy(Interface):
    """Whoever walks. `watch(episode, None)` is called as each episode ends; the list is in the order of the tasks, and
    an episode's `key` is its task's.
    """

    async def walk(self, tasks: Sequence[tuple[Task, Environment]], watch: Watch) -> list[Episode]: ...

    def environment(self, graph: Graph) -> Environment:
        """The graph, with what else this policy's tools use."""
        ...


@dataclass(frozen=True)
class ProtocolPolicy:
    """A language model that follows a protocol: the policy of every recipe that is trained."""

    protocol: Protocol
    engine: Engine
    budget: Budget = field(default_factory=Budget)
    sampling: Sampling = field(default_factory=Sampling)

    async def walk(self, tasks: Sequence[tuple[Task, Environment]], watch: Watch) -> list[Episode]:
        return await rollout_async(
            tasks, self.protocol, self.engine, sampling=self.sampling, budget=self.budget, watch=watch
        )

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


def policy_of(recipe: Recipe, engine: Engine | None, sampling: Sampling) -> Policy:
    """Whoever walks: what [policy] names, else a model that follows [protocol]. `engine` is for those that need one."""
    if engine is None and needs_engine(recipe):
        raise EngineError(f"the recipe {recipe.name} needs a language model, and none is given")
    given = {"engine": engine, "budget": budget_of(recipe), "sampling": sampling}
    kind = _policy_kind(recipe)
    if kind is None:
        return ProtocolPolicy(protocol_of(recipe), **given)  # type: ignore[arg-type]
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
