"""The settings of the operator `saturation`."""

from __future__ import annotations

from laggard.pipeline.settings.declaring import Duration, Ratio, Section


class SaturationSettings(Section, table="saturation"):
    """The operator `saturation`."""

    duration = Duration(
        "2m",
        "A resource whose mean use over about this long reaches its limit is reported as saturated.",
        minimum="10s",
        maximum="1h",
    )
    forecast = Duration(
        "1h",
        "A resource that will be full within this time at its present rate is reported. 0s: no forecasts.",
        minimum="0s",
        maximum="1d",
    )
    cpu = Ratio(
        "60%",
        "The limit of the share of time for which the CPUs are busy and some task waits for one.",
        minimum="1%",
        maximum="100%",
    )
    heat = Ratio("20%", "The limit of the share of time for which heat slows a CPU.", minimum="1%", maximum="100%")
    memory_pressure = Ratio(
        "20%", "The limit of the share of time for which some task waits for memory.", minimum="1%", maximum="100%"
    )
    memory = Ratio(
        "95%",
        "The limit of the share of memory that is in use, the host's or a control group's.",
        minimum="1%",
        maximum="100%",
    )
    disk = Ratio(
        "60%",
        "The limit of the share of time for which a disk is busy and some task waits for I/O.",
        minimum="1%",
        maximum="100%",
    )
    filesystem = Ratio("95%", "The limit of the share of a filesystem that is in use.", minimum="1%", maximum="100%")
    descriptors = Ratio(
        "90%",
        "The limit of the share of file descriptors that are in use, the kernel's or a process's.",
        minimum="1%",
        maximum="100%",
    )
    pids = Ratio(
        "90%",
        "The limit of the share of process ids that are in use, the kernel's or a control group's.",
        minimum="1%",
        maximum="100%",
    )
