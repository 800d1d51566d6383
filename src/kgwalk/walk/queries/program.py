"""The program of a walk: the calls that lead to its answer, without the dead ends.

    tail_entities($1, "borders")        $2
    tail_entities($1, "language")       $3, which nothing comes of
    count($2)                           $4, the answer

is `tail_entities($1, "borders"); count($2)`. A call that went wrong made no set, so it is not in a program either.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from kgwalk.types import Answer, Call, KgwalkError, Turn
from kgwalk.walk.kinds import Kind
from kgwalk.walk.language import arguments, tools
from kgwalk.walk.paths import limiting_set, renumbered


class QueryError(KgwalkError):
    """A walk that cannot be written as a query of a language: which call, and why."""


@dataclass(frozen=True, slots=True)
class WalkProgram:
    """The topics and kinds are the first sets, then each call makes the next; `answer` is the number of a set."""

    topics: tuple[str, ...]
    kinds: tuple[Kind, ...]
    calls: tuple[Call, ...]
    answer: int

    @property
    def starts(self) -> int:
        return len(self.topics) + len(self.kinds)

    def sliced(self) -> WalkProgram:
        """Only what the answer comes from, numbered anew.

        >>> calls = Call("tail_entities", (1, "borders")), Call("tail_entities", (2, "language")), Call("count", (3,))
        >>> WalkProgram(("Rome", "Italy"), (), calls, 4).sliced().calls
        (Call(tool='tail_entities', args=(1, 'language')),)
        """
        wanted, open_sets = set[int](), [self.answer]
        while open_sets:
            number = open_sets.pop()
            if not 1 <= number <= self.starts + len(self.calls):
                raise QueryError(f"the walk has no set ${number}")
            if number not in wanted:
                wanted.add(number)
                open_sets += sets_of(self.calls[number - self.starts - 1]) if number > self.starts else []
        new = {old: at for at, old in enumerate(sorted(wanted), 1)}
        topics = tuple(name for number, name in enumerate(self.topics, 1) if number in wanted)
        kinds = tuple(kind for number, kind in enumerate(self.kinds, len(self.topics) + 1) if number in wanted)
        made = [call for number, call in enumerate(self.calls, self.starts + 1) if number in wanted]
        return WalkProgram(topics, kinds, tuple(_with_numbers(call, new) for call in made), new[self.answer])


def program_of(turns: Iterable[Turn], topics: Sequence[str], kinds: Sequence[Kind]) -> WalkProgram:
    """The program of a walk of the `kgwalk` protocol that was answered, from its turns and the sets it started from."""
    calls: list[Call] = []
    answer: Answer | None = None
    for turn in turns:
        if isinstance(turn.step, Call) and turn.ok:
            if turn.step.tool not in tools("full", dated=True, kinds=True):  # a walk that a client wrote
                raise QueryError(f"`{turn.step.tool}` is no call of the language")
            calls.append(turn.step)
        elif isinstance(turn.step, Answer):
            answer = turn.step
    if answer is None:
        raise QueryError("the walk has no answer, so there is no query that gives it")
    if not answer.names:
        raise QueryError("the walk says that the graph does not tell, so there is no query that gives the answer")
    number = answer.names[0]
    if len(answer.names) > 1 or not isinstance(number, int):
        raise QueryError("the answer is written out by name and is no set of the walk, so no query gives it")
    return WalkProgram(tuple(topics), tuple(kinds), tuple(calls), number).sliced()


def sets_of(call: Call) -> list[int]:
    """The sets that a call names, also those that a value in it is limited to."""
    inside = (limiting_set(text) for text in _values(call))
    return [arg for arg in call.args if isinstance(arg, int)] + [number for number in inside if number is not None]


def _values(call: Call) -> Iterator[str]:
    """Arguments that may be values with a set in them: `count(^works_in in $3)`."""
    for arg, written in zip(call.args, _written(call), strict=True):
        if isinstance(arg, str) and (written.startswith("value") or (call.tool == "filter" and written == "text")):
            yield arg


def _written(call: Call) -> list[str]:
    kinds = arguments(call.tool)
    return [kinds[min(at, len(kinds) - 1)] for at in range(len(call.args))]


def _with_numbers(call: Call, new: dict[int, int]) -> Call:
    values = set(_values(call))
    args = (
        new[arg] if isinstance(arg, int) else renumbered(arg, new.__getitem__) if arg in values else arg
        for arg in call.args
    )
    return Call(call.tool, tuple(args))
