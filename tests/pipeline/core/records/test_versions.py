"""Today's bytes, pinned: a change of the form without a new version fails here.

The files in `golden/` are what laggard of that version wrote. One whose version is no longer current stays: its records
are still on somebody's topics.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgpack
import numpy as np
import pytest

from laggard.pipeline.core.records import (
    Case,
    Decoder,
    Feedback,
    Frame,
    Mark,
    Received,
    RecordError,
    Request,
    Segment,
    Spent,
    Wish,
    encode,
    make_layout,
)
from laggard.pipeline.core.records.codec import VERSION

if TYPE_CHECKING:
    from collections.abc import Callable

GOLDEN = Path(__file__).parent / "golden"
CURRENT = f"{VERSION[0]}.{VERSION[1]}"

RECORDS: dict[str, Received] = {
    "frame": Frame(
        "host", "web-1", "process", 1_700_000_000.25, 1_700_000_000_250,
        make_layout(
            ["nginx[4711@99]", "käse[8@1]"], ["nginx", "käse"], ["cpu_user_ratio", "memory_rss_bytes"], ["nginx -g", ""]
        ),
        np.array([[0.5, 31e6], [np.nan, -0.0]]),
    ),
    "owned": Frame(
        "host", "web-1", "process", 1_700_000_000.25, 1_700_000_000_251,
        make_layout(
            ["nginx[4711@99]", "käse[8@1]"], ["nginx", "käse"], ["threads"], ["nginx -g", ""],
            users=["www-data", "1000"], containers=["docker:3f2a8b4c5d6e", ""],
        ),
        np.array([[5.0], [1.0]]),
    ),
    "application": Frame(
        "application", "shop", "performance", 0.0, -1, make_layout(["shop"], ["shop"], ["response_time_s"]),
        np.array([[0.21]]), ("web-1", "db-1"),
    ),
    "mark": Mark("web-1", 1_700_000_007.5, "checkout hängt", 3),
    "request": Request("shop", 1.5, "r1", 0.122, {"RS": 200.0}, {"RS": 0.02}, ("open", "read"), 9),
    "traced": Request(
        "shop", 1_700_000_000.25, "r2", 0.51, {"BF": 2.0, "RU": 3.0}, {"BF": 0.5, "RU": 0.01},
        ("fcntl", "fcntl", "futex"), 7, "web-1", "GET /cart", {"RU": 0.51},
        (Spent("BF", "fcntl", "/srv/käse.lock", "worker", 812, "", 1, 0.5), Spent("RU", "", "", "", 0, "", 3, 0.01)),
        ("php-fpm[4711]", "worker[812]"),
        (Segment(0, 0.0, 0.01, "RU", ""), Segment(1, 0.01, 0.51, "RU", "holds /srv/käse.lock")),
        ("clocks of hosts differ",),
    ),
    "wish": Wish("shop", 1_700_000_009.0, "web-1/nginx:cpu_wait_ratio", "pin", 4),
    "feedback": Feedback(
        "host", "web-1", 1_700_000_011.0, "5f0c", "expected",
        (Case("backup", ("disk",), "io_write_bytes_per_s", 8e7), Case("käse")), 1_700_003_600.0, "628b", "Lasttest", 5,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RECORDS)
def test_the_bytes_are_what_they_were(name: str, request: pytest.FixtureRequest) -> None:
    path = GOLDEN / f"{name}-{CURRENT}.msgpack"
    if request.config.getoption("--update-golden") and not path.exists():
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(encode(RECORDS[name]))
    assert encode(RECORDS[name]) == path.read_bytes(), (
        "records are written in another form: if older readers can pass over what is new, raise the minor version in "
        "codec.py, else the major one; keep the old files, and add new ones with pytest --update-golden"
    )


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.msgpack")), ids=lambda path: path.stem)
def test_all_that_was_ever_written_in_this_major_version_is_read(
    path: Path, parts: Callable[[Received], list[Any]]
) -> None:
    name, _, version = path.stem.rpartition("-")
    if int(version.partition(".")[0]) == VERSION[0]:
        assert parts(Decoder().decode(path.read_bytes(), "here")) == parts(RECORDS[name])


def newer(name: str, version: list[int], **fields: object) -> bytes:
    return bytes(msgpack.packb(msgpack.unpackb(encode(RECORDS[name])) | {"v": version} | fields))


@pytest.mark.parametrize("name", RECORDS)
def test_a_newer_minor_version_is_read(name: str, parts: Callable[[Received], list[Any]]) -> None:
    value = newer(name, [VERSION[0], VERSION[1] + 7], spare={"nested": [1, None, b""]})
    assert parts(Decoder().decode(value, "here")) == parts(RECORDS[name])


def test_additions_of_a_newer_minor_version_to_a_layout_are_skipped(parts: Callable[[Received], list[Any]]) -> None:
    fields = msgpack.unpackb(encode(RECORDS["frame"]))
    layout = msgpack.packb(msgpack.unpackb(fields["layout"]) | {"units": b"s\0B"})
    found = Decoder().decode(newer("frame", [VERSION[0], VERSION[1] + 1], layout=layout), "here")
    assert isinstance(found, Frame)
    assert found.layout.rows == ("nginx[4711@99]", "käse[8@1]")


@pytest.mark.parametrize("name", RECORDS)
def test_a_newer_major_version_names_both_and_what_to_do(name: str) -> None:
    wanted = f"here: field 'v': expected {VERSION[0]}.x, got {VERSION[0] + 1}.2, which is newer: update laggard here"
    with pytest.raises(RecordError, match=re.escape(wanted)):
        Decoder().decode(newer(name, [VERSION[0] + 1, 2]), "here")
    with pytest.raises(RecordError, match=re.escape(wanted)):
        Decoder().decode(msgpack.packb({"v": [VERSION[0] + 1, 2], "kind": name, "everything": "else"}), "here")


def test_a_kind_that_a_newer_minor_version_adds_is_named_as_that() -> None:
    with pytest.raises(
        RecordError, match=r"'kind': expected 'frame', 'mark', 'request', 'wish' or 'feedback', got 'trace' of "
    ):
        Decoder().decode(newer("mark", [VERSION[0], VERSION[1] + 1], kind="trace"), "here")
    with pytest.raises(RecordError, match=r"got 'trace'$"):
        Decoder().decode(newer("mark", list(VERSION), kind="trace"), "here")
