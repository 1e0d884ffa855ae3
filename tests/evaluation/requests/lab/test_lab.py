"""The lab of requests: what counts as troubled, what is made of it, and that all of it works with real servers."""

from __future__ import annotations

import os
import re
import struct
import tempfile
from pathlib import Path
from typing import Final

import pytest

from laggard.pipeline.core.records import Request, Spent
from laggard.producers.trace.ftrace.tracefs import TRACEFS
from tests.evaluation.requests.lab.injecting import Window
from tests.evaluation.requests.lab.judging import judged, run, table
from tests.evaluation.requests.lab.names import answer
from tests.evaluation.requests.lab.recording import Known, analyse, matched, read, record
from tests.evaluation.requests.lab.servers import need
from tests.evaluation.requests.lab.troubles import TROUBLES
from tests.evaluation.requests.lab.truth import Answer, lost, read_answers, verdict

LOCK: Final = TROUBLES["lock"]
PORTS: Final = {"mariadb": 3306, "recommender": 8000}


def page(begin: float, took_s: float, *, cache_s: float = 0.0, path: str = "/index.php?page=home&number=3") -> Answer:
    return Answer(path, 812, begin, begin + took_s, {"cache": cache_s, "query": took_s - cache_s})


def test_a_request_is_troubled_where_its_own_account_and_the_time_say_so() -> None:
    answers = [
        *(page(at, 0.01, cache_s=0.001) for at in range(10)),
        page(20.0, 0.1, cache_s=0.091),  # while the lock was held
        page(30.0, 0.1, cache_s=0.091),  # while it was not
        page(40.0, 0.1),  # while it was, but it waited for something else
        page(50.0, 0.02, cache_s=0.011),
    ]
    windows = [Window(at + 0.01, at + 0.08) for at in (20.0, 40.0, 50.0)]
    found = lost(answers, LOCK, windows)
    assert found == pytest.approx([0.0] * 10 + [0.09, 0.0, 0.0, 0.01])
    assert [verdict(each) for each in found[10:]] == ["troubled", "clear", "clear", "unclear"]


def test_what_is_usual_is_so_for_a_kind_of_page() -> None:
    slow = "/index.php?page=search&number=7"
    answers = [page(at, 0.1, cache_s=0.09, path=slow) for at in range(5)] + [page(9, 0.1, cache_s=0.09)]
    answers += [page(at, 0.01) for at in range(20, 25)]
    assert {each.page for each in answers} == {"search", "home"}
    assert page(0, 1, path="/article-12/").page == page(0, 1, path="/article-7/").page != page(0, 1, path="/").page
    assert page(0, 1, path="/?s=word3").page == page(0, 1, path="/?s=word4").page != page(0, 1, path="/").page
    assert lost(answers, LOCK, [Window(0.0, 30.0)]) == pytest.approx([0.0] * 5 + [0.09] + [0.0] * 5)


def test_where_it_can_be_anywhere_no_more_is_lost_than_the_time_in_common() -> None:
    answers = [*(page(at, 0.01) for at in range(5)), page(20.0, 0.2)]
    assert lost(answers, TROUBLES["cpu"], [Window(19.9, 20.05), Window(20.1, 20.12)])[-1] == pytest.approx(0.07)


def test_an_answer_that_is_no_page_ends_it() -> None:
    line = '{"ts": 1, "path": "/", "status": 200, "thread": 7, "begin": 1, "end": 2, "phases": {}}'
    assert read_answers([line]) == [Answer("/", 7, 1, 2, {})]
    with pytest.raises(ValueError, match="expected pages only"):
        read_answers(['{"ts": 1, "path": "/", "status": 502}'])


def traced(ts: float, duration_s: float, thread: str, spent: tuple[Spent, ...] = ()) -> Request:
    waited_s = sum(each.time_s for each in spent)
    times_s = {"RU": duration_s - waited_s, "BT": waited_s}
    counts = {state: 1.0 for state, time_s in times_s.items() if time_s}
    calls = ("read", *(each.syscall for each in spent))
    return Request("blog", ts, f"r{ts}", duration_s, counts, times_s, calls, spent=spent, threads=(thread,))


def test_a_request_is_the_answer_of_its_thread_and_time() -> None:
    answers = [page(1.0, 0.01), page(2.0, 0.01), page(3.0, 0.01)]
    requests = [
        traced(1.999, 0.02, "php-fpm8.2[812]"),
        traced(1.999, 0.02, "php-fpm8.2[813]"),
        traced(0.999, 0.02, "gunicorn[800:812]"),
        traced(2.5, 0.02, "php-fpm8.2[812]"),
    ]
    assert matched(requests, answers) == [1, None, 0, None]


def waits(ts: float, duration_s: float, by: str) -> Known:
    held = Spent("BT", "flock", "/srv/cache/sidebar", by, 900, "", 1, duration_s - 0.01)
    return Known(traced(ts, duration_s, "php[812]", (held,)), "home", duration_s - 0.01, "troubled")


