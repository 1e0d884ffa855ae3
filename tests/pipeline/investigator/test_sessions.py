from __future__ import annotations

from laggard.pipeline.investigator.sessions import IDLE_S, LONGEST_S, MOST_SESSIONS, Sessions


class Clock:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


def test_a_session_is_opened_by_both_of_its_secrets_of_which_nothing_is_kept() -> None:
    sessions = Sessions()
    one, other = sessions.open(writes=True), sessions.open(writes=False)
    assert sessions.writes(one.cookie, one.key) is True
    assert sessions.writes(other.cookie, other.key) is False
    for cookie, key in [
        (one.cookie, other.key),
        (other.cookie, one.key),
        (one.key, one.cookie),
        ("", ""),
        ("é", "\ud800"),
    ]:
        assert sessions.writes(cookie, key) is None
    secrets = {one.cookie, one.key, other.cookie, other.key}
    assert len(secrets) == 4
    assert not [each for each in secrets if each in repr(sessions._sessions)]


def test_an_idle_session_ends() -> None:
    clock = Clock()
    sessions = Sessions(clock)
    told = sessions.open(writes=True)
    for _ in range(3):
        clock.seconds += IDLE_S - 1
        assert sessions.writes(told.cookie, told.key)
    clock.seconds += IDLE_S - 1
    assert sessions.writes(told.cookie, told.key, using=False), "which is no use of it"
    clock.seconds += 1
    assert sessions.writes(told.cookie, told.key) is None


def test_no_use_keeps_a_session_for_ever() -> None:
    clock = Clock()
    sessions = Sessions(clock)
    told = sessions.open(writes=True)
    while clock.seconds < 1000.0 + LONGEST_S - IDLE_S / 2:
        assert sessions.writes(told.cookie, told.key)
        clock.seconds += IDLE_S / 2
    clock.seconds += IDLE_S / 2
    assert sessions.writes(told.cookie, told.key) is None


def test_a_session_ends_when_it_is_told_to() -> None:
    sessions = Sessions()
    told, other = sessions.open(writes=True), sessions.open(writes=True)
    sessions.end(told.cookie)
    sessions.end(told.cookie)
    assert sessions.writes(told.cookie, told.key) is None
    assert sessions.writes(other.cookie, other.key)


def test_there_are_not_too_many() -> None:
    clock = Clock()
    sessions = Sessions(clock)
    first, second = sessions.open(writes=True), sessions.open(writes=True)
    for _ in range(MOST_SESSIONS - 2):
        clock.seconds += 1.0
        sessions.open(writes=True)
    assert sessions.writes(first.cookie, first.key)
    sessions.open(writes=True)
    assert len(sessions) == MOST_SESSIONS
    assert sessions.writes(second.cookie, second.key) is None, "the one that was used least recently goes"
    assert sessions.writes(first.cookie, first.key)
    clock.seconds += LONGEST_S
    sessions.open(writes=True)
    assert len(sessions) == 1, "those that are over go when another one is opened"
