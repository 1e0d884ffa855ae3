"""`laggard reset`: operators and incidents lose their state, and learn from the input again."""

from __future__ import annotations

import contextlib
import json
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from laggard.pipeline.cli.exits import BUSY, USAGE, CommandError
from laggard.pipeline.cli.opening import check_existing, opened_bus, topics_of
from laggard.pipeline.cli.options import with_settings
from laggard.pipeline.cli.part import claimed
from laggard.pipeline.cli.prompting import ask_to_go_on, check_yes
from laggard.pipeline.cli.times import FORMS, parse_time
from laggard.pipeline.core.bus.kafka.bus import KafkaBus
from laggard.pipeline.core.bus.kafka.denied import Denied
from laggard.pipeline.core.bus.kafka.options import is_kafka
from laggard.pipeline.core.engine.former import former_groups, going_on
from laggard.pipeline.core.engine.migrations import newest_snapshots, snapshot_name
from laggard.pipeline.core.engine.snapshots import BASE_KEY
from laggard.pipeline.core.topics import INCIDENTS
from laggard.pipeline.history.series import Reader
from laggard.pipeline.settings.general import BusSettings
from laggard.pipeline.wiring import stages

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from laggard.pipeline.core.bus import Bus, Partition, Snapshot
    from laggard.pipeline.core.engine.stage import Stage
    from laggard.pipeline.core.topics import Topics
    from laggard.pipeline.settings import Settings

HERE, EARLIEST, LATEST = "here", "earliest", "latest"


