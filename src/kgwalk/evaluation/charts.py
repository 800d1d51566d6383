"""What a report is made of: charts as SVG, tables as HTML and CSV, walks to read. Nothing to install, nothing to load.

    svg = bar_chart("F1 by hops", [Bar("1 hop", 0, 0.9, 0.8, 0.95, "n 40")], ["shipped"])

A chart is 480 units wide, so that its text can be read on a phone. Its colours are attributes, for a file that stands
alone; a page overrides them by class (`s0` to `s7`, `ink`, `dim`, `grid`), for a dark screen. Runs differ by dashes and
marks too, for people who do not tell the colours apart. All text is escaped; a mark says its numbers when pointed at.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kgwalk.score.statistics import ReliabilityBin
from kgwalk.types import escaped

WIDTH = 480
COLOURS = ("#2563ae", "#c2570c", "#1b7f4d", "#7c3fa8", "#b3261e", "#0f7285", "#7a5230", "#5a6270")
DASHES = ("", "6 3", "2 3", "8 3 2 3", "4 2", "1 2", "10 4", "6 2 2 2")
MOST_POINTS = 240  # of a curve: more are not seen on a screen, and make the file large
INK, DIM, GRID = "#1c2430", "#5a6270", "#d5dae2"
_FONT = "system-ui, 'DejaVu Sans', Arial, sans-serif"
_LABEL = 24  # characters that fit beside a bar
_LEFT, _RIGHT, _TOP = 52, 14, 34
_LINES = 40  # of one table on the page; the CSV file has them all


@dataclass(frozen=True, slots=True)
class Curve:
    """The points of a run, in order; `run` is its place among the runs, which decides its colour."""

    run: int
    points: list[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Bar:
    """A value with its interval, where it has one; `note` stands at its end."""

    label: str
    run: int
    value: float
    low: float | None = None
    high: float | None = None
    note: str = ""


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers that span a range.

    >>> ticks(0, 1), ticks(3, 41), ticks(0.5, 0.5)
    ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [0.0, 10.0, 20.0, 30.0, 40.0, 50.0], [0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
    """
    if high <= low:
        low, high = (math.floor(low), math.floor(low) + 1.0)
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(size * power for size in (1, 2, 5, 10) if size * power >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(at * step, 12) for at in range(first, last + 1)]


def short_number(value: float) -> str:
    """A number as an axis shows it.

    >>> [short_number(value) for value in (0, 0.25, 1.0, 12.5, 17922.5, 2_500_000, 0.00002)]
    ['0', '0.25', '1', '12.5', '17.9k', '2.5M', '2e-05']
    """
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if unit == 'k' else size):.3g}{unit}"
    return f"{value:.4g}"


def _within(low: float, high: float) -> list[float]:
    """The two ends of an axis that is no longer than its points, and the round numbers between them.

    >>> _within(1, 41), _within(2, 2)
    ([1, 10.0, 20.0, 30.0, 41], [1.5, 2, 2.5])
    """
    if high <= low:
        return [low - 0.5, low, low + 0.5]
    room = (high - low) / 12  # nearer than that two numbers would touch
    return [low, *(tick for tick in ticks(low, high) if low + room < tick < high - room), high]


def thinned(points: Sequence[tuple[float, float]], most: int = MOST_POINTS) -> list[tuple[float, float]]:
    """At most so many points: the means of runs of points that follow each other.

    >>> thinned([(1, 0.0), (2, 1.0), (3, 4.0), (4, 6.0), (5, 7.0)], most=3)
    [(1.5, 0.5), (3.5, 5.0), (5.0, 7.0)]
    """
    if len(points) <= most:
        return list(points)
    size = math.ceil(len(points) / most)
    blocks = [points[at : at + size] for at in range(0, len(points), size)]
    return [(sum(x for x, _ in block) / len(block), sum(y for _, y in block) / len(block)) for block in blocks]


def line_chart(
    title: str,
    curves: Sequence[Curve],
    runs: Sequence[str],
    *,
    x: str = "step",
    span: Sequence[float] = (),
    height: int = 230,
) -> str:
    """Curves over a common axis, which need not begin at 0; what is in `span` lies on it too."""
    drawn = [Curve(curve.run, thinned(curve.points)) for curve in curves if curve.points]
    every = [point for curve in drawn for point in curve.points]
    if not every:
        raise ValueError(f"{title}: a chart needs a point")
    x_ticks = _within(min(at for at, _ in every), max(at for at, _ in every))
    values = [*span, *(value for _, value in every)]
    y_ticks = ticks(min(values), max(values), 4)
    plane = _Plane(x_ticks, y_ticks, height)
    parts = [*plane.axes(x)]
    for curve in drawn:
        places = [plane.at(*point) for point in curve.points]
        path = " ".join(f"{left:.1f},{top:.1f}" for left, top in places)
        parts.append(
            f'<polyline points="{path}" fill="none" stroke-width="2" {_stroke(curve.run)} {_dash(curve.run)}/>'
        )
        if len(places) <= 30:
            parts += [
                _dot(left, top, curve.run, f"{runs[curve.run]}: {short_number(value)} at {x} {at:g}")
                for (left, top), (at, value) in zip(places, curve.points, strict=True)
            ]
    return _svg(title, parts, height, _legend([curve.run for curve in drawn], runs))


