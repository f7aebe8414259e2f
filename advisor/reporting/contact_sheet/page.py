"""The contact sheet: every finding with its images, in one file that loads nothing."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from advisor.datasets.checks.findings import Finding
from advisor.engine.data_check import DataCheck
from advisor.reporting.contact_sheet.thumbnails import data_uri
from advisor.reporting.templating import asset, content_policy, page_environment, trusted

GROUPS, MEMBERS = 60, 6
"""Groups shown of each finding, and images shown of each group; the rest is counted."""


@dataclass(frozen=True)
class Shown:
    """One image on the page: its name, its class, whether a fixed manifest excludes it, and its pixels."""

    name: str
    label: str
    out: bool
    image: str


@dataclass(frozen=True)
class Group:
    """Images that belong together on the page.

    Attributes:
        images: images that are shown.
        more: number of images that are not shown.
        note: remark about the group.
    """

    images: tuple[Shown, ...]
    more: int
    note: str


@dataclass(frozen=True)
class Section:
    """One finding with its images."""

    finding: Finding
    groups: tuple[Group, ...]
    more: int


def render(checked: DataCheck) -> str:
    """Return the whole page; names and labels are escaped."""
    return (
        page_environment("advisor.reporting.contact_sheet")
        .get_template("sheet.html.j2")
        .render(
            checked=checked,
            dataset=checked.survey.dataset,
            counts=tuple(zip(checked.survey.dataset.classes, checked.survey.dataset.counts, strict=True)),
            sections=sections(checked),
            style=trusted(
                asset("advisor.reporting", "report.css") + asset("advisor.reporting.contact_sheet", "sheet.css")
            ),
            policy=content_policy(()),
        )
    )


def sections(checked: DataCheck) -> tuple[Section, ...]:
    """Return the findings with their images; each image is read once."""
    labels = {photo.path: checked.survey.dataset.classes[photo.label] for photo in checked.survey.dataset.images}
    image = cache(data_uri)
    out = checked.left_out

    def show(path: Path) -> Shown:
        known = path in labels
        return Shown(
            checked.survey.dataset.shown(path), labels.get(path, ""), path in out, image(path) if known else ""
        )

    def group(paths: tuple[Path, ...], note: str) -> Group:
        return Group(tuple(map(show, paths[:MEMBERS])), max(0, len(paths) - MEMBERS), note)

    def section(finding: Finding) -> Section:
        notes = (*finding.notes, *[""] * len(finding.groups))
        groups = tuple(group(paths, note) for paths, note in zip(finding.groups[:GROUPS], notes, strict=False))
        return Section(finding, groups, max(0, len(finding.groups) - GROUPS))

    return tuple(map(section, checked.findings))
