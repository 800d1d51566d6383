"""The command line in the test's own process, as the console script calls it: quick, since nothing is imported anew."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from kgwalk.cli.main import main


class Done(NamedTuple):
    status: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        """The one JSON object on stdout."""
        value = json.loads(self.stdout)
        assert isinstance(value, dict)
        return value


Cli = Callable[..., Done]


def caller(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    def call(*arguments: object) -> Done:
        monkeypatch.setattr(sys, "argv", ["kgwalk", *map(str, arguments)])
        capfd.readouterr()
        try:
            main()
            status = 0
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        return Done(status, *capfd.readouterr())

    return call
