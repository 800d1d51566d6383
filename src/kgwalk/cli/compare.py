"""`kgwalk compare`, `kgwalk report` and `kgwalk calibrate`: evaluations paired, runs as a page, confidence."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kgwalk.cli.options import ForceOption, JsonOption
from kgwalk.cli.output import counted, out, print_json, print_table, size
from kgwalk.types import KgwalkError

if TYPE_CHECKING:
    from kgwalk.score.statistics import CalibrationSpread

EXAMPLES = ("kgwalk compare runs/eval-kg-r1-metaqa-test runs/eval-kgwalk-metaqa-test",)
REPORT_EXAMPLES = (
    "kgwalk report runs/eval-kgwalk-world-test",
    "kgwalk report runs/eval-kg-r1-metaqa-test runs/eval-kgwalk-metaqa-test -o compared.html",
    "kgwalk report runs/kgwalk-world -o training.html --svg figures --csv tables",
)
CALIBRATE_EXAMPLES = (
    "kgwalk calibrate runs/eval-kgwalk-metaqa-dev runs/eval-kgwalk-mine-dev",
    "kgwalk calibrate runs/eval-* --adapter my.kg.agent",
)


def compare(
    first: Annotated[Path, typer.Argument(help="An evaluation's folder.")],
    second: Annotated[Path, typer.Argument(help="Another of the same data and split.")],
    examples: Annotated[int, typer.Option("-n", min=0, help="How many changed questions to show each way.")] = 5,
    json: JsonOption = False,
) -> None:
    """Compare two evaluations question by question: the difference, its 95% interval, and how likely by chance."""
    from rich.table import Table

    from kgwalk.evaluation.report import compare as compared

    found = compared(first, second)
    if json:
        print_json(found)
        return
    out.print(f"first:  {first}")
    out.print(f"second: {second}")
    table = Table(title=f"{counted(found['n'], 'question')} in both", title_justify="left")
    for column in ("metric", "first", "second", "difference", "95% interval", "p"):
        table.add_column(column, justify="left" if column == "metric" else "right")
    for name, row in found["metrics"].items():
        low, high = row["interval"]
        table.add_row(
            name if row["n"] == found["n"] else f"{name} (of {row['n']:,})",
            f"{row['first']:,.3f}",
            f"{row['second']:,.3f}",
            f"{row['difference']:+,.3f}",
            f"{low:+.3f} to {high:+.3f}",
            f"{row['p']:.4f}",
        )
    print_table(table)
    for title in ("gained", "lost"):
        _examples(title, found[title], examples)
    if any(found["left_out"]):
        out.print(
            f"not in both and left out: {found['left_out'][0]:,} of the first, {found['left_out'][1]:,} of the second"
        )


def _examples(title: str, rows: list[dict[str, Any]], most: int) -> None:
    out.print(f"{title}: {counted(len(rows), 'question')} by F1")
    for row in rows[:most]:
        before, after = row["f1"]
        out.print(f"  {before:.2f} -> {after:.2f}  {row['id']}  {row['question']}")


def report(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Folders of `kgwalk eval`, `kgwalk train` or `kgwalk fit`.")
    ],
    file: Annotated[Path, typer.Option("--output", "-o", help="The HTML file.")] = Path("report.html"),
    svg: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Write each figure here as SVG too.")] = None,
    png: Annotated[Path | None, typer.Option(metavar="FOLDER", help="And as PNG (needs the extra `png`).")] = None,
    csv: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Write each table here as CSV too.")] = None,
    episodes: Annotated[int, typer.Option(min=0, help="How many walks to show, of all runs together.")] = 12,
    force: ForceOption = False,
    json: JsonOption = False,
) -> None:
    """Write runs as one HTML file: scores with intervals, groups, calibration, errors, curves, cost, and walks to read.

    The file loads nothing: it opens from disk, on a phone, in light and dark. Several evaluations stand side by side,
    each paired with the first. A report that is there already is written anew; any other file only with --force.
    """
    from kgwalk.evaluation.html_report import make_report, write_report

    written = write_report(make_report(runs, episodes=episodes), file, svg=svg, png=png, csv=csv, force=force)
    if json:
        print_json(written)
        return
    out.print(f"{file}: {counted(len(written['runs']), 'run')}, {size(written['bytes'])}")
    for kind, folder in (("svg", svg), ("png", png), ("csv", csv)):
        if folder is not None:
            out.print(f"{folder}: {counted(len(written[kind]), 'file')}")


def calibrate(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of finished evaluations of the agent.")],
    adapter: Annotated[
        str | None, typer.Option(help="Whose confidence it is: a folder (default: the one that was evaluated).")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Fit and measure; write nothing.")] = False,
    json: JsonOption = False,
) -> None:
    """Fit how sure an agent may be of an answer, from evaluations of it, and keep it in the adapter's folder.

    Evaluate the agent on graphs that it was not trained on, with --link, so that its mistakes are those of `kgwalk
    ask`; never on test questions. Each graph is left out in turn, and how right the confidence is on those left out
    is told. `kgwalk ask`, `kgwalk serve` and `kgwalk eval` then give this probability as the confidence.
    """
    from kgwalk.cli.eval import told
    from kgwalk.config.run_folder import open_run
    from kgwalk.evaluation.report import calibrate as calibrated
    from kgwalk.walk.confidence import write_confidence
    from kgwalk.walk.policy import asked_for

    evaluated = dict.fromkeys(open_run(run).about["settings"].get("adapter") for run in runs)
    if adapter is None and (len(evaluated) > 1 or None in evaluated):
        several = ", ".join(str(one) for one in evaluated)
        raise KgwalkError(f"the evaluations are of the adapters {several}; say with --adapter whose confidence it is")
    folder = asked_for(adapter) if adapter is not None else Path(str(next(iter(evaluated))))
    found = calibrated(runs)
    written = None if dry_run else write_confidence(folder, found.model)
    if json:
        whole = {"held_out": found.held_out, "spread": found.spread, "likelihood": found.likelihood}
        figures = {**whole, "by_graph": found.by_graph}
        print_json({**figures, "model": found.model.as_json(), "file": None if written is None else str(written)})
        return
    out.print(f"fitted, on graphs left out: {told(found.held_out)}")
    out.print(f"  {_spread(found.spread)}")
    out.print(f"the likelihood alone:       {told(found.likelihood)}")
    for graph, one in found.by_graph.items():
        out.print(f"  {graph}: {told(one)}")
    out.print("nothing is written" if written is None else f"kept in {written}")


def _spread(found: CalibrationSpread) -> str:
    """
    >>> _spread({"ece": [0.03, 0.09], "auroc": [0.85, 0.92], "perfect_ece": 0.047})
    '95% intervals, graphs resampled: ECE 0.030 to 0.090, AUROC 0.850 to 0.920; a perfect one had an ECE of 0.047'
    """
    order = "" if found["auroc"] is None else ", AUROC {:.3f} to {:.3f}".format(*found["auroc"])
    error = "ECE {:.3f} to {:.3f}".format(*found["ece"])
    perfect = f"a perfect one had an ECE of {found['perfect_ece']:.3f}"
    return f"95% intervals, graphs resampled: {error}{order}; {perfect}"
