"""The environment of each question: its graph, perhaps with facts hidden, and what else tools use.

    environments = Environments(dataset.graph_for, EnvironmentSettings(drop=0.4), policy.environment, web)
    environments.of(question).complete

Which facts are hidden depends on the question's id, its facts and the settings alone: training, evaluation and serving
see the same, in any order and after a resumption. The settings are the section [world] of a recipe.
"""

from __future__ import annotations

import hashlib
import importlib.util
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from kgwalk.config.recipe import Recipe, read_section, setting
from kgwalk.data.bundled import beside
from kgwalk.kg.graph import Graph
from kgwalk.kg.store import Store, StoredGraph
from kgwalk.kg.views import incomplete
from kgwalk.llm.embeddings import CachedEmbedder, Embedder, MiniLM, installed_minilm
from kgwalk.types import KgwalkError, Question, Triple, UnknownQuestion
from kgwalk.walk.examples import ENDING, ExampleLibrary, read_examples
from kgwalk.walk.protocol import Environment, Protocol
from kgwalk.walk.ranking import RANKER_CARD
from kgwalk.walk.web.search import GRAPH, NONE, WebSearch, open_web

if TYPE_CHECKING:
    from kgwalk.data.dataset import Dataset

# A graph with an embedder and a ranker


_of_store: WeakKeyDictionary[Store, Embedder] = WeakKeyDictionary()


def environment_for(graph: Graph, protocol: Protocol) -> Environment:
    """The graph, with an embedder if the protocol ranks by meaning and one is installed; else letters decide. With the
    worked examples that lie beside the graph, if the protocol shows some.

    The model is loaded once a process, and the vectors are kept for each store.
    """
    if protocol.shows_examples:
        return replace(_embedding(graph, protocol), examples=_library_of(graph))
    return _embedding(graph, protocol)


def _embedding(graph: Graph, protocol: Protocol) -> Environment:
    if not protocol.by_meaning or installed_minilm() is None or not _has_torch():
        return Environment(graph)
    if not isinstance(graph, StoredGraph):
        return Environment(graph, embed=_shared())
    if graph.store not in _of_store:
        _of_store[graph.store] = CachedEmbedder(_model(), graph.store)
    return Environment(graph, embed=_of_store[graph.store])


def _library_of(graph: Graph) -> ExampleLibrary | None:
    """The worked examples beside a graph; None where there are none, or it is elsewhere."""
    store: Store | None = getattr(graph, "store", None)
    path = None if store is None else beside(Path(store.folder.path), ENDING)
    return None if path is None or not path.is_file() else read_examples(path)


def with_examples(environment: Environment, named: str) -> Environment:
    """The environment with the worked examples that `world.examples` names, in place of those beside the graph."""
    if named == BESIDE:
        return environment
    return replace(environment, examples=None if named == NONE else read_examples(named))


BESIDE = "beside"  # of `world.examples`
TRAINED = "trained"  # of `world.ranker`


def with_ranker_of(recipe: Recipe, *places: str | Path | None) -> Recipe:
    """The recipe with the folder of its ranker in place of "trained": the first of the places that has one (a run's
    own, an adapter's folder, a model's), or "none".
    """
    if environment_settings(recipe).ranker != TRAINED:
        return recipe
    named = (Path(place).resolve() for place in places if place is not None)
    folders = (place.parent if place.suffix == ".gguf" else place for place in named)
    found = next((folder for folder in folders if (folder / RANKER_CARD).is_file()), None)
    sections = {**recipe.sections, "world": recipe.section("world") | {"ranker": str(found or NONE)}}
    return replace(recipe, sections=sections)


def with_ranker(environment: Environment, folder: str) -> Environment:
    """The environment with the trained ranker of a folder, over the environment's embedder."""
    from kgwalk.walk.ranker import open_ranker  # needs torch

    return replace(environment, ranker=open_ranker(folder, environment.embed))


@lru_cache(1)
def _model() -> MiniLM:
    return MiniLM()


@lru_cache(1)
def _shared() -> Embedder:
    return CachedEmbedder(_model())


def _has_torch() -> bool:
    return all(importlib.util.find_spec(name) is not None for name in ("torch", "transformers"))


