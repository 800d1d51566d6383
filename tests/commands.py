"""The command line in the test's own process, as the console script calls it: quick, since nothing is imported anew."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest

from kgwalk.cli.main import main

SCRIPT = Path(sys.executable).with_name("kgwalk")
# As on a plain wide terminal, whatever runs the tests: some settings make typer colour and wrap its messages.
ENVIRONMENT = {k: v for k, v in os.environ.items() if k not in ("FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS")}
# no test depends on the agent that comes with kgwalk, or on a .env of the folder where it runs
ENVIRONMENT |= {"COLUMNS": "200", "TERM": "dumb", "KGWALK_AGENT": "none", "KGWALK_ENV_FILE": "none"}
ENVIRONMENT.pop("KGWALK_API_KEY", None)


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


def quickly(*arguments: str | Path, cwd: Path) -> Done:
    """The same in this process, where speed matters: a process of its own takes half a second."""
    stdout, stderr = (io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(2))
    with (
        contextlib.chdir(cwd),
        contextlib.redirect_stdout(stdout),
        contextlib.redirect_stderr(stderr),
        patch.dict(os.environ, ENVIRONMENT, clear=True),
        patch.object(sys, "argv", ["kgwalk", *map(str, arguments)]),
    ):
        try:
            main()
            status: object = 0
        except SystemExit as end:
            status = end.code or 0
    texts = []
    for stream in (stdout, stderr):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode())  # type: ignore[attr-defined]
    assert isinstance(status, int)
    return Done(status, *texts)
