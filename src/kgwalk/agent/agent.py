"""An agent: a graph, a recipe to walk it by, and the model that walks; one question after the other.

    with Agent(graph).opened() as agent:
        print(agent.ask("who directed Big?").answers)

The adapter is the one that is asked for, else the one beside the graph, else the shipped one (agent/adapters). Where a
question starts can be asked before a model is loaded. Knows no recipe, protocol or model by name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import TracebackType

from kgwalk.agent.adapters import Choice, choose, store_of
from kgwalk.agent.ask import Asked, ask
from kgwalk.agent.from_recipe import budget_of, check_web, protocol_of
from kgwalk.agent.rollout import Watch
from kgwalk.agent.start import Start, start_of
from kgwalk.agent.worlds import opened_web, world_settings
from kgwalk.config.notebook import outside_a_loop
from kgwalk.config.recipe import Recipe, load_recipe
from kgwalk.kg.graph import Graph
from kgwalk.llm.engine import Engine
from kgwalk.llm.open import check_kind, open_engine
from kgwalk.types import KgwalkError

RECIPE = "kgwalk"  # what `kgwalk fit` trains as well, unless told otherwise


class Agent:
    """`choice` is which adapter walks, and what there is to say of it; None until `opened`."""

    engine: Engine | None = None
    choice: Choice | None = None

    def __init__(self, graph: Graph, recipe: str | Recipe = RECIPE) -> None:
        self.graph = graph
        self.recipe = load_recipe(recipe) if isinstance(recipe, str) else recipe
        self.protocol, self.budget = protocol_of(self.recipe), budget_of(self.recipe)
        check_web(self.recipe)
        self.web = opened_web(world_settings(self.recipe))

    def chosen(self, adapter: str | None = None, *, model: str | None = None, engine: str = "auto") -> Choice:
        """The adapter that `opened` would take: a folder, `shipped`, `none`, or what is found."""
        check_kind(engine)
        return choose(adapter, store_of(self.graph), self.recipe, model=model, engine=engine)

    def opened(self, adapter: str | None = None, *, model: str | None = None, engine: str = "auto") -> Agent:
        """Load the model, which takes seconds; the default one is small and runs on a CPU."""
        self.close()
        self.choice = self.chosen(adapter, model=model, engine=engine)
        options = {"adapter": self.choice.folder} if self.choice.adapter else {}
        self.engine = open_engine(engine, model, **options)
        return self

    def start(self, question: str, topics: Sequence[str] | None = None) -> Start:
        """Where a walk would start; NoTopic where it cannot."""
        return start_of(question, self.graph, topics, protocol=self.protocol, web=self.web is not None)

    def ask(
        self,
        question: str,
        topics: Sequence[str] | Start | None = None,
        *,
        runs: int = 1,
        watch: Watch = lambda episode, turn: None,
    ) -> Asked:
        """Walk. Several `runs` are sampled, and their answers united."""
        if self.engine is None:
            raise KgwalkError("the agent's model is not open: call `opened()` first")
        return ask(
            question,
            self.graph,
            protocol=self.protocol,
            engine=self.engine,
            web=self.web,
            topics=topics,
            runs=runs,
            budget=self.budget,
            watch=watch,
        )

    def close(self) -> None:
        """The model; the graph is whoever's opened it."""
        if (engine := self.engine) is not None:
            outside_a_loop(lambda: asyncio.run(engine.close()))
            self.engine = None

    def __enter__(self) -> Agent:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()
