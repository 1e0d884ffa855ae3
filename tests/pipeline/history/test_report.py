from __future__ import annotations

import io
import math
import time
from dataclasses import replace

import pytest

from laggard.operators.ranking import FeatureScore, Ranking, RowScore
from laggard.pipeline.cli.pages import console_of, write
from laggard.pipeline.explaining.verdict import verdict_of
from laggard.pipeline.history.report import Page, next_steps, plotted, ranked, score_digits
from laggard.pipeline.history.series import Series
from laggard.pipeline.history.subject import Subject

WRITES = FeatureScore("io_write_bytes_per_s", 212e6, 0.1e6, 0.3e6, 40.0)
EVIL = "\x1b[2J[red]x\n"


def row(name="hog", score=8.2, features=(WRITES,)):
    return RowScore(f"{name}[4711@99]", name, score, tuple(features), 40.0)


def ranking(*rows):
    return Ranking(0.0, 8.2, rows, 3600.0, young=False)


def shown(lines):
    return [line.plain for line in lines]


def test_a_row_is_told_with_its_score_pid_and_command_and_its_features_with_what_is_usual():
    heading, feature = shown(ranked(ranking(row()), {"hog[4711@99]": "python3 hog.py"}, Page(100)))
    assert heading == "  8.20  hog  4711  python3 hog.py"
    assert feature.split() == ["io_write_bytes_per_s", "212", "MB/s", "usually", "100", "±", "300", "kB/s", "40.0"]
    # What is over is shown with what it was lately.
    past = FeatureScore("io_write_bytes_per_s", 0.0, 0.1e6, 0.3e6, 40.0, recent=30e6)
    _, line = shown(ranked(ranking(row(features=(past,))), {}, Page(100)))
    assert "0 B/s  lately 30 MB/s, usually 100 ± 300 kB/s" in line


def test_who_only_waits_and_laggards_own_are_listed_apart_behind_the_others():
    delayed = FeatureScore("io_delay_ratio", 0.6, 0.0, 0.01, 40.0)
    victim = RowScore("web[5@9]", "web", 9.5, (delayed,), 40.0, waits=True)
    lines = shown(ranked(ranking(row("laggard-worker", 9.0), victim, row()), {}, Page(100)))
    assert [line.split()[1] for line in lines if line[:3].strip()] == ["hog", "for", "web", "itself:", "laggard-worker"]
    assert [line for line in lines if line.endswith(":")] == ["  Waiting for others:", "  laggard itself:"]
    assert not [line for line in shown(ranked(ranking(victim), {}, Page(100))) if "Waiting" in line]


@pytest.mark.parametrize("width", [20, 40, 60, 71, 72, 80, 100, 300])
def test_what_is_shown_fits_the_terminal(width):
    long = FeatureScore("a_feature_with_quite_a_long_name_that_somebody_gave_bytes_per_s", 1e6, 2e5, 1e5, 3.0)
    lines = shown(ranked(ranking(row(features=(WRITES, long))), {"hog[4711@99]": "x" * 500}, Page(width)))
    lines += shown(
        plotted(Series("r", "threads", 900.0, 5.0, 720.0, tuple((5.0 * n, n) for n in range(190))), "x", Page(width))
    )
    if width >= 60:
        assert max(map(len, lines)) <= width


def test_names_and_commands_are_data():
    (heading, *_) = ranked(ranking(row(EVIL)), {f"{EVIL}[4711@99]": EVIL}, Page(100))
    assert "\\x1b[2J[red]x\\n" in heading.plain
    assert heading.plain.isprintable()
    out = io.StringIO()
    write([heading], console_of(out))
    assert out.getvalue() == heading.plain + "\n"


def test_without_a_terminal_lines_are_whole_and_have_no_color():
    out = io.StringIO()
    write(ranked(ranking(row()), {"hog[4711@99]": "x" * 500}, Page(1000)), console_of(out))
    assert "x" * 500 in out.getvalue()
    assert "\x1b" not in out.getvalue()


def test_an_ascii_terminal_gets_ascii():
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="ascii")
    write(ranked(ranking(row("kühn")), {}, Page(100, unicode=False)), console_of(out))
    out.flush()
    assert b"k\\xfchn" in raw.getvalue()
    assert b"100 +- 300 kB/s" in raw.getvalue()


