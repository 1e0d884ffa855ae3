"""`laggard diagnose`: the diagnosis of a process, made now or recorded while something was wrong."""

from __future__ import annotations

import json
import sys
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from laggard.pipeline.cli.exits import FAILED, NO_DATA, CommandError
from laggard.pipeline.cli.opening import existing_bus, topics_of
from laggard.pipeline.cli.options import json_option, seconds, setting_flag, to_type, with_settings
from laggard.pipeline.cli.pages import console_of, page_of, write
from laggard.pipeline.cli.sampling import sample
from laggard.pipeline.core.records.diagnosis_json import write_diagnosis
from laggard.pipeline.explaining.explain import printable
from laggard.pipeline.history.report import moment
from laggard.pipeline.methods.diagnoses.flame_graph import flame_graph
from laggard.pipeline.methods.diagnoses.folded import folded
from laggard.pipeline.methods.diagnoses.page import Shown, diagnosis_lines
from laggard.pipeline.methods.diagnoses.speedscope import speedscope
from laggard.pipeline.methods.diagnoses.words import sentence
from laggard.pipeline.methods.incidents.diagnosed import Recorded
from laggard.pipeline.methods.incidents.queries import SHORT_ID
from laggard.pipeline.processes import process, runs
from laggard.pipeline.settings.general import GeneralSettings
from laggard.pipeline.settings.producing import DiagnosisSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from laggard.pipeline.core.records.diagnosis import Diagnosis
    from laggard.pipeline.settings import Settings

SAMPLES: Final = 100
"""The default number of samples, as in S1."""

DURATION_S: Final = 300.0
"""The default limit of the duration, in seconds, as in S1."""

UNBOUNDED: Final = 100_000
"""The number of samples if only a duration is given."""


class Exports(NamedTuple):
    """The files of a diagnosis: paths, `-` for standard output, or None for no file."""

    folded: str | None
    speedscope: str | None
    svg: str | None


_FILE: Final = click.Path(dir_okay=False, writable=True, allow_dash=True)


@click.command()
@with_settings
@click.argument("process", required=False, metavar="[PID|NAME]")
@click.option(
    "--samples",
    type=click.IntRange(1, UNBOUNDED),
    help=f"Stop after this many samples.  [default: {SAMPLES}; with --duration {UNBOUNDED}]",
)
@click.option(
    "--duration",
    "duration_s",
    metavar="DURATION",
    callback=seconds,
    help="Stop after this time at the latest.  [default: 5m]",
)
@click.option("--last", is_flag=True, help="Show the last recorded diagnosis of this process instead of a new one.")
@click.option("--id", "wanted", metavar="ID", help="Show the recorded diagnosis with this id or prefix of it.")
@click.option(
    "--list", "listing", is_flag=True, help="List the recorded diagnoses instead: those of PID or NAME, or all."
)
@click.option("--host", help="The host of recorded diagnoses.  [default: this one]")
@click.option("--threads", type=click.IntRange(1, 10_000), default=5, show_default=True, help="Threads to show.")
@click.option(
    "--functions",
    type=click.IntRange(1, 1000),
    default=3,
    show_default=True,
    help="Functions to show per thread.",
)
@click.option("--reverse", is_flag=True, help="Print the top consumer last, next to the prompt.")
@json_option
@click.option("--folded", type=_FILE, metavar="FILE", help="Write folded stacks, for flamegraph.pl and similar tools.")
@click.option("--speedscope", type=_FILE, metavar="FILE", help="Write a file for https://www.speedscope.app.")
@click.option("--svg", type=_FILE, metavar="FILE", help="Write a flame graph, for a browser.")
@setting_flag(
    "--method",
    DiagnosisSettings.method,
    "METHOD",
    "How stacks are sampled: `proc` stops nothing, but sees only blocked threads; perf, py-spy, jcmd, eu-stack.  "
    "[default: setting diagnosis.method, otherwise what suits the process]",
)
def diagnose(
    settings: Settings,
    *,
    process: str | None,
    samples: int | None,
    duration_s: float | None,
    last: bool,
    wanted: str | None,
    listing: bool,
    host: str | None,
    threads: int,
    functions: int,
    reverse: bool,
    as_json: bool,
    folded: str | None,
    speedscope: str | None,
    svg: str | None,
) -> int:
    """Show what a process of this machine is doing: its threads by use, and what each of them executes.

    It samples the process with this PID, row id or NAME, which may be that of the script that it runs. Of several with
    one name, it samples the busiest. Press ^C to end the sampling and to show the result so far. With --last, --id or
    --list it shows diagnoses that were recorded while something was wrong.

    FILE may be `-` for standard output, instead of the page. --json prints a record of the kind `diagnosis`;
    deploy/schemas/diagnosis.json explains its fields.
    """
    exports = Exports(folded, speedscope, svg)
    _check(process, host, exports, as_json=as_json, recorded=sum((last, wanted is not None, listing)))
    if listing:
        _list(settings, host or settings[GeneralSettings].host, process, as_json=as_json)
        return 0
    if last or wanted is not None:
        found = _find(settings, host or settings[GeneralSettings].host, process, wanted)
    else:
        assert process is not None

        method = settings[DiagnosisSettings].method
        found = sample(
            process,
            settings[GeneralSettings].host,
            samples=samples or (UNBOUNDED if duration_s else SAMPLES),
            duration_s=duration_s or DURATION_S,
            methods={"auto": None, "proc": ()}.get(method, (method,)),
            budget=settings[DiagnosisSettings].budget,
        )
    to_stdout = _export(found, exports)
    if as_json:
        click.echo(write_diagnosis(found))
    elif not to_stdout:
        _write_page(settings, found, Shown(threads, functions, reverse), recorded=last or wanted is not None)
    return 0 if any(phase.threads for phase in found.phases) else FAILED


