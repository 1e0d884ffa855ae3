"""`laggard doctor`: checks, each with its finding and advice."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

import click

from laggard.pipeline.cli.exits import FAILED
from laggard.pipeline.cli.options import given_settings, json_option, program, settings_options
from laggard.pipeline.doctor import Finding
from laggard.pipeline.doctor.installation import examine_installation
from laggard.pipeline.doctor.machine import examine_machine
from laggard.pipeline.settings import SettingError

if TYPE_CHECKING:
    from collections.abc import Iterator

INDENT: Final = 26
"""The columns before a finding."""

NARROWEST: Final = 20
"""The fewest columns for a finding."""

COLOURS = {"ok": "green", "warning": "yellow", "problem": "red"}


@click.command()
@settings_options
@json_option
def doctor(as_json: bool) -> int:
    """Check configuration, permissions, kernel, disk, bus, clock and parts, and print advice.

    The exit code is 1 if there is a problem. After a warning some evidence is missing, but nothing breaks.
    """
    findings = []
    for finding in examine():
        findings.append(finding)
        if not as_json:
            show(finding)
    problems = sum(finding.level == "problem" for finding in findings)
    if as_json:
        click.echo(json.dumps({"problems": problems, "findings": [asdict(finding) for finding in findings]}))
    return FAILED if problems else 0


def examine() -> Iterator[Finding]:
    """Yield all findings, those of the machine first: its checks need no usable settings."""
    yield from examine_machine()
    try:
        settings = given_settings()
    except SettingError as error:
        for problem in error.problems:
            found, _, advice = problem.partition("; ")
            yield Finding("configuration", "problem", found, advice)
    else:
        yield from examine_installation(settings)


def show(finding: Finding) -> None:
    """Print one finding, and the advice below it."""
    level = click.style(f"{finding.level:8}", fg=COLOURS[finding.level])
    first, *others = _broken(finding.found)
    if finding.advice:
        others += _broken(finding.advice.replace("`laggard ", f"`{program()} "))
    click.echo(f"{level} {finding.check:16} {first}")
    for line in others:
        click.echo(f"{'':{INDENT}}{line}")


def _broken(text: str) -> list[str]:
    """Return the lines of a text: broken at words to the width of a terminal; otherwise one line, for `grep`."""
    if not sys.stdout.isatty():
        return [text]
    width = max(shutil.get_terminal_size().columns - INDENT, NARROWEST)
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False) or [""]
