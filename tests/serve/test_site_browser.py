"""The page that asks, in a real browser: with the agent that comes with kgwalk, and with a scripted one over films."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pyoxigraph
import pytest

from browser import site_page
from kgwalk.data.dataset import load_dataset
from kgwalk.kg.export import export
from kgwalk.kg.store import load_graph
from walk_server import ANY_ONE, DIRECTORS, HOSTILE, HOW_MANY, IS_IT, NOT_SAID, ODDLY_TAGGED, TABLE, TAGGED, walk_server
from world_server import world_server

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("films")


@pytest.fixture(scope="module")
def films(folder: Path) -> Iterator[str]:
    with walk_server(folder, feedback=str(folder / "said")) as url:
        yield url


@pytest.fixture(scope="module")
def world(run_cache: Path) -> Iterator[str]:
    with world_server(run_cache) as url:
        yield url


def ask(page: Page, question: str) -> None:
    page.goto("./")
    page.fill("#question", question)
    page.press("#question", "Enter")
    page.wait_for_selector(".outcome")


def told(page: Page, selector: str) -> list[str]:
    return [" ".join(text.split()) for text in page.locator(selector).all_inner_texts()]


def drawn(page: Page, what: str) -> Any:
    """Something of the picture's graph."""
    return page.evaluate(f"() => {{ const view = document.querySelector('.graph').graph; return {what}; }}")


def test_a_question_is_typed_with_suggestions_and_answered_by_the_real_agent(browser: Browser, world: str) -> None:
    with site_page(browser, world, permissions=["clipboard-read", "clipboard-write"]) as page:
        page.goto("./")
        page.wait_for_selector("#examples button")
        page.fill("#question", "which countries border both France and ")
        page.press("#question", "End")
        page.locator("#question").press_sequentially("Ger")
        page.wait_for_selector("#suggestions li")
        assert told(page, "#suggestions li .text")[0] == "Germany"
        page.press("#question", "ArrowDown")
        page.press("#question", "Enter")
        assert page.input_value("#question") == "which countries border both France and Germany "
        page.press("#question", "Enter")
        page.wait_for_selector(".outcome")
        assert sorted(told(page, ".outcome .name")) == ["Belgium", "Luxembourg", "Switzerland"]
        assert "Germany borders Belgium" in told(page, ".path li")
        assert told(page, ".steps li .text")[0] == "follow borders from France"
        assert "% sure" in page.inner_text(".sure")
        roles = dict(drawn(page, "view.nodes.map((node) => [node.id, node.role])"))
        assert {name for name, role in roles.items() if role == "start"} == {"France", "Germany"}
        assert {name for name, role in roles.items() if role == "answer"} == {"Belgium", "Luxembourg", "Switzerland"}
        page.click("text=JSON")
        page.wait_for_selector("text=Copied the answer as JSON.")
        copied = json.loads(page.evaluate("() => navigator.clipboard.readText()"))
        assert sorted(copied["answers"]) == ["Belgium", "Luxembourg", "Switzerland"]


def test_answers_are_shown_in_their_kind(browser: Browser, films: str) -> None:
    with site_page(browser, films) as page:
        ask(page, HOW_MANY)
        assert told(page, ".outcome .big") == ["2"]
        ask(page, IS_IT)
        assert told(page, ".outcome .big") == ["Yes"]
        ask(page, TABLE)
        assert told(page, ".outcome th") == ["name", "release_year"]
        assert sorted(told(page, ".outcome tr"))[:2] == ["Cast Away 2000", "Contact 1997"]
        ask(page, NOT_SAID)
        assert told(page, ".outcome .big") == ["The graph does not say."]
        assert page.locator(".outcome .path li").count() > 0  # what comes nearest
        assert told(page, ".steps li.failed .bad") == ["the graph could not follow this step"]


