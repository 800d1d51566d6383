"""How a relation or a path of relations may be written in a call: a part of the grammar of a turn.

    any_path(RelationForms.of(["item", "price"]), then)       `item/price`, `^item+`, `(^item/price)+`, ...
    Walkable(next_hops(graph).table, start, then).rules()      only those whose steps fit together in the graph

The first takes any relation that is there after any other. The second knows which step can follow which
(`walk.next_hops`): a path that leads nowhere in the whole graph is not written.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NamedTuple

from kgwalk.llm.grammar import (
    Ending,
    GrammarRule,
    LazyRule,
    Names,
    either,
    ending_of,
    literal,
    loop,
    one_of,
    rule_of,
    whole_number,
)
from kgwalk.walk.next_hops import Hops, HopTable
from kgwalk.walk.paths import SIGNS, is_simple
from kgwalk.walk.shortest_path_texts import MOST_STEPS, Bracket, ShortestPathTexts
from kgwalk.walk.tagged_text import quote


class RelationForms(NamedTuple):
    """How the relations of a graph are written in a call, inside double quotes.

    A path takes `simple` names, in which nothing needs an escape and no sign of a path occurs. An `odd` one is a path
    by itself; inside a value such as count(...) it is written as in `raw`.
    """

    plain: Names
    simple: Names
    odd: Names
    raw: Names

    @classmethod
    def of(cls, shown: Iterable[str]) -> RelationForms:
        plain: list[str] = []
        simple: list[str] = []
        odd: list[str] = []
        raw: list[str] = []
        for name in shown:
            if not name or (SIGNS.search(name) is not None and name != name.strip()):
                continue  # no call can say it
            plain.append(quote(name)[1:-1])
            if is_simple(name):
                simple.append(name)
            elif name == name.strip():
                odd.append(plain[-1])
                raw.append(_raw(name))
        return cls(*map(Names.of, (plain, simple, odd, raw)))


def _raw(name: str) -> str:
    """As it is written inside count(...)."""
    return json.dumps(name, ensure_ascii=False)[1:-1]


# Any relation after any other


def any_path(
    forms: RelationForms,
    then: GrammarRule,
    dated: bool,
    *,
    raw: bool = False,
    single: bool = False,
    inside: bool = False,
    simple_then: GrammarRule | None = None,
) -> GrammarRule:
    """`simple_then` follows a path of simple names, where that may be more than what follows an odd one.

    A path in brackets is `inside` another; it has no brackets itself. Where facts are `dated`, a hop may say when.
    """
    end = simple_then or then
    key = ("path", forms.simple, end, single, inside, dated)
    least = 1 + end.least  # a name has a byte

    def hop() -> GrammarRule:
        again = [literal(sign, loop(key, hop, least, ending)) for sign in "/|"]
        after = end if single else either(end, *again, literal("+", either(end, *again)))
        name = one_of(forms.simple, either(after, literal("@", any_date(after))) if dated else after)
        if single or inside:
            return either(name, literal("^", name))
        return either(name, literal("^", name), literal("(", any_path(forms, literal(")", after), dated, inside=True)))

    def ending() -> Ending | None:
        return ending_of(forms.simple.shortest, end)

    options = [loop(key, hop, least, ending)] if forms.simple else []
    if inside:
        return either(*options)
    if odd := forms.raw if raw else forms.odd:
        name = one_of(odd, then)
        options += [name, literal("^", name)]
    return either(*options)


_MONTHS, _DAYS = (Names.of(f"{number:02}" for number in range(1, last + 1)) for last in (12, 31))


def any_date(then: GrammarRule) -> GrammarRule:
    """A year, a month or a day; or now."""
    day = literal("-", one_of(_DAYS, then))
    month = literal("-", one_of(_MONTHS, either(then, day)))
    return either(literal("now", then), whole_number(either(then, month)))


# Steps that fit together


class Walkable(NamedTuple):
    """Paths over the hops of a graph, from something that has the hops `start`.

    With `numbers` they end at numbers or dates. `simple_then` follows a path of simple names, where that may be more
    than what follows an odd one; `raw` is how a value such as count(...) writes an odd one.
    """

    hops: HopTable
    start: Hops
    then: GrammarRule
    dated: bool = False
    numbers: bool = False
    single: bool = False
    raw: bool = False
    simple_then: GrammarRule | None = None
    steps: int = MOST_STEPS  # of a path at most

    def rules(self) -> list[GrammarRule]:
        """Rules one of which a path follows; none where it can have no first step."""
        simple = [self._next(self.start, self.steps, None)] if self._goes_on(self.start, self.steps) else []
        return simple + self._odd(self.start)

    def back(self) -> list[GrammarRule]:
        """Rules for what leads *to* that something by one relation, or by one of several.

        A longer path is written from its far end, of which nothing is known; `tail_entities` writes it from here.
        """
        return self._replace(start=tuple(sorted(hop ^ 1 for hop in self.start)), steps=1).rules()

    @property
    def behind_simple(self) -> GrammarRule:
        """What follows a path of simple names."""
        return self.simple_then or self.then

    def _fits(self, hop: int, left: int) -> bool:
        """Whether a path can have it beside others, and get to where it ends in the steps that are left."""
        return self.hops.simple[hop // 2] and (not self.numbers or self.hops.to_measured[hop] < left)

    def _goes_on(self, here: Hops, left: int) -> bool:
        return any(self._fits(hop, left) for hop in here)

    def _odd(self, hops: Hops) -> list[GrammarRule]:
        """Relations whose names have a sign of a path: each is a path by itself."""
        rules = []
        among = self.hops.odd_among(hops)
        for sign, backwards in (("", 0), ("^", 1)) if among else ():
            names = [self.hops.names[hop // 2] for hop in among if hop % 2 == backwards and self._may_end(hop)]
            odd = [name for name in names if name == name.strip() != ""]
            if written := Names.of(_raw(name) if self.raw else quote(name)[1:-1] for name in odd):
                rules.append(literal(sign, one_of(written, self.then)) if sign else one_of(written, self.then))
        return rules

    def _may_end(self, hop: int) -> bool:
        return not self.numbers or self.hops.measured[hop]

    def _next(self, here: Hops, left: int, bracket: Bracket | None) -> GrammarRule:
        """The next step, one of those that there are here, where so many are `left`; inside a bracket or in none."""
        return rule_of(_Step, self, here, left, bracket)

    def _step(self, here: Hops, left: int, bracket: Bracket | None) -> GrammarRule:
        alike: dict[tuple[int, Hops, bool, bool, bool], list[str]] = {}  # steps that the same may follow
        for hop in here:
            if not self._fits(hop, left):
                continue
            after = self.hops.after[hop]
            dated = self.dated and self.hops.dated[hop // 2]
            key = hop % 2, after, dated, hop in after, self._may_end(hop)
            alike.setdefault(key, []).append(self.hops.names[hop // 2])
        options = []
        for (backwards, after, dated, again, ends), names in alike.items():
            then = rule_of(_AfterStep, self, after, again, ends, left - 1, bracket)
            name = one_of(Names.of(names), either(then, literal("@", any_date(then))) if dated else then)
            options.append(literal("^", name) if backwards else name)
        if not self.single and bracket is None and left > 1:
            options.append(literal("(", self._next(here, left, Bracket(here, left))))
        return either(*options)

    def after_step(self, after: Hops, again: bool, ends: bool, left: int, bracket: Bracket | None) -> GrammarRule:
        """What may come after a step, or a bracket, that leads to where there are the hops `after`.

        Beside a whole path another may stand, from where it began; in a bracket beside each of its alternatives.
        """
        options = [self.behind_simple] if ends and bracket is None else []
        if self.single:
            return either(*options)
        if left and self._goes_on(after, left):
            options.append(literal("/", self._next(after, left, bracket)))
        if bracket is not None:
            options.append(rule_of(_AfterAlternative, self, after, ends, left, bracket))
        elif ends:
            options.append(literal("|", self._next(self.start, self.steps, None)))
        return either(*options, literal("+", either(*options))) if again else either(*options)

    def beside(self, done: Bracket) -> GrammarRule:
        """After an alternative: another, or the end of the bracket, from which a path goes on after any of them."""
        more = literal("|", self._next(done.start, done.left, done))
        return either(more, literal(")", self.after_step(done.after, True, done.ends, done.least, None)))


# These are made when they are needed. Of the many steps that there are, few are written.


class _OfPath(LazyRule):
    """A part of a path, and all that follows. Its shortest text has no bracket, but for the end of one that is open, no
    date, no `+` and no other path beside it: those make it longer.
    """

    __slots__ = ("left", "paths")

    def __init__(self, paths: Walkable, left: int) -> None:
        super().__init__()
        self.paths, self.left = paths, left

    def ending(self) -> Ending | None:
        text = self.shortest_text(self.paths.hops.texts)
        return None if text is None else ending_of(text, self.paths.behind_simple)

    def shortest_text(self, texts: ShortestPathTexts) -> bytes | None:
        """Of what is left of the path."""
        raise NotImplementedError


class _Step(_OfPath):
    """The next step, and what follows it."""

    __slots__ = ("bracket", "here")

    def __init__(self, paths: Walkable, here: Hops, left: int, bracket: Bracket | None) -> None:
        super().__init__(paths, left)
        self.here, self.bracket = here, bracket

    @property
    def least(self) -> int:
        if self._least is None:
            # Behind a bracket a path may go on to a number from another of its alternatives.
            measured = self.paths.numbers and self.bracket is None
            fewest = self.paths.hops.fewest_bytes(self.here, measured)
            self._least = fewest + (self.bracket is not None) + self.paths.behind_simple.least
        return self._least

    def make(self) -> GrammarRule:
        return self.paths._step(self.here, self.left, self.bracket)

    def shortest_text(self, texts: ShortestPathTexts) -> bytes | None:
        if not self.paths.numbers:
            step = texts.step(self.here)
            return None if step is None else step + b")" * (self.bracket is not None)
        if self.bracket is not None:
            return texts.in_bracket(self.here, self.left, self.bracket)
        return texts.to_measured(self.here, 1 if self.paths.single else self.left)


class _AfterStep(_OfPath):
    """What follows a step; `ends` if a path may end there."""

    __slots__ = ("after", "again", "bracket", "ends")

    def __init__(
        self, paths: Walkable, after: Hops, again: bool, ends: bool, left: int, bracket: Bracket | None
    ) -> None:
        super().__init__(paths, left)
        self.after, self.again, self.ends, self.bracket = after, again, ends, bracket

    @property
    def least(self) -> int:
        return (not self.ends or self.bracket is not None) + self.paths.behind_simple.least

    def make(self) -> GrammarRule:
        return self.paths.after_step(self.after, self.again, self.ends, self.left, self.bracket)

    def shortest_text(self, texts: ShortestPathTexts) -> bytes | None:
        if self.bracket is not None and self.paths.numbers:
            return texts.after_step(self.bracket, self.after, self.left, self.ends)
        if self.ends:
            return b")" * (self.bracket is not None)
        path = None if self.paths.single else texts.to_measured(self.after, self.left)
        return None if path is None else b"/" + path


class _AfterAlternative(_OfPath):
    """What follows an alternative in a bracket: another, or the bracket's end."""

    __slots__ = ("after", "bracket", "ends")

    def __init__(self, paths: Walkable, after: Hops, ends: bool, left: int, bracket: Bracket) -> None:
        super().__init__(paths, left)
        self.after, self.ends, self.bracket = after, ends, bracket

    @property
    def least(self) -> int:
        return 1 + self.paths.behind_simple.least

    def make(self) -> GrammarRule:
        return self.paths.beside(self.bracket.with_one(self.after, self.left, self.ends))

    def shortest_text(self, texts: ShortestPathTexts) -> bytes | None:
        return texts.beside(self.bracket, self.after, self.left, self.ends) if self.paths.numbers else b")"
