"""The right answers of a question: entities, each with all the names it goes by.

Built once a question. Two names stand for one entity if they agree in a form of score/names.py, the strict form
first. Knows nothing of predictions, beyond telling which entity a text names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from kgwalk.kg.graph import Graph
from kgwalk.kg.normalise import normalise
from kgwalk.score.names import forms, is_number, key
from kgwalk.types import Question

TRUE = ("true", "yes", "correct", "right")
FALSE = ("false", "no", "incorrect", "wrong")

_Table = dict[str, tuple[int, str]]  # a form: the entity, and the spelling that gave the form


@dataclass(frozen=True)
class Gold:
    """`entities[i]` are the names of the i-th right answer as the data spells them, its own name first.

    >>> gold = Gold((("Barack Obama", "m.02mjmr"), ("The Beatles",)))
    >>> [gold.entity_of(text) for text in ("barack  obama", "M.02MJMR", "Beatles", "Obama", "")]
    [0, 0, 1, None, None]
    """

    entities: tuple[tuple[str, ...], ...]
    truth: bool | None = None  # of a question that asks whether something is so
    _written: dict[str, int] = field(init=False, repr=False, compare=False)
    _tables: tuple[_Table, _Table, _Table] = field(init=False, repr=False, compare=False)
    _endings: frozenset[str] = field(init=False, repr=False, compare=False)  # last characters of all forms

    def __post_init__(self) -> None:
        written: dict[str, int] = {}
        plain: _Table = {}
        same: _Table = {}
        bare: dict[str, list[tuple[int, str]]] = {}
        # Own names before other names: an entity's own name is never taken for another's alias.
        for entity, name in [*_own(self.entities), *_others(self.entities)]:
            form = forms(name)
            written.setdefault(name, entity)
            plain.setdefault(form.plain, (entity, name))
            same.setdefault(form.key, (entity, name))
            bare.setdefault(form.bare, []).append((entity, name))
        # Without its article a name is a guess: taken only where it can mean one entity.
        clear = {form: named[0] for form, named in bare.items() if len({entity for entity, _ in named}) == 1}
        object.__setattr__(self, "_written", written)
        object.__setattr__(self, "_tables", (plain, same, clear))
        endings = frozenset(form[-1:] for table in self._tables for form in table)
        object.__setattr__(self, "_endings", endings)

    def __len__(self) -> int:
        return len(self.entities)

    def entity_of(self, text: str, graph: Graph | None = None) -> int | None:
        """The entity that the text names; None for any other name.

        A spelling of the data's own counts first; then case and white space are set aside, then accents and
        punctuation, then a leading article. A name that several entities go by stands for the first of them. Two
        different names that are both in the graph are two entities there, however alike they are spelt; but "30" and
        "30.00" are one number.
        """
        written = self._written.get(text)
        if written is not None:
            return written
        # No form changes a last letter of ASCII but for its case: most names that were shown are done with here.
        last = text[-1:]
        if last.isascii() and last.isalpha() and last.lower() not in self._endings:
            return None
        for table, form in zip(self._tables, forms(text), strict=True):
            found = table.get(form)
            if found is not None:
                entity, spelling = found
                two = graph is not None and text in graph and spelling in graph and not is_number(form)
                return None if two else entity
        return None

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """Every accepted name, normalised as for finding: what loose evaluators look for."""
        return tuple(dict.fromkeys(normalise(name) for names in self.entities for name in names))


def gold_of(question: Question) -> Gold:
    """The question's answers, each with its aliases; blank names are left out.

    Answers of one key are one entity, and so are an answer and another that the data lists among its aliases (an id
    beside its name). Of a question with `extra["answer_kind"] == "boolean"` the answer goes by all words for it.

    >>> question = Question("q", "?", [], ["Paris", "PARIS", "m.05qtj"], aliases={"Paris": ["m.05qtj", "Paname"]})
    >>> gold_of(question).entities
    (('Paris', 'm.05qtj', 'Paname', 'PARIS'),)
    """
    if question.extra.get("answer_kind") == "boolean" and len(question.answers) == 1:
        truth = truth_of(question.answers[0])
        if truth is not None:
            return Gold((tuple(dict.fromkeys([*question.answers, *(TRUE if truth else FALSE)])),), truth)
    names = {
        answer: [answer, *(alias for alias in question.aliases.get(answer, ()) if alias.strip())]
        for answer in question.answers
        if answer.strip()
    }
    groups: dict[int, list[str]] = {}
    for group, of_one in zip(_groups(list(names.values())), names.values(), strict=True):
        groups.setdefault(group, []).extend(of_one)
    return Gold(tuple(tuple(dict.fromkeys(group)) for group in groups.values()))


def _groups(names: list[list[str]]) -> list[int]:
    """For each answer the first that is the same entity: of the same key, or named among the other's aliases."""
    first = list(range(len(names)))

    def join(one: int, other: int) -> None:
        low, high = sorted((first[one], first[other]))
        if low != high:
            first[:] = [low if group == high else group for group in first]

    keys: dict[str, int] = {}
    own = {forms(answer).plain: at for at, (answer, *_) in enumerate(names)}
    for at, (answer, *aliases) in enumerate(names):
        join(at, keys.setdefault(forms(answer).key, at))
        for alias in aliases:
            join(at, own.get(forms(alias).plain, at))
    return first


def truth_of(text: str) -> bool | None:
    """
    >>> truth_of("Yes."), truth_of("FALSE"), truth_of("maybe")
    (True, False, None)
    """
    word = key(text)
    return True if word in TRUE else False if word in FALSE else None


def _own(entities: Iterable[tuple[str, ...]]) -> Iterator[tuple[int, str]]:
    return ((at, names[0]) for at, names in enumerate(entities))


def _others(entities: Iterable[tuple[str, ...]]) -> Iterator[tuple[int, str]]:
    return ((at, name) for at, names in enumerate(entities) for name in names[1:])
