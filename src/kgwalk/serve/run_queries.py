"""What the routes of runs are asked: the fields after the "?". What they answer with is in run_replies.py."""

# Without `from __future__ import annotations`: only then does a TypedDict know which of its fields are required.
from typing import Annotated, Literal, NotRequired, TypedDict

from kgwalk.serve.shapes import MAX_OFFSET, About

LONGEST_NAME = 1000
MOST_POINTS, POINTS = 4000, 400  # of a curve
MOST_WALKS, WALKS = 50, 10  # in a page

RunName = Annotated[str, About("a run, as /v1/runs names it", least=1, most=LONGEST_NAME)]
Mark = Annotated[str | None, About("only walks with this mark, as `counts` lists them", most=LONGEST_NAME)]


class RunQuery(TypedDict):
    name: RunName


class MetricsQuery(TypedDict):
    name: RunName
    stage: NotRequired[Annotated[Literal["sft", "grpo"] | None, About("the last that has begun unless given")]]
    since: NotRequired[Annotated[str | None, About("`next` of an earlier reply: only what came after it", most=100)]]
    most: NotRequired[
        Annotated[
            int | None,
            About(f"points a curve ({POINTS}); of more, those that are highest and lowest", least=10, most=MOST_POINTS),
        ]
    ]
    curves: NotRequired[Annotated[str | None, About("names joined by commas, of those in `names`", most=2000)]]


class WalksQuery(TypedDict):
    name: RunName
    show: NotRequired[
        Annotated[
            Literal["all", "wrong", "right", "malformed", "failed_call", "no_answer"] | None, About("which walks; all")
        ]
    ]
    step: NotRequired[Annotated[int | None, About("only walks of this step of training")]]
    number: NotRequired[Annotated[int | None, About("only the question at this place of its split")]]
    hops: NotRequired[Mark]
    kind: NotRequired[Mark]
    type: NotRequired[Mark]
    error: NotRequired[Mark]
    text: NotRequired[Annotated[str | None, About("only questions that have this in their text or id", most=500)]]
    order: NotRequired[Annotated[Literal["first", "last"] | None, About("the earliest walks first, or the latest")]]
    offset: NotRequired[Annotated[int | None, About(least=0, most=MAX_OFFSET)]]
    limit: NotRequired[Annotated[int | None, About(f"walks in the reply ({WALKS})", least=0, most=MOST_WALKS)]]


class CompareQuery(TypedDict):
    a: RunName
    b: RunName


class BesideQuery(TypedDict):
    name: RunName
    beside: NotRequired[Annotated[str | None, About("another run to stand beside it", least=1, most=LONGEST_NAME)]]


QUERIES: dict[str, type] = {
    "/v1/runs/run": RunQuery,
    "/v1/runs/metrics": MetricsQuery,
    "/v1/runs/walks": WalksQuery,
    "/v1/runs/compare": CompareQuery,
    "/v1/runs/figures": BesideQuery,
    "/v1/runs/report": BesideQuery,
}
