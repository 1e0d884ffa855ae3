"""Which earlier incidents are like one."""

from __future__ import annotations

from dataclasses import replace

from laggard.pipeline.core.records.outputs import Blame
from laggard.pipeline.methods.incidents.similar import similar
from tests.pipeline.methods.incidents.joined import NGINX, closed, incident

NOW = 1_795_300_000.0
OTHER = Blame("sort[7@9]", "sort", "io_write_bytes_per_s", 9.0, 1.0, 0.5, ("disk",))
SAME_RESOURCE = replace(OTHER, feature="cpu_system_ratio", resources=("cpu",))


def test_the_most_alike_come_first_and_of_equal_ones_the_newest() -> None:
    others = [
        incident(2, NOW - 300.0),
        incident(3, NOW - 100.0),
        incident(4, NOW - 200.0, host="web-2"),
        incident(5, NOW - 50.0, operators=("gaussian", "cpu")),
    ]
    found = similar(incident(1, NOW), others, most=10)
    assert [each.incident.id for each in found] == [others[at].id for at in (1, 0, 3, 2)]
    assert [each.similarity for each in found] == [1.0, 1.0, 7.5 / 8.0, 7.0 / 8.0]
    assert found[0].common == (
        "nginx is blamed", "for cpu_user_ratio", "seen by gaussian", "on the same host",
    )  # fmt: skip
    assert [each.incident.id for each in similar(incident(1, NOW), others, most=2)] == [others[1].id, others[0].id]


def test_what_has_too_little_in_common_is_not_like_it() -> None:
    nobody = incident(2, NOW - 10.0, blame=OTHER)
    same_resource = incident(3, NOW - 20.0, blame=SAME_RESOURCE)
    (found,) = similar(incident(1, NOW, blame=NGINX), [nobody, same_resource], most=10)
    assert (found.incident.id, found.similarity) == (same_resource.id, 3.0 / 8.0)
    assert found.common[0] == "for cpu"


def test_later_and_merged_incidents_are_skipped() -> None:
    one = incident(1, NOW)
    merged = closed(2, NOW - 60.0, NOW - 30.0, merged_into="another")
    assert similar(one, [one, incident(3, NOW), incident(4, NOW + 1.0), merged], most=10) == []
