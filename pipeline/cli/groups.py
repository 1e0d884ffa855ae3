"""A command that shows something, and has commands below it."""

from __future__ import annotations

import click


class ShowGroup(click.Group):
    """What is no command of it is what `show` is asked: `laggard models shop` is `laggard models show shop`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Without any, `show` is meant."""
        return super().parse_args(ctx, args or ["show"])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command and what it is given."""
        return super().resolve_command(ctx, args if args[0] in self.commands else ["show", *args])