def normal(ts: float, duration_s: float = 0.01) -> Known:
    return Known(traced(ts, duration_s + 0.0001 * (ts % 7), "php[812]"), "home", 0.0, "clear")


def test_what_is_found_is_counted() -> None:
    known = [normal(at) for at in range(600)]
    known += [normal(600 + at) if at % 20 else waits(600 + at, 0.08 + 0.001 * at / 20, "worker") for at in range(400)]
    known.append(normal(1000, 0.09))
    outcome = judged(known, LOCK, PORTS)
    assert (outcome.troubled, outcome.clear) == (20, 981)
    assert (outcome.found, outcome.slow, outcome.false) == (20, 1, 0)
    assert (outcome.together, outcome.others, outcome.named) == (20, 0, 20)
    assert outcome.right, outcome.sentence
    assert "| 20, 1, 0 | 0.95 (20/21) | 1.00 (20/20) |" in table([outcome])
    other = [waits(each.request.ts, each.request.duration_s, "backup") if each.lost_s else each for each in known]
    assert not judged(other, LOCK, PORTS).right, "the sentence has to say who held it"


def test_a_sentence_has_to_say_all_of_it() -> None:
    refused = TROUBLES["refused"]
    told = "repeats connect() to 127.0.0.1:8000 that is refused, 57 times a request"
    assert refused.named(told, PORTS)
    assert not refused.named(told, {**PORTS, "recommender": 8001})
    assert not refused.named("sleeps (`clock_nanosleep`): 38.9 ms of 61.4 ms", PORTS)


def test_a_sentence_has_to_say_nothing_that_is_wrong() -> None:
    query, opcache = TROUBLES["wordpress-query"], TROUBLES["wordpress-opcache"]
    answer = "waits for the answer of `mariadbd` (pid 7): 300 ms, in which `mariadbd`"
    assert query.named(f"{answer} computes in user mode, for 280 ms", PORTS)
    assert not query.named(f"{answer} waits for another thread (`futex`), for 280 ms", PORTS)
    assert opcache.named("computes in user mode: 2 s of 3 s; and is off the CPU: 1 s of 3 s", PORTS)
    assert not opcache.named("is off the CPU: 2 s of 3 s; and computes in user mode: 1 s of 3 s", PORTS)


@pytest.mark.parametrize(
    ("name", "kind", "code", "answers"),
    [(b"prices.shop.test", 1, 0, 1), (b"other.shop.test", 1, 3, 0), (b"prices.shop.test", 28, 3, 0)],
)
def test_the_name_server_knows_one_name(name: bytes, kind: int, code: int, answers: int) -> None:
    labels = b"".join(bytes([len(label)]) + label for label in name.split(b".")) + b"\0"
    question = struct.pack(">6H", 0x1234, 0x0100, 1, 0, 0, 0) + labels + struct.pack(">2H", kind, 1)
    said = answer(question, "prices.shop.test")
    number, flags, questions, found, _, _ = struct.unpack(">6H", said[:12])
    assert (number, flags & 0xF, questions, found) == (0x1234, code, 1, answers)
    assert said[12:].startswith(labels)
    assert said.endswith(b"\x7f\0\0\1") == bool(answers)


def test_a_recording_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="lock-1: expected a recording"):
        run(tmp_path, ["lock"], [1])


@pytest.fixture
def able() -> None:
    """Skips where the kernel cannot be traced, or the servers are not there."""
    if os.geteuid() != 0 or not (TRACEFS / "instances").is_dir():
        pytest.skip(f"tracing needs root, and tracefs at {TRACEFS}")
    need()


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("able")
def test_real_requests_are_traced_and_their_trouble_is_told() -> None:
    name = "lock"
    with tempfile.TemporaryDirectory(prefix="laggard-lab-") as base:
        folder = Path(base, f"{name}-1")
        record(TROUBLES[name], folder, 25.0, seed=1)
        analyse(folder)
        known = read(folder)
        with (folder / "answers.jsonl").open() as file:
            answers = read_answers(file)
        shown = run(Path(base), [name], [1])
    assert len(known) > 400
    # Not all requests that are traced: probes in PHP report whoever runs it.
    answered = sum(each.begin >= known[0].request.ts for each in answers)
    assert 0.95 * answered < len(known) <= len(answers), "what was answered is traced"
    for each in known:
        nanoseconds = [round(time_s * 1e9) for time_s in each.request.times_s.values()]
        assert sum(nanoseconds) == round(each.request.duration_s * 1e9)
        assert sum(round(time_s * 1e9) for time_s in each.request.critical_s.values()) == sum(nanoseconds)
    assert sum(each.verdict == "troubled" for each in known) >= 5
    (row,) = [line for line in shown.splitlines() if TROUBLES[name].title in line]
    assert re.search(r"\| yes \|$", row), row
