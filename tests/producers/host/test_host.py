from __future__ import annotations

import math

import numpy as np
import psutil
import pytest

from laggard.producers.host.host import MAX_DEVICES, HostCounters
from laggard.producers.system.clock import Clock

DISK = "   8       0 {name} {reads} 0 {sectors} {read_ms} {writes} 0 {written} {write_ms} 0 {busy_ms} 0\n"
INTERFACE = "  {name}: {received} {packets} {errors} {drops} 0 0 0 0 {sent} 10 0 0 0 0 0 0\n"


def system(user=0, system=0, idle=0, wait=0, guest=0, switches=0, forks=0, cores=2):  # noqa: PLR0917 - the file's order
    line = f"{user} 0 {system} {idle} {wait} 0 0 0 {guest} 0\n"
    lines = "".join(f"cpu{core} {user if core == 0 else 0} 0 0 {idle} 0 0 0 0 0 0\n" for core in range(cores))
    return (
        f"cpu  {line}{lines}intr {switches * 2} 0 1\nctxt {switches}\nbtime 1\nprocesses {forks}\nprocs_running 3\n"
        f"procs_blocked 1\nsoftirq {switches * 3} 0\n"
    )


def vmstat(**events):
    names = ("pgfault", "pgmajfault", "pgpgin", "pgpgout", "pswpin", "pswpout", "pgscan_direct", "oom_kill")
    return "".join(f"{name} {events.get(name, 0)}\n" for name in names)


MEMINFO = "".join(
    f"{name}: {kib} kB\n"
    for name, kib in {
        "MemTotal": 1000,
        "MemFree": 300,
        "MemAvailable": 600,
        "Buffers": 1,
        "Cached": 2,
        "SwapCached": 3,
        "Active": 4,
        "Inactive": 5,
        "SwapTotal": 100,
        "SwapFree": 90,
        "Dirty": 6,
        "Writeback": 7,
        "Shmem": 8,
        "Slab": 9,
    }.items()
)


@pytest.fixture
def host(machine, time):
    machine.write("stat", system())
    machine.write("loadavg", "0.50 0.25 0.10 1/93 10214\n")
    machine.write("meminfo", MEMINFO)
    machine.write("vmstat", vmstat())
    for resource in ("cpu", "io", "memory"):
        machine.write(f"pressure/{resource}", pressure(0, 0))
    machine.write("diskstats", disk("sda") + disk("sda1") + disk("loop0"))
    machine.write("net/dev", interfaces())
    counters = HostCounters(time.clock, root=str(machine.root), processors=str(machine.root / "processors"))
    yield counters
    counters.close()


def pressure(some_us, full_us):
    return f"some avg10=0 avg60=0 avg300=0 total={some_us}\nfull avg10=0 avg60=0 avg300=0 total={full_us}\n"


def disk(name, **counts):
    fields = ("reads", "sectors", "read_ms", "writes", "written", "write_ms", "busy_ms")
    return DISK.format(name=name, **{field: counts.get(field, 0) for field in fields})


def interfaces(*lines):
    return "Inter-| Receive\n face |bytes\n" + "".join(lines)


def interface(name, **counts):
    return INTERFACE.format(
        name=name,
        **{field: counts.get(field, 0) for field in ("received", "packets", "errors", "drops", "sent")},
    )


def read(counters):
    layout, values = counters.read()
    assert layout.rows == layout.names == ("host",)
    assert values.shape == (1, len(layout.features))
    assert not values.flags.writeable
    assert psutil.PROCFS_PATH == "/proc", "psutil keeps its own root"
    return dict(zip(layout.features, values[0].tolist(), strict=True))


def test_values_are_there_at_once_and_rates_are_not(host):
    row = read(host)
    assert (row["load_1m"], row["load_5m"], row["load_15m"]) == (0.5, 0.25, 0.1)
    assert (row["processes_running"], row["processes_blocked"], row["cpus"]) == (3, 1, 2)
    assert row["boot_timestamp_seconds"] == 1
    assert row["memory_used_bytes"] == 400 * 1024
    assert row["memory_available_bytes"] == 600 * 1024
    assert row["swap_used_bytes"] == 10 * 1024
    assert row["memory_dirty_bytes"] == 6 * 1024
    for feature in ("cpu_user_ratio", "forks_per_s", "pressure_io_full_ratio", "page_faults_major_per_s"):
        assert math.isnan(row[feature])


