"""Requests as they come: which are outliers, which are alike, under which number, and why."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from laggard.operators.requests.detector import Requests
from laggard.operators.requests.results import RequestScore, Traced, Use

if TYPE_CHECKING:
    from collections.abc import Iterator

LOCK = ("BF", "flock", "/var/lib/shop.lock", "worker", "")
REFUSED = ("RS", "connect", "127.0.0.1:3306", "", "ECONNREFUSED")
BACKUP = ("BP", "read", "", "backup", "")
BACKUP_ELSEWHERE = ("BP", "write", "", "backup", "")
CALLS = ("accept", "read", "openat", "fstat", "read", "close", "write", "close")


def _normal(chance: np.random.Generator, number: int) -> Traced:
    user_s, kernel_s = 0.004 * chance.lognormal(0.0, 0.2), 0.002 * chance.lognormal(0.0, 0.2)
    disk_s = 0.003 * chance.lognormal(0.0, 0.5) * (chance.random() < 0.3)
    times = {"RU": user_s, "RS": kernel_s, "BD": disk_s}
    uses = [Use(("BD", "read", "/srv/data", "vda", ""), 0, 1, disk_s)] if disk_s else []
    return _request(number, times, CALLS * int(chance.integers(3, 5)), uses)


def _request(number: int, times: dict[str, float], calls: tuple[str, ...], uses: list[Use]) -> Traced:
    counts = {state: 3.0 for state, time_s in times.items() if time_s}
    return Traced(number * 0.05, f"r{number}", sum(times.values()), counts, times, calls, uses)


def _troubled(chance: np.random.Generator, number: int, what: str) -> Traced:
    normal = _normal(chance, number)
    waited_s = 0.06 * chance.lognormal(0.0, 0.5)
    times, uses, calls = dict(normal.times_s), list(normal.uses), tuple(normal.syscalls)
    match what:
        case "lock":
            times["BF"] = waited_s
            uses.append(Use(LOCK, 812, 1, waited_s))
            calls += ("flock",)
        case "refused":
            times["RS"] += 0.005
            times["BS"] = waited_s
            uses += [Use(REFUSED, 0, 57, 0.005), Use(("BS", "nanosleep", "", "", ""), 0, 56, waited_s)]
            calls += ("socket", "connect", "close", "nanosleep") * 57
        case "stolen":
            times["BP"] = waited_s
            where = BACKUP if chance.random() < 0.5 else BACKUP_ELSEWHERE
            uses.append(Use(where, 99, 4, waited_s))
        case "odd":
            calls += ("newlstat", "readlink") * 40
            times["RS"] += 0.0005
    return _request(number, times, calls, uses)


def _judged(requests: Requests, those: Iterator[Traced] | list[Traced]) -> list[RequestScore]:
    found = []
    for each in those:
        found.append(requests.score(each))
        requests.learn(each, found[-1])
    return found


def _day(chance: np.random.Generator, begin: int, length: int, what: str) -> tuple[list[Traced], list[bool]]:
    """Requests of which one in twenty has that trouble."""
    truth = [number % 20 == 7 for number in range(begin, begin + length)]
    made = [
        _troubled(chance, number, what) if is_troubled else _normal(chance, number)
        for number, is_troubled in enumerate(truth, begin)
    ]
    return made, truth


@pytest.mark.slow
def test_each_trouble_is_found_is_one_cluster_and_says_what_it_lost_its_time_on() -> None:
    chance = np.random.default_rng(11)
    requests = Requests()
    _judged(requests, (_normal(chance, number) for number in range(3_000)))
    numbers, begin = {}, 3_000
    for what in ("lock", "refused", "stolen", "odd"):
        made, truth = _day(chance, begin, 1_000, what)
        judged = _judged(requests, made)
        begin += 1_000
        found = [each.score > 1.0 for each in judged]
        hits = sum(one and other for one, other in zip(found, truth, strict=True))
        assert hits >= 0.95 * sum(truth), what
        assert hits >= 0.9 * sum(found), what
        clusters = [each.cluster for each, hit in zip(judged, truth, strict=True) if hit and each.cluster]
        numbers[what] = max(set(clusters), key=clusters.count)
        assert clusters.count(numbers[what]) >= 0.9 * len(clusters), what
        assert {each.odd for each, is_troubled in zip(judged, truth, strict=True) if is_troubled} == {what == "odd"}
    assert len(set(numbers.values())) == 4
    leading = {what: requests.cluster(number) for what, number in numbers.items()}
    for what, spent in (("lock", LOCK), ("refused", ("BS", "nanosleep", "", "", ""))):
        cluster = leading[what]
        assert cluster is not None
        assert cluster.evidence.explained
        assert next(each.what for each in cluster.evidence.differences if each.kind == "spent") == spent
    odd = leading["odd"]
    assert odd is not None
    assert odd.evidence.differences[0].kind == "ngram"
    assert set(odd.evidence.differences[0].what) <= {"newlstat", "readlink"}


@pytest.mark.slow
def test_the_same_trouble_has_the_same_number_when_it_comes_again() -> None:
    chance = np.random.default_rng(12)
    requests = Requests()
    _judged(requests, (_normal(chance, number) for number in range(3_000)))
    numbers = []
    begin = 3_000
    for what in ("lock", "stolen", "lock"):
        made, truth = _day(chance, begin, 400, what)
        judged = _judged(requests, made)
        clusters = [each.cluster for each, is_troubled in zip(judged, truth, strict=True) if is_troubled]
        numbers.append(max(set(clusters), key=clusters.count))
        begin += 2_000_000  # a day later and more
    assert numbers[0] == numbers[2] != numbers[1]


@pytest.mark.slow
def test_few_normal_requests_are_outliers() -> None:
    chance = np.random.default_rng(13)
    requests = Requests()
    judged = _judged(requests, (_normal(chance, number) for number in range(8_000)))
    assert sum(each.score > 1.0 for each in judged[2_000:]) <= 60  # 1 %
    assert judged[500].young
    assert not judged[-1].young


def test_a_slow_request_without_a_known_reason_is_unexplained() -> None:
    chance = np.random.default_rng(14)
    requests = Requests()
    _judged(requests, (_normal(chance, number) for number in range(3_000)))
    slow = Traced(150.0, "slow", 0.3, {"RU": 3.0, "RS": 3.0}, {"RU": 0.298, "RS": 0.002}, CALLS * 3)
    judged = requests.score(slow)
    assert judged.outlier
    assert judged.evidence is not None
    assert not judged.evidence.explained
    assert judged.evidence.differences[0].what == ("RU",)


def test_a_state_goes_on_where_it_was_written_down() -> None:
    one, other = Requests(reference=700), Requests(reference=700)
    chance = np.random.default_rng(15)
    made = [*(_normal(chance, number) for number in range(900)), *_day(chance, 900, 300, "lock")[0]]
    _judged(one, made)
    other.restore(one.snapshot())
    more = [*_day(chance, 1_200, 300, "refused")[0], *_day(chance, 1_500, 300, "lock")[0]]
    assert _judged(one, more) == _judged(other, more)
    assert repr(one.snapshot()) == repr(other.snapshot())
    assert one.clusters() == other.clusters()


def test_score_and_learn_go_together() -> None:
    requests = Requests()
    judged = RequestScore(0.0, odd=False, cluster=0, evidence=None, usual_s={}, eps_s=0.025, young=True)
    with pytest.raises(TypeError, match="what score"):
        requests.learn(_normal(np.random.default_rng(1), 1), judged)


@pytest.mark.parametrize("what", ["fast", "ends early", "states"])
def test_those_that_lost_no_time_and_made_no_more_calls_are_alike_too(what: str) -> None:
    chance = np.random.default_rng(11)
    requests, numbers = Requests(minimum_points=20), []
    for number in range(1_500):
        user_s = 0.1 * chance.lognormal(0.0, 0.1)
        calls = () if what == "states" else CALLS
        normal = _request(number, {"RU": user_s}, calls, [])
        troubled = number > 500 and number % 25 == 0
        match what if troubled else "":
            case "fast":
                normal = _request(number, {"RU": 0.001}, calls, [])
            case "ends early":
                normal = _request(number, {"RU": user_s}, ("accept",), [])
            case "states":
                normal = Traced(normal.ts, normal.request, user_s, {"RU": 300.0}, {"RU": user_s}, ())
        [judged] = _judged(requests, [normal])
        if troubled:
            numbers.append(judged.cluster)
    assert len(set(numbers)) == 1
    assert numbers[0] > 0


@pytest.mark.parametrize("wrong", [1e160, float("inf"), float("nan"), -1.0])
@pytest.mark.parametrize("where", ["duration_s", "times_s", "counts", "uses"])
def test_numbers_beyond_all_reason_are_refused_and_spoil_nothing(where: str, wrong: float) -> None:
    chance = np.random.default_rng(12)
    requests = Requests(minimum_points=20)
    normal = [_normal(chance, number) for number in range(250)]
    _judged(requests, normal[:50])
    bad = {
        "duration_s": wrong,
        "times_s": {"RU": wrong},
        "counts": {"RU": wrong},
        "uses": [Use(LOCK, 812, 1, wrong)],
    }
    with pytest.raises(ValueError, match=f"{where}: expected 0 to 1e\\+09, got "):
        requests.score(replace(normal[50], **{where: bad[where]}))  # type: ignore[arg-type]
    _judged(requests, normal[50:])
    assert requests.score(_troubled(chance, 250, "lock")).outlier


def test_those_that_wait_for_a_disk_are_alike_whichever_file_each_reads() -> None:
    chance = np.random.default_rng(13)
    requests, numbers = Requests(minimum_points=20), []
    for number in range(1_500):
        request = _normal(chance, number)
        if number > 500 and number % 25 == 0:
            read = Use(("BD", "read", f"/srv/images/{number}.jpg", "vda", ""), 0, 3, 0.2)
            times = dict(request.times_s) | {"BD": request.times_s["BD"] + 0.2}
            request = _request(number, times, tuple(request.syscalls), [*request.uses, read])
        [judged] = _judged(requests, [request])
        if request.duration_s > 0.2:
            numbers.append(judged.cluster)
    assert len(numbers) == 39
    assert len(set(numbers)) == 1


def test_a_lone_sleep_is_not_of_the_cluster_of_refused_connections() -> None:
    chance = np.random.default_rng(17)
    requests, clusters = Requests(minimum_points=20), {"refused": set[int](), "sleep": set[int]()}
    for number in range(1_500):
        request, what = _normal(chance, number), ""
        if number > 500 and number % 20 == 0:
            what = "refused" if number % 40 else "sleep"
            request = _troubled(chance, number, "refused")
        if what == "sleep":
            slept = Use(("BS", "nanosleep", "", "", ""), 0, 1, request.times_s["BS"])
            missing = Use(("RS", "access", "/srv/www/.maintenance", "", "ENOENT"), 0, 1, 1e-5)
            normal = _normal(chance, number)
            times = {**normal.times_s, "BS": slept.time_s}
            request = _request(number, times, (*CALLS, "access", "nanosleep"), [slept, missing])
        [judged] = _judged(requests, [request])
        if what and judged.outlier:
            clusters[what].add(judged.cluster)
    assert [len(numbers) for numbers in clusters.values()] == [1, 1]
    assert clusters["refused"] != clusters["sleep"]


def test_requests_that_do_much_more_work_are_not_of_the_cluster_of_a_taken_cpu() -> None:
    chance = np.random.default_rng(18)
    requests, clusters = Requests(minimum_points=20), {"compiles": set[int](), "stolen": set[int]()}
    for number in range(1_500):
        request, what = _normal(chance, number), ""
        if number > 500 and number % 20 == 0:
            what = "compiles" if number % 40 else "stolen"
            request = _troubled(chance, number, "stolen")
        if what == "compiles":
            times = {**request.times_s, "RU": 12.0 * request.times_s["RU"], "BP": 2.0 * request.times_s["BP"]}
            taken = Use(BACKUP, 99, 4, times["BP"])
            request = _request(number, times, (*CALLS, *("openat", "fstat", "read") * 20), [taken])
        [judged] = _judged(requests, [request])
        if what and judged.outlier:
            clusters[what].add(judged.cluster)
    assert [len(numbers) for numbers in clusters.values()] == [1, 1]
    assert clusters["compiles"] != clusters["stolen"]


def test_waits_for_a_server_are_of_as_many_clusters_as_it_has_reasons() -> None:
    chance = np.random.default_rng(20)
    requests = Requests(minimum_points=20)
    reasons = {"query": ("RU", ""), "row lock": ("BF", "futex"), "table lock": ("BS", "nanosleep"), "busy": ("BP", "")}
    clusters = {reason: set[int]() for reason in reasons}
    for number in range(2_000):
        request = _normal(chance, number)
        waited_s, reason = 0.002 * chance.lognormal(0.0, 0.2), ("RU", "")
        which = list(reasons)[number // 20 % 4] if number > 500 and number % 20 == 0 else ""
        if which:
            waited_s, reason = 0.1 * chance.lognormal(0.0, 0.3), reasons[which]
        asked = Use(("BT", "poll", "/run/mysqld.sock", "mysqld", ""), 9, 1, waited_s)
        made = _request(number, {**request.times_s, "BT": waited_s}, tuple(request.syscalls), [*request.uses, asked])
        share = chance.uniform(0.8, 1.0)
        did = {(*reason, "mysqld"): share * waited_s}
        did["RS", "sendto", "mysqld"] = (1.0 - share) * waited_s
        [judged] = _judged(requests, [replace(made, beyond=did)])
        if which and judged.outlier:
            clusters[which].add(judged.cluster)
    assert all(len(numbers) == 1 for numbers in clusters.values())
    assert len(set.union(*clusters.values())) == 4


def test_waits_for_a_free_worker_are_of_one_cluster_whatever_keeps_the_workers_busy() -> None:
    chance = np.random.default_rng(21)
    requests, clusters = Requests(minimum_points=20), {"queue": set[int](), "lock": set[int]()}
    for number in range(1_500):
        request, which = _normal(chance, number), ""
        if number > 500 and number % 10 == 0:
            which = "queue" if number % 20 else "lock"
            waited_s = 0.5 * chance.lognormal(0.0, 0.5)
            call, on, by = ("accept", "unix:/run/php.sock", f"GET /page-{number % 7}")
            if which == "lock":
                call, on, by = "flock", "/run/x.lock", "cron"
            waited = Use(("BT", call, on, by, ""), 9, 1, waited_s)
            times = {**request.times_s, "BT": waited_s}
            made = _request(number, times, tuple(request.syscalls), [*request.uses, waited])
            request = replace(made, beyond={("RU", "", "nginx"): 0.001 * (number % 3)})
        [judged] = _judged(requests, [request])
        if which and judged.outlier:
            clusters[which].add(judged.cluster)
    assert [len(numbers) for numbers in clusters.values()] == [1, 1]
    assert clusters["queue"] != clusters["lock"]


def test_waits_for_many_files_of_one_folder_explain_together() -> None:
    chance = np.random.default_rng(16)
    requests = Requests()
    _judged(requests, (_normal(chance, number) for number in range(3_000)))
    for number in range(3_000, 3_040):
        normal = _normal(chance, number)
        use = Use(("BD", "read", f"/srv/images/{number}.jpg", "", ""), 0, 1, 0.2)
        times = {**normal.times_s, "BD": normal.times_s["BD"] + 0.2}
        _judged(requests, [_request(number, times, tuple(normal.syscalls), [*normal.uses, use])])
    (cluster,) = (each for each in requests.clusters() if each.requests >= 40)
    assert cluster.evidence.explained
