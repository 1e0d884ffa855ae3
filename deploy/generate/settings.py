"""The documents that follow from the declared settings: `deploy/settings.md` and the sample `deploy/laggard.toml`.

A test fails when they are not current; `pytest --update-golden` writes them anew.
"""

from __future__ import annotations

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
    """The reference of all settings, in Markdown."""
    kinds = sorted({setting.kind for setting in SETTINGS})
    sources = [line for name, kind in BY_KIND.items() for line in _source_kind(name, kind)]
    lines = [
        "# Settings",
        "",
        "A setting is looked for in three places; the later one wins:",
        "",
        f"1. the configuration file: the one that `--config` or `${CONFIG_VARIABLE}` names, else the first one there",
        "   of `./laggard.toml`, `~/.config/laggard/laggard.toml` and `/etc/laggard/laggard.toml`",
        "   ([a sample](laggard.toml); the part of a name before the point is the TOML table);",
        "2. the environment: `gaussian.context` is `LAGGARD_GAUSSIAN_CONTEXT`;",
        "3. the command line: `--set gaussian.context=4h`, and the flags of a command such as `--bus`.",
        "",
        "A value that cannot be used, or a name that does not exist, is an error that says where it stands and what",
        "was expected. `laggard doctor` checks all of it.",
        "",
        "A configuration file that another user could have written is refused, wherever it was found: it has to belong",
        "to root, to the user who runs laggard, or to who called `sudo`, and nobody else may write it. Its group may",
        "where that is root's, or the owner's private one: of his name, and with no other member. Of a link, what it",
        "leads to counts. The same holds for the embedded bus's file, for what laggard keeps in the directory `state`,",
        "and for the folders above them; but others may write to a folder with the sticky bit, such as `/tmp`, and to",
        "one that root mounted so, such as an `emptyDir` of Kubernetes: each file in it is checked.",
        "",
        "| setting | kind | default | bounds | what it is |",
        "|---|---|---|---|---|",
        *map(_row, SETTINGS),
        "",
        "## Secrets",
        "",
        *textwrap.wrap(
            "What processes and clients say is recorded, shown on the page and sent to Kafka. Before that `***` takes "
            "the place of secrets in command lines, in names of processes and threads, and in what traced requests and "
            "their spans ask for (whose queries are dropped anyway), unless `redaction.enabled` is false. Of access "
            "logs only times and statuses are kept, of stacks the names of functions. Hidden are:",
            118,
        ),
        "",
        "- the value of a name that ends with one of these, or with one of `redaction.names`, as `--NAME=VALUE`,",
        "  `--NAME VALUE`, `NAME=VALUE`, `NAME: VALUE`, `?NAME=VALUE` or in JSON; those of up to four letters only as",
        "  a word of their own:",
        *textwrap.wrap(
            f"{', '.join(f'`{name}`' for name in NAMES)};", 118, initial_indent="  ", subsequent_indent="  "
        ),
        "- what follows a letter that stands for a password:",
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
        "- the password in an address, `postgres://shop:***@db/shop`; Bearer tokens; JSON web tokens; private keys",
        "  in PEM; keys by their shape: of Amazon, Google, GitHub, GitLab, Slack, Stripe, Vault, npm, PyPI, Docker,",
        "  SendGrid, DigitalOcean, and `sk-...`.",
        "",
        "A secret that stands alone, as in `login alice hunter2`, is not known as one: set",
        "`agent.command_lines = false` where programs are called so.",
        "",
        "## Sources",
        "",
        "`laggard measure`, and `laggard up` where there are any, read the sources that the configuration file has:",
        "",
        "```toml",
        *_EXAMPLE,
        "```",
        "",
        "| key of every source | kind | default | bounds | what it is |",
        "|---|---|---|---|---|",
        *(_row(key) for key in Source.declared() if key is not Source.kind),
        "",
        *sources,
        "## How a kind is written",
        "",
        "| kind | in TOML, a variable or a flag |",
        "|---|---|",
        *(f"| {kind} | {_WRITTEN[kind]} |" for kind in kinds),
    ]
    return "\n".join(lines) + "\n"


def sample_file() -> str:
    """A `laggard.toml` with every setting at its default, as a comment."""
    lines = ["# Every setting of laggard with its default. Take the # away from what you change.", ""]
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
    """What a kind of source can be told."""
    return [
        f'### `kind = "{name}"`',
        "",
        *textwrap.wrap(f"{kind.help[:1].upper()}{kind.help[1:]}", 118),
        "",
        "| key | kind | default | bounds | what it is |",
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
        else setting.bounds.removeprefix("of ")
    )


def _toml(setting: Setting[Any]) -> str:
    if setting.kind in {"flag", "count", "number"}:
        return setting.default
    if setting.kind in {"table", "tables"}:
        return "{}" if setting.kind == "table" else "[]"
    if setting.kind == "words":
        return "[" + ", ".join(f'"{word}"' for word in setting.default.split(",") if word) + "]"
    return f'"{setting.default}"'
