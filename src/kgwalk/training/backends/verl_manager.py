"""The processes that walk for verl, watched: one that dies loses its walks and is replaced, and the run goes on.

verl hands questions to these processes and waits until all their walks are stored. It does not look whether a process
is still there: when one is killed, or the system kills it for its memory, verl waits for ever. `WatchedAgentLoops` is
verl's own manager (`rollout.agent.agent_loop_manager_class` names it), and looks. Groups that the process had under way
are given up: what was stored of them is trained on, the rest is lost, and recorded (`lost.jsonl` in verl's folder).
"""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import ray
import transfer_queue
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopManagerTQ

from kgwalk.config.run_folder import RowFile
from kgwalk.training.backends.verl_credit import NAME
from kgwalk.training.backends.verl_job import STAGE, VERL

log = logging.getLogger(__name__)

EVERY = 2.0  # seconds between looks
UNDER_WAY = ("pending", "running")
LOST = "lost.jsonl"


class WatchedAgentLoops(AgentLoopManagerTQ):  # type: ignore[misc,unused-ignore]  # verl has no types
    """Remembers which groups each process was given last."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._groups: dict[int, tuple[str, list[str]]] = {}  # of process number n: the partition, and its groups
        self._thread = threading.Thread(target=self._watch, name="kgwalk-watch", daemon=True)

    def generate_sequences(self, prompts: Any) -> None:
        """Hand out a step's questions. verl cuts them into as many parts as there are processes."""
        partition = "val" if prompts.get("validate") else "train"
        parts = prompts.chunk(len(self.agent_loop_workers))
        self._groups = {number: (partition, [str(uid) for uid in part["uid"]]) for number, part in enumerate(parts)}
        super().generate_sequences(prompts)
        if not self._thread.is_alive():
            self._thread.start()

    def _watch(self) -> None:
        while True:
            time.sleep(EVERY)
            for number, worker in enumerate(self.agent_loop_workers):
                try:
                    ray.get(worker.__ray_ready__.remote(), timeout=EVERY)
                except ray.exceptions.GetTimeoutError:
                    continue  # it is busy
                except ray.exceptions.RayActorError as error:
                    self._replace(number, str(error).strip().splitlines()[0])

    def _replace(self, number: int, why: str) -> None:
        """Start another process in its place, then tell verl not to wait for what it had."""
        made = self.agent_loop_workers_class.options(name=f"agent_loop_worker_{number}_{uuid4().hex[:8]}")
        self.agent_loop_workers[number] = made.remote(
            self.config, self.llm_client, self.teacher_client, self.reward_loop_worker_handles
        )
        partition, groups = self._groups.get(number, ("train", []))
        stored = (transfer_queue.kv_list(partition) or {}).get(partition, {})
        lost = [group for group in groups if stored.get(group, {}).get("status") in UNDER_WAY]
        # A walk is KEY_ROLLOUT_0 in the queue, and has its length once all of it is stored.
        halves = [key for key, tag in stored.items() if key.split("_")[0] in lost and key not in lost]
        halves = [key for key in halves if "seq_len" not in stored[key]]
        log.error("process %d of those that walk died (%s); %d groups are given up", number, why, len(lost))
        folder = Path(str(self.config[NAME].folder)) / STAGE / VERL
        with RowFile(folder / LOST) as rows:
            about = {"process": number, "why": why, "partition": partition, "time": time.time()}
            rows.add({**about, "groups": lost, "half_stored": halves})
        if halves:
            transfer_queue.kv_clear(keys=halves, partition_id=partition)
        if lost:
            transfer_queue.kv_batch_put(keys=lost, partition_id=partition, tags=[{"status": "failure"}] * len(lost))
