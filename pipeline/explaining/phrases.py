"""What each known feature says of its row, in plain words. A table: no code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

PROCESS: Final = {
    "cpu_user_ratio": "it uses {} of one core in user mode",
    "cpu_system_ratio": "it uses {} of one core inside the kernel",
    "cpu_wait_ratio": "it waits for a free core {} of the time",
    "cpu_children_ratio": "it spends {} of one core in children that live for less than a tick",
    "cpu_quota_throttled_ratio": "it runs out of CPU quota in {} of the periods",
    "io_pressure_ratio": "it waits for I/O, or others of its control group do, {} of the time",
    "memory_pressure_ratio": "it waits for memory, or others of its control group do, {} of the time",
    "cpus": "the machine has {} CPUs online",
    "io_delay_ratio": "it waits for the disk {} of the time",
    "timeslices_per_s": "it is scheduled {} times a second",
    "page_faults_minor_per_s": "it causes {} minor page faults a second",
    "page_faults_major_per_s": "it causes {} major page faults a second",
    "switches_voluntary_per_s": "it gives up the CPU {} times a second",
    "switches_involuntary_per_s": "it is taken off the CPU {} times a second",
    "io_read_characters_per_s": "it reads {}, cached data and pipes included",
    "io_write_characters_per_s": "it writes {}, cached data and pipes included",
    "io_read_operations_per_s": "it makes {} read calls a second",
    "io_write_operations_per_s": "it makes {} write calls a second",
    "io_read_bytes_per_s": "it reads {} from disk",
    "io_write_bytes_per_s": "it writes {} to disk",
    "io_cancelled_write_bytes_per_s": "it takes back {} of writes before they reach the disk",
    "memory_rss_bytes": "it holds {} of memory",
    "memory_virtual_bytes": "it has {} of address space",
    "memory_shared_bytes": "it holds {} of shared memory",
    "memory_swap_bytes": "{} of its memory are swapped out",
    "threads": "it runs {} threads",
    "descriptors": "it holds {} open descriptors",
    "sockets": "it holds {} open sockets",
    "children": "it has {} child processes",
}

HOST: Final = {
    "cpu_user_ratio": "programs use {} of its CPUs in user mode",
    "cpu_nice_ratio": "programs of low priority use {} of its CPUs",
    "cpu_system_ratio": "the kernel uses {} of its CPUs",
    "cpu_idle_ratio": "{} of its CPUs are idle",
    "cpu_io_wait_ratio": "its CPUs wait for disks {} of the time",
    "cpu_interrupt_ratio": "interrupts use {} of its CPUs",
    "cpu_soft_interrupt_ratio": "soft interrupts use {} of its CPUs",
    "cpu_steal_ratio": "the hypervisor takes {} of its CPUs away",
    "cpu_guest_ratio": "virtual machines use {} of its CPUs",
    "cpu_busy_ratio": "its CPUs are busy {} of the time",
    "cpu_busiest_core_ratio": "its busiest core is busy {} of the time",
    "cpu_throttled_ratio": "heat slows its CPUs {} of the time",
    "cpu_capped_ratio": "its CPUs may not use {} of their highest frequency",
    "cpus": "it has {} CPUs online",
    "boot_timestamp_seconds": "it booted at {}",
    "switches_per_s": "its CPUs change tasks {} times a second",
    "interrupts_per_s": "it takes {} interrupts a second",
    "soft_interrupts_per_s": "it runs {} soft interrupts a second",
    "forks_per_s": "it starts {} processes or threads a second",
    "processes_running": "{} of its tasks run or want a CPU",
    "processes_blocked": "{} of its tasks wait for disks",
    "load_1m": "its load over the last minute is {}",
    "load_5m": "its load over the last 5 minutes is {}",
    "load_15m": "its load over the last 15 minutes is {}",
    "pressure_cpu_some_ratio": "some task waits for a CPU {} of the time",
    "pressure_cpu_full_ratio": "all tasks wait for a CPU {} of the time",
    "pressure_io_some_ratio": "some task waits for I/O {} of the time",
    "pressure_io_full_ratio": "all tasks wait for I/O {} of the time",
    "pressure_memory_some_ratio": "some task waits for memory {} of the time",
    "pressure_memory_full_ratio": "all tasks wait for memory {} of the time",
    "memory_used_bytes": "{} of its memory are used",
    "memory_available_bytes": "{} of its memory are available",
    "memory_free_bytes": "{} of its memory are free",
    "memory_cached_bytes": "{} of its memory cache files",
    "memory_buffers_bytes": "{} of its memory are buffers",
    "memory_shared_bytes": "{} of its memory are shared",
    "memory_slab_bytes": "the kernel's own objects take {} of its memory",
    "memory_active_bytes": "{} of its memory are active",
    "memory_inactive_bytes": "{} of its memory are inactive",
    "memory_dirty_bytes": "{} wait to be written to disk",
    "memory_writeback_bytes": "{} are on their way to disk",
    "swap_used_bytes": "{} of its swap are used",
    "swap_free_bytes": "{} of its swap are free",
    "page_faults_minor_per_s": "its programs cause {} minor page faults a second",
    "page_faults_major_per_s": "its programs cause {} major page faults a second",
    "paging_in_bytes_per_s": "it reads {} from disks",
    "paging_out_bytes_per_s": "it writes {} to disks",
    "swap_in_bytes_per_s": "it brings {} back from swap",
    "swap_out_bytes_per_s": "it moves {} out to swap",
    "page_scans_per_s": "in search of free memory it scans {} pages a second",
    "out_of_memory_kills_per_s": "for want of memory it kills {} processes a second",
    "users": "{} users are logged in",
    "memory_used_ratio": "{} of its memory is in use",
    "descriptors_used_ratio": "{} of its file descriptors are in use",
    "pids_used_ratio": "{} of its process ids are in use",
}

MEASURED: Final = {
    "cpu_system_wide_ratio": "it uses {} of all processors",
    "cpu_single_ratio": "it uses {} of one processor",
    "cpu_spikes_per_s": "for a moment it uses most of all processors {} times a second",
}
"""What the operator `cpu` makes of a process's counters."""

