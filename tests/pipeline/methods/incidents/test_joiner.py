"""Joining: what is one trouble and what is not, over time, rows and operators; and what is promised of any input."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from itertools import pairwise, permutations
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laggard.operators.ranking import FeatureScore, Ranking, RowScore
from laggard.pipeline.alarms.courses import GOES_ON_S, JOINED_S
from laggard.pipeline.core.eventtime import SILENT_S
from laggard.pipeline.core.records.outputs import (
    Anomaly,
    Blame,
    Incident,
    Progress,
    anomaly_id,
    incident_id,
    read_output,
    write_output,
)
from laggard.pipeline.methods.incidents.joiner import Joiner
from laggard.pipeline.methods.incidents.opened import MOST_EVIDENCE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

T0 = 1.7e9
RESOURCES = {"cpu_user_ratio": ("cpu",), "io_write_bytes_per_s": ("disk",), "memory_rss_bytes": ("disk", "memory")}


def blame(name: str, feature: str = "cpu_user_ratio") -> Blame:
    return Blame(f"{name}[1@1]", name, feature, 9.0, 1.0, 0.5, RESOURCES.get(feature, ()))


HOST = Blame("web-1", "web-1", "pressure_io_some_ratio", 0.9, 0.1, 0.1, ("disk",))


def anomaly(
    at: float,
    blamed: Blame | None,
    operator: str = "gaussian",
    score: float = 2.0,
    *,
    live: bool = True,
    which: str = "",
) -> Anomaly:
    """An anomaly of a moment, in seconds from the beginning; a host's where it is the host that is blamed."""
    rows = () if blamed is None else (RowScore(blamed.row, blamed.name, score, (_feature(blamed),), 60.0),)
    return Anomaly(
        id=anomaly_id(operator, "web-1", which or f"{at} {blamed and blamed.name}"),
        operator=operator,
        parameters={},
        keyed_by="host",
        key="web-1",
        ts=T0 + at,
        score=score,
        ranking=Ranking(T0 + at, score, rows, 3600.0, young=False),
        sentence=f"{blamed.name if blamed else 'nobody'} is behaving unusually.",
        model_age_s=3600.0,
        young=False,
        live=live,
        scope="host" if blamed is HOST else "process",
        blame=blamed,
    )


def _feature(blamed: Blame) -> FeatureScore:
    return FeatureScore(blamed.feature, blamed.value, blamed.usual, blamed.usual_deviation, 20.0)


def ended(one: Anomaly, until: float, at: float | None = None) -> Progress:
    """The end of an anomaly whose score was last above 1 at `until`."""
    now = T0 + (until + JOINED_S if at is None else at)
    return _progress(one, now, "ended", T0 + until, ranking=Ranking(now, one.score, (), 3600.0, young=False))


def extended(one: Anomaly, at: float, **changed: Any) -> Progress:
    return _progress(one, T0 + at, "extended", T0 + at, **changed)


def _progress(one: Anomaly, ts: float, change: Any, until_ts: float, **changed: Any) -> Progress:
    same = {each.name: getattr(one, each.name) for each in fields(one)} | {"ts": ts} | changed
    return Progress(**same, change=change, number=1, opened_ts=one.ts, until_ts=until_ts)


def joined(*found: Anomaly | Progress) -> list[Incident]:
    """What is told, as others read it."""
    joiner = Joiner()
    told = [each for one in found for each in joiner.take(one)]
    return [again for each in told if isinstance(again := read_output(write_output(each), "here"), Incident)]


def changes(told: Iterable[Incident]) -> list[str]:
    return [each.change for each in told]


# One anomaly.


def test_an_incident_opens_with_its_first_anomaly_and_closes_with_its_last() -> None:
    one = anomaly(0, blame("hog"))
    opened, closed = joined(one, ended(one, 60))
    assert (opened.id, opened.number, opened.change, opened.ts, opened.opened_ts) == (
        incident_id(one.id), 1, "opened", T0, T0,
    )  # fmt: skip
    assert math.isnan(opened.until_ts)
    assert (opened.operator, opened.score, opened.blame, opened.live) == ("gaussian", 2.0, one.blame, True)
    assert opened.ranking.rows == one.ranking.rows
    (seen,) = opened.evidence
    assert (seen.anomaly, seen.operator, seen.scope, seen.opened_ts) == (one.id, "gaussian", "process", T0)
    assert (closed.id, closed.number, closed.change) == (opened.id, 2, "closed")
    assert (closed.ts, closed.until_ts, closed.evidence[0].until_ts) == (T0 + 60 + JOINED_S, T0 + 60, T0 + 60)
    assert closed.ranking.rows == one.ranking.rows


