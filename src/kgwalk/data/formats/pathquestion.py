"""PathQuestion: a question, its answer with all right ones in parentheses, and the path `e1#r1#e2#r2#answer`.

PQ-2H.txt and the like, with their graphs 2H-kb.txt, PQL2-KB.txt. It comes in no splits: each file is one.
Knows nothing of stores.
"""

from __future__ import annotations

import re

from kgwalk.data.formats import fields
from kgwalk.data.formats.format import Format, Reading, record_id
from kgwalk.data.formats.multitq import dated_facts
from kgwalk.data.formats.records import Record, line_records
from kgwalk.types import Question, Triple


def _question(record: Record, reading: Reading) -> Question:
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
    """The answer first, then the others that are right. Names may hold parentheses themselves.

    >>> right_answers("male(male/)"), right_answers("Big_(film)(Big_(film)/Hook)")
    (['male'], ['Big_(film)', 'Hook'])
    """
    for place, sign in enumerate(text):
        if sign == "(" and text.endswith(")"):
            answers = fields.unique(text[place + 1 : -1].split("/"))
            if text[:place] in answers:
                return fields.unique([text[:place], *answers])
    if "(" in text or not text:
        raise ValueError(f"expected answer(answer/answer) in the second column, got {text!r:.80}")
    return [text]


def path_of(text: str) -> list[Triple]:
    """
    >>> path_of("a#r#b#s#c#<end>#c")
    [Triple(head='a', relation='r', tail='b', time=''), Triple(head='b', relation='s', tail='c', time='')]
    """
    parts = text.split("#<end>")[0].strip("#").split("#")
    if len(parts) < 3 or len(parts) % 2 == 0 or not all(parts):
        raise ValueError(f"expected a path e1#r1#e2... in the third column, got {text!r:.80}")
    return [Triple(*parts[at : at + 3]) for at in range(0, len(parts) - 2, 2)]


FORMAT = Format(
    name="pathquestion",
    about="PathQuestion and PathQuestion-Large (Freebase names, gold paths)",
    files="PQ-2H.txt, PQL-3H.txt, ...; 2H-kb.txt, PQL3-KB.txt, ... are the graphs",
    records=line_records,
    question=_question,
    is_questions=re.compile(r"(^|/)PQL?-?\dH[^/]*\.txt(\.gz)?$", re.IGNORECASE),
    is_graph=re.compile(r"(^|/)[^/]*-kb\.txt(\.gz)?$", re.IGNORECASE),
    facts=dated_facts,
)
