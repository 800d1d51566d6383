"""Scores of an answer: the set of entities that it names against the set of right ones.

    >>> gold = Gold((("United States", "USA"), ("Washington, D.C.",)))
    >>> match(["USA", "Washington, D.C.", "Paris"], gold).precision        # two of three are right
    0.6666666666666666

Strict scores first (KG-R1, section 3.2): names are normalised, each entity counts once, and names are resolved to
entities of the graph. A blank name is a wrong prediction, never a wildcard. The lenient scores of published code stand
beside them under their own names (`hit_any`, `hit_substring`, `em_token`), for comparison; none of them counts wrong
answers.

`Gold` is a question's right answers, each with all the names it goes by. Two texts name the same thing if they agree in
one of three forms of a name, from strict to loose (`forms`).
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import NamedTuple

from kgwalk.kg.graph import Graph
from kgwalk.kg.names import normalise
from kgwalk.types import Question

# Strict scores

_LOOKED_AT = 8  # names that `find` gives for one prediction


@dataclass(frozen=True, slots=True)
class Matched:
    """How many entities were predicted, are right, and both; and whether the first prediction is.

    Three predicted, two of them right, of four: P = 2/3, R = 2/4, F1 = 2 * 2 / (3 + 4).

    >>> scores = Matched(predicted=3, gold=4, both=2, first=True)
    >>> round(scores.precision, 3), scores.recall, round(scores.f1, 3), scores.hits_at_1, scores.exact_set
    (0.667, 0.5, 0.571, 1.0, 0.0)
    >>> Matched(predicted=0, gold=4, both=0, first=False).f1
    0.0

    Where nothing is right (a question without an answer), to predict nothing is: all scores are 1.

    >>> Matched(predicted=0, gold=0, both=0, first=False).f1, Matched(predicted=1, gold=0, both=0, first=False).f1
    (1.0, 0.0)
    """

    predicted: int
    gold: int
    both: int
    first: bool

    @property
    def precision(self) -> float:
        return self.both / self.predicted if self.predicted else self._nothing

    @property
    def recall(self) -> float:
        return self.both / self.gold if self.gold else self._nothing

    @property
    def f1(self) -> float:
        """2PR / (P + R), which is Graph-RFT's equation 3 and EoG's equation 3."""
        return 2 * self.both / (self.predicted + self.gold) if self.predicted + self.gold else 1.0

    @property
    def hits_at_1(self) -> float:
        """1 if the first predicted name is right: the first of the list, not any of it."""
        return float(self.first) if self.predicted else self._nothing

    @property
    def exact_set(self) -> float:
        """1 if all that is right was predicted and nothing else."""
        return float(self.both == self.predicted == self.gold)

    @property
    def _nothing(self) -> float:
        return float(self.predicted == self.gold == 0)


def rows_f1(predicted: Iterable[Sequence[str]], gold: Iterable[Sequence[str]]) -> float:
    """F1 over the rows of a table. Two rows are the same if they have the same cells, in any order of the columns.

    >>> rows_f1([["Ann", "40"], ["Bob", "31"]], [["40", "ann"], ["Cid", "25"], ["Dee", "50"]])   # 2 * 1 / (2 + 3)
    0.4
    >>> rows_f1([], [])
    1.0
    """
    said, right = ({tuple(sorted(map(normalise, row))) for row in rows} for rows in (predicted, gold))
    return 2 * len(said & right) / (len(said) + len(right)) if said or right else 1.0


def match(predicted: Sequence[str], gold: Gold, graph: Graph | None = None) -> Matched:
    """Predictions against the right answers. Each entity counts once, by whichever of its names it was predicted.

    >>> gold = Gold((("United States", "USA"), ("Washington, D.C.",)))
    >>> match(["USA", "united states", "Washington, D.C.", "Paris", "paris!"], gold)
    Matched(predicted=3, gold=2, both=2, first=True)
    >>> match(["", "D.C.", "USA"], gold)
    Matched(predicted=3, gold=2, both=1, first=False)
    """
    named = [gold.entity_of(name, graph) for name in predicted]
    right = {entity for entity in named if entity is not None}
    wrong = [name for name, entity in zip(predicted, named, strict=True) if entity is None]
    others = len(distinct(wrong, graph))
    return Matched(len(right) + others, len(gold), len(right), bool(named) and named[0] is not None)


def f1(predicted: Sequence[str], gold: Gold, graph: Graph | None = None) -> float:
    """The F1 of `match`: what rewards are made of."""
    return match(predicted, gold, graph).f1


def accuracy(predicted: Sequence[str], gold: Gold) -> float:
    """Of a question that asks whether something is so: 1 if all that was answered is the right word for it.

    >>> gold = Gold((("true", "yes"),), truth=True)
    >>> accuracy(["Yes."], gold), accuracy(["no"], gold), accuracy(["yes", "no"], gold), accuracy([], gold)
    (1.0, 0.0, 0.0, 0.0)
    """
    said = {truth_of(name) for name in predicted}
    return float(gold.truth is not None and said == {gold.truth})


def processed(predicted: Sequence[str], graph: Graph | None = None) -> list[str]:
    """The predicted names as entities of the graph where they are, each once, in the order given.

    A name is an entity's if it is written so, or if one entity alone has that name but for case, accents and
    punctuation. Nothing is guessed: "Tom Hank" stays what it is. `match` gives a list and what becomes of it here the
    same score; it asks the graph less.

    >>> processed(["  Tom   Hanks ", "tom hanks", "Big"])
    ['Tom Hanks', 'Big']
    """
    return distinct([_resolved(name, graph) for name in predicted], graph)


def distinct(names: Sequence[str], graph: Graph | None = None) -> list[str]:
    """The names that differ by their key, the first spelling of each; names that are all in the graph all stay."""
    alike: dict[str, list[str]] = {}
    for name in names:
        spellings = alike.setdefault(forms(name).key, [])
        if name not in spellings:
            spellings.append(name)
    kept: list[str] = []
    for spellings in alike.values():
        known = [name for name in spellings if name in graph] if graph is not None and len(spellings) > 1 else []
        kept += known or spellings[:1]
    return kept


def _resolved(name: str, graph: Graph | None) -> str:
    text = " ".join(name.split())
    if graph is None or not text:
        return text
    if name in graph:
        return name
    # `find` takes "C" for "C++", so a few of its names are looked at, and only those of the same key are meant.
    alike = [found.name for found in graph.find(text, _LOOKED_AT) if found.how != "fuzzy"]
    alike = [found for found in alike if forms(found).key == forms(text).key]
    return alike[0] if len(alike) == 1 else text


# Lenient scores, for comparison with published figures


_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def hit_any(predicted: Sequence[str], gold: Gold, graph: Graph | None = None) -> float:
    """1 if any predicted name is right, however many are wrong: EoG's Hit@1 (section 4.1), and that of KG-R1's code.

    What a paper calls Hit@1 is usually one of these lenient scores; docs/reference/metrics.md says which. Ours is
    `Matched.hits_at_1`. A blank name matches nothing, though published code lets it match everything.

    >>> gold = Gold((("Paris",),))
    >>> hit_any(["London", "Rome", "paris"], gold), hit_any(["Paris, Texas"], gold)
    (1.0, 0.0)
    """
    return float(any(gold.entity_of(name, graph) is not None for name in predicted))


def hit_substring(predicted: Sequence[str], gold: Gold) -> float:
    """1 if a right name, normalised, is a part of the normalised answer, even inside a word.

    The test of RoG's evaluator, and one direction of Think-on-Graph's: KG-R1 says that it follows both, Graph-RFT,
    KG-Hopper and KG-Reasoner the second. "US" is a part of "music":

    >>> hit_substring(["Country music"], Gold((("US",),))), hit_substring(["Paris, Texas"], Gold((("Paris",),)))
    (1.0, 1.0)
    >>> hit_substring([""], Gold((("Paris",),)))
    0.0
    """
    answer = " ".join(filter(None, (normalise(name) for name in predicted)))
    return float(any(text in answer for text in gold.texts))


def em_token(predicted: Sequence[str], gold: Gold) -> float:
    """1 if the words of a predicted name, or of all of them one after the other, are those of a right name.

    The exact match of SQuAD (case, punctuation and English articles dropped wherever they stand, the best over the
    right names): the "exact match accuracy" of Graph-RFT's section 4, and the EM of KG-R1's Table 7.

    >>> gold = Gold((("Washington, D.C.",),))
    >>> em_token(["the Washington DC"], gold), em_token(["Washington", "D.C."], gold), em_token(["Washington"], gold)
    (1.0, 1.0, 0.0)
    """
    right = {_words(name) for names in gold.entities for name in names} - {""}
    said = {_words(name) for name in predicted} | {_words(" ".join(predicted))}
    return float(not right.isdisjoint(said))


@lru_cache(1 << 16)
def _words(text: str) -> str:
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


# The right answers of a question

TRUE = ("true", "yes", "correct", "right")
FALSE = ("false", "no", "incorrect", "wrong")

_Table = dict[str, tuple[int, str]]  # a form: the entity, and the spelling that gave the form


@dataclass(frozen=True)
class Gold:
    """The right answers of a question, made once: `entities[i]` are the names of the i-th as the data spells them, its
    own name first.

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


