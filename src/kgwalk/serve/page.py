"""GET /: one HTML page (page.html) that asks questions of the server it comes from.

It is one file and loads nothing, so it works without a network. It holds no data of the server, so it is given without
a key; the requests it then sends need one.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from functools import cache
from importlib.resources import files

from kgwalk.serve.asgi import HttpReply

PATH = "/"


def wants_page(method: str, path: str, headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether to answer with the page. A client that takes JSON and not HTML is a program, and gets none.

    >>> wants_page("GET", "/", [(b"accept", b"text/html,*/*;q=0.8")]), wants_page("GET", "/", [])
    (True, True)
    >>> wants_page("GET", "/", [(b"accept", b"application/json")]), wants_page("POST", "/", [])
    (False, False)
    """
    if path != PATH or method not in ("GET", "HEAD"):
        return False
    accepted = b",".join(value for name, value in headers if name == b"accept").lower()
    return b"text/html" in accepted or b"application/json" not in accepted


@cache
def page() -> HttpReply:
    """The page, with a content security policy made from what is in it."""
    body = (files("kgwalk.serve") / "page.html").read_bytes()
    # Only the page's own script runs and only this server is asked, whatever text a name may hold.
    policy = (
        b"default-src 'none'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
        b"frame-ancestors 'none'; script-src " + _hash(body, b"script") + b"; style-src " + _hash(body, b"style")
    )
    headers = (
        (b"content-security-policy", policy),
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"no-referrer"),
        (b"cache-control", b"no-cache"),
        (b"vary", b"accept"),
    )
    return HttpReply(200, body, b"text/html; charset=utf-8", headers)


def _hash(body: bytes, tag: bytes) -> bytes:
    """The policy's expression for the one script or style element in the page."""
    text = body.split(b"<%s>" % tag)[1].split(b"</%s>" % tag)[0]
    return b"'sha256-%s'" % base64.b64encode(hashlib.sha256(text).digest())
