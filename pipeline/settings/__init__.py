"""Settings: each declared once (`declaring.py`), read from file, environment and flags (`reading.py`)."""

from laggard.pipeline.settings.declaring import Section, Setting
from laggard.pipeline.settings.kinds import Address
from laggard.pipeline.settings.reading import Given, SettingError, Settings, parse_assignment, read

__all__ = [
    "Address",
    "Given",
    "Section",
    "Setting",
    "SettingError",
    "Settings",
    "parse_assignment",
    "read",
]