def test_what_got_worse_is_told_with_what_it_is_like_now() -> None:
    one = anomaly(0, blame("hog"))
    worse = extended(one, 90, score=8.0, blame=blame("other"), sentence="other is worse.")
    _, told = joined(one, worse)
    assert (told.change, told.ts, told.score, told.blame) == ("extended", T0 + 90, 8.0, blame("other"))
    assert (told.opened_ts, told.evidence[0].sentence, told.evidence[0].opened_ts) == (T0, "other is worse.", T0)


def test_what_comes_again_before_it_has_ended_is_the_same_trouble() -> None:
    one, again = anomaly(0, blame("hog")), anomaly(200, blame("hog"))
    told = joined(one, again, ended(one, 60), ended(again, 250))
    assert changes(told) == ["opened", "extended", "closed"]
    assert len({each.id for each in told}) == 1
    assert told[-1].until_ts == T0 + 250
    assert [each.until_ts for each in told[-1].evidence] == [T0 + 60, T0 + 250]


def test_what_comes_again_after_it_has_ended_is_another_one() -> None:
    one, again = anomaly(0, blame("hog")), anomaly(500, blame("hog"))
    told = joined(one, ended(one, 60), again, ended(again, 560))
    assert changes(told) == ["opened", "closed", "opened", "closed"]
    assert len({each.id for each in told}) == 2


# Several.


@pytest.mark.parametrize(
    ("first", "second", "together"),
    [
        (blame("hog"), blame("hog"), True),
        (blame("hog"), blame("hog", "memory_rss_bytes"), True),
        (blame("hog"), blame("other"), True),
        (blame("writer", "io_write_bytes_per_s"), blame("leak", "memory_rss_bytes"), True),
        (blame("hog"), blame("leak", "memory_rss_bytes"), False),
        (blame("hog"), blame("leak", "descriptors"), False),
        (blame("leak", "descriptors"), blame("leaks", "descriptors"), True),
        (blame("hog"), replace(blame("other", ""), resources=()), True),
        (blame("hog"), None, True),
        (None, blame("hog"), True),
        (blame("hog"), HOST, True),
        (HOST, blame("hog"), True),
        (HOST, None, True),
    ],
    ids=lambda value: value if isinstance(value, bool) else f"{value.name} {value.feature}" if value else "nobody",
)
@pytest.mark.parametrize("operator", ["gaussian", "cpu"])
def test_what_is_one_trouble(first: Blame | None, second: Blame | None, operator: str, together: bool) -> None:
    one, two = anomaly(0, first), anomaly(10, second, operator, which="second")
    told = joined(one, two)
    assert changes(told) == (["opened", "extended"] if together else ["opened", "opened"])
    if together:
        assert {each.anomaly for each in told[-1].evidence} == {one.id, two.id}
        assert [each.operator for each in told[-1].evidence] == ["gaussian", operator]


def test_the_host_belongs_to_what_takes_what_it_lacks() -> None:
    hog, writer = anomaly(0, blame("hog")), anomaly(1, blame("writer", "io_write_bytes_per_s"))
    told = joined(hog, writer, anomaly(2, HOST))
    assert changes(told) == ["opened", "opened", "extended"]
    assert told[-1].id == told[1].id
    assert told[-1].blame == writer.blame, "the host is no culprit"


def test_what_has_ended_lends_its_name_but_no_more_its_resource() -> None:
    hog, host = anomaly(0, blame("hog")), anomaly(1, HOST)
    begun = (hog, host, ended(hog, 10), anomaly(400, blame("leak", "descriptors")))
    for again, together in ((blame("hog"), True), (blame("other"), False)):
        told = joined(*begun, anomaly(410, again))
        assert (told[-1].id == told[0].id) == together


def test_two_that_prove_to_be_one_become_one() -> None:
    hog, leak = anomaly(0, blame("hog"), score=3.0), anomaly(10, blame("leak", "descriptors"), score=2.0)
    both = anomaly(20, blame("hog", "descriptors"), "cpu", which="both")
    told = joined(hog, leak, both, ended(hog, 30), ended(leak, 40), ended(both, 50))
    assert changes(told) == ["opened", "opened", "closed", "extended", "closed"]
    first, second, merged, left, closed = told
    assert (merged.id, merged.merged_into, merged.ts) == (second.id, first.id, T0 + 20)
    assert {left.id, closed.id} == {first.id}
    assert [each.anomaly for each in left.evidence] == [hog.id, leak.id, both.id]
    assert (left.score, left.merged_into) == (3.0, "")