def test_rates(machine, time, host):
    read(host)
    time.pass_(10)
    machine.write("stat", system(user=600, system=200, idle=1000, wait=200, guest=100, switches=500, forks=20))
    machine.write("pressure/io", pressure(5_000_000, 2_000_000))
    machine.write("vmstat", vmstat(pgfault=110, pgmajfault=10, pgpgin=40, pswpout=5, pgscan_direct=30, oom_kill=1))
    row = read(host)
    assert row["cpu_user_ratio"] == pytest.approx(0.25)  # guests are counted apart
    assert row["cpu_guest_ratio"] == pytest.approx(0.05)
    assert row["cpu_system_ratio"] == pytest.approx(0.1)
    assert row["cpu_idle_ratio"] == pytest.approx(0.5)
    assert row["cpu_io_wait_ratio"] == pytest.approx(0.1)
    assert row["cpu_busy_ratio"] == pytest.approx(0.4)
    assert row["cpu_busiest_core_ratio"] == pytest.approx(600 / 1600)
    assert row["switches_per_s"] == 50
    assert row["interrupts_per_s"] == 100
    assert row["soft_interrupts_per_s"] == 150
    assert row["forks_per_s"] == 2
    assert (row["pressure_io_some_ratio"], row["pressure_io_full_ratio"]) == (0.5, 0.2)
    assert row["pressure_cpu_some_ratio"] == 0
    assert (row["page_faults_minor_per_s"], row["page_faults_major_per_s"]) == (10, 1)
    assert row["paging_in_bytes_per_s"] == 4096
    assert row["swap_out_bytes_per_s"] == 2048
    assert row["page_scans_per_s"] == 3
    assert row["out_of_memory_kills_per_s"] == pytest.approx(0.1)


def test_io_wait_that_steps_back_is_no_time(machine, time, host):
    machine.write("stat", system(idle=1000, wait=200))
    read(host)
    time.pass_(1)
    machine.write("stat", system(user=100, idle=1100, wait=190))
    row = read(host)
    assert row["cpu_io_wait_ratio"] == 0
    assert row["cpu_busy_ratio"] == pytest.approx(0.5)


def test_a_processor_that_goes_offline_takes_no_other_with_it(machine, time, host):
    read(host)
    time.pass_(1)
    machine.write("stat", system(user=100, idle=100, cores=1))
    row = read(host)
    assert row["cpus"] == 1
    assert row["cpu_busiest_core_ratio"] == pytest.approx(0.5)


def test_disks_that_do_something_have_features_and_partitions_have_none(machine, time, host):
    assert not [feature for feature in read(host) if feature.startswith("disk_")]
    time.pass_(1)
    machine.write("diskstats", disk("sda", reads=1) + disk("sda1", reads=1) + disk("loop0"))
    row = read(host)
    assert {feature.split("_")[1] for feature in row if feature.startswith("disk_")} == {"sda"}
    assert math.isnan(row["disk_sda_read_operations_per_s"])
    time.pass_(2)
    machine.write("diskstats", disk("sda", reads=5, sectors=80, read_ms=600, writes=2, busy_ms=500))
    row = read(host)
    assert row["disk_sda_read_operations_per_s"] == 2
    assert row["disk_sda_write_operations_per_s"] == 1
    assert row["disk_sda_read_bytes_per_s"] == 80 * 512 / 2
    assert row["disk_sda_read_time_ratio"] == pytest.approx(0.3)
    assert row["disk_sda_busy_ratio"] == pytest.approx(0.25)


def test_an_interface_that_is_replaced_has_no_false_rate(machine, time, host):
    machine.write("net/dev", interfaces(interface("eth0", received=1000, sent=10)))
    read(host)
    time.pass_(1)
    machine.write("net/dev", interfaces(interface("eth0", received=400, sent=60, errors=2, drops=3)))
    row = read(host)
    assert math.isnan(row["network_eth0_receive_bytes_per_s"])
    assert row["network_eth0_transmit_bytes_per_s"] == 50
    assert (row["network_eth0_receive_errors_per_s"], row["network_eth0_receive_drops_per_s"]) == (2, 3)
    time.pass_(1)
    machine.write("net/dev", interfaces(interface("eth1", received=400)))
    row = read(host)
    assert not [feature for feature in row if "eth0" in feature]


def processor(machine, number, package, throttled_ms):
    machine.write(f"processors/cpu{number}/topology/physical_package_id", f"{package}\n")
    machine.write(f"processors/cpu{number}/thermal_throttle/package_throttle_total_time_ms", f"{throttled_ms}\n")


