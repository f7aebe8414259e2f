"""How a file is to be run on each device that it is meant for, as measured or predicted best."""

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
    """One device.

    Attributes:
        device: its name.
        runtime: runtime and version that the latency belongs to.
        accelerator: what it runs on.
        threads: CPU threads.
        latency_ms: median, None where it is not known.
        provenance: where that comes from.
        chance: probability to meet the latency budget, None for what was measured.
    """

    device: str
    runtime: str
    accelerator: str
    threads: int
    latency_ms: float | None
    provenance: str
    chance: float | None

    @property
    def options(self) -> str:
        """The options of ``benchmark_model`` that set this."""
        delegate = DELEGATES.get(self.accelerator, DELEGATES["cpu"])
        return f"--num_threads={self.threads} {delegate} --warmup_runs=10 --num_runs=200 --max_secs=30"


def settings(evaluation: Evaluation) -> tuple[Setting, ...]:
    """Return the setting on every device that the evaluation's file is known to run on; its own device first."""
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
        chance=figures.budget_probability,
    )
