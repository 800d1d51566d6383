"""What a turn of kgwalk's protocol may be: the grammar that an engine keeps a model to.

    forms = RelationForms.of(["borders", "population"])
    turn_rule(WalkSoFar(1, forms, tools("core", dated=False), full=False), thoughts=False, answer=False)

So a call always parses, its relations are in the graph and its sets have been made; what is asked is still the model's.
"""

from __future__ import annotations

import json
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
from kgwalk.walk.language import COMPARISONS, arguments
from kgwalk.walk.paths import AGGREGATES, COUNTED, SIGNS, TIMES
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
            written = quote(name)[1:-1]
            signs, bare = SIGNS.search(name) is not None, name == name.strip()
            if not name or (signs and not bare):
                continue  # no call can say it
            plain.append(written)
            if bare and not signs and written == name and name != "not" and not name.endswith(" not"):
                simple.append(name)
            elif bare:
                odd.append(written)
                raw.append(json.dumps(name, ensure_ascii=False)[1:-1])
        return cls(*map(Names.of, (plain, simple, odd, raw)))


class WalkSoFar(NamedTuple):
    """What a turn may be depends on this: how many sets were made, how relations are written, which calls there are."""

    made: int
    forms: RelationForms
    calls: tuple[str, ...]
    full: bool
    kinds: Names = Names.of(())  # those that the prompt lists

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
    then = literal(")", END)
    for at in range(len(kinds) - 1, -1, -1):
        lead = f"{tool}(" if at == 0 else ", "
        if kinds[at] == "values":
            then = _columns(tool, walk, then)
        elif kinds[at] == "set?":
            then = either(then, literal(lead, _set(walk.made, then)))
        else:
            then = literal(lead, _argument_rule(kinds[at], walk, then))
    return then


def _columns(tool: str, walk: WalkSoFar, then: GrammarRule) -> GrammarRule:
    """Any number of values more."""
    key = ("columns", tool, walk)

    def more() -> GrammarRule:
        return either(then, literal(', "', _relation("value", walk, literal('"', loop(key, more)))))

    return loop(key, more)


def _argument_rule(kind: str, walk: WalkSoFar, then: GrammarRule) -> GrammarRule:
    quoted = literal('"', then)
    match kind:
        case "set":
            return _set(walk.made, then)
        case "text":  # a value written out, or a set of one
            written = literal('"', string(quoted))
            return either(_set(walk.made, then), written) if walk.made else written
        case "kind":
            return literal('"', one_of(walk.kinds, quoted))
        case "comparison":
            return literal('"', one_of(Names.of(COMPARISONS), quoted))
        case "number":
            return literal('"', whole_number(quoted))
        case "size":
            return literal('"', either(whole_number(quoted), literal("all", quoted)))
        case _:
            return literal('"', _relation(kind, walk, quoted))


def _relation(kind: str, walk: WalkSoFar, then: GrammarRule) -> GrammarRule:
    """A relation, in the full language also a "path", or a "value" made of one; a "hop" is one step."""
    if not walk.full:
        return one_of(walk.forms.plain, then)
    dated = walk.dated
    options = [_path(walk.forms, then, dated, single=kind == "hop")]
    if kind == "value":
        closed = literal(")", then)
        among = [literal(word, _set(walk.made, closed)) for word in (" in ", " not in ")] if walk.made else []
        limited = either(closed, *among)
        options.append(literal(f"{COUNTED}(", _path(walk.forms, closed, dated, raw=True, simple_then=limited)))
        options += [literal(f"{how}(", _path(walk.forms, closed, dated, raw=True)) for how in AGGREGATES]
        if dated:
            one = _path(walk.forms, closed, dated, raw=True, single=True, simple_then=limited)
            options += [literal(f"{how}(", one) for how in TIMES]
    return either(*options)


def _path(
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

    def hop() -> GrammarRule:
        again = [literal(sign, loop(key, hop)) for sign in "/|"]
        after = end if single else either(end, *again, literal("+", either(end, *again)))
        name = one_of(forms.simple, either(after, literal("@", _date(after))) if dated else after)
        if single or inside:
            return either(name, literal("^", name))
        return either(name, literal("^", name), literal("(", _path(forms, literal(")", after), dated, inside=True)))

    options = [loop(key, hop)] if forms.simple else []
    if inside:
        return either(*options)
    if odd := forms.raw if raw else forms.odd:
        name = one_of(odd, then)
        options += [name, literal("^", name)]
    return either(*options)


_MONTHS, _DAYS = (Names.of(f"{number:02}" for number in range(1, last + 1)) for last in (12, 31))


def _date(then: GrammarRule) -> GrammarRule:
    """A year, a month or a day; or now."""
    day = literal("-", one_of(_DAYS, then))
    month = literal("-", one_of(_MONTHS, either(then, day)))
    return either(literal("now", then), whole_number(either(then, month)))
