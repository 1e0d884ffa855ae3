"""The minimal rights of each role at Kafka's brokers, in one place.

`laggard topics acls` prints these rules, deploy/docs/reference/kafka.md shows them, and a test runs each role under
exactly them.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from laggard.pipeline.core.topics import (
    ANNOTATIONS,
    ANOMALIES,
    APPLICATIONS,
    COUNTERS,
    DEAD_LETTERS,
    DIAGNOSES,
    INCIDENTS,
    MODELS,
    POOLING,
    POOLS,
    REQUESTS,
    SERVING,
)
from laggard.pipeline.operator_table import OPERATORS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence, Set

    from laggard.pipeline.core.topics import Topic, Topics

Resource = Literal["topic", "group", "transactional-id"]
Role = Literal["agent", "measurer", "tracer", "worker", "reader", "annotator", "viewer", "page", "admin"]

ROLES: Final[dict[Role, str]] = {
    "agent": "`laggard agent`: publishes the counters of its host, its pools, and profiles of processes",
    "measurer": "`laggard measure`: publishes the performance of applications, and members of pools",
    "tracer": "`laggard trace`: publishes traced requests",
    "worker": "`laggard work`: runs the operators, and joins their results",
    "reader": "your own tools: subscribe to the results of the operators",
    "annotator": "`laggard grafana annotate`: incidents and marks as annotations in Grafana",
    "viewer": "`laggard why`, `watch`, `incidents`, `models`, `pools`, `requests`, `diagnose`, `mark`, `feedback`: "
    "people asking",
    "page": "`laggard serve`: the page; marks, feedback and wishes that people set, dead letters that they replay",
    "admin": "`laggard topics` and `laggard reset`",
}


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule.

    Attributes:
        resource: the kind of its resources.
        name: the name of the resource, or the prefix of the names.
        prefixed: whether `name` is a prefix.
        operations: the allowed operations, by Kafka's names. `Read` and `Write` include `Describe`.
        why: the reason for it.

    """

    resource: Resource
    name: str
    prefixed: bool
    operations: tuple[str, ...]
    why: str

    def arguments(self, principal: str) -> list[str]:
        """Return the arguments of `kafka-acls.sh --add`."""
        operations = [word for operation in self.operations for word in ("--operation", operation)]
        pattern = ["--resource-pattern-type", "prefixed"] if self.prefixed else []
        return ["--allow-principal", principal, *operations, f"--{self.resource}", self.name, *pattern]

    def command(self, principal: str, servers: Sequence[str]) -> str:
        """Return the command that adds it."""
        return shlex.join(
            ["kafka-acls.sh", "--bootstrap-server", ",".join(servers), "--add", *self.arguments(principal)]
        )

    def to_json(self, principal: str) -> dict[str, Any]:
        """Return the rule for a program, in the words of Kafka's admin API."""
        return {
            "principal": principal,
            "resource_type": self.resource.replace("-", "_").upper(),
            "resource_name": self.name,
            "pattern_type": "PREFIXED" if self.prefixed else "LITERAL",
            "operations": [_upper(operation) for operation in self.operations],
            "permission_type": "ALLOW",
            "why": self.why,
        }


def rules(role: Role, topics: Topics, operators: Sequence[str], group: str = "") -> tuple[Rule, ...]:
    """Return all rules of a role.

    Args:
        role: the role.
        topics: the topics, with the configured prefix.
        operators: the names of the operators.
        group: the group of a reader's own consumers.

    """
    return tuple(_RULES[role](topics, operators, group))


def lacking(
    some: Sequence[Rule], topic_operations: Mapping[str, Set[str]], group_operations: Mapping[str, Set[str]]
) -> list[str]:
    """Return the rights that a user lacks. Brokers do not report those on transactional ids.

    Args:
        some: the rules.
        topic_operations: the operations that the user may do, by topic.
        group_operations: the same by group; other groups are not checked.

    """
    missing = []
    for rule in some:
        known = {"topic": topic_operations, "group": group_operations}.get(rule.resource, {})
        for name, allowed in known.items():
            if name == rule.name or (rule.prefixed and name.startswith(rule.name)):
                missing += [f"{each} on {name}" for each in rule.operations if _upper(each) not in allowed]
    return list(dict.fromkeys(missing))


