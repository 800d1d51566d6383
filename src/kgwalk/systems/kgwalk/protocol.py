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
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from weakref import WeakKeyDictionary

from kgwalk.config.recipe import setting
from kgwalk.kg.graph import Batched, Graph
from kgwalk.kg.store import Store, StoredGraph
from kgwalk.llm.grammar import Grammar, Names
from kgwalk.systems.kgwalk.path_grammar import RelationForms
from kgwalk.systems.kgwalk.turn_grammar import WalkSoFar, turn_grammar
from kgwalk.types import (
    Answer,
    AnswerForm,
    Call,
    Episode,
    KgwalkError,
    Malformed,
    Message,
    Question,
    Step,
    StopReason,
    Triple,
    Turn,
)
from kgwalk.walk.kind_listing import ListedKind, listed_kinds
from kgwalk.walk.kinds import Kind
from kgwalk.walk.language import Sets, line_of, tools
from kgwalk.walk.next_hops import Hops, HopTable, next_hops
from kgwalk.walk.paths import VALUE
from kgwalk.walk.protocol import PROTOCOLS, Environment, Listing, Observation, Protocol, Task, Walk, said, written
from kgwalk.walk.sets import NamedSet, SetError
from kgwalk.walk.starts import starting_kinds
from kgwalk.walk.tagged_text import escape_around, escape_name, quote, read_answer, split_arguments

