"""Kinds: all countries, our suppliers. A walk can start from all of a kind, where a question names no entity.

    kinds_in("which departments have more than five employees", graph)      [Kind("Department", ...)]

A graph says in two ways what kind a thing is: by a relation of types (`rdf:type`, `is_a`, `instance of`), whose values
are the kinds; and by its relations (what `country` leads to are countries, what has an `employee_id` is an employee).
Of a graph that does not say what its things are ("the largest package", where no relation has that word) there is still
the kind of all things that it says something of, `thing`.
`kinds_of` lists them, once a graph; `kinds_in` finds them in a question's words, singular or plural.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from rapidfuzz.distance import OSA

from kgwalk.kg.csr import I64
from kgwalk.kg.graph import Graph
from kgwalk.kg.names import normalise, singular
from kgwalk.kg.store import Store, StoredGraph
from kgwalk.types import Question, Triple, UnknownName
from kgwalk.walk.linking import Mention, link
from kgwalk.walk.linking import topics as topics_of
from kgwalk.walk.name_lookup import (
    ALIKE,
    ALIKE_LETTERS,
    CONSIDERED,
    TYPE_RELATIONS,
    Stored,
    is_naming,
)
from kgwalk.walk.name_lookup import last_words as _plain
from kgwalk.walk.name_matches import is_unknown
from kgwalk.walk.question_words import (
    AFTER_WHICH_A_NAME,
    ASKED_AFTER,
    COUNTED,
    FUNCTION_WORDS,
    OVER_ALL,
    SAME_PROPERTY,
    SAY_PEOPLE,
    WHO,
    Text,
    is_noun,
    is_usual,
    same_kind,
    singular_name,
    spellings,
    stem,
)
from kgwalk.walk.values import value_of

OF_TYPE, TAILS, HEADS, ALL = "type", "tails", "heads", "all"  # what is surer comes first
THING = "thing"
SAMPLED = 50  # ends of a relation that are looked at: numbers and dates make no kind
MOST_VALUES = 0.2  # the share of values among them from which on they make none
OWN_VALUES = 0.7  # the share of values that are one thing's alone from which on they make no kind
LONGEST = 4  # words of a kind's name
MOST_SPELT = 200  # kinds that a question's words are compared with letter by letter, beside the classes
# Words around the noun in a relation's name: has_part leads to parts, employee_of comes from employees.
_LEADS_TO, _COMES_FROM = re.compile(r"^(?:has|have|had|is) (.+)$"), re.compile(r"^(.+) (?:of|for|in|at)$")
_KEY = re.compile(r"^(.+) (?:id|key|code|no|nr|number|ref)$")
_PARTICIPLE = re.compile(r"(?:ed|en|\b(?:born|made|held|built|found|known|sold|bought|won|led|set|put|worn|kept))$")
_AGENTS = re.compile(r"^(\w+) by$")  # what designed_by leads to are designers
_VERBAL = re.compile(r"^.+ (?:by|to|from|with|on|as)$")


CLASS_WORDS = frozenset({"rdf type", "a", "is a", "isa", "instance of", "instanceof"})  # from a thing to its class
RDF_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"


def is_type(relation: str) -> bool:
    """Whether a relation's values are kinds, by its name: rdf:type, but also a column called `type` or `category`.

    >>> is_type("rdf:type"), is_type("category"), is_type("born_in")
    (True, True, False)
    """
    return _plain(relation) in TYPE_RELATIONS


def names_class(graph: Graph, relation: str) -> bool:
    """Whether a relation does nothing but lead from a thing to its class: rdf:type, or `is_a`. A column called `type`
    may say more: it is a kind to start from (`is_type`), and something to ask about as well.
    """
    if _plain(relation) in CLASS_WORDS:
        return True
    if _plain(relation) != "type" or not isinstance(graph, StoredGraph) or graph.store.relation_id is None:
        return False
    number = graph.store.relation_number(relation)
    return number is not None and graph.store.relation_id[number] == RDF_TYPE


@dataclass(frozen=True, slots=True)
class Kind:
    """All things of a kind. `how` says what makes them so: the value of a relation of types (OF_TYPE), that a relation
    leads to them (TAILS), that they have it (HEADS), or that there are facts of them at all (ALL).
    """

    name: str
    how: str
    relation: str
    value: str = ""  # of OF_TYPE: the entity that is the kind

    def members(self, graph: Graph) -> list[str]:
        """Each once, the most mentioned first where the graph is a store."""
        if (kept := getattr(graph, "kind_members", None)) is not None:  # a graph that keeps its latest answers
            members: list[str] = kept(self)
            return members
        if self.how == OF_TYPE:
            try:
                return list(graph.neighbors(self.value, self.relation, out=False).names)
            except UnknownName:
                return []
        if self.how == ALL:
            if type(graph) is StoredGraph:
                return graph.store.entity.several(np.flatnonzero(np.diff(graph.store.out.groups_array)).tolist())
            return list(dict.fromkeys(fact.head for fact in graph.match()))
        if type(graph) is StoredGraph:
            number = graph.store.relation_number(self.relation)
            ends = [] if number is None else _ends(graph.store, number, self.how == HEADS).tolist()
            return graph.store.entity.several(ends)
        facts = graph.match(relation=self.relation)
        return list(dict.fromkeys(fact.head if self.how == HEADS else fact.tail for fact in facts))

    def fact(self, graph: Graph, name: str) -> Triple | None:
        """A fact by which a thing is of this kind."""
        pattern = {
            OF_TYPE: (name, self.relation, self.value),
            HEADS: (name, self.relation, None),
            TAILS: (None, self.relation, name),
            ALL: (name, None, None),
        }[self.how]
        return next(iter(islice(graph.match(*pattern), 1)), None)


EVERYTHING = Kind(THING, ALL, "")  # all that the graph says something of


class MentionedKind(NamedTuple):
    """A kind, and where a question has it, in words and in characters."""

    kind: Kind
    first: int
    start: int
    end: int


def kinds_in(question: str, graph: StoredGraph, *, taken: Sequence[tuple[int, int]] = ()) -> list[MentionedKind]:
    """The kinds that a question's words name, in order of mention, the longest name first where two begin together.

    `taken` are stretches of characters that mean something else, such as a name.
    """
    known, text = kinds_of(graph), Text(question)
    found: list[MentionedKind] = []
    at = 0
    while at < len(text.words):
        for last in range(min(at + LONGEST, len(text.words)) - 1, at - 1, -1):
            start, end = text.span(at, last)
            kind = known.called(_singular(word.plain for word in text.words[at : last + 1]), is_noun(text, at, last))
            free = all(end <= low or high <= start for low, high in taken)
            if kind is not None and free and not (at == last and text.words[at].plain in FUNCTION_WORDS):
                if kind not in (one.kind for one in found):
                    found.append(MentionedKind(kind, at, start, end))
                at = last
                break
        at += 1
    return found


class KnownKinds(dict[str, "Kind"]):
    """The kinds of a graph by name, normalised and in the singular, and by what else may be said for them. All is read
    once: a graph like Freebase has thousands, and a question asks for each of its words.
    """

    @cached_property
    def classes(self) -> list[tuple[str, Kind]]:
        return [(plain, kind) for plain, kind in self.items() if kind.how == OF_TYPE]

    @cached_property
    def ending(self) -> dict[str, list[Kind]]:
        """By the last words of a name of several: lines are order lines."""
        found: dict[str, list[Kind]] = {}
        for plain, kind in self.items():
            words = plain.split(" ")
            for at in range(1, len(words) if kind.value or kind.how == TAILS else 0):
                found.setdefault(" ".join(words[at:]), []).append(kind)
        return found

    @cached_property
    def beginning(self) -> dict[str, list[Kind]]:
        found: dict[str, list[Kind]] = {}
        for plain, kind in self.classes:
            words = plain.split(" ")
            for at in range(1, len(words)):
                found.setdefault(" ".join(words[:at]), []).append(kind)
        return found

    @cached_property
    def agents(self) -> dict[str, Kind]:
        """By the stem of who does what a relation says: designers, of designed_by."""
        found: dict[str, Kind] = {}
        for kind in self.values():
            if kind.how == TAILS and (verb := _AGENTS.match(_plain(kind.relation))) is not None:
                found.setdefault(_IRREGULAR.get(verb[1], stem(verb[1])), kind)
        return found

    def called(self, name: str, noun: bool = True) -> Kind | None:
        """The kind that a name in the singular means: by itself, or if it is a `noun` by another word for it (clients
        are customers), as the end or the beginning of just one kind's name (lines are order lines).
        """
        if name in self or not noun:
            return self.get(name) or self.misspelt(name)
        others = [self[other] for other in (*spellings(name), *same_kind(name)) if other in self]
        for how in (OF_TYPE, TAILS) if self.classes else ():
            if len(found := [kind for kind in self.ending.get(name, ()) if kind.how == how]) == 1:
                return found[0]
            if found := [kind for kind in others if kind.how == how]:
                return found[0]
        if name.endswith(("er", "or")) and (maker := self.agents.get(stem(name))) is not None:
            return maker
        begun = self.beginning.get(name, ())
        return begun[0] if len(begun) == 1 else self.misspelt(name)

    def misspelt(self, name: str) -> Kind | None:
        """The class whose name is spelt nearly so: "goverment". Not what is a word of its own."""
        if len(name) < ALIKE_LETTERS or " " in name or name in FUNCTION_WORDS or is_usual(name):
            return None
        spelt = self.items() if len(self) <= MOST_SPELT else self.classes
        near = [(OSA.normalized_similarity(name, plain), kind) for plain, kind in spelt]
        best = max(near, key=lambda entry: entry[0], default=(0.0, None))
        return best[1] if best[0] >= ALIKE else None


# Written by a writer: participles from which the noun cannot be read
_IRREGULAR = {"written": "writ", "made": "mak", "built": "build", "led": "lead", "sung": "sing", "taught": "teach"}
_IRREGULAR |= {"driven": "driv", "sold": "sell", "held": "hold", "won": "win", "drawn": "draw", "run": "run"}
_KINDS: WeakKeyDictionary[Store | StoredGraph, KnownKinds] = WeakKeyDictionary()


def kinds_of(graph: StoredGraph) -> KnownKinds:
    """Every kind of a graph by its name, normalised and in the singular; read once. A view has those of its facts."""
    whole = type(graph) is StoredGraph
    known = _KINDS.get(graph.store if whole else graph)
    if known is None:
        known = _KINDS[graph.store if whole else graph] = KnownKinds()
        relations, ends = _all_of_store(graph.store) if whole else _all_of_view(graph)
        listed = _listed(graph.store, relations, ends)
        for kind in sorted(listed, key=lambda kind: (OF_TYPE, TAILS, HEADS).index(kind.how)):
            known.setdefault(_singular(_plain(kind.name).split()), kind)
        known.pop("", None)
    return known


def kind_named(name: str, graph: Graph) -> Kind | None:
    """The kind of a name, as a question or a program writes it."""
    known = kinds_of(graph) if isinstance(graph, StoredGraph) else KnownKinds()
    plain = _singular(_plain(name).split())
    kind = known.get(plain) or known.get(f"{plain} by") or (EVERYTHING if plain == THING else None)
    return Kind(_plain(name), TAILS, name) if kind is None and known and graph.has_relation(name) else kind


# Where a walk starts


def starts_in(question: str, graph: Graph) -> tuple[list[Mention], list[Kind]]:
    """What a question names, for a walk that may start from kinds: entities, and kinds where they are needed.

    A number or a common word that is also the name of something is no start where a kind is, and what is itself a kind
    starts as one.
    """
    mentions = linked(question, graph)
    classes = [one for one in mentions if _is_class(one.candidates[0].name, graph)]
    things = [one for one in mentions if not one.common and one not in classes]
    kinds = kinds_beside(question, topics_of(things), graph)
    if things or kinds:
        return things, kinds
    return [one for one in mentions if one not in classes], []


def _is_class(name: str, graph: Graph) -> bool:
    kind = kinds_of(graph).get(_singular(_plain(class_name(name)).split())) if isinstance(graph, StoredGraph) else None
    return kind is not None and kind.value == name


def starting_kinds(question: Question, topics: Sequence[str], graph: Graph) -> list[Kind]:
    """What a walk starts from beside its topics: the kinds that the dataset names, else those in the question."""
    return gold_kinds(question, graph) if "kinds" in question.extra else kinds_beside(question.question, topics, graph)


def kinds_beside(question: str, topics: Sequence[str], graph: Graph) -> list[Kind]:
    """The kinds that a walk from these topics needs: those that the question names, or that its words come down to.

    A graph that is not a store on this machine is not searched for kinds: that would read all of it.
    """
    if not isinstance(graph, StoredGraph):
        return []
    text = Text(question)
    mentions = linked(question, graph)
    plain = question.casefold()
    places = [(plain.find(name.casefold()), len(name)) for name in topics]
    taken = [(at, at + length) for at, length in places if at >= 0]
    taken += [(one.start, one.end) for one in mentions if one.candidates[0].name in topics]
    found = kinds_in(question, graph, taken=taken)
    conditions = {one.candidates[0].name for one in mentions if not one.common}  # e-bikes, of all bikes
    if topics:
        needed = any(_is_over_all(text, at) for at in range(len(text.words)))
        chosen = [
            one
            for one in found
            if one.kind.how == OF_TYPE and (one.kind.value in conditions or needed or _mixed(one.kind, topics, graph))
        ]
        return [one.kind for one in chosen[:MOST_BESIDE]] or _compared(text, topics, mentions, graph)
    if _names_something_else(text, graph, mentions, found):
        return []
    typed = any(one.kind.how == OF_TYPE for one in found)
    asked = [one for one in found if one.kind.how == (OF_TYPE if typed else HEADS) or _is_asked(text, one, found)]
    asked = asked or [one for one in found if _is_ranked(text, one)]
    kinds = [one.kind for one in asked][:MOST_NAMED]
    if kinds and text.words[0].plain in _WHO and not any(_is_people(kind) for kind in kinds):
        return [*_people(text, graph), *kinds][:MOST_NAMED]  # "who manages the most products"
    return kinds or _implied(text, graph)


def linked(question: str, graph: Graph) -> list[Mention]:
    """The mentions of a question. Those of the last one are kept: a walk's start asks for them more than once."""
    kept = _LINKED.get(graph)
    if kept is None or kept[0] != question:
        kept = _LINKED[graph] = question, link(question, graph)
    return kept[1]


