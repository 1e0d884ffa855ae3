"""`laggard requests`: what a person and a program read of requests, of a bus and of files."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

from laggard.pipeline.cli.exits import NO_DATA, USAGE
from laggard.pipeline.core.bus import Outgoing
from laggard.pipeline.core.bus.embedded import EmbeddedBus
from laggard.pipeline.core.bus.kafka.bus import KafkaBus
from laggard.pipeline.core.bus.kafka.options import KafkaOptions
from laggard.pipeline.core.records import Request, encode, read_line, write_line
from laggard.pipeline.core.records.outputs import read_output, write_output
from laggard.pipeline.core.topics import ANOMALIES, REQUESTS, Topics
from laggard.pipeline.methods.requests import stored
from tests.pipeline.methods.requests.paths import FIGURE_2
from tests.pipeline.methods.requests.told import LOCKED, normal, outlying

if TYPE_CHECKING:
    from pathlib import Path

    from tests.brokers import Cluster
    from tests.pipeline.conftest import Called

TOPICS = Topics()
AGO_S = 1800.0


@pytest.fixture
def call(nowhere: Path, laggard: Called, monkeypatch: pytest.MonkeyPatch) -> Called:
    """Runs `laggard requests` on a bus in this folder."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()

    def call(*arguments: str) -> tuple[int, str, str]:
        elsewhere = "--file" in arguments or any(each.startswith("bus.location=") for each in arguments)
        return laggard("requests", *arguments, *([] if elsewhere else ["--bus", str(nowhere / "laggard.db")]))

    return call


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """What was recorded of two services, and what was said of one."""
    requests = chain(normal(), normal("shop", 30), (request for request, _ in outlying()))
    recorded, told = tmp_path / "recorded.jsonl", tmp_path / "told.jsonl"
    recorded.write_text("".join(f"{write_line(each)}\n" for each in requests))
    told.write_text("".join(f"{write_output(output)}\n" for _, output in outlying()))
    return ["--file", str(recorded), "--file", str(told)]


@pytest.fixture
def here(tmp_path: Path, call: Called) -> Called:
    """On a bus to which requests came for some minutes half an hour ago, and what was said of them."""
    begin = time.time() - AGO_S
    with EmbeddedBus(tmp_path / "laggard.db") as bus:
        bus.create(TOPICS.specs())
        for request in chain(normal(begin=begin), normal("shop", 30, begin=begin)):
            bus.append([Outgoing(TOPICS.name(REQUESTS), request.service, encode(request), request.ts)])
        for request, output in outlying(begin=begin):
            bus.append([Outgoing(TOPICS.name(REQUESTS), request.service, encode(request), request.ts)])
            value = write_output(output).encode()
            bus.append([Outgoing(TOPICS.name(ANOMALIES), request.service, value, request.ts)])
    return call


# How services do.


def test_durations_and_clusters_of_files(call: Called, files: list[str]) -> None:
    code, out, err = call(*files)
    assert (code, err) == (0, "")
    assert out == (
        "wordpress: 211 requests, 2023-11-14 22:13:20 to 22:16:39\n"
        "\n"
        "            requests  median    95 %  longest\n"
        "  normal         200  124 ms  147 ms   149 ms\n"
        "  outlying        11  122 ms  122 ms   122 ms\n"
        "\n"
        "    10  flock x.lock, since 2023-11-14 22:13:40, newest 22:15:10; median 122 ms\n"
        f"        {LOCKED}\n"
        "        for example slow-9\n"
        "\n"
        "     1  in no cluster yet, at 2023-11-14 22:15:20; median 30 ms, odd rather than slow\n"
        "        repeats `stat`, 512 times a request, usually 3\n"
        "        for example slow-10\n"
        "\n"
        "shop: 30 requests, 2023-11-14 22:13:20 to 22:13:49\n"
        "\n"
        "            requests  median    95 %  longest\n"
        "  normal          30  114 ms  128 ms   129 ms\n"
        "  outlying         0       -       -        -\n"
        "\n"
        f"Next: `laggard requests path slow-9 {' '.join(files)}` draws where the time of one went\n"
    )


def test_of_the_bus(here: Called) -> None:
    code, out, _ = here("wordpress")
    assert code == 0
    assert "wordpress: 211 requests, " in out
    assert " min), newest " in out
    assert "shop" not in out
    code, out, _ = here("shop")
    assert code == 0
    assert out.endswith("No outlying requests.\n")


