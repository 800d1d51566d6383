"""GrailQA: questions with a graph query over Freebase, at three levels of generalisation.

Topics are the query's entity nodes; `hops` is how far the farthest of them is from what is asked for. The public
test file has neither. Knows nothing of graphs on disk.
"""

from __future__ import annotations

import re
from typing import Any

from kgwalk.data.formats import fields
from kgwalk.data.formats.format import Format, Reading
from kgwalk.data.formats.records import Record, json_records
from kgwalk.types import Question


def _question(record: Record, reading: Reading) -> Question:
    row = fields.mapping(record.value)
    function = fields.maybe(row, "function") or "none"
    answers = fields.Answers()
    kind = "number" if function == "count" else None
    for answer in fields.rows(row, "answer"):
        answers.add(fields.maybe(answer, "entity_name"), fields.text_or_number(answer, "answer_argument"))
        kind = kind or ("entity" if answer.get("answer_type") == "Entity" else "value")
    query = fields.mapping(row.get("graph_query") or {}, "`graph_query`")
    nodes = fields.rows(query, "nodes")
    topics = {
        fields.maybe(node, "friendly_name") or fields.text(node, "id"): fields.text(node, "id")
        for node in nodes
        if node.get("node_type") == "entity"
    }
    return Question(
        id=fields.text_or_number(row, "qid"),
        question=fields.text(row, "question"),
        topic_entities=list(topics),
        answers=answers.names,
        hops=_hops(nodes, fields.rows(query, "edges")),
        type=function if "function" in row else None,
        aliases=answers.aliases,
        extra=fields.without_none(
            {
                "answer_kind": kind,
                "level": row.get("level"),
                "topic_ids": topics,
                "num_node": row.get("num_node"),
                "domains": row.get("domains"),
                "s_expression": row.get("s_expression"),
                "sparql": row.get("sparql_query"),
            }
        ),
    )


def _hops(nodes: list[dict[str, Any]], edges: list[dict[str, Any]]) -> int | None:
    """Edges between the question node and the entity node farthest from it; None where there is no such pair."""
    distance = {str(node.get("nid")): 0 for node in nodes if node.get("question_node")}
    pairs = [(str(edge.get("start")), str(edge.get("end"))) for edge in edges]
    frontier = list(distance)
    while frontier:
        at = frontier.pop(0)
        for start, end in pairs:
            for one, other in ((start, end), (end, start)):
                if one == at and other not in distance:
                    distance[other] = distance[at] + 1
                    frontier.append(other)
    ends = [str(node.get("nid")) for node in nodes if node.get("node_type") == "entity"]
    return max((distance[end] for end in ends if end in distance), default=None)


FORMAT = Format(
    name="grailqa",
    about="GrailQA (Freebase ids and names, levels i.i.d., compositional, zero-shot)",
    files="grailqa_v1.0_train.json, grailqa_v1.0_dev.json",
    records=json_records,
    question=_question,
    is_questions=re.compile(r"grailqa[^/]*\.json(\.gz)?$|\.parquet$", re.IGNORECASE),
    keys=frozenset({"qid", "question"}),
)
