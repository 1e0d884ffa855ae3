"""Building and reading layouts: the names of a frame, packed once and sent with each frame.

A packed layout is a MessagePack map of byte strings, `rows`, `names`, `features` and perhaps `commands`, `users` and
`containers` (both since 1.3). Each has the names in UTF-8, joined by U+0000, which no name may contain. So a reader
only splits a few byte strings, and hostile bytes cannot become more objects than a layout may have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from laggard.pipeline.core.records import checks
from laggard.pipeline.core.records.errors import RecordError, shown
from laggard.pipeline.core.records.frame import Layout
from laggard.pipeline.core.records.limits import (
    MAX_CELLS,
    MAX_COMMAND,
    MAX_FEATURES,
    MAX_NAME,
    MAX_NAMES_BYTES,
    MAX_ROWS,
)
from laggard.pipeline.core.records.messagepack import pack_map, unpack_map

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

SEPARATOR: Final = "\0"

ROW_TEXTS: Final = {"commands": MAX_COMMAND, "users": MAX_NAME, "containers": MAX_NAME}
"""The optional texts of rows, one per row or none at all, and the most characters of each."""


def make_layout(
    rows: Iterable[str],
    names: Iterable[str],
    features: Iterable[str],
    commands: Iterable[str] = (),
    *,
    users: Iterable[str] = (),
    containers: Iterable[str] = (),
) -> Layout:
    """Return the layout of frames with these names. Reuse it while the names stay the same.

    Args:
        rows: ids, without duplicates.
        names: one per row.
        features: without duplicates.
        commands: one per row, or none at all.
        users: likewise.
        containers: likewise.

    Raises:
        RecordError: a name is a duplicate, too long or no text, or there are too many, or not one per row.

    """
    texts = {"commands": tuple(commands), "users": tuple(users), "containers": tuple(containers)}
    return checked_layout(tuple(rows), tuple(names), tuple(features), texts, place="")


def read_layout(packed: bytes, place: str) -> Layout:
    """Return the layout that was packed.

    Raises:
        RecordError: these bytes are no packed layout.

    """
    try:
        fields = unpack_map(packed)
    except ValueError as error:
        raise RecordError(place, "layout", "a MessagePack map of byte strings", str(error)) from None
    rows = _split(fields.get("rows"), "rows", place, MAX_ROWS)
    names = _split(fields.get("names"), "names", place, MAX_ROWS)
    features = _split(fields.get("features"), "features", place, MAX_FEATURES)
    # An empty string is one empty text of a single row: a layout without rows has no such field.
    texts = {field: _split(fields[field], field, place, MAX_ROWS) or [""] for field in ROW_TEXTS if field in fields}
    return checked_layout(rows, names, features, texts, place=place, packed=packed)


def _split(joined: Any, field: str, place: str, most: int) -> list[str]:
    if not isinstance(joined, bytes) or len(joined) > MAX_NAMES_BYTES:
        raise RecordError(place, field, f"a byte string of at most {MAX_NAMES_BYTES:,}", shown(joined))
    separator = SEPARATOR.encode()
    if (count := joined.count(separator) + 1) > most:
        raise RecordError(place, field, f"at most {most:,}", f"{count:,}")
    try:
        return [each.decode() for each in joined.split(separator)] if joined else []
    except UnicodeDecodeError as error:
        raise RecordError(place, field, "UTF-8", error.reason) from None


def checked_layout(
    rows: Sequence[str],
    names: Sequence[str],
    features: Sequence[str],
    texts: Mapping[str, Sequence[str]],
    *,
    place: str,
    packed: bytes | None = None,
) -> Layout:
    """Return the layout, as `make_layout` does, of names from a place and optionally their packed form."""
    rows = checks.texts(checks.items(rows, "rows", place, MAX_ROWS), "rows", place, MAX_NAME, shortest=1)
    names = checks.texts(checks.items(names, "names", place, MAX_ROWS), "names", place, MAX_NAME, shortest=1)
    features = checks.items(features, "features", place, MAX_FEATURES)
    features = checks.texts(features, "features", place, MAX_NAME, shortest=1)
    row_texts = {
        field: checks.texts(checks.items(texts.get(field, ()), field, place, MAX_ROWS), field, place, longest)
        for field, longest in ROW_TEXTS.items()
    }
    checks.unique(rows, "rows", place)
    checks.unique(features, "features", place)
    if len(names) != len(rows):
        raise RecordError(place, "names", f"one for each of {len(rows):,} rows", f"{len(names):,}")
    for field, each in row_texts.items():
        if each and len(each) != len(rows):
            raise RecordError(place, field, f"none, or one for each of {len(rows):,} rows", f"{len(each):,}")
    if len(rows) * len(features) > MAX_CELLS:
        got = f"{len(rows):,} x {len(features):,}"
        raise RecordError(place, "rows", f"at most {MAX_CELLS:,} rows x features", got)
    if packed is None:
        packed = _packed(
            {"rows": rows, "names": names, "features": features} | {k: v for k, v in row_texts.items() if v}
        )
    return Layout(rows, names, features, row_texts["commands"], packed, row_texts["users"], row_texts["containers"])


def _packed(fields: Mapping[str, tuple[str, ...]]) -> bytes:
    joined = {field: SEPARATOR.join(each).encode() for field, each in fields.items()}
    size = sum(map(len, joined.values()))
    if size > MAX_NAMES_BYTES:
        raise RecordError("", "rows", f"names of at most {MAX_NAMES_BYTES:,} bytes together", f"{size:,}")
    return pack_map(joined)
