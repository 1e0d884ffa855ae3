"""Addresses and packets of the network in the events of LTTng."""

from __future__ import annotations

import ipaddress
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_TCP_HEADER_WORDS = 5


def address(packed: bytes, port: int | str) -> str:
    """Return `127.0.0.1:3306` or `[::1]:3306`; empty for no address."""
    if len(packed) not in (4, 16):
        return ""
    found = ipaddress.ip_address(packed)
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    found = mapped or found
    return f"[{found}]:{port}" if found.version == 6 else f"{found}:{port}"


def packed(value: object) -> bytes:
    """Return an address as bytes: from bytes, or from the eight 16-bit numbers of an IPv6 address."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, list):
        return b"".join((part & 0xFFFF).to_bytes(2, "big") for part in value)
    return b""


def packet_id(fields: Mapping[str, Any]) -> int:
    """Return the id of a packet of TCP or UDP on both hosts: 63 bits, 0 for other packets and without headers.

    A packet with data is identified by the sequence number of its first byte. Its length is not used, since hosts split
    and join segments on their way to the device. An acknowledgment without data is identified by the number that it
    acknowledges.

    Args:
        fields: the fields of `net_dev_queue` or `net_if_receive_skb`, including those of the headers.

    """
    source, destination = packed(fields.get("saddr")), packed(fields.get("daddr"))
    ports = fields.get("source_port"), fields.get("dest_port")
    if not source or not destination or None in ports:
        return 0
    if "seq" in fields:
        known: tuple[object, ...] = ("tcp", fields["seq"])
        if not _data_bytes(fields):
            known = ("ack", fields["seq"], fields.get("ack_seq"), fields.get("flags"))
    else:
        known = ("udp", fields.get("check"), fields.get("id"))
    digest = blake2b(repr((source, destination, ports, known)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1 or 1


def _data_bytes(fields: Mapping[str, Any]) -> int:
    """Return the number of bytes after the headers."""
    header = 4 * int(fields.get("data_offset", _TCP_HEADER_WORDS))
    if "payload_len" in fields:
        return int(fields["payload_len"]) - header
    return int(fields.get("tot_len", 0)) - 4 * int(fields.get("ihl", _TCP_HEADER_WORDS)) - header
