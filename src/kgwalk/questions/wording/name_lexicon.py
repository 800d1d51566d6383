"""The lexicon for any graph: templates from the names of its relations, their values, and the bank where it fits.

    NameLexicon(survey(graph)).templates(DirectedRelation("directed_by", True))

With `bank=False` only the names are used, for experiments on what the bank teaches. The schema is all it reads.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from kgwalk.questions.bank import Concept
from kgwalk.questions.schema import MOSTLY, Relation, Schema
from kgwalk.questions.wording.bank_lexicon import (
    BankMatch,
    ConceptMatch,
    ConceptNouns,
    concept_templates,
    path_templates,
)
from kgwalk.questions.wording.english import (
    DATE,
    NUMBER,
    PERSON,
    PLACE,
    VAGUE,
    VALUES,
    YEAR,
    is_person,
    is_place,
    word_set,
)
from kgwalk.questions.wording.lexicon import Templates, name_templates
from kgwalk.questions.wording.relation_names import RelationName, read_name
from kgwalk.questions.wording.templates import Ends
from kgwalk.questions.wording.values import spoken_units
from kgwalk.walk.facts import DirectedRelation

LONGEST = 10  # words of a name; a longer one is a sentence that got into the data
MIXED = 20  # entities with two or more known kinds, at least, before kinds are called mixed up
KNOWN_SHARE = 0.5  # the share of the sampled entities whose kind must be known, to tell the kind of an end
KNOWN = 3  # entities of one kind, at least, to tell the kind of a relation's end
# Words of relations that only people have.
_HUMAN = word_set(
    "born birth birthplace birthday spouse wife husband gender nationality profession occupation religion ethnicity "
    "parents parent children child father mother sibling siblings died death acted plays wears speaks married educated "
    "graduated aged citizenship education residence lives lived works employer"
)
# After those words, these make it a figure about many people: `birth_rate`, `gender_ratio` of a country.
_OF_MANY = word_set("rate rates ratio gap toll count total share percentage index statistics policy equality")
# Names whose head is a person, whatever the other relations of the graph suggest.
_WHEN_OR_WHERE = "(?:date|day|time|year|month|place|city|town|village|location|country|state)"
_BORN = re.compile(
    rf"(?:has |is |was )?(?:born(?: (?:in|on|at))?(?: {_WHEN_OR_WHERE})?|{_WHEN_OR_WHERE}(?: was)? (?:born|of birth)"
    rf"|birth ?(?:{_WHEN_OR_WHERE}|name)|gender|(?:(?:ex|former|late|current|first|second|third) )?"
    r"(?:spouse|wife|husband)(?:s?| of))"
)
# Kinds that one entity may have at once, beside people and places: a service is also software.
_FAMILIES = dict.fromkeys(("service", "software package", "programming language", "operating system"), "software")
_FAMILIES |= dict.fromkeys(("company", "work team", "team", "owner", "department"), "organization")
# The noun for what happened, where a relation to a time is named by a verb: `born`, `opened`.
_HAPPENED = {
    "born": "birth", "died": "death", "founded": "founding", "established": "foundation", "created": "creation",
    "opened": "opening", "closed": "closing", "built": "construction", "completed": "completion", "started": "start",
    "began": "start", "ended": "end", "released": "release", "published": "publication", "launched": "launch",
    "discovered": "discovery", "invented": "invention", "introduced": "introduction", "married": "wedding",
    "joined": "joining", "hired": "hiring", "signed": "signing", "elected": "election", "acquired": "acquisition",
}  # fmt: skip


class NameLexicon:
    """`concepts` are the concepts of the bank that may be used; by default all. `types` are the kinds of entities as
    the graph itself says them.
    """

    def __init__(
        self,
        schema: Schema,
        *,
        bank: bool = True,
        concepts: Sequence[Concept] | None = None,
        types: Mapping[str, str] | None = None,
    ) -> None:
        self.schema = schema
        self._match = BankMatch(schema.relations, concepts) if bank else None
        counts = Counter((name.text, name.head) for name in map(read_name, schema.relations))
        self._shared = {key for key, count in counts.items() if count > 1}
        matches = {name: self.concept_of(name) for name in schema.relations}
        self._kinds = _Kinds(schema, matches, types or {})
        self._concept_nouns = ConceptNouns([found[0] for found in matches.values() if found is not None])
        ends = {name: self._kinds.ends(relation, read_name(name)) for name, relation in schema.relations.items()}
        between = Counter(frozenset((one.head, one.tail)) for one in ends.values())
        known = {name: one for name, one in ends.items() if one.head not in VAGUE and one.tail not in VAGUE}
        self._alone = {name for name, one in known.items() if between[frozenset((one.head, one.tail))] < 2}
        self._made: dict[DirectedRelation, Templates] = {}

    def templates(self, way: DirectedRelation) -> Templates:
        if way not in self._made:
            self._made[way] = self._make(way)
        return self._made[way]

    def through(self, ways: tuple[DirectedRelation, ...]) -> Templates | None:
        if self._kinds.mixed:
            return None
        return path_templates(ways, [self.concept_of(way.relation) for way in ways], self._concept_nouns)

    def value_words(self, relation: str) -> tuple[str, ...]:
        if not self.schema[relation].valued:
            return ()
        templates, match = self.templates(DirectedRelation(relation, True)), self.concept_of(relation)
        everyday = () if match is None else match[0].nouns  # "the largest deepness"
        nouns = tuple(dict.fromkeys(noun for noun in templates.plain_bare + templates.bare if noun not in everyday))
        return nouns or _moments(read_name(relation), templates.kind)

    def units(self, relation: str) -> tuple[str, ...]:
        return spoken_units(read_name(relation).unit)

    def alone(self, way: DirectedRelation) -> bool:
        """Whether it is known that no other relation joins the same two kinds."""
        return way.relation in self._alone

    def concept_of(self, relation: str) -> ConceptMatch | None:
        """The bank's concept for a relation; None without the bank, or where none fits."""
        name = read_name(relation)
        if self._match is None or (name.unit and (name.text, name.head) in self._shared):
            return None  # the bank cannot tell `price_eur` from `price_usd`
        return self._match.find(relation)

    def _make(self, way: DirectedRelation) -> Templates:
        relation, name = self.schema[way.relation], read_name(way.relation)
        ends = self._kinds.ends(relation, name)
        if len(name.words) > LONGEST:
            return Templates((), ())
        match = self.concept_of(way.relation)
        if self._kinds.mixed and not name.head and match is not None and not {match[0].head, match[0].tail} <= VAGUE:
            match = None
        if match is not None and _agree(relation, *match):
            templates = concept_templates(way, *match, self._concept_nouns)
            reached = ends.tail if way.out else ends.head
            if templates.kind in VAGUE and is_person(reached):  # "things situated in Liverpool" are people
                return name_templates(name, way.out, ends)
            return templates
        return name_templates(name, way.out, ends, whole=(name.text, name.head) in self._shared)


