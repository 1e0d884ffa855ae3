"""Settings: each declared once (`declared.py`), read from file, environment and flags (`reading.py`)."""

from laggard.pipeline.settings.declared import SETTINGS, Setting
from laggard.pipeline.settings.kinds import Address
from laggard.pipeline.settings.reading import Given, SettingError, Settings, parse_assignment, read_settings

__all__ = [
    "SETTINGS",
    "Address",
    "Given",
    "Setting",
    "SettingError",
    "Settings",
    "parse_assignment",
    "read_settings",
]
