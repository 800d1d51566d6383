"""The model that is trained: a causal language model, with a LoRA adapter inside or as a whole.

The engine that rolls out runs the same module or, on a GPU and with shards, a copy that new weights are written into;
nothing is read from disk again. The reference of the KL term is, with a new LoRA adapter, the same model with the
adapter off. If training goes on from an adapter, a copy of what learns is kept and put in place for the reference's
pass. `PartTimer` is the model's clock: where the seconds of a step go, on the host's clock or on the GPU's.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch.distributed.tensor import DTensor, distribute_tensor

from kgwalk.config.run_folder import read_json, write_json
from kgwalk.config.runtime import without_progress_bars
from kgwalk.llm.models import LoadedModel, adapter_scale, load_model, need, same_model
from kgwalk.training.settings import ModelSettings
from kgwalk.training.shards import Shards
from kgwalk.types import KgwalkError

if TYPE_CHECKING:
    from kgwalk.llm.tokenizers import HfTokenizer

ADAPTER, WHOLE, CARD = "adapter_model.safetensors", "model.safetensors", "kgwalk.json"
ONE_FILE = "1000TB"  # for transformers: a model is never cut into several files


class PolicyModel:
    """`start` is a folder that `save` wrote, to go on from; its weights must fit.

    A new adapter is drawn from `seed`, so that every process, and a run started again, has the same. With `shards` the
    weights are loaded into the host's memory and moved to the device by `cut`.
    """

    def __init__(
        self,
        settings: ModelSettings,
        *,
        device: str = "auto",
        start: Path | None = None,
        loaded: LoadedModel | None = None,
        seed: int = 0,
        shards: Shards | None = None,
    ) -> None:
        self.settings = settings
        self.shards = shards
        self.device = _device(device)
        self.dtype = _dtype(settings.dtype, self.device)
        if loaded is None:
            # Weights that are trained themselves stay in float32, so that small updates are not rounded away.
            stored = "float32" if settings.lora_rank == 0 else self.dtype
            loaded = load_model(settings.name, device=self.device if shards is None else "cpu", dtype=stored)
        self.name = loaded.name
        self.module: Any = loaded.module  # with the adapter's layers inside, if there is one
        self.tokens: HfTokenizer = loaded.tokens
        self._peft: Any = self._with_lora(seed) if settings.lora_rank else None
        self.clock = PartTimer(self.device)
        self.scorer: Any = None  # a TokenScorer for all stages of a run: it is probed, and perhaps compiled, once
        self._has_reference = False
        self._reference: dict[str, torch.Tensor] | None = None
        self._copy: Any = None  # the engine's, of weights in shards
        self.checkpointing = False
        if settings.checkpoint_activations is True:
            self.checkpoint_activations()
        if start is not None:
            self.load(start)

    @property
    def trained(self) -> Any:
        """The model with its adapter around it, if it has one."""
        return self.module if self._peft is None else self._peft

    def loaded(self) -> LoadedModel:
        """The model for the engine that rolls out.

        On a CPU it is the module itself. On a GPU it is a copy in the type that the model computes in, with the adapter
        added to its layers' weights, which the engine refreshes. With shards it is a copy that `gather` refreshes.
        """
        if self.shards is None and not self.device.startswith("cuda"):
            return LoadedModel(self.name, self.module, self.tokens)
        copy = load_model(self.name, device=self.device, dtype=self.dtype)
        copy.module.requires_grad_(False)
        self._refresh(copy.module)
        if self.shards is not None:
            self._copy = copy.module
            return LoadedModel(self.name, copy.module, self.tokens)
        return LoadedModel(self.name, copy.module, self.tokens, lambda: self._refresh(copy.module))

    def gather(self) -> None:
        """Gather the whole weights for this process's engine; without shards this does nothing.

        All processes must call it before a walk, also those that have nothing to walk.
        """
        if self._copy is not None:
            self._refresh(self._copy)
            if self.device.startswith("cuda"):
                torch.cuda.synchronize(self.device)  # the engine has a queue of its own

    def _refresh(self, copy: Any) -> None:
        """Write the current weights into a copy, in place, so that recorded passes stay valid."""
        weights = dict(copy.named_parameters())
        in_turn: Iterable[Iterable[str]] = [weights]
        if self.shards is not None and self.shards.root is not None:
            in_turn = self.shards.whole_in_turn(self.module, weights)
        with self.clock.device("sync"):
            layers = dict(self.module.named_modules())
            for names in in_turn:
                for name in names:
                    _copy_weight(weights[name], name, layers)

    def parameters(self) -> dict[str, torch.nn.Parameter]:
        """The parameters that learn, by name."""
        return {name: value for name, value in self.trained.named_parameters() if value.requires_grad}

    def cut(self, around: torch.nn.Module) -> None:
        """Cut the weights into shards. From then on the model is called through the module `around` it."""
        if self.shards is not None:
            layers = getattr(self.module, "_no_split_modules", None) or ()
            self.shards.cut(around, layers, device=self.device, dtype=self.dtype)

    def checkpoint_activations(self) -> None:
        """From now on activations are not kept for the backward pass, but computed again there."""
        self.checkpointing = True
        self.module.gradient_checkpointing_enable({"use_reentrant": False})
        # otherwise nothing below the adapter has a gradient to pass on
        self.module.enable_input_require_grads()  # type: ignore[no-untyped-call,unused-ignore]

    def keep_reference(self) -> None:
        """From now on the reference of the KL term is the model as it is now.

        An adapter that has learnt nothing yet needs no copy: switched off, it is the reference. Otherwise what learns
        is copied, a few megabytes with LoRA.
        """
        fresh = self._peft is not None and all(
            not whole(value.detach()).any() for name, value in self.parameters().items() if "lora_B" in name
        )
        self._reference = None if fresh else {name: value.detach().clone() for name, value in self.parameters().items()}
        self._has_reference = True

    @contextmanager
    def reference(self) -> Iterator[None]:
        """Inside, the model computes as its reference; no gradient may be taken across it."""
        if not self._has_reference:
            raise KgwalkError("there is no reference: `keep_reference` was not called")
        if self._reference is None:
            with self._peft.disable_adapter():
                yield
            return
        now = {name: value.detach().clone() for name, value in self.parameters().items()}
        self._put(self._reference)
        try:
            yield
        finally:
            self._put(now)

    def weights(self) -> dict[str, torch.Tensor]:
        """The weights that learn, by name, whole."""
        return {name: whole(value.detach()) for name, value in self.parameters().items()}

    def gathered(self, *, keep: bool) -> dict[str, torch.Tensor] | None:
        """With shards, the whole weights for `save`, on the host; empty unless `keep`. None without shards.

        All processes must call it.
        """
        if self.shards is None:
            return None
        values: Iterable[tuple[str, torch.Tensor]] = self.parameters().items()
        if self._peft is None:
            stored = self.module.state_dict().keys()
            both = chain(self.module.named_parameters(), self.module.named_buffers())
            values = [(name, value) for name, value in both if name in stored]  # tied ones once
        found = {}
        for name, value in values:
            one = whole(value.detach())
            if keep:
                found[name] = one.cpu()
        return found

    def load_weights(self, weights: dict[str, torch.Tensor], where: str) -> None:
        """Load the weights of a checkpoint; KgwalkError if they are another model's."""
        own = self.parameters()
        missing, strange = sorted(set(own) - set(weights)), sorted(set(weights) - set(own))
        if missing or strange:
            what = f"it lacks {missing[0]}" if missing else f"it has {strange[0]}, which this model has not"
            raise KgwalkError(f"{where} is of another model or adapter than {self.name}: {what}")
        for name, value in own.items():
            if value.shape != weights[name].shape:
                shapes = f"{tuple(weights[name].shape)}, not {tuple(value.shape)}"
                raise KgwalkError(f"{where} is of another model or rank: {name} is {shapes}")
        self._put(weights)

    @torch.no_grad()
    def _put(self, weights: dict[str, torch.Tensor]) -> None:
        """Write weights in place, so that all who hold the tensors see the new numbers."""
        for name, value in self.parameters().items():
            put(value, weights[name])

    def save(self, folder: Path, card: dict[str, Any], weights: dict[str, torch.Tensor] | None = None) -> None:
        """Write an adapter's folder as peft does, or a whole model's, with the tokenizer and `kgwalk.json`.

        `weights` are what `gathered` returned.
        """
        with without_progress_bars():
            # The embeddings are not trained. To see whether they grew, peft would look for the model on the hub.
            options: dict[str, Any] = {"save_embedding_layers": False}
            if self._peft is None:
                options = {"max_shard_size": ONE_FILE}
            if weights is not None:
                options["state_dict"] = weights
            self.trained.save_pretrained(str(folder), safe_serialization=True, **options)
        self.tokens.hf.save_pretrained(str(folder))
        write_json(folder / CARD, {"base_model": self.name, **card})
        if self._peft is not None:
            (folder / "README.md").unlink(missing_ok=True)  # peft's is a form to fill in; the run writes its own

    def load(self, folder: Path) -> None:
        """Load the weights that `save` wrote."""
        _check_base(folder, self.name)
        if self._peft is None:
            file = folder / WHOLE
            if not file.is_file():
                raise KgwalkError(f"{folder} has no {WHOLE}; with lora_rank = 0 a whole model is needed")
            weights = read_tensors(file)
            self.load_weights({name: weights[name] for name in self.parameters() if name in weights}, str(folder))
            return
        for name in (ADAPTER, "adapter_config.json"):
            if not (folder / name).is_file():
                raise KgwalkError(f"{folder} is no adapter: it has no {name}")
        self._check_scale(folder)
        # peft leaves the adapter's name out of the file; a parameter is called ...lora_A.default.weight
        weights = {_parameter(name): value for name, value in read_tensors(folder / ADAPTER).items()}
        self.load_weights(weights, str(folder))

    def _check_scale(self, folder: Path) -> None:
        """Raises if rank or alpha differ: B A x is scaled by alpha / rank, so it would be another model."""
        config = read_json(folder / "adapter_config.json")
        own = (self.settings.lora_rank, float(self.settings.lora_alpha))
        found = adapter_scale(folder)
        if found != own or config.get("use_rslora"):
            kind = " (rsLoRA)" if config.get("use_rslora") else ""
            raise KgwalkError(
                f"{folder} is an adapter of rank {found[0]} and alpha {found[1]:g}{kind}, and this run is of rank "
                f"{own[0]} and alpha {own[1]:g}; set model.lora_rank and model.lora_alpha to the adapter's"
            )

    def _with_lora(self, seed: int) -> Any:
        need("peft")
        from peft import LoraConfig, get_peft_model

        settings = self.settings
        self.module.name_or_path = self.name  # the adapter names its base by this: a name, not a path on this machine
        config = LoraConfig(
            r=settings.lora_rank,
            lora_alpha=settings.lora_alpha,  # type: ignore[arg-type,unused-ignore]
            lora_dropout=settings.lora_dropout,
            target_modules="all-linear",
            task_type="CAUSAL_LM",
            base_model_name_or_path=self.name,
        )
        with torch.random.fork_rng(devices=[self.module.device] if self.module.device.type == "cuda" else []):
            torch.manual_seed(seed)
            wrapped = get_peft_model(self.module, config)
        self.module.eval()  # peft's new layers start in training mode, in which dropout would act
        if self.dtype != "float32" and self.device.startswith("cuda"):  # on a CPU the engine runs this module, too
            # The adapter's weights are float32, and it would compute in float32: slower than the layer around it, and
            # with a copy of every input kept. Under autocast (`Updater`) it computes in the model's type.
            layers: list[Any] = [layer for layer in wrapped.modules() if hasattr(layer, "cast_input_dtype_enabled")]
            for layer in layers:
                layer.cast_input_dtype_enabled = False
        return wrapped


