"""The facts behind an answer: all that a plan used, and a few paths from a topic to an answer.

Knows sets and the steps that made them, nothing of how they were drawn.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from kgwalk.questions.plan import CHOICES, HOPS, Plan
from kgwalk.tools.sets import Sets
from kgwalk.types import Triple

MOST_PATHS = 3
MOST_FACTS = 200


def gold_paths(plan: Plan, sets: Sets) -> list[list[Triple]] | None:
    """At most MOST_PATHS paths, all those to the first answer before those to the next; None of a count."""
    if plan.steps[-1].tool == "count":
        return None
    members = sets.made[plan.last - 1].members
    found = (path for name in members for path in _paths(plan, sets, name, plan.last) if path)
    return list(islice(found, MOST_PATHS)) or None


def _paths(plan: Plan, sets: Sets, name: str, number: int) -> Iterator[list[Triple]]:
    """The paths to a member of a set: one for each topic that it is reached from."""
    step = plan.made_by(number)
    if step is None:
        yield []
        return
    if step.tool in HOPS:
        fact = sets.made[number - 1].came[name]
        source = step.args[0]
        assert isinstance(source, int)
        for path in _paths(plan, sets, fact.tail if step.tool == "head_entities" else fact.head, source):
            yield [*path, fact]
        return
    sources = [arg for arg in step.args if isinstance(arg, int) and name in sets.made[arg - 1].members]
    for source in sources:
        yield from _paths(plan, sets, name, source)


def facts_used(plan: Plan, sets: Sets) -> list[Triple]:
    """One fact for each member of each set that led to an answer, and the values that members were chosen by."""
    needed: list[dict[str, None]] = [{} for _ in sets.made]
    needed[plan.last - 1] = dict.fromkeys(sets.made[plan.last - 1].members)
    facts: dict[Triple, None] = {}
    for number in range(plan.last, len(plan.topics), -1):
        step, wanted = plan.made_by(number), needed[number - 1]
        assert step is not None
        sources = [arg for arg in step.args if isinstance(arg, int)]
        if step.tool in HOPS:
            for fact in (sets.made[number - 1].came[name] for name in wanted):
                facts[fact] = None
                needed[sources[0] - 1][fact.tail if step.tool == "head_entities" else fact.head] = None
            continue
        if step.tool in ("count", "argmax", "argmin"):  # all were counted, all were compared
            wanted = dict.fromkeys(sets.made[sources[0] - 1].members)
        if step.tool in CHOICES:
            facts |= {fact: None for name in wanted for fact in sets._values(name, str(step.args[1]))}
        for source in sources:
            there = sets.made[source - 1].members
            needed[source - 1] |= dict.fromkeys(name for name in there if name in wanted)
    return list(reversed(facts))[:MOST_FACTS]
