"""GET /kg/entity, /kg/around, /kg/path, /kg/kinds, /kg/members, /kg/schema: looking around a graph, a page at a time.

Neighbours along one relation are /kg/query's `neighbors`, in pages too. What has to read much of a graph (kinds, the
schema) is worked out once for each graph, in another thread; a request whose time is up meanwhile is told to come back,
and the work goes on. All of it is about whole stores: a graph elsewhere has entities only.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar, cast

import orjson

from kgwalk.kg.csr import I64
from kgwalk.kg.graph import Graph
from kgwalk.kg.store import StoredGraph
from kgwalk.serve.agent import refusing
from kgwalk.serve.asgi import HttpError, HttpReply
from kgwalk.serve.explore_shapes import (
    AroundNode,
    AroundQuery,
    AroundReply,
    EntityQuery,
    EntityReply,
    KindEntry,
    KindsQuery,
    KindsReply,
    MembersQuery,
    MembersReply,
    PageQuery,
    PathQuery,
    PathReply,
    RelationAtEntity,
    SchemaJoin,
    SchemaQuery,
    SchemaReply,
)
from kgwalk.serve.graphs import ServedGraphs
from kgwalk.serve.reading import ItemError, QueryStringReader, given
from kgwalk.serve.threads import GraphThreads, kept_for_each_store
from kgwalk.types import KgwalkError, UnknownEntity, UnknownName

if TYPE_CHECKING:
    from kgwalk.serve.graph_schema import GraphPicture

log = logging.getLogger("kgwalk.serve")

ROWS = 50  # in a page, unless the query says otherwise
KINDS_DRAWN = 30
EXAMPLES = 3
DEPTH, NODES, EACH = 1, 60, 8
PATHS = 5
KINDS_TOLD = 10  # of an entity
DRAWN_AT_ONCE = 3_000_000  # facts of a graph whose schema is made in about a second
MOST_JOINS = 300  # in one reply
MOST_VALUES = 30  # of one kind
MOST_LOOKED_AT = 100_000  # neighbours, before a look around ends

_Fact = tuple[str, str, str]
Q = TypeVar("Q")
R = TypeVar("R")


class ExploreRoutes:
    """The handlers, by path. Each reads its query, and answers from a thread."""

    def __init__(self, graphs: ServedGraphs, threads: GraphThreads) -> None:
        self._graphs, self._threads = graphs, threads

    @property
    def by_path(self) -> dict[str, Callable[[bytes, float], Any]]:
        return {
            "/kg/entity": self._route(EntityQuery, entity_page),
            "/kg/around": self._route(AroundQuery, around),
            "/kg/path": self._route(PathQuery, path_page),
            "/kg/kinds": self._route(KindsQuery, kinds_page, of_store=True),
            "/kg/members": self._route(MembersQuery, members_page, of_store=True),
            "/kg/schema": self._route(SchemaQuery, schema_page, of_store=True),
        }

    def _route(self, shape: type[Q], answer: Callable[[Any, Q], R], *, of_store: bool = False) -> Any:
        read = QueryStringReader(shape)

        async def handle(query: bytes, deadline: float) -> HttpReply:
            asked: Any = refusing(lambda: read(query))
            graph = refusing(lambda: self._graphs.now().graph(asked.get("graph")))
            if of_store and type(graph) is not StoredGraph:
                raise HttpError(
                    422, "not_a_store", "kinds and schemas are told of stores on the server's own disk only"
                )
            answered = await self._threads.run(lambda: told(lambda: answer(graph, asked)), deadline)
            return HttpReply(200, orjson.dumps(answered))

        return handle


def told(answer: Callable[[], R]) -> R:
    """What it gives; a name that is not there, or a graph that fails, becomes the error of the whole request."""
    try:
        return answer()
    except UnknownName as error:
        kind = "unknown_entity" if isinstance(error, UnknownEntity) else "unknown_name"
        raise HttpError(422, kind, str(error), nearest=error.nearest) from error
    except ItemError as error:
        raise HttpError(422, "wrong_content", error.message) from error
    except KgwalkError as error:
        log.error("a graph failed: %s", error)
        raise HttpError(502, "graph_failed", "the graph could not answer; the server's log has the reason") from error


def _page(asked: PageQuery | SchemaQuery, rows: int = ROWS) -> tuple[int, int]:
    """Where the page begins, and where it ends."""
    offset = given(asked.get("offset"), 0)
    return offset, offset + given(asked.get("limit"), rows)


# An entity and what is around it


def entity_page(graph: Graph, asked: EntityQuery) -> EntityReply:
    """An entity's relations in both directions, each with its count and its first names."""
    from kgwalk.walk.facts import directed_relations, entity_named

    name = entity_named(graph, asked["name"])
    every = directed_relations(graph, name)
    low, high = _page(asked)
    examples = given(asked.get("examples"), EXAMPLES)
    return {
        "name": name,
        "id": _id_of(graph, name),
        "kinds": _kinds_at(graph, name),
        "relations": [_relation_at(graph, name, *one, examples) for one in every[low:high]],
        "total": len(every),
        "more": high < len(every),
    }


