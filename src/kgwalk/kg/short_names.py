"""Short names of relations: the end of each that no other relation of the graph ends with.

    film.film.directed_by, tv.tv_program.directed_by  ->  film.directed_by, tv_program.directed_by

A model reads the names around every set, and Freebase's, or a web address, are mostly their domain. Knows names alone.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

_CUT = re.compile(r"[./#:]+")


class ShortNames:
    """`shown` is the short name of a relation, `real` the relation that a short or a whole name stands for.

    >>> names = ShortNames(["film.film.directed_by", "tv.tv_program.directed_by", "film.film.country", "born in"])
    >>> [names.shown(name) for name in ("film.film.directed_by", "film.film.country", "born in", "unknown")]
    ['film.directed_by', 'country', 'born in', 'unknown']
    >>> names.real("country"), names.real("film.film.country"), names.real("directed_by")
    ('film.film.country', 'film.film.country', 'directed_by')
    """

    def __init__(self, names: Iterable[str]) -> None:
        ends = {name: _ends(name) for name in names}
        owners = Counter(end for found in ends.values() for end in found)
        self._shown = {name: next((end for end in found if owners[end] == 1), name) for name, found in ends.items()}
        self._real = {short: name for name, short in self._shown.items()}

    def shown(self, name: str) -> str:
        return self._shown.get(name, name)

    def real(self, name: str) -> str:
        return self._real.get(name, name)


def _ends(name: str) -> list[str]:
    """The parts that a name ends with, the shortest first, itself last. Words with spaces are no path: one part.

    >>> _ends("/film/film/directed_by"), _ends("located in/on physical feature"), _ends("dbo:director")
    (['directed_by', 'film/directed_by', 'film/film/directed_by', '/film/film/directed_by'], \
['located in/on physical feature'], ['director', 'dbo:director'])
    """
    if any(character.isspace() for character in name):
        return [name]
    starts = [cut.end() for cut in _CUT.finditer(name) if cut.end() < len(name)]
    return list(dict.fromkeys([*(name[start:] for start in reversed(starts)), name]))
