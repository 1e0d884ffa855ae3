"""Reads settings from `laggard.toml`, then the environment, then flags; later ones win."""

from __future__ import annotations

import difflib
import os
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from laggard.pipeline.core.trusted import open_trusted
from laggard.pipeline.settings.declaring import Section

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from laggard.pipeline.settings.declaring import Setting
    from laggard.pipeline.settings.kinds import Value
    from laggard.pipeline.settings.sources import Source

CONFIG_VARIABLE = "LAGGARD_CONFIG"
"""The environment variable that names the configuration file, as `--config` does."""

MAX_FILE_BYTES = 1 << 20

# A Kubernetes service called `laggard...` adds these variables to every pod of its namespace.
_SERVICE_LINK = re.compile(r"LAGGARD_(\w+_)?(SERVICE_(HOST|PORT)|PORT)(_\w+)?")

SectionT = TypeVar("SectionT", bound=Section)


class SettingError(ValueError):
    """Settings are invalid.

    Attributes:
        problems: one sentence each, with the setting, its place, its value, and the expected one.

    """

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True)
class Given:
    """One given value: its name, the value, and its place (`laggard.toml:3`, `--interval`).

    For a value on several lines, `within` has the places of its parts, by name: `sources[0].interval`.
    """

    name: str
    value: object
    place: str
    within: Mapping[str, str] = field(default_factory=dict)


class Settings(Section):
    """The settings of all sections, each with a valid value. `settings[CpuSettings].threshold` is one of them.

    Attributes:
        config: the configuration file that was read, None without one.
        sources: the tables `[[sources]]`, also valid.

    """

    def __init__(
        self,
        values: Mapping[str, Value],
        places: Mapping[str, str],
        config: Path | None,
        sources: Sequence[Source] = (),
    ) -> None:
        super().__init__(values, places)
        self.config = config
        self.sources = tuple(sources)

    def __getitem__(self, section: type[SectionT]) -> SectionT:
        return section(self._values, self._places)


def read(
    sections: Sequence[type[Section]],
    config: Path | None = None,
    environ: Mapping[str, str] | None = None,
    flags: Sequence[Given] = (),
) -> Settings:
    """Read the settings of some sections.

    Args:
        sections: the sections, in the order of the documentation.
        config: the configuration file, which must exist; by default `$LAGGARD_CONFIG`, otherwise the first existing one
            of `./laggard.toml`, `~/.config/laggard/laggard.toml` and `/etc/laggard/laggard.toml`. It is rejected if
            other users could have written it, see `trusted.py`.
        environ: the environment, `os.environ` by default.
        flags: the values of the command line, the last one wins.

    Raises:
        SettingError: settings are invalid. It lists all problems, not only the first.

    """
    declared = {setting.name: setting for section in sections for setting in section.declared()}
    environ = os.environ if environ is None else environ
    if config is None and environ.get(CONFIG_VARIABLE):
        config = Path(environ[CONFIG_VARIABLE])
    if config is None:
        config = next((path for path in config_paths(environ) if path.exists()), None)
    problems: list[str] = []
    given = [*_from_file(config, declared, problems)] if config else []
    given += [*_from_environment(environ, declared, problems), *flags]
    values: dict[str, Value] = {}
    places: dict[str, str] = {}
    tables: Given | None = None
    for one in given:
        setting = declared.get(one.name)
        if setting is None:
            problems.append(f"{one.place}: there is no setting {one.name!r}{suggestion(one.name, declared)}")
            continue
        if setting.secret and one.place.startswith("--"):
            problems.append(
                f"{one.place}: {one.name} is a secret, and everybody on a machine sees its command lines; expected it "
                f"in the configuration file or in {setting.variable}"
            )
            continue
        try:
            values[one.name] = setting.read(one.value)
            places[one.name] = one.place
            tables = one if one.name == "sources" else tables
        except ValueError as error:
            shown = "a secret" if setting.secret else _shown(one.value)
            problems.append(f"{one.place}: {one.name} is {shown}; expected {error}")
    problems += _exclusions(declared.values(), values, places)
    sources = [] if tables is None else _sources(values["sources"], tables, problems)
    if problems:
        raise SettingError(problems)
    for setting in declared.values():
        if setting.name not in values:
            values[setting.name] = _default(setting, values, environ)
    return Settings(values, places, config, sources)


