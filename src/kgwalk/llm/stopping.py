"""Where a generation ends: with the token that completes a stop text.

The token is kept whole: a model's tokens are never cut or encoded anew, so a stop text may be followed by the rest of
its last token, which the protocol's parser passes over.
"""

from __future__ import annotations

from collections.abc import Sequence

from kgwalk.llm.tokens import Tokenizer


def first_stop(tokens: Tokenizer, ids: Sequence[int], stops: Sequence[str]) -> int | None:
    """How many of the ids there are up to the one that completes the first stop text; None if none does."""
    if not stops or not any(stop in tokens.decode(ids) for stop in stops):
        return None
    low, high = 1, len(ids)  # the text of more tokens holds the text of fewer
    while low < high:
        middle = (low + high) // 2
        text = tokens.decode(ids[:middle])
        if any(stop in text for stop in stops):
            high = middle
        else:
            low = middle + 1
    return low
