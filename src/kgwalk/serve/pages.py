"""The site: its pages, their scripts and styles, from the files of site/ and nothing else.

A page is a fragment, the `<main>` of site/NAME.html; frame.html has what stands around every page, and site/NAME.js is
its script. All other files lie under /site/. Nothing is loaded from elsewhere, so the site works without a network. No
file holds data of the server, so all are given without a key; the requests that a page then sends need one.

The files are listed once, and only what is in that list is ever read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import cache
from html import escape
from importlib.resources import files
from typing import NamedTuple

from kgwalk.serve.asgi import HttpReply


class SitePage(NamedTuple):
    name: str
    title: str


PAGES = {
    "/": SitePage("ask", "Ask"),
    "/explore": SitePage("explore", "Explore"),
    "/runs": SitePage("runs", "Runs"),
    "/docs": SitePage("docs", "API"),
}
TYPES = {
    ".js": b"text/javascript; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".svg": b"image/svg+xml",
    ".txt": b"text/plain; charset=utf-8",
}
FOLDERS = ("", "vendor/")  # vendor/ has what is from others, each with its licence

# Only scripts and styles of this server run, and only this server is asked, whatever text a name may hold.
POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
GUARDS = (
    (b"content-security-policy", POLICY),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
)


def site_reply(method: str, path: str, headers: Iterable[tuple[bytes, bytes]]) -> HttpReply | None:
    """The page or file to answer with; None where the site has nothing to say.

    A client that takes JSON and not HTML is a program, and gets no page.

    >>> site_reply("GET", "/", [(b"accept", b"text/html,*/*;q=0.8")]) == site_reply("GET", "/", []) == site()["/"]
    True
    >>> site_reply("GET", "/", [(b"accept", b"application/json")]), site_reply("POST", "/", [])
    (None, None)
    >>> site_reply("GET", "/site/../site.py", [])
    """
    found = site().get(path)
    if found is None or method not in ("GET", "HEAD"):
        return None
    headers = list(headers)
    accepted = b",".join(value for name, value in headers if name == b"accept").lower()
    if path in PAGES and b"text/html" not in accepted and b"application/json" in accepted:
        return None
    tag = dict(found.headers)[b"etag"]
    known = b",".join(value for name, value in headers if name == b"if-none-match")
    if tag in (one.strip().removeprefix(b"W/") for one in known.split(b",")):
        return HttpReply(304, b"", found.content_type, found.headers)
    return found


@cache
def site() -> dict[str, HttpReply]:
    """Every page and file of the site by its path."""
    root = files("kgwalk.serve") / "site"
    made = {}
    for folder in FOLDERS:
        for file in (root / folder).iterdir() if folder else root.iterdir():
            kind = TYPES.get(file.name[file.name.rfind(".") :])
            if kind is not None and file.is_file():
                made[f"/site/{folder}{file.name}"] = _reply(file.read_bytes(), kind)
    frame = (root / "frame.html").read_text("utf-8")
    there = {path: page for path, page in PAGES.items() if (root / f"{page.name}.html").is_file()}
    for path, page in there.items():
        body = _framed(frame, page, (root / f"{page.name}.html").read_text("utf-8"), there)
        made[path] = _reply(body.encode(), b"text/html; charset=utf-8", (b"vary", b"accept"))
    return made


def _framed(frame: str, page: SitePage, main: str, there: dict[str, SitePage]) -> str:
    """The page in its frame, with links to all pages. Links are relative: a proxy may serve the site in a folder."""
    links = [
        f'<a href="{path[1:] or "./"}"{" aria-current=page" if other == page else ""}>{escape(other.title)}</a>'
        for path, other in there.items()
    ]
    parts = {"{{title}}": escape(page.title), "{{name}}": page.name, "{{links}}": "\n".join(links), "{{main}}": main}
    for mark, text in parts.items():
        frame = frame.replace(mark, text)
    return frame


def _reply(body: bytes, kind: bytes, *headers: tuple[bytes, bytes]) -> HttpReply:
    """A reply that a browser may keep, and asks about each time: one with the same tag costs no bytes."""
    tag = b'"%s"' % hashlib.sha256(body).hexdigest()[:32].encode()
    return HttpReply(200, body, kind, ((b"etag", tag), (b"cache-control", b"no-cache"), *GUARDS, *headers))
