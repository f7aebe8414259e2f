"""The results of ``advisor benchmark --device`` as values: a row for each file and thread count.

The entries are keys of the JSON document that the command prints; ``status`` is one of its words.
"""

from dataclasses import dataclass

from advisor.core import Quantity, Written
from advisor.devices import SOURCE
from advisor.measurement._delegation import Delegation
from advisor.measurement._latency import LatencyResult, Ratio
from advisor.measurement._microcontrollers import MicroCheck


@dataclass(frozen=True)
class OutputAgreement:
    """Comparison of an accelerator's outputs with those of the CPU, for the same inputs."""

    #: largest difference of an output value, in the unit of the output (steps for 8-bit outputs)
    largest_difference: float
    output_range: float  #: difference between the CPU's largest and smallest value
    same_answer: bool  #: whether the largest value has the same index
    alike: bool  #: whether the difference is at most a few percent of the range
    whole: bool  #: whether the accelerator runs the whole file


@dataclass(frozen=True)
class DeviceRow(Written):
    """One file at one thread count on the device."""

    entries = ("*", "failure=failure?", "status")

    model: str  #: the file's path as given
    threads: int  #: number of threads; 0 on an accelerator
    size_bytes: int  #: size of the file
    #: memory that its activations need at once, computed from their lifetimes;
    #: on TensorFlow Lite Micro the whole tensor arena
    arena_bytes: int
    latency: Quantity | None = None  #: measured or predicted latency; None if it failed
    failure: str = ""  #: reason of the failure, empty if there is none
    form: str = ""  #: form of the file in a prediction, empty for a measurement
    runtime: str = ""  #: runtime of a measurement, empty for a prediction
    #: evaluation of the agent's runs; None for a prediction or another tool
    result: LatencyResult | None = None
    first_ms: float | None = None  #: time of the first run, None if not known
    load_ms: float | None = None  #: time to load the file, None if not known
    memory_bytes: int | None = None  #: memory that the file added, None if not known
    #: what a page downloads to run the file in a browser; None elsewhere
    page_bytes: int | None = None
    throttled: str = ""  #: by how much the device slowed down, in words; empty if it did not
    reason: str = ""  #: remark about the latency
    #: comparison of an accelerator's outputs with the CPU's, None if they were not compared
    agreement: OutputAgreement | None = None
    #: what TensorFlow Lite Micro does with the file on this machine; None of other devices
    micro: MicroCheck | None = None
    device: str = ""  #: the device, if the rows are of several; empty if all are of one

    @property
    def checked_only(self) -> bool:
        """True if the outputs were compared but no latency is given."""
        return self.latency is None and self.agreement is not None

    @property
    def status(self) -> str:
        """``failed``, ``throttled``, ``checked``, the verdict of a measurement,
        or the provenance of the figure.
        """
        if self.checked_only:
            return "checked"
        if self.latency is None:
            return "failed"
        if self.throttled:
            return "throttled"
        return self.result.verdict.value if self.result else self.latency.provenance.value


@dataclass(frozen=True)
class DeviceBenchmark(Written):
    """One run of ``advisor benchmark --device``."""

    entries = (
        "schema_version",
        "device",
        "target",
        "connection=connection?",
        "effort",
        "rows",
        "ratios",
        "accelerators",
        "notes",
    )
    schema_version = 1

    device: str  #: name of the profile
    target: str  #: name of the target; empty for several runtimes of this machine
    connection: str  #: label of the connection, empty if the figures are predicted
    effort: str  #: name of the effort
    rows: tuple[DeviceRow, ...]  #: one for each file and thread count, in the given order
    ratios: tuple[Ratio, ...]  #: each further file relative to the first, if they ran in one job
    #: delegation of each file to the target's accelerator, by the file's path
    delegations: tuple[tuple[str, Delegation], ...]
    notes: tuple[str, ...]  #: notes for the reader

    @property
    def accelerators(self) -> tuple[dict[str, object], ...]:
        """The delegation of each file to the target's accelerator, as entries of a document."""
        entries = []
        for model, delegation in self.delegations:
            entries.append({"model": model, **delegation.to_json()})
        return tuple(entries)

    @property
    def basis(self) -> str:
        """The source of predicted latencies, in words."""
        latencies = [row.latency for row in self.rows if row.latency]
        if any(latency.source.startswith(SOURCE) for latency in latencies):
            return SOURCE
        return "measurements of other models on this and similar devices"

    @property
    def failed(self) -> tuple[DeviceRow, ...]:
        """The rows that could not be measured."""
        return tuple(row for row in self.rows if row.failure)