def _relation_at(graph: Graph, name: str, relation: str, out: bool, examples: int) -> RelationAtEntity:
    found = graph.neighbors(name, relation, out=out, limit=max(1, examples))
    return {
        "relation": relation,
        "out": out,
        "total": found.total,
        "names": found.names[:examples],
        "times": None if found.times is None else found.times[:examples],
        "values": out and all(map(_is_value, found.names)),
    }


def _is_value(name: str) -> bool:
    from kgwalk.questions.schema import LITERALS, literal_kind

    return literal_kind(name) in LITERALS


def _id_of(graph: Graph, name: str) -> str | None:
    return graph.id_of(name) if isinstance(graph, StoredGraph) else None


def _kinds_at(graph: Graph, name: str) -> list[str]:
    """What an entity is: by relations of types, else as in the schema, if that is quickly made."""
    from kgwalk.walk.kinds import class_name, is_type

    typed = [relation for relation in graph.relations(name) if is_type(relation)]
    classes = [one for relation in typed for one in graph.neighbors(name, relation, limit=KINDS_TOLD).names]
    if classes or type(graph) is not StoredGraph:
        return [class_name(one) for one in classes[:KINDS_TOLD]]
    number = graph.store.entity_number(name)
    if number is None or len(graph) > DRAWN_AT_ONCE:
        return []
    kind = drawn(graph).kind_of(number)
    return [] if kind is None else [kind]


@dataclass(slots=True)
class _Around:
    """What is reached from one entity: breadth first, the entities and the relations of each in turn, until a limit."""

    graph: Graph
    nodes: int
    each: int
    values: bool
    cut: bool = False
    looked_at: int = 0

    def reach(self, name: str, depth: int) -> tuple[dict[str, int], dict[_Fact, None]]:
        """The entities with their hops from the first, and the facts between them."""
        hops, facts = {name: 0}, dict[_Fact, None]()
        edge = [name]
        for hop in range(1, depth + 1):
            reached: list[str] = []
            for other, fact in in_turn([self._neighbours(one) for one in edge]):
                if other not in hops:
                    if len(hops) >= self.nodes:
                        self.cut = True
                        continue
                    hops[other] = hop
                    reached.append(other)
                facts[fact] = None
            edge = reached
        return hops, facts

    def _neighbours(self, name: str) -> list[tuple[str, _Fact]]:
        """Neighbours with their facts, the relations in turn."""
        from kgwalk.walk.facts import directed_relations

        if self.looked_at >= MOST_LOOKED_AT:
            self.cut = True
            return []
        found = []
        for relation, out in directed_relations(self.graph, name):
            around = self.graph.neighbors(name, relation, out=out, limit=self.each)
            names = [one for one in around.names if self.values or not _is_value(one)]
            self.cut |= around.total > len(around.names)
            self.looked_at += len(around.names)
            found.append([(one, (name, relation, one) if out else (one, relation, name)) for one in names])
        return list(in_turn(found))


def in_turn(lists: Sequence[Sequence[R]]) -> Iterator[R]:
    """The first of each list, then the second of each, ...

    >>> list(in_turn(["ad", "", "bef", "c"]))
    ['a', 'b', 'c', 'd', 'e', 'f']
    """
    for place in range(max(map(len, lists), default=0)):
        yield from (one[place] for one in lists if place < len(one))


def around(graph: Graph, asked: AroundQuery) -> AroundReply:
    """The part of the graph around an entity, within its limits, to be drawn."""
    from kgwalk.walk.facts import entity_named

    name = entity_named(graph, asked["name"])
    look = _Around(
        graph,
        given(asked.get("nodes"), NODES),
        given(asked.get("each"), EACH),
        given(asked.get("values"), False),
    )
    hops, facts = look.reach(name, given(asked.get("depth"), DEPTH))
    nodes: list[AroundNode] = [{"name": one, "depth": hop, "facts": _degree(graph, one)} for one, hop in hops.items()]
    return {"nodes": nodes, "facts": [list(fact) for fact in facts], "cut": look.cut}


def path_page(graph: Graph, asked: PathQuery) -> PathReply:
    """How two entities are connected: the shortest paths between them. They do not lead through values."""
    from kgwalk.walk.facts import entity_named
    from kgwalk.walk.shortest_paths import HOPS, shortest_paths

    start, end = entity_named(graph, asked["start"]), entity_named(graph, asked["end"])
    found = shortest_paths(
        graph, start, end, hops=given(asked.get("hops"), HOPS), passes=lambda name: not _is_value(name)
    )
    low = given(asked.get("offset"), 0)
    high = low + given(asked.get("limit"), PATHS)
    paths = list(islice(found.paths(), low, high + 1))
    return {
        "start": start,
        "end": end,
        "hops": found.hops,
        "paths": [[[*fact[:3]] for fact in path] for path in paths[: high - low]],
        "more": len(paths) > high - low,
        "cut": found.cut,
    }


