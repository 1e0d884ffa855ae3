"""Incidents as the API tells them, and as Markdown, on a real bus with what the joiner makes of real anomalies."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from laggard.pipeline.core.bus import Outgoing
from laggard.pipeline.core.bus.embedded import EmbeddedBus
from laggard.pipeline.core.engine.publishing import outgoing
from laggard.pipeline.core.records import Frame, encode, make_layout
from laggard.pipeline.core.records.outputs import Blame, RankingOutput
from laggard.pipeline.core.topics import COUNTERS, REQUESTS
from laggard.pipeline.explaining.explain import printable
from laggard.pipeline.methods.diagnoses.flame_graph import boxes, functions, stacked, widest
from laggard.pipeline.methods.incidents import account as accounts
from laggard.pipeline.methods.incidents.account import Account, account
from laggard.pipeline.methods.incidents.markdown import code, fenced, markdown, web_link
from laggard.pipeline.methods.incidents.similar import similar
from tests.pipeline.investigator.serving import get, served
from tests.pipeline.investigator.troubles import (
    BY_CPU,
    HOG,
    HOSTILE,
    RECORDS,
    SEEN,
    T0,
    TOPICS,
    anomaly,
    joined,
    looked_into,
    marked,
)
from tests.pipeline.methods.diagnoses.conftest import ONE_HOT, TWO_DIPS, UNTRUSTWORTHY
from tests.pipeline.methods.incidents.joined import closed, incident, notice
from tests.pipeline.methods.requests.told import LOCKED, outlying

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.pipeline.investigator.serving import Served

OPEN, OPEN_RECORDS = joined(anomaly(5000, HOSTILE), anomaly(5010, HOSTILE, scope="host", operator="gaussian"))


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path / "bus.db") as page:
        page.reading.clock = lambda: T0 + 5100.0
        bus = page.reading.bus
        bus.append([marked(-60, "before it <b>"), marked(130, "slow"), marked(9000, "ahead"), *RECORDS])
        bus.append(OPEN_RECORDS)
        bus.append([looked_into(30, "hog[41@7]", "hog")[1]])
        yield page


def listed(page: Served, **params: Any) -> list[str]:
    return [each["id"] for each in get(page, "/incidents", **params)["incidents"]]


# The list.


def test_what_is_open_comes_first_and_each_says_what_a_table_needs(page: Served) -> None:
    found = get(page, "/incidents")
    first, second = found["incidents"]
    assert (first["id"], first["open"], first["until_ts"], first["lasted_s"]) == (OPEN[-1].id, True, None, 100.0)
    assert first["blamed"]["name"] == HOSTILE, "as it is: whoever shows it escapes it"
    assert (second["id"], second["open"], second["lasted_s"]) == (HOG.id, False, 160.0)
    assert (second["score"], second["operators"]) == (9.0, ["cpu", "gaussian"])
    assert second["sentence"] == HOG.sentence
    assert (found["left_out"], found["begins_ts"], found["since"]) == (0, None, T0 + 5100.0 - 86_400.0)
    assert found["keys"] == [{"keyed_by": "host", "key": "web-1"}]


def test_the_list_is_narrowed(page: Served) -> None:
    of_pool, records = joined(anomaly(100, key="web-1", keyed_by="pool", scope="member"))
    page.reading.bus.append(records)
    both = [OPEN[-1].id, HOG.id]
    assert listed(page, host="web-1") == both
    assert listed(page, pool="web-1") == [of_pool[-1].id], "that is called as a host is"
    assert listed(page, host="web-2") == []
    assert listed(page, host="web-1", open="true") == both[:1]
    assert listed(page, host="web-1", within=4000) == both[:1]
    assert listed(page, host="web-1", **{"from": T0 + 150, "to": T0 + 200}) == both[1:]
    assert listed(page, host="web-1", **{"from": T0 - 200, "to": T0 - 100}) == []
    assert get(page, "/incidents", most=1)["left_out"] == 2


def test_notices_are_told(page: Served) -> None:
    given = [notice(1, T0 + 100.0), notice(1, T0 + 100.0, "ended", became="1c"), notice(2, T0 + 400.0)]
    page.reading.bus.append([outgoing(each, TOPICS) for each in given])
    found = get(page, "/notices", **{"from": T0})
    assert [(each["host"], each["from"], each["to"], each["became"]) for each in found["notices"]] == [
        ("n2", T0 + 400.0, None, False),
        ("n1", T0 + 100.0, T0 + 190.0, True),
    ]
    assert found["notices"][1]["sentence"] == "what is suspicious 1"
    for asked, hosts in (({"open": True}, ["n2"]), ({"to": T0 + 300.0}, ["n1"]), ({"host": "n1"}, ["n1"])):
        some = get(page, "/notices", **{"from": T0} | asked)
        assert [each["host"] for each in some["notices"]] == hosts
    assert get(page, "/notices", **{"from": T0, "most": 1})["left_out"] == 1


def test_what_cannot_be_asked_and_what_is_not_there_is_told(page: Served) -> None:
    refused = get(page, "/incidents", 400, host="a", pool="b")
    assert refused == {"error": "parameters 'host' and 'pool' exclude each other", "expected": "at most one of them"}
    get(page, "/incidents", 400, within=0)
    get(page, "/incident", 400)
    missing = get(page, "/incident", 404, id="nothing")
    assert missing["error"] == "no incident has an id that begins with 'nothing'"
    get(page, "/diagnosis", 404, id="nothing")
    get(page, "/diagnosis", 404, id=TWO_DIPS.id, host="web-2")
    refused = get(page, "/diagnosis", 404, id=TWO_DIPS.id, phase=6)
    assert refused == {"error": "there is no phase 6", "expected": "one of 1 to 5, or 0 for all"}
    get(page, "/diagnosis", 400, id=TWO_DIPS.id, state="idle")


def test_an_empty_bus_has_no_incidents(tmp_path: Path) -> None:
    with served(tmp_path / "bus.db") as page:
        assert get(page, "/incidents")["incidents"] == []


def test_a_host_that_is_silent_is_told(page: Served) -> None:
    layout = make_layout(["hog[41@7]"], ["hog"], ["threads"], ["hog"])
    frame = Frame("host", "web-1", "process", T0 + 4000.0, 1, layout, np.array([[1.0]]))
    page.reading.bus.append([Outgoing(TOPICS.name(COUNTERS), "web-1", encode(frame), frame.ts)])
    first, second = get(page, "/incidents")["incidents"]
    assert first["silence"].startswith("web-1 has been silent since ")
    assert second["silence"] == "", "it is over"


# One.


def test_one_has_what_each_operator_saw_with_its_newest_ranking(page: Served) -> None:
    found = get(page, "/incident", id=HOG.id)
    gaussian, cpu = found["seen"]
    assert (gaussian["operator"], gaussian["score"], gaussian["until_ts"]) == ("gaussian", 9.0, T0 + 150.0)
    assert gaussian["at"] == T0 + 120.0, "its end has none"
    (hog, other) = gaussian["rows"]
    assert (hog["name"], hog["phases"], other["name"]) == ("hog", [], "sshd")
    assert [each["feature"] for each in hog["features"]] == ["cpu_user_ratio", "threads"]
    assert [each["high"] for each in cpu["rows"][0]["phases"]] == [True, False, True]
    assert cpu["rows"][0]["phases"][1]["begin_ts"] == T0 - 40.0
    told = [(each["operator"], each["change"], each["ts"] - T0, each["score"]) for each in found["reports"]]
    assert told == [
        ("gaussian", "opened", 0.0, 3.0),
        ("cpu", "opened", 20.0, 1.5),
        ("gaussian", "extended", 120.0, 9.0),
        ("gaussian", "ended", 450.0, 3.0),
        ("cpu", "ended", 460.0, 1.5),
    ]
    assert [(each["note"], each["ts"] - T0) for each in found["marks"]] == [("before it <b>", -60.0), ("slow", 130.0)]


def test_a_short_id_is_enough_where_it_is_one(page: Served) -> None:
    assert get(page, "/incident", id=HOG.id[:8].upper())["incident"]["id"] == HOG.id
    common = [closed(number, T0 + number, T0 + number + 1) for number in range(40)]
    page.reading.bus.append([outgoing(one, TOPICS) for one in common])
    refused = get(page, "/incident", 404, id=Counter(one.id[0] for one in common).most_common(1)[0][0])
    assert "incidents have an id that begins with" in refused["error"]


def test_what_was_told_is_found_though_other_records_are_late_or_early_and_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Operators that catch up write what is old behind what is new; one host's clock may be ahead."""
    with EmbeddedBus(tmp_path / "bus.db") as bus:
        bus.create(TOPICS.specs())
        _, ahead = joined(anomaly(40_000, key="web-2"))
        _, late = joined(anomaly(-40_000, key="web-3"))
        bus.append([*ahead, *RECORDS[:4], *late, *RECORDS[4:]])
        assert len(account(bus, TOPICS, HOG).records) == 5
        monkeypatch.setattr(accounts, "MOST_RETURNED", 2)
        found = account(bus, TOPICS, HOG)
        assert ([each.operator for each in found.records], found.left_out) == (["gaussian", "cpu"], 3)
        assert found.newest.keys() == {SEEN.id, BY_CPU.id}


