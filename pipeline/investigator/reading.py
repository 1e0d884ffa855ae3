"""What the page reads: one bus, opened once, and all that is asked of it."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from laggard.pipeline.applications.following import Following
from laggard.pipeline.applications.method import regressing
from laggard.pipeline.history.why import History, NothingRecordedError, UnknownHostError
from laggard.pipeline.incidents.ledger import Ledger
from laggard.pipeline.incidents.queries import past_incidents
from laggard.pipeline.investigator.columns import Columns
from laggard.pipeline.investigator.events import Events
from laggard.pipeline.investigator.moments import Moments
from laggard.pipeline.investigator.requests import Requests
from laggard.pipeline.requests.method import looking
from laggard.pipeline.settings import SettingError
from laggard.pipeline.settings.general import GeneralSettings
from laggard.pipeline.web.errors import RequestError
from laggard.pipeline.web.marks import Allowance

if TYPE_CHECKING:
    from collections.abc import Callable

    from laggard.pipeline.applications.stage import Regressing
    from laggard.pipeline.bus import Bus
    from laggard.pipeline.records.outputs import Incident
    from laggard.pipeline.scoring.wired import Wired
    from laggard.pipeline.settings import Settings
    from laggard.pipeline.topics import Topics

LISTED = 10
"""Names that an error lists."""

LISTED_IDS = 3


class Reading:
    """The bus, its topics and settings, for every end point. Safe to use from several threads.

    Parameters:
        bus: where everything is.
        topics: their names.
        settings: those that `laggard serve` runs with.
        wired: the operator that is asked what is slow.
        clock: now, seconds since the Unix epoch.

    Attributes:
        history: of hosts, as commands ask it.
        moments: of hosts as they were judged.
        columns: time series of hosts.
        incidents: all of them, followed.
        events: marks and incidents, as they are told beside something else.
        applications: as their workers follow them.
        requests: as traced.
        allowance: how many marks may come.

    """

    def __init__(
        self, bus: Bus, topics: Topics, settings: Settings, wired: Wired, clock: Callable[[], float] = time.time
    ) -> None:
        self.bus = bus
        self.topics = topics
        self.settings = settings
        self.clock = clock
        self.history = History(bus, topics, wired)
        self.moments = Moments(self.history)
        self.columns = Columns(self.history)
        self.incidents = Ledger(bus, topics)
        self.events = Events(self.history, self.incidents)
        self.applications = Following(bus, topics, self.regressing)
        self.requests = Requests(bus, topics, looking)
        self.allowance = Allowance()

    @property
    def host(self) -> str:
        """This machine's name in records."""
        return self.settings[GeneralSettings].host

    def regressing(self) -> Regressing:
        """What builds performance models. Raises `RequestError` (503) where something is not installed for them."""
        try:
            return regressing(self.settings)
        except SettingError as error:
            raise RequestError(503, str(error), "what it needs, or another kind of model") from None

    def incident(self, identity: str) -> Incident:
        """The incident whose id begins so. Raises `RequestError` (404) where there is none, or more than one."""
        identity = identity.lower()
        if (known := self.incidents.known(identity)) is not None:
            found = self.incidents.read([known])
        else:
            found = list(past_incidents(self.bus, self.topics, -math.inf, identity=identity).incidents)
        if len(found) == 1:
            return found[0]
        if not found:
            expected = "the id of an incident that is recorded, or its beginning"
            raise RequestError(404, f"no incident has an id that begins with {identity[:100]!a}", expected)
        ids = ", ".join(each.id for each in found[:LISTED_IDS]) + (", ..." if len(found) > LISTED_IDS else "")
        raise RequestError(404, f"{len(found)} incidents have an id that begins with {identity!a}", f"one of {ids}")

    def choose_host(self, wanted: str) -> str:
        """The host that is asked about, see `History.choose_host`; `wanted` is empty for none.

        Raises `RequestError` (404) saying which there are.
        """
        try:
            return self.history.choose_host(wanted or None, self.host)
        except NothingRecordedError:
            raise RequestError(404, "nothing is recorded yet", "an agent that runs: laggard up") from None
        except UnknownHostError as error:
            listed = ", ".join(error.hosts[:LISTED]) + (", ..." if len(error.hosts) > LISTED else "")
            raise RequestError(404, f"nothing is recorded of host {error.host[:100]!r}", f"one of {listed}") from None
