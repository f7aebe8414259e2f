"""Everything that a report shows, as one value: filled by the search, read by every renderer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from advisor.compression.diagnosis.values import Diagnosis
from advisor.core.budget import Budget
from advisor.core.decision import Decision
from advisor.core.evaluation import Evaluation, Status


@dataclass(frozen=True)
class RejectedImage:
    """A file of the data folder that is not used, and why."""

    path: str
    reason: str


@dataclass(frozen=True)
class DatasetSummary:
    """The user's pictures in figures.

    Attributes:
        folder: where they were read from.
        images_per_class: class name to its number of usable pictures, in label order.
        train: pictures that were learnt from while candidates were compared.
        holdout: pictures that finalists were judged on.
        rejected: files left out.
        fingerprint: hash over the pictures and their labels.
        validation: images that candidates were compared on.
        own_split: the parts that the user's own split named.
        leaks: pictures and groups that this split puts on several sides.
    """

    folder: str
    images_per_class: Mapping[str, int]
    train: int
    holdout: int
    rejected: tuple[RejectedImage, ...] = ()
    fingerprint: str = ""
    validation: int = 0
    own_split: tuple[str, ...] = ()
    leaks: int = 0

    @property
    def classes(self) -> tuple[str, ...]:
        """Class names in label order."""
        return tuple(self.images_per_class)

    @property
    def images(self) -> int:
        """Number of usable pictures."""
        return sum(self.images_per_class.values())

    @property
    def leaking(self) -> str:
        """What is to be said of a split that leaks, empty where it does not."""
        if not self.leaks:
            return ""
        what = "1 picture or group lies" if self.leaks == 1 else f"{self.leaks} pictures or groups lie"
        return f"{what} on several sides of your own split, so the figures flatter: dataset.json names them."


@dataclass(frozen=True)
class RunView:
    """One run as the reports show it.

    Attributes:
        name: the run folder's name, such as ``20260131-1200-image-classification``.
        folder: path of the run folder as the user would type it.
        request: the resolved request (task, budget strings, data folder, device, time limit, seed, ...).
        manifest: ``command_line`` (the arguments), ``versions`` (name to version), ``durations`` (stage to seconds),
            ``weights`` (card to hash and source), ``without_weights`` (card to reason), ``host``, ``seeds``,
            ``data_fingerprint``, ...; unknown entries are shown too.
        budget: the limits in base units.
        dataset: the user's pictures, or None where the run had none.
        evaluations: all of them, whatever became of each.
        decision: the answer; of several devices, the one model for all of them.
        by_device: the answer for each device by its name, where there are several.
        next_command: what the user should type next; empty for none.
        diagnoses: why a form loses, by its configuration's key.
    """

    name: str
    request: Mapping[str, Any]
    manifest: Mapping[str, Any]
    budget: Budget
    evaluations: tuple[Evaluation, ...]
    decision: Decision
    by_device: Mapping[str, Decision] = field(default_factory=dict)
    dataset: DatasetSummary | None = None
    folder: str = ""
    next_command: str = ""
    diagnoses: Mapping[str, Diagnosis] = field(default_factory=dict)

    @property
    def ok(self) -> tuple[Evaluation, ...]:
        """Evaluations that ran to the end."""
        return self.with_status(Status.OK)

    def with_status(self, status: Status) -> tuple[Evaluation, ...]:
        """Evaluations with ``status``."""
        return tuple(evaluation for evaluation in self.evaluations if evaluation.status is status)

    @property
    def front_keys(self) -> frozenset[str]:
        """Keys of the evaluations on the front, and of several devices on that of each."""
        decisions = (self.decision, *self.by_device.values())
        return frozenset(evaluation.configuration.key for own in decisions for evaluation in own.front)

    @property
    def device_picks(self) -> frozenset[str]:
        """Keys of the picks of single devices, where there are several."""
        picks = [decision.pick for decision in self.by_device.values() if decision.feasible]
        return frozenset(pick.configuration.key for pick in picks if pick is not None)

    @property
    def tie_keys(self) -> frozenset[str]:
        """Keys of the evaluations whose accuracy cannot be told from the pick's."""
        return frozenset(evaluation.configuration.key for evaluation in self.decision.ties)

    @property
    def pick_key(self) -> str:
        """Key of the pick, empty where there is none."""
        return self.decision.pick.configuration.key if self.decision.pick else ""


@dataclass(frozen=True)
class Figure:
    """A labelled figure with a remark, as the cards show it."""

    label: str
    value: str
    remark: str = ""
    share_of_limit: float | None = field(default=None)
    """Figure divided by its limit (1 = just met), None without a limit of this kind."""
