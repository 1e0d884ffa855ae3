"""Generate `deploy/docs/reference/kafka.md`, the page about Kafka, from the tables of topics and permissions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laggard.pipeline.acls import ROLES, rules
from laggard.pipeline.core.bus.kafka.topics import WHY, configs_of
from laggard.pipeline.core.topics import INCIDENTS, TOPICS, Topics
from laggard.pipeline.explaining.units import readable_duration
from laggard.pipeline.settings.general import DEFAULT_OPERATORS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from laggard.pipeline.acls import Role
    from laggard.pipeline.core.bus import TopicSpec

_OPERATORS = (*DEFAULT_OPERATORS, "regression")
_GROUP = "anomaly-readers"
_REPLICATION = 3

_HEAD = """\
# Kafka: topics and permissions

[Many machines](../operations/kafka.md) describes how to run laggard on Kafka, security, and failures. This page is
generated from the tables of topics and permissions.

## Topics

Only `laggard topics create` creates topics: the number of partitions is a decision, and agents and workers do not
need the permission to create topics. The command creates missing topics and reports how existing ones differ. It
never changes or deletes a topic. `laggard topics check` exits with 1 if a topic is missing or differs, for a pipeline
that sets up clusters.

"""

_PARTITIONS = """
In the names of topics of snapshots, `N` is the [generation](../operations/upgrading.md#snapshots) of the operator's
states. A new version of laggard may need new topics: run `laggard topics create` before you
[upgrade](../operations/upgrading.md).

`topics.partitions` is the most workers that can share an operator; [sizing](../operations/sizing.md#partitions) has a
rule. Kafka assigns a key to a partition by its hash and the number of partitions. So partitions that are added later
move most hosts to other partitions, where their operators learn anew. laggard never adds partitions by itself;
`topics check` says what that would do.

laggard sets these settings of its topics; all others are the brokers' defaults:

"""

_PERMISSIONS = """
## Permissions

The minimal permissions of each role. [Permissions](../operations/kafka.md#permissions) has the roles that you need, and
how to create their users. A test runs each role under exactly these rules, and without each single one.
`laggard topics acls --role worker --principal User:CN=worker` prints the commands for your names, `--json` the rules
for other tools. `Read` and `Write` include `Describe`. `prefixed` applies to all names with that
beginning. The tables have all operators but `river`. That one, and operators of your own (setting `operators`), need a
topic of snapshots, a group and transactional ids with their names, as `requests` does.
"""

_JSON = """
## JSON output

`laggard topics create|list|describe|check --json` print one object:

| field | content |
|---|---|
| `location` | the bus |
| `topics[].name`, `.key`, `.value` | the topic, its kind of key, its content |
| `topics[].exists` | whether it exists; null if it is not visible to this user |
| `topics[].created` | with `create`: whether it was created now |
| `topics[].partitions`, `.replication` | partitions; brokers of the least replicated one; null if unknown |
| `topics[].in_sync`, `.leaderless` | the number of these brokers with all records; unavailable partitions |
| `topics[].records` | the most records that it can hold now |
| `topics[].wanted` | `partitions`, `retention_s` (null for ever) and `compacted`, as `create` would make it |
| `topics[].configs` | its settings on Kafka; empty if they are not visible to this user |
| `topics[].differences[]` | `setting`, `expected`, `found`, `advice`; a missing topic differs in `topic` |

`laggard topics acls --json`: `roles`, by role a list of `principal`, `resource_type`, `resource_name`,
`pattern_type`, `operations`, `permission_type` (in the terms of Kafka's admin API) and `why`.

`laggard reset --yes --json`: `operators[]` with `operator`, `group`, `topic`, `keys_forgotten`,
`records_learned_from`, `records_published_again`, `records_passed_over`, `offsets` (by partition).

Fields are added, never renamed or removed, within a major version.
"""


def kafka_page() -> str:
    """Return the page as Markdown."""
    return (
        _HEAD + "".join(f"{line}\n" for line in _topics()) + _PARTITIONS + _configs() + _PERMISSIONS + _rights() + _JSON
    )


def _topics() -> Iterator[str]:
    topics = Topics()
    every = (*TOPICS, *(topics.snapshots(f"{name}.N") for name in (*_OPERATORS, INCIDENTS)))
    yield "| topic | key | content | retention |"
    yield "|---|---|---|---|"
    for topic, spec in zip(every, topics.specs(every), strict=True):
        yield f"| `{spec.name}` | {topic.key} | {topic.value} | {_retention(spec)} |"


def _retention(spec: TopicSpec) -> str:
    if spec.compacted:
        return "the newest of each key"
    return "`bus.retention`" if spec.retention_s is None else readable_duration(spec.retention_s)


def _configs() -> str:
    topics = Topics()
    (compacted,) = topics.specs([topics.snapshots(_OPERATORS[0])])
    (plain,) = topics.specs(TOPICS[:1])
    lines = ["| setting | value | why |", "|---|---|---|"]
    here, there = configs_of(plain, _REPLICATION), configs_of(compacted, _REPLICATION)
    for name, why in WHY.items():
        values = [f"`{value}`" for value in dict.fromkeys(each[name] for each in (here, there) if name in each)]
        only = ", snapshots alone" if name not in here else ""
        lines.append(f"| `{name}` | {' or '.join(values)}{only} | {why} |")
    return "\n".join(lines) + "\n"


def _rights() -> str:
    return "".join(_rights_of(role, what) for role, what in ROLES.items())


def _rights_of(role: Role, what: str) -> str:
    lines = ["", f"**{role}**: {what}", "", "| resource | name | operations | for |", "|---|---|---|---|"]
    for rule in rules(role, Topics(), _OPERATORS, _GROUP):
        prefixed = " (prefixed)" if rule.prefixed else ""
        lines.append(f"| {rule.resource} | `{rule.name}`{prefixed} | {', '.join(rule.operations)} | {rule.why} |")
    return "\n".join(lines) + "\n"
