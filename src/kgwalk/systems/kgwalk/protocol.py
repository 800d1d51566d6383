"""kgwalk's protocol: named result sets, short turns, and the relations around each set.

    tail_entities($1, "directed_by")
    $2 = 1: Penny Marshall
    -> born_in
    <- directed_by, written_by
    <answer>$2</answer>

A turn is one call or the answer, with or without a thought before it. Every result is a set with a number, so an
answer is whole, cannot be misspelt, and each of its members has a path of facts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import NamedTuple
from weakref import WeakKeyDictionary

from kgwalk.kg.store import Store, StoredGraph
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
from kgwalk.types import Answer, AnswerForm, Call, Malformed, Message, Step, Triple
from kgwalk.walk.kinds import starting_kinds
from kgwalk.walk.language import COMPARISONS, Sets, arguments, documented, tools
from kgwalk.walk.paths import AGGREGATES, COUNTED, SIGNS, TIMES, VALUE
from kgwalk.walk.protocol import PROTOCOLS, Environment, Listing, Observation, Protocol, Task, Walk, said, written
from kgwalk.walk.sets import SetError
from kgwalk.walk.tagged_text import escape_around, escape_name, quote, read_answer, split_arguments

_THINK = re.compile(r"\s*<think>.*?</think>", re.DOTALL)
_ANSWER = re.compile(r"\s*<answer>(.*?)</answer>", re.DOTALL)
_CALL = re.compile(r"\s*(\w+)\(", re.DOTALL)
_ARGUMENT = re.compile(r'\s*(?:\$(\d{1,6})|("(?:[^"\\]|\\.)*"))\s*([,)])', re.DOTALL)
_EXPECTED = 'Write one call such as tail_entities($1, "relation"), or <answer>$2</answer>.'

SYSTEM = """Answer by walking a knowledge graph. Results are sets: $1, $2, ...
Each turn is one call or the answer. Arguments are sets or names in double quotes.
{tools}
<answer>$n</answer> or <answer>["name", ...]</answer>
-> lists relations that leave a set, <- relations that enter it."""


@PROTOCOLS.add("kgwalk")
@dataclass(frozen=True)
class Kgwalk(Protocol):
    """`names` and `relations` bound how much of a set an observation shows; `short` is how relations are called: by
    the end of their names, as far as it tells them apart. `language` says which calls there are: "core", those that the
    first agents learnt, or "full", all of them, where a set may be empty. With `constrain` an engine that can lets a
    model write only calls that parse, of relations that exist and sets that were made (`turn_rule`); with `thoughts` a
    thought may come first.
    """

    name = "kgwalk"
    stop = ("</answer>",)
    inline = False
    turns: int = 8
    names: int = 5
    relations: int = 40
    short: bool = True
    language: str = "core"
    constrain: bool = True
    thoughts: bool = True

    @property
    def starts_from_kinds(self) -> bool:
        return self.language == "full"

    def begin(self, task: Task, environment: Environment, count: Callable[[str], int]) -> KgwalkWalk:
        return KgwalkWalk(task, environment, protocol=self)

    @staticmethod
    def render(step: Step, think: str = "", spoken_of: Iterable[str] = ()) -> str:
        """The turn that says a step; the inverse of `parse`. `spoken_of` are names in the thought; one may be `$3`."""
        thought = f"<think>{escape_around(think, spoken_of)}</think>" if think else ""
        match step:
            case Call(tool, args):
                return f"{thought}{tool}({', '.join(map(_argument, args))})"
            case Answer((int(number),)):
                return f"{thought}<answer>${number}</answer>"
            case Answer(names):
                return f"{thought}<answer>[{', '.join(quote(str(name)) for name in names)}]</answer>"
            case Malformed(why):
                return why


def _argument(value: str | int) -> str:
    if isinstance(value, int):
        return f"${value}"
    # a value such as count(^works_in in $3) is no name: it stays as the language writes it
    return json.dumps(value, ensure_ascii=False) if VALUE.fullmatch(value) else quote(value)


def parse(text: str) -> Step:
    thought = _THINK.match(text)
    rest = text[thought.end() :] if thought else text
    if (answer := _ANSWER.match(rest)) is not None:
        return _read_answer(answer.group(1))
    call = _CALL.match(rest)
    if call is None:
        return Malformed(_EXPECTED)
    args: list[str | int] = []
    at = call.end()
    while True:
        found = _ARGUMENT.match(rest, at)
        if found is None:
            return Malformed(_EXPECTED)
        number, name, after = found.groups()
        try:
            args.append(int(number) if number else _json_string(name))
        except ValueError:
            return Malformed(_EXPECTED)
        at = found.end()
        if after == ")":
            break
    if rest[at:].strip():
        return Malformed("One call a turn. " + _EXPECTED)
    return Call(call.group(1), tuple(args))


def _json_string(text: str) -> str:
    names = split_arguments(text)
    if not names:
        raise ValueError(text)
    return names[0]


def _read_answer(inside: str) -> Step:
    stripped = inside.strip()
    if re.fullmatch(r"\$\d{1,6}", stripped):
        return Answer((int(stripped[1:]),))
    names = read_answer(stripped)
    return Malformed("Answer with a set or a JSON list of names.") if names is None else Answer(names)


# What a turn may be


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
def _grammar(walk: WalkSoFar, thoughts: bool, answer: bool) -> Grammar:
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
    options = [_path(walk.forms, then, single=kind == "hop")]
    if kind == "value":
        closed = literal(")", then)
        among = [literal(word, _set(walk.made, closed)) for word in (" in ", " not in ")] if walk.made else []
        options.append(literal(f"{COUNTED}(", _path(walk.forms, closed, raw=True, simple_then=either(closed, *among))))
        options += [literal(f"{how}(", _path(walk.forms, closed, raw=True)) for how in AGGREGATES]
        if walk.dated:
            options += [literal(f"{how}(", _path(walk.forms, closed, raw=True, single=True)) for how in TIMES]
    return either(*options)


def _path(
    forms: RelationForms,
    then: GrammarRule,
    *,
    raw: bool = False,
    single: bool = False,
    simple_then: GrammarRule | None = None,
) -> GrammarRule:
    """`simple_then` follows a path of simple names, where that may be more than what follows an odd one."""
    end = simple_then or then
    key = ("path", forms.simple, end, single)

    def hop() -> GrammarRule:
        again = [literal(sign, loop(key, hop)) for sign in "/|"]
        after = end if single else either(end, *again, literal("+", either(end, *again)))
        name = one_of(forms.simple, after)
        return either(name, literal("^", name))

    options = [loop(key, hop)] if forms.simple else []
    if odd := forms.raw if raw else forms.odd:
        name = one_of(odd, then)
        options += [name, literal("^", name)]
    return either(*options)


_FORMS: WeakKeyDictionary[Store, dict[bool, RelationForms]] = WeakKeyDictionary()


@cache
def tools_text(language: str, dated: bool) -> str:
    """What the model reads of the calls."""
    return "\n".join(map(documented, tools(language, dated)))


@dataclass
class KgwalkWalk(Walk):
    protocol: Kgwalk = Kgwalk()
    sets: Sets = field(init=False)
    answered: dict[str, int] = field(default_factory=dict)  # the set that each answer was a member of
    called: dict[Call, int] = field(default_factory=dict)  # the set that each call made
    listed: dict[str, None] = field(default_factory=dict)  # relations that the model was told of
    forms: RelationForms | None = None

    def __post_init__(self) -> None:
        known = [topic for topic in self.task.topics if topic in self.environment.graph]
        full = self.protocol.language == "full"
        kinds = self.task.kinds if full else ()
        if kinds is None:
            kinds = starting_kinds(self.task.question, known, self.environment.graph)
        self.sets = Sets(self.environment.graph, known, kinds=kinds, short=self.protocol.short, empty=full)

    @property
    def dated(self) -> bool:
        store = getattr(self.environment.graph, "store", None)
        return bool(store is not None and store.timed)

    def prompt(self) -> list[Message]:
        start = [self._show(number).render(self.protocol.relations) for number in range(1, len(self.sets.made) + 1)]
        asked = "\n".join([self.task.asked, *start])
        return [
            Message("system", SYSTEM.replace("{tools}", tools_text(self.protocol.language, self.dated))),
            Message("user", asked),
        ]

    def grammar(self, *, answer: bool) -> Grammar | None:
        if not self.protocol.constrain:
            return None
        language = self.protocol.language
        walk = WalkSoFar(len(self.sets.made), self._forms(), tools(language, self.dated), language == "full")
        return _grammar(walk, self.protocol.thoughts, answer)

    def _forms(self) -> RelationForms:
        """Of all relations of the graph; of a graph elsewhere, which cannot list them, of those that were shown."""
        graph = self.environment.graph
        live = getattr(graph, "live_relations", None)
        store: Store | None = getattr(graph, "store", None)
        if live is None or store is None:
            return RelationForms.of(self.listed)
        if self.forms is None:
            whole = type(graph) is StoredGraph
            known = _FORMS.setdefault(store, {}) if whole else {}
            if self.protocol.short not in known:
                known[self.protocol.short] = RelationForms.of(map(self.sets.shown, store.relation.several(live())))
            self.forms = known[self.protocol.short]
        return self.forms

    def parse(self, text: str) -> Step:
        """A set that was never made is a slip of the pen, not an empty answer: the model is told, and goes on."""
        step = parse(text)
        named = step.names if isinstance(step, Answer) else step.args if isinstance(step, Call) else ()
        missing = self.sets.missing(named)
        return step if missing is None else Malformed(f"error: {missing}")

    def act(self, call: Call) -> Observation:
        if call in self.called:  # a model that has lost its way would go on making it
            return self._error(f"that is ${self.called[call]} already")
        try:
            number = self.sets.call(call.tool, call.args, tools(self.protocol.language, self.dated))
        except SetError as error:
            return self._error(str(error))
        self.called[call] = number
        return self._show(number)

    def _show(self, number: int) -> Observation:
        made = self.sets.made[number - 1]
        leaving, entering = self.sets.relations_around(number)
        self.listed |= dict.fromkeys([*leaving, *entering])
        kind = "" if made.kind is None else f" {escape_name(made.kind.name)}"
        lead = f"${number} = {len(made)}{kind}: " if made.members else f"${number} = 0"
        members = Listing(lead, made.members, most=self.protocol.names, entities=True)
        if made.rows:
            first = made.members[: self.protocol.names]
            rows = [
                " | ".join(map(escape_name, [name, *("; ".join(cell) for cell in made.rows[name])])) for name in first
            ]
            members = written(lead, first, rows, separator="\n", total=len(made))
        listings = [
            Listing("-> ", leaving, most=self.protocol.relations),
            Listing("<- ", entering, most=self.protocol.relations),
        ]
        shown = [made.came[name] for name in made.members[: self.protocol.names] if name in made.came]
        # a set without relations around it (a count, a date) needs no empty lines
        return Observation("", "", [members, *(part for part in listings if part.items)], triples=shown)

    def _error(self, message: str) -> Observation:
        told = self.tell(f"error: {message}")
        return Observation(told.opening, told.closing, told.listings, ok=False, error="set_error")

    def tell(self, text: str) -> Observation:
        return said("", text, "")

    def last_call(self) -> Observation | None:
        return self.tell("No calls are left. Answer now.")

    def resolve(self, answer: Answer) -> list[str]:
        names: dict[str, None] = {}
        for entry in answer.names:
            if isinstance(entry, int):
                for name in self.sets.made[entry - 1].members:
                    names[name] = None
                    self.answered[name] = entry
            else:
                names[entry] = None
        return list(names)

    def answer_form(self, answer: Answer) -> AnswerForm:
        number = answer.names[0] if len(answer.names) == 1 else None
        if not isinstance(number, int) or not 1 <= number <= len(self.sets.made):
            return AnswerForm()
        made = self.sets.made[number - 1]
        if not made.rows:
            return AnswerForm(made.answer_kind, made.ordered)
        rows = [[name, *("; ".join(cell) for cell in made.rows[name])] for name in made.members]
        return AnswerForm(made.answer_kind, made.ordered, ["name", *made.columns], rows)

    def evidence(self, name: str) -> list[Triple]:
        number = self.answered.get(name) or self._set_with(name)
        return self.sets.evidence(name, number) if number else []

    def _set_with(self, name: str) -> int | None:
        """The last set that has the name: a quoted answer has its path, too."""
        numbers = range(len(self.sets.made), 0, -1)
        return next((number for number in numbers if name in self.sets.made[number - 1].members), None)
