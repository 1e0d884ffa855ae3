"""`laggard grafana publish` and `remove` against a stand-in for Grafana, for each of its versions."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laggard.pipeline.cli.exits import FAILED, USAGE
from laggard.pipeline.cli.grafana import grafana as commands
from laggard.pipeline.grafana.alerting import Alerting
from laggard.pipeline.grafana.client import Grafana
from laggard.pipeline.grafana.definitions import (
    INVESTIGATED,
    PRINT,
    digest,
    plain_dashboard,
    plain_rule,
    read_definitions,
)
from laggard.pipeline.grafana.publish import publish as bring
from laggard.pipeline.grafana.publish import remove as take
from laggard.pipeline.grafana.standing import survey
from laggard.pipeline.grafana.surroundings import RIGHTS
from tests.grafana.defined import DASHBOARDS, DEFINED, RULES
from tests.grafana.stand_in import TOKEN, VERSIONS, StandIn, running

pytestmark = pytest.mark.slow

HOST = "laggard-host"
ANOMALY = "laggard-incident"


@pytest.fixture
def published(newest: StandIn, call: Any) -> StandIn:
    """With all that laggard publishes."""
    call(newest, "publish")
    return newest


def outdated_dashboard(grafana: StandIn) -> None:
    """As an older laggard published it."""
    old = {**grafana.newest(HOST)["dashboard"], "title": "Old"}
    grafana.keep_dashboard(old, "laggard", f"laggard 0.0.9, sha256 {digest(plain_dashboard(old))}")


def outdated_rule(grafana: StandIn) -> None:
    """The same."""
    rule = {**grafana.rules[ANOMALY], "title": "Old"}
    both = f"{'0' * 16} {digest(plain_rule(rule))}"
    grafana.edit_rule(ANOMALY, title="Old", annotations={**rule["annotations"], PRINT: both})


def test_publish_creates_everything_and_a_second_run_changes_nothing(grafana: StandIn, call: Any) -> None:
    code, out, err = call(grafana, "publish")
    assert (code, err) == (0, "")
    assert sorted(grafana.dashboards) == DASHBOARDS
    assert sorted(grafana.rules) == RULES
    assert {grafana.newest(uid)["folder"] for uid in DASHBOARDS} == {"laggard"}
    for group in DEFINED.groups:
        assert grafana.intervals["laggard", group["title"]] == group["interval"]
    # The data source is the one of this Grafana, and its pages may edit the rules.
    asked = {query["datasourceUid"] for rule in grafana.rules.values() for query in rule["data"]}
    assert asked == {"prom-1", "__expr__"}
    assert not any(rule.get("provenance") for rule in grafana.rules.values())
    assert len(re.findall(r"^created", out, re.MULTILINE)) == 1 + len(DASHBOARDS) + len(RULES) + len(DEFINED.groups)
    before, calls = grafana.state(), len(grafana.writes)
    code, out, err = call(grafana, "publish")
    assert (code, err) == (0, "")
    assert grafana.state() == before
    assert len(grafana.writes) == calls
    total = 1 + len(DASHBOARDS) + len(RULES) + len(DEFINED.groups)
    assert out.endswith(f"Grafana at {grafana.url}: {total} unchanged.\n")


def test_dashboards_and_alerts_lead_to_the_page_where_it_is_said_to_be(newest: StandIn, call: Any) -> None:
    page = "https://laggard.example"
    call(newest, "publish")
    code, out, err = call(newest, "publish", "--set", f"serve.url={page}/")
    assert (code, err) == (0, "")
    for uid in DASHBOARDS:
        (first, *others) = newest.newest(uid)["dashboard"]["links"]
        assert (first["title"], first["url"]) == ("Investigate", page + INVESTIGATED[uid])
        assert others, "the other dashboards"
    assert all(rule["annotations"]["page_url"] for rule in newest.rules.values())
    _, out, _ = call(newest, "publish", "--set", f"serve.url={page}")
    assert "updated" not in out
    call(newest, "publish")
    assert not any(
        link["title"] == "Investigate" for uid in DASHBOARDS for link in newest.newest(uid)["dashboard"]["links"]
    )


def test_every_variable_of_a_link_to_the_page_is_the_dashboards() -> None:
    for dashboard in DEFINED.dashboards:
        known = {each["name"] for each in dashboard["templating"]["list"]} | {"__from", "__to"}
        assert set(re.findall(r"\$\{(\w+)", INVESTIGATED[dashboard["uid"]])) <= known


def test_grafana_before_12_is_told_that_it_does_not_keep_firing(grafana: StandIn, call: Any) -> None:
    _, out, _ = call(grafana, "publish")
    keeping = [rule for rule in grafana.rules.values() if "keep_firing_for" in rule]
    assert bool(keeping) == (grafana.major >= 12)
    assert ("has no keep_firing_for" in out) == (grafana.major < 12)


@pytest.mark.parametrize("uid", DASHBOARDS)
def test_a_dashboard_that_a_person_edited_is_left_alone(published: StandIn, call: Any, uid: str) -> None:
    published.edit_dashboard(uid, "Bigger letters", title="Mine")
    before = published.state()
    code, out, _ = call(published, "publish")
    assert code == FAILED
    assert f"left alone  dashboard {uid}: changed by somebody else\n" in out
    assert "`laggard grafana diff` shows the changes of others; --force overwrites them.\n" in out
    assert published.state() == before
    code, out, _ = call(published, "diff")
    assert code == FAILED
    assert '-  "title": "Mine"' in out
    assert call(published, "publish", "--force")[0] == 0
    assert published.newest(uid)["dashboard"]["title"] != "Mine"
    assert call(published, "check")[0] == 0


def test_a_person_who_says_what_laggard_says_is_taken_for_a_person(published: StandIn, call: Any) -> None:
    published.edit_dashboard(HOST, "laggard is better so", title="Mine")
    assert call(published, "publish")[0] == FAILED
    assert published.newest(HOST)["dashboard"]["title"] == "Mine"


@pytest.mark.parametrize(
    "change",
    [
        {"isPaused": True},
        {"title": "Mine"},
        {"for": "1h"},
        {"noDataState": "Alerting"},
        {"labels": {"severity": "critical"}},
        {"annotations": {}},
        {"summary": "Oh dear"},
        {"ruleGroup": "mine"},
        {"data": []},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_rule_that_a_person_edited_is_left_alone(published: StandIn, call: Any, change: dict[str, Any]) -> None:
    published.intervals["laggard", "mine"] = 60
    if "summary" in change:  # in Grafana's pages the annotation stays that says what laggard wrote
        change = {"annotations": published.rules[ANOMALY]["annotations"] | change}
    published.edit_rule(ANOMALY, **change)
    before = published.state()
    code, out, _ = call(published, "publish")
    assert code == FAILED
    assert f"left alone  alert rule {ANOMALY}: changed by somebody else\n" in out
    assert published.state() == before
    assert call(published, "publish", "--force")[0] == 0
    assert call(published, "check")[0] == 0


def test_an_interval_that_a_person_set_is_left_alone(published: StandIn, call: Any) -> None:
    published.intervals["laggard", "laggard-incidents"] = 120
    code, out, _ = call(published, "publish")
    assert code == FAILED
    assert "left alone  rule group laggard-incidents: evaluated at another interval than laggard's" in out
    others = {**published.rules["laggard-incident"], "uid": "theirs", "title": "theirs"}
    published.rules["theirs"] = others
    assert call(published, "publish", "--force")[0] == 0
    assert published.intervals["laggard", "laggard-incidents"] == 30
    assert "theirs" in published.rules


def test_another_version_of_laggard_is_brought_up_to_date(grafana: StandIn, call: Any) -> None:
    """A published dashboard and rule whose definitions were others than today's."""
    call(grafana, "publish")
    outdated_dashboard(grafana)
    outdated_rule(grafana)
    code, out, _ = call(grafana, "check")
    assert code == FAILED
    assert out.count("of another version of laggard") == 2
    code, out, _ = call(grafana, "publish")
    assert code == 0
    assert f"updated     dashboard {HOST}\n" in out
    assert f"updated     alert rule {ANOMALY}\n" in out
    assert call(grafana, "check")[0] == 0


