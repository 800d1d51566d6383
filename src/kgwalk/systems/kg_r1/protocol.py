"""KG-R1's protocol (section 3.2): think, then one of four one-hop queries or the answer.

    <think>...</think><kg-query>get_tail_entities("Big", "directed_by")</kg-query>
    <information>Tail entities for relation "directed_by" with head "Big": Penny Marshall</information>
    <think>...</think><answer>["Penny Marshall"]</answer>

After H turns the answer is forced. We ask for answers as JSON lists, since names hold commas; the paper's figures have
names with commas between them, which are read too (`read_names`). `get_head_entities` takes the relation first in
section 3.2 and Table 11, and the entity first in appendix D.2 and Figures 10, 14 and 16: either is understood.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container
from dataclasses import dataclass
from functools import partial

from kgwalk.types import Answer, Call, Malformed, Message, Step, Triple
from kgwalk.walk import actions
from kgwalk.walk.actions import ACTIONS, ErrorKind, RelationFormat, Result, run
from kgwalk.walk.protocol import PROTOCOLS, Environment, Listing, Observation, Protocol, Task, Walk, said
from kgwalk.walk.tagged_text import escape, escape_name, quote, read_answer, split_arguments, unescape, write_answer

OPEN, CLOSE = "<information>", "</information>"
_TURN = re.compile(r"\s*<think>(.*?)</think>\s*(?:<kg-query>(.*?)</kg-query>|<answer>(.*?)</answer>)", re.DOTALL)
_QUERY = re.compile(r"\s*(\w+)\s*\((.*)\)\s*", re.DOTALL)
MOST_COMMAS = 4  # in one name of an answer that is no list
NOT_FOUND = (ErrorKind.ENTITY_NOT_FOUND, ErrorKind.RELATION_NOT_FOUND)
_EXPECTED = (
    "Think inside think tags first, then write either one query inside kg-query tags or the answer inside answer tags, "
    "and nothing else."
)

PROMPT = """Answer the question from a knowledge graph, which you can query up to {turns} times.
In each turn, first reason inside <think>...</think>. Then either query the graph inside <kg-query>...</kg-query>, or, \
once you know the answer, give it inside <answer>...</answer> as a JSON list of names, for example \
<answer>["first name", "second name"]</answer>. Results of a query come back inside <information>...</information>.

Queries, with names in double quotes, written exactly as they were shown to you:
{actions}
If a query comes back with an error, read it and correct the query.