def _check(process: str | None, host: str | None, exports: Exports, *, as_json: bool, recorded: int) -> None:
    """Reject arguments that do not fit together, before any work."""
    if recorded > 1:
        raise click.UsageError("--last, --id and --list exclude each other")
    if process is None and not recorded:
        raise click.UsageError("expected a PID or NAME, or --last, --id or --list")
    if host is not None and not recorded:
        raise click.UsageError("--host applies to recorded diagnoses; expected --last, --id or --list with it")
    if [*exports, "-" if as_json else None].count("-") > 1:
        raise click.UsageError("only one of --json and the files can go to standard output")
    for name, path in exports._asdict().items():
        if path not in {None, "-"} and not Path(path).parent.is_dir():
            raise click.BadParameter(f"{path}: there is no such folder", param_hint=f"--{name}")


def _find(settings: Settings, host: str, process: str | None, wanted: str | None) -> Diagnosis:
    """Return the requested recorded diagnosis. Raises `CommandError` if there is none, or several have its id."""
    found = list(islice(_recorded(settings, host, process, wanted or ""), 1 if wanted is None else 2))
    if len(found) > 1:
        raise CommandError(f"more than one diagnosis has the id {wanted}; {_listing(settings, host)}", NO_DATA)
    if not found:
        of = f" of {process}" if process else ""
        having = f" with the id {wanted}" if wanted is not None else ""
        raise CommandError(f"no diagnosis{of}{having} is recorded on {host}; {_listing(settings, host)}", NO_DATA)
    return found[0]


def _recorded(settings: Settings, host: str, process: str | None, wanted: str = "") -> Iterator[Diagnosis]:
    """Yield the recorded diagnoses of a process, or of all, whose id begins with `wanted`, the newest first."""
    with existing_bus(settings) as bus:
        for each in Recorded(bus, topics_of(settings), host).newest():
            named = process in {None, each.name, each.row, str(each.pid)} or runs(process, each.command.split())
            if named and each.id.startswith(wanted.lower()):
                yield each


def _listing(settings: Settings, host: str) -> str:
    elsewhere = [] if host == settings[GeneralSettings].host else ["--host", host]
    return f"`{to_type(settings, 'diagnose', '--list', *elsewhere)}` lists them"


def _list(settings: Settings, host: str, process: str | None, *, as_json: bool) -> None:
    last = None
    for each in _recorded(settings, host, process):
        last = each
        begin_ts = each.phases[0].begin_ts if each.phases else each.ts
        if as_json:
            fields = {"id": each.id, "ts": begin_ts, "host": each.host, "row": each.row, "pid": each.pid}
            click.echo(json.dumps(fields | {"reason": each.reason, "sentence": sentence(each)}))
        else:
            click.echo(f"{each.id[:SHORT_ID]}  {moment(begin_ts)}  {sentence(each)}")
    if not as_json:
        again = to_type(settings, "diagnose", "--id", last.id[:SHORT_ID]) if last else ""
        now = to_type(settings, "diagnose", process or "PID")
        click.echo(f"\nNext: `{again}`" if last else f"No diagnosis is recorded; to diagnose now: `{now}`")


def _export(diagnosis: Diagnosis, exports: Exports) -> bool:
    """Write the requested files, and return whether one of them was standard output."""
    to_stdout = False
    for name, path in exports._asdict().items():
        if path is None:
            continue
        text = _exported(name, diagnosis)
        if path == "-":
            to_stdout = True
            click.echo(text, nl=False)
            continue
        try:
            Path(path).write_text(text, encoding="utf-8")
        except OSError as error:
            raise CommandError(f"--{name} {path}: {error.strerror or error}") from None
        click.echo(f"Wrote {path}", err=True)
    return to_stdout


def _exported(name: str, diagnosis: Diagnosis) -> str:
    match name:
        case "svg":
            return flame_graph(diagnosis)
        case "speedscope":
            return json.dumps(speedscope(diagnosis)) + "\n"
    return "".join(f"{line}\n" for line in folded(diagnosis))


def _write_page(settings: Settings, diagnosis: Diagnosis, shown: Shown, *, recorded: bool) -> None:
    console = console_of(sys.stdout)
    write(diagnosis_lines(diagnosis, page_of(console), shown), console)
    if recorded:
        short = diagnosis.id[:SHORT_ID]
        click.secho(f"Recorded on {printable(diagnosis.host)} as {short}.", dim=True)
        draw = to_type(settings, "diagnose", "--id", short, "--svg", "flames.svg")
        click.echo(f"Next: `{draw}` draws a flame graph")
    elif (found := process(diagnosis.pid)) and found.row == diagnosis.row and found.state not in "ZX":
        draw = to_type(settings, "diagnose", str(diagnosis.pid), "--svg", "flames.svg")
        click.echo(f"Next: `{draw}` samples again, and draws a flame graph")
