"""Lines of JSON: the five forms, what is written comes back, and any text gives a record or one clear error."""

from __future__ import annotations

import json
import math
import re
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laggard.pipeline.core.records import (
    UNNUMBERED,
    Case,
    Feedback,
    Frame,
    Mark,
    Received,
    RecordError,
    Request,
    Segment,
    Spent,
    Wish,
    make_layout,
    name_of,
    read_line,
    write_line,
)
from tests.pipeline.core.records.conftest import JUNK, RECORDS
from tests.pipeline.core.records.test_hostile import LINES, read_or_refuse

if TYPE_CHECKING:
    from collections.abc import Callable

    Parts = Callable[[Received], list[Any]]

PLACE = "day.jsonl:17"


def read(line: str | bytes) -> Any:
    return read_line(line, PLACE)


# The five forms.


def test_frame_of_a_host() -> None:
    frame = read(
        '{"ts": 1700000000.0, "host": "web-1", "scope": "thread", "sequence": 3, '
        '"rows": {"nginx": {"cpu_user_ratio": 0.12, "io_read_bytes_per_s": 4096}, "[kthreadd]": {"cpu_user_ratio": 0}}}'
    )
    assert (frame.keyed_by, frame.key, frame.scope, frame.ts, frame.sequence) == ("host", "web-1", "thread", 1.7e9, 3)
    assert frame.layout.rows == frame.layout.names == ("nginx", "[kthreadd]")
    assert frame.layout.features == ("cpu_user_ratio", "io_read_bytes_per_s")
    assert frame.layout.commands == frame.hosts == ()
    np.testing.assert_array_equal(frame.values, [[0.12, 4096.0], [0.0, math.nan]])
    assert not frame.values.flags.writeable


def test_frame_of_an_application() -> None:
    line = '{"ts": 1, "application": "shop", "performance": {"response_time_p95_s": 0.21, "throughput_per_s": 840}'
    frame = read(line + "}")
    assert (frame.keyed_by, frame.key, frame.scope, frame.hosts) == ("application", "shop", "performance", ())
    assert frame.layout.rows == frame.layout.names == ("shop",)
    assert frame.values.tolist() == [[0.21, 840.0]]
    assert read(line + ', "hosts": ["web-1", "db-1"]}').hosts == ("web-1", "db-1")


def test_frame_of_a_pool() -> None:
    frame = read('{"ts": 1, "pool": "workers", "rows": {"worker-1": {"cpu_ratio": 0.4, "memory_rss_bytes": 1.2e8}}}')
    assert (frame.keyed_by, frame.key, frame.scope, frame.sequence) == ("pool", "workers", "member", UNNUMBERED)
    assert (frame.values.tolist(), frame.hosts) == ([[0.4, 1.2e8]], ())
    assert read('{"ts": 1, "pool": "workers", "hosts": ["web-1"], "rows": {}}').hosts == ("web-1",)


def test_a_frame_of_a_service_is_counted_inside_and_no_line() -> None:
    frame = Frame("service", "shop", "request", 1.0, 7, make_layout([], [], []), np.zeros((0, 0)))
    with pytest.raises(RecordError, match=r"'keyed_by': expected one of 'host', 'application', 'pool', got 'service'"):
        write_line(frame)


@pytest.mark.parametrize(
    ("line", "record"),
    [
        (
            '{"ts": 1700000007.5, "host": "web-1", "mark": "checkout hangs"}',
            Mark("web-1", 1700000007.5, "checkout hangs"),
        ),
        (
            '{"ts": 1, "application": "shop", "wish": "ban", "metric": "web-1/nginx:cpu_wait_ratio", "sequence": 3}',
            Wish("shop", 1.0, "web-1/nginx:cpu_wait_ratio", "ban", 3),
        ),
        (
            '{"ts": 1, "pool": "workers", "feedback": "usual", "id": "5f0c", "cases": [{"name": "worker-1"}]}',
            Feedback("pool", "workers", 1.0, "5f0c", "usual", (Case("worker-1"),)),
        ),
        (
            '{"ts": 1, "service": "wordpress", "request": "r1", "duration_s": 0.122}',
            Request("wordpress", 1.0, "r1", 0.122),
        ),
        (
            ('{"ts": 1, "service": "wordpress", "request": "r1", "duration_s": 0.122, "counts": {"RS": 200}, '
            '"times_s": {"RS": 0.02}, "syscalls": ["open", "read"], "sequence": 5}'),
            Request("wordpress", 1.0, "r1", 0.122, {"RS": 200.0}, {"RS": 0.02}, ("open", "read"), sequence=5),
        ),
        (
            ('{"ts": 1, "service": "shop", "request": "r1", "duration_s": 0.5, "host": "web-1", "name": "GET /cart", '
            '"critical_s": {"RU": 0.5}, "spent": [{"state": "BN", "syscall": "connect", "on": "127.0.0.1:3306", '
            '"result": "ECONNREFUSED", "times": 57, "time_s": 0.02}, {"state": "BF", "by": "worker", '
            '"pid": 812, "time_s": 0.01}], "threads": ["php-fpm[7]"], "path": [[0, 0, 0.5, "RU", ""]], '
            '"notes": ["clocks differ"]}'),
            Request(
                "shop", 1.0, "r1", 0.5, host="web-1", name="GET /cart", critical_s={"RU": 0.5},
                spent=(
                    Spent("BN", "connect", "127.0.0.1:3306", "", 0, "ECONNREFUSED", 57, 0.02),
                    Spent("BF", "", "", "worker", 812, "", 1, 0.01),
                ),
                threads=("php-fpm[7]",), path=(Segment(0, 0.0, 0.5, "RU", ""),), notes=("clocks differ",),
            ),
        ),
    ],
    ids=["a mark", "a wish", "feedback", "a request",
         "a request with what it did", "a request with all that is known of it"],
)  # fmt: skip
def test_a_line_is(line: str, record: Received) -> None:
    assert read(line) == record


