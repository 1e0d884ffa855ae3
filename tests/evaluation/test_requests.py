"""S4's tables: from the recording that its authors published, where it is, and from one that is made like it."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest

from laggard.operators.requests.outliers import noise
from tests.evaluation.requests import published, published_costs, published_eps, published_online
from tests.evaluation.requests.__main__ import main
from tests.evaluation.requests.published_data import Recording, read
from tests.evaluation.requests.published_simulated import write

pytestmark = pytest.mark.slow

DATA = os.environ.get("LAGGARD_DATA")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    folder = tmp_path_factory.mktemp("requests")
    return folder, write(folder)


@pytest.fixture
def others_can_import(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes of their own have to find these modules too."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2])


@pytest.fixture(scope="module")
def recording(made: tuple[Path, dict[str, str]]) -> Recording:
    return read(made[0])


@pytest.mark.long
@pytest.mark.skipif(DATA is None, reason="LAGGARD_DATA does not name the folder of the published recording")
def test_every_published_figure_comes_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--figures", str(tmp_path)]) == 0
    assert "84 of 84 figures are the paper's." in capsys.readouterr().out
    assert sorted(each.name for each in tmp_path.iterdir()) == ["figure_3.png", "figure_4.png", "figure_6.png"]


@pytest.mark.long
@pytest.mark.skipif(DATA is None, reason="LAGGARD_DATA does not name the folder of the published recording")
@pytest.mark.usefixtures("others_can_import")
def test_outliers_of_the_published_recording_take_less_than_5_s_and_1_gb() -> None:
    points = read(Path(str(DATA))).times_ms
    cost = published_costs.alone(1, noise, points, 25.0, 100)
    assert cost.cpu_s < 5.0
    assert cost.peak_mb < 1000.0


def test_what_is_wrong_is_found_and_clustered_and_read(made: tuple[Path, dict[str, str]], recording: Recording) -> None:
    wrong = {name: kind for name, kind in made[1].items() if kind != "error"}
    found = published.outcome(recording)
    clusters = dict(zip(recording.ids, found.published.clusters.tolist(), strict=True))
    assert {name for name, cluster in clusters.items() if cluster} == set(wrong)
    by_kind = {kind: {clusters[name] for name in wrong if wrong[name] == kind} for kind in wrong.values()}
    assert by_kind == {"robbed": {1}, "refused": {2}, "locked": {3}}
    assert [published.leads(found.published, each) for each in range(4)] == [
        "nothing",
        "connect",
        "fcntl",
        "no such cluster",
    ]
    assert "cluster 1: 0 n-grams set it apart; those that differ most do not" in published.reading(found)


@pytest.mark.long
def test_figures_that_are_not_the_papers_are_an_error(
    made: tuple[Path, dict[str, str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--data", str(made[0]), "--figures", str(tmp_path / "new")]) == 1
    out = capsys.readouterr().out
    assert "| outliers | " in out
    assert "**91** (paper: 157)" in out
    assert "| cluster 2 leads with | connect |" in out
    assert len(list((tmp_path / "new").iterdir())) == 3


def test_what_is_printed_may_be_rounded_but_no_more() -> None:
    for ours, same in ((479.51, True), (480.01, False), (478.01, True), (477.9, False)):
        assert published.Cell("IV", "duration, ms", "cluster 1", "479", ours).same is same
    assert published.Cell("IV", "requests", "normal", "5", 5).told == "5"
    assert published.Cell("V", "write", "normal", "1.0", 1.049).told == "1.05"
    assert not published.Cell("III", "outliers", "states", "157", 156).same
    assert not published.Cell("III", "median", "states", "157", np.nan).same


@pytest.mark.long
def test_other_outliers_and_rules_for_eps_are_told(recording: Recording) -> None:
    told = published.alternatives(recording, published.outcome(recording))
    assert "| published: durations, 25 ms | 91 | 91 | 0 |" in told
    assert "| isolation forest, durations, as many | 91 |" in told
    lines = published_eps.table(recording).splitlines()
    assert len(lines) == 2 + len(published_eps.RULES) * 5
    assert lines[2].startswith("| all 2,091 | by hand | 25.0 | 91 | 91 of 91 | 0 |")


def test_the_operator_finds_them_as_they_come(made: tuple[Path, dict[str, str]], recording: Recording) -> None:
    said = published_online.judge(recording, 0.025)
    order = published_online.arrivals(recording)
    later = np.zeros(len(order), bool)
    later[order[200:]] = True
    wrong = np.array([made[1].get(name, "") for name in recording.ids])
    assert said.slow[later & (wrong != "")].mean() >= 0.95
    assert said.slow[later & (wrong == "")].mean() < 0.005
    # As few as the locked ones are, they are told from the others.
    for kind in ("locked", "refused"):
        numbers = said.cluster[later & (wrong == kind)]
        assert len(set(numbers.tolist()) - {0}) == 1
        assert set(wrong[said.cluster == numbers.max()]) == {kind}
    told = published_online.table(recording, published.outcome(recording).published.clusters, [0.025])
    assert "| of the published outliers | " in told
    assert "connect" in told


@pytest.mark.long
@pytest.mark.usefixtures("others_can_import")
def test_costs_are_those_of_a_process_of_its_own(made: tuple[Path, dict[str, str]], recording: Recording) -> None:
    told = published_costs.table(made[0], recording, published.outcome(recording), sklearn=True, rounds=1)
    assert "| outlier detection | 5.69 ± 0.83 | " in told
    assert "scikit-learn's DBSCAN" in told
    with pytest.raises(ValueError, match="expected a finite number"):
        published_costs.alone(1, noise, np.full((3, 1), np.nan), 1.0, 2)


def test_sequences_lack_their_first_and_the_shortest_requests_are_left_out(
    made: tuple[Path, dict[str, str]], recording: Recording
) -> None:
    assert len(recording.ids) == 2091
    assert {made[1].get(each) for each in recording.ids} == {None, "robbed", "refused", "locked"}
    assert "getsockname" not in recording.syscalls.words
    assert recording.states.lengths.tolist() == (recording.counts.sum(axis=1) - 1).tolist()
    assert (recording.times_ns.sum(axis=1) == recording.duration_ns).all()


@pytest.mark.parametrize(
    ("file", "line", "expected"),
    [
        ("count.csv", "x,1,2", "count.csv:3: expected an id and 11 integers, got 'x,1,2"),
        ("times.csv", "y,0,1,1,0,1,1,1,0,0,0,5", "times.csv:3: expected request"),
        ("times.csv", "=,0,1,1,0,1,1,1,0,0,0,6", "times.csv:3: expected times that sum to the duration"),
        ("states.csv", "=:212", "states.csv:3: expected `id:sequence$`, got"),
        ("syscalls.csv", "y:open,$", "syscalls.csv:3: expected request"),
        ("syscalls.csv", None, "syscalls.csv: expected 2093 requests, as in count.csv, got 2092"),
    ],
)
def test_files_that_are_not_as_expected_are_refused(
    made: tuple[Path, dict[str, str]], tmp_path: Path, file: str, line: str | None, expected: str
) -> None:
    for each in made[0].glob("*.csv"):
        lines = each.read_text().splitlines()
        if each.name == file:
            if line is None:
                lines.pop()
            else:
                lines[2] = line.replace("=", lines[2].replace(":", ",").split(",")[0])
        (tmp_path / each.name).write_text("\n".join([*lines, ""]))
    with pytest.raises(ValueError, match=re.escape(expected)):
        read(tmp_path)


def test_a_folder_without_the_files_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["--data", str(tmp_path)])
    assert f"{tmp_path}: expected count.csv, times.csv, states.csv, syscalls.csv" in capsys.readouterr().err
    monkeypatch.delenv("LAGGARD_DATA", raising=False)
    with pytest.raises(SystemExit, match="2"):
        main([])
    assert "expected --data FOLDER, or LAGGARD_DATA" in capsys.readouterr().err
