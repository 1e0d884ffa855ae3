"""Checks that the sources of applications and pools are readable from this machine."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from laggard.pipeline.doctor.finding import Finding
from laggard.pipeline.explaining.units import counted
from laggard.pipeline.measuring import sources_of
from laggard.pipeline.methods.applications.serving import ServedBySettings
from laggard.pipeline.methods.applications.settings import ApplicationsSettings
from laggard.pipeline.settings.general import GeneralSettings
from laggard.pipeline.settings.sources import LinesSource, PrometheusSource

if TYPE_CHECKING:
    from collections.abc import Iterator

    from laggard.pipeline.settings import Settings
    from laggard.producers.sources.measuring import Timed

MOST_LISTED = 5
"""The most problems of one source that are listed; the others are counted."""

_AT_ONCE = 8


def examine_sources(settings: Settings) -> Iterator[Finding]:
    """Yield one finding for each readable source, and one for each problem of the others."""
    if not settings.sources:
        return
    with ThreadPoolExecutor(min(_AT_ONCE, len(settings.sources))) as pool:
        for found in pool.map(_examine, sources_of(settings)):
            yield from found


def examine_hosts(settings: Settings, *, alone: bool) -> Iterator[Finding]:
    """Warn of each application of a source without counters of any host: it never has a model.

    Args:
        settings: valid settings.
        alone: whether this machine is the only one, as on the embedded bus.

    """
    hosts = {name: str(patterns) for name, patterns in settings[ApplicationsSettings].hosts.items()}
    pattern, here = settings[ApplicationsSettings].pattern, settings[GeneralSettings].host
    if pattern and not alone:
        return  # the names of other hosts are unknown here
    served = set(ServedBySettings(hosts, pattern)(here) if alone else hosts)
    where = "" if alone else " of the workers"
    of_applications = [source for source in settings.sources if source.application]
    for source in of_applications:
        # The hosts of lines are unknown before the lines come.
        if isinstance(source, LinesSource) or (isinstance(source, PrometheusSource) and source.metrics):
            served.add(source.application)
    for application in dict.fromkeys(source.application for source in of_applications):
        if application not in served:
            problem = f"no known host serves {application}: a model of it needs counters"
            example = f"applications.hosts = {{{json.dumps(application)} = {json.dumps(here)}}}"
            yield Finding("source", "warning", problem, f"say in the settings{where} which do, for instance {example}")


def _examine(timed: Timed) -> list[Finding]:
    source = timed.source
    place = f"{source.name} of {source.key}"
    try:
        troubles = source.check()
    finally:
        source.close()
    if not troubles:
        return [Finding("source", "ok", f"{place} can be read")]
    findings = [
        Finding("source", "problem", f"{place}: {each.place}: {each.text}", "check it, or its table [[sources]]")
        for each in troubles[:MOST_LISTED]
    ]
    if (left := len(troubles) - MOST_LISTED) > 0:
        findings.append(Finding("source", "problem", f"{place}: {counted(left, 'trouble')} more"))
    return findings
