"""Requests and replies as plain types: every field of the HTTP interface, described once.

Three things are made from these types. reading.py makes the functions that check a request; api.py makes the models
behind /openapi.json; and mypy checks that a route builds a reply with just these fields. So a field, a bound or
a sentence about it is written here and nowhere else:

    suggest: NotRequired[Annotated[int | None, About("so many nearest names ...", least=0, most=MAX_SUGGEST)]]

is refused with `"suggest" must be between 0 and 20, not 21`, and stands in the OpenAPI description with `minimum` and
`maximum`. A field that may be left out may also be null. Imports nothing but `typing`: a server must start fast.
"""

# Without `from __future__ import annotations`: only then does a TypedDict know which of its fields are required.
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NotRequired, TypedDict

PAGE = 1000  # names or facts in a page, unless the query says otherwise
MAX_PAGE = 10_000
MAX_OFFSET = 1_000_000_000
MAX_SUGGEST = 20
MOST_RUNS = 16
MOST_TOPICS = 64
MOST_STOPS = 16
MOST_TURNS = 256


@dataclass(frozen=True, slots=True)
class About:
    """What is said of a field besides its type."""

    text: str = ""  # for the description
    least: int | None = None  # of a number, or of the length of a list or text
    most: int | None = None
    tag: str | None = None  # of a union of objects: the field that tells them apart
    refusal: str | None = None  # the words of the error, where those made from the type would mislead


# POST /kg/actions

GraphName = Annotated[str | None, About("which graph; may be left out where one is served")]
Page = Annotated[int | None, About(f"size of the page; {PAGE} unless given", least=0, most=MAX_PAGE)]


class View(TypedDict):
    graph: NotRequired[GraphName]
    question: NotRequired[Annotated[str | None, About("id of a question: only the facts of its subgraph")]]
    start: NotRequired[Annotated[str | None, About("only facts from this year, month or day on")]]
    end: NotRequired[Annotated[str | None, About("only facts up to this year, month or day")]]


class ActionItem(View):
    action: Annotated[str, About("get_head_relations, get_tail_relations, get_head_entities or get_tail_entities")]
    entity: NotRequired[str | None]
    relation: NotRequired[Annotated[str | None, About("for the two actions that list entities")]]
    limit: NotRequired[Annotated[int | None, About("most names to list; the server has a cap of its own", least=0)]]
    format: NotRequired[Annotated[Literal["flat", "hierarchical"] | None, About("how `text` lists relations")]]
    suggest: NotRequired[
        Annotated[
            int | None,
            About("so many nearest names with an unknown one; takes milliseconds", least=0, most=MAX_SUGGEST),
        ]
    ]


class ActionBatch(TypedDict):
    actions: list[ActionItem]


class ActionFound(TypedDict):
    ok: Literal[True]
    items: list[str]
    total: Annotated[int, About("how many there are")]
    left_out: Annotated[int, About("how many of them are not in `items`")]
    text: Annotated[str, About("what a model reads")]
    times: NotRequired[Annotated[list[list[str]] | None, About("dates for each item, where the graph has dates")]]


class ActionErrorBody(TypedDict):
    kind: Annotated[str, About("KG-R1's code, or BAD_REQUEST, UNKNOWN_GRAPH, TIME_LIMIT, GRAPH_FAILED")]
    title: str
    message: str
    nearest: NotRequired[list[str] | None]


class ActionFailed(TypedDict):
    ok: Literal[False]
    error: ActionErrorBody


class ActionResults(TypedDict):
    results: list[ActionFound | ActionFailed]


# POST /kg/query


class Contains(View):
    op: Literal["contains"]
    entity: str


class HasRelation(View):
    op: Literal["has_relation"]
    relation: str


class Relations(View):
    op: Literal["relations"]
    entity: str
    out: NotRequired[Annotated[bool | None, About("relations that leave the entity (true, the default) or arrive")]]


class Paged(View):
    limit: NotRequired[Page]
    offset: NotRequired[Annotated[int | None, About(least=0, most=MAX_OFFSET)]]


class NeighborsOf(Paged):
    op: Literal["neighbors"]
    entity: str
    relation: str
    out: NotRequired[bool | None]


class Match(Paged):
    op: Literal["match"]
    head: NotRequired[str | None]
    relation: NotRequired[str | None]
    tail: NotRequired[str | None]


