"""Question sets over Wikidata, DBpedia and Wikipedia: QALD, 2WikiMultihopQA, KILT, CREAK.

Each section is one set: the function that makes a `Question` of a record, then its `Format`. None of them comes with a
graph file; the evidence of 2WikiMultihopQA makes up one. Paragraphs of Wikipedia are left out, their titles are kept.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from kgwalk.data.formats import base
from kgwalk.data.formats.base import Format, RecordReading
from kgwalk.data.formats.records import Record, json_records
from kgwalk.types import Question, Triple

# QALD

_ENTITY = re.compile(
    r"<https?://(?:www\.)?(?:wikidata\.org/entity|dbpedia\.org/resource)/([^>]+)>"
    r"|\bwd:([QL]\d+)\b|\b(?:dbr|res):([^\s;,.){}]+(?:\.[^\s;,.){}]+)*)"
)
_NUMBERS = ("integer", "decimal", "double", "float", "int", "long", "nonNegativeInteger", "positiveInteger")
_TIMES = ("date", "dateTime", "gYear", "gYearMonth")


def _qald_question(record: Record, reading: RecordReading) -> Question:
    """A question in several languages, with SPARQL over Wikidata or DBpedia and the answers that it gave.

    An answer is the last part of its IRI (`Q3931`, `Angela_Merkel`), or the name that `--names` gives it; the IRI is
    an alias. Its topics are the entities that the SPARQL mentions.
    """
    row = base.mapping(record.value)
    query = base.mapping(row.get("query") or {}, "`query`")
    sparql = base.maybe(query, "sparql")
    answers, kind = _qald_answers(row, reading)
    keys = base.unique("".join(found) for found in _ENTITY.findall(sparql))
    return Question(
        id=base.text_or_number(row, "id"),
        question=_in_language(base.rows(row, "question"), reading.language),
        topic_entities=[reading.name(key) for key in keys],
        answers=answers.names,
        aliases=answers.aliases,
        extra=base.without_none(
            {
                "answer_kind": kind,
                "language": reading.language,
                "topic_ids": {reading.name(key): key for key in keys if reading.name(key) != key},
                "sparql": sparql,
            }
        ),
    )


def _in_language(versions: list[dict[str, Any]], language: str) -> str:
    for version in versions:
        if version.get("language") == language:
            return base.text(version, "string")
    there_are = ", ".join(str(version.get("language")) for version in versions) or "none"
    raise ValueError(f"expected the question in {language!r}; it is given in {there_are}")


def _qald_answers(row: dict[str, Any], reading: RecordReading) -> tuple[base.GatheredAnswers, str | None]:
    """The answers in SPARQL's JSON results, and their kind: entity, number, time, value or boolean."""
    answers, kind = base.GatheredAnswers(), None
    for answer in base.rows(row, "answers"):
        if isinstance(answer.get("boolean"), bool):
            answers.add("true" if answer["boolean"] else "false")
            kind = "boolean"
        results = base.mapping(answer.get("results") or {}, "`results`")
        for binding in base.rows(results, "bindings"):
            for term in binding.values():
                value = base.text_or_number(base.mapping(term, "a term"), "value")
                kind = kind or _kind(term)
                if term.get("type") == "uri":
                    key = re.split(r"[/#]", value)[-1] or value
                    answers.add(reading.name(key), key, value)
                else:
                    answers.add(value)
    return answers, kind


def _kind(term: dict[str, Any]) -> str:
    datatype = base.maybe(term, "datatype").rpartition("#")[2]
    if term.get("type") == "uri":
        return "entity"
    return "number" if datatype in _NUMBERS else "time" if datatype in _TIMES else "value"


QALD = Format(
    name="qald",
    about="QALD-9, QALD-9-plus, QALD-10 (Wikidata or DBpedia ids; --language, --names)",
    files="qald_10.json, qald_9_plus_train_wikidata.json, ...",
    records=partial(json_records, key="questions"),
    question=_qald_question,
    is_questions=re.compile(r"qald[^/]*\.json(\.gz)?$", re.IGNORECASE),
)


# 2WikiMultihopQA

_HOPS = {"comparison": 1, "bridge_comparison": 2}  # these join two questions; the other types are a single chain


def _twowiki_question(record: Record, reading: RecordReading) -> Question:
    """A question with the Wikidata facts that lead to its answer.

    {"_id", "question", "answer", "type", "evidences": [[h, r, t], ...], "supporting_facts": [[title, n], ...]}
    The facts of all questions together are the graph, unless another is given. Some copies have JSON text or columns
    in place of the lists; they are read as well.
    """
    row = base.mapping(record.value)
    evidence = base.facts(_rows(row.get("evidences") or []), "evidences")
    answer, kind = base.maybe(row, "answer"), base.maybe(row, "type") or None
    answers = base.GatheredAnswers()
    answers.add(answer, base.maybe(row, "answer_id"))
    path = None if kind in _HOPS else _chain(evidence, answer)
    supporting = _rows(row.get("supporting_facts") or [])
    return Question(
        id=base.text_or_number(row, "_id", "id"),
        question=base.text(row, "question"),
        topic_entities=_starts(evidence),
        answers=answers.names,
        hops=len(path) if path else _HOPS.get(kind or ""),
        gold_paths=[path] if path else None,
        evidence=evidence or None,
        type=kind,
        aliases=answers.aliases,
        extra=base.without_none(
            {
                "answer_kind": "boolean" if answer in ("yes", "no") else "entity" if answer else None,
                "entity_ids": row.get("entity_ids"),
                "pages": base.unique(_titles(supporting)),
            }
        ),
    )


