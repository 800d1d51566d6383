"""Property paths and value expressions: what a call may say where a relation is expected.

    born_in                     a relation
    ^works_in                   backwards: those who work there
    price/amount                one after the other: the amount of the price
    depends_on+                 again and again: all that it depends on, in the end
    borders|^borders            either
    (^whole/part)+              a path again and again, where a table lies between: all parts, in the end
    uses@1995                   only by facts that hold then; uses@now by those that hold today
    count(^works_in)            how many there are
    count(^works_in in $3)      how many of them are in a set; `not in` those that are not
    sum(line/price)             added up; average, least, greatest likewise
    start(works_for)            when the facts begin; end(...) when they end; start(works_for in $3) to a set

The signs are those of SPARQL's property paths. A relation whose own name has such signs is taken as it is. `parse`
reads a text, `reach` follows a path from entities, with the facts that lead there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from kgwalk.types import Triple
from kgwalk.walk.tagged_text import quote

COUNTED = "count"
AGGREGATES = ("sum", "average", "least", "greatest")
TIMES = ("start", "end")
VALUE = re.compile(rf"({'|'.join((COUNTED, *AGGREGATES, *TIMES))})\((.*)\)", re.DOTALL)
_AMONG = re.compile(r"(.*?)\s+(not in|in)\s+\$(\d{1,6})", re.DOTALL)
_LIMITED = (COUNTED, *TIMES)  # what is said of those in a set alone

_GROUP = re.compile(r"\((.*)\)(\+?)", re.DOTALL)
SIGNS = re.compile(r"[/^|+()@]")  # a text without any of these is the name of a relation

RelationNamed = Callable[[str], str | None]  # the relation of a name, None where there is none


class PathError(Exception):
    """A text that is no path: the message is for the model. `relation` is the name that is not known."""

    def __init__(self, message: str, relation: str = "") -> None:
        super().__init__(message)
        self.relation = relation


@dataclass(frozen=True, slots=True)
class Hop:
    """One relation followed, forwards (`out`) or backwards, once or again and again; `at` a date, or at any time.

    In place of a relation it may have a whole `path`, which is followed forwards.
    """

    relation: str
    out: bool = True
    again: bool = False
    at: str = ""
    path: Path = ()


Path = tuple[tuple[Hop, ...], ...]  # one or more ways, each of one or more hops
NextEntities = Callable[[str, Hop], Iterable[str]]  # those that a hop leads to from an entity


@dataclass(frozen=True, slots=True)
class Expression:
    """A path, and what is made of the values at its end: `how` is "" for the values themselves.

    Of a count or a date, `among` is the number of the set that the other end must be in, or (`outside`) must not be in.
    """

    path: Path
    how: str = ""
    among: int | None = None
    outside: bool = False

    @property
    def relations(self) -> list[str]:
        """Every relation that is named, in order."""
        return list(dict.fromkeys(_relations(self.path)))

    @property
    def single(self) -> Hop | None:
        """The one hop of a plain relation; None for anything longer."""
        hop = self.path[0][0]
        if self.how or len(self.path) > 1 or len(self.path[0]) > 1 or hop.again or hop.path:
            return None
        return hop


def _relations(ways: Path) -> Iterator[str]:
    for way in ways:
        for hop in way:
            yield from _relations(hop.path) if hop.path else [hop.relation]


def inverse(ways: Path) -> Path:
    """The path that leads back.

    >>> inverse(((Hop("works_in"), Hop("city")),))[0][0]
    Hop(relation='city', out=False, again=False, at='', path=())
    """
    return tuple(
        tuple(replace(hop, path=inverse(hop.path)) if hop.path else replace(hop, out=not hop.out) for hop in way[::-1])
        for way in ways
    )


def is_simple(name: str) -> bool:
    """Whether a path can have a relation of this name beside others: nothing in it is a sign or needs an escape.

    >>> is_simple("works in"), is_simple("km/h"), is_simple("not")
    (True, False, False)
    """
    bare = name == name.strip() != "" and SIGNS.search(name) is None and quote(name)[1:-1] == name
    return bare and name != "not" and not name.endswith(" not")


def parse(text: str, known: RelationNamed) -> Expression:
    """Read a text; raises PathError with the relation that is not there.

    >>> names = {"price": "price", "amount": "amount", "km/h": "km/h", "works_in": "works_in"}.get
    >>> [hop.relation for hop in parse("price/amount", names).path[0]]
    ['price', 'amount']
    >>> parse("km/h", names).single.relation, parse("^works_in@1995", names).single
    ('km/h', Hop(relation='works_in', out=False, again=False, at='1995', path=()))
    >>> parse("count(^works_in in $3)", names).among, parse("start(works_in not in $2)", names).outside
    (3, True)
    """
    text = text.strip()
    if known(text) is not None:
        return Expression(path(text, known))
    wrapped = VALUE.fullmatch(text)
    if wrapped is None:
        return Expression(path(text, known))
    how, inside = wrapped.groups()
    among = _AMONG.fullmatch(inside) if how in _LIMITED and known(inside.strip()) is None else None
    if among is None:
        return Expression(path(inside, known), how)
    return Expression(path(among[1], known), how, int(among[3]), among[2] != "in")


def renumbered(text: str, number: Callable[[int], int]) -> str:
    """A value with the set that it is limited to called by its new number; any other text as it is.

    >>> renumbered("count(^works_in in $3)", lambda old: old + 1), renumbered("works in", lambda old: old + 1)
    ('count(^works_in in $4)', 'works in')
    """
    old = limiting_set(text)
    return text if old is None else f"{text.rpartition('$')[0]}${number(old)})"


def limiting_set(text: str) -> int | None:
    """The set that a value counts in, or takes the dates of facts to; None for any other text."""
    wrapped = VALUE.fullmatch(text.strip())
    among = None if wrapped is None or wrapped[1] not in _LIMITED else _AMONG.fullmatch(wrapped[2])
    return None if among is None else int(among[3])


def written(expression: Expression, shown: Callable[[str], str]) -> str:
    """An expression as the language writes it, its relations as they are shown; the inverse of `parse`.

    >>> names = {"works_in": "works_in", "price": "price", "amount": "amount"}.get
    >>> texts = "^works_in@now", "(price/amount)+", "count(^works_in not in $3)"
    >>> all(written(parse(text, names), str) == text for text in texts)
    True
    """
    text = _written_path(expression.path, shown)
    if expression.among is not None:
        text += f" {'not in' if expression.outside else 'in'} ${expression.among}"
    return f"{expression.how}({text})" if expression.how else text


def _written_path(ways: Path, shown: Callable[[str], str]) -> str:
    return "|".join("/".join(_written(hop, shown) for hop in way) for way in ways)


def _written(hop: Hop, shown: Callable[[str], str]) -> str:
    if hop.path:
        return f"({_written_path(hop.path, shown)}){'+' * hop.again}"
    return f"{'^' * (not hop.out)}{shown(hop.relation)}{'@' * bool(hop.at)}{hop.at}{'+' * hop.again}"


def path(text: str, known: RelationNamed) -> Path:
    """The ways of a path, without anything around it.

    >>> len(path("borders|^borders", {"borders": "borders"}.get))
    2
    """
    ways = _pieces(text.strip(), "|", known)
    return tuple(tuple(_hop(piece, known) for piece in _pieces(way, "/", known)) for way in ways)


def _pieces(text: str, sign: str, known: RelationNamed) -> list[str]:
    """Cut at a sign, but not inside a relation's own name: the longest piece that is a relation stays whole."""
    parts = _split(text, sign)
    pieces = []
    at = 0
    while at < len(parts):
        ends = range(len(parts), at + 1, -1)
        end = next((end for end in ends if _relation(sign.join(parts[at:end]), known) is not None), at + 1)
        pieces.append(sign.join(parts[at:end]))
        at = end
    return pieces


