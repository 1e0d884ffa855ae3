"""Missing permissions of a user: the user's name at the brokers, and the missing ACL."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kafka import errors as kafka_errors

from laggard.pipeline.core.bus import BusError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from laggard.pipeline.core.bus.kafka.options import KafkaOptions

_LACKS: Mapping[type[Exception], str] = {
    kafka_errors.TopicAuthorizationFailedError: "a topic of it, to read or to write",
    kafka_errors.GroupAuthorizationFailedError: "the group",
    kafka_errors.TransactionalIdAuthorizationFailedError: "the transactional id",
    # A user who may write to any topic may also write idempotently.
    kafka_errors.ClusterAuthorizationFailedError: "any topic to write to",
}

# kafka-python reports some only in the text of another error: `Unexpected error in ...: [Error 29] ...`
_CODE = re.compile(r"\[Error (\d+)\]")
_TOPICS = re.compile(r"TopicAuthorizationFailedError(?:: |\()\{?([\w.' ,-]+)")


class Denied(BusError):  # noqa: N818 - named for what it says
    """The brokers do not allow this user the operation: an ACL is missing."""


def denied(error: BaseException, options: KafkaOptions) -> str | None:
    """Return the missing permission if brokers rejected something for lack of an ACL; None for another error."""
    # The error of a failed transaction has the original error among its arguments.
    kind = next((kind for kind in _LACKS for each in (error, *error.args) if isinstance(each, kind)), None)
    if kind is None and (code := _CODE.search(str(error))):
        kind = kafka_errors.for_code(int(code[1]))
    if kind is None or kind not in _LACKS:
        return None
    topics = _TOPICS.search(str(error))
    what = "the topic " + topics[1].replace("'", "") if topics else _LACKS[kind]
    return f"{user_of(options)} lacks an ACL for {what}; `laggard topics acls` prints what each role needs"


def user_of(options: KafkaOptions) -> str:
    """Return the name of this user at the brokers, in words."""
    if options.sasl == "oauthbearer":
        return "the user of the token"
    if options.sasl != "none":
        return f"user {options.username}"
    if options.security == "tls" and options.certificate_file is not None:
        return f"the user of {options.certificate_file}"
    return "user ANONYMOUS"
