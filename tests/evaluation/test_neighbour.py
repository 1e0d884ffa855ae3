"""A hostile neighbor takes neither the agent's memory nor its rights; and what would tell that it does, does."""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING

import pytest

from tests.evaluation.neighbour import MOST_BYTES, Watched, exploding, harm

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="it takes root to be somebody else")
def test_a_hostile_neighbor_does_no_harm() -> None:
    told = harm(15.0, crowd=500)
    assert told.opened == 0
    assert not told.ended
    assert told.resident_bytes <= MOST_BYTES
    assert told.diagnoses
    assert told.ticks > 5


def test_a_watch_counts_files_that_are_created_and_opened(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    (tmp_path / "made").touch()
    assert watched.count() > 0
    assert watched.count() == 0
    (tmp_path / "made").read_bytes()
    assert watched.count() > 0
    watched.close()


def test_the_symbol_explodes() -> None:
    demangle = ctypes.CDLL("libstdc++.so.6")["__cxa_demangle"]
    demangle.restype = ctypes.c_void_p
    lengths = []
    for levels in (6, 7, 8):
        place = demangle(exploding(levels).encode(), None, None, None)
        lengths.append(len(ctypes.string_at(place)))
        ctypes.CDLL(None).free(ctypes.c_void_p(place))
    assert lengths[2] - lengths[1] > 1.5 * (lengths[1] - lengths[0])
