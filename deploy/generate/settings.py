"""Generate `deploy/docs/reference/settings.md` and the sample `deploy/laggard.toml` from the declared settings."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING, Any

from laggard.pipeline.manifest import SETTINGS
from laggard.pipeline.settings.reading import CONFIG_VARIABLE
from laggard.pipeline.settings.sources import BY_KIND, Source
from laggard.producers.system.redaction import NAMES, PROGRAMS

if TYPE_CHECKING:
    from laggard.pipeline.settings import Setting

_WRITTEN = {
    "address": "an address and a port: `127.0.0.1:9464`, `[::1]:9464`",
    "choice": "one of the names given",
    "count": "a whole number",
    "duration": "a number with `ms`, `s`, `m`, `h`, `d` or `w`, also together (`1h30m`); without, seconds",
    "file": "the path of a file, empty for none; `~` is the home directory",
    "flag": "`true` or `false`",
    "number": "a number",
    "path": "a path; `~` is the home directory",
    "rate": "a number for each `second`, `minute`, `hour`, `day`, `week` or `month` (30 days): `1/day`",
    "ratio": "a number or a percentage: `0.85`, `85%`",
    "size": "a number with `kB`, `MB`, `GB`, `TB` (1000) or `KiB`, `MiB`, `GiB`, `TiB` (1024); without, bytes",
    "table": "a TOML table, `{n_trees = 10, height = 6}`; in a variable or a flag `n_trees=10,height=6`",
    "tables": "tables `[[sources]]`; in a variable or a flag a list of objects in JSON",
    "text": "a text on one line",
    "words": "a list of names; in a variable or a flag separated by commas",
}


_EXAMPLE = (
    "[[sources]]  # what the application serves itself",
    'kind = "prometheus"',
    'application = "shop"',
    'targets = ["http://web-1:8000/metrics", "http://web-2:8000/metrics"]',
    "",
    "[[sources]]  # all of node_exporter's, as a Prometheus has it",
    'kind = "prometheus"',
    'application = "shop"',
    "performance = false",
    'server = "http://prometheus:9090"',
    "metrics = '{job=\"node\"}'",
    "",
    "[[sources]]  # replicas that do the same work, to be compared with each other",
    'kind = "prometheus"',
    'pool = "checkout"',
    'targets = ["http://web-1:8000/metrics", "http://web-2:8000/metrics", "http://web-3:8000/metrics"]',
    "metrics = '{__name__=~\"process_.*|python_gc_.*\"}'",
)


def settings_page() -> str:
    """Return the reference of all settings, in Markdown."""
    kinds = sorted({setting.kind for setting in SETTINGS})
    sources = [line for name, kind in BY_KIND.items() for line in _source_kind(name, kind)]
    lines = [
        "# Settings",
        "",
        "Settings come from three places. A later one overrides an earlier one:",
        "",
        f"1. The configuration file: the one named by `--config` or `${CONFIG_VARIABLE}`, otherwise the first existing",
        "   one of `./laggard.toml`, `~/.config/laggard/laggard.toml` and `/etc/laggard/laggard.toml`",
        "   ([a sample](../../laggard.toml)). The part of a name before the point is the TOML table.",
        "2. The environment: `gaussian.context` is `LAGGARD_GAUSSIAN_CONTEXT`.",
        "3. The command line: `--set gaussian.context=4h`, and the flags of a command such as `--bus`.",
        "",
        "An invalid value or an unknown name is an error with its place and the expected value. `laggard doctor`",
        "checks all settings.",
        "",
        "A configuration file that another user could have written is rejected. It must belong to root, to the user",
        "who runs laggard, or to the user who called `sudo`, and other users must not be able to write it. Its group",
        "may write it if that is root's group, or the private group of the owner: with the same name and no other",
        "member. For a link, its target counts. The same holds for the embedded bus's file, for the files in the",
        "directory `state`, and for the folders above them. Other users may write to a folder with the sticky bit,",
        "such as `/tmp`. They may also write to one that root mounted with their permission, such as an `emptyDir` of",
        "Kubernetes. Each file in such a folder is checked.",
        "",
        "| setting | kind | default | bounds | meaning |",
        "|---|---|---|---|---|",
        *map(_row, SETTINGS),
        "",
        "## Secrets",
        "",
        *textwrap.wrap(
            "Texts of processes and clients are recorded, shown on the page and sent to Kafka. Before that, `***` "
            "replaces secrets in command lines, in names of processes and threads, and in the targets of traced "
            "requests and their spans. The queries of these targets are always dropped. If `redaction.enabled` is "
            "false, nothing is replaced. Access logs only contribute times and statuses, stacks the names of "
            "functions. These secrets are hidden:",
            118,
        ),
        "",
        "- the value of a name that ends with one of these, or with one of `redaction.names`, as `--NAME=VALUE`,",
        "  `--NAME VALUE`, `NAME=VALUE`, `NAME: VALUE`, `?NAME=VALUE` or in JSON; names of up to four letters only",
        "  match whole words:",
        *textwrap.wrap(
            f"{', '.join(f'`{name}`' for name in NAMES)};", 118, initial_indent="  ", subsequent_indent="  "
        ),
        "- the value of an option that is a password:",
        *textwrap.wrap(
            "; ".join(
                f"{', '.join(f'`-{each}`' for each in letters)} of {names.replace('|', ', ')}"
                for names, letters, _ in PROGRAMS
            )
            + ";",
            118,
            initial_indent="  ",
            subsequent_indent="  ",
        ),
        "- the password in an address, `postgres://shop:***@db/shop`;",
        "- Bearer tokens, JSON web tokens and private keys in PEM;",
        "- keys by their shape: of Amazon, Google, GitHub, GitLab, Slack, Stripe, Vault, npm, PyPI, Docker, SendGrid,",
        "  DigitalOcean, and `sk-...`.",
        "",
        "A secret without a name, as in `login alice hunter2`, is not detected: set `agent.command_lines = false` if",
        "programs are called like this.",
        "",
        "## Sources",
        "",
        "`laggard measure` reads the sources in the configuration file, and so does `laggard up` if there are any:",
        "",
        "```toml",
        *_EXAMPLE,
        "```",
        "",
        "| key of every source | kind | default | bounds | meaning |",
        "|---|---|---|---|---|",
        *(_row(key) for key in Source.declared() if key is not Source.kind),
        "",
        *sources,
        "## Formats of values",
        "",
        "| kind | in TOML, a variable or a flag |",
        "|---|---|",
        *(f"| {kind} | {_WRITTEN[kind]} |" for kind in kinds),
    ]
    return "\n".join(lines) + "\n"


def sample_file() -> str:
    """Return a `laggard.toml` with every setting at its default, as a comment."""
    lines = ["# All settings of laggard with their defaults. Remove the # from those that you change.", ""]
    table = ""
    for setting in sorted(SETTINGS, key=lambda setting: "." in setting.name):
        head, _, last = setting.name.rpartition(".")
        if head != table:
            lines += [f"[{head}]", ""]
            table = head
        bounds = _bounds(setting).replace("`", "")
        help_text = setting.help.replace("`", "") + (f" Allowed: {bounds}." if bounds else "")
        lines += textwrap.wrap(help_text, 100, initial_indent="# ", subsequent_indent="# ")
        if setting.found:
            lines.append(f"# By default {setting.found_as.replace('`', '')}.")
        if setting.name == "sources":
            lines += [f"#   {line}".rstrip() for line in _EXAMPLE]
        lines += [f"#{last} = {_toml(setting)}", ""]
    return "\n".join(lines)


def _row(setting: Setting[Any]) -> str:
    text = setting.help.replace("|", "\\|")
    return f"| `{setting.name}` | {setting.kind} | {_default(setting)} | {_bounds(setting)} | {text} |"


def _source_kind(name: str, kind: type[Source]) -> list[str]:
    """Return the section on a kind of source, with its keys."""
    return [
        f'### `kind = "{name}"`',
        "",
        *textwrap.wrap(f"{kind.help[:1].upper()}{kind.help[1:]}", 118),
        "",
        "| key | kind | default | bounds | meaning |",
        "|---|---|---|---|---|",
        *(_row(key) for key in kind.declared() if key.name not in vars(Source)),
        "",
    ]


def _default(setting: Setting[Any]) -> str:
    return setting.found_as if setting.found else f"`{setting.default}`" if setting.default else "empty"


def _bounds(setting: Setting[Any]) -> str:
    return (
        ", ".join(f"`{choice}`" for choice in setting.choices)
        if setting.choices
        else re.sub(r"(\d\S*)", r"`\1`", setting.bounds.removeprefix("of "))
    )


def _toml(setting: Setting[Any]) -> str:
    if setting.kind in {"flag", "count", "number"}:
        return setting.default
    if setting.kind in {"table", "tables"}:
        return "{}" if setting.kind == "table" else "[]"
    if setting.kind == "words":
        return "[" + ", ".join(f'"{word}"' for word in setting.default.split(",") if word) + "]"
    return f'"{setting.default}"'