def test_progress_makes_two_one() -> None:
    hog, leak = anomaly(0, blame("hog")), anomaly(10, blame("leak", "descriptors"))
    told = joined(hog, leak, extended(leak, 80, blame=blame("leak")))
    assert changes(told) == ["opened", "opened", "closed", "extended"]
    assert (told[2].id, told[2].merged_into) == (told[1].id, told[0].id)


def test_the_evidence_is_bounded() -> None:
    every = [anomaly(number, blame("hog"), f"o{number}", 2.0 + number) for number in range(MOST_EVIDENCE + 5)]
    told = joined(*every, *(ended(each, 30) for each in every[:10]), extended(every[-1], 400, score=90.0))
    assert len(told[len(every) - 1].evidence) == len(every), "all of them go on"
    assert (len(told[-1].evidence), told[-1].left_out) == (MOST_EVIDENCE, 5)
    assert {each.operator for each in told[-1].evidence}.isdisjoint(f"o{number}" for number in range(5))
    assert changes(joined(*every, *(ended(each, 30) for each in every)))[-1] == "closed"


# What is out of order, said twice or never.


def test_repeated_records_and_ends_of_unknown_anomalies_change_nothing() -> None:
    one = anomaly(0, blame("hog"))
    assert changes(joined(one, one, ended(one, 60), ended(one, 60))) == ["opened", "closed"]
    assert joined(ended(one, 60)) == []


def test_progress_of_an_unknown_anomaly_opens_an_incident() -> None:
    one = anomaly(0, blame("hog"))
    (told,) = joined(extended(one, 900))
    assert (told.change, told.opened_ts, told.ts) == ("opened", T0, T0 + 900)


def test_what_an_operator_tells_that_is_far_behind_begins_where_the_other_one_closed() -> None:
    one, late = anomaly(0, blame("hog")), anomaly(5, blame("hog"), "cpu")
    told = joined(one, ended(one, 60), late, ended(late, 70))
    assert changes(told) == ["opened", "closed", "opened", "closed"]
    assert told[2].opened_ts == told[1].ts == T0 + 60 + JOINED_S
    assert told[2].evidence[0].opened_ts == T0 + 5
    assert told[3].until_ts >= told[2].opened_ts


def test_what_an_operator_never_says_more_of_ends_when_others_are_past_it() -> None:
    silent = anomaly(0, blame("hog"))
    before = anomaly(GOES_ON_S + SILENT_S, blame("leak", "descriptors"), "cpu")
    after = anomaly(GOES_ON_S + SILENT_S + 1, blame("leak", "descriptors"), "cpu")
    assert changes(joined(silent, before)) == ["opened", "opened"]
    told = joined(silent, after)
    assert changes(told) == ["opened", "closed", "opened"]
    assert (told[1].ts, told[1].until_ts, told[1].silent_since_ts) == (after.ts, silent.ts, silent.ts)
    still = [extended(silent, at) for at in (GOES_ON_S, 2 * GOES_ON_S, 4 * GOES_ON_S)]
    assert "closed" not in changes(joined(silent, *still, extended(after, 8 * GOES_ON_S + SILENT_S)))
    assert "closed" in changes(joined(silent, *still, extended(after, 8 * GOES_ON_S + SILENT_S + 1)))


def test_of_two_that_are_as_bad_the_newest_leads() -> None:
    told = joined(anomaly(0, blame("hog")), anomaly(200, blame("other")))
    assert [each.blame for each in told] == [blame("hog"), blame("other")]
    assert told[-1].sentence.startswith("On web-1 since 2023-11-14 22:13:20 UTC: other is behaving unusually.")


def test_a_score_that_is_too_great_for_a_number_is_the_worst() -> None:
    one = anomaly(0, blame("hog"), score=math.inf)
    for first in (one, replace(one, score=math.nan)):
        told = joined(first, anomaly(1, blame("other"), score=9.0))
        assert (told[-1].blame, math.isnan(told[-1].score)) == (blame("hog"), True)
        assert "beyond any number" in told[-1].sentence


# The sentence.


