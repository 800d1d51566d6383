"""What looking around a graph, walking it by hand and uploading one ask for and reply: the types, as in shapes.py.

A GET request has its fields in the query (`/kg/entity?graph=films&name=Big`), all others in a JSON body; both are
checked against these types and described from them in /openapi.json.
"""

# Without `from __future__ import annotations`: only then does a TypedDict know which of its fields are required.
from typing import Annotated, Literal, NotRequired, TypedDict

from kgwalk.serve.shapes import MAX_OFFSET, MOST_TOPICS, About, EvidenceFact, GraphName, MentionBody

MOST_ROWS = 500  # relations, kinds or names in one reply
MOST_EXAMPLES = 20
MOST_DEPTH, MOST_NODES, MOST_EACH = 4, 2_000, 100
MOST_HOPS, MOST_PATHS = 6, 100
MOST_CALLS = 32
MOST_MEMBERS_SHOWN = 1_000
MOST_FILES = 16
MOST_BAD_ROWS = 50

Offset = Annotated[int | None, About("where the page begins; 0 unless given", 0, MAX_OFFSET)]


class PageQuery(TypedDict):
    graph: NotRequired[GraphName]
    limit: NotRequired[Annotated[int | None, About("rows in the reply; 50 unless given", 1, MOST_ROWS)]]
    offset: NotRequired[Offset]


# GET /kg/entity, GET /kg/around


class EntityQuery(PageQuery):
    name: Annotated[str, About("the entity's name or id; case, accents and punctuation may differ")]
    examples: NotRequired[
        Annotated[int | None, About("names shown of each relation; 3 unless given", 0, MOST_EXAMPLES)]
    ]


class RelationAtEntity(TypedDict):
    relation: str
    out: Annotated[bool, About("whether it leaves the entity; false: it arrives there")]
    total: Annotated[int, About("how many neighbours it leads to")]
    names: Annotated[list[str], About("the first of them; /kg/query has the others, in pages")]
    times: Annotated[list[list[str]] | None, About("the dates of each, where the graph has dates")]
    values: Annotated[bool, About("whether these are values: numbers, dates, links, long texts")]


class EntityReply(TypedDict):
    name: str
    id: Annotated[str | None, About("the source's own id, where it has one")]
    kinds: Annotated[list[str], About("what kinds of thing it is, as far as the graph says")]
    relations: Annotated[list[RelationAtEntity], About("those that leave first, then those that arrive")]
    total: Annotated[int, About("how many relations there are, in both directions")]
    more: Annotated[bool, About("whether another page of relations follows")]


class AroundQuery(TypedDict):
    graph: NotRequired[GraphName]
    name: Annotated[str, About("the entity in the middle")]
    depth: NotRequired[Annotated[int | None, About("how many hops; 1 unless given", 1, MOST_DEPTH)]]
    nodes: NotRequired[Annotated[int | None, About("at most so many entities; 60 unless given", 1, MOST_NODES)]]
    each: NotRequired[Annotated[int | None, About("of one relation at most so many; 8 unless given", 1, MOST_EACH)]]
    values: NotRequired[Annotated[bool | None, About("numbers, dates and the like too; false unless given")]]


class AroundNode(TypedDict):
    name: str
    depth: Annotated[int, About("hops from the middle")]
    facts: Annotated[int | None, About("how many facts it has, where the graph can tell at once")]


class AroundReply(TypedDict):
    nodes: list[AroundNode]
    facts: Annotated[list[EvidenceFact], About("between these")]
    cut: Annotated[bool, About("whether a limit left entities out")]


# GET /kg/path


class PathQuery(TypedDict):
    graph: NotRequired[GraphName]
    start: Annotated[str, About("the entity where a path begins")]
    end: Annotated[str, About("the entity where it ends")]
    hops: NotRequired[Annotated[int | None, About("at most so many facts in a path; 4 unless given", 1, MOST_HOPS)]]
    limit: NotRequired[Annotated[int | None, About("paths in the reply; 5 unless given", 1, MOST_PATHS)]]
    offset: NotRequired[Annotated[int | None, About("how many paths to leave out; 0 unless given", 0, 10 * MOST_PATHS)]]


