import math

import pytest

from laggard.pipeline.history.sparkline import ASCII, columns, sparkline

NAN = math.nan


@pytest.mark.parametrize(
    ("values", "low", "high", "expected"),
    [
        ([], 0.0, 1.0, ""),
        ([0.0, 0.5, 1.0], 0.0, 1.0, "▁▅█"),
        ([5.0, 5.0], 5.0, 5.0, "▁▁"),
        ([NAN, 1.0, NAN], 0.0, 1.0, " █ "),
        ([-1.0, 2.0], 0.0, 1.0, "▁█"),
        ([1e308, -1e308], -1e308, 1e308, "▁▁"),
    ],
)
def test_values_become_heights(values, low, high, expected):
    assert sparkline(values, low, high) == expected


def test_there_are_glyphs_without_unicode():
    assert sparkline([0.0, 1.0], 0.0, 1.0, ASCII) == "_@"


OUTSIDE = [(-1.0, 1.0), (11.0, 1.0), (1.0, NAN), (1.0, math.inf), (6.0, 2.0)]


@pytest.mark.parametrize(
    ("points", "width", "hold", "expected"),
    [
        ([(0.0, 1.0), (1.0, 9.0), (2.0, 3.0), (10.0, 4.0)], 2, False, [9.0, 4.0]),
        (OUTSIDE, 2, False, [NAN, 2.0]),
        ([(0.0, 1.0), (7.0, 2.0)], 10, True, [1, 1, *[NAN] * 5, 2, 2, NAN]),
    ],
    ids=["the largest value", "what lies outside or is no number is left out", "the one before it is held once"],
)
def test_a_column_shows_what_is_in_it(points, width, hold, expected):
    assert columns(points, 0.0, 10.0, width, hold=hold) == pytest.approx(expected, nan_ok=True)