_LINKED: WeakKeyDictionary[Graph, tuple[str, list[Mention]]] = WeakKeyDictionary()
MOST_NAMED, MOST_BESIDE = 3, 2  # kinds handed over without topics, and with some: each is a line of the prompt
_EST = re.compile(r"..(?:est|iest)$")
_WHO = ("who", "whom", "whos")


def _is_over_all(text: Text, at: int) -> bool:
    """Whether a word makes a condition of all of a kind: "not", "most", "cheapest", "over 100"."""
    plain = text.words[at].plain
    bound = plain in ("over", "above", "under", "below") and at + 1 < len(text.words) and text.digits[at + 1]
    return bound or plain in OVER_ALL or _EST.search(plain) is not None


def _compared(text: Text, topics: Sequence[str], mentions: Sequence[Mention], graph: StoredGraph) -> list[Kind]:
    """What is compared with a topic, where that is all that is said of it: "who earns more than Felix Kraus"."""
    starts = {one.start for one in mentions if one.candidates[0].name in topics}
    than = [at for at in range(1, len(text.words) - 1) if text.words[at].plain == "than"]
    named = [at + 1 + text.function[at + 1] for at in than]  # "than Felix", "than the Wren"; nothing after "than the"
    if len(topics) != 1 or not any(text.words[at].start in starts for at in named if at < len(text.words)):
        return []
    return [kind for kind in kinds_of(graph).values() if kind.how == OF_TYPE and kind.fact(graph, topics[0])][:1]


