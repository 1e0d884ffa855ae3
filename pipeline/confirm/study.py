"""The experiment: pairs of periods with and without the suspect slowed, in random order, and its result."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from laggard.operators.comparison import Comparison, compare
from laggard.pipeline.confirm.measures import RESPONSE, WAITING
from laggard.pipeline.explaining.units import readable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from laggard.pipeline.confirm.brake import Brake
    from laggard.pipeline.confirm.measures import Measure, Meter

SIGNIFICANCE: Final = 0.05
SETTLE_S: Final = 0.05
"""The pause between a change and the measurement, in seconds."""

LEAST: Final = {RESPONSE: 0.0}
LEAST_RATIO: Final = 0.01
"""The least relevant difference of a ratio: users do not notice smaller ones."""

Values = dict["Measure", float]


@dataclass(frozen=True, slots=True)
class Result:
    """The result of an experiment.

    Attributes:
        before, after: the values without a brake, before and after the pairs.
        found: the comparison of each measure, slowed against not slowed.
        p: the p-value of each comparison; those that may decide are corrected for their number (Holm).
        verdict: `better` if a measure improved beyond chance, otherwise `worse` if one worsened, otherwise `none`.
        decided: the measures that justify the verdict.

    """

    before: Values
    after: Values
    found: dict[Measure, Comparison]
    p: dict[Measure, float]
    verdict: str
    decided: tuple[Measure, ...]


def run(
    brake: Brake,
    meter: Meter,
    *,
    pairs: int,
    period_s: float,
    seed: int,
    progress: Callable[[int], None] = lambda _: None,
    alive: Callable[[], bool] = lambda: True,
) -> Result:
    """Run the experiment.

    Args:
        brake: slows the suspect.
        meter: measures.
        pairs: the number of pairs of periods: one with the suspect slowed, one without.
        period_s: the length of each period, in seconds.
        seed: the seed of the random order within pairs.
        progress: called with the number of finished periods.
        alive: returns whether the suspect still runs.

    Raises:
        ProcessLookupError: the suspect has ended.

    """
    lot = random.Random(seed)  # noqa: S311 - no secret: the same seed must give the same order
    before = meter.period(period_s)
    slowed: list[Values] = []
    free: list[Values] = []
    for pair in range(pairs):
        first = lot.random() < 0.5
        for place, on in enumerate((first, not first)):
            brake.set(on)
            time.sleep(SETTLE_S)
            (slowed if on else free).append(meter.period(period_s))
            if not alive():
                raise ProcessLookupError
            progress(2 * pair + place + 1)
    brake.set(False)
    time.sleep(SETTLE_S)
    return result_of(before, slowed, free, meter.period(period_s))


def result_of(before: Values, slowed: list[Values], free: list[Values], after: Values) -> Result:
    """Compare the measures that all periods have.

    A response time decides alone, since the user requested it. Otherwise the pressure of the host and the waiting of
    other tasks decide, with p-values corrected for their number.
    """
    common = [measure for measure in before if all(measure in period for period in (*slowed, *free))]
    found = {
        measure: compare([period[measure] for period in slowed], [period[measure] for period in free])
        for measure in common
    }
    tested = [RESPONSE] if RESPONSE in found else common
    p = {measure: one.p for measure, one in found.items()} | _holm({measure: found[measure].p for measure in tested})
    decided = [each for each in tested if p[each] < SIGNIFICANCE and abs(found[each].difference) > _least(each)]
    better = tuple(measure for measure in decided if found[measure].difference < 0.0)
    verdict = "better" if better else "worse" if decided else "none"
    return Result(before, after, found, p, verdict, better or tuple(decided))


def _least(measure: Measure) -> float:
    return LEAST.get(measure, LEAST_RATIO)


def _holm(p: Mapping[Measure, float]) -> dict[Measure, float]:
    """Correct p-values so that one below 0.05 by chance alone is improbable among all of them (Holm)."""
    corrected, least = {}, 0.0
    for rank, (measure, value) in enumerate(sorted(p.items(), key=lambda item: item[1])):
        least = max(least, min(value * (len(p) - rank), 1.0))
        corrected[measure] = least
    return corrected


def sentences(result: Result, name: str) -> list[str]:
    """Return the result in plain words; `name` is the name of the suspect for people."""
    lines = []
    match result.verdict:
        case "better":
            lines.append(f"Confirmed: while {name} was slowed, it got better than chance explains.")
        case "worse":
            lines.append(f"Not confirmed: while {name} was slowed, it got worse. Something needs {name} to run.")
        case _:
            lines.append(f"Not confirmed: slowing {name} made no difference that chance does not explain as well.")
    shown = result.decided or tuple(each for each in (RESPONSE, WAITING, *result.found) if each in result.found)[:1]
    lines += [_sentence(measure, result) for measure in shown]
    return lines


def _sentence(measure: Measure, result: Result) -> str:
    one, unit = result.found[measure], _unit(measure)
    with_it = one.without + one.difference
    low, high = sorted((abs(one.low), abs(one.high)))
    words = f"{measure.words[0].upper()}{measure.words[1:]}: {readable(unit, one.without)} without, "
    words += f"{readable(unit, with_it)} with it slowed"
    if one.low * one.high > 0.0:
        direction = "less" if one.difference < 0.0 else "more"
        words += f", {readable(unit, low)} to {readable(unit, high)} {direction}"
    else:
        words += f", between {readable(unit, abs(one.low))} less and {readable(unit, abs(one.high))} more"
    return f"{words} ({one.confidence:.0%} sure; p = {result.p[measure]:.3f}, {one.pairs} pairs)."


def _unit(measure: Measure) -> str:
    # The number that a command prints may have any unit.
    return "number" if measure is RESPONSE else measure.name


def to_json(result: Result) -> dict[str, Any]:
    """Return the result for programs."""
    return {
        "verdict": result.verdict,
        "decided_by": [measure.name for measure in result.decided],
        "measures": [
            {
                "measure": measure.name,
                "before": result.before[measure],
                "slowed": one.without + one.difference,
                "not_slowed": one.without,
                "after": result.after.get(measure),
                "difference": one.difference,
                "low": one.low,
                "high": one.high,
                "confidence": one.confidence,
                "p": one.p,
                "p_corrected": result.p[measure],
                "pairs": one.pairs,
            }
            for measure, one in result.found.items()
        ],
    }