def test_what_grafana_makes_of_a_rule_is_no_change(newest: StandIn, call: Any) -> None:
    """One that writes rules down in another way than those that are known: it is asked to keep what it made of them."""

    def mangle(rule: dict[str, Any]) -> None:
        rule["labels"]["grafana_folder"] = "laggard"
        for query in rule["data"]:
            query["model"]["adhoc"] = True

    newest.mangle = mangle
    assert call(newest, "publish")[0] == 0
    before = newest.state()
    code, _, _ = call(newest, "publish")
    assert code == 0
    assert newest.state() == before
    newest.edit_rule(ANOMALY, isPaused=True)
    assert call(newest, "publish")[0] == FAILED


def test_what_is_no_longer_part_of_laggard_goes(published: StandIn, call: Any) -> None:
    old = {"uid": "laggard-old", "title": "Old", "panels": []}
    published.keep_dashboard(old, "laggard", f"laggard 0.0.9, sha256 {digest(plain_dashboard(old))}")
    published.keep_dashboard({"uid": "mine", "title": "Mine", "panels": []}, "laggard", "Mine")
    rule = {**published.rules[ANOMALY], "uid": "laggard-old-rule"}
    published.rules["laggard-old-rule"] = {
        **rule,
        "annotations": {PRINT: f"{'0' * 16} {digest(plain_rule({**rule, 'annotations': {}}))}"},
    }
    code, out, _ = call(published, "publish")
    assert code == 0
    assert out.count("no longer part of laggard") == 2
    assert sorted(published.dashboards) == [*DASHBOARDS, "mine"]
    assert sorted(published.rules) == RULES