def _mixed(kind: Kind, topics: Sequence[str], graph: StoredGraph) -> bool:
    """Whether a relation leads to a topic from things of the kind and from others, so that the kind tells them apart.

    Italy is the country of suppliers and of customers: "Italian suppliers" takes the kind. So do the sculptures of a
    museum that has none: museums hold paintings and sculptures. Nor need the relation lead to the topic itself:
    "cubist sculptures" are of artists of Cubism, who make both.
    """
    for topic in topics:
        entering = list(graph.relations(topic, out=False)) if topic in graph else []
        direct = [_comes_from(kind, relation, topic, graph) for relation in entering]
        if any(len(of_kind) == 2 for of_kind in direct):
            return True
        if any(True in of_kind for of_kind in direct) or not Stored(graph).few:
            continue
        heads = [head for one in entering for head in graph.neighbors(topic, one, out=False, limit=1).names]
        behind = {one for head in heads[:CONSIDERED] for one in graph.relations(head, out=False)}
        if any(len(_comes_from_at_all(kind, relation, graph)) == 2 for relation in behind):
            return True
    return False


def _comes_from(kind: Kind, relation: str, topic: str, graph: StoredGraph) -> set[bool]:
    """Whether a relation comes from things of the kind, from others, or both: to the topic, and to anything."""
    anywhere = _comes_from_at_all(kind, relation, graph)
    heads = [] if len(anywhere) == 2 else graph.neighbors(topic, relation, out=False, limit=SAMPLED).names
    return anywhere | {kind.fact(graph, head) is not None for head in heads}


