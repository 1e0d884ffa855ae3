"""The requirements of dashboards and alerts: a data source with laggard's metrics, rights, and contact points."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from laggard.pipeline.grafana.errors import GrafanaError, GrafanaUnavailable
from laggard.pipeline.grafana.labels import JOB
from laggard.pipeline.grafana.version import NEWEST

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from laggard.pipeline.grafana.client import Grafana
    from laggard.pipeline.grafana.version import Version

SCRAPED: Final = f'up{{job="{JOB}"}}'
"""1 for each laggard that Prometheus could scrape, 0 for each that it could not."""

RIGHTS: Final[Mapping[str, tuple[str, ...]]] = {
    "make the folder": ("folders:create",),
    "read dashboards": ("dashboards:read",),
    "make dashboards": ("dashboards:create",),
    "change dashboards": ("dashboards:write",),
    "read alert rules": ("alert.provisioning:read", "alert.rules.provisioning:read", "alert.rules:read"),
    "change alert rules": ("alert.provisioning:write", "alert.rules.provisioning:write", "alert.rules:write"),
    "list data sources": ("datasources:read",),
    "ask data sources": ("datasources:query",),
    "read annotations": ("annotations:read",),
    "write annotations": ("annotations:create",),
    "end annotations": ("annotations:write",),
}
"""The actions of laggard's token, each with the rights of which one is enough: Grafana's versions divide them
differently."""

_PLACEHOLDER: Final = "<example@email.com>"
"""The address of the contact point of a new Grafana."""


class NoDataSourceError(Exception):
    """There is no data source for the rules, or no single one; the message has the remedy."""


@dataclass(frozen=True, slots=True)
class DataSource:
    """Grafana's data source for the Prometheus that scrapes laggard; without a name if it may not be read."""

    uid: str
    name: str = ""

    @property
    def label(self) -> str:
        """The name and uid for people."""
        return f"{self.name} (uid {self.uid})" if self.name else f"uid {self.uid}"


def find_data_source(grafana: Grafana, wanted: str) -> DataSource:
    """Return the data source by its uid or name; if `wanted` is empty, the only one of Prometheus, or the default one.

    Raises NoDataSourceError, and GrafanaError.
    """
    try:
        found = [each for each in grafana.data_sources() if "prometheus" in str(each.get("type", ""))]
    except GrafanaError as error:
        if error.status != 403:
            raise
        if wanted:
            return DataSource(wanted)
        raise NoDataSourceError(
            "the token may not list the data sources (right datasources:read); expected the uid of the one for "
            "Prometheus in grafana.data_source"
        ) from None
    names = ", ".join(sorted(f"{each.get('name')} (uid {each.get('uid')})" for each in found))
    if not found:
        raise NoDataSourceError(
            f"Grafana at {grafana.url} has no data source of the type Prometheus; expected one that asks the "
            "Prometheus that scrapes laggard"
        )
    chosen = [each for each in found if wanted in {each.get("uid"), each.get("name")}]
    if wanted and not chosen:
        raise NoDataSourceError(f"grafana.data_source is {wanted!r}; expected one of {names}")
    if not wanted:
        chosen = found if len(found) == 1 else [each for each in found if each.get("isDefault")]
    if not chosen:
        raise NoDataSourceError(
            f"Grafana at {grafana.url} has several data sources for Prometheus and none of them is the default; "
            f"expected in grafana.data_source one of {names}"
        )
    return DataSource(str(chosen[0]["uid"]), str(chosen[0]["name"]))


@dataclass(frozen=True, slots=True)
class Scraped:
    """The number of laggards that Prometheus scrapes, and of those whose last scrape succeeded."""

    laggards: int
    up: int

    @property
    def problem(self) -> str:
        """The problem; empty for none."""
        if not self.laggards:
            return f'it has no series {SCRAPED}: does that Prometheus scrape laggard, as job "{JOB}"? Panels stay empty'
        if self.up < self.laggards:
            return f"{self.laggards - self.up} of {self.laggards} laggards could not be scraped"
        return ""


def scraped(grafana: Grafana, data_source: DataSource, clock: Callable[[], float] = time.time) -> Scraped:
    """Query the data source for laggard. Raises GrafanaError, also if Prometheus does not answer."""
    now_ms = round(1000 * clock())
    series = grafana.query(data_source.uid, SCRAPED, start_ms=now_ms - 300_000, end_ms=now_ms)
    newest = [each.points[-1][1] for each in series if each.points]
    return Scraped(len(newest), sum(1 for value in newest if value == 1))


def lacking(permissions: Mapping[str, Sequence[str]], *, alerts: bool = True, data_source: str = "") -> list[str]:
    """Return laggard's actions for which the token lacks the right, each with this right. Scopes are ignored.

    Args:
        permissions: the rights of the token.
        alerts: whether alert rules are published.
        data_source: the setting; with it, the right to list data sources is not needed.

    """
    spared = set() if alerts else {"read alert rules", "change alert rules"}
    if data_source:
        spared.add("list data sources")
    return [
        f"{what} ({rights[0]})"
        for what, rights in RIGHTS.items()
        if what not in spared and not set(rights) & permissions.keys()
    ]


def hints(version: Version, contact_points: Sequence[Mapping[str, Any]] | None) -> list[str]:
    """Return suggestions for people. `contact_points` is None if they may not be read."""
    found = []
    if version.major > NEWEST:
        found.append(
            f"Grafana {version.text} is newer than those that laggard knows ({NEWEST}); its API may have changed"
        )
    if not version.keeps_firing:
        found.append(
            f"Grafana {version.text} has no keep_firing_for, so it sends recurring alerts each time; Grafana 12 has it"
        )
    if contact_points is not None:
        real = [each for each in contact_points if _PLACEHOLDER not in str(each.get("settings"))]
        if not real:
            found.append(
                "Grafana sends no alerts yet: its only contact point has an example's email address. Add one, and "
                "route by the label `severity` (info: a chat; warning: a ticket), grouped by `host`"
            )
    return found


def read_contact_points(grafana: Grafana) -> list[dict[str, Any]] | None:
    """Return the contact points; None if the token may not read them."""
    try:
        return grafana.alerting.contact_points()
    except GrafanaUnavailable:
        raise
    except GrafanaError:
        return None