class PartTimer:
    """The seconds of a step's named parts; those with the same name add up.

    A GPU runs behind the program that feeds it, so what it computes is timed by events in its own queue, read when the
    step is over. A CPU does at once what it is told, so both kinds of part use the host's clock.
    """

    def __init__(self, device: str) -> None:
        self._on_gpu = device.startswith("cuda")
        self._device = device
        self._seconds: dict[str, float] = {}
        self._marks: list[tuple[str, Any, Any]] = []

    @contextmanager
    def host(self, name: str) -> Iterator[None]:
        """Time the program spends inside."""
        begun = time.perf_counter()
        try:
            yield
        finally:
            self._seconds[name] = self._seconds.get(name, 0.0) + time.perf_counter() - begun

    @contextmanager
    def device(self, name: str) -> Iterator[None]:
        """Time the device takes for what is asked of it inside."""
        if not self._on_gpu:
            with self.host(name):
                yield
            return
        stream = torch.cuda.current_stream(self._device)
        begun, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call,unused-ignore]
        begun.record(stream)  # type: ignore[no-untyped-call,unused-ignore]
        try:
            yield
        finally:
            ended.record(stream)  # type: ignore[no-untyped-call,unused-ignore]
            self._marks.append((name, begun, ended))

    def read(self, *names: str) -> dict[str, float]:
        """The seconds of each part so far, as `name_seconds`; then all start at 0 again. Waits for the device."""
        for name, begun, ended in self._marks:
            ended.synchronize()
            self._seconds[name] = self._seconds.get(name, 0.0) + begun.elapsed_time(ended) / 1000  # of milliseconds
        seconds, self._seconds, self._marks = self._seconds, {}, []
        return {f"{name}_seconds": seconds.get(name, 0.0) for name in names}