def policy(machine, number, limit):
    machine.write(f"processors/cpufreq/policy{number}/cpuinfo_max_freq", "4000000\n")
    machine.write(f"processors/cpufreq/policy{number}/scaling_max_freq", f"{limit}\n")


def test_heat_that_slows_the_processors(machine, time, host):
    assert not {"cpu_throttled_ratio", "cpu_capped_ratio"} & set(read(host))
    for number in range(4):
        processor(machine, number, number // 2, 100)
        policy(machine, number, 4_000_000)
    hot = HostCounters(time.clock, root=str(machine.root), processors=str(machine.root / "processors"))
    row = read(hot)
    assert math.isnan(row["cpu_throttled_ratio"])
    assert row["cpu_capped_ratio"] == 0.0
    time.pass_(10)
    processor(machine, 2, 1, 2600)
    processor(machine, 3, 1, 9999)  # of the package that cpu2 speaks for
    policy(machine, 3, 1_000_000)
    row = read(hot)
    assert row["cpu_throttled_ratio"] == pytest.approx(0.25)
    assert row["cpu_capped_ratio"] == pytest.approx(0.75)
    machine.write("processors/cpufreq/policy0/scaling_max_freq", "<unknown>\n")
    row = read(hot)
    assert math.isnan(row["cpu_capped_ratio"])
    assert hot.read_errors == 1
    hot.close()


def test_the_number_of_interfaces_is_bounded(machine, host):
    machine.write("net/dev", interfaces(*(interface(f"veth{number:04}", received=1) for number in range(500))))
    features = [feature for feature in read(host) if feature.endswith("receive_bytes_per_s")]
    assert len(features) == MAX_DEVICES


def test_the_layout_stays_the_same_object(time, host):
    first, _ = host.read()
    time.pass_(1)
    assert host.read()[0] is first


def test_a_kernel_without_pressure_has_no_features_of_it(machine, time, host):
    for resource in ("cpu", "io", "memory"):
        (machine.root / "pressure" / resource).unlink()
    counters = HostCounters(time.clock, root=str(machine.root))
    row = read(counters)
    assert not [feature for feature in row if feature.startswith("pressure_")]
    assert counters.read_errors == 0
    assert row["load_1m"] == 0.5


def test_a_source_that_fails_is_nan_and_counted_and_the_others_go_on(machine, time, host):
    before = read(host)
    time.pass_(1)
    machine.write("loadavg", "nonsense\n")
    machine.write("meminfo", "nonsense\n")
    row = read(host)
    assert list(row) == list(before)
    assert math.isnan(row["load_1m"])
    assert math.isnan(row["memory_used_bytes"])
    assert row["forks_per_s"] == 0
    assert host.read_errors == 2
    time.pass_(1)
    machine.write("loadavg", "1 2 3\n")
    machine.write("meminfo", MEMINFO)
    assert read(host)["load_1m"] == 1
    assert host.read_errors == 0


def test_nothing_at_all_to_read(machine, time):
    counters = HostCounters(time.clock, root=str(machine.root / "nowhere"))
    row = read(counters)
    # Without `/proc/diskstats`, psutil takes the disks from /sys.
    assert [feature for feature in row if not feature.startswith("disk_")] == ["users"]
    assert counters.read_errors == 0


def test_this_machine_agrees_with_psutil():
    counters = HostCounters(Clock())
    # Others take and give memory back between the two looks; they do not do so each time.
    for tries_left in range(9, -1, -1):
        row, memory, swap = read(counters), psutil.virtual_memory(), psutil.swap_memory()
        theirs = {"memory_available_bytes": memory.available, "memory_free_bytes": memory.free}
        theirs["swap_used_bytes"] = swap.used
        if {name: row[name] for name in theirs} == pytest.approx(theirs, rel=0.1):
            break
        assert tries_left, (row, theirs)
    assert row["load_15m"] == pytest.approx(psutil.getloadavg()[2], abs=0.2)
    assert row["cpus"] == psutil.cpu_count()
    row = read(counters)
    modes = [
        value
        for feature, value in row.items()
        if feature.startswith("cpu_") and feature not in {"cpu_busy_ratio", "cpu_busiest_core_ratio"}
    ]
    assert np.isnan(modes).all() or sum(modes) == pytest.approx(1)
    assert counters.read_errors == 0
    counters.close()
