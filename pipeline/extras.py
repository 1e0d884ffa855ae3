"""Libraries that laggard uses where they are installed: how to install them."""

from __future__ import annotations

import shlex
import sys


def installing(extra: str) -> str:
    """The command that adds an extra of laggard to the environment that it runs in.

    It names that environment: the `pip` of the path may be another's, and that one may know another laggard.
    """
    return shlex.join(["pip", "--python", sys.executable, "install", f"laggard[{extra}]"])
