"""What MkDocs does not know about these documents: the hooks that mkdocs.yml names, for `make docs`.

The pages of docs/ are written for GitHub and are read there too. On the site
- a link that leaves docs/ leads to the repository; one that leads to no file ends the build;
- headings have the anchors that GitHub gives them;
- each notebook of examples/notebooks/ is a page, with the outputs that it was committed with;
- the folder api/ is made from docstrings: the public names, and the modules of `MODULES`;
- a page that would load anything from another host ends the build.
"""

from __future__ import annotations

import ast
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import griffe
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
SOURCE = ROOT / "src" / "kgwalk"
NOTEBOOKS = "examples/notebooks"
# What a researcher reads and builds on beside the public names: a page each, in the order in which they import.
MODULES = {
    "types": "Types",
    "kg.graph": "Graphs",
    "llm.engine": "Engines",
    "walk.protocol": "Protocols",
    "walk.rollout": "Rollouts",
    "score.answers": "Scores of answers",
    "score.episode": "Scores of episodes",
    "score.rewards": "Rewards",
    "training.advantages": "Advantages",
    "training.loss": "Losses",
}
REPOSITORY = "https://github.com/kgwalk/kgwalk"
FENCE = re.compile(r"^( *)(```+).*?^\1\2 *$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(\]\()([^)#\s:]+)(#[^)\s]*)?(?=\))")
FOREIGN = re.compile(
    r"""<(?:script|link|img|iframe|source|video|audio|embed)\b[^>]*\b(?:src|href)=["']?(?:https?:)?//[^>]*"""
)
EXAMPLE = re.compile(r"^( *)>>> .*(?:\n\1\S.*)*", re.MULTILINE)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    config.mdx_configs["toc"]["slugify"] = github_anchor
    return config


def github_anchor(heading: str, separator: str) -> str:
    """The anchor that GitHub gives a heading.

    >>> github_anchor("Where do I put ...?", "-")
    'where-do-i-put-'
    """
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", separator)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for name, text in [*_api(), *_notebooks()]:
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """The page with its links as the site needs them; blocks of code stay as they are."""
    if page.file.generated_by is not None:
        return markdown
    place = DOCS / page.file.src_uri
    parts, at = [], 0
    for fence in FENCE.finditer(markdown):
        parts += [links(markdown[at : fence.start()], place, page.file.src_uri), fence.group()]
        at = fence.end()
    return "".join([*parts, links(markdown[at:], place, page.file.src_uri)])


def links(text: str, place: Path, uri: str) -> str:
    """The text of the file `place` as the page `uri`: links to files that are no pages lead to the repository."""

    def link(found: re.Match[str]) -> str:
        opening, target, heading = found.group(1), found.group(2), found.group(3) or ""
        to = (place.parent / target).resolve()
        if not to.exists():
            raise PluginError(f"{place.relative_to(ROOT)} links to {target}, which does not exist")
        if to.suffix == ".ipynb":
            to = DOCS / "notebooks" / f"{to.stem}.md"
        elif DOCS not in to.parents or to.is_dir() or to.suffix == ".py":
            kind = "tree" if to.is_dir() else "blob"
            return f"{opening}{REPOSITORY}/{kind}/main/{to.relative_to(ROOT).as_posix()}{heading}"
        return f"{opening}{os.path.relpath(to, (DOCS / uri).parent)}{heading}"

    return LINK.sub(link, text)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    if loaded := FOREIGN.search(output):
        raise PluginError(f"{page.file.src_uri} would load something from another host: {loaded.group()}")
    return output


# The pages of docstrings


def _api() -> Iterator[tuple[str, str]]:
    """Path and text of each page; mkdocstrings fills in what `:::` names."""
    elsewhere = {f"kgwalk.{module}" for module in MODULES}
    places = public_places()
    names = ", ".join(f"[`{name}`][{place}]" for name, place in places.items())
    about = f"The public names, from their docstrings: {names}. An example of each: [Python](../reference/python.md)."
    options = "    options:\n      show_root_heading: true\n      heading: "
    shown = {name: place for name, place in places.items() if place.rpartition(".")[0] not in elsewhere}
    blocks = "".join(f"\n::: {place}\n{options}{name}\n" for name, place in shown.items())
    yield "api/kgwalk.md", f"# kgwalk\n\n{about}\n{blocks}"
    for module, title in MODULES.items():
        source = f"{REPOSITORY}/blob/main/src/kgwalk/{module.replace('.', '/')}.py"
        yield f"api/{module}.md", f"# {title}\n\n[`kgwalk.{module}`]({source})\n\n::: kgwalk.{module}\n"


def public_places() -> dict[str, str]:
    """Where each of `kgwalk.__all__` is defined, by `kgwalk._WHERE`: build_graph is kgwalk.kg.build.build."""
    values = {}
    for node in ast.parse((SOURCE / "__init__.py").read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in ("_WHERE", "__all__"):
            values[ast.unparse(node.targets[0])] = ast.literal_eval(node.value)
    places = {name: values["_WHERE"][name].partition(":") for name in values["__all__"]}
    return {name: f"{module}.{inside or name}" for name, (module, _, inside) in places.items()}


class Examples(griffe.Extension):  # type: ignore[misc]
    """Puts the examples of docstrings into blocks of code; Markdown takes `>>>` for a quotation in three depths."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring:
            text = EXAMPLE.sub(r"\n\1```pycon\n\g<0>\n\1```\n", obj.docstring.value)
            obj.docstring.value = re.sub(r" +# doctest: \+SKIP", "", text)


# Notebooks


def _notebooks() -> Iterator[tuple[str, str]]:
    for path in sorted((ROOT / NOTEBOOKS).glob("*.ipynb")):
        source = f"{REPOSITORY}/blob/main/{NOTEBOOKS}/{path.name}"
        text = "\n\n".join(_cells(json.loads(path.read_text())["cells"], path.stem))
        yield f"notebooks/{path.stem}.md", f"{text}\n\n[The notebook itself]({source})\n"


def _cells(cells: list[dict[str, Any]], stem: str) -> Iterator[str]:
    for cell in cells:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            yield links(source, ROOT / NOTEBOOKS / f"{stem}.ipynb", f"notebooks/{stem}.md")
        else:
            yield f"````python\n{source}\n````"
            for output in cell["outputs"]:
                yield _output(output)


def _output(output: dict[str, Any]) -> str:
    """What a cell printed or showed: a picture, HTML, or text."""
    data = output.get("data", {})
    if "image/png" in data:
        picture = "".join(data["image/png"]).replace("\n", "")
        return f'<img class="output" alt="" src="data:image/png;base64,{picture}">'
    if "text/html" in data:
        return f'<div class="output">{"".join(data["text/html"])}</div>'
    return f"````{{.text .output}}\n{''.join(output.get('text', data.get('text/plain', '')))}\n````"
