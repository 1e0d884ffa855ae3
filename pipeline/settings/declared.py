"""Every setting, declared once: parsing, checks, help and documentation follow from this table.

A setting is here only for a decision that an operator of the system takes.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from laggard.pipeline.settings.kinds import READERS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from laggard.pipeline.settings.kinds import Kind, Value


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting.

    Attributes:
        name: `gaussian.context`; the part before the point is the table in `laggard.toml`.
        kind: how it is written, see `kinds.py`.
        default: as a person would write it; empty where `found` finds it.
        help: one or two sentences.
        minimum: the least value allowed, written like `default`; empty for none.
        maximum: the greatest value allowed, likewise.
        choices: for the kind `choice`, what may be chosen; for `words`, what may be listed.
        found: gives the default where it depends on the machine, from the settings that were read so far.
        found_as: says in words what `found` finds.
        secret: whether the value must never be shown.

    """

    name: str
    kind: Kind
    default: str
    help: str
    minimum: str = ""
    maximum: str = ""
    choices: tuple[str, ...] = ()
    found: Callable[[Mapping[str, Value], Mapping[str, str]], Value] | None = None
    found_as: str = ""
    secret: bool = False

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return "LAGGARD_" + self.name.upper().replace(".", "_")

    def read(self, value: object) -> Value:
        """The value in its base unit. Raises `ValueError` saying what was expected."""
        read = READERS[self.kind](value)
        if self.choices:
            chosen = read if isinstance(read, tuple) else (read,)
            if not chosen or not set(chosen) <= set(self.choices):
                raise ValueError(f"{'names out of' if self.kind == 'words' else 'one of'} {', '.join(self.choices)}")
        if isinstance(read, int | float):
            low, high = (READERS[self.kind](bound) if bound else None for bound in (self.minimum, self.maximum))
            if (isinstance(low, int | float) and read < low) or (isinstance(high, int | float) and read > high):
                raise ValueError(f"a {self.kind} {self.bounds}")
        return read

    @property
    def bounds(self) -> str:
        """The bounds in words; empty without any."""
        if self.minimum and self.maximum:
            return f"from {self.minimum} to {self.maximum}"
        return f"of at least {self.minimum}" if self.minimum else f"of at most {self.maximum}" if self.maximum else ""


def _state(_: Mapping[str, Value], environ: Mapping[str, str]) -> Path:
    if os.geteuid() == 0:
        return Path("/var/lib/laggard")
    base = Path(environ.get("XDG_STATE_HOME", ""))
    home = Path(environ.get("HOME", "/"))
    return (base if base.is_absolute() else home / ".local/state") / "laggard"


def _location(read: Mapping[str, Value], _: Mapping[str, str]) -> str:
    return f"{read['state']}/laggard.db"


def _host(_: Mapping[str, Value], __: Mapping[str, str]) -> str:
    return os.uname().nodename


SETTINGS: tuple[Setting, ...] = (
    Setting(
        "state",
        "path",
        "",
        "The directory for what laggard keeps on this machine.",
        found=_state,
        found_as="`/var/lib/laggard` for root, else `$XDG_STATE_HOME/laggard` (`~/.local/state/laggard`)",
    ),
    Setting(
        "host",
        "text",
        "",
        "The name of this host in records, results and metrics.",
        found=_host,
        found_as="the machine's host name",
    ),
    Setting("operators", "words", "gaussian", "The operators that the worker runs.", choices=("gaussian",)),
    Setting(
        "bus.location",
        "text",
        "",
        "Where the bus is: the path of the embedded bus's file. Agent, worker and `laggard why` must agree on it.",
        found=_location,
        found_as="`laggard.db` in the directory `state`",
    ),
    Setting(
        "bus.max_bytes",
        "size",
        "1GiB",
        "The embedded bus's file stays below this size; the oldest records go first.",
        minimum="64MiB",
    ),
    Setting(
        "bus.retention",
        "duration",
        "48h",
        "How long records are kept; no moment before that can be asked about.",
        minimum="1m",
        maximum="366d",
    ),
    Setting("topics.prefix", "text", "laggard.", "What the names of all topics begin with."),
    Setting(
        "agent.interval",
        "duration",
        "5s",
        "The time from one reading of all counters to the next.",
        minimum="0.5s",
        maximum="1h",
    ),
    Setting(
        "agent.command_lines",
        "flag",
        "true",
        "Whether the command lines of processes are recorded. They may hold what should stay private.",
    ),
    Setting(
        "gaussian.context",
        "duration",
        "4h",
        "How far back the model of what is usual looks.",
        minimum="1m",
        maximum="366d",
    ),
    Setting(
        "gaussian.minimum_features",
        "count",
        "10",
        "A row is scored only when this many of its features vary.",
        minimum="1",
        maximum="10000",
    ),
    Setting(
        "gaussian.likelihood",
        "choice",
        "scale_free",
        "How unusual a value is: by its deviation alone, whatever its unit, or by the likelihood of the paper that the "
        "operator comes from.",
        choices=("scale_free", "paper"),
    ),
    Setting(
        "gaussian.false_alarms",
        "rate",
        "1/day",
        "The false-alarm budget of a host: so often a score may pass 1 by chance.",
        minimum="1/week",
        maximum="10/minute",
    ),
    Setting(
        "snapshot.records",
        "count",
        "200",
        "An operator's state is saved after this many records of a key: fewer make `laggard why` and recovery faster, "
        "more make the bus smaller.",
        minimum="1",
        maximum="1000000",
    ),
    Setting(
        "web.listen",
        "address",
        "127.0.0.1:9464",
        "Where the worker serves `/metrics` and takes marks. Port 0 takes any free one. "
        "An address that other machines can reach needs `web.token`.",
    ),
    Setting(
        "web.token",
        "text",
        "",
        "What a client has to send as `Authorization: Bearer TOKEN`; empty asks for nothing.",
        secret=True,
    ),
    Setting(
        "web.top_rows",
        "count",
        "10",
        "How many rows of each host have metrics of their own, the worst ones.",
        minimum="0",
        maximum="1000",
    ),
)

BY_NAME = {setting.name: setting for setting in SETTINGS}