def _agent(topics: Topics, _: Sequence[str], __: str) -> Iterator[Rule]:
    yield _topic(topics.name(COUNTERS), "Write", "frames")
    yield _topic(topics.name(POOLS), "Write", "members of its pools")
    yield _topic(topics.name(DIAGNOSES), "Write", "profiles of processes during high use or pressure")


def _measurer(topics: Topics, _: Sequence[str], __: str) -> Iterator[Rule]:
    yield _topic(topics.name(APPLICATIONS), "Write", "performance of applications, and metrics of their hosts")
    yield _topic(topics.name(POOLS), "Write", "members of pools")


def _tracer(topics: Topics, _: Sequence[str], __: str) -> Iterator[Rule]:
    yield _topic(topics.name(REQUESTS), "Write", "traced requests")
    yield _topic(topics.name(COUNTERS), "Write", "the state of tracing")


def _worker(topics: Topics, operators: Sequence[str], _: str) -> Iterator[Rule]:
    read = _topics_of(operators)
    yield _topic(topics.name(COUNTERS), "Read", "frames")
    yield _topic(topics.name(COUNTERS), "Write", "marks received over HTTP")
    yield _topic(topics.name(ANOMALIES), "Write", "results of the operators")
    yield _topic(topics.name(DEAD_LETTERS), "Write", "unusable records")
    yield _topic(topics.name(ANOMALIES), "Read", "anomalies to join to incidents")
    rekeying: list[str] = []
    if APPLICATIONS in read:
        rekeying.append(SERVING)
        yield _topic(topics.name(APPLICATIONS), "Read", "performance of applications, and counters of their hosts")
        yield _topic(topics.name(APPLICATIONS), "Write", "these counters, re-keyed")
        yield _topic(topics.name(MODELS), "Write", "performance models")
    if POOLS in read:
        rekeying.append(POOLING)
        yield _topic(topics.name(POOLS), "Read", "members of pools")
        yield _topic(topics.name(POOLS), "Write", "counters of members, re-keyed")
    if REQUESTS in read:
        yield _topic(topics.name(REQUESTS), "Read", "traced requests")
    for operator in (*operators, INCIDENTS):
        yield from _snapshots(topics, operator, "Read", "Write")
    for group in topics.groups((*operators, *rekeying, INCIDENTS)):
        yield Rule("group", group, False, ("Read",), "membership and offsets")
        yield Rule(
            "transactional-id",
            f"{group}-",
            True,
            ("Write",),
            "results and offsets in one transaction; aborting those of dead workers",
        )


def _reader(topics: Topics, _: Sequence[str], group: str) -> Iterator[Rule]:
    for topic in (ANOMALIES, MODELS, DIAGNOSES):
        yield _topic(topics.name(topic), "Read", topic.value)
    yield Rule("group", group, False, ("Read",), "offsets of the tool")


def _annotator(topics: Topics, _: Sequence[str], __: str) -> Iterator[Rule]:
    group = topics.group(ANNOTATIONS)
    yield _topic(topics.name(ANOMALIES), "Read", ANOMALIES.value)
    yield Rule("group", group, False, ("Read",), "membership and offsets")
    yield Rule("transactional-id", f"{group}-", True, ("Write",), "committing offsets")


