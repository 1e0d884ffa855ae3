"""S0's tables beside those of laggard, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.evaluation.faults import FAULTS, Storm
from tests.evaluation.planning import SITUATIONS
from tests.evaluation.scoring import RIGHT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tests.evaluation.recording import Culprit
    from tests.evaluation.scoring import Found, Outcome

S0 = "S0"


def tables(outcomes: Mapping[str, Sequence[Outcome]]) -> str:
    """All tables, one after the other."""
    every = (processes, features, situations, kinds, resources, misses)
    return "\n\n".join(table(outcomes) for table in every)


def processes(outcomes: Mapping[str, Sequence[Outcome]]) -> str:
    """S0's Table 1."""
    lines: list[tuple[str, str, Callable[[Outcome], bool]]] = [
        ("the first process is to blame", _share(26, 31), lambda outcome: outcome.is_first),
        ("one of the first two is", _share(28, 31), lambda outcome: outcome.is_first_or_second),
        ("neither is: unclear", _share(3, 31), lambda outcome: not outcome.is_first_or_second),
        ("the first of the evaluation's own is", "", lambda outcome: outcome.is_first_of_own),
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


def situations(outcomes: Mapping[str, Sequence[Outcome]]) -> str:
    """Tables 1 and 2 for each situation."""
    happened = {outcome.case.situation for each in outcomes.values() for outcome in each}
    rows = []
    for situation in filter(happened.__contains__, SITUATIONS):
        of_situation = (
            [outcome for outcome in each if outcome.case.situation == situation] for each in outcomes.values()
        )
        rows.append([situation, *map(_counts, of_situation)])
    return _table("By situation: first, first two, first and resource right / cases", ["", *outcomes], rows)


def kinds(outcomes: Mapping[str, Sequence[Outcome]]) -> str:
    """Tables 1 and 2 for each kind of fault; each culprit counts for itself."""
    rows = []
    for kind in RIGHT:
        found = (
            [each for outcome in of for each in outcome.found if each.culprit.kind == kind] for of in outcomes.values()
        )
        rows.append([kind, *map(_counts, found)])
    return _table("By kind of fault: first, first two, first and resource right / culprits", ["", *outcomes], rows)


def ablation(outcomes: Mapping[str, Sequence[Outcome]]) -> str:
    """Tables 1 and 2 with a line for each method; by situation whether the first process is a culprit."""
    happened = {outcome.case.situation for each in outcomes.values() for outcome in each}
    columns = [situation for situation in SITUATIONS if situation in happened]
    rows = []
    for name, each in outcomes.items():
        first = [outcome for outcome in each if outcome.is_first]
        of_situation = [
            [outcome.is_first for outcome in each if outcome.case.situation == column] for column in columns
        ]
        rows.append(
            [
                name,
                _share(len(first), len(each)),
                _share(sum(outcome.is_first_or_second for outcome in each), len(each)),
                _share(sum(outcome.is_first_of_own for outcome in each), len(each)),
                _share(sum(outcome.feature_is_plausible for outcome in first), len(first)),
                _share(sum(outcome.feature_is_right for outcome in first), len(first)),
                *(f"{sum(of)}/{len(of)}" for of in of_situation),
            ]
        )
    head = ["", "first", "first two", "first of own", "feature plausible", "feature right", *columns]
    return _table("What each improvement buys", head, rows)


def resources(outcomes: Mapping[str, Sequence[Outcome]]) -> str:
    """S0's Table 3, its upper line: of which resource the first feature is, where the first process is a culprit."""
    rows = []
    for name, each in outcomes.items():
        found = [_resource(outcome.best.feature) for outcome in each if outcome.is_first]
        rows.append([name, *(f"{found.count(kind)}/{len(found)}" for kind in (*RIGHT, "other"))])
    return _table("Table 3: the first feature's resource", ["", *RIGHT, "other"], rows)


def misses(outcomes: Mapping[str, Sequence[Outcome]]) -> str:
    """Each case in which the first method did not put the culprits first, or not their resource."""
    name, each = next(iter(outcomes.items()))
    rows = []
    for outcome in each:
        if outcome.is_first and outcome.is_first_or_second and outcome.feature_is_right:
            continue
        case = outcome.case
        also = {decoy.name: decoy.did for decoy in case.decoys}
        also = dict.fromkeys(case.waiting, "waiting") | {name: f"decoy: {did}" for name, did in also.items()}
        first = ", ".join(
            f"{row}{f' ({also[row]})' if row in also else ''}: {feature}" for row, feature in outcome.first
        )
        rows.append(
            [
                str(case.case),
                f"{case.situation} {case.form}".strip(),
                " + ".join(map(_fault, case.culprits)),
                " + ".join(culprit.name for culprit in case.culprits),
                " + ".join(str(found.place or "-") for found in outcome.found),
                first,
            ]
        )
    head = ["case", "situation", "fault", "culprit", "place", "first three"]
    return _table(f"What {name} missed", head, rows)


def _fault(culprit: Culprit) -> str:
    """What it did."""
    unit, size = (Storm if culprit.program else FAULTS[culprit.kind]).UNIT
    return f"{culprit.program or culprit.kind} {culprit.amount / size:.3g} {unit}"


def _counts(found: Sequence[Found] | Sequence[Outcome]) -> str:
    """How many are first, are among the first two, and are first with the right feature."""
    first = [each for each in found if each.is_first]
    second = sum(each.is_first_or_second for each in found)
    return f"{len(first)} {second} {sum(each.feature_is_right for each in first)} / {len(found)}"


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