class PathReply(TypedDict):
    start: str
    end: str
    hops: Annotated[int | None, About("how long the shortest paths are; null where none was found")]
    paths: Annotated[list[list[EvidenceFact]], About("facts from the start to the end, followed in either direction")]
    more: Annotated[bool, About("whether there are further paths of this length")]
    cut: Annotated[bool, About("whether a limit left facts out: there may be a shorter path")]


# GET /kg/kinds, GET /kg/members, GET /kg/schema


class KindsQuery(PageQuery):
    like: NotRequired[Annotated[str | None, About("only kinds with this text in their names")]]


class KindEntry(TypedDict):
    name: str
    how: Annotated[
        Literal["type", "tails", "heads"],
        About("by the value of a relation of types, or as what a relation leads to, or comes from"),
    ]
    relation: str
    members: int


class KindsReply(TypedDict):
    kinds: Annotated[list[KindEntry], About("the largest first")]
    total: int
    more: bool


class MembersQuery(PageQuery):
    kind: Annotated[str, About("a kind's name")]
    drawn: NotRequired[Annotated[bool | None, About("whether it is a kind of /kg/schema; else of /kg/kinds")]]


class MembersReply(TypedDict):
    kind: str
    names: Annotated[list[str], About("the most mentioned first")]
    total: int
    more: bool


class SchemaQuery(TypedDict):
    graph: NotRequired[GraphName]
    limit: NotRequired[Annotated[int | None, About("kinds in the reply; 30 unless given", 1, MOST_ROWS)]]
    offset: NotRequired[Offset]


class SchemaValue(TypedDict):
    relation: str
    looks: Annotated[str, About("number, year, date, link, id, text or name")]
    facts: int


class SchemaKind(TypedDict):
    name: str
    members: Annotated[int, About("exact")]
    examples: list[str]
    values: Annotated[list[SchemaValue], About("relations from these to values; the most used first")]


class SchemaJoin(TypedDict):
    head: Annotated[str, About("a kind")]
    relation: str
    tail: Annotated[str, About("a kind")]
    facts: Annotated[int, About("of this relation between these kinds; estimated where `sampled`")]


class SchemaRelation(TypedDict):
    relation: str
    facts: int
    heads: Annotated[int, About("distinct")]
    tails: Annotated[int, About("distinct")]


class SchemaReply(TypedDict):
    kinds: Annotated[list[SchemaKind], About("from `offset` on, those with the most facts first")]
    joins: Annotated[list[SchemaJoin], About("between the kinds in this reply")]
    relations: Annotated[list[SchemaRelation], About("as many as kinds, the most used first; exact")]
    total_kinds: int
    total_relations: int
    more: Annotated[bool, About("whether there are further kinds or relations")]
    facts: int
    sampled: Annotated[bool, About("whether `joins` were counted in a sample; all else is exact")]
    looked_at: Annotated[int, About("facts in the sample")]


# POST /kg/walk


class HandWalkBody(TypedDict):
    graph: NotRequired[GraphName]
    question: NotRequired[Annotated[str | None, About("where neither topics nor kinds are given, it is searched")]]
    topics: NotRequired[Annotated[list[str] | None, About("entities to start from: sets 1, 2, ...", most=MOST_TOPICS)]]
    kinds: NotRequired[Annotated[list[str] | None, About("all of a kind: the sets after these", most=MOST_TOPICS)]]
    calls: NotRequired[
        Annotated[
            list[str] | None,
            About('calls in their order, such as tail_entities($1, "borders")', most=MOST_CALLS),
        ]
    ]
    names: NotRequired[
        Annotated[int | None, About("members shown of each set; 20 unless given", 1, MOST_MEMBERS_SHOWN)]
    ]


