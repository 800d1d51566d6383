"""Question sets published with their graph: MetaQA, MultiTQ, PathQuestion, and kgwalk's own.

Each section is one set: the function that makes a `Question` of a record, the one that reads the graph's facts, then
its `Format`. The answers are names in that graph, so nothing has to be matched by id.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from kgwalk.config.run_folder import question_of
from kgwalk.data.folder import GRAPH
from kgwalk.data.formats import base
from kgwalk.data.formats.base import Format, RecordReading, record_id
from kgwalk.data.formats.records import Record, json_records, line_records
from kgwalk.types import InputError, Question, Triple

# MetaQA

_TOPIC = re.compile(r"\[(.+)\]")  # greedy: a film is called [REC]
_HOPS = re.compile(r"(\d)-?hop")


def _metaqa_records(path: Path) -> Iterator[Record]:
    """The lines of a file, each with the question's type as one more column, where there is a file of types."""
    types = _metaqa_types(path)
    for record in line_records(path):
        if types is not None and not record.broken:
            if record.number > len(types):
                raise InputError(f"its file of types has {len(types)} lines and it has more", path=str(path))
            yield replace(record, value=f"{record.value}\t{types[record.number - 1]}")
        else:
            yield record


def _metaqa_types(path: Path) -> list[str] | None:
    """The types in qa_train_qtype.txt, line by line as in qa_train.txt; it lies beside that file or one folder up."""
    name = path.name.replace(".txt", "_qtype.txt")
    if name == path.name:  # not a .txt file: its file of types has no known name
        return None
    for folder in (path.parent, path.parent.parent):
        if (folder / name).is_file():
            return [record.value.strip() for record in line_records(folder / name)]
    return None


def _metaqa_question(record: Record, reading: RecordReading) -> Question:
    """`what films did [X] act in<TAB>A|B|C`; the folder's name, `2-hop`, tells the hops."""
    columns = record.value.split("\t")
    if len(columns) not in (2, 3) or not columns[1].strip():
        raise ValueError(f"expected question<TAB>answer|answer|..., got {len(columns)} columns")
    topics = _TOPIC.findall(columns[0])
    if not topics:
        raise ValueError("expected the topic in brackets, as in `what films did [X] act in`")
    hops = _HOPS.findall("/".join(record.path.parts[-3:]))
    prefix = f"metaqa-{hops[-1]}h" if hops else "metaqa"
    return Question(
        id=f"{prefix}-{reading.split}-{record.number}",
        question=_TOPIC.sub(r"\1", columns[0]).strip(),
        topic_entities=base.unique(topics),
        answers=base.unique(columns[1].strip().split("|")),
        hops=int(hops[-1]) if hops else None,
        type=columns[2] if len(columns) == 3 else None,
        extra={"answer_kind": "entity"},
    )


def _metaqa_facts(path: Path, reading: RecordReading) -> Iterator[Triple]:
    """kb.txt: `head|relation|tail`."""
    for record in line_records(path):
        columns = record.value.split("|")
        if len(columns) != 3 or not all(columns):
            reading.refuse(record.error(f"expected head|relation|tail, got {len(columns)} columns"))
        else:
            yield Triple(*columns)


METAQA = Format(
    name="metaqa",
    about="MetaQA: films, 1 to 3 hops",
    files="1-hop/vanilla/qa_train.txt, 1-hop/qa_train_qtype.txt, ..., kb.txt",
    records=_metaqa_records,
    question=_metaqa_question,
    is_questions=re.compile(r"^(?!.*(ntm|audio|_qtype)).*qa_[a-z]+\.txt(\.gz)?$"),
    is_graph=re.compile(r"(^|/)kb\.txt(\.gz)?$"),
    facts=_metaqa_facts,
)


# MultiTQ


def _multitq_question(record: Record, reading: RecordReading) -> Question:
    """A question about dated events. The source names no topics; the linker finds them in the question.

    {"quid", "question", "answers": [...], "answer_type", "time_level", "qtype", "qlabel"}
    """
    row = base.mapping(record.value)
    answers = base.GatheredAnswers()
    for name in base.texts(row, "answers"):
        answers.add(name)
    return Question(
        id=base.text_or_number(row, "quid"),
        question=base.text(row, "question"),
        topic_entities=base.unique(base.texts(row, "entities")),
        answers=answers.names,
        type=base.maybe(row, "qtype") or None,
        extra=base.without_none(
            {
                "answer_kind": row.get("answer_type"),  # entity or time
                "time_level": row.get("time_level"),  # day, month or year
                "qlabel": row.get("qlabel"),  # Single or Multiple
            }
        ),
    )


def dated_facts(path: Path, reading: RecordReading) -> Iterator[Triple]:
    """Rows of head, relation, tail and date, between tabs."""
    for record in line_records(path):
        columns = record.value.split("\t")
        if len(columns) not in (3, 4) or not all(columns[:3]):
            reading.refuse(record.error(f"expected head<TAB>relation<TAB>tail<TAB>date, got {len(columns)} columns"))
        else:
            yield Triple(*columns)


