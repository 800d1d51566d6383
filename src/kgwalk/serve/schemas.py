"""The requests and replies of the /kg routes as exact schemas, for OpenAPI and for tests.

Imported only when somebody asks for the description: the routes check by hand (actions.py, query.py), as that
is many times faster. Knows nothing of how a reply is made.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, RootModel

from kgwalk.serve.agent import MOST_RUNS, MOST_TOPICS, EngineState
from kgwalk.serve.graph_routes import MAX_OFFSET, MAX_PAGE, MAX_SUGGEST, PAGE


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


# ----------------------------------------------------------------------------------------------------
# The requests and replies of the /v1 routes as schemas, for OpenAPI and for tests.
#
# Imported only when somebody asks for the description. The routes check by hand (agent.py, chat.py).


StopWord = Literal["answered", "turns", "tokens", "time"]
Topics = Annotated[list[str], Field(max_length=MOST_TOPICS)]


class AskBody(Exact):
    question: str
    graph: str | None = Field(None, description="which graph; may be left out where one is served")
    topics: Topics | None = Field(None, description="entities to start from; else found in the question")
    recipe: str | None = Field(None, description="how to walk; a bundled recipe")
    runs: int | None = Field(None, ge=1, le=MOST_RUNS, description="walk so often, and unite the answers")


class EvidenceFact(RootModel[Annotated[list[str], Field(min_length=3, max_length=3)]]):
    """[head, relation, tail]"""


class TokenCounts(Exact):
    generated: int
    prompt: int = Field(description="all that the model was told")
    total: int


class MentionBody(Exact):
    text: str
    start: int
    end: int
    candidates: list[str] = Field(description="entities that may be meant; the first was chosen")


class AskReply(Exact):
    answers: list[str]
    evidence: dict[str, list[EvidenceFact]] = Field(description="for each answer a path of facts from a topic")
    topics: list[str]
    turns: int
    tokens: TokenCounts
    seconds: float
    stop: StopWord
    note: str | None = Field(description="a warning where the model was not sure of its walk")
    confidence: float | None = Field(None, description="how likely the model found its walk; see `kgwalk ask`")
    votes: dict[str, int] | None = Field(None, description="of several runs: how many gave the answer")
    mentions: list[MentionBody] | None = Field(None, description="where the question may mean other entities")


class ChatMessage(BaseModel):
    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[dict[str, Any]]


class ChatBody(BaseModel):
    """OpenAI's other fields are passed over. `graph`, `topics` and `runs` are for the agent."""

    model: str = Field(description="kgwalk or kgwalk/RECIPE for the agent; the language model's own name for that")
    messages: Annotated[list[ChatMessage], Field(min_length=1)]
    stream: bool | None = Field(None, description="server-sent events: the turns of the walk, then the answer")
    stream_options: dict[str, Any] | None = None
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, ge=0, le=1)
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    stop: str | list[str] | None = None
    seed: int | None = None
    graph: str | None = None
    topics: Topics | None = None
    runs: int | None = Field(None, ge=1, le=MOST_RUNS)


class ChatAbout(Exact):
    answers: list[str]
    evidence: dict[str, list[EvidenceFact]]
    topics: list[str]
    stop: StopWord
    note: str | None = Field(description="a warning where the model was not sure of its walk")
    confidence: float | None = Field(None, description="how likely the model found its walk")


class TurnAbout(Exact):
    run: int
    turn: int
    text: str = Field(description="what the model wrote")
    observation: str = Field(description="what it was told")
    ok: bool


class ChatSaid(Exact):
    role: Literal["assistant"]
    content: str = Field(description="the agent's answers joined by commas; `kgwalk` has them apart")
    kgwalk: ChatAbout | None = None


class ChatChoice(Exact):
    index: Literal[0]
    message: ChatSaid
    finish_reason: Literal["stop", "length"]
    stop_reason: str | None = Field(description="the stop text that was met")


class ChatUsage(Exact):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class ChatReply(Exact):
    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[ChatChoice]
    usage: ChatUsage


class ChatDelta(Exact):
    role: Literal["assistant"] | None = None
    content: str | None = None
    kgwalk: TurnAbout | ChatAbout | None = None


class ChunkChoice(Exact):
    index: Literal[0]
    delta: ChatDelta
    finish_reason: Literal["stop", "length"] | None
    stop_reason: str | None


class ChatChunk(Exact):
    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    choices: list[ChunkChoice]
    usage: ChatUsage | None = None


class ModelEntry(BaseModel):
    model_config = ConfigDict(extra="forbid")
    id: str
    object: Literal["model"]
    created: int
    owned_by: str


class ModelList(Exact):
    object: Literal["list"]
    data: list[ModelEntry]
