"""The examples in the docstrings of data, run as they stand."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

from kgwalk import data

MODULES = [found.name for found in pkgutil.walk_packages(data.__path__, "kgwalk.data.")]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0
