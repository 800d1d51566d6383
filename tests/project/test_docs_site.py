"""The site of the documents: links that work there as on GitHub, pages of docstrings, packages. Run by `make docs`."""

from __future__ import annotations

import importlib
import importlib.metadata
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("mkdocs", reason="the packages of the site are not here: `make docs` installs and tests them")
pytest.importorskip("packaging.licenses")

from mkdocs.exceptions import PluginError
from packaging.utils import canonicalize_name

import kgwalk
from script_modules import script

ROOT = Path(__file__).parents[2]
GITHUB = "https://github.com/kgwalk/kgwalk"


site, audit = script("docs_site"), script("audit")


@pytest.mark.parametrize(
    ("link", "on_the_site"),
    [
        ("../../CONTRIBUTING.md", f"{GITHUB}/blob/main/CONTRIBUTING.md"),
        ("../../src/kgwalk/kg", f"{GITHUB}/tree/main/src/kgwalk/kg"),
        ("../../SECURITY.md#what-is-promised", f"{GITHUB}/blob/main/SECURITY.md#what-is-promised"),
        ("../reference/make.py", f"{GITHUB}/blob/main/docs/reference/make.py"),  # no page, though it lies in docs/
        ("../papers.md", "../papers.md"),
        ("../results/agents.json", "../results/agents.json"),
        ("../../examples/notebooks/credit.ipynb", "../notebooks/credit.md"),
        ("https://example.org/a", "https://example.org/a"),
        ("#here", "#here"),
    ],
)
def test_a_link_of_a_guide_leads_to_the_same_thing(link: str, on_the_site: str) -> None:
    guide = ROOT / "docs" / "guides" / "training.md"
    assert site.links(f"see [it]({link}).", guide, "guides/training.md") == f"see [it]({on_the_site})."


def test_a_notebook_links_to_the_pages_of_the_site() -> None:
    notebook = ROOT / "examples" / "notebooks" / "credit.ipynb"
    text = "[a](../../docs/guides/training.md#memory) [b](../films.tsv)"
    assert site.links(text, notebook, "notebooks/credit.md") == (
        f"[a](../guides/training.md#memory) [b]({GITHUB}/blob/main/examples/films.tsv)"
    )


def test_a_link_to_no_file_ends_the_build() -> None:
    with pytest.raises(PluginError, match=r"docs/results\.md links to \.\./nothing\.md, which does not exist"):
        site.links("[a](../nothing.md)", ROOT / "docs" / "results.md", "results.md")


def test_blocks_of_code_have_no_links() -> None:
    page = SimpleNamespace(file=SimpleNamespace(generated_by=None, src_uri="results.md"))
    text = "```\nf[a](../b)\n```\n[a](../Makefile)\n"
    shown = site.on_page_markdown(text, page, None, None)
    assert shown == f"```\nf[a](../b)\n```\n[a]({GITHUB}/blob/main/Makefile)\n"


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [("Where do I put ...?", "where-do-i-put-"), ("`kgwalk bench kg --scale`", "kgwalk-bench-kg---scale")],
)
def test_a_heading_has_the_anchor_of_github(heading: str, anchor: str) -> None:
    assert site.github_anchor(heading, "-") == anchor


def test_a_page_that_would_load_from_another_host_ends_the_build() -> None:
    page = SimpleNamespace(file=SimpleNamespace(src_uri="a.md"))
    link = '<a href="https://example.org/">a link is no load</a><script src="assets/a.js"></script>'
    assert site.on_post_page(link, page, None) == link
    for foreign in ('<script async src="//example.org/a.js">', "<img src=https://example.org/a.png>"):
        with pytest.raises(PluginError, match="another host"):
            site.on_post_page(foreign, page, None)


def test_every_public_name_has_its_docstring_on_the_site() -> None:
    places = site.public_places()
    assert list(places) == kgwalk.__all__
    assert places["build_graph"] == "kgwalk.kg.build.build"
    for name, place in places.items():
        module, _, inside = place.rpartition(".")
        assert getattr(importlib.import_module(module), inside) is getattr(kgwalk, name)
    [page] = [text for path, text in site._api() if path == "api/kgwalk.md"]
    assert all(f"[`{name}`][{place}]" in page for name, place in places.items())


def test_the_packages_of_the_site_are_locked_licensed_and_not_known_to_be_bad() -> None:
    """As `make audit` has it for all others: here is where they are installed, and their metadata can be read."""
    pins = audit.read_lock((ROOT / "requirements" / "docs.txt").read_text(), "docs.txt")
    installed = {canonicalize_name(one.name): one for one in importlib.metadata.distributions()}
    assert list(audit.check_lock([], pins)) == []
    assert list(audit.check_licences(pins, installed)) == []
    assert list(audit.check_advisories(pins, [], audit.policy()["advisories"]["known"])) == []
    assert list(audit.check_installed([*pins, *audit.locked()], installed)) == []
