"""Requests as connections: whose, on which thread, from when to when."""

from __future__ import annotations

import numpy as np
import pytest

from laggard.producers.trace.boundaries.connections import Connections
from laggard.producers.trace.events import EVENT, NO_TEXT, Events, Kind, Texts

ACCEPT, READ, WRITE, CLOSE, SHUTDOWN = 288, 0, 1, 3, 48
SERVER, WORKER, CHILD = 100, 101, 200

Step = tuple[Kind, int, int, int, str]  # kind, thread, a, b, text


def call(thread: int, number: int, descriptor: int, result: int) -> list[Step]:
    return [(Kind.SYSCALL_ENTER, thread, number, descriptor, ""), (Kind.SYSCALL_EXIT, thread, number, result, "")]


BEFORE: list[Step] = [
    (Kind.NAMED, SERVER, SERVER, SERVER, "shopd"),
    (Kind.NAMED, WORKER, WORKER, SERVER, "worker"),
    (Kind.OPENED, SERVER, 3, 0, "0.0.0.0:8080"),
    (Kind.OPENED, SERVER, 4, 0, "0.0.0.0:9999"),
]


def bounds(steps: list[Step], *, pieces: int = 1) -> list[tuple[int, str, int, int, str]]:
    """Time (the step's number), kind, thread, number and text of what is put in."""
    texts = Texts()
    rows = np.zeros(len(steps), EVENT)
    for number, (kind, thread, a, b, text) in enumerate(steps):
        place = texts.place(text) if text else NO_TEXT
        rows[number] = (number, 0, kind, 0, thread, a, b, 0, place, NO_TEXT)
    connections = Connections({8080: "shop"})
    found = [connections.add(Events(part, texts)) for part in np.array_split(rows, pieces)]
    told = np.concatenate([batch.events for batch in found])
    assert (np.diff(told["ts"]) >= 0).all()
    assert len(told) - len(rows) == int(np.isin(told["kind"], (Kind.BEGIN, Kind.END)).sum())
    return [
        (int(row["ts"]) - len(BEFORE), Kind(row["kind"]).name, int(row["tid"]), int(row["a"]), texts[row["text"]])
        for row in told
        if row["kind"] in (Kind.BEGIN, Kind.END)
    ]


@pytest.mark.parametrize("pieces", [1, 3, 50])
def test_one_thread(pieces: int) -> None:
    steps = [
        *call(SERVER, ACCEPT, 3, 7),
        *call(SERVER, READ, 7, 20),
        *call(SERVER, WRITE, 7, 99),
        *call(SERVER, CLOSE, 7, 0),
    ]
    assert bounds([*BEFORE, *steps, *steps], pieces=pieces) == [
        (3, "BEGIN", SERVER, 7, "shop\t"),  # when it has got what is asked
        (6, "END", SERVER, 7, ""),
        (11, "BEGIN", SERVER, 7, "shop\t"),
        (14, "END", SERVER, 7, ""),
    ]


@pytest.mark.parametrize(
    ("steps", "begin", "end", "thread", "descriptor"),
    [
        pytest.param(
            [*call(SERVER, ACCEPT, 3, 7), *call(WORKER, READ, 7, 20), *call(SERVER, CLOSE, 7, 0)],
            *(3, 4, WORKER, 7),
            id="another thread serves it",
        ),
        pytest.param(
            [
                *(*call(SERVER, ACCEPT, 3, 7), *call(SERVER, WRITE, 7, 20)),
                *(*call(SERVER, SHUTDOWN, 7, 0), *call(SERVER, CLOSE, 7, 0)),
            ],
            *(2, 4, SERVER, 7),
            id="the server speaks first",
        ),
        pytest.param(
            [
                *call(SERVER, ACCEPT, 3, 7),
                (Kind.FORK, SERVER, CHILD, CHILD, "shopd"),
                *(*call(SERVER, CLOSE, 7, 0), *call(CHILD, READ, 7, 20)),
                (Kind.EXIT, CHILD, 0, 0, ""),
            ],
            *(6, 7, CHILD, 7),
            id="a forked child serves it",
        ),
        pytest.param(
            [
                (Kind.FORK, SERVER, CHILD, CHILD, "shopd"),
                *(*call(CHILD, ACCEPT, 3, 5), *call(CHILD, READ, 5, 1), *call(CHILD, CLOSE, 5, 0)),
            ],
            *(4, 5, CHILD, 5),
            id="the worker was forked before",
        ),
        pytest.param(
            [
                (Kind.OPENED, SERVER, 9, 0, "[::]:8080"),
                *(*call(SERVER, ACCEPT, 9, 7), *call(SERVER, READ, 7, 20), *call(SERVER, CLOSE, 7, 0)),
            ],
            *(4, 5, SERVER, 7),
            id="the socket is bound meanwhile",
        ),
    ],
)
def test_a_connection_is_one_request(steps: list[Step], begin: int, end: int, thread: int, descriptor: int) -> None:
    expected = [(begin, "BEGIN", thread, descriptor, "shop\t"), (end, "END", thread, descriptor, "")]
    assert bounds([*BEFORE, *steps]) == expected


@pytest.mark.parametrize(
    "steps",
    [
        [*call(SERVER, ACCEPT, 4, 7), *call(SERVER, READ, 7, 20), *call(SERVER, CLOSE, 7, 0)],  # another port
        [*call(SERVER, ACCEPT, 3, -11), *call(SERVER, READ, 7, 20), *call(SERVER, CLOSE, 7, 0)],  # no client came
        [*call(SERVER, ACCEPT, 3, 7), *call(SERVER, READ, 7, 0), *call(SERVER, CLOSE, 7, 0)],  # nothing was asked
        [*call(SERVER, ACCEPT, 3, 7), *call(SERVER, READ, 8, 9), *call(SERVER, CLOSE, 8, 0)],  # another descriptor
        [*call(CHILD, ACCEPT, 3, 7), *call(CHILD, READ, 7, 9), *call(CHILD, CLOSE, 7, 0)],  # another process
        [(Kind.OPENED, SERVER, 3, 0, "/x"), *call(SERVER, ACCEPT, 3, 7), *call(SERVER, READ, 7, 9)],  # no longer that
    ],
)
def test_no_request(steps: list[Step]) -> None:
    assert bounds([*BEFORE, *steps]) == []
