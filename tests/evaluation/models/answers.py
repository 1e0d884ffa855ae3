"""The answers of models on simulated servers, where "none of these counters" is one of the right answers.

    python -m tests.evaluation.models.answers                    # 8 faults x 2 servers x 10 seeds, and calm servers
    python -m tests.evaluation.models.answers --seeds 901 910

See `tests/evaluation/README.md` for the faults, and for what counts as right.
"""

from __future__ import annotations

import argparse
import os
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from laggard.operators.regression import Regression
from laggard.pipeline.explaining.counters import RESOLUTION
from laggard.pipeline.methods.applications.metrics import metric_parts
from laggard.pipeline.methods.applications.resources import resource_of, trait
from tests.evaluation.models.scoring import MRT, THR, Names
from tests.evaluation.models.servers import FAULTS, Watched, expected, watch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laggard.operators.regression.following import Method

WARMING: Final = 2
"""The intervals after the beginning of a fault whose answers do not count: the first one has only a part of it."""

CALM: Final = 264
"""The intervals of a calm server: 22 minutes at 5 s."""


class Answers(NamedTuple):
    """The answers to one run.

    Attributes:
        fault: its fault; empty for none.
        alone: whether both tiers are on one host.
        right: the right answer: host and resource, both empty for none of these.
        given: the answer of each faulty interval after the first ones; None where it is not called slow.
        models: the models by performance metric.
        changed: those of them that were built because the relation had changed, or for a slow response time.
        before: the calm intervals before the fault that are called slow.
        terms: the metrics in models.

    """

    fault: str
    alone: bool
    right: tuple[str, str]
    given: tuple[tuple[str, str] | None, ...]
    models: int
    changed: int
    before: int
    terms: tuple[str, ...]

    @property
    def last(self) -> tuple[str, str] | None:
        """The newest answer; None without any."""
        return next((each for each in reversed(self.given) if each is not None), None)


def answers(fault: str, seed: int, alone: bool, method: Method = "adaptive") -> Answers:
    """Let a model watch a server, and note its answers."""
    seen = watch(fault, seed, alone=alone) if fault else watch("", seed, calm=CALM, faulty=0, after=0, alone=alone)
    operator = Regression(performance=(MRT, THR), trait=trait, resolution=RESOLUTION, method=method)
    names = Names(seen.ids)
    given: list[tuple[str, str] | None] = []
    models = changed = before = 0
    terms: set[str] = set()
    faulty = np.flatnonzero(seen.faulty)
    for at in range(len(seen.values)):
        sample = seen.interval_s * at, names, seen.values[at], _performance(seen, at)
        scores = operator.score(*sample)
        slow = scores.score > 1.0
        if seen.faulty[at] and at >= faulty[0] + WARMING:
            given.append(None if not slow else ("", ""))
            if slow and scores.suspects:
                first = scores.suspects[0].metric
                given[-1] = metric_parts(first).host, resource_of(first)
        before += slow and (not len(faulty) or at < faulty[0])
        for model in operator.learn(*sample):
            models += 1
            changed += model.reason in {"changed", "poor"}
            terms |= {term.metric for term in model.terms}
    right = expected(fault, alone=alone) if fault else ("", "")
    return Answers(fault, alone, right, tuple(given), models, changed, before, tuple(sorted(terms)))


def _performance(seen: Watched, at: int) -> dict[str, float]:
    return {name: float(each[at]) for name, each in seen.performance.items()}


def table(found: Sequence[Answers]) -> str:
    """Precision and recall by fault, in Markdown: of intervals, and of the last answer of each run."""
    heads = ("fault", "intervals: precision", "recall", "last answers: precision", "recall", "other answers")
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    groups = [(name, [each for each in found if each.fault == name]) for name in FAULTS]
    kinds = [
        (kind, [each for each in found if each.fault and bool(FAULTS[each.fault][0]) is resource])
        for kind, resource in (("**resource faults**", True), ("**others**", False))
    ]
    for name, mine in (*groups, *kinds, ("**all**", [each for each in found if each.fault])):
        every = [(each.right, one) for each in mine for one in each.given]
        last = [(each.right, each.last) for each in mine]
        wrong: dict[str, int] = {}
        for right, one in last:
            if one != right:
                word = "not slow" if one is None else " ".join(one).strip() or "none"
                wrong[word] = wrong.get(word, 0) + 1
        others = ", ".join(f"{word} {count}" for word, count in sorted(wrong.items(), key=lambda each: -each[1]))
        lines.append(f"| {name} | {' | '.join((*_shares(every), *_shares(last)))} | {others} |")
    return "\n".join(lines)


def _shares(pairs: Sequence[tuple[tuple[str, str], tuple[str, str] | None]]) -> tuple[str, str]:
    """Return the precision and the recall of answers beside the right ones."""
    hits = sum(right == given for right, given in pairs)
    said = sum(given is not None for _, given in pairs)
    return f"{100.0 * hits / max(said, 1):.1f} %", f"{100.0 * hits / max(len(pairs), 1):.1f} %"


def by_class(found: Sequence[Answers]) -> str:
    """Precision and recall of each answer, over all faults: "none of these" is one of them."""
    lines = ["| answer | precision | recall |", "|---|---|---|"]
    last = [(each.right, each.last) for each in found if each.fault]
    for answer in sorted({right for right, _ in last}):
        hits = sum(right == given == answer for right, given in last)
        said = sum(given == answer for _, given in last)
        due = sum(right == answer for right, _ in last)
        name = " ".join(answer).strip() or "none of these"
        lines.append(f"| {name} | {hits}/{said} | {hits}/{due} |")
    return "\n".join(lines)


def calm(found: Sequence[Answers]) -> str:
    """The models of calm servers in their first 22 minutes."""
    mine = [each for each in found if not each.fault]
    models, changed = [each.models for each in mine], [each.changed for each in mine]
    return (
        f"{len(mine)} calm servers, the first {CALM} intervals: {np.mean(models):.2f} models (worst {max(models)}), "
        f"{np.mean(changed):.2f} of them false rebuilds (worst {max(changed)}); "
        f"{sum(each.before for each in mine)} intervals called slow"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seeds", type=int, nargs=2, default=(1, 10), metavar=("FIRST", "LAST"))
    options.add_argument("--faults", nargs="*", choices=FAULTS, default=list(FAULTS))
    options.add_argument("--method", choices=("adaptive", "published"), default="adaptive")
    options.add_argument("--processes", type=int, default=os.cpu_count())
    chosen = options.parse_args(arguments)
    seeds = range(chosen.seeds[0], chosen.seeds[1] + 1)
    with ProcessPoolExecutor(chosen.processes) as pool:
        futures = [
            pool.submit(answers, fault, seed, alone, chosen.method)
            for fault in (*chosen.faults, "")
            for seed in seeds
            for alone in (True, False)
        ]
        found = [each.result() for each in futures]
    print(f"{chosen.method}, seeds {seeds[0]} to {seeds[-1]}, servers of one host and of two\n")
    print(table(found), by_class(found), calm(found), sep="\n\n")


if __name__ == "__main__":
    main()
