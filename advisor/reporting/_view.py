"""All content of a report as one value, read from a run folder, which every renderer reads.

:meth:`RunView.load` reads a folder, and :meth:`RunView.of_run` a run that is loaded; nothing else
in this room reads the files of a run but the list of runs. :class:`ReportPart` is the contract of
rooms that add a section, such as the fleet.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from advisor.core import (
    HOST,
    METRICS,
    Decision,
    Evaluation,
    Limits,
    Metric,
    Provenance,
    Status,
    TaskFacts,
    list_registered,
    load_integration,
)
from advisor.datasets import DEMO_NOTE, SplitPart, copies_sentence
from advisor.engine import (
    Insights,
    LoadedRun,
    Request,
    continue_command,
)
from advisor.reporting._frames import evaluations_frame
from advisor.reporting._looser_limits import make_looser_command
from advisor.store import RunFolder

if TYPE_CHECKING:
    import pandas as pd

    from advisor.core import Diagnosis
    from advisor.reporting._blocks import Block

REPORT_PARTS = "advisor.report_parts"
"""Entry points of :class:`ReportPart`:
modules or objects, by the name of their entry in ``recommendation.json``.
"""


@dataclass(frozen=True)
class DatasetSummary:
    """The user's images in numbers: of each class in label order, and of each part of the split.

    Candidates were trained on ``train``, compared on ``validation``, and finalists tested on
    ``holdout``. ``rejected`` are the files that are not used, each with ``path`` and ``reason``.
    The user's own split names the parts ``own_split``. Of the images of validation and the
    hold-out, ``copies`` judge nothing, as copies of them are learnt from; ``leaks`` images and
    groups are in several parts and judge. Mappings are empty where images have no boxes or groups,
    or where the split is not known; ``notes`` say what a reader may not expect of it.
    """

    folder: str
    images_per_class: Mapping[str, int]
    train: int
    validation: int
    holdout: int
    rejected: tuple[Mapping[str, str], ...] = ()
    own_split: tuple[str, ...] = ()
    leaks: int = 0
    copies: Mapping[str, int] = field(default_factory=dict)
    validated_per_class: Mapping[str, int] = field(default_factory=dict)
    held_out_per_class: Mapping[str, int] = field(default_factory=dict)
    groups_per_class: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    boxes_per_class: Mapping[str, int] = field(default_factory=dict)

    @property
    def per_class(self) -> Mapping[str, int]:
        """Class name to its number of boxes, or of images where there are no boxes."""
        return self.boxes_per_class or self.images_per_class

    @property
    def counted(self) -> str:
        """The images, and the boxes if there are any, in numbers."""
        boxes = f", {sum(self.boxes_per_class.values()):,} boxes" if self.boxes_per_class else ""
        return f"{self.images}{boxes}"

    @property
    def classes(self) -> tuple[str, ...]:
        """Class names in label order."""
        return tuple(self.per_class)

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
        return (
            f"{what} in several parts of your own split, so the accuracies are too high: see"
            " dataset.json."
        )

    @property
    def copied(self) -> str:
        """The number of images that judge nothing, as copies of them are learnt from, in words;
        empty if all judge.
        """
        return copies_sentence(
            self.copies, {SplitPart.VALIDATION: self.validation, SplitPart.HOLDOUT: self.holdout}
        )


@dataclass(frozen=True)
class RunView:
    """One run as the reports show it.

    Attributes:
        name: the run folder's name, such as ``20260131-1200-image-classification``.
        request: the question, and how it was answered; ``written`` has them in the user's words.
        manifest: ``command_line`` (the arguments), ``versions`` (name to version), ``durations``
            (stage to seconds), ``weights`` (card to hash and source), ``without_weights`` (card to
            reason), ``host``, ``seeds``, ``data_fingerprint``, ...; unknown entries are shown too.
        limits: the limits in base units.
        evaluations: all of them, whatever their status.
        decision: the answer; for several devices, one model for all of them.
        by_device: the answer for each device alone, where there are several.
        dataset: the user's images, or None where the run had none.
        folder: path of the run folder as the user would type it.
        next_topic: what to do next, in few words; empty for nothing.
        next_command: the command that does it; empty for none.
        insights: what the run shows beside its decision.
        images: the folder that paths of images are relative to; None to show no image.
        problems: what of the run folder does not prove itself.
    """

    name: str
    request: Request
    manifest: Mapping[str, Any]
    limits: Limits
    evaluations: tuple[Evaluation, ...]
    decision: Decision
    by_device: Mapping[str, Decision] = field(default_factory=dict)
    dataset: DatasetSummary | None = None
    folder: str = ""
    next_topic: str = ""
    next_command: str = ""
    insights: Insights = field(default_factory=Insights)
    images: Path | None = None
    problems: tuple[str, ...] = ()

    @classmethod
    def load(cls, run: RunFolder, running: bool = False) -> RunView:
        """Read a run folder, however far it came, and decide;
        a damaged request is a ``UsageError``.

        ``running`` says that the search that fills it calls this.
        """
        return cls.of_run(LoadedRun.load(run), running)

    @classmethod
    def of_run(cls, run: LoadedRun, running: bool = False) -> RunView:
        """Return the content of the reports of a run, whose search is ``running`` or not."""
        folder = make_typed_path(run.folder.path)
        insights = Insights.of_run(run, running)
        unfinished = insights.unfinished
        decision = run.decision
        if unfinished and decision.pick is None:
            decision = replace(decision, reason="No candidate has a result yet.")
        topic, command = ("", "") if unfinished else _find_next_step(folder, run)
        # A search that runs replaces its files meanwhile.
        problems = () if running else tuple(map(str, run.problems))
        return cls(
            name=run.name,
            request=run.request,
            manifest=run.manifest,
            limits=run.question.limits,
            evaluations=run.evaluations,
            decision=decision,
            by_device=run.by_device,
            dataset=summary_of(run),
            folder=folder,
            next_topic=topic,
            next_command=command,
            insights=insights,
            images=run.images_folder,
            problems=problems,
        )

    @property
    def classes(self) -> tuple[str, ...]:
        """Class names of the user's images in label order; empty without images."""
        return self.dataset.classes if self.dataset else ()

    @property
    def remarks(self) -> tuple[str, ...]:
        """Probable errors in the description of users' own files."""
        written = self.manifest.get("remarks")
        return tuple(map(str, written)) if isinstance(written, list) else ()

    @property
    def demonstration(self) -> str:
        """A sentence that says that the images are those of a demonstration;
        empty for a user's own.
        """
        return DEMO_NOTE if self.dataset and DEMO_NOTE in self.dataset.notes else ""

    @property
    def task(self) -> TaskFacts:
        """The facts of the run's task, with the metric of its question."""
        return self.request.question.of_task

    @property
    def counted(self) -> Metric:
        """The metric of a classifier that the question asks for."""
        return METRICS[self.request.question.metric]

    @property
    def other_metric(self) -> str:
        """Label of the metric that the user chose for accuracy; empty for top-1."""
        return "" if self.counted.name == Metric.TOP1 else self.counted.label

    @property
    def metric(self) -> str:
        """Name of the metric that accuracy is in this run, such as top-1."""
        return self.task.metric

    def unknown_conditions(self, evaluation: Evaluation) -> str:
        """Return why the accuracy on another visit, camera or day is unknown;
        empty where it is known.

        It is also empty where no accuracy was measured on the user's images. Tasks without one
        class for each image have no estimate, see docs/decisions/0051: of them, only the figure of
        the user's own hold-out is known.
        """
        if evaluation.in_unknown_conditions:
            return "your images name no visits, cameras or days"
        if (
            self.task.labelled
            or self.dataset is None
            or SplitPart.HOLDOUT in self.dataset.own_split
        ):
            return ""
        accuracy = evaluation.accuracy
        if accuracy is None or accuracy.provenance is not Provenance.MEASURED:
            return ""
        return "no figure is estimated for this task"

    @property
    def typed_folder(self) -> str:
        """The path of the run folder as a word of a shell, for commands."""
        return shlex.quote(self.folder)

    @property
    def only_here(self) -> bool:
        """True if the question names no device: then this machine was held against the limits."""
        return self.request.question.devices == (HOST,) and not self.limits.must_run_on

    @property
    def unfinished_sentence(self) -> str:
        """The share of the search that is done, in words; empty if it has ended."""
        unfinished = self.insights.unfinished
        return unfinished.sentence(self.folder) if unfinished else ""

    @property
    def ok(self) -> tuple[Evaluation, ...]:
        """Evaluations that ran to the end."""
        return self.with_status(Status.OK)

    def to_frame(self) -> pd.DataFrame:
        """Return every evaluation as a row of a table, see :meth:`advisor.Run.to_frame`."""
        return evaluations_frame(self, self.evaluations)

    def with_status(self, status: Status) -> tuple[Evaluation, ...]:
        """Evaluations with ``status``."""
        return tuple(evaluation for evaluation in self.evaluations if evaluation.status is status)

    @cached_property
    def front_keys(self) -> frozenset[str]:
        """Keys of the evaluations on the front; for several devices, on any of their fronts."""
        keys = set[str]()
        for decision in (self.decision, *self.by_device.values()):
            for evaluation in decision.front:
                keys.add(evaluation.configuration.key)
        return frozenset(keys)

    @cached_property
    def device_picks(self) -> frozenset[str]:
        """Keys of the picks of single devices, where there are several."""
        keys = set[str]()
        for decision in self.by_device.values():
            if decision.feasible and decision.pick is not None:
                keys.add(decision.pick.configuration.key)
        return frozenset(keys)

    @cached_property
    def tie_keys(self) -> frozenset[str]:
        """Keys of the evaluations that are tied in accuracy with the most accurate."""
        return frozenset(evaluation.configuration.key for evaluation in self.decision.ties)

    @cached_property
    def pick_key(self) -> str:
        """Key of the pick, empty where there is none."""
        return self.decision.pick.configuration.key if self.decision.pick else ""

    @property
    def diagnosed(self) -> tuple[tuple[Evaluation, Diagnosis], ...]:
        """The evaluations with a diagnosis of their file."""
        pairs = []
        for row in self.ok:
            diagnosis = self.insights.diagnoses.get(row.configuration.key)
            if diagnosis is not None:
                pairs.append((row, diagnosis))
        return tuple(pairs)


