"""Which tags stand in a text that a model wrote; and a list whose items are written otherwise than their names.

Knows no protocol's tags.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial

from kgwalk.agent.observation import Listing


def tag_pattern(*names: str) -> re.Pattern[str]:
    """Any opening or closing tag of these names, attributes, case and spaces aside.

    >>> bool(tag_pattern("think", "answer").search("no </Answer > here")), tag_pattern("think").search("<thinking>")
    (True, None)
    """
    return re.compile(rf"<[\s/]*(?:{'|'.join(map(re.escape, names))})(?![\w-])[^<>]*>", re.IGNORECASE)


def written(
    lead: str,
    entities: Sequence[str],
    texts: Sequence[str],
    *,
    separator: str = ", ",
    total: int | None = None,
    shows_entities: bool = True,
) -> Listing:
    """A list that shows `texts[i]`, safe as it stands, where `entities[i]` is what a reader learns of."""
    layout = partial(_joined, separator, texts)
    return Listing(lead, entities, separator, total=total, entities=shows_entities, layout=layout)


def _joined(separator: str, texts: Sequence[str], shown: list[str]) -> str:
    return separator.join(texts[: len(shown)])
