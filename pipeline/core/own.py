"""laggard's own processes, each with a name of its own, here and in `top`; and its own frames."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from laggard.pipeline.core.claims import Part

NAMES: Final[Mapping[Part, str]] = {
    "up": "laggard-up",
    "agent": "laggard-agent",
    "measure": "laggard-measure",
    "trace": "laggard-trace",
    "work": "laggard-worker",
    "serve": "laggard-serve",
}
"""The names of the parts, within the kernel's 15 characters. Without them all would be `python`, like many others."""

CHILDREN: Final = frozenset({"laggard-reader", "laggard-attach"})
"""The names of the agent's children that read data under the control of other programs."""

PART_OF: Final[Mapping[str, Part]] = {
    **{name: part for part, name in NAMES.items()},
    **dict.fromkeys(sorted(CHILDREN), "agent"),
}
"""The part that a process belongs to, by its name."""

_COMMAND: Final = "laggard"  # a command of a person: `laggard why`

AGENT_SCOPE, SOURCE_SCOPE, TRACE_SCOPE = "agent", "source", "trace"
OWN_SCOPES: Final = frozenset({AGENT_SCOPE, SOURCE_SCOPE, TRACE_SCOPE})
"""The scopes of frames in which a producer reports about itself."""


def take_name(part: Part) -> None:
    """Give this process the name of its part; if procfs may not be written, the process keeps its own name."""
    with contextlib.suppress(OSError):
        Path("/proc/self/comm").write_text(NAMES[part])


def is_own(name: str) -> bool:
    """Return whether a process of this name is laggard itself. Others of this name are listed last, never hidden."""
    return name in PART_OF or name == _COMMAND