def bar_chart(title: str, bars: Sequence[Bar], runs: Sequence[str], *, most: float | None = 1.0) -> str:
    """Bars from left to right, a line each, with whiskers for the intervals. `most` is the end of the axis."""
    if not bars:
        raise ValueError(f"{title}: a chart needs a bar")
    several = len({bar.run for bar in bars}) > 1
    end = most or ticks(0, max(max(bar.value, bar.high or 0) for bar in bars), 4)[-1] or 1.0
    left, right = 158, WIDTH - 66
    row = 14 if several else 20
    parts, top, before = [], _TOP, None
    for bar in bars:
        new = bar.label != before
        top += 6 if new else 0
        middle = top + row / 2
        if new:
            parts.append(_text(left - 8, middle + 4, _cut(bar.label), "end", whole=bar.label))
        parts.append(_bar(bar, left, right, middle, row, end, runs))
        top, before = top + row, bar.label
    grid = []
    for tick in ticks(0, end, 4):
        at = left + (right - left) * tick / end
        grid.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{_TOP}" y2="{top + 6}" class="grid" stroke="{GRID}"/>')
        grid.append(_text(at, top + 20, short_number(tick), "middle", dim=True))
    return _svg(title, grid + parts, int(top + 30), _legend([bar.run for bar in bars], runs) if several else [])


def _bar(bar: Bar, left: float, right: float, middle: float, row: float, end: float, runs: Sequence[str]) -> str:
    def at(value: float) -> float:
        return left + (right - left) * min(max(value / end, 0), 1)

    thick = row - 4
    span = "" if bar.low is None or bar.high is None else f", 95% interval {bar.low:.3f} to {bar.high:.3f}"
    said = f"{bar.label}, {runs[bar.run]}: {bar.value:.3f}{span}{f', {bar.note}' if bar.note else ''}"
    parts = [
        f'<g><title>{escaped(said)}</title><rect x="{left}" y="{middle - thick / 2:.1f}" '
        f'width="{max(at(bar.value) - left, 1):.1f}" height="{thick:g}" rx="2" {_fill(bar.run)} fill-opacity="0.75"/>'
    ]
    last = at(bar.value)
    if bar.low is not None and bar.high is not None:
        low, last = at(bar.low), max(at(bar.high), last)
        ends = f"M{low:.1f},{middle - 4:.1f}v8M{low:.1f},{middle:.1f}H{at(bar.high):.1f}m0,-4v8"
        parts.append(f'<path d="{ends}" class="ink-line" stroke="{INK}" stroke-width="1.5" fill="none"/>')
    if bar.note:
        parts.append(_text(right + 8, middle + 4, _cut(bar.note, 9), "start", dim=True))
    return "".join([*parts, "</g>"])


def reliability_chart(title: str, bins: Sequence[tuple[int, Sequence[ReliabilityBin]]], runs: Sequence[str]) -> str:
    """How often answers of a confidence are right: on the diagonal it promises what it holds. A dot's size is its
    share of the answers."""
    height = 330
    plane = _Plane(ticks(0, 1), ticks(0, 1), height)
    (x1, y1), (x2, y2) = plane.at(0, 0), plane.at(1, 1)
    parts = [*plane.axes("confidence")]
    parts.append(
        f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" class="dim-line" stroke="{DIM}" stroke-dasharray="4 4"/>'
    )
    for run, found in bins:
        total = sum(one["n"] for one in found) or 1
        path = []
        for one in found:
            left, top = plane.at(one["chance"], one["right"])
            low, high = (plane.at(0, value)[1] for value in one["interval"])
            parts.append(f'<path d="M{left:.1f},{low:.1f}V{high:.1f}" stroke-width="1.5" {_stroke(run)}/>')
            said = f"{runs[run]}: {one['n']} answers at {one['chance']:.2f}, {one['right']:.0%} right"
            parts.append(_dot(left, top, run, said, 3 + 7 * math.sqrt(one["n"] / total)))
            path.append(f"{left:.1f},{top:.1f}")
        parts.append(f'<polyline points="{" ".join(path)}" fill="none" {_stroke(run)} {_dash(run)}/>')
    return _svg(title, parts, height, _legend([run for run, _ in bins], runs))


