"""Takes pictures of the page: `python -m tests.browser.pictures`, which takes a minute.

Of every view, light and dark, 1280 pixels wide, and of some 390 wide as well, into `deploy/docs/pictures`. What is
shown is the world of `tests.browser.world` at times of its own, so that they change with the page alone.
"""

from __future__ import annotations

import io
import tempfile
from contextlib import chdir
from pathlib import Path
from typing import Final

from PIL import Image
from playwright.sync_api import expect

from tests.browser.chromium import started
from tests.browser.conftest import NARROW, WIDE, WITHIN_MS
from tests.browser.looks import looks
from tests.browser.world import ENDS, make_world, served_world

PICTURES: Final = Path(__file__).resolve().parents[2] / "deploy/docs/pictures"

NARROW_TOO: Final = ("now", "incidents", "incident")

COLORS: Final = 256
"""Of a picture, chosen so that the few pixels of a small patch keep theirs; as many as its palette can have."""


def main() -> None:
    """Take them all."""
    PICTURES.mkdir(exist_ok=True)
    expect.set_options(timeout=WITHIN_MS)
    # The page tells where its bus is: not where that folder happens to be.
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        bus = Path("laggard.db")
        make_world(bus)
        with served_world(bus) as page, started() as browser:
            for scheme in ("light", "dark"):
                for size, viewport in (("", WIDE), ("-narrow", NARROW)):
                    with browser.new_context(
                        viewport=viewport,
                        color_scheme=scheme,
                        locale="en-GB",
                        timezone_id="Europe/Berlin",
                        reduced_motion="reduce",
                    ) as context:
                        tab = context.new_page()
                        tab.clock.set_fixed_time(ENDS)
                        for look in looks(page):
                            if size and look.name not in NARROW_TOO:
                                continue
                            look.open(tab, page.url)
                            tab.wait_for_timeout(300)  # what is refined once all was read
                            _save(tab.screenshot(), PICTURES / f"{look.name}{size}-{scheme}.png")


def _save(png: bytes, path: Path) -> None:
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    picture.quantize(COLORS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(path, optimize=True)


if __name__ == "__main__":
    main()