def test_a_dashboard_that_was_moved_stays_where_it_is(published: StandIn, call: Any) -> None:
    published.move_dashboard(HOST, "")
    published.keep_dashboard(
        {**published.newest(HOST)["dashboard"], "title": "Old"}, "", "laggard 0.0.9, sha256 0123456789abcdef"
    )
    code, out, _ = call(published, "check")
    assert code == FAILED
    assert "of another version of laggard; moved to folder General, where it stays" in out
    assert call(published, "publish")[0] == 0
    assert published.newest(HOST)["folder"] == ""
    assert call(published, "check")[0] == 0


def test_what_is_provisioned_from_files_is_not_touched(published: StandIn, call: Any) -> None:
    published.edit_dashboard(HOST, title="From a file")
    published.provisioned.add(HOST)
    published.edit_rule(ANOMALY, provenance="file", title="From a file")
    code, out, _ = call(published, "publish", "--force")
    assert code == FAILED
    assert out.count("left alone") == 2 + 1  # and in the sum
    code, out, _ = call(published, "remove", "--yes", "--force")
    assert code == FAILED
    assert list(published.dashboards) == [HOST]
    assert list(published.rules) == [ANOMALY]


def test_remove_takes_what_laggard_made_and_nothing_else(grafana: StandIn, call: Any) -> None:
    grafana.keep_dashboard({"uid": "before", "title": "Before", "panels": []}, "", "")
    before = grafana.state()
    call(grafana, "publish")
    code, out, _ = call(grafana, "remove", "--yes")
    assert code == 0
    assert grafana.intervals.keys() == {("laggard", group["title"]) for group in DEFINED.groups}
    grafana.intervals.clear()
    assert grafana.state() == before
    assert re.findall(r"^removed +(.*)$", out, re.MULTILINE)[-1] == "folder laggard"
    code, out, _ = call(grafana, "remove", "--yes")
    assert (code, out) == (0, f"Grafana at {grafana.url}: nothing is there.\n")


