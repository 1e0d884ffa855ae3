"""The references of commands and of the API are current."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deploy.generate.api import api_page
from deploy.generate.commands import commands_page
from laggard.pipeline.cli import COMMANDS
from laggard.pipeline.investigator.app import ENDPOINTS
from tests.deploy.files import DEPLOY

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

REFERENCE = DEPLOY / "docs/reference"


def test_the_reference_of_commands_is_current(golden: Callable[[Path, str], None]) -> None:
    golden(REFERENCE / "commands.md", commands_page())


def test_the_reference_of_the_api_is_current(golden: Callable[[Path, str], None]) -> None:
    golden(REFERENCE / "api.md", api_page())


def test_every_command_and_every_endpoint_has_a_section() -> None:
    headings = {line.strip("#` ") for line in (commands_page() + api_page()).splitlines() if line[:1] == "#"}
    assert {f"laggard {name}" for name in COMMANDS} <= headings
    assert {"laggard trace start", "laggard models what-if", "laggard topics acls"} <= headings
    assert {f"{each.method} {each.path}" for each in ENDPOINTS} <= headings
