"""The comparison of pools on small ones that are made by hand: who is told, as what, where, and who is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from laggard.operators.covariance import Covariance, detector, present
from laggard.operators.covariance.published import published
from tests.operators.conftest import Names, plain, size

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from laggard.operators.covariance import Deviation

WINDOWS = (6, 24)
INTERVAL_S = 5.0
CPU, HELD, WAIT = "cpu_ratio", "memory_rss_bytes", "cpu_wait_ratio"
FEATURES = (CPU, HELD, WAIT)


def layout(rows: Sequence[str], features: Sequence[str] = FEATURES) -> Names:
    return Names(tuple(rows), tuple(rows), tuple(features))


def workers(count: int) -> list[str]:
    return [f"worker-{each}" for each in range(count)]


def healthy(ticks: int, members: int, seed: int = 1) -> np.ndarray:
    """Shape (ticks, members, 3): what members differ by is chance."""
    chance = np.random.default_rng(seed)
    return np.stack(
        [
            0.3 + 0.03 * chance.standard_normal((ticks, members)),
            1e8 + 1e6 * chance.standard_normal((ticks, members)),
            0.05 + 0.01 * np.abs(chance.standard_normal((ticks, members))),
        ],
        axis=2,
    )


def feed(pool: Covariance, names: Names, values: np.ndarray, begin: int = 0) -> list[tuple[Deviation, ...]]:
    """Score and learn; who was told at each tick."""
    told = []
    for tick, each in enumerate(values, begin):
        scores = pool.score(INTERVAL_S * tick, names, each)
        assert np.isfinite(scores.score)
        told.append(tuple(found for found in scores.deviations if found.score > 1.0))
        pool.learn(INTERVAL_S * tick, names, each)
    return told


def pool_of(**changed: Any) -> Covariance:
    return Covariance(windows=WINDOWS, **changed)


def deviating(pool: Covariance) -> list[str]:
    """Who is told in the report, worst first."""
    return [each.rows[0] for each in pool.report(replicates=0).ranking if each.score > 1.0]


def identical(ticks: int, members: int) -> np.ndarray:
    return np.repeat(healthy(ticks, 1), members, axis=1)


def constant_metric(ticks: int, members: int) -> np.ndarray:
    values = healthy(ticks, members)
    values[..., 1] = 7.0
    return values


def nothing_at_all(ticks: int, members: int) -> np.ndarray:
    return np.full((ticks, members, 3), np.nan)


def one_metric_missing(ticks: int, members: int) -> np.ndarray:
    values = healthy(ticks, members)
    values[..., 2] = np.nan
    return values


def holes(ticks: int, members: int) -> np.ndarray:
    values = healthy(ticks, members)
    values[np.random.default_rng(3).random(values.shape) < 0.3] = np.nan
    return values


def idle(ticks: int, members: int) -> np.ndarray:
    return np.zeros((ticks, members, 3))


def all_different(ticks: int, members: int) -> np.ndarray:
    """Each at a level of its own, evenly apart."""
    values: np.ndarray = healthy(ticks, members) * (1.0 + np.arange(members))[:, None]
    return values


def far_from_zero(ticks: int, members: int) -> np.ndarray:
    values: np.ndarray = 1e9 + healthy(ticks, members) / np.array([1.0, 1e6, 1.0])
    return values


@pytest.mark.parametrize("members", [3, *(pytest.param(count, marks=pytest.mark.slow) for count in (1, 2, 6))])
@pytest.mark.parametrize(
    "make",
    [
        healthy,
        identical,
        constant_metric,
        nothing_at_all,
        one_metric_missing,
        holes,
        idle,
        all_different,
        far_from_zero,
    ],
)
def test_no_member_of_a_degenerate_pool_deviates(make: Callable[[int, int], np.ndarray], members: int) -> None:
    pool = pool_of()
    values = make(200, members)
    told = feed(pool, layout(workers(members)), values)
    report = pool.report(replicates=20)
    assert not any(told)
    assert report.ranking == ()
    assert report.members == (0 if make is nothing_at_all else members)
    for level in report.levels:
        if level.dendrogram is not None:
            assert np.isfinite(level.dendrogram.merges).all()


def test_two_who_differ_do_not_say_which_of_them_is_wrong() -> None:
    pool, values = pool_of(), healthy(200, 2)
    values[100:, 1, 0] += 0.6
    assert not any(feed(pool, layout(workers(2)), values))
    assert deviating(pool) == []


@pytest.mark.parametrize("frozen", [1, 2])
def test_a_metric_that_does_not_vary_hides_nothing(frozen: int) -> None:
    pool, values = pool_of(), healthy(300, 6)
    values[..., frozen] = [0.0, 7.0, 1e9][frozen]
    values[200:, 4, 0] += 0.5
    feed(pool, layout(workers(6)), values)
    (found,) = pool.report(replicates=0).ranking
    assert found.rows == ("worker-4",)
    assert found.features[0].feature == CPU


def test_the_only_active_member_of_an_idle_pool_is_reported() -> None:
    pool, values = pool_of(), idle(300, 6)
    values[200:, 2, 0] = 0.5
    told = feed(pool, layout(workers(6)), values)
    assert not any(told[:200])
    assert {each.rows for each in told[230]} == {("worker-2",)}


@pytest.mark.parametrize("offset", [0.0, 1e9])
def test_a_share_of_the_level_is_found_at_any_offset(offset: float) -> None:
    pool, values = pool_of(), healthy(300, 6)
    values[..., 0] = offset + (1.0 + offset) * 0.01 * np.random.default_rng(4).standard_normal((300, 6))
    values[200:, 1, 0] += 0.3 * (1.0 + offset)
    told = feed(pool, layout(workers(6)), values)
    assert not any(told[:200])
    assert deviating(pool) == ["worker-1"]


def test_members_that_come_and_go_each_tick_are_taken() -> None:
    """No member stays long enough to be compared; then all stay, and one deviates."""
    pool, chance = pool_of(), np.random.default_rng(5)
    for tick in range(200):
        rows = [f"worker-{each}" for each in chance.choice(400, int(chance.integers(0, 9)), replace=False)]
        values = healthy(1, len(rows), tick)[0] if rows else np.zeros((0, 3))
        scores = pool.score(INTERVAL_S * tick, layout(rows), values)
        assert scores.deviations == ()
        assert scores.members == (len(rows) if tick else 0)
        pool.learn(INTERVAL_S * tick, layout(rows), values)
    values = healthy(200, 6)
    values[120:, 3, 0] += 0.6
    feed(pool, layout(workers(6)), values, 200)
    assert deviating(pool) == ["worker-3"]


# What deviates, and how.


def spike(values: np.ndarray, member: int) -> None:
    values[250:262, member, 0] += 0.6


def busy(values: np.ndarray, member: int) -> None:
    values[250:, member, 0] += 0.6


def stuck(values: np.ndarray, member: int) -> None:
    values[250:, member, 0] = 0.0


def slower(values: np.ndarray, member: int) -> None:
    values[250:, member, 2] += 0.3


def does_less(values: np.ndarray, member: int) -> None:
    values[250:, member, 0] *= 0.4


def leak(values: np.ndarray, member: int) -> None:
    values[250:, member, 1] += np.linspace(0.0, 5e8, len(values) - 250)


@pytest.mark.parametrize(
    ("harm", "kind", "feature"),
    [
        (spike, "spike", CPU),
        pytest.param(busy, "busy", CPU, marks=pytest.mark.slow),
        pytest.param(stuck, "stuck", CPU, marks=pytest.mark.slow),
        pytest.param(slower, "slower", WAIT, marks=pytest.mark.slow),
        (does_less, "slower", CPU),
        (leak, "leak", HELD),
    ],
)
def test_who_deviates_is_told_with_kind_metric_and_time(
    harm: Callable[[np.ndarray, int], None], kind: str, feature: str
) -> None:
    pool, values = pool_of(), healthy(400, 8)
    harm(values, 5)
    told = feed(pool, layout(workers(8)), values)
    assert not any(told[:250])
    first = next(tick for tick in range(250, 400) if told[tick])
    assert first < 300
    assert {each.rows for tick in told for each in tick} == {("worker-5",)}
    (found,) = pool.report(replicates=50).ranking
    assert (found.rows, found.name, found.kind, found.level) == (("worker-5",), "worker-5", kind, "")
    assert found.score > 1.0
    worst = found.features[0]
    assert worst.feature == feature
    assert (worst.value > worst.mean) == (kind != "stuck" and harm is not does_less)
    assert worst.standard_deviation > 0.0
    assert 245 * INTERVAL_S <= found.begin_ts <= 300 * INTERVAL_S
    if kind == "spike":
        assert found.begin_ts < found.end_ts < 400 * INTERVAL_S
    assert found.height > 0.0
    assert 0.0 <= found.p_value <= 100.0


@pytest.mark.slow
def test_one_whose_metrics_go_together_otherwise_is_told_though_each_alone_is_as_usual() -> None:
    """All hold more where they do more; one begins to hold less then. No metric leaves its band."""
    pool, values, chance = pool_of(), healthy(500, 8), np.random.default_rng(3)
    load, noise = chance.standard_normal((2, 500, 8))
    values[..., 0] = 0.3 + 0.03 * load
    held = load + 0.2 * noise
    held[250:, 5] *= -1.0
    values[..., 1] = 1e8 + 1e6 * held
    told = feed(pool, layout(workers(8)), values)
    assert not any(told[:250])
    assert deviating(pool) == ["worker-5"]
    (found,) = pool.report(replicates=0).ranking
    assert {each.feature for each in found.features} <= {CPU, HELD}


@pytest.mark.slow
def test_one_who_needs_more_for_the_same_is_told_though_all_do_now_more_now_less() -> None:
    """15 % of what each request costs are a half of what requests vary by."""
    pool, chance = pool_of(), np.random.default_rng(3)
    requests = chance.normal(100.0, 30.0, (500, 8))
    cpu = 0.003 * requests + 0.003 * chance.standard_normal((500, 8))
    cpu[250:, 4] *= 1.15
    told = feed(pool, layout(workers(8), ("requests_per_s", CPU)), np.stack([requests, cpu], axis=2))
    assert not any(told[:250])
    assert any(told[250:300])
    (found,) = pool.report(replicates=0).ranking
    assert (found.rows, found.features[0].feature) == (("worker-4",), CPU)


@pytest.mark.slow
def test_the_worst_of_two_comes_first() -> None:
    pool, values = pool_of(), healthy(400, 9)
    values[300:, 2, 0] += 0.25
    values[300:, 6, 0] += 2.5
    feed(pool, layout(workers(9)), values)
    assert deviating(pool) == ["worker-6", "worker-2"]
    ranking = pool.score(400 * INTERVAL_S, layout(workers(9)), values[-1]).ranking(2, 1)
    assert [row.row for row in ranking.rows] == ["worker-6", "worker-2"]
    assert [len(row.features) for row in ranking.rows] == [1, 1]
    assert ranking.score == ranking.rows[0].score > 1.0


def test_deviations_below_the_resolution_are_not_reported() -> None:
    values = healthy(300, 6)
    values[200:, 4, 0] += 0.3
    coarse = pool_of(resolution={"_ratio": 1.0, "_bytes": 1e6})
    assert not any(feed(coarse, layout(workers(6)), values))
    assert deviating(coarse) == []


@pytest.mark.slow
@pytest.mark.parametrize("members", [3, 10])
def test_a_healthy_pool_is_left_alone_for_long(members: int) -> None:
    pool = pool_of()
    told = feed(pool, layout(workers(members)), healthy(1500, members, 8))
    assert not any(told)
    assert deviating(pool) == []


# Levels.


def hosts(*names: str, members: int = 5) -> list[str]:
    return [f"{host}/worker-{each}" for host in names for each in range(members)]


@pytest.mark.slow
def test_of_two_hosts_a_member_of_one_is_found_among_its_own() -> None:
    """Members of hosts that differ are compared with those of their own, and two hosts not with each other."""
    pool, values = pool_of(), healthy(300, 13)
    values[:, 9:] *= 2.0
    names = layout([*hosts("a", members=9), *hosts("b", members=4)])
    quiet = feed(pool, names, values[:200])
    assert not any(quiet)
    values[200:, 11, 0] += 0.8
    feed(pool, names, values[200:], 200)
    (found,) = pool.report(replicates=0).ranking
    assert (found.rows, found.level) == (("b/worker-2",), "b")
    assert "b" in [level.path for level in pool.report(replicates=0).levels]
    assert "a" not in [level.path for level in pool.report(replicates=0).levels]


@pytest.mark.slow
def test_a_group_whose_mean_deviates_is_told_as_one() -> None:
    pool, values = pool_of(), healthy(300, 20)
    values[200:, 10:15, 0] += 0.5
    told = feed(pool, layout(hosts("a", "b", "c", "d")), values)
    report = pool.report(replicates=0)
    assert {each.rows for tick in told for each in tick} == {("c",)}
    assert [(each.rows, each.name, each.level) for each in report.ranking] == [(("c",), "c", "")]
    assert report.members == 20
    top = report.levels[0]
    assert top.dendrogram is not None
    assert (top.path, top.dendrogram.labels) == ("", ("a", "b", "c", "d"))


@pytest.mark.slow
def test_groups_stand_before_their_members() -> None:
    """A member that is so far out that its host's mean is as well."""
    pool, values = pool_of(), healthy(300, 20)
    values[200:, 12, 0] += 5.0
    feed(pool, layout(hosts("a", "b", "c", "d")), values)
    assert deviating(pool) == ["c", "c/worker-2"]
    assert {level.path for level in pool.report(replicates=0).levels} == {"", "c"}


