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

    context = Duration("4h", "The time over which the baseline looks back.", minimum="1m", maximum="366d")
    minimum_features = Count(
        "10", "A row is scored only if at least this many of its features vary.", minimum="1", maximum="10000"
    )
    likelihood: Setting[Likelihood] = Choice(
        "scale_free",
        "The score of a value: `scale_free`, by its deviation alone, whatever its unit; or `paper`, by the "
        "likelihood of the paper behind this operator.",
        choices=("scale_free", "paper"),
    )
    false_alarms = Rate(
        "1/day",
        "The false-alarm budget of a host: the anomalies to expect without any fault.",
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
        "Features of which only a rise is an anomaly of `gaussian`, each a name or its end, such as `latency_s`. For "
        "features in neither list a lasting fall is an anomaly, too, except for those of processes and hosts.",
    )
    falling = Words("", "Features of which only a fall is an anomaly, likewise, such as `availability_ratio`.")


class CpuSettings(Section, table="cpu"):
    """The operator `cpu`."""

    conditions = Words(
        "cpu,quota,io_pressure,memory_pressure",
        "The conditions of prolonged use. `cpu`: a process uses `cpu.threshold` of all CPUs. `single_cpu`: it uses "
        "that share of one CPU, which is normal for programs that compute. `spikes`: it uses much CPU often, for a "
        "short time each. `quota`: its cgroup runs out of CPU quota. `io_pressure` and `memory_pressure`: tasks of "
        "the host, or of the cgroup of a process, wait for I/O or memory.",
        choices=("cpu", "single_cpu", "spikes", "quota", "io_pressure", "memory_pressure"),
    )
    threshold = Ratio(
        "85%",
        "The share of all CPUs (of one CPU for `single_cpu`) from which use is high.",
        minimum="1%",
        maximum="100%",
    )
    duration = Duration(
        "5s",
        "Use that is high for this time is an event. The event ends when use is low for this time. Shorter dips "
        "divide it into phases.",
        minimum="1s",
        maximum="1h",
    )
    quota = Ratio(
        "50%",
        "For `quota`: the share of periods with a used-up quota from which a process runs out of CPU quota.",
        minimum="1%",
        maximum="100%",
    )
    io_pressure = Ratio(
        "85%",
        "For `io_pressure`: the share of time in which some task waits for I/O from which pressure is high.",
        minimum="1%",
        maximum="100%",
    )
    memory_pressure = Ratio("60%", "For `memory_pressure`: the same for memory.", minimum="1%", maximum="100%")
    spikes = Rate(
        "6/minute", "For `spikes`: the rate from which spikes are frequent.", minimum="1/minute", maximum="10/minute"
    )
    smoothing: Setting[Kind] = Choice(
        "none",
        "The smoothing of values: `none`, their `mean` over `cpu.window`, or their mean without outliers (`trimmed`).",
        choices=("none", "mean", "trimmed"),
    )
    window = Duration("5s", "The window of `cpu.smoothing`.", minimum="1s", maximum="1m")


class RiverSettings(Section, table="river"):
    """The operator `river`."""

    detector = Text(
        "HalfSpaceTrees",
        "The anomaly detector of river, by the name of its class: `HalfSpaceTrees`, `LODA`, `LocalOutlierFactor`, "
        "`OneClassSVM`, `GaussianScorer`, `StandardAbsoluteDeviation`, `PredictiveAnomalyDetection`. Needs river: "
        "`pip install '.[river]'` in a checkout.",
    )
    parameters = Mapped("", "Parameters of that class, see river's documentation: numbers, texts, true or false.")
    context = Duration(
        "4h",
        "The time over which the baseline of a counter looks back. The detector sees the deviation from it.",
        minimum="1m",
        maximum="366d",
    )
    false_alarms = Rate(
        "1/day", "The false-alarm budget of a host for this operator.", minimum="1/month", maximum="10/minute"
    )
