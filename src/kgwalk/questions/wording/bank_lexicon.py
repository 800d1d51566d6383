"""How relations are worded by the bank of concepts, and which concept a relation's name stands for.

    BankLexicon({"directed_by": (film_director, False)})    # the concepts are known: an invented graph
    BankMatch(relations).find("film.film.directed_by")      # (the concept film-director, False): found by name

`BankLexicon` serves invented graphs, whose relations were made from concepts. `BankMatch` serves `NameLexicon`, for
any other graph. Both read names and concepts only, never facts.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, cached_property, lru_cache

from kgwalk.kg.names import normalise
from kgwalk.questions.bank import Concept, ConceptPath, load_bank, load_paths
from kgwalk.questions.invented.values import MONEY, NARROWER, is_money, unit_of
from kgwalk.questions.wording.english import (
    DATE,
    NUMBER,
    PERSON,
    UNCOUNTED,
    VAGUE,
    VALUES,
    YEAR,
    is_participle,
    is_person,
    is_plural,
    kind_of,
    plural,
    singular,
    word_set,
)
from kgwalk.questions.wording.lexicon import Templates, name_templates, verb_reading
from kgwalk.questions.wording.phrases import PLURAL_MODIFIERS, parts
from kgwalk.questions.wording.reading import PREPOSITIONS, Acts, DoneTo, Noun, PlacedIn, read
from kgwalk.questions.wording.relation_names import RelationName, read_name
from kgwalk.questions.wording.templates import Ends
from kgwalk.questions.wording.values import spoken_units
from kgwalk.walk.facts import DirectedRelation

# Words that show that a label is no noun.
_NO_NOUNS = word_set(
    "can may must cannot not also or came had has began inside nearby open previously formerly until since"
)
# Participles that may stand before a noun: "adopted child".
_ADJECTIVES = word_set("adopted armed associated featured given intended named protected spoken supported sacred")
LONGEST_BARE = 3  # words of a noun that can stand before another: "X's place of birth"


class BankLexicon:
    """Templates for relations whose concepts are known.

    `concepts` gives, for each relation, its concept and whether it runs from the concept's tail to its head.
    `beside` are further concepts of the graph: they are not worded here, but the same nouns could mean them.
    """

    def __init__(self, concepts: Mapping[str, tuple[Concept, bool]], beside: Iterable[Concept] = ()) -> None:
        self.concepts = dict(concepts)
        self.concept_nouns = ConceptNouns([*(concept for concept, _ in self.concepts.values()), *beside])
        self._made: dict[DirectedRelation, Templates] = {}

    def templates(self, way: DirectedRelation) -> Templates:
        if way not in self._made:
            concept, turned = self.concepts[way.relation]
            self._made[way] = concept_templates(way, concept, turned, self.concept_nouns)
        return self._made[way]

    def through(self, ways: tuple[DirectedRelation, ...]) -> Templates | None:
        matches = [self.concepts.get(way.relation) for way in ways]
        return path_templates(ways, matches, self.concept_nouns)

    def value_words(self, relation: str) -> tuple[str, ...]:
        concept, turned = self.concepts[relation]
        return () if turned or concept.tail not in (NUMBER, YEAR, DATE) else bare_nouns(concept, True)

    def units(self, relation: str) -> tuple[str, ...]:
        """The unit in the label; else the one that values of the concept have."""
        concept, _ = self.concepts[relation]
        return spoken_units(read_name(relation).unit or (MONEY if is_money(concept) else unit_of(concept)))

    def alone(self, way: DirectedRelation) -> bool:
        return self.concept_nouns.alone(self.concepts[way.relation][0])


class ConceptNouns:
    """The nouns that each concept of one graph may be called by without being taken for another.

    Where a graph has fathers, "dad" is a father and not just a parent; where it has none, "dad" may be a parent.
    """

    def __init__(self, concepts: Iterable[Concept]) -> None:
        self.concepts = {concept.id: concept for concept in concepts}
        self._called: Counter[str] = Counter()  # concepts that a noun may mean
        self._alone: dict[str, bool] = {}
        self._joined: dict[frozenset[str], bool] = {}
        for concept in self.concepts.values():
            self._called.update(_called(concept))

    def nouns(self, concept: Concept, forward: bool) -> tuple[str, ...]:
        """Nouns for what is reached: those of the labels, and everyday ones that mean no other concept here."""
        own = bare_nouns(concept, forward)
        reached = concept.tail if forward else concept.head
        told = self.alone(concept)
        everyday = (noun for noun in (concept.nouns if forward else concept.inverse_nouns) if noun not in own)
        free = (noun for noun in everyday if self._called[singular(noun)] < 2 and (told or singular(noun) != reached))
        return (*own, *free)

    @cached_property
    def questions(self) -> frozenset[str]:
        """All questions of the graph's concepts, in lower case and without their last sign."""
        texts = (text for concept in self.concepts.values() for text in concept.forward + concept.backward)
        return frozenset(text.lower().rstrip("?. ") for text in texts)

    def rivalled(self, path: ConceptPath) -> bool:
        """Whether the graph has another path that is asked for in the same words."""
        others = (one for one in _paths().values() if one.steps != path.steps and set(one.forward) & set(path.forward))
        return any(all(step.removeprefix("^") in self.concepts for step in one.steps) for one in others)

    def joined(self, one: str, other: str) -> bool:
        """Whether a relation joins these two kinds directly, in either direction; not one between any things."""
        ends = frozenset((one, other))
        if ends not in self._joined:
            kinds = [(concept.head, concept.tail) for concept in self.concepts.values()]
            pairs = kinds + [(tail, head) for head, tail in kinds]
            self._joined[ends] = any(_same(one, head) and _same(other, tail) for head, tail in pairs)
        return self._joined[ends]

    def alone(self, concept: Concept) -> bool:
        """Whether no other relation joins the same two kinds."""
        if concept.id not in self._alone:
            others = (other for other in self.concepts.values() if other.id != concept.id)
            self._alone[concept.id] = not any(_alike(concept, other) for other in others)
        return self._alone[concept.id]