class Find(View):
    op: Literal["find", "find_relation"]
    text: str
    k: NotRequired[Annotated[int | None, About(least=0, most=MAX_PAGE)]]


QueryItem = Contains | HasRelation | Relations | NeighborsOf | Match | Find


class QueryBatch(TypedDict):
    queries: list[Annotated[QueryItem, About(tag="op")]]


class NeighborNames(TypedDict):
    names: list[str]
    total: int
    times: list[list[str]] | None


class FoundName(TypedDict):
    name: str
    score: float
    how: Literal["exact", "normalised", "fuzzy"]
    id: str | None


Fact = Annotated[list[str], About('[head, relation, tail, time]; time is "" for a fact without a date', 4, 4)]


class QueryAnswer(TypedDict):
    ok: Literal[True]
    value: bool | list[str] | NeighborNames | list[Fact] | list[FoundName]
    more: NotRequired[Annotated[bool | None, About("of neighbors and match: whether another page follows")]]


QueryErrorKind = Literal[
    "unknown_entity",
    "unknown_relation",
    "unknown_question",
    "unknown_name",
    "unknown_graph",
    "bad_request",
    "time_limit",
    "graph_failed",
]


class QueryErrorBody(TypedDict):
    kind: QueryErrorKind
    message: str
    name: NotRequired[str | None]
    nearest: NotRequired[list[str] | None]


class QueryFailed(TypedDict):
    ok: Literal[False]
    error: QueryErrorBody


class QueryResults(TypedDict):
    results: list[QueryAnswer | QueryFailed]


# GET /kg/graphs, GET /health, and what a request is told that fails as a whole

EngineState = Literal["closed", "opening", "open"]


class GraphEntry(TypedDict):
    name: str
    info: dict[str, Any]


class GraphList(TypedDict):
    graphs: list[GraphEntry]


class Health(TypedDict):
    status: Literal["ok"]
    version: str
    graphs: int
    model: Annotated[EngineState | None, About("of the language model; null where there is none")]
    under_way: Annotated[int, About("questions that are answered now")]
    waiting: Annotated[int, About("questions that wait for their turn")]
    feedback: Annotated[bool, About("whether /v1/feedback keeps what people say of answers")]


EvidenceFact = Annotated[list[str], About("[head, relation, tail]", 3, 3)]


class RequestErrorBody(TypedDict):
    kind: str
    message: str
    nearest: NotRequired[Annotated[list[str] | None, About("of an unknown entity: names that may be meant")]]
    facts: NotRequired[Annotated[list[EvidenceFact] | None, About("of these, what comes nearest to the question")]]


class RequestError(TypedDict):
    error: RequestErrorBody


# POST /v1/ask


class AgentOptions(TypedDict):
    """Of a walk; /v1/ask and /v1/chat/completions take the same."""

    graph: NotRequired[GraphName]
    topics: NotRequired[
        Annotated[list[str] | None, About("entities to start from; else found in the question", most=MOST_TOPICS)]
    ]
    runs: NotRequired[Annotated[int | None, About("walk so often, and unite the answers", 1, MOST_RUNS)]]
    walks: NotRequired[
        Annotated[int | None, About("where the first walk is unsure, walk up to so often; take the best", 1, MOST_RUNS)]
    ]
    limit: NotRequired[Annotated[int | None, About("at most so many answers; all unless given", 1, MAX_PAGE)]]
    min_confidence: NotRequired[Annotated[float | None, About("`guess` says whether the answer is less sure", 0, 1)]]


LanguageName = Literal["sparql", "cypher", "sql", "python"]
RecipeName = Annotated[str | None, About("how to walk; a bundled recipe")]


class AskBody(AgentOptions):
    question: str
    recipe: NotRequired[RecipeName]
    stream: NotRequired[Annotated[bool | None, About("server-sent events: the walk as it happens, then the answer")]]
    query: NotRequired[
        Annotated[
            LanguageName | None, About("a query of this language that gives the same answer; of the recipe `kgwalk`")
        ]
    ]


