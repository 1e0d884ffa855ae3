"""The stored form of values on the embedded bus: small ones as they are, others compressed.

Measured on frames of 285 processes x 25 features with their names (85 kB, 81 % zeros). Level 1 of zstandard compresses
them to 8.2 kB in 100 us, and decompresses them in 39 us. Level 3 gains 10 %. Shuffling the bytes of the float64 values
first makes them larger (14 kB: whole zeros and repeated names compress here, not exponents) and costs 80 us more. An
earlier frame as dictionary gains nothing at level 1. So: plain level 1.
"""

from __future__ import annotations

import threading

import zstandard

MAX_VALUE_BYTES = 64 << 20
"""The longest value that the bus accepts, and the largest unpacked size that a stored one may claim."""

_COMPRESSED_FROM = 512


class _Codec(threading.local):
    """The compressors of a thread: they are costly to make, and serve one thread at a time."""

    def __init__(self) -> None:
        # The checksum turns a flipped bit into an error instead of a wrong value.
        self.compressor = zstandard.ZstdCompressor(level=1, write_checksum=True)
        self.decompressor = zstandard.ZstdDecompressor(max_window_size=MAX_VALUE_BYTES)


_codec = _Codec()


def pack(value: bytes) -> bytes:
    """Return the bytes to store: shorter than `value`, or `value` itself."""
    if len(value) >= _COMPRESSED_FROM:
        packed = _codec.compressor.compress(value)
        if len(packed) < len(value):
            return packed
    return value


def unpack(stored: bytes, size: int) -> bytes:
    """Return the packed value, bit for bit; `size` is its length. Needs at most `MAX_VALUE_BYTES` of memory.

    Raises:
        ValueError: the bytes are damaged; the message says what was expected.

    """
    if len(stored) == size:
        return stored
    if not len(stored) < size <= MAX_VALUE_BYTES:
        raise ValueError(f"expected from {len(stored)} to {MAX_VALUE_BYTES} bytes, got a size of {size}")
    try:
        claimed = zstandard.get_frame_parameters(stored).content_size
        if claimed != size:
            raise ValueError(f"expected {size} bytes, the compressed ones claim {claimed}")
        return _codec.decompressor.decompress(stored)
    except zstandard.ZstdError as error:
        raise ValueError(f"expected a whole zstandard frame: {error}") from error