Question: {question}
Start from: {topics}"""


@PROTOCOLS.add("kg-r1")
@dataclass(frozen=True)
class KgR1(Protocol):
    """`relation_format` is "flat" or "hierarchical" (Table 10)."""

    name = "kg-r1"
    stop = ("</kg-query>", "</answer>")
    inline = True
    turns: int = 5
    relation_format: RelationFormat = "flat"

    def begin(self, task: Task, environment: Environment, count: Callable[[str], int]) -> KgR1Walk:
        return KgR1Walk(task, environment, protocol=self)

    @staticmethod
    def render(step: Step, think: str = "") -> str:
        """The turn that says a step; the inverse of `parse`."""
        match step:
            case Call(tool, args):
                action = f"<kg-query>{tool}({', '.join(quote(str(arg)) for arg in args)})</kg-query>"
            case Answer(names):
                action = f"<answer>{write_answer([str(name) for name in names])}</answer>"
            case Malformed(why):
                return why
        return f"<think>{escape_name(think)}</think>{action}"


def parse(text: str, graph: Container[str] = ()) -> Step:
    """What a turn says; `graph` tells which names hold commas, in an answer that is no list."""
    if OPEN in text or CLOSE in text:
        return Malformed("Only the system writes information tags. " + _EXPECTED)
    found = _TURN.match(text)
    if found is None:
        return Malformed(_EXPECTED)
    think, query, answer = found.groups()
    if any(tag in think for tag in ("<think>", "</think>", "<kg-query>", "<answer>")):
        return Malformed(_EXPECTED)
    if answer is not None:
        names = read_names(answer, graph)
        return Malformed('Write the answer as a JSON list of names: ["..."].') if names is None else Answer(names)
    call = _QUERY.fullmatch(query)
    arguments = None if call is None else split_arguments(call.group(2))
    if call is None or arguments is None:
        return Malformed('Write one query with its arguments in double quotes: get_tail_relations("entity").')
    return Call(call.group(1), tuple(arguments))


def read_names(text: str, graph: Container[str]) -> tuple[str, ...] | None:
    """The names of an answer: a list, as we ask for, or names with commas between them, as in Figures 10 to 16.

    A name may hold commas if the graph has it: the longest name of the graph that begins at a place is taken.

    >>> read_names(' Berlin, Washington, D.C., Nowhere ', {"Berlin", "Washington, D.C."})
    ('Berlin', 'Washington, D.C.', 'Nowhere')
    >>> read_names('["Berlin, Bonn"]', set()), read_names(" ", set())
    (('Berlin, Bonn',), None)
    """
    if text.lstrip()[:1] in ("[", '"') or "," not in text:
        return read_answer(text)
    pieces, names = text.split(","), list[str]()
    while pieces:
        lengths = range(min(len(pieces), MOST_COMMAS + 1), 1, -1)
        known = (count for count in lengths if unescape(",".join(pieces[:count]).strip()) in graph)
        count = next(known, 1)
        names.append(unescape(",".join(pieces[:count]).strip()))
        pieces = pieces[count:]
    return tuple(filter(None, names)) or None


@dataclass
class KgR1Walk(Walk):
    protocol: KgR1 = KgR1()

    def prompt(self) -> list[Message]:
        actions = "\n".join(
            f"- {a.name}(entity{', relation' * a.entities}): the {a.description}" for a in reversed(ACTIONS.values())
        )
        text = PROMPT.format_map(
            {
                "turns": self.protocol.turns,
                "actions": actions,
                "question": self.task.asked,
                "topics": ", ".join(map(quote, self.task.topics)) or "no entity is given",
            }
        )
        return [Message("user", text)]

    def parse(self, text: str) -> Step:
        return parse(text, self.environment.graph)

    def act(self, call: Call) -> Observation:
        names = [str(arg) for arg in call.args]
        if len(names) > 2:
            known = call.tool in ACTIONS
            wanted = "an entity and a relation" if known and ACTIONS[call.tool].entities else "only one entity argument"
            return self._error(ErrorKind.ARGUMENT_COUNT, f"{call.tool} accepts {wanted}")
        result = self._run(call.tool, *names)
        if call.tool == "get_head_entities" and result.error is not None and result.error.kind in NOT_FOUND:
            turned = self._run(call.tool, *reversed(names))  # section 3.2: the relation first
            if turned.error is None or turned.error.kind not in NOT_FOUND:
                result = turned
        if result.error is not None:
            return self._error(*result.error)
        return Observation(OPEN, CLOSE, [self._listing(result)], triples=_facts(result))

    def _run(self, action: str, entity: str | None = None, relation: str | None = None) -> Result:
        form = self.protocol.relation_format
        return run(self.environment.graph, action, entity, relation, limit=1000, relation_format=form)

    def _listing(self, result: Result) -> Listing:
        # The result's own text without its items is the lead; the items are the listing's, to be cut by tokens.
        empty = Result(result.action, result.entity, result.relation, [], 0, None, "flat", None)
        lead = escape_name(empty.text) + " "
        entities = ACTIONS[result.action].entities
        if not entities and result.relation_format == "hierarchical":
            tree = partial(_tree, actions.hierarchical)
            return Listing(lead.rstrip(), result.items, total=result.total, layout=tree)
        if result.times is None:
            return Listing(lead, result.items, total=result.total, entities=entities)
        notes = [f" [{escape('; '.join(dates))}]" if dates else "" for dates in result.times]
        return Listing(lead, result.items, "; ", total=result.total, entities=entities, notes=notes)

    def _error(self, kind: ErrorKind, message: str) -> Observation:
        told = self.tell(f"<error>{escape_name(message)}</error>")
        return Observation(told.opening, told.closing, told.listings, ok=False, error=kind.name.lower())

    def tell(self, text: str) -> Observation:
        return said(OPEN, text, CLOSE)


def _tree(layout: Callable[[list[str]], str], relations: list[str]) -> str:
    return "\n" + layout(relations)


def _facts(result: Result) -> list[Triple]:
    action = ACTIONS[result.action]
    if not action.entities or result.entity is None or result.relation is None:
        return []
    dates_of = result.times or [[]] * len(result.items)
    dated = [(name, date) for name, dates in zip(result.items, dates_of, strict=True) for date in dates or [""]]
    if action.out:
        return [Triple(result.entity, result.relation, name, date) for name, date in dated]
    return [Triple(name, result.relation, result.entity, date) for name, date in dated]
