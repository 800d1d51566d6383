"""Graph-RFT's protocol (section 3.3.1, Figure 7): plan once, then search the graph and the web.

    <think>...</think><plan>Step 1: ... Ans1 = SearchKG(t="team" | h="Rocky", r="has_mascot")</plan>
    <relation_search>"Rocky", "has_mascot"</relation_search>
    <relation_information>sports.sports_team.team_mascot, ...</relation_information>
    <think>...</think><neighbor_search>"Rocky", "sports.sports_team.team_mascot"</neighbor_search>
    <neighbor_information>(?, sports.sports_team.team_mascot, Rocky): Denver Nuggets</neighbor_information>
    <think>...</think><answer>["Denver Nuggets"]</answer>

The first turn has the plan, no other has; a plan that is well written is kept even if the action after it is not. Its
thought stands before the plan (Figures 7, 8), after it (Figure 2), or both. With `plan = false` there is no plan at
all: Table 3's rollouts without planning steps; without a web (`world.web = "none"`) they are those without web
retrieval. Arguments are in double quotes; without them there must be exactly one comma, at which they are split.
Where the paper is silent: relations are those of both directions (its own case study follows one backwards); complaints
and the last call come in relation_information, which no reward of the paper reads; a name that is not in the graph is
an error that says so beside the paper's own sentence.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from kgwalk.systems.graph_rft.plan import PlanError, SearchPlan, read_plan
from kgwalk.types import Answer, Call, Malformed, Message, Step, UnknownEntity
from kgwalk.walk.facts import (
    DirectedRelation,
    Neighbour,
    directed_relations,
    entity_named,
    facts_along,
    not_found,
    read_name,
    spell,
)
from kgwalk.walk.protocol import (
    PROTOCOLS,
    Environment,
    Listing,
    Observation,
    Protocol,
    Task,
    Walk,
    said,
    tag_pattern,
    written,
)
from kgwalk.walk.ranking import rank
from kgwalk.walk.tagged_text import escape, escape_name, quote, read_answer, split_arguments, unescape, write_answer
from kgwalk.walk.web.search import WEB_FAILED, search_web, shown

INFORMATION = {  # the tag of each tool's observation
    "relation_search": "relation_information",
    "neighbor_search": "neighbor_information",
    "web_search": "web_information",
}
MOST_NEIGHBORS = 1000  # asked of the graph; the rest are counted

_THINK = re.compile(r"\s*<think>(.*?)</think>\s*", re.DOTALL)
_PLAN = re.compile(r"<plan>(.*?)</plan>\s*", re.DOTALL)
_ACTION = re.compile(rf"<({'|'.join(INFORMATION)})>(.*?)</\1>|<answer>(.*?)</answer>", re.DOTALL)
_BARE_ANSWER = re.compile(r'<answer>\s*([^<\["\s][^<]*)</answer>\s*$')  # names without brackets: Figures 2 and 8
_OWN_TAG = tag_pattern("think", "plan", "answer", *INFORMATION)
_OBSERVATION_TAG = tag_pattern(*INFORMATION.values())
_EXPECTED = (
    "Think inside think tags{plan}, then write either one search (relation_search, neighbor_search or web_search) "
    "or one answer inside its tags, and nothing else."
)
_EXPECTED_PLAN = _EXPECTED.format(plan=", plan inside plan tags")
_EXPECTED_LATER = _EXPECTED.format(plan="")

PROMPT = """Answer the question with the help of a knowledge graph (KG){and_web}, in at most {turns} searches.
{planning}
- <relation_search>"h", "r"</relation_search> comes first {each}: the {relations} relations of h nearest to \
r come back inside <relation_information>...</relation_information>.
- <neighbor_search>"h", "r"</neighbor_search> with the relation you chose: the neighbors of h come back inside \
<neighbor_information>...</neighbor_information>.
{web}
Once nothing more is needed, give the answer inside <answer>...</answer> as a JSON list of names, for example \
<answer>["first name", "second name"]</answer>.

