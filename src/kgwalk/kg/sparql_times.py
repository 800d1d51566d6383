"""The times of facts behind a SPARQL endpoint with Wikidata's statements.

A direct claim (wdt:) has no time. Its statement has, by qualifiers: `statements_of` is the query that looks statements
up by their heads and relations, `read_times` tells from its rows the times of each claim. A date is as precise as
Wikidata says it is (a pqv: node), or a day where the endpoint has only the date (pq:).

    wdt:P39 wd:Q11696                          the claim: Grover Cleveland, position held, president
    p:P39 [ ps:P39 wd:Q11696 ; pq:P580 "1885-03-04T00:00:00Z" ; pq:P582 "1889-03-04T00:00:00Z" ]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kgwalk.kg.sparql_client import Term, iri, values
from kgwalk.kg.times import parse_time
from kgwalk.kg.wikidata_times import AT, DAY, END, START, statement_time, xsd_date_text

QUALIFIER = "http://www.wikidata.org/prop/qualifier/"
QUALIFIER_NODE = f"{QUALIFIER}value/"
_WIKIBASE = "http://wikiba.se/ontology#"

STATEMENT_ORDER = "STR(?h) STR(?r) STR(?t) STR(?statement) STR(?q) STR(?v) STR(?n)"


class ClaimEnds(NamedTuple):
    """A direct claim as the reply to a query names it: two IRIs, and the kind and text of the other end."""

    head: str
    relation: str
    kind: str
    tail: str


def statements_of(heads: Iterable[str], relations: Iterable[str]) -> str:
    """The query for the dates of all statements behind the direct claims of these heads, along these relations.

    Only statements of the best rank: they are those that have a direct claim.
    """
    dates = [iri(QUALIFIER + name) for name in (START, END, AT)]
    nodes = [iri(QUALIFIER_NODE + name) for name in (START, END, AT)]
    return (
        f"SELECT DISTINCT ?h ?r ?t ?statement ?q ?v ?n WHERE {{ "
        f"{values('?h', map(iri, heads))} {values('?r', map(iri, relations))}\n"
        f"?claimed <{_WIKIBASE}directClaim> ?r ; <{_WIKIBASE}claim> ?p ; <{_WIKIBASE}statementProperty> ?s .\n"
        f"?h ?p ?statement . ?statement a <{_WIKIBASE}BestRank> ; ?s ?t .\n"
        f"{{ {values('?q', dates)} ?statement ?q ?v . FILTER(isLiteral(?v)) }} UNION "
        f"{{ {values('?q', nodes)} ?statement ?q ?node . "
        f"?node <{_WIKIBASE}timeValue> ?v ; <{_WIKIBASE}timePrecision> ?n . }} }}"
    )


def read_times(rows: Iterable[Mapping[str, Term]]) -> dict[ClaimEnds, list[str]]:
    """The times of each claim, one for each of its statements that has a time that can be read."""
    said: dict[tuple[ClaimEnds, Term], dict[str, list[tuple[int, str]]]] = {}
    for row in rows:
        claim = ClaimEnds(row["h"].value, row["r"].value, row["t"].kind, row["t"].value)
        qualifier, precision = row["q"].value.rpartition("/")[2], row.get("n")
        known = precision is not None and precision.value.isascii() and precision.value.isdigit()
        text = xsd_date_text(row["v"].value, int(precision.value) if known and precision is not None else DAY)
        if text:
            # those of a known precision first
            said.setdefault((claim, row["statement"]), {}).setdefault(qualifier, []).append((not known, text))
    found: dict[ClaimEnds, set[str]] = {}
    for (claim, _), dates in said.items():
        since, until, at = (min(dates[name])[1] if name in dates else "" for name in (START, END, AT))
        if time := _readable(statement_time(since, until, at)):
            found.setdefault(claim, set()).add(time)
    return {claim: sorted(times) for claim, times in found.items()}


def merged(lists: Iterable[Sequence[str]]) -> list[str]:
    """All times of some lists, each once, in order."""
    return sorted({time for times in lists for time in times})


def _readable(time: str) -> str:
    """The time, or "" where it ends before it starts or is no date."""
    try:
        parse_time(time)
    except ValueError:
        return ""
    return time
