"""The documents: their links lead somewhere, their commands exist with these options, and they are a site."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from functools import cache
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

from deploy.generate.site import anchor, indented, relinked
from laggard.pipeline.cli import laggard
from tests.deploy.files import DOCUMENTS, ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    if path.name in {"CHANGELOG.md", "commands.md"}:
        return  # the one also names those that are gone, the other is made of the commands themselves
    for command, _ in commands(path):
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


def test_every_term_of_the_glossary_has_one_line_and_is_used() -> None:
    path = ROOT / "deploy/docs/concepts/glossary.md"
    terms = re.findall(r"^\| (\w[^|]*?) \|", path.read_text().partition("## Status")[0], re.MULTILINE)[1:]
    assert terms == sorted(set(terms))
    others = " ".join(each.read_text().lower() for each in DOCUMENTS if each != path)
    assert [term for term in terms if term not in others] == []


# The site.


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    command = ("mkdocs", "build", "--strict", "--config-file", ROOT / "deploy/mkdocs.yml", "--site-dir", tmp_path)
    built = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    page = (tmp_path / "tasks/page.html").read_text()
    assert 'href="../reference/metrics.html"' in page
    assert "compare-light.png" in page
    assert 'href="../deploying.html"' in (tmp_path / "operations/runbooks/LaggardLagGrowing.html").read_text()


@pytest.mark.parametrize(
    ("link", "repository", "wanted"),
    [
        ("[runbooks](../../runbooks/LaggardDown.md#silence)", None, "[runbooks](runbooks/LaggardDown.md#silence)"),
        ("[page](../tasks/page.md)", None, "[page](../tasks/page.md)"),
        ("[rules](../../prometheus/laggard.rules.yaml)", None, "rules (`deploy/prometheus/laggard.rules.yaml`)"),
        ("[laggard.rules.yaml](../../prometheus/laggard.rules.yaml)", None, "laggard.rules.yaml"),
        ("[units](../../systemd)", "https://a.test/b", "[units](https://a.test/b/blob/main/deploy/systemd)"),
        ("[missing](../../nothing.md)", None, "[missing](../../nothing.md)"),
        ("[a](https://a.test) [b](#b)", None, "[a](https://a.test) [b](#b)"),
    ],
)
def test_a_link_on_the_site(link: str, repository: str | None, wanted: str) -> None:
    source = ROOT / "deploy/docs/operations/monitoring.md"
    assert relinked(link, source, "operations/monitoring.md", repository) == wanted


def test_lists_are_indented_as_mkdocs_needs_it() -> None:
    document = "1. a\n   b\n\n   ```\n   c\n   ```\n\n- d\n  - e\n\nf\n```\n- g\n  h\n```\n"
    wanted = "1. a\n    b\n\n\n        c\n\n\n- d\n    - e\n\nf\n```\n- g\n  h\n```\n"
    assert indented(document) == wanted


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
            found.add(anchor(title[1]))
    return frozenset(found)


def commands(path: Path) -> Iterator[tuple[list[str], bool]]:
    """Yield the words of each command of laggard, and whether it is in a block of code, not in a span of a sentence."""
    for line, is_code in lines_of(path):
        if is_code:
            lines = [line.strip().removeprefix("$ ").removeprefix("sudo ").removeprefix("deploy/")]
        else:
            lines = SPAN.findall(line)
        yield from ((words, is_code) for each in lines for words in split(each))


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
