"""What of the bank is left out, so that nothing of a graph or of its test questions was seen in training.

    left_out = LeftOut(labels=keys_of(["directed_by"]), phrasings=asked_in(test_questions))
    concepts, counts = left_out.of(load_bank())

Labels are compared by their words (directedBy is directed_by), phrasings with the name's place marked. Knows the bank
and texts; opens no graph.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from kgwalk.data.bank.concepts import Concept
from kgwalk.kg.normalise import normalise
from kgwalk.questions.worlds.labels import label_key
from kgwalk.types import Question

_SLOT = "0name0"  # stands where a question has a name
_LABELS = ("labels", "inverse_labels")
_PHRASINGS = ("forward", "backward", "forward_nouns", "backward_nouns")


@dataclass(frozen=True)
class LeftOut:
    labels: frozenset[str] = frozenset()
    phrasings: frozenset[str] = frozenset()

    def of(self, concepts: Iterable[Concept]) -> tuple[list[Concept], Counter[str]]:
        """The concepts without these; and how many labels, phrasings and whole concepts went."""
        kept: list[Concept] = []
        counts: Counter[str] = Counter(labels=0, phrasings=0, concepts=0)
        for concept in concepts:
            fields: dict[str, tuple[str, ...]] = {}
            for name in _LABELS:
                fields[name] = tuple(one for one in getattr(concept, name) if label_key(one) not in self.labels)
                counts["labels"] += len(getattr(concept, name)) - len(fields[name])
            for name in _PHRASINGS:
                fields[name] = tuple(one for one in getattr(concept, name) if _phrasing(one) not in self.phrasings)
                counts["phrasings"] += len(getattr(concept, name)) - len(fields[name])
            if all(fields.values()):
                kept.append(replace(concept, **fields))  # type: ignore[arg-type]
            else:  # nothing to call it by, or nothing to ask
                counts["concepts"] += 1
        return kept, counts


def keys_of(labels: Iterable[str]) -> frozenset[str]:
    """
    >>> sorted(keys_of(["film.film.directed_by", "releaseYear"]))
    ['directed by', 'release year']
    """
    return frozenset(map(label_key, labels))


def asked_in(questions: Iterable[Question]) -> frozenset[str]:
    """How questions about one topic are phrased.

    >>> asked_in([Question("1", "Who directed Toy Story?", ["Toy Story"], [])])
    frozenset({'who directed 0name0'})
    """
    texts = {asked_as(question.question, question.topic_entities) for question in questions}
    return frozenset(text for text in texts if text.count(_SLOT) == 1)


def asked_as(text: str, topics: Sequence[str]) -> str:
    """A question in one spelling, the place of each name marked; a name that is not there as written is left.

    >>> asked_as("who acted with tom hanks ?", ["Tom_Hanks"])
    'who acted with 0name0'
    """
    marked = f" {normalise(text)} "
    for topic in sorted(topics, key=len, reverse=True):
        marked = marked.replace(f" {normalise(topic)} ", f" {_SLOT} ")
    return marked.strip()


def _phrasing(text: str) -> str:
    return normalise(text.replace("{}", f" {_SLOT} "))
