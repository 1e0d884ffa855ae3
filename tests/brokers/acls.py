"""laggard's rules as a broker's own ACLs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka import KafkaAdminClient

    from laggard.pipeline.acls import Rule


def acls_of(user: str, rule: Rule) -> list[ACL]:
    """What gives a user the rights of a rule."""
    said = rule.to_json(f"User:{user}")
    pattern = ResourcePattern(
        ResourceType[said["resource_type"]], said["resource_name"], ACLResourcePatternType[said["pattern_type"]]
    )
    return [
        ACL(said["principal"], "*", ACLOperation[operation], ACLPermissionType[said["permission_type"]], pattern)
        for operation in said["operations"]
    ]


def await_acls(owner: KafkaAdminClient, acls: Sequence[ACL], *, there: bool) -> None:
    """Wait until the broker, which hears of it a moment after the controller has answered, enforces them or not."""
    deadline = time.monotonic() + 60
    while any(bool(owner.describe_acls(filter_of(acl))[0]) is not there for acl in acls):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def filter_of(acl: ACL) -> ACLFilter:
    """What finds just this one."""
    pattern = acl.resource_pattern
    return ACLFilter(
        acl.principal,
        acl.host,
        acl.operation,
        acl.permission_type,
        ResourcePatternFilter(pattern.resource_type, pattern.resource_name, pattern.pattern_type),
    )
