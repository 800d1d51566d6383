"""What a turn of kgwalk's protocol may be: the grammar that an engine keeps a model to.

    forms = RelationForms.of(["borders", "population"])
    turn_rule(WalkSoFar(1, forms, tools("core", dated=False), full=False), thoughts=False, answer=False)

So a call always parses, its relations are in the graph and its sets have been made; what is asked is still the model's.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from kgwalk.llm.grammar import (
    END,
    STOPPED,
    Grammar,
    GrammarRule,
    Names,
    either,
    literal,
    loop,
    one_of,
    string,
    thought,
    whole_number,
)
from kgwalk.systems.kgwalk.path_grammar import RelationForms, Walkable, any_path
from kgwalk.walk.language import COMPARISONS, arguments
from kgwalk.walk.next_hops import ANY, Hops, HopTable
from kgwalk.walk.paths import AGGREGATES, COUNTED, TIMES

MEASURED = frozenset(["argmax", "argmin", "sum", "average", "least", "greatest"])  # calls that need numbers or dates
EQUALITY = ("=", "!=")


class WalkSoFar(NamedTuple):
    """What a turn may be depends on this: how many sets were made, how relations are written, which calls there are.

    Of a graph whose `hops` are known (`walk.next_hops`) `starts` has those that can be first from each set.
    """

    made: int
    forms: RelationForms
    calls: tuple[str, ...]
    full: bool
    kinds: Names = Names.of(())  # those that the prompt lists
    hops: HopTable | None = None
    starts: tuple[Hops, ...] = ()

    @property
    def dated(self) -> bool:
        return "between" in self.calls


def turn_rule(walk: WalkSoFar, thoughts: bool, answer: bool) -> GrammarRule:
    """One call or the answer, with or without a thought before it; with `answer` no call."""
    options = [literal("<answer>", _answer_rule(walk.made))]
    if not answer:
        options += [rule for tool in walk.calls if (rule := _call_rule(tool, walk)) is not None]
    turn = either(*options)
    return either(turn, literal("<think>", thought(literal("</think>", turn)))) if thoughts else turn


@lru_cache(maxsize=1 << 14)
def turn_grammar(walk: WalkSoFar, thoughts: bool, answer: bool) -> Grammar:
    """The grammar of a turn; the same one for equal walks."""
    return Grammar(turn_rule, (walk, thoughts, answer))


def _answer_rule(made: int) -> GrammarRule:
    def names() -> GrammarRule:
        after = either(literal('"]</answer>', STOPPED), literal('", ', loop(("answer",), names)))
        return literal('"', string(after))

    listed = literal("[", either(literal("]</answer>", STOPPED), loop(("answer",), names)))
    return either(_set(made, literal("</answer>", STOPPED)), listed) if made else listed


def _set(made: int, then: GrammarRule) -> GrammarRule:
    return literal("$", one_of(Names.of(map(str, range(1, made + 1))), then))


def _call_rule(tool: str, walk: WalkSoFar) -> GrammarRule | None:
    """None where the call needs a set or a relation and there is none."""
    kinds = arguments(tool)
    if (not walk.made and "set" in kinds) or (not walk.forms.plain and {"path", "value", "hop"} & set(kinds)):
        return None
    if not walk.kinds and "kind" in kinds:
        return None
    if walk.hops is None or not {"path", "value", "hop"} & set(kinds):
        return _arguments(tool, walk, None)
    by_start: dict[Hops, list[str]] = {}  # sets that a path can start from alike
    for number, hops in enumerate(walk.starts, 1):
        if kinds[1] == "hop" and hops != ANY:
            hops = tuple(hop for hop in hops if walk.hops.dated[hop // 2])
        if hops:
            by_start.setdefault(hops, []).append(str(number))
    options = []
    for start, numbers in by_start.items():
        rest = _filter(walk, start) if tool == "filter" else _arguments(tool, walk, start)
        if rest is not None:
            options.append(literal(f"{tool}($", one_of(Names.of(numbers), rest)))
    return either(*options) if options else None


def _arguments(tool: str, walk: WalkSoFar, start: Hops | None) -> GrammarRule | None:
    """The arguments of a call; where paths `start` from its first one, those after that."""
    kinds = arguments(tool)
    then: GrammarRule | None = literal(")", END)
    for at in range(len(kinds) - 1, -1 if start is None else 0, -1):
        assert then is not None
        lead = f"{tool}(" if at == 0 else ", "
        if kinds[at] == "values":
            then = _columns(walk, start, then)
        elif kinds[at] == "set?":
            then = either(then, literal(lead, _set(walk.made, then)))
        else:
            rule = _argument_rule(tool, kinds[at], walk, start, then)
            then = None if rule is None else literal(lead, rule)
    return then


def _filter(walk: WalkSoFar, start: Hops) -> GrammarRule | None:
    """The arguments of `filter` after its set: what is no number and no date is the same as something, or is not."""
    bound = literal(", ", _text(walk.made, literal(")", END)))

    def compared(signs: Iterable[str]) -> GrammarRule:
        return literal('", "', one_of(Names.of(signs), literal('"', bound)))

    ordered = _relation("filter", "value", walk, start, compared(COMPARISONS), numbers=True)
    same = _relation("filter", "value", walk, start, compared(EQUALITY))
    rules = [rule for rule in (ordered, same) if rule is not None]
    return literal(', "', either(*rules)) if rules else None


def _columns(walk: WalkSoFar, start: Hops | None, then: GrammarRule) -> GrammarRule:
    """Any number of values more."""
    key = ("columns", walk, start, then)

    def more() -> GrammarRule:
        column = _relation("table", "value", walk, start, literal('"', loop(key, more, then.least, then.shortest)))
        return then if column is None else either(then, literal(', "', column))

    return loop(key, more, then.least, then.shortest)


def _argument_rule(tool: str, kind: str, walk: WalkSoFar, start: Hops | None, then: GrammarRule) -> GrammarRule | None:
    quoted = literal('"', then)
    match kind:
        case "set":
            return _set(walk.made, then)
        case "text":
            return _text(walk.made, then)
        case "kind":
            return literal('"', one_of(walk.kinds, quoted))
        case "comparison":
            return literal('"', one_of(Names.of(COMPARISONS), quoted))
        case "number":
            return literal('"', whole_number(quoted))
        case "size":
            return literal('"', either(whole_number(quoted), literal("all", quoted)))
        case _:
            rule = _relation(tool, kind, walk, start, quoted, numbers=tool in MEASURED)
            return None if rule is None else literal('"', rule)


def _text(made: int, then: GrammarRule) -> GrammarRule:
    """A value written out, or a set of one."""
    written = literal('"', string(literal('"', then)))
    return either(_set(made, then), written) if made else written


def _relation(
    tool: str, kind: str, walk: WalkSoFar, start: Hops | None, then: GrammarRule, *, numbers: bool = False
) -> GrammarRule | None:
    """A relation, in the full language also a "path", or a "value" made of one; a "hop" is one step.

    None where no path can start from what has the hops `start`, or can end at `numbers` or dates.
    """
    if not walk.full:
        return one_of(walk.forms.plain, then)
    known = start is not None and start != ANY
    place = StepPlace(walk.forms, walk.hops if known else None, start if known else None, walk.made, walk.dated)
    return place.relation(kind, then, numbers, tool == "head_entities")


class StepPlace(NamedTuple):
    """Where paths are written: how relations are, the hops from where they start where those are known, the sets that
    were made, and whether facts have dates.
    """

    forms: RelationForms
    hops: HopTable | None
    start: Hops | None
    made: int
    dated: bool

    @lru_cache(maxsize=1 << 12)  # noqa: B019 (a place is a value: several calls of a turn have the same)
    def relation(self, kind: str, then: GrammarRule, numbers: bool, back: bool) -> GrammarRule | None:
        closed = literal(")", then)
        among = [literal(word, _set(self.made, closed)) for word in (" in ", " not in ")] if self.made else []
        limited = either(closed, *among)
        paths = self.written(then, back, single=kind == "hop", numbers=numbers)
        if kind == "value":
            paths += _wrapped(COUNTED, self.written(closed, back, raw=True, simple_then=limited))
            measured = self.written(closed, back, raw=True, numbers=True)
            paths += [rule for how in AGGREGATES for rule in _wrapped(how, measured)]
            if self.dated:
                one = self.written(closed, back, raw=True, single=True, simple_then=limited, timed=True)
                paths += [rule for how in TIMES for rule in _wrapped(how, one)]
        return either(*paths) if paths else None

    def written(
        self,
        then: GrammarRule,
        back: bool,
        *,
        single: bool = False,
        numbers: bool = False,
        raw: bool = False,
        timed: bool = False,
        simple_then: GrammarRule | None = None,
    ) -> list[GrammarRule]:
        """The paths that may be written here: any, or where the hops are known those that lead somewhere; `back` along
        what leads to them.
        """
        start, hops = self.start, self.hops
        if start is None or hops is None:
            return [any_path(self.forms, then, self.dated, raw=raw, single=single, simple_then=simple_then)]
        if timed:
            start = tuple(hop for hop in start if hops.dated[hop // 2])
        paths = Walkable(hops, start, then, self.dated, numbers, single, raw, simple_then)
        return paths.back() if back else paths.rules()


def _wrapped(how: str, paths: list[GrammarRule]) -> list[GrammarRule]:
    return [literal(f"{how}(", either(*paths))] if paths else []
