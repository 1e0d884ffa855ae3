"""Each rule from a host's counters to what affects it: where it holds, with its figures, and where it must not."""

from __future__ import annotations

import math

import pytest

from laggard.operators.ranking import FeatureScore, RowScore
from laggard.pipeline.explaining.causes import RULES, HostCounters, causes


def host(**features):
    """A host's row: by feature the value, the usual mean and spread, and whether that is far."""
    found = []
    for name, given in features.items():
        value, mean, deviation, *far = given if isinstance(given, tuple) else (given, given, 0.0)
        score = 60.0 if (far[0] if far else value > mean + 8.0 * deviation) else 0.1
        found.append(FeatureScore(name, value, mean, deviation, score))
    return RowScore("host", "host", 2.0, tuple(found), 3600.0)


def disk(**changes):
    """A disk that makes 40 operations a second of 7 ms each, and what is different now."""
    usual = {
        "read_time_ratio": (0.14, 0.02), "write_time_ratio": (0.14, 0.02), "busy_ratio": (0.2, 0.02),
        "read_operations_per_s": (20.0, 5.0), "write_operations_per_s": (20.0, 5.0),
        "read_bytes_per_s": (1e6, 1e5), "write_bytes_per_s": (1e6, 1e5),
    }  # fmt: skip
    return {f"disk_vda_{end}": (changes.get(end, mean), mean, spread) for end, (mean, spread) in usual.items()}


SLOW = disk(read_time_ratio=1.6, write_time_ratio=1.76, busy_ratio=0.99)
BUSY = disk(write_time_ratio=9.0, busy_ratio=0.99, write_operations_per_s=900.0, write_bytes_per_s=212e6)


@pytest.mark.parametrize(
    ("features", "resource", "told"),
    [
        (
            {"cpu_steal_ratio": (0.38, 0.0, 0.001)},
            "cpu",
            "the hypervisor takes 38 % of its CPUs away, usually 0 ± 0.1 %",
        ),
        ({"cpu_throttled_ratio": (0.6, 0.0, 0.0)}, "cpu", "heat slows its CPUs 60 % of the time, usually 0 %"),
        (
            {"cpu_capped_ratio": (0.5, 0.0, 0.0)},
            "cpu",
            "its CPUs may not use 50 % of their highest frequency, usually 0 %",
        ),
        (
            SLOW,
            "disk",
            "disk vda takes 84 ms for an operation, usually 7 ms, though it makes 40 a second, usually 40",
        ),
        (
            {"pressure_memory_some_ratio": (0.23, 0.0, 0.01), "memory_available_bytes": (4.8e8, 2e10, 1e8)},
            "memory",
            "some task waits for memory 23 % of the time, usually 0 ± 1 %; 480 MB of its memory are available",
        ),
        (
            {"out_of_memory_kills_per_s": (0.2, 0.0, 0.0), "swap_out_bytes_per_s": (5e7, 0.0, 0.0)},
            "memory",
            (
                "for want of memory it kills 0.2 processes a second, usually 0/s; "
                "it moves 50 MB/s out to swap, usually 0 B/s"
            ),
        ),
        (
            {
                "page_faults_major_per_s": (840.0, 0.3, 1.0),
                "paging_in_bytes_per_s": (95e6, 1e5, 1e5),
                "memory_cached_bytes": (3e8, 1.2e10, 1e9),
            },
            "disk",
            (
                "what is in memory at other times comes from disk: its programs cause 840 major page faults a second, "
                "usually 0.3 ± 1/s; it reads 95 MB/s from disks, usually 100 ± 100 kB/s; "
                "only 300 MB of its memory cache files, usually 12 ± 1 GB"
            ),
        ),
        (
            BUSY,
            "disk",
            "disk vda is busy 99 % of the time, usually 20 ± 2 %; disk vda writes 212 MB/s, usually 1 ± 0.1 MB/s",
        ),
        (
            {"pressure_io_some_ratio": (0.62, 0.02, 0.03)},
            "disk",
            "some task waits for I/O 62 % of the time, usually 2 ± 3 %",
        ),
        (
            {"forks_per_s": (900.0, 12.0, 5.0)},
            "cpu",
            "it starts 900 processes or threads a second, usually 12 ± 5/s",
        ),
        (
            {"cpu_soft_interrupt_ratio": (0.35, 0.01, 0.01), "network_eth0_receive_packets_per_s": (1.2e6, 1e3, 1e3)},
            "cpu",
            (
                "soft interrupts use 35 % of its CPUs, usually 1 ± 1 %; "
                "interface eth0 receives 1.2 M packets a second, usually 1,000 ± 1,000/s"
            ),
        ),
        (
            {"pressure_cpu_some_ratio": (0.9, 0.1, 0.05), "cpu_busy_ratio": (1.0, 0.3, 0.1)},
            "cpu",
            (
                "some task waits for a CPU 90 % of the time, usually 10 ± 5 %; "
                "its CPUs are busy 100 % of the time, usually 30 ± 10 %"
            ),
        ),
        (
            {"network_eth0_receive_drops_per_s": (30.0, 0.0, 0.0)},
            "network",
            "interface eth0 drops 30 received packets a second, usually 0/s",
        ),
    ],
)
def test_a_cause_is_told_with_its_figures(features, resource, told):
    (found,) = causes(host(**features))
    assert (found.resource, found.clause) == (resource, told)
    assert found.feature.feature in features
    assert found.closer