def parse_assignment(text: str, flag: str = "--set") -> Given:
    """Parse the argument of `--set`, such as `gaussian.context=4h`. Raises `SettingError`."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise SettingError([f"{flag} {text}: expected NAME=VALUE such as gaussian.context=4h"])
    return Given(name.strip(), value.strip(), flag)


def config_paths(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the paths that may have a configuration file, in the order of the search."""
    base = Path(environ.get("XDG_CONFIG_HOME", ""))
    own = base if base.is_absolute() else Path(environ.get("HOME", "/")) / ".config"
    return Path("laggard.toml"), own / "laggard/laggard.toml", Path("/etc/laggard/laggard.toml")


def suggestion(name: str, declared: Iterable[str]) -> str:
    """Return `; did you mean 'gaussian.context'?`, or nothing if no setting has a similar name."""
    close = difflib.get_close_matches(name, declared, n=1)
    if not close:
        last = name.rpartition(".")[2]
        close = [known for known in declared if last and known.rpartition(".")[2] == last][:1]
    return f"; did you mean {close[0]!r}?" if close else ""


def _sources(tables: Value, given: Given, problems: list[str]) -> list[Source]:
    """Return the valid tables of sources."""
    from laggard.pipeline.settings import sources  # noqa: PLC0415 - most machines have none

    assert isinstance(tables, tuple)
    found: list[Source] = []
    numbers: Counter[tuple[str, str]] = Counter()
    for index, table in enumerate(tables):
        assert isinstance(table, dict)
        of_kind = str(table.get("application", table.get("pool"))), str(table.get("kind"))
        numbers[of_kind] += 1
        source = _source(index, {"name": sources.default_name(of_kind[1], numbers[of_kind])} | table, given, problems)
        if source is None:
            continue
        wrong = [
            f"{_within(given, index, key.name)}: source {index + 1}: {key.name}: expected {expected}"
            for key, expected in source.wrong()
        ]
        problems += wrong
        if not wrong:
            found.append(source)
    for source, key, expected in sources.wrong_together(found):
        place = source.place(key) if source.place(key) != "default" else source.place(sources.Source.kind)
        problems.append(f"{place}: source {source.name}: {key.name}: expected {expected}")
    return found


def _source(index: int, table: Mapping[str, object], given: Given, problems: list[str]) -> Source | None:
    """Return one table, None if one of its keys is wrong: `problems` get it."""
    from laggard.pipeline.settings import sources  # noqa: PLC0415 - see above

    if "kind" not in table:
        expected = f"a kind, one of {', '.join(sources.BY_KIND)}"
        problems.append(f"{_within(given, index, 'kind')}: source {index + 1}: expected {expected}")
        return None
    values: dict[str, Value] = {}
    places: dict[str, str] = {}
    before = len(problems)
    kind = sources.BY_KIND.get(str(table["kind"]))
    declared = {key.name: key for key in kind.declared()} if kind else {"kind": sources.Source.kind}
    missing = [name for name in kind.required(table) if name not in table] if kind else []
    problems += [f"{_within(given, index, name)}: source {index + 1}: expected {name} in it" for name in missing]
    if missing:
        return None
    for key, value in table.items():
        place = _within(given, index, key)
        setting = declared.get(key)
        if setting is None:
            if kind is not None:
                close = difflib.get_close_matches(key, declared, n=1)
                hint = f"; did you mean {close[0]!r}?" if close else f"; expected some of {', '.join(declared)}"
                problems.append(
                    f"{place}: source {index + 1}: a source of the kind {table['kind']} has no {key!r}{hint}"
                )
            continue
        try:
            values[key] = setting.read(value)
            places[key] = place
        except ValueError as error:
            problems.append(f"{place}: source {index + 1}: {key} is {_shown(value)}; expected {error}")
    if len(problems) > before or kind is None:
        return None
    for key, setting in declared.items():
        if key not in values:
            values[key] = setting.read(setting.default)
    return kind(values, places)


def _within(given: Given, index: int, key: str) -> str:
    """Return the most exact known place of a key of a table."""
    table = f"{given.name}[{index}]"
    return given.within.get(f"{table}.{key}") or given.within.get(table) or given.place