@click.command()
@with_settings
@click.option(
    "--operator",
    "name",
    metavar="NAME",
    help="The operator, or `incidents`, which joins anomalies.  [default: all configured ones, and incidents]",
)
@click.option(
    "--to",
    default=HERE,
    show_default=True,
    metavar="WHERE",
    help=f"Where publishing continues: {HERE} (the present offset), {EARLIEST}, {LATEST}, or a time. Times: {FORMS}.",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, for programs; needs --yes.")
def reset(settings: Settings, name: str | None, to: str, yes: bool, as_json: bool) -> None:
    """Reset operators: drop what they have learned, so that they learn again from the input that is still there.

    They learn from all input that is still there, and publish only the results on input from --to on. Published
    results stay: with --to in the past they are published again, with the same ids, by which readers recognize them.

    Incidents are joined again, too. With --to in the past they begin with those that were open at that time, and are
    joined from the anomalies that are published again.

    Stop all workers that run these operators first. Records, topics and results are not changed.
    """
    check_yes(as_json=as_json, yes=yes)
    until = _moment(to)
    every = [stage for stage in stages(settings) if stage.remembers]
    chosen = [stage for stage in every if name in {None, stage.name}]
    if not chosen:
        known = ", ".join(stage.name for stage in every)
        raise CommandError(f"no operator {name!r} is set; expected one of {known} (setting operators)", USAGE)
    topics = topics_of(settings)
    others = [each.name for stage in chosen for each in _together(topics, stage, every) if each not in chosen]
    if to != HERE and others:
        together = ", ".join((*(stage.name for stage in chosen), *others))
        raise CommandError(f"{together} move together; expected no --operator, or --to {HERE}", USAGE)
    check_existing(settings)
    with contextlib.ExitStack() as stack:
        if not is_kafka(settings[BusSettings].location):
            # A worker on this machine has this claim, and none can start while this command has it.
            stack.enter_context(claimed(settings, "work"))
        bus = stack.enter_context(opened_bus(settings))
        plans = _plans(bus, topics, chosen, every, until if until is not None else to)
        if not as_json:
            click.echo("\n".join(line for plan in plans for line in plan.lines(settings[BusSettings].location)))
        if not yes:
            ask_to_go_on()
        for group, of_group in _by_group(plans).items():
            offsets = of_group[0].offsets
            for former in _former(bus, topics, [plan.stage for plan in of_group]):
                if any(bus.committed(former, partition) for partition in offsets):
                    bus.reset(former, (), offsets)  # otherwise a worker would continue from an older version
            names = [name for plan in of_group for name in plan.names]
            bus.reset(group, names, offsets, [each for plan in of_group for each in plan.known])
    if as_json:
        click.echo(json.dumps({"operators": [plan.to_json() for plan in plans]}))
        return
    click.echo(f"Done: {', '.join(plan.stage.name for plan in plans)} learn anew when a worker starts.")


def _together(topics: Topics, stage: Stage, every: Sequence[Stage]) -> list[Stage]:
    """Return the stages of a stage's group, which have one offset."""
    return [each for each in every if topics.group(each.name) == topics.group(stage.name)]


def _moment(to: str) -> float | None:
    """Return the time that `--to` names; None for one of its words."""
    if to in {HERE, EARLIEST, LATEST}:
        return None
    try:
        return parse_time(to, time.time())
    except ValueError as error:
        raise click.BadParameter(f"{error}, {HERE}, {EARLIEST} or {LATEST}", param_hint="--to") from None


@dataclass(frozen=True, slots=True)
class Plan:
    """The effects of a reset of an operator, or of incidents.

    Attributes:
        stage: the operator, or incidents.
        topic: the topic of its input.
        group: the group whose offsets are set.
        names: the names of its snapshots, including those of older versions.
        keys: the number of keys whose state is dropped.
        offsets: the new offset of the group, by partition.
        again: the number of processed records whose results are published again.
        passed: the number of unprocessed records whose results are not published.
        learns: the number of records from which it learns.
        known: snapshots of what it has already learned from them; empty if a worker has yet to learn it.

    """

    stage: Stage
    topic: str
    group: str
    names: tuple[str, ...]
    keys: int
    offsets: Mapping[Partition, int]
    again: int
    passed: int
    learns: int
    known: tuple[Snapshot, ...] = ()

    def lines(self, location: str) -> Iterator[str]:
        """Yield the lines for a person, before the reset."""
        yield f"{self.stage.name} on {location}"
        key = "key" if self.stage.name == INCIDENTS else self.stage.topic.key
        yield f"  forgets    what it has learned of {self.keys} {key}{'s' if self.keys != 1 else ''}"
        if self.known:
            yield f"  learns     from the {self.learns} records of {self.topic} before that, and from what comes"
            yield "  publishes  incidents of records that are published again; those already published stay"
            return
        yield f"  learns     from the {self.learns} records that {self.topic} holds now, and from what comes"
        if self.again:
            yield f"  publishes  its results on {self.again} records again; those already published stay"
        elif self.passed:
            yield f"  publishes  nothing on {self.passed} records that it has not processed"
        else:
            yield "  publishes  its results from its present position on; those already published stay"

    def to_json(self) -> dict[str, Any]:
        """Return it for a program."""
        return {
            "operator": self.stage.name,
            "group": self.group,
            "topic": self.topic,
            "keys_forgotten": self.keys,
            "records_learned_from": self.learns,
            "records_published_again": self.again,
            "records_passed_over": self.passed,
            "offsets": {str(partition.number): offset for partition, offset in sorted(self.offsets.items())},
        }


def _by_group(plans: Sequence[Plan]) -> Mapping[str, Sequence[Plan]]:
    found: dict[str, list[Plan]] = {}
    for plan in plans:
        found.setdefault(plan.group, []).append(plan)
    return found


def _plans(bus: Bus, topics: Topics, chosen: Sequence[Stage], every: Sequence[Stage], to: str | float) -> list[Plan]:
    """Return the plans of all stages. Raises BusError, and `CommandError` while workers are live.

    Incidents follow the operators: these publish results again at the end of the topic of anomalies, not at their
    earlier offsets.
    """
    plans: list[Plan] = []
    for stage in chosen:
        if stage.name != INCIDENTS or len(chosen) == 1:
            plans.append(_plan(bus, topics, stage, every, to))
        elif any(plan.again for plan in plans):
            plans.append(_joined_again(bus, _plan(bus, topics, stage, every, LATEST), to))
        else:
            plans.append(_plan(bus, topics, stage, every, HERE))
    return plans


def _former(bus: Bus, topics: Topics, stages: Sequence[Stage]) -> list[str]:
    """Return the groups in which older versions ran these stages, without those that this user may not see."""
    found = []
    for group in former_groups(topics, stages):
        with contextlib.suppress(Denied):
            for partition in bus.partitions(topics.name(stages[0].topic)):
                bus.committed(group, partition)
            found.append(group)
    return found


def _joined_again(bus: Bus, plan: Plan, to: str | float) -> Plan:
    """Return the plan with the incidents as they were before the anomalies that are published again."""
    known: list[Snapshot] = []
    learns = 0
    for partition, end in plan.offsets.items():
        oldest = bus.bounds(partition)[0]
        until = bus.offset_at(partition, to) if isinstance(to, float) else oldest
        task = plan.stage.task(partition)
        task.replay(Reader(bus, partition).stored(oldest, until))
        for key in task.states.keys():  # noqa: SIM118 - no dictionary
            if (keyed := task.states.get(key)) is not None:
                keyed.last_number = task.states.counted - 1  # skipped records are no silence
        known += task.states.whole(end, time.time())
        learns += max(0, until - oldest)
    return replace(plan, known=tuple(known), learns=learns)


def _plan(bus: Bus, topics: Topics, stage: Stage, every: Sequence[Stage], to: str | float) -> Plan:
    """Return the plan of one stage. Raises BusError, and `CommandError` while workers are live."""
    topic, group = topics.name(stage.topic), topics.group(stage.name)
    together = _together(topics, stage, every)
    for each in (group, *_former(bus, topics, together)):
        if isinstance(bus, KafkaBus) and (members := bus.groups.client_ids(each)):
            raise CommandError(
                f"{len(members)} worker{'s run' if len(members) != 1 else ' runs'} in group {each}: "
                f"{', '.join(sorted(members))}; stop {'it' if len(members) == 1 else 'them'} first",
                BUSY,
            )
    keys: set[str] = set()
    offsets: dict[Partition, int] = {}
    again = passed = learns = 0
    for partition in bus.partitions(topic):
        oldest, end = bus.bounds(partition)
        committed = going_on(bus, topics, together, partition, bus.committed(group, partition))
        committed = min(max(committed, oldest), end)
        match to:
            case float():
                offset = bus.offset_at(partition, to)
            case _:
                offset = {HERE: committed, EARLIEST: oldest, LATEST: end}[to]
        offsets[partition] = offset
        again += max(0, committed - offset)
        passed += max(0, offset - committed)
        learns += end - oldest
        keys |= {snapshot.key for snapshot in newest_snapshots(bus, stage, partition)} - {BASE_KEY}
    names = tuple(snapshot_name(stage.name, generation) for generation in range(1, stage.generation + 1))
    return Plan(stage, topic, group, names, len(keys), offsets, again, passed, learns)
