"""GET / and /docs: a page that asks questions of its server, and one that describes its API.

Each is one file and loads nothing, so it works without a network. It holds no data of the server, so it is given
without a key; the requests it then sends need one.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from functools import cache
from importlib.resources import files

from kgwalk.serve.asgi import HttpReply

PAGES = {"/": "page.html", "/docs": "docs.html"}


def wanted_page(method: str, path: str, headers: Iterable[tuple[bytes, bytes]]) -> HttpReply | None:
    """The page to answer with. A client that takes JSON and not HTML is a program, and gets none.

    >>> wanted_page("GET", "/", [(b"accept", b"text/html,*/*;q=0.8")]) == wanted_page("GET", "/", []) == page("/")
    True
    >>> wanted_page("GET", "/", [(b"accept", b"application/json")]), wanted_page("POST", "/", [])
    (None, None)
    """
    if path not in PAGES or method not in ("GET", "HEAD"):
        return None
    accepted = b",".join(value for name, value in headers if name == b"accept").lower()
    return page(path) if b"text/html" in accepted or b"application/json" not in accepted else None


@cache
def page(path: str) -> HttpReply:
    """The page, with a content security policy made from what is in it."""
    body = (files("kgwalk.serve") / PAGES[path]).read_bytes()
    # Only the page's own script runs and only this server is asked, whatever text a name may hold.
    policy = (
        b"default-src 'none'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
        b"frame-ancestors 'none'; script-src " + _hash(body, b"script") + b"; style-src " + _hash(body, b"style")
    )
    headers = (
        (b"content-security-policy", policy),
        (b"x-frame-options", b"DENY"),
        (b"referrer-policy", b"no-referrer"),
        (b"cache-control", b"no-cache"),
        (b"vary", b"accept"),
    )
    return HttpReply(200, body, b"text/html; charset=utf-8", headers)


def _hash(body: bytes, tag: bytes) -> bytes:
    """The policy's expression for the one script or style element in the page."""
    text = body.split(b"<%s>" % tag)[1].split(b"</%s>" % tag)[0]
    return b"'sha256-%s'" % base64.b64encode(hashlib.sha256(text).digest())
