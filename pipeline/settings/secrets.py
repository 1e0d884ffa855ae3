"""Secrets: given by a setting itself, or in a file that another setting names."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from laggard.pipeline.settings.declaring import Setting
    from laggard.pipeline.settings.reading import Settings

MAX_SECRET_BYTES = 64 << 10


def secret(settings: Settings, itself: Setting[str], file: Setting[Path | None], problems: list[str]) -> str:
    """Return a secret, from the setting itself or from the file that another one names."""
    path = settings.value(file)
    if path is None:
        return settings.value(itself)
    place = settings.place(file)
    try:
        return first_line(path)
    except OSError as error:
        problems.append(f"{place}: {file.name}: {path} cannot be read: {error.strerror}")
    except ValueError as error:
        problems.append(f"{place}: {file.name}: {path}: expected {error}")
    return ""


def first_line(path: Path) -> str:
    """Return the secret in a file. Raises OSError, or ValueError with the expected content."""
    with path.open("rb") as file:
        content = file.read(MAX_SECRET_BYTES + 1)
    try:
        lines = content.decode().splitlines()
    except UnicodeDecodeError:
        lines = []
    if len(content) > MAX_SECRET_BYTES or not lines or not lines[0] or any(lines[1:]):
        raise ValueError("one line with the secret")
    return lines[0]