def test_of_many_clusters_the_largest_are_shown(call: Called, tmp_path: Path) -> None:
    path = tmp_path / "told.jsonl"
    outputs = [output for _, output in outlying()]
    of_two = [replace(each, cluster=f"two {number // 2}") for number, each in enumerate(outputs[:8])]
    alone = [replace(outputs[0], request=f"alone-{number}", cluster=f"one {number}") for number in range(9)]
    path.write_text("".join(f"{write_output(each)}\n" for each in (*of_two, *alone)))
    code, out, _ = call("--file", str(path))
    assert code == 0
    assert re.findall(r"^ +\d+  (\w+ \d),", out, re.MULTILINE) == ["two 0", "two 1", "two 2", "two 3", "one 0"]
    assert "        and 8 clusters more\n" in out
    code, out, _ = call("wordpress", "--file", str(path))
    assert re.findall(r"^ +1  (one \d),", out, re.MULTILINE) == [f"one {number}" for number in range(5)]
    assert "        and 4 clusters more of one request each\n" in out


def test_as_json(here: Called) -> None:
    code, out, _ = here("--json")
    assert code == 0
    wordpress, shop = map(json.loads, out.splitlines())
    assert (wordpress["service"], shop["service"]) == ("wordpress", "shop")
    assert wordpress["normal"] == {
        "requests": 200, "median_s": 0.1245, "p95_s": 0.147, "p99_s": 0.149, "longest_s": 0.149, "mean_s": 0.124,
    }  # fmt: skip
    assert wordpress["outlying"]["requests"] == 11
    locked, odd = wordpress["clusters"]
    assert (locked["cluster"], locked["requests"], locked["cause"], locked["odd"]) == ("flock x.lock", 10, LOCKED, 0)
    assert locked["newest_ts"] - locked["begin_ts"] == pytest.approx(90.0)
    assert (odd["cluster"], odd["requests"], odd["example"], odd["odd"]) == ("", 1, "slow-10", 1)
    assert shop["clusters"] == []
    assert shop["outlying"] == {"requests": 0, "median_s": None, "p95_s": None, "p99_s": None, "longest_s": None}


@pytest.mark.parametrize(
    ("arguments", "requests"),
    [(("--since", "29m"), 140 + 5), (("--at", "-29m", "--since", "10m"), 61 + 5), (("--since", "1d"), 200 + 11)],
)
def test_of_a_stretch_of_time(here: Called, arguments: tuple[str, ...], requests: int) -> None:
    code, out, _ = here("wordpress", "--json", *arguments)
    assert code == 0
    found = json.loads(out)
    assert found["normal"]["requests"] + found["outlying"]["requests"] == pytest.approx(requests, abs=3)


def test_a_busy_service_pushes_out_what_was_normal_of_another(
    here: Called, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored, "MOST_REQUESTS", 50)
    with EmbeddedBus(tmp_path / "laggard.db") as bus:
        for request in normal("api", 60, begin=time.time() - AGO_S + 200):
            bus.append([Outgoing(TOPICS.name(REQUESTS), request.service, encode(request), request.ts)])
    code, out, _ = here("--json")
    assert code == 0
    found = [(each["service"], each["normal"]["requests"], each["cut"]) for each in map(json.loads, out.splitlines())]
    assert found == [("wordpress", 0, True), ("api", 50, True)]
    assert "There were more normal ones; the newest are counted." in here("api")[1]


def test_missing_events_are_said_in_each_answer_that_they_touch(here: Called, tmp_path: Path) -> None:
    """Slow requests are most often missing, so the figures look better than the service is."""
    with EmbeddedBus(tmp_path / "laggard.db") as bus:
        for each in normal("api", 60, begin=time.time() - AGO_S):
            told = replace(each, missing_ratio=0.21 if each.request.endswith("7") else 0.004)
            bus.append([Outgoing(TOPICS.name(REQUESTS), each.service, encode(told), each.ts)])
    missed = "The tracer missed kernel events in {}21 % of a minute, and with them the requests at these times."
    assert missed.format("up to ") in here("api")[1]
    assert json.loads(here("api", "--json")[1])["missing_ratio"] == 0.21
    assert "missed" not in here("shop")[1]
    assert json.loads(here("shop", "--json")[1])["missing_ratio"] == 0.0
    requests = [each.request for each in normal("api", 60)]
    late, soon = (next(each for each in requests if each.endswith(number)) for number in ("7", "8"))
    assert missed.format("") in " ".join(here("path", late, "--service", "api")[1].split())
    assert "missed" not in here("path", soon, "--service", "api")[1]


