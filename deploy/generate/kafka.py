"""The page about Kafka, `deploy/kafka.md`: topics, security and rights, from the tables that the code works with.

A test fails when it is not current; `pytest --update-golden` writes it anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from laggard.pipeline.acls import ROLES, rules
from laggard.pipeline.bus.kafka.topics import WHY, configs_of
from laggard.pipeline.explaining.units import readable_duration
from laggard.pipeline.settings.general import DEFAULT_OPERATORS
from laggard.pipeline.topics import TOPICS, Topics

if TYPE_CHECKING:
    from collections.abc import Iterator

    from laggard.pipeline.acls import Role
    from laggard.pipeline.bus import TopicSpec

_OPERATORS = (*DEFAULT_OPERATORS, "regression")
_GROUP = "anomaly-readers"
_REPLICATION = 3

_HEAD = """\
# laggard on Kafka

`laggard topics create` once, then `laggard agent` on each machine and `laggard work` anywhere, any number of them.
All settings are in [settings.md](settings.md); how the parts are run is in [README.md](README.md).

    export LAGGARD_BUS_LOCATION=kafka://broker-1:9092,broker-2:9092
    laggard topics create
    laggard doctor

## Topics

Nothing but `laggard topics create` makes topics: the number of partitions is a decision, and making topics a right that
agents and workers do not need. It creates what is missing and says how what is there differs; it changes and deletes
nothing. `laggard topics check` ends with 1 when something is missing or differs, for a pipeline that sets up clusters.

"""

_PARTITIONS = """
`topics.partitions` is how many workers can share an operator at most; more partitions than workers cost little. Kafka
puts a key into a partition by its hash and the number of partitions, so a topic that gets more of them later sends most
hosts to another one, where their operators learn them anew. laggard never does that by itself: `topics check` says what
it would do.

Of a topic's settings these are laggard's own; all else is as the brokers have it:

"""

_RESET = """
## Beginning anew

`laggard reset` lets an operator forget what it has learned: its snapshots are deleted (by deletion markers in the
compacted topic), and workers learn anew from all of the input that is still there. It says what will be lost and asks;
it is refused while the group has members. `--to` says from where on results are published: by default from where the
operator was, so that nothing is published twice; `earliest`, a time or `latest` move that. Incidents are joined anew
with them: where anomalies are published again, out of these, beginning with what was open before. Operators of one
group (`laggard.hosts`) move together: `--operator` with one of them takes `--to here` alone.

## What can go wrong, and what happens then

- A clock is far ahead: brokers of Kafka 4 refuse records dated an hour ahead, which the agent says, and passes them
  over. Set right, it is followed at once. A frame that is dated more than an hour after its own record is a dead
  letter; so is one from a spool whose machine has lost its clock since. Where frames dated ahead were taken all the
  same, those of now are late: after 12 in a row that are more than an hour behind, what is usual of that host is
  learned anew.
- Two machines have one `host`: what is usual would be learned of both together. The worker says so, and counts it in
  `laggard_namesakes_total`.
- Somebody writes what is no record: it becomes a dead letter, as it was received; of more than 8 MB its beginning, with
  the header `laggard-bytes`.
- Input is deleted before it is read: it is said, and counted in `laggard_missed_records_total`.
- The input is deleted and created anew: the worker goes on at its beginning, and says so.
- No worker runs for a week: brokers forget the offsets of a group without members after their
  `offsets.retention.minutes` (7 d). A worker begins at the oldest record then, and publishes once more what it finds
  there, with the same ids. Keep `bus.retention` below that.

## Security

| | settings |
|---|---|
| TLS | `kafka.security = "tls"`, `kafka.ca_file` unless the system trusts the authority |
| certificate of the client | `kafka.certificate_file`, `kafka.key_file`, `kafka.key_password` or `..._file` |
| SASL PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 | `kafka.sasl`, `kafka.username`, `kafka.password` or `kafka.password_file` |
| OAUTHBEARER, a token in a file | `kafka.sasl = "oauthbearer"`, `kafka.token_file`; read anew for each connection |
| OAUTHBEARER, client credentials | `kafka.token_url`, `kafka.username`, `kafka.password`, `kafka.token_scope` |

Names of brokers are always checked against their certificates. Secrets come from the configuration file, the
environment or a file of their own, never from the command line, which everybody on a machine sees:
`--set kafka.password=...` is refused. laggard shows them nowhere; `laggard doctor` warns when others may read a file
that holds one. Certificates and tokens that somebody renews on the disk are used from the next connection on (with
librdkafka certificates from the next start on); passwords from the next start on.

A user, a certificate or a token that is refused ends `laggard work` with an error that says what was refused and which
setting to look at; an agent says it once, keeps its records in its spool and goes on trying.

## Rights

The least that each role needs; a test runs each of them under exactly these rules, and without each single one.
`laggard topics acls --role worker --principal User:CN=worker` prints the commands for your names, `--json` what tools
that manage rules take. `Read` and `Write` include `Describe`. Where there are other operators (the setting
`operators`), what is here for `gaussian` is needed for each of them; `prefixed` is about everything whose name begins
so.
"""

_JSON = """
## For programs

`laggard topics create|list|describe|check --json` print one object:

| field | what it is |
|---|---|
| `location` | the bus |
| `topics[].name`, `.key`, `.value` | the topic, what it is keyed by, what is in it |
| `topics[].exists` | whether it is there; null where this user may not see it |
| `topics[].created` | with `create`: whether it was created now |
| `topics[].partitions`, `.replication` | how many; brokers that the partition with the fewest is on; null if unknown |
| `topics[].in_sync`, `.leaderless` | of these brokers those with all records; partitions that nobody can use |
| `topics[].records` | how many records it holds at most |
| `topics[].wanted` | `partitions`, `retention_s` (null for ever) and `compacted`, as `create` would make it |
| `topics[].configs` | its settings on Kafka; empty where this user may not see them |
| `topics[].differences[]` | `setting`, `expected`, `found`, `advice`; a topic that is missing differs in `topic` |

`laggard topics acls --json`: `roles`, by role a list of `principal`, `resource_type`, `resource_name`, `pattern_type`,
`operations`, `permission_type` (the words of Kafka's admin API) and `why`.

`laggard reset --yes --json`: `operators[]` with `operator`, `group`, `topic`, `keys_forgotten`, `records_learned_from`,
`records_published_again`, `records_passed_over`, `offsets` (by partition).

Fields are added, never renamed or removed, within a major version.
"""


def kafka_page() -> str:
    """The page, in Markdown."""
    return _HEAD + "".join(f"{line}\n" for line in _topics()) + _PARTITIONS + _configs() + _RESET + _rights() + _JSON


def _topics() -> Iterator[str]:
    topics = Topics()
    every = (*TOPICS, *map(topics.snapshots, _OPERATORS))
    yield "| topic | keyed by | what is in it | kept |"
    yield "|---|---|---|---|"
    for topic, spec in zip(every, topics.specs(every), strict=True):
        yield f"| `{spec.name}` | {topic.key} | {topic.value} | {_kept(spec)} |"


def _kept(spec: TopicSpec) -> str:
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