def _split(text: str, sign: str) -> list[str]:
    """Cut at a sign outside of parentheses.

    >>> _split("(a/b)+/c", "/"), _split("a (m/s", "/")
    (['(a/b)+', 'c'], ['a (m', 's'])
    """
    parts = [""]
    depth = 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == sign and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts if depth == 0 else text.split(sign)


def _relation(text: str, known: RelationNamed) -> Hop | None:
    """A hop: a relation, maybe with `^` before it, `@` and a date or `+` behind it. Names with such signs go first."""
    text = text.strip()
    once = [(False, text), (True, text[:-1])] if text.endswith("+") else [(False, text)]
    for again, rest in once:
        dated, sign, date = rest.rpartition("@")
        for name, at in [(rest, ""), (dated, date.strip())] if sign and date.strip() else [(rest, "")]:
            if (relation := known(name.strip())) is not None:
                return Hop(relation, True, again, at)
            if name.startswith("^") and (relation := known(name[1:].strip())) is not None:
                return Hop(relation, False, again, at)
    return None


def _hop(text: str, known: RelationNamed) -> Hop:
    hop = _relation(text, known)
    if hop is None and (group := _GROUP.fullmatch(text.strip())) is not None:
        return Hop("", again=bool(group[2]), path=path(group[1], known))
    if hop is None:
        name = text.strip().removeprefix("^").removesuffix("+").rpartition("@")[0] or text
        name = name.strip().removeprefix("^").removesuffix("+").strip()
        raise PathError(f'relation "{name}" is not in the graph' if name else "a path has an empty step", name)
    return hop