# What processes were doing.


def test_what_processes_were_doing_those_who_are_blamed_first(page: Served) -> None:
    page.reading.bus.append([looked_into(10, "sshd[2@2]", "sshd", id="0" * 36)[1]])
    page.reading.bus.append([looked_into(2000, "late[3@3]", "late", id="1" * 36)[1]])
    found = get(page, "/incident/diagnoses", id=HOG.id)["diagnoses"]
    assert [(each["name"], each["blamed"]) for each in found] == [("hog", True), ("sshd", False)]
    assert found[0]["begin_ts"] == T0 + 30.0
    assert get(page, "/incident/diagnoses", id=OPEN[-1].id)["diagnoses"] == []


def test_diagnoses_of_an_application_are_those_of_the_blamed_host(page: Served) -> None:
    slow = anomaly(0, "web-1", "regression", key="shop", keyed_by="application", scope="performance", row="web-1")
    of_shop, records = joined(slow)
    page.reading.bus.append(records)
    assert [each["name"] for each in get(page, "/incident/diagnoses", id=of_shop[0].id)["diagnoses"]] == ["hog"]
    assert get(page, "/incident", id=of_shop[0].id)["models"] == []


def test_an_application_has_what_its_traced_requests_waited_for(page: Served) -> None:
    late_s = 5_600.0
    page.reading.clock = lambda: T0 + 6_000.0
    slow = anomaly(late_s, "web-1", "regression", key="wordpress", keyed_by="application", scope="performance")
    of_model, records = joined(slow)
    page.reading.bus.append(records)
    without = get(page, "/incident/beside", id=of_model[0].id)
    assert without == {"title": "", "sentences": [], "incident": ""}
    for request, output in outlying(begin=T0 + late_s):
        page.reading.bus.append([Outgoing(TOPICS.name(REQUESTS), request.service, encode(request), request.ts)])
        page.reading.bus.append([outgoing(output, TOPICS)])
    found = get(page, "/incident/beside", id=of_model[0].id)
    assert (found["title"], found["incident"]) == ("Traced requests", "")
    assert found["sentences"][-1] == f"10 of them: {LOCKED}."
    text = get(page, "/incident/markdown", id=of_model[0].id, link="")["text"]
    assert "### Traced requests" in text
    assert "10 of them: waits for a lock" in text
    assert get(page, "/incident/beside", id=HOG.id)["sentences"] == [], "a host has none"