def test_stop_ends_the_walk(browser: Browser, films: str, folder: Path) -> None:
    with site_page(browser, films) as page:
        page.goto("./")
        page.fill("#question", f"slowly, {DIRECTORS}")
        page.press("#question", "Enter")
        page.wait_for_selector("text=from Tom Hanks")
        assert page.inner_text("#go") == "Stop"
        page.click("#go")
        page.wait_for_selector("text=stopped after")
        assert page.inner_text("#go") == "Ask"
        assert page.locator(".outcome").count() == 0
    for _ in range(100):
        if "cut off" in (folder / "stderr.txt").read_text():
            break
        time.sleep(0.05)
    assert "cut off" in (folder / "stderr.txt").read_text()
    assert httpx.get(f"{films}/health", trust_env=False).json()["under_way"] == 0


def test_a_name_that_is_markup_stays_text(browser: Browser, films: str) -> None:
    with site_page(browser, films) as page:
        ask(page, TAGGED)
        assert told(page, ".outcome .big") == [HOSTILE]
        # also where it is pointed at, expanded, suggested, and kept
        spot = drawn(page, f"view.place({json.dumps(HOSTILE)})")
        drawn(page, "view.settle()")
        spot = drawn(page, f"view.place({json.dumps(HOSTILE)})")
        page.locator(".graph canvas").hover(position=spot)
        assert HOSTILE in page.inner_text(".tip")
        page.locator(".graph canvas").click(position=spot)
        page.wait_for_selector(".facts li")
        assert told(page, ".facts b") == [HOSTILE]
        page.fill("#question", "")
        page.locator("#question").press_sequentially("<img src")
        page.wait_for_selector("#suggestions li")
        assert HOSTILE in told(page, "#suggestions li .text")
        assert HOSTILE in told(page, "#history li .text")[0]
        assert page.locator("main img").count() == 0
        assert page.title() == f"{TAGGED} - kgwalk"  # not "owned"


def test_a_click_on_an_entity_shows_its_facts(browser: Browser, films: str) -> None:
    with site_page(browser, films) as page:
        ask(page, DIRECTORS)
        assert sorted(told(page, ".outcome .name")) == ["Penny Marshall", "Robert Zemeckis"]
        drawn(page, "view.settle()")
        assert drawn(page, "view.byId.has('Chicago')") is False
        page.locator(".graph canvas").click(position=drawn(page, "view.place('Robert Zemeckis')"))
        page.wait_for_selector(".facts li")
        assert "Robert Zemeckis born_in Chicago" in told(page, ".facts li")
        assert drawn(page, "view.byId.has('Chicago')") is True


def test_what_people_say_of_an_answer_becomes_a_question_set(browser: Browser, films: str, folder: Path) -> None:
    with site_page(browser, films) as page:
        ask(page, DIRECTORS)
        page.click('[aria-label="Yes, the answer is right"]')
        page.wait_for_selector("text=Thank you. Kept as a question; there are 1 now.")
        ask(page, HOW_MANY)
        page.click('[aria-label="No, the answer is wrong"]')
        page.fill(".said textarea", "3")
        page.click(".said >> text=Send")
        page.wait_for_selector("text=there are 2 now.")
    data = load_dataset(folder / "said")
    kept = {one.question: one.answers for split in data.splits() for one in data.questions(split)}
    assert {question: sorted(names) for question, names in kept.items()} == {
        DIRECTORS: ["Penny Marshall", "Robert Zemeckis"],
        HOW_MANY: ["3"],
    }


def test_a_misspelt_start_is_asked_about(browser: Browser, films: str) -> None:
    with site_page(browser, films) as page:
        page.goto("./?q=who+is+that%3F&from=Tom+Hancks")
        page.wait_for_selector(".meant")
        page.click(".meant >> text=Tom Hanks")
        page.wait_for_selector("text=The graph does not say.")
        assert told(page, ".walk .chip")[0] == "from Tom Hanks"


