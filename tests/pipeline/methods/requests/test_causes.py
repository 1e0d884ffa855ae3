"""Why requests are slow, in words: each kind of trouble, how several are told, and that nothing is claimed beyond."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from laggard.operators.requests.results import Named
from laggard.operators.requests.tries import SEVERAL
from laggard.pipeline.methods.requests.causes import LONGEST_TITLE, MOST_CAUSES, cause, title
from laggard.pipeline.methods.requests.spending import LONGEST_NAME, LONGEST_OBJECT
from laggard.pipeline.methods.requests.words import RESULTS, SPANS, STATES, SYSCALLS
from tests.pipeline.methods.requests.evidence import Beyond, Repeated, Spent, evidence

if TYPE_CHECKING:
    from collections.abc import Callable

# The figures of the published clusters are those of Tables IV and V, with mean times of the published data.
CASES = {
    "held lock": evidence(510, 30, Spent(480, 0, "BT", "flock", "/var/lib/x.lock", "worker", pid=812)),
    "lock with no holder known": evidence(510, 30, Spent(480, 0, "BT", "flock", "/var/lib/x.lock")),
    "lock of two holders": evidence(
        510,
        30,
        Spent(300, 0, "BT", "flock", "/run/x.lock", "a", pid=1),
        Spent(180, 0, "BT", "flock", "/run/x.lock", "b"),
    ),
    "lock of many holders": evidence(
        510, 30, *[Spent(48, 0, "BT", "fcntl", "/run/x.lock", f"w{each}") for each in range(10)], requests=20
    ),
    "all workers are busy": evidence(
        3_100,
        80,
        Spent(2_100, 1, "BT", "accept", "unix:/run/php/php8.2-fpm.sock", "GET /report", pid=812),
        Spent(700, 1, "BT", "accept", "unix:/run/php/php8.2-fpm.sock", "GET /cart/*", pid=813),
        Spent(20, 0, "BT", "accept", "unix:/run/php/php8.2-fpm.sock", "GET /login", statistic=0.5),
        Beyond(2_000, 0, "RU"),
        requests=30,
    ),
    "all workers are busy with one page": evidence(
        3_100, 80, Spent(2_800, 1, "BT", "accept4", "127.0.0.1:9000", "GET /report", pid=812)
    ),
    "all workers are busy, nobody knows with what": evidence(3_100, 80, Spent(2_800, 1, "BT", "accept4")),
    "lock that is tried": evidence(
        600,
        30,
        Spent(5, 0, "RS", "flock", "/run/x.lock", result="EAGAIN", times=57),
        Spent(560, 0, "BS", "clock_nanosleep", times=57),
    ),
    "refused connect with sleep between": evidence(
        600,
        30,
        Spent(5, 0, "RS", "connect", "127.0.0.1:3306", result="ECONNREFUSED", times=57),
        Spent(560, 0, "BS", "clock_nanosleep", times=57),
        requests=40,
    ),
    "refused connect that takes no time itself": evidence(
        60, 30, Spent(2, 0, "RS", "connect", "127.0.0.1:3306", result="ECONNREFUSED", times=57)
    ),
    "sleep that has nothing to do with vain tries": evidence(
        600,
        30,
        Spent(2, 0, "RS", "connect", "127.0.0.1:3306", result="ECONNREFUSED", times=57),
        Spent(560, 0, "BS", "nanosleep"),
    ),
    "connect that times out": evidence(3100, 30, Spent(3050, 0, "BS", "connect", "10.0.0.9:3306", result="ETIMEDOUT")),
    "connect to a full queue": evidence(
        300,
        30,
        Spent(2, 0, "RS", "connect", "/run/php.sock", result="EAGAIN", times=12),
        Spent(260, 0, "BS", "nanosleep", times=12),
    ),
    "connect that does not block, and a time limit": evidence(
        330, 30, Spent(300, 0, "BS", "connect", "10.0.0.9:3306", result="EINPROGRESS"), requests=20
    ),
    "one failed call, and one sleep": evidence(
        330,
        30,
        Spent(0.02, 0, "RS", "access", "/srv/www/.maintenance", result="ENOENT"),
        Spent(300, 0, "BS", "clock_nanosleep"),
    ),
    "sleeps, and failures at different things": evidence(
        330,
        30,
        Spent(0.02, 0, "RS", "access", "/srv/cache/*", result="ENOENT", times=6),
        Spent(300, 0, "BS", "clock_nanosleep", times=6),
    ),
    "connect that waits": evidence(1100, 30, Spent(1040, 0, "BN", "connect", "10.0.0.9:3306")),
    "result without words": evidence(
        90, 30, Spent(50, 0, "RS", "ioctl", "/dev/x", result="ENOTTY", times=900, usual_times=3)
    ),
    "taken CPU": evidence(
        510, 120, Spent(250, 4, "BP", by="backup", pid=77), Spent(50, 30, "BP", "write", by="php-fpm"), requests=30
    ),
    "CPU taken by nobody known": evidence(510, 100, states={"BP": (400, 20)}),
    "page cache misses of one file": evidence(400, 30, Spent(360, 2, "BD", "read", "/srv/data/a.php")),
    "page cache misses in a folder, on a disk": evidence(
        400,
        30,
        Spent(200, 2, "BD", "read", "/srv/data/a.php"),
        Spent(130, 0, "BD", "pread64", "/srv/data/b/c.php"),
        Spent(30, 0, "BD", on="vda"),
    ),
    "metadata": evidence(400, 30, Spent(330, 2, "BD", "openat", "/srv/data/a.php")),
    "writes": evidence(400, 30, Spent(350, 2, "BD", "fsync", "/srv/data/a.db")),
    "answer of another server": evidence(
        400, 30, Spent(350, 2, "BT", "recvfrom", "127.0.0.1:6379", "redis-server", times=1, usual_times=1)
    ),
    "many questions": evidence(
        400, 30, Spent(350, 12, "BT", "recvfrom", "127.0.0.1:3306", "mysqld", times=300, usual_times=12), requests=50
    ),
    "answer over the network of somebody": evidence(400, 30, Spent(350, 2, "BN", "recvfrom")),
    "two servers": evidence(
        400,
        30,
        Spent(250, 2, "BN", "recvfrom", "10.0.0.2:5432"),
        Spent(120, 5, "BT", "read", "/run/redis.sock", "redis-server"),
    ),
    "what is sent is not taken": evidence(400, 30, Spent(350, 2, "BT", "sendto", "10.0.0.2:9092", "java")),
    "poll": evidence(400, 30, Spent(360, 2, "BT", "poll", "", "mysqld", pid=9)),
    "poll for the network": evidence(400, 30, Spent(360, 2, "BN", "poll")),
    "time limit": evidence(400, 30, Spent(360, 2, "BS", "epoll_wait")),
    "pipe": evidence(400, 30, Spent(360, 2, "BT", "read", "pipe", "gzip")),
    "child": evidence(400, 30, Spent(360, 2, "BT", "wait4", by="convert", pid=9)),
    "name lookup": evidence(5380, 40, Spent(5330, 1, "BN", "recvfrom", "127.0.0.53:53")),
    "name lookup by its daemon": evidence(5380, 40, Spent(5330, 1, "BT", "poll", by="systemd-resolve")),
    "other thread": evidence(380, 40, Spent(330, 1, "BF", "futex", by="gc", pid=4), requests=9),
    "futex in turns": evidence(
        380, 40, Spent(200, 1, "BS", "futex", result="ETIMEDOUT", times=40), Spent(135, 1, "BF", "futex", by="worker-3")
    ),
    "sleep": evidence(380, 40, Spent(340, 1, "BS", "clock_nanosleep")),
    "held in the kernel": evidence(400, 30, Spent(365, 2, "BT", "openat", "/srv/x", "kworker/1:2", pid=9)),
    "held in the kernel by nobody known": evidence(400, 30, Spent(365, 2, "BT", "munmap")),
    "fewer system calls": evidence(380, 40, syscalls=(120, 247)),
    "as many system calls": evidence(380, 40),
    "kernel": evidence(380, 40, Spent(330, 2, "RS", "munmap")),
    "kernel all over": evidence(380, 40, states={"RS": (330, 3)}),
    "state that has no words": evidence(380, 40, states={"XY": (330, 3)}),
    "unknown": evidence(380, 40, states={"UN": (330, 3)}),
    "three causes, in the order of lost time": evidence(
        1000,
        100,
        Spent(200, 0, "BD", "read", "/a"),
        Spent(400, 0, "BT", "flock", "/l"),
        Spent(300, 0, "BN", "recvfrom", "10.0.0.2:5432"),
        Spent(90, 0, "BF", "futex"),
    ),
    "what could be chance is told as a state only": evidence(
        400, 30, Spent(330, 2, "BT", "recvfrom", "127.0.0.1:6379", "redis-server", statistic=2.9)
    ),
    "not all of them": evidence(
        400, 30, Spent(350, 2, "BT", "flock", "/run/x.lock", "worker", share=0.42), requests=12
    ),
    "published cluster 1": evidence(
        479.5,
        126,
        Repeated(("write",), 2.3, 1, 4),
        states={"RU": (29.8, 20.1), "BP": (128.1, 82.4), "BT": (312.6, 22.1), "RS": (1.8, 1.4), "BI": (7.1, 0)},
        requests=116,
        syscalls=(312, 246.7),
        explained=False,
    ),
    "published cluster 2": evidence(
        15512,
        126,
        Repeated(("connect",), 5.3, 1),
        Repeated(("connect",) * 2, 4.3),
        Repeated(("connect",) * 3, 3.7),
        states={"RU": (61.6, 20.1), "BP": (144.4, 82.4), "BT": (14294, 22.1), "RS": (4, 1.4), "BI": (1008, 0)},
        requests=36,
        syscalls=(298, 246.7),
    ),
    "published cluster 3": evidence(
        558.6,
        126,
        Repeated(("fcntl",), 419.4, 7),
        Repeated(("fcntl",) * 2, 304.6, 2),
        Repeated(("fcntl",) * 3, 193.2),
        states={"RU": (347.1, 20.1), "BP": (51.7, 82.4), "BT": (124.5, 22.1), "RS": (10.7, 1.4), "BI": (24.6, 0)},
        requests=5,
        syscalls=(2690, 246.7),
    ),
    "many small queries, without objects": evidence(
        600,
        100,
        Repeated(("poll", "recvfrom", "sendto"), 298, 12),
        Repeated(("poll",), 310, 14),
        Repeated(("sendto",), 300, 12),
        states={"BT": (500, 20)},
    ),
    "one of them, that nothing explains": evidence(
        479.5, 126, states={"RU": (30, 20), "BP": (128, 82), "BT": (100, 22), "BN": (221, 2)}, explained=False
    ),
    "where the time went all over": evidence(
        400, 100, states={"RU": (160, 40), "BP": (120, 30), "BT": (120, 30)}, explained=False
    ),
    "what is usual is not known": evidence(510, float("nan"), states={"BT": (400, 0)}, explained=False),
    "what is usual is not known, but what it waits for": evidence(
        510, float("nan"), Spent(480, 0, "BT", "flock", "/run/x.lock", "worker")
    ),
    "fast and odd": evidence(12, 126, Repeated(("unlink",), 1), Repeated(("connect",), 0, 1, -9), syscalls=(26, 247)),
    "odd by what it does not": evidence(
        120, 126, Repeated(("unlink",), 3), Repeated(("connect",), 0, 1, -9), requests=3
    ),
    "odd by vain tries": evidence(
        120, 126, Spent(2, 0, "RS", "openat", "/cache/*", result="ENOENT", times=80, usual_times=2)
    ),
    "odd by nothing": evidence(120, 126, explained=False),
    "connects that do not block, tried again": evidence(
        62.3,
        7.8,
        Spent(0.4, 0, "RS", "connect", "127.0.0.1:50829", result="EINPROGRESS", times=20.2, usual_times=0.37),
        Spent(39.4, 0, "BS", "clock_nanosleep", times=19.2),
        requests=53,
    ),
    "many connects that do not block": evidence(
        62.3,
        7.8,
        Spent(8.4, 0.1, "RS", "connect", "127.0.0.1:3306", result="EINPROGRESS", times=20, usual_times=1),
        Spent(39.4, 0, "BN", "connect", "127.0.0.1:3306", times=20),
        requests=53,
    ),
    "a connect that does not block, as usual": evidence(
        1062.3,
        7.8,
        Spent(0.1, 0.1, "RS", "connect", "127.0.0.1:3306", result="EINPROGRESS", times=1, usual_times=1),
        Spent(1040, 0, "BN", "connect", "127.0.0.1:3306"),
    ),
    "PHP compiles what it had kept": evidence(
        86.2,
        10,
        Repeated(("openat",), 26.3, 2.19, 39.0),
        Repeated(("newfstatat",), 60.4, 4.19, 15.4),
        Repeated(("openat", "newfstatat", "read"), 23.7, 0, 48.3),
        states={"RU": (52.4, 4.1), "BP": (25.6, 2.8)},
        requests=40,
        syscalls=(396, 252),
    ),
    "PHP compiles what it had kept, on a busy machine": evidence(
        300,
        10,
        Repeated(("openat",), 26.3, 2.19, 39.0),
        Spent(190, 0.3, "BP", by="laggard-trace", pid=812),
        Spent(30, 2.5, "BP", by="php-fpm", statistic=2.0),
        states={"RU": (52.4, 4.1), "BP": (232, 2.8)},
        requests=40,
        syscalls=(396, 252),
    ),
    "much work, and a busy machine": evidence(
        300, 20, Spent(190, 0.3, "BP", by="backup"), states={"RU": (95, 12), "BP": (193, 2.8)}, requests=40
    ),
    "a little more work, and a busy machine": evidence(
        300, 20, Spent(250, 0.3, "BP", by="backup"), states={"RU": (30, 12), "BP": (255, 2.8)}, requests=40
    ),
    "the tracer has less of the CPU than others that are usual, too": evidence(
        300,
        20,
        Spent(90, 0.1, "BP", by="laggard-trace", pid=812),
        Spent(160, 8, "BP", by="php-fpm", statistic=2.0),
        states={"RU": (20, 12), "BP": (270, 8.2)},
        requests=40,
    ),
    "the tracer has a small share of the CPU": evidence(
        300, 20, Spent(90, 0.1, "BP", by="laggard-trace", pid=812), states={"RU": (20, 12), "BP": (270, 8)}, requests=40
    ),
    "a server that computes": evidence(
        330, 30, Spent(300, 2, "BT", "poll", "/run/mysqld.sock", "mysqld", pid=9), Beyond(250, 1), Beyond(40, 0, "BP")
    ),
    "a server whose thread waits for another one": evidence(
        330,
        30,
        Spent(300, 2, "BT", "poll", "/run/mysqld.sock", "mysqld", pid=9),
        Beyond(20, 1),
        Beyond(270, 0, "BF", "futex"),
    ),
    "a holder of a lock that sleeps": evidence(
        510,
        30,
        Spent(480, 0, "BT", "flock", "/var/lib/x.lock", "worker", pid=812),
        Beyond(470, 0, "BS", "clock_nanosleep", "worker"),
    ),
    "a server that did many things": evidence(
        330,
        30,
        Spent(300, 2, "BT", "poll", "/run/mysqld.sock", "mysqld", pid=9),
        *[Beyond(100, 1, state) for state in ("RU", "BP", "BD")],
    ),
    "nothing but a name": evidence(
        86.2,
        10,
        states={"RU": (52.4, 4.1), "BP": (25.6, 2.8)},
        requests=40,
        explained=False,
        named=Named("GET /opreset.php", 40, 40, 0, 5_400),
    ),
    "a name, and a cause": evidence(
        510,
        30,
        Spent(480, 0, "BT", "flock", "/var/lib/x.lock", "worker", pid=812),
        requests=40,
        named=Named("GET /report/*", 38, 40, 2, 5_400),
    ),
    "fast ones of a name": evidence(
        12, 12, requests=9, explained=False, named=Named("GET /\x1b[31m" + "x" * 90, 9, 9, 1, 5_400)
    ),
    "in a row, where no call alone is repeated": evidence(
        90, 30, Repeated(("epoll_wait", "read"), 3.6, 0.06), states={"RU": (80, 20)}
    ),
    "spans: the answer of another service, many times": evidence(
        900,
        60,
        Spent(820, 20, "client", "SELECT items", "db-1:5432", "postgres", times=300, usual_times=8),
        states={"self": (80, 40)},
        requests=12,
    ),
    "spans: a service that is known by its name": evidence(
        900, 60, Spent(820, 20, "client", "Charge", "", "payments"), states={"self": (80, 40)}
    ),
    "spans: calls that fail and are tried again": evidence(
        400,
        60,
        Spent(330, 0, "client", "GET", "payments:8080", "payments", result="503", times=3),
        states={"self": (70, 60)},
    ),
    "spans: own code": evidence(400, 60, Spent(340, 5, "self", "render"), states={"self": (390, 50)}),
    "spans: own code all over": evidence(400, 60, states={"self": (390, 50)}),
    "spans: messages": evidence(400, 60, Spent(340, 5, "producer", "publish", "orders"), states={"self": (60, 55)}),
    "spans: in another service": evidence(400, 60, states={"self": (60, 55), "server": (340, 5)}),
    "spans: ends early": evidence(12, 60, Repeated(("Charge",), 0, 1, -9), states={"self": (12, 60)}, syscalls=(2, 9)),
    "a refused connect, and the question for it": evidence(
        66.8,
        8,
        Spent(0.5, 0, "RS", "connect", "127.0.0.1:55045", result="ECONNREFUSED", times=23.5),
        Spent(0.04, 0, "RS", "getsockopt", "127.0.0.1:55045", result="ECONNREFUSED", times=23.5),
        Spent(48.2, 0, "BS", "clock_nanosleep", times=22.5),
        states={"RU": (18, 8)},
        requests=57,
    ),
}


def test_each_kind_of_trouble_is_told_with_its_figures(golden: Callable[[Path, str], None]) -> None:
    told = "".join(f"{kind}\n  {title(found)}\n  {cause(found)}\n\n" for kind, found in CASES.items())
    golden(Path(__file__).parent / "golden/causes.txt", told)


STATE = st.sampled_from([*STATES, *SPANS, "XY"])
CALLS = st.sampled_from([
    "", "accept4", "clock_nanosleep", "connect", "fcntl", "flock", "fsync", "futex", "openat", "poll", "read",
    "recvfrom", "sendto", "wait4", "write",
])  # fmt: skip
PLACES = st.sampled_from(["", "/srv/a", "/srv/b/c", "vda", "127.0.0.1:3306", "127.0.0.53:53", "/run/x.sock", "pipe"])
SPENT = st.builds(
    Spent,
    ms=st.floats(0.0, 1e4),
    usual_ms=st.floats(0.0, 1e3),
    state=STATE,
    syscall=CALLS,
    on=PLACES | st.text(max_size=200),
    by=st.sampled_from(["", "mysqld", "backup"]) | st.text(max_size=200),
    result=st.sampled_from(["", "", "ECONNREFUSED", "EAGAIN", "ETIMEDOUT", "EWHAT", "\x1b[31m"]),
    pid=st.integers(0, 4_000_000),
    times=st.floats(0.0, 1e5),
    usual_times=st.floats(0.0, 1e3),
    share=st.floats(0.0, 1.0),
    statistic=st.floats(-1e3, 1e6) | st.just(math.inf),
)
REPEATED = st.builds(
    Repeated,
    what=st.lists(st.text(min_size=1, max_size=30) | st.sampled_from(sorted(SYSCALLS)), min_size=1, max_size=3).map(
        tuple
    ),
    times=st.floats(0.0, 1e5),
    usual_times=st.floats(0.0, 1e3),
    statistic=st.floats(-1e3, 1e6),
)


@given(failures=st.integers(1, 60), sleeps=st.integers(1, 60))
def test_a_sleep_is_between_tries_only_where_several_fail_alike(failures: int, sleeps: int) -> None:
    tried = Spent(1, 0, "RS", "connect", "127.0.0.1:3306", result="ECONNREFUSED", times=failures)
    told = cause(evidence(600, 30, tried, Spent(560, 0, "BS", "clock_nanosleep", times=sleeps)))
    between = failures >= SEVERAL and failures / 2 <= sleeps <= 2 * failures
    assert ("sleeps in between" in told) == between
    assert told.startswith("sleeps (`clock_nanosleep`)") != between


@given(
    ms=st.floats(0.001, 1e6),
    usual_ms=st.floats(0.001, 1e6) | st.just(math.nan),
    found=st.lists(SPENT | REPEATED, max_size=12),
    requests=st.integers(1, 1000),
    more=st.fixed_dictionaries(
        {
            "explained": st.booleans(),
            "named": st.none()
            | st.builds(
                Named, st.text(max_size=200), st.integers(3, 400), st.just(400), st.integers(0, 9), st.just(5_000)
            ),
        }
    ),
)
def test_whatever_the_evidence_it_is_one_printable_clause_of_bounded_length(ms, usual_ms, found, requests, more):
    known = evidence(ms, usual_ms, *found, requests=requests, **more)
    told, name = cause(known), title(known)
    assert told
    assert told.isprintable()
    assert not told.endswith(".")
    assert len(told) <= MOST_CAUSES * (2 * LONGEST_NAME + 2 * LONGEST_OBJECT + 300)
    assert name
    assert name.isprintable()
    assert len(name) <= LONGEST_TITLE
    assert (told, name) == (cause(known), title(known))


# Waits for a CPU come after much more work than usual: see `CASES`.
@given(first=SPENT.filter(lambda each: each.state != "BP"), others=st.lists(SPENT, max_size=8))
def test_what_takes_most_is_told_before_what_takes_less(first, others):
    worst = first._replace(ms=1e5, usual_ms=0.0, times=1.0, usual_times=0.0, share=1.0, statistic=50.0)
    known = evidence(1.5e5, 100.0, worst, *[each._replace(times=0.0, result="") for each in others])
    titles = {title(known), title(evidence(1.5e5, 100.0, worst))}
    assert len(titles) == 1 or "slower" in titles  # of some waits nothing but the state is known


def test_names_are_data_and_of_long_ones_both_ends_of_a_path_and_the_beginning_of_a_process_are_told():
    path = "/srv/" + "a" * 300 + "/template.php"
    told = cause(evidence(400, 30, Spent(350, 0, "BT", "flock", path, "x" * 300)))
    assert "/srv/aaaa" in told
    assert "a/template.php" in told
    assert f"`{'x' * (LONGEST_NAME - 3)}...`" in told
    assert len(told) < 220
    told = cause(evidence(400, 30, Spent(350, 0, "BT", "flock", "/tmp/\x1b]0;x\x07\n", "a\nb")))
    assert "/tmp/\\x1b]0;x\\x07\\n" in told
    assert "`a\\nb`" in told


def test_who_only_woke_is_never_said_to_hold_anything_for_sure():
    for syscall, state in (("futex", "BF"), ("openat", "BT"), ("poll", "BT"), ("recvfrom", "BT"), ("", "BT")):
        told = cause(evidence(400, 30, Spent(350, 0, state, syscall, "", "other")))
        assert "`other`" in told
        assert "hold" not in told or "likely holds" in told


def test_all_words_are_such_that_sentences_stay_sentences():
    for words in (*STATES.values(), *SPANS.values()):
        assert words.label
        assert words.title
        assert words.does[0].islower()
        assert not words.does.endswith(".")
    for how, shortly in RESULTS.values():
        assert how.startswith(("that ", "for which "))
        assert len(shortly) < 20
    assert all(does.partition(" ")[0].endswith(("s", "es")) for does in SYSCALLS.values())