def test_a_diagnosis_in_words_and_as_a_flame_graph(page: Served) -> None:
    identity = TWO_DIPS.id[:8]
    found = get(page, "/diagnosis", id=identity, host="web-1", at=T0 + 60)
    assert found["sentence"].split("`")[1] == "hog"
    assert "Phase 1, " in found["text"]
    assert [each["label"] for each in found["phases"]] == ["phase 1", "dip 2", "phase 3", "dip 4", "phase 5"]
    assert found["phases"][0]["cores"] == pytest.approx(1.75)
    assert [each["tid"] for each in found["threads"]] == [26810, 26812]
    flames = found["flames"]
    assert (found["state"], flames["samples"]) == ("running", 270)
    assert [(each["label"], each["begin"], each["samples"]) for each in flames["boxes"] if each["below"] == 0] == [
        ("worker (26810)", 0.0, 135),
        ("worker (26812)", 135.0, 135),
    ]
    assert flames["functions"][0] == {"label": "compute (hot.py)", "samples": 90, "own": 90}
    only = get(page, "/diagnosis", id=identity, host="web-1", phase=3, thread=26812)["flames"]
    assert [each["label"] for each in only["boxes"]] == ["worker (26812)", "run_forever (hot.py)", "parse (hot.py)"]
    waiting = get(page, "/diagnosis", id=identity, host="web-1", phase=2)
    assert (waiting["state"], waiting["running"], waiting["blocked"]) == ("blocked", 0, 100), "where nothing ran"


