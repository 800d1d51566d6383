"""A protocol of one's own in under 60 lines: the model says `go RELATION` until it says `done`.

Run: python examples/own_protocol.py
"""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import kgwalk
from kgwalk.llm.engine import ScriptedEngine
from kgwalk.types import Answer, Call, Malformed, Message, Question, Step
from kgwalk.walk.protocol import Environment, Listing, Observation, Protocol, Task, Walk, said
from kgwalk.walk.rollout import rollout


@dataclass(frozen=True)
class Go(Protocol):
    name = "go"
    stop = ("\n",)
    inline = False

    def begin(self, task: Task, environment: Environment, count: Callable[[str], int]) -> "GoWalk":
        return GoWalk(task, environment, here=list(task.topics))


@dataclass
class GoWalk(Walk):
    here: list[str] = field(default_factory=list)

    def prompt(self) -> list[Message]:
        return [Message("user", f"{self.task.question.question}\nYou are at {self.here}. Say: go RELATION, or done.")]

    def parse(self, text: str) -> Step:
        match text.split(maxsplit=1):
            case ["done"]:
                return Answer(tuple(self.here))
            case ["go", relation]:
                return Call("go", (relation.strip(),))
        return Malformed("say: go RELATION, or done")

    def act(self, call: Call) -> Observation:
        if not self.environment.graph.has_relation(relation := str(call.args[0])):
            return self.tell(f"no relation {relation}")
        self.here = sorted({to for name in self.here for to in self.environment.graph.neighbors(name, relation)})
        return Observation("", "", [Listing("now at: ", self.here, entities=True)])

    def tell(self, text: str) -> Observation:
        return said("", text, "")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        kgwalk.build_graph([Path(__file__).with_name("films.tsv")], f"{folder}/films.kg")
        films = Environment(kgwalk.load_graph(f"{folder}/films.kg"))
        task = Task(Question("q", "Who directed Big?", [], []), ["Big"]), films
        (episode,) = rollout([task], Go(), ScriptedEngine(["go directed_by\n", "done\n"]))
        print(episode.answers, episode.stop.value, [turn.observation for turn in episode.turns])