@pytest.mark.parametrize(
    ("spent", "told"),
    [
        ('[["BN", 1]]', "field 'spent[0]': expected an object, got list of length 2"),
        ('[{"state": "BN", "time": 1}]', "field 'spent[0]': expected only the fields state, syscall, on, by, pid"),
        ('[{"time_s": 1}]', "field 'spent.state[0]': expected text of 1 to 1,024 characters"),
        ('[{"state": "BN"}]', "field 'spent.time_s[0]': expected a finite number of at least 0, got nothing"),
        ('{"BN": 1}', "field 'spent': expected a list of at most 64"),
    ],
)
def test_what_the_time_was_spent_on_is_objects(spent: str, told: str) -> None:
    with pytest.raises(RecordError, match=re.escape(told)):
        read(f'{{"ts": 1, "service": "shop", "request": "r1", "duration_s": 0.5, "spent": {spent}}}')


# Features, names, numbers.


@pytest.mark.parametrize(
    ("rows", "features", "values"),
    [
        (
            '{"a": {"x": 1}, "b": {"y": 2, "x": 3}, "c": {}, "d": {"z": null}}',
            ("x", "y", "z"),
            [[1, math.nan, math.nan], [3, 2, math.nan], [math.nan] * 3, [math.nan] * 3],
        ),
        ('{"a": {"x": 1, "y": 2}, "b": {"y": 20, "x": 10}}', ("x", "y"), [[1, 2], [10, 20]]),
    ],
    ids=["some of them", "all in another order"],
)
def test_features_that_differ_by_row_are_joined_in_the_order_they_come(
    rows: str, features: tuple[str, ...], values: list[list[float]]
) -> None:
    frame = read(f'{{"ts": 1, "host": "h", "rows": {rows}}}')
    assert frame.layout.features == features
    np.testing.assert_array_equal(frame.values, values)


@pytest.mark.parametrize(
    ("row", "name"),
    [("nginx[4711@99]", "nginx"), ("nginx", "nginx"), ("a[b[c", "a"), ("[kthreadd]", "[kthreadd]"), ("[", "[")],
)
def test_the_name_in_a_row_id(row: str, name: str) -> None:
    assert name_of(row) == name


def test_names_commands_users_and_containers_may_be_told() -> None:
    line = '{"ts": 1, "host": "h", "rows": {"a[1]": {}, "b[2]": {}}, "names": {"b[2]": "c"}'
    frame = read(line + ', "commands": {"a[1]": "/bin/a"}, "users": {"b[2]": "root"}, "containers": {}}')
    assert (frame.layout.users, frame.layout.containers) == (("", "root"), ("", ""))
    assert frame.layout.names == ("a", "c")
    assert frame.layout.commands == ("/bin/a", "")
    assert read('{"ts": 1, "host": "h", "rows": {"a[1]": {}}}').layout.commands == ()


def test_the_same_names_give_the_same_layout() -> None:
    line = '{"ts": %d, "host": "h", "rows": {"a[1]": {"x": %d}}%s}'
    first = read(line % (1, 1, "")).layout
    assert read(line % (2, 2, "")).layout is first
    assert read(line % (2, 2, ', "names": {}')).layout is first
    assert read(line % (2, 2, ', "names": {"a[1]": "b"}')).layout is not first
    assert read(line % (2, 2, ', "commands": {}')).layout is not first
    assert read(line % (2, 2, ', "users": {}')).layout is not read(line % (2, 2, ', "commands": {}')).layout
    assert read((line % (2, 2, "")).replace("x", "y")).layout is not first


