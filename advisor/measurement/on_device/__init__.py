"""The results of ``advisor benchmark --device`` as values: a row for each file and thread count."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from advisor.core.codec import Written
from advisor.core.quantity import Quantity
from advisor.measurement.latency import LatencyResult, Ratio
from advisor.measurement.microcontrollers import MicroCheck

if TYPE_CHECKING:
    from advisor.measurement.delegation import Delegation


@dataclass(frozen=True)
class OutputAgreement:
    """Comparison of an accelerator's outputs with those of the CPU, for the same inputs.

    Attributes:
        largest_difference: largest difference of an output value, in the unit of the output (steps for 8-bit outputs).
        output_range: difference between the CPU's largest and smallest value.
        same_answer: whether the largest value has the same index.
        alike: whether the difference is at most a few percent of the range.
        whole: whether the accelerator runs the whole file.
    """

    largest_difference: float
    output_range: float
    same_answer: bool
    alike: bool
    whole: bool


@dataclass(frozen=True)
class DeviceRow(Written):
    """One file at one thread count on the device.

    Attributes:
        model: the file's path as given.
        threads: number of threads; 0 on an accelerator.
        size_bytes: size of the file.
        arena_bytes: memory that its activations need at once, computed from their lifetimes; on TensorFlow Lite Micro
            the whole tensor arena.
        latency: measured or predicted latency; None if it failed.
        failure: reason of the failure, empty if there is none.
        form: form of the file in a prediction, empty for a measurement.
        runtime: runtime of a measurement, empty for a prediction.
        result: evaluation of the agent's runs; None for a prediction or another tool.
        first_ms: time of the first run, None if not known.
        load_ms: time to load the file, None if not known.
        memory_bytes: memory that the file added, None if not known.
        page_bytes: what a page downloads to run the file in a browser; None elsewhere.
        throttled: by how much the device slowed down, in words; empty if it did not.
        reason: remark about the latency.
        agreement: comparison of an accelerator's outputs with the CPU's, None if they were not compared.
        micro: what TensorFlow Lite Micro does with the file on this machine; None of other devices.
        device: the device, if the rows are of several; empty if all are of one.
    """

    entries = ("*", "failure=failure?", "status")

    model: str
    threads: int
    size_bytes: int
    arena_bytes: int
    latency: Quantity | None = None
    failure: str = ""
    form: str = ""
    runtime: str = ""
    result: LatencyResult | None = None
    first_ms: float | None = None
    load_ms: float | None = None
    memory_bytes: int | None = None
    page_bytes: int | None = None
    throttled: str = ""
    reason: str = ""
    agreement: OutputAgreement | None = None
    micro: MicroCheck | None = None
    device: str = ""

    @property
    def checked_only(self) -> bool:
        """True if the outputs were compared but no latency is given."""
        return self.latency is None and self.agreement is not None

    @property
    def status(self) -> str:
        """``failed``, ``throttled``, ``checked``, the verdict of a measurement, or the provenance of the figure."""
        if self.checked_only:
            return "checked"
        if self.latency is None:
            return "failed"
        if self.throttled:
            return "throttled"
        return self.result.verdict.value if self.result else self.latency.provenance.value


@dataclass(frozen=True)
class DeviceBenchmark(Written):
    """One run of ``advisor benchmark --device``.

    Attributes:
        device: name of the profile.
        target: name of the target; empty for several runtimes of this machine.
        connection: label of the connection, empty if the figures are predicted.
        effort: name of the effort.
        rows: one for each file and thread count, in the given order.
        ratios: each further file relative to the first, if they ran in one job.
        delegations: delegation of each file to the target's accelerator, by the file's path.
        notes: notes for the reader.
    """

    entries = (
        "schema_version", "device", "target", "connection=connection?", "effort", "rows", "ratios", "accelerators",
        "notes",
    )  # fmt: skip
    schema_version = 1

    device: str
    target: str
    connection: str
    effort: str
    rows: tuple[DeviceRow, ...]
    ratios: tuple[Ratio, ...]
    delegations: tuple[tuple[str, Delegation], ...]
    notes: tuple[str, ...]

    @property
    def accelerators(self) -> tuple[dict[str, object], ...]:
        """The delegation of each file to the target's accelerator, as entries of a document."""
        return tuple({"model": model, **delegation.to_json()} for model, delegation in self.delegations)

    @property
    def failed(self) -> tuple[DeviceRow, ...]:
        """The rows that could not be measured."""
        return tuple(row for row in self.rows if row.failure)
