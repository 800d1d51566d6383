"""Grammars that constrain decoding: what a model writes under one always reads as its protocol's parser expects.

    call = literal("count($", either(literal("1", ...), literal("2", ...)))     rules are chained from the end
    state = automaton_of(tokens).start(Grammar(make_rule, (2, names)))
    state.allowed(64)                                                            the tokens that may come next
    state.after(token)                                                           where such a token leads

A rule is about bytes, as tokens may begin and end anywhere: any way to cut a text into tokens is allowed, the
tokenizer's own among them. `Automaton` lays rules over one vocabulary. Its states are made when they are first asked
for and kept, and rules that are alike are one object, so the same places in two grammars are one state.

A generation has a bound. So a state also knows how many tokens its shortest ending needs, and a token after which there
would be no room for an ending is not allowed: no turn is cut in the middle of a call.

Nothing here needs torch or a model. `replay` tells a trainer which tokens were allowed at each place.
"""

from __future__ import annotations

import weakref
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from itertools import count
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kgwalk.llm.tokenizers import Tokenizer, end_id

TokenArray = NDArray[np.int32]
MOST_RULES = 1 << 20  # kept to be found again; then all are forgotten, which costs time and nothing else
MOST_STATES = 1 << 16
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
    """What may come from here on. Two that are made alike are the same object."""

    _items: frozenset[GrammarRule] | None = None
    _least: int | None = None
    _shortest: Ending | tuple[()] | None = None  # () if there is no end; None: not searched for

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
            self._shortest = _nearest_end(self)
        return self._shortest or None

    def ways(self) -> Iterable[tuple[bytes, GrammarRule]]:
        """The rules that may be next, each with the shortest text that leads to it."""
        return ()

    @property
    def least(self) -> int:
        """Bytes that its shortest text has at least, told without opening a loop."""
        if self._least is None:
            self._least = min((len(text) + then.least for text, then in self.ways()), default=0)
        return self._least


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
        if rule._shortest is None and not isinstance(rule, _End):
            for piece, then in rule.ways():
                push(text + piece, then, rule)
        elif ending := (0, b"", int(rule is END)) if isinstance(rule, _End) else rule._shortest:
            further, rest, ends = ending
            heappush(ahead, (len(text) + further, True, text + rest, ends, next(order), rule, before))
    return ()


class _Literal(GrammarRule):
    def __init__(self, data: bytes, then: GrammarRule) -> None:
        self.data, self.then = data, then

    def firsts(self) -> Iterable[int]:
        return self.data[:1]

    def step(self, byte: int) -> frozenset[GrammarRule]:
        if self.data[0] != byte:
            return NOTHING
        return self.then.items() if len(self.data) == 1 else _made(_Literal, self.data[1:], self.then).items()

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

    def __init__(self, names: Names, low: int, high: int, depth: int, then: GrammarRule) -> None:
        self.names, self.low, self.high, self.depth, self.then = names, low, high, depth, then

    def _open(self) -> frozenset[GrammarRule]:
        whole = len(self.names.sorted[self.low]) == self.depth  # shorter texts come first
        ended = self.then.items() if whole else NOTHING
        low = self.low + whole
        if self.high - low == 1:  # one is left: a literal, the same in every list of names
            return ended | _made(_Literal, self.names.sorted[low][self.depth :], self.then).items()
        if low == self.high:
            return ended
        return ended | {self if not whole else _made(_Choice, self.names, low, self.high, self.depth, self.then)}

    def firsts(self) -> Iterable[int]:
        texts, at = self.names.sorted, self.low
        while at < self.high:
            byte = texts[at][self.depth]
            yield byte
            at = _after(texts, texts[at][: self.depth + 1], at, self.high)

    def step(self, byte: int) -> frozenset[GrammarRule]:
        texts = self.names.sorted
        text = texts[self.low][: self.depth] + bytes([byte])
        low = bisect_left(texts, text, self.low, self.high)
        high = _after(texts, text, low, self.high)
        return _made(_Choice, self.names, low, high, self.depth + 1, self.then).items() if high > low else NOTHING

    def ways(self) -> Iterable[tuple[bytes, GrammarRule]]:
        name = min(self.names.sorted[self.low : self.high], key=lambda text: (len(text), text))
        return [(name[self.depth :], self.then)]


