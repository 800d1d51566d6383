"""How a list of relation names reads to a model: flat, or as a tree of their dotted parts.

Freebase names a relation domain.type.property. Written as a tree, the shared parts stand once, which halves
the tokens (KG-R1, Table 10). Knows nothing of graphs, nor of the sentence around the list.
"""

from __future__ import annotations

from collections.abc import Sequence


def flat(relations: Sequence[str]) -> str:
    return ", ".join(relations)


def hierarchical(relations: Sequence[str]) -> str:
    """A tree, in the order in which the names come; names that are not three dotted parts follow on one line.

    >>> print(hierarchical(["geo.country.capital", "geo.country.languages", "people.person.name", "kin"]))
    geo
      country: capital, languages
    people
      person: name
    kin
    """
    tree: dict[str, dict[str, list[str]]] = {}
    others: list[str] = []
    for relation in relations:
        parts = relation.split(".")
        if len(parts) == 3 and all(parts):
            domain, kind, prop = parts
            tree.setdefault(domain, {}).setdefault(kind, []).append(prop)
        else:
            others.append(relation)
    lines: list[str] = []
    for domain, kinds in tree.items():
        lines.append(domain)
        lines.extend(f"  {kind}: {', '.join(props)}" for kind, props in kinds.items())
    if others:
        lines.append(flat(others))
    return "\n".join(lines)