Evidence = Annotated[dict[str, list[EvidenceFact]], About("for each answer a path of facts from a topic")]
StopWord = Literal["answered", "turns", "tokens", "time"]
Note = Annotated[str | None, About("a warning where the model was not sure of its walk")]
SureOf = Annotated[float | None, About("that the answer is right, if `calibrated`; else the walk's likelihood")]
IsCalibrated = Annotated[bool | None, About("whether `confidence` is a probability that was fitted for this agent")]
AnswerKind = Annotated[
    Literal["entity", "number", "time", "boolean", "table", "none"],
    About("what the answers are; none: the graph does not say"),
]
Ordered = Annotated[bool | None, About("true where the order of the answers is part of the answer")]
TableColumns = Annotated[list[str] | None, About("of a table, the names first")]
TableRows = Annotated[list[list[str]] | None, About("of a table: a cell for each column")]
LeftOut = Annotated[int | None, About("how many answers there are beside those, where `limit` was given")]
Guess = Annotated[bool | None, About("with `min_confidence`: whether the answer is less sure")]
NearestFacts = Annotated[list[EvidenceFact] | None, About("without an answer: facts that come nearest to the question")]
WalkCount = Annotated[int | None, About("how often the question was walked")]


class SourceBody(TypedDict):
    """A sentence that a fact of the evidence was read in."""

    fact: EvidenceFact
    document: Annotated[str, About("a file, or a file and a line")]
    start: Annotated[int, About("of the sentence, in characters of the document's text")]
    end: int
    sentence: str
    title: str
    url: Annotated[str, About("what the document says of where it comes from; may be empty")]


SentencesRead = Annotated[list[SourceBody] | None, About("of a graph that was made of text: where the facts were read")]


class TokenCounts(TypedDict):
    generated: int
    prompt: Annotated[int, About("all that the model was told")]
    total: int


class MentionBody(TypedDict):
    text: str
    start: int
    end: int
    candidates: Annotated[list[str], About("entities that may be meant; the first was chosen")]


class WalkTurn(TypedDict):
    text: Annotated[str, About("what the model wrote: a call or the answer")]
    observation: Annotated[str, About("what it was told: the result")]
    ok: bool


class AnswerShape(TypedDict):
    """What an answer is beside its names; /v1/ask and /v1/chat/completions give the same."""

    answer_kind: AnswerKind
    ordered: NotRequired[Ordered]
    columns: NotRequired[TableColumns]
    rows: NotRequired[TableRows]
    left_out: NotRequired[LeftOut]
    confidence: NotRequired[SureOf]
    calibrated: NotRequired[IsCalibrated]
    guess: NotRequired[Guess]
    nearest: NotRequired[NearestFacts]
    sources: NotRequired[SentencesRead]
    walks: WalkCount


class AskReply(AnswerShape):
    answers: list[str]
    evidence: Evidence
    topics: list[str]
    turns: int
    tokens: TokenCounts
    seconds: float
    stop: StopWord
    note: Note
    walk: Annotated[list[WalkTurn], About("the turns that led to the answer")]
    votes: NotRequired[Annotated[dict[str, int] | None, About("of several runs: how many gave the answer")]]
    mentions: NotRequired[Annotated[list[MentionBody] | None, About("where the question may mean other entities")]]
    query: NotRequired[Annotated[str | None, About("that gives the same answer, where one was asked for")]]
    no_query: NotRequired[Annotated[str | None, About("why there is no such query")]]


# POST /v1/ask/query


class WalkQueryBody(TypedDict):
    """`graph`, `question`, `recipe` and `runs` as /v1/ask was given them, `topics` and `walk` as it answered."""

    query: Annotated[LanguageName, About("the language")]
    question: str
    topics: Annotated[list[str], About("that the walk started from", most=MOST_TOPICS)]
    walk: Annotated[
        list[WalkTurn],
        About("all turns of the walk", most=MOST_TURNS, refusal=f"must be a list of at most {MOST_TURNS} turns"),
    ]
    graph: NotRequired[GraphName]
    recipe: NotRequired[RecipeName]
    runs: NotRequired[Annotated[int | None, About("how many walks the answer is of", 1, MOST_RUNS)]]


class WalkQueryReply(TypedDict):
    query: Annotated[str | None, About("that gives the same answer")]
    no_query: NotRequired[Annotated[str | None, About("why there is no such query")]]


# The events of a stream of /v1/ask


class TurnAbout(TypedDict):
    """A turn of the walk, as it happens."""

    run: Annotated[int, About("which of several walks, from 1")]
    turn: int
    text: Annotated[str, About("what the model wrote")]
    words: Annotated[str, About("the same in plain words")]
    observation: Annotated[str, About("what it was told")]
    ok: bool
    set: Annotated[int | None, About("the number of the set that the call made; null if none")]
    size: Annotated[int | None, About("how many members it has")]
    names: Annotated[list[str], About("the first of them")]
    facts: Annotated[list[EvidenceFact], About("facts by which these were found")]


