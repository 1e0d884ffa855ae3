"""Lines of JSON as servers write them."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laggard.producers.sources.access_log.json_lines import JsonFields, JsonParser
from laggard.producers.sources.access_log.times import Zone

BEGIN = 1795356372.0  # 2026-11-22 14:06:12 UTC

CADDY = {
    "level": "info", "ts": 1795356372.25, "logger": "http.log.access", "msg": "handled request",
    "request": {"remote_ip": "::1", "method": "GET", "uri": "/", "headers": {"Accept": ["*/*"]}},
    "bytes_read": 0, "duration": 0.000929675, "size": 10900, "status": 200,
}  # fmt: skip
TRAEFIK = {
    "ClientAddr": "10.0.0.1:5", "DownstreamStatus": 502, "Duration": 1500000000, "OriginDuration": 1400000000,
    "RequestMethod": "GET", "StartLocal": "2026-11-22T15:06:12.5+01:00", "StartUTC": "2026-11-22T14:06:12.500000001Z",
    "level": "info", "msg": "", "time": "2026-11-22T14:06:14Z",
}  # fmt: skip
ENVOY = {
    "start_time": "2026-11-22T14:06:12.250Z", "method": "GET", "path": "/", "response_code": 200, "duration": 226,
    "upstream_service_time": "225",
}  # fmt: skip
NGINX = {"time_iso8601": "2026-11-22T14:06:12+00:00", "status": "499", "request_time": "0.123", "request": "GET /"}


def only(line: object, fields: JsonFields | None = None, zone: Zone | None = None) -> tuple[float, float, int]:
    found = JsonParser(fields, zone).parse(json.dumps(line, ensure_ascii=False).encode() + b"\n")
    assert found.unreadable == 0, found.reported
    assert len(found.ts) == 1
    return float(found.ts[0]), float(found.duration_s[0]), int(found.status[0])


def refused(line: object, fields: JsonFields | None = None) -> str:
    found = JsonParser(fields).parse(json.dumps(line).encode() + b"\n")
    assert (len(found.ts), found.unreadable) == (0, 1)
    return found.reported[0].reason


def test_the_usual_servers_are_known() -> None:
    assert only(CADDY) == (BEGIN + 0.25, 0.000929675, 200)
    ts, duration_s, status = only(TRAEFIK)
    assert ts == pytest.approx(BEGIN + 2.0, abs=1e-6)  # it says when a request began
    assert (duration_s, status) == (1.5, 502)
    assert only({**TRAEFIK, "StartUTC": None} | {"StartUTC": TRAEFIK["StartLocal"]})[0] == pytest.approx(BEGIN + 2.0)
    assert only(ENVOY) == pytest.approx((BEGIN + 0.476, 0.226, 200), abs=1e-6)
    assert only(NGINX) == (BEGIN, 0.123, 499)
    assert only({"msec": "1795356372.500", "request_time": "-", "status": 200})[0] == BEGIN + 0.5


def test_servers_may_take_turns_in_one_file() -> None:
    lines = [CADDY, TRAEFIK, ENVOY, NGINX] * 2
    found = JsonParser().parse("".join(json.dumps(line) + "\n" for line in lines).encode())
    assert found.unreadable == 0
    assert found.status.tolist() == [200, 502, 200, 499] * 2


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("1.5ms", 0.0015), ("2m3.5s", 123.5), ("1h0m0.25s", 3600.25), ("250µs", 0.00025), ("7ns", 7e-9), ("12", 0.012),
        (12.5, 0.0125), ("-", math.nan), ("", math.nan), (None, math.nan),
    ],
)  # fmt: skip
def test_durations(said: object, expected: float) -> None:
    fields = JsonFields("at", "took", "code", "ms")
    assert only({"at": BEGIN, "took": said}, fields)[1] == pytest.approx(expected, nan_ok=True)


def test_fields_of_any_name_and_within_others() -> None:
    fields = JsonFields("@timestamp", "event.duration", "http.response.status", "ns", begins=True)
    line = {"@timestamp": "2026-11-22 15:06:12", "event": {"duration": 5e8}, "http": {"response": {"status": 503}}}
    assert only(line, fields, Zone("Europe/Paris")) == (BEGIN + 0.5, 0.5, 503)
    assert only({**line, "event.duration": 1e9}, fields, Zone("Europe/Paris"))[1] == 1.0  # such a field goes first
    assert "expected a time with its offset from UTC; otherwise set time_zone" in refused(line, fields)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"ts": "yesterday"}, "ts: expected a time in ISO 8601"),
        ({"ts": True}, "ts: expected a time"),
        ({"ts": 0}, "ts: expected seconds since the epoch"),
        ({"ts": [1]}, "ts: expected a time"),
        ({"ts": 10**400}, "ts: expected"),
        ({"ts": "2026-02-30T00:00:00Z"}, "ts: day"),
        ({"duration": -1}, "duration: expected a non-negative duration"),
        ({"duration": "soon"}, "duration: expected"),
        ({"duration": "1ms2"}, "duration: expected"),
        ({"duration": math.nan}, "duration: expected"),
        ({"duration": 10**400}, "duration: expected"),
        ({"duration": [1]}, "duration: expected"),
        ({"duration": False}, "duration: expected"),
        ({"status": "OK"}, "status: expected an HTTP status"),
        ({"status": 1000}, "status: expected"),
        ({"status": {}}, "status: expected"),
    ],
)
def test_what_is_no_request_is_told(change: dict[str, object], expected: str) -> None:
    assert expected in refused({**CADDY, **change})


def test_what_is_no_json_is_told() -> None:
    assert "expected an object" in refused([1])
    assert "expected the fields 'StartUTC' with 'Duration' or" in refused({"msg": "started"})
    found = JsonParser().parse(b'{"a"\n\xff\xfe\n' + b"[" * 100_000 + b"\n\n" + json.dumps(CADDY).encode() + b"\r\n")
    assert (len(found.ts), found.unreadable) == (1, 3)
    assert all("expected a line of JSON" in each.reason for each in found.reported)
    assert [each.offset for each in found.reported] == [0, 5, 8]
    with pytest.raises(ValueError, match="expected a unit of s, ms, us, ns"):
        JsonParser(JsonFields("a", "b", "c", "minutes"))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda each: st.lists(each, max_size=3) | st.dictionaries(st.text(max_size=5), each, max_size=3),
)


@given(st.dictionaries(st.sampled_from(["ts", "duration", "status", "start_time", "response_code", "msec"]), JSON))
def test_no_object_raises_or_is_lost(line: dict[str, object]) -> None:
    found = JsonParser().parse(json.dumps(line).encode() + b"\n")
    assert len(found.ts) + found.unreadable == 1
    assert (found.duration_s >= 0).all() or math.isnan(found.duration_s[0])
    assert (found.ts > 0).all()
