"""The whole check of a data set, from its files to the findings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from advisor.core.errors import StageError, UsageError, WeightsError
from advisor.datasets.checks.check import check, require_usable
from advisor.datasets.checks.findings import Finding, Kind, counted
from advisor.datasets.checks.fix import writable, write_manifest
from advisor.datasets.checks.image_quality import Condition, conditions
from advisor.datasets.division import Overview, divide
from advisor.datasets.duplicates import Pair, near_duplicates
from advisor.datasets.survey import Survey, survey
from advisor.engine.data_check import jobs
from advisor.engine.data_check.label_checker import LabelCheck, LabelChecker
from advisor.training.labels import Suspect

SCHEMA_VERSION = 1

Say = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class DataCheck:
    """The result of a check.

    Attributes:
        data: the folder or manifest, as the user named it.
        survey: the data set and the properties of its images.
        findings: possible faults, the gravest first.
        conditions: how the images were taken, one value for each measure.
        judged_by: name of the card whose features checked labels and crops; empty if none did.
        not_judged: why labels and crops were not checked; empty if they were.
        split: how a search with default options would split the images, None if it would refuse them.
        not_split: why it would refuse them; empty if it would not.
    """

    data: Path
    survey: Survey
    findings: tuple[Finding, ...]
    conditions: tuple[Condition, ...]
    judged_by: str
    not_judged: str = ""
    split: Overview | None = None
    not_split: str = ""

    @property
    def left_out(self) -> frozenset[Path]:
        """The images to leave out of a set without these faults."""
        return frozenset(path for finding in self.findings for path in finding.leave_out)

    def write_manifest(self, path: Path) -> int:
        """Write a manifest without the faulty images and with labels in one spelling; return its number of images.

        Raises:
            UsageError: the file exists, is not named as a CSV file, or cannot be written.
        """
        return write_manifest(writable(path), self.survey.dataset, self.left_out)

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object; paths are relative to the root of the data set."""
        dataset = self.survey.dataset
        return {
            "schema_version": SCHEMA_VERSION,
            "data": str(self.data),
            "fingerprint": dataset.fingerprint,
            "pictures_per_class": dict(zip(dataset.classes, dataset.counts, strict=True)),
            "judged_by": self.judged_by,
            "not_judged": self.not_judged,
            "split": self.split.to_json() if self.split else None,
            "not_split": self.not_split,
            "findings": [self._finding(finding) for finding in self.findings],
            "conditions": [
                {name: round(value, 4) if isinstance(value, float) else value for name, value in asdict(one).items()}
                for one in self.conditions
            ],
        }

    def _finding(self, finding: Finding) -> dict[str, Any]:
        shown = self.survey.dataset.shown
        return {
            "kind": finding.kind.value,
            "message": finding.message,
            "advice": finding.advice,
            "groups": [[shown(path) for path in group] for group in finding.groups],
            "notes": list(finding.notes),
            "leave_out": [shown(path) for path in finding.leave_out],
        }


def check_data(path: Path, checker: LabelChecker | None, say: Say = lambda _text: None) -> DataCheck:
    """Check a data set in any layout; it is not changed.

    Args:
        path: a folder or a manifest.
        checker: finds wrong labels and crops by a network's features; None to look for neither.
        say: called with a line about each step.

    Raises:
        UsageError: the path does not exist or cannot be read as a data set, or the card is unknown.
    """
    say(f"reading images of {path}")

    def advance(done: int, total: int) -> None:
        if done % 100 == 0 or done == total:
            say(f"reading images: {done:,} of {total:,}")

    read = survey(path, advance)
    say("comparing images")
    pairs = near_duplicates(read.thumbnails)
    labels, why_not = _label_check(checker, read, pairs, say)
    by_images = {(pair.first, pair.second): pair for pair in (*labels.copies, *pairs)}
    alike = [pair for _, pair in sorted(by_images.items())]
    findings = (*check(read, alike), *_wrong_labels(read, labels.suspects))
    gravest_first = tuple(sorted(findings, key=lambda finding: list(Kind).index(finding.kind)))
    overview, refused = _split(read, pairs)
    return DataCheck(path, read, gravest_first, conditions(read), labels.card, why_not, overview, refused)


def _split(read: Survey, pairs: tuple[Pair, ...]) -> tuple[Overview | None, str]:
    """Return how a search would split the images, or why it would refuse them."""
    try:
        require_usable(read.dataset)
        division = divide(read, jobs.SEED, pairs)
    except UsageError as error:
        return None, error.message
    return Overview.of(read.dataset, division.split, division.grouping, division.notes(read.dataset)), ""


def _label_check(checker: LabelChecker | None, read: Survey, pairs: Sequence[Pair], say: Say) -> tuple[LabelCheck, str]:
    """Check the labels, or return why that failed: the other findings are useful without it."""
    if checker is None:
        return LabelCheck(), "not asked for"
    try:
        return checker.check(read.dataset, pairs, say), ""
    except (WeightsError, StageError) as error:
        return LabelCheck(), error.message


def _wrong_labels(read: Survey, suspects: Sequence[Suspect]) -> tuple[Finding, ...]:
    if not suspects:
        return ()
    dataset = read.dataset
    share = 100 * len(suspects) / len(dataset.images)
    paths = tuple(dataset.images[one.index].path for one in suspects)
    notes = tuple(
        f"{dataset.classes[dataset.images[one.index].label]} ({one.given:.0%}), rather "
        f"{dataset.classes[one.suggested]} ({one.better:.0%})"
        for one in suspects
    )
    verb = "has" if len(suspects) == 1 else "have"
    message = f"{counted(len(suspects), 'image')} ({share:.1f} %) likely {verb} the wrong label"
    advice = "look at them, the most likely first; keep those whose labels are right: they are hard, and worth having"
    return (Finding(Kind.WRONG_LABEL, message, advice, tuple((path,) for path in paths), notes, paths),)
