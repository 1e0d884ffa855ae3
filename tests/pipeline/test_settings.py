"""Settings: how values are written, which source wins, and that an error says everything."""

from __future__ import annotations

import ast
import math
import os
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from deploy.generate.settings import sample_file, settings_page
from laggard.pipeline.manifest import SECTIONS, SETTINGS, read_settings
from laggard.pipeline.methods.hosts.settings import GaussianSettings
from laggard.pipeline.settings import Address, Given, SettingError, parse_assignment
from laggard.pipeline.settings.general import BusSettings, GeneralSettings, TopicsSettings
from laggard.pipeline.settings.kafka import KafkaSettings
from laggard.pipeline.settings.kinds import READERS
from laggard.pipeline.settings.producing import AgentSettings, RedactionSettings
from laggard.pipeline.web.settings import WebSettings
from laggard.producers.system.proc import parse_command
from laggard.producers.system.redaction import configure

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.pipeline.conftest import Called

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No configuration file of the machine takes part."""
    monkeypatch.chdir(tmp_path)


def environment(tmp_path: Path, **variables: str) -> dict[str, str]:
    return {"HOME": str(tmp_path / "home"), **variables}


def problems(
    tmp_path: Path, *, config: str | bytes | None = None, flags: tuple[str, ...] = (), **variables: str
) -> list[str]:
    path = None
    if config is not None:
        path = tmp_path / "some.toml"
        path.write_bytes(config if isinstance(config, bytes) else config.encode())
    with pytest.raises(SettingError) as raised:
        read_settings(path, environment(tmp_path, **variables), [parse_assignment(flag) for flag in flags])
    assert str(raised.value) == "\n".join(raised.value.problems)
    return [problem.replace(f"{tmp_path}/", "") for problem in raised.value.problems]


@pytest.mark.parametrize(
    ("kind", "value", "read"),
    [
        ("duration", "500ms", 0.5),
        ("duration", "4h", 14400.0),
        ("duration", " 1h 30m", 5400.0),
        ("duration", "2d", 172800.0),
        ("duration", "1.5min", 90.0),
        ("duration", "7", 7.0),
        ("duration", 7, 7.0),
        ("duration", 0.5, 0.5),
        ("size", "1GiB", 1 << 30),
        ("size", "1.5 kB", 1500),
        ("size", "2MB", 2_000_000),
        ("size", "17", 17),
        ("size", 17, 17),
        ("rate", "1/day", 1.0),
        ("rate", "0.5 / hour", 12.0),
        ("rate", "10/day", 10.0),
        ("rate", "3/week", 3 / 7),
        ("rate", "1/month", 1 / 30),
        ("ratio", "85%", 0.85),
        ("ratio", "0.85", 0.85),
        ("number", "-1e-3", -0.001),
        ("number", 3, 3.0),
        ("count", "10", 10),
        ("flag", "Yes", True),
        ("flag", False, False),
        ("words", "a, b,,", ("a", "b")),
        ("words", ["a"], ("a",)),
        ("words", "", ()),
        (
            "table",
            "n_trees=10, kind = fast,rate=0.5,on=true,",
            {"n_trees": 10, "kind": "fast", "rate": 0.5, "on": True},
        ),
        ("table", {"n_trees": 10}, {"n_trees": 10}),
        ("table", "", {}),
        ("path", "/a/b", Path("/a/b")),
        ("file", "/a/b", Path("/a/b")),
        ("file", "", None),
        ("address", "127.0.0.1:9464", Address("127.0.0.1", 9464)),
        ("address", "[::1]:0", Address("::1", 0)),
        ("address", "web-1.example:80", Address("web-1.example", 80)),
    ],
)
def test_values_as_people_write_them(kind: str, value: object, read: object) -> None:
    got = READERS[kind](value)  # type: ignore[index]
    assert got == pytest.approx(read) if isinstance(read, float) else got == read
    assert type(got) is type(read)


NO_VALUES: dict[str, list[object]] = {
    "duration": ["", "h", "4 parsecs", "4h x", "1,5h", "nan", "inf", "-", "-5", -5, "٣s", True, None, [], math.inf],
    "size": ["", "1XB", "GiB", 1.5, True, "-1kB"],
    "rate": ["1", "1/fortnight", "/day", 1],
    "ratio": ["%", "x", "1e999", None],
    "number": ["1e999", "0x10", "1_000", "", math.nan],
    "count": ["1.0", 1.0, True, "9" * 400, ""],
    "flag": ["maybe", "", 1, None],
    "text": ["two\nlines", 1, "\x1b[0m"],
    "words": ["a,a", [1], [""], {"a": 1}, 5],
    "path": ["", "a\0b", 3],
    "file": ["a\0b", 3],
    "address": ["9464", "host:", ":9464", "h:99999", "::1:80", "http://h:1", "a b:1", 80],
}


@pytest.mark.parametrize(("kind", "value"), [(kind, value) for kind, values in NO_VALUES.items() for value in values])
def test_values_that_mean_nothing(kind: str, value: object) -> None:
    with pytest.raises(ValueError, match=r"^(a|an|true|names) "):
        READERS[kind](value)  # type: ignore[index]


def test_defaults_are_valid_and_within_bounds(tmp_path: Path) -> None:
    settings = read_settings(environ=environment(tmp_path))
    assert settings.config is None
    assert settings[GaussianSettings].context == 14400
    assert settings[BusSettings].max_bytes == 1 << 30
    assert settings[WebSettings].listen == Address("127.0.0.1", 9464)
    assert settings[GeneralSettings].operators == ("gaussian", "cpu", "saturation", "covariance", "requests")
    assert settings[AgentSettings].command_lines is True
    for setting in SETTINGS:
        if not setting.found:
            setting.read(setting.default)
        assert settings.place(setting) == "default"


def test_the_state_is_where_the_rule_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert read_settings(environ=environment(tmp_path))[BusSettings].location == "/var/lib/laggard/laggard.db"
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert read_settings(environ=environment(tmp_path))[GeneralSettings].state == tmp_path / "home/.local/state/laggard"
    assert read_settings(environ=environment(tmp_path, XDG_STATE_HOME="/x"))[GeneralSettings].state == Path(
        "/x/laggard"
    )
    assert read_settings(environ=environment(tmp_path, LAGGARD_STATE="/s"))[BusSettings].location == "/s/laggard.db"


def test_the_later_source_wins(tmp_path: Path) -> None:
    config = tmp_path / "laggard.toml"
    config.write_text('host = "file"\n[gaussian]\ncontext = 60\nminimum_features = 7\n[agent]\ninterval = "9s"\n')
    settings = read_settings(
        environ=environment(tmp_path, LAGGARD_GAUSSIAN_CONTEXT="2h", LAGGARD_AGENT_INTERVAL="8s"),
        flags=[parse_assignment("agent.interval=6s"), Given("agent.interval", "7s", "--interval")],
    )
    assert settings.config == Path("laggard.toml")
    assert settings[GeneralSettings].host == "file"
    assert settings[GaussianSettings].context == 7200
    assert settings[GaussianSettings].minimum_features == 7
    assert settings[AgentSettings].interval == 7
    found = (
        GeneralSettings.host,
        GaussianSettings.minimum_features,
        GaussianSettings.context,
        AgentSettings.interval,
    )
    assert [settings.place(each) for each in found] == [
        "laggard.toml:1",
        "laggard.toml:4",
        "LAGGARD_GAUSSIAN_CONTEXT",
        "--interval",
    ]


def test_which_file_is_read(tmp_path: Path) -> None:
    own = tmp_path / "home/.config/laggard/laggard.toml"
    own.parent.mkdir(parents=True)
    own.write_text('host = "own"')
    named = tmp_path / "named.toml"
    named.write_text('host = "named"')
    assert read_settings(environ=environment(tmp_path))[GeneralSettings].host == "own"
    assert read_settings(environ=environment(tmp_path, LAGGARD_CONFIG=str(named)))[GeneralSettings].host == "named"
    assert read_settings(named, environment(tmp_path, LAGGARD_CONFIG="/nowhere"))[GeneralSettings].host == "named"
    (tmp_path / "laggard.toml").write_text('host = "here"')
    assert read_settings(environ=environment(tmp_path))[GeneralSettings].host == "here"


def test_a_missing_file_and_a_folder_in_its_place_are_errors(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"missing\.toml: the configuration file cannot be read: No such file"):
        read_settings(tmp_path / "missing.toml", environment(tmp_path))
    (tmp_path / "laggard.toml").mkdir()
    with pytest.raises(SettingError, match=r"^laggard\.toml: the configuration file cannot be read: Is a directory$"):
        read_settings(environ={"HOME": str(tmp_path)})


def test_errors_say_which_where_what_and_what_was_expected(tmp_path: Path) -> None:
    config = (
        '# a comment\nhost = 5\n\n[gaussian]\nminimum_features = "many"\ncontxt = "4h"\n\n[agent]\ninterval = "2h"\n'
    )
    operators = "gaussian, cpu, saturation, river, regression, covariance, requests"
    assert problems(
        tmp_path,
        config=config,
        LAGGARD_BUS_MAX_BYTES="1 cup",
        LAGGARD_AGENT_INTERVALL="5s",
        flags=("operators=gausian",),
    ) == [
        "LAGGARD_AGENT_INTERVALL: there is no setting of this name; did you mean LAGGARD_AGENT_INTERVAL?",
        "some.toml:2: host is 5; expected a text on one line",
        'some.toml:5: gaussian.minimum_features is "many"; expected a whole number',
        "some.toml:6: there is no setting 'gaussian.contxt'; did you mean 'gaussian.context'?",
        'some.toml:9: agent.interval is "2h"; expected a duration from 0.5s to 1h',
        'LAGGARD_BUS_MAX_BYTES: bus.max_bytes is "1 cup"; expected a size such as 512MiB, 1GiB or 2GB',
        f'--set: operators is "gausian"; expected names out of {operators}',
    ]


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ("host = \n", "some.toml:1: expected TOML: Invalid value"),
        (b'host = "a"\nx = "\xff"\n', "some.toml:2: expected UTF-8"),
        (
            "[gaussian.context]\nx = 1",
            "some.toml:1: gaussian.context is {'x': 1}; expected a duration such as 500ms, 5s, 1h30m or 2d",
        ),
        ("gaussian = 4", "some.toml:1: there is no setting 'gaussian'"),
        (
            'gaussian.context = "x"',
            'some.toml:1: gaussian.context is "x"; expected a duration such as 500ms, 5s, 1h30m or 2d',
        ),
        (
            '[ "gaussian" ]\n "context"="x"',
            'some.toml:2: gaussian.context is "x"; expected a duration such as 500ms, 5s, 1h30m or 2d',
        ),
        (
            'gaussian = {context = "x"}',
            'some.toml: gaussian.context is "x"; expected a duration such as 500ms, 5s, 1h30m or 2d',
        ),
        ("x = " + "[" * 5000, "some.toml: expected TOML: "),
        ("#" * (1 << 20) + "\n", "some.toml: expected a configuration file of at most 1048576 bytes"),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, config: str | bytes, problem: str) -> None:
    assert problems(tmp_path, config=config)[0].startswith(problem)


def test_a_secret_is_never_shown_and_not_taken_from_a_command_line_that_everybody_sees(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, LAGGARD_WEB_TOKEN="hush\nhush")
    assert problem == "LAGGARD_WEB_TOKEN: web.token is a secret; expected a text on one line"
    (problem,) = problems(tmp_path, flags=("kafka.password=hush",))
    assert problem == (
        "--set: kafka.password is a secret, and everybody on a machine sees its command lines; "
        "expected it in the configuration file or in LAGGARD_KAFKA_PASSWORD"
    )


def test_of_two_settings_that_exclude_one_another_only_one_may_be_given(tmp_path: Path) -> None:
    config = '[kafka]\npassword_file = "/run/password"\n'
    assert problems(tmp_path, config=config, LAGGARD_KAFKA_PASSWORD="hush") == [
        (
            "some.toml:2: kafka.password_file is given, and kafka.password too (LAGGARD_KAFKA_PASSWORD); "
            "expected only one of them"
        )
    ]
    # What is empty is not given: so a variable takes back what a file says.
    settings = read_settings(tmp_path / "some.toml", environment(tmp_path, LAGGARD_KAFKA_PASSWORD=""))
    assert settings[KafkaSettings].password_file == Path("/run/password")
    assert settings[KafkaSettings].ca_file is None
    for setting in SETTINGS:
        assert not setting.excludes or setting.excludes in {other.name for other in SETTINGS}


def test_a_bus_elsewhere_is_checked_where_it_is_set_and_shows_no_password(tmp_path: Path) -> None:
    assert problems(tmp_path, LAGGARD_BUS_LOCATION="kafka://a:b", flags=("bus.location=kafka://me:hush@b1:9092",)) == [
        'LAGGARD_BUS_LOCATION: bus.location is "kafka://a:b"; expected kafka://HOST:PORT,HOST:PORT',
        (
            '--set: bus.location is "kafka://...@b1:9092"; expected kafka://HOST:PORT,HOST:PORT without a user and a '
            "password; those are kafka.username and kafka.password"
        ),
    ]
    assert problems(tmp_path, flags=("bus.location=redis://me:hush@b1",)) == [
        '--set: bus.location is "redis://...@b1"; expected a path, or kafka://HOST:PORT,HOST:PORT'
    ]
    assert problems(tmp_path, LAGGARD_KAFKA_TOKEN_URL="http://login.example/token") == [
        (
            'LAGGARD_KAFKA_TOKEN_URL: kafka.token_url is "http://login.example/token"; '
            "expected an https address such as https://login.example/oauth2/token"
        )
    ]


@pytest.mark.parametrize("prefix", ["of us.", "a/", "\u00e4.", "x" * 151])
def test_a_prefix_is_what_a_name_of_a_topic_may_begin_with(prefix: str, tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, flags=(f"topics.prefix={prefix}",))
    assert problem.endswith("expected what names of topics may have: at most 150 of A to Z, a to z, 0 to 9, ., _ and -")
    fits = [Given("topics.prefix", "Team_7.laggard-", "--set")]
    assert read_settings(environ=environment(tmp_path), flags=fits)[TopicsSettings].prefix == "Team_7.laggard-"


def test_variables_of_a_kubernetes_service_are_no_settings(tmp_path: Path) -> None:
    links = ("SERVICE_HOST", "PORT", "PORT_9464_TCP", "PORT_9464_TCP_ADDR", "WEB_SERVICE_PORT_HTTP", "WEB_PORT")
    read_settings(environ=environment(tmp_path, **{f"LAGGARD_{link}": "x" for link in links}))
    assert not any(setting.variable.endswith(links) for setting in SETTINGS)


@pytest.mark.parametrize("text", ["", "=", "=4h", "gaussian.context"])
def test_an_assignment_without_name_and_value(text: str) -> None:
    with pytest.raises(SettingError, match="expected NAME=VALUE"):
        parse_assignment(text)


def test_names_are_one_to_one_with_variables_and_fit_toml() -> None:
    assert len({setting.variable for setting in SETTINGS}) == len(SETTINGS)
    names = [setting.name for setting in SETTINGS]
    assert not [name for name in names if any(other.startswith(f"{name}.") for other in names)]


def test_the_documents_are_current(golden: Callable[[Path, str], None]) -> None:
    golden(ROOT / "deploy/docs/reference/settings.md", settings_page())
    golden(ROOT / "deploy/laggard.toml", sample_file())


def test_the_sample_with_its_comments_taken_away_gives_the_defaults(tmp_path: Path) -> None:
    lines = sample_file().splitlines()
    found = {setting.name.rpartition(".")[2] for setting in SETTINGS if setting.found}
    taken = [line[1:] if line[:1] == "#" and line[1:2] != " " else line for line in lines]
    text = "\n".join(line for line in taken if line.partition(" = ")[0] not in found)
    assert tomllib.loads(text)
    config = tmp_path / "sample.toml"
    config.write_text(text)
    sampled, default = (read_settings(path, environment(tmp_path)) for path in (config, None))
    assert sampled._values == default._values
    assert set(sampled._places) == {setting.name for setting in SETTINGS if not setting.found}


def test_every_setting_is_used() -> None:
    used: dict[str, set[str]] = {section.__name__: set() for section in SECTIONS}
    for path in (ROOT / "pipeline").rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        fields = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
        for name in {node.id for node in nodes if isinstance(node, ast.Name)} & used.keys():
            used[name] |= fields
    unused = {
        setting.name
        for section in SECTIONS
        for setting in section.declared()
        if setting.name.rpartition(".")[2] not in used[section.__name__]
    }
    assert not unused


def test_names_that_say_secret_are_bounded(tmp_path: Path) -> None:
    expected = "expected at most 100 names of 2 to 64 letters, digits, -, _ and ."
    for names in ("a", "...", "shop pin", "x" * 65, ",".join(f"name{number}" for number in range(101))):
        assert problems(tmp_path, LAGGARD_REDACTION_NAMES=names)[0].endswith(expected), names
    settings = read_settings(environ=environment(tmp_path, LAGGARD_REDACTION_NAMES="shop_pin, kennwort"))
    assert settings[RedactionSettings].names == ("shop_pin", "kennwort")


def test_every_command_hides_what_the_settings_name(laggard: Called) -> None:
    line = b"x\0--shop-pin=1234\0--password=hunter2"
    try:
        laggard("why", "--set", "redaction.names=shop_pin")
        assert parse_command(line) == "x --shop-pin=*** --password=***"
        laggard("why", "--set", "redaction.enabled=false")
        assert parse_command(line) == "x --shop-pin=1234 --password=hunter2"
    finally:
        configure()
