"""Critical paths as they are told."""

from __future__ import annotations

import random
from itertools import pairwise

from laggard.pipeline.core.records.limits import MAX_SEGMENTS
from laggard.producers.trace.analysis import Analysis
from tests.producers.trace.rows import nanoseconds
from tests.producers.trace.simulated import Kernel, Run, Stage, Wait, WaitFor


def test_a_long_path_keeps_its_longest_pieces_and_has_no_gaps() -> None:
    draw = random.Random(1)
    steps: list[Run | Kernel | Wait] = []
    for number in range(500):
        steps += [Run(draw.randint(1, 400)), Kernel(draw.randint(1, 400))]
        if number % 25 == 12:
            steps.append(Wait("disk", 100_000, 10_000))
    stage = Stage()
    stage.request(stage.actor("worker"), 2_000_000, steps)
    analysis = Analysis()
    [request] = [*analysis.feed(next(stage.batches())), *analysis.finish()]
    path = request.path
    assert MAX_SEGMENTS // 2 < len(path) <= MAX_SEGMENTS
    assert (path[0].begin_s, path[-1].end_s) == (0.0, request.duration_s)
    assert all(one.end_s == two.begin_s for one, two in pairwise(path))
    waits = [round((each.end_s - each.begin_s) * 1e9) for each in path if each.state == "BD"]
    assert waits == [100_000] * 20
    assert {each.detail for each in path if each.state == "BD"} == {"pread64 vda"}
    assert all(each.end_s - each.begin_s < 0.0001 for each in path if each.state in {"RU", "RS"})


def test_what_is_merged_stands_for_what_most_of_it_is() -> None:
    # Between two waits there are 300 pieces, most of their time in the kernel.
    steps: list[Run | Kernel | Wait] = [Wait("timer", 90_000, 1_000)]
    for _ in range(150):
        steps += [Run(10), Kernel(30, "getdents64")]
    steps.append(Wait("timer", 90_000, 1_000))
    stage = Stage()
    stage.request(stage.actor("worker"), 2_000_000, steps)
    analysis = Analysis()
    [request] = [*analysis.feed(next(stage.batches())), *analysis.finish()]
    assert [(each.state, each.detail) for each in request.path] == [
        ("BS", "clock_nanosleep"),
        ("BP", ""),
        ("RS", "getdents64"),
        ("BS", "clock_nanosleep"),
        ("BP", ""),
    ]
    # The states themselves are not merged.
    assert nanoseconds(request.critical_s)["RU"] == 1_500


def test_threads_are_named_with_their_numbers_the_requests_own_first() -> None:
    stage = Stage()
    stage.request(stage.actor("php-fpm"), 2_000_000, [Run(5), WaitFor((Run(100),), 5, 5)])
    analysis = Analysis(host="web-1")
    [request] = [*analysis.feed(next(stage.batches())), *analysis.finish()]
    assert request.threads == ("php-fpm[101]", "helper-2[102]")
    assert [(each.thread, each.state) for each in request.path] == [(0, "RU"), (1, "RU"), (1, "RS"), (0, "BP")]
    assert request.host == "web-1"
