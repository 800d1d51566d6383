"""Explore-on-Graph's protocol (Figure 10): the graph stands in the prompt, and one turn answers.

There are no tools.

    Knowledge graph: [["Big", "starred_actors", "Tom Hanks"], ["Big", "directed_by", "Penny Marshall"]]
    <think>Tom Hanks starred in Big, which ...</think><answer>["Penny Marshall"]</answer>

The paper takes the subgraphs that come with its datasets; here they are cut from any graph (walk/subgraph.py) to
`graph_tokens`, by `select`. Its F1 and path rewards read the facts named in the thought; nothing here checks those.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from kgwalk.config.recipe import unknown
from kgwalk.types import Answer, Call, Malformed, Message, Step
from kgwalk.walk.protocol import PROTOCOLS, Environment, Observation, Protocol, Task, Walk, said, tag_pattern
from kgwalk.walk.subgraph import SELECT, subgraph_text
from kgwalk.walk.tagged_text import escape_name, quote, read_answer, write_answer

_TURN = re.compile(r"\s*<think>(.*?)</think>\s*<answer>(.*?)</answer>", re.DOTALL)
_OWN_TAG = tag_pattern("think", "answer")
_EXPECTED = "Think inside one pair of think tags, then answer inside one pair of answer tags."

SYSTEM = """You answer questions from a knowledge graph.
You are given a question, the entities to start from, and the graph: a list of facts [head, relation, tail].
1. Reason inside <think>...</think>. Begin at the given entities and follow the facts step by step, naming the \
entities and relations you use; look at other paths too, drop what does not help, and check your steps.
2. Then answer inside <answer>...</answer> with names of entities that occur in the graph, and nothing else."""
USER = """Write your answer as a JSON list, for example <answer>["Washington, D.C."]</answer>. Questions often have \
several answers: list all of them. Where several entities are given, look at each and at how they are connected. Only \
if the graph does not tell, use what you know.
Keep to this form:
<think>...</think>
<answer>[...]</answer>

Question: {question}
Start from: {topics}
Knowledge graph:
{graph}"""


@PROTOCOLS.add("eog")
@dataclass(frozen=True)
class Eog(Protocol):
    """The subgraph reaches `hops` from the topics, with at most `hub` facts of one entity and relation, and takes up
    to `graph_tokens` of the prompt; at most `facts` are looked at. `select` says which of them stay: the nearest to the
    question's words ("relevance"), or those that random walks from the topics take most ("pagerank")."""

    name = "eog"
    stop = ("</answer>",)
    inline = True
    by_meaning = True
    turns: int = 1
    hops: int = 2
    hub: int = 20
    facts: int = 5000
    graph_tokens: int = 3000
    select: str = "relevance"

    def __post_init__(self) -> None:
        if self.select not in SELECT:
            raise unknown("value of protocol.select", self.select, SELECT)

    def begin(self, task: Task, environment: Environment, count: Callable[[str], int]) -> EogWalk:
        return EogWalk(task, environment, protocol=self, count=count)

    @staticmethod
    def render(step: Step, think: str = "") -> str:
        """The turn that says a step; the inverse of `parse`. There are no calls."""
        match step:
            case Answer(names):
                return (
                    f"<think>{escape_name(think)}</think><answer>{write_answer([str(name) for name in names])}</answer>"
                )
            case Malformed(why):
                return why
            case Call(tool, _):
                raise ValueError(f"eog has no tools, so there is no turn that calls {tool}")


def parse(text: str) -> Step:
    found = _TURN.match(text)
    if found is None or any(_OWN_TAG.search(part) for part in found.groups()):
        return Malformed(_EXPECTED)
    names = read_answer(found.group(2))
    return Malformed('Write the answer as a JSON list of names: ["..."].') if names is None else Answer(names)


@dataclass
class EogWalk(Walk):
    protocol: Eog = field(kw_only=True)
    count: Callable[[str], int] = field(kw_only=True)

    def prompt(self) -> list[Message]:
        protocol, task = self.protocol, self.task
        graph, facts = subgraph_text(
            self.environment.graph,
            task.topics,
            task.question.question,
            room=protocol.graph_tokens,
            count=self.count,
            select=protocol.select,
            embedder=self.environment.embed,
            hops=protocol.hops,
            hub=protocol.hub,
            most=protocol.facts,
        )
        self.seen = facts
        settings = {
            "question": task.asked,
            "topics": ", ".join(map(quote, task.topics)) or "no entity is given",
            "graph": graph,
        }
        return [Message("system", SYSTEM), Message("user", USER.format_map(settings))]

    def parse(self, text: str) -> Step:
        return parse(text)

    def act(self, call: Call) -> Observation:
        raise AssertionError(f"eog has no tools, and its parser gave {call.tool}")

    def tell(self, text: str) -> Observation:
        return said("", text, "")

    def last_call(self) -> Observation | None:
        return None
