"""Debian's chromium, driven by playwright, for tests of the site's pages.

    with chromium() as browser, site_page(browser, url) as page:
        page.goto(url)

Where there is no chromium, or no playwright, `chromium` skips the test and says so. CHROMIUM names another one.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

LOOPBACK = re.compile(r"^(https?://127\.0\.0\.1[:/]|data:|blob:|about:)")


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser without a window."""
    found = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip("there is no chromium here; apt install chromium, or name one in CHROMIUM")
    driver = pytest.importorskip("playwright.sync_api", reason="playwright is not installed; pip install playwright")
    with driver.sync_playwright() as started:
        # the sandbox of chromium needs rights that a container or root does not have
        opened = started.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        try:
            yield opened
        finally:
            opened.close()


@contextmanager
def site_page(browser: Browser, url: str, **options: Any) -> Iterator[Page]:
    """A page of a fresh context. At the end: no request has left this machine, and the page has made no mistake."""
    context = browser.new_context(base_url=url, **{"viewport": {"width": 1200, "height": 800}, **options})
    page = context.new_page()
    page.set_default_timeout(60_000)  # a busy machine answers late
    asked: list[str] = []
    wrong: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    # a refused request is told on the page; what the policy stops is a mistake of ours
    page.on(
        "console",
        lambda message: (
            wrong.append(message.text) if message.type == "error" and "Failed to load" not in message.text else None
        ),
    )
    try:
        yield page
        assert [one for one in asked if not LOOPBACK.match(one)] == []
        assert wrong == []
    finally:
        context.close()
