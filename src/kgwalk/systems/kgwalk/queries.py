"""The query of an answer that the `kgwalk` system walked to, for `ask --as` and the server."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kgwalk.kg.graph import Graph
from kgwalk.systems.kgwalk.protocol import Kgwalk, parse
from kgwalk.types import Question, Turn
from kgwalk.walk.agent import AskResult
from kgwalk.walk.protocol import Protocol
from kgwalk.walk.queries import query_of
from kgwalk.walk.queries.program import QueryError, program_of
from kgwalk.walk.starts import starting_kinds


def query_of_walk(
    walk: Iterable[Turn],
    question: str,
    topics: Sequence[str],
    graph: Graph,
    protocol: Protocol,
    language: str,
    *,
    runs: int = 1,
) -> str:
    """The query of a language that gives the answer of a walk; QueryError, which says why, where there is none."""
    if not isinstance(protocol, Kgwalk):
        raise QueryError(f"a walk of `{protocol.name}` is no algebra; walks of the recipe `kgwalk` are")
    if runs != 1:
        raise QueryError("the answers of several runs are united; a query is that of one walk")
    known = [topic for topic in topics if topic in graph]
    kinds = []
    if protocol.starts_from_kinds:  # as the walk found them
        kinds = starting_kinds(Question("", question, known, []), known, graph)
    return query_of(program_of(walk, known, kinds), graph, language)


def turn_of(text: str, ok: bool) -> Turn:
    """A turn of a walk that was written down, as far as its program needs it: the step, and whether it went right."""
    return Turn([], [], text, parse(text), ok=ok)


def add_query(asked: AskResult, graph: Graph, protocol: Protocol, language: str) -> None:
    """Put the query beside the answer, or the reason why there is none."""
    try:
        runs = len(asked.episodes)
        asked.query = query_of_walk(asked.walk, asked.question, asked.topics, graph, protocol, language, runs=runs)
    except QueryError as error:
        asked.no_query = str(error)
