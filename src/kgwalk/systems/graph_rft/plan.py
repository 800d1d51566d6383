"""Graph-RFT's plan (section 3.3.1, Figures 7, 8): sub-problems, each with the function that solves it.

    Step 1: Which films did Tom Hanks star in?
    Ans1 = SearchKG(t="film" | h="Tom Hanks", r="starred_in")
    Step 2: Which films did Robert Zemeckis direct?
    Ans2 = SearchKG(t="film" | h="Robert Zemeckis", r="directed")
    Step 3: Which are both?
    Ans3 = Intersect(Ans1, Ans2)

Answers are numbered from 1 and refer to earlier ones only. A name may go without quotes if it holds no quote and none
of `|,()=`. The plan is read and kept, not carried out: the model follows it itself.

The paper's figures write it in several ways, and all are read as the one above: `KGSearch` (Figure 2) for SearchKG,
`Inter` (Figures 2, 8; section 3.3.1 in lower case) for Intersect, with a target before the answers (Figure 2), no
`t=`, `h=` and `r=` (Figure 1), an `Ans` without its number and sub-problems in place of answers (Figure 7).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from kgwalk.walk.facts import read_name
from kgwalk.walk.tagged_text import escape_name, quote, unescape

Combination = Literal["Intersect", "Union", "Negation"]

_VALUE = r'(\s*"(?:[^"\\]|\\.)*"\s*|[^"|,()=]+)'
_NUMBERED = r"(?:Ans|[Ss]ub-problem) ?([0-9]{1,3})"
_ASSIGNED = re.compile(r"\bAns ?([0-9]{1,3})?\s*=\s*(\w+)\s*")
_TARGET = rf"(?:\s*t[0-9]*\s*=)?{_VALUE}\|"
_SEARCH = re.compile(rf"\({_TARGET}(?:\s*h[0-9]*\s*=)?{_VALUE},(?:\s*r[0-9]*\s*=)?{_VALUE}\)", re.DOTALL)
_COMBINED = re.compile(rf"\((?:{_TARGET})?\s*({_NUMBERED}(?:\s*,\s*{_NUMBERED})+)\s*\)", re.DOTALL)
_ANSWER = re.compile(_NUMBERED)
_STEP = re.compile(r"Step\s+[0-9]{1,3}\s*[:.]\s*")
_LABEL = re.compile(r"(?:[-*] )?Logic (?:Function|Form) ?:?$")  # before the function, in Figure 2

_SEARCHES = ("searchkg", "kgsearch")
_COMBINES: dict[str, Combination] = {
    "intersect": "Intersect",
    "inter": "Intersect",
    "union": "Union",
    "negation": "Negation",
}


class PlanError(Exception):
    """A text that is no plan: the message is for the model."""


@dataclass(frozen=True, slots=True)
class SearchKG:
    """Entities of the type `target` that `relation` joins to `head`: a name, or the number of an earlier answer."""

    target: str
    head: str | int
    relation: str

    def __str__(self) -> str:
        head = f"Ans{self.head}" if isinstance(self.head, int) else quote(self.head)
        return f"SearchKG(t={quote(self.target)} | h={head}, r={quote(self.relation)})"


@dataclass(frozen=True, slots=True)
class Combine:
    """Of earlier answers: what is in all, in any, or in the first and none of the others."""

    how: Combination
    answers: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.how}({', '.join(f'Ans{number}' for number in self.answers)})"


@dataclass(frozen=True, slots=True)
class PlanStep:
    problem: str
    function: SearchKG | Combine


@dataclass(frozen=True, slots=True)
class SearchPlan:
    steps: tuple[PlanStep, ...]

    def __str__(self) -> str:
        """As a model would write it; the inverse of `read_plan`."""
        return "\n".join(
            f"Step {number}: {escape_name(step.problem)}\nAns{number} = {step.function}"
            for number, step in enumerate(self.steps, 1)
        )


def read_plan(text: str) -> SearchPlan:
    """The plan of a text; raises PlanError.

    >>> read_plan("Step 1: Whose mascot is Rocky? Ans1 = SearchKG(t=team | h=Rocky, r=has_mascot)").steps[0].function
    SearchKG(target='team', head='Rocky', relation='has_mascot')
    """
    steps = tuple(_steps(text))
    if not steps:
        raise PlanError("A plan has steps, each with its function: Ans1 = SearchKG(t=type | h=entity, r=relation).")
    return SearchPlan(steps)


def _steps(text: str) -> Iterator[PlanStep]:
    at, expected = 0, 1
    while (assigned := _ASSIGNED.search(text, at)) is not None:
        problem = _LABEL.sub("", text[at : assigned.start()].strip()).strip()
        if assigned.group(1) is not None and int(assigned.group(1)) != expected:
            raise PlanError(f"The plan's answers are numbered from Ans1 on: Ans{expected} comes next.")
        function, at = _function(text, assigned)
        used = [function.head] if isinstance(function, SearchKG) else function.answers
        if any(isinstance(number, int) and not 1 <= number < expected for number in used):
            raise PlanError(f"Ans{expected} can use earlier answers only.")
        step = _STEP.match(problem)
        yield PlanStep(unescape(problem[step.end() :] if step else problem), function)
        expected += 1


def _function(text: str, assigned: re.Match[str]) -> tuple[SearchKG | Combine, int]:
    name, start = assigned.group(2).lower(), assigned.end()
    if name in _SEARCHES:
        found = _SEARCH.match(text, start)
        if found is None or not all(map(read_name, found.groups())):
            raise PlanError("Write a search of the plan as SearchKG(t=type | h=entity, r=relation).")
        target, head, relation = found.groups()
        return SearchKG(read_name(target), _head(head), read_name(relation)), found.end()
    if name not in _COMBINES:
        raise PlanError("The functions of a plan are SearchKG, Intersect, Union and Negation.")
    how, combined = _COMBINES[name], _COMBINED.match(text, start)
    if combined is None:
        raise PlanError(f"{how} takes two or more answers: {how}(Ans1, Ans2).")
    return Combine(how, tuple(map(int, _ANSWER.findall(combined.group(2))))), combined.end()


def _head(text: str) -> str | int:
    answer = _ANSWER.fullmatch(text.strip())
    return int(answer.group(1)) if answer else read_name(text)
