"""A graph of `export` run by OpenVINO over a cache of blocks: any sequences in one pass, each with tokens of its own.

The blocks lie in tensors of ours, one for keys and one for values a layer, which the runtime reads and writes in place;
which blocks a sequence has, the caller says with every pass. Knows nothing of requests, sessions or sampling.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
from numpy.typing import NDArray
from openvino import opset13 as op

from kgwalk.llm.torch_engine.slots import common_length
from kgwalk.types import EngineError

# ----------------------------------------------------------------------------------------------------
# OpenVINO itself, imported in one place and kept from reporting its use.
#
# Its package `openvino-telemetry` sends an event over the network with every import, unasked. An answer from a bundled
# graph needs no network, so that package is made to look absent, which OpenVINO provides for. Knows nothing of models.


if "openvino" not in sys.modules:  # else whoever imported it has decided
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]

__all__ = ["op", "ov"]


Pass = tuple[Sequence[int], int, Sequence[int]]  # new tokens, the position of the first of them, blocks up to the last


class PagedModel:
    """`model` is such a graph, or the .xml file of one. `threads` 0 leaves their number to the runtime.

    Sums are made in float32, whatever the processor could do: log-probabilities are to be those of the weights.
    """

    def __init__(self, model: ov.Model | Path, *, threads: int = 0) -> None:
        core = ov.Core()
        try:
            graph = core.read_model(model) if isinstance(model, Path) else model
            _to_paged(graph)
            _keep_rows(graph)
            self._compiled = core.compile_model(graph, "CPU", _settings(threads))
        except RuntimeError as error:
            raise EngineError(f"OpenVINO {ov.__version__} cannot run the model: {_first_line(error)}") from error
        self._request = self._compiled.create_infer_request()
        self._stores = [one for one in self._compiled.inputs if "_cache." in one.get_any_name()]
        self.size = int(self._stores[0].get_partial_shape()[2].get_length())  # tokens a block
        self.blocks = 0
        self.release()

    def release(self) -> None:
        """Give the cache's memory back."""
        self._tensors: dict[str, Any] = {}
        self.blocks = 0
        self.reserve(1)

    def reserve(self, blocks: int) -> None:
        """Room for so many blocks; what they hold stays."""
        if blocks <= self.blocks:
            return
        for store in self._stores:
            name, shape = store.get_any_name(), store.get_partial_shape()
            sizes = [shape[axis].get_length() for axis in (1, 2, 3)]
            larger = ov.Tensor(store.get_element_type(), ov.Shape([blocks, *sizes]))
            larger.data[self.blocks :] = 0  # what was in that memory may be no numbers, and 0 x NaN is NaN
            if self.blocks:
                larger.data[: self.blocks] = self._tensors[name].data
            self._tensors[name] = larger
            self._request.set_tensor(name, larger)
        self.blocks = blocks

    def wipe(self, blocks: Sequence[int]) -> None:
        """No trace of what was there, NaN included."""
        for tensor in self._tensors.values():
            tensor.data[list(blocks)] = 0

    def forward(self, rows: Sequence[Pass], wanted: Sequence[int] | None = None) -> NDArray[np.float32]:
        """Logits (P, V) after the last `wanted` new tokens of each row, the last one unless told, row after row. They
        are the caller's own.
        """
        wanted = [1] * len(rows) if wanted is None else wanted
        ends = np.cumsum([len(ids) for ids, _, _ in rows])
        lengths = [start + len(ids) for ids, start, _ in rows]
        used = [list(blocks[: -(-length // self.size)]) for (_, _, blocks), length in zip(rows, lengths, strict=True)]
        places = [np.arange(start, start + len(ids)) for ids, start, _ in rows]
        self._set("input_ids", np.concatenate([np.asarray(ids) for ids, _, _ in rows]), np.int64)
        self._set("position_ids", np.concatenate(places), np.int64)
        self._set("past_lens", np.array([start for _, start, _ in rows]), np.int32)
        self._set("subsequence_begins", np.array([0, *ends]), np.int32)
        self._set("block_indices", np.concatenate([np.asarray(blocks) for blocks in used]), np.int32)
        self._set("block_indices_begins", np.cumsum([0, *map(len, used)]), np.int32)
        self._set("max_context_len", np.array(max(lengths)), np.int32)
        asked = [np.arange(end - count, end) for end, count in zip(ends, wanted, strict=True)]
        self._set("rows", np.concatenate(asked), np.int64)
        self._request.infer()
        logits: NDArray[np.float32] = self._request.get_tensor("logits").data
        return logits.reshape(sum(wanted), -1).copy()

    def _set(self, name: str, values: NDArray[Any], kind: Any) -> None:
        self._request.set_tensor(name, ov.Tensor(np.asarray(values, dtype=kind)))


def _settings(threads: int) -> dict[str, Any]:
    chosen = {"INFERENCE_NUM_THREADS": threads} if threads else {}
    return {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
        "KV_CACHE_PRECISION": "f32",
        "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0,
        **chosen,
    }


def _to_paged(model: ov.Model) -> None:
    try:
        # The one name here that OpenVINO does not document; its GenAI pipelines and vLLM's plugin stand on it.
        from openvino._offline_transformations import paged_attention_transformation
    except ImportError as error:
        raise EngineError(f"OpenVINO {ov.__version__} has no paged attention; the engine cpu knows 2026.4") from error
    paged_attention_transformation(model)
    model.validate_nodes_and_infer_types()


def _keep_rows(model: ov.Model) -> None:
    """Logits of the wanted tokens alone: a fifth of a small model's work, and a prompt has hundreds of them."""
    node = model.output("logits").get_node().input_value(0).get_node()
    while node.get_type_name() != "MatMul":
        node = node.input_value(0).get_node()
    rows = op.parameter([-1], np.int64, name="rows")
    rows.output(0).set_names({"rows"})
    wanted = op.gather(node.input_value(0), rows, op.constant(0, np.int64))
    node.input(0).replace_source_output(wanted.output(0))
    model.add_parameters([rows])
    model.validate_nodes_and_infer_types()


def _first_line(error: RuntimeError) -> str:
    lines = [line for line in str(error).splitlines() if line and not line.startswith("Exception from")]
    return lines[0] if lines else str(error)


# ----------------------------------------------------------------------------------------------------
# Which blocks of the cache hold what: sessions, their tokens, beginnings that several share, and who must go.
#
# The cache is a pool of blocks of a fixed number of tokens. A sequence has a list of them; a full block may stand in
# several lists, since what it holds depends only on the tokens up to its end. Nothing is ever copied: a sequence that
# would write into a block that others have computes its tokens anew in one of its own. Knows nothing of tensors.


FIRST = 64  # blocks that there are at least: room for the beginnings of several kinds of prompt


@dataclass(slots=True, eq=False)
class Held:
    """`ids` are the tokens whose keys and values lie in `blocks`, which may have room for more."""

    session: str = ""
    ids: list[int] = field(default_factory=list)
    blocks: list[int] = field(default_factory=list)
    busy: bool = True
    used: int = 0  # when it was last at work, counted in takes


class BlockTable:
    """At most `most` blocks of `size` tokens; `count` of them have been wanted so far.

    >>> table = BlockTable(size=4, most=8)
    >>> one = table.take("one", [1, 2, 3, 4, 5, 6], room=8)
    >>> one.blocks, one.ids
    ([0, 1], [])
    >>> one.ids = [1, 2, 3, 4, 5, 6]  # computed
    >>> two = table.take("two", [1, 2, 3, 4, 9, 9], room=8)
    >>> two.blocks, two.ids  # the first block is shared, the second is its own
    ([0, 2], [1, 2, 3, 4])
    """

    def __init__(self, size: int, most: int) -> None:
        self.size, self.most, self.count = size, most, 0
        self.held: list[Held] = []
        self._sessions: dict[str, Held] = {}
        self._free: list[int] = []
        self._users: dict[int, int] = {}  # of each block in use: in how many lists it stands
        self._takes = 0

    def take(self, session: str, ids: Sequence[int], room: int) -> Held | None:
        """A sequence to work with: blocks for `room` tokens, and in `ids` what of the request's is there already,
        which is never all of them: the last one's logits are wanted. None if there are no blocks now.
        """
        found = self.of(session)
        offer = self.best(ids)
        if found is None or (offer is not found and self._whole(offer, ids) > common_length(found.ids, ids)):
            found = self._borrow(offer, ids, found)
        self._trim(found, min(common_length(found.ids, ids), len(ids) - 1))
        found.busy = True  # so that it is not dropped for its own blocks
        missing = -(-room // self.size) - len(found.blocks)
        if not self._supply(missing):
            found.busy = False
            if not found.session:
                self._drop(found)
            return None
        for _ in range(missing):
            found.blocks.append(self._free.pop())
            self._users[found.blocks[-1]] = 1
        if session and session not in self._sessions:
            found.session = session
            self._sessions[session] = found
        self._takes += 1
        found.used = self._takes
        return found

    def of(self, session: str) -> Held | None:
        """What the session kept, if it is not at work."""
        found = self._sessions.get(session) if session else None
        return None if found is None or found.busy else found

    def best(self, ids: Sequence[int]) -> Held | None:
        """The sequence that begins most like ids; None if there is none."""
        return max(self.held, key=lambda one: common_length(one.ids, ids), default=None)

    def shared(self, ids: Sequence[int]) -> int:
        """How many of the first tokens of ids a new sequence would not have to compute."""
        return self._whole(self.best(ids), ids)

    def release(self, one: Held) -> None:
        """Its work is done; blocks that it did not fill are free again."""
        one.busy = False
        self._trim(one, len(one.ids))
        if not one.ids:
            self._drop(one)

    def forget(self, session: str) -> None:
        """What it held stays until its blocks are wanted: others may begin alike."""
        found = self._sessions.pop(session, None)
        if found is not None:
            found.session = ""

    def clear(self) -> None:
        for one in list(self.held):
            self._drop(one)

    def _whole(self, one: Held | None, ids: Sequence[int]) -> int:
        common = 0 if one is None else min(common_length(one.ids, ids), len(ids) - 1)
        return common - common % self.size

    def _borrow(self, offer: Held | None, ids: Sequence[int], instead: Held | None) -> Held:
        """A new sequence that begins with another's full blocks, in place of what its session had."""
        whole = self._whole(offer, ids)
        new = Held(ids=list(ids[:whole]), blocks=[] if offer is None else offer.blocks[: whole // self.size])
        for block in new.blocks:
            self._users[block] += 1
        self.held.append(new)
        if instead is not None:
            self._drop(instead)
        return new

    def _trim(self, one: Held, length: int) -> None:
        """Only the first `length` tokens hold; fewer, if the next ones would be written where others read."""
        inside = length % self.size
        if inside and self._users[one.blocks[length // self.size]] > 1:
            length -= inside
        del one.ids[length:]
        keep = -(-length // self.size)
        self._give_back(one.blocks[keep:])
        del one.blocks[keep:]

    def _supply(self, wanted: int) -> bool:
        """Free blocks: from sequences that are over, else new ones, else from the sessions idle for longest."""
        while len(self._free) < wanted:
            idle = [one for one in self.held if not one.busy]
            over = [one for one in idle if not one.session]
            if over:
                self._drop(min(over, key=lambda one: one.used))
            elif self.count < self.most:
                new = min(max(wanted - len(self._free), self.count, FIRST), self.most - self.count)
                self._free = [*range(self.count + new - 1, self.count - 1, -1), *self._free]
                self.count += new
            elif idle:
                self._drop(min(idle, key=lambda one: one.used))
            else:
                return False
        return True

    def _drop(self, one: Held) -> None:
        if one.session:
            del self._sessions[one.session]
        self.held.remove(one)
        self._give_back(one.blocks)
        one.blocks, one.ids, one.session = [], [], ""

    def _give_back(self, blocks: Sequence[int]) -> None:
        for block in reversed(blocks):
            self._users[block] -= 1
            if not self._users[block]:
                del self._users[block]
                self._free.append(block)
