"""The training pass of a processor: frozen weights in bfloat16, layers as few large kernels.

On a processor that multiplies 16-bit numbers faster (the bf16 probe), a pass under autocast casts every frozen weight
to bfloat16 anew in each microbatch. `HostPass` keeps a copy in bfloat16 instead and puts it in place for the time of an
update; what walks between updates runs the same module, and finds its own weights in float32. Inside, layers may run
compiled, too: what stands between products (normalisation, rotation, gating) is then a few loops over memory, not
dozens. Rows stay as they are: attention by blocks (`fused`) has no gradient on a processor.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import Any

import torch

from kgwalk.training import fused
from kgwalk.training.logprobs import TokenScorer, TokenScores
from kgwalk.training.microbatch import Batch, collate, plain_of
from kgwalk.training.probes import (
    ScoresAndGradients,
    compiled_alike,
    new_adapter,
    probe_sequences,
    weighed_gradients,
)

log = logging.getLogger(__name__)


class HostPass:
    """How a scorer's model computes inside `inside()`; outside, the module is as it was.

    `half`: in bfloat16, from copies of the weights that do not learn (half of their memory more). `compiled`: layers
    are compiled with torch.compile's `options`, if there is a C++ compiler and a few tokens have the same numbers and
    gradients so.
    """

    def __init__(self, scorer: TokenScorer, *, half: bool, compiled: bool, **options: Any) -> None:
        self.half = half
        self._weights = [
            (weight, weight.data, weight.data.bfloat16())
            for weight in (scorer.model.parameters() if half else ())
            if weight.dtype == torch.float32 and not weight.requires_grad
        ]
        self._layers: list[tuple[Any, Callable[..., Any]]] = []
        if compiled:
            self._layers = self._compiled(scorer, options)

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Forward and backward pass belong into one: the backward pass reads the weights again."""
        for weight, _, narrow in self._weights:
            weight.data = narrow
        for layer, compiled in self._layers:
            layer._compiled_call_impl = compiled
        try:
            yield
        finally:
            for weight, wide, _ in self._weights:
                weight.data = wide
            for layer, _ in self._layers:
                layer._compiled_call_impl = None

    def precision(self) -> contextlib.AbstractContextManager[Any]:
        """The type of the forward pass; the backward pass follows it."""
        return torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.half)

    def _compiled(self, scorer: TokenScorer, options: dict[str, Any]) -> list[tuple[Any, Callable[..., Any]]]:
        """The layers with what runs in their place; none if that cannot be compiled or computes something else."""
        plain = plain_of(scorer.model)
        torch._dynamo.config.recompile_limit = max(fused.PROGRAMS, torch._dynamo.config.recompile_limit)
        plain.get_input_embeddings().register_forward_hook(fused.learn_through)
        layers = [
            (layer, torch.compile(layer._call_impl, dynamic=True, **options)) for layer in plain.get_decoder().layers
        ]
        try:
            with new_adapter(scorer.model):
                expected = self._probed(scorer)
                self._layers = layers
                found = self._probed(scorer)
            if compiled_alike([found], [expected], torch.bfloat16 if self.half else torch.float32):
                return layers
        except Exception as error:  # noqa: BLE001 - whatever the compiler raises, the pass works without it
            log.warning("this model cannot be compiled (%s); its layers are run as written", str(error).split("\n")[0])
        return []

    def _probed(self, scorer: TokenScorer) -> ScoresAndGradients:
        """Three rows of a few tokens: the compiler takes any other number and length of rows for the same program."""

        def score(batch: Batch) -> torch.Tensor:
            with self.precision():
                return TokenScores(*scorer(batch)).logprobs_BT

        with self.inside():
            return weighed_gradients(scorer.model, score, collate(probe_sequences(scorer.model), None, 0))
