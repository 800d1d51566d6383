"""How tests start verl on a CPU: settings over those that `verl_config` makes, and the environment of its processes."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import kgwalk

CASE, REFERENCE, GRADIENT = "KGWALK_CASE", "KGWALK_REFERENCE", "KGWALK_GRADIENT"  # what verl_cpu.py looks for
OVERRIDES = (
    "trainer.device=cpu",
    "actor_rollout_ref.rollout.load_format=auto",
    "actor_rollout_ref.model.use_remove_padding=false",  # it needs kernels for a GPU
    "actor_rollout_ref.model.enable_gradient_checkpointing=false",
    "+actor_rollout_ref.model.override_config.attn_implementation=sdpa",
    "actor_rollout_ref.actor.use_torch_compile=false",
    "actor_rollout_ref.actor.fsdp_config.use_torch_compile=false",
    "actor_rollout_ref.ref.fsdp_config.use_torch_compile=false",
    "transfer_queue.backend.SimpleStorage.num_data_storage_units=1",
    "transfer_queue.backend.SimpleStorage.total_storage_size=1000",
    "ray_kwargs.ray_init.num_cpus=32",  # they are places for actors, most of which wait
    "+ray_kwargs.ray_init.include_dashboard=false",
    "+ray_kwargs.ray_init.num_gpus=2",  # nobody looks for them
    "+ray_kwargs.ray_init._node_ip_address=127.0.0.1",
    "+ray_kwargs.ray_init.object_store_memory=200_000_000",  # bytes; else a third of the machine's memory
)
# Values of a recipe: two processes that train, one that samples for both, one that walks.
TWO_PROCESSES = (
    "verl.gpus=2",
    "verl.rollout=torch_cpu",
    "verl.tensor_parallel=2",
    "verl.agents=1",
    "model.dtype=float32",
)
VARIABLES = {
    "VERL_USE_EXTERNAL_MODULES": "verl_cpu",
    "VERL_ENGINE_DEVICE": "cuda",  # verl's engines are registered by device, and none for a CPU
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "RAY_ADDRESS": "local",  # a Ray of its own, also where another one runs
    "RAY_AUTH_MODE": "token",  # Ray listens on all addresses; nobody else knows the token, and none is kept in the home
    "RAY_AUTH_TOKEN": secrets.token_hex(32),
    "RAY_DEDUP_LOGS": "0",
    "RAY_USAGE_STATS_ENABLED": "0",  # nothing is sent to Ray's makers
    "RAY_worker_niceness": "0",  # with Ray's 15 whatever else runs goes first, and a step takes many times as long
    "GLOO_SOCKET_IFNAME": "lo",
    "HYDRA_FULL_ERROR": "1",
    "PYTHONPATH": os.pathsep.join(map(str, (Path(kgwalk.__file__).parents[1], Path(__file__).parent))),
}