# When two texts name the same thing


_THOUSANDS = re.compile(r"(?<=[0-9]),(?=[0-9]{3}(?![0-9]))")
_NUMBER = re.compile(r"([-−–]?)(0|[1-9][0-9]*)(?:\.([0-9]+))?")
_SIGNS = "-−–"
_SYMBOLS = "#%‰*°♯♭"  # beside all mathematical and currency signs (Unicode Sm and Sc)
_MAY_HAVE_MARK = re.compile(r"[-+<=>|~$#%*]")  # of a text in ASCII
_ARTICLE = re.compile(r"\W*(?:the|an?)[\s_]+", re.IGNORECASE)


class Forms(NamedTuple):
    """A name in three forms; two names are the same by the first form in which they agree.

    `kg.names.normalise` is for finding, and makes one name of "C", "C++" and "C#", and of "-5" and "5"; a score must
    tell them apart. So here symbols that carry meaning stay, and a number is a number. Of any language only the English
    articles are known. Typos are not forgiven, and dates are names.
    """

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

    >>> [key(name) for name in ("1,000", "1000.0", "-5", "5", "1.5", "1-5", "F-16", "007", "10,000 Maniacs", '"-0"')]
    ['1000', '1000', '-5', '5', '1.5', '1 5', 'f 16', '007', '10000 maniacs', '0']

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
            pieces.append(_fold(text[start:at]))
            begins = character in _SIGNS and text[at + 1 : at + 2].isdigit() and any(pieces)
            pieces += [" -" if begins else "-" if character in _SIGNS else character]  # "at -5" is not "at-5", a hyphen
            start = at + 1
    left = "".join([*pieces, _fold(text[start:])])
    number = _NUMBER.fullmatch(left)  # what stood in quotes or brackets, say
    return left if number is None else _number(*number.groups(default=""))


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