def test_remove_leaves_others_things_and_their_changes(published: StandIn, call: Any) -> None:
    published.keep_dashboard({"uid": "mine", "title": "Mine", "panels": []}, "laggard", "")
    published.rules["theirs"] = {**published.rules[ANOMALY], "uid": "theirs", "title": "theirs", "annotations": {}}
    published.edit_dashboard(HOST, title="Mine too")
    code, out, _ = call(published, "remove", "--yes")
    assert code == FAILED
    assert sorted(published.dashboards) == [HOST, "mine"]
    assert sorted(published.rules) == ["theirs"]
    assert "left alone  folder laggard: in it is something else: 1 alertrule, 2 dashboard" in out
    assert call(published, "remove", "--yes", "--force")[0] == FAILED
    assert sorted(published.dashboards) == ["mine"]


def test_remove_asks(published: StandIn, call: Any) -> None:
    before = published.state()
    code, out, err = call(published, "remove")
    assert code == USAGE
    assert f"  dashboard {HOST}\n" in out
    assert err == "laggard: cannot prompt here; expected --yes\n"
    assert call(published, "remove", "--json")[0] == USAGE
    assert published.state() == before


def test_publish_goes_on_where_it_broke_off(newest: StandIn, call: Any) -> None:
    newest.fail("/v1/provisioning/alert-rules", 403, {"message": "no more"}, method="POST")
    code, _, err = call(newest, "publish")
    assert code == FAILED
    assert "the token may not; expected the right alert.provisioning:write (403). It says: no more" in err
    assert sorted(newest.dashboards) == DASHBOARDS
    assert not newest.rules
    code, out, _ = call(newest, "publish")
    assert code == 0
    assert len(re.findall(r"^created", out, re.MULTILINE)) == len(RULES) + len(DEFINED.groups)
    assert call(newest, "check")[0] == 0


def test_publish_breaks_off_between_a_rule_and_its_print(newest: StandIn, call: Any) -> None:
    """Then what Grafana made of it is taken for a change, which is the safe side; --force fixes it."""
    newest.mangle = lambda rule: rule["labels"].update(grafana_folder="laggard")
    newest.fail("/v1/provisioning/alert-rules/.*", 403, method="PUT")
    assert call(newest, "publish")[0] == FAILED
    assert call(newest, "publish")[0] == FAILED
    assert call(newest, "publish", "--force")[0] == 0
    assert call(newest, "publish")[0] == 0