KEPT = 256  # views made last, for the runs of a question that follow each other


@dataclass(frozen=True)
class EnvironmentSettings:
    """The section [world] of a recipe."""

    drop: float = setting(0.0, least=0, most=1)  # the share of a question's crucial facts that is hidden
    share: float = setting(1.0, least=0, most=1)  # of the questions; the others are asked over the whole graph
    seed: int = 0  # decides which facts and which questions
    # a corpus (a folder, a .jsonl or .jsonl.gz file), the name of a provider, or "graph": a corpus written from the
    # graph, in which the facts that are hidden from it can be found; where nothing is hidden on purpose, as from a
    # question that is asked, that is no web
    web: str = "none"
    # for searches that rank entities: the folder of a trained ranker (`kgwalk rank train`), "none" to rank by text, or
    # "trained": the one that a run's stage rank has trained, which lies with its adapter; without one, by text
    ranker: str = "none"
    # worked examples for a protocol that shows some (`protocol.examples`): "beside", those that `kgwalk fit` put beside
    # the graph, "none", or a file of them
    examples: str = BESIDE


class Environments:
    """The environment of any question. `graph_for` gives a question's whole graph, `base` a graph with what else the
    walker's tools use, `examples` the worked examples of a question in place of those of its graph.
    """

    def __init__(
        self,
        graph_for: Callable[[Question], Graph],
        settings: EnvironmentSettings,
        base: Callable[[Graph], Environment],
        web: WebSearch | None = None,
        examples: Callable[[Question], ExampleLibrary | None] | None = None,
    ) -> None:
        self.graph_for, self.settings, self.base, self.web = graph_for, settings, base, web
        self.examples = examples
        self._kept: OrderedDict[tuple[str, tuple[Triple, ...]], Environment] = OrderedDict()
        # by the graph's identity, which is not given to another: an environment keeps its graph alive
        self._whole: OrderedDict[int, Environment] = OrderedDict()
        self._lock = threading.Lock()  # a server's threads ask too

    def of(self, question: Question) -> Environment:
        environment = self._of(question)
        return environment if self.examples is None else replace(environment, examples=self.examples(question))

    def _of(self, question: Question) -> Environment:
        graph = self.graph_for(question)
        crucial = crucial_facts(question)
        if not crucial or not hides(question.id, self.settings):
            return self._complete(graph)
        if not isinstance(graph, StoredGraph):
            raise KgwalkError(
                f"`world.drop` is {self.settings.drop}, and facts can be hidden in a store only, not in a "
                f"{type(graph).__name__}; build one with `kgwalk kg build`, or set world.drop=0"
            )
        key = (question.id, crucial)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        environment = self._incomplete(question.id, graph, crucial)
        with self._lock:
            self._kept[key] = environment
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return environment

    def _complete(self, graph: Graph) -> Environment:
        """Mostly it is one graph or a few, again and again: the environment of each is made once."""
        with self._lock:
            whole = self._whole.get(id(graph))
            if whole is not None:
                self._whole.move_to_end(id(graph))
                return whole
        whole = self._made(graph)
        with self._lock:
            self._whole[id(whole.graph)] = whole
            while len(self._whole) > KEPT:
                self._whole.popitem(last=False)
        return whole

    def _incomplete(self, id_: str, graph: StoredGraph, crucial: tuple[Triple, ...]) -> Environment:
        there = [fact for fact in crucial if next(graph.match(*fact[:3], limit=1), None)]
        count = hidden_count(id_, len(there), self.settings)
        if not count:
            return self._complete(graph)
        view = incomplete(graph, there, count / len(there), _draw("facts", id_, self.settings.seed))
        return replace(self._made(view), complete=False)

    def _made(self, graph: Graph) -> Environment:
        environment = replace(self.base(graph), web=self.web or self._own_web(graph))
        environment = with_examples(environment, self.settings.examples)
        ranker = self.settings.ranker
        return environment if ranker in (NONE, TRAINED) else with_ranker(environment, ranker)

    def _own_web(self, graph: Graph) -> WebSearch | None:
        """The web that is made of the graph, if `world.web` says so."""
        if self.settings.web != GRAPH:
            return None
        if not isinstance(graph, StoredGraph):
            raise KgwalkError(
                f"`world.web` is {GRAPH!r}, and a corpus can be written from a store only, not from a "
                f"{type(graph).__name__}; name another, or set world.web=none"
            )
        from kgwalk.walk.web.graph_corpus import web_of

        return web_of(graph.store)


