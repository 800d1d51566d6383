"""Variables from the file `.env` of the current folder, for the command line: a few by name, none that is set already.

Whoever wrote the folder may have written its `.env`. So it names no folder and no agent, which kgwalk would open and
trust, and no hub; and an address in it is not taken where the key that would be sent there is one's own.
SECURITY.md says what is promised.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, MutableMapping
from pathlib import Path

FILE_VARIABLE = "KGWALK_ENV_FILE"  # another file's path, or `none`
# An address, and the secret that is sent to it.
SENT_TO = {
    "OPENAI_BASE_URL": "OPENAI_API_KEY",
    "NEO4J_URI": "NEO4J_PASSWORD",
    "OTEL_EXPORTER_OTLP_ENDPOINT": "OTEL_EXPORTER_OTLP_HEADERS",
}
NAMES = {*SENT_TO, *SENT_TO.values(), "NEO4J_USERNAME", "NEO4J_DATABASE", "OTEL_SERVICE_NAME", "HF_TOKEN"}
NAMES |= {"HF_HUB_OFFLINE", "KGWALK_API_KEY", "KGWALK_GPU_SHARE", "KGWALK_WEB_RATE", "KGWALK_WEB_DAYS"}
MOST_BYTES = 65536
ASSIGNMENT = re.compile(
    r"""\s*(?:export\s+)?(\w+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'#][^\s#]*(?:\s+[^\s#]+)*)?)\s*(?:#.*)?"""
)

taken: list[str] = []  # by this process, for `kgwalk doctor`


def assignments(text: str) -> dict[str, str]:
    """The lines KEY=VALUE; any other line is left alone. Nothing in a value is expanded.

    >>> assignments("export A=1 # one\\nB='two # $A'\\n# C=3\\nD = four five\\nE=\\nnot a line")
    {'A': '1', 'B': 'two # $A', 'D': 'four five', 'E': ''}
    """
    found = (ASSIGNMENT.fullmatch(line) for line in text.splitlines())
    return {match[1]: match[2] or match[3] or match[4] or "" for match in found if match is not None}


def choose(assigned: Mapping[str, str], environment: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """What is taken, and the addresses that are not: the key that would be sent there is the environment's.

    >>> choose({"OPENAI_BASE_URL": "http://h/v1", "PATH": "/tmp"}, {})
    ({'OPENAI_BASE_URL': 'http://h/v1'}, [])
    >>> choose({"OPENAI_BASE_URL": "http://h/v1", "OPENAI_API_KEY": "theirs"}, {"OPENAI_API_KEY": "mine"})
    ({}, ['OPENAI_BASE_URL'])
    """
    wanted = {name: value for name, value in assigned.items() if name in NAMES and name not in environment}
    refused = [name for name in wanted if environment.get(SENT_TO.get(name, ""))]
    return {name: value for name, value in wanted.items() if name not in refused}, refused


def take_env_file(environment: MutableMapping[str, str]) -> list[str]:
    """Adds to the environment what its file says; what to tell about it, without values."""
    named = environment.get(FILE_VARIABLE) or ".env"
    path = Path(named)
    try:
        if named == "none" or not path.is_file():
            return []
        with path.open("rb") as file:
            text = file.read(MOST_BYTES + 1)
    except OSError as error:
        return [f"note: {named} cannot be read: {error.strerror}"]
    if len(text) > MOST_BYTES or b"\0" in text:
        return [f"note: {named} is no file of variables, and is left alone"]
    values, refused = choose(assignments(text.decode("utf-8-sig", errors="replace")), environment)
    environment.update(values)
    taken[:] = sorted(values)
    notes = [f"note: from {named}: {', '.join(taken)}"] if taken else []
    return notes + [
        f"note: {named}: {name} is not taken: your {SENT_TO[name]} would be sent there; set both in one place"
        for name in refused
    ]
