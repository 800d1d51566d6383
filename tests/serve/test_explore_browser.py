"""The page Explore in a real browser, over a graph of films: search, look, page, schema, upload, walk by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from test_site_browser import HARD_TO_READ, drawn, told

from browser import site_page
from walk_server import DIRECTORS, HOSTILE, walk_server

if TYPE_CHECKING:
    from playwright.sync_api import Browser, FilePayload, Page


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("explored")
    with walk_server(folder, uploads=str(folder / "uploads")) as url:
        yield url


def look(page: Page, name: str) -> None:
    page.goto("explore")
    page.fill("#name", name)
    page.press("#name", "Enter")
    page.wait_for_selector(f"#entity h2:text-is({json.dumps(name)})")


def words(page: Page, selector: str) -> list[str]:
    """The texts of an SVG, which has no inner text."""
    return [text or "" for text in page.locator(selector).all_text_contents()]


def csv(name: str, text: str) -> FilePayload:
    return {"name": name, "mimeType": "text/csv", "buffer": text.encode()}


def test_an_entity_is_searched_with_the_keyboard_and_its_neighbours_explored(browser: Browser, films: str) -> None:
    with site_page(browser, films) as page:
        page.goto("explore")
        page.locator("#name").press_sequentially("robert z")
        page.wait_for_selector("#names li")
        page.press("#name", "ArrowDown")
        assert page.get_attribute("#name", "aria-activedescendant") == "names-0"
        page.press("#name", "Enter")
        page.wait_for_selector("#entity h2:text-is('Robert Zemeckis')")
        assert told(page, "#entity .relations > li") == ["→ born_in 1 Chicago", "← directed_by 2 Contact Cast Away"]
        page.wait_for_function("() => document.querySelector('.graph').graph?.nodes.length === 4")
        drawn(page, "view.settle()")
        assert sorted(drawn(page, "view.nodes.map((node) => node.id)")) == [
            "Cast Away",
            "Chicago",
            "Contact",
            "Robert Zemeckis",
        ]
        page.locator(".graph canvas").click(position=drawn(page, "view.place('Cast Away')"))
        page.wait_for_selector("#entity h2:text-is('Cast Away')")
        assert told(page, "#entity .values tr") == ["release_year 2000"]
        page.wait_for_function("() => document.querySelector('.graph').graph.byId.has('Tom Hanks')")  # it has grown
        page.go_back()
        page.wait_for_selector("#entity h2:text-is('Robert Zemeckis')")
        page.select_option("#depth", "2")
        page.wait_for_function("() => document.querySelector('.graph').graph.byId.has('Jodie Foster')")
        page.select_option("#nodes", "30")
        page.wait_for_function("() => document.querySelector('.graph').graph.nodes.length === 30")
        assert "more are there than the limits show" in page.inner_text("#cut")


def test_many_neighbours_come_in_pages(browser: Browser, films: str) -> None:
    with site_page(browser, films) as page:
        look(page, "Chicago")
        # a screen reader says what is on the button
        page.get_by_role("button", name="from here has_street 60").click()
        pages = page.locator("#entity .pager span")
        pages.wait_for()
        assert (pages.inner_text(), page.locator("#entity .page li").count()) == ("1 to 20 of 60", 20)
        page.click("#entity .pager >> text=Next")
        page.wait_for_selector("text=21 to 40 of 60")
        page.click("#entity .pager >> text=Next")
        page.wait_for_selector("text=41 to 60 of 60")
        assert page.is_disabled("#entity .pager >> text=Next")
        page.click("#entity .pager >> text=Back")
        page.wait_for_selector("text=21 to 40 of 60")
        page.fill("#name", "Chicaggo")
        page.press("#name", "Enter")
        page.click("#nothing-chosen >> text=Chicago")  # did you mean
        page.wait_for_selector("#entity h2:text-is('Chicago')")


def test_who_searches_before_the_page_has_begun_is_not_sent_back(browser: Browser, films: str) -> None:
    with site_page(browser, films) as page:
        held: list[Any] = []
        page.route("**/kg/uploads", lambda route: held.append(route))  # the last that the page asks for as it begins
        with page.expect_request("**/kg/uploads"):
            page.goto("explore")
        page.fill("#name", "Chicago")
        page.press("#name", "Enter")
        page.wait_for_selector("#entity h2:text-is('Chicago')")
        with page.expect_response("**/kg/uploads"):
            held[0].continue_()
        page.wait_for_selector("#tab-upload", state="visible")  # now it has begun
        assert page.is_visible("#entity h2:text-is('Chicago')")


def test_the_schema_is_drawn_and_told(browser: Browser, films: str) -> None:
    with site_page(browser, films) as page:
        page.goto("explore")
        page.wait_for_selector("#schema svg")
        boxes = dict(zip(words(page, "#schema .name"), words(page, "#schema .members"), strict=True))
        assert boxes["starred actors"] == "3"
        assert "starred_actors" in " ".join(words(page, "#schema .join-name"))
        page.click("#schema .kind:has-text('starred actors')")
        page.wait_for_selector("#kind h2:text-is('starred actors')")
        assert sorted(told(page, "#kind .page li")) == ["Helen Hunt", "Jodie Foster", "Tom Hanks"]
        assert told(page, "#kind .relations li")[0].startswith("← starred_actors")
        page.click("summary:has-text('Relations: 6')")
        # what scrolls can be reached by the keyboard
        assert page.get_attribute("details[open] .scroll", "tabindex") == "0"
        assert "has_street 60 1 60" in told(page, "details[open] tbody tr")
        page.click("#kind >> text=Tom Hanks")
        page.wait_for_selector("#entity h2:text-is('Tom Hanks')")
        page.press("#tab-look", "ArrowLeft")
        assert page.get_attribute("#tab-schema", "aria-selected") == "true"


def test_files_become_a_graph_and_bad_lines_are_named(browser: Browser, films: str) -> None:
    good = f'name,city,knows\nAna,Porto,Bo\nBo,Bergen,Ana\n"{HOSTILE.replace(chr(34), chr(34) * 2)}",Porto,Ana\n'
    with site_page(browser, films) as page:
        page.goto("explore?view=upload")
        page.set_input_files("#files", [csv("people.csv", good + "Cy,Oslo,Bo,too,many\n")])
        assert page.input_value("#new-name") == "people"
        page.select_option("#table", "yes")
        page.click("text=Build the graph")
        page.wait_for_selector("#bad-rows")
        assert told(page, "#bad-rows tbody tr") == [
            "people.csv 5 column 4 has no name in the first row, and a cell here"
        ]
        assert page.inner_text("#why") == "1 row cannot be read; mend it, or leave it out"
        page.set_input_files("#files", [csv("people.csv", good)])
        page.click("text=Build the graph")
        page.wait_for_selector("#report")
        assert "things by" in page.inner_text("#report")
        page.click("#explore-it")
        page.wait_for_selector("#schema svg")
        assert page.input_value("#graph") == "people"
        page.fill("#name", "Porto")
        page.press("#name", "Enter")
        page.wait_for_selector("#entity h2:text-is('Porto')")
        assert HOSTILE in told(page, "#entity a.entity")  # a name that is markup stays text
        page.click(f"#entity a.entity:has-text({json.dumps('onerror')})")
        page.wait_for_selector("#entity h2:has-text('onerror')")
        assert page.locator("main img").count() == 0
        assert page.title() == "Explore - kgwalk"  # not "owned"
        page.click("#tab-upload")
        page.click("#uploaded >> text=Remove")
        page.click("#uploaded >> text=Really?")
        page.wait_for_selector("text=people is removed.")
        assert page.locator("#graph option").count() == 1


def test_a_question_is_walked_by_hand_and_then_by_the_agent(browser: Browser, films: str) -> None:
    with site_page(browser, films, permissions=["clipboard-read", "clipboard-write"]) as page:
        page.goto("explore?view=walk")
        page.fill("#question", DIRECTORS)
        page.click("#walk-form >> text=Start >> nth=-1")
        page.wait_for_selector("#steps .step")
        assert told(page, "#steps .said") == ["start: Tom Hanks"]
        page.click("#next .chip:has-text('starred_actors')")
        page.wait_for_selector("#steps .step >> nth=1")
        page.select_option("#calls", "count")
        assert page.input_value("#call") == "count($2)"
        page.fill("#call", 'tail_entities($2, "directed")')
        page.press("#call", "Enter")
        page.wait_for_selector("#steps .wrong")
        page.click("#undo")
        page.wait_for_selector("#steps .wrong", state="detached")
        page.click("#next .chip:has-text('directed_by')")
        page.wait_for_selector("#steps .step >> nth=2")
        assert told(page, "#steps .said")[1:] == [
            "follow starred_actors back from Tom Hanks",
            "follow directed_by from the 2 of $2",
        ]
        page.click("text=Copy a link")
        page.wait_for_selector("text=Copied a link to this walk.")
        with site_page(browser, films) as other:  # of someone else
            other.goto(page.evaluate("() => navigator.clipboard.readText()"))
            other.wait_for_selector("#steps .step >> nth=2")
            assert told(other, "#steps .step") == told(page, "#steps .step")
        page.click("#answer-with")
        assert sorted(told(page, "#my-answer strong")) == ["Penny Marshall", "Robert Zemeckis"]
        page.click("#see-agent")
        page.wait_for_selector("#same")
        assert page.inner_text("#same") == "The same answer as yours."
        assert told(page, "#agent .said")[:1] == ["follow starred_actors back from Tom Hanks"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_can_be_read_in_light_and_dark_and_on_a_phone(browser: Browser, films: str, scheme: Any) -> None:
    with site_page(browser, films, color_scheme=scheme, viewport={"width": 390, "height": 844}) as page:
        for view, there in {
            "schema": "#schema svg",
            "look&name=Big": "#entity h2",
            "walk": "#walk-form",
            "upload": "#files",
        }.items():
            page.goto(f"explore?view={view}")
            page.wait_for_selector(there)
            assert page.evaluate(HARD_TO_READ) == [], view
            assert page.evaluate("() => document.documentElement.scrollWidth") <= 390, view


def test_a_key_covers_it(browser: Browser, tmp_path: Path) -> None:
    with walk_server(tmp_path, api_key="s3cret", uploads=str(tmp_path / "up")) as url, site_page(browser, url) as page:
        page.goto("explore?view=upload")
        page.fill("#key-text", "s3cret")
        page.press("#key-text", "Enter")
        page.set_input_files("#files", [csv("a.csv", "Ana,knows,Bo\n")])
        page.click("text=Build the graph")
        page.wait_for_selector("#report")
