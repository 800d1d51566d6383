"""The door of evaluation: a recipe's name and a dataset's folder in, a run folder and its table out.

>>> kgwalk.evaluate("oracle", "world", "test")["metrics"]["f1"]    # doctest: +SKIP
1.0

Knows no policy, no engine and no dataset by name.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kgwalk.agent.counted import ids_a_token
from kgwalk.agent.from_recipe import budget_of, check_web, needs_engine, policy_of, protocol_of
from kgwalk.agent.worlds import WorldSettings, opened_web, world_settings
from kgwalk.config.notebook import outside_a_loop
from kgwalk.config.recipe import Recipe, load_recipe
from kgwalk.config.section import read_section, setting
from kgwalk.data.bundled import world_folder
from kgwalk.data.dataset import Data, Dataset, fetched_folder, load_dataset
from kgwalk.evaluation.predictions import PREDICTIONS
from kgwalk.evaluation.report import finish
from kgwalk.evaluation.run import Evaluation, Plan, Progress, silent
from kgwalk.kg.build import Progress as Building
from kgwalk.llm.engine import Engine, Sampling
from kgwalk.llm.open import open_engine
from kgwalk.runs.folder import begin_run
from kgwalk.tools.web.open import RERANKED
from kgwalk.tools.web.search import WebSearch
from kgwalk.types import KgwalkError

_WALKING = ("protocol", "policy", "rollout")  # the sections that decide how a question is walked


@dataclass(frozen=True)
class EvalSettings:
    """The section [eval] of a recipe. One run is greedy, several are sampled, unless `temperature` says otherwise."""

    runs: int = setting(1, least=1)
    temperature: float | None = setting(None, least=0)
    top_p: float = setting(1.0, above=0, most=1)

    def sampling(self, seed: int) -> Sampling:
        warm = 1.0 if self.runs > 1 else 0.0
        return Sampling(warm if self.temperature is None else self.temperature, self.top_p, seed=seed)


def evaluate(
    recipe: str | Recipe,
    data: str | Path | Data,
    split: str = "test",
    *,
    out: str | Path | None = None,
    engine: str | Engine = "local",
    web: WebSearch | None = None,
    model: str | None = None,
    adapter: str | None = None,
    values: Iterable[str] = (),
    limit: int | None = None,
    seed: int = 0,
    link: bool = False,
    retry_failed: bool = False,
    force: bool = False,
    progress: Progress = silent,
    building: Building = lambda what, done, total: None,
) -> dict[str, Any]:
    """Walk every question of a split and score it; the result is what `kgwalk eval --json` prints.

    `out` is the run's folder: the same call again goes on where it stopped. `values` are a recipe's values anew, such
    as `eval.runs=3`, or `world.drop=0.4` to hide facts of the graph. An engine that is passed in stays open; `web` is
    one for web searches in place of what `world.web` names. Without `out` nothing is kept. `progress` is told of each
    episode, `building` of the graph while it is built, the first time.
    """
    chosen = (load_recipe(recipe) if isinstance(recipe, str) else recipe).with_values(values)
    own = read_section(EvalSettings, chosen, "eval")
    _check(chosen)
    world = world_settings(chosen)
    if limit is not None and limit < 1:
        raise KgwalkError(f"limit must be at least 1, not {limit}")
    dataset = load_dataset(data) if isinstance(data, str | Path) else data
    questions = dataset.questions(split)
    sampling = own.sampling(seed)
    settings = {
        "recipe": chosen.name,
        **{name: chosen.section(name) for name in _WALKING if name in chosen.sections},
        **_world_of(chosen, world, web),
        "runs": own.runs,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "data": _data_name(dataset),
        "split": split,
        "limit": limit,
        "seed": seed,
        "link": link,
        "engine": _engine_name(chosen, engine),
        "model": model,
        "adapter": None if adapter is None else str(Path(adapter).resolve()),
    }

    def work() -> dict[str, Any]:
        with _folder(out) as path:
            folder, _ = begin_run(path, "eval", settings, force=force)
            with folder.alone(), folder.unless_refused():
                plan = Plan(own.runs, limit, seed, link, retry_failed)
                evaluation = Evaluation(dataset, questions, plan, folder.file(PREDICTIONS), progress, world)
                if evaluation.missing:
                    dataset.prepare(building)
                    searched = web or opened_web(world)
                    with _opened(chosen, engine, model, adapter) as opened:
                        each = 1 if opened is None else ids_a_token(opened)
                        evaluation.walk(policy_of(chosen, opened, sampling), web=searched, ids_a_token=each)
                return finish(folder, evaluation.rows()) | ({"folder": None} if out is None else {})

    return outside_a_loop(work)


def _check(recipe: Recipe) -> None:
    """A wrong value is told before a model is loaded."""
    budget_of(recipe)
    if "policy" not in recipe.sections:
        protocol_of(recipe)


def _world_of(recipe: Recipe, world: WorldSettings, web: WebSearch | None) -> dict[str, Any]:
    """What is recorded of the world; nothing of the usual one, a whole graph and no web."""
    check_web(recipe, given=web is not None)
    named = type(web).__name__ if web is not None else world.web
    kind, place = (RERANKED, named.removeprefix(RERANKED)) if named.startswith(RERANKED) else ("", named)
    if web is None and Path(place).exists():
        named = kind + str(Path(place).resolve())  # the same corpus wherever the command is given again
    made = asdict(world) | {"web": named}
    return {} if made == asdict(WorldSettings()) else {"world": made}


def _data_name(dataset: Data) -> Any:
    """Its name where that finds it on any machine, else its folder or folders."""
    named = isinstance(dataset, Dataset) and dataset.path in (world_folder(), fetched_folder(dataset.name))
    return dataset.name if named else dataset.place()


def _engine_name(recipe: Recipe, engine: str | Engine) -> str | None:
    if not needs_engine(recipe):
        return None
    return engine if isinstance(engine, str) else type(engine).__name__


@contextmanager
def _opened(recipe: Recipe, engine: str | Engine, model: str | None, adapter: str | None) -> Iterator[Engine | None]:
    if not needs_engine(recipe):
        yield None
    elif not isinstance(engine, str):
        yield engine
    else:
        opened = open_engine(engine, model, **({} if adapter is None else {"adapter": adapter}))
        try:
            yield opened
        finally:
            asyncio.run(opened.close())


@contextmanager
def _folder(out: str | Path | None) -> Iterator[Path]:
    if out is not None:
        yield Path(out)
    else:
        with tempfile.TemporaryDirectory(prefix="kgwalk-eval-") as made:
            yield Path(made) / "run"
