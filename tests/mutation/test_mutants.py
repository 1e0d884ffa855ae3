"""Which changes are made of source, and that a seed draws the same ones of it again."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.mutation.__main__ import planned
from tests.mutation.mutants import KINDS, Mutant, drawn, mutants_of
from tests.mutation.trees import Suite

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

SOURCE = '''\
"""Says 3 < 4."""
from typing import TYPE_CHECKING

__all__ = ["f"]
LIMIT: int = 3

if TYPE_CHECKING:
    from x import y


def f(a: int, kind: str = "é") -> float:
    """Gives 5."""
    if a < LIMIT and kind:
        raise ValueError(f"expected {a} < 3")
    _logger.warning("more than %d", 3)
    kept = [each for each in range(a) if each is not None]
    assert kept
    return {"mean": 0.5, "two words": not kept}[kind]
'''


def made(folder: Path, source: str) -> list[Mutant]:
    path = folder / "module.py"
    path.write_text(source)
    return mutants_of(folder, path)


def told(mutants: Iterable[Mutant]) -> list[tuple[int, str, str]]:
    return [(each.line, each.kind, each.after) for each in mutants]


def test_what_can_be_wrong_is_changed_and_what_is_only_said_is_not(tmp_path: Path) -> None:
    found = made(tmp_path, SOURCE)
    assert sorted(told(found)) == [
        (5, "constant", "LIMIT: int = 4"),
        (13, "branch", "if a < LIMIT or kind:"),
        (13, "branch", "if not (a < LIMIT and kind):"),
        (13, "comparison", "if a > LIMIT and kind:"),
        (14, "line", "pass"),
        (16, "comparison", "kept = [each for each in range(a) if each is None]"),
        (16, "line", "pass"),
        (18, "constant", 'return {"mean": 1.0, "two words": not kept}[kind]'),
        (18, "constant", 'return {"meanx": 0.5, "two words": not kept}[kind]'),
        (18, "line", "pass"),
    ]
    assert [each.at_import for each in found] == [each.line == 5 for each in found]
    for each in found:
        compile(each.applied(SOURCE.encode()), "mutant", "exec")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a == b", "a != b"),
        ("a not  in b", "a in b"),
        ("(a) >= (b)", "(a) <= (b)"),
        ("a < b <= c", "a > b <= c"),
        ("x = True", "x = False"),
        ("x = 0.0", "x = 1.0"),
        ("x['é']", 'x["éx"]'),
        ("x if y else z", "x if not (y) else z"),
    ],
)
def test_how_it_is_changed(tmp_path: Path, before: str, after: str) -> None:
    assert after in [each.after for each in made(tmp_path, f"{before}\n")]


def test_a_seed_draws_the_same_though_other_lines_have_changed(tmp_path: Path) -> None:
    lines = [f"def f{number}(a):\n    if a > {number}:\n        a += 1\n    return a\n" for number in range(20)]
    first = drawn(tmp_path, made(tmp_path, "\n".join(lines)), 1, 16)
    assert Counter(each.kind for each in first) == dict.fromkeys(KINDS, 4)
    ids = {each.id for each in first}
    assert len(ids) == 16
    assert {each.id for each in drawn(tmp_path, made(tmp_path, "\n".join(lines)), 1, 16)} == ids
    assert {each.id for each in drawn(tmp_path, made(tmp_path, "\n".join(lines)), 2, 16)} != ids
    later = drawn(tmp_path, made(tmp_path, "\n".join(["import json", *lines])), 1, 16)
    assert {each.id for each in later} == ids


def test_tests_that_run_the_line_come_first_and_the_quick_ones_before_the_slow(tmp_path: Path) -> None:
    mutant = next(each for each in made(tmp_path, SOURCE) if each.line == 16)
    seconds = {"a.py::slow": 9.0, "a.py::quick": 0.1, "a.py::beside": 0.1, "b.py::far": 0.1, "c.py::some": 0.2}
    covering = frozenset({"a.py::slow", "a.py::quick", "c.py::some"})
    tests = Suite(seconds, frozenset(), [], {"module.py": {16: covering, 18: frozenset(seconds)}})
    limits, left_out = planned(mutant, tests, 100.0)
    assert (list(limits), left_out) == (["c.py::some", "a.py::quick", "a.py::slow", "a.py::beside"], 0)
    limits, left_out = planned(mutant, tests, 1.0)
    assert (list(limits), left_out) == (["c.py::some", "a.py::quick"], 2)
