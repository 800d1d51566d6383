"""`kgwalk questions ...`: questions made from a graph, or from invented graphs (`worlds`)."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kgwalk.cli.options import BadRows, ForceOption, JsonOption, OnErrorOption, QuietOption
from kgwalk.cli.output import counted, err, first_of, out, print_json, print_table, progress_bar
from kgwalk.types import KgwalkError

if TYPE_CHECKING:
    from kgwalk.kg.store import StoredGraph
    from kgwalk.questions.invented.dataset import InventedDataReport
    from kgwalk.types import Progress, Question

app = typer.Typer(help="Make questions from a graph, or from invented graphs.", no_args_is_help=True)

MAKE_EXAMPLES = (
    "kgwalk questions make world -o world-made --count 1000",
    "kgwalk questions make films.kg -o films-made --patterns chain=0.6,count=0.2,superlative=0.2 --hops 1,2",
    "kgwalk questions make world -o world-full --language full",
    "kgwalk questions make triples.tsv.gz -o made --level 2 --noise 0.05 --rewrite api:gpt-4o-mini",
)
WORLDS_EXAMPLES = (
    "kgwalk questions worlds -o worlds --worlds 300 --per-world 60",
    "kgwalk questions worlds -o films --domains film,person,place --worlds 50",
    "kgwalk questions worlds -o worlds-full --language full --dated 0.2",
    "kgwalk questions worlds -o strict --without-graph metaqa --without-phrasings metaqa",
)
LanguageOption = Annotated[
    str, typer.Option(help="The walking language that programs are in: core, or full with all its calls and kinds.")
]
SHOWN = 8  # example questions
FIRST = 3  # answers of each


@app.callback()
def _group() -> None:
    """Make questions from a graph, or from invented graphs."""


# Questions from invented graphs


@app.command(epilog=f"Examples: {' · '.join(WORLDS_EXAMPLES)}")
def worlds(
    output: Annotated[Path, typer.Option("--output", "-o", help="The dataset folder to make.")],
    worlds: Annotated[int, typer.Option("--worlds", min=1, help="How many graphs.")] = 300,
    per_world: Annotated[int, typer.Option("--per-world", min=1, help="Questions of each graph, at most.")] = 60,
    seed: Annotated[int, typer.Option(help="The same seed makes the same graphs.")] = 0,
    domains: Annotated[
        str | None, typer.Option(help="Of the bank, separated by commas: film,person,place. All unless told.")
    ] = None,
    held_out: Annotated[
        float, typer.Option("--held-out", min=0, max=0.5, help="Share of the concepts kept out of the train graphs.")
    ] = 0.1,
    dev: Annotated[float, typer.Option(min=0, max=0.5, help="Share of the graphs that are for dev.")] = 0.05,
    test: Annotated[float, typer.Option(min=0, max=0.49, help="Share of the graphs that are for test.")] = 0.05,
    noise: Annotated[float, typer.Option(min=0, max=1, help="Share of questions with typos and the like.")] = 0.1,
    dated: Annotated[float, typer.Option(min=0, max=1, help="Share of relations whose facts have a time.")] = 0.0,
    language: LanguageOption = "core",
    without_labels: Annotated[
        Path | None, typer.Option("--without-labels", help="File of relation names, one a line, not to be used.")
    ] = None,
    without_graph: Annotated[
        list[str] | None,
        typer.Option("--without-graph", help="A graph or dataset whose relation names are not used; repeatable."),
    ] = None,
    without_phrasings: Annotated[
        list[str] | None,
        typer.Option(
            "--without-phrasings",
            help="A dataset, or a file of questions, whose (test) questions are not phrased alike; repeatable.",
        ),
    ] = None,
    force: ForceOption = False,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Invent graphs from the bank of relation concepts, and make questions about them.

    Each is small, with relations and a way of naming of its own, and names that nothing else has. Whole graphs go to
    train, dev or test, and some concepts come up in dev and test alone. With --without-... nothing is used that a
    graph or its test questions have, so that a score on it is zero-shot.
    """
    from kgwalk.data.folder import check_target
    from kgwalk.questions.bank import load_bank
    from kgwalk.questions.invented.concepts import Exclusions, label_keys, phrasings_of
    from kgwalk.questions.invented.dataset import InventedDataSettings, write_invented
    from kgwalk.questions.invented.graph import InventedSettings
    from kgwalk.questions.plan import MakeSettings

    check_target(output, replace=force)
    started = time.perf_counter()
    names = [*_lines(without_labels), *(name for graph in without_graph or () for name in _relations(graph))]
    questions = (question for name in without_phrasings or () for question in _questions(name))
    left_out = Exclusions(label_keys(names), phrasings_of(questions))
    chosen = None if domains is None else [name.strip() for name in domains.split(",") if name.strip()]
    concepts, gone = left_out.of(load_bank(chosen))
    settings = InventedDataSettings(
        worlds,
        per_world,
        seed,
        dev,
        test,
        held_out,
        noise,
        world=InventedSettings(dated=dated, language=language),
        questions=MakeSettings(language=language),
    )
    with progress_bar(quiet=quiet or json) as progress:
        report = write_invented(output, settings, concepts, left_out, replace_target=force, progress=progress)
    seconds = round(time.perf_counter() - started, 1)
    if json:
        print_json({"path": str(output), "seconds": seconds, "left_out": dict(gone), **_plain(report)})
        return
    _print_worlds(output, report, seconds)
    if names or left_out.phrasings:
        out.print(
            f"left out of the bank: {counted(gone['labels'], 'label')}, {counted(gone['phrasings'], 'phrasing')}, "
            f"and {counted(gone['concepts'], 'concept')} of which nothing was left"
        )


