"""Access logs as the settings name them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from laggard.pipeline.manifest import read_settings
from laggard.pipeline.measuring import sources_of
from laggard.pipeline.settings import SettingError
from laggard.producers.sources.access_log.source import AccessLog

if TYPE_CHECKING:
    from pathlib import Path

    from laggard.pipeline.settings import Settings

TABLE = '[[sources]]\nkind = "log"\napplication = "shop"\n'
LINES = {
    "nginx": b'::1 - - [22/Nov/2026:14:06:12 +0000] "GET / HTTP/1.1" 200 5 "-" "-" 0.250\n',
    "%{%F %T}t %>s %{ms}T": b"2026-11-22 14:06:11 200 250\n",
    "log_format short '$msec ' '$status ' '$request_time';": b"1795356372.0 200 0.250\n",
    "json": b'{"at":1795356372,"how":{"long":250},"code":200}\n',
}


def settings_of(folder: Path, text: str) -> Settings:
    config = folder / "laggard.toml"
    config.write_text(f'state = "{folder}"\n{TABLE}{text}', encoding="utf-8")
    return read_settings(config, {"HOME": str(folder)})


@pytest.mark.parametrize("said", LINES)
def test_a_log_is_a_source(tmp_path: Path, said: str) -> None:
    fields = 'fields = {time = "at", duration = "how.long", status = "code", unit = "ms"}\n' if said == "json" else ""
    settings = settings_of(
        tmp_path,
        f"""paths = ["{tmp_path}/access.log"]\nformat = \"\"\"{said}\"\"\"\n{fields}interval = "10s"
time_zone = "UTC"\n""",
    )
    (timed,) = sources_of(settings)
    assert isinstance(timed.source, AccessLog)
    assert timed.interval_s == 2.0  # so that an interval is told soon after its end
    source = timed.source
    source.parse(source.read(1795356355.0))
    (tmp_path / "access.log").write_bytes(LINES[said])
    taken = source.parse(source.read(1795356382.5))
    assert taken.unusable == 0, taken.troubles
    told = {frame.ts: dict(zip(frame.layout.features, frame.values[0], strict=True)) for frame in taken.frames}
    assert told[1795356380.0]["throughput_per_s"] == 0.1
    assert told[1795356380.0]["response_time_p99_s"] == 0.25
    assert [each.name for each in (tmp_path / "sources").glob("*.json")] == ["shop log.json"]
    source.close()


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ('format = "nginx"', "source 1: expected paths in it"),
        ('paths = ["a.log"]', "source 1: expected format in it"),
        ('paths = ["a.log.gz"]\nformat = "nginx"', "paths: expected logs that are written to, not compressed ones"),
        ('paths = ["a.log"]\nformat = "combined"', "format: expected one of nginx, apache, traefik, json, or a format"),
        ('paths = ["a.log"]\nformat = "$status"', "format: expected a time in the format"),
        ('paths = ["a.log"]\nformat = "%{%F %T}t"', "format: expected time_zone for times"),
        ('paths = ["a.log"]\nformat = "%t"\ntime_zone = "Mars/Olympus"', "format: expected a time zone of the IANA"),
        (
            'paths = ["a.log"]\nformat = "%t"\nfields = {time = "t"}',
            "format: expected fields only with the format json",
        ),
        ('paths = ["a.log"]\nformat = "json"\nfields = {time = "t"}', "the field 'duration', too"),
        ('paths = ["a.log"]\nformat = "json"\nfields = {tiem = "t"}', "only time, duration, status, unit, begins in"),
        (
            'paths = ["a.log"]\nformat = "json"\nfields = {time = "t", duration = "d", status = "s", unit = "min"}',
            "expected a unit of s, ms, us, ns",
        ),
        (
            'paths = ["a.log"]\nformat = "json"\nfields = {time = "t", duration = "d", status = "s", begins = "yes"}',
            "expected names of fields, and begins = true or false",
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_place(tmp_path: Path, said: str, expected: str) -> None:
    with pytest.raises(SettingError) as raised:
        settings_of(tmp_path, said)
    assert f"{tmp_path / 'laggard.toml'}:" in str(raised.value)
    assert expected in str(raised.value)