def test_of_recorded_requests_or_of_what_was_told_alone_less_is_known(call: Called, files: list[str]) -> None:
    code, out, _ = call(*files[:2])
    assert code == 0
    assert out.endswith("`laggard replay FILE --json` looks for some\n")
    code, out, _ = call(*files[2:])
    assert code == 0
    assert "  normal           -  mean 124 ms       -        -\n" in out


# One request.


def test_the_path_of_one(here: Called) -> None:
    code, out, err = here("path", "r1")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith("GET /cart (r1) of wordpress at ")
    assert lines[0].endswith(" on web-1: 122 ms")
    assert lines[1] == f"It is outlying, score 4.20, as others of the cluster flock x.lock: {LOCKED}"
    assert lines[3].startswith("apache2[801]  ")
    assert "As apache2[801] itself saw it:" in lines
    assert "     106 ms    1 time  waits for a task, in poll on 127.0.0.1:9000, by php-fpm[812]"[1:] in lines
    assert "      4 ms  57 times  kernel, in connect on 127.0.0.1:11211, which returns ECONNREFUSED" in lines
    assert "Note: the path leaves mysqld[99] without a waker that is known" in lines
    assert lines[-1].startswith("Next: `laggard requests path r1 --svg path.svg ")


def test_an_id_prefix_is_enough_unless_requests_or_services_share_it(here: Called) -> None:
    code, out, _ = here("path", "slow-3")
    assert code == 0
    assert "(slow-3)" in out
    code, _, err = here("path", "slow")
    assert code == NO_DATA
    assert "10 requests have an id that begins with slow: " in err
    assert err.endswith(", ...; expected a longer part of the id\n")
    code, _, err = here("path", "n-7")
    assert code == NO_DATA
    assert "(shop, 107 ms)" in err
    assert err.endswith("; --service chooses one\n")
    code, out, _ = here("path", "n-7", "--service", "shop")
    assert code == 0
    assert out.startswith("n-7 of shop at ")
    assert "Its critical path is unknown. Its time in each state:\n  RU  user mode    107 ms   100 %\n" in out


def test_what_is_forgotten_but_was_told(tmp_path: Path, call: Called) -> None:
    request, output = next(outlying(begin=time.time() - AGO_S))
    with EmbeddedBus(tmp_path / "laggard.db") as bus:
        bus.create(TOPICS.specs())
        value = write_output(output).encode()
        bus.append([Outgoing(TOPICS.name(ANOMALIES), request.service, value, request.ts)])
    code, out, _ = call("path", "r1")
    assert code == 0
    assert "mysqld[99]  " in out
    assert "What took longest:" not in out  # only the request itself says that
    code, out, _ = call()
    assert code == 0
    assert "  normal           -  mean 124 ms" in out


def test_one_as_json(here: Called) -> None:
    code, out, _ = here("path", "r1", "--json")
    assert code == 0
    request, output = out.splitlines()
    read = read_line(request, "test")
    assert isinstance(read, Request)
    assert (read.path, read.spent) == (FIGURE_2.path, FIGURE_2.spent)
    assert getattr(read_output(output, "test"), "cause", "") == LOCKED


def test_a_picture(here: Called, tmp_path: Path) -> None:
    code, out, err = here("path", "r1", "--svg", str(tmp_path / "path.svg"))
    assert (code, err) == (0, f"Wrote {tmp_path / 'path.svg'}\n")
    assert "mysqld[99]" in out
    code, out, err = here("path", "r1", "--svg", "-")
    assert (code, err) == (0, "")
    assert out == (tmp_path / "path.svg").read_text()
    assert ET.fromstring(out).tag == "{http://www.w3.org/2000/svg}svg"