def test_functions_of_a_recursion_count_once() -> None:
    root = stacked(ONE_HOT.phases, "running")
    assert sum(each.own for each in functions(root)) == root.samples == 100
    assert {each.label: each.samples for each in functions(root)}["run_forever (hot.py)"] == 100
    stack = ONE_HOT.phases[0].threads[0].stacks[0]
    again = replace(stack, locations=stack.locations * 2)
    phase = replace(ONE_HOT.phases[0], threads=(replace(ONE_HOT.phases[0].threads[0], stacks=(again,)),))
    assert {each.samples for each in functions(stacked((phase,), "running"))} == {60}


@given(st.integers(1, 20))
def test_of_a_large_flame_graph_the_widest_boxes_are_kept_and_what_they_stand_on(most: int) -> None:
    placed = boxes(stacked(TWO_DIPS.phases, "running"), 0.0)
    kept = widest(placed, most)
    assert len(kept) == min(most, len(placed))
    for each in kept:
        stands = [one for one in kept if one.below == each.below - 1 and one.x <= each.x < one.x + one.width]
        assert len(stands) == (each.below > 0)
    narrow = min(each.width for each in kept)
    assert all(each.width <= narrow for each in placed if each not in kept)


# Similar ones.


def test_similar_ones_are_told_with_why(page: Served) -> None:
    again, records = joined(anomaly(4000, operator="gaussian"), anomaly(4010, operator="cpu"))
    _, other = joined(anomaly(100, "backup", key="db-1", feature="io_write_bytes_per_s", resources=("disk",)))
    page.reading.bus.append([*records, *other])
    found = get(page, "/incident/similar", id=again[-1].id)
    (first,) = found["similar"]
    assert (first["incident"]["id"], first["similarity"]) == (HOG.id, 1.0)
    assert first["common"] == ["hog is blamed", "for cpu_user_ratio", "seen by cpu and gaussian", "on the same host"]
    assert get(page, "/incident/similar", id=HOG.id)["similar"] == [], "what came later is not looked at"


DISK = Blame("dd[1@1]", "dd", "io_write_bytes_per_s", 9.0, 1.0, 0.5, ("disk",))


@pytest.mark.parametrize(
    ("other", "similarity"),
    [
        (incident(1, T0 - 60), 1.0),
        (incident(1, T0 - 60, host="web-2"), 7 / 8),
        (incident(1, T0 - 60, operators=("cpu",)), 7 / 8),
        (incident(1, T0 - 60, operators=("gaussian", "cpu")), 7.5 / 8),
        (incident(1, T0 - 60, blame=DISK), None),
        (incident(1, T0 - 60, blame=replace(DISK, resources=("cpu",))), 3 / 8),
        (incident(1, T0 - 60, blame=replace(DISK, name="nginx")), 6 / 8),
        (incident(1, T0 - 60, blame=None), None),
        (incident(1, T0), None),
        (incident(1, T0 + 60), None),
        (closed(1, T0 - 60, T0 - 30, merged_into="x"), None),
    ],
)
def test_what_two_have_in_common_is_weighed(other: Any, similarity: float | None) -> None:
    found = similar(incident(2, T0), [other], 10)
    assert [each.similarity for each in found] == ([] if similarity is None else [pytest.approx(similarity)])


def test_the_most_similar_come_first_and_of_equal_ones_the_newest() -> None:
    others = [incident(number, T0 - number, host=f"web-{1 + number % 2}") for number in range(1, 7)]
    found = similar(incident(9, T0), others, 4)
    assert [int(T0 - each.incident.opened_ts) for each in found] == [2, 4, 6, 1]


