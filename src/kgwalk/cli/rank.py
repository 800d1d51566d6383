"""`kgwalk rank ...`: train a ranker of candidate entities, and compare it with simpler ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kgwalk.cli.options import DatasetOption, JsonOption
from kgwalk.cli.output import counted, err, out, print_json, print_table, progress_bar

if TYPE_CHECKING:
    from kgwalk.data.dataset import Dataset
    from kgwalk.llm.embeddings import CachedEmbedder

app = typer.Typer(help="Train and compare rankers of candidate entities (KG-Reasoner).", no_args_is_help=True)


@app.command(
    epilog="Examples: kgwalk rank train --data world · kgwalk rank train --data metaqa --epochs 4 -o my-ranker · "
    "kgwalk eval kg-reasoner --data metaqa --set world.ranker=my-ranker"
)
def train(
    data: DatasetOption,
    folder: Annotated[
        Path | None,
        typer.Option("--output", "-o", "--output-dir", help="The ranker's folder (default: runs/rank-DATA)."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Learn from a seeded sample of so many questions.")] = 3000,
    dev_limit: Annotated[int, typer.Option(min=0, help="Choose the best epoch by so many dev questions.")] = 300,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the expansions.")] = 6,
    batch: Annotated[int, typer.Option(min=1, help="Expansions in one step.")] = 32,
    lr: Annotated[float, typer.Option(min=0.0, help="The learning rate at the beginning.")] = 1e-3,
    negatives: Annotated[int, typer.Option(min=1, help="Irrelevant facts of one expansion, drawn.")] = 24,
    siblings: Annotated[
        bool, typer.Option("--siblings", help="Facts of a gold fact's own relation count as irrelevant.")
    ] = False,
    inputs: Annotated[
        str, typer.Option(help="joined; paper: equations 1 to 4 and nothing else; or code: as was published.")
    ] = "joined",
    width: Annotated[int, typer.Option(min=1, help="Of the vectors that W makes.")] = 64,
    near: Annotated[int, typer.Option(min=1, help="Neighbours of a candidate that are attended to.")] = 12,
    seed: Annotated[int, typer.Option(help="Of everything that is drawn.")] = 0,
    json: JsonOption = False,
) -> None:
    """Train a ranker from a dataset's gold paths: facts on a path against facts beside it.

    The names of the graph are embedded first; that is done once for a graph, and goes on where it was stopped.
    """
    from kgwalk.config.lock import sole_writer
    from kgwalk.config.recipe import unknown
    from kgwalk.training.ranker import train_ranker
    from kgwalk.training.settings import RankSettings
    from kgwalk.walk.ranking import INPUTS

    if inputs not in INPUTS:
        raise unknown("inputs", inputs, INPUTS)

    def told(figures: dict[str, float]) -> None:
        if not json:
            scores = "  ".join(f"{name} {value:.3f}" for name, value in figures.items() if name.startswith("recall"))
            err.print(f"epoch {figures['epoch']:.0f}  loss {figures['loss']:.3f}  {scores}")

    folder = folder or Path("runs") / f"rank-{Path(data).resolve().name}"
    with sole_writer(folder), progress_bar(quiet=json) as progress:
        dataset, embedder = _opened(data, progress)
        card = train_ranker(
            dataset,
            folder,
            embedder,
            RankSettings(
                questions=limit,
                dev_questions=dev_limit,
                inputs=inputs,
                neighbours=near,
                width=width,
                negatives=negatives,
                siblings=siblings,
                epochs=epochs,
                batch=batch,
                lr=lr,
            ),
            seed=seed,
            progress=progress,
            told=told,
        )
    if json:
        print_json(card | {"folder": str(folder)})
        return
    seconds = card["seconds"]
    out.print(
        f"{counted(card['expansions'], 'expansion')} of {counted(card['questions'], 'question')}, best epoch "
        f"{card['best_epoch']} of {epochs}, {card['parameters']:,} parameters"
    )
    out.print(
        f"{seconds['all']:.0f} s, {seconds['processor']:.0f} s of the processor, {seconds['fit']:.0f} s for the fit"
    )
    out.print(f"ranker: {folder}")


@app.command(
    epilog="Examples: kgwalk rank eval --data world --ranker runs/rank-world · "
    "kgwalk rank eval --data metaqa --limit 300"
)
def eval(
    data: DatasetOption,
    ranker: Annotated[
        list[Path] | None, typer.Option("--ranker", help="A ranker's folder; may be given several times.")
    ] = None,
    split: Annotated[str, typer.Option(help="Which questions.")] = "dev",
    limit: Annotated[int | None, typer.Option(min=1, help="A seeded sample of so many questions.")] = None,
    facts: Annotated[int, typer.Option(min=1, help="At most so many facts of one relation and direction.")] = 1000,
    visited_last: Annotated[
        bool, typer.Option("--visited-last", help="Where the path has been comes last, as in a search.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Of the sample.")] = 0,
    json: JsonOption = False,
) -> None:
    """Compare rankers: recall at 1, 5 and 10 of the next gold entity, over the expansions along gold paths.

    Beside the rankers given: no ranking (the graph's order), BM25 over relation words and name, and MiniLM similarity
    of the same text with the question, also with the name of where the walk stands left out of it (trimmed).
    """
    from kgwalk.evaluation.ranking import ExpansionChoice, Trimmed, Unranked, compare_rankers
    from kgwalk.walk.ranking import Bm25Ranker, Ranker, TextRanker

    with progress_bar(quiet=json) as progress:
        dataset, embedder = _opened(data, progress)
        rankers: dict[str, Ranker] = {
            "no ranking": Unranked(),
            "BM25": Bm25Ranker(),
            "MiniLM": TextRanker(embedder),
            "MiniLM, trimmed": Trimmed(TextRanker(embedder)),
        }
        if ranker:
            from kgwalk.walk.ranker import open_ranker

            rankers |= {str(folder): open_ranker(folder, embedder) for folder in ranker}
        report = compare_rankers(dataset, rankers, ExpansionChoice(split, limit, facts, visited_last, seed), progress)
    if json:
        print_json(report)
    else:
        print_table(_table(report))
        out.print(
            f"{counted(report['n'], 'expansion')} of {counted(report['questions'], 'question')}, each with "
            f"{report['candidates']:.1f} candidates, {report['gold']:.2f} of them gold"
        )
        out.print(f"a cap of {report['facts']:,} facts a relation leaves {report['within_cap']:.1%} of the gold ones")


def _opened(data: str, progress: Any) -> tuple[Dataset, CachedEmbedder]:
    from kgwalk.data.dataset import load_dataset
    from kgwalk.kg.store import StoredGraph
    from kgwalk.llm.embeddings import CachedEmbedder, MiniLM

    dataset = load_dataset(data)
    graph = dataset.graph(progress)
    return dataset, CachedEmbedder(MiniLM(), graph.store if isinstance(graph, StoredGraph) else None)


def _table(report: dict[str, Any]) -> Any:
    from rich.table import Table

    columns = [name for name in report["rows"][0] if "@" in name]
    table = Table(title=f"{report['data']}, {report['split']}", title_justify="left")
    table.add_column("ranker")
    for column in (*columns, "ms each"):
        table.add_column(column, justify="right")
    for row in report["rows"]:
        table.add_row(row["name"], *(f"{row[column]:.3f}" for column in columns), f"{row['ms']:.1f}")
    return table
