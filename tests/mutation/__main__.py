"""Do the tests notice when the source is wrong? `python -m tests.mutation` makes small mutants of it, and tries.

A mutant has one comparison turned round, one constant changed, one line left out, or one branch swapped. It is judged
by the tests of its own room: killed where one fails or does not end, survived where all pass. The same seed draws the
same mutants, whatever the tests are; so two sets of tests can be compared.

    python -m tests.mutation                            150 of them, about an hour on two cores
    python -m tests.mutation --seed 2 pipeline/core/records  others, of one room
    python -m tests.mutation --json all.json            keep what was found
    python -m tests.mutation --again all.json           judge anew those that survived there

Of the tests only those run that execute the mutant's line, the quick ones first, then the others of their files. A line
that runs at import may matter to any test of the room.
"""

from __future__ import annotations

import argparse
import difflib
import json
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final

from tests.mutation.mutants import drawn, mutants_of
from tests.mutation.trees import CannotWorkError, Suite, Tree, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Future

    from tests.mutation.mutants import Mutant

ROOT: Final = Path(__file__).parents[2]
ROOMS: Final = (
    "operators",
    *(f"pipeline/{room}" for room in ("core/engine", "core/bus", "core/records", "methods/incidents")),
)
"""Their tests are in folders of the same name in `tests/`."""

QUICK_S: Final = 1.0
"""A test that takes longer waits for all that do not."""
LIMIT_S: Final = 60.0
SLOW_LIMIT_S: Final = 180.0
"""What a test may take, and one with processes of its own, beyond some times what it took without any mutant."""
TIMES: Final = 6.0


def main() -> int:
    options = _options()
    with tempfile.TemporaryDirectory(prefix="laggard-mutation-") as folder:
        try:
            trees = [Tree.copied(ROOT, Path(folder).resolve() / str(job)) for job in range(options.jobs)]
            mutants = _chosen(trees[0].root, options)
            with ThreadPoolExecutor(options.jobs) as pool:
                verdicts = _Run(trees, options.budget).verdicts(pool, mutants)
        except CannotWorkError as error:
            print(f"mutation: {error}", file=sys.stderr)
            return 2
        found = list(zip(mutants, verdicts, strict=True))
        _report(trees[0].root, found)
    if options.json:
        told = [_plain(mutant, verdict) for mutant, verdict in found]
        options.json.write_text(json.dumps({"seed": options.seed, "mutants": told}, indent=1) + "\n")
    killed = sum(verdict.killed for verdict in verdicts)
    return int(options.at_least is not None and killed < options.at_least * len(found))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutation", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("paths", nargs="*", default=ROOMS, metavar="PATH", help="rooms, folders or files of them")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=150, help="how many mutants to draw")
    parser.add_argument("--jobs", type=int, default=2, help="how many to judge at a time")
    parser.add_argument("--budget", type=float, default=300.0, help="seconds of tests that one mutant may take at most")
    parser.add_argument("--at-least", type=float, metavar="SHARE", help="fail where a smaller share is killed")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all that was found")
    parser.add_argument("--again", type=Path, metavar="FILE", help="judge what survived in such a file")
    return parser.parse_args()


def _chosen(root: Path, options: argparse.Namespace) -> list[Mutant]:
    wanted = [(root / path).resolve() for path in options.paths]
    files = sorted(
        path
        for room in ROOMS
        for path in (root / room).rglob("*.py")
        if any(path.is_relative_to(one) for one in wanted)
    )
    mutants = [mutant for path in files for mutant in mutants_of(root, path)]
    if options.again:
        earlier = json.loads(options.again.read_text())["mutants"]
        survivors = {one["id"] for one in earlier if one["result"] == "survived"}
        chosen = [mutant for mutant in mutants if mutant.id in survivors]
        if gone := len(survivors) - len(chosen):
            print(f"{gone} of {len(survivors)} are no more: their lines have changed")
    else:
        chosen = drawn(root, mutants, options.seed, options.count)
    if not chosen:
        raise CannotWorkError(f"nothing to change in {', '.join(map(str, options.paths))}; rooms: {', '.join(ROOMS)}")
    return chosen


def _room(mutant: Mutant) -> str:
    return next(room for room in ROOMS if mutant.file.startswith(f"{room}/"))


