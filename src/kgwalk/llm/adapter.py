"""An adapter's folder, read without torch: the model it was made for, and the protocol it has learnt.

    films.kg.agent/adapter_config.json, adapter_model.safetensors   as peft writes them
    films.kg.agent/kgwalk.json                                      the card: recipe, protocol, data

Knows nothing of graphs, nor of where adapters lie.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import orjson

from kgwalk.types import EngineError

CONFIG, WEIGHTS, CARD = "adapter_config.json", "adapter_model.safetensors", "kgwalk.json"


@dataclass(frozen=True, slots=True)
class Adapter:
    """`base` is the model as training named it, `protocol` what it was trained to follow; "" where nobody says."""

    folder: Path
    base: str
    protocol: str


def is_adapter(folder: Path) -> bool:
    """Whether it looks like one; `read_adapter` says what is missing."""
    return (folder / CONFIG).is_file()


def read_adapter(folder: str | Path) -> Adapter:
    """What the folder says of itself; EngineError if it is no adapter."""
    place = Path(folder)
    if not place.is_dir():
        raise EngineError(f"there is no adapter's folder {place}")
    for name in (CONFIG, WEIGHTS):
        if not (place / name).is_file():
            raise EngineError(f"the adapter {place} has no {name}")
    card = _json(place / CARD) if (place / CARD).is_file() else {}
    protocol = card.get("protocol")
    base = card.get("base_model") or _json(place / CONFIG).get("base_model_name_or_path")
    return Adapter(place, str(base or ""), str(protocol.get("name", "")) if isinstance(protocol, dict) else "")


def _json(file: Path) -> dict[str, object]:
    try:
        found = orjson.loads(file.read_bytes())
    except (OSError, orjson.JSONDecodeError) as error:
        raise EngineError(f"{file} cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise EngineError(f"{file} must hold a JSON object, not a {type(found).__name__}")
    return found
