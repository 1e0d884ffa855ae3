"""The catalog of counters: a table without code, with one row for each counter and all its properties.

A new counter needs a row here, and the code in `producers/` that reads it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from laggard.pipeline.core.records.models import Resource

Role = Literal["", "wait", "use", "free", "load"]


@dataclass(frozen=True, slots=True)
class Counter:
    """A counter of processes, of hosts, or of a host's devices.

    Attributes:
        name: the name of the feature; for devices its end: `disk_sda_busy_ratio` is `busy_ratio` of a `disk`.
        resource: the measured resource; empty for none.
        role: whether work waits for the resource, uses it, leaves it free, or only causes load.
        noun: a noun phrase with places for the owner (`{who}`) and the device (`{device}`).
        process: a clause about a process, with a place for the value; empty if processes do not have this counter.
        host: the same about a host or its device.
        prolonged: the clause in an event of prolonged use; empty if it cannot be part of one.
        weight: its relative weight as evidence of what a process uses.
        least: the least value that is reported as a wait or as pressure, in the base unit.
        resolution: the smallest difference that matters; if 0, that of its unit (see `RESOLUTION`).
        stock: whether a process holds it and releases it at its end; sizes in bytes always are stocks.
        device: the kind of the device; empty if it is of none.

    """

    name: str
    resource: Resource
    role: Role
    noun: str
    process: str = ""
    host: str = ""
    prolonged: str = ""
    weight: float = 1.0
    least: float = 0.0
    resolution: float = 0.0
    stock: bool = False
    device: str = ""


# The weights were fitted on recorded slowdowns, and checked on others: tests/evaluation. A cause must rank before its
# effects. Growing memory causes page faults, and any work of the kernel for a process causes system time. Waits and
# scheduling are effects. All members of a control group share its pressure, so pressure does not rank a row.
# fmt: off
CATALOGUE: Final = (
    # Of processes; some of hosts, too.
    Counter("cpu_user_ratio", "cpu", "use", "CPU time of {who} in user mode",
            process="it uses {} of one core in user mode", host="programs use {} of its CPUs in user mode"),
    Counter("cpu_system_ratio", "cpu", "use", "CPU time of {who} inside the kernel",
            process="it uses {} of one core inside the kernel", host="the kernel uses {} of its CPUs", weight=0.33),
    Counter("cpu_wait_ratio", "cpu", "wait", "time that {who} waited for a free CPU",
            process="it waits for a free core {} of the time", weight=0.1, least=0.05),
    Counter("cpu_children_ratio", "cpu", "use", "CPU time of short-lived children of {who}",
            process="its short-lived child processes use {} of one core"),
    Counter("cpu_quota_throttled_ratio", "cpu", "wait", "share of periods in which {who} ran out of its CPU quota",
            process="it runs out of CPU quota in {} of the periods",
            prolonged="ran out of CPU quota in {} of the periods", weight=0.1),
    Counter("io_pressure_ratio", "disk", "wait", "time that a task in the control group of {who} waited for I/O",
            process="it waits for I/O, or others of its control group do, {} of the time",
            prolonged="waited for I/O, or others of its control group did, {} of the time", weight=0.0, least=0.05),
    Counter("memory_pressure_ratio", "memory", "wait",
            "time that a task in the control group of {who} waited for memory",
            process="it waits for memory, or others of its control group do, {} of the time",
            prolonged="waited for memory, or others of its control group did, {} of the time", weight=0.0,
            least=0.05),
    Counter("cpus", "cpu", "", "CPUs of {who} that were online",
            process="the machine has {} CPUs online", host="it has {} CPUs online", weight=0.0),
    Counter("io_delay_ratio", "disk", "wait", "time that {who} waited for disks",
            process="it waits for the disk {} of the time", weight=0.1, least=0.05),
    Counter("timeslices_per_s", "cpu", "load", "how often {who} was scheduled",
            process="it is scheduled {} times a second", weight=0.25),
    Counter("page_faults_minor_per_s", "memory", "load", "minor page faults of {who}",
            process="it causes {} minor page faults a second",
            host="its programs cause {} minor page faults a second", weight=0.5),
    Counter("page_faults_major_per_s", "memory", "wait", "page faults of {who} that had to read from a disk",
            process="it causes {} major page faults a second",
            host="its programs cause {} major page faults a second", weight=0.5, least=5.0, resolution=1.0),
    Counter("switches_voluntary_per_s", "cpu", "load", "how often {who} gave up the CPU",
            process="it gives up the CPU {} times a second", weight=0.25),
    Counter("switches_involuntary_per_s", "cpu", "load", "how often {who} was taken off the CPU",
            process="it is taken off the CPU {} times a second", weight=0.25, least=50.0),
    Counter("io_read_characters_per_s", "disk", "load", "what {who} read, cached data and pipes included",
            process="it reads {}, cached data and pipes included"),
    Counter("io_write_characters_per_s", "disk", "load", "what {who} wrote, cached data and pipes included",
            process="it writes {}, cached data and pipes included"),
    Counter("io_read_operations_per_s", "disk", "load", "read calls of {who}",
            process="it makes {} read calls a second"),
    Counter("io_write_operations_per_s", "disk", "load", "write calls of {who}",
            process="it makes {} write calls a second"),
    Counter("io_read_bytes_per_s", "disk", "use", "what {who} read from disk", process="it reads {} from disk"),
    Counter("io_write_bytes_per_s", "disk", "use", "what {who} wrote to disk", process="it writes {} to disk"),
    Counter("io_cancelled_write_bytes_per_s", "disk", "load",
            "data that {who} deleted or truncated before it was written to disk",
            process="it deletes or truncates {} of data before it is written to disk", weight=0.25),
    Counter("memory_rss_bytes", "memory", "use", "memory that {who} held", process="it holds {} of memory"),
    Counter("memory_virtual_bytes", "memory", "", "address space of {who}",
            process="it has {} of address space", weight=0.1),
    Counter("memory_shared_bytes", "memory", "", "shared memory of {who}",
            process="it holds {} of shared memory", host="{} of its memory are shared", weight=0.5),
    Counter("memory_swap_bytes", "memory", "use", "memory of {who} that was swapped out",
            process="{} of its memory are swapped out"),
    Counter("threads", "", "load", "threads of {who}", process="it runs {} threads", resolution=0.5, stock=True),
    Counter("descriptors", "", "load", "open descriptors of {who}",
            process="it holds {} open descriptors", resolution=1.0, stock=True),
    Counter("sockets", "network", "load", "open sockets of {who}",
            process="it holds {} open sockets", resolution=1.0, stock=True),
    Counter("children", "", "load", "child processes of {who}",
            process="it has {} child processes", resolution=0.5, stock=True),
    # Of hosts, and of groups of their processes.
    Counter("cpu_nice_ratio", "cpu", "use", "CPU time of programs of low priority on {who}",
            host="programs of low priority use {} of its CPUs"),
    Counter("cpu_idle_ratio", "cpu", "free", "share of CPU time on {who} that was idle",
            host="{} of its CPUs are idle", weight=0.0),
    Counter("cpu_io_wait_ratio", "disk", "wait", "time that CPUs of {who} waited for disks",
            host="its CPUs wait for disks {} of the time"),
    Counter("cpu_interrupt_ratio", "cpu", "use", "CPU time of interrupts on {who}",
            host="interrupts use {} of its CPUs"),
    Counter("cpu_soft_interrupt_ratio", "cpu", "use", "CPU time of soft interrupts on {who}",
            host="soft interrupts use {} of its CPUs"),
    Counter("cpu_steal_ratio", "cpu", "wait", "CPU time that the hypervisor took away from {who}",
            host="the hypervisor takes {} of its CPUs away"),
    Counter("cpu_guest_ratio", "cpu", "use", "CPU time of virtual machines on {who}",
            host="virtual machines use {} of its CPUs"),
    Counter("cpu_busy_ratio", "cpu", "use", "share of CPU time of {who} that was used",
            host="its CPUs are busy {} of the time"),
    Counter("cpu_busiest_core_ratio", "cpu", "use", "use of the busiest core of {who}",
            host="its busiest core is busy {} of the time"),
    Counter("cpu_throttled_ratio", "cpu", "wait", "time for which heat slowed the CPUs of {who}",
            host="heat slows its CPUs {} of the time", prolonged="heat slowed its CPUs {} of the time"),
    Counter("cpu_capped_ratio", "cpu", "wait", "share of their frequency that CPUs of {who} might not use",
            host="its CPUs may not use {} of their highest frequency"),
    Counter("boot_timestamp_seconds", "", "", "when {who} booted", host="it booted at {}", weight=0.0),
    Counter("switches_per_s", "cpu", "load", "changes of tasks on the CPUs of {who}",
            host="its CPUs change tasks {} times a second"),
    Counter("interrupts_per_s", "cpu", "load", "interrupts on {who}", host="it takes {} interrupts a second"),
    Counter("soft_interrupts_per_s", "cpu", "load", "soft interrupts on {who}",
            host="it runs {} soft interrupts a second"),
    Counter("forks_per_s", "cpu", "load", "processes and threads that began on {who}",
            host="it starts {} processes or threads a second"),
    Counter("processes_running", "cpu", "wait", "tasks on {who} that ran or wanted a CPU",
            host="{} of its tasks run or want a CPU"),
    Counter("processes_blocked", "disk", "wait", "tasks on {who} that waited for disks",
            host="{} of its tasks wait for disks"),
    Counter("load_1m", "cpu", "wait", "load of {who} over a minute", host="its load over the last minute is {}"),
    Counter("load_5m", "cpu", "wait", "load of {who} over 5 minutes", host="its load over the last 5 minutes is {}"),
    Counter("load_15m", "cpu", "wait", "load of {who} over 15 minutes", host="its load over the last 15 minutes is {}"),
    Counter("pressure_cpu_some_ratio", "cpu", "wait", "time that some task on {who} waited for a CPU",
            host="some task waits for a CPU {} of the time", prolonged="some task waited for a CPU {} of the time",
            least=0.1),
    Counter("pressure_cpu_full_ratio", "cpu", "wait", "time that all tasks on {who} waited for a CPU",
            host="all tasks wait for a CPU {} of the time"),
    Counter("pressure_io_some_ratio", "disk", "wait", "time that some task on {who} waited for I/O",
            host="some task waits for I/O {} of the time", prolonged="some task waited for I/O {} of the time",
            least=0.05),
    Counter("pressure_io_full_ratio", "disk", "wait", "time that all tasks on {who} waited for I/O",
            host="all tasks wait for I/O {} of the time"),
    Counter("pressure_memory_some_ratio", "memory", "wait", "time that some task on {who} waited for memory",
            host="some task waits for memory {} of the time", prolonged="some task waited for memory {} of the time",
            least=0.02),
    Counter("pressure_memory_full_ratio", "memory", "wait", "time that all tasks on {who} waited for memory",
            host="all tasks wait for memory {} of the time"),
    Counter("memory_used_bytes", "memory", "use", "memory of {who} that was used", host="{} of its memory are used"),
    Counter("memory_available_bytes", "memory", "free", "memory of {who} that was available",
            host="{} of its memory are available", weight=0.0),
    Counter("memory_free_bytes", "memory", "free", "memory of {who} that was free",
            host="{} of its memory are free", weight=0.0),
    Counter("memory_cached_bytes", "memory", "free", "memory of {who} that cached files",
            host="{} of its memory cache files", weight=0.0),
    Counter("memory_buffers_bytes", "memory", "", "memory of {who} that was buffers",
            host="{} of its memory are buffers"),
    Counter("memory_slab_bytes", "memory", "", "memory of the kernel's own objects on {who}",
            host="the kernel's own objects take {} of its memory"),
    Counter("memory_active_bytes", "memory", "", "memory of {who} that was active", host="{} of its memory are active"),
    Counter("memory_inactive_bytes", "memory", "", "memory of {who} that was inactive",
            host="{} of its memory are inactive"),
    Counter("memory_dirty_bytes", "disk", "load", "what waited on {who} to be written to disk",
            host="{} wait to be written to disk"),
    Counter("memory_writeback_bytes", "disk", "wait", "what was on its way to disk on {who}",
            host="{} are on their way to disk"),
    Counter("swap_used_bytes", "memory", "use", "swap of {who} that was used", host="{} of its swap are used"),
    Counter("swap_free_bytes", "memory", "free", "swap of {who} that was free", host="{} of its swap are free"),
    Counter("paging_in_bytes_per_s", "disk", "use", "what {who} read from disks", host="it reads {} from disks"),
    Counter("paging_out_bytes_per_s", "disk", "use", "what {who} wrote to disks", host="it writes {} to disks"),
    Counter("swap_in_bytes_per_s", "memory", "wait", "what {who} brought back from swap",
            host="it brings {} back from swap"),
    Counter("swap_out_bytes_per_s", "memory", "wait", "what {who} moved out to swap", host="it moves {} out to swap"),
    Counter("page_scans_per_s", "memory", "wait", "pages that {who} looked through for free memory",
            host="in search of free memory it scans {} pages a second"),
    Counter("out_of_memory_kills_per_s", "memory", "wait", "processes that {who} killed for want of memory",
            host="for want of memory it kills {} processes a second"),
    Counter("users", "", "", "users who were logged in on {who}", host="{} users are logged in"),
    Counter("memory_used_ratio", "memory", "use", "share of the memory of {who} that was in use",
            host="{} of its memory is in use"),
    Counter("descriptors_used_ratio", "", "load", "share of the file descriptors of {who} that were in use",
            host="{} of its file descriptors are in use"),
    Counter("pids_used_ratio", "", "load", "share of the process ids of {who} that were in use",
            host="{} of its process ids are in use"),
    Counter("cpu_quota_throttled_time_ratio", "cpu", "wait", "time for which {who} was held back by its CPU quota"),
    Counter("cpu_pressure_ratio", "cpu", "wait", "time that a task in the control group of {who} waited for a CPU"),
    Counter("page_faults_per_s", "memory", "load", "page faults of {who}"),
    Counter("memory_usage_bytes", "memory", "use", "memory of {who} that was used, cached files included"),
    Counter("memory_limit_hits_per_s", "memory", "wait", "how often {who} ran into its memory limit"),
    # Of devices.
    Counter("used_ratio", "disk", "", "share of filesystem {device} of {who} that was in use",
            device="filesystem", host="{} of filesystem {device} is in use"),
    Counter("unused_bytes", "disk", "", "what was left of filesystem {device} of {who}",
            device="filesystem", host="{} of filesystem {device} are unused"),
    Counter("read_bytes_per_s", "disk", "use", "what disk {device} of {who} read",
            device="disk", host="disk {device} reads {}"),
    Counter("write_bytes_per_s", "disk", "use", "what disk {device} of {who} wrote",
            device="disk", host="disk {device} writes {}"),
    Counter("read_operations_per_s", "disk", "use", "reads of disk {device} of {who}",
            device="disk", host="disk {device} makes {} reads a second"),
    Counter("write_operations_per_s", "disk", "use", "writes of disk {device} of {who}",
            device="disk", host="disk {device} makes {} writes a second"),
    Counter("read_time_ratio", "disk", "wait", "reads under way on disk {device} of {who}",
            device="disk", host="reads are under way on disk {device} {} of the time"),
    Counter("write_time_ratio", "disk", "wait", "writes under way on disk {device} of {who}",
            device="disk", host="writes are under way on disk {device} {} of the time"),
    Counter("queue_ratio", "disk", "wait", "requests under way on disk {device} of {who}", device="disk"),
    Counter("busy_ratio", "disk", "use", "time that disk {device} of {who} was busy",
            device="disk", host="disk {device} is busy {} of the time"),
    Counter("receive_bytes_per_s", "network", "load", "what interface {device} of {who} received",
            device="network", host="interface {device} receives {}"),
    Counter("transmit_bytes_per_s", "network", "load", "what interface {device} of {who} sent",
            device="network", host="interface {device} sends {}"),
    Counter("receive_packets_per_s", "network", "load", "packets that interface {device} of {who} received",
            device="network", host="interface {device} receives {} packets a second"),
    Counter("transmit_packets_per_s", "network", "load", "packets that interface {device} of {who} sent",
            device="network", host="interface {device} sends {} packets a second"),
    Counter("receive_errors_per_s", "network", "wait", "damaged packets on interface {device} of {who}",
            device="network", host="interface {device} receives {} damaged packets a second"),
    Counter("transmit_errors_per_s", "network", "wait", "packets that {device} of {who} failed to send",
            device="network", host="interface {device} fails to send {} packets a second"),
    Counter("receive_drops_per_s", "network", "wait", "received packets that {device} of {who} dropped",
            device="network", host="interface {device} drops {} received packets a second"),
    Counter("transmit_drops_per_s", "network", "wait", "packets to send that {device} of {who} dropped",
            device="network", host="interface {device} drops {} packets to send a second"),
)
# fmt: on

WEIGHTS: Final[Mapping[str, float]] = {
    **{each.name: each.weight for each in CATALOGUE if each.weight != 1.0 and not each.device},
    # The operator `saturation` judges resources that fill up, by what is left of them.
    "_used_ratio": 0.0,
    "_unused_bytes": 0.0,
}


# Differences that do not matter: a thousandth of a core, a few pages of memory, a little I/O, a few of other things.
# By the end of the name, since each device has its own features.
RESOLUTION: Final[Mapping[str, float]] = {
    "_ratio": 0.001,
    "_bytes": 64 * 1024.0,
    "_bytes_per_s": 64 * 1024.0,
    "_characters_per_s": 64 * 1024.0,
    "_operations_per_s": 10.0,
    "_per_s": 2.0,
    # One sample a tick shows whether a thread runs or is blocked: a quarter of these samples is weak evidence.
    "running_ratio": 0.25,
    "blocked_ratio": 0.25,
    **{each.name: each.resolution for each in CATALOGUE if each.resolution},
}


# The features that can leak: amounts that a process holds, and releases when it ends.
STOCKS: Final = ("_bytes", *(each.name for each in CATALOGUE if each.stock))
