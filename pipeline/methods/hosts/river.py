"""The operator `river`: a detector of the library of that name."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from laggard.operators.river import MIGRATIONS, Blueprint, River
from laggard.pipeline.core.extras import installing
from laggard.pipeline.core.topics import COUNTERS
from laggard.pipeline.methods.hosts.settings import RiverSettings
from laggard.pipeline.scoring.wired import Wired
from laggard.pipeline.settings import SettingError
from laggard.pipeline.settings.general import GeneralSettings

if TYPE_CHECKING:
    from laggard.pipeline.settings import Settings


def river(settings: Settings) -> Wired:
    """Return the operator as the settings ask for it.

    Raises `SettingError` without such a detector, or without the library.
    """
    own = settings[RiverSettings]
    detector, parameters = own.detector, own.parameters
    try:
        blueprint = Blueprint(detector, parameters)
    except ImportError as error:
        needs = f"the operator river needs river, which is not installed; {installing('river')}"
        raise SettingError([f"{settings.place(GeneralSettings.operators)}: {needs}"]) from error
    except ValueError as error:
        setting = RiverSettings.parameters if parameters else RiverSettings.detector
        raise SettingError([f"{settings.place(setting)}: {setting.name}: {error}"]) from None
    return Wired(
        "river",
        COUNTERS,
        ("process", "host"),
        partial(River, blueprint=blueprint, context_s=own.context),
        River.state_version,
        {
            "detector": detector,
            "context_s": own.context,
            "false_alarms_per_day": own.false_alarms,
            **{name: str(value) if isinstance(value, bool) else value for name, value in parameters.items()},
        },
        MIGRATIONS,
        others=True,
        false_alarms_per_day=own.false_alarms,
    )