class HandStep(TypedDict):
    call: Annotated[str | None, About("as it was written; null for a set that the walk starts from")]
    words: Annotated[str, About("the same in plain words")]
    ok: bool
    observation: Annotated[str, About("what an agent would read")]
    set: Annotated[int | None, About("the number of the set that it made; null for a call that went wrong")]
    size: int
    names: Annotated[list[str], About("the first members")]
    leaving: Annotated[list[str], About("relations that leave the set, the most shared first")]
    entering: Annotated[list[str], About("relations that enter it")]
    facts: Annotated[list[EvidenceFact], About("by which the shown members came into it")]


class HandCall(TypedDict):
    name: str
    usage: Annotated[str, About("how it is written: name(arguments)")]
    words: Annotated[str, About("what comes out")]


class HandWalkReply(TypedDict):
    topics: list[str]
    kinds: list[str]
    mentions: Annotated[list[MentionBody], About("where the question may mean other entities")]
    steps: Annotated[list[HandStep], About("the sets at the start, then one for each call")]
    calls: Annotated[list[HandCall], About("the calls that there are, the same as the agent's")]
    answers: Annotated[list[str], About("the first members of the last set")]
    answer_kind: str
    evidence: Annotated[dict[str, list[EvidenceFact]], About("for each of these a path of facts")]
    columns: NotRequired[list[str] | None]
    rows: NotRequired[list[list[str]] | None]


# GET /kg/uploads, POST /kg/build, PUT /kg/build/file, GET /kg/job, POST /kg/job/stop, POST /kg/remove

JobState = Literal["receiving", "waiting", "building", "done", "failed", "stopped"]


class BuildBody(TypedDict):
    name: Annotated[str, About("what the graph is called: letters, digits, - and _; 60 at most")]
    files: Annotated[list[str], About("names of the files that will be sent", 1, MOST_FILES)]
    table: NotRequired[
        Annotated[bool | None, About("TSV and CSV: whether the first row names columns; null: as the files look")]
    ]
    skip_bad_rows: NotRequired[Annotated[bool | None, About("leave rows out that cannot be read; else they stop it")]]


class FileQuery(TypedDict):
    job: str
    file: Annotated[str, About("one of the names given to /kg/build")]


class JobQuery(TypedDict):
    id: str


class BadRow(TypedDict):
    file: str | None
    line: int | None
    message: str


class JobFile(TypedDict):
    name: str
    bytes: Annotated[int, About("that have arrived")]
    arrived: Annotated[bool, About("whether it is whole")]


class JobReport(TypedDict):
    triples: int
    entities: int
    relations: int
    duplicates: int
    tables: Annotated[list[str], About("of each table: its key, and where its columns lead")]


class JobReply(TypedDict):
    id: str
    name: str
    state: JobState
    files: list[JobFile]
    stage: Annotated[str, About("what the build does now")]
    done: Annotated[int, About("bytes read or rows sorted in this stage")]
    total: int | None
    seconds: float
    message: Annotated[str | None, About("why it failed")]
    bad_rows: Annotated[list[BadRow], About(f"the first rows that could not be read; {MOST_BAD_ROWS} at most")]
    bad: Annotated[int, About("how many such rows there are")]
    notes: list[str]
    report: JobReport | None


class UploadsReply(TypedDict):
    allowed: Annotated[bool, About("whether this server takes uploads: `kgwalk serve --uploads FOLDER`")]
    max_bytes: Annotated[int, About("of all files of one graph together")]
    formats: Annotated[list[str], About("endings that file names may have")]
    graphs: Annotated[list[str], About("those that were uploaded; they can be removed")]
    jobs: Annotated[list[JobReply], About("the latest first")]


class RemoveBody(TypedDict):
    name: str


class RemoveReply(TypedDict):
    removed: str
