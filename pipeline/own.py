"""laggard itself: its processes, each with a name that tells it from others, here and in `top`; and its own frames."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from laggard.pipeline.claims import Part

NAMES: Final[Mapping[Part, str]] = {
    "up": "laggard-up",
    "agent": "laggard-agent",
    "measure": "laggard-measure",
    "trace": "laggard-trace",
    "work": "laggard-worker",
    "serve": "laggard-serve",
}
"""Within the 15 characters that the kernel keeps. Without them all would be `python`, like half of a machine."""

CHILDREN: Final = frozenset({"laggard-reader", "laggard-attach"})
"""What the agent's children are called that read what programs control."""

AGENT_SCOPE, SOURCE_SCOPE, TRACE_SCOPE = "agent", "source", "trace"
OWN_SCOPES: Final = frozenset({AGENT_SCOPE, SOURCE_SCOPE, TRACE_SCOPE})
"""The scopes of frames in which a producer reports about itself."""


def take_name(part: Part) -> None:
    """Let this process go by the name of its part from now on; where procfs may not be written it keeps its own."""
    with contextlib.suppress(OSError):
        Path("/proc/self/comm").write_text(NAMES[part])


def is_own(name: str) -> bool:
    """Whether a process of this name is a part of laggard; who else takes such a name is told last, never hidden."""
    return name in NAMES.values() or name in CHILDREN
