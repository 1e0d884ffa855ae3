"""Pools in a real browser: from the list down to the series of a member."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import NARROW
from tests.pipeline.investigator.comparing import FLAT, FLEET, HOSTILE, LEAKING, THREADS, compared
from tests.pipeline.investigator.serving import Served, served

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Page

    from tests.browser.conftest import NewTab, Serve

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    path = tmp_path_factory.mktemp("pools") / "bus.db"
    compared(path)
    with served(path) as page:
        yield page


def test_from_all_pools_down_to_one_member(page: Served, tab: Page) -> None:
    tab.goto(f"{page.url}/pools")
    tab.get_by_role("link", name=FLEET, exact=True).click()
    expect(tab.get_by_role("heading", name=FLEET, level=1)).to_be_visible()
    tab.get_by_role("group", name="Dendrogram").get_by_role("button", name="web-1").click()
    tab.get_by_role("link", name="Inside web-1").click()
    expect(tab.get_by_role("heading", name="Inside web-1: 6 compared")).to_be_visible()
    # Who leaks is shown unasked.
    expect(tab.get_by_role("heading", name="worker-0 beside the 5 others")).to_be_visible()
    expect(tab.get_by_role("button", name="worker-0: leak")).to_have_attribute("aria-pressed", "true")
    expect(tab.get_by_role("img", name=re.compile("memory_rss_bytes of worker-0 .* means of 2 min"))).to_be_visible()
    tab.get_by_role("button", name=re.compile("^worker-3")).click()
    expect(tab.get_by_role("heading", name="worker-3 beside the 5 others")).to_be_visible()
    tab.get_by_label("Metric").select_option("cpu_user_ratio")
    expect(tab.get_by_role("img", name=re.compile("^cpu_user_ratio of worker-3"))).to_be_visible()
    # The address alone shows a colleague the same; and what was chosen before is a step back.
    address = tab.url
    tab.go_back()
    expect(tab.get_by_role("img", name=re.compile("^memory_rss_bytes of worker-3"))).to_be_visible()
    tab.goto(address)
    expect(tab.get_by_role("img", name=re.compile("^cpu_user_ratio of worker-3"))).to_be_visible()


def test_a_dendrogram_is_walked_by_keys(page: Served, tab: Page) -> None:
    tab.goto(f"{page.url}/pools?pool={FLAT}")
    worst = tab.get_by_role("button", name="gunicorn[4713]: leak")
    expect(worst).to_have_attribute("aria-pressed", "true")
    assert tab.locator(".pools-tree [tabindex='0']").count() == 1
    tab.get_by_role("region", name="Dendrogram").focus()
    tab.keyboard.press("Tab")
    expect(worst).to_be_focused()
    tab.keyboard.press("ArrowRight")
    merge = tab.locator(".pools-tree :focus")
    expect(merge).to_have_attribute(
        "aria-label", re.compile(r"^Cluster of 8, merged at height .*; au p-value .* %: the")
    )
    tab.keyboard.press("Enter")
    expect(tab.get_by_role("heading", name="All 8")).to_be_visible()
    expect(tab.locator(".pools-chosen")).to_contain_text("Cluster of 8, merged at height")
    tab.keyboard.press("Home")
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press(" ")
    expect(tab.get_by_role("heading", name=re.compile(r"gunicorn\[47\d\d\] beside the 7 others"))).to_be_visible()


def test_a_moment_is_picked_in_the_series_and_left_again(page: Served, tab: Page) -> None:
    tab.goto(f"{page.url}/pools?pool={FLAT}&member=gunicorn[4713@99]")
    tab.locator("laggard-chart .u-over").click(position={"x": 60, "y": 40})
    expect(tab).to_have_url(re.compile(r"[?&]at=\d+"))
    expect(tab.get_by_text("No member behaves unlike the others.")).to_be_visible()
    tab.get_by_role("link", name="now", exact=True).click()
    expect(tab.get_by_text(re.compile("gunicorn \\(pid 4713\\) leaks"))).to_be_visible()


def test_hostile_names_stay_text(page: Served, new_tab: NewTab) -> None:
    tab = new_tab(viewport=NARROW, color_scheme="dark")
    tab.goto(f"{page.url}/pools")
    tab.get_by_role("link", name="<script>alert(1)</script>").click()
    expect(tab.get_by_role("heading", level=1)).to_have_text(HOSTILE.replace("\u202e", "\\u202e"))
    expect(tab.locator("laggard-chart canvas")).to_be_visible()
    assert tab.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]


def test_the_worst_thread_is_shown_at_once(page: Served, tab: Page) -> None:
    tab.goto(f"{page.url}/pools")
    tab.get_by_role("link", name=THREADS, exact=True).click()
    expect(tab.get_by_role("heading", name="Inside java[812]: 6 compared")).to_be_visible()
    expect(tab.get_by_role("heading", name="exec-3 beside the 5 others")).to_be_visible()
    expect(tab.locator("laggard-chart canvas")).to_be_visible()


def test_a_member_that_is_not_there_leaves_the_pool_to_see(
    page: Served, tab: Page, expects: Callable[[str], None]
) -> None:
    expects("GET /api/v1/pools/series.*: 404")
    tab.goto(f"{page.url}/pools?pool={FLAT}&member=gone")
    expect(tab.get_by_text("nothing was measured of 'gone' then")).to_be_visible()
    expect(tab.get_by_role("button", name="gunicorn[4713]: leak")).to_be_visible()


def test_what_is_not_there_says_what_to_do(
    tmp_path: Path, serve: Serve, page: Served, tab: Page, expects: Callable[[str], None]
) -> None:
    expects("GET /api/v1/pools/pool.*: 404")
    empty = serve(tmp_path / "empty.db")
    tab.goto(f"{empty.url}/pools")
    expect(tab.get_by_role("heading", name="No pools yet")).to_be_visible()
    expect(tab.get_by_text("finds prefork workers by itself")).to_be_visible()
    tab.goto(f"{page.url}/pools?pool=nobody")
    expect(tab.get_by_role("heading", name="there are no records of pool nobody")).to_be_visible()


def test_a_link_of_the_ranking_shows_its_member(page: Served, tab: Page) -> None:
    tab.goto(f"{page.url}/pools?pool={FLEET}")
    tab.get_by_role("region", name="Outliers").get_by_role("link", name=LEAKING, exact=True).click()
    expect(tab.get_by_role("heading", name="Inside web-1: 6 compared")).to_be_visible()
    expect(tab.get_by_role("heading", name="worker-0 beside the 5 others")).to_be_visible()
