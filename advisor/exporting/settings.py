"""Settings to run a file with on each of its devices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from advisor.core.evaluation import Evaluation
from advisor.core.evaluation_facts import DeviceFigures
from advisor.core.worst_case import figures_of

DELEGATES: Mapping[str, str] = MappingProxyType(
    {"cpu": "--use_xnnpack=true", "gpu": "--use_gpu=true", "npu": "--use_nnapi=true"}
)
"""Options of ``benchmark_model`` that put a model on an accelerator (its own help text)."""


@dataclass(frozen=True)
class Setting:
    """Settings for one device.

    Attributes:
        device: its name.
        runtime: runtime and version that the latency belongs to.
        accelerator: what it runs on.
        threads: CPU threads.
        latency_ms: median, None where it is not known.
        provenance: origin of the latency.
        budget_probability: probability of meeting the latency budget, None for a measured latency.
    """

    device: str
    runtime: str
    accelerator: str
    threads: int
    latency_ms: float | None
    provenance: str
    budget_probability: float | None

    @property
    def options(self) -> str:
        """Options of ``benchmark_model`` for this setting."""
        delegate = DELEGATES.get(self.accelerator, DELEGATES["cpu"])
        return f"--num_threads={self.threads} {delegate} --warmup_runs=10 --num_runs=200 --max_secs=30"


def settings(evaluation: Evaluation) -> tuple[Setting, ...]:
    """Return the setting for every device that the evaluation's file runs on; the evaluation's own device is first."""
    own = evaluation.configuration.target.device
    known = {own: figures_of(evaluation), **evaluation.device_figures, **(evaluation.required_figures or {})}
    return tuple(_setting(device, figures) for device, figures in known.items() if not figures.reason)


def _setting(device: str, figures: DeviceFigures) -> Setting:
    return Setting(
        device=device,
        runtime=figures.runtime,
        accelerator=figures.accelerator or "cpu",
        threads=figures.threads,
        latency_ms=figures.latency_ms,
        provenance=figures.provenance,
        budget_probability=figures.budget_probability,
    )
