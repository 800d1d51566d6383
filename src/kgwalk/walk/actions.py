"""KG-R1's four one-hop actions over any Graph, and what a model reads of each outcome.

A wrong call is a result like any other: one of the eight error kinds of the paper's Figure 5, in its words. Those words
and the layout of the lists must not change: trained policies have seen them. Names are written as they are, quotes and
line breaks included; the protocol that wraps the text escapes them. The server's KG actions use this as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Literal, NamedTuple

from kgwalk.kg.graph import Graph
from kgwalk.types import UnknownEntity, UnknownQuestion, UnknownRelation

# Lists of relations


def flat(relations: Sequence[str]) -> str:
    return ", ".join(relations)


def hierarchical(relations: Sequence[str]) -> str:
    """A tree, in the order in which the names come; names that are not three dotted parts follow on one line.

    Freebase names a relation domain.type.property. In a tree the shared parts stand once, which halves the tokens
    (KG-R1, Table 10).

    >>> print(hierarchical(["geo.country.capital", "geo.country.languages", "people.person.name", "kin"]))
    geo
      country: capital, languages
    people
      person: name
    kin
    """
    tree: dict[str, dict[str, list[str]]] = {}
    others: list[str] = []
    for relation in relations:
        parts = relation.split(".")
        if len(parts) == 3 and all(parts):
            domain, kind, prop = parts
            tree.setdefault(domain, {}).setdefault(kind, []).append(prop)
        else:
            others.append(relation)
    lines: list[str] = []
    for domain, kinds in tree.items():
        lines.append(domain)
        lines.extend(f"  {kind}: {', '.join(props)}" for kind, props in kinds.items())
    if others:
        lines.append(flat(others))
    return "\n".join(lines)


RelationFormat = Literal["flat", "hierarchical"]


class Action(NamedTuple):
    """One of the four. `out` follows facts from head to tail; `entities` takes a relation, lists entities."""

    name: str
    out: bool
    entities: bool
    description: str

    @property
    def found(self) -> str:
        """The side of the facts that the action lists: "tail" or "head"."""
        return "tail" if self.out else "head"

    @property
    def given(self) -> str:
        """The side on which the entity of the call stands."""
        return "head" if self.out else "tail"


# The order is that of the paper's error message.
ACTIONS: dict[str, Action] = {
    action.name: action
    for action in (
        Action("get_head_relations", False, False, "relations of facts that have the entity as their tail"),
        Action("get_tail_relations", True, False, "relations of facts that have the entity as their head"),
        Action("get_head_entities", False, True, "heads of the facts with this relation and the entity as tail"),
        Action("get_tail_entities", True, True, "tails of the facts with the entity as head and this relation"),
    )
}


class ErrorKind(Enum):
    """The eight errors of Figure 5, as (code, title); two codes stand for two errors each."""

    INVALID_ACTION = ("KG_SERVER_ERROR", "Invalid Action")
    MISSING_FIELDS = ("KG_FORMAT_ERROR", "Missing Required Fields")
    ARGUMENT_COUNT = ("KG_FORMAT_ERROR", "Wrong Argument Count")
    SAMPLE_NOT_FOUND = ("KG_SAMPLE_NOT_FOUND", "Sample Missing")
    ENTITY_NOT_FOUND = ("KG_ENTITY_NOT_FOUND", "Entity Not in KG")
    RELATION_NOT_FOUND = ("KG_RELATION_NOT_FOUND", "Invalid Relation")
    NO_RELATIONS = ("KG_NO_RESULTS", "No Relations Found")
    NO_ENTITIES = ("KG_NO_RESULTS", "No Entities Found")

    @property
    def code(self) -> str:
        return self.value[0]

    @property
    def title(self) -> str:
        return self.value[1]


class ActionError(NamedTuple):
    kind: ErrorKind
    message: str


# Not frozen: that would triple the time to make one, and a server makes tens of thousands a second.
@dataclass(slots=True)
class Result:
    """What an action found: `items` of `total`, or an error.

    `times[i]` lists the dates of the facts that lead to `items[i]`; None where the graph has no dates,
    and for relations.
    """

    action: str
    entity: str | None
    relation: str | None
    items: list[str]
    total: int
    times: list[list[str]] | None
    relation_format: RelationFormat
    error: ActionError | None

    @property
    def ok(self) -> bool:
        return self.error is None

    @property
    def left_out(self) -> int:
        """How many items there are beyond those listed."""
        return self.total - len(self.items)

    @property
    def text(self) -> str:
        """What a model reads; built when asked for.

        `Tail relations for entity "Big": director, star`
        `Tail entities for relation "star" with head "Big": Tom Hanks, Elizabeth Perkins ... (+31 more)`
        `Relation "actor" not found in KG`
        """
        if self.error is not None:
            return self.error.message
        action = ACTIONS[self.action]
        side = "Tail" if action.out else "Head"
        if action.entities:
            head = f'{side} entities for relation "{self.relation}" with {action.given} "{self.entity}":'
            listed = ", ".join(self.items) if self.times is None else _dated(self.items, self.times)
        else:
            head = f'{side} relations for entity "{self.entity}":'
            if self.relation_format == "hierarchical":
                listed = f"\n{hierarchical(self.items)}" if self.items else ""
            else:
                listed = flat(self.items)
        if listed:
            head = head + listed if listed[0] == "\n" else f"{head} {listed}"
        return f"{head} ... (+{self.left_out} more)" if self.left_out else head


def run(
    graph: Graph,
    action: str,
    entity: str | None = None,
    relation: str | None = None,
    *,
    limit: int | None = None,
    relation_format: RelationFormat = "flat",
) -> Result:
    """Carry out one action; at most `limit` items are listed, the rest are counted.

    None stands for an argument that was not given. A name that is not there, a wrong action or a wrong set of
    arguments is an error in the result; only a failing graph raises.
    """
    known = ACTIONS.get(action)
    if known is None:
        message = f'Action "{action}" not available (use: {", ".join(ACTIONS)})'
        return _failed(action, entity, relation, ErrorKind.INVALID_ACTION, message)
    _, out, entities, _ = known
    if entity is None or (relation is None) == entities:
        return _wrong_arguments(known, entity, relation)
    times = None
    try:
        if relation is None:
            items = graph.relations(entity, out=out)
            total = len(items)
            if limit is not None and total > limit:
                items = items[:limit]
        else:
            found = graph.neighbors(entity, relation, out=out, limit=limit)
            items, total, times = found.names, found.total, found.times
    except UnknownEntity as error:
        message = f'Entity "{error.name}" not found in KG'
        return _failed(action, entity, relation, ErrorKind.ENTITY_NOT_FOUND, message)
    except UnknownRelation as error:
        message = f'Relation "{error.name}" not found in KG'
        return _failed(action, entity, relation, ErrorKind.RELATION_NOT_FOUND, message)
    except UnknownQuestion as error:  # a remote per-question view finds out only now
        return sample_not_found(action, entity, relation, error.name)
    if total == 0:
        return _nothing(known, entity, relation)
    return Result(action, entity, relation, items, total, times, relation_format, None)


def _wrong_arguments(action: Action, entity: str | None, relation: str | None) -> Result:
    missing = ["entity_name"] if entity is None else []
    missing += ["relation_name"] if action.entities and relation is None else []
    if missing:
        message = f"Missing required fields for {action.name}: {', '.join(missing)}"
        return _failed(action.name, entity, relation, ErrorKind.MISSING_FIELDS, message)
    message = f"{action.name} accepts only one entity argument"
    return _failed(action.name, entity, relation, ErrorKind.ARGUMENT_COUNT, message)


def sample_not_found(action: str, entity: str | None, relation: str | None, question: str) -> Result:
    """The result of an action on the subgraph of a question that has none."""
    message = f'Sample "{question}" not found in KG'
    return _failed(action, entity, relation, ErrorKind.SAMPLE_NOT_FOUND, message)


def _nothing(action: Action, entity: str, relation: str | None) -> Result:
    if action.entities:
        message = (
            f'No {action.found} entities found for relation "{relation}" '
            f'with {action.given} "{entity}" in knowledge graph'
        )
        return _failed(action.name, entity, relation, ErrorKind.NO_ENTITIES, message)
    message = f'No {action.found} relations found for entity "{entity}" in knowledge graph'
    return _failed(action.name, entity, relation, ErrorKind.NO_RELATIONS, message)


def _failed(action: str, entity: str | None, relation: str | None, kind: ErrorKind, message: str) -> Result:
    return Result(action, entity, relation, [], 0, None, "flat", ActionError(kind, message))


def _dated(names: list[str], times: list[list[str]]) -> str:
    """`Iran [2006-05; 2006-07]; Japan [2005-05]`, as in Figure 16; a name without a date stands alone."""
    return "; ".join(
        f"{name} [{'; '.join(dates)}]" if dates else name for name, dates in zip(names, times, strict=True)
    )
