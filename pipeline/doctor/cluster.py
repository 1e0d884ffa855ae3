"""Checks of a bus on Kafka: the connection, the user, the topics and the groups."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import time
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from laggard.pipeline.acls import ROLES, lacking, rules
from laggard.pipeline.core.bus import BusError
from laggard.pipeline.core.bus.kafka.bus import KafkaBus
from laggard.pipeline.core.bus.kafka.denied import Denied, user_of
from laggard.pipeline.core.bus.kafka.reaching import why_unreachable
from laggard.pipeline.core.extras import installing
from laggard.pipeline.core.topics import COUNTERS, Topics
from laggard.pipeline.doctor.finding import Finding
from laggard.pipeline.explaining.explain import printable
from laggard.pipeline.provisioning import reports, wanted_topics
from laggard.pipeline.settings.general import GeneralSettings, TopicsSettings
from laggard.pipeline.settings.kafka import KafkaSettings
from laggard.pipeline.settings.producing import AgentSettings
from laggard.pipeline.wiring import inputs_of_groups

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from laggard.pipeline.core.bus.kafka.options import KafkaOptions
    from laggard.pipeline.provisioning import TopicReport
    from laggard.pipeline.settings import Settings

LAG_S = 30.0
"""Workers do not keep up if records wait longer than this, in seconds."""

_SECRETS = (
    KafkaSettings.password_file,
    KafkaSettings.key_password_file,
    KafkaSettings.key_file,
    KafkaSettings.token_file,
)
_LOOKED_THROUGH = 2000
_SHOWN = 3


def examine_cluster(settings: Settings, options: KafkaOptions) -> Iterator[Finding]:
    """Run all checks of a bus on Kafka. No secret is shown."""
    yield from secrets(settings)
    found_client = client(options)
    yield found_client
    if found_client.level == "problem":
        options = replace(options, client="kafka-python")  # it is always installed, and checks the rest
    unreachable = why_unreachable(options)
    if unreachable is not None:
        found, _, advice = str(unreachable).rpartition("; ")
        yield Finding("brokers", "problem", found or advice, advice if found else "check that setting")
        return
    with closing(KafkaBus(options)) as bus:
        try:
            yield brokers(bus)
            found_topics = reports(bus, wanted_topics(settings, kafka=True))
            yield topics(found_topics)
            there = [each for each in found_topics if each.partitions is not None]
            if there or any(each.hidden for each in found_topics):  # brokers report no rights on missing topics
                yield rights(settings, bus, [each.wanted.spec.name for each in there])
            if any(each.wanted.topic is COUNTERS for each in there):
                yield from _where_allowed("history", options, history(settings, bus))
                yield from _where_allowed("lag", options, lags(settings, bus))
        except BusError as error:
            found, _, advice = str(error).partition("; ")
            yield Finding("brokers", "problem", found, advice or "check the brokers' logs")


def secrets(settings: Settings) -> Iterator[Finding]:
    """Check that only their owner can read files with secrets."""
    for setting in _SECRETS:
        path = settings.value(setting)
        if path is not None and path.exists() and path.stat().st_mode & 0o077:
            yield Finding("secrets", "warning", f"others may read {path} ({setting.name})", f"chmod 600 {path}")


def client(options: KafkaOptions) -> Finding:
    """Report the library that workers use."""
    there = importlib.util.find_spec("confluent_kafka") is not None
    if options.client == "librdkafka" and not there:
        advice = f"{installing('librdkafka')}, or set kafka.client to auto"
        return Finding("client", "problem", "kafka.client is librdkafka, which is not installed", advice)
    name = "confluent-kafka" if there and options.client != "kafka-python" else "kafka-python"
    fast = " (librdkafka)" if name == "confluent-kafka" else ""
    return Finding("client", "ok", f"{name} {importlib.metadata.version(name)}{fast}")


def brokers(bus: KafkaBus) -> Finding:
    """Report the brokers, and laggard's user there."""
    options, cluster = bus.options, bus.topics.cluster()
    how = [options.security, *([] if options.sasl == "none" else [options.sasl])]
    several = "s" if cluster.brokers != 1 else ""
    found = f"{cluster.brokers} broker{several} of Kafka {cluster.version} at {','.join(options.bootstrap)}"
    found += f", as {user_of(options)} ({', '.join(how)})"
    if options.sasl in {"plain", "oauthbearer"} and options.security == "plaintext":
        advice = "set kafka.security to tls: whoever listens reads what laggard says of itself"
        return Finding("brokers", "warning", found, advice)
    return Finding("brokers", "ok", found)


