"""How much an episode may use of each thing; each bound has its own StopReason."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Budget:
    """Tokens are the engine's."""

    turn_tokens: int = 256  # of one turn of the model's
    observation_tokens: int = 512
    total_tokens: int = 8192  # prompt, turns and observations together; the engine's context if that is less
    seconds: float = 600.0  # wall time of an episode
    tool_retries: int = 1  # a tool whose backend fails is tried again so often
    at_once: int = 1024  # episodes under way at the same time
    threads: int = 32  # calls to slow tools (a remote graph, the web) at the same time
