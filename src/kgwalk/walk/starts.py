"""Where a walk starts: the entities that a question names, and the kinds where it needs them.

    starts_in("which suppliers are not from Italy", graph)      Italy, and the kind of all suppliers

A question without names starts from the kinds that it asks for, or that its words come down to; one that names an
entity starts from that alone, unless a condition is about all of a kind. `start_of` is what a walk asks: one that has
nowhere to start is refused before a model is loaded.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from kgwalk.kg.graph import Graph, HasClasses, with_nearest
from kgwalk.kg.names import singular
from kgwalk.kg.store import Store, StoredGraph
from kgwalk.types import KgwalkError, Question, Triple, UnknownEntity
from kgwalk.walk.facts import nearest_facts
from kgwalk.walk.kind_choice import choose_kind, spoken_stems
from kgwalk.walk.kinds import (
    EVERYTHING,
    HEADS,
    OF_TYPE,
    SAMPLED,
    Kind,
    MentionedKind,
    class_name,
    ends_of,
    kind_named,
    kinds_in,
    kinds_of,
    singular_words,
)
from kgwalk.walk.linking import Mention, link, nearest
from kgwalk.walk.linking import topics as topics_of
from kgwalk.walk.meanings import NOTHING, Meanings, meanings
from kgwalk.walk.name_lookup import CONSIDERED, Stored, is_naming
from kgwalk.walk.name_lookup import last_words as _plain
from kgwalk.walk.name_matches import is_unknown
from kgwalk.walk.protocol import Protocol
from kgwalk.walk.question_words import (
    AFTER_WHICH_A_NAME,
    ASKED_AFTER,
    COUNTED,
    FUNCTION_WORDS,
    MOST_WORDS,
    OVER_ALL,
    SAY_PEOPLE,
    WHO,
    Text,
    is_long,
    is_usual,
    stem,
)

SAYS_NOT = "the graph does not say"


@dataclass(frozen=True, slots=True)
class Start:
    """The entities that a walk starts from; `unsure` are parts of the question that may mean another entity."""

    topics: list[str]
    unsure: list[Mention] = field(default_factory=list)


class NoTopic(UnknownEntity):
    """A question that names no entity of the graph. `nearest` holds names that share a word, or nearly, with it, and
    `facts` what the graph says of them that comes nearest to the question.

    `read` is how many of its words were looked at, if it has more.
    """

    def __init__(
        self,
        question: str,
        nearest: Sequence[str] = (),
        *,
        where: str = "the graph",
        read: int | None = None,
        facts: Sequence[Triple] = (),
    ) -> None:
        super().__init__(question, nearest, where=where)
        self.facts = list(facts)
        near = f" Nearest to its words: {', '.join(map(repr, self.nearest))}." if self.nearest else ""
        near += f" It does say: {'; '.join(f'{h} -> {r}: {t}' for h, r, t, _ in self.facts)}." if self.facts else ""
        what = (
            "the question names" if read is None else f"of the question the first {read:,} words are read, which name"
        )
        self.args = (
            f"{SAYS_NOT}: {what} no entity of {where}, so there is nowhere to start from.{near} "
            "Name one in it as the graph writes it, "
            'or give it as a topic to start from (`--topic`, or "topics" over HTTP)',
        )


def start_of(
    question: str, graph: Graph, given: Sequence[str] | None = None, *, protocol: Protocol, web: bool = False
) -> Start:
    """Where to start: the topics `given`, even an empty list, else those found in the question.

    Raises NoTopic where none is found and the walk needs one: its protocol reads the graph, lists no kinds to ask for
    instead, and cannot search the web for an entity (`web` says whether there is one to search).
    """
    if not question.strip():
        raise KgwalkError("the question is empty")
    if given is not None:
        return Start(list(dict.fromkeys(_known(name, graph) for name in given)))
    mentions, kinds = starts_in(question, graph) if protocol.starts_from_kinds else (link(question, graph), [])
    found = mentions or kinds or not protocol.reads_graph or (web and protocol.searches_web)
    if found or (protocol.kinds_listed(graph) and not names_what_is_not_there(question, graph)):
        return Start(topics_of(mentions), [mention for mention in mentions if not mention.sure])
    near = nearest(question, graph)
    read = MOST_WORDS if is_long(question) else None
    raise NoTopic(question, near, read=read, facts=nearest_facts(question, graph, near))


def _known(name: str, graph: Graph) -> str:
    """The entity of this name or id, or of the name that is the same but for case, accents and punctuation."""
    if not name.strip():
        raise KgwalkError("a topic is empty; leave it out, and entities are found in the question")
    found = graph.find(name, 1)
    if found and found[0].how != "fuzzy":  # its name, also where an id was given: sets are compared by names
        return found[0].name
    if name in graph:
        return name
    raise with_nearest(graph, UnknownEntity(name))


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
    kind = kinds_of(graph).get(singular_words(_plain(class_name(name)).split()))
    return kind is not None and kind.value == name


def starting_kinds(question: Question, topics: Sequence[str], graph: Graph) -> list[Kind]:
    """What a walk starts from beside its topics: the kinds that the dataset names, else those in the question."""
    return gold_kinds(question, graph) if "kinds" in question.extra else kinds_beside(question.question, topics, graph)


def kinds_beside(question: str, topics: Sequence[str], graph: Graph) -> list[Kind]:
    """The kinds that a walk from these topics needs: those that the question names, or that its words come down to.

    A graph that is not a store on this machine is not searched for kinds, since that would read all of it: there are
    the classes that it tells, where the question names them.
    """
    if not isinstance(graph, StoredGraph | HasClasses):
        return []
    if topics and not any(kind.how == OF_TYPE for kind in kinds_of(graph).values()):
        return []  # beside topics only classes are a start: without any, nothing is looked up
    text = Text(question)
    mentions, meant = linked(question, graph), _meant(question, graph)
    plain = question.casefold()
    places = [(plain.find(name.casefold()), len(name)) for name in topics]
    taken = [(at, at + length) for at, length in places if at >= 0]
    taken += [(one.start, one.end) for one in mentions if one.candidates[0].name in topics]
    found = sorted([*kinds_in(question, graph, taken=taken), *meant.kinds], key=lambda one: one.first)
    conditions = {one.candidates[0].name for one in mentions if not one.common}  # e-bikes, of all bikes
    if topics:
        needed = any(_is_over_all(text, at) for at in range(len(text.words)))
        chosen = [
            one
            for one in found
            if one.kind.how == OF_TYPE and (one.kind.value in conditions or needed or _mixed(one.kind, topics, graph))
        ]
        return [one.kind for one in chosen[:MOST_BESIDE]] or _compared(text, topics, mentions, graph)
    if isinstance(graph, StoredGraph) and _names_something_else(text, graph, mentions, found, meant):
        return []
    typed = any(one.kind.how == OF_TYPE for one in found)
    asked = [one for one in found if one.kind.how == (OF_TYPE if typed else HEADS) or _is_asked(text, one, found)]
    asked = asked or [one for one in found if _is_ranked(text, one)]
    kinds = [one.kind for one in asked][:MOST_NAMED]
    if not isinstance(graph, StoredGraph):
        return kinds
    if kinds and text.words[0].plain in _WHO and not any(_is_people(kind) for kind in kinds):
        return [*_people(text, graph), *kinds][:MOST_NAMED]  # "who manages the most products"
    return kinds or _implied(text, graph, meant)


def names_what_is_not_there(question: str, graph: Graph) -> bool:
    """Whether a question is about something by name that the graph does not have: "which airlines fly to tokyo"."""
    if not isinstance(graph, StoredGraph):
        return False
    mentions, meant = linked(question, graph), _meant(question, graph)
    found = sorted([*kinds_in(question, graph), *meant.kinds], key=lambda one: one.first)
    return _names_something_else(Text(question), graph, mentions, found, meant)


def linked(question: str, graph: Graph) -> list[Mention]:
    """The mentions of a question. Those of the last one are kept: a walk's start asks for them more than once."""
    return _read(question, graph)[1]


