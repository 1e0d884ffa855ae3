"""The states of laggard's dashboards and alert rules in a Grafana: missing, current, or changed by others.

Grafana stores every version of a dashboard with a message. Until another person saves it, the newest message is
laggard's own, with a fingerprint of what it wrote. Alert rules have no messages, so laggard stores two fingerprints in
an annotation: of its definition, and of Grafana's form of it. A rule that differs from the second was changed by
another person.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final, Literal

from laggard.pipeline.grafana.definitions import PRINT, digest, lines, plain_dashboard, plain_rule
from laggard.pipeline.grafana.errors import GrafanaError
from laggard.pipeline.grafana.rules import FOLDER_UID

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from laggard.pipeline.grafana.client import Grafana
    from laggard.pipeline.grafana.definitions import Definitions

Kind = Literal["folder", "dashboard", "alert rule", "rule group"]

State = Literal["missing", "current", "outdated", "changed", "provisioned", "obsolete"]
"""`outdated`: laggard's, of another version. `changed`: by people, or never laggard's. `provisioned`: by others.
`obsolete`: laggard's, but no longer published."""

STATE_TEXTS: Final[Mapping[State, str]] = {
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
        kind: its kind.
        uid: its uid in Grafana.
        state: its state.
        wanted: laggard's definition; None for an obsolete thing.
        found: the thing in Grafana, None for a missing one.
        compared: both in the form for comparison; empty objects for missing ones.
        place: the uid of its folder; a dashboard that a person has moved stays there.
        provisioned: whether files or another program provision it, so that laggard must not change it.

    """

    kind: Kind
    uid: str
    state: State
    wanted: Mapping[str, Any] | None = None
    found: Mapping[str, Any] | None = None
    compared: tuple[Mapping[str, Any], Mapping[str, Any]] = field(default_factory=lambda: ({}, {}))
    place: str = FOLDER_UID
    provisioned: bool = False

    @property
    def name(self) -> str:
        """The name for people."""
        return f"{self.kind} {self.uid}"

    @property
    def state_text(self) -> str:
        """The state in words."""
        if self.kind == "rule group" and self.state == "changed":
            return "evaluated at another interval than laggard's"
        moved = f"; moved to folder {self.place or 'General'}, where it stays" if self.place != FOLDER_UID else ""
        return STATE_TEXTS[self.state] + moved

    def diff(self) -> list[str]:
        """Return a unified diff from Grafana's form to laggard's; empty if they agree."""
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
        """Return it for a program."""
        return {"kind": self.kind, "uid": self.uid, "state": self.state, "folder": self.place}


def message_of(plain: Mapping[str, Any]) -> str:
    """Return laggard's message for a saved dashboard."""
    return f"laggard {version('laggard')}, sha256 {digest(plain)}"


def survey(grafana: Grafana, definitions: Definitions) -> list[Thing]:
    """Return the states of all things, in the order of their publication. Raises GrafanaError."""
    folder = grafana.folder(FOLDER_UID)
    rules = {str(rule.get("uid")): rule for rule in grafana.alerting.rules()} if definitions.groups else {}
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
        # Since Grafana 13: a person has saved it in another form than laggard's.
        return Thing("dashboard", uid, "changed", wanted, compared=(plain_dashboard(wanted), {}))
    if there is None:
        return Thing("dashboard", uid, "missing", wanted, compared=(plain_dashboard(wanted), {}))
    found, meta = there["dashboard"], there["meta"]
    provisioned = bool(meta.get("provisioned"))
    ours, theirs = plain_dashboard(wanted), plain_dashboard(found)
    state: State = "current"
    if ours != theirs:
        if provisioned:
            state = "provisioned"
        elif (stamp := _MESSAGE.fullmatch(grafana.dashboard_message(uid))) is None:
            state = "changed"
        elif stamp[1] != digest(ours):
            state = "outdated"
    return Thing("dashboard", uid, state, wanted, found, (ours, theirs), str(meta.get("folderUid", "")), provisioned)


def _rule(wanted: Mapping[str, Any], rule: Mapping[str, Any] | None) -> Thing:
    uid, ours = str(wanted["uid"]), plain_rule(wanted)
    if rule is None:
        return Thing("alert rule", uid, "missing", wanted, compared=(ours, {}))
    theirs = plain_rule(rule)
    state: State = "current"
    provisioned = bool(rule.get("provenance"))
    if provisioned:
        state = "current" if ours == theirs else "provisioned"
    elif (stamp := _print_of(rule)) is None:
        state = "changed"
    elif ours != theirs:
        state = "changed" if stamp[1] != digest(theirs) else "outdated" if stamp[0] != digest(ours) else "current"
    # A moved rule counts as changed, since its folder is one of its fields.
    return Thing("alert rule", uid, state, wanted, rule, (ours, theirs), provisioned=provisioned)


def _print_of(rule: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the fingerprints of laggard's definition and of Grafana's form of it; None without laggard's."""
    found = _PRINT.fullmatch(str((rule.get("annotations") or {}).get(PRINT, "")))
    return (found[1], found[2]) if found else None


def printed(wanted: Mapping[str, Any], stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return an alert rule with the fingerprints of its definition, and of Grafana's form of it."""
    both = f"{digest(plain_rule(wanted))} {digest(plain_rule(stored))}"
    return {**wanted, "annotations": {**wanted["annotations"], PRINT: both}}


def _group(grafana: Grafana, wanted: Mapping[str, Any]) -> Thing:
    """Return the state of a group's interval. Nothing records who set it, so differences count as others'."""
    name, ours = str(wanted["title"]), {"interval": wanted["interval"]}
    found = grafana.alerting.group(FOLDER_UID, name)
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
        stamp = _print_of(rule)
        if uid not in known and stamp is not None and stamp[1] == digest(plain_rule(rule)):
            yield Thing("alert rule", uid, "obsolete", found=rule)


def _obsolete_dashboards(grafana: Grafana, definitions: Definitions) -> Iterator[Thing]:
    known = {dashboard["uid"] for dashboard in definitions.dashboards}
    for uid in grafana.dashboards_in(FOLDER_UID):
        if uid not in known and _MESSAGE.fullmatch(grafana.dashboard_message(uid)):
            yield Thing("dashboard", uid, "obsolete")