PROLONGED: Final[Mapping[str, str]] = {
    "cpu_system_wide_ratio": "used {} of all processors",
    "cpu_single_ratio": "used {} of one processor",
    "cpu_spikes_per_s": "used most of all processors in short spikes, {} a minute,",
    "cpu_quota_throttled_ratio": "ran out of CPU quota in {} of the periods",
    "pressure_cpu_some_ratio": "some task waited for a CPU {} of the time",
    "cpu_throttled_ratio": "heat slowed its CPUs {} of the time",
    "pressure_io_some_ratio": "some task waited for I/O {} of the time",
    "pressure_memory_some_ratio": "some task waited for memory {} of the time",
    "io_pressure_ratio": "waited for I/O, or others of its control group did, {} of the time",
    "memory_pressure_ratio": "waited for memory, or others of its control group did, {} of the time",
}
"""What a row did that was in an event, with a place for the mean in stretches of high use."""

LACKED: Final[Mapping[str, str]] = {
    "cpu": "CPU",
    "memory": "memory",
    "disk": "disk throughput",
    "network": "network throughput",
    "lock": "locks",
}
"""What a host is short of, by resource."""

AGENT: Final = {
    "cpu_ratio": "it uses {} of one core",
    "memory_rss_bytes": "it holds {} of memory",
}

PHRASES: Final[Mapping[str, Mapping[str, str]]] = {
    "process": PROCESS | MEASURED,
    "thread": PROCESS,
    "host": HOST,
    "agent": AGENT,
}
"""By scope and feature, a clause with a place for the value; before "a second" the value has no unit of time."""

DEVICES: Final[Mapping[str, Mapping[str, str]]] = {
    "disk": {
        "read_bytes_per_s": "disk {device} reads {}",
        "write_bytes_per_s": "disk {device} writes {}",
        "read_operations_per_s": "disk {device} makes {} reads a second",
        "write_operations_per_s": "disk {device} makes {} writes a second",
        "read_time_ratio": "reads are under way on disk {device} {} of the time",
        "write_time_ratio": "writes are under way on disk {device} {} of the time",
        "busy_ratio": "disk {device} is busy {} of the time",
    },
    "filesystem": {
        "used_ratio": "{} of filesystem {device} is in use",
        "unused_bytes": "{} of filesystem {device} are unused",
    },
    "network": {
        "receive_bytes_per_s": "interface {device} receives {}",
        "transmit_bytes_per_s": "interface {device} sends {}",
        "receive_packets_per_s": "interface {device} receives {} packets a second",
        "transmit_packets_per_s": "interface {device} sends {} packets a second",
        "receive_errors_per_s": "interface {device} receives {} damaged packets a second",
        "transmit_errors_per_s": "interface {device} fails to send {} packets a second",
        "receive_drops_per_s": "interface {device} drops {} received packets a second",
        "transmit_drops_per_s": "interface {device} drops {} packets to send a second",
    },
}
"""Of a host: by the first word of a feature and by its end; what is between them names the device."""
