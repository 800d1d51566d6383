"""What the routes of runs answer with, around the shapes that `kgwalk.evaluation` gives.

Apart from the questions they are asked (run_queries.py), since importing `kgwalk.evaluation` takes long.
"""

# Without `from __future__ import annotations`: only then does a TypedDict know which of its fields are required.
from typing import Annotated, Any, TypedDict

from kgwalk.evaluation.recorded_walks import ShownWalk
from kgwalk.evaluation.runs import RunAbout, RunSummary
from kgwalk.evaluation.step_curves import StepPoints
from kgwalk.serve.shapes import About


class RunList(TypedDict):
    """The runs below the folder of `--runs`; those inside a run come after it."""

    folder: Annotated[str, About("the folder's own name; where it lies is not told")]
    runs: list[RunSummary]


class WalkList(TypedDict):
    name: str
    total: Annotated[int, About("walks read so far")]
    found: Annotated[int, About("how many of them the filters take")]
    offset: int
    read: Annotated[float, About("share of the file that was read; ask again while it is below 1")]
    steps: Annotated[list[int], About("the steps that have walks")]
    counts: Annotated[
        dict[str, dict[str, int]],
        About("marks to filter by, and how many walks have each; of the step, if one is given"),
    ]
    walks: list[ShownWalk]


class SettingDifference(TypedDict):
    key: str
    a: Any
    b: Any


class PairedMetric(TypedDict):
    n: int
    first: float
    second: float
    difference: float
    interval: Annotated[list[float], About("95%, of the difference")]
    p: Annotated[float, About("how likely so large a difference is by chance")]


class ChangedQuestion(TypedDict):
    number: int
    id: str
    question: str
    f1: list[float]


class PairedRuns(TypedDict):
    """As `kgwalk compare --json` has it, with the largest changes alone."""

    n: int
    left_out: list[int]
    metrics: dict[str, PairedMetric]
    gained: list[ChangedQuestion]
    lost: list[ChangedQuestion]
    gained_count: int
    lost_count: int


class RunComparison(TypedDict):
    a: RunSummary
    b: RunSummary
    evaluated: Annotated[list[str | None], About("the finished evaluation of each, by name: what is paired")]
    differing: Annotated[list[SettingDifference], About("settings that are not the same")]
    paired: PairedRuns | None
    why: Annotated[str | None, About("why they cannot be paired")]


class RunFigure(TypedDict):
    name: str
    svg: str


class FigureSection(TypedDict):
    title: str
    note: str
    figures: list[RunFigure]


class FigureList(TypedDict):
    """The figures of `kgwalk report` of one evaluation, or of two in the same charts."""

    sections: list[FigureSection]


REPLIES: dict[str, tuple[type, str]] = {  # by path: the shape, and what is said of the route
    "/v1/runs": (RunList, "The run folders below the folder of `--runs`, and how far each is."),
    "/v1/runs/run": (RunAbout, "A run: its stages, its settings as resolved, a fit's progress, an evaluation's means."),
    "/v1/runs/metrics": (
        StepPoints,
        "The metrics of a stage as curves, thinned so that no extreme is lost; with `since`, only what is new.",
    ),
    "/v1/runs/walks": (
        WalkList,
        "Walks of a training, with reward and advantage on each turn, or of an evaluation; a page of those that the "
        "filters take.",
    ),
    "/v1/runs/compare": (
        RunComparison,
        "Two runs: the settings that differ, and their evaluations paired question by question.",
    ),
    "/v1/runs/figures": (FigureList, "The figures of an evaluation, or of two side by side, as SVG."),
}
TEXTS = {"/v1/runs/report": ("text/html", "What `kgwalk report` writes: one HTML file that loads nothing.")}
