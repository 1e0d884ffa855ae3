from __future__ import annotations

import math
from dataclasses import replace

import pytest

from laggard.pipeline.core.bus.kafka.wire import MAX_RECORD_BYTES, raw
from laggard.pipeline.core.engine.publishing import MAX_LETTER_BYTES, outgoing
from laggard.pipeline.core.engine.stage import DeadLetter
from laggard.pipeline.core.records import Mark
from laggard.pipeline.core.records.outputs import RankingOutput, read_output
from laggard.pipeline.scoring.answers import NOTHING_RANKED
from tests.pipeline.core.engine.conftest import TOPICS, frame, record


def test_a_dead_letter_is_what_was_received_and_why() -> None:
    received = replace(record(frame("h1", 1, 5.0), 42), value=b"\xffjunk", headers=(("trace", b"\x00\xff"),))
    sent = outgoing(DeadLetter("drift", received, "expected \ud800 something else"), TOPICS)
    assert (sent.topic, sent.key, sent.value, sent.ts) == ("t.dead_letters", "h1", b"\xffjunk", received.ts)
    assert sent.headers == (
        ("trace", b"\x00\xff"),
        ("laggard-reason", b"expected \\ud800 something else"),
        ("laggard-operator", b"drift"),
        ("laggard-topic", b"t.counters"),
        ("laggard-partition", b"0"),
        ("laggard-offset", b"42"),
    )


@pytest.mark.parametrize("large", ["key", "value", "headers"])
def test_a_dead_letter_is_never_too_large_for_its_topic(large: str) -> None:
    received = replace(record(frame("h1", 1, 5.0), 42), value=b"\xffjunk", headers=(("trace", b"\x00"),))
    much = MAX_LETTER_BYTES + 1
    match large:
        case "key":
            received = replace(received, key="\udcff" * much)
        case "value":
            received = replace(received, value=b"v" * much)
        case _:
            received = replace(received, headers=(("trace", bytes(much)),))
    sent = outgoing(DeadLetter("drift", received, "expected something else"), TOPICS)
    assert raw(sent, 1).size <= MAX_RECORD_BYTES
    told = dict(sent.headers)
    assert told["laggard-offset"] == b"42"
    assert int(told["laggard-bytes"]) >= much
    assert received.value.startswith(sent.value)
    assert received.key.startswith(sent.key)
    assert ("trace" in told) == (large != "headers")


def test_an_empty_answer_is_strict_json() -> None:
    mark = Mark("h1", 5.5, "why?")
    sent = outgoing(RankingOutput.of(mark.ts, mark.host, mark.note, NOTHING_RANKED), TOPICS)
    assert b"NaN" not in sent.value
    read = read_output(sent.value, "here")
    assert isinstance(read, RankingOutput)
    assert read.ranking.rows == ()
    assert math.isnan(read.ranking.ts)
    assert dict(sent.headers)["ce_time"] == b"1970-01-01T00:00:05.500000+00:00"


def test_two_marks_have_two_ids_and_one_has_one() -> None:
    ids = [
        dict(outgoing(RankingOutput.of(ts, "h1", note, NOTHING_RANKED), TOPICS).headers)["ce_id"]
        for ts, note in ((1.0, "a"), (1.0, "a"), (2.0, "a"), (1.0, "b"))
    ]
    assert len(set(ids)) == 3
