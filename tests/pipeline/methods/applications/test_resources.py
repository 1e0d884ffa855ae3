"""What each metric is about: all of laggard's own counters are known, and others' by their usual names."""

from __future__ import annotations

import re
from typing import get_args

import pytest

from laggard.operators.regression.models import Trait
from laggard.pipeline.core.records.models import Resource
from laggard.pipeline.explaining.phrases import DEVICES, HOST, LACKED, PROCESS
from laggard.pipeline.methods.applications.resources import described, resource_of, trait
from laggard.producers.host.process import GAUGES, RATES
from laggard.producers.host.processes import SHARED

OWN = [
    *HOST,
    *PROCESS,
    *RATES,
    *GAUGES,
    *SHARED,
    *(f"{kind}_sda_1_{end}" for kind, ends in DEVICES.items() for end in ends),
]

OF_NO_RESOURCE = {
    *("boot_timestamp_seconds", "users", "threads", "descriptors", "children"),
    *("descriptors_used_ratio", "pids_used_ratio"),
}


def test_every_counter_of_laggards_own_is_known() -> None:
    for feature in sorted(set(OWN)):
        for row, who in (("web-1", "web-1"), ("web-1/nginx", "`nginx` on web-1")):
            told = described(f"{row}:{feature}")
            assert who in told, feature
            assert "{" not in told, feature
            assert "_" not in feature or feature not in told
            assert trait(f"{row}:group_a_{feature}") == trait(f"{row}:{feature}")
        found = trait(f"web-1:{feature}")
        assert found.resource in get_args(Resource), feature
        assert found.resource or feature in OF_NO_RESOURCE
        assert found.sign == {"wait": 1, "use": 1, "free": -1, "load": 0, "": 0}[found.role], feature


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("web-1/nginx:cpu_wait_ratio", Trait("cpu", "wait", 1)),
        ("web-1:cpu_idle_ratio", Trait("cpu", "free", -1)),
        ("db-1/postgres:io_delay_ratio", Trait("disk", "wait", 1)),
        ("db-1:disk_nvme0n1_busy_ratio", Trait("disk", "use", 1)),
        ("db-1:network_eth_0_receive_packets_per_s", Trait("network", "load", 0)),
        ("db-1:pressure_memory_full_ratio", Trait("memory", "wait", 1)),
        # node_exporter, as the Prometheus scraper names it.
        ('web-1:9100:node_cpu_seconds_per_s{cpu="0",mode="idle"}', Trait("cpu", "free", -1)),
        ('web-1:node_cpu_seconds_per_s{cpu="0",mode="user"}', Trait("cpu", "use", 1)),
        ('web-1:node_cpu_seconds_per_s{cpu="0",mode="iowait"}', Trait("disk", "wait", 1)),
        ("web-1:node_load1", Trait("cpu", "wait", 1)),
        ("web-1:node_memory_MemAvailable_bytes", Trait("memory", "free", -1)),
        ("web-1:node_memory_Active_anon_bytes", Trait("memory", "", 0)),
        ("web-1:node_pressure_io_waiting_seconds_per_s", Trait("disk", "wait", 1)),
        ("web-1:node_vmstat_pswpin_per_s", Trait("memory", "wait", 1)),
        ('web-1:node_disk_io_time_seconds_per_s{device="sda"}', Trait("disk", "use", 1)),
        ('web-1:node_disk_io_time_weighted_seconds_per_s{device="sda"}', Trait("disk", "wait", 1)),
        ('web-1:node_disk_read_bytes_per_s{device="sda"}', Trait("disk", "use", 1)),
        ('web-1:node_network_receive_packets_per_s{device="eth0"}', Trait("network", "load", 0)),
        ('web-1:node_network_receive_drop_per_s{device="eth0"}', Trait("network", "wait", 1)),
        ("web-1:node_context_switches_per_s", Trait("cpu", "load", 0)),
        # PostgreSQL and nginx.
        ('db-1:pg_locks_count{mode="exclusivelock"}', Trait("lock", "wait", 1)),
        ('db-1:pg_stat_activity_count{wait_event_type="IO"}', Trait("disk", "wait", 1)),
        ("db-1:pg_stat_database_blk_read_time_per_s", Trait("disk", "wait", 1)),
        ("db-1:pg_stat_database_blks_read_per_s", Trait("disk", "use", 1)),
        ("db-1:pg_stat_database_tup_returned_per_s", Trait("", "load", 0)),
        ("web-1:nginx_connections_active", Trait("", "load", 0)),
        # Of the paper's equations (S2, section 5).
        ("ESX1:Web_vCPU_Ready", Trait("cpu", "wait", 1)),
        ("ESX1:Web_CPU_Idle", Trait("cpu", "free", -1)),
        ("ESX1:CPU_TotalUtil", Trait("cpu", "use", 1)),
        ("ESX1:CPULoad_1MinuteAvg", Trait("cpu", "wait", 1)),
        ("ESX4:DB1_Mem_GrantedMB", Trait("memory", "free", -1)),
        ("ESX4:DB1_Mem_Active", Trait("memory", "use", 1)),
        ("ESX4:Network_PkcsReceived/sec", Trait("network", "load", 0)),
        ("ESX1:Web_vSwitch_PcksTrans/s", Trait("network", "load", 0)),
        ("CJDBC:UDP_Act", Trait("network", "load", 0)),
        ("CJDBC:Int", Trait("", "", 0)),
        # Nothing is guessed of what is not known.
        ("web-1:shop_carts", Trait("", "", 0)),
        ("web-1:temperature_celsius", Trait("", "", 0)),
    ],
)
def test_what_a_metric_is_about(metric: str, expected: Trait) -> None:
    found = trait(metric)
    assert (found.resource, found.role, found.sign) == (expected.resource, expected.role, expected.sign)
    assert resource_of(metric) == expected.resource
    assert not found.barred