class AskWaiting(TypedDict):
    """Only where the question has to wait."""

    event: Literal["waiting"]
    before: Annotated[int, About("questions that wait before it")]
    model: Annotated[EngineState | None, About("of the language model; `opening` is waited for")]


class AskStarted(TypedDict):
    event: Literal["start"]
    topics: Annotated[list[str], About("entities that the walk starts from: sets 1, 2, ...")]
    kinds: Annotated[list[str], About("all of a kind that it starts from: the sets after these")]
    mentions: Annotated[list[MentionBody], About("where the question may mean other entities")]


class AskTurn(TurnAbout):
    event: Literal["turn"]


class AskAnswered(AskReply):
    event: Literal["answer"]


class AskFailed(TypedDict):
    event: Literal["error"]
    error: RequestErrorBody


AskEvent = AskWaiting | AskStarted | AskTurn | AskAnswered | AskFailed  # each with its name as the event's, too


# POST /v1/chat/completions, in OpenAI's shape

ChatRole = Literal["system", "developer", "user", "assistant"]
StopText = Annotated[str, About(least=1)]


class ChatMessage(TypedDict):
    role: ChatRole
    content: str | list[dict[str, Any]]


class ChatHead(TypedDict):
    model: Annotated[str, About("kgwalk or kgwalk/RECIPE for the agent; the language model's own name for that")]
    messages: Annotated[list[ChatMessage], About(least=1, refusal="must be a list of messages")]
    stream: NotRequired[Annotated[bool | None, About("server-sent events: the turns of the walk, then the answer")]]
    stream_options: NotRequired[Annotated[Any, About("with `include_usage` a stream ends with the counts")]]


class SamplingOptions(TypedDict):
    """Of a completion by the language model itself."""

    temperature: NotRequired[Annotated[float | None, About(least=0, most=2)]]
    top_p: NotRequired[Annotated[float | None, About(least=0, most=1)]]
    max_tokens: NotRequired[Annotated[int | None, About(least=1)]]
    max_completion_tokens: NotRequired[Annotated[int | None, About(least=1)]]
    stop: NotRequired[
        Annotated[
            StopText | Annotated[list[StopText], About(most=MOST_STOPS)] | None,
            About(refusal=f"must be a text or a list of at most {MOST_STOPS} texts"),
        ]
    ]
    seed: NotRequired[int | None]


class ChatBody(ChatHead, SamplingOptions, AgentOptions):
    """OpenAI's other fields are passed over. `graph`, `topics`, `runs`, `walks`, `limit` and `min_confidence` are for
    the agent.
    """


class ChatAbout(AnswerShape):
    answers: list[str]
    evidence: Evidence
    topics: list[str]
    stop: StopWord
    note: Note


class ChatSaid(TypedDict):
    role: Literal["assistant"]
    content: Annotated[str, About("the agent's answers joined by commas, or a table's rows; `kgwalk` has them apart")]
    kgwalk: NotRequired[ChatAbout | None]


class ChatChoice(TypedDict):
    index: Literal[0]
    message: ChatSaid
    finish_reason: Literal["stop", "length"]
    stop_reason: Annotated[str | None, About("the stop text that was met")]


class ChatUsage(TypedDict):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class ChatReply(TypedDict):
    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[ChatChoice]
    usage: ChatUsage


class ChatDelta(TypedDict):
    role: NotRequired[Literal["assistant"] | None]
    content: NotRequired[str | None]
    kgwalk: NotRequired[TurnAbout | ChatAbout | None]


class ChunkChoice(TypedDict):
    index: Literal[0]
    delta: ChatDelta
    finish_reason: Literal["stop", "length"] | None
    stop_reason: str | None


class ChatChunk(TypedDict):
    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    choices: list[ChunkChoice]
    usage: NotRequired[ChatUsage | None]


# GET /v1/models


class ModelEntry(TypedDict):
    id: str
    object: Literal["model"]
    created: int
    owned_by: str


class ModelList(TypedDict):
    object: Literal["list"]
    data: list[ModelEntry]


LENIENT: frozenset[Any] = frozenset([ChatMessage, ChatBody])  # what OpenAI's clients send besides is passed over