def test_several_threads_may_read() -> None:
    wrong: list[object] = []

    def work(worker: int) -> None:
        for number in range(200):
            frame = read(f'{{"ts": {number}, "host": "h", "rows": {{"{worker}-{number % 7}": {{"x": {worker}}}}}}}')
            if frame.layout.rows != (f"{worker}-{number % 7}",) or frame.values[0, 0] != worker:
                wrong.append(frame)

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize(
    ("number", "value"),
    [
        ("null", math.nan), ("-0.0", -0.0), ("1e999", math.inf), ("-1e999", -math.inf), ("0.1e-400", 0.0),
        ("123456789012345678901234567890", 123456789012345678901234567890.0), ("9007199254740993", 9007199254740992.0),
    ],
)  # fmt: skip
def test_numbers(number: str, value: float) -> None:
    frame = read(f'{{"ts": 1, "host": "h", "rows": {{"a": {{"x": {number}}}}}}}')
    assert frame.values.tobytes() == np.array(value).tobytes()


# What is refused, and what is said of it.

FRAME = '{"ts": 1, "host": "h", '
ROW = FRAME + '"rows": {"a": {}}, '
APPLICATION = '{"ts": 1, "application": "a", '
REQUEST = '{"ts": 1, "service": "s", "request": "r", "duration_s": 1, '
WISH = '{"ts": 1, "application": "shop", '
ZEROS = "0" * 400


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("", "expected JSON with a value at character 1, got nothing"),
        ("{'ts': 1}", "expected JSON with a name in double quotes at character 2, got \"'ts': 1}\""),
        ('{"ts": ', "expected JSON with a value at character 8, got its end"),
        ('{"ts" 1}', "expected JSON with a colon at character 7, got '1}'"),
        ('{"ts": 1 "host": "h"}', "expected JSON with a comma or the end of an object or list at character 10, got"),
        ('{"ts": "1', "expected JSON with a text that ends, for the one at character 8, got"),
        ('{"ts": "\\x"}', "expected JSON with an escape that there is at character 9, got"),
        ('{"ts": "\x01"}', "expected JSON with no control character in a text at character 9, got"),
        ("null", "expected a JSON object, got nothing"),
        ("[]", "expected a JSON object, got list of length 0"),
        ('{"ts": 1} x', "expected JSON with nothing more at character 11, got 'x'"),
        (b'{"ts": "\xff"}', "expected UTF-8, got invalid start byte at byte 8"),
        (
            '{"ts": 1}',
            "fields 'host', 'application', 'pool', 'mark', 'request', 'wish' and 'feedback', got none of",
        ),
        ('{"ts": 1, "ts": 2}', "expected strict JSON, got the name 'ts' twice in one object"),
        (FRAME + '"rows": {"a": {"x": 1, "x": 1}}}', "got the name 'x' twice in one object"),
        (FRAME + '"rows": {"a": {}, "b": {}, "a": {}}}', "got the name 'a' twice in one object"),
        (FRAME + '"rows": {"a": {"x": NaN}}}', "expected strict JSON, got NaN"),
        ('{"ts": Infinity, "host": "h", "rows": {}}', "expected strict JSON, got Infinity"),
        ('{"ts": 1e999, "host": "h", "rows": {}}', "field 'ts': expected seconds since the Unix epoch"),
        ('{"ts": 1700000000000, "host": "h", "rows": {}}', "field 'ts': expected seconds since the Unix epoch"),
        ('{"ts": "1", "host": "h", "rows": {}}', "field 'ts': expected seconds...got '1'"),
        ('{"host": "h", "rows": {}}', "field 'ts': expected seconds...from 0 to 253402300799, got nothing"),
        (FRAME + '"sequence": 1.5, "rows": {}}', "field 'sequence': expected an integer"),
        ('{"ts": 1, "host": "h"}', "field 'rows': expected an object of rows, got nothing"),
        (FRAME + '"rows": []}', "field 'rows': expected an object of rows, got list of length 0"),
        (FRAME + '"rows": {"a": 1}}', "field 'rows['a']': expected an object of features and numbers, got 1"),
        (FRAME + '"rows": {"a": {"x": true}}}', "field 'rows['a']['x']': expected a number...or null, got True"),
        (FRAME + '"rows": {"a": {"x": 1, "y": "2"}}}', "field 'rows['a']['y']': ..., got '2'"),
        (FRAME + '"rows": {"a": {"x": 1}, "b": {"y": []}}}', "field 'rows['b']['y']'"),
        (FRAME + f'"rows": {{"a": {{"x": 1{ZEROS}}}}}}}', "field 'rows['a']['x']':...an integer of 1,329 bits"),
        (FRAME + f'"rows": {{"a": {{"x": 1{ZEROS * 20}}}}}}}', "expected JSON, got an integer of thousands of digits"),
        (FRAME + '"rows": {"": {}}}', "field 'rows[0]': expected text of 1 to 1,024 characters"),
        (FRAME + '"rows": {"\\ud800": {}}}', r"field 'rows[0]': ..., got '\ud800'"),
        (FRAME + '"rows": {"a": {"\\u0000": 1}}}', r"field 'features[0]': ..., got '\x00'"),
        (
            FRAME + '"raws": {}}',
            "expected only the fields ts, sequence, host, scope, rows, names, commands, users, containers, got 'raws'",
        ),
        (FRAME + '"pool": "p", "rows": {}}', "expected only the fields ..., got 'host'"),
        (FRAME + '"hosts": [], "rows": {}}', "expected only the fields ..., got 'hosts'"),
        (FRAME + '"key": "h", "rows": {}}', "expected only the fields ..., got 'key'"),
        ('{"ts": 1, "host": "", "rows": {}}', "field 'host': expected text of 1 to 253 characters"),
        ('{"ts": 1, "host": ["h"], "rows": {}}', "field 'host': expected text ..., got list of length 1"),
        (FRAME + '"scope": null, "rows": {}}', "field 'scope': expected text"),
        (ROW + '"names": {"b": "c"}}', "field 'names': expected ids of rows in the same line, got 'b'"),
        (ROW + '"names": {"a": ""}}', "field 'names['a']': expected text of 1 to 1,024"),
        (ROW + '"commands": {"a": 1}}', "field 'commands['a']': expected text of 0 to 4,096"),
        (ROW + '"commands": ["a"]}', "field 'commands': expected an object of row ids and texts"),
        ('{"ts": 1, "performance": {}}', "field 'application': expected text"),
        (APPLICATION + '"performance": 7}', "field 'performance': expected an object of features and numbers, got 7"),
        (APPLICATION + '"performance": {"x": "1"}}', "field 'performance['x']': expected a number"),
        (APPLICATION + '"performance": {}, "hosts": "h"}', "field 'hosts': expected a list"),
        ('{"ts": 1, "mark": "slow"}', "field 'host': expected text"),
        (FRAME + '"mark": null}', "field 'mark': expected text of 0 to 4,096 characters"),
        (
            '{"ts": 1, "service": "s", "request": "r"}',
            "field 'duration_s': expected a finite...at least 0, got nothing",
        ),
        (WISH + '"wish": "drop", "metric": "web-1:x"}', "field 'wish': expected 'pin', 'ban' or 'free', got 'drop'"),
        (
            WISH + '"wish": "ban", "metric": "cpu"}',
            "field 'metric': expected a row and a feature...got 'cpu'",
        ),
        (REQUEST + '"counts": []}', "field 'counts': expected a map of at most 10,000 states to numbers"),
        (REQUEST + '"times_s": {"R": -1}}', "field 'times_s['R']': expected a finite number of at least 0, got -1"),
        (REQUEST + '"syscalls": ["open", 1]}', "field 'syscalls[1]': expected text of 1 to"),
    ],
)
def test_what_is_no_record_is_refused(line: str | bytes, told: str) -> None:
    pattern = ".*".join(re.escape(part) for part in told.split("..."))
    with pytest.raises(RecordError, match=f"^{PLACE}: .*{pattern}"):
        read(line)