class ReportPart(Protocol):
    """A part of the reports that another room adds:
    a section, and an entry in ``recommendation.json``.
    """

    TITLE: str
    """Title of the section."""

    def blocks(self, view: RunView) -> Sequence[Block]:
        """Return the content of the section; nothing if the run has none.
        A terminal shows the first label only.
        """

    def document(self, view: RunView) -> object:
        """Return the content for programs, plain JSON values; None if the run has none."""


def report_parts() -> Mapping[str, ReportPart]:
    """Return the parts that other rooms add, in alphabetical order."""
    return {name: load_integration(REPORT_PARTS, name) for name in list_registered(REPORT_PARTS)}


def make_typed_path(path: Path) -> str:
    """Return the path relative to the working directory, as the user would type it."""
    relative = os.path.relpath(path)
    # The shells of Windows take slashes, too, and the word needs no quotes then.
    return Path(path if relative.startswith("..") else relative).as_posix()


def _find_next_step(folder: str, run: LoadedRun) -> tuple[str, str]:
    """Return what to do next and its command:
    open the report, search or decide with limits that can be met, or export.
    """
    decision = run.decision
    pick = decision.pick
    typed = shlex.quote(folder)
    if run.too_early:
        # An interruption took nothing from the time limit of the search that is continued.
        is_late = (run.manifest.get("stopped") or {}).get("why") == "time_limit"
        resume = f"advisor search --resume {typed}"
        return "more of the search", continue_command(folder) if is_late else resume
    if pick is not None and decision.feasible and not run.own_question:
        key = pick.configuration.key
        return "the bundle to ship", f"advisor export {typed} --pick {key} --to bundle"
    for relaxation in decision.relaxations:
        command = make_looser_command(typed, run, relaxation)
        if command:
            return "limits that a file meets", command
    # The report of the run is of its own question.
    if not run.own_question and not decision.feasible:
        return "", ""
    if pick is None and any(evaluation.status is Status.FAILED for evaluation in run.evaluations):
        # A search that is continued tries again what failed.
        return "another try of what failed", f"advisor search --resume {typed}"
    if run.question.data is None and decision.feasible:
        # Published weights alone cannot learn images:
        # that part of the request does not hold with images.
        asked = run.request.written["training"]
        trained = " --training head" if isinstance(asked, list | tuple) and "none" in asked else ""
        return (
            "your own images",
            f"advisor search --request {typed}/request.yaml --data YOUR_IMAGES{trained}",
        )
    opener = {"darwin": "open", "win32": "start"}.get(sys.platform, "xdg-open")
    return "the report", f"{opener} {typed}/report.html"


