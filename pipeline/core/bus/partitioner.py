"""The partition of a key, as Kafka's own clients compute it."""

from __future__ import annotations

from functools import lru_cache

_WORD = 0xFFFFFFFF
_SEED = 0x9747B28C
_MIX = 0x5BD1E995


def murmur2(key: bytes) -> int:
    """Return the 32-bit MurmurHash2 with the seed of Kafka's default partitioner, unsigned.

    Source: Austin Appleby, MurmurHash2 (public domain); `org.apache.kafka.common.utils.Utils.murmur2`.
    """
    length = len(key)
    hashed = _SEED ^ length
    aligned = length & ~3
    for at in range(0, aligned, 4):
        word = int.from_bytes(key[at : at + 4], "little") * _MIX & _WORD
        word = (word ^ word >> 24) * _MIX & _WORD
        hashed = (hashed * _MIX & _WORD) ^ word
    if aligned < length:
        hashed = (hashed ^ int.from_bytes(key[aligned:], "little")) * _MIX & _WORD
    hashed = (hashed ^ hashed >> 13) * _MIX & _WORD
    return hashed ^ hashed >> 15


@lru_cache(maxsize=65536)
def partition_number(key: str, partitions: int) -> int:
    """Return the partition of `key` in a topic of this many, from 0. A single partition needs no hash.

    A lone surrogate stands for a byte that is not UTF-8, which another client may have written.
    """
    if partitions == 1:
        return 0
    return (murmur2(key.encode("utf-8", "surrogateescape")) & 0x7FFFFFFF) % partitions