def _viewer(topics: Topics, operators: Sequence[str], _: str) -> Iterator[Rule]:
    read = _topics_of(operators)
    yield _topic(topics.name(COUNTERS), "Read", "frames")
    yield _topic(topics.name(COUNTERS), "Write", "`laggard mark`, `laggard feedback`")
    yield _topic(topics.name(ANOMALIES), "Read", "incidents, and answers to marks")
    yield _topic(topics.name(DIAGNOSES), "Read", "`laggard why`, `incidents` and `diagnose`: profiles")
    for operator in operators:
        yield from _snapshots(topics, operator, "Read")
    # The lag of the other groups is not shown.
    of_hosts = [each for each in operators if OPERATORS[each].topic is COUNTERS]
    for group in topics.groups(of_hosts):
        yield Rule("group", group, False, ("Describe",), "lag of the operators")
    if APPLICATIONS in read:
        yield _topic(topics.name(MODELS), "Read", "`laggard models`")
        yield _topic(topics.name(APPLICATIONS), "Read", "`laggard models`: metrics and predictions")
        yield _topic(topics.name(APPLICATIONS), "Write", "wishes: `laggard models pin`; `laggard feedback`")
    if POOLS in read:
        yield _topic(topics.name(POOLS), "Read", "`laggard pools`")
        yield _topic(topics.name(POOLS), "Write", "`laggard feedback`")
    if REQUESTS in read:
        yield _topic(topics.name(REQUESTS), "Read", "`laggard requests`")
        yield _topic(topics.name(REQUESTS), "Write", "`laggard feedback`")


def _page(topics: Topics, operators: Sequence[str], _: str) -> Iterator[Rule]:
    read = _topics_of(operators)
    inputs = {COUNTERS: "frames", ANOMALIES: "incidents", DIAGNOSES: "profiles of processes"}
    stages = [*operators, INCIDENTS]
    written = "feedback, and replayed dead letters"
    if APPLICATIONS in read:
        inputs |= {MODELS: "performance models", APPLICATIONS: "performance of applications"}
        stages.append(SERVING)
        yield _topic(topics.name(APPLICATIONS), "Write", f"wishes for models, {written}")
    if POOLS in read:
        inputs[POOLS] = "members of pools"
        stages.append(POOLING)
        yield _topic(topics.name(POOLS), "Write", written)
    if REQUESTS in read:
        inputs[REQUESTS] = "traced requests"
        yield _topic(topics.name(REQUESTS), "Write", written)
    yield _topic(topics.name(COUNTERS), "Write", f"marks, {written}")
    for topic, why in inputs.items():
        yield _topic(topics.name(topic), "Read", why)
    yield _topic(topics.name(DEAD_LETTERS), "Read", "unusable records")
    for operator in (*operators, INCIDENTS):
        yield from _snapshots(topics, operator, "Read")
    for group in topics.groups(stages):
        yield Rule("group", group, False, ("Describe",), "lag of its stages")


def _admin(topics: Topics, operators: Sequence[str], _: str) -> Iterator[Rule]:
    read = _topics_of(operators)
    yield Rule("topic", topics.prefix, True, ("Create", "Describe", "DescribeConfigs"), "`laggard topics`")
    yield _topic(topics.name(COUNTERS), "Read", "`laggard reset`: sets the operators' offsets there")
    for topic in (APPLICATIONS, POOLS, REQUESTS):
        if topic in read:
            yield _topic(topics.name(topic), "Read", "`laggard reset`: likewise")
    yield _topic(topics.name(ANOMALIES), "Read", "`laggard reset`: likewise, and what incidents begin with")
    for operator in (*operators, INCIDENTS):
        yield from _snapshots(topics, operator, "Read", "Write", why="`laggard reset`: marks them as deleted")
    for group in topics.groups((*operators, INCIDENTS)):
        yield Rule("group", group, False, ("Read",), "`laggard reset`")


def _topics_of(operators: Sequence[str]) -> Set[Topic]:
    """Return the topics that the operators read."""
    return {OPERATORS[name].topic for name in operators}


def _topic(name: str, operation: str, why: str) -> Rule:
    return Rule("topic", name, False, (operation,), why)


def _snapshots(topics: Topics, operator: str, *operations: str, why: str = "states") -> Iterator[Rule]:
    # A later version of an operator's state has its own topic, with a longer name.
    yield Rule("topic", topics.name(topics.snapshots(operator)), True, operations, why)


_RULES: Final = {
    "agent": _agent,
    "measurer": _measurer,
    "tracer": _tracer,
    "worker": _worker,
    "reader": _reader,
    "annotator": _annotator,
    "viewer": _viewer,
    "page": _page,
    "admin": _admin,
}


def _upper(operation: str) -> str:
    return {"DescribeConfigs": "DESCRIBE_CONFIGS"}.get(operation, operation.upper())
