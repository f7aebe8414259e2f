"""What ``advisor benchmark --device`` finds, as values: one row a file and thread count."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from advisor.core.quantity import Quantity
from advisor.measurement.accelerators.delegation import Delegation
from advisor.measurement.latency.findings import SCHEMA_VERSION, latency_json
from advisor.measurement.latency.results import LatencyResult, Ratio


@dataclass(frozen=True)
class Agreement:
    """An accelerator's outputs against those of the CPU's kernels, on the same inputs.

    Attributes:
        largest_difference: of any output value, in the output's own units (steps for 8-bit outputs).
        output_range: from the CPU's smallest value to its largest.
        same_answer: the largest value is at the same place.
        alike: the difference is a few percent of the range at most.
        whole: the accelerator took the file whole.
    """

    largest_difference: float
    output_range: float
    same_answer: bool
    alike: bool
    whole: bool


@dataclass(frozen=True)
class DeviceRow:
    """One file at one thread count on the device.

    Attributes:
        model: the file's path as given.
        threads: number of threads; 0 on an accelerator.
        size_bytes: size of the file.
        arena_bytes: memory that its activations need at once, computed from their lifetimes.
        latency: measured or predicted; None where it failed.
        failure: why, empty where it did not.
        form: what the prediction took the file for, empty for a measurement.
        runtime: what ran it, empty for a prediction.
        result: the agent's runs, judged; None for a prediction and where another tool measured.
        first_ms: the first run, None where not known.
        load_ms: loading, None where not known.
        memory_bytes: memory that it added, None where not known.
        throttled: by how much the device slowed down meanwhile, empty where it did not.
        reason: what the reader must know of the figure.
        agreement: an accelerator's outputs against the CPU's, None where they were not compared.
    """

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
    throttled: str = ""
    reason: str = ""
    agreement: Agreement | None = None

    @property
    def checked_only(self) -> bool:
        """True where the outputs were compared and no speed is told."""
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

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        plain = {**asdict(self), "status": self.status, "failure": self.failure or None}
        latency = self.latency.to_json() if self.latency else None
        return {**plain, "latency": latency, "result": latency_json(self.result) if self.result else None}


@dataclass(frozen=True)
class DeviceBenchmark:
    """One run of ``advisor benchmark --device``.

    Attributes:
        device: name of the profile.
        target: name of the target.
        connection: how it was reached, empty where the figures are predicted.
        effort: name of the effort.
        rows: one a file and thread count, in the order given.
        ratios: each further file against the first, where they ran in one job.
        delegations: what the target's accelerator would take of each file, by the file's path.
        notes: what the reader must know.
    """

    device: str
    target: str
    connection: str
    effort: str
    rows: tuple[DeviceRow, ...]
    ratios: tuple[Ratio, ...]
    delegations: tuple[tuple[str, Delegation], ...]
    notes: tuple[str, ...]

    @property
    def failed(self) -> tuple[DeviceRow, ...]:
        """The rows that could not be measured."""
        return tuple(row for row in self.rows if row.failure)

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        return {
            "schema_version": SCHEMA_VERSION,
            "device": self.device,
            "target": self.target,
            "connection": self.connection or None,
            "effort": self.effort,
            "rows": [row.to_json() for row in self.rows],
            "ratios": [{**asdict(row), "differs": row.differs} for row in self.ratios],
            "accelerators": [{"model": model, **told.to_json()} for model, told in self.delegations],
            "notes": list(self.notes),
        }
