"""Generate `deploy/docs/reference/kafka.md`, the page about Kafka, from the tables of topics and permissions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laggard.pipeline.acls import ROLES, rules
from laggard.pipeline.core.bus.kafka.topics import WHY, configs_of
from laggard.pipeline.core.topics import TOPICS, Topics
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
# laggard on Kafka

Run `laggard topics create` once, `laggard agent` on each machine, and `laggard work` anywhere, any number of times.
All settings are in [settings.md](settings.md); [deploying](../operations/deploying.md) describes how to run the parts.

    export LAGGARD_BUS_LOCATION=kafka://broker-1:9092,broker-2:9092
    laggard topics create
    laggard doctor

## Topics

Only `laggard topics create` creates topics: the number of partitions is a decision, and agents and workers do not
need the permission to create topics. The command creates missing topics and reports how existing ones differ; it
changes and deletes nothing. `laggard topics check` exits with 1 if a topic is missing or differs, for a pipeline that
sets up clusters.

"""

_PARTITIONS = """
`topics.partitions` is the most workers that can share an operator; more partitions than workers cost little. Kafka
assigns a key to a partition by its hash and the number of partitions. So partitions that are added later move most
hosts to other partitions, where their operators learn anew. laggard never adds partitions by itself; `topics check`
says what that would do.

laggard sets these settings of its topics; all others are the brokers' defaults:

"""

_RESET = """
## Resetting

`laggard reset` lets an operator forget what it has learned. It deletes the snapshots (by deletion markers in the
compacted topic), and workers learn anew from all available input. It reports what will be lost and prompts; it is
refused while the group has members. `--to` sets where publishing continues: by default at the present offset, so that
nothing is published twice; or at `earliest`, `latest` or a time. Incidents are joined anew with it: where anomalies
are published again, from these, starting with the incidents that were open before. Operators of one group
(`laggard.hosts`) move together: `--operator` with one of them takes only `--to here`.

## Failures

- **A clock is far ahead.** Brokers of Kafka 4 reject records dated more than an hour ahead; the agent logs it and
  skips them. Once the clock is right, it is followed at once. A frame dated more than an hour after its own record
  becomes a dead letter, also one from a spool whose machine has lost its clock since. If frames dated ahead were
  accepted, present ones are late: after 12 in a row that are more than an hour behind, the baseline of that host is
  learned anew.
- **Two machines have one `host`.** One baseline is learned from both. The worker logs it, and counts it in
  `laggard_namesakes_total`.
- **A record is unreadable.** It becomes a dead letter, as it was received; one above 8 MB is cut, with the header
  `laggard-bytes`.
- **Input is deleted before it is read.** It is logged, and counted in `laggard_missed_records_total`.
- **The input topic is deleted and created anew.** The worker continues at its beginning, and logs it.
- **No worker runs for a week.** Brokers forget the offsets of a group without members after
  `offsets.retention.minutes` (7 d). A worker then begins at the oldest record, and publishes its results again, with
  the same ids. Keep `bus.retention` below that.

## Security

| | settings |
|---|---|
| TLS | `kafka.security = "tls"`, `kafka.ca_file` unless the system trusts the authority |
| client certificate | `kafka.certificate_file`, `kafka.key_file`, `kafka.key_password` or `..._file` |
| SASL PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 | `kafka.sasl`, `kafka.username`, `kafka.password` or `kafka.password_file` |
| OAUTHBEARER, a token in a file | `kafka.sasl = "oauthbearer"`, `kafka.token_file`; read for each connection |
| OAUTHBEARER, client credentials | `kafka.token_url`, `kafka.username`, `kafka.password`, `kafka.token_scope` |

Host names of brokers are always checked against their certificates. Secrets come from the configuration file, the
environment or a file of their own, never from the command line, which all users of a machine can read: `--set
kafka.password=...` is refused. laggard never prints them; `laggard doctor` warns if other users can read a file with
secrets. Renewed certificates and tokens on the disk are used from the next connection on (with librdkafka,
certificates from the next start on); new passwords from the next start on.

If brokers refuse a user, a certificate or a token, `laggard work` ends with an error that names it and the setting to
check. An agent logs it once, keeps its records in its spool, and retries.

## Permissions

The minimal permissions of each role. A test runs each role under exactly these rules, and without each single one.
`laggard topics acls --role worker --principal User:CN=worker` prints the commands for your names, `--json` the rules
for other tools. `Read` and `Write` include `Describe`. With other operators (setting `operators`), each needs what
`gaussian` needs here; `prefixed` applies to all names with that beginning.
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
    return _HEAD + "".join(f"{line}\n" for line in _topics()) + _PARTITIONS + _configs() + _RESET + _rights() + _JSON


def _topics() -> Iterator[str]:
    topics = Topics()
    every = (*TOPICS, *map(topics.snapshots, _OPERATORS))
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
