"""Recordings of the lab: make them, and read them back as requests with the truth about each.

A folder `TROUBLE-SEED` has the kernel's `trace`, as `laggard trace start --output` writes it, and the answers to
visitors, `answers.jsonl`. Its `truth.json` has the trouble, the time when it was there, and the ports of the servers.
The analysis adds `requests.jsonl`, which `laggard replay` reads, and `truth.jsonl`, the verdict on each request.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from bisect import bisect_right
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from laggard.pipeline.core.records import Request
from laggard.pipeline.core.records.json_lines import read_line, write_line
from laggard.producers.trace.analysis import Analysis, Report
from laggard.producers.trace.ftrace.recording import Recording
from tests.evaluation.requests.lab.injecting import Window
from tests.evaluation.requests.lab.session import run
from tests.evaluation.requests.lab.troubles import TROUBLES, Trouble
from tests.evaluation.requests.lab.truth import Answer, Verdict, lost, read_answers, verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

SECONDS: Final = 60.0
_THREAD: Final = re.compile(r"(\d+)\]$")


class Known(NamedTuple):
    """A request, and what is true of it.

    Attributes:
        request: as it was traced.
        page: which kind of page it made.
        lost_s: seconds that it lost by the trouble.
        verdict: what that makes it.

    """

    request: Request
    page: str
    lost_s: float
    verdict: Verdict


def record(trouble: Trouble, folder: Path, seconds: float, seed: int) -> None:
    """Let a trouble come and go, and record it into a folder that does not exist yet. `TMPDIR` should be on a disk."""
    folder.mkdir(parents=True)
    try:
        with tempfile.TemporaryDirectory(prefix="laggard-lab-") as servers:
            seen = run(trouble, folder, Path(servers), seconds, seed)
    except BaseException:
        shutil.rmtree(folder)
        raise
    truth = {"trouble": trouble.name, "seed": seed, "ports": seen.ports, "windows": seen.windows}
    (folder / "truth.json").write_text(json.dumps(truth, indent=1) + "\n")


def analyse(folder: Path) -> Report:
    """Make requests of a recording's trace, and tell what is true of each. Returns what the analysis says of itself."""
    recording = Recording(folder / "trace")
    analysis = Analysis(host=recording.host, clock_offset_s=recording.wall_offset_s)
    requests: list[Request] = []
    for batch in recording:
        requests += analysis.feed(batch)
    requests += analysis.finish()
    with (folder / "requests.jsonl").open("w") as file:
        file.writelines(write_line(request) + "\n" for request in requests)
    truth = json.loads((folder / "truth.json").read_text())
    with (folder / "answers.jsonl").open() as file:
        answers = read_answers(file)
    lost_s = lost(answers, TROUBLES[truth["trouble"]], [Window(*each) for each in truth["windows"]])
    with (folder / "truth.jsonl").open("w") as file:
        for request, number in zip(requests, matched(requests, answers), strict=True):
            if number is not None:
                known = {
                    "request": request.request,
                    "page": answers[number].page,
                    "lost_s": round(lost_s[number], 6),
                    "verdict": verdict(lost_s[number]),
                }
                file.write(json.dumps(known) + "\n")
    return analysis.report


def matched(requests: Sequence[Request], answers: Sequence[Answer]) -> list[int | None]:
    """Which answer each request gave: that of the same thread whose middle is in the request's time."""
    by_thread: dict[int, list[tuple[float, int]]] = defaultdict(list)
    for number, answer in enumerate(answers):
        by_thread[answer.thread].append(((answer.begin + answer.end) / 2, number))
    for middles in by_thread.values():
        middles.sort()
    found: list[int | None] = []
    for request in requests:
        thread = _THREAD.search(request.threads[0]) if request.threads else None
        middles = by_thread[int(thread[1])] if thread else []
        at = bisect_right(middles, (request.ts + request.duration_s, len(answers))) - 1
        found.append(middles[at][1] if at >= 0 and middles[at][0] >= request.ts else None)
    return found


def read(folder: Path) -> list[Known]:
    """The requests of a recording that was analyzed, of which something is known, in the order in which they began."""
    with (folder / "truth.jsonl").open() as file:
        truth = {fields["request"]: fields for fields in map(json.loads, file)}
    known = []
    with (folder / "requests.jsonl").open() as file:
        for number, line in enumerate(file, 1):
            request = read_line(line, f"{folder / 'requests.jsonl'}:{number}")
            assert isinstance(request, Request)
            if fields := truth.get(request.request):
                known.append(Known(request, fields["page"], fields["lost_s"], fields["verdict"]))
    return sorted(known, key=lambda each: each.request.ts)