def series(ticks, moment, dense_from=-math.inf, value=float):
    return Series("r", "threads", moment, 5.0, dense_from, tuple((5.0 * tick, value(tick)) for tick in ticks))


@pytest.mark.parametrize(
    ("ticks", "moment", "title", "line", "place"),
    [
        (range(10), 35.0, "threads of hog, 0 to 9, over 45 s", "▁▁▂▃▄▅▆▇██", 7),
        ([0, 1, 3, 4], 20.0, "threads of hog, 0 to 4, over 20 s", "▁▃ ▇█", 4),
        ([1], 5.0, "threads of hog, 0 to 1, over 0 s", "█", 0),
    ],
    ids=["many", "a tick without a value is a gap", "a single one"],
)
def test_a_plot_marks_the_moment_below_its_tick(ticks, moment, title, line, place):
    told, drawn, below = shown(plotted(series(ticks, moment), "hog", Page(100)))
    assert (told, drawn) == (title, f"  {line}")
    assert below.index("^") == 2 + place
    assert below.endswith(f" {time.strftime('%H:%M:%S', time.localtime(moment))}")


def test_a_plot_has_a_thin_and_a_dense_part():
    points = [*range(0, 200, 10), *range(200, 220)]
    title, line, below = shown(plotted(series(points, 5.0 * 215, 5.0 * 200), "hog", Page(100)))
    assert title.endswith("over 16.7 min, then 95 s")
    thin, dense = line[2:].split("|")
    assert (len(thin), len(dense)) == (20, 20)
    assert " " not in thin + dense
    assert below.index("^") == 2 + 20 + 1 + 15


@pytest.mark.parametrize("points", [(), ((5.0, math.nan),), ((5.0, math.inf),)])
def test_nothing_is_not_plotted(points):
    assert list(plotted(Series("r", "threads", 5.0, 5.0, 0.0, points), "hog", Page(80))) == []


def test_in_a_narrow_terminal_the_moment_is_named_before_its_mark():
    _, line, below = shown(plotted(series(range(60), 295.0), "hog", Page(40)))
    assert len(line) <= 40
    assert below.endswith(" ^")
    assert len(below) == len(line)


@pytest.mark.parametrize(
    ("score", "expected"),
    [(0.0, "0.00"), (0.314, "0.31"), (8.2, "8.20"), (12.34, "12.3"), (1234.5, "1,234"), (math.nan, "-")],
)
def test_scores(score, expected):
    assert score_digits(score) == expected


def about(feature=WRITES, row_id="hog[4711@99]", scope="process"):
    return Subject(scope, row_id, "hog", feature)


def test_next_steps_depend_on_the_resource_and_for_a_host_on_its_cause():
    verdict = verdict_of(ranking(row()))
    assert next_steps(verdict, about()).startswith("what it has open: `ls -l /proc/4711/fd`")
    spends = FeatureScore("cpu_children_ratio", 1.8, 0.0, 0.1, 9.0)
    assert next_steps(verdict, about(spends)).startswith("what it starts: `strace -f -e trace=execve -p 4711`")
    assert next_steps(verdict, about(FeatureScore("anything", 1.0, 1.0, 1.0, 1.0))) == ""
    assert next_steps(verdict, about(row_id="worker-1")) == ""
    stolen = FeatureScore("cpu_steal_ratio", 0.4, 0.0, 0.001, 60.0)
    verdict = verdict_of(ranking(), ranking(RowScore("host", "host", 2.0, (stolen,), 40.0)))
    assert next_steps(verdict, about(stolen, "host", "host")) == verdict.causes[0].closer
    assert next_steps(verdict, about(WRITES, "host", "host")) == ""


@pytest.mark.parametrize(
    ("basis", "told"),
    [("name", "        compared with how other `hog` looked before"), ("itself", None)],
)
def test_it_is_shown_what_a_row_without_a_past_is_compared_with(basis, told):
    lines = shown(ranked(ranking(replace(row(), basis=basis)), {}, Page(100)))
    assert (lines[1] if len(lines) == 3 else None) == told
