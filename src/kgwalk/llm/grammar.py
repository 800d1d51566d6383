"""Grammars that constrain decoding: what a model writes under one always reads as its protocol's parser expects.

    call = literal("count($", either(literal("1", ...), literal("2", ...)))     rules are chained from the end

A rule is about bytes, as tokens may begin and end anywhere: any way to cut a text into tokens is allowed, the
tokenizer's own among them. `llm.automaton` lays rules over one vocabulary. Rules that are alike are one object, so the
same places in two grammars are one state there.

How short an ending can be is asked of every rule: a turn has a bound. Nothing here needs torch or a model.
"""

from __future__ import annotations

import weakref
from bisect import bisect_left
from collections.abc import Callable, Iterable
from functools import cached_property
from heapq import heappop, heappush
from itertools import count
from typing import Any, ClassVar

MOST_RULES = 1 << 20  # kept to be found again; then all are forgotten, which costs time and nothing else
NEVER = 1 << 30  # tokens that an ending takes which cannot be written
QUOTE, BACKSLASH = 0x22, 0x5C
# What may stand inside: no control characters and no `<`, with which tags and stop texts begin. Names are escaped so.
STRING = frozenset(set(range(0x20, 0x100)) - {QUOTE, BACKSLASH, ord("<")})
THOUGHT = frozenset({*range(0x20, 0x100), ord("\n")} - {ord("<")})
FIELD = frozenset(set(range(0x20, 0x100)) - {ord("|")})
DIGITS = 4  # of a whole number
LONGEST = 1024  # bytes of a name


# Rules

Ending = tuple[int, bytes, int]  # the length of a text, the text, and the end tokens after it: 1, or 0 at a stop text


class GrammarRule:
    """What may come from here on. Two that are made alike (`rule_of`) are the same object."""

    __slots__ = ("_items", "_least", "_shortest")  # there are very many
    told = False  # whether its shortest text is known without a search

    def __init__(self) -> None:
        self._items: frozenset[GrammarRule] | None = None
        self._least: int | None = None
        self._shortest: Ending | tuple[()] | None = None  # () if there is no end; None: not searched for

    def items(self) -> frozenset[GrammarRule]:
        """Itself as rules that each take a byte or are the end."""
        if self._items is None:
            self._items = self._open()
        return self._items

    def _open(self) -> frozenset[GrammarRule]:
        return frozenset([self])

    def firsts(self) -> Iterable[int]:
        """The bytes that may come next."""
        return ()

    def step(self, byte: int) -> frozenset[GrammarRule]:
        """What may come after a byte."""
        return NOTHING

    def shortest(self) -> Ending | None:
        """The shortest way from here to the end, the first in order among equals; None if there is none."""
        if self._shortest is None:
            self._shortest = self._ending() or ()
        return self._shortest or None

    def _ending(self) -> Ending | tuple[()] | None:
        """`shortest`, worked out. What leads to loops first looks at what is surely shorter."""
        best: Ending | None = None
        ways = [*self.ways()]
        for text, then in ways if len(ways) == 1 else sorted(ways, key=_least_of):
            if best is not None and _least_of((text, then)) > best[0]:
                break
            found = ending_of(text, then)
            if found is not None and (best is None or found < best):
                best = found
        return best

    def ways(self) -> Iterable[tuple[bytes, GrammarRule]]:
        """The rules that may be next, each with the shortest text that leads to it."""
        return ()

    @property
    def least(self) -> int:
        """Bytes that its shortest text has at least, told without opening a loop."""
        if self._least is None:
            self._least = min((len(text) + then.least for text, then in self.ways()), default=0)
        return self._least


def _least_of(way: tuple[bytes, GrammarRule]) -> int:
    return len(way[0]) + way[1].least


def ending_of(text: bytes, then: GrammarRule) -> Ending | None:
    """The shortest ending of what begins with this text; None if there is none."""
    ending = then.shortest()
    return None if ending is None else (len(text) + ending[0], text + ending[1], ending[2])


