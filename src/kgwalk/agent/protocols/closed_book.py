"""No graph at all: what the model answers from memory, at once (`vanilla`) or after thinking (`cot`).

    <answer>["Penny Marshall"]</answer>
    Tom Hanks starred in Big, which Penny Marshall directed. So: <answer>["Penny Marshall"]</answer>

One turn, no tools. The prompt is the question alone: neither the topics nor anything of the graph is shown. Whatever
stands before the answer is let pass, since some models think unasked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

from kgwalk.agent.observation import Observation
from kgwalk.agent.protocol import Protocol, Task, Walk, World, said
from kgwalk.tools.text import escape, read_answer, write_answer
from kgwalk.types import Answer, Call, Malformed, Message, Step

OPEN, CLOSE = "<answer>", "</answer>"

VANILLA = """Answer the question from what you know. Reply with the answer alone, inside <answer>...</answer>, as a \
JSON list of names, for example <answer>["first name", "second name"]</answer>. If several answers are right, list all.

Question: {question}"""
COT = """Answer the question from what you know. First think step by step, in a few sentences: what is asked, which \
facts lead there, what follows from each. Then give the answer inside <answer>...</answer>, as a JSON list of names, \
for example <answer>["first name", "second name"]</answer>. If several answers are right, list all.

Question: {question}"""


@dataclass(frozen=True)
class ClosedBook(Protocol):
    """What the two share; they differ in their words."""

    stop = (CLOSE,)
    inline = True
    reads_graph = False
    form: ClassVar[str]
    turns: int = 1

    def begin(self, task: Task, world: World, count: Callable[[str], int]) -> ClosedBookWalk:
        return ClosedBookWalk(task, world, form=self.form)

    @staticmethod
    def render(step: Step, think: str = "") -> str:
        """The turn that says a step; the inverse of `parse`. There are no calls."""
        match step:
            case Answer(names):
                return f"{escape(think)}{OPEN}{write_answer([str(name) for name in names])}{CLOSE}"
            case Malformed(why):
                return why
            case Call(tool, _):
                raise ValueError(f"there are no tools without a graph, so there is no turn that calls {tool}")


@dataclass(frozen=True)
class Vanilla(ClosedBook):
    name = "vanilla"
    form = VANILLA


@dataclass(frozen=True)
class Cot(ClosedBook):
    name = "cot"
    form = COT


def parse(text: str) -> Step:
    """The first answer that is closed; a tag that is only spoken of before it does not count."""
    before, closed, _ = text.partition(CLOSE)
    _, opened, inside = before.rpartition(OPEN)
    names = read_answer(inside) if closed and opened else None
    return Malformed('Write the answer as <answer>["..."]</answer>.') if names is None else Answer(names)


@dataclass
class ClosedBookWalk(Walk):
    form: str = field(kw_only=True)

    def prompt(self) -> list[Message]:
        return [Message("user", self.form.format_map({"question": escape(self.task.question.question)}))]

    def parse(self, text: str) -> Step:
        return parse(text)

    def act(self, call: Call) -> Observation:
        raise AssertionError(f"there are no tools without a graph, and the parser gave {call.tool}")

    def tell(self, text: str) -> Observation:
        return said("", text, "")

    def last_call(self) -> Observation | None:
        return None
