"""A trained ranker as a folder: `ranker.safetensors`, the weights, and `ranker.json`, the card.

The card says what the weights are (shape, neighbours, the text model whose vectors they read), what they were trained
on, and the figures. No pickle. Knows nothing of graphs and questions.
"""

from __future__ import annotations

import os
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import orjson

from kgwalk.tools.ranker.features import NUMBERS, Near
from kgwalk.tools.ranker.network import INPUTS, Network, Shape
from kgwalk.types import KgwalkError

WEIGHTS, CARD = "ranker.safetensors", "ranker.json"
KIND, VERSION = "kgwalk ranker", 1


def save_ranker(folder: Path, network: Network, near: Near, embedder: str, about: dict[str, Any]) -> dict[str, Any]:
    """Write both files, and return the card. `about` are the card's further entries."""
    from safetensors.torch import save

    card = {
        "kind": KIND,
        "version": VERSION,
        "embedder": embedder,
        "numbers": list(NUMBERS),
        "shape": asdict(network.shape),
        "near": asdict(near),
        "parameters": sum(value.numel() for value in network.parameters()),
        **about,
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder / WEIGHTS, save(network.state_dict()))
        _write(folder / CARD, orjson.dumps(card, option=orjson.OPT_INDENT_2) + b"\n")
    except OSError as error:
        raise KgwalkError(f"the ranker cannot be kept in {folder}: {error.strerror}") from error
    return card


def load_ranker(folder: str | Path) -> tuple[Network, Near, dict[str, Any]]:
    """The network, how many neighbours it looks at, and the card."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    card = read_card(folder)
    try:
        shape = Shape(**{field.name: card["shape"][field.name] for field in fields(Shape)})
        near = Near(**{field.name: card["near"][field.name] for field in fields(Near)})
        network = Network(shape)
        network.load_state_dict(load((Path(folder) / WEIGHTS).read_bytes()))
    except OSError as error:
        raise KgwalkError(f"cannot read the ranker's weights in {folder}: {error.strerror}") from error
    except (SafetensorError, KeyError, TypeError, RuntimeError) as error:
        raise KgwalkError(f"the ranker in {folder} is not whole: {error}; train it again") from error
    network.eval()
    return network, near, card


def read_card(folder: str | Path) -> dict[str, Any]:
    """The card of a ranker that this version can read."""
    path = Path(folder) / CARD
    try:
        card = orjson.loads(path.read_bytes())
    except OSError as error:
        hint = f"a ranker is a folder with {CARD}, made by `kgwalk rank train`"
        raise KgwalkError(f"no ranker in {folder}: {error.strerror}; {hint}") from error
    except orjson.JSONDecodeError as error:
        raise KgwalkError(f"{path} is not JSON: {error}; train the ranker again") from error
    if not isinstance(card, dict) or (card.get("kind"), card.get("version")) != (KIND, VERSION):
        raise KgwalkError(f"{path} is not the card of a {KIND} of version {VERSION}; train the ranker again")
    shape = card.get("shape")
    if card.get("numbers") != list(NUMBERS) or not isinstance(shape, dict) or shape.get("inputs") not in INPUTS:
        raise KgwalkError(f"the ranker in {folder} reads other inputs than this version makes; train it again")
    return card


def _write(path: Path, content: bytes) -> None:
    partial = path.with_name(f".{path.name}.partial")
    partial.write_bytes(content)
    os.replace(partial, path)
