"""`laggard topics`: the topics on the bus, and their differences from the expected ones."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING, cast

import click

from laggard.pipeline.acls import ROLES, rules
from laggard.pipeline.cli.exits import FAILED, USAGE, CommandError
from laggard.pipeline.cli.opening import check_existing, opened_bus
from laggard.pipeline.cli.options import json_option, program, with_settings
from laggard.pipeline.core.bus.kafka.options import is_kafka, servers_of
from laggard.pipeline.core.topics import Topics
from laggard.pipeline.explaining.units import readable_duration
from laggard.pipeline.provisioning import reports, wanted_topics
from laggard.pipeline.settings.general import BusSettings, GeneralSettings, TopicsSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laggard.pipeline.acls import Role
    from laggard.pipeline.core.bus import Bus
    from laggard.pipeline.provisioning import TopicReport, Wanted
    from laggard.pipeline.settings import Settings


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def topics() -> None:
    """Create, list, describe and check the topics on the bus.

    No command here deletes a topic, or changes an existing one.
    """


@topics.command(short_help="Create the missing topics.")
@with_settings
@json_option
def create(settings: Settings, as_json: bool) -> int:
    """Create the missing topics, and report how the existing ones differ from what is expected.

    On Kafka topics.partitions, topics.replication and bus.retention apply; topics of snapshots are compacted.

    The exit code is 1 if this user may not see a topic, which may be missing.
    """
    with opened(settings) as bus:
        wanted = every(settings)
        before = reports(bus, wanted)
        missing = [each.wanted.spec for each in before if each.partitions is None and not each.hidden]
        bus.create(missing)
        after = reports(bus, wanted)
    created = {spec.name for spec in missing}
    code = FAILED if any(each.hidden for each in after) else 0
    if as_json:
        found = [{**each.to_json(), "created": each.wanted.spec.name in created} for each in after]
        click.echo(json.dumps({"location": settings[BusSettings].location, "topics": found}))
        return code
    for each in after:
        did = "created" if each.wanted.spec.name in created else "not known" if each.hidden else "there already"
        click.echo(f"{did:14} {each.wanted.spec.name:{width(after)}}  {shape(each)}")
    print_differences(after)
    return code


@topics.command("list", short_help="List the topics, their partitions and numbers of records.")
@with_settings
@json_option
def list_topics(settings: Settings, as_json: bool) -> None:
    """List the topics: the key of each, its partitions and its number of records."""
    found = states_of(settings)
    if as_json:
        print_json(settings, found)
        return
    keys = max(len(each.wanted.topic.key) for each in found) + len("by ")
    for each in found:
        key = f"by {each.wanted.topic.key}"
        click.echo(f"{each.wanted.spec.name:{width(found)}}  {key:{keys}}  {shape(each)}")


@topics.command(short_help="Describe topics, and how each differs from what is expected.")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@with_settings
@json_option
def describe(settings: Settings, names: Sequence[str], as_json: bool) -> None:
    """Describe topics, all by default: their content, their configuration, and differences from what is expected.

    NAME may omit the prefix: laggard.counters or counters.
    """
    wanted = every(settings)
    prefix = settings[TopicsSettings].prefix
    chosen = [each for each in wanted if each.spec.name in names or each.spec.name.removeprefix(prefix) in names]
    known = {name for each in chosen for name in (each.spec.name, each.spec.name.removeprefix(prefix))}
    if unknown := sorted(set(names) - known):
        raise CommandError(
            f"laggard has no topic {unknown[0]!r}; expected one of {', '.join(each.spec.name for each in wanted)}",
            USAGE,
        )
    found = states_of(settings, chosen or wanted)
    if as_json:
        print_json(settings, found)
        return
    for number, each in enumerate(found):
        click.echo(("\n" if number else "") + click.style(each.wanted.spec.name, bold=True))
        click.echo("\n".join(f"  {line}" for line in description(each)))


@topics.command(short_help="Check that all topics are as expected.")
@with_settings
@json_option
def check(settings: Settings, as_json: bool) -> int:
    """Check that all topics are as expected.

    The exit code is 1 if one is missing or differs, or if this user may not see it.
    """
    found = states_of(settings)
    wrong = [each for each in found if each.differences or each.hidden]
    if as_json:
        print_json(settings, found)
    else:
        print_differences(found)
        if not wrong:
            click.echo(f"All {len(found)} topics are as expected.")
    return FAILED if wrong else 0


@topics.command(short_help="Print the permissions that each role needs.")
@with_settings
@click.option("--role", type=click.Choice(list(ROLES)), help="The role.  [default: all]")
@click.option("--principal", metavar="PRINCIPAL", help="The principal.  [default: User: and the role]")
@click.option("--group", default="anomaly-readers", show_default=True, help="The consumer group of a reader's tool.")
@json_option
def acls(settings: Settings, role: str | None, principal: str | None, group: str, as_json: bool) -> None:
    """Print the permissions that each role needs at the brokers, as kafka-acls.sh commands.

    It neither queries nor changes the brokers. Each role works with exactly these rules.
    """
    location = settings[BusSettings].location
    servers = servers_of(location) if is_kafka(location) else ("HOST:PORT",)
    names = Topics(settings[TopicsSettings].prefix)
    chosen = [cast("Role", role)] if role else [*ROLES]
    every_rule = {
        each: (principal or f"User:{each}", rules(each, names, settings[GeneralSettings].operators, group))
        for each in chosen
    }
    if as_json:
        click.echo(
            json.dumps(
                {"roles": {each: [rule.to_json(who) for rule in some] for each, (who, some) in every_rule.items()}}
            )
        )
        return
    for number, (each, (who, some)) in enumerate(every_rule.items()):
        click.echo(("\n" if number else "") + f"# {each} ({ROLES[each].replace('`', '')})")
        for rule in some:
            click.echo(f"# {rule.why.replace('`', '')}\n{rule.command(who, servers)}")


def opened(settings: Settings) -> closing[Bus]:
    """Open the bus without creating topics; the context closes it."""
    return closing(opened_bus(settings))


def every(settings: Settings) -> tuple[Wanted, ...]:
    """Return all expected topics."""
    return wanted_topics(settings, kafka=is_kafka(settings[BusSettings].location))


def states_of(settings: Settings, wanted: Sequence[Wanted] = ()) -> list[TopicReport]:
    """Return the state of topics, all by default."""
    check_existing(settings)
    with opened(settings) as bus:
        return reports(bus, wanted or every(settings))


def print_json(settings: Settings, found: Sequence[TopicReport]) -> None:
    """Print the state of topics as one JSON object."""
    every_topic = [each.to_json() for each in found]
    click.echo(json.dumps({"location": settings[BusSettings].location, "topics": every_topic}))


def print_differences(found: Sequence[TopicReport]) -> None:
    """Print each difference once, with all of its topics and advice."""
    if hidden := [each.wanted.spec.name for each in found if each.hidden]:
        print_problem(hidden, "not visible to this user", "it needs Describe there: `laggard topics acls --role admin`")
    alike: dict[tuple[str, str, str], list[str]] = {}
    advice: dict[tuple[str, str, str], str] = {}
    for each in found:
        for one in each.differences:
            what = (one.setting, one.found, one.expected)
            alike.setdefault(what, []).append(each.wanted.spec.name)
            advice.setdefault(what, one.advice)
    for (setting, got, expected), names in alike.items():
        problem = "missing" if setting == "topic" else f"{setting} is {got}, expected {expected}"
        print_problem(names, problem, advice[setting, got, expected])


def print_problem(names: Sequence[str], said: str, advice: str) -> None:
    """Print a statement about topics, and advice."""
    click.echo(f"{click.style(', '.join(names), bold=True)}: {said}")
    others = "; likewise for the others" if len(names) > 1 and names[0] in advice else ""
    click.echo(f"    {as_typed(advice)}{others}")


def as_typed(advice: str) -> str:
    """Return advice with laggard's commands as this user types them."""
    return advice.replace("`laggard ", f"`{program()} ")