@pytest.mark.slow
def test_on_kafka(call: Called, broker: Cluster) -> None:
    topics, begin = Topics("requests-command."), time.time() - AGO_S
    location = f"kafka://{broker.bootstrap}"
    with KafkaBus(KafkaOptions((broker.bootstrap,))) as bus:
        bus.create(topics.specs(partitions=3))
        for service in ("wordpress", "shop"):
            records = [(request, encode(request), REQUESTS) for request in normal(service, 40, begin=begin)]
            for request, output in outlying(service, begin=begin):
                records.append((request, encode(request), REQUESTS))
                records.append((request, write_output(output).encode(), ANOMALIES))
            bus.append([Outgoing(topics.name(topic), service, value, each.ts) for each, value, topic in records])
    where = ("--set", f"bus.location={location}", "--set", f"topics.prefix={topics.prefix}")
    code, out, err = call(*where, "--json")
    assert (code, err) == (0, "")
    found = [json.loads(line) for line in out.splitlines()]
    assert [each["service"] for each in found] == ["shop", "wordpress"]
    assert {each["normal"]["requests"] for each in found} == {40}
    assert {each["outlying"]["requests"] for each in found} == {11}
    code, _, err = call("path", "r1", *where)
    assert (code, err.endswith("; --service chooses one\n")) == (NO_DATA, True)
    code, out, _ = call("path", "r1", "--service", "shop", *where)
    assert code == 0
    assert out.startswith("GET /cart (r1) of shop at ")
    assert call("nobody", *where)[2] == "laggard: there are no records of service nobody; recorded: shop, wordpress\n"


# What goes wrong.


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("path", "r1", "--svg", "-", "--json"), USAGE, "only one of --json and --svg can go to standard output"),
        (("path", "r1", "--svg", "none/x.svg"), USAGE, "none/x.svg: there is no such folder"),
        (
            ("path", "n-3", "--service", "shop", "--svg", "x.svg"),
            NO_DATA,
            "cannot draw n-3: its critical",
        ),
        (
            ("path", "slow-99"),
            NO_DATA,
            "no request with the id slow-99 is recorded; similar: slow-9 (wordpress GET /",
        ),
        (
            ("path", "\x1b"),
            NO_DATA,
            "no request with the id \\x1b is recorded; the newest: n-199 (wordpress, 149 ms)",
        ),
        (("path", "r1", "--service", "shop"), NO_DATA, "no request of shop with the id r1 is recorded; the newest:"),
        (("path", "r1", "--service", "shup"), NO_DATA, "there are no records of service shup; similar: shop"),
        (("wordpres",), NO_DATA, "there are no records of service wordpres; similar: wordpress"),
        (("xyz",), NO_DATA, "there are no records of service xyz; recorded: shop, wordpress"),
        (("--since", "1m"), NO_DATA, "no request is recorded within 60 s; the newest one began at "),
        (("shop", "--at", "-2h"), NO_DATA, "no request of shop is recorded within 60 min before -2h; the newest one"),
        (("--at", "2100-01-01"), USAGE, "--at 2100-01-01 is in the future"),
        (("--since", "soon"), USAGE, "'soon'; expected a duration such as"),
        (("--file", "none.jsonl"), NO_DATA, "none.jsonl: No such file or directory"),
    ],
)
def test_what_cannot_be_told(here: Called, arguments: tuple[str, ...], code: int, said: str) -> None:
    ended, out, err = here(*arguments)
    assert (ended, out) == (code, "")
    assert said in err
    assert "Traceback" not in err


def test_files_that_hold_no_request(call: Called, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"ts": 1, "host": "web-1", "mark": "slow"}\n\n')
    assert call("--file", str(path)) == (NO_DATA, "", f"laggard: {path}: there is no request in it\n")
    assert call("path", "r1", "--file", str(path)) == (NO_DATA, "", f"laggard: {path}: there is no request in it\n")
    path.write_text("{}\n")
    code, _, err = call("--file", str(path))
    assert code == USAGE
    assert f"{path}:1: " in err
    assert err.endswith("; expected requests as JSON lines, or what `laggard replay --json` prints\n")


@pytest.mark.parametrize("arguments", [(), ("path", "r1")])
def test_where_nothing_is_recorded(call: Called, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    for _ in ("no bus", "no requests on it"):
        code, out, err = call(*arguments)
        assert (code, out) == (NO_DATA, "")
        assert err.startswith("laggard: no request is recorded; `laggard trace start --php ")
        with EmbeddedBus(tmp_path / "laggard.db") as bus:
            bus.create(TOPICS.specs())
