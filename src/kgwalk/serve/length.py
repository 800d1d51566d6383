"""How long a text may be: what no context can hold is refused before it is tokenised, or looked through for names.

Knows characters and tokens; nothing of questions' meaning, or of ASGI.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kgwalk.serve.asgi import HttpError

if TYPE_CHECKING:
    from kgwalk.agent.budget import Budget
    from kgwalk.llm.engine import Engine

# English has about 4. A vocabulary may have longer ones (a line of dashes), but no text is made of them alone.
MOST_CHARACTERS_A_TOKEN = 32


def too_long(message: str) -> HttpError:
    return HttpError(400, "context_length_exceeded", message)


def check_characters(characters: int, tokens: int) -> None:
    """Refuse what cannot fit so many tokens, by its length alone.

    >>> check_characters(32_000, 1000)
    >>> check_characters(32_001, 1000)
    Traceback (most recent call last):
    ...
    kgwalk.serve.asgi.HttpError: the text has 32,001 characters; prompt and completion have 1,000 tokens at most
    """
    if characters > tokens * MOST_CHARACTERS_A_TOKEN:
        raise too_long(f"the text has {characters:,} characters; prompt and completion have {tokens:,} tokens at most")


def check_question(question: str, engine: Engine, budget: Budget) -> None:
    """Refuse a question that alone is longer than a walk's context: looking for names in it would take seconds.

    A token has at least a byte, so most questions need not be tokenised to know.
    """
    from kgwalk.agent.counted import Counted, ids_a_token

    counted = Counted(engine)
    room = min(counted.budget(budget).total_tokens, counted.context)
    if len(question.encode()) < room:
        return
    ids = len(engine.tokens.encode(question))
    if ids >= room:
        a_token = ids_a_token(engine)
        raise too_long(f"the question has {ids // a_token:,} tokens and there is room for {room // a_token:,}")
