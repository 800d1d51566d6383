"""The right answers of a question: entities, each with all the names it goes by.

Built once a question. Two names stand for one entity if they agree in a form of score/gold.py, the strict form
first. Knows nothing of predictions, beyond telling which entity a text names.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import NamedTuple

from kgwalk.kg.graph import Graph
from kgwalk.kg.normalise import normalise
from kgwalk.types import Question

# ----------------------------------------------------------------------------------------------------
# When two texts name the same thing: three forms of a name, from strict to loose.
#
# `kg.normalise` is for finding, and makes "C", "C++" and "C#" one name, "-5" and "5" too; a score must tell them apart.
# So here symbols that carry meaning stay, and a number is a number. English articles are the only thing known of any
# language. Knows nothing of typos, of dates (they are names), or of which names are right.


_THOUSANDS = re.compile(r"(?<=[0-9]),(?=[0-9]{3}(?![0-9]))")
_NUMBER = re.compile(r"([-−–]?)(0|[1-9][0-9]*)(?:\.([0-9]+))?")
_SIGNS = "-−–"
_SYMBOLS = "#%‰*°♯♭"  # beside all mathematical and currency signs (Unicode Sm and Sc)
_MAY_HAVE_MARK = re.compile(r"[-+<=>|~$#%*]")  # of a text in ASCII
_ARTICLE = re.compile(r"\W*(?:the|an?)[\s_]+", re.IGNORECASE)


class Forms(NamedTuple):
    """A name in three forms; two names are the same by the first form in which they agree."""

    plain: str  # case and white space aside
    key: str  # accents and punctuation aside as well, but not symbols that carry meaning
    bare: str  # the key without a leading English article


@lru_cache(1 << 16)
def forms(name: str) -> Forms:
    """
    >>> forms("The  Beatles")
    Forms(plain='the beatles', key='the beatles', bare='beatles')
    >>> forms("Beyoncé (singer)")
    Forms(plain='beyoncé (singer)', key='beyonce singer', bare='beyonce singer')
    """
    same = key(name)
    return Forms(" ".join(name.casefold().split()), same, _bare(name, same))


def key(name: str) -> str:
    """The name with case, accents, quotes, brackets, commas and the like taken away; "" only for a blank text.

    >>> [key(name) for name in ("Washington, D.C.", "washington d c", "São_Paulo")]
    ['washington d c', 'washington d c', 'sao paulo']

    Mathematical and currency signs stay, and `# % * °`, sharps and flats:

    >>> [key(name) for name in ("C", "C++", "C #", "Google+", "$5", "Sagittarius A*", "O-", "O+")]
    ['c', 'c++', 'c#', 'google+', '$5', 'sagittarius a*', 'o-', 'o+']

    A number is written in one way, thousands without commas; a decimal point and a minus are part of it, a hyphen and
    a full stop are not:

    >>> [key(name) for name in ("1,000", "1000.0", "-5", "5", "1.5", "1-5", "F-16", "007", "10,000 Maniacs")]
    ['1000', '1000', '-5', '5', '1.5', '1 5', 'f 16', '007', '10000 maniacs']

    A name without a letter or digit keeps its symbols: `key("!!!") == "!!!"`.
    """
    text = name if name.isascii() else unicodedata.normalize("NFKC", name)
    if "," in text:
        text = _THOUSANDS.sub("", text)
    number = _NUMBER.fullmatch(text.strip())
    if number is not None:
        return _number(*number.groups(default=""))
    folded = normalise(text)
    if (text.isascii() and _MAY_HAVE_MARK.search(text) is None) or not _has_word(folded):
        return folded
    pieces, start = [], 0
    for at, character in enumerate(text):
        if _is_mark(character) or _is_sign(text, at):
            pieces += [_fold(text[start:at]), "-" if character in _SIGNS else character]
            start = at + 1
    return "".join([*pieces, _fold(text[start:])])


def is_number(key: str) -> bool:
    """Whether a key is a number's.

    >>> is_number("-1.5"), is_number("f 16"), is_number("007")
    (True, False, False)
    """
    return _NUMBER.fullmatch(key) is not None


def _number(sign: str, whole: str, decimals: str) -> str:
    decimals = decimals.rstrip("0")
    written = f"{whole}.{decimals}" if decimals else whole
    return f"-{written}" if sign and written != "0" else written


def _fold(piece: str) -> str:
    folded = normalise(piece)
    return folded if _has_word(folded) else ""


def _has_word(text: str) -> bool:
    return any(map(str.isalnum, text))


def _is_mark(character: str) -> bool:
    return character in _SYMBOLS or (unicodedata.category(character) in ("Sm", "Sc") and character not in _SIGNS)


def _is_sign(text: str, at: int) -> bool:
    """A minus, not a hyphen: before a digit where a word begins ("-5 °C"), or after the last letter ("O-")."""
    if text[at] not in _SIGNS:
        return False
    before, after = text[at - 1 : at] if at else "", text[at + 1 : at + 2]
    if after.isdigit():
        return not before.isalnum() and before not in tuple(_SIGNS)
    return before.isalpha() and not _has_word(text[at:])


def _bare(name: str, same: str) -> str:
    """The key without "the", "a" or "an" before it, unless too little is left: "The The", "A", "The 1975" stay."""
    article = _ARTICLE.match(name)
    if article is None:
        return same
    left = key(name[article.end() :])
    enough = left not in ("", "the", "a", "an") and any(map(str.isalpha, left))
    return left if enough else same


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
