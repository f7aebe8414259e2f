"""Define the result of a data check, for any task."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from advisor.datasets.boxes.values import Box
from advisor.datasets.checks.boxes import ObjectSizes
from advisor.datasets.checks.findings import Finding, Kind, writable
from advisor.datasets.checks.image_quality import MeasureDistribution
from advisor.datasets.division import Overview
from advisor.datasets.survey import Progress, Survey

SCHEMA_VERSION = 1

Say = Callable[[str], None]


@dataclass(frozen=True)
class Drawing:
    """The boxes of an image, and its width and height upright."""

    size: tuple[int, int]
    boxes: tuple[Box, ...]


class Content(Protocol):
    """Classes of the images, or boxes in them, as the user's files state them."""

    @property
    def counts(self) -> Mapping[str, int]:
        """Images or boxes of each class."""
        ...

    @property
    def summary(self) -> str:
        """The size of the set in a few words."""
        ...

    @property
    def sizes(self) -> Sequence[ObjectSizes]:
        """Sizes of the objects at usual inputs; empty without boxes."""
        ...

    @property
    def next_command(self) -> str:
        """The command to run on a manifest without the suspects; empty if there is none yet."""
        ...

    def label(self, path: Path) -> str:
        """Return what an image shows; empty for an image that was left out."""
        ...

    def drawing(self, path: Path) -> Drawing | None:
        """Return the boxes of an image; None if the images have no boxes, or the image was left out."""
        ...

    def to_json(self) -> Mapping[str, Any]:
        """Return the entries of this content in the JSON object of a check."""
        ...

    def write(self, path: Path, findings: Sequence[Finding]) -> int:
        """Write a manifest without what the findings leave out; return its number of images."""
        ...


@dataclass(frozen=True, eq=False)
class DataCheck:
    """The result of a check.

    Attributes:
        data: the folder or manifest, as the user named it.
        survey: the data set and the properties of its images.
        content: the classes of the images, or their boxes.
        findings: possible faults, the gravest first.
        conditions: how the images were taken, one value for each measure.
        judged_by: name of the card whose features checked labels and crops; empty if none did.
        not_judged: why labels and crops were not checked; empty if they were.
        split: how a search with default options would split the images, None if it would refuse them.
        not_split: why it would refuse them; empty if it would not.
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
        return frozenset(path for finding in self.findings for path in finding.leave_out)

    def write_manifest(self, path: Path) -> int:
        """Write a manifest without the suspects and with labels in one spelling; return its number of images.

        Raises:
            UsageError: the file exists, is not named as a CSV file, or cannot be written.
        """
        return self.content.write(writable(path), self.findings)

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object; paths are relative to the root of the data set."""
        return {
            "schema_version": SCHEMA_VERSION,
            "data": str(self.data),
            "fingerprint": self.survey.dataset.fingerprint,
            **self.content.to_json(),
            "judged_by": self.judged_by,
            "not_judged": self.not_judged,
            "split": self.split.to_json() if self.split else None,
            "not_split": self.not_split,
            "findings": [self._finding(finding) for finding in self.findings],
            "conditions": [rounded(one) for one in self.conditions],
        }

    def _finding(self, finding: Finding) -> dict[str, Any]:
        shown = self.survey.dataset.shown
        found = {
            "kind": finding.kind.value,
            "message": finding.message,
            "advice": finding.advice,
            "groups": [[shown(path) for path in group] for group in finding.groups],
            "notes": list(finding.notes),
            "leave_out": [shown(path) for path in finding.leave_out],
        }
        marked = [[{"label": box.label, "box": list(box.edges)} for box in boxes] for boxes in finding.marked]
        return {**found, "boxes": marked, "leave_out_boxes": finding.leave_out_marked} if marked else found


def gravest_first(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return findings in the order of their kinds."""
    return tuple(sorted(findings, key=lambda finding: list(Kind).index(finding.kind)))


def advance(say: Say) -> Progress:
    """Return a function that says how many images were read."""

    def count(done: int, total: int) -> None:
        if done % 100 == 0 or done == total:
            say(f"reading images: {done:,} of {total:,}")

    return count


def rounded(value: object) -> dict[str, Any]:
    """Return a dataclass as a JSON object with four decimals."""
    fields = asdict(value)  # type: ignore[call-overload]
    return {name: round(each, 4) if isinstance(each, float) else each for name, each in fields.items()}
