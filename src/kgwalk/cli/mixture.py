"""The option --data of commands that take several datasets at once. Knows nothing of what they do with them."""

from __future__ import annotations

from typing import Annotated

import typer

DataOption = Annotated[
    list[str],
    typer.Option(
        "--data",
        metavar="NAME[:SHARE]",
        help="A dataset's folder, or a known name such as world; repeat to mix. NAME:0.5 is half of its "
        "questions, NAME:500 so many.",
    ),
]
