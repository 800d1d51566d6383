"""Who may ask: the API key, and the rule that a server without one stays on this machine.

Knows nothing of routes.
"""

from __future__ import annotations

import hmac
import ipaddress
import os
from collections.abc import Iterable
from pathlib import Path

from kgwalk.serve.settings import ServeSettings
from kgwalk.types import KgwalkError

KEY_VARIABLE = "KGWALK_API_KEY"


def read_key(path: Path | None = None) -> str | None:
    """The key in a file, or else in KGWALK_API_KEY; None where there is neither."""
    if path is None:
        return os.environ.get(KEY_VARIABLE, "").strip() or None
    try:
        key = path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise KgwalkError(f"cannot read the API key from {path}: {error}") from error
    if not key:
        raise KgwalkError(f"{path} holds no API key; write one line of text into it")
    return key


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address; a name other than localhost could mean anything."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_bind(settings: ServeSettings) -> None:
    """Refuse to listen to a network without a key, unless that was asked for."""
    if settings.api_key is None and not settings.insecure and not is_loopback(settings.host):
        raise KgwalkError(
            f"{settings.host or 'every address'} can be reached from other machines, and no API key is set.\n"
            f"  Set {KEY_VARIABLE} or pass --api-key-file FILE; clients send `Authorization: Bearer KEY`.\n"
            "  Or listen on 127.0.0.1, or pass --insecure to serve everyone."
        )


def authorized(headers: Iterable[tuple[bytes, bytes]], key: bytes) -> bool:
    """Whether the headers carry `Authorization: Bearer KEY`, in the same time for any wrong key."""
    for name, value in headers:
        if name == b"authorization":
            scheme, _, given = value.partition(b" ")
            return scheme.lower() == b"bearer" and hmac.compare_digest(given.strip(), key)
    return False