def test_each_rule_is_tried():
    tried = {
        rule.__name__
        for (features, *_) in test_a_cause_is_told_with_its_figures.pytestmark[0].args[1]
        for rule in RULES
        if any(True for _ in rule(HostCounters(host(**features))))
    }
    assert tried == {rule.__name__ for rule in RULES}


@pytest.mark.parametrize(
    "features",
    [
        {},
        {"load_1m": (90.0, 1.0, 0.1)},  # which falls for minutes after all is over
        {"cpu_steal_ratio": (0.01, 0.0, 0.0)},
        {"cpu_steal_ratio": (0.38, 0.4, 0.1)},
        {"cpu_steal_ratio": (math.nan, 0.0, 0.0, False)},
        {"cpu_throttled_ratio": (0.04, 0.0, 0.0), "cpu_capped_ratio": 0.5},
        {"page_faults_major_per_s": (840.0, 0.3, 1.0)},
        {"paging_in_bytes_per_s": (95e6, 1e5, 1e5)},
        {"forks_per_s": (900.0, 800.0, 50.0)},
        {"cpu_idle_ratio": (1.0, 0.2, 0.01), "memory_free_bytes": (2e10, 1e9, 1e8)},
        disk(),
    ],
)
def test_what_is_small_or_usual_or_harmless_is_no_cause(features):
    assert causes(host(**features)) == ()


def test_a_disk_that_does_more_is_busy_and_not_slow():
    (found,) = causes(host(**BUSY))
    assert not found.outside
    (found,) = causes(host(**SLOW))
    assert found.outside


def test_a_slow_disk_explains_what_waits_for_it_and_memory_what_is_paged_in():
    slow = host(**SLOW, pressure_io_some_ratio=(0.9, 0.02, 0.03))
    assert [each.resource for each in causes(slow)] == ["disk"]
    stolen = host(cpu_steal_ratio=(0.38, 0.0, 0.001), pressure_cpu_some_ratio=(0.9, 0.1, 0.05))
    assert [each.feature.feature for each in causes(stolen)] == ["cpu_steal_ratio"]


def test_causes_of_different_resources_are_all_told_those_from_outside_first():
    both = host(
        pressure_memory_some_ratio=(0.23, 0.0, 0.01),
        cpu_steal_ratio=(0.38, 0.0, 0.001),
        network_eth0_receive_drops_per_s=(30.0, 0.0, 0.0),
    )
    assert [each.resource for each in causes(both)] == ["cpu", "memory", "network"]


@pytest.mark.parametrize("name", ["{}", "a b", "\x1b[2J"])
def test_a_device_may_have_any_name(name):
    features = {key.replace("vda", name): value for key, value in SLOW.items()}
    (found,) = causes(host(**features))
    assert found.clause.isprintable()
    assert found.closer.isprintable()
