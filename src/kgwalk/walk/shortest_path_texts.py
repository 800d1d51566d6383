"""The shortest text of a path whose steps fit together: how much room an ending needs, without looking at the grammar.

    texts = hops.table.texts                                what is found is kept
    texts.step(here)                                        the shortest step
    texts.to_measured(here, 3)                              the shortest to a number or date, of three steps at most
    texts.in_bracket(here, 3, Bracket(here, 3))             the same inside a bracket, with its end

Of equally short ones it is always the first in order. The grammar of paths is `systems.kgwalk.path_grammar`; a `+`, a
date or another path beside one only makes a text longer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from kgwalk.walk.next_hops import Hops, HopTable

MOST_STEPS = 5  # of a path: what people ask takes 3 at most, and two more through nodes that join or hold values
MOST_KNOWN = 1 << 16  # texts that are kept; then all are forgotten, which costs time and nothing else


class Bracket(NamedTuple):
    """An open bracket: the hops and the steps that are left where it was opened, for each of its alternatives; and of
    those that are written already the hops from where they lead to, the fewest steps that they leave, and whether a
    path may end after each of them.
    """

    start: Hops
    left: int
    after: Hops = ()
    least: int = MOST_STEPS
    ends: bool = True

    def with_one(self, after: Hops, left: int, ends: bool) -> Bracket:
        """With one alternative more."""
        both = tuple(sorted({*self.after, *after}))
        return self._replace(after=both, least=min(self.least, left), ends=self.ends and ends)


class ShortestPathTexts:
    """Of one graph's hops. None stands for no path."""

    def __init__(self, hops: HopTable) -> None:
        self._hops = hops
        names = [name.encode("utf-8", "surrogatepass") for name in hops.names]
        self._written = [sign + name for name in names for sign in (b"", b"^")]
        self._known: dict[tuple[Any, ...], bytes | None] = {}

    def step(self, here: Hops) -> bytes | None:
        """The shortest step from here."""
        steps = (self._written[hop] for hop in here if self._hops.simple[hop // 2])
        return self._once(("step", here), lambda: min(steps, key=_order, default=None))

    def to_measured(self, here: Hops, left: int) -> bytes | None:
        """The shortest path from here to a number or date, of at most so many steps."""
        return self._once(("to", here, left), lambda: self._to_measured(here, left))

    def _to_measured(self, here: Hops, left: int) -> bytes | None:
        best: bytes | None = None
        hops = self._hops
        for fewest, hop in self._in_order(here, left, hops.to_measured_bytes.__getitem__):
            if best is not None and fewest > len(best):
                break
            rest = None if hops.measured[hop] else self.to_measured(hops.after[hop], left - 1)
            if hops.measured[hop]:
                best = _shortest(best, self._written[hop])
            elif rest is not None:
                best = _shortest(best, self._written[hop] + b"/" + rest)
        return best

    def in_bracket(self, here: Hops, left: int, bracket: Bracket) -> bytes | None:
        """The shortest text of what is left of a path to numbers or dates, from here inside a bracket."""
        return self._once(("in", here, left, bracket), lambda: self._in_bracket(here, left, bracket))

    def _in_bracket(self, here: Hops, left: int, bracket: Bracket) -> bytes | None:
        hops = self._hops
        elsewhere = self._fewest_elsewhere(bracket)
        best: bytes | None = None

        def fewest_bytes(hop: int) -> int:
            return min(hops.to_measured_bytes[hop] + 1, hops.step_bytes[hop] + elsewhere)

        for fewest, hop in self._in_order(here, left, fewest_bytes):
            if best is not None and fewest > len(best):
                break
            rest = self.after_step(bracket, hops.after[hop], left - 1, hops.measured[hop])
            best = _shortest(best, None if rest is None else self._written[hop] + rest)
        return best

    def _fewest_elsewhere(self, bracket: Bracket) -> int:
        """The fewest bytes after a step in a bracket where a path goes on to a number from another alternative: one
        that is written already, or one that is begun where the bracket was opened.
        """
        return 2 + min(self._hops.fewest_bytes(hops, True) for hops in (bracket.after, bracket.start))

    def after_step(self, bracket: Bracket, after: Hops, left: int, ends: bool) -> bytes | None:
        """The shortest text, to numbers or dates, of what follows a step inside a bracket: the end of the alternative,
        or one more step of it.
        """
        hops, beside = self._hops, self.beside(bracket, after, left, ends)
        if beside is not None:
            fewest = hops.fewest_bytes(after, False) + self._fewest_elsewhere(bracket)
            fewest = 1 + min(fewest, hops.fewest_bytes(after, True) + 1)
            # Of two that are equally long that which begins with `)` is first.
            if fewest + beside.startswith(b")") > len(beside):
                return beside
        longer = self.in_bracket(after, left, bracket)
        return beside if longer is None else _shortest(beside, b"/" + longer)

    def beside(self, bracket: Bracket, after: Hops = (), left: int = MOST_STEPS, ends: bool = True) -> bytes | None:
        """The shortest text of what follows the alternatives of a bracket and one more, to numbers or dates: its end,
        and if a path does not end there, the rest of it; or one more alternative, from which it goes on.
        """
        if bracket.ends and ends:
            return b")"
        least = min(bracket.least, left)
        best: bytes | None = None
        for some in (bracket.after, after):
            path = self.to_measured(some, least)
            best = best if path is None else _shortest(best, b")/" + path)
        if best is None or len(best) > 2 + self._hops.fewest_bytes(bracket.start, True):
            more = self._another(bracket.start, bracket.left, least)
            best = best if more is None else _shortest(best, b"|" + more)
        return best

    def _another(self, here: Hops, left: int, least: int) -> bytes | None:
        """The shortest alternative from which a path goes on to a number or date in at most `least` steps, with the end
        of the bracket and those steps.
        """
        return self._once(("another", here, left, least), lambda: self._found_another(here, left, least))

    def _found_another(self, here: Hops, left: int, least: int) -> bytes | None:
        best: bytes | None = None
        hops = self._hops
        for fewest, hop in self._in_order(here, left, hops.to_measured_bytes.__getitem__) if least > 0 else ():
            if best is not None and fewest + 1 > len(best):
                break
            after, written = hops.after[hop], self._written[hop]
            closed = self.to_measured(after, min(least, left - 1))
            if closed is not None:
                best = _shortest(best, written + b")/" + closed)
            if closed is None or len(closed) > hops.fewest_bytes(after, True):
                longer = self._another(after, left - 1, least)
                best = best if longer is None else _shortest(best, written + b"/" + longer)
        return best

    def _in_order(self, here: Hops, left: int, fewest_bytes: Callable[[int], int]) -> list[tuple[int, int]]:
        """The hops from which a path gets to a number in time, in the order of the bytes that it has at least."""
        hops = self._hops
        return sorted(
            (fewest_bytes(hop), hop) for hop in here if hops.simple[hop // 2] and hops.to_measured[hop] < left
        )

    def _once(self, key: tuple[Any, ...], find: Callable[[], bytes | None]) -> bytes | None:
        if key not in self._known:
            found = find()
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[key] = found
        return self._known[key]


def _shortest(one: bytes | None, other: bytes | None) -> bytes | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other, key=_order)


def _order(text: bytes) -> tuple[int, bytes]:
    return len(text), text
