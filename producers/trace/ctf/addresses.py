"""Addresses and packets of the network, as LTTng's events tell them."""

from __future__ import annotations

import ipaddress
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_TCP_HEADER_WORDS = 5


def address(packed: bytes, port: int | str) -> str:
    """`127.0.0.1:3306` or `[::1]:3306`; empty for no address."""
    if len(packed) not in (4, 16):
        return ""
    found = ipaddress.ip_address(packed)
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    found = mapped or found
    return f"[{found}]:{port}" if found.version == 6 else f"{found}:{port}"


def packed(value: object) -> bytes:
    """An address as bytes: bytes already, or the eight numbers of 16 bits that an IPv6 address has."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, list):
        return b"".join((part & 0xFFFF).to_bytes(2, "big") for part in value)
    return b""


def packet_id(fields: Mapping[str, Any]) -> int:
    """By what a packet of TCP or UDP is known on both hosts: 63 bits, 0 for one that is of neither or has no headers.

    One with data is known by its first byte's sequence number, not its length: hosts cut and join segments on their
    way to the device. An acknowledgement without data is known by what it acknowledges.

    Args:
        fields: of `net_dev_queue` or `net_if_receive_skb`, those of the headers among them.

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
    """The bytes behind the headers."""
    header = 4 * int(fields.get("data_offset", _TCP_HEADER_WORDS))
    if "payload_len" in fields:
        return int(fields["payload_len"]) - header
    return int(fields.get("tot_len", 0)) - 4 * int(fields.get("ihl", _TCP_HEADER_WORDS)) - header
