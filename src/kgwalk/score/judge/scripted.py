"""Replies of a judge for tests and documents: the form that a prompt ends with, filled in.

    engine = ScriptedEngine(lambda request: reply_to(request, {"correct": 1}))

Knows the form and nothing else of the prompt.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from kgwalk.llm.engine import Request

_KEY = re.compile(r'"key": "([0-9a-f]+)"\}\s*$')


def key_of(request: Request) -> str:
    """The key that the prompt asks for."""
    found = _KEY.search(request.messages[-1].content)
    if found is None:
        raise ValueError("the request is not a judge's: it does not end with the form of a verdict")
    return found.group(1)


def reply_to(request: Request, verdict: Mapping[str, Any], reasons: str = "") -> str:
    """A reply with this verdict, in the form that is asked for."""
    line = json.dumps({"verdict": dict(verdict), "key": key_of(request)})
    return f"{reasons}\n{line}" if reasons else line