def test_the_sentence_says_what_where_since_when_how_bad_and_what_to_look_at() -> None:
    one = anomaly(0, replace(blame("hog"), row="hog[4711@99]"))
    cpu = anomaly(5, replace(blame("hog"), row="hog[4711@99]"), "cpu", score=1.9)
    opened, grown, closed = joined(one, cpu, ended(one, 60), ended(cpu, 61))
    assert opened.sentence == (
        "On web-1 since 2023-11-14 22:13:20 UTC: hog is behaving unusually. Seen by gaussian (process); the worst "
        "score is 2. Look closer: `laggard why --host web-1 --at 2023-11-14T22:13:20Z`, on that machine `laggard "
        "diagnose 4711`."
    )
    assert "Seen by gaussian (process) and cpu (process); the worst score is 2." in grown.sentence
    assert closed.sentence == (
        "Resolved on web-1 after 61 s (2023-11-14 22:13:20 to 22:14:21 UTC). The most likely culprit was `hog` "
        "(pid 4711). Seen by gaussian (process) and cpu (process); the worst score is 2."
    )


def test_an_incident_whose_last_end_was_not_observed_says_so() -> None:
    one, cpu = anomaly(0, blame("hog")), anomaly(5, blame("hog"), "cpu", score=1.9)
    lost = replace(ended(cpu, 61, 90), silent_since_ts=T0 + 90)
    seen = joined(one, cpu, lost, ended(one, 120))[-1]
    assert math.isnan(seen.silent_since_ts), "the last to end was seen to"
    assert "Resolved on web-1 after" in seen.sentence
    unseen = joined(one, cpu, ended(one, 60), lost)[-1]
    assert unseen.silent_since_ts == T0 + 90
    assert unseen.sentence == (
        "On web-1 something began at 2023-11-14 22:13:20 UTC. Its end was not observed: there is no data on it after "
        "2023-11-14 22:14:50 UTC; it had lasted 61 s. The most likely culprit was `hog` (pid 1). Seen by gaussian "
        "(process) and cpu (process); the worst score is 2."
    )


def test_of_a_replay_nothing_is_to_be_looked_at() -> None:
    (told,) = joined(anomaly(0, blame("hog"), live=False))
    assert not told.live
    assert "Look closer" not in told.sentence


def test_names_are_data() -> None:
    one = replace(anomaly(0, blame("h\u202eo\x1bg")), key="web\u202e; rm -r /", sentence="It is.")
    for told in joined(one, ended(one, 60)):
        assert told.sentence.isprintable()
    assert "--host 'web\\u202e; rm -r /' --at" in joined(one)[0].sentence


# Any input.


NAMES = ("hog", "leak", "writer")
BLAMES = st.sampled_from(
    [None, HOST, *(blame(name, feature) for name in NAMES for feature in (*RESOURCES, "descriptors"))]
)


@st.composite
def spans(draw: st.DrawFn) -> list[list[Anomaly | Progress]]:
    """What each of up to three operators says, in its order: anomalies follow each other, the ends of some later."""
    told = []
    for operator in ("gaussian", "cpu", "river")[: draw(st.integers(1, 3))]:
        records: list[Anomaly | Progress] = []
        at = 0
        for number in range(draw(st.integers(0, 4))):
            at += draw(st.integers(0, 600))
            one = anomaly(at, draw(BLAMES), operator, draw(st.sampled_from([1.5, 3.0, math.inf])), which=str(number))
            records.append(one)
            lasted = draw(st.integers(0, 400))
            told_of = sorted(draw(st.lists(st.integers(0, lasted), max_size=2, unique=True)))
            records += [extended(one, at + share, blame=draw(BLAMES)) for share in told_of]
            records.append(ended(one, at + lasted))
            at += lasted + 60
        told.append(sorted(records, key=lambda each: each.ts))
    return told


def interleaved(draw: st.DataObject, streams: Sequence[Sequence[Anomaly | Progress]], in_time: bool) -> Iterator[Any]:
    """All records, each operator's in its order; in the order of time, or any."""
    left = [list(each) for each in streams if each]
    while left:
        first = min(left, key=lambda each: each[0].ts) if in_time else draw.draw(st.sampled_from(left))
        yield first.pop(0)
        left = [each for each in left if each]


def programs(one: Incident) -> set[str]:
    return {each.blame.name for each in one.evidence if each.blame is not None and each.scope != "host"}


