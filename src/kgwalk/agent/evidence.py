"""The path behind an answer: the fewest facts, among those seen, that lead from a topic to it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from kgwalk.types import Triple


def path_to(name: str, topics: Iterable[str], seen: Sequence[Triple]) -> list[Triple]:
    """Breadth first over facts in either direction; [] if none leads there.

    >>> seen = [Triple("Big", "directed_by", "Penny Marshall"), Triple("Big", "starred_actors", "Tom Hanks")]
    >>> [t.relation for t in path_to("Penny Marshall", ["Tom Hanks"], seen)]
    ['starred_actors', 'directed_by']
    """
    beside: dict[str, list[tuple[Triple, str]]] = {}
    for triple in seen:
        beside.setdefault(triple.head, []).append((triple, triple.tail))
        beside.setdefault(triple.tail, []).append((triple, triple.head))
    came: dict[str, tuple[Triple, str] | None] = dict.fromkeys(topics)
    if name in came:
        return []
    queue = deque(came)
    while queue:
        here = queue.popleft()
        for triple, there in beside.get(here, ()):
            if there not in came:
                came[there] = (triple, here)
                if there == name:
                    return _back(name, came)
                queue.append(there)
    return []


def _back(name: str, came: dict[str, tuple[Triple, str] | None]) -> list[Triple]:
    path: list[Triple] = []
    while (step := came[name]) is not None:
        triple, name = step
        path.append(triple)
    return path[::-1]
