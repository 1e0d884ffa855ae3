"""Names for spans of any language: the request, the operation and the called service."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from laggard.pipeline.core.records.limits import MAX_NAME
from laggard.producers.system.redaction import redact
from laggard.producers.trace.otlp_span import Span, SpanKind
from laggard.producers.trace.steady import asked_for, steady

ENTRIES: Final = (SpanKind.SERVER, SpanKind.CONSUMER)
"""The kinds of spans that come from elsewhere."""


def asked(span: Span) -> str:
    """Return the name of a request: by its route, otherwise by the name of its span."""
    attributes = span.attributes
    method = attributes.get("http.request.method") or attributes.get("http.method", "")
    route = attributes.get("http.route", "")
    if route:
        return redact(f"{method} {route}".strip())
    return asked_for(span.name)


def operation(span: Span) -> str:
    """Return a span's operation, without parts that differ each time: `SELECT shop.items`, `GET`, `Payments/Charge`.

    A span without a name returns its kind.
    """
    attributes = span.attributes
    get = attributes.get
    if span.kind in ENTRIES:
        return asked(span)[:MAX_NAME] or span.kind.name.lower()
    if "db.system.name" in attributes or "db.system" in attributes:
        statement = get("db.query.text") or get("db.statement") or ""
        verb = get("db.operation.name") or get("db.operation") or statement.partition(" ")[0].upper()
        found = f"{verb} {get('db.collection.name') or get('db.sql.table') or ''}".strip()
        if span.name.startswith(found):
            found = ""  # by its convention the name has more detail: `SELECT shop.items`
    elif "rpc.system" in attributes or "rpc.method" in attributes:
        found = f"{get('rpc.service', '')}/{get('rpc.method', '')}".strip("/")
    elif "messaging.system" in attributes:
        found = get("messaging.operation.name") or get("messaging.operation.type") or get("messaging.operation") or ""
    else:
        method = get("http.request.method") or get("http.method") or ""
        found = f"{method} {get('url.template') or ''}".strip()
    return (redact(found) or asked_for(steady(span.name)))[:MAX_NAME] or span.kind.name.lower()


def _netloc(url: str) -> str:
    """Return the host and port of a URL; empty if invalid."""
    try:
        return urlsplit(url).netloc.rpartition("@")[2]
    except ValueError:
        return ""


def target(span: Span) -> str:
    """Return the target of a call: an address, a topic, a service, or the kind of database."""
    get = span.attributes.get
    topic = get("messaging.destination.name") or get("messaging.destination")
    if topic:
        return steady(topic)[:MAX_NAME]
    names = ("server.address", "net.peer.name", "network.peer.address", "net.peer.ip", "net.sock.peer.addr")
    address = next((found for name in names if (found := get(name))), "")
    port = get("server.port") or get("net.peer.port") or get("network.peer.port") or get("net.sock.peer.port")
    if not address:
        address, port = _netloc(get("url.full") or get("http.url") or ""), None
    if address:
        return steady(f"{address}:{port}" if port else address)[:MAX_NAME]
    return (get("rpc.service", "") or get("db.system.name", "") or get("db.system", ""))[:MAX_NAME]