class _Many(GrammarRule):
    """Any number of bytes of a kind, then what no byte of the kind begins. In a string `\\"` and `\\\\` as well."""

    def __init__(self, kind: frozenset[int], then: GrammarRule) -> None:
        self.kind, self.then = kind, then

    def _open(self) -> frozenset[GrammarRule]:
        return self.then.items() | {self}

    def firsts(self) -> Iterable[int]:
        return [*self.kind, BACKSLASH] if self.kind is STRING else self.kind

    def step(self, byte: int) -> frozenset[GrammarRule]:
        if byte in self.kind:
            return self.items()
        return _made(_Escaped, self).items() if byte == BACKSLASH and self.kind is STRING else NOTHING

    def ways(self) -> Iterable[tuple[bytes, GrammarRule]]:
        return [(b"", self.then)]


class _Escaped(GrammarRule):
    def __init__(self, string: GrammarRule) -> None:
        self.string = string

    def firsts(self) -> Iterable[int]:
        return (QUOTE, BACKSLASH)

    def step(self, byte: int) -> frozenset[GrammarRule]:
        return self.string.items() if byte in (QUOTE, BACKSLASH) else NOTHING

    def ways(self) -> Iterable[tuple[bytes, GrammarRule]]:
        return [(b'"', self.string)]


class _Number(GrammarRule):
    """A whole number above 0, of which so many digits have come."""

    def __init__(self, used: int, then: GrammarRule) -> None:
        self.used, self.then = used, then

    def _open(self) -> frozenset[GrammarRule]:
        more = frozenset([self]) if self.used < DIGITS else NOTHING
        return more | self.then.items() if self.used else more

    def firsts(self) -> Iterable[int]:
        return b"0123456789" if self.used else b"123456789"

    def step(self, byte: int) -> frozenset[GrammarRule]:
        return _made(_Number, self.used + 1, self.then).items() if byte in bytes(self.firsts()) else NOTHING

    def ways(self) -> Iterable[tuple[bytes, GrammarRule]]:
        return [(b"" if self.used else b"1", self.then)]


class _Either(GrammarRule):
    def __init__(self, options: tuple[GrammarRule, ...]) -> None:
        self.options = options

    def _open(self) -> frozenset[GrammarRule]:
        return frozenset().union(*(one.items() for one in self.options))

    def ways(self) -> Iterable[tuple[bytes, GrammarRule]]:
        return [(b"", one) for one in self.options]


class _Loop(GrammarRule):
    def __init__(self, key: tuple[Any, ...], least: int) -> None:
        self.make: Callable[[], GrammarRule] = lambda: self
        self._least = least

    def _open(self) -> frozenset[GrammarRule]:
        return self.make().items()

    def ways(self) -> Iterable[tuple[bytes, GrammarRule]]:
        return [(b"", self.make())]


class _End(GrammarRule):
    """The end of the turn: by the tokenizer's end token, or (STOPPED) by the stop text that has just come."""


NOTHING: frozenset[GrammarRule] = frozenset()
END, STOPPED = _End(), _End()
_RULES: dict[tuple[Any, ...], GrammarRule] = {}


def _made(kind: type[Any], *args: Any) -> GrammarRule:
    key = (kind, *args)
    found = _RULES.get(key)
    if found is None:
        if len(_RULES) >= MOST_RULES:
            _RULES.clear()
        found = _RULES[key] = kind(*args)
    return found


def literal(text: str, then: GrammarRule) -> GrammarRule:
    """This text."""
    return _made(_Literal, text.encode("utf-8", "surrogatepass"), then)


def one_of(names: Names, then: GrammarRule) -> GrammarRule:
    """One of the names, of which there is at least one."""
    return _made(_Choice, names, 0, len(names.sorted), 0, then)


def string(then: GrammarRule) -> GrammarRule:
    """The inside of a JSON string; `then` begins with its closing quote."""
    return _made(_Many, STRING, then)


def thought(then: GrammarRule) -> GrammarRule:
    """Any text without `<`; `then` begins with that."""
    return _made(_Many, THOUGHT, then)


def field(then: GrammarRule) -> GrammarRule:
    """A part of a line between bars: any text without a bar or line break; `then` begins with one, or is the end."""
    return _made(_Many, FIELD, then)


def whole_number(then: GrammarRule) -> GrammarRule:
    """A whole number above 0; `then` begins with no digit."""
    return _made(_Number, 0, then)


def either(*options: GrammarRule) -> GrammarRule:
    return options[0] if len(options) == 1 else _made(_Either, options)


