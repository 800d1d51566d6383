"""One web search read for facts: its sentences, the names in them, and whether their kinds fit.

    web_search("Norway", "capital"), "The capital of Norway is Oslo."  ->  (Norway, capital, Oslo)

`Reader` reads the searches of one question's walks. Names are taken only from the whole graph (`whole`); a fact that
the walk's graph (`seen`) has is marked as known. How sure a fact is, over all searches, is decided in propose.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, product
from typing import NamedTuple

from kgwalk.evaluation.web_facts.roles import Phrases, Role, SentenceMention, mentions, names_of, phrase_of, roles
from kgwalk.kg.graph import Graph
from kgwalk.kg.names import normalise
from kgwalk.types import Answer, Call, Document, Episode, Triple, Turn, UnknownEntity
from kgwalk.walk.facts import DirectedRelation, directed_relations, entity_named
from kgwalk.walk.question_words import Text, stem

OF_A_KIND = 0.35  # below this fit a name is of another kind than the relation's ends
TURNED = 0.5  # by this much the kinds must fit better the other way round to overrule the sentence


@dataclass(frozen=True, slots=True)
class FoundFact:
    """A fact that one sentence says, with its features (`propose.Features`); `known` if the walk's graph has it."""

    triple: Triple
    known: bool
    sentence: float
    fit: float
    agreed: bool
    taken: bool
    document: Document
    snippet: str


class Reader:
    """Reads the searches of one question's walks."""

    def __init__(self, whole: Graph, seen: Graph, phrases: Phrases) -> None:
        self.whole, self.seen, self.phrases = whole, seen, phrases
        self._names = names_of(whole)
        self._fit = KindFit(seen)

    def asked(self, turn: Turn) -> tuple[str, str] | None:
        """The entity and relation of a web search, as the graph names them; None where it has no such names."""
        match turn.step:
            case Call("web_search", (str(entity), str(relation))):
                try:
                    named = entity_named(self.whole, entity)
                except UnknownEntity:
                    return None
                known = self._relation(relation)
                return None if known is None else (named, known)
            case _:
                return None

    def _relation(self, text: str) -> str | None:
        if self.whole.has_relation(text):
            return text
        found = next(iter(self.whole.find_relation(text, 1)), None)
        return found.name if found is not None and found.how in ("exact", "normalised") else None

    def read(self, episode: Episode, number: int, entity: str, relation: str) -> Iterator[FoundFact]:
        """The facts that the documents of turn `number` say of the entity and the relation."""
        used = used_after(episode, number)
        for document in episode.turns[number].documents:
            for sentence in sentences(document, entity):
                for triple, strength in self._said(sentence, entity, relation):
                    other = triple.tail if triple.head == entity else triple.head
                    yield FoundFact(
                        triple,
                        known=next(self.seen.match(*triple[:3], limit=1), None) is not None,
                        sentence=strength,
                        fit=self._fit.of(triple),
                        agreed=other in used,
                        taken=self._fit.taken(triple),
                        document=document,
                        snippet=sentence.text,
                    )

    def _said(self, sentence: Sentence, entity: str, relation: str) -> Iterator[tuple[Triple, float]]:
        text, phrase = Text(sentence.read), phrase_of(relation)
        if not any(self.phrases.places(text, relation)):
            return
        every = mentions(text, self._names)
        if sentence.cut and every and every[-1].end >= len(sentence.read):
            every.pop()  # half of a name may be another whole one
        own = {*phrase.stems}
        named = [
            one._replace(stands=entity in one.names or self._may_stand(one, relation))
            for one in every
            if not {stem(text.words[at].plain) for at in one.words} <= own  # the relation's words are no name
        ]
        covered = {at for one in named if one.stands for at in one.words}
        for place in self.phrases.places(text, relation, covered):
            role = roles(text, named, place, phrase)
            if role is not None:
                for triple in self._triples(role, entity, relation):
                    yield triple, round(role.near * place.coverage, 4)

    def _may_stand(self, mention: SentenceMention, relation: str) -> bool:
        """Whether a name is of a kind that the relation has on either side.

        Other names are read as plain words, such as the year and the genre in "Big is a 1988 comedy directed by Penny
        Marshall".
        """
        fits = (self._fit.end(name, relation, out=out) for name in mention.names for out in (True, False))
        return any(fit >= OF_A_KIND for fit in fits)

    def _triples(self, role: Role, entity: str, relation: str) -> Iterator[Triple]:
        for head, tail in product(role.heads, role.tails):
            options = [*_options(head, tail, entity, relation)]
            if options:
                yield self._turned(max(options, key=self._fit.of))  # of one name the entity of the right kind

    def _turned(self, triple: Triple) -> Triple:
        """Turned round where the graph uses the relation so: an `actor` may be the head or the tail."""
        other = Triple(triple.tail, triple.relation, triple.head)
        return other if self._fit.of(other) >= self._fit.of(triple) + TURNED else triple


