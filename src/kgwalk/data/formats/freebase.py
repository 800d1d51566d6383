"""Question sets over Freebase: WebQSP, CWQ, GrailQA, WebQuestions, SimpleQuestions, RoG.

Each section is one set: the function that makes a `Question` of a record, then its `Format`. Freebase ids (`m.05qtj`)
are aliases of an answer that has a name; `--names` gives names to topics that have only an id. SimpleQuestions comes
with its graph FB2M, and RoG with a subgraph for each question; the others have no graph.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from kgwalk.data.formats import base
from kgwalk.data.formats.base import Format, RecordReading, record_id
from kgwalk.data.formats.records import Record, json_records, line_records
from kgwalk.types import Question, Triple

# WebQSP, as first published


def _webqsp_question(record: Record, reading: RecordReading) -> Question:
    """A question and its parses; its answers are those of every complete parse, or of all parses if none is complete.

    {"QuestionId", "RawQuestion", "Parses": [{"TopicEntityMid", "InferentialChain", "Answers": [...], ...}, ...]}
    """
    row = base.mapping(record.value)
    parses = base.rows(row, "Parses")
    chosen = [parse for parse in parses if _is_complete(parse)] or parses
    answers = base.GatheredAnswers()
    kinds: list[str] = []
    for parse in chosen:
        for answer in base.rows(parse, "Answers"):
            answers.add(base.maybe(answer, "EntityName"), base.text_or_number(answer, "AnswerArgument"))
            kinds.append("entity" if answer.get("AnswerType") == "Entity" else "value")
    topics = {
        _either(parse, "TopicEntityName", "TopicEntityMid"): base.maybe(parse, "TopicEntityMid") for parse in chosen
    }
    chain = next((chain for parse in chosen if (chain := base.texts(parse, "InferentialChain"))), None)
    return Question(
        id=base.text(row, "QuestionId"),
        question=base.text(row, "RawQuestion", "ProcessedQuestion"),
        topic_entities=base.unique(topics),
        answers=answers.names,
        hops=None if chain is None else len(chain),
        aliases=answers.aliases,
        extra=base.without_none(
            {
                "answer_kind": max(kinds, key=kinds.count) if kinds else None,
                "topic_ids": {name: mid for name, mid in topics.items() if name and mid},
                "parses": [_parse(parse) for parse in chosen],
            }
        ),
    )


def _is_complete(parse: dict[str, Any]) -> bool:
    comment = parse.get("AnnotatorComment")
    return isinstance(comment, dict) and comment.get("ParseQuality") == "Complete"


def _either(row: dict[str, Any], first: str, second: str) -> str:
    """The text under the first key, else under the second."""
    return base.maybe(row, first) or base.maybe(row, second)


def _parse(parse: dict[str, Any]) -> dict[str, Any]:
    """What is kept of a parse in the question's `extra`."""
    constraints = [
        [base.maybe(one, "NodePredicate"), base.maybe(one, "Operator"), _either(one, "EntityName", "Argument")]
        for one in base.rows(parse, "Constraints")
    ]
    return base.without_none(
        {"chain": parse.get("InferentialChain"), "constraints": constraints, "sparql": parse.get("Sparql")}
    )


WEBQSP = Format(
    name="webqsp",
    about="WebQSP, the original with parses (Freebase ids and names)",
    files="WebQSP.train.json, WebQSP.test.json",
    records=partial(json_records, key="Questions"),
    question=_webqsp_question,
    is_questions=re.compile(r"WebQSP[^/]*\.json(\.gz)?$", re.IGNORECASE),
)


# ComplexWebQuestions, as first published

_MID = re.compile(r"\bns:([mg]\.[0-9a-z_]+)")


def _cwq_question(record: Record, reading: RecordReading) -> Question:
    """A question with SPARQL, and answers with aliases. Its topics are the Freebase ids that the SPARQL mentions.

    {"ID", "question", "sparql", "answers": [{"answer_id", "answer", "aliases"}, ...], "compositionality_type"}
    """
    row = base.mapping(record.value)
    sparql = base.maybe(row, "sparql")
    answers = base.GatheredAnswers()
    for answer in base.rows(row, "answers" if "answers" in row else "answer"):
        key = base.maybe(answer, "answer_id")
        answers.add(base.maybe(answer, "answer") or reading.name(key), key, *base.texts(answer, "aliases"))
    mids = base.unique(_MID.findall(sparql))
    return Question(
        id=base.text(row, "ID"),
        question=base.text(row, "question"),
        topic_entities=[reading.name(mid) for mid in mids],
        answers=answers.names,
        type=base.maybe(row, "compositionality_type") or None,
        aliases=answers.aliases,
        extra=base.without_none(
            {
                "topic_ids": {reading.name(mid): mid for mid in mids},
                "composition_answer": row.get("composition_answer"),
                "webqsp_id": row.get("webqsp_ID"),
                "sparql": sparql,
            }
        ),
    )


