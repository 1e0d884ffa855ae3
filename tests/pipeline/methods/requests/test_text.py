"""The text about outlying requests: about one, and where there are too many."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from laggard.operators.ranking import FeatureScore, RowScore
from laggard.operators.requests.results import Cluster, RequestScore, Use
from laggard.pipeline.core.records import Request, Segment, Spent, read_line
from laggard.pipeline.core.records.requests import REST
from laggard.pipeline.methods.requests.text import blamed, lost_s, rate_sentence, traced
from tests.pipeline.methods.requests.evidence import Spent as Apart
from tests.pipeline.methods.requests.evidence import evidence
from tests.pipeline.methods.requests.stages import LOCK, locked, normal

LOCKED = evidence(600.0, 100.0, Apart(500.0, syscall="fcntl", on=LOCK, by="worker", pid=812), requests=12)


def row(number: str, score: float, ratio: float = 0.04, name: str = "lock x.lock") -> RowScore:
    features = (
        FeatureScore("outlying_ratio", ratio, 0.001, 0.002, score),
        FeatureScore("lost_s_per_request", 1, 0, 0, 0),
    )
    return RowScore(number, name, score, features, 60.0)


def cluster(row: str, example: str = "r7") -> Cluster:
    return Cluster(int(row), 12, 1.0, 2.0, f"{example}-{row}", LOCKED)


def test_a_request_is_what_the_operator_takes_without_what_is_only_the_rest() -> None:
    assert traced(normal(0.0)).uses == [], "normal ones lose nothing"
    request = locked(0.0, spent=(*locked(0.0).spent, Spent(REST, "", "", "", 0, "", 9, 0.1)))
    taken = traced(request)
    assert taken.uses == [Use(("BT", "fcntl", LOCK, "worker", ""), 812, 1, 0.5), Use(("RU", "", "", "", ""), 0, 3, 0.1)]
    assert (taken.ts, taken.request, taken.duration_s) == (request.ts, request.request, 0.6)
    assert (taken.counts, taken.times_s, taken.syscalls) == (request.counts, request.times_s, request.syscalls)


def test_what_other_threads_did_on_the_critical_path_is_theirs_whatever_their_numbers() -> None:
    threads = ("php-fpm[7]", "mariadbd[99:105]", "mariadbd[99:106]", "worker-3[8]")
    path = (
        Segment(0, 0.0, 0.1, "RU", ""),
        Segment(1, 0.1, 0.2, "BF", "futex"),
        Segment(2, 0.2, 0.3, "BF", "futex"),
        Segment(3, 0.3, 0.5, "BP", ""),
        Segment(3, 0.5, 0.6, "RS", "sendto unix:/run/mysqld.sock"),
    )
    assert traced(locked(0.0, threads=threads, path=path)).beyond == {
        ("BF", "futex", "mariadbd"): pytest.approx(0.2),
        ("BP", "", "worker"): pytest.approx(0.2),
        ("RS", "sendto", "worker"): pytest.approx(0.1),
    }


@pytest.mark.parametrize(("usual", "lost"), [({"RU": 0.1, "RS": 0.02}, 0.48), ({}, 0.0), ({"RU": 9.0}, 0.0)])
def test_what_is_lost_is_what_it_took_longer_than_usual(usual: dict[str, float], lost: float) -> None:
    judged = RequestScore(2.0, False, 1, None, usual, 0.025, young=False)
    assert lost_s(locked(0.0), judged) == pytest.approx(lost)


def test_a_sentence_says_how_many_which_and_why() -> None:
    said = rate_sentence(row("3", 2.5), cluster("3"), young=False)
    assert said == (
        "4 % of requests, usually 0.1 %, are outliers like `r7-3` (`lock x.lock`): waits for a lock held by "
        "`worker` (pid 812) (`fcntl` on /srv/x.lock): 500 ms of 600 ms, usually 0."
    )
    said_later = rate_sentence(row("3", 2.5), cluster("3"), young=True, lasted_s=90.0)
    assert said_later == f"{said} It has been so for 90 s. Too few requests were seen to be sure."
    said_partly = rate_sentence(row("3", 2.5), cluster("3"), young=False, missing_ratio=0.21)
    missed = "The tracer missed kernel events in up to 21 % of a minute, and with them the requests at these times."
    assert said_partly == f"{said} {missed}"
    # A forgotten cluster is named.
    assert rate_sentence(row("3", 2.5), None, young=False) == (
        "4 % of requests, usually 0.1 %, are outliers (`lock x.lock`)."
    )
    # Names have no control characters.
    assert rate_sentence(row("3", 2.5, name="a\x1b[1m"), cluster("3", "e\nx"), young=False).isprintable()


def test_the_cluster_is_blamed_with_the_resource_that_it_waits_for() -> None:
    of_disk = evidence(600.0, 100.0, Apart(500.0, state="BD", syscall="read", on="vda"))
    blame = blamed(row("3", 2.5), replace(cluster("3"), evidence=of_disk))
    assert (blame.row, blame.name, blame.feature) == ("3", "lock x.lock", "outlying_ratio")
    assert (blame.value, blame.usual, blame.usual_deviation, blame.resources) == (0.04, 0.001, 0.002, ("disk",))
    assert blamed(row("3", 2.5), cluster("3")).resources == ()
    assert blamed(row("3", 2.5), None).resources == ()
    unknown = replace(LOCKED, times_s={}, usual_s={}, usual_duration_s=math.nan)
    assert blamed(row("3", 2.5), replace(cluster("3"), evidence=unknown)).resources == ()


def test_the_line_in_the_page_is_one_that_is_read() -> None:
    page = (Path(__file__).parents[4] / "deploy/docs/reference/recordings.md").read_text().partition("## Requests\n")[2]
    line = page.split("```\n")[1].replace("\n", "")
    request = read_line(line, "requests.md")
    assert isinstance(request, Request)
    assert sum(request.times_s.values()) == request.duration_s
    assert (request.spent[0].on, request.path[1].detail) == (LOCK, "holds x.lock")
    assert all(f"`{state}`" in page for state in ("RS", "RU", "BD", "BN", "BP", "BT", "BF", "BI", "BS", "UN"))