@pytest.mark.slow
def test_paths_of_any_depth_are_told() -> None:
    """Parts below the deepest level belong to the last one."""
    pool, values = pool_of(), healthy(400, 6)
    rows = [f"zone/web-1/java/pool/worker/{each}" for each in range(6)]
    values[200:, 1, 0] += 0.6
    feed(pool, layout(rows), values[:300])
    (found,) = pool.report(replicates=0).ranking
    assert (found.rows, found.level) == ((rows[1],), "zone/web-1/java")
    values[300:, 4] = np.nan
    feed(pool, layout(rows), values[300:], 300)
    kinds = {each.rows[0]: each.kind for each in pool.report(replicates=0).ranking}
    assert kinds[rows[4]] == "left"


def test_of_more_members_than_a_dendrogram_has_leaves_it_shows_those_that_deviate() -> None:
    more = present.MOST_LEAVES + 6
    pool, values = pool_of(), healthy(80, more)
    values[50:, -1, 0] += 0.8
    feed(pool, layout(workers(more)), values)
    tree = pool.report(replicates=0).levels[0].dendrogram
    assert tree is not None
    assert tree.labels == (*workers(present.MOST_LEAVES - 1), f"worker-{more - 1}")


# Groups that come one after the other.


def waves(count: int, ticks: int, harmed: int | None) -> Covariance:
    """Waves of five threads, each after the last, that hold more and more; one holds far more."""
    pool = pool_of()
    for wave in range(count):
        values = healthy(ticks, 5, wave)
        values[..., 1] += np.linspace(0.0, 2e7, ticks)[:, None]
        if wave == harmed:
            values[..., 1] += np.linspace(0.0, 4e8, ticks)[:, None]
        feed(pool, layout(hosts(f"wave-{wave}")), values, wave * ticks)
    return pool