def _lines(path: Path | None) -> list[str]:
    if path is None:
        return []
    try:
        return [line.strip() for line in path.read_text("utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise KgwalkError(f"{path} cannot be read: {error}") from error


def _relations(name: str) -> Iterable[str]:
    """The relation names of a store, or of the graph of a dataset."""
    from kgwalk.cli.options import stored_graph

    graph = stored_graph(name)[1]
    return graph.store.relation.several(graph.live_relations())


def _questions(name: str) -> Iterable[Question]:
    """The questions of a file, or of the test split of a dataset."""
    from kgwalk.data.dataset import load_dataset
    from kgwalk.data.folder import read_questions

    return read_questions(name, with_graph=False) if Path(name).is_file() else load_dataset(name).questions("test")


def _plain(report: InventedDataReport) -> dict[str, Any]:
    values = {name: dict(value) if isinstance(value, Counter) else value for name, value in vars(report).items()}
    return {**values, "examples": [example(text, answers) for text, answers in report.examples[:SHOWN]]}


def _print_worlds(folder: Path, report: InventedDataReport, seconds: float) -> None:
    from rich.table import Table

    table = Table("split", "worlds", "questions", "about unseen concepts")
    for split, count in report.worlds.items():
        table.add_row(split, f"{count:,}", f"{report.questions[split]:,}", f"{report.unseen[split]:,}")
    print_table(table)
    for what, counts in (("by pattern", report.by_type), ("by hops", report.by_hops)):
        out.print(f"{what}: {', '.join(f'{name}: {count:,}' for name, count in counts.most_common())}")
    for text, answers in report.examples[:SHOWN]:
        out.print(f"  {text}  ->  {first_of(answers[:FIRST], len(answers[FIRST:]))}")
    out.print(f"{folder}: {counted(report.facts, 'fact')}, {counted(report.relations, 'relation')}, {seconds:,} s")
    thrown = ", ".join(f"{why}: {count:,}" for why, count in report.thrown.most_common(6))
    err.print(f"draws thrown away: {thrown}")


# Questions from a graph


@app.command(epilog=f"Examples: {' · '.join(MAKE_EXAMPLES)}")
def make(
    graph: Annotated[
        str, typer.Argument(metavar="GRAPH", help="A store, a dataset's folder or name, or a file of facts.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The dataset folder to make.")],
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="How many questions, at most.")] = 5000,
    seed: Annotated[int, typer.Option(help="The same seed makes the same questions.")] = 0,
    patterns: Annotated[
        str | None,
        typer.Option(
            help="Some of chain, intersection, union, difference, count, superlative, comparison, time; =SHARE. "
            "With --language full also kind, top, aggregate, group, which, against, arithmetic, verdict, negation, "
            "quantifier, zero, behind, repeated, table, dated, unanswerable."
        ),
    ] = None,
    language: LanguageOption = "core",
    hops: Annotated[str | None, typer.Option(help="Some of 1, 2, 3, 4; with shares: 1=0.5,2=0.5.")] = None,
    level: Annotated[
        int, typer.Option(min=0, max=2, help="Of wording: 0 the relations' own words, 1 natural, 2 free.")
    ] = 1,
    noise: Annotated[float, typer.Option(min=0, max=1, help="Share of words with a mistake.")] = 0.0,
    bank: Annotated[bool, typer.Option(help="Use the bank's phrasings where a relation has some.")] = True,
    literal_topics: Annotated[
        bool, typer.Option("--literal-topics", help="Ask about numbers, dates and ids, too.")
    ] = False,
    rewrite: Annotated[
        str | None, typer.Option(metavar="ENGINE[:MODEL]", help="Let a chat model say each question anew.")
    ] = None,
    on_error: OnErrorOption = BadRows.stop,
    link: Annotated[bool, typer.Option("--link", help="Link to the graph's store; else it is copied.")] = False,
    force: ForceOption = False,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Make questions from a graph alone, with exact answers, gold paths, programs, and splits that do not leak.

    Chains of relations, conditions, counts, superlatives and times are drawn in balance; what makes no good question
    is thrown away, and counted. The folder is a dataset: `kgwalk train`, `eval`, `demos` and `data check` take it.
    """
    from kgwalk.data.folder import check_target
    from kgwalk.questions.make import make_questions, split_questions, write_dataset
    from kgwalk.questions.plan import MakeSettings
    from kgwalk.questions.schema import survey, types_of
    from kgwalk.questions.wording.name_lexicon import NameLexicon
    from kgwalk.questions.wording.speaker import Wording

    check_target(output, replace=force)
    for option, text in (("--patterns", patterns), ("--hops", hops)):
        if text is not None and not shares_of(text):
            raise KgwalkError(f"{option} is empty; name some, or leave it out for all")
    chosen: dict[str, Any] = {"patterns": shares_of(patterns), "hops": _whole(shares_of(hops))}
    given = {name: value for name, value in chosen.items() if value}
    settings = MakeSettings(count=count, seed=seed, language=language, literal_topics=literal_topics, **given)
    if rewrite is not None:
        _check_engine(rewrite)
    started = time.perf_counter()
    thrown: Counter[str] = Counter()
    rewritten: Counter[str] | None = None
    with progress_bar(quiet=quiet or json) as progress:
        opened = _graph(graph, on_error, progress)
        schema = survey(opened)
        types = types_of(opened, schema) if language == "full" else None
        wording = Wording(NameLexicon(schema, bank=bank, types=types), level=level, noise=noise)
        made = make_questions(opened, wording, settings, schema=schema, thrown=thrown, progress=progress)
        if not made:
            why = "; ".join(f"{reason}: {number:,}" for reason, number in thrown.most_common(3))
            raise KgwalkError(f"no question could be made from {graph} ({why or 'it has no facts'})")
        if rewrite is not None:
            made, rewritten = _rewritten(made, rewrite, seed, progress)
    splits = split_questions(made, seed)
    write_dataset(output, splits, opened, link=link, replace=force)
    report = _report(output, splits, thrown, rewritten, time.perf_counter() - started, count)
    if json:
        print_json(report)
    else:
        _print(report)


def shares_of(text: str | None) -> dict[str, float]:
    """Names with shares, 1 unless said.

    >>> shares_of("chain=0.5, count"), shares_of(None)
    ({'chain': 0.5, 'count': 1.0}, {})
    """
    shares: dict[str, float] = {}
    for part in (text or "").split(","):
        name, _, share = (one.strip() for one in part.partition("="))
        try:
            shares |= {name: float(share or 1)} if name else {}
        except ValueError as error:
            raise KgwalkError(f"{part.strip()!r}: {share!r} is no share; write it like {name}=0.5") from error
    return shares


def _whole(shares: Mapping[str, float]) -> dict[int, float]:
    wrong = [name for name in shares if not name.isdecimal()]
    if wrong:
        raise KgwalkError(f"{wrong[0]!r} is no number of hops; write them like 1,2 or 1=0.5,2=0.5")
    return {int(name): share for name, share in shares.items()}


def _graph(name: str, on_error: BadRows, progress: Progress) -> StoredGraph:
    """A graph in a store here; a file of facts is built into the cache first."""
    from kgwalk.cli.options import stored_graph
    from kgwalk.kg.cached import file_store
    from kgwalk.kg.files import naming_read_errors
    from kgwalk.kg.store import open_graph

    with naming_read_errors(Path(name)):
        is_file = Path(name).is_file()
    if is_file:
        return open_graph(file_store(Path(name), progress, on_error=on_error.value))
    return stored_graph(name)[1]


def _check_engine(rewrite: str) -> None:
    from kgwalk.config.recipe import unknown
    from kgwalk.llm.engine import KINDS, needs_model

    kind, _, model = rewrite.partition(":")
    if kind not in KINDS:
        raise unknown("engine", kind, KINDS)
    if not model and needs_model(kind):
        raise KgwalkError(f"the engine {kind} needs the name of a model: --rewrite {kind}:MODEL")


def _rewritten(
    questions: Sequence[Question], engine_and_model: str, seed: int, progress: Progress
) -> tuple[list[Question], Counter[str]]:
    import asyncio

    from kgwalk.llm.engine import open_engine
    from kgwalk.questions.rewrite import rewrite

    kind, _, model = engine_and_model.partition(":")
    engine = open_engine(kind, model or None)
    try:
        return rewrite(questions, engine, seed=seed, progress=progress)
    finally:
        asyncio.run(engine.close())


def _report(
    folder: Path,
    splits: Mapping[str, Sequence[Question]],
    thrown: Counter[str],
    rewritten: Counter[str] | None,
    seconds: float,
    wanted: int,
) -> dict[str, Any]:
    from kgwalk.questions.make import gaps
    from kgwalk.questions.plan import SIZES, size_of

    every = [question for questions in splits.values() for question in questions]
    sizes = Counter(size_of(len(question.answers)) for question in every)
    by = {
        "pattern": dict(Counter(question.type for question in every).most_common()),
        "hops": {str(hops): count for hops, count in sorted(Counter(question.hops for question in every).items())},
        "answers": {size: sizes[size] for size in SIZES},
    }
    fewer = [f"the graph gave {len(every):,} of {wanted:,} questions wanted"] if len(every) < wanted else []
    shown = every[:SHOWN]
    return {
        "path": str(folder),
        "seconds": round(seconds, 1),
        "questions": {split: len(questions) for split, questions in splits.items()},
        "by": by,
        "thrown": dict(thrown.most_common()),
        "notes": fewer + gaps(splits),
        **({} if rewritten is None else {"rewritten": dict(rewritten.most_common())}),
        "examples": [example(one.question, one.answers) | {"type": one.type} for one in shown],
    }


def _print(report: dict[str, Any]) -> None:
    from rich.table import Table

    made = sum(report["questions"].values())
    table = Table("", "", "questions", "share")
    for what, counts in {"split": report["questions"], **report["by"]}.items():
        for at, (name, count) in enumerate(counts.items()):
            table.add_row("" if at else what, str(name), f"{count:,}", f"{count / made:.0%}", end_section=False)
        table.add_section()
    print_table(table)
    for example in report["examples"]:
        out.print(f"  {example['question']}  ->  {first_of(example['answers'], example['left_out'])}")
    for why, count in report.get("rewritten", {}).items():
        out.print(f"{why}: {counted(count, 'question')}")
    thrown = ", ".join(f"{why}: {count:,}" for why, count in report["thrown"].items())
    err.print(f"draws thrown away: {thrown or 'none'}")
    for note in report["notes"]:
        err.print(f"note: {note}")
    out.print(f"{report['path']}: {counted(made, 'question')} in {report['seconds']:,} s")


def example(question: str, answers: Sequence[str]) -> dict[str, Any]:
    """A question with its first answers, and how many more there are."""
    return {"question": question, "answers": answers[:FIRST], "left_out": len(answers[FIRST:])}