def _nearest_end(start: GrammarRule) -> Ending | tuple[()]:
    """A* over rules, by what their texts have at least: of grammars whose loops lead to loops, which can be hundreds of
    names wide, few are opened. Of the shortest texts the first is taken, so what is left of it is the first of the
    shortest from each rule on its way: these are told so, too.
    """
    came: dict[GrammarRule, tuple[int, GrammarRule | None]] = {}  # where its text ends, and from which rule
    order = count()
    # The length of the whole text at least; whether it is whole; the text, its end tokens, a number that tells all
    # apart, the rule and the one before it.
    ahead: list[tuple[int, bool, bytes, int, int, GrammarRule, GrammarRule | None]] = []

    def push(text: bytes, rule: GrammarRule, before: GrammarRule | None) -> None:
        heappush(ahead, (len(text) + rule.least, False, text, 0, next(order), rule, before))

    push(b"", start, None)
    while ahead:
        length, whole, text, ends, _, rule, before = heappop(ahead)
        if whole:
            at: GrammarRule | None = rule
            while at is not None:
                done, at_before = came[at]
                at._shortest = length - done, text[done:], ends
                at = at_before
            return length, text, ends
        if rule in came:
            continue
        came[rule] = len(text), before
        if rule._shortest is None and not rule.told:
            for piece, then in rule.ways():
                push(text + piece, then, rule)
        elif ending := rule.shortest():
            further, rest, ends = ending
            heappush(ahead, (len(text) + further, True, text + rest, ends, next(order), rule, before))
    return ()


class _Literal(GrammarRule):
    __slots__ = ("data", "then")

    def __init__(self, data: bytes, then: GrammarRule) -> None:
        super().__init__()
        self.data, self.then = data, then

    def firsts(self) -> Iterable[int]:
        return self.data[:1]

    def step(self, byte: int) -> frozenset[GrammarRule]:
        if self.data[0] != byte:
            return NOTHING
        return self.then.items() if len(self.data) == 1 else rule_of(_Literal, self.data[1:], self.then).items()

    def ways(self) -> Iterable[tuple[bytes, GrammarRule]]:
        return [(self.data, self.then)]


class Names:
    """Texts of which one may come, without those too long to be written in a turn. `Names.of` gives the same object for
    the same texts.
    """

    _known: ClassVar[weakref.WeakValueDictionary[tuple[str, ...], Names]] = weakref.WeakValueDictionary()

    def __init__(self, texts: tuple[str, ...]) -> None:
        self.texts = texts
        self.sorted = sorted(
            {data for text in texts if 0 < len(data := text.encode("utf-8", "surrogatepass")) <= LONGEST}
        )

    @cached_property
    def shortest(self) -> bytes:
        """The shortest of them, the first in order among equals."""
        return min(self.sorted, key=lambda text: (len(text), text))

    @classmethod
    def of(cls, texts: Iterable[str]) -> Names:
        key = tuple(texts)
        found = cls._known.get(key)
        if found is None:
            found = cls._known[key] = cls(key)
        return found

    def __bool__(self) -> bool:
        return bool(self.sorted)

    def __reduce__(self) -> tuple[Any, ...]:
        return Names.of, (self.texts,)


class _Choice(GrammarRule):
    """The names from `low` to `high`, which have their first `depth` bytes in common, after these bytes."""

    __slots__ = ("depth", "high", "low", "names", "then")

    def __init__(self, names: Names, low: int, high: int, depth: int, then: GrammarRule) -> None:
        super().__init__()
        self.names, self.low, self.high, self.depth, self.then = names, low, high, depth, then

    def _open(self) -> frozenset[GrammarRule]:
        whole = len(self.names.sorted[self.low]) == self.depth  # shorter texts come first
        ended = self.then.items() if whole else NOTHING
        low = self.low + whole
        if self.high - low == 1:  # one is left: a literal, the same in every list of names
            return ended | rule_of(_Literal, self.names.sorted[low][self.depth :], self.then).items()
        if low == self.high:
            return ended
        return ended | {self if not whole else rule_of(_Choice, self.names, low, self.high, self.depth, self.then)}

    def firsts(self) -> Iterable[int]:
        texts, at = self.names.sorted, self.low
        while at < self.high:
            byte = texts[at][self.depth]
            yield byte
            at = after_prefix(texts, texts[at][: self.depth + 1], at, self.high)

    def step(self, byte: int) -> frozenset[GrammarRule]:
        texts = self.names.sorted
        text = texts[self.low][: self.depth] + bytes([byte])
        low = bisect_left(texts, text, self.low, self.high)
        high = after_prefix(texts, text, low, self.high)
        return rule_of(_Choice, self.names, low, high, self.depth + 1, self.then).items() if high > low else NOTHING

    def ways(self) -> Iterable[tuple[bytes, GrammarRule]]:
        whole = self.high - self.low == len(self.names.sorted)
        some = self.names.sorted[self.low : self.high]
        name = self.names.shortest if whole else min(some, key=lambda text: (len(text), text))
        return [(name[self.depth :], self.then)]