def _meant(question: str, graph: Graph) -> Meanings:
    return _read(question, graph)[2]


def _read(question: str, graph: Graph) -> tuple[str, list[Mention], Meanings]:
    kept = _LINKED.get(graph)
    if kept is None or kept[0] != question:
        mentions, meant = link(question, graph), NOTHING
        if isinstance(graph, StoredGraph):
            named = kinds_in(question, graph)
            meant = meanings(Text(question), graph, mentions, named)
            if named or any(not one.common for one in mentions):
                meant = meant._replace(kinds=[])  # a second kind is seldom needed, and seldom right
        places = [(one.start, one.end) for one in meant.things]  # what a word means goes before a name that has it
        kept_names = [one for one in mentions if all(one.end <= low or high <= one.start for low, high in places)]
        both = sorted([*kept_names, *meant.things], key=lambda one: one.start)
        kept = _LINKED[graph] = question, both, meant
    return kept


_LINKED: WeakKeyDictionary[Graph, tuple[str, list[Mention], Meanings]] = WeakKeyDictionary()
MOST_NAMED, MOST_BESIDE = 3, 2  # kinds handed over without topics, and with some: each is a line of the prompt
_EST = re.compile(r"..(?:est|iest)$")
_WHO = ("who", "whom", "whos")


def _is_over_all(text: Text, at: int) -> bool:
    """Whether a word makes a condition of all of a kind: "not", "most", "cheapest", "over 100"."""
    plain = text.words[at].plain
    bound = plain in ("over", "above", "under", "below") and at + 1 < len(text.words) and text.digits[at + 1]
    return bound or plain in OVER_ALL or _EST.search(plain) is not None


