"""Get all that the tests need and do not find, ahead of them, with one line for each part that comes.

    python -m tests.prepare

A part that cannot be had gets a line, too, and is no failure: the tests that need it are skipped, and say so.
"""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests import npm
from tests.brokers.jars import jars
from tests.brokers.java import loaded_classes
from tests.deploy.tools import compose_loader, kustomize, vale
from tests.programs import LOG, PARTS, MissingPartError, path_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT: Final = Path(__file__).parents[1]
FOLDERS_OF_NPM: Final = (
    "tests/grafana/schema",
    "tests/grafana/library",
    "pipeline/investigator/assets/packages",
)
AT_A_TIME: Final = 3
"""They wait for the network by turns."""


def steps() -> Iterator[Callable[[], object]]:
    """What gets each part; one that needs another gets that as well, or waits for it."""
    for part in PARTS:
        yield partial(path_of, next(iter(part.programs)))
    yield jars
    yield loaded_classes
    for folder in FOLDERS_OF_NPM:
        yield partial(npm.modules, ROOT / folder)
    yield kustomize
    yield compose_loader
    yield vale


def attempt(get: Callable[[], object]) -> MissingPartError | None:
    try:
        get()
    except MissingPartError as error:
        return error
    return None


def main() -> None:
    logging.basicConfig(format="%(message)s")
    LOG.setLevel(logging.INFO)
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        missing = {error.part: error for error in pool.map(attempt, steps()) if error}
    for error in missing.values():
        LOG.warning("%s", error)


if __name__ == "__main__":
    main()