# Any record, any text.


@given(record=RECORDS)
def test_what_is_written_comes_back(record: Received, parts: Parts) -> None:
    line = write_line(record)
    assert line.isascii()
    assert "\n" not in line
    again = read(line)
    assert write_line(again) == line
    if isinstance(record, Frame):
        # All NaN are one in JSON, and nothing names the features where there is no row.
        values = np.where(np.isnan(record.values), np.nan, record.values)
        layout = record.layout
        if not layout.rows:
            values, layout = np.empty((0, 0)), make_layout((), (), ())
        record = Frame(
            record.keyed_by, record.key, record.scope, record.ts, record.sequence, layout, values, record.hosts
        )
    assert parts(again) == parts(record)
    assert parts(read(line.encode())) == parts(record)


@given(record=RECORDS)
def test_a_line_is_strict_json(record: Received) -> None:
    def refuse(name: str) -> None:
        raise AssertionError(name)

    json.loads(write_line(record), parse_constant=refuse)


@given(value=JUNK, record=RECORDS, data=st.data())
def test_any_field_may_hold_anything(value: Any, record: Received, data: st.DataObject) -> None:
    fields = json.loads(write_line(record))
    name = data.draw(
        st.sampled_from([*fields, "names", "commands", "users", "hosts", "scope", "sequence", "performance"])
    )
    read_or_refuse(LINES, json.dumps(fields | {name: value}))
    read_or_refuse(LINES, json.dumps(value))
    if isinstance(fields.get("rows"), dict):
        read_or_refuse(LINES, json.dumps(fields | {"rows": {**fields["rows"], "a": value, "b": {"x": value}}}))