def to_png(svg: str) -> bytes:
    """The chart as a PNG, twice its size. Needs the extra `png`."""
    import resvg_py

    return bytes(resvg_py.svg_to_bytes(svg_string=svg, zoom=2, background="#ffffff"))


# The parts of a chart


class _Plane:
    """Numbers to places on the picture."""

    def __init__(self, x_ticks: list[float], y_ticks: list[float], height: int) -> None:
        self.x_ticks, self.y_ticks = x_ticks, y_ticks
        self.right, self.bottom = WIDTH - _RIGHT, height - 38

    def at(self, x: float, y: float) -> tuple[float, float]:
        across = (x - self.x_ticks[0]) / (self.x_ticks[-1] - self.x_ticks[0])
        up = (y - self.y_ticks[0]) / (self.y_ticks[-1] - self.y_ticks[0])
        return _LEFT + across * (self.right - _LEFT), self.bottom - up * (self.bottom - _TOP)

    def axes(self, x: str) -> Iterable[str]:
        for tick in self.y_ticks:
            top = self.at(self.x_ticks[0], tick)[1]
            yield f'<line x1="{_LEFT}" x2="{self.right}" y1="{top:.1f}" y2="{top:.1f}" class="grid" stroke="{GRID}"/>'
            yield _text(_LEFT - 7, top + 4, short_number(tick), "end", dim=True)
        for tick in self.x_ticks:
            yield _text(self.at(tick, self.y_ticks[0])[0], self.bottom + 16, short_number(tick), "middle", dim=True)
        yield _text((_LEFT + self.right) / 2, self.bottom + 32, x, "middle", dim=True)


def _svg(title: str, parts: Iterable[str], height: int, legend: Sequence[str]) -> str:
    """The whole picture; the legend stands below, two runs a line."""
    below = 18 * math.ceil(len(legend) / 2)
    keys = []
    for at, key in enumerate(legend):
        keys.append(f'<g transform="translate({16 + at % 2 * WIDTH // 2},{height + 12 + at // 2 * 18})">{key}</g>')
    whole = height + below + (6 if below else 0)
    name = f'<text x="14" y="20" class="ink" fill="{INK}" font-weight="600" font-size="14">{escaped(title)}</text>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {whole}" width="{WIDTH}" height="{whole}" '
        f'font-family="{_FONT}" font-size="12" role="img" aria-label="{escaped(title)}">'
        f"{name}{''.join(parts)}{''.join(keys)}</svg>"
    )


def _legend(drawn: Sequence[int], runs: Sequence[str]) -> list[str]:
    """A key for each run; none where there is one run in all."""
    if len(runs) < 2:
        return []
    return [
        f'<line x1="0" x2="22" y1="0" y2="0" stroke-width="3" {_stroke(run)} {_dash(run)}/>'
        + _text(28, 4, _cut(runs[run], 30), "start", whole=runs[run])
        for run in dict.fromkeys(drawn)
    ]


def _text(x: float, y: float, text: str, anchor: str, *, dim: bool = False, whole: str = "") -> str:
    name, colour = ("dim", DIM) if dim else ("ink", INK)
    title = f"<title>{escaped(whole)}</title>" if whole and whole != text else ""
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {place} class="{name}" fill="{colour}">{title}{escaped(text)}</text>'


def _dot(left: float, top: float, run: int, said: str, size: float = 2.5) -> str:
    round_ = f'cx="{left:.1f}" cy="{top:.1f}" r="{size:.1f}"'
    return f'<circle {round_} {_fill(run)} fill-opacity="0.8"><title>{escaped(said)}</title></circle>'


def _cut(text: str, most: int = _LABEL) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _stroke(run: int) -> str:
    at = run % len(COLOURS)
    return f'class="s{at}" stroke="{COLOURS[at]}"'


def _fill(run: int) -> str:
    at = run % len(COLOURS)
    return f'class="f{at}" fill="{COLOURS[at]}"'


def _dash(run: int) -> str:
    dash = DASHES[run % len(DASHES)]
    return f'stroke-dasharray="{dash}"' if dash else ""


# Sections, tables and walks


class Estimate(NamedTuple):
    """A mean and its 95% interval; three columns of a CSV file."""

    value: float
    low: float
    high: float


Cell = str | int | float | Estimate | None


