"""Weights cut into a shard for each of several training processes.

Shards are FSDP2, as `accelerate launch --use_fsdp --fsdp_version 2` asks for: a layer's weights are whole only while it
computes, gradients and the optimiser's state never. Passes, gathering and cutting are done by all processes together:
if one leaves a pass out, the others wait for ever. `model` reads and writes tensors that are cut.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from accelerate.utils import FullyShardedDataParallelPlugin
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, FSDPModule, MixedPrecisionPolicy, fully_shard

from kgwalk.types import KgwalkError

Module = TypeVar("Module", bound=torch.nn.Module)


class Shards:
    """The shards of one model, once `cut` was called.

    Settings are accelerate's own (`FSDP_...` in the environment), except which parts are gathered at once: the layers
    that the model's family calls indivisible.
    """

    def __init__(self) -> None:
        version = os.environ.get("FSDP_VERSION", "1")  # accelerate's own default
        if version != "2":
            raise KgwalkError(
                f"sharded weights of FSDP {version} cannot be trained here, those of FSDP 2 can; "
                "give `accelerate launch` --fsdp_version 2 (or set FSDP_VERSION=2)"
            )
        # Every process loads the model, since its engine needs a whole one. With `accelerate launch`'s own setting
        # transformers would leave all processes but the first with empty weights.
        plugin = FullyShardedDataParallelPlugin(cpu_ram_efficient_loading=False)
        if isinstance(plugin.cpu_offload, CPUOffloadPolicy):
            raise KgwalkError(
                "shards cannot be kept in the host's memory here; leave --fsdp_offload_params out (FSDP_OFFLOAD_PARAMS)"
            )
        self._again = bool(plugin.reshard_after_forward)  # gather again for the backward pass, or keep until then
        self._root: Any = None

    @property
    def root(self) -> Any:
        """The module that was cut; None before."""
        return self._root

    def cut(self, root: Module, layers: Iterable[str], *, device: str, dtype: str) -> None:
        """Cut `root`, whose forward is the pass, in place, and put the shards on `device`.

        `layers` names the classes that are gathered as a whole. All processes must have the same weights before.
        """
        policy = MixedPrecisionPolicy(cast_forward_inputs=False)
        if dtype != "float32":  # gathered in the type that they are computed in; gradients add up in float32
            policy = MixedPrecisionPolicy(getattr(torch, dtype), torch.float32, cast_forward_inputs=False)
        kind = device.split(":")[0]
        options: dict[str, Any] = {
            "mesh": init_device_mesh(kind, (torch.distributed.get_world_size(),)),
            "mp_policy": policy,
        }
        found: list[torch.nn.Module] = [part for part in root.modules() if type(part).__name__ in layers]
        for layer in reversed(found):  # one inside another first
            fully_shard(layer, reshard_after_forward=self._again, **options)
        # What belongs to no layer. It is cut again after each pass: a pass without gradient would leave it whole, and
        # the next one would not see what was written into the shards.
        fully_shard(root, reshard_after_forward=True, **options)
        # torch warns of in-place changes to what a pass returns, and there are none.
        warnings.filterwarnings("ignore", message=f"FSDP2-wrapped module .{type(root).__name__}. returned a view")
        for part in _sharded(root):
            part.set_gradient_divide_factor(1.0)  # a sum over the processes, not a mean
            part.set_force_sum_reduction_for_comms(True)  # gloo has no other reduction
        self._root = root

    def settle(self) -> None:
        """Drop what a pass without a backward pass has gathered, so that nothing is whole."""
        for part in _sharded(self._root):
            part.reshard()

    @contextmanager
    def whole_root(self) -> Iterator[None]:
        """Inside, what belongs to no layer is whole, so that parts of the root can be called by themselves.

        The root itself must have been called before.
        """
        self._root.unshard()
        try:
            yield
        finally:
            self.settle()

    def whole_in_turn(self, module: torch.nn.Module, names: Iterable[str]) -> Iterator[list[str]]:
        """Yields the names of `module`'s weights, some at a time; those are whole until the next are asked for."""
        parts = {name: part for name, part in module.named_modules() if isinstance(part, FSDPModule)}
        own: dict[str, list[str]] = {}
        for name in names:
            own.setdefault(_nearest(name, parts), []).append(name)
        for part, some in own.items():
            unit = parts.get(part, self._root)
            unit.unshard()
            try:
                yield some
            finally:
                unit.reshard()


def asked_for() -> Shards | None:
    """Shards, if the launcher asked for them and there are several processes."""
    wanted = os.environ.get("ACCELERATE_USE_FSDP", "false").lower() == "true"
    return Shards() if wanted and torch.distributed.is_initialized() else None


def _sharded(root: torch.nn.Module) -> Iterator[FSDPModule]:
    return (part for part in root.modules() if isinstance(part, FSDPModule))


def _nearest(name: str, parts: Mapping[str, object]) -> str:
    """The part that a weight belongs to; '' is the root.

    >>> _nearest("model.layers.1.mlp.up.weight", {"model.layers.1": 0, "model.layers.11": 0})
    'model.layers.1'
    >>> _nearest("model.norm.weight", {"model.layers.1": 0})
    ''
    """
    while name and name not in parts:
        name = name.rpartition(".")[0]
    return name
