"""Explore-on-Graph's protocol (Figure 10): the graph stands in the prompt, and one turn answers.

There are no tools.

    Knowledge graph: [["Big", "starred_actors", "Tom Hanks"], ["Big", "directed_by", "Penny Marshall"]]
    <think>Tom Hanks starred in Big, which ...</think><answer>["Penny Marshall"]</answer>

The paper takes the subgraphs that come with its datasets, whole; here they are gathered from any graph
(walk/subgraph.py), and cut to `graph_tokens`, by `select`, where they are larger. Its F1 and path rewards read the
facts named in the thought; nothing here checks those.
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

{examples}Question: {question}
Start from: {topics}
Knowledge graph:
{graph}"""
# Two invented questions, thought about as in Figure 14.
EXAMPLES = """Two examples.

Question: Which rivers flow through the province that Velm is the capital of?
Start from: "Velm"
Knowledge graph:
[["Ostra", "capital", "Velm"],
["Ostra", "river", "Kessin"],
["Ostra", "river", "Lower Aul"],
["Velm", "mayor", "Ida Tarn"]]
<think>1. The question asks for rivers, of the province whose capital is Velm.
2. From "Velm": ["Ostra", "capital", "Velm"] says that the province is Ostra. Its mayor does not help.
3. From "Ostra": ["Ostra", "river", "Kessin"] and ["Ostra", "river", "Lower Aul"].
So the rivers are Kessin and Lower Aul.</think>
<answer>["Kessin", "Lower Aul"]</answer>

Question: Which of the cities that Ida Tarn lived in is in Dorn?
Start from: "Ida Tarn", "Dorn"
Knowledge graph:
[["Ida Tarn", "lived_in", "Velm"],
["Ida Tarn", "lived_in", "Hask"],
["Hask", "country", "Dorn"],
["Velm", "country", "Ostra"]]
<think>1. The question asks for a city that Ida Tarn lived in and that is in Dorn.
2. From "Ida Tarn": ["Ida Tarn", "lived_in", "Velm"] and ["Ida Tarn", "lived_in", "Hask"].
3. From "Dorn": ["Hask", "country", "Dorn"]. Velm is elsewhere: ["Velm", "country", "Ostra"].
4. In both: Hask.</think>
<answer>["Hask"]</answer>

Now yours.

"""


@PROTOCOLS.add("eog")
@dataclass(frozen=True)
class Eog(Protocol):
    """The subgraph reaches `hops` from the topics, with at most `hub` facts of one entity and relation, and takes up
    to `graph_tokens` of the prompt; at most `facts` are looked at. `select` says which of them stay: the nearest to the
    question's words ("relevance"), or those that random walks from the topics take most ("pagerank"). With `examples`
    two worked ones stand in the prompt: Table 2 without SFT, with in-context learning."""

    name = "eog"
    stop = ("</answer>",)
    inline = True
    by_meaning = True
    shows_graph = True
    turns: int = 1
    hops: int = 2
    hub: int = 20
    facts: int = 5000
    graph_tokens: int = 3000
    select: str = "relevance"
    examples: bool = False

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
    room: int | None = None  # tokens of the graph, where the context has less than `graph_tokens`
    used: int = 0  # by the graph in the prompt

    def prompt(self) -> list[Message]:
        protocol, task = self.protocol, self.task
        graph, facts = subgraph_text(
            self.environment.graph,
            task.topics,
            task.question.question,
            room=protocol.graph_tokens if self.room is None else self.room,
            count=self.count,
            select=protocol.select,
            embedder=self.environment.embed,
            hops=protocol.hops,
            hub=protocol.hub,
            most=protocol.facts,
        )
        self.seen, self.used = facts, self.count(graph)
        settings = {
            "examples": EXAMPLES if protocol.examples else "",
            "question": task.asked,
            "topics": ", ".join(map(quote, task.topics)) or "no entity is given",
            "graph": graph,
        }
        return [Message("system", SYSTEM), Message("user", USER.format_map(settings))]

    def shortened(self, over: int) -> list[Message]:
        self.room = max(0, self.used - over)
        return self.prompt()

    def parse(self, text: str) -> Step:
        return parse(text)

    def act(self, call: Call) -> Observation:
        raise AssertionError(f"eog has no tools, and its parser gave {call.tool}")

    def tell(self, text: str) -> Observation:
        return said("", text, "")

    def last_call(self) -> Observation | None:
        return None