def topics(found: Sequence[TopicReport]) -> Finding:
    """Check the topics against the wanted ones."""
    missing = [each.wanted.spec.name for each in found if each.partitions is None and not each.hidden]
    if missing:
        return Finding("topics", "problem", f"missing: {', '.join(missing)}", "`laggard topics create`")
    if leaderless := [each.wanted.spec.name for each in found if each.found and each.found.leaderless]:
        return Finding(
            "topics", "problem", f"without a leader: {', '.join(leaderless)}", "check the brokers: some are down"
        )
    if differ := [each.wanted.spec.name for each in found if each.differences]:
        return Finding("topics", "warning", f"not as expected: {', '.join(differ)}", "see `laggard topics check`")
    hidden = sum(each.hidden for each in found)
    if hidden == len(found):
        return Finding("topics", "ok", "unknown: this user can see none")
    seen = f"{len(found) - hidden} topics are as expected"
    return Finding("topics", "ok", f"{seen}{f', {hidden} not visible to this user' if hidden else ''}")


def rights(settings: Settings, bus: KafkaBus, names: Sequence[str]) -> Finding:
    """Report the roles for which this user has the rights."""
    own, operators = Topics(settings[TopicsSettings].prefix), settings[GeneralSettings].operators
    allowed = bus.topics.topic_operations(names) if names else {}
    of_roles = {role: rules(role, own, operators) for role in ROLES}
    asked = {rule.name for each in of_roles.values() for rule in each if rule.resource == "group" and rule.name}
    groups = {group: found for group in sorted(asked) if (found := bus.groups.group_operations(group)) is not None}
    lacks = {role: lacking(each, allowed, groups) for role, each in of_roles.items()}
    may = [role for role, missing in lacks.items() if not missing]
    who = user_of(bus.options)
    if not names:
        advice = "`laggard topics acls` prints what each role needs"
        return Finding("rights", "problem", f"{who} has no role: it can see no topic", advice)
    if not may:
        fewest = min(lacks, key=lambda role: len(lacks[role]))
        advice = f"`laggard topics acls --role {fewest}` prints what it needs"
        missing = ", ".join(lacks[fewest][:_SHOWN])
        return Finding("rights", "problem", f"{who} may play no role; for {fewest} it lacks {missing}", advice)
    return Finding("rights", "ok", f"{who} has the rights of {', '.join(may)}, as far as brokers report")


def _where_allowed(check: str, options: KafkaOptions, findings: Iterator[Finding]) -> Iterator[Finding]:
    """Yield the findings. If this user lacks the rights, its role does not need them, and that is no problem."""
    try:
        yield from findings
    except Denied:
        yield Finding(check, "ok", f"unknown: {user_of(options)} lacks the permission")


def history(settings: Settings, bus: KafkaBus) -> Iterator[Finding]:
    """Report the newest record of this host."""
    host, now = settings[GeneralSettings].host, time.time()
    topic = Topics(settings[TopicsSettings].prefix).name(COUNTERS)
    partition = bus.partition_of(topic, host)
    _, end = bus.bounds(partition)
    newest = max((one.ts for one in bus.read(partition, end - _LOOKED_THROUGH, end, host)), default=None)
    if newest is None:
        yield Finding("history", "ok", f"the newest records have none of {printable(host)}")
        return
    yield Finding("history", "ok", f"the last record of {printable(host)} is {max(0.0, now - newest):.0f} s old")
    if newest - now > settings[AgentSettings].interval:
        advice = "set the clocks by NTP; brokers refuse what is more than an hour ahead"
        yield Finding("clock steps", "warning", f"its newest record is {newest - now:.0f} s ahead", advice)


def lags(settings: Settings, bus: KafkaBus) -> Iterator[Finding]:
    """Report for each group of workers whether it keeps up."""
    for group, topic in inputs_of_groups(settings, Topics(settings[TopicsSettings].prefix)).items():
        yield lag(bus, group, topic, time.time())


def lag(bus: KafkaBus, group: str, topic: str, now: float) -> Finding:
    """Report whether a group has members, and how long its oldest record has waited for one."""
    members = len(bus.groups.client_ids(group))
    waiting, waited_s = 0, 0.0
    for partition in bus.partitions(topic):
        oldest, end = bus.bounds(partition)
        committed = max(bus.committed(group, partition), oldest)
        # Transaction markers may follow the last record of a topic.
        first = next((one.ts for one in bus.read(partition, committed, end)), None)
        if first is not None:
            waiting += end - committed
            waited_s = max(waited_s, now - first)
    workers = f"{members} worker{'s' if members != 1 else ''}"
    found = f"{workers} in group {group}, {waiting} records to go"
    if waiting and waited_s > LAG_S:
        advice = (
            "start more workers: as many as topics.partitions share the work" if members else "start `laggard work`"
        )
        return Finding("lag", "warning", f"{found}, the oldest has waited for {waited_s:.0f} s", advice)
    return Finding("lag", "ok", found)
