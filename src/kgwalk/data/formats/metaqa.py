"""MetaQA: `what films did [X] act in<TAB>A|B|C`, a folder for each number of hops, and kb.txt, `head|relation|tail`.

The type of a question stands on the same line of qa_train_qtype.txt, which is looked for beside the file and above
it. Knows nothing of stores.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from kgwalk.data.formats import fields
from kgwalk.data.formats.format import Format, Reading
from kgwalk.data.formats.records import Record, line_records
from kgwalk.types import InputError, Question, Triple

_TOPIC = re.compile(r"\[(.+)\]")  # greedy: a film is called [REC]
_HOPS = re.compile(r"(\d)-?hop")


def _records(path: Path) -> Iterator[Record]:
    """Lines, each with the type that stands on the same line of the file of types, where there is one."""
    types = _types(path)
    for record in line_records(path):
        if types is not None and not record.broken:
            if record.number > len(types):
                raise InputError(f"its file of types has {len(types)} lines and it has more", path=str(path))
            yield replace(record, value=f"{record.value}\t{types[record.number - 1]}")
        else:
            yield record


def _types(path: Path) -> list[str] | None:
    name = path.name.replace(".txt", "_qtype.txt")
    if name == path.name:  # called otherwise: no file of types can be told from it
        return None
    for folder in (path.parent, path.parent.parent):
        if (folder / name).is_file():
            return [record.value.strip() for record in line_records(folder / name)]
    return None


def _question(record: Record, reading: Reading) -> Question:
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
        topic_entities=fields.unique(topics),
        answers=fields.unique(columns[1].strip().split("|")),
        hops=int(hops[-1]) if hops else None,
        type=columns[2] if len(columns) == 3 else None,
        extra={"answer_kind": "entity"},
    )


def _facts(path: Path, reading: Reading) -> Iterator[Triple]:
    for record in line_records(path):
        columns = record.value.split("|")
        if len(columns) != 3 or not all(columns):
            reading.refuse(record.error(f"expected head|relation|tail, got {len(columns)} columns"))
        else:
            yield Triple(*columns)


FORMAT = Format(
    name="metaqa",
    about="MetaQA: films, 1 to 3 hops",
    files="1-hop/vanilla/qa_train.txt, 1-hop/qa_train_qtype.txt, ..., kb.txt",
    records=_records,
    question=_question,
    is_questions=re.compile(r"^(?!.*(ntm|audio|_qtype)).*qa_[a-z]+\.txt(\.gz)?$"),
    is_graph=re.compile(r"(^|/)kb\.txt(\.gz)?$"),
    facts=_facts,
)
