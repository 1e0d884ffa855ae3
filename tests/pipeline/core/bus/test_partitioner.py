"""Keys go where Kafka's own clients would send them."""

from __future__ import annotations

import pytest

from laggard.pipeline.core.bus.partitioner import murmur2, partition_number

# Kafka's own vectors: `testMurmur2` of org.apache.kafka.common.utils.UtilsTest, which prints signed integers.
PUBLISHED = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize("key", PUBLISHED, ids=bytes.decode)
def test_published_vectors(key: bytes) -> None:
    assert murmur2(key) == PUBLISHED[key] & 0xFFFFFFFF


def test_the_sign_bit_is_left_out_and_a_single_partition_takes_every_key() -> None:
    assert partition_number("21", 7) == ((-973932308) & 0x7FFFFFFF) % 7
    assert partition_number("ö", 5) == (murmur2("ö".encode()) & 0x7FFFFFFF) % 5
    assert {partition_number(key, 1) for key in ("", "a", "ö", "\0")} == {0}
