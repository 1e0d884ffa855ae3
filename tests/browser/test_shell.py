"""What holds all views: after a restart, for a person who is quick, and where a browser stores nothing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.pipeline.investigator.serving import served

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import Page

    from tests.browser.conftest import NewTab, Serve
    from tests.pipeline.investigator.serving import Served

pytestmark = pytest.mark.slow

TOKEN = "correct-horse-battery"

STORES_NOTHING = """for (const name of ["localStorage", "sessionStorage"]) {
    Object.defineProperty(window, name, { get() { throw new DOMException("denied", "SecurityError"); } });
}"""

THERE_AND_BACK = """() => {
    window.listening = 0;
    for (const [name, one] of [["addEventListener", 1], ["removeEventListener", -1]]) {
        const real = document[name];
        document[name] = (type, ...rest) => {
            if (type === "keydown") window.listening += one;
            real.call(document, type, ...rest);
        };
    }
    const [now, pools] = ["Now", "Pools"].map((title) =>
        [...document.querySelectorAll("header nav a")].find((link) => link.textContent === title));
    for (const link of [now, pools, now, pools, now]) link.click();
}"""


def heading(tab: Page, name: str | re.Pattern[str]) -> None:
    expect(tab.get_by_role("heading", level=1, name=name)).to_be_visible()


def test_a_restart_ends_the_session_and_the_page_asks_for_the_token(
    tmp_path: Path, tab: Page, expects: Callable[[str], None]
) -> None:
    expects(r": 401|ERR_|net::")
    with served(tmp_path / "bus.db", serve_token=TOKEN) as page:
        tab.goto(f"{page.url}/pools")
        tab.get_by_label("Token").fill(TOKEN)
        tab.get_by_role("button", name="Open").click()
        heading(tab, "No pools yet")
    with served(tmp_path / "bus.db", serve_token=TOKEN, serve_listen=page.url.removeprefix("http://")):
        expect(tab.get_by_label("Token")).to_be_focused()
        tab.get_by_label("Token").fill(TOKEN)
        tab.get_by_role("button", name="Open").click()
        heading(tab, "No pools yet")
        tab.goto("about:blank")


def test_what_could_not_be_read_is_read_when_laggard_answers_again(
    tmp_path: Path, tab: Page, expects: Callable[[str], None]
) -> None:
    expects(r"ERR_|net::|dynamically imported")
    with served(tmp_path / "bus.db") as page:
        tab.goto(f"{page.url}/pools")
        heading(tab, "No pools yet")
    tab.get_by_role("link", name="Requests").click()
    heading(tab, "Cannot load this view")
    with served(tmp_path / "bus.db", serve_listen=page.url.removeprefix("http://")):
        heading(tab, "No requests yet")
        tab.goto("about:blank")


def test_where_a_browser_stores_nothing_the_tab_remembers(
    new_tab: NewTab, tmp_path: Path, serve: Serve, expects: Callable[[str], None]
) -> None:
    expects(r": 401")
    tab = new_tab()
    tab.add_init_script(STORES_NOTHING)
    page = serve(tmp_path / "bus.db", serve_token=TOKEN)
    tab.goto(f"{page.url}/pools")
    tab.get_by_label("Token").fill(TOKEN)
    tab.get_by_role("button", name="Open").click()
    heading(tab, "No pools yet")
    tab.get_by_label("Colors").select_option("Dark")
    assert tab.evaluate("document.documentElement.dataset.theme") == "dark"
    tab.get_by_role("link", name="Requests").click()
    heading(tab, "No requests yet")


def test_there_and_back_before_a_view_has_come_leaves_one_of_it(tmp_path: Path, serve: Serve, tab: Page) -> None:
    page = serve(tmp_path / "bus.db")
    tab.goto(f"{page.url}/pools")
    heading(tab, "No pools yet")
    tab.evaluate(THERE_AND_BACK)
    heading(tab, "No data yet")
    assert tab.evaluate("listening") == 1
    tab.get_by_role("link", name="Pools").click()
    heading(tab, "No pools yet")
    assert tab.evaluate("listening") == 0


def test_the_first_link_skips_the_menu(tmp_path: Path, serve: Serve, tab: Page) -> None:
    page = serve(tmp_path / "bus.db")
    tab.goto(f"{page.url}/pools?host=web-1")
    heading(tab, "No pools yet")
    tab.keyboard.press("Tab")
    tab.keyboard.press("Enter")
    expect(tab.locator("main")).to_be_focused()
    assert tab.url.endswith("/pools?host=web-1")


def test_addresses_that_are_nonsense_break_nothing(
    seen_world: Served, tab: Page, expects: Callable[[str], None]
) -> None:
    expects(r": 40[04]")
    nonsense = (
        "from=9&to=3&compare=-1e300&range=toString&tab=constructor&row=%E2%80%AE%00&letter=x&zoom=-4&level=%3Cb%3E"
    )
    for path in ("/", "/incidents", "/applications", "/pools", "/requests", "/pipeline"):
        for at in ("abc", "1e17", "-5"):
            tab.goto(f"{seen_world.url}{path}?at={at}&{nonsense}")
            heading(tab, re.compile("."))
            expect(tab.get_by_role("alert")).to_have_count(0)
