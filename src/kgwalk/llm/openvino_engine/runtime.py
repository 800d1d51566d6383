"""OpenVINO itself, imported in one place and kept from reporting its use.

Its package `openvino-telemetry` sends an event over the network with every import, unasked. An answer from a bundled
graph needs no network, so that package is made to look absent, which OpenVINO allows for.
"""

from __future__ import annotations

import sys

if "openvino" not in sys.modules:  # otherwise its importer has decided
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]

import openvino as ov
from openvino import opset13 as op

__all__ = ["op", "ov"]
