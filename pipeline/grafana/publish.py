"""Publication and removal of laggard's dashboards and alert rules in a Grafana. Others' changes stay unless forced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from laggard.pipeline.grafana.definitions import plain_dashboard, plain_rule
from laggard.pipeline.grafana.errors import GrafanaError
from laggard.pipeline.grafana.rules import FOLDER, FOLDER_UID
from laggard.pipeline.grafana.standing import message_of, printed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from laggard.pipeline.grafana.client import Grafana
    from laggard.pipeline.grafana.standing import State, Thing

Deed = Literal["created", "updated", "overwritten", "unchanged", "left", "removed"]

_WRITTEN: Final[dict[State, Deed]] = {"missing": "created", "outdated": "updated", "changed": "overwritten"}


@dataclass(frozen=True, slots=True)
class Done:
    """The action on a thing, and the reason if it was left alone."""

    thing: Thing
    deed: Deed
    why: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return it for a program."""
        return {**self.thing.to_json(), "done": self.deed, "why": self.why}


def publish(grafana: Grafana, things: Sequence[Thing], *, force: bool = False) -> Iterator[Done]:
    """Write everything that differs, one after the other, and yield each when it is done.

    Args:
        grafana: the Grafana.
        things: the states of all things.
        force: whether to overwrite the changes of others, too.

    Raises:
        GrafanaError: a call failed. Earlier things stay done; another call continues from there.

    """
    for thing in things:
        match thing.state:
            case "current":
                yield Done(thing, "unchanged")
            case "provisioned":
                yield Done(thing, "left", thing.state_text)
            case "changed" if not force:
                yield Done(thing, "left", thing.state_text)
            case "obsolete":
                _delete(grafana, thing)
                yield Done(thing, "removed", thing.state_text)
            case _:
                _write(grafana, thing)
                yield Done(thing, _WRITTEN[thing.state])


def _write(grafana: Grafana, thing: Thing) -> None:
    wanted = thing.wanted
    match thing.kind:
        case "folder":
            grafana.create_folder(FOLDER_UID, FOLDER)
        case "dashboard":
            assert wanted is not None
            version = thing.found["version"] if thing.found is not None else 0
            grafana.save_dashboard(
                {**wanted, "id": None, "version": version},
                thing.place,
                message_of(plain_dashboard(wanted)),
            )
        case "alert rule":
            assert wanted is not None
            if thing.found is not None and plain_rule(grafana.alerting.rule(thing.uid)) != thing.compared[1]:
                # Alert rules have no versions by which Grafana would detect a conflict.
                raise GrafanaError(f"{thing.name}: somebody has changed it meanwhile; try again", 412)
            first = printed(wanted, wanted)
            stored = grafana.alerting.save_rule(first, new=thing.found is None)
            second = printed(wanted, stored)
            if second != first:
                # Grafana has stored it in another form: changes are detected by comparison with that form.
                grafana.alerting.save_rule(second, new=False)
        case "rule group":
            assert wanted is not None
            # Its rules have created it by now. A group is only replaced as a whole, so other rules in it are included.
            there = grafana.alerting.group(FOLDER_UID, thing.uid)
            if there is not None and there.get("interval") != wanted["interval"]:
                grafana.alerting.save_group(FOLDER_UID, thing.uid, {**there, "interval": wanted["interval"]})


def removable(things: Sequence[Thing], *, force: bool = False) -> list[Thing]:
    """Return the things that `remove` deletes, except for the folder."""
    return [
        thing
        for thing in things
        if thing.kind in {"dashboard", "alert rule"}
        and thing.state != "missing"
        and not thing.provisioned
        and (force or thing.state != "changed")
    ]


def remove(grafana: Grafana, things: Sequence[Thing], *, force: bool = False) -> Iterator[Done]:
    """Delete laggard's things: those that others changed only with `force`, those that others provision never.

    The folder is deleted if nothing else is in it. Raises GrafanaError like `publish`.
    """
    going = removable(things, force=force)
    for thing in things:
        if thing in going:
            _delete(grafana, thing)
            yield Done(thing, "removed")
        elif thing.kind in {"dashboard", "alert rule"} and thing.state != "missing":
            yield Done(
                thing, "left", "provisioned by others: remove it there" if thing.provisioned else thing.state_text
            )
    for thing in things:
        if thing.kind == "folder" and thing.found is not None:
            counts = grafana.folder_counts(FOLDER_UID)
            others = ", ".join(f"{count} {kind}" for kind, count in sorted((counts or {}).items()) if count)
            if counts is None or others:
                yield Done(thing, "left", f"in it is something else: {others or 'perhaps; Grafana does not say'}")
            else:
                grafana.delete_folder(FOLDER_UID)
                yield Done(thing, "removed")


def _delete(grafana: Grafana, thing: Thing) -> None:
    if thing.kind == "dashboard":
        grafana.delete_dashboard(thing.uid)
    else:
        grafana.alerting.delete_rule(thing.uid)