@cache
def _called(concept: Concept) -> frozenset[str]:
    own = bare_nouns(concept, True) + bare_nouns(concept, False)
    return frozenset(map(singular, own + concept.nouns + concept.inverse_nouns))


def _alike(one: Concept, two: Concept) -> bool:
    """Whether two concepts may join the same kinds, in either direction."""
    (a, b), (c, d) = ((_may_be(concept.head), _may_be(concept.tail)) for concept in (one, two))
    return (_meet(a, c) and _meet(b, d)) or (_meet(a, d) and _meet(b, c))


def _same(one: str, two: str) -> bool:
    """Whether two kinds are one, or one of them is a narrower word for the other: a student is a person."""
    return one == two or one in NARROWER.get(two, ()) or two in NARROWER.get(one, ())


@cache
def _may_be(kind: str) -> frozenset[str]:
    return frozenset({PERSON if is_person(kind) else kind, *NARROWER.get(kind, ())})


def _meet(one: frozenset[str], two: frozenset[str]) -> bool:
    return not one.isdisjoint(two) or not VAGUE.isdisjoint(one | two)


def concept_templates(
    way: DirectedRelation, concept: Concept, turned: bool, known: ConceptNouns | None = None
) -> Templates:
    """The bank's templates for a concept, and plain ones from the relation's own name.

    `known` are the nouns of all concepts of the graph, so that none is used that could mean another concept.
    """
    forward = way.out != turned
    ends = Ends(concept.tail, concept.head) if turned else Ends(concept.head, concept.tail)
    name = read_name(way.relation)
    own = name_templates(name, way.out, ends) if _speaks(name, ends) else Templates((), ())
    questions, nouns = concept.forward, concept.forward_nouns
    if not forward:
        questions, nouns = concept.backward, concept.backward_nouns
    return Templates(
        questions,
        nouns,
        concept.tail if forward else concept.head,
        own.plain_questions,
        own.plain_nouns,
        (known or ConceptNouns([concept])).nouns(concept, forward),
        own.plain_bare or bare_nouns(concept, forward),
        concept.where if forward else (),
    )


@cache
def _paths() -> dict[tuple[str, ...], ConceptPath]:
    """The bank's paths in both directions, by their steps."""
    return {one.steps: one for path in load_paths() for one in (path, path.turned())}


