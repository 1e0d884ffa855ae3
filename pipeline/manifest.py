"""All sections of settings, in the order of their documentation. Each room declares its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from laggard.pipeline.grafana.settings import GrafanaSettings
from laggard.pipeline.investigator.settings import ServeSettings
from laggard.pipeline.methods.applications.settings import ApplicationsSettings, RegressionSettings
from laggard.pipeline.methods.hosts.settings import CpuSettings, FeaturesSettings, GaussianSettings, RiverSettings
from laggard.pipeline.methods.pools.settings import CovarianceSettings, PoolsSettings
from laggard.pipeline.methods.requests.settings import RequestsSettings
from laggard.pipeline.methods.saturation.settings import SaturationSettings
from laggard.pipeline.settings import read
from laggard.pipeline.settings.general import (
    BusSettings,
    GeneralSettings,
    SnapshotSettings,
    TopicsSettings,
    WorkerSettings,
)
from laggard.pipeline.settings.kafka import KafkaSettings
from laggard.pipeline.settings.producing import (
    AgentSettings,
    DiagnosisSettings,
    MeasureSettings,
    RedactionSettings,
    TraceSettings,
)
from laggard.pipeline.web.settings import WebSettings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from laggard.pipeline.settings import Given, Section, Setting, Settings

SECTIONS: Final[tuple[type[Section], ...]] = (
    GeneralSettings,
    BusSettings,
    KafkaSettings,
    TopicsSettings,
    AgentSettings,
    RedactionSettings,
    DiagnosisSettings,
    TraceSettings,
    MeasureSettings,
    WorkerSettings,
    GaussianSettings,
    FeaturesSettings,
    CpuSettings,
    SaturationSettings,
    RiverSettings,
    ApplicationsSettings,
    RegressionSettings,
    PoolsSettings,
    CovarianceSettings,
    RequestsSettings,
    SnapshotSettings,
    ServeSettings,
    WebSettings,
    GrafanaSettings,
)

SETTINGS: Final[tuple[Setting[Any], ...]] = tuple(setting for section in SECTIONS for setting in section.declared())


def read_settings(
    config: Path | None = None, environ: Mapping[str, str] | None = None, flags: Sequence[Given] = ()
) -> Settings:
    """Read all settings, see `settings.reading.read`."""
    return read(SECTIONS, config, environ, flags)