def environments_of(
    recipe: Recipe, graph_for: Callable[[Question], Graph], base: Callable[[Graph], Environment]
) -> Environments:
    """The environments that the recipe's section [world] describes, with its web engine opened."""
    settings = environment_settings(recipe)
    return Environments(graph_for, settings, base, opened_web(settings))


def environment_settings(recipe: Recipe) -> EnvironmentSettings:
    return read_section(EnvironmentSettings, recipe, "world")


def opened_web(settings: EnvironmentSettings) -> WebSearch | None:
    """The engine; a corpus that is not there or a key that is missing is told here, before any walk.

    None for "graph", too: that web belongs to a graph, and `Environments` opens it.
    """
    return None if settings.web in (NONE, GRAPH) else open_web(settings.web)


def crucial_facts(question: Question) -> tuple[Triple, ...]:
    """The facts of the gold paths, else of the evidence, each once and without dates; () where it has neither.

    >>> path = [Triple("Big", "directed_by", "Penny Marshall", "1988")]
    >>> crucial_facts(Question("q", "?", ["Big"], ["Penny Marshall"], gold_paths=[path, path]))
    (Triple(head='Big', relation='directed_by', tail='Penny Marshall', time=''),)
    """
    facts = [fact for path in question.gold_paths or [] for fact in path] or question.evidence or []
    return tuple(sorted({Triple(*fact[:3]) for fact in facts}))


def hides(id_: str, settings: EnvironmentSettings) -> bool:
    """Whether the question is one of the share that is asked over an incomplete graph."""
    return settings.drop > 0 and _unit("share", id_, settings.seed) < settings.share


def hidden_count(id_: str, facts: int, settings: EnvironmentSettings) -> int:
    """How many of a question's crucial facts are hidden: `drop` of them, rounded up or down by a draw.

    Of 5 facts 0.4 are 2. Of one fact 0.4 is none or one: with rounding no question with one fact would ever lose it,
    so it is one for 40 of 100 questions, and 0.4 of all facts are hidden as asked for.
    """
    return int(settings.drop * facts + _unit("count", id_, settings.seed))


def _draw(what: str, id_: str, seed: int) -> int:
    return int.from_bytes(hashlib.blake2b(f"{what}/{seed}/{id_}".encode(), digest_size=6).digest())


def _unit(what: str, id_: str, seed: int) -> float:
    """A draw from 0 to below 1."""
    return _draw(what, id_, seed) / 2**48


# Of a served dataset


def environment_values(values: Mapping[str, Any]) -> EnvironmentSettings:
    """The values of a section [world]; an error names what is wrong."""
    return environment_settings(Recipe("serve", {"world": values}))


@dataclass(frozen=True)
class QuestionViews:
    """The questions of a dataset by their ids, and the environments of their walks: an id stands for the view of the
    graph that its walk sees. So an agent that asks a server sees what it would see without one.
    """

    dataset: Dataset
    environments: Environments
    by_id: dict[str, Question] = field(repr=False)

    def graph(self, question: str) -> Graph:
        if question not in self.by_id:
            raise UnknownQuestion(question, where=f"the questions of {self.dataset.name}")
        return self.environments.of(self.by_id[question]).graph


def open_questions(data: str, settings: EnvironmentSettings) -> QuestionViews:
    """The questions of every split of a dataset; one id stands for one view."""
    from kgwalk.data.dataset import load_dataset  # and pyarrow, which who only asks does without

    dataset = load_dataset(data)
    dataset.hold()
    by_id: dict[str, Question] = {}
    for split in dataset.splits():
        for question in dataset.questions(split):
            known = by_id.setdefault(question.id, question)
            if settings.drop > 0 and crucial_facts(known) != crucial_facts(question):
                raise KgwalkError(
                    f"two questions of {dataset.name} have the id {question.id!r} and other facts; with facts hidden "
                    "an id must stand for one question"
                )
    return QuestionViews(dataset, Environments(dataset.graph_for, settings, Environment), by_id)