def test_somebody_saves_while_laggard_publishes(published: StandIn, call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look and the writing: Grafana refuses, and no work is lost."""
    outdated_dashboard(published)
    saved = Grafana.save_dashboard

    def saved_late(self: Grafana, *arguments: Any) -> None:
        published.edit_dashboard(HOST, title="Mine")
        saved(self, *arguments)

    monkeypatch.setattr(Grafana, "save_dashboard", saved_late)
    code, _, err = call(published, "publish")
    assert code == FAILED
    assert "somebody has changed it meanwhile; try again (412)" in err
    assert published.newest(HOST)["dashboard"]["title"] == "Mine"


def test_somebody_pauses_a_rule_while_laggard_publishes(published: StandIn, call: Any, monkeypatch: Any) -> None:
    outdated_rule(published)
    read = Alerting.rule

    def read_late(self: Alerting, uid: str) -> Any:
        if uid == ANOMALY:
            published.edit_rule(ANOMALY, isPaused=True)
        return read(self, uid)

    monkeypatch.setattr(Alerting, "rule", read_late)
    code, _, err = call(published, "publish")
    assert code == FAILED
    assert err == f"laggard: alert rule {ANOMALY}: somebody has changed it meanwhile; try again\n"
    assert published.rules[ANOMALY]["isPaused"] is True


def test_a_dashboard_that_is_saved_during_the_prompt_is_not_removed(
    published: StandIn, call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:

    def confirm(*_: Any, **__: Any) -> None:
        published.edit_dashboard(HOST, title="Mine")

    monkeypatch.setattr(click, "confirm", confirm)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    assert call(published, "remove")[0] == FAILED
    assert list(published.dashboards) == [HOST]


def test_remove_without_alerts(published: StandIn, call: Any) -> None:
    code, out, _ = call(published, "remove", "--yes", "--no-alerts")
    assert code == FAILED
    assert f"in it is something else: {len(RULES)} alertrule" in out
    assert published.dashboards == {}
    assert sorted(published.rules) == RULES


def test_a_dashboard_in_a_form_of_later_versions(call: Any) -> None:
    with running("13.0") as grafana:
        call(grafana, "publish")
        grafana.fail(f"/dashboards/uid/{HOST}", 406, {"message": "dashboard api version not supported"}, times=3)
        before = grafana.state()
        for command in ("publish", "check", "diff"):
            code, out, _ = call(grafana, command)
            assert code == FAILED
            assert f"dashboard {HOST}" in out
            assert "changed by somebody else" in out
        assert grafana.state() == before


def test_a_title_that_is_taken(call: Any) -> None:
    with running("10.2") as grafana:
        call(grafana, "publish", "--no-alerts")
        title = grafana.newest(HOST)["dashboard"]["title"]
        del grafana.dashboards[HOST]
        grafana.keep_dashboard({"uid": "mine", "title": title, "panels": []}, "laggard", "")
        code, _, err = call(grafana, "publish", "--force")
        assert code == FAILED
        assert "A dashboard with the same name in the folder already exists" in err
        assert "mine" in grafana.dashboards


def test_without_alerts_no_data_source_is_needed(newest: StandIn, call: Any) -> None:
    newest.data_sources.clear()
    newest.denied |= {"getAlertRules", "getContactpoints"}
    code, out, _ = call(newest, "publish", "--no-alerts")
    assert code == 0
    assert sorted(newest.dashboards) == DASHBOARDS
    assert not newest.rules
    assert "Hint: Grafana has no data source for Prometheus." in out


def test_publish_as_json(newest: StandIn, call: Any) -> None:
    code, out, _ = call(newest, "publish", "--json")
    found = json.loads(out)
    assert code == 0
    assert {thing["done"] for thing in found["things"]} == {"created"}
    newest.edit_dashboard(HOST, title="Mine")
    code, out, _ = call(newest, "publish", "--json")
    left = [thing for thing in json.loads(out)["things"] if thing["done"] == "left"]
    assert code == FAILED
    assert [(thing["uid"], thing["why"]) for thing in left] == [(HOST, "changed by somebody else")]


@dataclass
class Person:
    """Somebody else at the same Grafana, and what is theirs."""

    grafana: StandIn
    dashboards: dict[str, Any] = field(default_factory=dict)
    rules: dict[str, Any] = field(default_factory=dict)

    def edit_dashboard(self) -> None:
        self.grafana.edit_dashboard(HOST, title=f"Mine {len(self.grafana.dashboards[HOST])}")
        self.dashboards[HOST] = self.grafana.newest(HOST)

    def pause_rule(self) -> None:
        self.grafana.edit_rule(ANOMALY, isPaused=not self.grafana.rules[ANOMALY]["isPaused"], title="Mine")
        self.rules[ANOMALY] = self.grafana.rules[ANOMALY]

    def add(self) -> None:
        uid = f"mine-{len(self.dashboards)}"
        self.grafana.keep_dashboard({"uid": uid, "title": uid, "panels": []}, "laggard", "laggard")
        self.dashboards[uid] = self.grafana.newest(uid)
        self.rules[uid] = {**self.grafana.rules[ANOMALY], "uid": uid, "title": uid, "annotations": {}}
        self.grafana.rules[uid] = self.rules[uid]

    def lost(self) -> list[str]:
        """What of theirs is not as they left it."""
        kept = {uid: versions[-1] for uid, versions in self.grafana.dashboards.items()}
        return [
            *(uid for uid, theirs in self.dashboards.items() if kept.get(uid) != theirs),
            *(uid for uid, theirs in self.rules.items() if self.grafana.rules.get(uid) != theirs),
        ]


@settings(max_examples=12)
@given(
    st.sampled_from([*VERSIONS]),
    st.lists(st.sampled_from(["publish", "remove", "edit_dashboard", "pause_rule", "add"]), min_size=2, max_size=7),
)
def test_whatever_happens_nothing_of_others_is_lost(version: str, deeds: list[str]) -> None:
    with running(version) as grafana, Grafana(grafana.url, TOKEN) as client:
        definitions = read_definitions("prom-1", keeps_firing=grafana.major >= 12)
        list(bring(client, survey(client, definitions)))
        person = Person(grafana)
        for deed in deeds:
            if deed == "publish":
                list(bring(client, survey(client, definitions)))
                before = grafana.state()
                again = list(bring(client, survey(client, definitions)))
                assert grafana.state() == before
                assert {done.deed for done in again} <= {"unchanged", "left"}
                left = {done.thing.uid for done in again if done.deed == "left"}
                assert left == {HOST, ANOMALY} & {*person.dashboards, *person.rules}
            elif deed == "remove":
                list(take(client, survey(client, definitions)))
                assert {*grafana.dashboards} == {*person.dashboards}
                assert {*grafana.rules} == {*person.rules}
            elif HOST in grafana.dashboards and ANOMALY in grafana.rules:
                getattr(person, deed)()
            assert person.lost() == []


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"for": "5m"}, {"for": "300s"}, True),
        ({"for": "5m"}, {"for": "5m0s"}, True),
        ({"for": "0s"}, {}, True),
        ({"for": "1h30m"}, {"for": "90m"}, True),
        ({"for": "5m"}, {"for": "6m"}, False),
        ({"for": "soon"}, {"for": "later"}, False),
        ({"keep_firing_for": "1d"}, {"keep_firing_for": "24h"}, True),
        ({"labels": {}}, {"labels": None}, True),
        ({"isPaused": False}, {}, True),
        ({"id": 1, "updated": "now", "orgID": 1}, {"id": 2, "provenance": ""}, True),
        ({"data": [{"refId": "A", "model": {}}]}, {"data": [{"refId": "A", "model": {"intervalMs": 1000}}]}, True),
        ({"data": [{"refId": "A", "model": {}}]}, {"data": [{"refId": "A", "model": {"intervalMs": 5000}}]}, False),
        ({"annotations": {PRINT: "x", "a": "b"}}, {"annotations": {"a": "b"}}, True),
    ],
)
def test_rules_that_are_the_same(one: dict[str, Any], other: dict[str, Any], same: bool) -> None:
    assert (digest(plain_rule(one)) == digest(plain_rule(other))) == same


def test_every_rule_and_dashboard_fits_the_documents(grafana: StandIn) -> None:
    """Without the stand-in's own ideas: the definitions themselves, as Grafana's documents want them."""
    schema = {"$ref": "#/definitions/ProvisionedAlertRule"}
    definitions = read_definitions("prom-1", keeps_firing=grafana.major >= 12)
    for rule in definitions.rules:
        assert grafana.document.check(schema, rule, strict=True) == []
    with Grafana(grafana.url, TOKEN) as client:
        assert {thing.state for thing in survey(client, definitions)} == {"missing"}


def test_the_page_names_every_right_and_every_command() -> None:
    page = (Path(__file__).parents[2] / "deploy/docs/tasks/grafana.md").read_text(encoding="utf-8")
    assert [right for rights in RIGHTS.values() for right in rights[:1] if f"`{right}`" not in page] == []
    assert [name for name in commands.commands if f"`laggard grafana {name}`" not in page] == []
    assert all(name.partition(".")[0] in page for name in VERSIONS)
