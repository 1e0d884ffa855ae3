"""The data of the page: one bus, opened once, and the readers of its topics."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from laggard.pipeline.history.hosts import NothingRecordedError, UnknownHostError
from laggard.pipeline.history.why import History
from laggard.pipeline.investigator.columns import Columns
from laggard.pipeline.investigator.events import Events
from laggard.pipeline.investigator.moments import Moments
from laggard.pipeline.investigator.requests import Requests
from laggard.pipeline.methods.applications.following import Following
from laggard.pipeline.methods.applications.method import regression_stage
from laggard.pipeline.methods.incidents.ledger import Ledger
from laggard.pipeline.methods.incidents.queries import past_incidents
from laggard.pipeline.methods.requests.method import analysis_functions
from laggard.pipeline.settings import SettingError
from laggard.pipeline.settings.general import GeneralSettings
from laggard.pipeline.web.errors import RequestError
from laggard.pipeline.web.marks import Allowance

if TYPE_CHECKING:
    from collections.abc import Callable

    from laggard.pipeline.core.bus import Bus
    from laggard.pipeline.core.records.outputs import Incident
    from laggard.pipeline.core.topics import Topics
    from laggard.pipeline.methods.applications.stage import RegressionStage
    from laggard.pipeline.scoring.wired import Wired
    from laggard.pipeline.settings import Settings

LISTED = 10
"""The most names in an error."""

LISTED_IDS = 3


class Reading:
    """The bus, its topics and settings, for every endpoint. Safe to use from several threads.

    Parameters:
        bus: the bus with all records.
        topics: the names of the topics.
        settings: the settings of `laggard serve`.
        wired: the operator that finds what is slow on a host.
        clock: returns the present time, seconds since the Unix epoch.

    Attributes:
        history: the history of hosts, as commands read it.
        moments: the analyzed moments of hosts.
        columns: the time series of hosts.
        incidents: all incidents, followed.
        events: marks and incidents, to show next to other data.
        applications: the applications, as their workers follow them.
        requests: the traced requests.
        allowance: the rate limit of marks.

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
        self.requests = Requests(bus, topics, analysis_functions)
        self.allowance = Allowance()

    @property
    def host(self) -> str:
        """The name of this machine in records."""
        return self.settings[GeneralSettings].host

    def regressing(self) -> RegressionStage:
        """Return the builder of performance models. Raises `RequestError` (503) if its dependencies are missing."""
        try:
            return regression_stage(self.settings)
        except SettingError as error:
            raise RequestError(503, str(error), "what it needs, or another kind of model") from None

    def incident(self, identity: str) -> Incident:
        """Return the incident with this id or prefix of one. Raises `RequestError` (404) for none, or for several."""
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
        """Return the queried host, see `Hosts.choose`; `wanted` is empty for the default.

        Raises `RequestError` (404) with the recorded hosts, if there are any.
        """
        try:
            return self.history.hosts.choose(wanted or None, self.host)
        except NothingRecordedError:
            raise RequestError(404, "there are no records yet", "an agent that runs: laggard up") from None
        except UnknownHostError as error:
            listed = ", ".join(error.hosts[:LISTED]) + (", ..." if len(error.hosts) > LISTED else "")
            raise RequestError(404, f"there are no records of host {error.host[:100]!r}", f"one of {listed}") from None
