"""The fixtures themselves: a page that does wrong fails its test."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from laggard.pipeline.investigator.guard import CONTENT_SECURITY_POLICY
from tests.browser.conftest import until
from tests.browser.watch import Watch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.slow

PAGES = {
    "/good": (200, "text/html", "<!doctype html><link rel=icon href='data:,'><p>fine"),
    "/throws": (200, "text/html", "<!doctype html><link rel=icon href='data:,'><script src=/throws.js></script>"),
    "/throws.js": (200, "text/javascript", "setTimeout(() => { throw new Error('broken'); })"),
    "/inline": (200, "text/html", "<!doctype html><link rel=icon href='data:,'><script>1</script>"),
    "/styled": (200, "text/html", "<!doctype html><link rel=icon href='data:,'><p style='color: red'>red"),
    "/sink": (200, "text/html", "<!doctype html><link rel=icon href='data:,'><script src=/sink.js></script>"),
    "/sink.js": (200, "text/javascript", "document.documentElement.innerHTML = '<b>'"),
    "/opens": (200, "text/html", "<!doctype html><link rel=icon href='data:,'><a href=/throws target=_blank>open</a>"),
    "/lacks": (200, "text/html", "<!doctype html><link rel=icon href='data:,'><img src=/nothing.png>"),
}


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        status, kind, body = PAGES.get(self.path, (404, "text/plain", ""))
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Security-Policy", CONTENT_SECURITY_POLICY)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def pages() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("path", "wrong"),
    [
        ("/throws", "error: broken"),
        ("/inline", "console: Executing inline script violates"),
        ("/styled", "console: Applying inline style violates"),
        ("/sink", "TrustedHTML"),
        ("/lacks", "GET /nothing.png: 404"),
    ],
)
def test_what_goes_wrong_in_a_page_is_told(tab: Page, watch: Watch, path: str, wrong: str) -> None:
    with pages() as url:
        tab.goto(url + path)
        until(tab, lambda: bool(watch.wrong))
    with pytest.raises(AssertionError, match=wrong):
        watch.check()
    watch.expects(wrong)


def test_a_good_page_passes_and_what_is_expected_must_happen(browser: Browser) -> None:
    watch = Watch()
    with pages() as url, browser.new_context() as context:
        page = context.new_page()
        watch.begin(page)
        page.goto(f"{url}/good")
    watch.check()
    watch.expects("404")
    with pytest.raises(AssertionError, match="did not happen"):
        watch.check()


def test_a_tab_that_a_link_opens_is_watched_too(tab: Page, watch: Watch) -> None:
    with pages() as url:
        tab.goto(f"{url}/opens")
        with tab.context.expect_page() as opened:
            tab.get_by_role("link").click()
        until(opened.value, lambda: bool(watch.wrong))
    assert watch.wrong == ["error: broken"]
    watch.expects("broken")
