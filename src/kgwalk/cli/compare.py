"""`kgwalk compare`: two evaluations of the same questions, paired."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from kgwalk.cli.options import JsonOption
from kgwalk.cli.output import counted, out, print_json, print_table

EXAMPLES = ("kgwalk compare runs/eval-kg-r1-metaqa-test runs/eval-kgwalk-metaqa-test",)


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
