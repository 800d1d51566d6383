"""The requests and replies of the /kg routes as exact schemas, for OpenAPI and for tests.

Imported only when somebody asks for the description: the routes check by hand (actions.py, query.py), as that
is many times faster. Knows nothing of how a reply is made.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, RootModel

from kgwalk.serve.actions import MAX_SUGGEST
from kgwalk.serve.engine import EngineState
from kgwalk.serve.query import MAX_OFFSET, MAX_PAGE, PAGE


class Exact(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class View(Exact):
    graph: str | None = Field(None, description="which graph; may be left out where one is served")
    question: str | None = Field(None, description="id of a question: only the facts of its subgraph")
    start: str | None = Field(None, description="only facts from this year, month or day on")
    end: str | None = Field(None, description="only facts up to this year, month or day")


class ActionItem(View):
    action: str = Field(description="get_head_relations, get_tail_relations, get_head_entities or get_tail_entities")
    entity: str | None = None
    relation: str | None = Field(None, description="for the two actions that list entities")
    limit: int | None = Field(None, ge=0, description="most names to list; the server has a cap of its own")
    format: Literal["flat", "hierarchical"] | None = Field(None, description="how `text` lists relations")
    suggest: int | None = Field(
        None,
        ge=0,
        le=MAX_SUGGEST,
        description="so many nearest names with an unknown one; takes milliseconds",
    )


class ActionBatch(Exact):
    actions: list[ActionItem]


class ActionFound(Exact):
    ok: Literal[True]
    items: list[str]
    total: int = Field(description="how many there are")
    left_out: int = Field(description="how many of them are not in `items`")
    text: str = Field(description="what a model reads")
    times: list[list[str]] | None = Field(None, description="dates for each item, where the graph has dates")


class ActionErrorBody(Exact):
    kind: str = Field(description="KG-R1's code, or BAD_REQUEST, UNKNOWN_GRAPH, TIME_LIMIT, GRAPH_FAILED")
    title: str
    message: str
    nearest: list[str] | None = None


class ActionFailed(Exact):
    ok: Literal[False]
    error: ActionErrorBody


class ActionResults(Exact):
    results: list[ActionFound | ActionFailed]


class Contains(View):
    op: Literal["contains"]
    entity: str


class HasRelation(View):
    op: Literal["has_relation"]
    relation: str


class Relations(View):
    op: Literal["relations"]
    entity: str
    out: bool | None = Field(None, description="relations that leave the entity (true, the default) or arrive")


class Paged(View):
    limit: int | None = Field(None, ge=0, le=MAX_PAGE, description=f"size of the page; {PAGE} unless given")
    offset: int | None = Field(None, ge=0, le=MAX_OFFSET)


class NeighborsOf(Paged):
    op: Literal["neighbors"]
    entity: str
    relation: str
    out: bool | None = None


class Match(Paged):
    op: Literal["match"]
    head: str | None = None
    relation: str | None = None
    tail: str | None = None


class Find(View):
    op: Literal["find", "find_relation"]
    text: str
    k: int | None = Field(None, ge=0, le=MAX_PAGE)


QueryItem = Annotated[Contains | HasRelation | Relations | NeighborsOf | Match | Find, Field(discriminator="op")]


class QueryBatch(Exact):
    queries: list[QueryItem]


class NeighborNames(Exact):
    names: list[str]
    total: int
    times: list[list[str]] | None


class FoundName(Exact):
    name: str
    score: float
    how: Literal["exact", "normalised", "fuzzy"]
    id: str | None


class Fact(RootModel[Annotated[list[str], Field(min_length=4, max_length=4)]]):
    """[head, relation, tail, time]; time is "" for a fact without a date."""


class QueryAnswer(Exact):
    ok: Literal[True]
    value: bool | list[str] | NeighborNames | list[Fact] | list[FoundName]
    more: bool | None = Field(None, description="of neighbors and match: whether another page follows")


class QueryErrorBody(Exact):
    kind: Literal[
        "unknown_entity",
        "unknown_relation",
        "unknown_question",
        "unknown_graph",
        "bad_request",
        "time_limit",
        "graph_failed",
    ]
    message: str
    name: str | None = None
    nearest: list[str] | None = None


class QueryFailed(Exact):
    ok: Literal[False]
    error: QueryErrorBody


class QueryResults(Exact):
    results: list[QueryAnswer | QueryFailed]


class GraphEntry(Exact):
    name: str
    info: dict[str, Any]


class GraphList(Exact):
    graphs: list[GraphEntry]


class Health(Exact):
    status: Literal["ok"]
    version: str
    graphs: int
    model: EngineState | None = Field(description="of the language model; null where there is none")
    under_way: int = Field(description="questions that are answered now")
    waiting: int = Field(description="questions that wait for their turn")


class RequestErrorBody(Exact):
    kind: str
    message: str


class RequestError(Exact):
    error: RequestErrorBody