Question: {question}
Topic entities: {topics}"""
PLANNING = """First reason inside <think>...</think>: split the question into sub-problems, those first that need no \
other's answer, so that each answer found serves the next. Then write, once, the plan inside <plan>...</plan>: for \
each step the sub-problem and its function.
- Ans1 = SearchKG(t="type of the target" | h="topic entity", r="relation between them"): look it up in the KG. Where a \
sub-problem needs an earlier answer: Ans2 = SearchKG(t="type" | h=Ans1, r="relation").
- Intersect(Ans1, Ans2, ...): what is in all of them. Union(Ans1, Ans2, ...): what is in any of them. \
Negation(Ans1, Ans2, ...): what is in the first and in none of the others.
Then carry out the plan step by step, thinking inside <think>...</think> before each of these, with names in double \
quotes, written exactly as they were shown to you:"""
NO_PLANNING = """Search it step by step, thinking inside <think>...</think> before each of these, with names in double \
quotes, written exactly as they were shown to you:"""
WEB = """- <web_search>"h", "r"</web_search> where the KG has no fitting relation or no neighbors: the best documents \
come back inside <web_information>...</web_information>."""
NO_WEB = "- There is no web search here: what the KG does not have, you must know yourself."


@PROTOCOLS.add("graph-rft")
@dataclass(frozen=True)
class GraphRft(Protocol):
    """`relations` are shown of those nearest to a guess, `documents` of what the web has, the beginning of each.

    `plan`: the first turn has one; false is Table 3 without planning steps.
    """

    name = "graph-rft"
    stop = (*(f"</{tool}>" for tool in INFORMATION), "</answer>")
    inline = True
    by_meaning = True
    searches_web = True
    turns: int = 10
    plan: bool = True
    relations: int = 15
    documents: int = 3
    document_characters: int = 600

    def begin(self, task: Task, environment: Environment, count: Callable[[str], int]) -> GraphRftWalk:
        return GraphRftWalk(task, environment, protocol=self)

    @staticmethod
    def render(step: Step, think: str = "", *, plan: SearchPlan | None = None) -> str:
        """The turn that says a step; the inverse of `parse`. The first turn of a walk has the plan."""
        match step:
            case Call(tool, args):
                action = f"<{tool}>{', '.join(quote(str(arg)) for arg in args)}</{tool}>"
            case Answer(names):
                action = f"<answer>{write_answer([str(name) for name in names])}</answer>"
            case Malformed(why):
                return why
        planned = "" if plan is None else f"<plan>{plan}</plan>"
        return f"<think>{escape_name(think)}</think>{planned}{action}"


def parse(text: str, *, planned: bool) -> tuple[Step, SearchPlan | None]:
    """What a turn says, and the plan in it. `planned`: whether there is a plan from a turn before."""
    expected = _EXPECTED_LATER if planned else _EXPECTED_PLAN
    if _OBSERVATION_TAG.search(text):
        return Malformed("Only the system writes what a search found. " + expected), None
    thought = _THINK.match(text)
    found = _PLAN.match(text, thought.end() if thought else len(text) - len(text.lstrip()))
    inside = [part.group(1) for part in (thought, found) if part]
    if not inside or any(map(_OWN_TAG.search, inside)):
        return Malformed(expected), None
    if found is None:
        return (_action(text, thought.end(), expected) if planned and thought else Malformed(expected)), None
    if planned:
        return Malformed("The plan is written once. " + expected), None
    try:
        plan = read_plan(found.group(1))
    except PlanError as error:
        return Malformed(str(error)), None
    again = _THINK.match(text, found.end())
    if (again is not None and _OWN_TAG.search(again.group(1))) or not (thought or again):
        return Malformed(_EXPECTED_LATER), plan
    return _action(text, again.end() if again else found.end(), _EXPECTED_LATER), plan


def _action(text: str, at: int, expected: str) -> Step:
    found = _ACTION.match(text, at)
    if found is None:
        return Malformed(expected)
    tool, inside, answer = found.groups()
    if _OWN_TAG.search(answer if tool is None else inside):
        return Malformed(expected)
    if tool is None:
        names = read_answer(answer)
        return Malformed('Write the answer as a JSON list of names: ["..."].') if names is None else Answer(names)
    arguments = _arguments(inside)
    return Malformed(f'A {tool} takes two names: "entity", "relation".') if arguments is None else Call(tool, arguments)


def _arguments(text: str) -> tuple[str, str] | None:
    """Two names in double quotes; or two texts with the one comma there is between them."""
    quoted = split_arguments(text)
    if quoted is None and text.count(",") == 1:
        quoted = [read_name(part) for part in text.split(",")]
    return (quoted[0], quoted[1]) if quoted is not None and len(quoted) == 2 and all(quoted) else None


@dataclass
class GraphRftWalk(Walk):
    protocol: GraphRft = field(kw_only=True)
    plan: SearchPlan | None = None

    def prompt(self) -> list[Message]:
        web = self.environment.web is not None
        planned = self.protocol.plan
        settings = {
            "planning": PLANNING if planned else NO_PLANNING,
            "each": "for each SearchKG" if planned else "for each hop",
            "and_web": " and of the web" if web else "",
            "web": WEB if web else NO_WEB,
            "turns": self.protocol.turns,
            "relations": self.protocol.relations,
            "question": self.task.asked,
            "topics": ", ".join(map(quote, self.task.topics)) or "no entity is given",
        }
        return [Message("user", PROMPT.format_map(settings))]

    def parse(self, text: str) -> Step:
        if not self.protocol.plan and _PLAN.search(text):
            return Malformed(_EXPECTED_LATER)
        step, plan = parse(text, planned=self.plan is not None or not self.protocol.plan)
        self.plan = self.plan or plan
        return self._several(step, text) if isinstance(step, Answer) else step

    def _several(self, answer: Answer, text: str) -> Answer:
        """The answer with its names apart. In the paper's own form, `<answer>Mali, Niger</answer>`, they are several if
        the whole is no entity's name and each part is one."""
        found = _BARE_ANSWER.search(text)
        parts = [unescape(part.strip()) for part in found.group(1).split(",")] if found else []
        graph = self.environment.graph
        if len(parts) < 2 or answer.names[0] in graph or not all(part in graph for part in parts):
            return answer
        return Answer(tuple(parts))

    def act(self, call: Call) -> Observation:
        name, relation = (str(arg) for arg in call.args)
        if call.tool == "web_search":
            return self._web(name, relation)
        try:
            entity = entity_named(self.environment.graph, name)
        except UnknownEntity as error:
            return self._error(call.tool, "entity_not_found", f"{not_found(error)}. {self.no_information}")
        if call.tool == "relation_search":
            return self._relations(entity, relation)
        return self._neighbors(entity, relation)

    @property
    def no_information(self) -> str:
        advice = "" if self.environment.web is None else ", please use web tool"
        return f"No information in the KG{advice}"

    def _relations(self, entity: str, guess: str) -> Observation:
        every = list(dict.fromkeys(way.relation for way in directed_relations(self.environment.graph, entity)))
        nearest = [every[at] for at in rank(guess, every, self.environment.embed)[: self.protocol.relations]]
        listing = written("", nearest, [spell(relation) for relation in nearest], shows_entities=False)
        return Observation(*_tags("relation_search"), [listing])

    def _neighbors(self, entity: str, relation: str) -> Observation:
        graph = self.environment.graph
        listings: list[Listing] = []
        facts: list[Neighbour] = []
        for way in directed_relations(graph, entity):
            if way.relation == relation:
                found, total = facts_along(graph, entity, [way], MOST_NEIGHBORS)
                facts += found
                listings.append(_listing(entity, way, found, total))
        if listings:
            return Observation(*_tags("neighbor_search"), listings, triples=[fact.triple for fact in facts])
        if not graph.has_relation(relation):
            message = f"Relation {spell(relation)} not found in KG. {self.no_information}"
            return self._error("neighbor_search", "relation_not_found", message)
        return said(_tags("neighbor_search")[0], self.no_information, _tags("neighbor_search")[1])

    def _web(self, name: str, relation: str) -> Observation:
        web = self.environment.web
        if web is None:
            return self._error("web_search", "no_web", "There is no web search here; use the KG and what you know")
        found = search_web(web, name, relation, self.protocol.documents, self.protocol.document_characters)
        if found is None:
            failed = said(_tags("web_search")[0], "The web search failed; go on without it", _tags("web_search")[1])
            return replace(failed, error=WEB_FAILED)  # ok: the call was right
        texts = [shown(number, one) for number, one in enumerate(found, 1)]
        lead = "" if found else "No documents found"
        listing = written(lead, [one.title for one in found], texts, separator="\n", shows_entities=False)
        return Observation(*_tags("web_search"), [replace(listing, documents=found)])

    def _error(self, tool: str, kind: str, message: str) -> Observation:
        opening, closing = _tags(tool)
        return Observation(opening, closing, [Listing(message)], ok=False, error=kind)

    def tell(self, text: str) -> Observation:
        opening, closing = _tags("relation_search")
        return said(opening, text, closing)

    def last_call(self) -> Observation | None:
        return self.tell("No searches are left. Answer now, from what was found and what you know.")


def _tags(tool: str) -> tuple[str, str]:
    return f"<{INFORMATION[tool]}>", f"</{INFORMATION[tool]}>"


def _listing(entity: str, way: DirectedRelation, facts: list[Neighbour], total: int) -> Listing:
    head, tail = (spell(entity), "?") if way.out else ("?", spell(entity))
    dates = [f" [{escape('; '.join(fact.dates))}]" if fact.dates else "" for fact in facts]
    texts = [spell(fact.other) + dated for fact, dated in zip(facts, dates, strict=True)]
    return written(f"({head}, {spell(way.relation)}, {tail}): ", [fact.other for fact in facts], texts, total=total)
