"""Why requests are slow, in words: each kind of trouble, how several are told, and that nothing is claimed beyond."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laggard.pipeline.requests.causes import LONGEST_TITLE, TOLD, cause, title
from laggard.pipeline.requests.spending import LONGEST_NAME, LONGEST_OBJECT
from laggard.pipeline.requests.words import RESULTS, SPANS, STATES, SYSCALLS
from tests.pipeline.requests.evidence import Repeated, Spent, evidence

# The figures of the published clusters are those of Tables IV and V, with mean times of the published data.


@pytest.mark.parametrize(
    ("found", "name", "told"),
    [
        pytest.param(
            evidence(510, 30, Spent(480, 0, "BT", "flock", "/var/lib/x.lock", "worker", pid=812)),
            "lock x.lock",
            ("waits for a lock held by `worker` (pid 812) (`flock` on /var/lib/x.lock): 480 ms of 510 ms, usually 0"),
            id="held lock",
        ),
        pytest.param(
            evidence(510, 30, Spent(480, 0, "BT", "flock", "/var/lib/x.lock")),
            "lock x.lock",
            "waits for a lock (`flock` on /var/lib/x.lock): 480 ms of 510 ms, usually 0",
            id="lock with no holder known",
        ),
        pytest.param(
            evidence(
                510,
                30,
                Spent(300, 0, "BT", "flock", "/run/x.lock", "a", pid=1),
                Spent(180, 0, "BT", "flock", "/run/x.lock", "b"),
            ),
            "lock x.lock",
            "waits for a lock held by `a` and `b` (`flock` on /run/x.lock): 480 ms of 510 ms, usually 0",
            id="lock of two holders",
        ),
        pytest.param(
            evidence(
                510, 30, *[Spent(48, 0, "BT", "fcntl", "/run/x.lock", f"w{each}") for each in range(10)], requests=20
            ),
            "lock x.lock",
            "waits for a lock held by `w0` and others (`fcntl` on /run/x.lock): 480 ms of 510 ms, usually 0",
            id="lock of many holders",
        ),
        pytest.param(
            evidence(
                600,
                30,
                Spent(5, 0, "RS", "flock", "/run/x.lock", result="EAGAIN", times=57),
                Spent(560, 0, "BS", "clock_nanosleep", times=57),
            ),
            "lock x.lock",
            (
                "tries in vain to take a lock (`flock` on /run/x.lock), 57 times, usually never, and sleeps in "
                "between: 565 ms of 600 ms, usually 0"
            ),
            id="lock that is tried",
        ),
        pytest.param(
            evidence(
                600,
                30,
                Spent(5, 0, "RS", "connect", "127.0.0.1:3306", result="ECONNREFUSED", times=57),
                Spent(560, 0, "BS", "clock_nanosleep", times=57),
                requests=40,
            ),
            "connect refused",
            (
                "repeats connect() to 127.0.0.1:3306 that is refused, 57 times a request, usually never, and sleeps "
                "in between: 565 ms of 600 ms, usually 0"
            ),
            id="refused connect with sleep between",
        ),
        pytest.param(
            evidence(60, 30, Spent(2, 0, "RS", "connect", "127.0.0.1:3306", result="ECONNREFUSED", times=57)),
            "connect refused",
            (
                "repeats connect() to 127.0.0.1:3306 that is refused, 57 times, usually never: 2 ms of 60 ms, usually"
                " 0; and computes: 58 ms of 60 ms in user mode, usually 30 ms, with about as many system calls"
            ),
            id="refused connect that takes no time itself",
        ),
        pytest.param(
            evidence(
                600,
                30,
                Spent(2, 0, "RS", "connect", "127.0.0.1:3306", result="ECONNREFUSED", times=57),
                Spent(560, 0, "BS", "nanosleep"),
            ),
            "sleep",
            (
                "sleeps (`nanosleep`): 560 ms of 600 ms, usually 0; and repeats connect() to 127.0.0.1:3306 that is "
                "refused, 57 times, usually never: 2 ms of 600 ms, usually 0"
            ),
            id="sleep that has nothing to do with vain tries",
        ),
        pytest.param(
            evidence(3100, 30, Spent(3050, 0, "BS", "connect", "10.0.0.9:3306", result="ETIMEDOUT")),
            "connect timed out",
            "makes a connect() to 10.0.0.9:3306 that times out: 3.05 s of 3.1 s, usually 0",
            id="connect that times out",
        ),
        pytest.param(
            evidence(
                300,
                30,
                Spent(2, 0, "RS", "connect", "/run/php.sock", result="EAGAIN", times=12),
                Spent(260, 0, "BS", "nanosleep", times=12),
            ),
            "connect turned away",
            (
                "repeats connect() to /run/php.sock that is turned away, as a full queue does, 12 times, usually "
                "never, and sleeps in between: 262 ms of 300 ms, usually 0"
            ),
            id="connect to a full queue",
        ),
        pytest.param(
            evidence(1100, 30, Spent(1040, 0, "BN", "connect", "10.0.0.9:3306")),
            "connect to 10.0.0.9:3306",
            "waits for a connection to 10.0.0.9:3306: 1.04 s of 1.1 s, usually 0",
            id="connect that waits",
        ),
        pytest.param(
            evidence(90, 30, Spent(50, 0, "RS", "ioctl", "/dev/x", result="ENOTTY", times=900, usual_times=3)),
            "ioctl ENOTTY",
            "repeats ioctl() on /dev/x that fails (ENOTTY), 900 times, usually 3: 50 ms of 90 ms, usually 0",
            id="result without words",
        ),
        pytest.param(
            evidence(
                510,
                120,
                Spent(250, 4, "BP", by="backup", pid=77),
                Spent(50, 30, "BP", "write", by="php-fpm"),
                requests=30,
            ),
            "CPU taken by backup",
            (
                "is off the CPU: 59 % of the time runnable, the CPU is taken by `backup` (pid 77) (300 ms of 510 ms, "
                "usually 34 ms); and computes: 210 ms of 510 ms in user mode, usually 86 ms, with about as many "
                "system calls"
            ),
            id="taken CPU",
        ),
        pytest.param(
            evidence(510, 100, states={"BP": (400, 20)}),
            "CPU taken",
            "is off the CPU: 78 % of the time runnable (400 ms of 510 ms, usually 20 ms)",
            id="CPU taken by nobody known",
        ),
        pytest.param(
            evidence(400, 30, Spent(360, 2, "BD", "read", "/srv/data/a.php")),
            "disk reads",
            "page cache misses on /srv/data/a.php: reads from disk 360 ms of 400 ms, usually 2 ms",
            id="page cache misses of one file",
        ),
        pytest.param(
            evidence(
                400,
                30,
                Spent(200, 2, "BD", "read", "/srv/data/a.php"),
                Spent(130, 0, "BD", "pread64", "/srv/data/b/c.php"),
                Spent(30, 0, "BD", on="vda"),
            ),
            "disk reads",
            "page cache misses on /srv/data: reads from disk vda 360 ms of 400 ms, usually 2 ms",
            id="page cache misses in a folder, on a disk",
        ),
        pytest.param(
            evidence(400, 30, Spent(330, 2, "BD", "openat", "/srv/data/a.php")),
            "disk",
            "waits for a disk in `openat` on /srv/data/a.php: 330 ms of 400 ms, usually 2 ms",
            id="metadata",
        ),
        pytest.param(
            evidence(400, 30, Spent(350, 2, "BD", "fsync", "/srv/data/a.db")),
            "disk writes",
            "waits until /srv/data/a.db is on disk (`fsync`): 350 ms of 400 ms, usually 2 ms",
            id="writes",
        ),
        pytest.param(
            evidence(
                400, 30, Spent(350, 2, "BT", "recvfrom", "127.0.0.1:6379", "redis-server", times=1, usual_times=1)
            ),
            "answer of 127.0.0.1:6379",
            "waits for the answer of 127.0.0.1:6379 (`redis-server`): 350 ms of 400 ms, usually 2 ms",
            id="answer of another server",
        ),
        pytest.param(
            evidence(
                400,
                30,
                Spent(350, 12, "BT", "recvfrom", "127.0.0.1:3306", "mysqld", times=300, usual_times=12),
                requests=50,
            ),
            "answer of 127.0.0.1:3306",
            (
                "waits for the answer of 127.0.0.1:3306 (`mysqld`), 300 times a request, usually 12: 350 ms of 400 "
                "ms, usually 12 ms"
            ),
            id="many questions",
        ),
        pytest.param(
            evidence(400, 30, Spent(350, 2, "BN", "recvfrom")),
            "answer",
            "waits for what comes over a socket: 350 ms of 400 ms, usually 2 ms",
            id="answer over the network of somebody",
        ),
        pytest.param(
            evidence(
                400,
                30,
                Spent(250, 2, "BN", "recvfrom", "10.0.0.2:5432"),
                Spent(120, 5, "BT", "read", "/run/redis.sock", "redis-server"),
            ),
            "answer of 10.0.0.2:5432",
            (
                "waits for the answer of 10.0.0.2:5432: 250 ms of 400 ms, usually 2 ms; and waits for the answer of "
                "/run/redis.sock (`redis-server`): 120 ms of 400 ms, usually 5 ms"
            ),
            id="two servers",
        ),
        pytest.param(
            evidence(400, 30, Spent(350, 2, "BT", "sendto", "10.0.0.2:9092", "java")),
            "sending to 10.0.0.2:9092",
            "waits until 10.0.0.2:9092 (`java`) takes what is sent: 350 ms of 400 ms, usually 2 ms",
            id="what is sent is not taken",
        ),
        pytest.param(
            evidence(400, 30, Spent(360, 2, "BT", "poll", "", "mysqld", pid=9)),
            "waits for mysqld",
            "waits for `mysqld` (pid 9) (`poll`): 360 ms of 400 ms, usually 2 ms",
            id="poll",
        ),
        pytest.param(
            evidence(400, 30, Spent(360, 2, "BN", "poll")),
            "network",
            "waits for the network in `poll`: 360 ms of 400 ms, usually 2 ms",
            id="poll for the network",
        ),
        pytest.param(
            evidence(400, 30, Spent(360, 2, "BS", "epoll_wait")),
            "time limit",
            "waits in `epoll_wait` until a time limit passes: 360 ms of 400 ms, usually 2 ms",
            id="time limit",
        ),
        pytest.param(
            evidence(400, 30, Spent(360, 2, "BT", "read", "pipe", "gzip")),
            "waits for gzip",
            "waits for `gzip` (`read` on pipe): 360 ms of 400 ms, usually 2 ms",
            id="pipe",
        ),
        pytest.param(
            evidence(400, 30, Spent(360, 2, "BT", "wait4", by="convert", pid=9)),
            "child process",
            "waits for a child process, `convert` (pid 9) (`wait4`): 360 ms of 400 ms, usually 2 ms",
            id="child",
        ),
        pytest.param(
            evidence(5380, 40, Spent(5330, 1, "BN", "recvfrom", "127.0.0.53:53")),
            "name lookup",
            "looks up names at 127.0.0.53:53: 5.33 s of 5.38 s, usually 1 ms",
            id="name lookup",
        ),
        pytest.param(
            evidence(5380, 40, Spent(5330, 1, "BT", "poll", by="systemd-resolve")),
            "name lookup",
            "looks up names (`systemd-resolve`): 5.33 s of 5.38 s, usually 1 ms",
            id="name lookup by its daemon",
        ),
        pytest.param(
            evidence(380, 40, Spent(330, 1, "BF", "futex", by="gc", pid=4), requests=9),
            "futex",
            "waits for another thread (`futex`, woken by `gc`, pid 4): 330 ms of 380 ms, usually 1 ms",
            id="other thread",
        ),
        pytest.param(
            evidence(
                380,
                40,
                Spent(200, 1, "BS", "futex", result="ETIMEDOUT", times=40),
                Spent(135, 1, "BF", "futex", by="worker-3"),
            ),
            "futex",
            "waits for another thread (`futex`, woken by `worker-3`): 335 ms of 380 ms, usually 2 ms",
            id="futex in turns",
        ),
        pytest.param(
            evidence(380, 40, Spent(340, 1, "BS", "clock_nanosleep")),
            "sleep",
            "sleeps (`clock_nanosleep`): 340 ms of 380 ms, usually 1 ms",
            id="sleep",
        ),
        pytest.param(
            evidence(400, 30, Spent(365, 2, "BT", "openat", "/srv/x", "kworker/1:2", pid=9)),
            "waits for kworker/1:2",
            (
                "waits in `openat` on /srv/x for `kworker/1:2` (pid 9), which likely holds what it needs: 365 ms of "
                "400 ms, usually 2 ms"
            ),
            id="held in the kernel",
        ),
        pytest.param(
            evidence(400, 30, Spent(365, 2, "BT", "munmap")),
            "other task",
            "waits in `munmap` for another process or thread: 365 ms of 400 ms, usually 2 ms",
            id="held in the kernel by nobody known",
        ),
        pytest.param(
            evidence(380, 40, syscalls=(120, 247)),
            "user mode",
            "computes: 380 ms of 380 ms in user mode, usually 40 ms, with fewer system calls (120, usually 247)",
            id="fewer system calls",
        ),
        pytest.param(
            evidence(380, 40),
            "user mode",
            "computes: 380 ms of 380 ms in user mode, usually 40 ms, with about as many system calls",
            id="as many system calls",
        ),
        pytest.param(
            evidence(380, 40, Spent(330, 2, "RS", "munmap")),
            "kernel munmap",
            "runs in the kernel, most of it in `munmap`: 330 ms of 380 ms, usually 2 ms",
            id="kernel",
        ),
        pytest.param(
            evidence(380, 40, states={"RS": (330, 3)}),
            "kernel",
            "runs in the kernel: 330 ms of 380 ms, usually 3 ms",
            id="kernel all over",
        ),
        pytest.param(
            evidence(380, 40, states={"XY": (330, 3)}),
            "slower",
            (
                "nothing sets it apart from normal requests but that it takes longer: 380 ms, usually 40 ms; most of "
                "that: is in the state `XY`: 330 ms of 380 ms, usually 3 ms"
            ),
            id="state that has no words",
        ),
        pytest.param(
            evidence(380, 40, states={"UN": (330, 3)}),
            "slower",
            (
                "nothing sets it apart from normal requests but that it takes longer: 380 ms, usually 40 ms; most of "
                "that: is in a state that the trace does not tell: 330 ms of 380 ms, usually 3 ms"
            ),
            id="unknown",
        ),
        pytest.param(
            evidence(
                1000,
                100,
                Spent(200, 0, "BD", "read", "/a"),
                Spent(400, 0, "BT", "flock", "/l"),
                Spent(300, 0, "BN", "recvfrom", "10.0.0.2:5432"),
                Spent(90, 0, "BF", "futex"),
            ),
            "lock l",
            (
                "waits for a lock (`flock` on /l): 400 ms of 1 s, usually 0; and waits for the answer of "
                "10.0.0.2:5432: 300 ms of 1 s, usually 0; and page cache misses on /a: reads from disk 200 ms of 1 s,"
                " usually 0"
            ),
            id="three causes, in the order of lost time",
        ),
        pytest.param(
            evidence(400, 30, Spent(330, 2, "BT", "recvfrom", "127.0.0.1:6379", "redis-server", statistic=2.9)),
            "slower",
            (
                "nothing sets it apart from normal requests but that it takes longer: 400 ms, usually 30 ms; most of "
                "that: waits for another process or thread: 330 ms of 400 ms, usually 2 ms"
            ),
            id="what could be chance is told as a state only",
        ),
        pytest.param(
            evidence(400, 30, Spent(350, 2, "BT", "flock", "/run/x.lock", "worker", share=0.42), requests=12),
            "lock x.lock",
            (
                "waits for a lock held by `worker` (`flock` on /run/x.lock): 350 ms of 400 ms, usually 2 ms (in 42 % "
                "of these requests)"
            ),
            id="not all of them",
        ),
        pytest.param(
            evidence(
                479.5,
                126,
                Repeated(("write",), 2.3, 1, 4),
                states={"RU": (29.8, 20.1), "BP": (128.1, 82.4), "BT": (312.6, 22.1), "RS": (1.8, 1.4), "BI": (7.1, 0)},
                requests=116,
                syscalls=(312, 246.7),
                explained=False,
            ),
            "slower",
            (
                "nothing sets these apart from normal requests but that they take longer: 480 ms, usually 126 ms; "
                "most of that: waits for another process or thread: 313 ms of 480 ms, usually 22.1 ms"
            ),
            id="published cluster 1",
        ),
        pytest.param(
            evidence(
                15512,
                126,
                Repeated(("connect",), 5.3, 1),
                Repeated(("connect",) * 2, 4.3),
                Repeated(("connect",) * 3, 3.7),
                states={"RU": (61.6, 20.1), "BP": (144.4, 82.4), "BT": (14294, 22.1), "RS": (4, 1.4), "BI": (1008, 0)},
                requests=36,
                syscalls=(298, 246.7),
            ),
            "connect repeated",
            (
                "repeats `connect` (opens connections) 5.3 times a request, usually once; and waits for another "
                "process or thread: 14.3 s of 15.5 s, usually 22.1 ms"
            ),
            id="published cluster 2",
        ),
        pytest.param(
            evidence(
                558.6,
                126,
                Repeated(("fcntl",), 419.4, 7),
                Repeated(("fcntl",) * 2, 304.6, 2),
                Repeated(("fcntl",) * 3, 193.2),
                states={
                    "RU": (347.1, 20.1),
                    "BP": (51.7, 82.4),
                    "BT": (124.5, 22.1),
                    "RS": (10.7, 1.4),
                    "BI": (24.6, 0),
                },
                requests=5,
                syscalls=(2690, 246.7),
            ),
            "fcntl repeated",
            (
                "repeats `fcntl` (locks files) 419 times a request, usually 7; and computes: 347 ms of 559 ms in user"
                " mode, usually 20.1 ms, with more system calls (2,690, usually 247); and waits for another process "
                "or thread: 124 ms of 559 ms, usually 22.1 ms"
            ),
            id="published cluster 3",
        ),
        pytest.param(
            evidence(
                600,
                100,
                Repeated(("poll", "recvfrom", "sendto"), 298, 12),
                Repeated(("poll",), 310, 14),
                Repeated(("sendto",), 300, 12),
                states={"BT": (500, 20)},
            ),
            "poll repeated",
            (
                "repeats `poll` (waits for any of several) 310 times, usually 14; and waits for another process or "
                "thread: 500 ms of 600 ms, usually 20 ms"
            ),
            id="many small queries, without objects",
        ),
        pytest.param(
            evidence(
                479.5, 126, states={"RU": (30, 20), "BP": (128, 82), "BT": (100, 22), "BN": (221, 2)}, explained=False
            ),
            "slower",
            (
                "nothing sets it apart from normal requests but that it takes longer: 480 ms, usually 126 ms; most of"
                " that: waits for the network: 221 ms of 480 ms, usually 2 ms"
            ),
            id="one of them, that nothing explains",
        ),
        pytest.param(
            evidence(400, 100, states={"RU": (160, 40), "BP": (120, 30), "BT": (120, 30)}, explained=False),
            "slower",
            "nothing sets it apart from normal requests but that it takes longer: 400 ms, usually 100 ms",
            id="where the time went all over",
        ),
        pytest.param(
            evidence(510, float("nan"), states={"BT": (400, 0)}, explained=False),
            "slower",
            ("what is usual is not known yet; most of its time: waits for another process or thread: 400 ms of 510 ms"),
            id="what is usual is not known",
        ),
        pytest.param(
            evidence(510, float("nan"), Spent(480, 0, "BT", "flock", "/run/x.lock", "worker")),
            "lock x.lock",
            "waits for a lock held by `worker` (`flock` on /run/x.lock): 480 ms of 510 ms",
            id="what is usual is not known, but what it waits for",
        ),
        pytest.param(
            evidence(12, 126, Repeated(("unlink",), 1), Repeated(("connect",), 0, 1, -9), syscalls=(26, 247)),
            "ends early",
            (
                "makes only 26 system calls, usually 247; and makes `unlink` (deletes files) once, usually never; it "
                "takes 12 ms, usually 126 ms"
            ),
            id="fast and odd",
        ),
        pytest.param(
            evidence(120, 126, Repeated(("unlink",), 3), Repeated(("connect",), 0, 1, -9), requests=3),
            "unlink repeated",
            (
                "repeats `unlink` (deletes files) 3 times a request, usually never; and makes no `connect` (opens "
                "connections), usually once; it takes 120 ms, usually 126 ms"
            ),
            id="odd by what it does not",
        ),
        pytest.param(
            evidence(120, 126, Spent(2, 0, "RS", "openat", "/cache/*", result="ENOENT", times=80, usual_times=2)),
            "openat not there",
            (
                "repeats openat() on /cache/* that finds nothing there, 80 times, usually 2: 2 ms of 120 ms, usually "
                "0; it takes 120 ms, usually 126 ms"
            ),
            id="odd by vain tries",
        ),
        pytest.param(
            evidence(120, 126, explained=False),
            "odd",
            "nothing sets it apart from normal requests",
            id="odd by nothing",
        ),
        pytest.param(
            evidence(
                62.3,
                7.8,
                Spent(0.4, 0, "RS", "connect", "127.0.0.1:50829", result="EINPROGRESS", times=20.2, usual_times=0.37),
                Spent(39.4, 0, "BS", "clock_nanosleep", times=19.2),
                requests=53,
            ),
            "connect refused",
            (
                "repeats connect() to 127.0.0.1:50829 that is likely refused, 20.2 times a request, usually 0.37, and"
                " sleeps in between: 39.8 ms of 62.3 ms, usually 0; and computes: 22.5 ms of 62.3 ms in user mode, "
                "usually 7.8 ms, with about as many system calls"
            ),
            id="connects that do not block, tried again",
        ),
        pytest.param(
            evidence(
                62.3,
                7.8,
                Spent(8.4, 0.1, "RS", "connect", "127.0.0.1:3306", result="EINPROGRESS", times=20, usual_times=1),
                Spent(39.4, 0, "BN", "connect", "127.0.0.1:3306", times=20),
                requests=53,
            ),
            "connect to 127.0.0.1:3306",
            (
                "waits for a connection to 127.0.0.1:3306: 39.4 ms of 62.3 ms, usually 0; and repeats connect() to "
                "127.0.0.1:3306, 20 times a request, usually once: 8.4 ms of 62.3 ms, usually 100 us"
            ),
            id="many connects that do not block",
        ),
        pytest.param(
            evidence(
                1062.3,
                7.8,
                Spent(0.1, 0.1, "RS", "connect", "127.0.0.1:3306", result="EINPROGRESS", times=1, usual_times=1),
                Spent(1040, 0, "BN", "connect", "127.0.0.1:3306"),
            ),
            "connect to 127.0.0.1:3306",
            "waits for a connection to 127.0.0.1:3306: 1.04 s of 1.06 s, usually 0",
            id="a connect that does not block, as usual",
        ),
        pytest.param(
            evidence(
                86.2,
                10,
                Repeated(("openat",), 26.3, 2.19, 39.0),
                Repeated(("newfstatat",), 60.4, 4.19, 15.4),
                Repeated(("openat", "newfstatat", "read"), 23.7, 0, 48.3),
                states={"RU": (52.4, 4.1), "BP": (25.6, 2.8)},
                requests=40,
                syscalls=(396, 252),
            ),
            "openat repeated",
            (
                "repeats `openat` (opens files) 26.3 times a request, usually 2.19; and computes: 60.6 ms of 86.2 ms "
                "in user mode, usually 7.2 ms, with more system calls (396, usually 252); and is off the CPU: 30 % of"
                " the time runnable (25.6 ms of 86.2 ms, usually 2.8 ms)"
            ),
            id="PHP compiles what it had kept",
        ),
        pytest.param(
            evidence(90, 30, Repeated(("epoll_wait", "read"), 3.6, 0.06), states={"RU": (80, 20)}),
            "epoll_wait repeated",
            (
                "repeats `epoll_wait`, `read` in a row 3.6 times, usually 0.06; and computes: 90 ms of 90 ms in user "
                "mode, usually 30 ms, with about as many system calls"
            ),
            id="in a row, where no call alone is repeated",
        ),
        pytest.param(
            evidence(
                900,
                60,
                Spent(820, 20, "client", "SELECT items", "db-1:5432", "postgres", times=300, usual_times=8),
                states={"self": (80, 40)},
                requests=12,
            ),
            "answer of db-1:5432",
            (
                "waits for the answer of db-1:5432 (`postgres`), `SELECT items`, 300 times a request, usually 8: 820 "
                "ms of 900 ms, usually 20 ms"
            ),
            id="spans: the answer of another service, many times",
        ),
        pytest.param(
            evidence(900, 60, Spent(820, 20, "client", "Charge", "", "payments"), states={"self": (80, 40)}),
            "answer of payments",
            "waits for the answer of `payments`, `Charge`: 820 ms of 900 ms, usually 20 ms",
            id="spans: a service that is known by its name",
        ),
        pytest.param(
            evidence(
                400,
                60,
                Spent(330, 0, "client", "GET", "payments:8080", "payments", result="503", times=3),
                states={"self": (70, 60)},
            ),
            "GET fails",
            "repeats `GET` to payments:8080 that fails (503), 3 times, usually never: 330 ms of 400 ms, usually 0",
            id="spans: calls that fail and are tried again",
        ),
        pytest.param(
            evidence(400, 60, Spent(340, 5, "self", "render"), states={"self": (390, 50)}),
            "own code render",
            "is in its own code, most of it in `render`: 390 ms of 400 ms, usually 50 ms",
            id="spans: own code",
        ),
        pytest.param(
            evidence(400, 60, states={"self": (390, 50)}),
            "own code",
            "is in its own code: 390 ms of 400 ms, usually 50 ms",
            id="spans: own code all over",
        ),
        pytest.param(
            evidence(400, 60, Spent(340, 5, "producer", "publish", "orders"), states={"self": (60, 55)}),
            "messages to orders",
            "hands messages over to orders: 340 ms of 400 ms, usually 5 ms",
            id="spans: messages",
        ),
        pytest.param(
            evidence(400, 60, states={"self": (60, 55), "server": (340, 5)}),
            "slower",
            (
                "nothing sets it apart from normal requests but that it takes longer: 400 ms, usually 60 ms; most of "
                "that: waits for another service: 340 ms of 400 ms, usually 5 ms"
            ),
            id="spans: in another service",
        ),
        pytest.param(
            evidence(12, 60, Repeated(("Charge",), 0, 1, -9), states={"self": (12, 60)}, syscalls=(2, 9)),
            "ends early",
            "makes only 2 operations, usually 9; it takes 12 ms, usually 60 ms",
            id="spans: ends early",
        ),
        pytest.param(
            evidence(
                66.8,
                8,
                Spent(0.5, 0, "RS", "connect", "127.0.0.1:55045", result="ECONNREFUSED", times=23.5),
                Spent(0.04, 0, "RS", "getsockopt", "127.0.0.1:55045", result="ECONNREFUSED", times=23.5),
                Spent(48.2, 0, "BS", "clock_nanosleep", times=22.5),
                states={"RU": (18, 8)},
                requests=57,
            ),
            "connect refused",
            (
                "repeats connect() to 127.0.0.1:55045 that is refused, 23.5 times a request, usually never, and "
                "sleeps in between: 48.7 ms of 66.8 ms, usually 0"
            ),
            id="a refused connect, and the question for it",
        ),
    ],
)
def test_each_kind_of_trouble_is_told_with_its_figures(found, name, told):
    assert (title(found), cause(found)) == (name, told)


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


@given(
    ms=st.floats(0.001, 1e6),
    usual_ms=st.floats(0.001, 1e6) | st.just(math.nan),
    found=st.lists(SPENT | REPEATED, max_size=12),
    requests=st.integers(1, 1000),
    explained=st.booleans(),
)
def test_whatever_the_evidence_it_is_one_printable_clause_of_bounded_length(ms, usual_ms, found, requests, explained):
    known = evidence(ms, usual_ms, *found, requests=requests, explained=explained)
    told, name = cause(known), title(known)
    assert told
    assert told.isprintable()
    assert not told.endswith(".")
    assert len(told) <= TOLD * (2 * LONGEST_NAME + 2 * LONGEST_OBJECT + 300)
    assert name
    assert name.isprintable()
    assert len(name) <= LONGEST_TITLE
    assert (told, name) == (cause(known), title(known))


@given(first=SPENT, others=st.lists(SPENT, max_size=8))
def test_what_takes_most_is_told_before_what_takes_less(first, others):
    worst = first._replace(ms=1e5, usual_ms=0.0, times=1.0, usual_times=0.0, share=1.0, statistic=50.0)
    known = evidence(1.5e5, 100.0, worst, *[each._replace(times=0.0, result="") for each in others])
    titles = {title(known), title(evidence(1.5e5, 100.0, worst))}
    assert len(titles) == 1 or "slower" in titles  # of some waits nothing but the state is known


def test_of_long_names_both_ends_of_a_path_and_the_beginning_of_a_process_are_told():
    path = "/srv/" + "a" * 300 + "/template.php"
    told = cause(evidence(400, 30, Spent(350, 0, "BT", "flock", path, "x" * 300)))
    assert "/srv/aaaa" in told
    assert "a/template.php" in told
    assert f"`{'x' * (LONGEST_NAME - 3)}...`" in told
    assert len(told) < 220


def test_names_are_data():
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
