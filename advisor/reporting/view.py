"""All content of a report as one value, which every renderer reads."""

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
    """A file of the data folder that is not used, and the reason."""

    path: str
    reason: str


@dataclass(frozen=True)
class DatasetSummary:
    """The user's images in numbers.

    Attributes:
        folder: where they were read from.
        images_per_class: class name to its number of usable images, in label order.
        train: images that candidates were trained on for the comparison.
        validation: images that candidates were compared on.
        holdout: images that finalists were tested on.
        rejected: files that are not used.
        fingerprint: hash over the images and their labels.
        own_split: the parts that the user's own split names.
        leaks: images and groups that this split puts into several parts.
    """

    folder: str
    images_per_class: Mapping[str, int]
    train: int
    validation: int
    holdout: int
    rejected: tuple[RejectedImage, ...] = ()
    fingerprint: str = ""
    own_split: tuple[str, ...] = ()
    leaks: int = 0

    @property
    def classes(self) -> tuple[str, ...]:
        """Class names in label order."""
        return tuple(self.images_per_class)

    @property
    def images(self) -> int:
        """Number of usable images."""
        return sum(self.images_per_class.values())

    @property
    def leaking(self) -> str:
        """A warning about a split that leaks, empty where it does not."""
        if not self.leaks:
            return ""
        what = "1 image or group is" if self.leaks == 1 else f"{self.leaks} images or groups are"
        return f"{what} in several parts of your own split, so the accuracies are too high: see dataset.json."


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
        dataset: the user's images, or None where the run had none.
        evaluations: all of them, whatever their status.
        decision: the answer; for several devices, one model for all of them.
        by_device: the answer for each device alone, where there are several.
        next_command: the command to run next; empty for none.
        diagnoses: why a compressed file loses accuracy, by its configuration's key.
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
        """Keys of the evaluations on the front; for several devices, on any of their fronts."""
        decisions = (self.decision, *self.by_device.values())
        return frozenset(evaluation.configuration.key for own in decisions for evaluation in own.front)

    @property
    def device_picks(self) -> frozenset[str]:
        """Keys of the picks of single devices, where there are several."""
        picks = [decision.pick for decision in self.by_device.values() if decision.feasible]
        return frozenset(pick.configuration.key for pick in picks if pick is not None)

    @property
    def tie_keys(self) -> frozenset[str]:
        """Keys of the evaluations that are tied in accuracy with the most accurate."""
        return frozenset(evaluation.configuration.key for evaluation in self.decision.ties)

    @property
    def pick_key(self) -> str:
        """Key of the pick, empty where there is none."""
        return self.decision.pick.configuration.key if self.decision.pick else ""


@dataclass(frozen=True)
class Figure:
    """A labelled figure with a remark, for the cards of the page."""

    label: str
    value: str
    remark: str = ""
    share_of_limit: float | None = field(default=None)
    """Figure divided by its limit (1 = just met), None without a limit of this kind."""
