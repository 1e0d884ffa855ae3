"""Dead letters: what is in them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laggard.pipeline.core.bus import Incoming, Partition
from laggard.pipeline.core.bus.embedded import EmbeddedBus
from laggard.pipeline.core.engine.publishing import outgoing
from laggard.pipeline.core.engine.stage import DeadLetter
from laggard.pipeline.core.records import Frame, Mark, encode, make_layout
from laggard.pipeline.core.topics import DEAD_LETTERS, Topics
from laggard.pipeline.dead_letters import MOST_REMEMBERED, Replayed, decoded, hex_dump, read_letter, replay_of, returned
from tests.pipeline.methods.pools.records import told

if TYPE_CHECKING:
    from pathlib import Path

TOPICS = Topics()
COUNTERS = Partition("laggard.counters", 0)


def received(value: bytes = b"junk", headers: tuple[tuple[str, bytes], ...] = ()) -> Incoming:
    return Incoming(COUNTERS, 1042, "web-ä", value, 1000.5, headers)


def dead(letter: DeadLetter, offset: int = 7) -> Incoming:
    """It as it is in the topic of dead letters."""
    written = outgoing(letter, TOPICS)
    return Incoming(Partition(written.topic, 0), offset, written.key, written.value, written.ts, written.headers)


@given(st.binary(max_size=50), st.text(max_size=50), st.lists(st.tuples(st.text("abc-", min_size=1), st.binary())))
def test_a_letter_is_read_as_it_was_written(value: bytes, reason: str, headers: list[tuple[str, bytes]]) -> None:
    record = received(value, tuple(headers))
    letter = read_letter(dead(DeadLetter("gaussian", record, reason)))
    assert (letter.operator, letter.topic, letter.partition, letter.offset) == ("gaussian", "laggard.counters", 0, 1042)
    assert letter.reason == reason.encode(errors="backslashreplace").decode()
    assert (letter.headers, letter.cut, letter.origin) == (record.headers, 0, "laggard.counters[0]@1042")
    again = replay_of(letter)
    assert (again.topic, again.key, again.value, again.ts) == (COUNTERS.topic, record.key, value, record.ts)
    assert again.headers == (*record.headers, ("laggard-replay", b"laggard.counters[0]@1042"))
    # What comes of the replay knows it.
    second = Incoming(COUNTERS, 2000, again.key, again.value, again.ts, again.headers)
    assert read_letter(dead(DeadLetter("gaussian", second, reason))).replay_of == letter.origin


def test_malformed_headers_of_any_sender_are_no_error() -> None:
    headers = (("laggard-partition", b"-1"), ("laggard-offset", b"\xff"), ("laggard-bytes", b"9" * 30))
    letter = read_letter(Incoming(Partition("laggard.dead_letters", 0), 0, "", b"", 0.0, headers))
    assert (letter.operator, letter.topic, letter.partition, letter.offset, letter.cut) == ("", "", -1, -1, 0)


def test_who_returns_is_the_same_operators_letter(tmp_path: Path) -> None:
    def write(operator: str, record: Incoming) -> None:
        bus.append([outgoing(DeadLetter(operator, record, "wrong"), TOPICS)])

    with EmbeddedBus(tmp_path / "bus.db") as bus:
        bus.create(TOPICS.specs())
        write("gaussian", received())
        (partition,) = bus.partitions(TOPICS.name(DEAD_LETTERS))
        first = read_letter(next(iter(bus.read(partition, 0))))
        again = replay_of(first)
        for operator, headers in (("gaussian", ()), ("cpu", again.headers)):
            write(operator, received(headers=headers))
        assert returned(bus, first) is None
        write("gaussian", received(headers=again.headers))
        back = returned(bus, first)
        assert back is not None
        assert back.record.offset == 3


def test_a_record_is_remembered_whichever_letter_of_it_was_sent(tmp_path: Path) -> None:
    one, other = (read_letter(dead(DeadLetter(operator, received(), "wrong"))) for operator in ("gaussian", "cpu"))
    elsewhere = read_letter(dead(DeadLetter("cpu", received(b"other junk"), "wrong")))
    known = Replayed(tmp_path / "state" / "known.json")
    assert known.when(one) is None
    known.remember(one, 12.5)
    assert (known.when(one), known.when(other), known.when(elsewhere)) == (12.5, 12.5, None)
    assert Replayed(tmp_path / "state" / "known.json").when(one) == 12.5
    known.forget(other)
    assert known.when(one) is None


def test_what_is_remembered_is_bounded_and_survives_damage(tmp_path: Path) -> None:
    path = tmp_path / "known.json"
    path.write_text(json.dumps({f"{number}": float(number) for number in range(MOST_REMEMBERED)}))
    known = Replayed(path)
    letter = read_letter(dead(DeadLetter("cpu", received(), "wrong")))
    known.remember(letter, 1e9)
    kept = json.loads(path.read_text())
    assert len(kept) == MOST_REMEMBERED
    assert "0" not in kept
    path.write_text("[1, 2")
    assert known.when(letter) is None
    known.remember(letter, 1e9)
    assert known.when(letter) == 1e9


def test_a_frame_is_told_by_its_names_and_a_mark_whole() -> None:
    mark = json.loads(decoded(encode(Mark("web-1", 12.0, "<b>slow</b>")))[0])
    assert mark == {"kind": "mark", "host": "web-1", "ts": 12.0, "note": "<b>slow</b>", "sequence": mark["sequence"]}
    frame = told(0.0, {"a[1@1]": 0.5, "b[2@1]": float("nan")})
    said, wrong = decoded(encode(frame))
    assert wrong == ""
    fields = json.loads(said)
    assert (fields["kind"], fields["scope"], fields["features"]) == ("frame", "member", ["cpu_user_ratio"])
    assert fields["rows"]["a[1@1]"] == [0.5]
    many = Frame(
        "host", "web-1", "process", 1.0, 1, make_layout([f"r{n}" for n in range(50)], ["r"] * 50, ["x"]),
        frame.values[:1].repeat(50, axis=0),
    )  # fmt: skip
    assert json.loads(decoded(encode(many))[0])["more_rows"] == 30


@pytest.mark.parametrize(
    ("value", "said", "wrong"),
    [
        (b"\x81\xa1a\xc4\x02\x00\x01", '{\n "a": "2 bytes"\n}', "version"),
        (b'{"a": [1]}', '{\n "a": [1]\n}', "MessagePack"),
        (b"junk \xff", "", "MessagePack"),
        (b"", "", "MessagePack"),
    ],
)
def test_other_bytes_are_told_as_far_as_they_can_be_read(value: bytes, said: str, wrong: str) -> None:
    found, error = decoded(value)
    assert found == said
    assert wrong in error


@given(st.binary(max_size=300))
def test_any_bytes_can_be_decoded_and_dumped(value: bytes) -> None:
    decoded(value)
    lines = hex_dump(value).splitlines()
    assert bytes.fromhex("".join(line[10:58] for line in lines)) == value
    assert len({len(line) - len(line.split("|", 1)[1]) for line in lines}) <= 1
