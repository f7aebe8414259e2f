"""The values of a question, with the units that the user wrote."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from advisor.core import units
from advisor.core.budget import Budget
from advisor.core.errors import UsageError
from advisor.core.figures import HOST
from advisor.core.latency_distribution import CONFIDENCE
from advisor.core.licences import parse_licences
from advisor.core.preference import BALANCED, Preference, parse_preference
from advisor.core.training import HEAD, NONE, in_order
from advisor.engine.scheduling.storage import without_password
from advisor.isolation.cores import usable_cores

NEVER = "never"

LEAST_GAIN = 0.005
LARGE_SPACE = 100
"""Smaller spaces are searched to their end: that takes minutes, and the whole table is worth having."""


@dataclass(frozen=True)
class Request:
    """One question, with the units that the user wrote; the properties give base units.

    Attributes:
        task: ``image-classification``.
        budget: upper limit of the latency (its 90th percentile), such as ``50ms``.
        size_budget: upper limit of the artefact's size, such as ``5MB``.
        memory_budget: upper limit of the peak private memory, such as ``100MB``.
        max_drop: points that an artefact may lose against its float32 form, such as ``1pt``.
        min_accuracy: lower limit of top-1, such as ``85%``.
        data: folder of the team's pictures, in any layout; empty for none.
        device: where it is to run: ``host``, names of device profiles (``galaxy-s24``, ``galaxy-s24:qnn-npu``), or
            several joined by commas: one answer for each, and one for all.
        profiles: the team's own folders of device profiles.
        must_run_on: devices that the pick must run on as well, within the latency budget.
        licence: licences that are taken: ``permissive``, SPDX identifiers, or both joined by commas; empty for any.
        objective: what candidates are compared by: ``accuracy``, or ``robust-accuracy``, the mean over capture
            conditions.
        prefer: what counts among those that meet the budget: ``balanced``, ``accuracy``, ``latency``, ``size``, or
            weights such as ``accuracy=2,latency=1``; empty for ``balanced``.
        confidence: the probability with which a predicted latency must meet the budget, such as ``90%``, the default.
        candidates: names, families and globs of model cards; empty for all whose weights can be had.
        training: names of training recipes; empty for ``head`` with pictures and ``none`` without.
        tune_training: number of trials of fine-tuning for each card; 0 for the recipe's own hyperparameters.
        compressions: names of compression recipes; empty for the default five.
        threads: CPU thread counts; empty for 1 and all cores.
        catalog: the team's own catalogue files.
        sampler: ``advisor``, ``tpe``, ``nsga2``, ``gp`` (needs PyTorch) or ``random``.
        time_limit: stop after, such as ``10min``; empty for none.
        max_trials: stop after so many configurations; 0 for none.
        seed: seed of the split, of training and of the sampler.
        out: folder of the runs.
        offline: never open a connection.
        mirror: folder or address that holds weights, asked before all others.
        remeasure: time again what an earlier run has timed on this machine.
        storage: where the Optuna study is kept: ``journal`` or ``sqlite`` in the run folder, or ``postgresql://...``.
        executor: where the work runs: ``local``, ``ray`` or ``ray://host:port``.
        workers: how many jobs run side by side at most; 0 for one a core.
        shared_folder: of a Ray cluster, what every node sees under the same name; empty to send files through the
            object store.
        stop_below: stop when an hour more is expected to add less than this share of the front's hypervolume, such as
            ``0.5%``; ``never``; empty for 0.5 % in spaces of 100 configurations and more.
    """

    task: str = "image-classification"
    budget: str = ""
    size_budget: str = ""
    memory_budget: str = ""
    max_drop: str = ""
    min_accuracy: str = ""
    data: str = ""
    device: str = "host"
    profiles: tuple[str, ...] = ()
    must_run_on: tuple[str, ...] = ()
    licence: str = ""
    objective: str = "accuracy"
    prefer: str = ""
    confidence: str = ""
    candidates: tuple[str, ...] = ()
    training: tuple[str, ...] = ()
    tune_training: int = 0
    compressions: tuple[str, ...] = ()
    threads: tuple[int, ...] = ()
    catalog: tuple[str, ...] = ()
    sampler: str = "advisor"
    time_limit: str = ""
    max_trials: int = 0
    seed: int = 0
    out: str = "runs"
    offline: bool = False
    mirror: str = ""
    remeasure: bool = False
    storage: str = "journal"
    stop_below: str = ""
    executor: str = "local"
    workers: int = 0
    shared_folder: str = ""

    @property
    def limits(self) -> Budget:
        """The budget in base units."""
        return Budget(
            latency_ms=units.milliseconds(self.budget, "--budget") if self.budget else None,
            size_bytes=units.size_bytes(self.size_budget, "--size-budget") if self.size_budget else None,
            max_drop_points=units.points(self.max_drop, "--max-drop") if self.max_drop else None,
            min_accuracy=units.percent(self.min_accuracy, "--min-accuracy") if self.min_accuracy else None,
            memory_bytes=units.size_bytes(self.memory_budget, "--memory-budget") if self.memory_budget else None,
            licence=parse_licences(self.licence),
            must_run_on=self.must_run_on,
            confidence=self._confidence,
        )

    @property
    def _confidence(self) -> float:
        if not self.confidence:
            return CONFIDENCE
        share = units.percent(self.confidence, "--confidence") / 100
        if not 0.5 <= share <= 0.99:
            raise UsageError(
                f"--confidence: '{self.confidence}' is not between 50% and 99%",
                "predictions are calibrated up to 99%: write for example --confidence 90%",
            )
        return share

    @property
    def preference(self) -> Preference:
        """What counts among the candidates that meet the budget."""
        return parse_preference(self.prefer) if self.prefer else BALANCED

    @property
    def devices(self) -> tuple[str, ...]:
        """Where it is to run, each once, in the order given."""
        names = (part.strip() for part in self.device.split(","))
        return tuple(dict.fromkeys(name for name in names if name)) or (HOST,)

    @property
    def trainings(self) -> tuple[str, ...]:
        """The training recipes, the lightest first; fine-tuning starts from a head, which is therefore among them."""
        if not self.data:
            return (NONE,)
        return in_order((HEAD, *self.training))

    @property
    def time_limit_s(self) -> float | None:
        """The time limit in seconds, or None."""
        return units.seconds(self.time_limit, "--time-limit") if self.time_limit else None

    def least_gain(self, configurations: int) -> float | None:
        """Return the share of the hypervolume below which an hour more is not worth it, or None to go on to the end.

        Args:
            configurations: size of the search space.
        """
        if self.stop_below:
            return None if self.stop_below == NEVER else units.percent(self.stop_below, "--stop-below") / 100
        return LEAST_GAIN if self.sampler == "advisor" and configurations >= LARGE_SPACE else None

    @property
    def cores(self) -> int:
        """How many jobs run side by side on this machine."""
        return self.workers or usable_cores()

    @property
    def thread_counts(self) -> tuple[int, ...]:
        """The CPU thread counts to measure, ascending."""
        return tuple(sorted(set(self.threads or (1, usable_cores()))))

    def to_dict(self) -> dict[str, Any]:
        """Return the request with the keys and values of a request file; a password is not among them."""
        values = {**asdict(self), "storage": without_password(self.storage)}
        return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}
