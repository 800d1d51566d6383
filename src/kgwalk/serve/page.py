"""GET /: one HTML page that asks questions of the server it comes from. The page itself is page.html.

It is whole in one file and loads nothing, so it works without a network. It holds nothing of the server's, so it needs
no key; what it then asks for does. Knows nothing of graphs.
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
    """Whether to answer with the page; who takes JSON and not HTML is a program.

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
    body = (files("kgwalk.serve") / "page.html").read_bytes()
    # Nothing runs but the page's own script, and nothing is asked but this server, whatever a name may hold.
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
    """The source expression of the one element that stands in the page itself."""
    text = body.split(b"<%s>" % tag)[1].split(b"</%s>" % tag)[0]
    return b"'sha256-%s'" % base64.b64encode(hashlib.sha256(text).digest())
