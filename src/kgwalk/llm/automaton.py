"""A grammar over one vocabulary: which tokens may come next, and how many an ending still takes.

    state = automaton_of(tokens).start(Grammar(make_rule, (2, names)))
    state.allowed(64)                                                            the tokens that may come next
    state.after(token)                                                           where such a token leads

States are made when they are first asked for and kept. A generation has a bound, so a state also knows how many tokens
its shortest ending needs, and a token after which there would be no room for an ending is not allowed: no turn is cut
in the middle of a call. `replay` tells a trainer which tokens were allowed at each place. Nothing here needs torch or a
model; the rules are `llm.grammar`.
"""

from __future__ import annotations

import weakref
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kgwalk.llm.grammar import END, MOST_RULES, NEVER, NOTHING, STOPPED, Grammar, GrammarRule, Many, after_prefix
from kgwalk.llm.tokenizers import Tokenizer, end_id

TokenArray = NDArray[np.int32]
MOST_STATES = 1 << 16


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
        many = next((one for one in state.items if isinstance(one, Many)), None)
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
            rules_of: dict[int, list[GrammarRule]] = {}
            for rule in here:
                for byte in rule.firsts():
                    rules_of.setdefault(byte, []).append(rule)
            for byte, rules in rules_of.items():
                text = prefix + bytes([byte])
                at = bisect_left(texts, text, low, high)
                if at == high or not texts[at].startswith(text):
                    continue
                end = after_prefix(texts, text, at, high)
                there = self._step(here, byte, rules)
                while at < end and texts[at] == text:
                    found[ids[at]] = self._state(there)
                    at += 1
                if at < end:
                    ahead.append((text, at, end, there))

    def _step(
        self, items: frozenset[GrammarRule], byte: int, taking: Iterable[GrammarRule] | None = None
    ) -> frozenset[GrammarRule]:
        """After a byte, which `taking` of the rules take, if that is known."""
        key = (items, byte)
        there = self._steps.get(key)
        if there is None:
            there = NOTHING.union(*(rule.step(byte) for rule in (items if taking is None else taking)))
            self._steps[key] = there
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


_AUTOMATA: weakref.WeakKeyDictionary[Any, Automaton | None] = weakref.WeakKeyDictionary()


def automaton_of(tokens: Tokenizer) -> Automaton | None:
    """The automaton of a tokenizer's vocabulary; None for one whose tokens are not known by their bytes."""
    if tokens not in _AUTOMATA:
        pieces = getattr(tokens, "pieces", lambda: None)()
        _AUTOMATA[tokens] = None if pieces is None else Automaton(pieces, end_id(tokens))
    return _AUTOMATA[tokens]
