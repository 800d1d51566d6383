"""The evidence of an answer as a terminal shows it: chains of facts that lead from where the walk began to the answer.

    Penny Marshall
    └── Tom Hanks ◀─ starred_actors ── Big ── directed_by ─▶ Penny Marshall

An arrow points as the fact does, from head to tail. Facts that lead to the same answer by different ways are branches.
Under a chain stand the sentences that its facts were read in, where the graph was made of text.
A pipe or a file gets the facts as they are (ask.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from kgwalk.config.runtime import visible
from kgwalk.kg.fact_sources import FactSource
from kgwalk.types import Triple

ENTITY, RELATION, ANSWER, TIME = "", "cyan", "bold green", "dim"
ARROWS = {True: ("◀─ ", " ──", "── ", " ─▶"), False: ("<- ", " --", "-- ", " ->")}  # utf-8 or not


def chains(facts: Sequence[Triple], answer: str) -> list[list[tuple[Triple, bool]]]:
    """The facts in chains that end at the answer; with each fact, whether it is followed from head to tail.

    >>> films = [Triple("Big", "starred_actors", "Tom Hanks"), Triple("Big", "directed_by", "Penny Marshall")]
    >>> [[(fact.relation, forwards) for fact, forwards in chain] for chain in chains(films, "Penny Marshall")]
    [[('starred_actors', False), ('directed_by', True)]]

    Two ways to one answer are two chains; facts that were counted are one each.

    >>> borders = [Triple("France", "borders", "Belgium"), Triple("Germany", "borders", "Belgium")]
    >>> len(chains(borders, "Belgium")), len(chains(borders, "2"))
    (2, 2)
    """
    found: list[list[Triple]] = []
    named = any(answer in _ends(fact) for fact in facts)
    for fact in facts:
        if found and named and _free_ends(found[-1], answer) & _ends(fact):
            found[-1].append(fact)
        else:
            found.append([fact])
    return [_directed(chain, answer) for chain in found]


def _ends(fact: Triple) -> set[str]:
    return {fact.head, fact.tail}


def _free_ends(chain: Sequence[Triple], answer: str) -> set[str]:
    """Where a chain can go on; nowhere once it has come to the answer."""
    last = _ends(chain[-1])
    if answer in last:
        return set()
    return last - _ends(chain[-2]) if len(chain) > 1 else last


def _directed(chain: Sequence[Triple], answer: str) -> list[tuple[Triple, bool]]:
    first = chain[0]
    away = first.head == answer if len(chain) == 1 else first.head in _ends(chain[1])
    here = first.tail if away else first.head
    found = []
    for fact in chain:
        found.append((fact, here == fact.head))
        here = fact.tail if here == fact.head else fact.head
    return found


def quotation(source: FactSource) -> str:
    """A sentence and where it stands.

    >>> quotation(FactSource("films/big.md", 0, 47, "Big is a 1988 film directed by Penny Marshall."))
    '"Big is a 1988 film directed by Penny Marshall." (films/big.md)'
    """
    return f'"{" ".join(source.sentence.split())}" ({source.place})'


def evidence_tree(
    name: str,
    facts: Sequence[Triple],
    console: Console,
    *,
    label: str | None = None,
    sources: Mapping[Triple, Sequence[FactSource]] = {},
) -> Tree:
    """An answer with its evidence, as lines for this console."""
    arrows = ARROWS[console.encoding.lower().startswith("utf")]
    tree = Tree(Text(visible(label or name), style=ANSWER), guide_style="dim")
    for chain in chains(facts, name):
        branch = tree.add(_line(chain, name, arrows))
        for fact, _ in chain:
            for source in sources.get(fact, ()):
                branch.add(Text(visible(quotation(source)), style=TIME))
    return tree


def _line(chain: Sequence[tuple[Triple, bool]], answer: str, arrows: tuple[str, str, str, str]) -> Text:
    back, back_end, on, on_end = arrows
    first, forwards = chain[0]
    line = _entity(first.head if forwards else first.tail, answer)
    for fact, onwards in chain:
        begin, end = (on, on_end) if onwards else (back, back_end)
        line.append(f" {begin}", style=RELATION).append(visible(fact.relation), style=RELATION)
        if fact.time:
            line.append(f" [{visible(fact.time)}]", style=TIME)
        line.append(f"{end} ", style=RELATION)
        line.append_text(_entity(fact.tail if onwards else fact.head, answer))
    return line


def _entity(name: str, answer: str) -> Text:
    return Text(visible(name), style=ANSWER if name == answer else ENTITY)