@pytest.mark.parametrize(
    ("metric", "gauge", "short"),
    [
        ("web-1:cpus", "size", 0.0),
        ("web-1:processes_running", "queue", 0.5),
        ("web-1:pressure_memory_some_ratio", "pressure", 0.02),
        ("web-1/nginx:group_a_cpu_quota_throttled_ratio", "stops", 0.1),
        ("db-1:disk_sda_read_time_ratio", "queue", 1.0),
        ("db-1:network_eth0_receive_drops_per_s", "stops", 1.0),
        ("web-1:node_pressure_cpu_waiting_seconds_per_s", "pressure", 0.1),
        # A process that waits shows that it waits, and not that the host is short of something.
        ("web-1/nginx:cpu_wait_ratio", "", 0.0),
        ("web-1:load_1m", "", 0.0),
    ],
)
def test_pressure_and_queues_of_a_host_are_the_gauges_of_a_shortage(metric: str, gauge: str, short: float) -> None:
    found = trait(metric)
    assert (found.gauge, found.short) == (gauge, short)


def test_what_is_held_is_a_level_and_what_laggard_does_itself_explains_nothing() -> None:
    levels = ["a/b:memory_virtual_bytes", "a/b:memory_rss_bytes", "a/b:threads", 'a:node_memory_Dirty_bytes{x="y"}']
    rates = ["a/b:io_read_bytes_per_s", "a:swap_in_bytes_per_s", "a/b:cpu_wait_ratio"]
    assert [trait(each).level for each in (*levels, *rates)] == [True] * 4 + [False] * 3
    assert trait("a/laggard-trace:cpu_user_ratio").barred
    assert trait("a/laggard-agent:cpu_wait_ratio").barred
    assert not trait("a/laggards:cpu_user_ratio").barred


@pytest.mark.parametrize(
    ("metric", "told"),
    [
        ("web-1/nginx:cpu_wait_ratio", "time that `nginx` on web-1 waited for a free CPU"),
        ("web-1:cpu_busy_ratio", "share of CPU time of web-1 that was used"),
        ("db-1:disk_nvme0n1_busy_ratio", "time that disk nvme0n1 of db-1 was busy"),
        ('db-1:node_disk_io_now{device="sda"}', "requests under way on disk sda of db-1"),
        ("web-1:shop_carts", "shop_carts of web-1"),
        ("web-1/a\x1bb:x\n", "x\\n of `a\\x1bb` on web-1"),
        ("web-1/{device}:disk_a_busy_ratio", "time that disk a of `{device}` on web-1 was busy"),
    ],
)
def test_a_metric_in_plain_words(metric: str, told: str) -> None:
    assert described(metric) == told


def test_what_a_host_may_be_short_of_has_a_word() -> None:
    assert set(LACKED) == set(get_args(Resource)) - {""}
    assert all(re.fullmatch(r"[A-Za-z ]+", each) for each in LACKED.values())
