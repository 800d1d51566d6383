"""verl on a CPU, for tests: vLLM and SGLang need GPUs, and verl knows no platform without one.

Each process of verl imports this module (VERL_USE_EXTERNAL_MODULES). It brings a platform `cpu` over gloo, a rollout
engine `torch_cpu` (a model of transformers in an actor, one request after the other), and, where the environment names
a case of case.py, the agent loop `replay`, which hands out its recorded episodes, and a copy of the first gradient.
Nothing of the trainer, the workers, the estimator or the loss is replaced.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import ray
import torch
import verl.utils.distributed as verl_distributed
from verl.experimental.agent_loop.agent_loop import AgentLoopBase, register
from verl.plugin.platform.platform_base import PlatformBase
from verl.plugin.platform.platform_manager import PlatformRegistry, set_platform
from verl_process import CASE, GRADIENT, REFERENCE


class _Device:
    """`torch.cpu`, with what verl asks of `torch.cuda` besides."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in ("get_rng_state", "set_rng_state"):
            return getattr(torch.random, name)
        if name == "mem_get_info":
            return lambda *_: (psutil.virtual_memory().available, psutil.virtual_memory().total)
        if name == "get_device_name":
            return lambda *_: "CPU"
        if hasattr(torch.cpu, name):
            return getattr(torch.cpu, name)
        return lambda *_, **__: 0 if "memory" in name else None

    def is_available(self) -> bool:
        return True


@PlatformRegistry.register(platform="cpu")
class CpuPlatform(PlatformBase):
    device_name = property(lambda self: "cpu")
    vendor_name = property(lambda self: "cpu")
    device_module = property(lambda self: _Device())

    def is_available(self) -> bool:
        return True

    def is_platform_available(self, use_smi_check: bool = False) -> bool:
        return True

    def current_device(self) -> str:
        return "cpu"

    def device_count(self) -> int:
        return 1

    def set_device(self, index: int) -> None: ...

    def synchronize(self, index: int | None = None) -> None: ...

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        torch.manual_seed(seed)

    def set_allocator_settings(self, settings: str) -> None: ...

    def empty_cache(self) -> None: ...

    def get_device_capability(self, index: int = 0) -> tuple[None, None]:
        return None, None

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "KGWALK_VISIBLE_DEVICES"

    @contextmanager
    def nvtx_range(self, message: str) -> Iterator[None]:
        yield

    def profiler_start(self) -> None: ...

    def profiler_stop(self) -> None: ...

    def ray_resource_name(self) -> str:
        return "GPU"  # verl counts GPUs and NPUs alone

    def ray_noset_envvars(self) -> list[str]:
        return []

    def is_ipc_supported(self) -> bool:
        return False

    def cudart(self) -> None: ...


set_platform(CpuPlatform())
_begin_processes = verl_distributed.initialize_global_process_group_ray


def _over_gloo(timeout_second: int | None = None, backend: str | None = None) -> Any:
    """verl's own default would be `cpu:gloo,cpu:gloo`, which torch refuses."""
    return _begin_processes(timeout_second, backend or "cpu:gloo")


verl_distributed.initialize_global_process_group_ray = _over_gloo

from verl.workers.rollout import base as rollout_base  # noqa: E402 - after the platform
from verl.workers.rollout.replica import RolloutReplica, RolloutReplicaRegistry, TokenOutput  # noqa: E402


class TorchServer:
    """A model in an actor. Each `sampling_params` has `max_tokens` and `temperature`; stop texts are not looked for."""

    def __init__(self, path: str) -> None:
        from transformers import AutoModelForCausalLM

        torch.set_num_threads(1)
        torch.manual_seed(0)
        self.model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
        self.step: int | None = None

    async def generate(
        self, request_id: str, prompt_ids: list[int], sampling_params: dict[str, Any], **_: Any
    ) -> TokenOutput:
        temperature, most = sampling_params["temperature"], sampling_params["max_tokens"]
        given = torch.tensor([prompt_ids])
        with torch.no_grad():
            made = self.model.generate(
                given,
                attention_mask=torch.ones_like(given),
                max_new_tokens=most,
                do_sample=temperature > 0,
                temperature=temperature or None,
                top_k=0 if temperature else None,
                output_logits=True,
                return_dict_in_generate=True,
            )
        ids = made.sequences[0, len(prompt_ids) :]
        logits = torch.stack([one[0] for one in made.logits]) / (temperature or 1.0)
        logprobs = logits.log_softmax(-1).gather(-1, ids[:, None])[:, 0]
        return TokenOutput(
            token_ids=ids.tolist(),
            log_probs=logprobs.tolist(),
            stop_reason="completed",
            extra_fields={"global_steps": self.step},
        )

    async def load(self, weights: dict[str, torch.Tensor], step: int) -> None:
        found = self.model.load_state_dict(weights, strict=False)
        assert not found.unexpected_keys, found.unexpected_keys
        self.step = step

    async def nothing(self, *_: Any, **__: Any) -> None: ...

    wake_up = sleep = abort_all_requests = resume_generation = clear_kv_cache = nothing
    release_kv_cache = resume_kv_cache = start_profile = stop_profile = nothing