@torch.no_grad()
def _copy_weight(weight: torch.Tensor, name: str, layers: dict[str, Any]) -> None:
    """Copy the layers' weight of that name into `weight`, with what an adapter adds to it."""
    layer, _, kind = name.rpartition(".")
    own = layers[layer]
    base = getattr(own, "base_layer", own)
    value = getattr(base, kind)
    if base is not own and kind == "weight":
        value = value + own.get_delta_weight(own.active_adapters[0])
    weight.copy_(value)


# Tensors that may be in shards


def whole(value: torch.Tensor) -> torch.Tensor:
    """The whole tensor, gathered by all processes; a tensor that is not cut is returned as it is."""
    return value.full_tensor() if isinstance(value, DTensor) else value


@torch.no_grad()
def put(target: torch.Tensor, value: torch.Tensor) -> None:
    """Copy `value`, whole or in shards, into `target`; each process writes its own shard."""
    target.copy_(like(target, value))


def like(target: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """`value`, which every process has whole, cut as `target` is."""
    if not isinstance(target, DTensor) or isinstance(value, DTensor):
        return value
    local = value.to(target.to_local())
    # without a source rank each process cuts its own copy
    return distribute_tensor(local, target.device_mesh, target.placements, src_data_rank=None)


def read_tensors(file: Path) -> dict[str, torch.Tensor]:
    """The tensors of a safetensors file, by name."""
    try:
        return load_file(str(file))
    except (OSError, SafetensorError) as error:
        raise KgwalkError(f"{file} cannot be read: {error}; remove {file.parent} if there is an earlier one") from error


def _device(asked: str) -> str:
    if asked not in ("auto", "cuda"):
        return asked
    if asked == "auto" and not torch.cuda.is_available():
        return "cpu"
    local = os.environ.get("LOCAL_RANK")  # set by the launcher of several processes, one for each GPU
    return "cuda" if local is None else f"cuda:{local}"


def _dtype(asked: str, device: str) -> str:
    if device == "cpu":
        return "float32"  # the bf16 probe decides about bfloat16 in SFT (`Updater`)
    if asked != "auto":
        return asked
    return "bfloat16" if device.startswith("cuda") and torch.cuda.is_bf16_supported() else "float32"


def _parameter(name: str) -> str:
    return name.replace(".lora_A.weight", ".lora_A.default.weight").replace(".lora_B.weight", ".lora_B.default.weight")


def _check_base(folder: Path, name: str) -> None:
    card = folder / CARD
    if not folder.is_dir():
        raise KgwalkError(f"there is no folder {folder} to start from")
    if card.is_file():
        about = read_json(card)
        base = about.get("base_model") if isinstance(about, dict) else None
        if not isinstance(base, str) or not same_model(base, name):
            raise KgwalkError(f"{folder} was trained from {base}, and this run is of {name}")
