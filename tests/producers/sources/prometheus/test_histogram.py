"""Quantiles of histograms: those of Prometheus itself, and what is to be had of sums."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laggard.producers.sources.prometheus.histogram import Histogram, summed
from laggard.producers.sources.prometheus.page import parse_page
from tests.monitoring.servers import awaited, query, running_prometheus
from tests.producers.sources.prometheus.serving import Served, served

if TYPE_CHECKING:
    from pathlib import Path

QUANTILES = (0.0, 0.1, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)


def histogram(**buckets: float) -> Histogram:
    found = summed([{float(bound.replace("_", ".").replace("m", "-")): count for bound, count in buckets.items()}])
    assert found is not None
    return found


def test_by_hand() -> None:
    some = histogram(**{"0_1": 10.0, "0_5": 30.0, "1": 40.0, "inf": 50.0})
    assert some.quantile(0.1) == 0.05
    assert some.quantile(0.5) == pytest.approx(0.1 + 0.4 * 15 / 20)
    assert some.quantile(0.7) == pytest.approx(0.75)
    assert some.quantile(0.9) == 1.0, "what is above all finite bounds is told as the greatest"
    assert math.isnan(some.quantile(1.1))
    assert math.isnan(histogram(**{"0_1": 0.0, "inf": 0.0}).quantile(0.5)), "nothing was observed"
    assert histogram(m1=5.0, **{"0_5": 10.0, "inf": 10.0}).quantile(0.1) == -1.0


@pytest.mark.parametrize("part", [{}, {math.inf: 5.0}, {0.1: 5.0}, {0.1: 5.0, 1.0: 7.0}])
def test_what_is_no_histogram(part: dict[float, float]) -> None:
    assert summed([part]) is None
    assert summed([]) is None


def page(cases: int) -> str:
    """Histograms as programs have them, and as they should not: counts that fall, bounds around 0, none in a bucket."""
    chance = random.Random(5)
    lines = ["# TYPE x histogram"]
    for case in range(cases):
        bounds = sorted({round(chance.uniform(-1 if case % 7 == 0 else 0.001, 9), 3) for _ in range(case % 9 + 1)})
        count = 0
        for bound in bounds:
            count += chance.choice((0, 0, 1, 3, 40, 1000))
            lines.append(
                f'x_bucket{{case="{case}",le="{bound}"}} {max(0, count - (case % 5 == 0) * chance.randrange(3))}'
            )
        lines.append(f'x_bucket{{case="{case}",le="+Inf"}} {count + chance.choice((0, 2, 500))}')
    return "\n".join(lines) + "\n"


@pytest.mark.slow
def test_the_quantiles_are_those_of_prometheus(tmp_path: Path) -> None:
    text = page(80)
    found = parse_page(text.encode(), "text/plain", lambda _: True)
    cases: dict[str, dict[float, float]] = {}
    for one, value in found.samples.items():
        cases.setdefault(one.label("case"), {})[float(one.label("le"))] = value
    with served(Served(text.encode())) as url:
        target = url.removeprefix("http://")
        config = {
            "global": {"scrape_interval": "500ms"},
            "scrape_configs": [{"job_name": "x", "static_configs": [{"targets": [target]}]}],
        }
        with running_prometheus(tmp_path / "prometheus", config) as server:
            awaited(lambda: query(server, "x_bucket"), lambda series: len(series) == len(found.samples))
            for q in QUANTILES:
                theirs = {
                    each["metric"]["case"]: float(each["value"][1])
                    for each in query(server, f"histogram_quantile({q}, x_bucket)")
                }
                for case, counts in cases.items():
                    ours = summed([counts])
                    assert ours is not None
                    if theirs[case] != theirs[case] and q == 0.0:
                        continue  # it divides 0 by 0 where nothing is in the first bucket; the least value is known
                    assert ours.quantile(q) == pytest.approx(theirs[case], nan_ok=True, rel=1e-9), (case, q)


PART = st.dictionaries(st.floats(0.001, 100, allow_nan=False), st.floats(0, 1e6), min_size=1, max_size=8)


@given(st.lists(PART, min_size=1, max_size=4))
def test_a_sum_holds_each_observation_once(parts: list[dict[float, float]]) -> None:
    whole = []
    for part in parts:
        heights = np.cumsum([part[bound] for bound in sorted(part)])
        whole.append(dict(zip((*sorted(part)[:-1], math.inf), heights.tolist(), strict=True)))
    found = summed(whole)
    if found is None:
        assert all(len(part) < 2 for part in whole)
        return
    kept = [part for part in whole if len(part) > 1]
    assert found.counts[-1] == pytest.approx(sum(part[math.inf] for part in kept))
    assert (np.diff(found.counts) >= -1e-6).all()
    values = [found.quantile(q) for q in QUANTILES]
    if found.counts[-1] > 0:
        assert values == sorted(values)
        assert values[0] >= 0
        assert values[-1] <= found.bounds[-2]


def test_bounds_that_differ_while_a_version_is_rolled_out() -> None:
    old, new = {0.1: 50.0, 1.0: 100.0, math.inf: 100.0}, {0.2: 50.0, 1.0: 100.0, math.inf: 100.0}
    both = summed([old, new])
    assert both is not None
    assert both.bounds.tolist() == [0.1, 0.2, 1.0, math.inf]
    assert both.counts == pytest.approx([50 + 25, 50 + 50 / 9 + 50, 200, 200])