def _rows(value: Any) -> Any:
    """A list of lists, given as such, as JSON text, or as columns: {"title": [...], "sent_id": [...]}."""
    value = base.from_json(value)
    if isinstance(value, dict):
        columns = list(value.values())
        if not all(isinstance(column, list) and len(column) == len(columns[0]) for column in columns):
            raise ValueError("expected columns of equal length")
        return [list(parts) for parts in zip(*columns, strict=True)]
    return value


def _titles(supporting: Any) -> list[str]:
    """The pages of [title, sentence] pairs."""
    pairs = supporting if isinstance(supporting, list) else []
    return [pair[0] for pair in pairs if isinstance(pair, list) and pair and isinstance(pair[0], str)]


def _starts(evidence: list[Triple]) -> list[str]:
    """Where the facts start: heads that are not the tail of any of them."""
    tails = {fact.tail for fact in evidence}
    return base.unique(fact.head for fact in evidence if fact.head not in tails)


def _chain(evidence: list[Triple], answer: str) -> list[Triple] | None:
    """The facts as a path to the answer, if each starts where the one before ends; else None."""
    ends = [fact.tail for fact in evidence]
    joined = all(fact.head == end for fact, end in zip(evidence[1:], ends, strict=False))
    return evidence if evidence and joined and ends[-1] == answer else None


TWOWIKI = Format(
    name="2wiki",
    about="2WikiMultihopQA (Wikidata facts as evidence, which make up the graph)",
    files="train.json, dev.json, test.json, or train.parquet, ...",
    records=json_records,
    question=_twowiki_question,
    is_questions=re.compile(r"(?<!aliases)\.(jsonl?|parquet)(\.gz|\.zst)?$"),
    evidence_is_graph=True,
    keys=frozenset({"question", "evidences"}),
)


# KILT's slot filling: T-REx and zero-shot relation extraction

SEPARATOR = "[SEP]"


def _kilt_question(record: Record, reading: RecordReading) -> Question:
    """A slot, `Head [SEP] relation`, and what fills it; or a plain question.

    The question is the first template question of the record, or else is made from the slot. KILT takes any of its
    outputs as right, so they are one answer: the first, with the others as aliases.
    """
    row = base.mapping(record.value)
    meta = base.mapping(row.get("meta") or {}, "`meta`")
    given, outputs = base.text(row, "input"), base.rows(row, "output")
    head, is_slot, relation = (part.strip() for part in given.partition(SEPARATOR))
    if is_slot and not (head and relation):
        raise ValueError(f"expected a head and a relation around {SEPARATOR} in `input`, got {given!r:.80}")
    answers = base.GatheredAnswers()
    answers.add(
        *[base.maybe(output, "answer") for output in outputs], *(base.texts(meta, "obj_surface") if is_slot else [])
    )
    templates = base.texts(meta, "template_questions")
    path = [Triple(head, relation, answers.names[0])] if is_slot and answers.names else None
    return Question(
        id=base.text_or_number(row, "id"),
        question=templates[0] if templates else f"what is the {relation} of {head}?" if is_slot else given,
        topic_entities=[head] if is_slot else [],
        answers=answers.names,
        hops=1 if is_slot else None,
        gold_paths=None if path is None else [path],
        type=relation or None,
        aliases=answers.aliases,
        extra=base.without_none(
            {
                "answer_kind": "entity" if is_slot else None,
                "template_questions": templates[1:],
                "subject_aliases": base.texts(meta, "subj_aliases"),
                "pages": _pages(outputs),
            }
        ),
    )


def _pages(outputs: list[dict[str, Any]]) -> list[str]:
    """The Wikipedia titles that the answers come from."""
    return base.unique(
        str(source.get("title") or "") for output in outputs for source in base.rows(output, "provenance")
    )


KILT = Format(
    name="kilt",
    about="KILT: T-REx and zero-shot relation extraction (and its plain questions)",
    files="trex-train-kilt.jsonl, structured_zeroshot-dev-kilt.jsonl",
    records=json_records,
    question=_kilt_question,
    keys=frozenset({"input", "output"}),
)


# CREAK

_NO_ENTITY = ("n/a", "none", "")


def _creak_question(record: Record, reading: RecordReading) -> Question:
    """A sentence about an entity; the answer says whether it is "true" or "false".

    {"ex_id", "sentence", "entity", "label", "explanation", "en_wiki_pageid"}
    """
    row = base.mapping(record.value)
    entity = base.maybe(row, "entity")
    label = "" if row.get("label") is None else row["label"]
    if isinstance(label, bool):
        label = "true" if label else "false"
    if label not in ("", "true", "false"):
        raise ValueError(f'expected "true" or "false" in `label`, got {label!r}')
    return Question(
        id=base.text_or_number(row, "ex_id"),
        question=base.text(row, "sentence"),
        topic_entities=[] if entity.lower() in _NO_ENTITY else [entity],
        answers=[label] if label else [],
        extra=base.without_none(
            {
                "answer_kind": "boolean",
                "explanation": row.get("explanation"),
                "wikipedia_id": row.get("en_wiki_pageid"),
            }
        ),
    )


CREAK = Format(
    name="creak",
    about="CREAK: is the sentence true? (answers true, false)",
    files="train.json, dev.json, contrast_set.json (JSON lines all)",
    records=json_records,
    question=_creak_question,
    keys=frozenset({"ex_id", "sentence"}),
)
