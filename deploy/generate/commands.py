"""Generate `deploy/docs/reference/commands.md`, the reference of all commands, from their help."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Final

import click

from laggard.pipeline.cli import COMMANDS, laggard
from laggard.pipeline.cli.exits import MEANINGS
from laggard.pipeline.cli.options import takes_settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_INTRODUCTION: Final = """\
# Commands

`laggard COMMAND --help` prints the same. In a checkout the command is `deploy/laggard`.
[Find what is slow](../tasks/find.md) shows the most useful ones at work. This page is generated from the commands.
"""

_COMMON: Final = """
## Options of all commands

They may stand before and after the command's name. The last one counts.
"""

_COMPLETION: Final = """
## Completion

For bash, in `~/.bashrc`:

```sh
eval "$(_LAGGARD_COMPLETE=bash_source laggard)"
```
"""

_DEFAULT: Final = re.compile(r"\[default: ([^\]]*)\]")


def commands_page() -> str:
    """Return the page."""
    root = click.Context(laggard, info_name="laggard")
    common = {parameter.name for parameter in laggard.params}
    lines = [_INTRODUCTION, "| command | what it does |", "|---|---|"]
    lines += [f"| [`laggard {name}`](#laggard-{name}) | {_cell(line)} |" for name, (_, line) in COMMANDS.items()]
    lines += [_COMMON, *_options(laggard.params, root), "", "## Exit codes", "", "| code | meaning |", "|---|---|"]
    lines += [f"| {code} | {_cell(meaning)} |" for code, meaning in MEANINGS.items()]
    lines.append(_COMPLETION)
    for name in COMMANDS:
        command = laggard.get_command(root, name)
        assert command is not None
        lines += _section(command, click.Context(command, info_name=name, parent=root), common)
    return "\n".join(lines).rstrip() + "\n"


def _section(command: click.Command, context: click.Context, common: set[str]) -> Iterator[str]:
    """Yield the section on a command, and those on its subcommands."""
    path = context.command_path
    yield from (f"{'#' * (len(path.split()))} `{path}`", "")
    arguments = [piece for piece in command.collect_usage_pieces(context) if piece != "[OPTIONS]"]
    if arguments:
        yield from (f"Arguments: `{' '.join(arguments)}`", "")
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        yield from (paragraph.removeprefix("\b\n"), "")
    own = [each for each in command.params if isinstance(each, click.Option) and each.name not in common]
    if own:
        yield from _options(own, context)
        yield ""
    if not takes_settings(command):
        yield from ("It takes none of the options of all commands but `--debug`.", "")
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from _section(inner, click.Context(inner, info_name=name, parent=context), common)


def _options(options: Sequence[click.Parameter], context: click.Context) -> Iterator[str]:
    yield from ("| option | meaning |", "|---|---|")
    for option in options:
        if record := option.get_help_record(context):
            yield f"| `{_cell(record[0])}` | {_DEFAULT.sub(_default, _cell(record[1]))} |"


def _default(found: re.Match[str]) -> str:
    """Return a default, and the bounds of a number, as a sentence; values are code."""
    default, *others = found[1].split("; ")
    shown = default if " " in default else f"`{default}`"
    more = [f"bounds: `{each}`" if "<=x" in each else each for each in others]
    return f"{'; '.join([f'Default: {shown}', *more])}."


def _cell(text: str) -> str:
    """Return a text for a cell of a table."""
    return re.sub(r"\s+", " ", text).replace("|", "\\|").strip()
