"""`kgwalk eval`: walk the questions of a dataset with a recipe, score each episode, and report.

>>> kgwalk.evaluate("oracle", "world", "test")["metrics"]["f1"]    # doctest: +SKIP
1.0

`evaluate` is the function to call; `Evaluation` does the walking. Each episode is scored and written to the run folder
as it ends. Episodes already there are not walked again, so the same call goes on after a kill, and its report is the
same, since that is made from the rows in the order of the questions (report.py). Nothing is dropped from the
denominator: an episode that failed counts with its zeros. `judge_run` adds a judge's verdicts to a finished evaluation.
"""

from __future__ import annotations

import asyncio
import random
import re
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kgwalk.config.recipe import Recipe, load_recipe, read_section, setting, unknown
from kgwalk.config.run_folder import RowFile, RunFolder, begin_run, continue_run, episode_row
from kgwalk.config.runtime import outside_a_loop
from kgwalk.data.bundled import world_folder
from kgwalk.data.dataset import Data, Dataset, fetched_folder, load_dataset
from kgwalk.data.mixture import DATASET_KEY
from kgwalk.evaluation.report import (
    JUDGED,
    PREDICTIONS,
    EpisodeKey,
    PredictionRow,
    asks,
    check_finished,
    finish,
    key_of,
    read_predictions,
    whole_episodes,
)
from kgwalk.kg.graph import Graph
from kgwalk.llm.engine import KINDS, Engine, Sampling, needs_model, open_engine, runs_here
from kgwalk.llm.models import card_folder
from kgwalk.score.answers import Gold, distinct, gold_of
from kgwalk.score.episode import measure
from kgwalk.score.errors import error_class
from kgwalk.score.judge.judge import Judge, JudgeSettings, opened_judge
from kgwalk.score.judge.kinds import BUILDERS, Case, case_of
from kgwalk.score.judge.verdict import JudgeCost, Verdict, score_from_vector
from kgwalk.types import Episode, KgwalkError, Progress, Question, Turn, silent
from kgwalk.walk.confidence import read_confidence
from kgwalk.walk.environment import (
    BESIDE,
    Environments,
    EnvironmentSettings,
    environment_settings,
    opened_web,
    with_ranker_of,
)
from kgwalk.walk.linking import link
from kgwalk.walk.linking import topics as linked_topics
from kgwalk.walk.policy import Policy, budget_of, check_web, needs_engine, policy_of, protocol_of, walked_as_learnt
from kgwalk.walk.protocol import Environment, Task
from kgwalk.walk.rollout import ids_a_token
from kgwalk.walk.starts import starts_in
from kgwalk.walk.web.search import GRAPH, RERANKED, WebSearch

