"""The page of runs in a real browser: a real training, its curves and walks, rows that are added, two runs compared."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from test_site_browser import HARD_TO_READ

from browser import site_page
from conftest import FILMS
from films_questions import RIGHT, write_films
from kgwalk.bench.servers import ScanGraph
from kgwalk.serve.app import create_app
from kgwalk.serve.run import in_background
from kgwalk.serve.settings import ServeSettings
from run_folders import EVIL, add_steps, evaluated, trained

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real training of a tiny model; two by hand, with evaluations by a scripted model; one with a name of markup."""
    from kgwalk.training.pipeline import train

    place = tmp_path_factory.mktemp("runs")
    short = ["sft.epochs=3", "sft.eval_questions=0", "grpo.steps=3", "grpo.questions=2", "grpo.eval_questions=0"]
    values = ['train.stages=["demos","sft","grpo"]', *short]
    train("kgwalk", "world", profile="smoke", out=place / "runs" / "smoke", values=values)
    films = write_films(place / "films")
    evaluated(films, trained(place / "runs" / "first") / "eval")
    evaluated(films, trained(place / "runs" / "second", reward=0.2) / "eval", hanks=RIGHT)
    trained(place / "runs" / EVIL.replace("/", ""), name=EVIL)
    return place / "runs"


@pytest.fixture(scope="module")
def url(runs: Path) -> Iterator[str]:
    app = create_app(ServeSettings(runs=str(runs)), {"films": ScanGraph(FILMS)})
    with in_background(app) as address:
        yield address


@pytest.fixture
def page(browser: Browser, url: str) -> Iterator[Page]:
    with site_page(browser, url) as opened:
        yield opened


def test_a_real_training_has_curves_and_a_transcript(page: Page) -> None:
    page.goto("/runs")
    page.get_by_role("link", name="smoke").click()
    page.get_by_role("tab", name="Curves").wait_for()
    reward = page.locator("[data-chart=Reward]")
    reward.locator("canvas").wait_for()
    assert "at step 3" in (reward.get_by_role("img").get_attribute("aria-label") or "")
    titles = page.locator(".charts h2").all_text_contents()
    assert [
        title
        for title in ("Reward", "F1", "Entropy", "Tokens a walk", "Tokens a second")
        if not any(title in one for one in titles)
    ] == []
    page.get_by_role("button", name="SFT").click()
    page.locator("[data-chart=Loss] canvas").wait_for()
    page.get_by_role("tab", name="Walks").click()
    walk = page.locator("details.walk[open]")
    walk.locator(".turn").first.wait_for()
    assert "advantage" in walk.locator(".turn").first.inner_text()
    grey, ink = (
        walk.locator(one).first.evaluate("one => getComputedStyle(one).color") for one in ("pre.told", "pre.own")
    )
    assert grey != ink
    page.get_by_role("tab", name="Recipe").click()
    page.locator("#panel").get_by_text("tiny-random").first.wait_for()


def test_filters_and_the_step_slider(page: Page) -> None:
    page.goto("/runs?run=first&tab=walks")
    page.get_by_label("Show").select_option("wrong")
    page.get_by_text("1 to 3 of 3 walks").wait_for()
    assert page.locator("details.walk.wrong").count() == 3
    assert page.locator("details.walk.right").count() == 0
    assert "malformed: no call and no answer" in page.locator("details.walk[open]").inner_text()
    slider = page.get_by_role("slider", name="Step")
    assert slider.get_attribute("aria-valuetext") == "all steps"
    slider.press("ArrowRight")
    page.get_by_text("1 to 1 of 1 walks").wait_for()
    assert "in step 1?" in page.locator("details.walk").inner_text()
    page.get_by_role("button", name="the next step").click()
    page.locator(".asked").get_by_text("in step 2?").wait_for()
    assert "show=wrong&step=2" in page.url
    page.reload()  # a link shows the same
    page.locator(".asked").get_by_text("in step 2?").wait_for()
    assert page.get_by_label("Show").input_value() == "wrong"
    page.get_by_label("Hops").select_option("1")
    page.get_by_text("No walk fits").wait_for()


def test_rows_that_are_added_show_up(page: Page, runs: Path) -> None:
    page.goto("/runs?run=second")
    label = page.locator("[data-chart=Reward]").get_by_role("img")
    label.wait_for()
    assert label.get_attribute("aria-label") == "Reward: reward 0.6 at step 3"
    add_steps(runs / "second", range(4, 6), reward=0.2)
    page.get_by_label("Reward: reward 1 at step 5").wait_for()
    page.get_by_text("grpo, step 5 of 10").wait_for()
    young = trained(runs / "young", steps=0)
    page.goto("/runs?run=young")
    page.get_by_text("No step of this stage is done yet.").wait_for()
    add_steps(young, range(1, 2))
    page.get_by_label("Reward: reward 0.1 at step 1").wait_for()


def test_two_runs_are_compared(page: Page) -> None:
    page.goto("/runs")
    page.get_by_label("compare first", exact=True).check()
    assert page.get_by_role("button", name="Compare two").is_disabled()
    page.get_by_label("compare second", exact=True).check()
    page.get_by_role("button", name="Compare two").click()
    page.get_by_role("heading", name="5 questions in both, paired").wait_for()
    f1 = page.get_by_role("row").filter(has=page.get_by_role("cell", name="f1", exact=True)).first
    assert f1.get_by_role("cell").all_inner_texts()[1:4] == ["0.467", "0.533", "+0.067"]
    assert "sections.grpo.lr" in page.locator("#panel").inner_text()
    page.locator(".changed summary").first.click()
    page.locator(".pair details.walk").nth(1).wait_for()  # the same question in both
    page.locator("figure svg").first.wait_for()
    page.get_by_role("tab", name="Curves").click()
    page.locator("[data-chart=Reward] .u-legend").get_by_text("second").wait_for()


def test_a_name_that_is_markup_stays_text(page: Page) -> None:
    page.goto("/runs")
    page.get_by_role("link", name="onerror").click()
    page.get_by_role("tab", name="Walks").click()
    page.locator("details.walk").first.wait_for()
    assert EVIL in page.locator("details.walk .asked").first.inner_text()
    assert "<img" in page.get_by_role("heading", level=1).inner_text()
    assert page.locator("#main img").count() == 0
    assert "owned" not in page.title().split(" - ")[1]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_can_be_read_in_light_and_dark_and_on_a_phone(browser: Browser, url: str, scheme: Any) -> None:
    with site_page(browser, url, viewport={"width": 390, "height": 844}, color_scheme=scheme) as page:
        for path, there in (
            ("/runs", "smoke"),
            ("/runs?run=smoke", "Entropy"),
            ("/runs?run=first&tab=walks", "Right answer"),
            ("/runs?run=first&tab=scores", "Calibration"),
            ("/runs?run=first&with=second", "Accuracy by group"),
            ("/runs?run=first&tab=recipe", "Made with"),
        ):
            page.goto(path)
            page.get_by_text(there).first.wait_for()
            assert page.evaluate(HARD_TO_READ) == [], path
            assert page.evaluate("document.documentElement.scrollWidth") <= 390, path


def test_without_runs_the_page_says_what_to_do(browser: Browser) -> None:
    with (
        in_background(create_app(ServeSettings(), {"films": ScanGraph(FILMS)})) as url,
        site_page(browser, url) as page,
    ):
        page.goto("/runs")
        page.get_by_text("kgwalk serve --runs runs").wait_for()
