"""Silence: standard error belongs to the command line, not to the progress bars of a library."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def quiet() -> Iterator[None]:
    """No progress bars of transformers' own: standard error belongs to the command line."""
    from transformers import utils

    logging: Any = utils.logging  # untyped
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
