"""The tables `[[sources]]`: what they say, and what is said of those that cannot be used."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from deploy.generate.settings import _EXAMPLE
from laggard.pipeline.manifest import read_settings
from laggard.pipeline.measuring import sources_of, state_of
from laggard.pipeline.settings import SettingError, Settings, parse_assignment
from laggard.pipeline.settings.general import GeneralSettings
from laggard.pipeline.settings.sources import BY_KIND, KINDS, LinesSource, PrometheusSource
from laggard.producers.sources.lines import JsonLines
from laggard.producers.sources.prometheus.server import Server
from laggard.producers.sources.prometheus.targets import Targets

if TYPE_CHECKING:
    from pathlib import Path

TARGETS = 'kind = "prometheus"\napplication = "shop"\ntargets = ["http://web-1:8000/metrics"]\n'


def settings(tmp_path: Path, text: str) -> Settings:
    config = tmp_path / "laggard.toml"
    config.write_text(text)
    return read_settings(config, {"HOME": str(tmp_path)})


def problems(tmp_path: Path, text: str) -> list[str]:
    with pytest.raises(SettingError) as raised:
        settings(tmp_path, text)
    return [each.replace(f"{tmp_path}/", "") for each in raised.value.problems]


def test_what_tables_say(tmp_path: Path) -> None:
    assert settings(tmp_path, "").sources == settings(tmp_path, "sources = []").sources == ()
    found = settings(tmp_path, f'host = "a"\n[[sources]]\n{TARGETS}interval = "2s"\n\n' + "\n".join(_EXAMPLE[5:]))
    first, second, third = found.sources
    assert isinstance(first, PrometheusSource)
    assert (first.interval, second.interval) == (2.0, 10.0)
    assert (first.name, second.name) == ("prometheus", "prometheus-2")
    assert first.targets == ("http://web-1:8000/metrics",)
    assert first.place(PrometheusSource.interval) == f"{tmp_path}/laggard.toml:6"
    assert second.place(PrometheusSource.metrics) == f"{tmp_path}/laggard.toml:13"
    assert [type(each.source) for each in sources_of(found)] == [Targets, Server, Targets]
    assert [each.interval_s for each in sources_of(found)] == [2.0, 10.0, 10.0]
    assert third.key == ("pool", "checkout")
    for each in sources_of(found):
        each.source.close()


def test_a_variable_or_a_flag_says_it_in_json(tmp_path: Path) -> None:
    said = json.dumps([{"kind": "lines", "application": "shop", "path": "-"}])
    by_variable = read_settings(environ={"HOME": str(tmp_path), "LAGGARD_SOURCES": said})
    by_flag = read_settings(environ={"HOME": str(tmp_path)}, flags=[parse_assignment(f"sources={said}")])
    for (found,) in (by_variable.sources, by_flag.sources):
        assert isinstance(found, LinesSource)
        assert found.path == "-"
    assert found.place(LinesSource.path) == "--set"
    for text in ("[1]", "{}", "[", "[" * 99_999):
        with pytest.raises(SettingError, match="expected a list of tables, in a text as JSON"):
            read_settings(environ={"HOME": str(tmp_path), "LAGGARD_SOURCES": text})


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ('application = "shop"', ":2: source 1: expected a kind, one of "),
        ('kind = "graphite"', ':3: source 1: kind is "graphite"; expected one of '),
        ('kind = ["a"]', ":3: source 1: kind is ['a']; expected a text on one line"),
        (TARGETS.replace("shop", ""), ":4: source 1: application: expected a name of 1 to 253 characters"),
        (TARGETS.replace('application = "shop"\n', ""), ":2: source 1: expected application in it"),
        ('kind = "lines"\napplication = "shop"', ":2: source 1: expected path in it"),
        (
            TARGETS + "intervall = 5",
            ":6: source 1: a source of the kind prometheus has no 'intervall'; did you mean 'int",
        ),
        (TARGETS + 'interval = "5ms"', ':6: source 1: interval is "5ms"; expected a duration from 1s to 1h'),
        (TARGETS + 'errors = "rate(a[5m])"', ':6: source 1: errors is "rate(a[5m])"; expected a selector such as '),
        (TARGETS + 'token_variable = "LAGGARD_TOKEN"', ":6: source 1: token_variable is "),
        (TARGETS + 'server = "http://p:9090"', ":5: source 1: targets: expected either targets, the pages to read, or"),
        (TARGETS + 'lookback = "2m"', ":6: source 1: lookback: expected a server that it is about"),
        (TARGETS + "queries = {a = 'b'}", ":6: source 1: queries: expected a server to ask them"),
        (TARGETS + "[sources.queries]\na = 1", ":6: source 1: queries is {'a': 1}; expected features with a PromQL"),
        (TARGETS + "performance = false", ":6: source 1: performance: expected true, or metrics to read instead"),
        (TARGETS + 'username = "me"', ":6: source 1: username: expected a username together with password_file or"),
        (
            TARGETS + 'token_file = "/a"\ntoken_variable = "B"',
            ":7: source 1: token_variable: expected only one of it and token_file",
        ),
        (TARGETS.replace("http:", "ftp:"), ":5: source 1: targets is ['ftp://web-1:8000/metrics']; expected addresses"),
        (TARGETS.replace("//", "//me:hush@"), ":5: source 1: targets is ['http://...@web-1:8000/metrics']; expected"),
        (
            'kind = "prometheus"\napplication = "shop"\nserver = "http://p:9090"',
            ":2: source 1: response_time: expected which of the server's metrics are the application's, such as",
        ),
        (
            f"{TARGETS}\n[[sources]]\n{TARGETS}",
            ":9: source prometheus-2: application: expected one source for the performance of shop; there is prom",
        ),
        (
            f'{TARGETS}name = "a"\n[[sources]]\n{TARGETS}name = "a"\nperformance = false\nmetrics = "up"',
            ":11: source a: name: expected a name that no other source of shop has (laggard.toml:3)",
        ),
    ],
)
def test_errors_name_the_table_and_what_was_expected(tmp_path: Path, table: str, expected: str) -> None:
    [problem] = problems(tmp_path, f"\n[[sources]]\n{table}\n")
    assert problem.startswith(f"laggard.toml{expected}")


def test_all_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    text = f'host = 5\n[[sources]]\nkind = "x"\n[[sources]]\n{TARGETS}interval = "x"\nunit = "h"\n'
    assert [each.split(":")[1] for each in problems(tmp_path, text)] == ["1", "3", "8", "9"]


def test_each_key_is_declared_once_and_its_default_can_be_read() -> None:
    for kind in BY_KIND.values():
        names = [key.name for key in kind.declared()]
        assert len(set(names)) == len(names)
        for key in kind.declared():
            if key.name not in {"kind", *kind.needs}:
                key.read(key.default)
            assert not key.excludes or key.excludes in names


def test_a_pool_in_the_place_of_an_application(tmp_path: Path) -> None:
    found = settings(
        tmp_path,
        '[[sources]]\nkind = "prometheus"\npool = "checkout"\ntargets = ["http://web-1:8000/metrics"]\nmetrics = "up"\n'
        '[[sources]]\nkind = "prometheus"\npool = "cart"\nserver = "http://p:9090"\nmetrics = "up"\n'
        '[[sources]]\nkind = "lines"\npool = "jobs"\npath = "-"\n',
    )
    assert [each.key for each in found.sources] == [("pool", "checkout"), ("pool", "cart"), ("pool", "jobs")]
    sources = sources_of(found)
    assert [type(each.source) for each in sources] == [Targets, Server, JsonLines]
    assert [(each.source.keyed_by, each.source.key) for each in sources] == [each.key for each in found.sources]
    assert {each.source.name for each in sources} == {"prometheus", "lines"}
    for each in sources:
        each.source.close()
    assert "regression" not in found[GeneralSettings].operators, "there is no application"


POOL = 'kind = "prometheus"\npool = "checkout"\ntargets = ["http://web-1:8000/metrics"]\nmetrics = "up"\n'


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        (POOL.replace("checkout", ""), ":4: source 1: pool: expected a name of 1 to 253 characters"),
        (POOL + 'application = "shop"', ":4: source 1: pool: expected an application or a pool, not both"),
        (POOL.replace('metrics = "up"', ""), ":2: source 1: metrics: expected which metrics the members are compared"),
        (POOL + "performance = true", ":7: source 1: performance: expected it only for an application"),
        (POOL + 'throughput = "a"', ":7: source 1: throughput: expected it only for an application"),
        (
            'kind = "log"\npool = "checkout"\npaths = ["/var/log/a"]\nformat = "nginx"\n',
            ":2: source 1: expected application in it",
        ),
        (f"{POOL}[[sources]]\n{POOL}", ":9: source prometheus-2: pool: expected one source for the members of checkou"),
    ],
)
def test_errors_of_pools_name_the_table_and_what_was_expected(tmp_path: Path, table: str, expected: str) -> None:
    problem, *_ = problems(tmp_path, f"\n[[sources]]\n{table}\n")
    assert problem.startswith(f"laggard.toml{expected}")


def test_an_application_and_a_pool_of_one_name_keep_how_far_they_were_read_apart(tmp_path: Path) -> None:
    found = settings(
        tmp_path,
        '[[sources]]\nkind = "lines"\napplication = "shop"\npath = "/a"\n'
        '[[sources]]\nkind = "lines"\npool = "shop"\npath = "/b"\n',
    )
    first, second = (state_of(found, each) for each in found.sources)
    assert first != second


def test_each_kind_has_its_keys() -> None:
    assert tuple(BY_KIND) == KINDS