CWQ = Format(
    name="cwq",
    about="ComplexWebQuestions, the original with SPARQL (Freebase ids; --names gives topics their names)",
    files="ComplexWebQuestions_train.json, _dev.json, _test.json",
    records=json_records,
    question=_cwq_question,
    is_questions=re.compile(r"ComplexWebQuestions[^/]*\.json(\.gz)?$", re.IGNORECASE),
    keys=frozenset({"ID", "question"}),
)


# GrailQA


def _grailqa_question(record: Record, reading: RecordReading) -> Question:
    """A question with a graph query over Freebase, at one of three levels of generalisation.

    Its topics are the query's entity nodes, and `hops` is how far the farthest of them is from the node asked for.
    The public test file has no queries, so no topics and no hops.
    """
    row = base.mapping(record.value)
    function = base.maybe(row, "function") or "none"
    answers = base.GatheredAnswers()
    kind = "number" if function == "count" else None
    for answer in base.rows(row, "answer"):
        answers.add(base.maybe(answer, "entity_name"), base.text_or_number(answer, "answer_argument"))
        kind = kind or ("entity" if answer.get("answer_type") == "Entity" else "value")
    query = base.mapping(row.get("graph_query") or {}, "`graph_query`")
    nodes = base.rows(query, "nodes")
    topics = {
        base.maybe(node, "friendly_name") or base.text(node, "id"): base.text(node, "id")
        for node in nodes
        if node.get("node_type") == "entity"
    }
    return Question(
        id=base.text_or_number(row, "qid"),
        question=base.text(row, "question"),
        topic_entities=list(topics),
        answers=answers.names,
        hops=_hops(nodes, base.rows(query, "edges")),
        type=function if "function" in row else None,
        aliases=answers.aliases,
        extra=base.without_none(
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
    """How many edges lie between the question node and the entity node farthest from it; None without such a pair."""
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


GRAILQA = Format(
    name="grailqa",
    about="GrailQA (Freebase ids and names, levels i.i.d., compositional, zero-shot)",
    files="grailqa_v1.0_train.json, grailqa_v1.0_dev.json",
    records=json_records,
    question=_grailqa_question,
    is_questions=re.compile(r"grailqa[^/]*\.json(\.gz)?$|\.parquet$", re.IGNORECASE),
    keys=frozenset({"qid", "question"}),
)


# WebQuestions

_ITEM = re.compile(r'\s*\(description\s+(?:"((?:[^"\\]|\\.)*)"|([^\s()"]+))\s*\)')
_ESCAPED = re.compile(r"\\(.)")


def _webquestions_question(record: Record, reading: RecordReading) -> Question:
    """An utterance, the Freebase page it is about, and its answers by name.

    {"url", "utterance", "targetValue": '(list (description "a") ...)'}, or in some copies {"url", "question",
    "answers": [...]}. The topic is the last part of the page's address.
    """
    row = base.mapping(record.value)
    if "targetValue" not in row and "answers" not in row:
        raise ValueError(f"expected `targetValue` or `answers`, got the keys {', '.join(list(row)[:8])}")
    answers = base.GatheredAnswers()
    for name in described(base.text(row, "targetValue")) if "targetValue" in row else base.texts(row, "answers"):
        answers.add(name)
    url = base.maybe(row, "url")
    topic = url.rstrip("/").rpartition("/")[2].replace("_", " ")  # .../view/en/natalie_portman
    return Question(
        id=record_id(record, reading, "webquestions"),
        question=base.text(row, "utterance", "question"),
        topic_entities=base.unique([topic]),
        answers=answers.names,
        extra=base.without_none({"url": url}),
    )


def described(value: str) -> list[str]:
    r"""The names in a Lisp list of descriptions.

    >>> described('(list (description "New York") (description Rome))')
    ['New York', 'Rome']
    """
    inside = value.strip()
    if not (inside.startswith("(list") and inside.endswith(")")):
        raise ValueError(f'expected (list (description "a") ...) in `targetValue`, got {value!r:.80}')
    inside, at, names = inside[len("(list") : -1].rstrip(), 0, []
    while at < len(inside):
        found: Any = _ITEM.match(inside, at)
        if found is None:
            raise ValueError(f'expected (description "a") in `targetValue`, got {inside[at:].strip()!r:.80}')
        quoted, plain = found.groups()
        names.append(_ESCAPED.sub(r"\1", quoted) if quoted is not None else plain)
        at = found.end()
    return names


WEBQUESTIONS = Format(
    name="webquestions",
    about="WebQuestions, with answers by name",
    files="webquestions.examples.train.json, webquestions.examples.test.json",
    records=json_records,
    question=_webquestions_question,
    keys=frozenset({"url"}),
)


# SimpleQuestions, with FB2M or FB5M as its graph

_SITE = "www.freebase.com/"


def _simplequestions_question(record: Record, reading: RecordReading) -> Question:
    """A Freebase fact and a question about it: subject, relation, object and question between tabs."""
    columns = record.value.split("\t")
    if len(columns) != 4 or not all(part.strip() for part in columns):
        raise ValueError(f"expected subject<TAB>relation<TAB>object<TAB>question, got {len(columns)} columns")
    subject, relation, object_, question = columns
    head, tail = freebase_id(subject), freebase_id(object_)
    answers = base.GatheredAnswers()
    answers.add(reading.name(tail), tail)
    return Question(
        id=record_id(record, reading, "simplequestions"),
        question=question.strip(),
        topic_entities=[reading.name(head)],
        answers=answers.names,
        hops=1,
        gold_paths=[[Triple(reading.name(head), freebase_id(relation), reading.name(tail))]],
        aliases=answers.aliases,
        extra={"answer_kind": "entity", "topic_ids": {reading.name(head): head}},
    )


def _simplequestions_facts(path: Path, reading: RecordReading) -> Iterator[Triple]:
    """The facts of FB2M: each row has a subject, a relation, and one or more objects parted by spaces."""
    for record in line_records(path):
        columns = record.value.split("\t")
        if len(columns) != 3:
            reading.refuse(record.error(f"expected subject<TAB>relation<TAB>objects, got {len(columns)} columns"))
            continue
        head, relation = freebase_id(columns[0]), freebase_id(columns[1])
        for object_ in columns[2].split():
            yield Triple(reading.name(head), relation, reading.name(freebase_id(object_)))


def freebase_id(text: str) -> str:
    """An id in the spelling that the other Freebase sets use: dots, without the site.

    >>> freebase_id("www.freebase.com/book/written_work/subjects"), freebase_id("fb:m.01cj3p")
    ('book.written_work.subjects', 'm.01cj3p')
    """
    return text.strip().removeprefix(_SITE).removeprefix("fb:").strip("/").replace("/", ".")


SIMPLEQUESTIONS = Format(
    name="simplequestions",
    about="SimpleQuestions (Freebase ids; --names gives them names)",
    files="annotated_fb_data_train.txt, _valid.txt, _test.txt; freebase-FB2M.txt is the graph",
    records=line_records,
    question=_simplequestions_question,
    is_questions=re.compile(r"annotated_fb_data[^/]*\.(txt|tsv)(\.gz)?$"),
    is_graph=re.compile(r"freebase-FB[25]M\.txt(\.gz)?$"),
    facts=_simplequestions_facts,
)


# RoG's WebQSP and CWQ


def _rog_question(record: Record, reading: RecordReading) -> Question:
    """A question with a Freebase subgraph of its own; names only, no ids.

    {"id", "question", "answer": [...], "q_entity": [...], "a_entity": [...], "graph": [[h, r, t], ...], "choices"}
    """
    row = base.mapping(record.value)
    # RoG scores by `answer`; `a_entity` holds those answers that are entities of the graph
    given, entities = base.texts(row, "answer"), base.texts(row, "a_entity")
    answers = base.GatheredAnswers()
    for name in given or entities:
        answers.add(name)
    return Question(
        id=base.text_or_number(row, "id"),
        question=base.text(row, "question"),
        topic_entities=base.unique(base.texts(row, "q_entity")),
        answers=answers.names,
        extra=base.without_none(
            {"a_entity": entities if entities != given else None, "choices": base.texts(row, "choices")}
        ),
    )


def _rog_graph(record: Record) -> list[Triple]:
    return base.facts(record.value.get("graph") or [], "graph")


ROG = Format(
    name="rog",
    about="RoG's WebQSP and CWQ with a subgraph for each question",
    files="train.jsonl, or data/train-00000-of-00002.parquet, ...",
    records=json_records,
    question=_rog_question,
    graph=_rog_graph,
    keys=frozenset({"question", "q_entity"}),
)