@pytest.mark.slow
@given(streams=spans(), data=st.data(), in_time=st.booleans())
def test_any_order_gives_incidents_that_are_apart_and_each_opened_and_closed_once(
    streams: list[list[Anomaly | Progress]], data: st.DataObject, in_time: bool
) -> None:
    found = list(interleaved(data, streams, in_time))
    joiner = Joiner()
    told: list[Incident] = []
    for one in found:
        told += joiner.take(one)
        opened = joiner.incidents
        assert len({each.id for each in opened}) == len(opened)
        for a, b in permutations(opened, 2):
            assert programs(a).isdisjoint(programs(b)), "one program, two incidents at once"
    assert joiner.incidents == ()
    by_id: dict[str, list[Incident]] = {}
    for each in told:
        by_id.setdefault(each.id, []).append(each)
    for records in by_id.values():
        assert [each.number for each in records] == list(range(1, len(records) + 1))
        assert records[0].change == "opened"
        assert changes(records[1:]) == ["extended"] * (len(records) - 2) + ["closed"]
        assert all(a.ts <= b.ts for a, b in pairwise(records))
        # What joins it later may have begun earlier.
        assert all(a.opened_ts >= b.opened_ts for a, b in pairwise(records))
        assert records[-1].left_out or records[-1].opened_ts >= min(each.opened_ts for each in records[-1].evidence)
        assert records[-1].opened_ts <= records[-1].until_ts
        assert all(math.isnan(each.until_ts) for each in records[:-1])
    whole = [records[-1] for records in by_id.values() if not records[-1].merged_into]
    evidence = [each.anomaly for one in whole for each in one.evidence]
    assert sorted(evidence) == sorted({each.id for each in found}), "each anomaly is of one incident in the end"
    assert {each.merged_into for each in told} - {""} <= by_id.keys()
    for one, other in permutations([by_id[each.id] for each in whole], 2):
        # What is told late may be of a time whose incident was over when it came.
        earlier = one[-1].opened_ts <= other[-1].opened_ts
        if in_time and earlier and not programs(one[0]).isdisjoint(programs(other[0])):
            assert one[-1].ts <= other[-1].opened_ts, "two of one program at a time"


@given(streams=spans(), data=st.data(), cut=st.integers(0, 40))
def test_a_state_that_was_restored_goes_on_with_the_same(
    streams: list[list[Anomaly | Progress]], data: st.DataObject, cut: int
) -> None:
    found = list(interleaved(data, streams, in_time=False))
    whole = Joiner()
    want = [write_output(each) for one in found for each in whole.take(one)]
    first, second = Joiner(), Joiner()
    got = [write_output(each) for one in found[:cut] for each in first.take(one)]
    state = first.snapshot()
    second.restore(state)
    assert second.snapshot() == state
    got += [write_output(each) for one in found[cut:] for each in second.take(one)]
    assert got == want
    assert second.snapshot() == whole.snapshot()


def test_what_is_no_state_is_refused() -> None:
    joiner = Joiner()
    joiner.take(anomaly(0, blame("hog")))
    state = joiner.snapshot()
    wrong: dict[str, Any]
    for wrong in ({"open": []}, {"closed": []}, {**state, "open": [{**state["open"][0], "told": "{}"}]}):
        with pytest.raises((KeyError, ValueError)):
            Joiner().restore(wrong)
    state["open"][0]["told"] = write_output(anomaly(0, None))
    with pytest.raises(ValueError, match="expected one, got anomaly"):
        Joiner().restore(state)


def test_what_is_given_up_is_closed() -> None:
    joiner = Joiner()
    joiner.take(anomaly(0, blame("hog")))
    joiner.take(anomaly(5, blame("leak", "descriptors")))
    told = joiner.give_up()
    assert changes(told) == ["closed", "closed"]
    assert [each.silent_since_ts for each in told] == [T0, T0 + 5], "nobody saw it end"
    assert joiner.incidents == ()


# Limits.


def near(at: float, blamed: Blame) -> Anomaly:
    """An anomaly of what is near its limit."""
    return replace(anomaly(at, blamed, "saturation"), scope="limit")


def test_a_limit_that_is_near_for_weeks_absorbs_no_other_culprit() -> None:
    java, batch = blame("java", "memory_rss_bytes"), blame("batch", "memory_rss_bytes")
    first = near(0, java)
    told = joined(first, near(10, batch), extended(first, 20), anomaly(30, blame("report", "memory_rss_bytes")))
    opened = [each.blame and each.blame.name for each in told if each.change == "opened"]
    assert opened == ["java", "batch", "report"]
    assert not [each for each in told if each.merged_into]


def test_a_limit_and_its_program_are_one_trouble() -> None:
    java = blame("java", "memory_rss_bytes")
    assert changes(joined(near(0, java), anomaly(10, java))) == ["opened", "extended"]
    assert changes(joined(anomaly(0, java), near(10, java))) == ["opened", "extended"]