def width(found: Sequence[TopicReport]) -> int:
    """Return the width of the column of names."""
    return max(len(each.wanted.spec.name) for each in found)


def shape(report: TopicReport) -> str:
    """Return the state of a topic in one line."""
    if report.hidden:
        return "not visible to this user"
    if report.partitions is None:
        return "missing"
    words = [f"{report.partitions} partition{'s' if report.partitions != 1 else ''}"]
    if report.found is not None:
        words.append(f"on {report.found.replication} broker{'s' if report.found.replication != 1 else ''}")
        words.append(keeps(report))
    if report.records is not None:
        words.append(f"{report.records} records")
    return ", ".join(filter(None, words))


def keeps(report: TopicReport) -> str:
    """Return which records the topic stores, or for how long; empty if unknown."""
    configs = report.found.configs if report.found else {}
    if "compact" in configs.get("cleanup.policy", ""):
        return "the newest of each key"
    if not (retention_ms := configs.get("retention.ms")):
        return ""
    return "for ever" if int(retention_ms) < 0 else f"for {readable_duration(int(retention_ms) / 1000)}"


def description(report: TopicReport) -> list[str]:
    """Return the state of a topic in several lines."""
    topic = report.wanted.topic
    lines = [f"holds       {topic.value}", f"keyed by    {topic.key}", f"is          {shape(report)}"]
    if report.found is not None:
        found = report.found
        if found.leaderless:
            lines.append(f"leaderless  {found.leaderless} of {found.partitions} partitions: a broker is down")
        elif found.in_sync < found.replication:
            lines.append(f"in sync     only {found.in_sync} of {found.replication} brokers have all of some partition")
        if not found.configs:
            lines.append("settings    not visible to this user, who needs DescribeConfigs on the topic")
        differing = {one.setting for one in report.differences}
        shown = {"cleanup.policy", "max.message.bytes", "min.insync.replicas", "retention.bytes", "retention.ms"}
        lines += [
            f"setting     {name}={value}" for name, value in sorted(found.configs.items()) if name in shown | differing
        ]
    for one in report.differences:
        if one.setting != "topic":
            lines.append(f"differs     {one.setting} is {one.found}, expected {one.expected}")
        lines.append(f"            {as_typed(one.advice)}")
    return lines