@pytest.mark.slow
def test_waves_are_compared_with_each_other_by_age() -> None:
    assert deviating(waves(6, 100, None)) == []
    pool = waves(6, 100, 3)
    (found,) = pool.report(replicates=50).ranking
    assert (found.rows, found.level, found.features[0].feature) == (("wave-3",), "", HELD)
    assert 300 * INTERVAL_S <= found.begin_ts <= 400 * INTERVAL_S
    assert 300 * INTERVAL_S <= found.end_ts <= 400 * INTERVAL_S
    top = pool.report(replicates=50).levels[0]
    assert top.dendrogram is not None
    assert set(top.dendrogram.labels) == {f"wave-{each}" for each in range(6)}


@pytest.mark.slow
def test_waves_without_paths_are_those_who_began_together() -> None:
    pool, ticks = pool_of(), 100
    for wave in range(5):
        values = healthy(ticks, 5, wave)
        if wave == 2:
            values[:, 3, 0] += np.where(np.arange(ticks) >= 60, 0.6, 0.0)
        feed(pool, layout([f"thread-{5 * wave + each}" for each in range(5)]), values, wave * ticks)
    report = pool.report(replicates=0)
    found = next(each for each in report.ranking if each.rows == ("thread-13",))
    assert found.level == "wave 3"
    assert {each.rows[0] for each in report.ranking} <= {"thread-13", "wave 3"}
    tree = report.levels[0].dendrogram
    assert tree is not None
    assert {"wave 2", "wave 3", "wave 4"} <= set(tree.labels), "as groups, by what each was like in its time"