class TorchReplica(RolloutReplica):
    async def launch_servers(self) -> None:
        name = f"torch_cpu_{self.replica_rank}"
        made = ray.remote(TorchServer).options(name=name, num_cpus=0, max_concurrency=64)
        server = made.remote(self.model_config.path)
        await server.nothing.remote()
        self.servers, self._server_handle, self._server_address = [server], server, name


class TorchRollout(rollout_base.BaseRollout):
    """Lives in a training process; all of them gather the weights, and the first feeds the server."""

    async def resume(self, tags: Any) -> None: ...

    async def release(self) -> None: ...

    async def update_weights(self, weights: Any, global_steps: int | None = None, **_: Any) -> None:
        found = {}
        if hasattr(weights, "__aiter__"):
            async for name, value in weights:
                found[name] = value.detach().cpu().clone()
        else:
            for name, value in weights:
                found[name] = value.detach().cpu().clone()
        if os.environ["RANK"] == "0":
            await ray.get_actor("torch_cpu_0").load.remote(found, global_steps)


RolloutReplicaRegistry.register("torch_cpu", lambda: TorchReplica)
rollout_base._ROLLOUT_REGISTRY[("torch_cpu", "async")] = "verl_cpu.TorchRollout"


def _leave_memory_unpinned() -> None:
    """verl keeps the weights of its reference in pinned memory, which only a GPU's driver has."""
    from torch.distributed.fsdp import CPUOffloadPolicy
    from verl.workers.engine.fsdp import transformer_impl

    transformer_impl.CPUOffloadPolicy = lambda pin_memory: CPUOffloadPolicy(pin_memory=False)


_leave_memory_unpinned()


# A recorded case instead of walks


@register("replay")
class ReplayLoop(AgentLoopBase):
    """Hands out the episodes of a case: the row's number is the group, verl's session the rollout in it."""

    async def run(self, sampling_params: dict[str, Any], **given: Any) -> Any:
        from case import read_case

        from kgwalk.training.backends.verl_walk import WalkOutput

        _, groups, _ = read_case(Path(os.environ[CASE]))
        one = groups[int(given["extra_info"]["number"])][int(given["session_id"])]
        if not one.trainable:
            return []
        return WalkOutput.of(one, closing_id=self.tokenizer.eos_token_id)


def _keep_first_gradient() -> None:
    """Before an update, before its gradient is clipped, write the whole gradient and the number of processes."""
    from safetensors.torch import save_file
    from verl.workers.engine.fsdp.transformer_impl import FSDPEngine

    step = FSDPEngine.optimizer_step

    def keeping(self: Any) -> Any:
        path = Path(os.environ[GRADIENT])
        gradients = {name: value.grad.full_tensor() for name, value in self.module.named_parameters()}
        if torch.distributed.get_rank() == 0 and not path.exists():
            about = {"processes": str(torch.distributed.get_world_size()), "engine": type(self.module).__name__}
            save_file({name: value.contiguous() for name, value in gradients.items()}, str(path), about)
        return step(self)

    FSDPEngine.optimizer_step = keeping


def _take_another_reference() -> None:
    """verl's reference is the model that it starts from; the case has one that was moved."""
    from verl.workers import engine_workers

    def moved(config: Any) -> Any:
        made = copy.deepcopy(config)
        object.__setattr__(made, "local_path", os.environ[REFERENCE])  # verl freezes its configurations
        return made

    engine_workers.deepcopy = moved


if GRADIENT in os.environ:
    _keep_first_gradient()
if REFERENCE in os.environ:
    _take_another_reference()
