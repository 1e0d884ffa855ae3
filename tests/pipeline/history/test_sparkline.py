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


def test_a_column_shows_the_largest_value_in_it():
    assert columns([(0.0, 1.0), (1.0, 9.0), (2.0, 3.0), (10.0, 4.0)], 0.0, 10.0, 2) == [9.0, 4.0]


def test_what_lies_outside_or_is_no_number_is_left_out():
    found = columns([(-1.0, 1.0), (11.0, 1.0), (1.0, NAN), (1.0, math.inf), (6.0, 2.0)], 0.0, 10.0, 2)
    assert math.isnan(found[0])
    assert found[1] == 2.0


def test_a_column_may_hold_the_one_before_it_once():
    found = columns([(0.0, 1.0), (7.0, 2.0)], 0.0, 10.0, 10, hold=True)
    assert [None if math.isnan(each) else each for each in found] == [1, 1, None, None, None, None, None, 2, 2, None]
