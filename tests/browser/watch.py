"""What goes wrong in a page while it is looked at."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from playwright.sync_api import ConsoleMessage, Page, Request, Response

BAD_STATUS: Final = 400

# Chromium says so of every answer of 400 and more, without its method and its path: `_answered` tells those.
_TOLD_BY_STATUS: Final = "Failed to load resource: the server responded with a status of"

# The error of a request that a page aborts itself, when it asks anew or is left.
_GIVEN_UP: Final = "net::ERR_ABORTED"


class Watch:
    """Notes errors of scripts, errors on the console, violations of the Content-Security-Policy (which Chromium tells
    there), answers that refuse, and requests that fail.

    Attributes:
        wrong: what has gone wrong, such as `GET /api/v1/moment: 404`.

    """

    def __init__(self) -> None:
        self.wrong: list[str] = []
        self._expected: list[str] = []

    def begin(self, page: Page) -> None:
        """Watch one more page."""
        page.on("console", self._logged)
        page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        page.on("response", self._answered)
        page.on("requestfailed", self._failed)

    def expects(self, pattern: str) -> None:
        """Say that something goes wrong that this regular expression matches: it is no fault, but must happen."""
        self._expected.append(pattern)

    def check(self) -> None:
        """Raise `AssertionError` for what has gone wrong and is not expected, or is expected and has not happened."""
        unexpected = [one for one in self.wrong if not any(re.search(each, one) for each in self._expected)]
        assert not unexpected, "in the page:\n" + "\n".join(unexpected)
        missed = [each for each in self._expected if not any(re.search(each, one) for one in self.wrong)]
        assert not missed, f"expected in the page, but it did not happen: {missed}"

    def _logged(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning", "assert") and not message.text.startswith(_TOLD_BY_STATUS):
            self.wrong.append(f"console: {message.text}")

    def _answered(self, response: Response) -> None:
        if response.status >= BAD_STATUS:
            self.wrong.append(f"{_told(response.request)}: {response.status}")

    def _failed(self, request: Request) -> None:
        if request.failure != _GIVEN_UP:
            self.wrong.append(f"{_told(request)}: {request.failure}")


def _told(request: Request) -> str:
    return f"{request.method} /{request.url.split('/', 3)[3]}"