@pytest.mark.slow
def test_members_that_are_replaced_one_by_one_are_no_trouble() -> None:
    """A rolling restart: who is new holds less, as all did when they were."""
    pool, begins, members = pool_of(), np.zeros(8), 8
    chance = np.random.default_rng(9)
    for tick in range(700):
        if tick >= 400 and (tick - 400) % 25 == 0 and (tick - 400) // 25 < members:
            begins[(tick - 400) // 25] = tick
        rows = [f"worker-{each}[{int(begin)}]" for each, begin in enumerate(begins)]
        values = healthy(1, members, tick)[0]
        values[:, 1] = 1e8 + 2e5 * (tick - begins) + 1e6 * chance.standard_normal(members)
        scores = pool.score(INTERVAL_S * tick, layout(rows), values)
        assert [each for each in scores.deviations if each.score > 1.0] == [], tick
        pool.learn(INTERVAL_S * tick, layout(rows), values)
    assert deviating(pool) == []


# Who left.


@pytest.mark.slow
def test_who_leaves_a_pool_of_fixed_size_is_told_until_it_is_back() -> None:
    pool, values, names = pool_of(), healthy(500, 6), layout(workers(6))
    values[200:300, 2] = np.nan
    told = feed(pool, names, values[:300])
    kinds = {(each.rows, each.kind) for tick in told for each in tick}
    assert kinds == {(("worker-2",), "left")}
    (found,) = pool.report(replicates=0).ranking
    assert found.begin_ts == 199 * INTERVAL_S
    assert found.score > 1.0
    told = feed(pool, names, values[300:], 300)
    assert not any(told[1:])
    assert deviating(pool) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rows", "left"),
    [(workers(5), [(("worker-5",), "left")]), ([*workers(5), "worker-9"], []), ([], [])],
    ids=["who is not among the rows any more", "not whose place is taken", "nobody of a pool that ends"],
)
def test_who_has_left(rows: list[str], left: list[tuple[tuple[str, ...], str]]) -> None:
    pool, values = pool_of(), healthy(300, 6)
    feed(pool, layout(workers(6)), values[:200])
    told = feed(pool, layout(rows), values[200:, : len(rows)], 200)
    report = pool.report(replicates=0)
    assert [(each.rows, each.kind) for each in report.ranking] == left
    assert any(told) == bool(left)
    assert (report.members, report.ts) == (len(rows), 299 * INTERVAL_S)