def summary_of(run: LoadedRun) -> DatasetSummary | None:
    """Return the images of ``dataset.json`` and ``split.json`` in numbers;
    None if there are none, or it is damaged.
    """
    document = run.dataset
    split = run.folder.read_json("split.json")
    try:
        names = document["pictures_per_class"]
        rejected = []
        for row in document["rejected"]:
            rejected.append({"path": row["path"], "reason": row["reason"]})
        return DatasetSummary(
            folder=document["folder"],
            images_per_class=document["pictures_per_class"],
            train=document["train"],
            validation=document["validation"],
            holdout=document["holdout"],
            rejected=tuple(rejected),
            own_split=tuple(document["own_split"]),
            leaks=len(document["leaks"]),
            copies=dict(document.get("copies") or {}),
            validated_per_class=_count_part(split, SplitPart.VALIDATION, names),
            held_out_per_class=_count_part(split, SplitPart.HOLDOUT, names),
            groups_per_class=_count_groups(split),
            notes=tuple(map(str, document.get("notes") or ())),
            boxes_per_class=dict(document.get("boxes_per_class") or {}),
        )
    except (KeyError, TypeError):
        return None


def _count_part(split: Mapping[str, Any], part: str, classes: Iterable[str]) -> dict[str, int]:
    """Return the images of each class in a part of the split;
    nothing where the split is missing or damaged.
    """
    try:
        counts = Counter(str(row["class"]) for row in split[part])
    except (KeyError, TypeError):
        return {}
    return {name: counts[name] for name in classes}


def _count_groups(split: Mapping[str, Any]) -> Mapping[str, int]:
    """Return the groups of each class; nothing where the split is missing or damaged."""
    try:
        rows = set()
        for part in SplitPart:
            for row in split[part]:
                rows.add((str(row["class"]), row["group"]))
    except (KeyError, TypeError):
        return {}
    # Sorted, as the first of equals is named.
    return Counter(sorted(name for name, _ in rows))