def _multitq_facts(path: Path, reading: RecordReading) -> Iterator[Triple]:
    """The dated facts of a file. full.txt holds those of train, valid and test, which are left out beside it."""
    if not path.name.startswith("full.") and any(path.parent.glob("full.*")):
        return iter(())
    return dated_facts(path, reading)


MULTITQ = Format(
    name="multitq",
    about="MultiTQ: dated events (ICEWS), answers are entities or times",
    files="questions/train.json, dev.json, test.json; kg/full.txt (or train, valid, test) is the graph",
    records=json_records,
    question=_multitq_question,
    is_questions=re.compile(r"(?<!kg/)[^/]*(train|dev|test)[^/]*\.jsonl?(\.gz|\.zst)?$"),
    is_graph=re.compile(r"(^|/)kg/(full|train|valid|dev|test)\.(txt|tsv)(\.gz)?$"),
    facts=_multitq_facts,
    keys=frozenset({"quid", "question"}),
)


# PathQuestion


def _pathquestion_question(record: Record, reading: RecordReading) -> Question:
    """A question, its answer with all right answers in parentheses, and the path `e1#r1#e2#r2#answer`, between tabs.

    It comes without splits, so each file (PQ-2H.txt, PQL-3H.txt, ...) is a split of its own.
    """
    columns = record.value.strip().split("\t")
    if len(columns) != 3:
        raise ValueError(f"expected question<TAB>answer(answer/answer)<TAB>path, got {len(columns)} columns")
    path = path_of(columns[2])
    return Question(
        id=record_id(record, reading, "pathquestion"),
        question=columns[0].strip(),
        topic_entities=[path[0].head],
        answers=right_answers(columns[1].strip()),
        hops=len(path),
        gold_paths=[path],
        extra={"answer_kind": "entity"},
    )


def right_answers(text: str) -> list[str]:
    """The answer first, then the others that are right too. Names may have parentheses themselves.

    >>> right_answers("male(male/)"), right_answers("Big_(film)(Big_(film)/Hook)")
    (['male'], ['Big_(film)', 'Hook'])
    """
    for place, sign in enumerate(text):
        if sign == "(" and text.endswith(")"):
            answers = base.unique(text[place + 1 : -1].split("/"))
            if text[:place] in answers:
                return base.unique([text[:place], *answers])
    if "(" in text or not text:
        raise ValueError(f"expected answer(answer/answer) in the second column, got {text!r:.80}")
    return [text]


def path_of(text: str) -> list[Triple]:
    """The facts of a path.

    >>> path_of("a#r#b#s#c#<end>#c")
    [Triple(head='a', relation='r', tail='b', time=''), Triple(head='b', relation='s', tail='c', time='')]
    """
    parts = text.split("#<end>")[0].strip("#").split("#")
    if len(parts) < 3 or len(parts) % 2 == 0 or not all(parts):
        raise ValueError(f"expected a path e1#r1#e2... in the third column, got {text!r:.80}")
    return [Triple(*parts[at : at + 3]) for at in range(0, len(parts) - 2, 2)]


PATHQUESTION = Format(
    name="pathquestion",
    about="PathQuestion and PathQuestion-Large (Freebase names, gold paths)",
    files="PQ-2H.txt, PQL-3H.txt, ...; 2H-kb.txt, PQL3-KB.txt, ... are the graphs",
    records=line_records,
    question=_pathquestion_question,
    is_questions=re.compile(r"(^|/)PQL?-?\dH[^/]*\.txt(\.gz)?$", re.IGNORECASE),
    is_graph=re.compile(r"(^|/)[^/]*-kb\.txt(\.gz)?$", re.IGNORECASE),
    facts=dated_facts,
)


# kgwalk's own


def _own_question(record: Record, reading: RecordReading) -> Question:
    """A question with the keys of a dataset folder, in a file that lies elsewhere or has another name or type."""
    row: dict[str, Any] = base.mapping(record.value)
    base.text(row, "question")
    question = question_of({key: value for key, value in row.items() if value is not None}, str(record.number))
    return replace(question, extra={key: value for key, value in question.extra.items() if key != GRAPH})


def _own_graph(record: Record) -> list[Triple]:
    return base.facts(record.value.get(GRAPH) or [], GRAPH)


OWN = Format(
    name="kgwalk",
    about="the keys of kgwalk's own folders, in JSON lines, an array or parquet",
    files="train.jsonl, dev.jsonl.gz, test.parquet, ...; kg.tsv.gz is the graph",
    records=json_records,
    question=_own_question,
    is_questions=re.compile(r"^(?!.*\.kg/)(.*/)?(?!kg\.|graphs\.)[^/]*\.(jsonl?|parquet)(\.gz|\.zst)?$"),
    is_graph=re.compile(r"^(kg\.(tsv|csv|nt|ttl|nq|jsonl|ndjson)|graphs\.jsonl|names\.tsv)(\.gz|\.zst)?$"),
    graph=_own_graph,
    keys=frozenset({"question", "topic_entities", "answers"}),
)
