"""A real browser."""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING
from unittest import mock

from playwright.sync_api import sync_playwright

from tests.programs import libraries, path_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser


@contextmanager
def started() -> Iterator[Browser]:
    """Chromium, driven by Playwright, whose event loop is this thread's running one until it ends."""
    program = path_of("chromium")
    needed = ":".join(map(str, libraries("chromium")))
    with ExitStack() as stack:
        # Playwright's own program needs the same libraries.
        with mock.patch.dict(os.environ, {"LD_LIBRARY_PATH": needed} if needed else {}):
            playwright = stack.enter_context(sync_playwright())
        # Its sandbox does not work for root, nor in most containers; what is opened here is laggard's own page.
        with playwright.chromium.launch(executable_path=program, chromium_sandbox=False) as browser:
            yield browser