class Many(GrammarRule):
    """Any number of bytes of a kind, then what no byte of the kind begins. In a string `\\"` and `\\\\` as well."""

    __slots__ = ("kind", "then")

    def __init__(self, kind: frozenset[int], then: GrammarRule) -> None:
        super().__init__()
        self.kind, self.then = kind, then

    def _open(self) -> frozenset[GrammarRule]:
        return self.then.items() | {self}

    def firsts(self) -> Iterable[int]:
        return [*self.kind, BACKSLASH] if self.kind is STRING else self.kind

    def step(self, byte: int) -> frozenset[GrammarRule]:
        if byte in self.kind:
            return self.items()
        return rule_of(_Escaped, self).items() if byte == BACKSLASH and self.kind is STRING else NOTHING

    def ways(self) -> Iterable[tuple[bytes, GrammarRule]]:
        return [(b"", self.then)]


class _Escaped(GrammarRule):
    __slots__ = ("string",)

    def __init__(self, string: GrammarRule) -> None:
        super().__init__()
        self.string = string

    def firsts(self) -> Iterable[int]:
        return (QUOTE, BACKSLASH)

    def step(self, byte: int) -> frozenset[GrammarRule]:
        return self.string.items() if byte in (QUOTE, BACKSLASH) else NOTHING

    def ways(self) -> Iterable[tuple[bytes, GrammarRule]]:
        return [(b'"', self.string)]


class _Number(GrammarRule):
    """A whole number above 0, of which so many digits have come."""

    __slots__ = ("then", "used")

    def __init__(self, used: int, then: GrammarRule) -> None:
        super().__init__()
        self.used, self.then = used, then

    def _open(self) -> frozenset[GrammarRule]:
        more = frozenset([self]) if self.used < DIGITS else NOTHING
        return more | self.then.items() if self.used else more

    def firsts(self) -> Iterable[int]:
        return b"0123456789" if self.used else b"123456789"

    def step(self, byte: int) -> frozenset[GrammarRule]:
        return rule_of(_Number, self.used + 1, self.then).items() if byte in bytes(self.firsts()) else NOTHING

    def ways(self) -> Iterable[tuple[bytes, GrammarRule]]:
        return [(b"" if self.used else b"1", self.then)]


class _Either(GrammarRule):
    __slots__ = ("options",)

    def __init__(self, options: tuple[GrammarRule, ...]) -> None:
        super().__init__()
        self.options = options

    def _open(self) -> frozenset[GrammarRule]:
        return frozenset().union(*(one.items() for one in self.options))

    def ways(self) -> Iterable[tuple[bytes, GrammarRule]]:
        return [(b"", one) for one in self.options]


class LazyRule(GrammarRule):
    """One that is made when it is needed, by `make`: of many that may come, few are written.

    `ending` tells its shortest text (the first in order among equals) without making it; where `told` is False, that is
    searched for.
    """

    __slots__ = ()
    told = True

    def make(self) -> GrammarRule:
        raise NotImplementedError

    def ending(self) -> Ending | None:
        raise NotImplementedError

    def _open(self) -> frozenset[GrammarRule]:
        return self.make().items()

    def _ending(self) -> Ending | tuple[()] | None:
        return self.ending() if self.told else _nearest_end(self)

    def ways(self) -> Iterable[tuple[bytes, GrammarRule]]:
        return [(b"", self.make())]


