"""What laggard makes of the lab's recordings beside what is true: the right requests, one cluster, the cause."""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Final

from laggard.operators.requests.detector import Requests
from laggard.pipeline.methods.requests.causes import cause
from laggard.pipeline.methods.requests.text import traced
from tests.evaluation.requests.lab.recording import analyse, read, record
from tests.evaluation.requests.lab.troubles import TROUBLES
from tests.evaluation.requests.lab.truth import CLEAR_S

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.evaluation.requests.lab.recording import Known
    from tests.evaluation.requests.lab.troubles import Trouble


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was found in one recording.

    Attributes:
        trouble: that there was.
        troubled, clear: how many requests lost time by it, and how many did not.
        found: troubled ones that are outliers.
        slow: others that are outliers, and took more than `CLEAR_S` longer than is usual for their page: by
            something that is not of the lab, such as what else the machine did.
        false: others that are outliers and took no longer.
        together: found ones in the cluster that has most of them.
        others: of that cluster, requests that are not troubled.
        named: found ones whose own sentence names the cause.
        sentence: of that cluster.
        right: whether that one does.

    """

    trouble: Trouble
    troubled: int
    clear: int
    found: int
    slow: int
    false: int
    together: int
    others: int
    named: int
    sentence: str
    right: bool


def judge(folder: Path) -> Outcome:
    """Judge the requests of a recording as they came."""
    truth = json.loads((folder / "truth.json").read_text())
    known = read(folder)
    known.sort(key=lambda each: each.request.ts + each.request.duration_s)
    return judged(known, TROUBLES[truth["trouble"]], truth["ports"])


def judged(known: Sequence[Known], trouble: Trouble, ports: dict[str, int]) -> Outcome:
    """Judge requests in the order in which they ended."""
    by_page = defaultdict(list)
    for each in known:
        if each.verdict == "clear":
            by_page[each.page].append(each.request.duration_s)
    usual_s = {page: median(durations) for page, durations in by_page.items()}
    operator = Requests()
    clusters: Counter[int] = Counter()
    all_clusters: Counter[int] = Counter()
    counts: Counter[str] = Counter()
    for each in known:
        request = traced(each.request)
        verdict = operator.score(request)
        operator.learn(request, verdict)
        counts[each.verdict] += 1
        if not verdict.outlier or each.verdict == "unclear":
            continue
        all_clusters[verdict.cluster] += 1
        if each.verdict == "troubled":
            counts["found"] += 1
            clusters[verdict.cluster] += 1
            assert verdict.evidence is not None
            counts["named"] += trouble.named(cause(verdict.evidence), ports)
        elif each.request.duration_s - usual_s[each.page] > CLEAR_S:
            counts["slow"] += 1
        else:
            counts["false"] += 1
    number, together = clusters.most_common(1)[0] if clusters else (0, 0)
    evidence = next((each.evidence for each in operator.clusters() if each.number == number), None)
    sentence = cause(evidence) if evidence else ""
    return Outcome(
        trouble=trouble,
        troubled=counts["troubled"],
        clear=counts["clear"],
        found=counts["found"],
        slow=counts["slow"],
        false=counts["false"],
        together=together,
        others=all_clusters[number] - together,
        named=counts["named"],
        sentence=sentence,
        right=trouble.named(sentence, ports),
    )


HEADINGS: Final = (
    "trouble",
    "troubled / clear",
    "out of line: troubled, slow by something else, neither",
    "precision",
    "recall",
    "in one cluster",
    "named, each",
    "sentence of the cluster",
    "names it",
)


def table(outcomes: Sequence[Outcome]) -> str:
    """A line for each recording."""
    rows = [
        [
            outcome.trouble.title,
            f"{outcome.troubled} / {outcome.clear}",
            f"{outcome.found}, {outcome.slow}, {outcome.false}",
            share(outcome.found, outcome.found + outcome.slow + outcome.false),
            share(outcome.found, outcome.troubled),
            share(outcome.together, outcome.found),
            share(outcome.named, outcome.found),
            outcome.sentence,
            "yes" if outcome.right else "no",
        ]
        for outcome in outcomes
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in [HEADINGS, ["---"] * len(HEADINGS), *rows])


def share(part: int, whole: int) -> str:
    """As a person reads it: `0.95 (19/20)`."""
    return f"{part / whole:.2f} ({part}/{whole})" if whole else "none"


def run(folder: Path, troubles: Sequence[str], seeds: Sequence[int], *, seconds: float = 0.0) -> str:
    """The table of recordings in a folder, of which those that are missing are made if `seconds` says how long.

    Raises FileNotFoundError where one is missing and is not to be made.
    """
    outcomes = []
    for name in troubles:
        for seed in seeds:
            place = folder / f"{name}-{seed}"
            if not place.exists():
                if not seconds:
                    raise FileNotFoundError(f"{place}: expected a recording")
                record(TROUBLES[name], place, seconds, seed)
            for warning in analyse(place).warnings:
                print(f"{place.name}: {warning}", file=sys.stderr)
            outcomes.append(judge(place))
    return table(outcomes)
