"""An engine that says what it is told: for tests, documentation, and trying out a protocol without a model.

It chooses its tokens as a model would (one after the other, until a stop text or the length), so an episode with it
has every property of a real one. Log-probabilities are made up but fixed: -1/8 for each token.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kgwalk.llm.engine import Generation, Request
from kgwalk.llm.requests import first_stop
from kgwalk.llm.tokenizers import ByteTokenizer, Tokenizer
from kgwalk.types import EngineError

LOGPROB = -0.125


class ScriptedEngine:
    """Replays turns. `script` is a list of turns for every episode, a mapping from a text that occurs in the prompt
    to such a list, or a function from a request to the next turn's text.

    >>> import asyncio
    >>> from kgwalk.llm.engine import Sampling
    >>> engine = ScriptedEngine(["<a>x</a> and more"])
    >>> request = Request([1], [], Sampling(stop=("</a>",)), session="s")
    >>> engine.tokens.decode(asyncio.run(engine.generate(request)).ids)
    '<a>x</a>'
    """

    exact = True
    at_once = 1 << 20

    def __init__(
        self,
        script: Sequence[str] | Mapping[str, Sequence[str]] | Callable[[Request], str],
        *,
        tokens: Tokenizer | None = None,
        context: int = 1 << 20,
    ) -> None:
        self._script = script
        self.tokens: Tokenizer = tokens or ByteTokenizer()
        self.context = context
        self._said: dict[str, int] = {}

    async def generate(self, request: Request) -> Generation:
        text = self._next(request)
        ids = self.tokens.encode(text)[: request.sampling.max_tokens]
        stop = first_stop(self.tokens, ids, request.sampling.stop)
        if stop is not None:
            return Generation(ids[:stop], [LOGPROB] * stop, "stop")
        if len(ids) == request.sampling.max_tokens:
            return Generation(ids, [LOGPROB] * len(ids), "length")
        ids.append(min(self.tokens.end_ids))
        return Generation(ids, [LOGPROB] * len(ids), "eos")

    def _next(self, request: Request) -> str:
        if callable(self._script):
            return self._script(request)
        turns = self._script
        if isinstance(turns, Mapping):
            prompt = "\n".join(message.content for message in request.messages)
            turns = next((lines for key, lines in turns.items() if key in prompt), ())
        at = self._said.get(request.session, 0)
        self._said[request.session] = at + 1
        if at >= len(turns):
            raise EngineError(f"the script has {len(turns)} turns and was asked for turn {at + 1}")
        return turns[at]

    async def forget(self, session: str) -> None:
        self._said.pop(session, None)

    async def close(self) -> None:
        self._said.clear()
