"""Every view on a world with everything in it, and on a bus with nothing: all is there, nothing goes wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from laggard.pipeline.investigator.app import VIEWS
from tests.browser.conftest import NARROW, WIDE
from tests.browser.looks import looks
from tests.pipeline.investigator.serving import served

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Page

    from tests.pipeline.investigator.serving import Served

pytestmark = pytest.mark.slow

TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]

# What depends on the width, and on the scheme: all else is as it is wide and light.
NARROW_RULES = ["color-contrast", "target-size", "scrollable-region-focusable", "region"]
DARK_RULES = ["color-contrast"]

NO_COST = "GET /api/v1/pipeline/cost: 404"
"""Of a host of which nothing is recorded."""


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("empty") / "bus.db") as page:
        yield page


def violations(tab: Page, kind: str, rules: list[str]) -> list[str]:
    if not tab.evaluate("() => 'axe' in window"):
        tab.evaluate(Axe().axe_script)
    options = {"runOnly": {"type": kind, "values": rules}, "resultTypes": ["violations"]}
    found = tab.evaluate("options => axe.run(options).then(found => found.violations)", options)
    return [f"{each['id']}: {node['target']}: {node['failureSummary']}" for each in found for node in each["nodes"]]


def in_both_schemes(tab: Page, where: str) -> list[str]:
    """What axe-core finds wrong: wide and light in all, dark in its colors, and narrow in what depends on that."""
    wrong = [f"{where}, wide, light: {each}" for each in violations(tab, "tag", TAGS)]
    tab.emulate_media(color_scheme="dark")
    wrong += [f"{where}, wide, dark: {each}" for each in violations(tab, "rule", DARK_RULES)]
    tab.set_viewport_size(NARROW)
    wrong += [f"{where}, narrow, dark: {each}" for each in violations(tab, "rule", NARROW_RULES)]
    tab.set_viewport_size(WIDE)
    tab.emulate_media(color_scheme="light")
    return wrong


def test_every_view_shows_all_of_a_world_without_violations(seen_world: Served, tab: Page) -> None:
    wrong: list[str] = []
    for look in looks(seen_world):
        look.open(tab, seen_world.url)
        expect(tab.locator("[role=alert]")).to_have_count(0)
        expect(tab.get_by_role("heading", level=1)).to_have_count(1)
        wrong += in_both_schemes(tab, look.name)
    assert not wrong, "\n".join(wrong)


def test_every_view_says_what_to_do_where_there_is_nothing_without_violations(
    empty: Served, tab: Page, expects: Callable[[str], None]
) -> None:
    expects(NO_COST)
    wrong: list[str] = []
    for path in VIEWS:
        tab.goto(empty.url + path)
        expect(tab.get_by_role("heading", level=1)).to_be_visible()
        expect(tab.locator("main code", has_text="laggard").first).to_be_visible()
        expect(tab.locator(".error")).to_have_count(0)
        wrong += in_both_schemes(tab, f"empty {path}")
    assert not wrong, "\n".join(wrong)
