"""What goes wrong, in which process, when, and what else happens then: the same for the same seed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from tests.evaluation.faults import FAULTS, Storm
from tests.evaluation.recording import Culprit
from tests.evaluation.roles import ROLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

T = TypeVar("T")

SITUATIONS = ("decoys", "small", "stopped", "new", "restarted", "storm", "two", "victims")
"""See `README.md`. The kind of the fault is another dimension."""

FAULT_S = 12.0
MARK_S = (8.0, 10.0)
"""Of a fault that lasts `FAULT_S`: when the user asks, after its onset."""
DECOY_S = (1.0, 4.0)
"""When others begin their usual burst, before the mark."""
STOPPED_AFTER_S = (6.0, 9.0)
"""How long a fault lasts that is over at the mark."""
STOPPED_S = (1.0, 4.0)
"""How long it is over then."""
NEW_S = (5.0, 20.0)
"""The age of a process that has just started, at the mark; it goes wrong from its start, until `NEW_REST_S` later."""
NEW_REST_S = 2.0
RESTART_S = 4.0
"""Within which all processes are restarted."""
RESTARTED_S = (15.0, 40.0)
"""When each of them was restarted, before the mark."""
WAITING = 16
"""How many share one core with a culprit that keeps it busy."""

ORDINARY: dict[str, frozenset[str]] = {
    "cpu": frozenset({"batch", "web", "pool", "sleep", "compress"}),
    "memory": frozenset({"batch", "cache", "database"}),
    "io": frozenset({"batch", "log", "compress", "database", "scan"}),
    "descriptors": frozenset({"web", "poll"}),
    "page_faults": frozenset({"batch", "cache"}),
    "threads": frozenset({"pool"}),
}
"""Roles with such high bursts in a resource that a small fault in them would be an ordinary day."""
BUSY = frozenset({"batch", "web", "pool", "compress"})
"""Roles whose bursts use the CPU."""
SYNCING = frozenset({"log", "database"})
"""Roles whose bursts wait for the disk."""

UNSEEN = ("backup", "import", "export", "migrate", "report", "index", "mirror", "upgrade", "audit", "restore")
"""What processes are called that the machine has not seen before; numbered from the second round on."""


@dataclass(frozen=True, slots=True)
class Newcomer:
    """A process that starts during a case, and ends with it; `role` is what it does all the while.

    `name` may be that of another process, which goes on.
    """

    name: str
    role: str
    at: float


@dataclass(frozen=True, slots=True)
class Planned:
    """One case before it happens. Times are in seconds after the start.

    Attributes:
        situation: one of `SITUATIONS`.
        form: `ended` where the culprit's process ends with its fault, `unseen` or `known` for the name of a new one.
        culprits: of those that go wrong; without a pid.
        onset: when they do.
        mark: when the user asks.
        end: when it is over.
        decoys: who begins its usual burst, and when.
        newcomers: processes that start. One that is a culprit goes wrong from then on.
        restart: from when on all processes are restarted, where they are.
        waiting: who has to wait for the culprit.

    """

    situation: str
    form: str
    culprits: tuple[Culprit, ...]
    onset: float
    mark: float
    end: float
    decoys: tuple[tuple[str, float], ...] = ()
    newcomers: tuple[Newcomer, ...] = ()
    restart: float | None = None
    waiting: tuple[str, ...] = ()

    @property
    def over(self) -> float:
        """When all of it has happened."""
        return max(self.mark, self.end)


def names(workers: int) -> list[str]:
    """Of the processes: the roles in turn, numbered."""
    roles = list(ROLES)
    return [f"{roles[index % len(roles)]}-{index // len(roles)}" for index in range(workers)]


def role_of(name: str) -> str:
    """What the process of such a name does."""
    return name.partition("-")[0]


def is_of_evaluation(name: str) -> bool:
    """Whether a process of this name works for the evaluation, rather than for somebody else on the machine."""
    return role_of(name) in ROLES or role_of(name) in UNSEEN or name in Storm.PROGRAMS


@dataclass(frozen=True, slots=True)
class Setting:
    """How a recording is made.

    Attributes:
        seed: of the random numbers.
        cases: slowdowns to inject.
        situations: in which, each equally often.
        workers: processes at work.
        warm_up_s: seconds before the first slowdown.
        pause_s: mean seconds from the end of one to the beginning of the next; it varies by a sixth. After one in which
            all were restarted there are two, so that they have a past again.

    """

    seed: int = 1
    cases: int = 64
    situations: tuple[str, ...] = SITUATIONS
    workers: int = 40
    warm_up_s: float = 120.0
    pause_s: float = 26.0

    def __post_init__(self) -> None:
        unknown = [situation for situation in self.situations if situation not in SITUATIONS]
        if unknown or not self.situations:
            raise ValueError(
                f"situations: expected some of {', '.join(SITUATIONS)}, got {', '.join(unknown) or 'none'}"
            )
        if self.cases < 1:
            raise ValueError(f"cases: expected at least 1, got {self.cases}")
        if self.workers < 2 * len(ROLES):
            raise ValueError(f"workers: expected at least {2 * len(ROLES)}, two of each role, got {self.workers}")


def plan(setting: Setting) -> list[Planned]:
    """What happens: situations, and in each the kinds of fault, equally often, each time in another process.

    Where there are more culprits than processes some have to be it again, as late as possible.
    """
    return _Planner(setting).plan()


class _Deck(Generic[T]):
    """Deals all of its cards in a random order before one comes again."""

    def __init__(self, cards: Sequence[T], chance: random.Random) -> None:
        self._cards = cards
        self._chance = chance
        self._left: list[T] = []

    def deal(self, fits: Callable[[T], bool] = lambda _: True) -> T:
        """The next one that fits. One of all the cards has to."""
        while not (fitting := [card for card in self._left if fits(card)]):
            self._left += self._chance.sample(self._cards, len(self._cards))
        self._left.remove(fitting[0])
        return fitting[0]


class _Planner:
    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._chance = random.Random(setting.seed)
        self._workers = names(setting.workers)
        self._culprits = _Deck(self._workers, self._chance)
        kinds = dict.fromkeys(SITUATIONS, tuple(FAULTS)) | {"storm": ("cpu",), "victims": ("cpu", "io")}
        self._kinds = {situation: _Deck(of, self._chance) for situation, of in kinds.items()}
        self._forms = {"stopped": _Deck(("", "ended"), self._chance), "new": _Deck(("unseen", "known"), self._chance)}
        self._programs = _Deck(Storm.PROGRAMS, self._chance)
        self._unseen = (f"{name}-{number}" if number else name for number in range(1000) for name in UNSEEN)

    def plan(self) -> list[Planned]:
        setting = self._setting
        planned: list[Planned] = []
        at = setting.warm_up_s
        for situation in self._situations():
            case = self._case(situation, at)
            planned.append(case)
            pauses = 2 if situation == "restarted" else 1
            at = case.over + sum(setting.pause_s * self._chance.uniform(5 / 6, 7 / 6) for _ in range(pauses))
        return planned

    def _situations(self) -> Iterator[str]:
        """In rounds of a random order, but restarts at their end: until the next ones all have a past of minutes."""
        every, left = self._setting.situations, self._setting.cases
        while left:
            of_round = self._chance.sample(every, min(len(every), left))
            yield from sorted(of_round, key=lambda situation: situation == "restarted")
            left -= len(of_round)

    def _case(self, situation: str, begin: float) -> Planned:
        form = self._forms[situation].deal() if situation in self._forms else ""
        culprits: tuple[Culprit, ...] = ()
        for _ in range(2 if situation == "two" else 1):
            culprits += (self._culprit(situation, form, culprits),)
        onset, mark, end = self._times(situation, begin)
        newcomers = self._newcomers(culprits[0].name, onset, mark) if situation == "new" else ()
        others = set(self._workers) - {*(each.name for each in culprits), *(each.name for each in newcomers)}
        waiting, bursting = self._others(situation, culprits[0].kind, sorted(others))
        return Planned(
            situation,
            form,
            culprits,
            onset,
            mark,
            end,
            tuple((name, mark - self._chance.uniform(*DECOY_S)) for name in bursting),
            newcomers,
            begin if situation == "restarted" else None,
            waiting,
        )

    def _culprit(self, situation: str, form: str, others: Sequence[Culprit]) -> Culprit:
        kind = self._kinds[situation].deal(lambda kind: all(kind != other.kind for other in others))
        fault = Storm if situation == "storm" else FAULTS[kind]
        between = fault.SMALL if situation == "small" else fault.ALL if situation == "victims" else fault.LARGE
        amount = self._chance.uniform(*between)
        if form == "unseen":
            return Culprit(next(self._unseen), kind, amount)
        excluded = ORDINARY[kind] if situation == "small" else frozenset()
        taken = {other.name for other in others}
        name = self._culprits.deal(lambda name: role_of(name) not in excluded and name not in taken)
        return Culprit(name, kind, amount, self._programs.deal() if situation == "storm" else "")

    def _times(self, situation: str, begin: float) -> tuple[float, float, float]:
        """Onset, mark and end."""
        chance = self._chance
        if situation == "restarted":
            mark = begin + chance.uniform(RESTARTED_S[0] + RESTART_S, RESTARTED_S[1])
            onset = mark - chance.uniform(*MARK_S)
            return onset, mark, onset + FAULT_S
        if situation == "stopped":
            end = begin + chance.uniform(*STOPPED_AFTER_S)
            return begin, end + chance.uniform(*STOPPED_S), end
        if situation == "new":
            mark = begin + chance.uniform(*NEW_S)
            return begin, mark, mark + NEW_REST_S
        return begin, begin + chance.uniform(*MARK_S), begin + FAULT_S

    def _newcomers(self, culprit: str, onset: float, mark: float) -> tuple[Newcomer, ...]:
        """The culprit, and one that is as new and does nothing but the work of its role."""
        chance = self._chance
        others = [name for name in self._workers if name != culprit]
        name = next(self._unseen) if chance.random() < 0.5 else chance.choice(others)
        started = mark - chance.uniform(*NEW_S)
        return tuple(
            Newcomer(each, role_of(each) if each in self._workers else chance.choice(list(ROLES)), at)
            for each, at in ((culprit, onset), (name, started))
        )

    def _others(self, situation: str, kind: str, names: list[str]) -> tuple[tuple[str, ...], list[str]]:
        """Who waits for the culprit, and who has its usual burst meanwhile."""
        chance = self._chance
        if situation == "victims" and kind == "io":
            waiting = [name for name in names if role_of(name) in SYNCING]
            return tuple(waiting), waiting
        if situation == "victims":
            waiting = chance.sample(names, WAITING)
            return tuple(waiting), [name for name in waiting if role_of(name) in BUSY][:4]
        least, most = {"decoys": (2, 4), "small": (1, 3)}.get(situation, (0, 2))
        return (), chance.sample(names, chance.randint(least, most))
