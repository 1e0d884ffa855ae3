"""S1's Figure 2 live: high use with two short dips, behind each of which the program does something else.

One event with its phases is expected, from the agent while it happens, and again from what the agent recorded.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from laggard.pipeline.core.records import Decoder, Mark, write_line
from tests.evaluation.troubles import CPUS
from tests.evaluation.watched import COUNTERS, HOST, agent, put_first, table
from tests.misbehaving.programs import compiled, misbehaving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from laggard.pipeline.core.records.diagnosis import Diagnosis, Phase
    from tests.evaluation.watched import Agent

FIGURE_S: Final = (50.0, 110.0, 150.0, 170.0)
"""When use becomes high, dips, dips again, and is over, as S1 has it."""

DIP_S: Final = 2.5
"""How long a dip is: shorter than the event's duration, which is not scaled."""

FUNCTIONS: Final = ("parse", "sort", "render")
"""What the program does before the first dip, between the two, and behind them."""


@dataclass(frozen=True)
class Dips:
    """What came of it; times in seconds since the Unix epoch.

    Attributes:
        spans: when use was high.
        diagnoses: of the process: of each the last record.
        replayed: what the operator `cpu` makes of the recorded counters: anomalies, and the answer to a mark at the
            end.
        row: of the process.

    """

    spans: tuple[tuple[float, float], ...]
    diagnoses: tuple[Diagnosis, ...]
    replayed: tuple[dict[str, Any], ...]
    row: str

    @property
    def events(self) -> list[dict[str, Any]]:
        """The replayed events of the process: anomalies that blame it."""
        return [each for each in self.replayed if each["kind"] == "anomaly" and each["ranking"][0]["row"] == self.row]

    @property
    def phases(self) -> list[dict[str, Any]]:
        """The phases of the replayed event, at its end."""
        (answer,) = (each for each in self.replayed if each["kind"] == "ranking")
        return next((row["phases"] for row in answer["rows"] if row["row"] == self.row), [])


def run(scale: float, dip_s: float, settings: Mapping[str, str]) -> Dips:
    """Let it happen, with all but the dips a number of times as long as in the figure."""
    with tempfile.TemporaryDirectory(prefix="laggard-", dir="/var/tmp") as folder:
        state = Path(folder, "state")
        state.mkdir()
        phased = compiled("phased", f"-DGRINDERS={CPUS}")
        with (
            agent(state, **settings) as watching,
            misbehaving([phased], busy=False, start_new_session=True) as program,
        ):
            put_first(program.pid)
            spans = tuple(_spans(program.tell, scale, dip_s))
            if watching.wait_for(program.pid, "closed", spans[-1][1], 30.0) is None:
                raise RuntimeError("expected a diagnosis that is closed within 30 s of the end of high use, got none")
            last = {each.id: each for each in watching.diagnoses(program.pid)}
            found = tuple(last.values())
            recording = Path(folder, "frames.jsonl")
            # What a person would ask shortly behind the end: the event is not over yet.
            _write(watching, recording, Mark(HOST, spans[-1][1] + 2.0, "the end"))
        return Dips(spans, found, tuple(_replay(recording, settings)), found[0].row)


def _spans(tell: Callable[[str], None], scale: float, dip_s: float) -> Iterator[tuple[float, float]]:
    begin_s, *dips, end_s = (scale * each for each in FIGURE_S)
    at = time.time()
    for from_s, to_s in zip((begin_s, *(dip + dip_s for dip in dips)), (*dips, end_s), strict=True):
        time.sleep(max(0.0, at + from_s - time.time()))
        begun = time.time()
        tell("busy")
        time.sleep(max(0.0, at + to_s - time.time()))
        tell("idle")
        yield begun, time.time()


def _write(watching: Agent, path: Path, mark: Mark) -> None:
    decoder = Decoder()
    records = [mark, *(decoder.decode(record.value, "counters") for record in watching.records(COUNTERS))]
    with path.open("w") as file:
        for record in sorted(records, key=attrgetter("ts")):
            file.write(write_line(record) + "\n")


def _replay(recording: Path, settings: Mapping[str, str]) -> list[dict[str, Any]]:
    flags = [f"--set={name.replace('_', '.', 1)}={value}" for name, value in settings.items()]
    command = [sys.executable, "-P", "-m", "laggard.pipeline.cli", "replay", str(recording), "--json"]
    done = subprocess.run([*command, "--operators", "cpu", *flags], capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def top(phase: Phase) -> tuple[str, float]:
    """The function that its threads were found running in most, and in which share of the samples."""
    found: Counter[str] = Counter()
    for thread in phase.threads:
        for stack in thread.stacks:
            if stack.state == "running":
                found[stack.locations[0].function if stack.locations else "?"] += stack.samples
    if not found:
        return "-", 0.0
    function, samples = found.most_common(1)[0]
    return function, samples / found.total()


def told(found: Dips) -> str:
    """Tables: what happened, what the diagnosis says, what the replay says."""
    first = found.spans[0][0]
    diagnosis = found.diagnoses[0]
    rows: list[Sequence[object]] = []
    for phase in diagnosis.phases:
        # Where others use the machine, a stretch may have dips of its own.
        middle_ts = (phase.begin_ts + phase.end_ts) / 2.0
        really = next((span for span in found.spans if phase.high and span[0] <= middle_ts <= span[1]), None)
        function, share = top(phase)
        rows.append(
            [
                "high" if phase.high else "dip",
                f"{really[0] - first:.1f} to {really[1] - first:.1f} s" if really else "",
                f"{phase.begin_ts - first:.1f} to {phase.end_ts - first:.1f} s",
                phase.samples,
                f"`{function}` {share:.1%}" if share else "-",
            ]
        )
    live = table(["phase", "really", "told", "rounds", "most samples"], rows)
    replayed = table(
        ["phase", "replayed", "mean"],
        [
            [
                "high" if phase["high"] else "dip",
                f"{phase['begin_ts'] - first:.1f} to {phase['end_ts'] - first:.1f} s",
                f"{phase['mean']:.0%}",
            ]
            for phase in found.phases
        ],
    )
    methods = ", ".join(diagnosis.methods)
    return (
        f"{len(found.diagnoses)} event live, by `{diagnosis.reason}`, with {methods}:\n\n{live}\n\n"
        f"{len(found.events)} event replayed:\n\n{replayed}"
    )
