"""Every answer as a query: a walk written as SPARQL, SQL, Cypher or Python that gives the same answer.

    query_of(program, graph, "sql")         the text of one query, runnable as it is

`program` takes the dead ends out of a walk, `plan` makes it an `algebra` over the graph, `readings` sees to it that
values are ordered as the walk orders them, and a module a language writes it down.
"""

from __future__ import annotations

from kgwalk.kg.graph import Graph
from kgwalk.walk.queries.program import QueryError, WalkProgram

LANGUAGES = ("sparql", "cypher", "sql", "python")


def query_of(program: WalkProgram, graph: Graph, language: str) -> str:
    """The program as one query of a language; QueryError, which says why, where there is none."""
    from kgwalk.walk.queries.plan import plan

    planned = plan(program.sliced(), graph)
    if language == "sql":
        from kgwalk.walk.queries.sql import write_sql

        return write_sql(planned)
    if language == "sparql":
        from kgwalk.kg.store import StoredGraph
        from kgwalk.walk.queries.sparql import write_sparql

        assert isinstance(graph, StoredGraph)  # `plan` takes no other
        return write_sparql(planned, graph.store)
    if language == "cypher":
        from kgwalk.walk.queries.cypher import write_cypher

        return write_cypher(planned)
    if language == "python":
        from kgwalk.walk.queries.python import write_python

        return write_python(planned)
    raise QueryError(f"unknown query language {language!r}; choose one of {', '.join(LANGUAGES)}")
