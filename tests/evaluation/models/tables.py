"""S2's Tables 4 to 7 beside those of laggard, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from tests.evaluation.models.queueing import SCENARIOS
from tests.evaluation.models.scoring import MRT, THR, errors, found_bottleneck, run, sensitivity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.evaluation.models.queueing import Recording
    from tests.evaluation.models.scoring import Run

PAPER_ERRORS: Final = {
    ("workload", THR): "0.10 (0.20) 0.01 0.53 0.10",
    ("workload", MRT): "0.41 (0.64) 0.12 0.96 0.35",
    ("cpu", THR): "0.01 (0.01) 0.01 0.03 0.01",
    ("cpu", MRT): "0.29 (0.26) 0.23 0.64 0.27",
    ("memory", THR): "0.12 (0.16) 0.06 0.33 0.10",
    ("memory", MRT): "0.51 (0.45) 0.25 0.95 0.37",
    ("disk", THR): "0.95 (3.32) 0.11 1.58 0.24",
    ("disk", MRT): "0.29 (0.39) 0.16 0.70 0.39",
}
PAPER_FOUND: Final = {
    "workload": "100 100 | 100 100 | 3",
    "cpu": "74 74 | 79 79 | 6",
    "memory": "73 85 | 73 85 | 10",
    "disk": "80 100 | 80 100 | 3",
}
PAPER_SENSITIVITY: Final = {
    ("residuals", 10): "0.62 | 4 (4) | 5 (4)",
    ("residuals", 20): "0.62 | 3 (2) | 4 (2)",
    ("residuals", 30): "0.76 | 3 (0) | 3 (0)",
    ("r2", 10): "0.74 | 49 (32) | 56 (32)",
    ("r2", 20): "0.73 | 40 (18) | 45 (18)",
    ("r2", 30): "0.80 | 38 (12) | 38 (12)",
}


def all_tables(recordings: Mapping[str, Sequence[Recording]]) -> str:
    """All of them, of recordings of each scenario."""
    methods: dict[str, dict[str, list[Run]]] = {
        method: {name: [run(each, method=method) for each in found] for name, found in recordings.items() if found}
        for method in ("published", "adaptive")
    }
    tables = [table_4(methods), table_5(methods), table_6(methods)]
    if recordings.get("cpu"):
        tables.append(table_7(recordings["cpu"], methods["adaptive"]["cpu"]))
    return "\n\n".join(tables)


def table_4(methods: Mapping[str, Mapping[str, Sequence[Run]]]) -> str:
    """Relative errors of predictions."""
    rows = []
    for scenario in SCENARIOS:
        for performance, short in ((THR, "THR"), (MRT, "MRT")):
            cells = []
            for found in methods.values():
                if scenario not in found:
                    continue
                each = [errors(one, performance) for one in found[scenario]]
                mean = [float(np.mean([getattr(one, name) for one in each])) for name in each[0].__slots__]
                cells.append("{:.2f} ({:.2f}) {:.2f} {:.2f} {:.2f}".format(*mean))
            if cells:
                rows.append([f"{scenario} ({short})", PAPER_ERRORS[scenario, performance], *cells])
    return _table("Table 4: relative error: mean (deviation), 50p, 90p, overall", ["scenario", "S2", *methods], rows)


def table_5(methods: Mapping[str, Mapping[str, Sequence[Run]]]) -> str:
    """How well the bottleneck was found."""
    rows = []
    for scenario in SCENARIOS:
        cells = []
        for found in methods.values():
            if scenario not in found:
                continue
            each = [found_bottleneck(one) for one in found[scenario]]
            shares = [100.0 * float(np.mean([one.precision[at] for one in each])) for at in (0, 1)]
            shares += [100.0 * float(np.mean([one.recall[at] for one in each])) for at in (0, 1)]
            delay = (
                float(np.nanmean([one.delay for one in each]))
                if not all(np.isnan(one.delay) for one in each)
                else np.nan
            )
            missed = sum(np.isnan(one.delay) for one in each)
            models = float(np.mean([len(one.built[MRT]) for one in found[scenario]]))
            false = sum(int(((one.scores > 1.0) & ~one.recording.contended).sum()) for one in found[scenario])
            cells.append(
                "{:.0f} {:.0f} | {:.0f} {:.0f} | ".format(*shares)
                + f"{delay:.1f}{f' ({missed} built none)' if missed else ''}; {models:.1f} models, {false} false"
            )
        if cells:
            rows.append([scenario, PAPER_FOUND[scenario], *cells])
    title = "Table 5: precision % of resource, host | recall % | delay; models built, intervals falsely called slow"
    return _table(title, ["scenario", "S2", *methods], rows)


def table_6(methods: Mapping[str, Mapping[str, Sequence[Run]]]) -> str:
    """What adaptation costs."""
    rows = [["S2", "221 (148)", "54 (23) + 5 (18)"]]
    for method, found in methods.items():
        building = 1e3 * np.array([each for runs in found.values() for one in runs for each in one.building_s])
        testing = 1e3 * np.array([each for runs in found.values() for one in runs for each in one.testing_s])
        rows.append([method, *(f"{each.mean():.1f} ({each.std():.1f})" for each in (building, testing))])
    return _table("Table 6: milliseconds: mean (deviation)", ["", "building", "testing and hypothesis test"], rows)


def table_7(recordings: Sequence[Recording], adaptive: Sequence[Run]) -> str:
    """Criteria and windows, in the scenario of the CPU."""

    def cells(runs: Sequence[Run]) -> str:
        each = [sensitivity(one) for one in runs]
        mean = [float(np.nanmean([getattr(one, name) for one in each])) for name in each[0].__slots__]
        return "{:.2f} | {:.1f} ({:.1f}) | {:.1f} ({:.1f})".format(*mean)

    rows = []
    for (criterion, window), published in PAPER_SENSITIVITY.items():
        runs = [
            run(each, method="published", criterion=criterion, window=window, history=max(60, window))
            for each in recordings
        ]
        rows.append([f"{criterion} ({window})", published, cells(runs)])
    rows.append(["adaptive (10)", "", cells(adaptive)])
    return _table("Table 7: mean R^2 | models (right) | metrics (right)", ["criterion (samples)", "S2", "here"], rows)


def _table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[at]) for row in [head, *rows]) for at in range(len(head))]

    def line(row: Sequence[str]) -> str:
        return "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()

    return "\n".join([title, line(head), line(["-" * width for width in widths]), *map(line, rows)])
