"""The whole check of a data set, from its files to the findings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from advisor.core.errors import StageError, WeightsError
from advisor.datasets.checks.check import check
from advisor.datasets.checks.findings import Finding, Kind, counted
from advisor.datasets.checks.fix import writable, write_manifest
from advisor.datasets.checks.image_quality import Condition, conditions
from advisor.datasets.duplicates import Pair, near_duplicates
from advisor.datasets.survey import Survey, survey
from advisor.engine.data_check.judge import Judge, Judgement
from advisor.training.labels.wrong_labels import Suspect

SCHEMA_VERSION = 1

Say = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class Checked:
    """What a check found.

    Attributes:
        survey: the data set and how its pictures look.
        findings: what to look at.
        conditions: how the set was taken, measure by measure.
        judged_by: name of the card whose features judged labels and crops; empty where none did.
        not_judged: why labels and crops were not looked at; empty where they were.
    """

    survey: Survey
    findings: tuple[Finding, ...]
    conditions: tuple[Condition, ...]
    judged_by: str
    not_judged: str = ""

    @property
    def left_out(self) -> frozenset[Path]:
        """The pictures that a set without these faults would not have."""
        return frozenset(path for finding in self.findings for path in finding.leave_out)

    def write_manifest(self, path: Path) -> int:
        """Write a manifest that leaves the suspects out, labels in one spelling; return how many pictures it names.

        Raises:
            UsageError: it exists, is not named as a CSV file, or cannot be written.
        """
        return write_manifest(writable(path), self.survey.dataset, self.left_out)

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object; paths as people read them, below the root."""
        dataset = self.survey.dataset
        return {
            "schema_version": SCHEMA_VERSION,
            "data": str(dataset.root),
            "fingerprint": dataset.fingerprint,
            "pictures_per_class": dict(zip(dataset.classes, dataset.counts, strict=True)),
            "judged_by": self.judged_by,
            "not_judged": self.not_judged,
            "findings": [self._finding(finding) for finding in self.findings],
            "conditions": [
                {
                    "name": one.name,
                    "low": round(one.low, 4),
                    "median": round(one.median, 4),
                    "high": round(one.high, 4),
                    "outside": round(one.outside, 4),
                    "words": one.words,
                }
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


def check_data(path: Path, judge: Judge | None, say: Say = lambda _text: None) -> Checked:
    """Check a data set in any layout; nothing of it is changed.

    Args:
        path: a folder or a manifest.
        judge: looks for wrong labels and crops with a network's features; None leaves both out.
        say: told what is being done.

    Raises:
        UsageError: nothing there, or nothing that can be read as a data set; an unknown card.
    """
    say(f"reading pictures of {path}")
    read = survey(path, _steps(say))
    say("comparing pictures")
    pairs = near_duplicates(read.thumbnails)
    judgement, why = _judged(judge, read, pairs, say)
    alike = sorted({**{(pair.first, pair.second): pair for pair in (*judgement.copies, *pairs)}}.values(), key=_place)
    findings = (*check(read, alike), *_wrong_labels(read, judgement.suspects))
    gravest_first = tuple(sorted(findings, key=lambda finding: list(Kind).index(finding.kind)))
    return Checked(read, gravest_first, conditions(read), judgement.card, why)


def _judged(judge: Judge | None, read: Survey, pairs: Sequence[Pair], say: Say) -> tuple[Judgement, str]:
    """Judge, or say why that could not be done: the rest of the check is worth having without it."""
    if judge is None:
        return Judgement("", (), ()), "not asked for"
    try:
        return judge.judge(read.dataset, pairs, say), ""
    except (WeightsError, StageError) as error:
        return Judgement("", (), ()), error.message


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
    message = f"{counted(len(suspects), 'picture')} ({share:.1f} %) likely {'has' if len(suspects) == 1 else 'have'} "
    return (
        Finding(
            Kind.WRONG_LABEL,
            f"{message}the wrong label",
            "look at them, the surest first; some will be right and hard, which are worth keeping",
            tuple((path,) for path in paths),
            notes,
            paths,
        ),
    )


def _steps(say: Say) -> Callable[[int, int], None]:
    def advance(done: int, total: int) -> None:
        if done % 100 == 0 or done == total:
            say(f"reading pictures: {done:,} of {total:,}")

    return advance


def _place(pair: Pair) -> tuple[int, int]:
    return pair.first, pair.second
