"""Which members count as a pool, from when to when, and how many at most."""

from __future__ import annotations

import pytest

from laggard.producers.host.pools.grouping import MAX_MEMBERS, MAX_POOLS, Grouping, Member


def members(count: int, pool: str = "a", owner: str = "a[1@1]", start_s: float = 0.0, first: int = 0) -> list[Member]:
    return [Member(pool, owner, f"a[{n}@9]", "a", n, start_s) for n in range(first, first + count)]


@pytest.fixture
def grouping() -> Grouping:
    return Grouping("web-1", ("cpu_user_ratio",), minimum=3, settled_s=10.0)


def sizes(grouping: Grouping, some: list[Member], boot_s: float = 100.0) -> dict[str, int]:
    return {pool.key: len(pool.places) for pool in grouping.group(some, boot_s)}


def test_a_pool_says_whose_its_members_are(grouping: Grouping) -> None:
    [pool] = grouping.group(members(3, "php/pool www", owner="p/hp[1@1]", first=4), 100.0)
    assert pool.key == "web-1/php/pool www"
    assert pool.layout.rows == ("p:hp[1@1]/a[4@9]", "p:hp[1@1]/a[5@9]", "p:hp[1@1]/a[6@9]")
    assert pool.layout.names == ("a", "a", "a")
    assert pool.places == [4, 5, 6]


def test_too_few_are_none(grouping: Grouping) -> None:
    assert sizes(grouping, members(2)) == {}
    assert not grouping.waits


def test_members_that_have_just_begun_are_awaited(grouping: Grouping) -> None:
    assert sizes(grouping, members(3, start_s=95.0)) == {}
    assert grouping.waits
    assert sizes(grouping, members(3, start_s=95.0), boot_s=104.9) == {}
    assert sizes(grouping, members(3, start_s=95.0), boot_s=105.0) == {"web-1/a": 3}
    assert not grouping.waits


def test_what_lives_shortly_makes_no_pool(grouping: Grouping) -> None:
    for second in range(100):
        assert sizes(grouping, members(8, start_s=second, first=second), boot_s=second + 0.5) == {}


def test_a_pool_is_one_until_the_last_member_is_gone(grouping: Grouping) -> None:
    assert sizes(grouping, members(3)) == {"web-1/a": 3}
    assert sizes(grouping, members(1)) == {"web-1/a": 1}
    assert sizes(grouping, members(1) + members(4, start_s=99.0, first=10)) == {"web-1/a": 5}, "new ones at once"
    assert sizes(grouping, []) == {}
    assert sizes(grouping, members(2)) == {}


def test_each_owner_has_to_have_enough(grouping: Grouping) -> None:
    some = members(3) + members(2, owner="a[2@2]", first=5) + members(4, owner="a[3@3]", first=10)
    [pool] = grouping.group(some, 100.0)
    assert pool.places == [0, 1, 2, 10, 11, 12, 13]


def test_what_is_over_is_left_out_and_counted_those_found_first_stay(grouping: Grouping) -> None:
    first = members(3, "z")
    assert sizes(grouping, first) == {"web-1/z": 3}
    many = [each for n in range(MAX_POOLS) for each in members(3, f"p{n:03}", first=10 * n)]
    found = sizes(grouping, many + first)
    assert len(found) == MAX_POOLS
    assert found["web-1/z"] == 3
    assert grouping.left_out == 3
    assert sizes(grouping, first) == {"web-1/z": 3}
    assert grouping.left_out == 0


def test_members_are_bounded_together(grouping: Grouping) -> None:
    large = members(MAX_MEMBERS - 2, "large")
    assert sizes(grouping, large + members(3, "small", first=MAX_MEMBERS)) == {"web-1/large": MAX_MEMBERS - 2}
    assert grouping.left_out == 3


def test_a_key_that_is_too_long_is_left_out() -> None:
    grouping = Grouping("h" * 250, ("cpu_user_ratio",))
    assert sizes(grouping, members(3, "ab") + members(4, "abc")) == {f"{'h' * 250}/ab": 3}
    assert grouping.left_out == 4
