"""Questions that are there more than once: ids and texts twice in a split, and from one split to another.

Two texts are the same if they agree but for case, accents and punctuation. Knows nothing of graphs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kgwalk.evaluation.findings import Finding, quoted
from kgwalk.evaluation.question_lines import Asked
from kgwalk.kg.normalise import normalise

_Key = tuple[str, frozenset[str]]  # the text, and the topics


def repeats(asked: Mapping[str, Sequence[Asked]], split: str | None = None) -> Iterator[Finding]:
    """A question of a later split that an earlier one has is the finding: train, dev, test.

    With `split`, findings are about that one's questions alone, compared with all other splits.
    """
    ids: dict[str, dict[str, Asked]] = {}  # what: the first question that has it, by split
    texts: dict[str, dict[str, Asked]] = {}
    wholes: dict[_Key, dict[str, Asked]] = {}
    later: list[tuple[Asked, _Key]] = []
    for name in asked:
        for one in asked[name]:
            text = normalise(one.question.question)
            whole = (text, frozenset(one.question.topic_entities))
            ids.setdefault(one.question.id, {}).setdefault(name, one)
            if text:  # a blank text is a finding of its own
                texts.setdefault(text, {}).setdefault(name, one)
                wholes.setdefault(whole, {}).setdefault(name, one)
            if split in (None, name):
                later.append((one, whole))
    before = {name: set(list(asked)[:at]) if split is None else asked.keys() - {name} for at, name in enumerate(asked)}
    for one, whole in later:
        others = before[one.split]
        yield from _same_id(one, ids[one.question.id], others)
        if whole[0]:
            yield from _same_text(one, texts[whole[0]], wholes[whole], others)


def _same_id(one: Asked, by_split: Mapping[str, Asked], others: set[str]) -> Iterator[Finding]:
    first = by_split[one.split]
    if first is not one:
        yield one.finding("duplicate_id", f"the same id as line {first.line}")
    elif other := next((name for name in by_split if name in others), None):
        yield one.finding("id_in_two_splits", f"the same id as {_place(by_split[other])}")


def _same_text(
    one: Asked, texts: Mapping[str, Asked], wholes: Mapping[str, Asked], others: set[str]
) -> Iterator[Finding]:
    text = quoted([one.question.question])
    first = texts[one.split]
    if first is not one:
        nearest = first if wholes[one.split] is one else wholes[one.split]
        yield one.finding("same_text", f"{text} is {_place(nearest)}, {_answers(one, nearest)}")
    if other := next((name for name in wholes if name in others), None):
        yield one.finding("leak", f"{text} is {_place(wholes[other])}, {_answers(one, wholes[other])}")
    elif other := next((name for name in texts if name in others), None):
        yield one.finding("leak_of_text", f"{text} is {_place(texts[other])}, {_answers(one, texts[other])}")


def _answers(one: Asked, other: Asked) -> str:
    """Whether two questions want the same: two films of one name make one question with two answers."""
    return f"with {'the same' if set(one.question.answers) == set(other.question.answers) else 'other'} answers"


def _place(asked: Asked) -> str:
    return f"line {asked.line} of {asked.split} ({asked.question.id})"
