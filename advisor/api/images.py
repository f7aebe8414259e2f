"""Your own images: find faults before a model learns from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from advisor.engine.data_check import DataCheck


def check_data(
    data: str | Path,
    *,
    labels: bool = True,
    card: str = "",
    catalog: Sequence[str | Path] = (),
    offline: bool = False,
    mirror: str = "",
    fix: str | Path | None = None,
    tell: Callable[[str], None] | None = None,
) -> DataCheck:
    """Find faults in a set of images: unreadable, repeated, wrongly labelled. No image is changed.

    ::

        import advisor
        checked = advisor.check_data("photos", fix="cleaned.csv")
        print([finding.message for finding in checked.findings])

    Args:
        data: a folder, or a CSV or Parquet manifest.
        labels: look for wrong labels and for crops, with the features of a network.
        card: model card of this network. Default: the best one whose weights are on this machine.
        catalog: your own catalogue files.
        offline: open no connection.
        mirror: folder or address of weights that is asked first.
        fix: manifest (CSV) to write without the suspects.
        tell: called with a line about each step.

    Raises:
        UsageError: ``data`` is missing or cannot be read as a data set, the card is unknown, or ``fix`` exists or
            cannot be written.
    """
    from advisor.datasets.checks.fix import writable
    from advisor.engine import data_check

    manifest = writable(Path(fix)) if fix else None
    checker = data_check.LabelChecker(card, tuple(Path(path) for path in catalog), offline, mirror) if labels else None
    checked = data_check.check_data(Path(data), checker, tell or (lambda _text: None))
    if manifest:
        checked.write_manifest(manifest)
    return checked
