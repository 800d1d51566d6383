"""Weights cut into shards, one for each process: FSDP2, as `accelerate launch --use_fsdp --fsdp_version 2` asks for.

A layer's weights are whole only while it computes; gradients and the optimiser's numbers are never whole. Passes,
gathering and cutting are done by all processes together: one that leaves a pass out leaves the others waiting. Knows
nothing of adapters, losses or files.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

import torch
from accelerate import PartialState
from accelerate.utils import FullyShardedDataParallelPlugin, gather_object, reduce
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from kgwalk.types import KgwalkError

Module = TypeVar("Module", bound=torch.nn.Module)


class Shards:
    """Of one model, once `cut` was called. Settings are accelerate's own (`FSDP_...` in the environment), but which
    parts are gathered at once is for the model to say: the layers that its family calls indivisible.
    """

    def __init__(self) -> None:
        version = os.environ.get("FSDP_VERSION", "1")  # accelerate's own default
        if version != "2":
            raise KgwalkError(
                f"sharded weights of FSDP {version} cannot be trained here, those of FSDP 2 can; "
                "give `accelerate launch` --fsdp_version 2 (or set FSDP_VERSION=2)"
            )
        # Every process reads the model, as its engine needs a whole one. By what `accelerate launch` sets, transformers
        # would leave all but the first with empty weights.
        plugin = FullyShardedDataParallelPlugin(cpu_ram_efficient_loading=False)
        if isinstance(plugin.cpu_offload, CPUOffloadPolicy):
            raise KgwalkError(
                "shards cannot be kept in the host's memory here; leave --fsdp_offload_params out (FSDP_OFFLOAD_PARAMS)"
            )
        self._again = bool(plugin.reshard_after_forward)  # gathered for the backward pass again, or kept until then
        self._root: Any = None

    @property
    def root(self) -> Any:
        """What was cut; None: nothing yet."""
        return self._root

    def cut(self, root: Module, layers: Iterable[str], *, device: str, dtype: str) -> None:
        """Cut `root`, whose forward is the pass, in place, and put the shards on `device`; `layers` names classes. Its
        weights were the same in all processes.
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
        # What belongs to no layer. Cut again after each pass, as else a pass without gradient would leave it whole, and
        # the next one would not see what was written into the shards.
        fully_shard(root, reshard_after_forward=True, **options)
        # It warns of changes in place in what a pass gives, and there are none.
        warnings.filterwarnings("ignore", message=f"FSDP2-wrapped module .{type(root).__name__}. returned a view")
        for part in _sharded(root):
            part.set_gradient_divide_factor(1.0)  # a sum over the processes, not a mean
            part.set_force_sum_reduction_for_comms(True)  # plain: gloo has no other
        self._root = root

    def settle(self) -> None:
        """Nothing is whole from here on: what a pass without a backward pass has gathered is dropped."""
        for part in _sharded(self._root):
            part.reshard()

    @contextmanager
    def whole_root(self) -> Iterator[None]:
        """Inside, what belongs to no layer is whole: parts of the root can be called by themselves. It has been called
        itself before.
        """
        self._root.unshard()
        try:
            yield
        finally:
            self.settle()

    def whole_in_turn(self, module: torch.nn.Module, names: Iterable[str]) -> Iterator[list[str]]:
        """All the names of weights of `module`, some at a time: while these are handled, they are whole."""
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
    """If whoever started the processes wants shards; one process alone has nothing to share."""
    wanted = os.environ.get("ACCELERATE_USE_FSDP", "false").lower() == "true"
    return Shards() if wanted and torch.distributed.is_initialized() else None


def whole(value: torch.Tensor) -> torch.Tensor:
    """Of all shards, by all processes; a tensor that is not cut, itself."""
    return value.full_tensor() if isinstance(value, DTensor) else value


@torch.no_grad()
def put(target: torch.Tensor, value: torch.Tensor) -> None:
    """In place: `value`, whole or in shards, becomes `target`'s, of which each process writes its own shard."""
    target.copy_(like(target, value))


def like(target: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """`value`, which every process has whole, cut as `target` is."""
    if not isinstance(target, DTensor) or isinstance(value, DTensor):
        return value
    local = value.to(target.to_local())
    # without a source each process cuts what it has itself
    return distribute_tensor(local, target.device_mesh, target.placements, src_data_rank=None)


def _sharded(root: torch.nn.Module) -> Iterator[FSDPModule]:
    return (part for part in root.modules() if isinstance(part, FSDPModule))


def _nearest(name: str, parts: Mapping[str, object]) -> str:
    """The part that a weight belongs to; none: that of the root.

    >>> _nearest("model.layers.1.mlp.up.weight", {"model.layers.1": 0, "model.layers.11": 0})
    'model.layers.1'
    >>> _nearest("model.norm.weight", {"model.layers.1": 0})
    ''
    """
    while name and name not in parts:
        name = name.rpartition(".")[0]
    return name


# ----------------------------------------------------------------------------------------------------
# The processes of one run: one, or as many as `accelerate launch` or `torchrun` started, on one machine.
#
# Each computes its share; what they sum or gather is the same in all of them. Knows nothing of models.


WAIT = timedelta(hours=12)  # for one another: the first one alone makes demonstrations


class Processes:
    """`device` is auto, cpu or cuda."""

    def __init__(self, device: str = "auto") -> None:
        on_cpu = device.startswith("cpu") or not torch.cuda.is_available()
        self._state = PartialState(cpu=on_cpu, timeout=WAIT)

    @property
    def count(self) -> int:
        return int(self._state.num_processes)

    @property
    def number(self) -> int:
        return int(self._state.process_index)

    @property
    def main(self) -> bool:
        """Whether this process writes files and speaks."""
        return self.number == 0

    def share(self, total: int) -> range:
        """Which of so many things are this process's to do: of 5, with two processes, 0, 2, 4 and 1, 3."""
        return range(self.number, total, self.count)

    def wait(self) -> None:
        """Until all have come here."""
        self._state.wait_for_everyone()

    def first(self, value: Any) -> Any:
        """What the first process says: the others may look too late, when it has gone on already."""
        return self.gathered([value])[0]

    def sum(self, value: torch.Tensor) -> torch.Tensor:
        if self.count == 1:
            return value
        summed: torch.Tensor = reduce(value, reduction="sum")
        return summed

    def gathered(self, values: list[Any]) -> list[Any]:
        """The lists of all processes, one after the other, in each of them."""
        if self.count == 1:
            return values
        found: list[Any] = gather_object(values)
        return found