@pytest.mark.slow
@pytest.mark.parametrize("period", [7, 30, 100])
def test_departures_from_a_pool_that_scales_in_and_out_are_not_reported(period: int) -> None:
    pool, chance = pool_of(), np.random.default_rng(period)
    size, fresh, rows = 8, 8, workers(8)
    for tick in range(900):
        if tick % period == period - 1:
            size = int(chance.integers(4, 13))
            while len(rows) < size:
                rows.append(f"worker-{fresh}")
                fresh += 1
            rows = rows[len(rows) - size :]
        scores = pool.score(INTERVAL_S * tick, names := layout(rows), values := healthy(1, len(rows), tick)[0])
        pool.learn(INTERVAL_S * tick, names, values)
        # Whether it is normal that members go cannot be known of the first ones.
        if tick > 3 * period + 60:
            assert scores.deviations == (), tick


# Features.


@pytest.mark.slow
def test_of_a_feature_that_comes_later_all_is_learned_anew() -> None:
    pool, values, names = pool_of(), healthy(400, 6), workers(6)
    feed(pool, layout(names, FEATURES[:2]), values[:150, :, :2])
    told = feed(pool, layout(names), values[150:300], 150)
    assert not any(told)
    values[300:, 3, 2] += 0.5
    feed(pool, layout(names), values[300:], 300)
    (found,) = pool.report(replicates=0).ranking
    assert (found.rows, found.features[0].feature) == (("worker-3",), WAIT)


