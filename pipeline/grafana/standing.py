"""How what laggard publishes stands in a Grafana: what is there, what is missing, and who changed it last.

Of a dashboard Grafana keeps every version with a message. The newest one's is laggard's own, with a fingerprint of what
it wrote, as long as nobody else has saved it since. Of an alert rule it keeps no messages: laggard leaves a print in an
annotation, the fingerprint of its definition and that of what Grafana made of it. Whatever differs from the second was
changed by somebody else.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final, Literal

from laggard.pipeline.grafana.connection import GrafanaError
from laggard.pipeline.grafana.definitions import PRINT, digest, lines, plain_dashboard, plain_rule
from laggard.pipeline.grafana.rules import FOLDER_UID

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from laggard.pipeline.grafana.client import Grafana
    from laggard.pipeline.grafana.definitions import Definitions

Kind = Literal["folder", "dashboard", "alert rule", "rule group"]

State = Literal["missing", "current", "outdated", "changed", "provisioned", "obsolete"]
"""`outdated`: laggard's, of another version. `changed`: by somebody else, or never laggard's. `provisioned`: by others.
`obsolete`: laggard's, and no longer among what it publishes."""

SAID: Final[Mapping[State, str]] = {
    "missing": "missing",
    "current": "as it should be",
    "outdated": "of another version of laggard",
    "changed": "changed by somebody else",
    "provisioned": "different, and provisioned by others: change it there",
    "obsolete": "no longer part of laggard",
}

_MESSAGE: Final = re.compile(r"laggard \S+, sha256 ([0-9a-f]{16})")
_PRINT: Final = re.compile(r"([0-9a-f]{16}) ([0-9a-f]{16})")


@dataclass(frozen=True, slots=True)
class Thing:
    """One thing that laggard publishes, or has published.

    Attributes:
        kind: what it is.
        uid: Grafana's name for it.
        state: how it stands.
        wanted: what laggard writes; None where it is obsolete.
        found: what is there, None where nothing is.
        compared: of both what is compared; empty objects where they are not there.
        place: the uid of the folder where it is; a person may have moved a dashboard, and it stays there.
        held: whether it is provisioned, from files or by another program: not laggard's to change.

    """

    kind: Kind
    uid: str
    state: State
    wanted: Mapping[str, Any] | None = None
    found: Mapping[str, Any] | None = None
    compared: tuple[Mapping[str, Any], Mapping[str, Any]] = field(default_factory=lambda: ({}, {}))
    place: str = FOLDER_UID
    held: bool = False

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.kind} {self.uid}"

    @property
    def said(self) -> str:
        """How it stands, in words."""
        if self.kind == "rule group" and self.state == "changed":
            return "evaluated at another interval than laggard's"
        moved = f"; moved to folder {self.place or 'General'}, where it stays" if self.place != FOLDER_UID else ""
        return SAID[self.state] + moved

    def diff(self) -> list[str]:
        """From what is there to what laggard writes, as a unified diff of what is compared; empty where they agree."""
        wanted, found = self.compared
        if self.state in {"current", "obsolete"}:
            return []
        return list(
            difflib.unified_diff(
                lines(found) if self.found is not None else [],
                lines(wanted),
                f"Grafana: {self.name}",
                f"laggard: {self.name}",
                lineterm="",
            )
        )

    def to_json(self) -> dict[str, Any]:
        """For a program to read."""
        return {"kind": self.kind, "uid": self.uid, "state": self.state, "folder": self.place}


def message_of(plain: Mapping[str, Any]) -> str:
    """What laggard says when it saves a dashboard."""
    return f"laggard {version('laggard')}, sha256 {digest(plain)}"


def look(grafana: Grafana, definitions: Definitions) -> list[Thing]:
    """How everything stands, in the order in which it is published. Raises GrafanaError."""
    folder = grafana.folder(FOLDER_UID)
    rules = {str(rule.get("uid")): rule for rule in grafana.alert_rules()} if definitions.groups else {}
    return [
        Thing("folder", FOLDER_UID, "missing" if folder is None else "current", found=folder),
        *(_dashboard(grafana, wanted) for wanted in definitions.dashboards),
        *(_rule(wanted, rules.get(wanted["uid"])) for wanted in definitions.rules),
        *(_group(grafana, wanted) for wanted in definitions.groups),
        *_obsolete_rules(definitions, rules),
        *(_obsolete_dashboards(grafana, definitions) if folder is not None else ()),
    ]