def path_templates(
    ways: Sequence[DirectedRelation], matches: Sequence[ConceptMatch | None], known: ConceptNouns
) -> Templates | None:
    """The bank's templates for several hops that people speak of as one; `matches` are the concepts of the hops.

    None where a relation of the graph joins the two ends directly, or another path is asked for alike: the words would
    mean that one.
    """
    steps: list[str] = []
    ends: list[str] = []
    for way, match in zip(ways, matches, strict=True):
        if match is None:
            return None
        concept, turned = match
        forward = way.out != turned
        steps.append(concept.id if forward else f"^{concept.id}")
        ends += (concept.head, concept.tail) if forward else (concept.tail, concept.head)
    path = _paths().get(tuple(steps))
    if path is None or known.joined(ends[0], ends[-1]) or known.rivalled(path):
        return None
    questions = tuple(text for text in path.forward if text.lower().rstrip("?. ") not in known.questions)
    return Templates(questions, path.forward_nouns, ends[-1])


def _speaks(name: RelationName, ends: Ends) -> bool:
    """Whether a label's words make a sentence: not `can_open`, `endstation`, `on_drums` of a person."""
    if not normalise(name.text).isascii():
        return False
    ends = ends.turned() if name.inverse else ends
    reading = verb_reading(read(name.words), ends.tail)
    if isinstance(reading, Noun):
        return is_noun(reading.noun)
    if isinstance(reading, DoneTo) and reading.active:
        return ends.head not in VALUES and ends.tail not in VALUES  # not `films_released` of a year
    if isinstance(reading, Acts) and not _NO_NOUNS.isdisjoint(reading.verb.split()[1:]):
        return False  # `stores_open_at`
    if isinstance(reading, PlacedIn) and reading.participle.startswith(("a ", "an ")):
        noun = reading.participle.split(" ", 1)[1]
        return is_noun(noun) and not is_plural(noun)  # `results_in`
    if isinstance(reading, PlacedIn | Acts) and reading.thing:
        if ends.tail in VALUES and kind_of(reading.thing) not in VALUES:
            return False  # `came_to_the_throne` of a year
        last = singular(reading.thing.split(" ")[-1])
        if last == ends.head.split(" ")[-1] != ends.tail.split(" ")[-1]:
            return False  # `spoken_in_country` of a country
        return not is_person(ends.tail) or is_person(kind_of(reading.thing))
    return True


@cache
def _heads() -> frozenset[str]:
    """The nouns that the bank's noun phrases are about."""
    found = (parts(text) for concept in load_bank() for text in concept.forward_nouns + concept.backward_nouns)
    return frozenset(singular(one.head.split(" ")[-1].lower()) for one in found if one is not None)


def is_noun(text: str) -> bool:
    """Whether words are an English noun with what may stand before it.

    >>> [is_noun(text) for text in ("place of birth", "sports team", "can open", "supersedes", "books in genre")]
    [True, True, False, False, False]
    """
    start, words = text.split(" of ")[0].split(" "), text.split(" ")
    if any(word in _NO_NOUNS or word in PREPOSITIONS - {"of"} for word in words) or is_participle(start[-1]):
        return False
    if len(start) > 1 and (is_participle(start[0]) or (is_plural(start[0]) and start[0] not in PLURAL_MODIFIERS)):
        return start[0] in _ADJECTIVES  # `gives material`, `made landfall`
    if " of " in text and is_plural(start[-1]):
        return False  # `members of house`
    return singular(start[-1]) in _heads() or kind_of(start[-1]) in (PERSON, DATE, NUMBER, YEAR)


