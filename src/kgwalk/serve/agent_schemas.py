"""The requests and replies of the /v1 routes as schemas, for OpenAPI and for tests.

Imported only when somebody asks for the description. The routes check by hand (agent.py, chat.py).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, RootModel

from kgwalk.serve.agent import MOST_RUNS, MOST_TOPICS
from kgwalk.serve.schemas import Exact

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