def _moments(name: RelationName, kind: str) -> tuple[str, ...]:
    """Nouns for the value of a relation named by a verb.

    >>> _moments(read_name("born"), DATE), _moments(read_name("was_opened_in"), YEAR), _moments(read_name("seen"), DATE)
    (('birth date',), ('opening year',), ())
    """
    happened = [_HAPPENED[word] for word in name.words if word in _HAPPENED] if kind in (DATE, YEAR) else []
    return tuple(f"{what} {kind}" for what in happened[:1])


class _Kinds:
    """The kinds of a relation's ends.

    Where its name does not tell, they come from other relations of the same entities whose concept is known.
    """

    def __init__(self, schema: Schema, matches: Mapping[str, ConceptMatch | None], types: Mapping[str, str]) -> None:
        self._of: dict[str, Counter[str]] = defaultdict(Counter)  # kinds that sampled entities are known to have
        heads: Counter[str] = Counter()
        people: set[str] = set()
        for relation in schema.relations.values():
            found = matches[relation.name]
            if found is None or not _agree(relation, *found):
                name = read_name(relation.name)
                if not name.inverse and _BORN.fullmatch(name.text):
                    people.update(relation.sample_heads)
                continue
            concept, turned = found
            head, tail = (concept.tail, concept.head) if turned else (concept.head, concept.tail)
            heads[head] += 1
            for kind, sample in ((head, relation.sample_heads), (tail, relation.sample_tails)):
                if kind not in VAGUE and kind not in VALUES:
                    for entity in set(sample):
                        self._of[entity][kind] += 1
        for entity in people:
            self._of[entity][PERSON] += 1
        # an entity that is a drug by one relation and a disease by another is neither: the names mean other things here
        several = [counts for counts in self._of.values() if counts.total() > 1]
        odd = sum(len(set(map(_family, counts))) > 1 for counts in several)
        self.mixed = len(several) >= MIXED and 2 * odd > len(several)
        if self.mixed:
            self._of.clear()
        for entity, kind in types.items():
            self._of[entity] = Counter({kind: KNOWN})
        # where nearly all known relations start from one kind, the others do so too
        kind, count = heads.most_common(1)[0] if heads else ("", 0)
        self._most = kind if kind not in VAGUE and count >= MOSTLY * heads.total() and 2 * count >= len(matches) else ""

    def ends(self, relation: Relation, name: RelationName) -> Ends:
        head = name.head or _human(name) or self._shared(relation.sample_heads) or self._most
        return Ends(head, _value_kind(relation) or self._shared(relation.sample_tails))

    def _shared(self, sample: Sequence[str]) -> str:
        """The kind of most of the sampled entities, if the kinds of enough of them are known."""
        counts: Counter[str] = Counter()
        known = [entity for entity in set(sample) if entity in self._of]
        if len(known) < KNOWN_SHARE * len(set(sample)):
            return ""
        for entity in known:
            counts.update(self._of[entity])
        kind, count = counts.most_common(1)[0] if counts else ("", 0)
        return kind if count >= max(KNOWN, MOSTLY * counts.total()) else ""


def _family(kind: str) -> str:
    """One word for kinds that an entity may have at the same time.

    >>> _family("work team"), _family("company"), _family("service"), _family("employee"), _family("film")
    ('organization', 'organization', 'software', 'person', 'film')
    """
    if is_person(kind):
        return PERSON
    return PLACE if is_place(kind) else _FAMILIES.get(kind, kind)


def _value_kind(relation: Relation) -> str:
    if relation.dates >= MOSTLY:
        return YEAR if relation.tail_kinds.get(YEAR, 0.0) > relation.tail_kinds.get(DATE, 0.0) else DATE
    return NUMBER if relation.numbers >= MOSTLY else ""


def _agree(relation: Relation, concept: Concept, turned: bool) -> bool:
    """Whether a concept's tail can be what the relation's tails look like: a person is never a number."""
    valued = concept.tail in (YEAR, DATE, NUMBER) and not turned
    return valued == relation.valued or concept.tail == "text"


def _human(name: RelationName) -> str:
    """ "person" where only people have such a relation, else "".

    >>> _human(read_name("birth_date")), _human(read_name("birth_rate"))
    ('person', '')
    """
    return PERSON if _HUMAN & set(name.words) and name.words[-1] not in _OF_MANY and not name.inverse else ""