def _exclusions(
    declared: Iterable[Setting[Any]], values: Mapping[str, Value], places: Mapping[str, str]
) -> Iterator[str]:
    for setting in declared:
        other = setting.excludes
        if other and values.get(setting.name) and values.get(other):
            yield (
                f"{places[setting.name]}: {setting.name} is given, and {other} too ({places[other]}); "
                "expected only one of them"
            )


def _default(setting: Setting[Any], values: Mapping[str, Value], environ: Mapping[str, str]) -> Any:
    return setting.found(values, environ) if setting.found else setting.read(setting.default)


def _from_environment(
    environ: Mapping[str, str], declared: Mapping[str, Setting[Any]], problems: list[str]
) -> Iterator[Given]:
    names = {setting.variable: setting.name for setting in declared.values()}
    for variable in sorted(environ):
        if not variable.startswith("LAGGARD_") or variable == CONFIG_VARIABLE:
            continue
        if variable in names:
            yield Given(names[variable], environ[variable], variable)
        elif not _SERVICE_LINK.fullmatch(variable):
            close = difflib.get_close_matches(variable, names, n=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            problems.append(f"{variable}: there is no setting of this name{hint}")


def _from_file(path: Path, declared: Container[str], problems: list[str]) -> Iterator[Given]:
    import tomllib  # noqa: PLC0415 - most machines have no configuration file

    try:
        with os.fdopen(open_trusted(path), "rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            problems.append(f"{path}: expected a configuration file of at most {MAX_FILE_BYTES} bytes")
            return
        text = content.decode()
        table = tomllib.loads(text)
    except OSError as error:
        problems.append(f"{path}: the configuration file cannot be read: {error.strerror}")
        return
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        problems.append(f"{path}:{line}: expected UTF-8")
        return
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        position = re.search(r" \(at line (\d+), column \d+\)$", str(error))
        line_of_error = f":{position[1]}" if position else ""
        reason = str(error)[: position.start()] if position else str(error)
        problems.append(f"{path}{line_of_error}: expected TOML: {reason}")
        return
    lines = _lines(text)
    for name, value in _flat(table, "", declared):
        line_number = lines.get(name)
        within = {inner: f"{path}:{line}" for inner, line in lines.items() if inner.startswith(f"{name}[")}
        yield Given(name, value, f"{path}:{line_number}" if line_number else str(path), within)


def _flat(table: Mapping[str, object], prefix: str, declared: Container[str]) -> Iterator[tuple[str, object]]:
    for key, value in table.items():
        if isinstance(value, dict) and prefix + key not in declared:
            yield from _flat(value, f"{prefix}{key}.", declared)
        else:
            yield prefix + key, value


def _lines(text: str) -> dict[str, int]:
    """Return the line of each key, as a scan of single lines finds it."""
    lines: dict[str, int] = {}
    table = ""
    counts: Counter[str] = Counter()
    for number, line in enumerate(text.splitlines(), start=1):
        if array := re.match(r"\s*\[\[\s*([\w.\- \"']+?)\s*\]\]", line):
            name = re.sub(r"[\"' ]", "", array[1])
            table = f"{name}[{counts[name]}]."
            counts[name] += 1
            lines.setdefault(name, number)
            lines[table[:-1]] = number
        elif header := re.match(r"\s*\[\s*([\w.\- \"']+?)\s*\]", line):
            name, point, rest = re.sub(r"[\"' ]", "", header[1]).partition(".")
            # A table below an array of tables belongs to the array's last one.
            table = f"{name}[{counts[name] - 1}]{point}{rest}." if counts[name] else f"{name}{point}{rest}."
            lines.setdefault(table[:-1], number)
        elif key := re.match(r"\s*([\w.\- \"']+?)\s*=", line):
            lines.setdefault(table + re.sub(r"[\"' ]", "", key[1]), number)
    return lines


def _shown(value: object) -> str:
    text = f'"{value}"' if isinstance(value, str) else repr(value)
    text = re.sub(r"//[^/]*@", "//...@", text)  # a password in an address
    return text if len(text) <= 60 else f"{text[:57]}..."