def _degree(graph: Graph, name: str) -> int | None:
    if type(graph) is not StoredGraph or (number := graph.store.entity_number(name)) is None:
        return None
    spans = [edges.span(number) for edges in (graph.store.out, graph.store.in_)]
    return sum(high - low for low, high in spans)


# Kinds and the schema


def kinds_page(graph: StoredGraph, asked: KindsQuery) -> KindsReply:
    """The kinds of a graph with their members counted, the largest first."""
    like = given(asked.get("like"), "").casefold()
    every = [one for one in counted_kinds(graph) if like in one["name"].casefold()]
    low, high = _page(asked)
    return {"kinds": every[low:high], "total": len(every), "more": high < len(every)}


@kept_for_each_store
def counted_kinds(graph: StoredGraph) -> list[KindEntry]:
    from kgwalk.serve.graph_schema import relation_counts
    from kgwalk.walk.kinds import HEADS, OF_TYPE, kinds_of

    ends = {one.relation: (one.heads, one.tails) for one in relation_counts(graph.store)}
    entries: list[KindEntry] = []
    for kind in kinds_of(graph).values():
        if kind.how == OF_TYPE:
            members = graph.neighbors(kind.value, kind.relation, out=False, limit=1).total
        else:
            members = ends[kind.relation][kind.how != HEADS]
        entries.append({"name": kind.name, "how": cast(Any, kind.how), "relation": kind.relation, "members": members})
    return sorted(entries, key=lambda entry: (-entry["members"], entry["name"]))


def members_page(graph: StoredGraph, asked: MembersQuery) -> MembersReply:
    """All of a kind, the most mentioned first."""
    from kgwalk.walk.kinds import EVERYTHING, HEADS, OF_TYPE, ends_of, kind_named

    low, high = _page(asked)
    if asked.get("drawn"):
        numbers = drawn(graph).members(asked["kind"])
        if numbers is None:
            raise _no_kind(asked["kind"], "schema")
        names = graph.store.entity.several(numbers[low:high].tolist())
        return {"kind": asked["kind"], "names": names, "total": len(numbers), "more": high < len(numbers)}
    kind = kind_named(asked["kind"], graph)
    if kind is None or kind == EVERYTHING:
        raise _no_kind(asked["kind"], "kinds")
    if kind.how == OF_TYPE:
        found = graph.neighbors(kind.value, kind.relation, out=False, limit=high)
        names, total = found.names[low:], found.total
    else:
        number = graph.store.relation_number(kind.relation)
        ends: Sequence[int] | I64 = [] if number is None else ends_of(graph.store, number, kind.how == HEADS)
        names, total = graph.store.entity.several([int(end) for end in ends[low:high]]), len(ends)
    return {"kind": kind.name, "names": names, "total": total, "more": high < total}


def _no_kind(name: str, listed: str) -> ItemError:
    return ItemError("bad_request", f'the graph has no kind "{name[:60]}"; `{listed}` lists them')


@kept_for_each_store
def drawn(graph: StoredGraph) -> GraphPicture:
    from kgwalk.serve.graph_schema import draw

    return draw(graph)


def schema_page(graph: StoredGraph, asked: SchemaQuery) -> SchemaReply:
    """The kinds of a graph, and the relations that join them."""
    picture = drawn(graph)
    low, high = _page(asked, KINDS_DRAWN)
    kinds, relations = picture.kinds[low:high], picture.relations[low:high]
    shown = {kind.name for kind in kinds}
    joins: list[SchemaJoin] = [
        {"head": one.head, "relation": one.relation, "tail": one.tail, "facts": one.facts}
        for one in picture.joins
        if one.head in shown and one.tail in shown
    ]
    return {
        "kinds": [
            {
                "name": kind.name,
                "members": kind.members,
                "examples": kind.examples,
                "values": [
                    {"relation": one.relation, "looks": one.looks, "facts": one.facts}
                    for one in kind.values[:MOST_VALUES]
                ],
            }
            for kind in kinds
        ],
        "joins": joins[:MOST_JOINS],
        "relations": [
            {"relation": one.relation, "facts": one.facts, "heads": one.heads, "tails": one.tails} for one in relations
        ],
        "total_kinds": len(picture.kinds),
        "total_relations": len(picture.relations),
        "more": high < max(len(picture.kinds), len(picture.relations)) or len(joins) > MOST_JOINS,
        "facts": picture.facts,
        "sampled": picture.sampled,
        "looked_at": picture.looked_at,
    }
