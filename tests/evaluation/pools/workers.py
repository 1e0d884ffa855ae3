"""Cases that have nothing to do with each other, in processes of their own."""

from __future__ import annotations

import signal
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Result = TypeVar("Result")


def spread(function: Callable[..., Result], cases: Sequence[tuple[object, ...]], workers: int) -> list[Result]:
    """What the function makes of each case, in their order."""
    if workers <= 1:
        return [function(*case) for case in cases]
    # A shell starts what it runs in the background with ^C ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with ProcessPoolExecutor(workers) as pool:
        futures = [pool.submit(function, *case) for case in cases]
        return [each.result() for each in futures]