def test_a_link_shows_the_same_again_and_the_history_stays_in_the_browser(browser: Browser, films: str) -> None:
    with site_page(browser, films) as page:
        ask(page, DIRECTORS)
        with site_page(browser, films) as other:  # of someone else
            other.goto(page.url)
            other.wait_for_selector(".outcome")
            assert told(other, ".outcome .name") == told(page, ".outcome .name")
            assert told(other, ".steps li") == told(page, ".steps li")
        ask(page, HOW_MANY)
        assert told(page, "#history li button") == [HOW_MANY, DIRECTORS]
        page.click(f"#history >> text={DIRECTORS}")
        page.wait_for_selector(".outcome .name")
        page.go_back()
        page.wait_for_selector(f".walk h2:has-text('{HOW_MANY}')")
        page.click("#forget")
        assert not page.locator("#history").is_visible()


def test_what_is_copied_runs(browser: Browser, films: str) -> None:
    question = f"""{DIRECTORS} It's "so"."""
    with site_page(browser, films, permissions=["clipboard-read", "clipboard-write"]) as page:
        ask(page, question)
        copied = {}
        for kind in ("Python", "curl", "CSV"):
            page.click(f".tools-row >> text='{kind}'")
            page.wait_for_selector("#status:has-text('Copied')")
            copied[kind] = page.evaluate("() => navigator.clipboard.readText()")
            page.click("#status")
    ran = subprocess.run([sys.executable, "-c", copied["Python"]], capture_output=True, text=True, check=True)
    assert ran.stdout == "['Robert Zemeckis', 'Penny Marshall']\n"
    assert copied["CSV"].split("\r\n")[1].startswith("Robert Zemeckis,")
    if shutil.which("curl"):
        ran = subprocess.run(["sh", "-c", copied["curl"]], capture_output=True, text=True, check=True)
        assert json.loads(ran.stdout)["answers"] == ["Robert Zemeckis", "Penny Marshall"]


def test_the_answer_is_shown_as_a_query_that_gives_it(browser: Browser, films: str, folder: Path) -> None:
    store = pyoxigraph.Store()
    store.load(b"".join(export(load_graph(folder / "films.kg"), "nt")), format=pyoxigraph.RdfFormat.N_TRIPLES)
    with site_page(browser, films, permissions=["clipboard-read", "clipboard-write"]) as page:
        ask(page, DIRECTORS)
        languages = page.get_by_role("group", name="As a query").get_by_role("button")
        assert languages.all_inner_texts() == ["SPARQL", "Cypher", "SQL", "Python"]
        for at, language in enumerate(("sparql", "cypher", "sql", "python")):
            languages.nth(at).press("Enter")  # by the keyboard
            name = languages.nth(at).inner_text()
            shown = page.get_by_role("region", name=f"The answer as a {name} query")
            body = {"question": DIRECTORS, "query": language}
            expected = httpx.post(f"{films}/v1/ask", json=body, trust_env=False).json()["query"]
            assert shown.text_content() == expected
            pressed = [one.get_attribute("aria-pressed") for one in languages.all()]
            assert pressed == ["true" if one == at else "false" for one in range(4)]
            page.get_by_role("button", name=f"Copy the {name} query").click()
            page.wait_for_selector(f"text=Copied the {name} query.")
            assert page.evaluate("() => navigator.clipboard.readText()") == expected
        languages.first.click()
        rows = store.query(page.get_by_role("region", name="SPARQL").text_content() or "")
        assert sorted(row["name"].value for row in rows) == sorted(told(page, ".outcome .name"))
        languages.first.click()  # again: it is closed
        assert page.locator(".query pre").count() == 0


def test_what_is_no_query_says_why(browser: Browser, films: str) -> None:
    with site_page(browser, films) as page:
        ask(page, ANY_ONE)
        page.click("[aria-label='As a query'] >> text=Cypher")
        page.wait_for_selector(".query .warn")
        (why,) = told(page, ".query .warn")
        assert why.startswith('No Cypher query: no query for `nth($2, "1")`: ')
        assert page.locator(".query pre").count() == 0
        ask(page, ODDLY_TAGGED)  # a name that is markup stands in the query as text
        page.click("[aria-label='As a query'] >> text=Python")
        page.wait_for_selector(".query pre")
        assert "<img src=x" in page.inner_text(".query pre")
        assert page.locator("main img").count() == 0