def _options(head: SentenceMention, tail: SentenceMention, entity: str, relation: str) -> Iterator[Triple]:
    """The triples that two mentions may mean, with the entity on one side."""
    if entity in head.names:
        yield from (Triple(entity, relation, name) for name in tail.names if name != entity)
    elif entity in tail.names:
        yield from (Triple(name, relation, entity) for name in head.names if name != entity)


def used_after(episode: Episode, number: int) -> set[str]:
    """The names that a walk used after a turn: searched for, answered with, or on the path to an answer."""
    used = set(episode.answers)
    for turn in episode.turns[number + 1 :]:
        match turn.step:
            case Call(_, args) | Answer(args):
                used.update(arg for arg in args if isinstance(arg, str))
    used.update(end for facts in episode.evidence.values() for fact in facts for end in (fact.head, fact.tail))
    return used


# The sentences of a document that may say something of an entity

MOST_CHARACTERS = 20_000  # read of one document
LONGEST = 1_000  # characters of a sentence; longer ones are tables or dumps

# A full stop after one of these, or after a single capital letter, ends no sentence.
_SHORT_WORDS = "st mr mrs ms dr jr sr vs no vol ft mt approx ca cf etc inc ltd corp co prof gen col lt rev u.s"
_SHORT = frozenset(_SHORT_WORDS.split())
_END = re.compile(r"[.!?][\"'”’)\]]*(?=\s)|\n")
# "It", or "The film" before a verb: "The film stars", "The company was founded"; not "The country is Norway".
_PRONOUN = re.compile(
    r"(?:It|He|She|They|The (?:film|movie|book|novel|song|album|series|game|band|team|club|company|city|town|country)"
    r"(?=\s(?!is|was|has)[a-z]+(?:s|ed)\b|\s(?:is|was)\s[a-z]+ed\b)|(Its|His|Her|Their))\s"
)


class Sentence(NamedTuple):
    """`text` as it stands in the document; `read` is the same with the title in place of a pronoun at the beginning.

    `cut`: the document ends in it without a full stop, so its last name may be only half of one.
    """

    text: str
    read: str
    cut: bool = False


def sentences(document: Document, entity: str) -> Iterator[Sentence]:
    """The sentences that name the entity, or speak of it as "it" in a document of that title.

    >>> norway = Document("Norway", "Its capital is Oslo. Sweden borders it. St. Olav was born in Norway.")
    >>> [one.read for one in sentences(norway, "Norway")]
    ["Norway's capital is Oslo.", 'St. Olav was born in Norway.']
    """
    wanted = f" {normalise(entity)} "
    titled = f" {normalise(document.title)} " == wanted
    text = document.text[:MOST_CHARACTERS]
    cut_document = len(document.text) > MOST_CHARACTERS
    for start, end in _spans(text, entity):
        found = text[start:end]
        stripped = found.strip()
        if not stripped or len(stripped) > LONGEST or stripped.endswith("?"):
            continue
        read = stripped
        named = wanted in f" {normalise(read)} "
        if titled and not named and (pronoun := _PRONOUN.match(read)):
            possessive = "'s" if pronoun.group(1) else ""
            read, named = f"{entity}{possessive} {read[pronoun.end() :]}", True
        if named:
            cut = end == len(text) and (cut_document or not stripped.endswith((".", "!", '"', "”", ")")))
            yield Sentence(stripped, read, cut)


def _spans(text: str, entity: str) -> Iterator[tuple[int, int]]:
    """Where sentences begin and end. A full stop inside the entity's own name does not end one."""
    inside = [(at.start(), at.end()) for at in re.finditer(re.escape(entity), text)] if ". " in entity else []
    start = 0
    for found in _END.finditer(text):
        at = found.start()
        if text[at] == "." and (_is_short(text, at) or any(low <= at < high - 1 for low, high in inside)):
            continue
        yield start, found.end()
        start = found.end()
    if start < len(text):
        yield start, len(text)


def _is_short(text: str, at: int) -> bool:
    before = re.search(r"[\w.]+$", text[max(0, at - 12) : at])
    if before is None:
        return False
    word = before.group()
    return word.casefold() in _SHORT or (len(word.rsplit(".", 1)[-1]) == 1 and word[-1].isupper())


# Whether an entity is of the kind that stands on one side of a relation

SAMPLE = 30  # facts of a relation are looked at
BY_WRITING = 0.5  # the most, where an end has no other fact and only its writing can be compared
UNTOLD = 0.5  # where a relation's ends have nothing in common, so that kinds tell nothing
ONE_VALUE = 0.95  # of the sampled heads must have a single tail for a relation of one value

WaySet = frozenset[DirectedRelation]


