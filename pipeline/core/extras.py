"""The installation of optional libraries."""

from __future__ import annotations

import shlex
import sys


def installing(extra: str) -> str:
    """Return the command that adds an extra of laggard to the environment in which it runs.

    It names that environment, since the `pip` of the path may belong to another one, with another laggard.
    """
    return shlex.join(["pip", "--python", sys.executable, "install", f"laggard[{extra}]"])
