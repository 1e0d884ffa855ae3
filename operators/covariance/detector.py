"""The operator `covariance`: members of a pool that behave unlike the others, without a model of normal (S3)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, NamedTuple

import numpy as np

from laggard.operators.calibration import DAY_S, Calibration
from laggard.operators.contract import check_shape
from laggard.operators.covariance.bank import FEWEST, SETTLED, Bank, Tick
from laggard.operators.covariance.clustering import au_p_values, ward
from laggard.operators.covariance.distance import pairwise
from laggard.operators.covariance.groups import Courses
from laggard.operators.covariance.kinds import YOUNGER, Sign, kind_of, nature
from laggard.operators.covariance.presence import HELD_SCORE, Newest, Standing
from laggard.operators.covariance.presence import restored as restored_standing
from laggard.operators.covariance.published import rank
from laggard.operators.covariance.results import Dendrogram, Deviation, Level, Report, path_of
from laggard.operators.covariance.windows import LARGEST, LIFE
from laggard.operators.ranking import FeatureScore, Ranking, RowScore

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from laggard.operators.contract import Layout, Matrix
    from laggard.operators.covariance.results import Kind

    Floats = NDArray[np.float64]

Method = Literal["adaptive", "published"]
Path = tuple[str, ...]

MOST_FEATURES: Final = 32
"""Of more features the first so many are compared."""

MOST_LEAVES: Final = 64
"""Members in a dendrogram: of more, those that deviate, and as many others as there is room for."""

MOST_LEVELS: Final = 16
"""Groups that a report looks into."""

WAVE: Final = 12
"""Members that begin within so many ticks of the first of them began together."""

TOLD: Final = 0.7
"""A metric is told if it is out by this share of the metric that is furthest out, and of what the budget allows."""

LEAST_TOLD: Final = 0.3
"""Where the covariance is furthest out, the metric that is most so is told if it has this share of the budget."""

RISEN: Final = 1.2
"""What is this many times as far out now as over the whole life grows."""

FORGOTTEN_S: Final = 86_400.0
"""What a member was that has ended is kept for so long."""

LEFT_SCORE: Final = 1.5
LEFT_TICKS: Final = 12
LEFT_SHARE: Final = 0.05
LONGEST_LEFT: Final = 60
LONGEST_STEADY: Final = 720
"""A pool is of fixed size when nobody came or went for half of what was seen of it, up to 720 ticks. A member has left
such a pool when it has been away for 12 ticks, or 5 % of its life up to 60 ticks, and nobody came in its place, while
three quarters of the others stay."""

ALIGNED_WINDOWS: Final = (2, 8, 32)
ALIGNED_BLOCK: Final = 8
"""In parts of a group's life, of which there are up to 128."""

CLEAR: Final = 1.6
"""A stretch above 1 that came this far is a deviation; what stayed below may be how this pool is, and is counted."""

STEPS: Final = 20.0
CALIBRATION: Final = {"prior": (17.3, 1.5), "prior_s": 21_600.0}
"""Scores are calibrated in steps of 5 %. Before anything was seen 1 is the limit, and hours have to say otherwise."""

SHOWN: Final = 0.5
"""A metric is told where it is so many standard deviations from the others by itself."""

STEADY: Final = 12
"""A member that deviates is said to do so otherwise than before once it has done so for so many ticks."""

SUPERSEDED: Final[Mapping[str, tuple[str, ...]]] = {
    "stuck": ("different", "slower"),
    "slower": ("different",),
    "busy": ("different", "spike"),
    "leak": ("different", "spike", "busy"),
    "spike": ("different",),
}
"""What each kind takes the place of at once."""

YOUNG_TICKS: Final = 192
"""Until so many ticks of a pool were seen, what is said of it is said to be young."""


def _says_more(told: str, kind: str) -> bool:
    """Whether a new kind says more than what is told: a spike that goes on, or something that had no name."""
    return not told or told in SUPERSEDED.get(kind, ())


@dataclass(slots=True)
class _Node:
    """A member, or a group of members."""

    path: Path
    name: str
    slot: int
    begin_ts: float
    wave: int
    leaf: bool
    until_ts: float = math.nan
    alive: bool = True
    # How it deviates, as it is told; how it would be by the newest ticks alone, and how many these are, or are quiet.
    kind: Kind | Literal[""] = ""
    next_kind: Kind | Literal[""] = ""
    ticks: int = 0
    standing: Standing | None = None

    def take_kind(self, kind: Kind | Literal[""]) -> None:
        """Take what a tick says: what is told does not change with every tick."""
        self.ticks = self.ticks + 1 if kind == self.next_kind else 1
        self.next_kind = kind
        # What had a name keeps it rather than have none; and what has spiked is below its own mean for a while.
        after = bool(self.kind) and (kind == "different" or (self.kind == "spike" and kind == "slower"))
        if _says_more(self.kind, kind) or (self.ticks >= (STEADY if kind else SETTLED) and not after):
            self.kind = kind

    @property
    def row(self) -> str:
        return "/".join(self.path)


@dataclass(slots=True)
class _Wave:
    number: int
    tick: int


class _Depth:
    """All members and groups of one depth of the paths."""

    def __init__(self, bank: Bank) -> None:
        self.bank = bank
        self.nodes: dict[Path, _Node] = {}
        self.waves: dict[Path, _Wave] = {}  # the newest of each parent


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """Where a layout's rows belong, at one depth: the nodes, and of each row the place of its node; -1 for none."""

    paths: tuple[Path, ...]
    names: tuple[str, ...]
    leaves: NDArray[np.bool_]
    place: NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class _Look:
    """One depth at one tick."""

    paths: tuple[Path, ...]  # of those that are there
    names: tuple[str, ...]
    leaves: NDArray[np.bool_]
    values: Floats
    known: NDArray[np.intp]  # places of those that have a slot
    tick: Tick
    limit: float
    standings: Mapping[int, Standing | None]  # after this tick, by the places of those that stand out or did so
    scores: Floats  # of the tick, but of what has ended and what still lasts


class Candidate(NamedTuple):
    """A member at one tick; what sets it apart is found out when it is asked for."""

    row: str
    name: str
    score: float
    age_s: float
    features: Callable[[], tuple[FeatureScore, ...]]

    def told(self, features: int) -> RowScore:
        """The member with the metrics that set it apart most."""
        return RowScore(self.row, self.name, self.score, self.features()[:features], self.age_s, "all")


