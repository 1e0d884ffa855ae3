"""What a person does with applications: track, analyze, diagnose, wish; on a wide page and on a narrow one."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import NARROW
from tests.pipeline.investigator.serving import served
from tests.pipeline.investigator.shop import DISKS, HOSTILE, SETTINGS, WAITS, learned, outgoing
from tests.pipeline.methods.applications.records import counted, measured

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Page

    from tests.browser.conftest import NewTab, Serve
    from tests.pipeline.investigator.serving import Served

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(learned(tmp_path_factory.mktemp("shop") / "bus.db"), **SETTINGS) as page:
        yield page


def opened(tab: Page, page: Served, query: str = "") -> None:
    tab.goto(f"{page.url}/applications{query}")


def quiet(tab: Page) -> None:
    """Wait until all that is asked for has come and is drawn."""
    expect(tab.locator("main [aria-busy=true]")).to_have_count(0)
    tab.evaluate("() => new Promise((next) => requestAnimationFrame(() => setTimeout(next)))")


def test_the_slow_application_is_tracked_first(page: Served, tab: Page) -> None:
    opened(tab, page)
    expect(tab.get_by_role("heading", name="shop", level=1)).to_be_visible()
    applications = tab.get_by_role("navigation", name="Applications")
    expect(applications.get_by_role("link", name="shop")).to_contain_text("slow since")
    expect(applications.get_by_role("link", name="blog")).to_contain_text("no model yet")
    expect(tab.get_by_text("Most likely db-1 is short of disk throughput")).to_be_visible()
    expect(tab.get_by_role("link", name="Incident since")).to_have_attribute("href", re.compile("/incidents.*id="))
    chart = tab.get_by_role("img", name="Mean response time, measured and predicted")
    expect(chart).to_be_visible()
    drawn = chart.evaluate(
        """chart => chart.plot.data.slice(1).map(values => values.filter(value => value !== null).length)"""
    )
    assert drawn == [59, 49]  # the first ten intervals have no prediction
    expect(tab.get_by_role("row", name=re.compile("mean response time response times had changed"))).to_be_visible()


def test_dragging_over_a_chart_looks_closer_and_the_link_says_so(page: Served, tab: Page) -> None:
    opened(tab, page)
    chart = tab.get_by_role("img", name="Mean response time, measured")
    quiet(tab)  # what comes later moves it
    chart.scroll_into_view_if_needed()
    box = chart.locator(".u-over").bounding_box()
    assert box is not None
    tab.mouse.move(box["x"] + 0.2 * box["width"], box["y"] + 50)
    tab.mouse.down()
    tab.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 50, steps=4)
    tab.mouse.up()
    expect(tab).to_have_url(re.compile(r"from=\d+&to=\d+"))
    analysis = tab.get_by_role("link", name="Analysis", exact=True)
    expect(analysis).to_have_attribute("href", re.compile(r"from=\d+&to=\d+"))  # drawn after the address changes
    analysis.click()
    performance = tab.get_by_role("img", name="Mean response time in the same intervals")
    expect(performance).to_be_visible()
    quiet(tab)
    assert 10 < performance.evaluate("chart => chart.plot.data[0].length") < 25  # of 59 intervals
    tab.get_by_role("button", name="Back to now").click()
    expect(tab).not_to_have_url(re.compile("from="))


def test_a_metric_that_is_clicked_is_shown_in_plain_words_beside_the_performance(page: Served, tab: Page) -> None:
    opened(tab, page, "?application=shop&tab=analysis")
    expect(tab.get_by_role("heading", name="Time that postgres on db-1 waited for disks", level=2)).to_be_visible()
    tab.get_by_role("region", name="Metrics of phase 1").get_by_role("link", name=WAITS).click()
    expect(tab.get_by_role("heading", name="Time that some task on web-1 waited for a CPU", level=2)).to_be_visible()
    expect(tab).to_have_url(re.compile("metric=web-1%3Apressure_cpu_some_ratio"))
    metric = tab.get_by_role("img", name="mean per interval")
    performance = tab.get_by_role("img", name="Mean response time in the same intervals")
    metric.hover()
    pointed = [each.evaluate("chart => chart.plot.cursor.idx") for each in (metric, performance)]
    assert pointed[0] is not None
    assert pointed[0] == pointed[1]
    expect(tab.get_by_role("button", name="Predict")).to_be_hidden()  # it is in no model


def test_what_a_model_before_was_chosen_from(page: Served, tab: Page) -> None:
    opened(tab, page, "?application=shop&tab=analysis")
    models = tab.get_by_role("heading", name="Models over time").locator("xpath=..").get_by_role("listitem")
    expect(models.first).to_contain_text("current")
    expect(models.first).to_contain_text(f"* {DISKS}")
    first = models.filter(has_text="It is the first one")
    first.get_by_role("link", name="Candidate metrics").click()
    expect(tab).to_have_url(re.compile("model="))
    chosen = tab.get_by_role("region", name="Metrics of phase 1").get_by_role("row").filter(has_text="in the model")
    expect(chosen).to_contain_text("web-1")
    tab.get_by_role("link", name="Show the current one").click()
    expect(chosen).to_contain_text(DISKS)


def test_what_if_and_any_other_metric(page: Served, tab: Page) -> None:
    opened(tab, page, "?application=shop&tab=analysis")
    tab.get_by_label("Predict at").fill("20%")
    tab.get_by_role("button", name="Predict").click()
    expect(tab.get_by_text("The mean response time of shop would be")).to_be_visible()
    tab.get_by_label("Other metric").fill("web-2:cpu")
    expect(tab.locator("#applications-near option").first).to_have_attribute("value", "web-2:cpu_busy_ratio")
    tab.get_by_label("Other metric").fill("web-2:cpu_busy_ratio")
    tab.get_by_label("Other metric").press("Enter")
    expect(tab.get_by_role("heading", name="Share of CPU time of web-2 that was used", level=2)).to_be_visible()


def test_the_map_places_both_phases_on_hosts_in_tiers(page: Served, tab: Page) -> None:
    opened(tab, page, "?application=shop&tab=diagnosis")
    tiers = tab.get_by_role("list", name="Tiers of shop")
    expect(tiers.get_by_role("heading", level=2)).to_have_text(["web", "db"])
    database = tiers.locator("section").filter(has_text="db-1")
    expect(database.get_by_role("heading", level=3)).to_contain_text("culprit")
    expect(database.get_by_role("list", name="In the model")).to_contain_text("now ")
    database.get_by_role("link", name="time that postgres on db-1 waited for disks").click()
    expect(tab.get_by_role("heading", name="Time that postgres on db-1 waited for disks", level=2)).to_be_visible()


def test_names_that_would_be_more_than_names_are_text(page: Served, tab: Page) -> None:
    opened(tab, page, "?application=shop&tab=diagnosis")
    expect(tab.get_by_role("link", name=f"time that {HOSTILE} on web-2 waited for disks")).to_be_visible()
    tab.get_by_role("link", name=f"time that {HOSTILE} on web-2 waited for disks").click()
    expect(tab.get_by_text(f"web-2/{HOSTILE}:io_delay_ratio", exact=True).last).to_be_visible()
    assert tab.locator("img[src=x]").count() == 0


def test_an_application_may_be_called_anything(tmp_path: Path, serve: Serve, tab: Page) -> None:
    name = "<img src=x onerror=alert(1)>\u202egnp"
    page = serve(tmp_path / "bus.db")
    page.reading.bus.append([outgoing(measured(0.0, application=name))])
    opened(tab, page)
    expect(tab.get_by_role("heading", level=1)).to_have_text("<img src=x onerror=alert(1)>\\u202egnp")
    assert tab.locator("img[src=x]").count() == 0


def test_of_an_application_without_models_it_is_told_what_is_lacking(page: Served, tab: Page) -> None:
    opened(tab, page, "?application=blog")
    expect(tab.get_by_role("heading", name="Missing for a model")).to_be_visible()
    expect(tab.get_by_text("laggard up --set 'applications.hosts=blog=web-* db-1'")).to_be_visible()


def test_of_one_that_is_not_there_it_is_told_which_are(page: Served, tab: Page, expects: Callable[[str], None]) -> None:
    expects("GET .*/applications/tracking.*: 404")
    opened(tab, page, "?application=<b>shpo</b>")
    expect(tab.get_by_role("heading", name="there are no records of application <b>shpo</b>")).to_be_visible()


def test_an_empty_page_tells_what_to_type(tmp_path: Path, serve: Serve, tab: Page) -> None:
    page = serve(tmp_path / "bus.db")
    opened(tab, page)
    expect(tab.get_by_role("heading", name="No applications yet")).to_be_visible()
    expect(tab.get_by_text("laggard up --set 'applications.hosts=shop=web-* db-1'")).to_be_visible()


def test_on_a_narrow_page_nothing_is_cut_off_and_a_chosen_metric_comes_into_view(page: Served, new_tab: NewTab) -> None:
    tab = new_tab(viewport=NARROW, color_scheme="dark")
    for name in ("configuration", "tracking", "diagnosis", "analysis"):
        opened(tab, page, f"?application=shop&tab={name}")
        expect(tab.locator(".applications-shown .card").first).to_be_visible()
        assert tab.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
    tab.get_by_role("region", name="Metrics of phase 1").get_by_role("link", name=WAITS).click()
    expect(tab.get_by_role("heading", name="Time that some task on web-1 waited", level=2)).to_be_in_viewport()


def test_a_metric_is_pinned_live(tmp_path: Path, serve: Serve, tab: Page) -> None:
    """The wish is made, waits for the next interval, and holds when that has come."""
    page = serve(learned(tmp_path / "bus.db", 12), **SETTINGS)
    opened(tab, page, f"?application=shop&tab=analysis&metric={DISKS}")
    tab.get_by_role("button", name="Pin", exact=True).click()
    expect(tab.get_by_text(f"Pinned: {DISKS}. In effect from the next interval.")).to_be_visible()
    expect(tab.get_by_text("pin, from the next interval").first).to_be_visible()
    now = time.time() + 10.0
    later = [counted(0.0, {"web-1": {"x_ratio": 0.1}}), measured(0.0), counted(0.0, {"web-1": {"x_ratio": 1.0}})]
    page.reading.bus.append([outgoing(replace(each, ts=now + at)) for at, each in enumerate(later)])
    expect(tab.get_by_role("button", name="Free")).to_be_visible()
    expect(tab.get_by_role("button", name="Pin", exact=True)).to_be_disabled()
    tab.get_by_role("link", name="Configuration").click()
    tab.get_by_role("button", name=f"Free {DISKS}").click()
    expect(tab.get_by_text(f"Freed: {DISKS}")).to_be_visible()
    expect(tab.get_by_text("free, from the next interval")).to_be_visible()


def test_who_may_only_look_is_shown_no_buttons_for_wishes(
    tmp_path: Path, serve: Serve, tab: Page, expects: Callable[[str], None]
) -> None:
    tokens = {"serve_token": "a-token-that-opens-all", "serve_read_token": "a-token-for-those-who-look"}
    expects("GET .*/cluster: 401")
    page = serve(learned(tmp_path / "bus.db", 12), **SETTINGS, **tokens)
    opened(tab, page, f"?application=shop&tab=analysis&metric={WAITS}")
    tab.get_by_label("Token").fill(tokens["serve_read_token"])
    tab.get_by_role("button", name="Open").click()
    expect(tab.get_by_role("img", name="mean per interval")).to_be_visible()
    expect(tab.get_by_role("button", name="Pin", exact=True)).to_have_count(0)