# Markdown.


def test_markdown_says_what_a_colleague_needs(page: Served) -> None:
    link = f"https://laggard.example/incidents?id={HOG.id}&from=1"
    text = get(page, "/incident/markdown", id=HOG.id, link=link)["text"]
    assert text.startswith("## Incident on `web-1`: closed\n\n```text\nResolved on web-1 after ")
    assert "- Blamed: `hog`, `hog[41@7]`\n" in text
    assert f"- Page: <{link}>\n" in text
    assert "**`cpu`** (`process`) from 2026-11-18 11:07:00 UTC to 2026-11-18 11:09:20 UTC, score 1.5:\n" in text
    assert "- 3 `hog[41@7]`\n  - `cpu_user_ratio`: 97 %, usually 10 ± 5 %\n" in text
    assert "sshd" not in text, "which is as it always is"
    assert "### What processes were doing\n\n```text\nFrom " in text
    assert "- 2026-11-18 11:08:50 UTC: `slow`\n" in text
    assert "\n\n\n" not in text


def tokens(text: str) -> set[str]:
    """Kinds of what a reader of Markdown makes of a text, with links that it finds by itself."""
    found = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)
    return {each.type for token in found for each in [token, *(token.children or ())]}


OURS = tokens("## a `b`\n\n```text\nx\n```\n\n- `a`\n  - b\n- <https://x.example>\n\n**b**:\n\ntext\n- soft\nbreak\n")

names = st.text(
    st.one_of(st.sampled_from("`~*_[]()<>#|\\!&@-+=.:/\n\r\t \u202e\x1b"), st.characters(exclude_categories=["Cs"])),
    min_size=1,
    max_size=60,
).filter(lambda text: "\x00" not in text)


@given(names, names, names)
def test_no_name_breaks_out_of_markdown(name: str, key: str, note: str) -> None:
    one = incident(1, T0, sentence=f"`{name}` on {key}", blame=Blame(f"{name}[1@1]", name, name, 1.0, 0.5, 0.1))
    hostile = replace(
        one, key=key, evidence=tuple(replace(each, scope=name, operator=name, sentence=note) for each in one.evidence)
    )
    mark = RankingOutput.of(T0, key, note, one.ranking)
    said = Account([], 0, {each.anomaly: hostile_anomaly(name) for each in hostile.evidence}, [mark])
    text = markdown(hostile, said, [UNTRUSTWORTHY], "https://x.example", T0 + 60)
    assert tokens(text) <= OURS
    parsed = MarkdownIt("commonmark").parse(text)
    inline = [each for token in parsed for each in token.children or ()]
    spans = [each.content for each in inline if each.type == "code_inline"]
    assert printable(name) in spans, "and is what it was"
    links = [each.attrs.get("href") for each in inline if each.type == "link_open"]
    assert links == ["https://x.example"]
    outside = "".join(each.content for each in inline if each.type == "text")
    assert re.fullmatch(r"[\w\s:;,.()±%/<>-]*", outside), "names stand in code only"


def hostile_anomaly(name: str) -> Any:
    return anomaly(0, name, feature=name)


@given(names)
@example(" ")
@example(" ` ")
def test_code_and_blocks_say_what_they_were_given(text: str) -> None:
    (paragraph,) = [each for each in MarkdownIt("commonmark").parse(code(text)) if each.type == "inline"]
    assert paragraph.children is not None
    (span,) = paragraph.children
    assert (span.type, span.content) == ("code_inline", printable(text))
    (block,) = MarkdownIt("commonmark").parse("\n".join(fenced(text)))
    assert block.type == "fence"
    assert "".join(block.content.split()) == "".join(printable(text).split())


@pytest.mark.parametrize(
    ("link", "told"),
    [
        ("https://x.example/incidents?id=1&from=2", "https://x.example/incidents?id=1&from=2"),
        ("https://x.example/<b>\n`a b", "https://x.example/%3Cb%3E%0A%60a%20b"),
        ("javascript:alert(1)", ""),
        ("//x.example", ""),
        ("https://[", ""),
        ("", ""),
    ],
)
def test_links_are_the_webs(link: str, told: str) -> None:
    assert web_link(link) == told
