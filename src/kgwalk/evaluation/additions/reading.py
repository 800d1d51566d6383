"""One web search read for facts: sentences, names, roles, kinds, and what the walk did after it.

    web_search("Norway", "capital"), "The capital of Norway is Oslo."  ->  (Norway, capital, Oslo)

Knows the graph as the walk saw it (`seen`) and the whole of it (`whole`), from which alone names are taken. What the
walk saw is known and is not found again. Knows nothing of other searches, nor of how sure a fact must be.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from kgwalk.agent.linking.names import stem
from kgwalk.agent.linking.words import Text
from kgwalk.evaluation.additions.fit import Fit
from kgwalk.evaluation.additions.mentions import Mention, mentions, names_of
from kgwalk.evaluation.additions.phrases import Phrases, phrase_of
from kgwalk.evaluation.additions.roles import Role, roles
from kgwalk.evaluation.additions.sentences import Sentence, sentences
from kgwalk.kg.graph import Graph
from kgwalk.tools.facts import entity_named
from kgwalk.types import Answer, Call, Document, Episode, Triple, Turn, UnknownEntity

OF_A_KIND = 0.35  # a fit below this: the name is of another kind than the relation's ends
TURNED = 0.5  # by so much must the kinds fit better the other way round to overrule the sentence


@dataclass(frozen=True, slots=True)
class Finding:
    """A fact that one sentence says; `known` if the walk's graph has it."""

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
        self._fit = Fit(seen)

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

    def read(self, episode: Episode, number: int, entity: str, relation: str) -> Iterator[Finding]:
        """What the documents of turn `number` say of the entity and the relation."""
        used = used_after(episode, number)
        for document in episode.turns[number].documents:
            for sentence in sentences(document, entity):
                for triple, strength in self._said(sentence, entity, relation):
                    other = triple.tail if triple.head == entity else triple.head
                    yield Finding(
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
            every.pop()  # half a name may be another's whole
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

    def _may_stand(self, mention: Mention, relation: str) -> bool:
        """Whether a name is of a kind that the relation has on either side; others are words like any, as the year
        and the genre in "Big is a 1988 comedy directed by Penny Marshall"."""
        fits = (self._fit.end(name, relation, out=out) for name in mention.names for out in (True, False))
        return any(fit >= OF_A_KIND for fit in fits)

    def _triples(self, role: Role, entity: str, relation: str) -> Iterator[Triple]:
        for head, tail in product(role.heads, role.tails):
            options = [*_options(head, tail, entity, relation)]
            if options:
                yield self._turned(max(options, key=self._fit.of))  # of homonyms the one of the right kind

    def _turned(self, triple: Triple) -> Triple:
        """The other way round where the graph uses the relation so: an `actor` may be the head or the tail."""
        other = Triple(triple.tail, triple.relation, triple.head)
        return other if self._fit.of(other) >= self._fit.of(triple) + TURNED else triple


def _options(head: Mention, tail: Mention, entity: str, relation: str) -> Iterator[Triple]:
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
