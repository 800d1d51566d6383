"""KG-Hopper's protocol (sections III-A, III-B): searches of entities inside one thought.

    <think>I do not know. <search>Utah</search><searched_triples>(Utah, timeZone, Mountain Time Zone)</searched_triples>
    So it is that one.</think><answer>["Mountain Time Zone"]</answer>

The tool ranks the entity's relations, in both directions, by nearness to the question and shows the facts of the best.
How many relations, facts and searches there may be is not in the paper: they are settings. Answers are JSON lists.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kgwalk.types import Answer, Call, Malformed, Step, UnknownEntity
from kgwalk.walk.facts import entity_named, facts_along, not_found, read_name, relevant_relations, write_fact
from kgwalk.walk.growing_think import ThinkProtocol, ThinkWalk, WrittenSearch, write_end, write_search
from kgwalk.walk.protocol import PROTOCOLS, Environment, Observation, Task, written

PROMPT = """Answer the question by thinking once, inside <think>...</think>, and then giving the answer inside \
<answer>...</answer> as a JSON list of names, for example <answer>["first name", "second name"]</answer>.
While you think you may search a knowledge graph up to {turns} times: write <search>entity</search> with one entity, \
one of those you start from or one that a search has shown you. The facts found are put right after it inside \
<{tag}>...</{tag}> as (head, relation, tail); a name with a comma stands in double quotes. Then go on thinking, \
search again, or close the thought and answer.

Question: {question}
Start from: {topics}"""


@PROTOCOLS.add("kg-hopper")
@dataclass(frozen=True)
class KgHopper(ThinkProtocol):
    """`relations` of an entity are kept, the nearest to the question, and at most `facts` of each."""

    name = "kg-hopper"
    turns: int = 7
    relations: int = 5
    facts: int = 20

    def begin(self, task: Task, environment: Environment, count: Callable[[str], int]) -> KgHopperWalk:
        return KgHopperWalk(task, environment, protocol=self)

    @staticmethod
    def render(step: Step, think: str = "", *, opened: bool = False) -> str:
        """The turn that says a step; the inverse of `parse`. `opened`: the thought has begun in a turn before."""
        match step:
            case Call(_, args):
                return write_search(str(args[0]), think, opened=opened)
            case Answer():
                return write_end(step, think, opened=opened)
            case Malformed(why):
                return why


@dataclass
class KgHopperWalk(ThinkWalk):
    template = PROMPT
    protocol: KgHopper = field(kw_only=True)

    def parse(self, text: str) -> Step:
        turn = self.read(text)
        if not isinstance(turn, WrittenSearch):
            return turn
        name = read_name(turn.inside)
        if turn.attributes.strip() or not name:
            return Malformed("Write the name of one entity between plain search tags.")
        return Call("search", (name,))

    def act(self, call: Call) -> Observation:
        graph, protocol = self.environment.graph, self.protocol
        try:
            entity = entity_named(graph, str(call.args[0]))
        except UnknownEntity as error:
            return self.error("entity_not_found", not_found(error))
        question = self.task.question.question
        along = relevant_relations(graph, entity, question, protocol.relations, self.environment.embed)
        facts, total = facts_along(graph, entity, along, protocol.facts)
        texts = [write_fact(fact) for fact in facts]
        shown = written("", [fact.other for fact in facts], texts, separator="\n", total=total)
        return Observation(*self.tags, [shown], triples=[fact.triple for fact in facts])
