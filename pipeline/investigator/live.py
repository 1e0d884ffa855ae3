"""Server-sent events that name topics with news, so that a page reads again what it shows of them.

An event contains nothing else. One thread polls the ends of the topics while there are listeners, so that a hundred
open pages cost the bus as much as one.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import threading
from typing import TYPE_CHECKING, Final

from laggard.pipeline.core.bus import BusError
from laggard.pipeline.core.topics import (
    ANOMALIES,
    APPLICATIONS,
    COUNTERS,
    DEAD_LETTERS,
    DIAGNOSES,
    MODELS,
    POOLS,
    REQUESTS,
)
from laggard.pipeline.web.limits import Slots

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from laggard.pipeline.investigator.reading import Reading

EVERY_S: Final = 1.0
"""The time between two polls of the ends of topics, in seconds."""

ALIVE_S: Final = 15.0
"""The time without an event after which a comment is sent, in seconds: proxies close silent connections."""

MOST_LISTENERS: Final = 100

_logger = logging.getLogger(__name__)

TOPICS: Final = (COUNTERS, APPLICATIONS, POOLS, REQUESTS, ANOMALIES, MODELS, DIAGNOSES, DEAD_LETTERS)


class News:
    """Notifies listeners of topics that have grown. `listen` is for the event loop.

    Parameters:
        reading: the bus and its topics.

    Attributes:
        places: the slots of listeners; each listener needs one.

    """

    def __init__(self, reading: Reading) -> None:
        self.places = Slots(MOST_LISTENERS, "listeners")
        self._reading = reading
        self._listeners: dict[asyncio.Event, tuple[asyncio.AbstractEventLoop, set[str]]] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    def close(self) -> None:
        """End all listening, since the server would wait for it. Callable from any thread."""
        with self._changed:
            self._closed = True
            self._wake()

    async def listen(self) -> AsyncGenerator[bytes, None]:
        """Yield events for one listener until it stops reading; the first event names all topics.

        A page reads its data before it listens: news in between would otherwise be lost.
        """
        loop, woken, topics = asyncio.get_running_loop(), asyncio.Event(), set[str]()
        with self._changed:
            self._listeners[woken] = loop, topics
            if self._thread:
                topics.update(topic.name for topic in TOPICS)
                woken.set()
            else:
                self._thread = threading.Thread(target=self._check, name="news", daemon=True)
                self._thread.start()
        try:
            yield b"retry: 2000\n\n: the names of topics that have grown follow\n\n"
            while True:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(woken.wait(), ALIVE_S)
                with self._changed:
                    names = sorted(topics)
                    topics.clear()
                    woken.clear()
                    if self._closed:
                        return
                yield f"event: news\ndata: {json.dumps({'topics': names})}\n\n".encode() if names else b": alive\n\n"
        finally:
            with self._changed:
                del self._listeners[woken]
                self._changed.notify()

    def _check(self) -> None:
        """Report every topic that has grown, until there are no listeners; runs in the thread."""
        before: dict[str, int] = {}
        while True:
            try:
                now = self._ends()
            except BusError:
                pass  # the next poll may succeed
            except Exception:  # listeners still wait for the next poll
                _logger.exception("cannot read the ends of topics")
            else:
                self._notify({name for name, end in now.items() if end > before.get(name, -1)})
                before |= now
            with self._changed:
                if not self._listeners:
                    self._thread = None
                    return
                self._changed.wait(EVERY_S)

    def _ends(self) -> dict[str, int]:
        bus, topics = self._reading.bus, self._reading.topics
        partitions = {topic.name: bus.partitions(topics.name(topic)) for topic in TOPICS}
        bounds = bus.all_bounds([each for found in partitions.values() for each in found])
        return {name: sum(bounds[each][1] for each in found) for name, found in partitions.items()}

    def _notify(self, grown: set[str]) -> None:
        if not grown:
            return
        with self._changed:
            for _, topics in self._listeners.values():
                topics.update(grown)
            self._wake()

    def _wake(self) -> None:
        for woken, (loop, _) in self._listeners.items():
            with contextlib.suppress(RuntimeError):  # its loop has ended
                loop.call_soon_threadsafe(woken.set)