def loop(key: tuple[Any, ...], make: Callable[[], GrammarRule], least: int = 0) -> GrammarRule:
    """The rule that `make` gives, which may name this loop again by its key: it is called when it is needed. No text of
    it has fewer than `least` bytes.
    """
    found = _made(_Loop, key, least)
    assert isinstance(found, _Loop)
    found.make = make
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


# Over a vocabulary


class GrammarState:
    """A place in a grammar, for one vocabulary. `need`: tokens that the shortest ending from here takes.

    Edge i leads by the token `tokens[i]`, in ascending order, to the state `targets[which[i]]`, whose need is
    `needs[i]`. They are made when they are first asked for.
    """

    __slots__ = ("_automaton", "_edges", "items", "need")

    def __init__(self, automaton: Automaton, items: frozenset[GrammarRule], need: int) -> None:
        self._automaton, self.items, self.need = automaton, items, need
        self._edges: tuple[TokenArray, NDArray[np.int32], NDArray[np.int32], list[GrammarState], int] | None = None

    @property
    def edges(self) -> tuple[TokenArray, NDArray[np.int32], NDArray[np.int32], list[GrammarState], int]:
        """Tokens, which target each leads to, the needs of these, the targets, and the largest need."""
        if self._edges is None:
            self._edges = self._automaton.expand(self)
        return self._edges

    def allowed(self, left: int) -> TokenArray:
        """The tokens that may come next where `left` may still come, this one included; ascending."""
        tokens, _, needs, _, most = self.edges
        return tokens if most < left else tokens[needs < left]

    def after(self, token: int) -> GrammarState | None:
        """Where an allowed token leads; None for any other."""
        tokens, which, _, targets, _ = self.edges
        at = int(tokens.searchsorted(np.int32(token)))  # of another type, all tokens would be converted first
        return targets[which[at]] if at < len(tokens) and tokens[at] == token else None

    def forced(self, left: int, most: int) -> list[int]:
        """The next tokens, at most so many, for as long as each is the only one that is allowed."""
        found: list[int] = []
        state: GrammarState | None = self
        while state is not None and len(found) < min(most, left):
            allowed = state.allowed(left - len(found))
            if len(allowed) != 1:
                break
            found.append(int(allowed[0]))
            state = state.after(found[-1])
        return found