def _dashboard(grafana: Grafana, wanted: Mapping[str, Any]) -> Thing:
    uid = str(wanted["uid"])
    try:
        there = grafana.dashboard(uid)
    except GrafanaError as error:
        if error.status != 406:
            raise
        # Since 13: somebody has saved it in a form that is not laggard's.
        return Thing("dashboard", uid, "changed", wanted, compared=(plain_dashboard(wanted), {}))
    if there is None:
        return Thing("dashboard", uid, "missing", wanted, compared=(plain_dashboard(wanted), {}))
    found, meta = there["dashboard"], there["meta"]
    held = bool(meta.get("provisioned"))
    ours, theirs = plain_dashboard(wanted), plain_dashboard(found)
    state: State = "current"
    if ours != theirs:
        if held:
            state = "provisioned"
        elif (said := _MESSAGE.fullmatch(grafana.dashboard_message(uid))) is None:
            state = "changed"
        elif said[1] != digest(ours):
            state = "outdated"
    return Thing("dashboard", uid, state, wanted, found, (ours, theirs), str(meta.get("folderUid", "")), held)


def _rule(wanted: Mapping[str, Any], found: Mapping[str, Any] | None) -> Thing:
    uid, ours = str(wanted["uid"]), plain_rule(wanted)
    if found is None:
        return Thing("alert rule", uid, "missing", wanted, compared=(ours, {}))
    theirs = plain_rule(found)
    state: State = "current"
    held = bool(found.get("provenance"))
    if held:
        state = "current" if ours == theirs else "provisioned"
    elif (said := _print_of(found)) is None:
        state = "changed"
    elif ours != theirs:
        state = "changed" if said[1] != digest(theirs) else "outdated" if said[0] != digest(ours) else "current"
    # A rule that was moved is changed: which folder it is in is part of it.
    return Thing("alert rule", uid, state, wanted, found, (ours, theirs), held=held)


def _print_of(rule: Mapping[str, Any]) -> tuple[str, str] | None:
    """The fingerprints of laggard's definition and of what was made of it; None where laggard has left none."""
    found = _PRINT.fullmatch(str((rule.get("annotations") or {}).get(PRINT, "")))
    return (found[1], found[2]) if found else None


def printed(wanted: Mapping[str, Any], stored: Mapping[str, Any]) -> dict[str, Any]:
    """An alert rule with laggard's print: of its definition, and of what Grafana has made of it."""
    both = f"{digest(plain_rule(wanted))} {digest(plain_rule(stored))}"
    return {**wanted, "annotations": {**wanted["annotations"], PRINT: both}}


def _group(grafana: Grafana, wanted: Mapping[str, Any]) -> Thing:
    """How often the group is evaluated: nobody notes who set that, so a difference is somebody else's."""
    name, ours = str(wanted["title"]), {"interval": wanted["interval"]}
    found = grafana.rule_group(FOLDER_UID, name)
    if found is None:
        return Thing("rule group", name, "missing", wanted, compared=(ours, {}))
    theirs = {"interval": found.get("interval")}
    state: State = "current"
    if ours != theirs:
        state = "provisioned" if any(rule.get("provenance") for rule in found.get("rules") or ()) else "changed"
    return Thing("rule group", name, state, wanted, found, (ours, theirs))


def _obsolete_rules(definitions: Definitions, rules: Mapping[str, Mapping[str, Any]]) -> Iterator[Thing]:
    known = {rule["uid"] for rule in definitions.rules}
    for uid, rule in sorted(rules.items()):
        said = _print_of(rule)
        if uid not in known and said is not None and said[1] == digest(plain_rule(rule)):
            yield Thing("alert rule", uid, "obsolete", found=rule)


def _obsolete_dashboards(grafana: Grafana, definitions: Definitions) -> Iterator[Thing]:
    known = {dashboard["uid"] for dashboard in definitions.dashboards}
    for uid in grafana.dashboards_in(FOLDER_UID):
        if uid not in known and _MESSAGE.fullmatch(grafana.dashboard_message(uid)):
            yield Thing("dashboard", uid, "obsolete")
