"""Check the images of a task for a person: their files, their labels, and how they are split.

``advisor data check`` calls ``check_data``. The task reads its images and finds their faults, and
returns ``DataCheck.of_survey`` with what it found. Wrong labels and crops are found by
``_label_faults.py``. The keys of ``to_json`` are those of ``advisor data check --json``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from advisor.core import (
    DEFAULT_TASK,
    TASKS,
    CheckDataKeywords,
    UsageError,
    require_known,
    units,
    without_password,
)
from advisor.datasets import (
    Box,
    Finding,
    Kind,
    MeasureDistribution,
    ObjectSizes,
    Overview,
    Survey,
    require_writable,
)
from advisor.engine._label_faults import CHECK_SEED, LabelChecker
from advisor.engine._space.question_images import Say
from advisor.engine._task import find_task
from advisor.store import copy_from_store, in_store

SCHEMA_VERSION = 1

NOT_JUDGED = "they are looked for in image classification only"
"""Reason why wrong labels and crops are not looked for in the other tasks."""


@dataclass(frozen=True)
class Drawing:
    """The boxes of an image, or a colour for each pixel, and its width and height upright."""

    size: tuple[int, int]
    boxes: tuple[Box, ...]
    layer: str = ""  # PNG in base64 to lay over the image


class Content(Protocol):
    """Classes of the images, or boxes in them, as the user's files state them."""

    @property
    def counts(self) -> Mapping[str, int]:
        """Images or boxes of each class."""

    @property
    def summary(self) -> str:
        """The size of the set in a few words."""

    @property
    def sizes(self) -> Sequence[ObjectSizes]:
        """Sizes of the objects at usual inputs; empty without boxes."""

    @property
    def next_command(self) -> str:
        """The command to run on a manifest without the suspects; empty if there is none yet."""

    def label(self, path: Path) -> str:
        """Return what an image shows; empty for an image that was left out."""

    def drawing(self, path: Path) -> Drawing | None:
        """Return the boxes of an image; None if the images have no boxes,
        or the image was left out.
        """

    def to_json(self) -> Mapping[str, Any]:
        """Return the entries of this content in the JSON object of a check."""

    def write(self, path: Path, findings: Sequence[Finding]) -> int:
        """Write a manifest without what the findings leave out; return its number of images."""


@dataclass(frozen=True, eq=False)
class DataCheck:
    """The result of a check.

    ``findings`` are the gravest first. ``judged_by`` is the card whose features checked labels and
    crops, else ``not_judged`` says why none did. ``split`` is that of a search with default
    options, else ``not_split`` says why it would refuse the images.
    """

    data: Path
    survey: Survey
    content: Content
    findings: tuple[Finding, ...]
    conditions: tuple[MeasureDistribution, ...]
    judged_by: str
    not_judged: str = ""
    split: Overview | None = None
    not_split: str = ""

    @property
    def left_out(self) -> frozenset[Path]:
        """The images to leave out of a set without these faults."""
        paths = set[Path]()
        for finding in self.findings:
            paths.update(finding.leave_out)
        return frozenset(paths)

    @classmethod
    def of_survey(
        cls,
        path: Path,
        survey: Survey,
        content: Content,
        findings: Sequence[Finding],
        overview: Callable[[int], Overview],
        judged_by: str = "",
        not_judged: str = NOT_JUDGED,
        framing: bool = False,
    ) -> DataCheck:
        """Return the result of a check.

        ``overview`` returns the split of a search with default options by its seed, or refuses it.
        ``framing``: also show whether the subject is in the middle.
        """
        split = None
        refusal = ""
        try:
            split = overview(CHECK_SEED)
        except UsageError as error:
            refusal = error.message
        return cls(
            data=path,
            survey=survey,
            content=content,
            findings=sort_findings(findings),
            conditions=MeasureDistribution.measure_conditions(survey, framing),
            judged_by=judged_by,
            not_judged=not_judged,
            split=split,
            not_split=refusal,
        )

    def write_manifest(self, path: Path) -> int:
        """Write a new CSV manifest without the suspects, with labels in one spelling;
        return its number of images.
        """
        return self.content.write(require_writable(path), self.findings)

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object; paths are relative to the root of the data set."""
        return {
            "schema_version": SCHEMA_VERSION,
            "data": without_password(str(self.data)),
            "fingerprint": self.survey.dataset.fingerprint,
            **self.content.to_json(),
            "judged_by": self.judged_by,
            "not_judged": self.not_judged,
            "split": self.split.to_json() if self.split else None,
            "not_split": self.not_split,
            "findings": list(map(self._write_finding, self.findings)),
            "conditions": [condition.to_json() for condition in self.conditions],
        }

    def _write_finding(self, finding: Finding) -> dict[str, Any]:
        """Return a finding as a JSON object."""
        show_path = self.survey.dataset.show_path
        document: dict[str, Any] = {
            "kind": finding.kind.value,
            "message": finding.message,
            "advice": finding.advice,
            "groups": [list(map(show_path, group)) for group in finding.groups],
            "notes": list(finding.notes),
            "leave_out": list(map(show_path, finding.leave_out)),
        }
        # Findings without boxes have no entries for them.
        if finding.marked:
            marked = []
            for boxes in finding.marked:
                marked.append([{"label": box.label, "box": list(box.edges)} for box in boxes])
            document["boxes"] = marked
            document["leave_out_boxes"] = finding.leave_out_marked
        return document


def sort_findings(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return findings in the order of their kinds, the gravest first;
    those of a task's own come after unreadable files.
    """
    # A task may find kinds that the list of kinds does not have.
    # 0.5 puts them between the first and the second.
    places: dict[StrEnum, float] = {kind: place for place, kind in enumerate(Kind)}
    return tuple(sorted(findings, key=lambda finding: places.get(finding.kind, 0.5)))


def check_data(data: Path, options: CheckDataKeywords, say: Say) -> DataCheck:
    """Check a data set as :func:`advisor.check_data` does, which says what it raises,
    and write its manifest.
    """
    if in_store(data) and options["fix"]:
        why = "--fix: a manifest would name copies in the cache, which removes them in time"
        raise UsageError(why, "copy the objects into a folder, and check that")
    # Before minutes of reading: a manifest that cannot be written is an error at once.
    manifest = require_writable(Path(options["fix"])) if options["fix"] else None
    size = options["cache_size"]
    most_bytes = None if size is None else units.size_bytes(size, "--cache-size")
    checker = None
    if options["labels"]:
        catalog = tuple(map(Path, options["catalog"]))
        checker = LabelChecker(
            options["card"], catalog, options["offline"], options["mirror"], cache_size=most_bytes
        )
    # After all options were checked, as the copy may take long.
    local = copy_from_store(data, say, options["offline"], most_bytes)
    # The answer names what the user gave, and not its copy in the cache.
    checked = replace(check_images(local, checker, say, options["task"]), data=data)
    if manifest:
        checked.write_manifest(manifest)
    return checked


def check_images(
    path: Path,
    checker: LabelChecker | None,
    say: Say = lambda _text: None,
    task: str = DEFAULT_TASK,
) -> DataCheck:
    """Check a data set in any layout of its task;
    without ``checker``, neither for wrong labels nor for crops.
    """
    name = require_known("--task", task, tuple(TASKS))
    return find_task(name).check(path, checker, say)
