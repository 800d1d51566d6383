"""Splits of made questions that do not leak: what a test question asks for was not asked for in training.

A question that uses several relations goes where its relations go: all questions with the same relations in the same
directions, whatever their pattern, order and topics, are in one split, so a chain in test is a chain never trained on.
A question with one relation goes where its topic goes: relations are few, and a graph is no use with some never
trained on. Topics of the former may be anywhere. Knows questions, no graph.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from kgwalk.data.folder import STORE, DatasetWriter
from kgwalk.kg.store import StoredGraph
from kgwalk.questions.plan import CHOICES, HOPS
from kgwalk.types import KgwalkError, Question

SHARES: Mapping[str, float] = {"train": 0.8, "dev": 0.1, "test": 0.1}

_Kind = tuple[str | None, int | None]  # pattern, hops


def split_key(question: Question) -> str:
    """What all questions of a split have to themselves: relations with directions, or the topic.

    >>> program = [["tail_entities", "$1", "borders"], ["head_entities", "$2", "capital"]]
    >>> split_key(Question("1", "?", ["France"], [], extra={"program": program}))
    'ways: < capital, > borders'
    >>> split_key(Question("2", "?", ["France"], [], extra={"program": program[:1]}))
    'topic: France'
    """
    ways = [
        f"{'<' if tool == 'head_entities' else '>'} {rest[1]}" for tool, *rest in _program(question) if _has_way(tool)
    ]
    return f"ways: {', '.join(sorted(ways))}" if len(ways) > 1 else f"topic: {min(question.topic_entities, default='')}"


def split_questions(
    questions: Sequence[Question], seed: int = 0, shares: Mapping[str, float] = SHARES
) -> dict[str, list[Question]]:
    """The questions by split, each split in their order; every pattern and number of hops about in these shares.

    Groups of one key are placed largest first, where most is lacking; equals in an order that the seed decides.
    """
    if not shares or min(shares.values()) < 0 or not sum(shares.values()):
        raise KgwalkError(f"shares of splits {dict(shares)}: give each 0 or more, and one more than that")
    groups: dict[str, list[Question]] = defaultdict(list)
    for question in questions:
        groups[split_key(question)].append(question)
    total = Counter(map(_kind, questions))
    whole = sum(shares.values())
    lacking = {split: {kind: share / whole * count for kind, count in total.items()} for split, share in shares.items()}
    placed: dict[str, str] = {}
    for key in sorted(groups, key=lambda key: (-len(groups[key]), _order(key, seed))):
        kinds = Counter(map(_kind, groups[key]))
        placed[key] = max(lacking, key=lambda split: sum(lacking[split][kind] * n for kind, n in kinds.items()))
        for kind, count in kinds.items():
            lacking[placed[key]][kind] -= count
    return {split: [one for one in questions if placed[split_key(one)] == split] for split in shares}


def gaps(splits: Mapping[str, Sequence[Question]]) -> list[str]:
    """What scores on held-out questions will not cover: empty splits, patterns in the first split alone.

    >>> chain, count = (Question("1", "?", [], [], type=name) for name in ("chain", "count"))
    >>> for gap in gaps({"train": [chain, count], "dev": [chain], "test": []}):
    ...     print(gap)
    no questions in test: there are too few to hold some out
    count: in train alone, so held-out scores will not cover it
    """
    first, *held_out = splits
    empty = [split for split in held_out if not splits[split]]
    found = [f"no questions in {' and '.join(empty)}: there are too few to hold some out"] if empty else []
    if len(empty) == len(held_out):
        return found
    asked = {question.type for split in held_out for question in splits[split]}
    alone = sorted({str(question.type) for question in splits[first] if question.type not in asked})
    them = "them" if len(alone) > 1 else "it"
    return found + [f"{', '.join(alone)}: in {first} alone, so held-out scores will not cover {them}"] * bool(alone)


def _program(question: Question) -> Iterable[Sequence[str]]:
    program = question.extra.get("program")
    if not isinstance(program, list):
        raise KgwalkError(f"question {question.id} has no program, so it is unknown which relations it is about")
    return program


def _has_way(tool: str) -> bool:
    return tool in HOPS + CHOICES


def _kind(question: Question) -> _Kind:
    return question.type, question.hops


def _order(key: str, seed: int) -> bytes:
    return hashlib.blake2b(f"{seed}:{key}".encode(), digest_size=8).digest()


# ----------------------------------------------------------------------------------------------------
# Made questions as a dataset folder: a file for each split, and the graph copied into it or linked to.
#
# Knows the folder's parts, not how questions are made.


def write_dataset(
    target: Path,
    splits: Mapping[str, Sequence[Question]],
    graph: StoredGraph,
    *,
    link: bool = False,
    replace: bool = False,
) -> None:
    """Whole or not at all. With `link`, the folder holds a symbolic link to the graph's store where that lies now."""
    store = Path(graph.store.folder.path).resolve()
    with DatasetWriter(target, replace=replace) as writer:
        for split, questions in splits.items():
            for question in questions:
                writer.add(split, question)
        if link:
            (writer.folder / STORE).symlink_to(store, target_is_directory=True)
        else:
            writer.copy_graph(store)
        writer.finish()