def _compared(text: Text, topics: Sequence[str], mentions: Sequence[Mention], graph: Graph) -> list[Kind]:
    """What is compared with a topic, where that is all that is said of it: "who earns more than Felix Kraus"."""
    starts = {one.start for one in mentions if one.candidates[0].name in topics}
    than = [at for at in range(1, len(text.words) - 1) if text.words[at].plain == "than"]
    named = [at + 1 + text.function[at + 1] for at in than]  # "than Felix", "than the Wren"; nothing after "than the"
    if len(topics) != 1 or not any(text.words[at].start in starts for at in named if at < len(text.words)):
        return []
    return [kind for kind in kinds_of(graph).values() if kind.how == OF_TYPE and kind.fact(graph, topics[0])][:1]


def _mixed(kind: Kind, topics: Sequence[str], graph: Graph) -> bool:
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
        if any(True in of_kind for of_kind in direct) or not isinstance(graph, StoredGraph) or not Stored(graph).few:
            continue
        heads = [head for one in entering for head in graph.neighbors(topic, one, out=False, limit=1).names]
        behind = {one for head in heads[:CONSIDERED] for one in graph.relations(head, out=False)}
        if any(len(_comes_from_at_all(kind, relation, graph)) == 2 for relation in behind):
            return True
    return False


def _comes_from(kind: Kind, relation: str, topic: str, graph: Graph) -> set[bool]:
    """Whether a relation comes from things of the kind, from others, or both: to the topic, and to anything."""
    anywhere = _comes_from_at_all(kind, relation, graph)
    heads = [] if len(anywhere) == 2 else graph.neighbors(topic, relation, out=False, limit=SAMPLED).names
    return anywhere | {kind.fact(graph, head) is not None for head in heads}


def _comes_from_at_all(kind: Kind, relation: str, graph: Graph) -> set[bool]:
    """The same of some facts of the relation, looked at once; nothing where there are too many to look through."""
    if type(graph) is not StoredGraph or not Stored(graph).few:
        return set()
    known = _COMES_FROM_KIND.setdefault(graph.store, {})
    if (kind, relation) not in known:
        ends = ends_of(graph.store, graph.store.relation_number(relation) or 0, True)
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
    text: Text, graph: StoredGraph, mentions: Sequence[Mention], found: Sequence[MentionedKind], meant: Meanings
) -> bool:
    """Whether the question is about something that the graph does not have: "which airlines fly to tokyo"."""
    names = Stored(graph)
    if not names.few:
        return False
    places = [(one.start, one.end) for one in mentions] + [(one.start, one.end) for one in found]
    for at in range(1, len(text.words)):
        start, end = text.span(at, at)
        known = any(low < end and start < high for low, high in places)
        if known or at in meant.explained or not _may_name(text, names, at):
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


def _implied(text: Text, graph: StoredGraph, meant: Meanings) -> list[Kind]:
    """The kind that a question without names is about: people where it asks who, what has the relation that it speaks
    of, what the graph is about if that is one kind of thing.
    """
    known = kinds_of(graph)
    typed = [kind for kind in known.values() if kind.how == OF_TYPE]
    words = [word.plain for word in text.words]
    names = Stored(graph)
    if typed and names.few and any(_may_name(text, names, at) for at in range(len(words)) if at not in meant.explained):
        return []  # about something that is not there
    if not typed:
        plural = any(len(word) > 3 and word not in FUNCTION_WORDS and singular(word) != word for word in words)
        counts = any(word in COUNTED or word in OVER_ALL or _EST.search(word) for word in words)
        return [EVERYTHING] if plural or counts else []
    if not names.few:
        stems = spoken_stems(text)
        spoken_of = [(len(stems & _relation_stems(kind, graph)), -at) for at, kind in enumerate(typed[:SAMPLED])]
        most, at = max(spoken_of)
        return [typed[-at]] if most else []
    likely = [one for one in choose_kind(text, graph) if one.said]
    people = [one for one in likely if _is_people(one.kind)] if not SAY_PEOPLE.isdisjoint(words) else []
    return [one.kind for one in people[:1] or likely[:1] if one.probability >= LEAST_LIKELY or people]


LEAST_LIKELY = 0.2  # a kind that is only implied


def _is_people(kind: Kind) -> bool:
    return any(name in WHO for name in singular_words(_plain(kind.name).split()).split())


def _people(text: Text, graph: StoredGraph) -> list[Kind]:
    """The kind of people that a question speaks of, the likeliest where it speaks of none; nothing where none is."""
    known = kinds_of(graph)
    people = [known[name] for name in WHO if name in known and known[name].how == OF_TYPE]
    stems = spoken_stems(text)
    return [max(people, key=lambda kind: len(stems & _relation_stems(kind, graph)))] if people else []


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
