"""S0's tables beside ours, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.evaluation.scoring import RIGHT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tests.evaluation.scoring import Outcome

S0 = "S0"


def tables(outcomes: Mapping[str, Sequence[Outcome]]) -> str:
    """All tables, one after the other."""
    parts = [processes(outcomes), features(outcomes), kinds(outcomes), resources(outcomes), misses(outcomes)]
    return "\n\n".join(parts)


def processes(outcomes: Mapping[str, Sequence[Outcome]]) -> str:
    """S0's Table 1."""
    lines: list[tuple[str, str, Callable[[Outcome], bool]]] = [
        ("the first process is to blame", _share(26, 31), lambda outcome: outcome.is_first),
        ("one of the first two is", _share(28, 31), lambda outcome: outcome.is_first_or_second),
        ("neither is: unclear", _share(3, 31), lambda outcome: not outcome.is_first_or_second),
    ]
    return _table(
        "Table 1: the process",
        ["", S0, *outcomes],
        [
            [label, published, *(_share(sum(map(counts, each)), len(each)) for each in outcomes.values())]
            for label, published, counts in lines
        ],
    )


def features(outcomes: Mapping[str, Sequence[Outcome]]) -> str:
    """S0's Table 2."""
    found = {name: [outcome for outcome in each if outcome.is_first] for name, each in outcomes.items()}
    lines: list[tuple[str, str, Callable[[Outcome], bool]]] = [
        ("its first feature is plausible", _share(25, 26), lambda outcome: outcome.feature_is_plausible),
        ("its first feature is the fault's resource", "", lambda outcome: outcome.feature_is_right),
    ]
    return _table(
        "Table 2: the feature, where the first process is to blame",
        ["", S0, *outcomes],
        [
            [label, published, *(_share(sum(map(counts, each)), len(each)) for each in found.values())]
            for label, published, counts in lines
        ],
    )


def kinds(outcomes: Mapping[str, Sequence[Outcome]]) -> str:
    """Tables 1 and 2 for each kind of fault: first, one of the first two, and first with the fault's resource first."""
    rows = []
    for kind in RIGHT:
        cells = []
        for each in outcomes.values():
            of_kind = [outcome for outcome in each if outcome.case.kind == kind]
            first = [outcome for outcome in of_kind if outcome.is_first]
            second = sum(outcome.is_first_or_second for outcome in of_kind)
            right = sum(outcome.feature_is_right for outcome in first)
            cells.append(f"{len(first)} {second} {right} / {len(of_kind)}")
        rows.append([kind, *cells])
    return _table("By kind of fault: first, first two, first and resource right / cases", ["", *outcomes], rows)


def resources(outcomes: Mapping[str, Sequence[Outcome]]) -> str:
    """S0's Table 3, its upper line: of which resource the first feature is, where the first process is to blame."""
    rows = []
    for name, each in outcomes.items():
        found = [_resource(outcome.feature) for outcome in each if outcome.is_first]
        rows.append([name, *(f"{found.count(kind)}/{len(found)}" for kind in (*RIGHT, "other"))])
    return _table("Table 3: the first feature's resource", ["", *RIGHT, "other"], rows)


def misses(outcomes: Mapping[str, Sequence[Outcome]]) -> str:
    """Each case in which the first method did not put the culprit first, or not its resource."""
    name, each = next(iter(outcomes.items()))
    rows = []
    for outcome in each:
        if outcome.is_first and outcome.feature_is_right:
            continue
        case = outcome.case
        decoys = {decoy.name for decoy in case.decoys}
        first = ", ".join(f"{row}{' (decoy)' if row in decoys else ''}: {feature}" for row, feature in outcome.first)
        rows.append([str(case.case), f"{case.kind} {case.strength:.2f}", case.name, str(outcome.place or "-"), first])
    return _table(f"What {name} missed", ["case", "fault", "culprit", "place", "first three"], rows)


def _resource(feature: str) -> str:
    return next((kind for kind, right in RIGHT.items() if feature in right), "other")


def _share(count: int, of: int) -> str:
    return f"{count}/{of} ({100 * count / of:.1f} %)" if of else "-"


def _table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in [head, *rows]
    ]
    return "\n".join([title, *(f"  {line}" for line in lines)])