class _Run:
    """Judges mutants, each in a tree that has no other use meanwhile."""

    def __init__(self, trees: Sequence[Tree], budget_s: float) -> None:
        self._tests: dict[str, Future[Suite]] = {}
        self._budget_s = budget_s
        self._free: SimpleQueue[Tree] = SimpleQueue()
        for tree in trees:
            self._free.put(tree)

    def verdicts(self, pool: ThreadPoolExecutor, mutants: Sequence[Mutant]) -> list[Verdict]:
        """What the tests say of each mutant."""
        rooms = [room for room in ROOMS if any(_room(one) == room for one in mutants)]
        self._tests = {room: pool.submit(self._watched, room) for room in rooms}
        # The tests of the first room take longest; meanwhile the others' mutants are judged.
        last_first = sorted(mutants, key=lambda one: -rooms.index(_room(one)))
        judged = {one.id: pool.submit(self._judged, one) for one in last_first}
        try:
            return [judged[one.id].result() for one in mutants]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise

    def _watched(self, room: str) -> Suite:
        tree, begin = self._free.get(), time.monotonic()
        try:
            tests = tree.watched(room, f"tests/{room}")
        finally:
            self._free.put(tree)
        print(f"{room}: {len(tests.seconds)} tests pass, in {time.monotonic() - begin:.0f} s", flush=True)
        for name in tests.failing:
            print(f"  fails without any mutant, not used: {name}", flush=True)
        return tests

    def _judged(self, mutant: Mutant) -> Verdict:
        tests = self._tests[_room(mutant)].result()
        limits, left_out = planned(mutant, tests, self._budget_s)
        tree, begin = self._free.get(), time.monotonic()
        try:
            verdict = tree.judged(mutant, limits, left_out)
        finally:
            self._free.put(tree)
        by = f"; by {verdict.by}" if verdict.by else f"; {verdict.tried} tests, {verdict.left_out} left out"
        print(
            f"{_result(verdict):8} {mutant.file}:{mutant.line} {mutant.kind} {mutant.before} -> {mutant.after}"
            f"{by} ({time.monotonic() - begin:.0f} s)",
            flush=True,
        )
        return verdict


def planned(mutant: Mutant, tests: Suite, budget_s: float) -> tuple[dict[str, float], int]:
    """The tests that may see a mutant, in their order and with their limits, and how many more would take too long."""
    by_line = tests.lines.get(mutant.file, {})
    covering = frozenset[str]().union(*(by_line.get(line, frozenset()) for line in mutant.lines))
    anywhere = mutant.at_import or not covering  # or where no test is watched: in a process that it starts
    near = frozenset[str]().union(*by_line.values()) if anywhere else covering
    files = {_file(name) for name in near}
    candidates = [name for name in tests.seconds if anywhere or _file(name) in files]
    by_file = dict.fromkeys(map(_file, candidates), 0.0)
    for name in candidates:
        by_file[_file(name)] += tests.seconds[name]

    def order(name: str) -> tuple[bool, bool, float, str, float]:
        # The tests of a file stay together, for what they share.
        seconds = tests.seconds[name]
        return name not in near, seconds > QUICK_S or name in tests.slow, by_file[_file(name)], _file(name), seconds

    limits: dict[str, float] = {}
    spent_s = 0.0
    for name in sorted(candidates, key=order):
        spent_s += tests.seconds[name]
        if spent_s > budget_s and limits:
            break
        limits[name] = TIMES * tests.seconds[name] + (SLOW_LIMIT_S if name in tests.slow else LIMIT_S)
    return limits, len(candidates) - len(limits)


def _file(name: str) -> str:
    return name.partition("::")[0]


def _result(verdict: Verdict) -> str:
    return "timeout" if verdict.timeout else "killed" if verdict.killed else "survived"


def _plain(mutant: Mutant, verdict: Verdict) -> dict[str, object]:
    what = {name: getattr(mutant, name) for name in ("id", "file", "line", "kind", "place", "before", "after")}
    return {**what, "room": _room(mutant), "result": _result(verdict), **asdict(verdict)}


def _report(root: Path, found: Sequence[tuple[Mutant, Verdict]]) -> None:
    for mutant, verdict in found:
        if not verdict.killed:
            source = (root / mutant.file).read_bytes()
            before, after = (text.decode().splitlines() for text in (source, mutant.applied(source)))
            print(f"\nsurvived: {mutant.id}, in {mutant.place or 'the module'}")
            print(*difflib.unified_diff(before, after, mutant.file, mutant.file, n=2, lineterm=""), sep="\n")
    print(f"\n{'':20} mutants  killed  timeout  survived")
    for name in (*ROOMS, "all"):
        results = Counter(_result(verdict) for mutant, verdict in found if name in (_room(mutant), "all"))
        if total := results.total():
            share = 1.0 - results["survived"] / total
            counts = f"{total:7} {results['killed']:7} {results['timeout']:8} {results['survived']:9}"
            print(f"{name:20} {counts}   {share:.0%}")


if __name__ == "__main__":
    sys.exit(main())