class Scores:
    """What the operator answers to a tick. It stays what it is when the operator learns on.

    Attributes:
        ts: of the tick, seconds since the Unix epoch.
        score: of the worst member or group; above 1 is anomalous.
        deviations: of now, worst first.
        members: how many there are.
        age_s: how long the pool has been learned from, in seconds.
        young: whether that is too short to be relied on.

    """

    def __init__(
        self,
        ts: float,
        rows: Sequence[Candidate],
        deviations: tuple[Deviation, ...],
        members: int,
        age_s: float,
        *,
        young: bool,
    ) -> None:
        self.ts = ts
        # A row that is out because it is younger is no trouble: what is said of it counts.
        self.score = max([each.score for each in deviations] or [rows[0].score if rows else 0.0])
        self.deviations = deviations
        self.members = members
        self.age_s = age_s
        self.young = young
        self._rows = rows

    def ranking(self, rows: int, features: int) -> Ranking:
        """The worst members, each with the metrics that set it apart most."""
        worst = tuple(row.told(features) for row in self._rows[:rows])
        return Ranking(self.ts, self.score, worst, self.age_s, self.young)


class Covariance:
    """Members of one pool that behave unlike the others.

    The method is that of Syer, Adams, Hassan: "Identifying performance deviations in thread pools" (ICSM 2011).
    `method="published"` ranks by the covariance of each member's whole life, as section IV says. `"adaptive"` compares
    members at every tick, in several windows and over their whole life: by their levels, by changes of these, by what
    each metric is given the others, and by their covariances; see `Bank`. So it finds spikes, which drown in a whole
    life, tells since when, and has a budget of false alarms.

    Levels are the parts of paths in the rows' ids or names (section IV.B): groups are compared with their siblings by
    their members' means, and members with those of their own group, where it has three. Members of one group that
    began together are a wave, compared within it; waves are compared with each other by age.

    Memory: that of `Bank` for each depth, at most `limit` members and groups of each, those that ended within a day
    included. Cost of a tick: O(members x windows x metrics^2).

    Parameters:
        method: `adaptive` or `published`.
        windows: in ticks; the whole life is one more.
        false_alarms_per_day: how often a pool in which nothing deviates may be said to deviate.
        resolution: what nobody would notice of a metric, in its unit, by the end of its name.
        replicates: bootstrap samples for each scale of p-values.
        limit: members of one depth.

    Attributes:
        refused: how many members of the newest tick were over the limit.

    Example:
        >>> from types import SimpleNamespace
        >>> chance = np.random.default_rng(1)
        >>> rows = [f"worker-{each}" for each in range(8)]
        >>> layout = SimpleNamespace(rows=rows, names=rows, features=["cpu_ratio"], commands=[])
        >>> pool = Covariance(windows=(12, 48))
        >>> for tick in range(300):
        ...     values = 0.2 + 0.02 * chance.standard_normal((8, 1))
        ...     values[3] += 0.5 * (200 <= tick < 220)
        ...     pool.learn(5.0 * tick, layout, values)
        >>> [(each.name, each.kind) for each in pool.report().ranking]
        [('worker-3', 'spike')]

    """

    state_version: ClassVar[int] = 1

    def __init__(
        self,
        *,
        method: Method = "adaptive",
        windows: Sequence[int] = (12, 48, 192),
        false_alarms_per_day: float = 1.0,
        resolution: Mapping[str, float] | None = None,
        replicates: int = 1000,
        limit: int = 5_000,
    ) -> None:
        if method not in ("adaptive", "published"):
            raise ValueError(f"method: expected 'adaptive' or 'published', got {method!r}")
        if not windows or min(windows) < 4 or list(windows) != sorted(set(windows)):
            raise ValueError(f"windows: expected lengths of 4 ticks and more, growing, got {list(windows)}")
        if not false_alarms_per_day > 0.0 or replicates < 0 or limit < FEWEST:
            raise ValueError(
                "expected a budget above 0, no negative number of replicates and room for three members, "
                f"got {false_alarms_per_day=}, {replicates=}, {limit=}"
            )
        self.method = method
        self.windows = tuple(int(length) for length in windows)
        self.false_alarms_per_day = false_alarms_per_day
        self.resolution = dict(resolution or {})
        self.replicates = replicates
        self.limit = limit
        self.refused = 0
        self._features: tuple[str, ...] = ()
        self._depths: list[_Depth] = []
        self._courses = Courses(0)
        self._first_ts = self._ts = math.nan
        self._interval_s = math.nan
        self._ticks = 0
        self._calibration = Calibration(per_day=false_alarms_per_day, **CALIBRATION)  # type: ignore[arg-type]
        self._members = 0
        self._steady = 0  # ticks since a member came or went
        self._away: dict[Path, int] = {}  # who left a pool of fixed size, and at which tick
        self._layout: Layout | None = None
        self._rows: tuple[_Rows, ...] = ()
        self._columns: NDArray[np.intp] = np.zeros(0, np.intp)
        self._looked: tuple[float, Layout, Matrix, tuple[_Look, ...]] | None = None

    # One tick.

    def score(self, ts: float, layout: Layout, values: Matrix) -> Scores:
        """Who deviates at this tick."""
        check_shape(layout, values)
        looks = self._look(ts, layout, values) if self._features else ()
        if looks:
            self._looked = ts, layout, values, looks
        age_s = ts - self._first_ts if self._ticks else 0.0
        members = sum(int(look.leaves.sum()) for look in looks)
        found: list[Deviation] = []
        rows: list[Candidate] = []
        if self.method == "adaptive":
            for depth, look in zip(self._depths, looks, strict=False):
                found += self._deviations_now(depth, look)
                rows += self._candidates(depth, look)
        rows.sort(key=lambda row: -row.score)
        found += self._left()
        found.sort(key=lambda each: -each.score)
        return Scores(ts, rows, tuple(found), members, age_s, young=self._ticks < YOUNG_TICKS)

    def learn(self, ts: float, layout: Layout, values: Matrix) -> None:
        """Take the tick into the state."""
        check_shape(layout, values)
        if (features := self._widened(layout)) != self._features:
            self._begin_anew(features)
        looked, self._looked = self._looked, None
        if looked is not None and looked[0] == ts and looked[1] is layout and looked[2] is values:
            looks = looked[3]
        else:
            looks = self._look(ts, layout, values)
        if self._ticks:
            step = ts - self._ts
            usual = self._interval_s
            if step > 0.0:  # a pause is no tick
                self._interval_s = step if math.isnan(usual) else usual + 0.1 * (min(step, 2.0 * usual) - usual)
        else:
            self._first_ts = ts
        self._calibrate(ts, looks)
        self.refused = 0
        for at, look in enumerate(looks):
            if at == len(self._depths):
                self._depths.append(_Depth(self._bank()))
            self._learn(self._depths[at], look, ts)
        for depth in self._depths[len(looks) :]:
            self._learn_nobody(depth, ts)
        self._members = sum(int(look.leaves.sum()) for look in looks)
        self._ts = ts
        self._ticks += 1

    def _calibrate(self, ts: float, looks: Sequence[_Look]) -> None:
        """Learn how often members pass 1 without going far: a pool in which that is usual has a higher limit."""
        raised, worst = max(self._calibration.limit / STEPS, 1.0), 0.0
        for depth, look in zip(self._depths, looks, strict=False):
            if len(look.tick.slots):
                quiet = look.tick.scores <= 1.0
                worst = max(worst, float(look.tick.scores[quiet].max(initial=0.0)))
                over = depth.bank.over(look.tick)
                # By the limit that was not raised, or each deviation would make the next one look doubtful.
                worst = max(worst, float(over[over * raised < CLEAR].max(initial=0.0)))
        self._calibration.learn(ts, worst * raised * STEPS)

    def _widened(self, layout: Layout) -> tuple[str, ...]:
        """The features that are compared, with those of a layout for which there is room; its own, if none is known."""
        known = self._features if set(self._features) & set(layout.features) or not layout.features else ()
        return tuple(dict.fromkeys([*known, *layout.features]))[:MOST_FEATURES]

    def _begin_anew(self, features: tuple[str, ...]) -> None:
        """Features that were not there before: all is learned anew, as nothing is known of how they vary."""
        self._features = features
        self._depths = []
        self._courses = Courses(len(self._features))
        self._layout, self._looked = None, None
        self._away, self._steady = {}, 0

    def _bank(self) -> Bank:
        return Bank(self._resolution(), self.windows, limit=self.limit)

    def _resolution(self) -> Floats:
        def of(feature: str) -> float:
            found = [end for end in self.resolution if feature.endswith(end)]
            return self.resolution[max(found, key=len)] if found else 0.0

        return np.array([of(feature) for feature in self._features])

    def _place(self, layout: Layout) -> None:
        """Remember where the rows of a layout belong."""
        if layout is self._layout:
            return
        self._layout = layout
        places = {feature: at for at, feature in enumerate(layout.features)}
        self._columns = np.array([places.get(feature, -1) for feature in self._features], np.intp)
        paths = [path_of(row, name) for row, name in zip(layout.rows, layout.names, strict=True)]
        depths = []
        for depth in range(max(map(len, paths), default=0)):
            nodes: dict[Path, int] = {}
            place = np.full(len(paths), -1, np.intp)
            names: list[str] = []
            leaves: list[bool] = []
            for at, path in enumerate(paths):
                if len(path) > depth:
                    prefix = path[: depth + 1]
                    if prefix not in nodes:
                        nodes[prefix] = len(nodes)
                        leaves.append(len(path) == depth + 1)
                        names.append(layout.names[at] if leaves[-1] else "/".join(prefix))
                    place[at] = nodes[prefix]
            depths.append(_Rows(tuple(nodes), tuple(names), np.array(leaves, np.bool_), place))
        self._rows = tuple(depths)

    def _look(self, ts: float, layout: Layout, values: Matrix) -> tuple[_Look, ...]:
        if not self._features:
            return ()
        self._place(layout)
        x = np.full((len(values), len(self._features)), np.nan)
        known = self._columns >= 0
        x[:, known] = values[:, self._columns[known]]
        x[~(np.abs(x) <= LARGEST)] = np.nan
        there = np.isfinite(x).any(axis=1)
        looks = []
        for at, rows in enumerate(self._rows):
            depth = self._depths[at] if at < len(self._depths) else _Depth(self._bank())
            inside = there & (rows.place >= 0)
            place = rows.place[inside]
            count = len(rows.paths)
            sums = np.zeros((count, x.shape[1]))
            counts = np.zeros((count, x.shape[1]))
            part = x[inside]
            finite = np.isfinite(part)
            np.add.at(sums, place, np.where(finite, part, 0.0))
            np.add.at(counts, place, finite)
            means = sums / np.where(counts > 0.0, counts, np.nan)
            present = np.flatnonzero(np.bincount(place, minlength=count) > 0)
            paths = tuple(rows.paths[each] for each in present)
            nodes = [depth.nodes.get(path) for path in paths]
            known_places = np.array([at for at, node in enumerate(nodes) if node is not None], np.intp)
            slots = np.array([node.slot for node in nodes if node is not None], np.intp)
            found = means[present]
            groups = self._groups([node for node in nodes if node is not None])
            limit = self._limit(depth.bank, len(slots))
            tick = depth.bank.look(ts, slots, found[known_places], groups, limit)
            tick = self._excuse_younger(depth, tick, [node for node in nodes if node is not None], ts, limit)
            known_nodes = [node for node in nodes if node is not None]
            standings = self._standings(depth.bank, tick, known_nodes, limit)
            looks.append(
                _Look(
                    paths,
                    tuple(rows.names[each] for each in present),
                    rows.leaves[present],
                    found,
                    known_places,
                    tick,
                    limit,
                    standings,
                    _present(tick.scores, standings),
                )
            )
        return tuple(looks)

    def _standings(self, bank: Bank, tick: Tick, nodes: Sequence[_Node], limit: float) -> dict[int, Standing | None]:
        """Return the standings after this tick of members that deviate or have deviated."""
        return {
            at: Newest(bank, tick, at, limit, self._usual_interval_s).follow(node.standing)
            for at, node in enumerate(nodes)
            if node.standing is not None or tick.scores[at] > 1.0
        }

    @property
    def _usual_interval_s(self) -> float:
        """Of the ticks; some value before there are two."""
        return self._interval_s if self._interval_s > 0.0 else 5.0

    def _limit(self, bank: Bank, members: int, *, raised: bool = True) -> float:
        """The evidence that scores 1: what the budget allows, and more where this pool has shown that it needs it."""
        allowed = bank.evidence_limit(members, self._usual_interval_s, self.false_alarms_per_day)
        return allowed * max(self._calibration.limit / STEPS, 1.0) if raised else allowed

    @staticmethod
    def _groups(nodes: Sequence[_Node]) -> NDArray[np.intp]:
        """Whose siblings members are: those of one parent; of these, where all came in waves, those of one wave."""
        waves: dict[tuple[Path, int], int] = {}
        for node in nodes:
            key = node.path[:-1], node.wave
            waves[key] = waves.get(key, 0) + 1
        mixed = {parent for (parent, _), count in waves.items() if count < FEWEST}
        numbers: dict[tuple[Path, int], int] = {}
        return np.array(
            [
                numbers.setdefault((node.path[:-1], 0 if node.path[:-1] in mixed else node.wave + 1), len(numbers))
                for node in nodes
            ],
            np.intp,
        )

    def _excuse_younger(self, depth: _Depth, tick: Tick, nodes: Sequence[_Node], ts: float, limit: float) -> Tick:
        """Who began much later than the others holds less: that is no trouble."""
        if not nodes:
            return tick
        ages = ts - np.array([node.begin_ts for node in nodes])
        younger = ages < YOUNGER * float(np.median(ages))
        if not younger.any():
            return tick
        stocks = np.array([nature(feature) == "stock" for feature in self._features] + [True])
        excused = stocks[depth.bank.metric_of]
        evidence = tick.evidence.copy()
        evidence[1][np.ix_(excused, younger)] = np.nan
        bank = depth.bank
        evidence[0][bank.levels + bank.changes :, younger] = np.nan
        # Who has just begun changes for that reason.
        begun = younger & (bank.ticks(tick.slots) < self.windows[-1])
        evidence[:, bank.levels : bank.levels + bank.changes, begun] = np.nan
        alone = depth.bank.alone(evidence, limit)
        return replace(tick, evidence=evidence, alone=alone, scores=depth.bank.lasting(alone, tick.slots))

    def _learn(self, depth: _Depth, look: _Look, ts: float) -> None:
        bank = depth.bank
        self._take_kinds(depth, look)
        bank.take(look.tick, look.values[look.known])
        here = set(look.paths)
        changed = False
        for place in look.known:
            node = depth.nodes[look.paths[place]]
            if not node.alive:
                node.alive = changed = True
                self._away.pop(node.path, None)
            node.until_ts = ts
        for at, standing in look.standings.items():
            depth.nodes[look.paths[look.known[at]]].standing = standing
        for node in depth.nodes.values():
            if node.alive and node.path not in here:
                node.alive, changed = False, True
                if node.leaf and self._steady >= max(SETTLED, min(self._ticks // 2, LONGEST_STEADY)):
                    self._away[node.path] = self._ticks
        new = [at for at in range(len(look.paths)) if look.paths[at] not in depth.nodes]
        if new:
            changed = True
            self._away = {path: at for path, at in self._away.items() if at < self._ticks - LONGEST_LEFT}
            self._claim(depth, look, new, ts)
        if look.leaves.any():
            self._steady = 0 if changed else self._steady + 1
        self._forget(depth, ts)
        self._keep_courses(depth, look, ts)

    def _learn_nobody(self, depth: _Depth, ts: float) -> None:
        """Nobody of a depth is there."""
        nobody = np.zeros(0, np.intp)
        values = np.zeros((0, len(self._features)))
        tick = depth.bank.look(ts, nobody, values, nobody, 1.0)
        nothing = np.zeros(0, np.bool_)
        self._learn(depth, _Look((), (), nothing, values, nobody, tick, 1.0, {}, tick.scores), ts)

    def _claim(self, depth: _Depth, look: _Look, new: Sequence[int], ts: float) -> None:
        room = self.limit - len(depth.nodes)
        if room < len(new):
            ended = sorted((node for node in depth.nodes.values() if not node.alive), key=lambda node: node.until_ts)
            self._release(depth, ended[: len(new) - room])
            room = self.limit - len(depth.nodes)
        self.refused += max(len(new) - room, 0)
        new = new[:room]
        for at, slot in zip(new, depth.bank.claim(len(new)).tolist(), strict=True):
            path = look.paths[at]
            wave = depth.waves.get(path[:-1])
            if wave is None or self._ticks - wave.tick > WAVE:
                wave = depth.waves[path[:-1]] = _Wave(0 if wave is None else wave.number + 1, self._ticks)
            depth.nodes[path] = _Node(path, look.names[at], slot, ts, wave.number, bool(look.leaves[at]), ts)

    def _forget(self, depth: _Depth, ts: float) -> None:
        """Forget who hardly was there, or ended long ago."""
        ended = [node for node in depth.nodes.values() if not node.alive]
        if not ended:
            return
        ticks = depth.bank.ticks(np.array([node.slot for node in ended], np.intp))
        self._release(
            depth,
            [
                node
                for node, count in zip(ended, ticks, strict=True)
                if count < SETTLED or ts - node.until_ts > FORGOTTEN_S
            ],
        )

    def _release(self, depth: _Depth, nodes: Sequence[_Node]) -> None:
        if not nodes:
            return
        depth.bank.release(np.array([node.slot for node in nodes], np.intp))
        for node in nodes:
            del depth.nodes[node.path]
            self._away.pop(node.path, None)
        parents = {path[:-1] for path in depth.nodes}
        depth.waves = {parent: wave for parent, wave in depth.waves.items() if parent in parents}

    def _keep_courses(self, depth: _Depth, look: _Look, ts: float) -> None:
        """Keep the course of groups, by their age."""
        inner = np.flatnonzero(~look.leaves)
        for at in inner:
            self._courses.add(ts, "/".join(look.paths[at]), look.values[at])
        waves: dict[tuple[Path, int], list[int]] = {}
        for place in look.known[look.leaves[look.known]]:
            node = depth.nodes.get(look.paths[place])
            if node is not None and depth.waves[node.path[:-1]].number > 0:
                waves.setdefault((node.path[:-1], node.wave), []).append(int(place))
        for (parent, wave), places in waves.items():
            if len(places) >= FEWEST:
                values = look.values[places]
                known = np.isfinite(values)
                count = known.sum(axis=0)
                means = np.where(known, values, 0.0).sum(axis=0) / np.where(count, count, np.nan)
                self._courses.add(ts, _wave_name(parent, wave), means)

    # Who deviates.

    def _deviations_now(self, depth: _Depth, look: _Look) -> list[Deviation]:
        found = []
        for at in np.flatnonzero(look.scores > 1.0).tolist():
            node = depth.nodes[look.paths[look.known[at]]]
            features, kind = self._kind_now(depth, look, at)
            if not _says_more(node.kind, kind):
                kind = node.kind or kind
            begin = float(depth.bank.begun(look.tick.slots[at : at + 1])[0])
            column = int(np.nan_to_num(look.tick.evidence[:, :, at]).max(axis=0).argmax())
            score = float(look.scores[at])
            found.append(
                Deviation(
                    (node.row,),
                    node.name,
                    kind,
                    min(score, 1.0) if kind == "younger" else score,
                    features,
                    begin if math.isfinite(begin) else look.tick.ts,
                    math.nan,
                    int(depth.bank.window_of[column]),
                    math.nan,
                    math.nan,
                    "/".join(node.path[:-1]),
                    look.tick.ts - node.begin_ts,
                )
            )
        return found

    def _kind_now(self, depth: _Depth, look: _Look, at: int) -> tuple[tuple[FeatureScore, ...], Kind]:
        """What sets a member apart at a tick, and how it deviates by that tick alone."""
        node = depth.nodes[look.paths[look.known[at]]]
        features, signs = self._features_now(depth.bank, look.tick, at, look.limit)
        begin = float(depth.bank.begun(look.tick.slots[at : at + 1])[0])
        kind = kind_of(
            signs,
            duration_s=look.tick.ts - begin if math.isfinite(begin) else 0.0,
            interval_s=self._interval_s,
            age_share=(look.tick.ts - node.begin_ts) / max(self._ages(depth, look.tick.ts), 1e-9),
        )
        return features, kind

    def _take_kinds(self, depth: _Depth, look: _Look) -> None:
        """Let members keep how they deviate."""
        for at, score in enumerate(look.tick.scores.tolist()):
            node = depth.nodes[look.paths[look.known[at]]]
            if score > 1.0 or node.kind:
                node.take_kind(self._kind_now(depth, look, at)[1] if score > 1.0 else "")

    @staticmethod
    def _ages(depth: _Depth, ts: float) -> float:
        alive = [ts - node.begin_ts for node in depth.nodes.values() if node.alive]
        return float(np.median(alive)) if alive else 0.0

    def _features_now(
        self, bank: Bank, tick: Tick, at: int, limit: float
    ) -> tuple[tuple[FeatureScore, ...], list[Sign]]:
        evidence = np.nan_to_num(tick.evidence[:, :, at]) / limit
        p, q = bank.metrics, bank.traces
        best = np.zeros(p + 1)
        np.maximum.at(best, bank.metric_of, evidence.max(axis=0))
        told: list[tuple[FeatureScore, Sign]] = []
        shape: list[Sign] = []
        for metric in np.argsort(-best, kind="stable"):
            if best[metric] < (TOLD * max(float(best.max()), 1.0) if told else LEAST_TOLD):
                break
            if metric == p:
                shape.append(Sign("", True, float(best[p]), math.nan, math.nan, False, True))
                continue
            columns = np.flatnonzero(bank.metric_of == metric)
            column = int(columns[evidence[:, columns].max(axis=0).argmax()])
            above = bool(evidence[0, column] >= evidence[1, column])
            window = (column - bank.levels) // q if column >= bank.levels else column // q
            means = tick.sums[:, metric, at] / np.maximum(tick.weights[:, metric, at], 1e-300)
            usual = tick.references[window, metric, at] / max(float(tick.weights[window, metric, at]), 1e-300)
            value = float(usual + means[window])
            spread = float(tick.spreads[column - column % q + int(metric), at])
            feature = self._features[metric]
            score = FeatureScore(feature, value, float(usual), spread, float(best[metric]))
            rising = _is_rising(means if above else -means)
            told.append((score, Sign(feature, above, float(best[metric]), value, float(usual), rising, True)))
        return _telling(told, shape)

    def _candidates(self, depth: _Depth, look: _Look) -> list[Candidate]:
        """The worst members of a tick."""
        scores = look.scores
        found = []
        for at in np.argsort(-scores, kind="stable")[:MOST_LEAVES].tolist():
            if scores[at] <= 0.0:
                break
            node = depth.nodes[look.paths[look.known[at]]]
            features = partial(self._features_at, depth.bank, look, at)
            found.append(Candidate(node.row, node.name, float(scores[at]), look.tick.ts - node.begin_ts, features))
        return found

    def _features_at(self, bank: Bank, look: _Look, at: int) -> tuple[FeatureScore, ...]:
        return self._features_now(bank, look.tick, at, look.limit)[0]

    def _left(self) -> list[Deviation]:
        """Who left a pool of fixed size."""
        found = []
        for path, tick in self._away.items():
            depth = self._depths[len(path) - 1]
            node = depth.nodes.get(path)
            if node is None:
                continue
            life = float(depth.bank.ticks(np.array([node.slot], np.intp))[0])
            away = self._ticks - tick
            siblings = [each for each in depth.nodes.values() if each.path[:-1] == path[:-1] and each.path != path]
            stayed = [each for each in siblings if each.alive]
            together = [each for each in siblings if each.until_ts >= node.until_ts]
            if (
                away >= max(LEFT_TICKS, min(LEFT_SHARE * life, LONGEST_LEFT))
                and len(stayed) >= FEWEST
                and len(stayed) >= 0.75 * len(together)
            ):
                found.append(
                    Deviation(
                        (node.row,),
                        node.name,
                        "left",
                        LEFT_SCORE,
                        (),
                        node.until_ts,
                        math.nan,
                        LIFE,
                        math.nan,
                        math.nan,
                        "/".join(path[:-1]),
                        node.until_ts - node.begin_ts,
                    )
                )
        return found

    # The whole.

    def report(self, *, replicates: int | None = None) -> Report:
        """The pool as a whole: all who deviated in their lives, those that ended included; changes nothing.

        `replicates`: bootstrap samples for each scale, by default the constructor's; 0 for no p-values.
        """
        count = self.replicates if replicates is None else replicates
        if self.method == "published":
            levels, ranking = self._published(count)
        else:
            levels, ranking = self._adaptive(count)
        age_s = self._ts - self._first_ts if self._ticks else 0.0
        return Report(self._ts, self._members, levels, ranking, age_s, self._ticks < YOUNG_TICKS)

    def _levels(self) -> dict[str, list[_Node]]:
        """Nodes by the level inside which they are compared: siblings; and where there are waves, those of a wave."""
        levels: dict[str, list[_Node]] = {}
        for depth in self._depths:
            for node in depth.nodes.values():
                levels.setdefault(self._level_of(node), []).append(node)
        return levels

    def _level_of(self, node: _Node) -> str:
        name = _wave_name(node.path[:-1], node.wave)
        return name if node.leaf and name in self._courses else "/".join(node.path[:-1])

    def _adaptive(self, replicates: int) -> tuple[tuple[Level, ...], tuple[Deviation, ...]]:
        inside: dict[str, list[Deviation]] = {}
        for depth in self._depths:
            for each in self._deviations_of_life(depth):
                node = depth.nodes[path_of(each.rows[0], "")]
                inside.setdefault(self._level_of(node), []).append(each)
        for each in self._left():
            path = path_of(each.rows[0], "")
            level = self._level_of(self._depths[len(path) - 1].nodes[path])
            told = [other for other in inside.get(level, []) if other.rows != each.rows]
            inside[level] = [*told, each]
        groups = self._groups_by_age()
        members = self._levels()
        for parent, names in groups.items():
            self._rank_groups(parent, names, inside)
        for level, found in list(inside.items()):
            inside[level] = sorted(found, key=lambda each: (-len(inside.get(each.rows[0], ())), -each.score))
        shown: list[Level] = []
        for level in sorted(set(members) | set(groups), key=lambda level: (level.count("/") + bool(level), level)):
            told = inside.get(level, [])
            if level and not told:
                continue
            if len(shown) >= MOST_LEVELS:
                break
            dendrogram = self._dendrogram(members.get(level, []), groups.get(level, ()), told, replicates)
            inside[level] = [_with_height(each, dendrogram) for each in told]
            shown.append(Level(level, dendrogram, tuple(inside[level])))
        return tuple(shown), tuple(self._flat(inside))

    @staticmethod
    def _flat(inside: Mapping[str, Sequence[Deviation]]) -> list[Deviation]:
        """All deviations, those of a group before those of its members; then those of groups that do not deviate."""
        found: list[Deviation] = []
        done: set[str] = set()

        def add(level: str) -> None:
            if level in done:
                return
            done.add(level)
            for each in inside.get(level, ()):
                found.append(each)
                add(each.rows[0])

        add("")
        rest = sorted(
            (each for each in inside if each not in done),
            key=lambda each: -inside[each][0].score if inside[each] else 0.0,
        )
        for each in rest:
            add(each)
        return found

    def _deviations_of_life(self, depth: _Depth) -> list[Deviation]:
        nodes = list(depth.nodes.values())
        if len(nodes) < FEWEST:
            return []
        bank = depth.bank
        slots = np.array([node.slot for node in nodes], np.intp)
        compared = max(int(np.median([sum(each.alive for each in nodes), len(nodes)])), 2)
        # Of a load test each doubtful finding is wanted; over days they are what chance makes.
        lasting = self._ts - self._first_ts > DAY_S
        peaks = bank.peaks(slots) / self._limit(bank, compared, raised=lasting)
        scores = peaks.max(axis=0)
        begins, untils, lasts = bank.runs(slots)
        found = []
        for at in np.flatnonzero(scores > 1.0):
            node = nodes[at]
            lasting = bool(lasts[at] > TOLD)
            worst = bank.worst(slots[at : at + 1])[..., 0]
            features, signs, window, worst_ts = self._features_of_life(
                bank, slots[at], peaks[:, at], worst, lasting=lasting
            )
            begin = float(begins[at]) if math.isfinite(begins[at]) else worst_ts
            until = float(untils[at]) if math.isfinite(untils[at]) else worst_ts
            siblings = [each for each in nodes if each.path[:-1] == node.path[:-1]]
            ages = float(np.median([each.until_ts - each.begin_ts for each in siblings]))
            kind = kind_of(
                signs,
                duration_s=until - begin,
                interval_s=self._usual_interval_s,
                age_share=(node.until_ts - node.begin_ts) / max(ages, 1e-9),
            )
            found.append(
                Deviation(
                    (node.row,),
                    node.name,
                    kind,
                    min(float(scores[at]), 1.0) if kind == "younger" else float(scores[at]),
                    features,
                    begin,
                    math.nan if lasting and node.alive else until,
                    window,
                    math.nan,
                    math.nan,
                    self._level_of(node),
                    node.until_ts - node.begin_ts,
                )
            )
        return found

    def _features_of_life(
        self, bank: Bank, slot: np.intp, peaks: Floats, worst: Floats, *, lasting: bool
    ) -> tuple[tuple[FeatureScore, ...], list[Sign], int, float]:
        p = bank.metrics
        differences = bank.differences(np.array([slot]))
        told: list[tuple[FeatureScore, Sign]] = []
        shape: list[Sign] = []
        order = np.argsort(-peaks, kind="stable")
        for metric in order:
            if peaks[metric] < (TOLD * max(float(peaks.max()), 1.0) if told else LEAST_TOLD):
                break
            _, _, direction, value, usual, spread, _ = worst[:, metric]
            above = direction == 0.0
            if metric == p:
                shape.append(Sign("", True, float(peaks[p]), math.nan, math.nan, False, lasting))
                continue
            means = differences[:, metric, 0] * (1.0 if above else -1.0)
            still = bool(means[0] > 0.5 * abs(value - usual))
            feature, score = self._features[metric], float(peaks[metric])
            told.append(
                (
                    FeatureScore(feature, float(value), float(usual), float(spread), score),
                    Sign(feature, above, score, float(value), float(usual), _is_rising(means), still),
                )
            )
        at = int(order[0])
        features, signs = _telling(told, shape)
        return features, signs, int(bank.window_of[int(worst[1, at])]), float(worst[6, at])

    # Groups of different times.

    def _groups_by_age(self) -> dict[str, tuple[str, ...]]:
        """Groups by their parent, where there are at least three with a course."""
        found: dict[str, list[str]] = {}
        for depth in self._depths:
            for node in depth.nodes.values():
                if node.leaf:
                    name = _wave_name(node.path[:-1], node.wave)
                    names = found.setdefault("/".join(node.path[:-1]), [])
                    if name in self._courses and name not in names:
                        names.append(name)
                elif node.row in self._courses:
                    found.setdefault("/".join(node.path[:-1]), []).append(node.row)
        return {parent: tuple(names) for parent, names in found.items() if len(names) >= FEWEST}

    def _rank_groups(self, parent: str, names: Sequence[str], inside: dict[str, list[Deviation]]) -> None:
        """Rank groups by how their courses differ at the same age, and by the members that deviate inside."""
        told = {each.rows[0]: each for each in inside.get(parent, [])}
        begins = np.array([self._courses.begin_ts(name) for name in names])
        untils = np.array([self._courses.until_ts(name) for name in names])
        together = float(np.ptp(begins)) <= 0.1 * float(np.median(untils - begins))
        if not together:
            for each in self._compare_courses(parent, names):
                if each.rows[0] not in told or told[each.rows[0]].score < each.score:
                    told[each.rows[0]] = each
        for name, begin, until in zip(names, begins, untils, strict=True):
            members = [each for each in inside.get(name, []) if each.score > 1.0]
            if len(members) < 2:
                continue
            worst = max(members, key=lambda each: each.score)
            if name not in told:
                told[name] = replace(worst, rows=(name,), name=name, level=parent, age_s=float(until - begin))
            elif told[name].score < worst.score:
                told[name] = replace(told[name], score=worst.score)
        if told:
            inside[parent] = list(told.values())

    def _compare_courses(self, parent: str, names: Sequence[str]) -> list[Deviation]:
        courses = [self._courses.means(name) for name in names]
        bank = Bank(
            self._resolution(), ALIGNED_WINDOWS, limit=len(names), block=ALIGNED_BLOCK, settled=ALIGNED_WINDOWS[0]
        )
        slots = bank.claim(len(names))
        interval_s = self._courses.width * self._usual_interval_s
        limit = bank.evidence_limit(len(names), interval_s, self.false_alarms_per_day)
        for at in range(max(map(len, courses))):
            here = np.array([place for place, course in enumerate(courses) if len(course) > at], np.intp)
            if len(here) < FEWEST:
                break
            values = np.stack([courses[place][at] for place in here])
            tick = bank.look(float(at), slots[here], values, np.zeros(len(here), np.intp), limit)
            bank.take(tick, values)
        peaks = bank.peaks(slots) / limit
        found = []
        for at in np.flatnonzero(peaks.max(axis=0) > 1.0).tolist():
            name = names[at]
            begin = self._courses.begin_ts(name)
            worst = bank.worst(slots[at : at + 1])[..., 0]
            features, signs, window, worst_at = self._features_of_life(
                bank, slots[at], peaks[:, at], worst, lasting=True
            )
            begins, untils, _ = bank.runs(slots[at : at + 1])
            since = float(begins[0]) if math.isfinite(begins[0]) else worst_at
            until = float(untils[0]) if math.isfinite(untils[0]) else worst_at
            kind = kind_of(signs, duration_s=(until - since) * interval_s, interval_s=interval_s, age_share=1.0)
            found.append(
                Deviation(
                    (name,),
                    name,
                    kind,
                    float(peaks[:, at].max()),
                    features,
                    begin + since * interval_s,
                    begin + until * interval_s,
                    window * self._courses.width,
                    math.nan,
                    math.nan,
                    parent,
                    self._courses.until_ts(name) - begin,
                )
            )
        return found

    # Dendrograms.

    def _dendrogram(
        self,
        nodes: Sequence[_Node],
        groups: Sequence[str],
        told: Sequence[Deviation],
        replicates: int,
        most: int = MOST_LEAVES,
    ) -> Dendrogram | None:
        if groups and not any("/".join(node.path) in groups for node in nodes):
            return self._of_courses(groups, replicates)
        by_row = {node.row: node for node in nodes}
        first = [each.rows[0] for each in told if each.rows[0] in by_row]
        others = [row for row in by_row if row not in first]
        chosen = [*first, *others][:most]
        chosen = [row for row in by_row if row in set(chosen)]
        picked = [by_row[row] for row in chosen]
        if len(picked) < 2:
            return None
        depth = self._depths[len(picked[0].path) - 1]
        slots = np.array([node.slot for node in picked], np.intp)
        covariances = depth.bank.windows.covariances(LIFE)[slots]
        sound = np.asarray(np.isfinite(covariances).all(axis=(1, 2)))
        picked = [node for node, is_sound in zip(picked, sound, strict=True) if is_sound]
        if len(picked) < 2:
            return None
        slots, covariances = slots[sound], covariances[sound]
        data = pairwise(covariances, noise=np.diag(depth.bank.resolution**2))
        if self.method == "adaptive":
            peaks = depth.bank.peaks(slots)
            data = np.vstack([_scaled(data), _scaled(peaks)])
        return _clustered(tuple(node.row for node in picked), data, replicates)

    def _of_courses(self, groups: Sequence[str], replicates: int) -> Dendrogram | None:
        names, covariances = [], []
        for name in groups:
            course = self._courses.means(name)
            course = course[np.isfinite(course).all(axis=1)]
            if len(course) >= 3:
                names.append(name)
                covariances.append(np.atleast_2d(np.cov(course.T)))
        if len(names) < 2:
            return None
        data = pairwise(np.stack(covariances), noise=np.diag(self._resolution() ** 2))
        return _clustered(tuple(names), _scaled(data), replicates)

    def _published(self, replicates: int) -> tuple[tuple[Level, ...], tuple[Deviation, ...]]:
        """Section IV on the members' whole lives."""
        levels = self._levels()
        groups = self._groups_by_age()
        trees = {
            level: self._dendrogram(levels.get(level, []), groups.get(level, ()), (), replicates, self.limit)
            for level in sorted(set(levels) | set(groups))
        }
        highest = max((float(tree.merges[-1, 2]) for tree in trees.values() if tree is not None), default=0.0)
        shown, ranking = [], []
        for level, tree in trees.items():
            told = []
            if tree is not None and highest > 0.0:
                for cluster in rank(tree.merges, tree.p_values, max_height=highest):
                    height = float(tree.merges[cluster.merge, 2]) if cluster.merge >= 0 else math.nan
                    p_value = float(tree.p_values[cluster.merge]) if cluster.merge >= 0 else math.nan
                    rows = tuple(tree.labels[leaf] for leaf in cluster.leaves)
                    told.append(
                        Deviation(
                            rows,
                            ", ".join(rows),
                            "different",
                            max(height / (highest / 3.0), 1.0) if math.isfinite(height) else 1.0,
                            (),
                            math.nan,
                            math.nan,
                            LIFE,
                            height,
                            p_value,
                            level,
                            math.nan,
                        )
                    )
            if told or not level:
                shown.append(Level(level, tree, tuple(told)))
            ranking += told
        return tuple(shown[:MOST_LEVELS]), tuple(ranking)

    # State.

    def snapshot(self) -> dict[str, Any]:
        """A copy of the state as plain data."""
        return {
            "features": list(self._features),
            "first_ts": self._first_ts,
            "ts": self._ts,
            "interval_s": self._interval_s,
            "ticks": self._ticks,
            "members": self._members,
            "calibration": self._calibration.snapshot(),
            "steady": self._steady,
            "away": [[list(path), at] for path, at in self._away.items()],
            "courses": self._courses.snapshot(),
            "depths": [
                {
                    "bank": depth.bank.snapshot(),
                    "nodes": [
                        [
                            list(node.path),
                            node.name,
                            node.slot,
                            node.begin_ts,
                            node.wave,
                            node.leaf,
                            node.until_ts,
                            node.alive,
                            node.kind,
                            node.next_kind,
                            node.ticks,
                            None if node.standing is None else node.standing.snapshot(),
                        ]
                        for node in depth.nodes.values()
                    ],
                    "waves": [[list(parent), wave.number, wave.tick] for parent, wave in depth.waves.items()],
                }
                for depth in self._depths
            ],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a state that `snapshot` gave. Raises `ValueError` naming what does not fit."""
        self._features = tuple(state["features"])
        self._first_ts, self._ts = float(state["first_ts"]), float(state["ts"])
        self._interval_s = float(state["interval_s"])
        self._ticks, self._members = int(state["ticks"]), int(state["members"])
        self._calibration.restore(state["calibration"])
        self._steady = int(state["steady"])
        self._away = {tuple(path): int(at) for path, at in state["away"]}
        self._courses = Courses(len(self._features))
        self._courses.restore(state["courses"])
        self._depths = []
        for part in state["depths"]:
            depth = _Depth(self._bank())
            depth.bank.restore(part["bank"])
            for path, name, slot, begin_ts, wave, leaf, until_ts, alive, kind, next_kind, ticks, *standing in part[
                "nodes"
            ]:
                node = _Node(tuple(path), name, int(slot), float(begin_ts), int(wave), bool(leaf), float(until_ts))
                node.alive, node.kind, node.next_kind, node.ticks = bool(alive), kind, next_kind, int(ticks)
                if standing and standing[0] is not None:  # an older laggard has none
                    node.standing = restored_standing(standing[0])
                depth.nodes[node.path] = node
            depth.waves = {tuple(parent): _Wave(int(number), int(tick)) for parent, number, tick in part["waves"]}
            self._depths.append(depth)
        self._layout, self._looked = None, None


def _present(scores: Floats, standings: Mapping[int, Standing | None]) -> Floats:
    """The scores of members, at most 1 of what has ended and more of what lasts."""
    present = scores.copy()
    for at, standing in standings.items():
        lasts = standing is not None and standing.lasts
        present[at] = max(present[at], HELD_SCORE) if lasts else min(present[at], 1.0)
    return present


def _wave_name(parent: Path, wave: int) -> str:
    return "/".join((*parent, f"wave {wave + 1}"))


def _telling(
    told: Sequence[tuple[FeatureScore, Sign]], shape: Sequence[Sign]
) -> tuple[tuple[FeatureScore, ...], list[Sign]]:
    """What to tell of metrics that are out, worst first, and of the covariance.

    Where a metric is out of what the others make expected, they may be what has moved: those that are themselves where
    they are said to be come first, and only they are told.
    """
    shown = [
        (score, sign)
        for score, sign in told
        if (score.value > score.mean) == sign.above
        and abs(score.value - score.mean) >= SHOWN * score.standard_deviation
    ]
    kept = shown or list(told[:1])
    return tuple(score for score, _ in kept), sorted(
        [*(sign for _, sign in kept), *shape], key=lambda sign: -sign.evidence
    )


def _is_rising(means: Floats) -> bool:
    """Whether a difference is larger now than over the whole life; `means` by window, those out positive."""
    known = means[np.isfinite(means)]
    return len(known) > 1 and bool(known[0] > RISEN * known[-1])


def _scaled(data: Floats) -> Floats:
    """Data so that the median of what is not zero is 1."""
    size = np.abs(data[data != 0.0])
    return data / float(np.median(size)) if len(size) else data


def _clustered(labels: tuple[str, ...], data: Floats, replicates: int) -> Dendrogram:
    merges = ward(data)
    asked = replicates > 0 and len(labels) <= MOST_LEAVES  # of hundreds they take minutes
    p_values = au_p_values(data, merges, replicates=replicates) if asked else np.full(len(merges), np.nan)
    return Dendrogram(labels, merges, p_values)


def _with_height(each: Deviation, dendrogram: Dendrogram | None) -> Deviation:
    """The same with the merge that takes its member into a larger cluster."""
    if dendrogram is None or each.rows[0] not in dendrogram.labels:
        return each
    leaf = dendrogram.labels.index(each.rows[0])
    merge = int(np.flatnonzero((dendrogram.merges[:, :2] == leaf).any(axis=1))[0])
    return replace(each, height=float(dendrogram.merges[merge, 2]), p_value=float(dendrogram.p_values[merge]))