BLOCK = 8192  # episodes in memory at a time
RUNNING = ("f1", "hits_at_1")  # metrics whose means are shown as progress
_WALKING = ("protocol", "policy", "rollout", "ask")  # the sections that decide how a question is walked
JUDGEMENTS = "judgements.jsonl"  # a row for each verdict, also for those that failed


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
    building: Progress = silent,
) -> dict[str, Any]:
    """Walk every question of a split and score it; the result is what `kgwalk eval --json` prints.

    `out` is the run's folder: the same call again goes on where it stopped. Without `out` nothing is kept. `values`
    change settings of the recipe, such as `eval.runs=3`, or `world.drop=0.4` to hide facts of the graph. `web` is used
    for web searches instead of what `world.web` names. An engine that is passed in stays open. `progress` is told of
    each episode, `building` of the graph while it is built the first time.
    """
    chosen = (load_recipe(recipe) if isinstance(recipe, str) else recipe).with_values(values)
    own_model = model if isinstance(engine, str) and runs_here(engine) else None
    chosen = walked_as_learnt(with_ranker_of(chosen, adapter, model), adapter, own_model)
    own = read_section(EvalSettings, chosen, "eval")
    _check(chosen)
    environment = environment_settings(chosen)
    if limit is not None and limit < 1:
        raise KgwalkError(f"limit must be at least 1, not {limit}")
    dataset = load_dataset(data) if isinstance(data, str | Path) else data
    questions = dataset.questions(split)
    sampling = own.sampling(seed)
    settings = {
        **_recipe_settings(chosen, environment, web, own, sampling),
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
        with (
            _folder(out) as path,
            begin_run(path, "eval", settings, force=force) as (folder, _),
            folder.unless_refused(),
        ):
            from_kinds = needs_engine(chosen) and protocol_of(chosen).starts_from_kinds
            plan = Sample(own.runs, limit, seed, link, retry_failed, from_kinds)
            evaluation = Evaluation(dataset, questions, plan, folder.file(PREDICTIONS), progress, environment)
            if evaluation.missing:
                dataset.prepare(building)
                searched = web or opened_web(environment)
                with _opened(chosen, engine, model, adapter) as opened:
                    each = 1 if opened is None else ids_a_token(opened)
                    policy = policy_of(chosen, opened, sampling, read_confidence(card_folder(adapter, own_model)))
                    evaluation.walk(policy, web=searched, ids_a_token=each)
            return finish(folder, evaluation.rows()) | ({"folder": None} if out is None else {})

    return outside_a_loop(work)


def _check(recipe: Recipe) -> None:
    """Raises if the recipe is wrong, before a model is loaded."""
    budget_of(recipe)
    if "policy" not in recipe.sections:
        protocol_of(recipe)


def _recipe_settings(
    recipe: Recipe, environment: EnvironmentSettings, web: WebSearch | None, own: EvalSettings, sampling: Sampling
) -> dict[str, Any]:
    """The settings of the recipe that decide what is computed; a run in the same folder must have the same."""
    return {
        "recipe": recipe.name,
        **{name: recipe.section(name) for name in _WALKING if name in recipe.sections},
        **_environment_record(recipe, environment, web),
        "runs": own.runs,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
    }


def _environment_record(recipe: Recipe, environment: EnvironmentSettings, web: WebSearch | None) -> dict[str, Any]:
    """What the run records of its environment; nothing for the default, a whole graph and no web."""
    check_web(recipe, given=web is not None)
    named = type(web).__name__ if web is not None else environment.web
    kind, place = (RERANKED, named.removeprefix(RERANKED)) if named.startswith(RERANKED) else ("", named)
    if web is None and named != GRAPH and Path(place).exists():
        named = kind + str(Path(place).resolve())  # the same corpus from whatever folder the command is given
    made = asdict(environment) | {"web": named}
    if Path(environment.examples).is_file():
        made["examples"] = str(Path(environment.examples).resolve())
    if made == asdict(EnvironmentSettings()):
        return {}
    if made["examples"] == BESIDE:
        del made["examples"]  # as in runs from before there were any
    return {"world": made}


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


# One evaluation


@dataclass(frozen=True, slots=True)
class Sample:
    """Which questions are walked, and how often. `limit` takes a seeded sample, the same for every policy."""

    runs: int = 1
    limit: int | None = None
    seed: int = 0
    link: bool = False  # find the topics in the question's text; otherwise they are given, as in the papers
    retry_failed: bool = False  # walk again the episodes whose engine or tool failed
    from_kinds: bool = False  # the walk may start from kinds: they are no topics


def chosen(questions: Sequence[Question], limit: int | None, seed: int) -> list[tuple[int, Question]]:
    """The questions with their places; with a limit, a seeded sample of them in their order.

    It is not the first few, which are rarely like the rest: MetaQA's are all one-hop questions.
    """
    if limit is None or limit >= len(questions):
        return list(enumerate(questions))
    numbers = sorted(random.Random(f"kgwalk/{seed}").sample(range(len(questions)), limit))
    return [(number, questions[number]) for number in numbers]


class Evaluation:
    """The questions of a sample with the rows that are there; `walk` adds those that are `missing`."""

    def __init__(
        self,
        dataset: Data,
        questions: Sequence[Question],
        plan: Sample,
        predictions: Path,
        progress: Progress = silent,
        environment: EnvironmentSettings | None = None,
    ) -> None:
        self.dataset, self.plan, self.predictions, self.progress = dataset, plan, predictions, progress
        self.environment = environment or EnvironmentSettings()
        self.questions = dict(chosen(questions, plan.limit, plan.seed))
        self._wanted: list[EpisodeKey] = [(number, run) for number in self.questions for run in range(plan.runs)]
        self._done = self._read()
        self._sums = {name: sum(row["metrics"][name] for row in self._done.values()) for name in RUNNING}
        self._tell()

    @property
    def missing(self) -> list[EpisodeKey]:
        return [key for key in self._wanted if key not in self._done]

    def rows(self) -> list[PredictionRow]:
        """The scored rows in the order of the questions and runs."""
        return [self._done[key] for key in self._wanted]

    def walk(self, policy: Policy, *, web: WebSearch | None = None, ids_a_token: int = 1) -> None:
        missing = self.missing
        environments = Environments(self.dataset.graph_for, self.environment, policy.environment, web)
        with RowFile(self.predictions) as rows:
            for begin in range(0, len(missing), BLOCK):
                asyncio.run(self._walk(policy, environments, missing[begin : begin + BLOCK], rows, ids_a_token))

    def _read(self) -> dict[EpisodeKey, PredictionRow]:
        found = read_predictions(self.predictions)
        for (number, run), row in found.items():
            if run >= self.plan.runs or number not in self.questions or not asks(row, self.questions[number]):
                raise KgwalkError(
                    f"{self.predictions} was made from other questions than {self.dataset.name} has now "
                    f"(question {number}, {row['id']!r}); choose another folder with -o, or start over with --force"
                )
        return {key: row for key, row in found.items() if not (self.plan.retry_failed and row["metrics"]["failed"])}

    async def _walk(
        self, policy: Policy, environments: Environments, block: Sequence[EpisodeKey], rows: RowFile, ids_a_token: int
    ) -> None:
        tasks: list[tuple[Task, Environment]] = []
        places: dict[str, tuple[EpisodeKey, Environment]] = {}
        topics: dict[int, Sequence[str]] = {}
        for number, run in block:
            question = self.questions[number]
            environment = environments.of(question)
            if number not in topics:
                topics[number] = self._topics(question, environment.graph)
            name = f"{self.plan.seed}:{number}:{run}"  # part of the seed, so that a resumed run makes the same draws
            tasks.append((Task(question, topics[number], name), environment))
            places[name] = (number, run), environment

        def watch(episode: Episode, turn: Turn | None) -> None:
            if turn is None:
                key, environment = places.pop(episode.key)
                # names are compared over the whole graph: an entity hidden from the walk still has its own name
                numbers = scored(episode, self.dataset.graph_for(episode.question), ids_a_token)
                if self.environment.drop > 0:
                    numbers["groups"]["graph"] = "complete" if environment.complete else "incomplete"
                row = {"number": key[0], "run": key[1], **numbers}
                rows.add(row | {"episode": episode_row(episode)})
                self._add(key, row)

        await policy.walk(tasks, watch)
        if places:
            raise RuntimeError(f"the policy gave no episode for {len(places)} tasks")

    def _topics(self, question: Question, graph: Graph) -> Sequence[str]:
        if not self.plan.link:
            return question.topic_entities
        text = question.question
        return linked_topics(starts_in(text, graph)[0] if self.plan.from_kinds else link(text, graph))

    def _add(self, key: EpisodeKey, row: PredictionRow) -> None:
        self._done[key] = row
        for name in RUNNING:
            self._sums[name] += row["metrics"][name]
        self._tell()

    def _tell(self) -> None:
        done = len(self._done)
        means = {name: value / done for name, value in self._sums.items()} if done else {}
        self.progress("episodes", done, len(self._wanted), means)


def scored(episode: Episode, graph: Graph | None = None, ids_a_token: int = 1) -> PredictionRow:
    """What the report needs of an episode: its metrics, its class of error, what it is grouped by."""
    question = episode.question
    gold = gold_of(question)
    error = error_class(episode, graph, gold)
    numbers = measure(episode, graph, gold, ids_a_token=ids_a_token)
    row = {
        "id": question.id,
        "question": question.question,
        "gold": question.answers,
        "aliases": question.aliases,
        "answers": episode.answers,
        "metrics": numbers,
        "error": None if error is None else str(error),
        "stop": str(episode.stop),
        "groups": dict(groups(question, gold)) | confident(numbers.get("confidence")),
        "cluster": cluster_of(question),
    }
    kind = question.extra.get("answer_kind")
    return row if kind is None else row | {"answer_kind": kind}


_SEEDED = re.compile(r"(.+)_[0-9a-f]{32}")  # as CWQ names its questions: the one it was written from, and a digest


def cluster_of(question: Question) -> str:
    """What a question shares with those that rise and fall with it: the seed that its id names, else its topics.

    >>> cluster_of(Question("WebQTest-537_0a8cdba29cf260283b7c890b3609c0b9", "?", ["France"], []))
    'seed WebQTest-537'
    >>> cluster_of(Question("q7", "?", ["Oslo", "Norway"], [])), cluster_of(Question("q8", "?", [], []))
    ('topics Norway | Oslo', 'question q8')

    In a mixture the same topic of two datasets is two clusters. A dataset may name its own: `cluster`, beside `id`.
    """
    of = f"{question.extra[DATASET_KEY]}: " if DATASET_KEY in question.extra else ""
    if "cluster" in question.extra:
        return f"{of}cluster {question.extra['cluster']}"
    if (seeded := _SEEDED.fullmatch(question.id)) is not None:
        return f"seed {seeded[1]}"
    topics = " | ".join(sorted(set(question.topic_entities)))
    return f"{of}topics {topics}" if topics else f"question {question.id}"


def confident(chance: float | None) -> dict[str, str]:
    """The line, in percent, of the table that shows whether walks that the model was sure of are more often right.

    >>> confident(0.07), confident(1.0), confident(None)
    ({'confidence': '0-20'}, {'confidence': '80-100'}, {})
    """
    if chance is None:
        return {}
    low = min(int(chance * 5), 4) * 20
    return {"confidence": f"{low}-{low + 20}"}


def groups(question: Question, gold: Gold) -> Iterator[tuple[str, str]]:
    """The tables that a question belongs to, and its line in each."""
    if DATASET_KEY in question.extra:
        yield DATASET_KEY, str(question.extra[DATASET_KEY])
    yield "hops", "not known" if question.hops is None else str(question.hops)
    if question.type is not None:
        yield "type", question.type
    for name, value in question.extra.items():  # marks of the dataset, such as `unseen` of invented graphs
        if isinstance(value, bool) and name not in ("hops", "type", "answers", DATASET_KEY):
            yield name, "yes" if value else "no"
    count = len(gold)
    yield "answers", str(count) if count < 2 else "2-4" if count < 5 else "5-9" if count < 10 else "10+"


# Verdicts of a judge


def judge_run(
    path: Path,
    judge: str,
    kinds: Sequence[str],
    *,
    settings: JudgeSettings | None = None,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Judge every episode of an evaluation by `ENGINE[:MODEL]`; the report then has the verdicts' means in its metrics.

    They stand beside the strict scores under names of their own (`judge_...`). A failed verdict is counted
    (`judge.failed`) and enters no mean. Verdicts are cached, so a judge is not asked the same twice. `settings` are
    those of the recipe's section [judge].
    """
    check_judge(judge, kinds)

    def work() -> dict[str, Any]:
        with continue_run(path) as folder:
            check_finished(folder)
            with opened_judge(judge, settings or JudgeSettings()) as judging:
                return judged(folder, judging, kinds, progress=progress)

    return outside_a_loop(work)


def check_judge(judge: str, kinds: Iterable[str]) -> None:
    """Raises if a name is wrong: at once, not after all questions have been walked."""
    kind, _, model = judge.partition(":")
    if kind not in KINDS:
        raise unknown("engine of a judge", kind, KINDS)
    if not model and needs_model(kind):
        raise KgwalkError(f"a judge by the engine {kind} needs the name of a model: {kind}:MODEL")
    for name in kinds:
        if name not in BUILDERS:
            raise unknown("kind of judgement", name, BUILDERS)


def judged(folder: RunFolder, judge: Judge, kinds: Sequence[str], *, progress: Progress = silent) -> dict[str, Any]:
    """The same with a judge that is already open."""
    kinds = list(dict.fromkeys(kinds))
    rows, cases = _cases(folder.file(PREDICTIONS), kinds)
    folder.file(JUDGEMENTS).unlink(missing_ok=True)
    before, values = judge.cost, defaultdict[str, list[float]](list)

    def seen(verdict: Verdict) -> None:
        done = judge.cost.verdicts - before.verdicts
        progress(
            "verdicts", done, len(rows) * len(kinds), {name: sum(each) / len(each) for name, each in values.items()}
        )

    with RowFile(folder.file(JUDGEMENTS)) as written:
        for kind in kinds:
            verdicts = judge.judge_all(cases[kind], seen)
            for row, verdict in zip(rows, verdicts, strict=True):
                numbers = {} if verdict.failure else _numbers(kind, verdict, row["answers"])
                row["metrics"] |= numbers
                for name, value in numbers.items():
                    values[name].append(value)
                written.add(_row(row, kind, numbers, verdict))
    return finish(folder, rows, judge=_about(judge, kinds, before))


def _cases(predictions: Path, kinds: Sequence[str]) -> tuple[list[PredictionRow], dict[str, list[Case]]]:
    """The rows in order without their episodes, and the cases of each kind."""
    found: dict[EpisodeKey, tuple[PredictionRow, list[Case]]] = {}
    for row, episode in whole_episodes(predictions):
        del row["episode"]
        found[key_of(row)] = row, [case_of(kind, episode) for kind in kinds]
    ordered = [found[key] for key in sorted(found)]
    return [row for row, _ in ordered], {kind: [cases[at] for _, cases in ordered] for at, kind in enumerate(kinds)}


def _row(row: PredictionRow, kind: str, numbers: dict[str, float], verdict: Verdict) -> PredictionRow:
    return {
        "number": row["number"],
        "run": row["run"],
        "kind": kind,
        "numbers": numbers,
        "failure": verdict.failure,
        "reply": verdict.reply,
        "tokens": [verdict.prompt_tokens, verdict.generated_tokens],
        "cached": verdict.cached,
    }


def _about(judge: Judge, kinds: Sequence[str], before: JudgeCost) -> dict[str, Any]:
    names = ("verdicts", "failed", "cached", "calls", "prompt_tokens", "generated_tokens")
    spent = {name: getattr(judge.cost, name) - getattr(before, name) for name in names}
    return {"model": judge.model_name, "kinds": list(kinds), **spent}


def _numbers(kind: str, verdict: Verdict, predicted: Sequence[str]) -> dict[str, float]:
    """A verdict as metrics: `judge_correct`, `judge_recall`, `judge_relevance`...

    A name that was predicted twice counts once, as in the strict scores.
    """
    value = verdict.value
    if isinstance(value, list):
        scores = score_from_vector(value, len(distinct(predicted)))
        return {f"{JUDGED}{name}": float(getattr(scores, name)) for name in ("precision", "recall", "f1", "any")}
    if isinstance(value, dict):
        return {f"{JUDGED}{name}": float(score) for name, score in value.items()}
    return {} if value is None else {f"{JUDGED}{kind}": float(value)}