class KindFit:
    """Whether entities fit a relation's ends in one graph or view, which must not have the facts that are judged.

    A graph shows what a thing is by the relations that it takes part in, so that set is its kind here. It is compared
    with the kinds of the entities that stand on the same side of the relation.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._sampled: dict[str, list[Triple]] = {}
        self._kinds: dict[str, WaySet] = {}
        self._ends: dict[tuple[str, DirectedRelation], float] = {}
        self._cohesion: dict[DirectedRelation, float] = {}

    def of(self, triple: Triple) -> float:
        """The fit of a triple: that of its worse end."""
        return min(self.end(triple.head, triple.relation, out=True), self.end(triple.tail, triple.relation, out=False))

    def end(self, entity: str, relation: str, *, out: bool) -> float:
        """From 0 to 1, as head (`out`) or tail: is it as similar to the entities there as they are to each other?

        1 if it stands there in another fact; 0 for a relation without a fact. Otherwise the mean of `alike` with the
        entities there, divided by the mean of `alike` among them, and at most 1. The relation itself is not counted. In
        a graph with nine relations two films share nearly all of them, in one with thousands two persons share few, and
        both fit.
        """
        way = DirectedRelation(relation, out)
        if (entity, way) not in self._ends:
            self._ends[entity, way] = self._end(entity, way)
        return self._ends[entity, way]

    def _end(self, entity: str, way: DirectedRelation) -> float:
        kind = self._kind(entity)
        if way in kind:
            return 1.0
        others = self._others(way)
        if not others:
            return 0.0
        among = self._among(way)
        if among == 0:
            return UNTOLD
        likeness = sum(alike(entity, kind, other, other_kind) for other, other_kind in others.items()) / len(others)
        return round(min(likeness / among, 1.0 if kind else BY_WRITING), 4)

    def _others(self, way: DirectedRelation) -> dict[str, WaySet]:
        """The entities of a sample that stand on this side, with their kinds."""
        ends = dict.fromkeys(fact.head if way.out else fact.tail for fact in self._facts(way.relation))
        return {entity: self._kind(entity) - {way} for entity in ends}

    def _among(self, way: DirectedRelation) -> float:
        """How similar those are: the mean over all pairs; 1 for a single one."""
        if way not in self._cohesion:
            pairs = [alike(*one, *other) for one, other in combinations(self._others(way).items(), 2)]
            self._cohesion[way] = sum(pairs) / len(pairs) if pairs else 1.0
        return self._cohesion[way]

    def taken(self, triple: Triple) -> bool:
        """Whether the relation has one value for each head, and the graph knows another one."""
        if next(self.graph.match(triple.head, triple.relation, None, limit=1), None) is None:
            return False
        heads = dict.fromkeys(fact.head for fact in self._facts(triple.relation))
        single = sum(self.graph.neighbors(head, triple.relation, limit=1).total == 1 for head in heads)
        return single >= ONE_VALUE * len(heads)

    def _facts(self, relation: str) -> list[Triple]:
        if relation not in self._sampled:
            self._sampled[relation] = list(self.graph.match(None, relation, None, limit=SAMPLE))
        return self._sampled[relation]

    def _kind(self, entity: str) -> WaySet:
        if entity not in self._kinds:
            self._kinds[entity] = (
                frozenset(directed_relations(self.graph, entity)) if entity in self.graph else frozenset()
            )
        return self._kinds[entity]


def alike(one: str, kind: WaySet, other: str, other_kind: WaySet) -> float:
    """How much two kinds overlap: shared relations / those of the smaller set, so that a thing with few facts can fit.

    {country, timezone} and {country, timezone, population}: 2 / 2. {country, timezone} and {borders, timezone}: 1 / 2.
    An entity without other facts is compared by its writing.

    >>> names = ("", "country", "country area")
    >>> none, small, big = (frozenset(DirectedRelation(name, True) for name in some.split()) for some in names)
    >>> alike("Moss", small, "Oslo", big), alike("Moss", none, "Oslo", big), alike("+47", none, "Oslo", big)
    (1.0, 0.5, 0.0)
    """
    if kind and other_kind:
        return len(kind & other_kind) / min(len(kind), len(other_kind))
    return BY_WRITING if writing(one) == writing(other) else 0.0


def writing(name: str) -> str:
    """The shape of a value, with digits as 9 and capitals as A; anything else is a "name".

    >>> writing("+358-18"), writing("51.70"), writing("NOK"), writing(".no"), writing("Oslo"), writing("New York")
    ('+9-9', '9.9', 'A', '.a', 'name', 'name')
    """
    if not re.search(r"\d|^[A-Z]+$|^[^\w\s]", name):
        return "name"
    shape = re.sub(r"\d+", "9", name)
    return re.sub(r"[^\W\d_]+", lambda run: "A" if run.group().isupper() else "a", shape)