@dataclass(frozen=True)
class ReportTable:
    name: str  # of its CSV file
    title: str
    columns: list[str]
    rows: list[list[Cell]]
    on_page: bool = True  # some are for the CSV file alone: every step of a training
    folded: bool = False  # a figure shows it; the numbers open on a click


@dataclass(frozen=True)
class ReportFigure:
    name: str  # of its SVG file
    svg: str


@dataclass(frozen=True)
class ReportWalk:
    """A walk to read; `about` is its line while it is folded."""

    right: bool
    about: str
    html: str


@dataclass
class Section:
    title: str
    note: str = ""
    figures: list[ReportFigure] = field(default_factory=list)
    tables: list[ReportTable] = field(default_factory=list)
    walks: list[ReportWalk] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.figures or self.tables or self.walks or self.note)


def slug(text: str) -> str:
    """Text as a file's name or an anchor: no path leads out of a folder.

    >>> slug("By ../../type"), slug("<img>")
    ('by-type', 'img')
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:80] or "part"


def section_html(section: Section) -> str:
    name = slug(section.title)
    parts = [f'<section aria-labelledby="{name}">\n<h2 id="{name}">{escaped(section.title)}</h2>']
    if section.note:
        parts.append(f'<p class="note">{escaped(section.note)}</p>')
    if section.figures:
        figures = "\n".join(f"<figure>{figure.svg}</figure>" for figure in section.figures)
        parts.append(f'<div class="charts">\n{figures}\n</div>')
    parts += [_table_html(table) for table in section.tables if table.on_page]
    for walk in section.walks:
        kind, word = ("right", "good") if walk.right else ("wrong", "bad")
        head = f'<summary><b class="{word}">{kind}</b> {escaped(walk.about)}</summary>'
        parts.append(f'<details class="episode {kind}">{head}{walk.html}</details>')
    return "\n".join([*parts, "</section>\n"])


def _table_html(table: ReportTable) -> str:
    numbers = [
        any(isinstance(row[at], int | float | Estimate) for row in table.rows) for at in range(len(table.columns))
    ]
    kinds = ["n" if number else "t" for number in numbers]
    head = "".join(
        f'<th scope="col" class="{kind}">{escaped(name)}</th>' for name, kind in zip(table.columns, kinds, strict=True)
    )
    lines = [
        "<tr>"
        + "".join(f'<td class="{kind}">{_shown(cell)}</td>' for cell, kind in zip(row, kinds, strict=True))
        + "</tr>"
        for row in table.rows[:_LINES]
    ]
    more = len(table.rows) - _LINES
    note = f'<p class="note">and {more:,} lines more; --csv writes them all</p>' if more > 0 else ""
    title = escaped(table.title)
    inside = f"<table><caption>{title}</caption><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
    whole = f'<div class="scroll" role="region" tabindex="0" aria-label="{title}">{inside}</div>{note}'
    return f"<details><summary>{title}: the numbers</summary>{whole}</details>" if table.folded else whole


def _columns(table: ReportTable) -> list[list[Cell]]:
    return [[row[at] for row in table.rows] for at in range(len(table.columns))]


def _shown(cell: Cell) -> str:
    if isinstance(cell, Estimate):
        return f"{_number(cell.value)} <small>{_number(cell.low)} to {_number(cell.high)}</small>"
    if cell is None:
        return ""
    return escaped(cell).replace("_", "_<wbr>") if isinstance(cell, str) else _number(cell)


def _number(value: float) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.1f}" if abs(value) >= 10 else f"{value:.3f}"


def csv_text(table: ReportTable) -> str:
    """A table as CSV, whole: an interval is three columns. Text that a spreadsheet would compute begins with '.

    >>> print(csv_text(ReportTable("t", "T", ["name", "f1"], [["=1+1", Estimate(0.5, 0.25, 0.75)], ["b", None]])))
    name,f1,f1 low,f1 high
    '=1+1,0.5,0.25,0.75
    b,,,
    <BLANKLINE>
    """
    wide = [any(isinstance(cell, Estimate) for cell in cells) for cells in _columns(table)]
    file = io.StringIO()
    out = csv.writer(file, lineterminator="\n")
    names = (
        [name, f"{name} low", f"{name} high"] if three else [name]
        for name, three in zip(table.columns, wide, strict=True)
    )
    out.writerow([_plain(name) for several in names for name in several])
    for row in table.rows:
        cells: list[Any] = []
        for cell, three in zip(row, wide, strict=True):
            one = _plain(cell) if isinstance(cell, str) else cell
            cells += list(cell) if isinstance(cell, Estimate) else [one, None, None] if three else [one]
        out.writerow(cells)
    return file.getvalue()


def _plain(text: str) -> str:
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text
