"""What goes wrong in the lab, for which requests, and what a sentence has to say that names it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

from tests.evaluation.requests.lab.injecting import (
    HOLD_ROW,
    HOLD_TABLES,
    be_late,
    chore,
    flush,
    forget_file,
    hold_file,
    keep_redis_busy,
    recommender,
    switch,
    take_cpu,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import ExitStack

    from tests.evaluation.requests.lab.injecting import Once
    from tests.evaluation.requests.lab.servers import Server


@dataclass(frozen=True, slots=True)
class Trouble:
    """One kind.

    Attributes:
        name: of it.
        server: whose requests it befalls.
        title: in words.
        prepare: makes the means by which it is done.
        seconds: shortest and longest that it lasts each time.
        every_s: mean time from its end to when it comes again.
        phases: of the application's own account in which a request loses time by it; none where it can be anywhere.
        after_s: how long after its end requests may still lose time by it.
        words: a sentence names the cause where it has, of each line, one of the texts; ports in braces are filled in.
        wrong: texts that a sentence must not have.
        main: whether its main cause must have the words: what is before the first `; and`.

    """

    name: str
    server: Literal["blog", "shop", "wordpress"]
    title: str
    prepare: Callable[[Server, ExitStack], Once]
    seconds: tuple[float, float]
    every_s: float
    phases: tuple[str, ...]
    after_s: float
    words: tuple[tuple[str, ...], ...]
    wrong: tuple[str, ...] = ()
    main: bool = False

    def named(self, sentence: str, ports: Mapping[str, int]) -> bool:
        """Whether a sentence says what it was."""
        said = sentence.lower()
        if self.main:
            said, _, _ = said.partition("; and ")
        right = all(any(word.format(**ports) in said for word in line) for line in self.words)
        return right and not any(word in said for word in self.wrong)


_OWN: Final = {
    trouble.name: trouble
    for trouble in (
        Trouble(
            "lock",
            "blog",
            "another process holds the lock of a cache's file",
            hold_file,
            (0.06, 0.16),
            3.5,
            ("cache",),
            0.05,
            (("lock held by",), ("cache/sidebar",), ("worker",)),
        ),
        Trouble(
            "refused",
            "blog",
            "a service is away, and its connection is tried again",
            recommender("away"),
            (0.06, 0.16),
            1.0,
            ("recommend",),
            0.05,
            (("connect",), ("refused", "repeats"), ("127.0.0.1:{recommender}",)),
        ),
        Trouble(
            "connect",
            "blog",
            "a service does not take connections, its queue is full",
            recommender("deaf"),
            (0.15, 0.3),
            2.5,
            ("recommend",),
            2.5,
            (("connect",), ("waits",), ("127.0.0.1:{recommender}",)),
        ),
        Trouble(
            "opcache",
            "blog",
            "what is kept of compiled programs is thrown away",
            flush,
            (0.0, 0.0),
            2.5,
            ("include",),
            1.5,
            (("computes", "fcntl"), ("repeats", "more system calls")),
        ),
        Trouble(
            "cpu", "blog", "a neighbour takes the CPU", take_cpu, (0.1, 0.3), 2.5, (), 0.0, (("cpu",), ("backup",))
        ),
        Trouble(
            "disk",
            "blog",
            "a file is no longer in memory",
            forget_file,
            (0.3, 0.5),
            1.5,
            ("search",),
            0.1,
            (("disk",), ("index/words",)),
        ),
        Trouble(
            "row",
            "blog",
            "another client holds the lock of a row of the database",
            HOLD_ROW,
            (0.06, 0.16),
            2.0,
            ("query",),
            0.05,
            (("waits for the answer of",), ("127.0.0.1:{mariadb}", "mariadbd")),
        ),
        Trouble(
            "redis",
            "shop",
            "a script keeps redis from answering",
            keep_redis_busy,
            (0.06, 0.16),
            3.5,
            ("redis",),
            0.05,
            (("waits for the answer of",), ("127.0.0.1:{redis}", "redis-server")),
        ),
        Trouble(
            "pause",
            "shop",
            "the garbage of a process is collected, and all of its threads wait",
            chore("collect"),
            (0.0, 0.0),
            1.2,
            (),
            0.05,
            (("another thread",), ("futex",)),
        ),
        Trouble(
            "mutex",
            "shop",
            "another thread holds a lock of the process",
            chore("stocktaking"),
            (0.06, 0.16),
            1.0,
            ("stock",),
            0.05,
            (("another thread",), ("futex",)),
        ),
        Trouble(
            "names",
            "shop",
            "a name server is late",
            be_late,
            (0.06, 0.16),
            1.0,
            ("names",),
            0.05,
            (("names",), ("127.0.0.79",)),
        ),
    )
}

LONG_S: Final = (0.3, 0.6)
SELDOM_S: Final = 4.0
"""Of WordPress, whose pages take tens of times as long as those of the blog."""

_LIKE_THE_BLOG: Final = ("lock", "refused", "connect", "cpu", "disk")
_DATABASE: Final = ("mariadbd", "mariadb.socket", "mysqld")

_ON_WORDPRESS: Final = [
    *(_OWN[name] for name in _LIKE_THE_BLOG),
    replace(_OWN["opcache"], words=(("computes", "repeats"),), wrong=("taken by",), main=True),
    Trouble(
        "late",
        "blog",
        "a service answers late",
        recommender("late"),
        LONG_S,
        SELDOM_S,
        ("recommend",),
        0.05,
        (("waits for the answer of",), ("127.0.0.1:{recommender}", "python")),
        wrong=("connection",),
    ),
    replace(
        _OWN["row"],
        words=(("waits for the answer of",), _DATABASE, ("waits for another thread", "sleeps until")),
        wrong=("computes",),
    ),
    Trouble(
        "tables",
        "blog",
        "another client locks tables of the database",
        HOLD_TABLES,
        LONG_S,
        SELDOM_S,
        ("query",),
        0.05,
        (("waits for the answer of",), _DATABASE, ("waits for another thread", "sleeps until")),
        wrong=("computes",),
    ),
    Trouble(
        "query",
        "blog",
        "a query of the page itself computes",
        switch("slow-query"),
        LONG_S,
        SELDOM_S,
        ("query",),
        0.3,
        (("waits for the answer of",), _DATABASE, ("computes",)),
        wrong=("futex", "sleeps until"),
    ),
    Trouble(
        "sleep",
        "blog",
        "the page itself sleeps",
        switch("sleep"),
        LONG_S,
        SELDOM_S,
        ("sleep",),
        0.3,
        (("sleeps",),),
        wrong=("in between", "finds nothing", "waits for the answer of"),
    ),
]

WORDPRESS: Final = {
    f"wordpress-{each.name}": replace(
        each,
        name=f"wordpress-{each.name}",
        server="wordpress",
        seconds=LONG_S if each.seconds[1] else each.seconds,
        every_s=SELDOM_S,
    )
    for each in _ON_WORDPRESS
}
"""Troubles of WordPress. What counts as right was written before the first recording."""

TROUBLES: Final = _OWN | WORDPRESS
"""All by name."""

OURS: Final = tuple(_OWN)
"""Those of the servers that the lab has written itself."""