@cache
def bare_nouns(concept: Concept, forward: bool) -> tuple[str, ...]:
    """Nouns for what is reached, from the concept's labels: "director", "place of birth".

    A label's words are taken for English ones if the concept's own phrasings use them.
    """
    spoken = " ".join(concept.forward + concept.backward + concept.forward_nouns + concept.backward_nouns).lower()
    known = {singular(word) for word in re.findall(r"[a-z]+", spoken)}
    found: dict[str, None] = {}
    for labels, turned in ((concept.labels, False), (concept.inverse_labels, True)):
        for label in labels:
            name = read_name(label)
            reading = read(name.words)
            words = name.words if not isinstance(reading, Noun) else tuple(reading.noun.split())
            if not isinstance(reading, Noun) or not _stands_alone(words, forward) or not is_noun(reading.noun):
                continue
            # the noun is the tail's, read along the label; `capital of` is the head's
            reached = (turned == reading.of) != name.inverse
            if reached == forward and all(singular(word) in known for word in words):
                found[_numbered(reading.noun, concept, forward)] = None
    return tuple(noun for noun in found if _tells(noun, concept, forward))


def _numbered(noun: str, concept: Concept, forward: bool) -> str:
    """A tail of many heads has "films", not a "film"."""
    return noun if forward or concept.many in ("1:n", "1:1") or noun in UNCOUNTED else plural(noun)


def _tells(noun: str, concept: Concept, forward: bool) -> bool:
    """Whether a noun says which relation is meant: X's "films" may be those it wrote or those it played in."""
    if noun.partition(" of ")[2] in (concept.head.split(" ")[-1], concept.tail.split(" ")[-1]):
        return False  # `city of country`
    if not forward:
        heads = [found.head for text in concept.backward_nouns if (found := parts(text)) is not None]
        return singular(noun) != concept.head and any(singular(noun) == singular(head) for head in heads)
    if noun.split(" ")[0].endswith("s") and not _is_head(noun, concept):
        return False  # a verb: `encloses`, `holds position`
    if concept.tail == PERSON:
        return kind_of(noun) == PERSON
    return concept.tail not in VALUES or noun not in (*VALUES, "time", "value")


def _is_head(noun: str, concept: Concept) -> bool:
    """Whether the bank's own noun phrases have it as their head."""
    found = [parts(text) for text in concept.forward_nouns]
    return any(one is not None and singular(one.head) == singular(noun) for one in found)


def _stands_alone(words: tuple[str, ...], forward: bool) -> bool:
    """Whether the words are few, and none is a verb or a preposition except the "of" of "place of birth"."""
    links = PREPOSITIONS - {"of"} if forward else PREPOSITIONS
    return len(words) <= LONGEST_BARE and not any(word in links or is_participle(word) for word in words)


# Finding the concept of a name


GENERIC = "generic"  # the domain whose concepts fit any kind of thing
CLEARLY = 1.5  # times as many relations as the next domain has, where a name could be of either
_EVERYWHERE = (GENERIC, "person", "kinship")  # domains that graphs of any field have relations of
ConceptMatch = tuple[Concept, bool]  # a concept; True where the relation runs from its tail to its head


@lru_cache(maxsize=65536)
def plain_label(name: RelationName) -> str:
    """A name's words in one spelling, without has, is and the: `directedBy` and `DIRECTED_BY` become equal."""
    words = [word for word in normalise(name.text).split() if word not in ("has", "is", "the")]
    return " ".join(words) or normalise(name.text)


_ByLabel = Mapping[str, Sequence[ConceptMatch]]


@cache
def _bank_labels() -> tuple[_ByLabel, _ByLabel]:
    return _by_label(load_bank())


def _by_label(concepts: Iterable[Concept]) -> tuple[_ByLabel, _ByLabel]:
    """The concepts by their labels as they are, and by the plain ones."""
    exact: dict[str, list[ConceptMatch]] = {}
    plain: dict[str, list[ConceptMatch]] = {}
    for concept in concepts:
        for labels, turned in ((concept.labels, False), (concept.inverse_labels, True)):
            for label in labels:
                exact.setdefault(label, []).append((concept, turned))
                name = read_name(label)
                if name.head and name.text in (concept.head, concept.tail):
                    continue  # of `director.film` the last part is no name of its own
                plain.setdefault(plain_label(name), []).append((concept, turned != name.inverse))
    return exact, plain