def test_walks_stand_side_by_side_and_the_link_has_both(browser: Browser, films: str) -> None:
    with site_page(browser, films) as page:
        ask(page, HOW_MANY)
        page.fill('[aria-label="How many walks beside it"]', "2")
        page.click(".tools-row >> text='Ask again'")
        page.wait_for_selector(".outcome >> nth=1")
        assert told(page, ".outcome .big") == ["2", "2"]
        assert "100% of the walks gave the first answer" in told(page, ".sure span")
        page.reload()
        page.wait_for_selector(".outcome >> nth=1")


def test_a_server_with_a_key_is_asked_once_it_is_given(browser: Browser, tmp_path: Path) -> None:
    with walk_server(tmp_path, api_key="s3cret") as url, site_page(browser, url) as page:
        page.goto("./")
        page.fill("#key-text", "wrong")
        page.press("#key-text", "Enter")
        page.wait_for_selector("text=That is not the key.")
        page.fill("#key-text", "s3cret")
        page.press("#key-text", "Enter")
        page.wait_for_selector("#key", state="hidden")
        page.fill("#question", IS_IT)
        page.press("#question", "Enter")
        page.wait_for_selector(".outcome")
        page.reload()  # it is not asked for again in this tab
        page.wait_for_selector(".outcome")
        assert not page.locator("#key").is_visible()
        assert page.evaluate("() => Object.values(localStorage).join()").find("s3cret") == -1


# Text of which the contrast is under 4.5 to 1, and fields without a name.
HARD_TO_READ = """() => {
  const numbers = (text) => text.match(/[\\d.]+/g).map(Number);
  const linear = (one) => one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4;
  const luminance = (rgb) => [0.2126, 0.7152, 0.0722].reduce((sum, part, at) => sum + part * linear(rgb[at] / 255), 0);
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const found = numbers(getComputedStyle(at).backgroundColor);
      if (found.length === 3 || found[3] > 0) return found;
    }
    return [255, 255, 255];
  };
  const wrong = [];
  for (const element of document.querySelectorAll("body *")) {
    const text = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!text || !element.checkVisibility()) continue;
    const both = [luminance(numbers(getComputedStyle(element).color)), luminance(ground(element))];
    const contrast = (Math.max(...both) + 0.05) / (Math.min(...both) + 0.05);
    if (contrast < 4.5) wrong.push(`${contrast}: ${element.outerHTML.slice(0, 80)}`);
  }
  for (const field of document.querySelectorAll("input, select, textarea, button")) {
    const name = field.getAttribute("aria-label") || field.labels?.[0]?.textContent || field.textContent;
    if (field.checkVisibility() && !name?.trim()) wrong.push(`no name: ${field.outerHTML.slice(0, 80)}`);
  }
  return wrong;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_can_be_read_in_light_and_dark_and_on_a_phone(browser: Browser, films: str, scheme: Any) -> None:
    with site_page(browser, films, color_scheme=scheme, viewport={"width": 390, "height": 844}) as page:
        ask(page, NOT_SAID)
        page.click("[aria-label='As a query'] >> text=Cypher")
        page.wait_for_selector(".query .warn")
        assert page.evaluate(HARD_TO_READ) == []
        ask(page, DIRECTORS)
        page.click("[aria-label='As a query'] >> text=Python")
        page.wait_for_selector(".query pre")
        page.click("summary:has-text('Options')")
        assert page.evaluate(HARD_TO_READ) == []
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 390  # nothing beyond the edge
        page.click("#theme")
        assert page.evaluate("() => document.documentElement.dataset.theme") != scheme
        assert page.evaluate(HARD_TO_READ) == []
