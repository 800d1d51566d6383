"""The examples in the docstrings of kg, run as they stand."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

from kgwalk import kg

MODULES = [found.name for found in pkgutil.walk_packages(kg.__path__, "kgwalk.kg.")]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0
