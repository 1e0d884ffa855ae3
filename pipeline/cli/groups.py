"""A group of commands with a default command, `show`."""

from __future__ import annotations

import click


class ShowGroup(click.Group):
    """A group whose default command is `show`: `laggard models shop` is `laggard models show shop`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments; without any, run `show`."""
        return super().parse_args(ctx, args or ["show"])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command and its arguments: `show` if the first argument names no command."""
        return super().resolve_command(ctx, args if args[0] in self.commands else ["show", *args])
