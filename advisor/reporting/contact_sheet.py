"""The contact sheet of a data check: every finding with its images, in one file that loads nothing."""

from __future__ import annotations

import base64
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

from advisor.core.errors import StageError
from advisor.datasets.checks.findings import Finding
from advisor.datasets.decode import READ_ERRORS, open_image, quiet
from advisor.engine.data_check import DataCheck
from advisor.reporting.templating import render_page

GROUPS, MEMBERS = 60, 6
"""Groups shown of each finding, and images shown of each group; the rest is counted."""

SIDE = 132
"""Longer side of a thumbnail, in pixels."""

QUALITY = 72


def render(checked: DataCheck) -> str:
    """Return the whole page; names and labels are escaped."""
    dataset = checked.survey.dataset
    return render_page(
        "sheet",
        styles=["report.css", "sheet.css"],
        scripts=[],
        checked=checked,
        dataset=dataset,
        counts=list(zip(dataset.classes, dataset.counts, strict=True)),
        sections=sections(checked),
    )


def sections(checked: DataCheck) -> list[dict[str, Any]]:
    """Return the findings with their images, as the template shows them; each image is read once."""
    dataset = checked.survey.dataset
    labels = {photo.path: dataset.classes[photo.label] for photo in dataset.images}
    image, excluded = cache(data_uri), checked.left_out

    def show(path: Path) -> dict[str, object]:
        pixels = image(path) if path in labels else ""
        return {"name": dataset.shown(path), "label": labels.get(path, ""), "out": path in excluded, "image": pixels}

    def section(finding: Finding) -> dict[str, Any]:
        notes = (*finding.notes, *[""] * len(finding.groups))
        groups = [
            {"images": list(map(show, paths[:MEMBERS])), "more": max(0, len(paths) - MEMBERS), "note": note}
            for paths, note in zip(finding.groups[:GROUPS], notes, strict=False)
        ]
        return {"finding": finding, "groups": groups, "more": max(0, len(finding.groups) - GROUPS)}

    return list(map(section, checked.findings))


def data_uri(path: Path) -> str:
    """Return an image as a JPEG inside a ``data:`` address, its longer side ``SIDE`` pixels; empty if it is unreadable.

    The file is decoded and encoded again, so only its pixels reach the page.
    """
    from PIL import Image, ImageOps

    try:
        with quiet(), open_image(path) as image:
            image.draft("RGB", (2 * SIDE, 2 * SIDE))
            small = ImageOps.exif_transpose(image.convert("RGBA" if image.mode in {"P", "LA", "PA"} else "RGB"))
            small.thumbnail((SIDE, SIDE), Image.Resampling.BILINEAR)
            stored = BytesIO()
            small.convert("RGB").save(stored, "JPEG", quality=QUALITY)
    except (*READ_ERRORS, StageError):
        return ""
    return f"data:image/jpeg;base64,{base64.b64encode(stored.getvalue()).decode()}"