_THINK = re.compile(r"\s*<think>.*?</think>", re.DOTALL)
_ANSWER = re.compile(r"\s*<answer>(.*?)</answer>", re.DOTALL)
_CALL = re.compile(r"\s*(\w+)\(", re.DOTALL)
_ARGUMENT = re.compile(r'\s*(?:\$(\d{1,6})|("(?:[^"\\]|\\.)*"))\s*([,)])', re.DOTALL)
_CALL_ENDS = re.compile(r"(?<=\))\s*(?:;|\n|\Z)")
MOST_LISTED = 24  # kinds that a program may name, as those that a prompt lists
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
    first agents learnt, or "full", all of them, where a set may be empty. With `documented` the prompt says what each
    call does; an agent that has learnt the calls needs their names alone, and is five times as short to tell. With
    `ahead` each relation is listed with what lies behind it, so many relations at most (`walk.look_ahead`), and with
    `samples` with one of the values that it leads to. With `constrain` an engine that can lets a model write only calls
    that parse, of relations that exist and sets that were made (`turn_grammar`), and with `walkable` only paths whose
    steps fit together (`walk.next_hops`); with `thoughts` a thought may come first. Of a graph with a library of worked
    examples (`kgwalk.walk.examples`) the prompt has at most `examples` of them before the question, the nearest to it.
    With `kinds` the prompt lists so many kinds of the graph at most (`walk.kind_listing`), and a walk can ask for all
    of one: a question need not name the kind that it is about.
    """

    name = "kgwalk"
    stop = ("</answer>",)
    inline = False
    turns: int = 8
    names: int = 5
    relations: int = 40
    short: bool = True
    language: str = "core"
    documented: bool = True
    ahead: int = setting(0, least=0)
    samples: bool = False
    constrain: bool = True
    walkable: bool = True
    thoughts: bool = True
    examples: int = setting(0, least=0, most=8)
    kinds: int = setting(0, least=0)

    @property
    def starts_from_kinds(self) -> bool:
        return self.language == "full"

    @property
    def shows_examples(self) -> int:
        return self.examples

    def kinds_listed(self, graph: Graph) -> Sequence[str]:
        return [one.kind.name for one in self.listed_kinds(graph)]

    def listed_kinds(self, graph: Graph) -> Sequence[ListedKind]:
        """The kinds that a prompt lists."""
        store = getattr(graph, "store", None)
        called = store.short_names.shown if self.short and store is not None else str
        return listed_kinds(graph, self.kinds, called) if self.starts_from_kinds else ()

    def begin(self, task: Task, environment: Environment, count: Callable[[str], int]) -> KgwalkWalk:
        return KgwalkWalk(task, environment, protocol=self, count=count)

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


def program(text: str) -> list[Call]:
    """Calls as they are written in a turn, one after the other on lines or with semicolons between.

    >>> program('tail_entities("France", "borders"); count($1)')
    [Call(tool='tail_entities', args=('France', 'borders')), Call(tool='count', args=(1,))]
    """
    calls = []
    for line in filter(None, map(str.strip, _CALL_ENDS.split(text))):
        step = parse(line)
        if not isinstance(step, Call):
            raise KgwalkError(f'`{line}` is no call; write one such as tail_entities($1, "relation")')
        calls.append(step)
    if not calls:
        raise KgwalkError('the program has no call; write one such as tail_entities("France", "borders")')
    return calls


def run_program(calls: Sequence[Call], graph: Graph, topics: Sequence[str] = (), kinds: Sequence[Kind] = ()) -> Episode:
    """The walk that makes these calls, by the full language, and answers with the last set; no model is asked.

    The topics are the first sets, then the kinds. A call that goes wrong is an error that names it.
    """
    question = Question("program", "", list(topics), [])
    walk = Kgwalk(language="full", turns=len(calls), kinds=MOST_LISTED).begin(
        Task(question, topics, kinds=list(kinds)), Environment(graph), len
    )
    episode = Episode(question, list(topics), [], "", stop=StopReason.answered)
    for call in calls:
        observation = walk.act(call)
        text = observation.render(walk.protocol.relations)
        if not observation.ok:
            raise KgwalkError(f"{Kgwalk.render(call)}: {text.removeprefix('error: ')}")
        episode.turns.append(Turn([], [], Kgwalk.render(call), call, text))
    answer = Answer((len(walk.sets.made),))
    episode.turns.append(Turn([], [], Kgwalk.render(answer), answer))
    episode.answers, episode.form = walk.resolve(answer), walk.answer_form(answer)
    episode.evidence = {name: walk.evidence(name) for name in episode.answers}
    return episode


_FORMS: WeakKeyDictionary[Store, dict[bool, RelationForms]] = WeakKeyDictionary()


@cache
def tools_text(language: str, dated: bool, documented: bool = True, kinds: bool = False) -> str:
    """What the model reads of the calls.

    >>> tools_text("core", dated=True, documented=False)
    'Calls: tail_entities, head_entities, intersect, union, minus, count, filter, argmax, argmin, between'
    """
    known = tools(language, dated, kinds)
    return "\n".join(map(line_of, known)) if documented else f"Calls: {', '.join(known)}"


@dataclass
class KgwalkWalk(Walk):
    protocol: Kgwalk = Kgwalk()
    count: Callable[[str], int] = len  # the tokens of a text
    sets: Sets = field(init=False)
    answered: dict[str, int] = field(default_factory=dict)  # the set that each answer was a member of
    called: dict[Call, int] = field(default_factory=dict)  # the set that each call made
    listed: dict[str, None] = field(default_factory=dict)  # relations that the model was told of
    forms: RelationForms | None = None
    starts: list[Hops] = field(default_factory=list)  # what can be the first step from each set

    def __post_init__(self) -> None:
        known = [topic for topic in self.task.topics if topic in self.environment.graph]
        full = self.protocol.language == "full"
        kinds = self.task.kinds if full else ()
        if kinds is None:
            kinds = starting_kinds(self.task.question, known, self.environment.graph)
        self.sets = Sets(self.environment.graph, known, kinds=kinds, short=self.protocol.short, empty=full)

    @property
    def dated(self) -> bool:
        graph = self.environment.graph
        return bool(getattr(getattr(graph, "store", graph), "timed", False))

    @cached_property
    def kinds(self) -> Sequence[ListedKind]:
        """Those that the prompt lists."""
        return self.protocol.listed_kinds(self.environment.graph)

    @property
    def tools(self) -> tuple[str, ...]:
        return tools(self.protocol.language, self.dated, bool(self.kinds))

    def prompt(self) -> list[Message]:
        start = [self.shown(number) for number in range(1, len(self.sets.made) + 1)]
        asked = "\n".join([*self._examples(), self.task.asked, *start])
        calls = tools_text(self.protocol.language, self.dated, self.protocol.documented, bool(self.kinds))
        if self.kinds:
            calls += f'\nKinds, for all("..."): {", ".join(map(str, self.kinds))}'
        return [Message("system", SYSTEM.replace("{tools}", calls)), Message("user", asked)]

    def _examples(self) -> list[str]:
        library, most = self.environment.examples, self.protocol.examples
        if library is None or not most:
            return []
        return library.lines(self.task.question.question, self.task.topics, len(self.sets.made), most, self.count)

    def grammar(self, *, answer: bool) -> Grammar | None:
        if not self.protocol.constrain:
            return None
        language = self.protocol.language
        names = Names.of(quote(one.kind.name)[1:-1] for one in self.kinds)
        walk = WalkSoFar(len(self.sets.made), self._forms(), self.tools, language == "full", names, *self._hops())
        return turn_grammar(walk, self.protocol.thoughts, answer)

    def _hops(self) -> tuple[HopTable | None, tuple[Hops, ...]]:
        """The hops of the graph, and those that can be first from each set; none where they are not known."""
        protocol = self.protocol
        if not protocol.walkable or protocol.language != "full":
            return None, ()
        graph = self.environment.graph
        hops = next_hops(graph, self.sets.shown, protocol.short)
        if hops is None or not isinstance(graph, StoredGraph):
            return None, ()
        self.starts += [hops.starts(graph, made.members) for made in self.sets.made[len(self.starts) :]]
        return hops.table, tuple(self.starts)

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
            number = self.sets.call(call.tool, call.args, self.tools)
        except SetError as error:
            return self._error(str(error))
        self.called[call] = number
        return self._show(number)

    def shown(self, number: int) -> str:
        """What the model is told of a set."""
        return self._show(number).render(self.protocol.relations)

    def _show(self, number: int) -> Observation:
        made = self.sets.made[number - 1]
        leaving, entering = self.sets.relations_around(number, values=self.protocol.language == "full")
        self.listed |= dict.fromkeys([*leaving, *entering])
        leaving_notes, entering_notes, kind = self._look_ahead(made, leaving, entering)
        lead = f"${number} = {len(made)}{kind}: " if made.members else f"${number} = 0{made.hint and '; '}{made.hint}"
        members = Listing(lead, made.members, most=self.protocol.names, entities=True)
        if made.rows:
            first = made.members[: self.protocol.names]
            rows = [
                " | ".join(map(escape_name, [name, *("; ".join(cell) for cell in made.rows[name])])) for name in first
            ]
            members = written(lead, first, rows, separator="\n", total=len(made))
        listings = [
            Listing("-> ", leaving, most=self.protocol.relations, asides=leaving_notes),
            Listing("<- ", entering, most=self.protocol.relations, asides=entering_notes),
        ]
        shown = [made.came[name] for name in made.members[: self.protocol.names] if name in made.came]
        # a set without relations around it (a count, a date) needs no empty lines
        parts = [members, *(part for part in listings if part.items)]
        return Observation("", "", parts, triples=shown, made=(number, len(made)))

    def _look_ahead(
        self, made: NamedSet, leaving: Sequence[str], entering: Sequence[str]
    ) -> tuple[list[str], list[str], str]:
        """What lies behind the relations that leave and enter a set, and what its members are, where that is shown."""
        kind = "" if made.kind is None else f" {escape_name(made.kind.name)}"
        if not self.protocol.ahead or not isinstance(self.environment.graph, StoredGraph | Batched):
            return [], [], kind  # of a graph elsewhere that is asked one by one, every look would be a request
        most = self.protocol.relations
        around = [(name, True) for name in leaving[:most]] + [(name, False) for name in entering[:most]]
        notes = self.sets.outlook.notes(made.members, around, self.protocol.ahead, samples=self.protocol.samples)
        if made.kind is None and (shared := self.sets.outlook.class_of(made.members)):
            kind = f" {escape_name(shared)}"
        return notes[: len(leaving[:most])], notes[len(leaving[:most]) :], kind

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
        return self.sets.made[number - 1].form

    def evidence(self, name: str) -> list[Triple]:
        number = self.answered.get(name) or self._set_with(name)
        return self.sets.evidence(name, number) if number else []

    def _set_with(self, name: str) -> int | None:
        """The last set that has the name: a quoted answer has its path, too."""
        numbers = range(len(self.sets.made), 0, -1)
        return next((number for number in numbers if name in self.sets.made[number - 1].members), None)
