"""Recordings in the form of S4's, replayed as lines: at the end it is told what the published method says of them."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

from laggard.operators.requests.published import published
from laggard.pipeline.cli import run
from laggard.pipeline.core.records import Request
from laggard.producers.sources.files import Recording, merged
from tests.evaluation.requests import convert
from tests.evaluation.requests.published_data import STATES, read
from tests.evaluation.requests.published_simulated import write

if TYPE_CHECKING:
    from pathlib import Path


def converted(folder: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "argv", ["convert", str(folder), str(file)])
    assert convert.main() == 0
    return file


@pytest.mark.slow
def test_replay_tells_what_the_published_method_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = write(tmp_path)
    file = converted(tmp_path, tmp_path / "requests.jsonl.zst", monkeypatch)
    flags = ("--set", "requests.method=published", "--set", "requests.eps=25ms")
    assert run(["replay", str(file), "--json", *flags]) == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {each["kind"] for each in told} == {"request"}
    recording = read(tmp_path)
    want = published(recording.times_ns / 1e9, recording.counts, recording.syscalls)
    outlying = {recording.ids[at]: want.clusters[at] for at in np.flatnonzero(want.clusters)}
    assert [each["request"] for each in told] == [
        recording.ids[at]
        for at in np.argsort(recording.began_ns + recording.duration_ns, kind="stable")
        if want.clusters[at]
    ]
    # Clusters have names of their own, and are the same.
    pairs = {(each["cluster"], int(outlying[each["request"]])) for each in told}
    assert len(pairs) == len({name for name, _ in pairs}) == want.clusters.max()
    assert set(outlying) == {name for name, kind in wrong.items() if kind != "error"}
    causes = {wrong[each["request"]]: each["cause"] for each in told}
    assert "repeats `fcntl`" in causes["locked"]
    assert "repeats `connect`" in causes["refused"]
    assert "off the CPU" in causes["robbed"]


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_lines_hold_every_request(suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, normal=50, locked=2, refused=2, robbed=2)
    file = converted(tmp_path, tmp_path / f"requests.jsonl{suffix}", monkeypatch)
    with Recording(str(file)) as recorded:
        requests = [request for _, request in merged([recorded], pytest.fail)]
    recording = read(tmp_path)
    assert len(requests) == len(recording.ids) == 56
    for each in requests:
        assert isinstance(each, Request)
        at = recording.ids.index(each.request)
        assert round(each.duration_s * 1e9) == recording.duration_ns[at]
        times = {STATES[state]: int(recording.times_ns[at, state]) for state in range(len(STATES))}
        assert {state: round(time_s * 1e9) for state, time_s in each.times_s.items()} == {
            state: time_ns for state, time_ns in times.items() if state in each.times_s
        }
        assert sum(round(time_s * 1e9) for time_s in each.times_s.values()) == recording.duration_ns[at]
        assert len(each.syscalls) == recording.syscalls.lengths[at]
    ends = [each.ts + each.duration_s for each in requests if isinstance(each, Request)]
    assert ends == sorted(ends)