def _comes_from_at_all(kind: Kind, relation: str, graph: StoredGraph) -> set[bool]:
    """The same of some facts of the relation, looked at once; nothing where there are too many to look through."""
    if type(graph) is not StoredGraph or not Stored(graph).few:
        return set()
    known = _COMES_FROM_KIND.setdefault(graph.store, {})
    if (kind, relation) not in known:
        ends = _ends(graph.store, graph.store.relation_number(relation) or 0, True)
        heads = graph.store.entity.several(ends[:: len(ends) // SAMPLED + 1].tolist())
        known[kind, relation] = {kind.fact(graph, head) is not None for head in heads}
    return known[kind, relation]


_COMES_FROM_KIND: WeakKeyDictionary[Store, dict[tuple[Kind, str], set[bool]]] = WeakKeyDictionary()


def _is_asked(text: Text, one: MentionedKind, found: Sequence[MentionedKind]) -> bool:
    """Whether a kind is what is asked for, not a property: "which materials", "which truck models", not "elements by
    density".
    """
    after = next((other for other in found if one.end + 1 == other.start and other.kind.how == OF_TYPE), None)
    if one.kind.how != OF_TYPE and after is not None:
        return False  # "deprecated functions"
    if one.first == 0 or text.words[one.first - 1].plain in ASKED_AFTER:
        return True
    before = next((other for other in found if other.end + 1 == one.start), None)
    return before is not None and _is_asked(text, before, [])


def _is_ranked(text: Text, one: MentionedKind) -> bool:
    """Whether the first of a kind is asked for: "the largest city", "the most expensive city"."""
    *_, before, last = ["", "", *(word.plain for word in text.words[: one.first])]
    return before in ("most", "least") or _EST.search(last) is not None


def _names_something_else(
    text: Text, graph: StoredGraph, mentions: Sequence[Mention], found: Sequence[MentionedKind]
) -> bool:
    """Whether the question is about something that the graph does not have: "which airlines fly to tokyo"."""
    names = Stored(graph)
    if not names.few:
        return False
    places = [(one.start, one.end) for one in mentions] + [(one.start, one.end) for one in found]
    for at in range(1, len(text.words)):
        start, end = text.span(at, at)
        known = any(low < end and start < high for low, high in places)
        if known or not _may_name(text, names, at):
            continue
        last = at + 1 == len(text.words) or text.function[at + 1] or is_unknown(text, names, at + 1)
        if text.words[at - 1].plain in AFTER_WHICH_A_NAME and last:
            return True
    return False


_FORM = re.compile(r"(?:ed|ing|[^uis]s)$")  # of a verb, or a plural


def _may_name(text: Text, names: Stored, at: int) -> bool:
    """Whether a word that nothing explains may be a name: it is no form of a word, or stands with another such word."""
    if not is_unknown(text, names, at):
        return False
    plain = text.words[at].plain
    adverb = plain.endswith("ly") and (is_usual(plain[:-2]) or not is_unknown(Text(plain[:-2]), names, 0))
    if not adverb and not _FORM.search(plain):
        return True
    beside = [near for near in (at - 1, at + 1) if 0 <= near < len(text.words)]
    return any(is_unknown(text, names, near) and not _FORM.search(text.words[near].plain) for near in beside)


def _implied(text: Text, graph: StoredGraph) -> list[Kind]:
    """The kind that a question without names is about: people where it asks who, what has the relation that it speaks
    of, what the graph is about if that is one kind of thing.
    """
    known = kinds_of(graph)
    typed = [kind for kind in known.values() if kind.how == OF_TYPE]
    words = [word.plain for word in text.words]
    names = Stored(graph)
    if typed and names.few and any(_may_name(text, names, at) for at in range(len(words))):
        return []  # about something that is not there
    if typed and not SAY_PEOPLE.isdisjoint(words) and (people := _people(text, graph)):
        return people
    if not typed:
        plural = any(len(word) > 3 and word not in FUNCTION_WORDS and singular(word) != word for word in words)
        counts = any(word in COUNTED or word in OVER_ALL or _EST.search(word) for word in words)
        return [EVERYTHING] if plural or counts else []
    stems = _spoken(text)
    spoken_of = [(len(stems & _relation_stems(kind, graph)), -at) for at, kind in enumerate(typed[:SAMPLED])]
    most, at = max(spoken_of)
    return [typed[-at]] if most else []


def _is_people(kind: Kind) -> bool:
    return any(name in WHO for name in _singular(_plain(kind.name).split()).split())


def _people(text: Text, graph: StoredGraph) -> list[Kind]:
    """The kind of people that a question speaks of, the likeliest where it speaks of none; nothing where none is."""
    known = kinds_of(graph)
    people = [known[name] for name in WHO if name in known and known[name].how == OF_TYPE]
    stems = _spoken(text)
    return [max(people, key=lambda kind: len(stems & _relation_stems(kind, graph)))] if people else []


def _spoken(text: Text) -> set[str]:
    """The stems of a question's words, and of words for the same property: "earns" speaks of a salary."""
    words = [word.plain for word in text.words if word.plain not in FUNCTION_WORDS]
    stems = {stem(word) for word in words}
    return stems | {stem(other) for row in SAME_PROPERTY if not stems.isdisjoint(map(stem, row)) for other in row}


def _relation_stems(kind: Kind, graph: StoredGraph) -> set[str]:
    """The words of the relations that things of a kind have."""
    relations = {name for member in kind.members(graph)[:MOST_NAMED] for name in graph.relations(member)}
    said = [_plain(name) for name in relations if not is_naming(_plain(name))]
    return {stem(word) for name in [*said, _plain(kind.name)] for word in name.split()}


def gold_kinds(question: Question, graph: Graph) -> list[Kind]:
    """The kinds that a question is known to start from: those that its dataset names under `kinds`."""
    names = question.extra.get("kinds")
    found = [kind_named(str(name), graph) for name in names] if isinstance(names, list) else []
    return [kind for kind in found if kind is not None]


_Ends = Callable[[int, bool], I64]  # the entities that a relation comes from, or leads to, by number


def _listed(store: Store, relations: Iterable[int], ends: _Ends) -> Iterator[Kind]:
    names = [(number, store.relation_name(number)) for number in relations]
    typed = any(is_type(name) for _, name in names)
    for number, relation in names:
        words = _plain(relation)
        if is_type(relation):
            values = store.entity.several(ends(number, False).tolist())
            yield from (Kind(class_name(value), OF_TYPE, relation, value) for value in values)
            yield from _called_alike(relation, values)
            continue
        if _AGENTS.match(words):
            if _things(store, ends(number, False)):
                yield Kind(words, TAILS, relation)
            continue
        comes, key, leads = _COMES_FROM.match(words), _KEY.match(words), _LEADS_TO.match(words)
        if is_naming(words) or _VERBAL.match(words) or (comes and _PARTICIPLE.search(comes[1])):
            continue
        if comes:
            if _things(store, ends(number, True)):
                yield Kind(comes[1], HEADS, relation)
        elif key:
            # A foreign key leads to what it is called after; a key of its own tells what its things are.
            heads, tails = ends(number, True), ends(number, False)
            if _have_facts(store, tails):
                yield Kind(key[1], TAILS, relation)
            elif not typed and len(tails) == len(heads) and _things(store, heads):
                yield Kind(key[1], HEADS, relation)
        elif _things(store, ends(number, False)) and not _tells_apart(store, ends(number, True), ends(number, False)):
            yield Kind(leads[1] if leads else words, TAILS, relation)


def _called_alike(relation: str, values: Sequence[str]) -> Iterator[Kind]:
    """What the values of a relation of types have in common: e-bikes, city bikes and cargo bikes are bikes."""
    last = Counter(singular(normalise(value).split()[-1]) for value in values if " " in value or "-" in value)
    for word, count in last.most_common(1):
        if count > 1 and 2 * count > len(values):
            yield Kind(word, HEADS, relation)


def _have_facts(store: Store, entities: I64) -> bool:
    """Whether the first of them have facts of their own, as things have and values have not."""
    sample = entities[:SAMPLED]
    return len(sample) > 0 and bool(np.mean(store.out.groups_array[sample + 1] > store.out.groups_array[sample]) > 0.5)


def _tells_apart(store: Store, heads: I64, tails: I64) -> bool:
    """Whether nearly everything has a value of its own, such as an address or a telephone number."""
    return len(heads) > SAMPLED and len(tails) > OWN_VALUES * len(heads) and not _have_facts(store, tails)


def _ends(store: Store, relation: int, heads: bool) -> I64:
    """The entities that a relation comes from, or leads to, by number."""
    edges = store.out if heads else store.in_
    groups = np.flatnonzero(edges.relation_array == relation)
    return np.searchsorted(edges.groups_array, groups, side="right") - 1


def _all_of_store(store: Store) -> tuple[Iterable[int], _Ends]:
    return range(len(store.relation)), lambda relation, heads: _ends(store, relation, heads)


def _all_of_view(graph: StoredGraph) -> tuple[Iterable[int], _Ends]:
    """The relations of a view, which may be few of the store's, and their ends."""
    heads_E, relations_E, tails_E = graph.facts_by_number()
    return np.unique(relations_E).tolist(), lambda relation, heads: np.unique(
        (heads_E if heads else tails_E)[relations_E == relation]
    )


def _things(store: Store, ends: I64) -> bool:
    """Whether the ends are things with names, not numbers and dates."""
    names = store.entity.several(ends[:SAMPLED].tolist())
    values = sum(value_of(name) is not None for name in names)
    return bool(names) and values <= MOST_VALUES * len(names)


def class_name(name: str) -> str:
    """The last part of an address: `http://example.org/Product` is called Product."""
    return re.split(r"[/#]", name.rstrip("/#"))[-1] if "://" in name else name


def _singular(words: Iterable[str]) -> str:
    return singular_name(" ".join(words))
