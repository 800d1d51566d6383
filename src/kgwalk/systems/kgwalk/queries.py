"""The query of an answer that the `kgwalk` system walked to, for `ask --as` and the server."""

from __future__ import annotations

from kgwalk.kg.graph import Graph
from kgwalk.systems.kgwalk.protocol import Kgwalk
from kgwalk.types import Question
from kgwalk.walk.agent import AskResult
from kgwalk.walk.protocol import Protocol
from kgwalk.walk.queries import query_of
from kgwalk.walk.queries.program import QueryError, program_of
from kgwalk.walk.starts import starting_kinds


def answer_query(asked: AskResult, graph: Graph, protocol: Protocol, language: str) -> str:
    """The query of a language that gives the same answer; QueryError, which says why, where there is none."""
    if not isinstance(protocol, Kgwalk):
        raise QueryError(f"a walk of `{protocol.name}` is no algebra; walks of the recipe `kgwalk` are")
    if len(asked.episodes) != 1:
        raise QueryError("the answers of several runs are united; a query is that of one walk")
    known = [topic for topic in asked.topics if topic in graph]
    kinds = []
    if protocol.starts_from_kinds:  # as the walk found them
        kinds = starting_kinds(Question("", asked.question, known, []), known, graph)
    return query_of(program_of(asked.walk, known, kinds), graph, language)


def add_query(asked: AskResult, graph: Graph, protocol: Protocol, language: str) -> None:
    """Put the query beside the answer, or the reason why there is none."""
    try:
        asked.query = answer_query(asked, graph, protocol, language)
    except QueryError as error:
        asked.no_query = str(error)
