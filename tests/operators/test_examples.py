"""The examples in docstrings: each is what its module answers."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

import pytest

from laggard import operators

FOLDER = Path(operators.__path__[0])
EXAMPLES = sorted(
    ".".join(("laggard.operators", *path.relative_to(FOLDER).with_suffix("").parts))
    for path in FOLDER.rglob("*.py")
    if ">>> " in path.read_text()
)
MARKS = {"laggard.operators.river.detector": [pytest.mark.slow]}


@pytest.mark.parametrize("module", [pytest.param(each, marks=MARKS.get(each, [])) for each in EXAMPLES])
def test_the_examples_hold(module: str) -> None:
    assert doctest.testmod(import_module(module)).failed == 0
