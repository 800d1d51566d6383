"""Without a graph: the model answers from memory, at once (`vanilla`) or after thinking (`cot`).

    Answer: Mercury | Venus
    All planets but the two nearest to the sun have moons. These two are Mercury and Venus.
    Answer: Mercury | Venus

One turn, no tools. The prompt is a short task, two questions with their answers as earlier turns of the chat, and the
question; neither the topics nor anything of the graph is shown.

An answer in tags is read first, `<answer>["Mercury", "Venus"]</answer>`, whatever stands before it. A reply without
one is read leniently: the line after the last "Answer:" or "The answer is", else its last line, split at `|`, `;` or
commas (walk/tagged_text.py says all of it). So a model is scored by what it knows, not by how well it keeps to a
form: only a reply with nothing to read is malformed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

from kgwalk.types import Answer, Call, Malformed, Message, Step
from kgwalk.walk.protocol import PROTOCOLS, Environment, Observation, Protocol, Task, Walk, said
from kgwalk.walk.tagged_text import escape_name, plain_names, read_answer, write_answer

OPEN, CLOSE = "<answer>", "</answer>"

VANILLA = """Answer the question from what you know, on one line that begins with "Answer:". Give only the names, no \
sentence. If several are right, put | between them."""
COT = """Answer the question from what you know. First think in one or two short sentences: which facts lead to the \
answer. Then write a line that begins with "Answer:" and has only the names. If several are right, put | between \
them."""

# Questions with replies. A small model follows turns of a chat where it does not follow a description, and takes from
# them what kind of thing an answer is: with a number as the last one, it answers many questions with that number.
VANILLA_EXAMPLES = (
    ("Which planets have no moon?", "Answer: Mercury | Venus"),
    ("what gas do plants take in", "Answer: carbon dioxide"),
)
COT_EXAMPLES = (
    (
        "Which planets have no moon?",
        "All planets but the two nearest to the sun have moons. These two are Mercury and Venus.\n"
        "Answer: Mercury | Venus",
    ),
    (
        "what gas do the living things with green leaves take in",
        "The living things with green leaves are plants. Plants take in carbon dioxide.\nAnswer: carbon dioxide",
    ),
)


@dataclass(frozen=True)
class ClosedBook(Protocol):
    """What the two share; they differ in their words."""

    stop = (CLOSE,)
    inline = True
    reads_graph = False
    form: ClassVar[str]
    examples: ClassVar[tuple[tuple[str, str], ...]]
    turns: int = 1

    def begin(self, task: Task, environment: Environment, count: Callable[[str], int]) -> ClosedBookWalk:
        return ClosedBookWalk(task, environment, form=self.form, examples=self.examples)

    @staticmethod
    def render(step: Step, think: str = "") -> str:
        """The turn that says a step; the inverse of `parse`. There are no calls."""
        match step:
            case Answer(names):
                return f"{escape_name(think)}{OPEN}{write_answer([str(name) for name in names])}{CLOSE}"
            case Malformed(why):
                return why
            case Call(tool, _):
                raise ValueError(f"there are no tools without a graph, so there is no turn that calls {tool}")


@PROTOCOLS.add("vanilla")
@dataclass(frozen=True)
class Vanilla(ClosedBook):
    name = "vanilla"
    form = VANILLA
    examples = VANILLA_EXAMPLES


@PROTOCOLS.add("cot")
@dataclass(frozen=True)
class Cot(ClosedBook):
    name = "cot"
    form = COT
    examples = COT_EXAMPLES


def parse(text: str) -> Step:
    """The first answer whose tag is closed; a tag that is only spoken of before it does not count. Else plain words.

    >>> parse('I think <answer>["Big, the film"]</answer>'), parse("Answer: Big | Splash")
    (Answer(names=('Big, the film',)), Answer(names=('Big', 'Splash')))
    >>> parse("It was Big."), parse(" ")
    (Answer(names=('It was Big',)), Malformed(why='Write the answer on a line, as "Answer: ...".'))
    """
    before, closed, _ = text.partition(CLOSE)
    _, opened, inside = before.rpartition(OPEN)
    names = read_answer(inside) if closed and opened else None
    if names is None:  # not (): an empty list says that there is nothing
        names = plain_names(text) or None
    return Malformed('Write the answer on a line, as "Answer: ...".') if names is None else Answer(names)


@dataclass
class ClosedBookWalk(Walk):
    form: str = field(kw_only=True)
    examples: tuple[tuple[str, str], ...] = field(kw_only=True)

    def prompt(self) -> list[Message]:
        messages: list[Message] = []
        for question, reply in self.examples:
            messages += [Message("user", f"Question: {question}"), Message("assistant", reply)]
        messages.append(Message("user", f"Question: {self.task.asked}"))
        # The task stands in the first message of the user's: not every chat template takes a system's.
        return [Message("user", f"{self.form}\n\n{messages[0].content}"), *messages[1:]]

    def parse(self, text: str) -> Step:
        return parse(text)

    def act(self, call: Call) -> Observation:
        raise AssertionError(f"there are no tools without a graph, and the parser gave {call.tool}")

    def tell(self, text: str) -> Observation:
        return said("", text, "")

    def last_call(self) -> Observation | None:
        return None