class BankMatch:
    """Finds the bank's concept for a relation's name: by the label itself, or by its words.

    Several concepts share a name such as `genre`. The kind that a dotted path names decides first, then the domain
    that most of the graph's relations belong to.

    Names that are merely close in meaning do not count. The label of the bank nearest to another one by
    all-MiniLM-L6-v2, at a cosine of 0.9 or more, belongs to the same concept in 89 of 100 cases but runs in the same
    direction in only 31 ("line operator", "operator of line").
    """

    def __init__(
        self,
        relations: Iterable[str],
        concepts: Sequence[Concept] | None = None,
    ) -> None:
        self.concepts = load_bank() if concepts is None else list(concepts)
        self.relations = list(relations)
        self._exact, self._plain = _bank_labels() if concepts is None else _by_label(self.concepts)
        self._among: Counter[str] = Counter()  # relations that could be of a domain
        self._common: Counter[str] = Counter()  # relations of a domain; one that fits four domains counts a quarter
        self._names: dict[str, set[str]] = defaultdict(set)  # of relations that could be of a concept, by its id
        for relation in {plain_label(read_name(relation)): relation for relation in self.relations}.values():
            domains = {concept.domain for concept, _ in self._candidates(relation)}
            self._common.update({domain: 1 / len(domains) for domain in domains})
            self._among.update(domains)
            for concept, _ in self._candidates(relation):
                self._names[concept.id].add(plain_label(read_name(relation)))

    def find(self, relation: str) -> ConceptMatch | None:
        """The concept that fits best; None where none fits, or where another relation's name fits it better."""
        found = self._best(relation)
        return found if found is None or self._is_nearest(relation, found) else None

    def _is_nearest(self, relation: str, match: ConceptMatch) -> bool:
        """Whether no other name of the graph fits the concept better.

        Where a graph has both `official_language` and `language`, only the first is the concept "official language".
        """
        concept, turned = match
        name = read_name(relation)
        labels = [plain_label(read_name(label)) for label in (concept.inverse_labels if turned else concept.labels)]
        rivals = [label for label in labels if label in self._names[concept.id]]
        if name.head or plain_label(name) not in rivals or len(set(rivals)) < 2:
            return True
        spoken = set(" ".join(concept.forward + concept.forward_nouns).lower().split())
        return plain_label(name) == max(
            dict.fromkeys(rivals), key=lambda label: (len(spoken.intersection(label.split())), -labels.index(label))
        )

    def _best(self, relation: str) -> ConceptMatch | None:
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

        def fit(match: ConceptMatch) -> tuple[bool, float]:
            concept, turned = match
            return head == (concept.tail if turned else concept.head), self._common[concept.domain]

        best, *others = sorted(candidates, key=fit, reverse=True)  # stable: of equals, the first stays first
        if head or self._is_sure(relation, best[0], [concept for concept, _ in others]):
            return best
        return next((match for match in candidates if match[0].domain == GENERIC), None)

    def _is_sure(self, relation: str, best: Concept, others: Sequence[Concept]) -> bool:
        """Whether a bare name means this concept: its domain has other relations here, or nothing else is possible."""
        rivals = [self._common[concept.domain] for concept in others if concept.domain != best.domain]
        support = self._common[best.domain] + 1e-6  # thirds do not add up to one
        if self._among[best.domain] > 1 and support >= max(1, CLEARLY * max(rivals, default=0)):
            return True
        if relation not in self._exact or others:
            return False
        # `adjacent_to` and `ingredient_of` need not be about countries and dishes
        return best.domain in _EVERYWHERE or self._among[best.domain] > 1

    def _candidates(self, relation: str) -> Sequence[ConceptMatch]:
        if relation in self._exact:
            return self._exact[relation]
        name = read_name(relation)
        if name.before:  # two joined properties: the second alone says too little
            return []
        plain = plain_label(name)
        found = self._plain.get(plain, ())
        return [(concept, turned != name.inverse) for concept, turned in found]


def _can_be(head: str, kind: str) -> bool:
    """Whether what a dotted path calls `head` can be of a concept's kind: a president a person, a tv film a film.

    >>> _can_be("us president", "person"), _can_be("team manager", "player"), _can_be("circulation area", "city")
    (True, False, False)
    """
    if head == kind or head.split(" ")[-1] == kind.split(" ")[-1]:
        return True
    return kind == PERSON and (kind_of(head) == PERSON or head in ("player", "saint", "character"))
