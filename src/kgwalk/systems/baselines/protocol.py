"""Without a graph: the model answers from memory, at once (`vanilla`) or after thinking (`cot`).

    Answers: ["Mercury", "Venus"]
    Reasoning: All planets but the two nearest to the sun have moons. These two are Mercury and Venus.
    Answers: ["Mercury", "Venus"]

One turn, no tools, in the form of KG-R1's appendix C.1. The prompt is a short task and the question, zero-shot; with
`examples` two questions with their answers stand before it as earlier turns of the chat. Neither the topics nor
anything of the graph is shown.

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

VANILLA = """Answer the question from what you know, shortly and without a sentence around it. Write one line in this \
form, with every right name in the list: Answers: ["first name", "second name"]"""
COT = """Answer the question from what you know. Think first, step by step, then answer.
1. Begin with "Reasoning:" and say which facts lead to the answer.
2. End with one line in this form, with every right name in the list: Answers: ["first name", "second name"]
3. No "Answers:" stands before the reasoning."""

# With examples, in a form that small models keep to better (docs/reference/baselines.md).
VANILLA_SHOWN = """Answer the question from what you know, on one line that begins with "Answer:". Give only the \
names, no sentence. If several are right, put | between them."""
COT_SHOWN = """Answer the question from what you know. First think in one or two short sentences: which facts lead to \
the answer. Then write a line that begins with "Answer:" and has only the names. If several are right, put | between \
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
    """What the two share; they differ in their words. `examples`: two stand before the question."""

    stop = (CLOSE,)
    inline = True
    reads_graph = False
    form: ClassVar[str]
    begun: ClassVar[str]  # how the reply begins, at the end of the prompt
    shown_form: ClassVar[str]
    shown: ClassVar[tuple[tuple[str, str], ...]]
    turns: int = 1
    examples: bool = False

    def begin(self, task: Task, environment: Environment, count: Callable[[str], int]) -> ClosedBookWalk:
        return ClosedBookWalk(task, environment, protocol=self)

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
    form, begun = VANILLA, "Answers:"
    shown_form, shown = VANILLA_SHOWN, VANILLA_EXAMPLES


@PROTOCOLS.add("cot")
@dataclass(frozen=True)
class Cot(ClosedBook):
    name = "cot"
    form, begun = COT, "Reasoning:"
    shown_form, shown = COT_SHOWN, COT_EXAMPLES


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
    protocol: ClosedBook = field(kw_only=True)

    def prompt(self) -> list[Message]:
        # The task stands in the first message of the user's: not every chat template takes a system's.
        if not self.protocol.examples:
            asked = f"Question: {self.task.asked}\n{self.protocol.begun}"
            return [Message("user", f"{self.protocol.form}\n\n{asked}")]
        messages: list[Message] = []
        for question, reply in self.protocol.shown:
            messages += [Message("user", f"Question: {question}"), Message("assistant", reply)]
        messages.append(Message("user", f"Question: {self.task.asked}"))
        return [Message("user", f"{self.protocol.shown_form}\n\n{messages[0].content}"), *messages[1:]]

    def parse(self, text: str) -> Step:
        return parse(text)

    def act(self, call: Call) -> Observation:
        raise AssertionError(f"there are no tools without a graph, and the parser gave {call.tool}")

    def tell(self, text: str) -> Observation:
        return said("", text, "")

    def last_call(self) -> Observation | None:
        return None