class Automaton:
    """The states of all grammars over one vocabulary: `pieces` are the bytes of each token, None for a marker."""

    def __init__(self, pieces: Sequence[bytes | None], end: int) -> None:
        self.size, self._end = len(pieces), end
        numbered = sorted((piece, number) for number, piece in enumerate(pieces) if piece)
        self._texts, self._ids = [piece for piece, _ in numbered], [number for _, number in numbered]
        self._whole = set(self._texts)
        self._longest = max(map(len, self._texts), default=0)
        self._states: dict[frozenset[GrammarRule], GrammarState] = {}
        self._steps: dict[tuple[frozenset[GrammarRule], int], frozenset[GrammarRule]] = {}
        self._counts: dict[bytes, int] = {b"": 0}
        self._inside: dict[frozenset[int], tuple[list[int], list[tuple[int, bytes]]]] = {}
        self.done = GrammarState(self, NOTHING, 0)

    def start(self, grammar: Grammar) -> GrammarState:
        return self._state(grammar.rule.items())

    def replay(self, grammar: Grammar, room: int, ids: Sequence[int]) -> list[TokenArray]:
        """The tokens that were allowed in the place of each of `ids`, a turn that could have `room` tokens."""
        state: GrammarState | None = self.start(grammar)
        found = []
        for at, number in enumerate(ids):
            if state is None:
                raise ValueError(f"token {at} of the turn is not one that its grammar allows")
            found.append(state.allowed(room - at))
            state = state.after(number)
        return found

    def _state(self, items: frozenset[GrammarRule]) -> GrammarState:
        found = self._states.get(items)
        if found is None:
            if len(self._states) >= MOST_STATES:
                self._states.clear()
                self._steps.clear()
            found = self._states[items] = GrammarState(self, items, self._need(items))
        return found

    def _need(self, items: frozenset[GrammarRule]) -> int:
        ways = [way for one in items if (way := one.shortest()) is not None]
        if not ways:
            return NEVER
        _, text, more = min(ways)
        return min(NEVER, self._count(text) + more)

    def _count(self, text: bytes) -> int:
        """The tokens of a text, each as long as it can be: so the count after its first token is one less."""
        if len(self._counts) >= MOST_RULES:
            self._counts = {b"": 0}
        rests: list[bytes] = []
        while text not in self._counts:
            ends = range(min(self._longest, len(text)), 0, -1)
            end = next((end for end in ends if text[:end] in self._whole), 0)
            rests.append(text)
            if not end:
                self._counts[text] = NEVER
                break
            text = text[end:]
        for rest in reversed(rests):
            self._counts[rest] = min(NEVER, self._counts[text] + (rest != text))
            text = rest
        return self._counts[rests[0] if rests else text]

    def expand(
        self, state: GrammarState
    ) -> tuple[TokenArray, NDArray[np.int32], NDArray[np.int32], list[GrammarState], int]:
        """The edges of a state, for `GrammarState.edges`."""
        if state is self.done:
            empty = np.zeros(0, np.int32)
            return empty, empty, empty, [], 0
        found: dict[int, GrammarState] = {}
        many = next((one for one in state.items if isinstance(one, _Many)), None)
        if many is not None and state.items == many.items():
            inside, others = self._split(many.kind)
            found = dict.fromkeys(inside, state)
            for number, text in others:
                if items := self._run(state.items, text):
                    found[number] = self._state(items)
        else:
            self._search(state.items, found)
        if END in state.items or STOPPED in state.items:
            found[self._end] = self.done
        targets = list(dict.fromkeys(found.values()))
        place = {id(target): at for at, target in enumerate(targets)}
        tokens = np.fromiter(found, np.int32, len(found))
        which = np.fromiter((place[id(target)] for target in found.values()), np.int32, len(found))
        order = np.argsort(tokens, kind="stable")
        needs = np.array([target.need for target in targets], np.int32)[which[order]] if targets else tokens
        return tokens[order], which[order], needs, targets, int(needs.max(initial=0))

    def _search(self, items: frozenset[GrammarRule], found: dict[int, GrammarState]) -> None:
        """All tokens whose bytes the rules take, byte by byte through the sorted vocabulary."""
        texts, ids = self._texts, self._ids
        ahead = [(b"", 0, len(texts), items)]
        while ahead:
            prefix, low, high, here = ahead.pop()
            for byte in {byte for rule in here for byte in rule.firsts()}:
                text = prefix + bytes([byte])
                at = bisect_left(texts, text, low, high)
                if at == high or not texts[at].startswith(text):
                    continue
                end = _after(texts, text, at, high)
                there = self._step(here, byte)
                while at < end and texts[at] == text:
                    found[ids[at]] = self._state(there)
                    at += 1
                if at < end:
                    ahead.append((text, at, end, there))

    def _step(self, items: frozenset[GrammarRule], byte: int) -> frozenset[GrammarRule]:
        key = (items, byte)
        there = self._steps.get(key)
        if there is None:
            there = self._steps[key] = NOTHING.union(*(rule.step(byte) for rule in items))
        return there

    def _run(self, items: frozenset[GrammarRule], text: bytes) -> frozenset[GrammarRule]:
        for byte in text:
            if not items:
                break
            items = self._step(items, byte)
        return items

    def _split(self, kind: frozenset[int]) -> tuple[list[int], list[tuple[int, bytes]]]:
        """The tokens that are all bytes of a kind, and the others with their bytes."""
        if kind not in self._inside:
            of_kind = bytes(kind)
            pairs = list(zip(self._ids, self._texts, strict=True))
            inside = [number for number, text in pairs if not text.translate(None, of_kind)]
            others = [(number, text) for number, text in pairs if text.translate(None, of_kind)]
            self._inside[kind] = inside, others
        return self._inside[kind]


def _after(texts: list[bytes], prefix: bytes, low: int, high: int) -> int:
    """Of sorted texts, where those with this prefix end; they begin at `low`."""
    last = prefix[-1]
    return high if last == 0xFF else bisect_left(texts, prefix[:-1] + bytes([last + 1]), low, high)


_AUTOMATA: weakref.WeakKeyDictionary[Any, Automaton | None] = weakref.WeakKeyDictionary()


def automaton_of(tokens: Tokenizer) -> Automaton | None:
    """The automaton of a tokenizer's vocabulary; None for one whose tokens are not known by their bytes."""
    if tokens not in _AUTOMATA:
        pieces = getattr(tokens, "pieces", lambda: None)()
        _AUTOMATA[tokens] = None if pieces is None else Automaton(pieces, end_id(tokens))
    return _AUTOMATA[tokens]