@pytest.mark.slow
def test_features_in_another_order_or_fewer_of_them_are_the_same_features() -> None:
    pool, values, names = pool_of(), healthy(400, 6), workers(6)
    feed(pool, layout(names), values[:200])
    feed(pool, layout(names, FEATURES[::-1]), values[200:250, :, ::-1], 200)
    values[300:, 3, 0] += 0.5
    told = feed(pool, layout(names, FEATURES[:1]), values[250:, :, :1], 250)
    assert not any(told[:50])
    (found,) = pool.report(replicates=0).ranking
    assert (found.rows, found.features[0].feature) == (("worker-3",), CPU)


@pytest.mark.slow
def test_more_features_than_are_compared_do_not_make_it_forget_at_each_tick() -> None:
    """Frames that have other ones of many features in turn."""
    pool, chance = pool_of(), np.random.default_rng(6)
    every = [f"feature_{each}_ratio" for each in range(detector.MOST_FEATURES + 8)]
    names = [layout(workers(5), every[:-8]), layout(workers(5), every[8:])]
    for tick in range(200):
        values = 0.3 + 0.03 * chance.standard_normal((5, detector.MOST_FEATURES))
        if tick >= 120:
            values[2] += 0.6
        pool.learn(INTERVAL_S * tick, names[tick % 2], values)
    assert deviating(pool) == ["worker-2"]


@pytest.mark.slow
def test_features_that_are_all_renamed_are_learned() -> None:
    pool, values, names = pool_of(), healthy(400, 6), workers(6)
    for generation in range(14):
        renamed = [f"{feature}_{generation}_ratio" for feature in FEATURES]
        feed(pool, layout(names, renamed), values[:20], 20 * generation)
    values[250:, 3, 0] += 0.5
    feed(pool, layout(names), values, 280)
    assert deviating(pool) == ["worker-3"]


# Limits.


def test_of_those_that_ended_the_oldest_go_first_and_who_finds_no_room_is_counted() -> None:
    pool = pool_of(limit=6)
    feed(pool, layout(["a", "b", "c", "d"]), healthy(60, 4))
    feed(pool, layout(["b", "c", "d"]), healthy(40, 3), 60)
    feed(pool, layout(["c", "d"]), healthy(40, 2), 100)
    assert pool.refused == 0

    def known() -> set[str]:
        return {node[0][0] for node in pool.snapshot()["depths"][0]["nodes"]}

    assert known() == {"a", "b", "c", "d"}
    feed(pool, layout(["c", "d", "e", "f", "g"]), healthy(30, 5), 140)
    assert known() == {"b", "c", "d", "e", "f", "g"}
    rows = [*"cdefghijk"]
    feed(pool, layout(rows), healthy(5, 9), 170)
    assert known() == {"c", "d", "e", "f", "g", "h"}
    assert pool.refused == 3
    feed(pool, layout(rows[:6]), healthy(1, 6), 175)
    assert pool.refused == 0


@pytest.mark.slow
def test_members_and_groups_that_come_and_go_for_ever_do_not_grow_the_state() -> None:
    pool = pool_of(limit=16)

    def size_after(generations: range) -> int:
        for generation in generations:
            names = layout([f"host-{generation}-{each // 3}/worker[{generation}-{each}]" for each in range(6)])
            for tick in range(30 * generation, 30 * generation + 30):
                pool.learn(INTERVAL_S * tick, names, healthy(1, 6, tick)[0])
        # Courses of groups have a limit of their own, that of `Courses`.
        return size(pool.snapshot() | {"courses": None})

    assert size_after(range(20)) == size_after(range(20, 40))


