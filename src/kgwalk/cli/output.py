"""What the command line prints: results on stdout, progress and messages on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bars
from rich.table import Table
from rich.text import Text

from kgwalk.config.runtime import visible, visible_lines, visible_message
from kgwalk.types import Progress


class PlainConsole(Console):
    """A console for text that holds names: they are data, never read as rich markup or emoji codes, never coloured by
    guess, and what would steer a terminal is shown escaped. All strings that rich prints, those in tables too, come
    through `render_str`; text with line breaks of its own is printed with `print_lines`.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(visible(text), **options)

    def print_lines(self, text: str) -> None:
        self.print(Text(visible_lines(text)))

    def print_error(self, error: Exception | str) -> None:
        self.print(Text(visible_message(f"error: {error}")))


out = PlainConsole(soft_wrap=True)
err = PlainConsole(stderr=True, soft_wrap=True)

EVERY = 30.0  # seconds between lines of progress where there is no terminal


def print_json(value: Any) -> None:
    """One JSON object on stdout."""
    _write_json(value, orjson.OPT_INDENT_2, 2)


def print_json_line(value: Any) -> None:
    """One JSON object on one line, of several."""
    _write_json(value, None, None)


def _write_json(value: Any, option: int | None, indent: int | None) -> None:
    try:
        text = orjson.dumps(value, option=option)
    except orjson.JSONEncodeError:  # Python gives an argument that is not UTF-8 with lone surrogates in it
        text = json.dumps(value, indent=indent).encode()
    sys.stdout.buffer.write(text + b"\n")
    sys.stdout.flush()


def counted(count: int, one: str, many: str = "") -> str:
    """`1 fact`, `2,000 facts`."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def first_of(names: Sequence[str], left_out: int) -> str:
    """Names of which some are left out: `France, Spain, Italy, ... (+2)`."""
    return ", ".join([*names, f"... (+{left_out:,})"] if left_out else names)


def print_table(table: Table) -> None:
    """A table on stdout; a pipe or file gets it whole, not wrapped to 80 columns."""
    console = out if out.is_terminal else PlainConsole(width=200)
    console.print(table)


def size(count: float) -> str:
    """Bytes for people: 1536 -> 1.5 KiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def parse_size(text: str) -> int:
    """`512M`, `1.5G`, `2GiB` or plain bytes."""
    units = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
    trimmed = text.strip().lower().removesuffix("ib").removesuffix("b")
    unit = trimmed[-1:] if trimmed[-1:].isalpha() else ""
    try:
        value = float(trimmed.removesuffix(unit)) * units[unit]
    except (KeyError, ValueError) as error:
        raise ValueError(f"{text!r} is not a size; write it like 512M or 2G") from error
    if value < 1 << 20:
        raise ValueError(f"{text!r} is too little to work in; give at least 1M")
    return int(value)


@contextmanager
def telling_what_is_kept(folder: Path, then: str) -> Iterator[None]:
    """On Ctrl-C, say that nothing is lost, and what the same command does `then`."""
    try:
        yield
    except KeyboardInterrupt as why:
        if folder.exists():
            err.print(f"{str(why) or 'stopped'}; what was done is kept in {folder}, and the same command {then}")
        raise


class _Rate(ProgressColumn):
    """How fast it goes, in the unit of the task."""

    def render(self, task: Task) -> Text:
        if not task.speed:
            return Text("")
        rate = f"{size(task.speed)}/s" if task.fields.get("bytes") else f"{task.speed:,.0f}/s"
        return Text(rate, style="progress.data.speed")


@contextmanager
def progress_bar(*, quiet: bool = False) -> Iterator[Progress]:
    """A bar on stderr for each thing done in turn; none where stderr is not a terminal, or with `quiet`."""
    bar = Bars(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=err,
        disable=quiet or not err.is_terminal,
    )
    tasks: dict[str, Any] = {}

    def update(what: str, done: int, total: int | None, figures: Mapping[str, float] = {}, /) -> None:
        if what not in tasks:
            tasks[what] = bar.add_task(visible(what), total=total, bytes=what.startswith("reading"))
        bar.update(tasks[what], completed=done, total=total)

    with bar:
        yield update
