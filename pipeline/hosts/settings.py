"""The settings of the operators on the counters of hosts and their processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laggard.pipeline.settings.declaring import Choice, Count, Duration, Mapped, Rate, Ratio, Section, Text, Words

if TYPE_CHECKING:
    from laggard.operators.cpu.smoothing import Kind
    from laggard.operators.gaussian.likelihood import Likelihood
    from laggard.pipeline.settings.declaring import Setting


class GaussianSettings(Section, table="gaussian"):
    """The operator `gaussian`."""

    context = Duration("4h", "How far back the model of what is usual looks.", minimum="1m", maximum="366d")
    minimum_features = Count(
        "10", "A row is scored only when this many of its features vary.", minimum="1", maximum="10000"
    )
    likelihood: Setting[Likelihood] = Choice(
        "scale_free",
        "How unusual a value is: by its deviation alone, whatever its unit, or by the likelihood of the paper that the "
        "operator comes from.",
        choices=("scale_free", "paper"),
    )
    false_alarms = Rate(
        "1/day",
        "The false-alarm budget of a host: so many incidents are told where nothing is wrong.",
        minimum="1/month",
        maximum="10/minute",
    )
    accepted_after = Duration(
        "4h",
        "An anomaly that lasts this long becomes the new baseline. Until then nothing is learned about its row.",
        minimum="10m",
        maximum="366d",
    )


class FeaturesSettings(Section, table="features"):
    """The direction in which features are anomalies."""

    rising = Words(
        "",
        "Features of which only a rise is an anomaly, each a name or its end: `latency_s`. Of a feature that is named "
        "nowhere a fall that lasts is one, too; of processes and hosts only rises are.",
    )
    falling = Words("", "Features of which only a fall is an anomaly, likewise: `availability_ratio`.")


class CpuSettings(Section, table="cpu"):
    """The operator `cpu`."""

    conditions = Words(
        "cpu,quota,io_pressure,memory_pressure",
        "What counts as high use: `cpu`, a process that uses `cpu.threshold` of all CPUs; `single_cpu`, one that uses "
        "that share of one CPU, which is ordinary where programs compute; `spikes`, one that does the former often, "
        "but for a short time; `quota`, one whose cgroup uses up its CPU quota; `io_pressure` and `memory_pressure`, "
        "a host on which tasks wait for I/O or memory, or a process in whose cgroup they do.",
        choices=("cpu", "single_cpu", "spikes", "quota", "io_pressure", "memory_pressure"),
    )
    threshold = Ratio(
        "85%",
        "From which share on the use of all CPUs is high; with `single_cpu`, that of one CPU.",
        minimum="1%",
        maximum="100%",
    )
    duration = Duration(
        "5s",
        "Use that has been high for so long is an event, which ends when it has been low again for so long. Dips that "
        "are shorter divide it into phases.",
        minimum="1s",
        maximum="1h",
    )
    quota = Ratio(
        "50%",
        "For `quota`: from which share of periods on in which it is used up a process runs out of CPU quota.",
        minimum="1%",
        maximum="100%",
    )
    io_pressure = Ratio(
        "85%",
        "For `io_pressure`: from which share of time on in which some task waits for I/O that is high.",
        minimum="1%",
        maximum="100%",
    )
    memory_pressure = Ratio("60%", "For `memory_pressure`: the same for memory.", minimum="1%", maximum="100%")
    spikes = Rate(
        "6/minute", "For `spikes`: from how many on they are frequent.", minimum="1/minute", maximum="10/minute"
    )
    smoothing: Setting[Kind] = Choice(
        "none",
        "Whether each value is taken as it is, or the `mean` over `cpu.window`, or that without outliers (`trimmed`).",
        choices=("none", "mean", "trimmed"),
    )
    window = Duration("5s", "Over how long `cpu.smoothing` takes the mean.", minimum="1s", maximum="1m")


class RiverSettings(Section, table="river"):
    """The operator `river`."""

    detector = Text(
        "HalfSpaceTrees",
        "Which of river's anomaly detectors the operator `river` runs, by the name of its class: `HalfSpaceTrees`, "
        "`LODA`, `LocalOutlierFactor`, `OneClassSVM`, `GaussianScorer`, `StandardAbsoluteDeviation`, "
        "`PredictiveAnomalyDetection`. Needs river: `pip install '.[river]'` in a checkout.",
    )
    parameters = Mapped(
        "", "Parameters of that class, as river's documentation has them: numbers, texts, true or false."
    )
    context = Duration(
        "4h",
        "How far back the model of what is usual for a counter looks; the detector sees how far it is above that.",
        minimum="1m",
        maximum="366d",
    )
    false_alarms = Rate(
        "1/day", "The false-alarm budget of a host for this operator.", minimum="1/month", maximum="10/minute"
    )