class _Loop(LazyRule):
    __slots__ = ("made_by", "told_by")
    made_by: Callable[[], GrammarRule]
    told_by: Callable[[], Ending | None] | None

    def __init__(self, key: tuple[Any, ...], least: int) -> None:
        super().__init__()
        self._least = least

    @property
    def told(self) -> bool:  # type: ignore[override]
        return self.told_by is not None

    def make(self) -> GrammarRule:
        return self.made_by()

    def ending(self) -> Ending | None:
        assert self.told_by is not None
        return self.told_by()


class _End(GrammarRule):
    """The end of the turn: by the tokenizer's end token, or (STOPPED) by the stop text that has just come."""

    __slots__ = ()
    told = True

    def _ending(self) -> Ending:
        return 0, b"", int(self is END)


NOTHING: frozenset[GrammarRule] = frozenset()
END, STOPPED = _End(), _End()
_RULES: dict[tuple[Any, ...], GrammarRule] = {}


def rule_of(kind: type[Any], *args: Any) -> GrammarRule:
    """The rule of a kind with these arguments, which is made once."""
    key = (kind, *args)
    found = _RULES.get(key)
    if found is None:
        if len(_RULES) >= MOST_RULES:
            _RULES.clear()
        found = _RULES[key] = kind(*args)
    return found


def literal(text: str, then: GrammarRule) -> GrammarRule:
    """This text."""
    return rule_of(_Literal, text.encode("utf-8", "surrogatepass"), then)


def one_of(names: Names, then: GrammarRule) -> GrammarRule:
    """One of the names, of which there is at least one."""
    return rule_of(_Choice, names, 0, len(names.sorted), 0, then)


def string(then: GrammarRule) -> GrammarRule:
    """The inside of a JSON string; `then` begins with its closing quote."""
    return rule_of(Many, STRING, then)


def thought(then: GrammarRule) -> GrammarRule:
    """Any text without `<`; `then` begins with that."""
    return rule_of(Many, THOUGHT, then)


def field(then: GrammarRule) -> GrammarRule:
    """A part of a line between bars: any text without a bar or line break; `then` begins with one, or is the end."""
    return rule_of(Many, FIELD, then)


def whole_number(then: GrammarRule) -> GrammarRule:
    """A whole number above 0; `then` begins with no digit."""
    return rule_of(_Number, 0, then)


def either(*options: GrammarRule) -> GrammarRule:
    return options[0] if len(options) == 1 else rule_of(_Either, options)


def loop(
    key: tuple[Any, ...],
    make: Callable[[], GrammarRule],
    least: int = 0,
    ending: Callable[[], Ending | None] | None = None,
) -> GrammarRule:
    """The rule that `make` gives, which may name this loop again by its key: it is called when it is needed. No text of
    it has fewer than `least` bytes. `ending`, if given, tells its shortest text (the first in order among equals)
    without making the rule; else it is searched for.
    """
    found = rule_of(_Loop, key, least)
    assert isinstance(found, _Loop)
    found.made_by, found.told_by = make, ending
    return found


class Grammar:
    """What one turn may be: `make(*args)` is its rule. It is compared, and sent to other processes, as these two."""

    def __init__(self, make: Callable[..., GrammarRule], args: tuple[Any, ...]) -> None:
        self.make, self.args = make, args
        self._rule: GrammarRule | None = None

    @property
    def rule(self) -> GrammarRule:
        if self._rule is None:
            self._rule = self.make(*self.args)
        return self._rule

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Grammar) and (self.make, self.args) == (other.make, other.args)

    def __hash__(self) -> int:
        return hash((self.make, self.args))

    def __reduce__(self) -> tuple[Any, ...]:
        return Grammar, (self.make, self.args)


def after_prefix(texts: list[bytes], prefix: bytes, low: int, high: int) -> int:
    """Of sorted texts, where those with this prefix end; they begin at `low`."""
    last = prefix[-1]
    return high if last == 0xFF else bisect_left(texts, prefix[:-1] + bytes([last + 1]), low, high)
