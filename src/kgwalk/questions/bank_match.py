"""Which concept of the bank a relation's name stands for: by the label itself, or by its words.

    BankMatch(relations).find("film.film.directed_by")     # (the concept film-director, turned=False)

Several concepts share a name such as `genre`: the kind that a path names decides, then the domain that most of the
graph's relations belong to. Names that are near in meaning do not count: the label of the bank nearest to another by
all-MiniLM-L6-v2, at a cosine of 0.9 or more, is of the same concept in 89 of 100 cases, but runs the same way in 31
only ("line operator", "operator of line"). Knows names; no facts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from kgwalk.data.bank.concepts import Concept, load_bank
from kgwalk.kg.normalise import normalise
from kgwalk.questions.english.kinds import PERSON, kind_of
from kgwalk.questions.relation_name import RelationName, read_name

GENERIC = "generic"  # the domain whose concepts fit any kind of thing
CLEARLY = 1.5  # times as many relations as the next domain has, where a name could be of either
_EVERYWHERE = (GENERIC, "person", "kinship")  # domains that graphs of any field have relations of
Meant = tuple[Concept, bool]  # a concept; True: the relation runs from its tail to its head


def plain_label(name: RelationName) -> str:
    """A name's words in one spelling: without has, is, the; the same for `directedBy` and `DIRECTED_BY`."""
    words = [word for word in normalise(name.text).split() if word not in ("has", "is", "the")]
    return " ".join(words) or normalise(name.text)


class BankMatch:
    """The concepts that the names of a graph stand for."""

    def __init__(
        self,
        relations: Iterable[str],
        concepts: Sequence[Concept] | None = None,
    ) -> None:
        self.concepts = load_bank() if concepts is None else list(concepts)
        self.relations = list(relations)
        self._exact: dict[str, list[Meant]] = defaultdict(list)
        self._plain: dict[str, list[Meant]] = defaultdict(list)
        for concept in self.concepts:
            for labels, turned in ((concept.labels, False), (concept.inverse_labels, True)):
                for label in labels:
                    self._exact[label].append((concept, turned))
                    name = read_name(label)
                    if name.head and name.text in (concept.head, concept.tail):
                        continue  # of `director.film` the last part is no name of its own
                    self._plain[plain_label(name)].append((concept, turned != name.inverse))
        self._among: Counter[str] = Counter()  # relations that could be of a domain
        self._common: Counter[str] = Counter()  # relations of a domain; one that could be of four counts a quarter
        self._names: dict[str, set[str]] = defaultdict(set)  # of relations that could be of a concept, by its id
        for relation in {plain_label(read_name(relation)): relation for relation in self.relations}.values():
            domains = {concept.domain for concept, _ in self._candidates(relation)}
            self._common.update({domain: 1 / len(domains) for domain in domains})
            self._among.update(domains)
            for concept, _ in self._candidates(relation):
                self._names[concept.id].add(plain_label(read_name(relation)))

    def find(self, relation: str) -> Meant | None:
        """The concept that fits best; None where no name fits, or where another relation's name fits it better."""
        found = self._best(relation)
        return found if found is None or self._is_nearest(relation, found) else None

    def _is_nearest(self, relation: str, meant: Meant) -> bool:
        """Whether no other bare name of the graph is nearer: beside `official_language`, `language` is another."""
        concept, turned = meant
        name = read_name(relation)
        labels = [plain_label(read_name(label)) for label in (concept.inverse_labels if turned else concept.labels)]
        rivals = [label for label in labels if label in self._names[concept.id]]
        if name.head or plain_label(name) not in rivals or len(set(rivals)) < 2:
            return True
        said = set(" ".join(concept.forward + concept.forward_nouns).lower().split())
        return plain_label(name) == max(
            dict.fromkeys(rivals), key=lambda label: (len(said.intersection(label.split())), -labels.index(label))
        )

    def _best(self, relation: str) -> Meant | None:
        candidates = self._candidates(relation)
        head = read_name(relation).head
        if head and relation not in self._exact:
            candidates = [
                (concept, turned)
                for concept, turned in candidates
                if concept.domain == GENERIC or _can_be(head, concept.tail if turned else concept.head)
            ]
        if not candidates:
            return None

        def fit(meant: Meant) -> tuple[bool, float]:
            concept, turned = meant
            return head == (concept.tail if turned else concept.head), self._common[concept.domain]

        best, *others = sorted(candidates, key=fit, reverse=True)  # stable: of equals, the first stays first
        if head or self._is_sure(relation, best[0], [concept for concept, _ in others]):
            return best
        return next((meant for meant in candidates if meant[0].domain == GENERIC), None)

    def _is_sure(self, relation: str, best: Concept, others: Sequence[Concept]) -> bool:
        """Whether a bare name means this concept: by other relations of its domain, or as it can mean nothing else."""
        rivals = [self._common[concept.domain] for concept in others if concept.domain != best.domain]
        support = self._common[best.domain] + 1e-6  # thirds do not add up to one
        if self._among[best.domain] > 1 and support >= max(1, CLEARLY * max(rivals, default=0)):
            return True
        if relation not in self._exact or others:
            return False
        # `adjacent_to` and `ingredient_of` need not be about countries and dishes
        return best.domain in _EVERYWHERE or self._among[best.domain] > 1

    def _candidates(self, relation: str) -> list[Meant]:
        if relation in self._exact:
            return self._exact[relation]
        name = read_name(relation)
        if name.before:  # two joined properties: the second alone says too little
            return []
        plain = plain_label(name)
        found = self._plain.get(plain, [])
        return [(concept, turned != name.inverse) for concept, turned in found]


def _can_be(head: str, kind: str) -> bool:
    """Whether what a path calls `head` is of a concept's kind: any person a person, a tv film a film.

    >>> _can_be("us president", "person"), _can_be("team manager", "player"), _can_be("circulation area", "city")
    (True, False, False)
    """
    if head == kind or head.split(" ")[-1] == kind.split(" ")[-1]:
        return True
    return kind == PERSON and (kind_of(head) == PERSON or head in ("player", "saint", "character"))
