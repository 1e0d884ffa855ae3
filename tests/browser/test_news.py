"""A page listens for what is new while somebody looks at it, and only then."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from laggard.pipeline.core.bus import Outgoing
from laggard.pipeline.core.records import Mark, encode

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Page

    from tests.browser.conftest import Serve

pytestmark = pytest.mark.slow

LOOKS = """(away) => {
    Object.defineProperty(document, "hidden", { value: away, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
}"""


def is_news(url: str) -> bool:
    return url.endswith("/api/v1/live")


def test_a_hidden_tab_has_no_connection(tmp_path: Path, serve: Serve, tab: Page) -> None:
    page = serve(tmp_path / "bus.db")
    with tab.expect_response(lambda answer: is_news(answer.url)):
        tab.goto(f"{page.url}/pools")
    expect(tab.get_by_role("heading", name="No pools yet")).to_be_visible()
    with tab.expect_event("requestfailed", lambda request: is_news(request.url)):
        tab.evaluate(LOOKS, True)
    asked: list[str] = []
    tab.on("request", lambda request: asked.append(request.url))
    page.reading.bus.append([Outgoing("laggard.pools", "web-1", encode(Mark("web-1", 1.7e9, "")), 1.7e9)])
    tab.wait_for_timeout(1500)
    assert asked == []
    # When somebody looks again, it listens again, and asks for what may have been missed.
    with tab.expect_response(lambda answer: is_news(answer.url)), tab.expect_response("**/api/v1/pools*"):
        tab.evaluate(LOOKS, False)