@pytest.mark.slow
def test_who_is_forgotten_leaves_no_trace_in_a_state_that_is_restored() -> None:
    """Members end after several blocks and are forgotten a day later, while others go on."""
    whole, restored = pool_of(), pool_of()
    values = healthy(420, 8) * (1.0 + np.arange(8))[:, None]
    for tick in range(420):
        names, there = (layout(workers(8)), 8) if tick < 200 else (layout(workers(5)), 5)
        ts = INTERVAL_S * tick + (100_000.0 if tick >= 270 else 0.0)
        if tick % 7 == 3:
            before, restored = restored, pool_of()
            restored.restore(before.snapshot())
        found = []
        for pool in (whole, restored):
            scores = pool.score(ts, names, values[tick, :there])
            pool.learn(ts, names, values[tick, :there])
            found.append(repr((scores.score, scores.deviations, scores.ranking(9, 9))))
        assert found[0] == found[1], tick
    assert plain(restored.snapshot()) == plain(whole.snapshot())
    assert len(whole.snapshot()["depths"][0]["nodes"]) == 5


# What is promised of all it answers.


@pytest.mark.slow
def test_a_report_changes_nothing_and_is_the_same_again() -> None:
    pool, values = pool_of(), healthy(300, 20)
    values[200:, 12, 0] += 0.8
    names = layout(hosts("a", "b", "c", "d"))
    feed(pool, names, values)
    before = plain(pool.snapshot())
    first = repr([(level.path, level.deviations) for level in pool.report(replicates=50).levels])
    assert repr([(level.path, level.deviations) for level in pool.report(replicates=50).levels]) == first
    assert plain(pool.snapshot()) == before
    restored = pool_of()
    restored.restore(pool.snapshot())
    assert repr([(level.path, level.deviations) for level in restored.report(replicates=50).levels]) == first


def test_a_report_of_nothing_is_empty() -> None:
    for pool in (pool_of(), pool_of(method="published")):
        report = pool.report()
        assert (report.members, report.levels, report.ranking, report.young) == (0, (), (), True)


def test_a_pool_is_young_until_enough_was_seen() -> None:
    pool, values, names = pool_of(), healthy(detector.YOUNG_TICKS + 2, 4), layout(workers(4))
    found = []
    for tick, each in enumerate(values):
        found.append(pool.score(INTERVAL_S * tick, names, each).young)
        pool.learn(INTERVAL_S * tick, names, each)
    assert found == [True] * detector.YOUNG_TICKS + [False] * 2
    assert pool.score(1e4, names, values[-1]).age_s == 1e4


def test_clock_steps_and_missing_ticks_blame_no_member() -> None:
    pool, values, names, ts = pool_of(), healthy(400, 6), layout(workers(6)), 1e9
    chance = np.random.default_rng(2)
    for each in values:
        ts += float(chance.choice([5.0, 5.0, 5.0, 0.0, -60.0, 900.0]))
        scores = pool.score(ts, names, each)
        assert [found for found in scores.deviations if found.score > 1.0] == []
        pool.learn(ts, names, each)
    assert deviating(pool) == []


@pytest.mark.parametrize("seed", [1, 2])
def test_as_published_it_ranks_what_the_published_method_ranks(seed: int) -> None:
    pool, values = pool_of(method="published"), healthy(200, 8, seed)
    values[:, 6, 1] += np.linspace(0.0, 2e8, 200)
    rows = workers(8)
    names = layout(rows)
    for tick, each in enumerate(values):
        assert pool.score(INTERVAL_S * tick, names, each).score == 0.0
        pool.learn(INTERVAL_S * tick, names, each)
    report = pool.report(replicates=100)
    # At its first tick a member is told to be there, and counts from the next.
    samples = {row: values[1:, at] for at, row in enumerate(rows)}
    expected = published({"": samples}, replicates=100)[""]
    assert expected.dendrogram is not None
    assert [each.rows for each in report.ranking] == [
        tuple(rows[leaf] for leaf in cluster.leaves) for cluster in expected.ranking
    ]
    assert ("worker-6",) in [each.rows for each in report.ranking]
    tree = report.levels[0].dendrogram
    assert tree is not None
    assert tree.labels == expected.dendrogram.labels
    np.testing.assert_allclose(tree.merges, expected.dendrogram.merges, rtol=1e-6)
    np.testing.assert_allclose(tree.p_values, expected.dendrogram.p_values, atol=1e-6)


def test_a_state_of_other_windows_is_refused() -> None:
    pool = pool_of()
    feed(pool, layout(workers(4)), healthy(30, 4))
    with pytest.raises(ValueError, match="expected the shape"):
        Covariance(windows=(6, 24, 48)).restore(pool.snapshot())
