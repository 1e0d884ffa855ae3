"""Who is let in, in a real browser: a person with a token, and no page of another site."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.pipeline.investigator.serving import served

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

    from tests.browser.conftest import Serve
    from tests.pipeline.investigator.serving import Served

pytestmark = pytest.mark.slow

TOKEN = "correct-horse-battery"
READ_TOKEN = "only-to-look-at-it"
BEARER = {"Authorization": f"Bearer {TOKEN}"}

ASKS = """async ([url, options]) => {
    try {
        const answer = await fetch(url, options);
        return [answer.type, answer.status, await answer.text()];
    } catch (error) {
        return [error.name];
    }
}"""


class _Blank(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><link rel=icon href='data:,'><p>another site")

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def another_site(name: str) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Blank) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://{name}:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def locked(tmp_path: Path, serve: Serve) -> Served:
    return serve(tmp_path / "bus.db", serve_token=TOKEN, serve_read_token=READ_TOKEN)


def unlock(tab: Page, token: str) -> None:
    tab.get_by_label("Token").fill(token)
    tab.get_by_role("button", name="Open").press("Enter")


def test_a_person_opens_the_page_by_a_token_and_locks_it(
    locked: Served, tab: Page, expects: Callable[[str], None]
) -> None:
    expects(r"GET /api/v1/\w+: 401")  # what is asked for while it is locked is refused, too
    expects(r"POST /api/v1/session: 401")
    tab.goto(f"{locked.url}/requests")
    expect(tab.get_by_role("heading", name="Token required")).to_be_visible()
    expect(tab.get_by_label("Token")).to_be_focused()
    unlock(tab, "the wrong one, and long")
    expect(tab.get_by_text("the token is wrong")).to_be_visible()
    unlock(tab, TOKEN)
    lock = tab.get_by_role("button", name="Lock")
    expect(lock).to_be_visible()
    expect(tab.get_by_label("Token")).to_have_count(0)
    assert TOKEN not in tab.url + tab.content() + str(
        tab.evaluate("[{...sessionStorage}, {...localStorage}, document.cookie]")
    )

    tab.reload()
    expect(lock).to_be_visible()
    # One more tab asks the first one, not the person; and what one of them does holds for both.
    second = tab.context.new_page()
    second.goto(f"{locked.url}/pools")
    expect(second.get_by_role("button", name="Lock")).to_be_visible()
    second.get_by_role("button", name="Lock").click()
    for each in (second, tab):
        expect(each.get_by_label("Token")).to_be_visible()
    assert not tab.context.cookies()
    unlock(tab, READ_TOKEN)
    for each in (second, tab):
        expect(each.get_by_role("button", name="Lock")).to_be_visible()


def test_the_link_that_is_printed_once_opens_the_page_and_is_forgotten(
    locked: Served, tab: Page, expects: Callable[[str], None]
) -> None:
    expects(r": 401")
    tab.goto(f"{locked.url}/pools?host=web-1#token={TOKEN}")
    lock = tab.get_by_role("button", name="Lock")
    expect(lock).to_be_visible()
    assert tab.url == f"{locked.url}/pools?host=web-1"
    assert TOKEN not in tab.content() + str(tab.evaluate("[{...sessionStorage}, {...localStorage}, document.cookie]"))
    lock.click()
    expect(tab.get_by_label("Token")).to_be_visible()
    # Pasted where the page is already, it loads nothing anew.
    tab.goto(f"{tab.url}#token=the-wrong-one-and-long")
    expect(tab.get_by_text("the token is wrong")).to_be_visible()
    tab.goto(f"{tab.url}#token={TOKEN}")
    expect(lock).to_be_visible()
    assert "#" not in tab.url


def test_a_session_that_ends_elsewhere_locks_the_page(
    locked: Served, tab: Page, expects: Callable[[str], None]
) -> None:
    expects(r": 401")
    tab.goto(f"{locked.url}/pools")
    unlock(tab, TOKEN)
    expect(tab.get_by_role("button", name="Lock")).to_be_visible()
    tab.context.clear_cookies()  # as after the end of laggard: the key alone opens nothing
    tab.get_by_role("link", name="Requests").click()
    expect(tab.get_by_label("Token")).to_be_visible()


def test_through_a_proxy_no_token_is_asked_for(
    tmp_path: Path, serve: Serve, tab: Page, expects: Callable[[str], None]
) -> None:
    expects(r"GET /api/v1/cluster: 401")
    page = serve(tmp_path / "bus.db", serve_proxies="127.0.0.1")
    tab.goto(f"{page.url}/pools")
    expect(tab.get_by_role("heading", name="Not authenticated")).to_be_visible()
    expect(tab.get_by_text("X-Forwarded-User")).to_be_visible()
    expect(tab.get_by_label("Token")).to_have_count(0)
    tab.set_extra_http_headers({"X-Forwarded-User": "<b>ada</b>"})
    tab.reload()
    expect(tab.get_by_text("<b>ada</b>")).to_be_visible()
    expect(tab.get_by_role("heading", name="No pools yet")).to_be_visible()
    expect(tab.get_by_role("button", name="Lock")).to_have_count(0)


# Another port of this machine is the same site, to which a browser sends the cookie; another name is not.
@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_a_page_of_another_site_neither_reads_nor_changes_nor_shows(
    locked: Served, browser: Browser, name: str
) -> None:
    with another_site(name) as elsewhere, browser.new_context() as context:
        mine = context.new_page()
        mine.goto(f"{locked.url}/pools")
        unlock(mine, TOKEN)
        expect(mine.get_by_role("button", name="Lock")).to_be_visible()
        theirs = context.new_page()
        theirs.goto(elsewhere)

        data, marks = f"{locked.url}/api/v1/cluster", f"{locked.url}/api/v1/marks"
        with_cookie = {"credentials": "include"}
        assert theirs.evaluate(ASKS, [data, with_cookie]) == ["TypeError"]
        assert theirs.evaluate(ASKS, [data, with_cookie | {"mode": "no-cors"}]) == ["TypeError"]
        mark = {"method": "POST", "body": '{"host": "web-1"}', "mode": "no-cors"}
        assert theirs.evaluate(ASKS, [marks, with_cookie | mark]) == ["TypeError"]
        json = {"method": "POST", "body": '{"host": "web-1"}', "headers": {"Content-Type": "application/json"}}
        assert theirs.evaluate(ASKS, [marks, with_cookie | json]) == ["TypeError"]
        assert (
            theirs.evaluate(
                """(url) => new Promise((told) => {
                const script = document.createElement("script");
                script.onload = () => told("loaded");
                script.onerror = () => told("refused");
                script.src = url;
                document.head.append(script);
            })""",
                f"{locked.url}/assets/state.js",
            )
            == "refused"
        )

        theirs.evaluate(
            """(url) => new Promise((told) => {
                const frame = document.createElement("iframe");
                frame.onload = told;
                frame.src = url;
                document.body.append(frame);
            })""",
            f"{locked.url}/pools",
        )
        (frame,) = theirs.frames[1:]
        assert not frame.url.startswith("http"), "an error is shown in its place"

        with context.expect_page() as opened:
            theirs.evaluate("(url) => { window.opened = window.open(url); }", f"{locked.url}/pools")
        expect(opened.value.get_by_role("button", name="Lock")).to_be_visible()
        assert theirs.evaluate("window.opened.closed"), "nothing of the window can be reached"
        assert locked.client.get("/api/v1/marks", headers=BEARER).json() == {"marks": []}


def test_a_name_that_leads_to_this_machine_opens_nothing(tmp_path: Path, browser: Browser) -> None:
    with served(tmp_path / "bus.db") as page, browser.new_context() as context:
        tab = context.new_page()
        # Browsers take this name for 127.0.0.1, as a name server of the attacker's may say of any other.
        answer = tab.goto(page.url.replace("127.0.0.1", "rebound.localhost"))
        assert answer is not None
        assert (answer.status, answer.request.headers.get("host", "")) == (403, "")
        assert tab.evaluate(ASKS, ["/api/v1/cluster", {}])[1] == 403
        assert tab.evaluate(ASKS, ["/assets/main.js", {}])[1] == 403
