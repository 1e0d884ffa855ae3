"""The settings of the operator `saturation`."""

from __future__ import annotations

from laggard.pipeline.settings.declaring import Duration, Ratio, Section


class SaturationSettings(Section, table="saturation"):
    """The operator `saturation`."""

    duration = Duration(
        "2m",
        "A resource is saturated if its mean use over about this time reaches its limit.",
        minimum="10s",
        maximum="1h",
    )
    forecast = Duration(
        "1h",
        "A resource that will be full within this time at its present rate is reported. `0s`: no forecasts.",
        minimum="0s",
        maximum="1d",
    )
    cpu = Ratio(
        "60%",
        "The limit of the share of time in which the CPUs are busy and some task waits for one.",
        minimum="1%",
        maximum="100%",
    )
    heat = Ratio("20%", "The limit of the share of time in which heat throttles a CPU.", minimum="1%", maximum="100%")
    memory_pressure = Ratio(
        "20%", "The limit of the share of time in which some task waits for memory.", minimum="1%", maximum="100%"
    )
    memory = Ratio(
        "95%",
        "The limit of the used share of memory, of the host or of a control group.",
        minimum="1%",
        maximum="100%",
    )
    disk = Ratio(
        "60%",
        "The limit of the share of time in which a disk is busy and some task waits for I/O.",
        minimum="1%",
        maximum="100%",
    )
    filesystem = Ratio("95%", "The limit of the used share of a filesystem.", minimum="1%", maximum="100%")
    descriptors = Ratio(
        "90%",
        "The limit of the used share of file descriptors, of the kernel or of a process.",
        minimum="1%",
        maximum="100%",
    )
    pids = Ratio(
        "90%",
        "The limit of the used share of process ids, of the kernel or of a control group.",
        minimum="1%",
        maximum="100%",
    )
