"""The documents: their links lead somewhere, and their commands exist with these options."""

from __future__ import annotations

import re
import shlex
from functools import cache
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

from laggard.pipeline.cli import laggard
from tests.deploy.files import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOMS = (".github", "deploy", "operators", "pipeline", "producers", "tests")
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(path for room in ROOMS for path in (ROOT / room).rglob("*.md"))])
SEPARATORS = {"|", "||", "&&", ";", "&", ">", ">>", "<", "2>"}
NO_COMMANDS = {"COMMAND", "begin", "end", "traces", "0.1.0,"}
"""Words after `laggard` in placeholders, in the lines of trace markers, and in outputs."""

LINK = re.compile(r"\]\(([^)\s]+)\)")
SPAN = re.compile(r"`(laggard [^`]+)`")


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    missing = []
    for line in prose(path):
        for target in LINK.findall(line):
            name, _, anchor = target.partition("#")
            if "://" in target or target.startswith("mailto:"):
                continue
            found = (path.parent / name).resolve() if name else path
            if not found.exists() or (anchor and found.suffix == ".md" and anchor not in anchors(found)):
                missing.append(target)
    assert not missing


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_exist_with_their_options(path: Path) -> None:
    if path.name == "CHANGELOG.md":
        return  # it also names those that are gone
    for command in commands(path):
        check_command(command)


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("laggard why --hots web-1", "--hots"),
        ("laggard whi", "whi"),
        ("laggard topics create --all-of-them", "--all-of-them"),
        ("laggard topics crate", "crate"),
        ("laggard incidents --since 1d | laggard why --no", "--no"),
    ],
)
def test_a_wrong_command_is_found(command: str, problem: str) -> None:
    *right, wrong = split(command)
    for words in right:
        check_command(words)
    with pytest.raises(AssertionError, match=problem):
        check_command(wrong)


def lines_of(path: Path) -> Iterator[tuple[str, bool]]:
    """Yield the lines of a document, and whether each is code."""
    fenced = False
    for line in path.read_text().splitlines():
        if line.lstrip().startswith("```"):
            fenced = not fenced
        else:
            yield line, fenced or line.startswith("    ")


def prose(path: Path) -> Iterator[str]:
    """Yield the lines outside of code blocks."""
    return (line for line, is_code in lines_of(path) if not is_code)


@cache
def anchors(path: Path) -> frozenset[str]:
    """Return the anchors of a document's headings, as hosting sites make them."""
    found = set()
    for line in prose(path):
        if title := re.fullmatch(r"#+ (.*)", line):
            text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title[1])
            found.add(re.sub(r"[^\w\- ]", "", text.lower()).strip().replace(" ", "-"))
    return frozenset(found)


def commands(path: Path) -> Iterator[list[str]]:
    """Yield the words of each command of laggard, in code blocks and in spans of code."""
    for line, is_code in lines_of(path):
        if is_code:
            yield from split(line.strip().removeprefix("$ ").removeprefix("sudo ").removeprefix("deploy/"))
        else:
            for span in SPAN.findall(line):
                yield from split(span)


def split(line: str) -> Iterator[list[str]]:
    """Yield the words of each command of laggard in a line for a shell."""
    if "laggard " not in line:
        return
    words = shlex.shlex(line, posix=True, punctuation_chars=True)
    words.commenters = "#"
    words.whitespace_split = True
    try:
        found = list(words)
    except ValueError:  # a quote that goes on in the next line, or an apostrophe: no command
        return
    command: list[str] = []
    for word in [*found, ";"]:
        if word in SEPARATORS:
            if len(command) > 1 and Path(command[0]).name == "laggard" and command[1] not in NO_COMMANDS:
                # `laggard trace start|stop` are two.
                yield from map(list, product(*(part.split("|") for part in command[1:])))
            command = []
        else:
            command.append(word)


def check_command(words: list[str]) -> None:
    """Fail if there is no such command, or if it has no such option. Nothing runs, and no value is checked."""
    command: click.Command = laggard
    context = click.Context(command, info_name="laggard", **command.context_settings)
    rest = words
    try:
        while True:
            with context.scope(cleanup=False):
                _, rest, _ = command.make_parser(context).parse_args(list(rest))
                if not (isinstance(command, click.Group) and rest):
                    return
                name, found, rest = command.resolve_command(context, rest)
            assert found is not None
            command, context = found, click.Context(found, info_name=name, parent=context, **found.context_settings)
    except click.UsageError as error:
        raise AssertionError(f"laggard {' '.join(words)}: {error.format_message()}") from None