PathEnds = dict[str, tuple[Triple, ...]]  # entities, each with the facts from a source to it


def reach(sources: Iterable[str], ways: Path, step: NextEntities, most: int, facts: bool = True) -> PathEnds:
    """All that a path leads to from some entities, with the facts of the first way found to each.

    `most` bounds how many there are at any moment: OverflowError beyond. Without `facts` nothing is kept of the way.

    >>> edges = {("a", "needs", True): ["b"], ("b", "needs", True): ["c", "a"], ("c", "needs", True): []}
    >>> needs = lambda name, hop: edges[name, hop.relation, hop.out]
    >>> sorted(reach(["a"], ((Hop("needs", True, True),),), needs, 10))
    ['a', 'b', 'c']
    >>> reach(["a"], ((Hop("needs"), Hop("needs")),), needs, 10)["c"]
    (Triple(head='a', relation='needs', tail='b', time=''), Triple(head='b', relation='needs', tail='c', time=''))
    """
    found: PathEnds = {}
    begin: PathEnds = dict.fromkeys(sources, ())
    for way in ways:
        here = begin
        for hop in way:
            here = _closure(here, hop, step, most, facts) if hop.again else _once(here, hop, step, most, facts)
        for name, chain in here.items():
            found.setdefault(name, chain)
        if len(found) > most:
            raise OverflowError
    return found


def _once(here: PathEnds, hop: Hop, step: NextEntities, most: int, facts: bool) -> PathEnds:
    found: PathEnds = {}
    for name, chain in here.items():
        for other, way in _next(name, hop, step, most, facts):
            if other not in found:
                found[other] = (*chain, *way)
        if len(found) > most:
            raise OverflowError
    return found


def _closure(here: PathEnds, hop: Hop, step: NextEntities, most: int, facts: bool) -> PathEnds:
    found: PathEnds = {}
    edge = here
    while edge:
        following: PathEnds = {}
        for name, chain in edge.items():
            for other, way in _next(name, hop, step, most, facts):
                if other not in found:
                    found[other] = following[other] = (*chain, *way)
            if len(found) > most:
                raise OverflowError
        edge = following
    return found


def _next(name: str, hop: Hop, step: NextEntities, most: int, facts: bool) -> Iterable[tuple[str, tuple[Triple, ...]]]:
    """What a hop, followed once, leads to, each with its facts."""
    if hop.path:
        return reach([name], hop.path, step, most, facts).items()
    return ((other, (fact_of(name, hop, other),) if facts else ()) for other in step(name, hop))


def fact_of(name: str, hop: Hop, other: str) -> Triple:
    """The fact by which a hop leads from one entity to another."""
    return Triple(name, hop.relation, other) if hop.out else Triple(other, hop.relation, name)
